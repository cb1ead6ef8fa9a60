"""What the rules ask for on the evidence at hand: which hold, for how long, and where each would lead.

The first rule that has held for its whole duration and changes the level wins.  One exception keeps the order of a
policy from turning good news into bad: a rule that wins because acceptance is low never shields the target from a
later rule that asks for a lower level still.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specloop_policy.conditions import Judgement, Truth, judge
from specloop_policy.decision import Fault, Inputs, PolicyState
from specloop_policy.economics import Economics
from specloop_policy.evidence import Evidence
from specloop_policy.faults import DRAFTER_FAULTS
from specloop_policy.guardrails import not_again, quarantine_of
from specloop_policy.ladder import Level, same_drafter
from specloop_policy.model import ActionType, CostPolicy, Rule
from specloop_policy.policy import Policy, lowers


@dataclass(frozen=True, slots=True)
class Held:
    """A rule whose condition holds, since when, and whether long enough."""

    rule: Rule
    judgement: Judgement
    since: float
    ripe: bool


@dataclass(frozen=True, slots=True)
class Move:
    """Where a ripe rule leads, or why the cost model forbids it."""

    held: Held
    to: Level
    veto: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the choice of a move rests on."""

    policy: Policy
    state: PolicyState
    inputs: Inputs
    level: Level
    evidence: Evidence
    faults: tuple[Fault, ...]

    @property
    def economics(self) -> Economics:
        """Gains on this evidence."""
        return Economics(self.policy, self.inputs.step_times, self.level)

    @property
    def vetoes(self) -> bool:
        """Whether the cost model may refuse changes."""
        return self.policy.cost_model.policy is CostPolicy.VETO

    def quarantined(self, level: Level) -> bool:
        """Whether this level failed to come up with its present configuration and image."""
        return quarantine_of(self.state, self.inputs, level) is not None


Undecided = tuple[Rule, Judgement]
"""A rule whose condition the evidence neither meets nor fails for sure."""


def judge_rules(situation: Situation) -> tuple[tuple[Held, ...], tuple[Undecided, ...]]:
    """The rules whose conditions hold, and those that the evidence does not decide, in the policy's order."""
    since = dict(situation.state.holds_since)
    at = situation.evidence.at
    economics = situation.economics
    held, undecided = [], []
    for rule in situation.policy.rules:
        judgement = judge(rule.when, situation.evidence.spans, economics)
        if judgement.truth is Truth.HOLDS:
            start = since.get(rule.name, at)
            held.append(Held(rule, judgement, start, at - start >= rule.for_seconds))
        elif judgement.truth is Truth.INCONCLUSIVE:
            undecided.append((rule, judgement))
    return tuple(held), tuple(undecided)


def choose_lowering(situation: Situation, held: Sequence[Held]) -> Move | None:
    """The move of the winning rule, when that lowers the level; vetoed moves come back with their veto."""
    moves = [move for one in held if one.ripe and (move := _lowering(situation, one)) is not None]
    if not moves:
        return None
    first = moves[0]
    if first.held.rule.when.asks_for_low:
        allowed = [move for move in moves if move.veto is None]
        ladder = situation.policy.ladder
        return max(allowed, key=lambda move: ladder.index(move.to), default=first)
    return first


def leads_somewhere(situation: Situation, rule: Rule) -> bool:
    """Whether a rule would do anything from the present level."""
    if rule.action.type is ActionType.STEP_UP:
        above = situation.policy.ladder.above(situation.level)
        return any(same_drafter(level, situation.level) for level in above)
    return rule.action.type is ActionType.ALERT or destination(situation, rule) is not None


def _lowering(situation: Situation, held: Held) -> Move | None:
    to = destination(situation, held.rule)
    if to is None:
        return None
    return Move(held, to, veto(situation, held.rule, to))


def destination(situation: Situation, rule: Rule) -> Level | None:
    """Where a lowering rule leads from the present level; None when it leads nowhere."""
    if not lowers(rule):
        return None
    below = situation.policy.ladder.below(situation.level)
    action = rule.action
    if action.type is ActionType.DISABLE:
        below = below[-1:]
    elif action.type is ActionType.SWITCH_TO:
        wanted = situation.policy.ladder.find(action.level)
        below = below[below.index(wanted) :] if wanted in below else ()
    elif any(fault.name in DRAFTER_FAULTS for fault in situation.faults):
        below = tuple(level for level in below if not same_drafter(level, situation.level))
    below = tuple(level for level in below if not situation.quarantined(level))
    if action.type is ActionType.STEP_DOWN:
        below = tuple(_skipping_what_pays_less(situation, below))
    return below[0] if below else None


def barred(situation: Situation, rule: Rule) -> str | None:
    """Why a lowering rule leads nowhere though there are levels below: the one that it led to failed before."""
    if not lowers(rule) or destination(situation, rule) is not None:
        return None
    below = situation.policy.ladder.below(situation.level)
    failures = [failed for level in below if (failed := quarantine_of(situation.state, situation.inputs, level))]
    if not failures:
        return None
    failed = failures[-1] if rule.action.type is ActionType.DISABLE else failures[0]
    return not_again(failed)


def _skipping_what_pays_less(situation: Situation, below: Sequence[Level]) -> Iterator[Level]:
    """The levels below that do not pay less than the next one, nor less than nothing."""
    economics, recent = situation.economics, situation.evidence.recent
    for level, after in pairwise(below):
        gain = economics.gain(level, recent) if situation.vetoes else None
        if gain is None or (gain.high >= 0.0 and not economics.pays_less(level, after, recent)):
            yield level
    yield from below[-1:]


def veto(situation: Situation, rule: Rule, to: Level) -> str | None:
    """Why the cost model refuses to lower the level; rules about memory are none of its business."""
    if not situation.vetoes or rule.when.kv_cache is not None:
        return None
    economics, recent = situation.economics, situation.evidence.recent
    if economics.surely_better(situation.level, to, recent):
        advantage = economics.advantage(situation.level, to, recent)
        return (
            f"the cost model refuses {to.name}: {situation.level.name} is {100 * (advantage or 0.0):.0f} % faster at "
            f"this load even on the low side of the evidence (margin {situation.policy.cost_model.margin_percent} %)"
        )
    advantage = economics.advantage(to, situation.level, recent)
    return _pays_already(situation, rule, to) if advantage is None else _not_worth_a_restart(situation, to, advantage)


def _pays_already(situation: Situation, rule: Rule, to: Level) -> str | None:
    """Why a level that pays for sure is not left for one of which nothing is known, on its acceptance alone.

    Acceptance stands in for the gain where that is unknown; a drafter at fault is left all the same.
    """
    when = rule.when
    at_fault = any(fault.name in DRAFTER_FAULTS for fault in situation.faults)
    if when.acceptance is None or when.temperature is not None or when.running is not None or at_fault:
        return None
    economics, margin = situation.economics, situation.policy.cost_model.margin_percent
    gain = economics.gain(situation.level, situation.evidence.recent)
    if gain is None or gain.low <= economics.margin:
        return None
    return (
        f"the cost model refuses {to.name}: nothing is known of it at this load, and {situation.level.name} is "
        f"{100 * gain.value:.0f} % faster than no speculation, surely by more than the margin of {margin} %"
    )


def _not_worth_a_restart(situation: Situation, to: Level, advantage: float) -> str | None:
    """Why a level that is this much faster is not worth a restart; None where it is, or the restart costs nothing."""
    restart = situation.inputs.away_seconds(to.name)
    limit = situation.policy.cost_model.payback_seconds
    if not restart:
        return None
    if advantage <= 0.0:
        return f"the cost model refuses {to.name}: it would be no faster, and a restart takes {restart:.0f} s"
    if restart / advantage > limit:
        return (
            f"the cost model refuses {to.name}: a restart of {restart:.0f} s earns its price only after "
            f"{restart / advantage:.0f} s at {100 * advantage:.1f} % (limit {limit} s)"
        )
    return None


def choose_raising(situation: Situation, held: Sequence[Held]) -> Move | None:
    """The move of the first ripe rule that raises the level, within the drafter; vetoed with the reason it may not."""
    one = next((one for one in held if one.ripe and one.rule.action.type is ActionType.STEP_UP), None)
    if one is None:
        return None
    higher = [
        level
        for level in situation.policy.ladder.above(situation.level)
        if same_drafter(level, situation.level) and not situation.quarantined(level)
    ]
    if not higher:
        return None
    standing = [(level, threat_to(situation, level)) for level in higher]
    safe = [level for level, threat in standing if threat is None]
    if not safe:
        return Move(one, higher[0], standing[0][1])
    to = _best(situation, safe)
    return Move(one, to, _no_gain(situation, to))


def _best(situation: Situation, levels: Sequence[Level]) -> Level:
    """The level of the greatest expected gain where step times are known, else the nearest."""
    recent = situation.evidence.recent
    gains = [(gain.value, level) for level in levels if (gain := situation.economics.gain(level, recent)) is not None]
    if situation.vetoes and len(gains) == len(levels):
        return max(gains, key=lambda item: (item[0], -item[1].tokens))[1]
    return levels[0]


def threat_to(situation: Situation, level: Level) -> str | None:
    """The first rule that would, or might, lower the level again if it were this one, as a sentence."""
    here = situation.level
    there = Situation(situation.policy, situation.state, situation.inputs, level, situation.evidence, situation.faults)
    economics = situation.economics
    expected = [pool for span in situation.evidence.spans if (pool := economics.expected(level, span)) is not None]
    if len(expected) < len(situation.evidence.spans):
        return f"nothing is known of {level.name} at {here.name}"
    for rule in situation.policy.guards:
        if destination(there, rule) is None:
            continue
        judgement = judge(rule.when, expected, there.economics)
        if judgement.truth in (Truth.HOLDS, Truth.INCONCLUSIVE):
            return (
                f"{level.name} would be lowered again by rule {rule.name}: there, with the margin of "
                f"{situation.policy.cost_model.margin_percent} points, expected {judgement.text}"
            )
    return None


def _no_gain(situation: Situation, to: Level) -> str | None:
    """Why the cost model refuses to raise the level: no gain worth the margin, or none that earns its restart."""
    advantage = situation.economics.advantage(to, situation.level, situation.evidence.recent)
    if not situation.vetoes or advantage is None:
        return None
    cost_model = situation.policy.cost_model
    if advantage < cost_model.margin_percent / 100.0:
        return (
            f"the cost model refuses {to.name}: expected {100 * advantage:.0f} % of speed against "
            f"{situation.level.name}, less than the margin of {cost_model.margin_percent} %"
        )
    return _not_worth_a_restart(situation, to, advantage)


def standing_in_the_way(situation: Situation, level: Level) -> str | None:
    """A rule that says nothing of acceptance and would lower this other drafter's level at once, as a sentence."""
    there = Situation(situation.policy, situation.state, situation.inputs, level, situation.evidence, situation.faults)
    for rule in situation.policy.rules:
        if rule.when.acceptance is not None or rule.when.gain is not None or rule.when.coverage is not None:
            continue
        if destination(there, rule) is None:
            continue
        judgement = judge(rule.when, situation.evidence.spans, situation.economics)
        if judgement.truth is Truth.HOLDS:
            return f"rule {rule.name} would lower {level.name} at once: {judgement.text}"
    return None
