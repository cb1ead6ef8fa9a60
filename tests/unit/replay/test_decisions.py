"""When a replay decides, by arithmetic: windows of 300 s on a grid that begins with the recording."""

from specloop_policy.decision import ActionName, Inputs, ScheduledLevel
from specloop_policy.observation import Outcome
from tests.unit.replay.fleets import HIGH, LOW, START, Fleet, changes, policy, replayed

LADDER = policy().ladder
K5, K3, NGRAM, DISABLED = LADDER.levels


def collapse(seconds: float) -> float:
    """Acceptance of 70 %, and of 20 % from 3000 s on."""
    return 0.7 if seconds <= 3000.0 else 0.2


def test_a_rule_is_followed_when_its_first_window_is_over_and_its_duration_has_passed() -> None:
    """The first low window ends 300 s after the collapse, and the rule asks for 600 s more: 3000 + 300 + 600."""
    recording = Fleet(K5, lambda seconds, level: collapse(seconds)).run(6000.0).recording
    found, _ = replayed(recording, policy(LOW))
    assert [(one.seconds, one.before, one.decision.level) for one in found.changes] == [(3900.0, "k5", "k3")]
    assert found.changes[0].at == START + 3900.0
    assert found.changes[0].decision.rule == "acceptance-low"


def test_a_source_that_is_late_makes_decisions_late_by_as_much() -> None:
    """Ten seconds late: the first multiple of 15 s at which the sample of 3900 s is seen is 3915."""
    recording = Fleet(K5, lambda seconds, level: collapse(seconds)).run(6000.0).recording
    found, _ = replayed(recording, policy(LOW), lag_seconds=10.0)
    assert [one.seconds for one in found.changes] == [3915.0]


def test_a_rare_look_decides_at_its_next_turn() -> None:
    """Looking every 240 s, the first look at or after 3900 s is the one at 17 x 240 = 4080 s."""
    recording = Fleet(K5, lambda seconds, level: collapse(seconds)).run(6000.0).recording
    found, _ = replayed(recording, policy(LOW, intervalSeconds=240))
    assert [one.seconds for one in found.changes] == [4080.0]


def test_a_recommendation_that_nobody_follows_is_told_once_for_as_long_as_it_stands() -> None:
    """From 3900 to the last tick at 9000 s there are 341 ticks, and one recommendation."""
    recording = Fleet(K5, lambda seconds, level: collapse(seconds)).run(9000.0).recording
    found, told = replayed(recording, policy(LOW))
    assert len(list(changes(told))) == (9000 - 3900) // 15 + 1
    assert [(one.seconds, one.until_seconds) for one in found.changes] == [(3900.0, 9000.0)]
    assert found.changes[0].carried_out is False


def test_a_recommendation_ends_when_its_reason_does() -> None:
    """Acceptance is back at 70 % from 6000 s on: the window that ends at 6300 s ends it, so 6285 s was the last."""
    recording = Fleet(K5, lambda seconds, level: 0.2 if 3000.0 < seconds <= 6000.0 else 0.7).run(9000.0).recording
    found, _ = replayed(recording, policy(LOW))
    assert [(one.seconds, one.until_seconds) for one in found.changes] == [(3900.0, 6285.0)]


def test_a_break_shorter_than_the_cool_down_does_not_end_a_recommendation() -> None:
    """One good window at 5100 s starts the rule's 600 s anew: asked for until 5085, and again from 6000 s on."""
    recording = Fleet(K5, lambda seconds, level: 0.9 if 4800.0 < seconds <= 5100.0 else collapse(seconds)).run(9000.0)
    guardrails = {"probe": {"afterSeconds": 86400, "maxSeconds": 86400}}
    found, told = replayed(recording.recording, policy(LOW, guardrails={"cooldownSeconds": 930, **guardrails}))
    assert [(one.seconds, one.until_seconds) for one in found.changes] == [(3900.0, 9000.0)]
    asked = [seconds for seconds, _, _ in changes(told)]
    assert (5085.0 in asked, 5100.0 in asked, 5985.0 in asked, 6000.0 in asked) == (True, False, False, True)
    found, _ = replayed(recording.recording, policy(LOW, guardrails={"cooldownSeconds": 900, **guardrails}))
    assert [(one.seconds, one.until_seconds) for one in found.changes] == [(3900.0, 5085.0), (6000.0, 9000.0)]


def test_whether_a_late_recommendation_was_carried_out_is_not_known() -> None:
    """The recording ends 900 s after the decision, and a roll-out may take 1800 s."""
    recording = Fleet(K5, lambda seconds, level: collapse(seconds)).run(4800.0).recording
    found, _ = replayed(recording, policy(LOW))
    assert [one.carried_out for one in found.changes] == [None]
    found, _ = replayed(recording, policy(LOW), deadline_seconds=900.0)
    assert [one.carried_out for one in found.changes] == [False]


def test_scrapes_that_fail_lead_to_holds_and_the_rule_begins_anew() -> None:
    """Silent from 3400 to 4000 s: the window that ends at 4200 s is the first again, and 600 s later it is 4800 s."""
    fleet = Fleet(K5, lambda seconds, level: collapse(seconds), silent=lambda seconds, pod: 3400 < seconds < 4000)
    found, told = replayed(fleet.run(6000.0).recording, policy(LOW))
    assert [one.seconds for one in found.changes] == [4800.0]
    at_3900 = next(decision for seconds, decision in told if seconds == 3900.0)
    assert (at_3900.action, at_3900.reason.partition(":")[0]) == (ActionName.HOLD, "Stale")
    assert found.outcomes[Outcome.STALE] == 4  # two pods, each at 3615 and at 3900 s


def test_a_restart_leads_to_a_hold_and_the_rule_begins_anew() -> None:
    """The one pod restarts in the window that ends at 3600 s: 3900 s is the first low one after it, 4500 s is ripe."""
    fleet = Fleet(K5, lambda seconds, level: collapse(seconds), pods=1).run(3450.0)
    fleet.restart("pod-0")
    found, told = replayed(fleet.run(2550.0).recording, policy(LOW))
    assert [one.seconds for one in found.changes] == [4500.0]
    at_3600 = next(decision for seconds, decision in told if seconds == 3600.0)
    assert (at_3600.action, at_3600.reason.partition(":")[0]) == (ActionName.HOLD, "Reset")
    assert found.outcomes[Outcome.RESET] == 1


def test_a_schedule_that_the_fleet_did_not_keep_is_one_recommendation() -> None:
    """From 1800 to 3600 s, which is the first look at which it is over."""
    recording = Fleet(K5, lambda seconds, level: 0.7).run(6000.0).recording
    found, _ = replayed(recording, policy(LOW), inputs=nightly)
    assert [(one.seconds, one.until_seconds, one.decision.level) for one in found.changes] == [
        (1800.0, 3585.0, "disabled")
    ]
    assert found.changes[0].decision.reason == "schedule nightly asks for disabled (was k5)"


def test_a_schedule_that_the_fleet_kept_ends_with_the_way_back() -> None:
    """Two pods are changed one after the other, 60 s each, from the next scrapes on."""
    fleet = Fleet(K5, lambda seconds, level: 0.7).run(1785.0)
    for at, level in ((1800.0, DISABLED), (3600.0, K5)):
        fleet.apply({one.name: level for one in fleet.running})
        fleet.run(at + 1785.0 - (fleet.at - START))
    found, _ = replayed(fleet.recording, policy(LOW), inputs=nightly)
    assert [(one.seconds, one.before, one.decision.level, one.carried_out) for one in found.changes] == [
        (1800.0, "k5", "disabled", True),
        (3600.0, "disabled", "k5", True),
    ]


def nightly(now: float) -> Inputs:
    """A schedule from 1800 to 3600 s after the start."""
    inside = 1800.0 <= now - START < 3600.0
    return Inputs(scheduled=ScheduledLevel("nightly", "disabled") if inside else None)


def test_a_probe_that_nobody_made_is_one_recommendation() -> None:
    """At n-gram lookup nothing says how k3 would do: tried 1200 s after the level was seen first, at 15 s."""
    recording = Fleet(NGRAM, lambda seconds, level: 0.7).run(6000.0).recording
    found, _ = replayed(recording, policy(LOW, HIGH, guardrails={"probe": {"afterSeconds": 1200}}))
    (one,) = found.changes
    assert (one.decision.action, one.before, one.decision.level) == (ActionName.PROBE, "ngram", "k3")
    assert one.seconds == 1500.0  # the first end of a window after 15 + 1200
    assert (one.carried_out, one.until_seconds) == (False, 6000.0)


def test_no_sample_means_no_decision() -> None:
    found, told = replayed(Fleet(K5, lambda seconds, level: 0.7).run(15.0).recording, policy(LOW), end=START)
    assert (told, found.ticks, found.changes, found.stays) == ([], 0, [], [])


def test_what_each_round_of_windows_showed_is_kept_for_a_report() -> None:
    """Two pods, 300 s: 70 % accepted, four requests running, a quarter of the requests above 0.6."""
    fleet = Fleet(K5, lambda seconds, level: 0.7, hot=lambda seconds: 0.25)
    found, _ = replayed(fleet.run(1800.0).recording, policy(LOW))
    look = found.looks[2]
    assert look.acceptance is not None
    assert look.hot is not None
    assert (look.level, round(look.acceptance.value, 9), round(look.hot.value, 9), look.running) == ("k5", 0.7, 0.25, 4)
    assert 890.0 <= look.at <= 930.0
    assert look.acceptance.low < 0.7 < look.acceptance.high
