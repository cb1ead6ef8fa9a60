"""Probes: trying a level of another drafter on one replica, because nothing seen from below says how it would do."""

import math
from dataclasses import dataclass
from enum import StrEnum

from specloop_policy.conditions import Truth, judge
from specloop_policy.decision import PolicyState
from specloop_policy.guardrails import find_trial, probe_gap, probe_left, times
from specloop_policy.ladder import Ladder, Level, same_drafter
from specloop_policy.observation import Outcome
from specloop_policy.policy import Policy
from specloop_policy.rules import Situation, destination, standing_in_the_way, veto
from specloop_policy.words import shown, with_faults


class Verdict(StrEnum):
    """What became of a probe so far."""

    WON = "won"
    LOST = "lost"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """A verdict and its sentence."""

    verdict: Verdict
    reason: str
    at: float
    gain_percent: float | None = None


def candidates(ladder: Ladder, level: Level) -> tuple[Level, ...]:
    """The levels that a probe may try from here: the lowest of every other drafter above, nearest first.

    None while the next level up is of the same drafter: that one is predicted, not probed.
    """
    above = ladder.above(level)
    if not above or same_drafter(above[0], level):
        return ()
    lowest: dict[str, Level] = {}
    for one in above:
        if one.drafter is not None and not same_drafter(one, level):
            lowest.setdefault(one.drafter.name, one)
    return tuple(lowest.values())


def due(situation: Situation, state: PolicyState) -> tuple[Level, str] | None:
    """The nearest level to try now, and why; None when none is due, or nothing stands to be learnt without traffic."""
    level, evidence = situation.level, situation.evidence
    if evidence.whole.requests <= 0.0:
        return None
    for one in candidates(situation.policy.ladder, level):
        if situation.quarantined(one) or standing_in_the_way(situation, one) is not None:
            continue
        if probe_left(situation.policy, state, one, evidence.at) > 0.0:
            continue
        trial = find_trial(state, one)
        lost = f", lost {times(trial.losses)} so far" if trial is not None else ""
        gap = probe_gap(situation.policy, trial)
        return one, f"{gap:.0f} s at {level.name} without a sign of how {one.name} would do{lost}: trying it"
    return None


def next_probe_in(policy: Policy, state: PolicyState, level: Level, now: float) -> float:
    """Seconds until another drafter may be tried from a level; infinite where there is none to try."""
    gaps = [probe_left(policy, state, one, now) for one in candidates(policy.ladder, level)]
    return min(gaps, default=math.inf)


def judge_probe(situation: Situation, base: Level, seconds: float) -> ProbeVerdict:
    """Won when the evidence is conclusive and no rule would lower the level, lost when one would or time is over.

    `situation.level` is the probed level, its evidence is gathered by the caller, and `seconds` is how long it runs.
    """
    policy, evidence = situation.policy, situation.evidence
    signals = policy.signals
    overdue = seconds > signals.settle_seconds + 2 * signals.max_evidence_seconds
    if not evidence.usable or evidence.outcome is Outcome.OFF:
        reason = f"{evidence.outcome}: {evidence.reason}"
        return ProbeVerdict(Verdict.LOST if overdue else Verdict.OPEN, reason, evidence.at)
    if situation.faults:
        return ProbeVerdict(Verdict.LOST, with_faults(situation.faults, "a fault of the engine"), evidence.at)
    objection, waiting = _objections(situation)
    objection = objection or _no_better(situation, base)
    if objection is not None:
        return ProbeVerdict(Verdict.LOST, objection, evidence.at)
    if waiting is not None:
        return ProbeVerdict(Verdict.LOST if overdue else Verdict.OPEN, waiting, evidence.at)
    gain = situation.economics.gain(situation.level, evidence.whole)
    reason = f"{shown(evidence)}, and no rule would lower it"
    return ProbeVerdict(Verdict.WON, reason, evidence.at, None if gain is None else 100.0 * gain.value)


def _objections(situation: Situation) -> tuple[str | None, str | None]:
    """The rule that would lower the probed level, and what is not conclusive yet, as sentences."""
    waiting = None
    for rule in situation.policy.rules:
        to = destination(situation, rule)
        if to is None or veto(situation, rule, to) is not None:
            continue
        judgement = judge(rule.when, situation.evidence.spans, situation.economics)
        if judgement.truth is Truth.HOLDS:
            return f"rule {rule.name} would lower it: {judgement.text}", None
        if judgement.truth is Truth.INCONCLUSIVE and (rule.when.acceptance or rule.when.gain or rule.when.coverage):
            waiting = waiting or judgement.text
    return None, waiting


def _no_better(situation: Situation, base: Level) -> str | None:
    """Why a level that no rule objects to is lost all the same: it gains less than the margin against `disabled`."""
    if base.speculates or not situation.vetoes:
        return None
    gain = situation.economics.gain(situation.level, situation.evidence.whole)
    margin = situation.policy.cost_model.margin_percent
    if gain is None or 100.0 * gain.high >= margin:
        return None
    return f"estimated gain {100 * gain.value:.0f} % is below the margin of {margin} %"
