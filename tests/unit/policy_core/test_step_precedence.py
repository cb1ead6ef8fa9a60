"""Who may set the level over the heads of the rules, in order, and how it is given back."""

from dataclasses import replace

import pytest

from specloop_policy.decision import (
    ActionName,
    FailedChange,
    FiringAlert,
    Inputs,
    Override,
    Probe,
    ScheduledLevel,
)
from specloop_policy.ladder import Ladder, Level
from specloop_policy.model import AlertActionType
from specloop_policy.observation import Observation, Workload
from specloop_policy.policy import Policy
from specloop_policy.step import fresh, step
from tests.support.policies import LEVELS, policy_of, rule
from tests.support.windows import constant, measured, observe
from tests.support.worlds import Target, World, flat

RULES = [rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)]
LADDER = [*LEVELS[:1], {"name": "k4", "drafter": "small", "tokens": 4}, *LEVELS[1:]]
POLICY = policy_of(rules=RULES, levels=LADDER)
"""k5, k4, k3, ngram, disabled; the rule steps down at once."""

SUSPENDING = FiringAlert("Maintenance", AlertActionType.SUSPEND)
OVERRIDE = Override("k3", until=1000.0, by="ada")
DISABLING = FiringAlert("GpuOnFire", AlertActionType.DISABLE)
SCHEDULED = ScheduledLevel("nightly-batch", "ngram")
ALERTING = FiringAlert("Slow", AlertActionType.SWITCH_TO, "k4")

LAYERS = [
    # Each asks for another level than all below it; the rule at the end asks for k4 by one step.
    ("suspend", ActionName.HOLD, "k5", "suspended"),
    ("override", ActionName.SWITCH_TO, "k3", "override by ada"),
    ("disabling alert", ActionName.DISABLE, "disabled", "alert GpuOnFire"),
    ("schedule", ActionName.SWITCH_TO, "ngram", "schedule nightly-batch"),
    ("other alert", ActionName.SWITCH_TO, "k4", "alert Slow"),
    ("rule", ActionName.STEP_DOWN, "k4", "rule low"),
]


@pytest.mark.parametrize("top", range(len(LAYERS)), ids=[layer[0] for layer in LAYERS])
def test_the_highest_that_speaks_decides(top: int) -> None:
    """Suspend, override, alert that disables, schedule, other alert, rule: each wins over all that stand below it."""
    speaking = {name for name, *_ in LAYERS[top:]}
    policy = replace(POLICY, suspended="suspend" in speaking)
    inputs = Inputs(
        override=OVERRIDE if "override" in speaking else None,
        scheduled=SCHEDULED if "schedule" in speaking else None,
        alerts=(
            *((ALERTING,) if "other alert" in speaking else ()),
            *((DISABLING,) if "disabling alert" in speaking else ()),
        ),
    )
    seen = observe(policy.ladder, "k5", [measured(constant(0.2, 5))])
    decision, _ = step(policy, fresh("k5", -1e6), seen, inputs, 300.0)
    _, action, level, words = LAYERS[top]
    assert (decision.action, decision.level) == (action, level)
    assert words in decision.reason


def test_alerts_decide_in_their_own_order_but_one_that_disables_comes_first() -> None:
    """The first of two alerts that ask for a level wins; a later one that disables wins over both."""
    other = FiringAlert("Slower", AlertActionType.SWITCH_TO, "ngram")
    seen = observe(POLICY.ladder, "k5", [measured(constant(0.6, 5))])
    for alerts, level in (
        ((ALERTING, other), "k4"),
        ((other, ALERTING), "ngram"),
        ((other, ALERTING, DISABLING), "disabled"),
    ):
        assert step(POLICY, fresh("k5", -1e6), seen, Inputs(alerts=alerts), 300.0)[0].level == level


def test_an_alert_that_suspends_holds_everything() -> None:
    """Not even an override moves the level while it fires."""
    seen = observe(POLICY.ladder, "k5", [measured(constant(0.2, 5))])
    inputs = Inputs(override=OVERRIDE, alerts=(SUSPENDING,))
    decision, state = step(POLICY, fresh("k5", -1e6), seen, inputs, 300.0)
    assert (decision.action, decision.reason) == (ActionName.HOLD, "suspended by alert Maintenance")
    assert state == fresh("k5", -1e6)


@pytest.mark.parametrize(
    ("action", "level"), [(AlertActionType.STEP_DOWN, "k3"), (AlertActionType.STEP_UP, "k5")], ids=str
)
def test_an_alert_steps_once_from_where_the_level_was(action: AlertActionType, level: str) -> None:
    """From k4 one step, and one only, however long it fires; then back."""
    target = calm(Inputs(alerts=(FiringAlert("Slow", action),)))
    target.run(5)
    assert [(change.before, change.after) for change in target.changes] == [("k4", level)]
    target.inputs = Inputs()
    target.run(1)
    assert target.level == "k4"


def test_an_alert_that_only_asks_to_look_changes_nothing() -> None:
    """EvaluateNow is for whoever calls `step`."""
    target = calm(Inputs(alerts=(FiringAlert("LookAtThis", AlertActionType.EVALUATE_NOW),)))
    assert target.run(3) == []


def calm(inputs: Inputs, policy: Policy = POLICY) -> Target:
    """A target at k4 whose rules ask for nothing: 60 % at every K."""
    world = World({"small": flat(0.6), "lookup": flat(0.6)})
    return Target(policy, world, "k4", inputs=inputs, state=fresh("k4", -1e6))


def test_an_override_holds_until_it_expires_and_is_given_back() -> None:
    """Until 1,000 s: at 300 s to k3, kept at 600 and 900, back to k4 at 1,200."""
    target = calm(Inputs(override=OVERRIDE))
    decisions = [target.decide() for _ in range(5)]
    assert [decision.action for decision in decisions] == [
        ActionName.SWITCH_TO,
        ActionName.HOLD,
        ActionName.HOLD,
        ActionName.SWITCH_TO,
        ActionName.HOLD,
    ]
    assert decisions[0].reason == "the override by ada asks for k3 (was k4)"
    assert decisions[1].reason == "the override by ada asks for k3"
    assert decisions[3].reason == "the override by ada is over: back to k4"
    assert (target.level, target.state.forced) == ("k4", None)


def test_an_override_without_an_end_holds_until_it_is_taken_back() -> None:
    """`until` None lasts."""
    target = calm(Inputs(override=Override("ngram")))
    target.run(50)
    assert [change.after for change in target.changes] == ["ngram"]
    target.inputs = Inputs()
    target.run(1)
    assert target.level == "k4"


def test_an_override_for_a_level_that_the_ladder_lacks_is_no_wish() -> None:
    """Rules and schedules go on."""
    target = calm(Inputs(override=Override("k7"), scheduled=SCHEDULED))
    target.run(1)
    assert target.level == "ngram"


def test_the_level_before_the_first_of_several_wishes_is_given_back() -> None:
    """A schedule from k4 to ngram, an override on top, the schedule again, nothing: back to k4, not to ngram."""
    target = calm(Inputs(scheduled=SCHEDULED))
    target.run(1)
    target.inputs = Inputs(scheduled=SCHEDULED, override=Override("k3", by="ada"))
    target.run(1)
    target.inputs = Inputs(scheduled=SCHEDULED)
    target.run(1)
    target.inputs = Inputs()
    target.run(2)
    assert [change.after for change in target.changes] == ["ngram", "k3", "ngram", "k4"]


def test_a_wish_for_the_present_level_keeps_it_against_the_rules() -> None:
    """Nothing is done, and the rule that would step down waits until the wish is over."""
    target = calm(Inputs(override=Override("k4", by="ada")))
    target.world = World({"small": flat(0.2), "lookup": flat(0.2)})
    assert target.run(5) == []
    target.inputs = Inputs()
    assert [change.after for change in target.run(2)] == ["k3"]


def test_wishes_are_no_changes_by_rules() -> None:
    """An override there and back inside one cool-down leaves the rules their one change."""
    target = calm(Inputs(override=Override("k3", until=500.0)))
    target.run(2)
    assert (target.level, target.state.changes) == ("k4", ())


def test_a_wish_ends_a_probe() -> None:
    """What is being tried goes back when somebody else sets the level, even to the level that the rest is at."""
    target = calm(Inputs(override=Override("disabled", by="ada")))
    target.level, target.probed, target.pods = "disabled", "ngram", 3
    target.state = replace(fresh("disabled", -1e6), probe=Probe("ngram", 0.0))
    decision = target.decide()
    assert (decision.action, decision.level) == (ActionName.DISABLE, "disabled")
    assert target.state.probe is None
    assert target.probed is None


def test_suspension_leaves_a_probe_and_the_memory_alone() -> None:
    """Everything stays as it is, the tried replica too."""
    target = calm(Inputs(), policy=replace(POLICY, suspended=True))
    target.level, target.probed, target.pods = "disabled", "ngram", 3
    target.state = replace(fresh("disabled", -1e6), probe=Probe("ngram", 0.0))
    before = target.state
    assert target.run(20) == []
    assert target.state == before


FAILED = FailedChange("k3", "sha256:1", "the new process did not become healthy in 1800 s")


def test_a_failed_change_is_taken_back_and_its_key_is_not_tried_again() -> None:
    """k3 did not come up: back at k5 in words; the rule then steps past k3 as long as its key is the same."""
    policy = policy_of(rules=RULES)
    back = observe(policy.ladder, "k5", [measured(constant(0.2, 5))])
    keys = (("k5", "sha256:0"), ("k3", "sha256:1"))
    decision, state = step(policy, fresh("k3", 200.0), back, Inputs(failed=FAILED, keys=keys), 300.0)
    assert (decision.action, decision.level) == (ActionName.SWITCH_TO, "k5")
    assert decision.reason == (
        "k3 failed (the new process did not become healthy in 1800 s): back at k5; "
        "it is not tried again until its configuration or image changes"
    )
    assert (state.level, state.quarantine) == ("k5", (FAILED,))
    later = observe(policy.ladder, "k5", [measured(constant(0.2, 5), end=900.0)])
    assert step(policy, state, later, Inputs(failed=FAILED, keys=keys), 900.0)[0].level == "ngram"
    mended = (("k5", "sha256:0"), ("k3", "sha256:2"))
    assert step(policy, state, later, Inputs(failed=FAILED, keys=mended), 900.0)[0].level == "k3"


def test_a_failed_change_is_told_once() -> None:
    """The same failure, though worded anew, is news once."""
    policy = policy_of(rules=RULES)
    state = replace(fresh("k5", -1e6), quarantine=(FAILED,))
    again = replace(FAILED, reason="did not become healthy in 1801 s")
    seen = observe(policy.ladder, "k5", [measured(constant(0.6, 5))])
    decision, after = step(policy, state, seen, Inputs(failed=again), 300.0)
    assert decision.action is ActionName.HOLD
    assert after == state


def test_a_quarantined_level_is_neither_probed_nor_stepped_up_to() -> None:
    """Up is no way round: `k5` failed, so 90 % at k3 stays at k3, and a failed `ngram` is not tried from off."""
    policy = policy_of(
        rules=[*RULES, rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)],
    )
    state = replace(fresh("k3", -1e6), quarantine=(FailedChange("k5", "a", ""),))
    seen = observe(policy.ladder, "k3", [measured((0.9, 0.9, 0.9), level="k3")])
    assert step(policy, state, seen, Inputs(), 300.0)[0].action is ActionName.HOLD
    off = Target(policy, World({"small": flat(0.6), "lookup": flat(0.6)}), "disabled", state=fresh("disabled", 0.0))
    off.state = replace(off.state, quarantine=(FailedChange("ngram", "a", ""),))
    (probe,) = off.run(12)
    assert probe.decision.level == "k3"


def test_a_wish_for_a_quarantined_level_is_not_carried_out() -> None:
    """An override that failed would fail again, and again at every tick: it holds and says why."""
    policy = policy_of(rules=RULES)
    state = replace(fresh("k5", -1e6), quarantine=(FAILED,))
    seen = observe(policy.ladder, "k5", [measured(constant(0.6, 5))])
    wishing = Inputs(override=Override("k3", by="ada"), failed=FAILED, keys=(("k3", "sha256:1"),))
    decision, after = step(policy, state, seen, wishing, 300.0)
    assert (decision.action, decision.level) == (ActionName.HOLD, "k5")
    assert "the override by ada asks for k3" in decision.reason
    assert "did not become healthy" in decision.reason
    assert after == state
    mended = replace(wishing, keys=(("k3", "sha256:2"),))
    assert step(policy, state, seen, mended, 300.0)[0].level == "k3"


def test_a_wish_for_a_level_that_only_rules_are_kept_from_is_carried_out() -> None:
    """It served slower than another: whoever asks for it all the same has a reason."""
    policy = policy_of(rules=RULES)
    state = replace(fresh("k5", -1e6), quarantine=(replace(FAILED, until=1e6, rules_only=True),))
    low = observe(policy.ladder, "k5", [measured(constant(0.2, 5))])
    by_rules, _ = step(policy, state, low, Inputs(keys=(("k3", "sha256:1"),)), 300.0)
    assert by_rules.level not in ("k3", "k5")
    wishing = Inputs(override=Override("k3", by="ada"), keys=(("k3", "sha256:1"),))
    assert step(policy, state, low, wishing, 300.0)[0].level == "k3"


def test_recommend_decides_and_remembers_no_change() -> None:
    """The same recommendation at every window, and the memory knows of none carried out."""
    target = Target(replace(POLICY, enforce=False), World({"small": flat(0.2)}), "k5", state=fresh("k5", -1e6))
    changes = target.run(8)
    assert [change.decision.level for change in changes] == ["k4"] * 8
    assert (target.state.level, target.state.changes, target.state.changed_at) == ("k5", (), -1e6)


def test_recommend_remembers_since_when_rules_hold() -> None:
    """A rule that stopped and began again while another recommends waits for its whole duration again.

    `busy` asks for 1,800 s: it holds from 300 to 600 s, not from 900 to 1,500, and again from 1,800 s on, so that it
    is ripe at 3,600 s and not before; `low` recommends k4 meanwhile.
    """
    busy = rule("busy", {"running": {"above": 32}}, "Disable", for_seconds=1800)
    low = rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=300)
    policy = replace(policy_of(rules=[busy, low], levels=LADDER), enforce=False)
    state, recommended = fresh("k5", -1e6), []
    for place in range(1, 13):
        end, running = 300.0 * place, 8.0 if 3 <= place <= 5 else 40.0
        seen = observe(policy.ladder, "k5", [measured(constant(0.2, 5), running=running, end=end)])
        decision, state = step(policy, state, seen, Inputs(), end)
        recommended.append(decision.level)
    assert recommended == ["k5", *["k4"] * 10, "disabled"]


def test_a_level_that_left_the_ladder_is_unmanaged() -> None:
    """The policy was edited under a target that runs k4."""
    policy = policy_of(rules=RULES)
    seen = Observation((measured(constant(0.2, 4), level="k4"),), Workload("k4"))
    decision, _ = step(policy, fresh("k4", -1e6), seen, Inputs(), 300.0)
    assert decision.action is ActionName.HOLD
    assert decision.reason.startswith("what runs (k4) is no level of the ladder")


def test_a_ladder_of_one_has_nothing_to_decide() -> None:
    """Only `disabled`: hold, whatever is asked."""
    policy = replace(POLICY, ladder=Ladder((Level("disabled"),)), rules=POLICY.rules)
    world = World({})
    target = Target(policy, world, "disabled", state=fresh("disabled", -1e6), inputs=Inputs(alerts=(DISABLING,)))
    assert target.run(20) == []
