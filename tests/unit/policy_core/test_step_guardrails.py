"""Each guardrail alone: cool-down, changes per day, and prediction as hysteresis."""

from dataclasses import replace

import pytest

from specloop_policy.decision import ActionName, Decision, Inputs, PolicyState, Trial
from specloop_policy.guardrails import (
    changes_left,
    cooldown_left,
    probe_gap,
    probe_left,
    with_change,
    with_loss,
    without_trial,
)
from specloop_policy.ladder import Level
from specloop_policy.status import Memory, to_memory, to_state
from specloop_policy.step import fresh, step
from tests.support.policies import default_policy, policy_of, rule
from tests.support.windows import constant, measured, observe
from tests.support.worlds import Target, World, flat

LOW = rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)
HIGH = rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)
NGRAM = Level("ngram")


def decide(state: PolicyState, *, end: float, rate: float = 0.2, **guardrails: object) -> Decision:
    """A decision at k5 on one window that asks for a step down, unless the rate says otherwise."""
    policy = policy_of(rules=[LOW], guardrails=guardrails)
    seen = observe(policy.ladder, "k5", [measured(constant(rate, 5), end=end)])
    return step(policy, state, seen, Inputs(), end)[0]


def test_rules_change_the_level_once_in_a_cool_down() -> None:
    """The last change at 1,000 s, 900 s of cool-down: held at 1,899, free at 1,900."""
    state = replace(fresh("k5", 0.0), changes=(1000.0,))
    held = decide(state, end=1899.0)
    assert (held.action, held.level, held.rule) == (ActionName.HOLD, "k5", "low")
    assert "the last change was 899 s before this window's end, and the cool-down is 900 s" in held.reason
    assert decide(state, end=1900.0).action is ActionName.STEP_DOWN


def test_cool_down_may_be_none() -> None:
    """Zero seconds never hold."""
    state = replace(fresh("k5", 0.0), changes=(1000.0,))
    assert decide(state, end=1000.0, cooldownSeconds=0).action is ActionName.STEP_DOWN


def test_cool_down_is_counted_from_the_newest_change() -> None:
    """100 s after the second of two changes 800 of 900 s are left."""
    policy = default_policy()
    state = replace(fresh("k5", 0.0), changes=(100.0, 5000.0))
    assert cooldown_left(policy, state, 5100.0) == 800.0
    assert cooldown_left(policy, fresh("k5", 0.0), 5100.0) == 0.0


def test_changes_per_day_are_limited() -> None:
    """Two an hour apart are the limit of two until the first is a day old."""
    state = replace(fresh("k5", 0.0), changes=(1000.0, 4600.0))
    held = decide(state, end=1000.0 + 86399.0, maxChangesPerDay=2)
    assert held.action is ActionName.HOLD
    assert "2 changes in 24 hours are the limit" in held.reason
    assert decide(state, end=1000.0 + 86400.0, maxChangesPerDay=2).action is ActionName.STEP_DOWN


def test_changes_older_than_a_day_are_forgotten() -> None:
    """What is remembered is what still counts."""
    policy = default_policy()
    state = replace(fresh("k5", 0.0), changes=(0.0, 50000.0))
    assert with_change(policy, state, 86400.0).changes == (50000.0, 86400.0)
    assert changes_left(policy, state, 86399.0) == 10
    assert changes_left(policy, state, 86400.0) == 11


@pytest.mark.parametrize("losses", [0, 1, 2, 3, 4, 5, 200])
def test_the_gap_between_probes_grows_up_to_its_limit(losses: int) -> None:
    """3,600 s doubled at every loss, and never more than a day."""
    expected = [3600, 7200, 14400, 28800, 57600, 86400, 86400][min(losses, 6)]
    trial = Trial("ngram", losses, 0.0) if losses else None
    assert probe_gap(default_policy(), trial) == expected


def test_the_gap_is_counted_from_the_last_change_and_the_last_loss() -> None:
    """Entered at 1,000 s and lost at 5,000: an hour after the first, two hours after the second."""
    policy = default_policy()
    state = fresh("disabled", 1000.0)
    assert probe_left(policy, state, NGRAM, 2000.0) == 2600.0
    lost = with_loss(policy, state, "ngram", 5000.0)
    assert probe_left(policy, lost, NGRAM, 6000.0) == 6200.0
    assert without_trial(lost, "ngram").trials == ()


def test_losses_are_counted_by_level() -> None:
    """Two of n-gram, one of k3."""
    policy = default_policy()
    state = fresh("disabled", 0.0)
    for level, at in (("ngram", 1.0), ("k3", 2.0), ("ngram", 3.0)):
        state = with_loss(policy, state, level, at)
    assert set(state.trials) == {Trial("ngram", 2, 3.0), Trial("k3", 1, 2.0)}


def test_losses_of_levels_that_left_the_ladder_are_forgotten() -> None:
    """The memory stays bounded by the ladder, however often a policy is edited."""
    policy = default_policy()
    state = replace(fresh("disabled", 0.0), trials=tuple(Trial(f"old-{place}", 1, 0.0) for place in range(16)))
    after = with_loss(policy, state, "ngram", 3.0)
    assert after.trials == (Trial("ngram", 1, 3.0),)
    assert to_state(Memory.model_validate_json(to_memory(after).model_dump_json())) == after


def at_k3(survival: tuple[float, ...]) -> Decision:
    """A decision at k3 of a policy that steps down below 40 and up above 55 %, on 900 independent drafts."""
    policy = policy_of(rules=[LOW, HIGH])
    drafts = 45000.0 / len(survival)
    seen = observe(policy.ladder, "k3", [measured(survival, level="k3", drafts=drafts)])
    return step(policy, fresh("k3", -1e6), seen, Inputs(), 300.0)[0]


def test_up_needs_a_prediction_that_stands_above_the_limit_below() -> None:
    """.9 .6 .3 is 60 % at k3; the mean acceptance is .3^(1/3) = .669, so .201 and .134 follow: 2.135 of 5 is 43 %.

    The limit is 40 % and the margin 5, so that k5 is not entered, though the rule for going up holds.
    """
    decision = at_k3((0.9, 0.6, 0.3))
    assert (decision.action, decision.level, decision.rule) == (ActionName.HOLD, "k3", "high")
    assert "k5 would be lowered again by rule low" in decision.reason
    assert "acceptance 43 %" in decision.reason
    assert "limit of 45 %" in decision.reason


def test_up_is_held_while_the_prediction_is_inconclusive() -> None:
    """.84 .62 .39 is 62 %; mean .731, then .285 and .208: 2.343 of 5 is 47 %, 44 to 49 over 1,500 independent drafts.

    45,000 draft tokens at k3 are 75,000 at k5: 1.96 sqrt(.47 .53 / 1,500) = .025, too near 45 % to tell.
    """
    decision = at_k3((0.84, 0.62, 0.39))
    assert decision.action is ActionName.HOLD
    assert "too near the limit of 45 %" in decision.reason


def test_up_is_taken_once_the_prediction_is_sure() -> None:
    """.9 .7 .5 is 70 %; mean .794, then .397 and .315: 2.812 of 5 is 56 %, far over 45."""
    assert at_k3((0.9, 0.7, 0.5)).action is ActionName.STEP_UP


def test_a_wrong_prediction_costs_one_round_trip_and_then_growing_gaps() -> None:
    """.9 .7 .5 promises 56 % at k5, but nothing is accepted at positions 4 and 5 beyond .0: 2.1 of 5 is 42 %.

    With a limit of 45 % k5 is lost; afterwards k5 is only probed, after 7,200 s (one loss), 14,400 s and so on.
    """
    low = rule("low", {"acceptance": {"belowPercent": 45}}, "StepDown", for_seconds=0)
    policy = policy_of(rules=[low, HIGH])
    world = World({"small": (0.9, 0.7, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0), "lookup": flat(0.5)}, requests=240.0)
    target = Target(policy, world, "k3", pods=3, state=fresh("k3", -1e6))
    target.run(24 * 12)
    ups = [change for change in target.changes if change.decision.action is ActionName.STEP_UP]
    downs = [change for change in target.changes if change.decision.action is ActionName.STEP_DOWN]
    probes = [change.at for change in target.changes if change.decision.action is ActionName.PROBE]
    assert (len(ups), len(downs)) == (1, 1)
    gaps = [later - earlier for earlier, later in zip([downs[0].at, *probes], probes, strict=False)]
    # A lost probe takes some windows of its own; what grows is the rest.
    assert [gap // 3600 for gap in gaps] == [2.0, 4.0, 8.0]


def test_a_limit_that_keeps_a_wrong_level_for_a_day_does_not_make_it_a_good_one() -> None:
    """One change a day: k5 is entered on a wrong prediction and left a day later, and is only probed from then on."""
    low = rule("low", {"acceptance": {"belowPercent": 45}}, "StepDown", for_seconds=0)
    policy = policy_of(rules=[low, HIGH], guardrails={"maxChangesPerDay": 1})
    world = World({"small": (0.9, 0.7, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0), "lookup": flat(0.5)}, requests=240.0)
    target = Target(policy, world, "k3", pods=3, state=fresh("k3", -1e6))
    target.run(5 * 288)
    moves = [change.decision.action for change in target.changes if change.before != change.after]
    assert moves == [ActionName.STEP_UP, ActionName.STEP_DOWN]
    assert target.state.trials[0].losses > 1


def test_limits_on_rules_alone_leave_the_memory_of_holding() -> None:
    """While the cool-down holds a rule back, since when it holds is remembered, and it moves at once afterwards."""
    policy = policy_of(rules=[{**LOW, "forSeconds": 600}])
    world = World({"small": flat(0.2), "lookup": flat(0.2)})
    target = Target(policy, world, "k5", state=replace(fresh("k5", -1e6), changes=(200.0,)))
    target.run(4)
    assert [change.at for change in target.changes] == [1200.0]  # 200 + 900 s end at 1,100, within that window
