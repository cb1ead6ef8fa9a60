"""One decision: `step` asks, in order of precedence, everybody who may set the level, and the first answer counts.

Suspension, then what runs against what should, then a failed change, then overrides, alerts and schedules, then a
probe that is under way, then the rules, then a new probe.  Every answer is a decision in words with the memory that
goes with it; nobody answering means hold, and that has its words too.
"""

from dataclasses import dataclass, replace

from specloop_policy import memory
from specloop_policy.batch_edges import edge_failures
from specloop_policy.decision import ActionName, Decision, Inputs, PolicyState
from specloop_policy.evidence import clock, gather, without
from specloop_policy.faults import find_faults
from specloop_policy.guardrails import (
    DAY_SECONDS,
    blocked,
    cools_down,
    find_trial,
    gap_left,
    left_in_vain,
    lost_before,
    not_again,
    probe_gap,
    probe_left,
    quarantine_of,
)
from specloop_policy.ladder import Level
from specloop_policy.model import ActionType
from specloop_policy.observation import Observation, Outcome, Window
from specloop_policy.policy import Policy
from specloop_policy.probes import ProbeVerdict, Verdict, due, judge_probe
from specloop_policy.rules import (
    Held,
    Move,
    Situation,
    Undecided,
    barred,
    choose_lowering,
    choose_raising,
    judge_rules,
    leads_somewhere,
)
from specloop_policy.wishes import Wish, asks_in_vain, suspends, wish_in_force
from specloop_policy.words import found, note, shown, waiting, with_faults

Answer = tuple[Decision, PolicyState]

PROBE_RULE = "probe"
"""Stands for the guardrail of that name where a decision names its rule."""

ACTION_NAMES = {
    ActionType.STEP_DOWN: ActionName.STEP_DOWN,
    ActionType.STEP_UP: ActionName.STEP_UP,
    ActionType.SWITCH_TO: ActionName.SWITCH_TO,
    ActionType.DISABLE: ActionName.DISABLE,
}


def step(policy: Policy, state: PolicyState, observation: Observation, inputs: Inputs, now: float) -> Answer:
    """Decide what to do about one target; total and deterministic.

    `now` is in seconds since the epoch.  A policy that does not enforce decides all the same, but remembers no
    change, since nothing is carried out.
    """
    if state.owed is not None and policy.ladder.find(state.owed) is None:
        state = replace(state, owed=None)  # an edit removed it
    seen = _seen(memory.released_from_quarantine(state, now), observation, now)
    edges = edge_failures(policy.ladder, observation.windows, inputs)
    if not edges:
        return _Tick(policy, seen, observation, inputs, now).answer()
    shut = replace(seen, quarantine=(*seen.quarantine, *edges))
    decision, after = _Tick(policy, shut, observation, inputs, now).answer()
    # What the batch is now is seen anew at the next step.
    kept = tuple(one for one in after.quarantine if one not in edges)
    return decision, seen if after is shut else replace(after, quarantine=kept)


def fresh(level: str | None, at: float) -> PolicyState:
    """The memory of a policy whose target has been at `level` since before `at`."""
    return PolicyState(level=level, changed_at=at)


def level_before(state: PolicyState, observation: Observation, decision: Decision) -> str | None:
    """The level that a decision leaves: what runs at first, and the probed one where a probe ends as it began."""
    if state.probe is not None and decision.level == state.level:
        return state.probe.level
    return observation.workload.level if state.level is None else state.level


def if_it_lasts(policy: Policy, state: PolicyState, observation: Observation, inputs: Inputs, now: float) -> Decision:
    """What the same evidence leads to once every duration and count that the policy asks for has been met."""
    oldest = min((one.start for one in observation.windows), default=now)
    long_ago = oldest - 100.0 * max(DAY_SECONDS, policy.guardrails.probe.max_seconds)
    counted = sum(one.finished_requests for one in observation.windows if one.outcome is Outcome.MEASURED)
    enough = min(policy.signals.min_requests, int(counted)) or policy.signals.min_requests
    policy = replace(policy, signals=policy.signals.model_copy(update={"min_requests": enough}))
    seen = _seen(state, observation, now)
    ripe = replace(
        seen,
        changed_at=long_ago,
        changes=(),
        holds_since=tuple((rule.name, long_ago) for rule in policy.rules),
        trials=tuple(replace(trial, lost_at=long_ago) for trial in state.trials),
    )
    return _Tick(policy, ripe, observation, inputs, now).answer()[0]


def _seen(state: PolicyState, observation: Observation, now: float) -> PolicyState:
    """The memory after a look at what runs: adopted at first, and where somebody else changed it."""
    running = observation.workload.level
    probed = state.probe.level if state.probe is not None else None
    if running is None or running == state.level:
        return state
    if running == probed and observation.workload.replicas == 1:
        return state
    return memory.adopted(state, running, now)


@dataclass(frozen=True, slots=True)
class _Tick:
    """The arguments of one step, so that those who answer need not pass them on."""

    policy: Policy
    state: PolicyState
    observation: Observation
    inputs: Inputs
    now: float

    def answer(self) -> Answer:
        """The first answer in order of precedence."""
        answer = self._suspended() or self._unmanaged() or self._failed() or self._forced() or self._released()
        answer = answer or self._owed()
        if answer is not None:
            return self._remembered(answer, self.state)
        level = self.policy.ladder.find(self.state.level)
        assert level is not None  # _unmanaged answers otherwise
        if self.state.probe is not None:
            probed = self._probed(level, self.state.probe.level, self.state.probe.started_at)
            return self._remembered(probed, self.state)
        decision, state = self._ruled(level)
        owed = self.policy.ladder.find(self.state.owed)
        if owed is not None and not decision.changes_level:
            wait = self._waits(owed, gap_left(self.policy, self.state, owed, self.now))
            decision = replace(decision, reason=f"{decision.reason}; {wait}")
        return decision, state

    def _remembered(self, answer: Answer, unchanged: PolicyState) -> Answer:
        """The answer with the memory that goes with it: that of before when a change is only recommended."""
        decision, _ = answer
        return (decision, unchanged) if decision.changes_level and not self.policy.enforce else answer

    def _hold(self, reason: str, rule: str | None = None) -> Decision:
        return Decision(ActionName.HOLD, self.state.level, reason, rule)

    def _going(self, to: str | None, reason: str, rule: str | None = None) -> Decision:
        """Go to a level over the heads of the rules."""
        disabled = self.policy.ladder.levels[-1].name
        return Decision(ActionName.DISABLE if to == disabled else ActionName.SWITCH_TO, to, reason, rule)

    def _suspended(self) -> Answer | None:
        if self.policy.suspended:
            return self._hold("the policy is suspended"), self.state
        alert = suspends(self.inputs.alerts)
        if alert is not None:
            return self._hold(f"suspended by alert {alert.name}", alert.name), self.state
        return None

    def _unmanaged(self) -> Answer | None:
        workload = self.observation.workload
        if workload.level is not None and self.policy.ladder.find(self.state.level) is not None:
            return None
        setting = workload.setting or workload.level or "an unknown setting"
        ladder = ", ".join(self.policy.ladder.names())
        return self._hold(f"what runs ({setting}) is no level of the ladder ({ladder}): left alone"), self.state

    def _failed(self) -> Answer | None:
        failed = self.inputs.failed
        if failed is None:
            return None
        known = {(one.level, one.key) for one in self.state.quarantine}
        if failed.back_to is None and (failed.level, failed.key) in known:
            return None  # it is left already, and why is remembered
        back = failed.back_to or self.observation.workload.level
        reason = (
            f"{failed.level} failed ({failed.reason}): back {'to' if failed.back_to else 'at'} {back}; "
            "it is not tried again until its configuration or image changes"
        )
        return self._going(back, reason), memory.rolled_back(self.policy, self.state, failed, back, self.now)

    def _forced(self) -> Answer | None:
        wish = wish_in_force(self.policy.ladder, self.state, self.inputs, self.now)
        if wish is None:
            return None
        failed = quarantine_of(self.state, self.inputs, wish.level)
        if failed is not None and not failed.rules_only and wish.level.name != self.state.level:
            reason = f"{wish.by} asks for {wish.level.name}, but {not_again(failed)}"
            return self._hold(reason, wish.name), self.state
        wait = asks_in_vain(self.policy, self.state, wish, self.now)
        if wait is not None:
            return self._hold(f"{wish.by} asks for {wish.level.name}, but {wait}", wish.name), self.state
        state = memory.forced(self.policy, self.state, wish, self.now)
        if wish.level.name != self.state.level or self.state.probe is not None:
            reason = f"{wish.by} asks for {wish.level.name} (was {self.state.level})"
            return self._going(wish.level.name, reason, wish.name), state
        return self._hold(f"{wish.by} asks for {wish.level.name}", wish.name), self._kept_forced(wish, state)

    def _kept_forced(self, wish: Wish, state: PolicyState) -> PolicyState:
        """The memory when the wish is for the present level: only who asks for it may be new."""
        if self.state.forced is not None and self.state.forced.by == wish.by:
            return self.state
        return replace(self.state, forced=state.forced)

    def _released(self) -> Answer | None:
        forced = self.state.forced
        if forced is None:
            return None
        back = self.policy.ladder.find(forced.back_to)
        if back is None or back.name == self.state.level:
            return self._hold(f"{forced.by} is over"), replace(self.state, forced=None)
        owed = self._owed()
        if owed is not None:
            return owed  # not to where it was first, only to leave that again
        wait = self._waits(back, left_in_vain(self.policy, self.state, back, self.now) if forced.alert else None)
        if wait is not None:
            return self._hold(f"{forced.by} is over, but {wait}"), memory.owing(self.state, back.name)
        reason = f"{forced.by} is over: back to {back.name}"
        return self._going(back.name, reason), memory.released(self.policy, self.state, back.name, self.now)

    def _owed(self) -> Answer | None:
        """Back to where it was, once nothing is in the way."""
        owed = self.policy.ladder.find(self.state.owed)
        if owed is None or self.state.probe is not None:
            return None
        if self._waits(owed, gap_left(self.policy, self.state, owed, self.now)) is not None:
            return None
        if owed.name == self.state.level:
            return self._hold(f"{owed.name} runs, where it was before"), replace(self.state, forced=None, owed=None)
        reason = f"nothing is in the way of {owed.name}, where it was before: back from {self.state.level}"
        return self._going(owed.name, reason), memory.released(self.policy, self.state, owed.name, self.now)

    def _waits(self, level: Level, gap: str | None) -> str | None:
        """Why a level that is to be gone back to is not yet; None when it may be."""
        failed = quarantine_of(self.state, self.inputs, level)
        return not_again(failed) if failed is not None and not failed.rules_only else gap

    def _situation(self, level: Level, since: float | None, windows: tuple[Window, ...]) -> Situation:
        """The evidence about a level and its faults; a pod that suffers from its age is no evidence about it."""
        evidence = gather(self.policy, windows, level.name, since, self.now)
        faults = find_faults(self.policy, evidence)
        aged = [pod for fault in faults if fault.name == "AgeDependent" for pod in fault.pods]
        if aged:
            rest = gather(self.policy, without(windows, aged), level.name, since, self.now)
            evidence = rest if rest.usable else evidence
        return Situation(self.policy, self.state, self.inputs, level, evidence, faults)

    def _ruled(self, level: Level) -> Answer:
        situation = self._situation(level, self.state.changed_at, self.observation.windows)
        evidence = situation.evidence
        misplaced = level.speculates and evidence.outcome is Outcome.OFF
        if not evidence.usable or misplaced:
            reason = (
                f"the engine does not speculate, though {level.name} is its level" if misplaced else evidence.reason
            )
            state = self.state if not self.observation.windows else replace(self.state, holds_since=())
            return self._hold(f"{evidence.outcome}: {reason}"), state
        held, undecided = judge_rules(situation)
        since = tuple([(one.rule.name, one.since) for one in held])
        state = self.state if since == self.state.holds_since else replace(self.state, holds_since=since)
        return self._remembered(self._moved(situation, state, held, undecided), state)

    def _moved(
        self, situation: Situation, state: PolicyState, held: tuple[Held, ...], undecided: tuple[Undecided, ...]
    ) -> Answer:
        """Lower, raise, probe or keep the level, in this order of caution."""
        limit = blocked(self.policy, state, situation.evidence.at)
        down = choose_lowering(situation, held)
        if down is not None and down.veto is None and limit is None:
            decision = self._moving(ACTION_NAMES[down.held.rule.action.type], situation, down)
            return decision, memory.lowered(self.policy, state, down.to, down.held.rule.for_seconds, self.now)
        up = None if down is not None else self._patient(state, situation, choose_raising(situation, held))
        if down is None and limit is None and not situation.faults:
            if up is not None and up.veto is None:
                return self._raised(state, situation, up)
            tried = due(situation, state)
            if tried is not None:
                return self._trying(state, *tried)
        return self._kept(situation, held, undecided, down or up, limit), state

    def _patient(self, state: PolicyState, situation: Situation, up: Move | None) -> Move | None:
        """The move up, held back while the gap after its last loss is not over."""
        trial = None if up is None else find_trial(state, up.to)
        if up is None or up.veto is not None or trial is None:
            return up
        if probe_left(self.policy, state, up.to, situation.evidence.at) <= 0.0:
            return up
        return replace(up, veto=lost_before(self.policy, trial))

    def _raised(self, state: PolicyState, situation: Situation, move: Move) -> Answer:
        """Raise the level; one that was entered before and lost is only probed."""
        if find_trial(state, move.to) is None:
            decision = self._moving(ActionName.STEP_UP, situation, move)
            return decision, memory.raised(self.policy, state, move.to, self.now)
        decision = self._moving(ActionName.PROBE, situation, move)
        return decision, memory.probing(self.policy, state, move.to, self.now)

    def _trying(self, state: PolicyState, level: Level, why: str) -> Answer:
        where = "on one replica" if self.observation.workload.replicas > 1 else "on the one replica there is"
        gap = probe_gap(self.policy, find_trial(state, level))
        decision = Decision(ActionName.PROBE, level.name, f"{why} {where}", PROBE_RULE, gap)
        return decision, memory.probing(self.policy, state, level, self.now)

    def _moving(self, action: ActionName, situation: Situation, move: Move) -> Decision:
        rule, to = move.held.rule, move.to
        advantage = situation.economics.advantage(to, situation.level, situation.evidence.recent)
        expected = "" if advantage is None else f", expected {round(100 * advantage):+d} % of speed"
        reason = f"{found(move.held)}: from {situation.level.name} to {to.name}{expected}{note(situation.evidence)}"
        return Decision(
            action,
            to.name,
            with_faults(situation.faults, reason),
            rule.name,
            rule.for_seconds,
            None if advantage is None else 100.0 * advantage,
            situation.faults,
        )

    def _probed(self, base: Level, name: str, started_at: float) -> Answer:
        level = self.policy.ladder.find(name)
        if level is None:
            return self._hold(f"the probed level {name} is gone"), replace(self.state, probe=None)
        own = tuple(one for one in self.observation.windows if one.level == name and one.start >= started_at)
        at = clock(self.policy, self.observation.windows, self.now)
        verdict = judge_probe(self._situation(level, started_at, own), base, at - started_at)
        if verdict.verdict is Verdict.LOST:
            state = memory.probe_lost(self.policy, self.state, level, self.now)
            gap = probe_gap(self.policy, find_trial(state, level))
            reason = f"the probe of {name} is lost: {verdict.reason}; back to {base.name}, next try in {gap:.0f} s"
            return self._going(base.name, reason), state
        if verdict.verdict is Verdict.OPEN:
            return self._hold(f"probing {name}: {verdict.reason}", PROBE_RULE), self.state
        return self._won(base, level, verdict)

    def _won(self, base: Level, level: Level, verdict: ProbeVerdict) -> Answer:
        cooling = cools_down(self.policy, self.state, verdict.at)
        if cooling is not None:
            return self._hold(f"the probe of {level.name} is won, but {cooling}", PROBE_RULE), self.state
        reason = f"the probe of {level.name} is won: {verdict.reason}: from {base.name} to {level.name}"
        decision = Decision(ActionName.STEP_UP, level.name, reason, PROBE_RULE, gain_percent=verdict.gain_percent)
        return decision, memory.probe_won(self.policy, self.state, level, self.now)

    def _kept(
        self,
        situation: Situation,
        held: tuple[Held, ...],
        undecided: tuple[Undecided, ...],
        move: Move | None,
        limit: str | None,
    ) -> Decision:
        """Say why nothing happens: a veto, a limit, a duration that is not over, or simply no reason to."""
        evidence, faults = situation.evidence, situation.faults
        alert = next((one for one in held if one.ripe and one.rule.action.type is ActionType.ALERT), None)
        unripe = next((one for one in held if not one.ripe and leads_somewhere(situation, one.rule)), None)
        barred_rule = next(((one, why) for one in held if one.ripe and (why := barred(situation, one.rule))), None)
        cause, after = None, 0.0
        if move is not None:
            cause = move.held.rule
            reason = f"{found(move.held)}, but {move.veto or limit or 'a fault of the engine is no reason to go up'}"
        elif alert is not None:
            cause, after, reason = alert.rule, float(alert.rule.for_seconds), found(alert)
        elif barred_rule is not None:
            cause, reason = barred_rule[0].rule, f"{found(barred_rule[0])}, but {barred_rule[1]}"
        elif unripe is not None:
            cause, after, reason = unripe.rule, float(unripe.rule.for_seconds), waiting(unripe, evidence.at)
        else:
            unsure = next((one for one in undecided if leads_somewhere(situation, one[0])), None)
            reason = f"{shown(evidence)}: no rule asks for a change"
            if unsure is not None:
                reason = f"{unsure[1].text} (rule {unsure[0].name}): no rule surely asks for a change"
        action = ActionName.ALERT if faults or (alert is not None and move is None) else ActionName.HOLD
        said = with_faults(faults, reason + note(evidence))
        return Decision(action, self.state.level, said, cause.name if cause else None, after, faults=faults)
