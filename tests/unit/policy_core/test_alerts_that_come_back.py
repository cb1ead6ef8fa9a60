"""An alert that is over because of what was done about it fires again at the level that it was about."""

from dataclasses import replace

import pytest

from specloop_policy.decision import ActionName, FiringAlert, Inputs, Override, PolicyState, ScheduledLevel
from specloop_policy.model import AlertActionType
from specloop_policy.step import fresh
from tests.support.policies import policy_of, rule
from tests.support.worlds import Target, World, flat

POLICY = policy_of(rules=[rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)])
"""k5, k3, ngram, disabled; windows of 300 s; what was lost is tried again after an hour, doubled at each loss, at most
after a day."""
LOW = FiringAlert("AcceptanceLow", AlertActionType.STEP_DOWN)
WEEK = 7 * 86400.0


def calm(level: str = "k5", state: PolicyState | None = None) -> Target:
    """A target whose rules ask for nothing: 60 % at every K."""
    world = World({"small": flat(0.6), "lookup": flat(0.6)})
    return Target(POLICY, world, level, state=state or fresh(level, -1e6))


def live(target: Target, *alerts: FiringAlert) -> str:
    """One window with these alerts, and what was said at its end."""
    target.inputs = Inputs(alerts=alerts)
    return target.decide().reason


def test_an_alert_that_its_own_action_ends_leads_to_fewer_and_fewer_changes() -> None:
    """It fires at k5 and never at k3.  Twice 3,600 s after it was left k5 has another try, then four times, and so on.

    Back at 600 s, at once.  Left at 900 s and back 7,200 s later, at 8,100; left at 8,400 and back 14,400 s later; then
    28,800, 57,600, and a day each.
    """
    target = calm()
    while target.now < WEEK:
        live(target, *((LOW,) if target.level == "k5" else ()))
    back = [change.at for change in target.changes if change.after == "k5"]
    expected, left = [600.0], 900.0
    for gap in (7200.0, 14400.0, 28800.0, 57600.0, 86400.0, 86400.0, 86400.0, 86400.0, 86400.0):
        expected.append(left + gap)
        left = expected[-1] + 300.0
    assert back == expected
    assert len(target.changes) == 2 * len(expected) + 1, "it was left once more"


def test_why_it_is_not_gone_back_to_is_said() -> None:
    target = calm()
    said = [live(target, *alerts) for alerts in ((LOW,), (), (LOW,), (), ())]
    assert said == [
        "alert AcceptanceLow asks for k3 (was k5)",
        "alert AcceptanceLow is over: back to k5",
        "alert AcceptanceLow asks for k3 (was k5)",
        *["alert AcceptanceLow is over, but k5 was lost once and is tried again 7200 s after"] * 2,
    ]


def test_the_time_that_it_fires_counts() -> None:
    """After two hours at k3 it is gone back to at once."""
    target = calm()
    for alerts in ((LOW,), (), *[(LOW,)] * 25):
        live(target, *alerts)
    assert live(target) == "alert AcceptanceLow is over: back to k5"


def test_after_a_day_without_it_all_is_forgotten() -> None:
    """A day, an hour's gap, and what evidence takes: two days are more."""
    target = calm()
    for alerts in ((LOW,), (), *[()] * (2 * 288)):
        live(target, *alerts)
    live(target, LOW)
    assert live(target) == "alert AcceptanceLow is over: back to k5"
    assert target.state.trials == ()


@pytest.mark.parametrize(
    "wish",
    [
        Inputs(override=Override("k3", by="ada")),
        Inputs(scheduled=ScheduledLevel("nightly", "k3")),
        Inputs(alerts=(FiringAlert("Quiet", AlertActionType.STEP_UP),)),
    ],
    ids=["override", "schedule", "alert that raises"],
)
def test_others_are_gone_back_from_however_often_they_come(wish: Inputs) -> None:
    """Neither a person nor a clock changes its mind for what was done; and what was raised was not left for harm."""
    level = "k3" if wish.alerts else "k5"
    target = calm(level)
    for _ in range(10):
        for inputs in (wish, Inputs()):
            target.inputs = inputs
            target.decide()
        assert (target.level, target.state.forced, target.state.trials) == (level, None, ())


def test_an_override_ends_the_wait() -> None:
    """A person knows more; afterwards the level is where it was before the alert."""
    target = calm()
    for alerts in ((LOW,), (), (LOW,), ()):
        live(target, *alerts)
    assert target.level == "k3"
    target.inputs = Inputs(override=Override("k5", by="ada"))
    target.decide()
    assert target.level == "k5"
    target.inputs = Inputs()
    assert target.decide().reason == "the override by ada is over"
    assert (target.level, target.state.forced) == ("k5", None)


def test_rules_do_not_bring_it_back_sooner() -> None:
    """The level stays with whoever waits, also where a rule would raise it."""
    up = rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)
    target = replace(calm(), policy=policy_of(rules=[up]))
    for alerts in ((LOW,), (), (LOW,)):
        live(target, *alerts)
    actions = []
    for _ in range(23):
        target.inputs = Inputs()
        actions.append(target.decide().action)
    assert set(actions) == {ActionName.HOLD}
    assert live(target) == "alert AcceptanceLow is over: back to k5"
