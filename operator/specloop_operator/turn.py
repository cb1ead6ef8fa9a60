"""One turn of a policy: decide, or go one step on with the roll-out that is under way.  No I/O.

    take_turn(sight, remembered, measured, now) -> Turn

What comes out is stored before it is acted on.  Who wins over whom stands in one table, docs/reference/precedence.md;
the order of the functions here is that table.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from specloop_operator.conditions import ConditionReason
from specloop_operator.live_asks import braked, canary_of, hold_of, live_view, shed_due
from specloop_operator.remembered import Interrupted, Remembered
from specloop_operator.sight import Sight, enforces
from specloop_policy import memory
from specloop_policy.annotations import Rollback
from specloop_policy.canary import Ending, Kind, Phase, Plan, Rollout, Step, begin, plan
from specloop_policy.decision import ActionName, Decision, FailedChange, Inputs, Override, PolicyState
from specloop_policy.gate import GateVerdict, Result
from specloop_policy.guardrails import DAY_SECONDS, left_in_vain, quarantine_of, with_loss, without_trial
from specloop_policy.ladder import Level
from specloop_policy.model import ActuatorType
from specloop_policy.observation import Observation, Service, Window, Workload
from specloop_policy.policy import Policy
from specloop_policy.schedules import scheduled_level
from specloop_policy.step import level_before, step
from specloop_policy.times import rfc3339
from specloop_policy.watch import Watch, judge_watch
from specloop_policy.wishes import asks_in_vain, suspends, urgent_wish, wish_in_force

NOTHING_SERVED = Service()


@dataclass(frozen=True, slots=True)
class Measured:
    """What the metrics say."""

    windows: tuple[Window, ...] = ()
    verdict: GateVerdict | None = None
    """On the canary that soaks; None while it is not measured yet."""
    failed_share: float = 0.0
    """Share of requests that failed beside the canary."""
    served: Service = NOTHING_SERVED
    """What the pods of a watched level did since it was promoted."""
    slot_free: bool = True
    """Whether one more roll-out may begin in the cluster."""
    attempt: str | None = None
    """What came of the last write in the roll-out's phase: why it was refused, "" where it was not; None before one."""


class ProbeNews(StrEnum):
    """What is new of a probe."""

    STARTED = "started"
    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be remembered, done and said."""

    remembered: Remembered
    decision: Decision | None = None
    """None while a roll-out goes on by itself."""
    before: str | None = None
    """The level until then."""
    evidence_level: str | None = None
    """The level that the decision's evidence is about; None: the one that runs."""
    acceptance_since: float | None = None
    """When that evidence begins."""
    step: Step = Step.WAIT
    words: str = ""
    """Of the roll-out."""
    began: Rollout | None = None
    moved: Phase | None = None
    """The phase that the roll-out has just entered."""
    ended: Ending | None = None
    rollout: Rollout | None = None
    """The roll-out that this turn was about, also where it ended."""
    probe: ProbeNews | None = None
    no_control: bool = False
    """Whether no pod was left alone, so that after is compared with before."""
    blocked: tuple[ConditionReason, str] | None = None
    """Why a decision is not carried out, though the mode is Enforce."""


def take_turn(sight: Sight, remembered: Remembered, measured: Measured, now: float) -> Turn:
    """Decide, or take the next step of the roll-out under way."""
    remembered = replace(remembered, configurations=sight.binding.configurations)
    if remembered.rollout is None:
        return _decide(sight, _noticed(sight, remembered, now), measured, now)
    if remembered.rollout.kind is Kind.PROBE and not remembered.rollout.goes_back:
        return _probe(sight, remembered, measured, now)
    return _go_on(sight, remembered, measured, now, _called_off(sight, remembered, now))


def new_generation(remembered: Remembered) -> Remembered:
    """Somebody edited the policy: what failed or was undone before may be tried again."""
    state = replace(remembered.state, quarantine=())
    if state.owed is not None:
        state = without_trial(state, state.owed)
    # Its level may be called otherwise by now, which nobody shall take for somebody else's doing.
    forgotten = replace(remembered, reverted="", reverted_wish="", shed_failed="", interrupted=None)
    return replace(forgotten, written_level=None, state=state)


def _noticed(sight: Sight, remembered: Remembered, now: float) -> Remembered:
    """Whether somebody else put another level in the place of the one that we wrote, and whether it is watched on."""
    running = sight.level.name if sight.level is not None else None
    if remembered.watch is not None and remembered.watch.level != running:
        remembered = replace(remembered, watch=None)
    if remembered.live is not None and remembered.live.setting != sight.binding.setting:
        remembered = replace(remembered, live=None)  # it was over another template
    if remembered.written_level is None or running == remembered.written_level:
        return remembered
    shown = running or str(sight.binding.line.speculation)
    words = f"{remembered.written_level} was written, and somebody else set {shown}"
    return replace(remembered, written_level=None, reverted=words, reverted_wish=_wish_in_force(sight, now))


def _wish_in_force(sight: Sight, now: float) -> str:
    """The override in force, told apart from any other; "" without one."""
    override = override_in_force(sight, now)
    return "" if override is None else f"{override.level} by {override.by} until {override.until}"


def _decide(sight: Sight, remembered: Remembered, measured: Measured, now: float) -> Turn:
    wish = _asks_back(sight, remembered)
    failed, remembered = _harm(sight, remembered, measured, now)
    blocked = None if not enforces(sight) else _blocked(sight, remembered, measured, now, urgent=failed is not None)
    policy = replace(sight.policy, enforce=enforces(sight) and blocked is None)
    observation = Observation(measured.windows, _workload(sight, sight.level.name if sight.level else None))
    inputs = _inputs(sight, now, failed)
    decision, state = _step(
        sight, policy, remembered.state, observation, inputs, now, _back_put_off(sight, remembered, now)
    )
    before = level_before(remembered.state, observation, decision)
    after = replace(remembered, state=state)
    if not decision.changes_level:
        pending = _asks_back(sight, remembered)
        blocked = None
        if pending is not None and failed is None and sight.level is not None:
            blocked = ConditionReason.WAITING, f"{_by_hand(pending)}: the level before cannot be written now"
    turn = Turn(after, decision, before, acceptance_since=remembered.state.changed_at, blocked=blocked)
    running = sight.level
    if not decision.changes_level and policy.enforce:
        return _shed(sight, turn, measured, now)
    if not decision.changes_level or not policy.enforce or running is None or decision.level in (None, running.name):
        return turn
    assert decision.level is not None
    if decision.level not in sight.keys:
        refusal = next((one.reason for one in sight.refused if one.level == decision.level), "it cannot be written")
        words = f"{decision.level}: {refusal}"
        return replace(turn, remembered=remembered, blocked=(ConditionReason.UNSUPPORTED_COMMAND, words))
    if sight.live is not None and sight.live.problem and decision.level in sight.live_levels:
        words = f"{decision.level} can be reached without a restart once pods can be asked: {sight.live.problem}"
        return replace(turn, remembered=remembered, blocked=(ConditionReason.WAITING, words))
    retreat = failed is not None and decision.level == failed.back_to
    kind = _kind(decision, remembered.state, state, retreat=retreat)
    put_off = _put_off(sight, remembered, decision.level, state, now) if kind is Kind.FORCED else None
    if put_off is not None:
        return replace(turn, remembered=remembered, blocked=(ConditionReason.WAITING, put_off))
    to = sight.policy.ladder.find(decision.level)
    assert to is not None  # it has a key
    rollout = _begin(sight, running, to, kind, now)
    carried_out = wish.at if wish is not None else after.rolled_back_at  # or there is another change to roll back
    begun = replace(
        after, rollout=rollout, watch=None, reverted="", reverted_wish="", canary_pods=None, rolled_back_at=carried_out
    )
    first = _go_on(sight, begun, measured, now, "")
    since = remembered.state.changed_at
    probe = ProbeNews.STARTED if kind is Kind.PROBE else None
    return replace(first, decision=decision, before=before, acceptance_since=since, began=rollout, probe=probe)


def _begin(sight: Sight, running: Level, to: Level, kind: Kind, now: float) -> Rollout:
    """A roll-out by live control where that reaches the level, else by a restart; to brake live is done at once."""
    live = to.name in sight.live_levels
    setting = sight.binding.setting if live else sight.binding.setting_at(to)
    at_once = live and not to.speculates
    key, rest = sight.keys[to.name], sight.rest
    before = "" if live else sight.binding.setting
    rollout = begin(to.name, running.name, kind, key, rest, now, setting, before, live=live, at_once=at_once)
    return replace(rollout, canary=canary_of(sight)) if rollout.live and rollout.phase is Phase.STARTING else rollout


def _shed(sight: Sight, turn: Turn, measured: Measured, now: float) -> Turn:
    """Make the pods anew without the drafter, where speculation is off live for longer than that costs."""
    remembered, to, back_to = turn.remembered, sight.policy.ladder.levels[-1], sight.template_level
    if not braked(sight) or back_to is None or remembered.watch is not None:
        return turn
    key = sight.keys.get(to.name)
    if key is None or key == remembered.shed_failed or sight.spec.rollout.actuator is ActuatorType.LIVE:
        return turn
    due = shed_due(sight, remembered, _inputs(sight, now), restart_seconds(sight), now)
    if due is None:
        return turn
    settings = sight.binding.setting_at(to), sight.binding.setting
    rollout = begin(to.name, back_to.name, Kind.SHED, key, sight.rest, now, *settings)
    begun = _go_on(sight, replace(remembered, rollout=rollout, canary_pods=None), measured, now, "")
    return replace(
        begun,
        decision=turn.decision,
        before=turn.before,
        acceptance_since=turn.acceptance_since,
        began=rollout,
        words=f"{begun.words}: {due}",
    )


def _kind(decision: Decision, before: PolicyState, after: PolicyState, *, retreat: bool) -> Kind:
    if retreat:
        return Kind.RETREAT
    if decision.action is ActionName.PROBE:
        return Kind.PROBE
    asked = before.forced is not None or after.forced is not None
    return Kind.FORCED if asked or decision.level == before.owed else Kind.RULE


def _harm(
    sight: Sight, remembered: Remembered, measured: Measured, now: float
) -> tuple[FailedChange | None, Remembered]:
    """A level that must be left at once: somebody asks to roll back, or a promoted one does harm."""
    wish, running = _asks_back(sight, remembered), sight.level
    if wish is not None and running is not None:
        back = remembered.watch.back_to if remembered.watch is not None else remembered.previous_level
        there = back is not None and back != running.name and sight.policy.ladder.find(back) is not None
        if there and back in sight.keys:
            return FailedChange(running.name, sight.keys.get(running.name, ""), _by_hand(wish), back), remembered
        if not there:
            remembered = replace(remembered, rolled_back_at=wish.at)  # there is nothing to go back to
    watch = remembered.watch
    if watch is None:
        return None, remembered
    if now >= watch.until:
        return None, replace(remembered, watch=None)
    windows = [window for window in measured.windows if window.level == watch.level]
    limit = sight.spec.rollout.gate.max_error_rate_percent
    why = judge_watch(watch, _restarts(sight), windows, measured.served, limit)
    back = None if why is None else _way_back(sight, remembered.state, watch, now)
    return (None if why is None or back is None else FailedChange(watch.level, watch.key, why, back)), remembered


def _way_back(sight: Sight, state: PolicyState, watch: Watch, now: float) -> str | None:
    """Where to go from a level that does harm: where it was before, else the next lower that is not known to fail."""
    if watch.back_to in sight.keys:
        return watch.back_to
    level, inputs = sight.policy.ladder.find(watch.level), _inputs(sight, now)
    for one in () if level is None else sight.policy.ladder.below(level):
        failed = quarantine_of(state, inputs, one)
        if one.name in sight.keys and (failed is None or failed.rules_only):
            return one.name
    return None


def _blocked(
    sight: Sight, remembered: Remembered, measured: Measured, now: float, *, urgent: bool
) -> tuple[ConditionReason, str] | None:
    """Why nothing may be carried out now; to leave a level that does harm waits for no slot."""
    target = sight.target
    if target.held_by_others:
        return ConditionReason.TARGET_PAUSED, f"somebody else holds the roll-out of {target.kind.name} {target.name}"
    # An override that was there before the revert says nothing new; to follow it would be to fight.
    if remembered.reverted and _wish_in_force(sight, now) in ("", remembered.reverted_wish):
        words = f"{remembered.reverted}: held until the policy is edited or overridden"
        return ConditionReason.REVERTED, words
    if urgent:
        return None
    if target.replicas == 0:
        return ConditionReason.TARGET_BUSY, "the target has no pods"
    if not target.settled or target.updated < target.replicas:
        return ConditionReason.TARGET_BUSY, f"{target.updated} of {target.replicas} pods are at the target's template"
    if not measured.slot_free:
        return ConditionReason.WAITING, "as many roll-outs as the cluster may have at a time are under way"
    return None


def override_in_force(sight: Sight, now: float) -> Override | None:
    """What a person asks for by override now."""
    override = sight.wishes.override
    return override if override is not None and (override.until is None or now < override.until) else None


def _workload(sight: Sight, level: str | None) -> Workload:
    speculation = sight.binding.line.speculation
    setting = "a setting with no speculation" if speculation is None else str(speculation)
    if speculation is not None:
        setting = f"{speculation.method} with K = {speculation.largest}"
    return Workload(level, sight.target.replicas, setting)


def _inputs(sight: Sight, now: float, failed: FailedChange | None = None) -> Inputs:
    return Inputs(
        restart_seconds=restart_seconds(sight),
        override=sight.wishes.override,
        alerts=sight.alerts,
        scheduled=scheduled_level(sight.spec.schedules, now) if sight.spec.schedules else None,
        failed=failed,
        keys=tuple(sight.keys.items()),
        live=sight.live_levels,
    )


def restart_seconds(sight: Sight) -> float | None:
    """How long a pod takes from its container's start to ready: the median of those that run; None without any."""
    found = sorted(
        pod.ready_since - pod.started_at
        for pod in sight.pods
        if pod.ready_since is not None and pod.started_at is not None and pod.ready_since >= pod.started_at
    )
    return found[len(found) // 2] if found else None


def level_of(sight: Sight, rollout: Rollout) -> Level | None:
    """The level that is rolled out, also where an edited policy calls it otherwise; None where it has it no more."""
    named = sight.policy.ladder.find(rollout.level)
    if named is not None or not rollout.setting or rollout.live:
        return named
    written = (one for one in sight.policy.ladder.levels if one.name in sight.keys)
    return next((one for one in written if sight.binding.setting_at(one) == rollout.setting), None)


def _step(
    sight: Sight,
    policy: Policy,
    state: PolicyState,
    observation: Observation,
    inputs: Inputs,
    now: float,
    put_off: tuple[FailedChange, ...] = (),
) -> tuple[Decision, PolicyState]:
    """The core's step, with levels that cannot be written, or not yet, kept out of its reach but not of its memory."""
    away = (*sight.refused, *put_off)
    shut = replace(state, quarantine=(*state.quarantine, *away))
    decision, after = step(policy, shut, observation, inputs, now)
    kept = tuple(one for one in after.quarantine if one not in away)
    return decision, state if after is shut else replace(after, quarantine=kept)


def _called_off(sight: Sight, remembered: Remembered, now: float) -> str:
    """Why the roll-out under way must end; "" while it need not."""
    rollout = remembered.rollout
    assert rollout is not None
    wish = _asks_back(sight, remembered)
    if wish is not None:
        return _by_hand(wish)
    suspending = suspends(sight.alerts)
    if suspending is not None or sight.policy.suspended:
        return "the policy is suspended" + (f" by alert {suspending.name}" if suspending is not None else "")
    if sight.target.replicas == 0:
        return "the target is scaled to no pods"
    if not enforces(sight):
        return "the policy's mode is Recommend now"
    refusing = next((pod for pod in sight.pods if pod.refuses), None)
    if rollout.live and refusing is not None and refusing.standing is not None:
        return f"{refusing.name} cannot be changed live: {refusing.standing.reason}"
    if sight.rest == rollout.rest and sight.keys.get(rollout.level) != rollout.key:
        return f"the policy's level {rollout.level} is another than when this began"
    urgent = urgent_wish(sight.policy.ladder, _inputs(sight, now), now)
    if urgent is not None:
        return "" if urgent.level.name == rollout.level else f"{urgent.by} asks for {urgent.level.name}"
    return _nobody_asks(sight, rollout, remembered.state, now)


def _nobody_asks(sight: Sight, rollout: Rollout, state: PolicyState, now: float) -> str:
    """Why a level that somebody asked for is not rolled out to the end: nobody asks any more, or not for it."""
    if rollout.kind not in (Kind.FORCED, Kind.SHED) or state.forced is None:
        return ""
    wish = wish_in_force(sight.policy.ladder, state, _inputs(sight, now), now)
    if wish is None:
        if state.forced.back_to == rollout.level:
            return ""  # it leads to where the way back would
        return "" if _goes_in_vain(sight, rollout, state, now) else f"{state.forced.by} is over"
    if wish.level.name == rollout.level or asks_in_vain(sight.policy, state, wish, now) is not None:
        return ""
    return f"{wish.by} asks for {wish.level.name}"


def _goes_in_vain(sight: Sight, rollout: Rollout, state: PolicyState, now: float) -> bool:
    """Whether the way back from what an alert asked for would have to wait: then what it asked for goes on."""
    back, forced = sight.policy.ladder.find(rollout.back_to), state.forced
    if back is None or forced is None or not forced.alert or forced.back_to != back.name:
        return False
    return left_in_vain(sight.policy, state, back, now) is not None


def _asks_back(sight: Sight, remembered: Remembered) -> Rollback | None:
    """A person's wish to be back before the last change, while it is not carried out."""
    wish = sight.wishes.rollback
    done = remembered.rolled_back_at
    # Not "later than": after a wish whose clock was ahead, all others would be passed over in silence.
    return wish if wish is not None and wish.at != done else None


def _by_hand(wish: Rollback) -> str:
    return f"rolled back by {wish.by}" if wish.by else "rolled back by hand"


def _probe(sight: Sight, remembered: Remembered, measured: Measured, now: float) -> Turn:
    """A canary that shows whether another level pays: the rules judge it, and then it goes on as any other."""
    rollout = remembered.rollout
    assert rollout is not None
    called_off = _called_off(sight, remembered, now)
    if called_off:
        return _go_on(sight, remembered, measured, now, called_off)
    observation = Observation(measured.windows, _workload(sight, rollout.back_to))
    policy = replace(sight.policy, enforce=True)
    decision, state = _step(sight, policy, remembered.state, observation, _inputs(sight, now), now)
    won = state.probe is None and state.level == rollout.level
    lost = state.probe is None and not won
    after = replace(remembered, state=state, rollout=replace(rollout, kind=Kind.RULE) if won else rollout)
    turn = _go_on(sight, after, measured, now, decision.reason if lost else "")
    if turn.decision is not None:
        return turn  # it ended, and how is said
    return replace(
        turn,
        decision=decision,
        before=rollout.level if lost else rollout.back_to,
        evidence_level=rollout.level,
        acceptance_since=rollout.started_at,
        probe=ProbeNews.WON if won else ProbeNews.LOST if lost else None,
    )


def _go_on(sight: Sight, remembered: Remembered, measured: Measured, now: float, called_off: str) -> Turn:
    rollout = remembered.rollout
    assert rollout is not None
    if rollout.live:
        rollout = _with_canary(sight, rollout, now)
        view = live_view(sight, rollout)
    else:
        view = sight.target.view(_template_level(sight, rollout), sight.rest, sight.pods, rollout)
    wish = _asks_back(sight, remembered) if rollout.kind not in (Kind.RETREAT, Kind.SHED) else None
    if wish is not None:
        rollout = _failing(sight, rollout)
    verdict = measured.verdict
    if rollout.kind is Kind.PROBE and verdict is not None and verdict.result is Result.PASS:
        verdict = None  # the rules have the first word
    found = plan(rollout, view, sight.limits, now, called_off=called_off, gate=verdict, attempt=measured.attempt)
    if rollout.kind is Kind.RETREAT and found.step is Step.WRITE and level_of(sight, rollout) is None:
        words = f"{rollout.level} is no level of the policy any more, and so cannot be written"
        found = Plan(rollout, Step.WAIT, words, Ending.ABANDONED)
    if wish is not None and (rollout.goes_back or found.ended is not None or found.words == called_off):
        # The last change is this one, and it goes back for the wish, or for something else, or is over.
        found = replace(found, rollout=_failing(sight, found.rollout))
        remembered = replace(remembered, rolled_back_at=wish.at)
    if rollout.soaking and found.rollout.phase is Phase.PROMOTING:
        found = replace(found, rollout=replace(found.rollout, failed_share=measured.failed_share))
    if rollout.live and found.step is Step.WRITE:
        found = replace(found, rollout=replace(found.rollout, written=True))  # what is remembered is what is asked for
    cut = found.rollout.goes_back and not rollout.goes_back
    if cut and rollout.kind is Kind.FORCED:
        remembered = _cut(sight, remembered, found, now, called_off)
    if found.ended is not None:
        return _ended(sight, remembered, found, now)
    new = sum(pod.new for pod in view.pods)
    pods = new if found.rollout.phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING) else remembered.canary_pods
    after = replace(remembered, rollout=found.rollout, canary_pods=pods or None)
    moved = found.rollout.phase if found.rollout.phase is not rollout.phase else None
    no_control = all(pod.new for pod in view.pods)
    return Turn(after, step=found.step, words=found.words, moved=moved, rollout=found.rollout, no_control=no_control)


def _cut(sight: Sight, remembered: Remembered, found: Plan, now: float, called_off: str) -> Remembered:
    """Where a roll-out that somebody had asked for is cut short by what may come of it; see `_put_off`."""
    rollout, state, known = found.rollout, remembered.state, remembered.interrupted
    if _cut_by_alert(sight, rollout, state, now):
        state = with_loss(sight.policy, state, rollout.level, now)
    unasked = rollout.ending is Ending.CANCELLED and not called_off
    if unasked or suspends(sight.alerts) is not None:
        by = _asked_by(remembered.state)
        again = known is not None and (known.level, known.by) == (rollout.level, by) and now - known.at < DAY_SECONDS
        known = Interrupted(rollout.level, by, now, known.times + 1 if again and known is not None else 1)
    return replace(remembered, state=state, interrupted=known)


def _put_off(sight: Sight, remembered: Remembered, level: str, state: PolicyState, now: float) -> str | None:
    """Why what somebody asks for is not begun yet: an alert or a change of the target ended it, perhaps because of it.

    Once in a day that may be chance, and it is begun again at once; after the second time a cool-down later, as rules
    are, and after each further one twice as long, up to the longest gap of probes.
    """
    known, until = remembered.interrupted, _put_off_until(sight, remembered)
    if known is None or now >= until:
        return None
    if (known.level, known.by) != (level, _asked_by(state)):
        return None
    return f"{known.by} asks for {level}, which {_interrupted(known)}: it is begun again at {rfc3339(until)}"


def _put_off_until(sight: Sight, remembered: Remembered) -> float:
    """Until when; off never waits."""
    known, guardrails = remembered.interrupted, sight.policy.guardrails
    if known is None or known.times < 2 or known.level == sight.policy.ladder.levels[-1].name:
        return 0.0
    gap = guardrails.cooldown_seconds * 2.0 ** min(known.times - 2, 64)
    return known.at + min(float(guardrails.probe.max_seconds), gap)


def _interrupted(known: Interrupted) -> str:
    return f"an alert or a change of the target has interrupted {known.times} times"


def _back_put_off(sight: Sight, remembered: Remembered, now: float) -> tuple[FailedChange, ...]:
    """The level of a way back that waits for the same reason: it stays owed, and rules decide meanwhile."""
    known, until = remembered.interrupted, _put_off_until(sight, remembered)
    if known is None or known.by or now >= until or known.level not in sight.keys:
        return ()
    if wish_in_force(sight.policy.ladder, remembered.state, _inputs(sight, now), now) is not None:
        return ()  # who asks for the level by now does not wait
    return (FailedChange(known.level, sight.keys[known.level], f"what {_interrupted(known)}", until=until),)


def _asked_by(state: PolicyState) -> str:
    """Whose wish is carried out; "" for the way back from one."""
    return "" if state.forced is None else state.forced.by


def _cut_by_alert(sight: Sight, rollout: Rollout, state: PolicyState, now: float) -> bool:
    """Whether an alert ends a roll-out that goes up: it may fire just because of that, and be over when it is back."""
    ladder = sight.policy.ladder
    if not ladder.is_above(rollout.level, rollout.back_to):
        return False
    if suspends(sight.alerts) is not None:
        return True
    wish = wish_in_force(ladder, state, _inputs(sight, now), now)
    return wish is not None and wish.alert and ladder.is_above(rollout.level, wish.level.name)


def _template_level(sight: Sight, rollout: Rollout) -> str | None:
    """The level that the template asks for: what was written stays that, whatever an edited policy calls it now."""
    if sight.binding.setting == rollout.setting:
        return rollout.level
    if sight.binding.setting == rollout.back_setting:
        return rollout.back_to
    level = sight.template_level if rollout.kind is Kind.SHED else sight.level
    return level.name if level is not None else None


def _with_canary(sight: Sight, rollout: Rollout, now: float) -> Rollout:
    """A live roll-out whose canary is there: where the pod is gone, another is asked, and soaks from the beginning."""
    waiting = rollout.phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING)
    if not waiting or any(pod.name == rollout.canary and pod.serving for pod in sight.pods):
        return rollout
    return replace(rollout, canary=canary_of(sight), phase=Phase.STARTING, since=now)


def _failing(sight: Sight, rollout: Rollout) -> Rollout:
    """A roll-out that somebody rolls back by hand: that configuration, as it is by now, is not tried again."""
    if not rollout.goes_back:
        return rollout
    return replace(rollout, ending=Ending.FAILED, key=sight.keys.get(rollout.level, rollout.key))


def _ended(sight: Sight, remembered: Remembered, found: Plan, now: float) -> Turn:
    """Remember how a roll-out ended."""
    rollout, level = found.rollout, sight.level.name if sight.level is not None else None
    over = replace(remembered, rollout=None, canary_pods=None)
    state, written = over.state, level
    decision = None
    watch = over.watch
    verdict = found.ended
    if verdict is Ending.ABANDONED and rollout.ending in (Ending.FAILED, Ending.LOST):
        verdict = rollout.ending  # how the level did is known, however its way back went
    match verdict:
        case Ending.PROMOTED if rollout.kind is Kind.SHED:
            over = replace(over, live=None)
        case Ending.FAILED | Ending.LOST | Ending.ABANDONED if rollout.kind is Kind.SHED:
            over = replace(over, shed_failed=rollout.key)
        case Ending.PROMOTED:
            if over.interrupted is not None and over.interrupted.level == rollout.level:
                over = replace(over, interrupted=None)
            to = sight.policy.ladder.find(rollout.level)
            over = replace(over, live=hold_of(sight, to) if rollout.live and to is not None else None)
            watch = _watch(sight, rollout, now)
            over = replace(over, previous_level=None if rollout.kind is Kind.RETREAT else rollout.back_to)
        case Ending.FAILED:
            failed = FailedChange(rollout.level, rollout.key, found.words)
            state = memory.rolled_back(sight.policy, _cut_short(sight, state, rollout, level, now), failed, level, now)
            decision = _taken_back(sight, rollout, found.words, level)
        case Ending.LOST | Ending.UNDONE:
            lost = sight.policy.ladder.find(rollout.level)
            if state.level != level:
                undone = found.ended is Ending.UNDONE
                state = memory.adopted(state, level, now) if undone else _cut_short(sight, state, rollout, level, now)
            if lost is not None:
                # Where it was asked for, to ask again at once would lead to the same end.
                rules_only = rollout.kind is not Kind.FORCED or found.ended is Ending.UNDONE
                state = memory.outdone(sight.policy, state, lost, rollout.key, found.words, now, rules_only=rules_only)
            decision = _taken_back(sight, rollout, found.words, level)
        case _:
            state = _cut_short(sight, state, rollout, level, now)
            decision = _taken_back(sight, rollout, found.words, level)
    reverted = found.words if found.ended is Ending.UNDONE else ""
    wish = _wish_in_force(sight, now) if reverted else over.reverted_wish
    after = replace(
        over,
        state=state,
        watch=watch,
        written_level=None if reverted else written,
        reverted=reverted or over.reverted,
        reverted_wish=wish,
    )
    return Turn(
        after,
        decision,
        rollout.level,
        rollout.level,
        rollout.started_at,
        found.step,
        found.words,
        ended=found.ended,
        rollout=rollout,
    )


def _cut_short(sight: Sight, state: PolicyState, rollout: Rollout, level: str | None, now: float) -> PolicyState:
    """The memory where a roll-out ended at another level than its own."""
    if state.level == level and state.probe is None:
        return state
    if rollout.kind is Kind.FORCED:
        wish = wish_in_force(sight.policy.ladder, state, _inputs(sight, now), now)
        return memory.cut_short(sight.policy, state, rollout.level, level, wish, now)
    return replace(memory.adopted(state, level, now), owed=state.owed)


def _taken_back(sight: Sight, rollout: Rollout, words: str, level: str | None) -> Decision:
    last = sight.policy.ladder.levels[-1].name
    action = ActionName.DISABLE if level == last else ActionName.SWITCH_TO
    return Decision(action, level, f"{rollout.level} is taken back to {level}: {words}")


def _watch(sight: Sight, rollout: Rollout, now: float) -> Watch | None:
    seconds = sight.spec.rollout.watch_seconds
    if rollout.kind is Kind.RETREAT or seconds == 0:
        return None
    until = now + seconds
    restarts = _restarts(sight)
    return Watch(rollout.level, rollout.back_to, rollout.key, now, until, rollout.failed_share, restarts)


def _restarts(sight: Sight) -> int:
    """Of all pods that stay: one that was asked live is at another level until its next request."""
    return sum(pod.restarts for pod in sight.pods if not pod.leaving)
