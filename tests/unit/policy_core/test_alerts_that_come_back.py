"""An alert that is over because of what was done about it fires again at the level that it was about."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from specloop_policy.decision import FiringAlert, Inputs, Override, PolicyState, ScheduledLevel, Trial
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


WAIT = "k5 was lost once and is tried again 7200 s after"


def test_why_it_is_not_gone_back_to_is_said() -> None:
    target = calm()
    said = [live(target, *alerts) for alerts in ((LOW,), (), (LOW,), (), ())]
    assert said[:4] == [
        "alert AcceptanceLow asks for k3 (was k5)",
        "alert AcceptanceLow is over: back to k5",
        "alert AcceptanceLow asks for k3 (was k5)",
        f"alert AcceptanceLow is over, but {WAIT}",
    ]
    assert said[4].endswith(f": no rule asks for a change; {WAIT}")


def waiting() -> Target:
    """At k3, and k5 is gone back to at 8,100 s: it was left at 900 s for an alert that had come back."""
    target = calm()
    for alerts in ((LOW,), (), (LOW,), ()):
        live(target, *alerts)
    assert (target.level, target.state.owed, target.now) == ("k3", "k5", 1200.0)
    return target


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
    [Inputs(override=Override("k3", by="ada")), Inputs(scheduled=ScheduledLevel("nightly", "k3"))],
    ids=["override", "schedule"],
)
def test_others_are_gone_back_from_however_often_they_come(wish: Inputs) -> None:
    """Neither a person nor a clock changes its mind for what was done."""
    target = calm()
    for _ in range(10):
        for inputs in (wish, Inputs()):
            target.inputs = inputs
            target.decide()
        assert (target.level, target.state.forced, target.state.trials) == ("k5", None, ())


@pytest.mark.parametrize(
    "wish", [Inputs(override=Override("k3", by="ada")), Inputs(scheduled=ScheduledLevel("n", "k3"))]
)
def test_others_leave_the_wait_as_it_was(wish: Inputs) -> None:
    """They come and go at k3, and k5 is gone back to when it would have been without them."""
    target = waiting()
    target.inputs = wish
    target.run(5)
    target.inputs = Inputs()
    assert [(one.at, one.after) for one in target.run(30)] == [(8100.0, "k5")]


def test_an_override_need_not_wait_and_afterwards_all_is_as_before() -> None:
    """A person knows more, for as long as the override lasts."""
    target = waiting()
    target.inputs = Inputs(override=Override("k5", by="ada"))
    target.decide()
    target.inputs = Inputs()
    assert target.decide().reason == "the override by ada is over: back to k3"
    assert [(one.at, one.after) for one in target.run(30)] == [(8100.0, "k5")]


def test_another_alert_in_the_wait_is_gone_back_from_at_once() -> None:
    """Nobody has heard of it before: off, back to k3, and k5 when it would have been without it."""
    target = waiting()
    off = FiringAlert("GpuOnFire", AlertActionType.DISABLE)
    assert live(target, off) == "alert GpuOnFire asks for disabled (was k3)"
    assert live(target) == "alert GpuOnFire is over: back to k3"
    assert [(one.at, one.after) for one in target.run(30)] == [(8100.0, "k5")]


def test_the_alert_itself_in_the_wait_asks_for_the_same_level_as_before() -> None:
    """One below k5, not one below k3."""
    target = waiting()
    assert live(target, LOW) == "alert AcceptanceLow asks for k3"
    assert target.level == "k3"


def test_the_alert_itself_never_raises_what_rules_have_lowered_in_the_wait() -> None:
    """One below k5 is above n-gram."""
    target = waiting()
    target.level, target.state = "ngram", replace(target.state, level="ngram")
    assert live(target, LOW) == "alert AcceptanceLow asks for ngram"


def test_rules_decide_in_the_wait() -> None:
    """At k3 too little is accepted now, whatever k5 waits for; then k5 has its try and is lowered as any level."""
    target = waiting()
    target.world = World({"small": flat(0.2), "lookup": flat(0.6)})
    changes = target.run(30)
    assert (changes[0].before, changes[0].after, changes[0].decision.rule) == ("k3", "ngram", "low")
    [back] = [one for one in changes if one.after == "k5"]
    assert back.at >= 8100.0
    assert changes[changes.index(back) + 1].decision.rule == "low"


def test_rules_raise_no_level_sooner() -> None:
    """What waits for an alert's sake waits for a rule too."""
    up = rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)
    target = waiting()
    target.policy = policy_of(rules=[up])
    assert [(one.at, one.after) for one in target.run(30)] == [(8100.0, "k5")]


def test_a_level_that_was_lost_long_ago_is_gone_back_to_at_once() -> None:
    """By rules, three times; the alert is the first, and its being over says nothing against k5."""
    old = replace(fresh("k5", -1e6), trials=(Trial("k5", 3, -1000.0),))
    target = calm(state=old)
    live(target, LOW)
    assert live(target) == "alert AcceptanceLow is over: back to k5"


def flicker(target: Target, alert: FiringAlert, fires: Callable[[str], bool], *others: FiringAlert) -> int:
    """A day of an alert that fires at some levels: how many changes there are."""
    before = len(target.changes)
    while target.now < 86400.0:
        target.inputs = replace(target.inputs, alerts=(*others, *((alert,) if fires(target.level) else ())))
        target.decide()
    return len(target.changes) - before


OFF = FiringAlert("GpuOnFire", AlertActionType.DISABLE)
GAPS_OF_A_DAY = 5
"""After 2, 4, 8 and 16 hours; the first time at once."""


@pytest.mark.parametrize("others", [(), (LOW,)], ids=["a schedule", "another alert"])
def test_what_else_is_asked_for_is_gone_back_to_later_and_later_too(others: tuple[FiringAlert, ...]) -> None:
    """k3 is asked for all the time, and an alert that turns off fires whenever it is not off."""
    target = calm()
    target.inputs = Inputs(scheduled=None if others else ScheduledLevel("office", "k3"))
    assert flicker(target, OFF, lambda level: level != "disabled", *others) <= 1 + 2 * GAPS_OF_A_DAY + 1


def test_an_alert_that_raises_and_ends_by_that_is_followed_later_and_later() -> None:
    """It fires at k3 and not at k5."""
    target = calm("k3")
    quiet = FiringAlert("Quiet", AlertActionType.STEP_UP)
    assert flicker(target, quiet, lambda level: level == "k3") <= 2 * GAPS_OF_A_DAY + 1


def test_two_alerts_about_one_fault_are_gone_back_from_later_and_later_too() -> None:
    """One steps down at k5, and the other turns off at k3: k5 is lost by the first of the two steps."""
    target = calm()
    burns = FiringAlert("LatencyBurns", AlertActionType.DISABLE)
    while target.now < 86400.0:
        live(target, *{"k5": (LOW,), "k3": (burns,)}.get(target.level, ()))
    k5 = [change.at for change in target.changes if change.after == "k5"]
    assert 1 < len(k5) <= GAPS_OF_A_DAY


@pytest.mark.parametrize(
    "wish",
    [Inputs(scheduled=ScheduledLevel("office", "k3")), Inputs(alerts=(OFF,)), Inputs(override=Override("k3"))],
    ids=["schedule", "disabling alert", "override"],
)
def test_what_rules_have_lost_is_gone_to_where_others_ask_for_it(wish: Inputs) -> None:
    """That a canary of it was slower, or a rule lowered it, says nothing against a person, a clock or an emergency."""
    level = "disabled" if wish.alerts else "k3"
    state = replace(fresh("ngram", 0.0), trials=(Trial("k3", 1, 0.0), Trial("disabled", 1, 0.0)))
    target = calm("ngram", state)
    target.inputs = wish
    target.decide()
    assert target.level == level
