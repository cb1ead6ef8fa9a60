"""What the recording says of a decision: carried out, its memory is kept; not carried out, nothing is remembered."""

from collections.abc import Iterator

import pytest

from specloop_engine.sample import Sample
from specloop_policy.decision import ActionName, Inputs
from specloop_policy.ladder import Level
from specloop_sim.recordings.recorded import Wanted
from specloop_sim.recordings.replay import replay
from tests.support.policies import rule
from tests.unit.replay.fleets import HIGH, LOW, START, Fleet, changes, govern, policy, replayed

K5, K3, NGRAM, DISABLED = policy().ladder.levels
AT_ONCE = rule("acceptance-low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)
PROBING = {"cooldownSeconds": 0, "probe": {"afterSeconds": 1200, "maxSeconds": 86400}}


def cooled(seconds: int) -> dict[str, object]:
    """Guardrails with this cool-down, and no probe for twenty days."""
    return {"cooldownSeconds": seconds, "probe": {"afterSeconds": 86400 * 20, "maxSeconds": 86400 * 20}}


def test_after_a_change_that_was_carried_out_the_cool_down_holds() -> None:
    """Low from the start: down at the end of the first window, and not again before 300 + 1800 s."""
    ours = policy(AT_ONCE, guardrails=cooled(1800))
    fleet = Fleet(K5, lambda seconds, level: 0.2)
    govern(fleet, ours, 3000.0)
    found, _ = replayed(fleet.recording, ours)
    assert [(one.seconds, one.before, one.decision.level) for one in found.changes] == [
        (300.0, "k5", "k3"),
        (2100.0, "k3", "ngram"),
    ]
    assert found.changes[0].carried_out is True


def test_a_change_that_was_carried_out_ends_when_every_pod_is_there() -> None:
    """Decided at 300 s; two pods are away for 60 s each, the second, scraped a third of a second earlier, to 435 s."""
    ours = policy(AT_ONCE, guardrails=cooled(86400))
    fleet = Fleet(K5, lambda seconds, level: 0.2)
    govern(fleet, ours, 900.0)
    found, _ = replayed(fleet.recording, ours)
    assert found.changes[0].until_seconds == pytest.approx(435.0 - 1.0 / 3.0)
    assert [(one.level, one.decided) for one in found.stays] == [("k5", False), ("k3", True)]
    assert found.stays[0].end == found.stays[1].start == 435.0


def test_no_decision_is_taken_while_a_change_is_under_way() -> None:
    ours = policy(AT_ONCE, guardrails=cooled(86400))
    fleet = Fleet(K5, lambda seconds, level: 0.2)
    govern(fleet, ours, 900.0)
    _, told = replayed(fleet.recording, ours)
    assert [seconds for seconds, _ in told if 285.0 <= seconds <= 450.0] == [285.0, 300.0, 435.0, 450.0]


def test_a_change_that_comes_after_the_deadline_was_somebody_elses() -> None:
    """Asked for at 3900 s, done at 6000 s: more than 1800 s later, so that the level is adopted, not followed."""
    fleet = Fleet(K5, lambda seconds, level: 0.7 if seconds <= 3000.0 else 0.2).run(5985.0)
    fleet.apply({one.name: K3 for one in fleet.running})
    found, _ = replayed(fleet.run(3000.0).recording, policy(LOW))
    first = found.changes[0]
    assert (first.seconds, first.decision.level, first.carried_out) == (3900.0, "k3", False)
    assert [(one.level, one.decided) for one in found.stays] == [("k5", False), ("k3", False)]


def test_the_same_change_within_the_deadline_was_carried_out() -> None:
    """Asked for at 3900 s, the last pod there at 5700 - 1/3 s: just within 1800 s."""
    fleet = Fleet(K5, lambda seconds, level: 0.7 if seconds <= 3000.0 else 0.2).run(5565.0)
    fleet.apply({one.name: K3 for one in fleet.running})
    found, _ = replayed(fleet.run(3000.0).recording, policy(LOW))
    assert (found.changes[0].seconds, found.changes[0].carried_out) == (3900.0, True)
    assert found.changes[0].until_seconds == pytest.approx(5700.0 - 1.0 / 3.0)
    found, _ = replayed(fleet.recording, policy(LOW), deadline_seconds=1790.0)
    assert (found.changes[0].seconds, found.changes[0].carried_out) == (3900.0, False)


def test_another_level_than_the_one_decided_on_is_adopted() -> None:
    """Somebody switched speculation off where the policy asked for k3: evidence begins anew there."""
    fleet = Fleet(K5, lambda seconds, level: 0.7 if seconds <= 3000.0 else 0.2).run(4500.0)
    fleet.apply({one.name: DISABLED for one in fleet.running})
    found, told = replayed(fleet.run(3000.0).recording, policy(LOW))
    assert [(one.decision.level, one.carried_out) for one in found.changes] == [("k3", False)]
    assert told[-1][1].reason.startswith("speculation is off")


def test_a_level_outside_the_ladder_is_left_alone() -> None:
    fleet = Fleet(Level("k2", K5.drafter, 2), lambda seconds, level: 0.2)
    found, told = replayed(fleet.run(3000.0).recording, policy(LOW))
    assert found.changes == []
    assert [(one.level, one.setting) for one in found.stays] == [(None, "K = 2")]
    assert told[-1][1].reason.startswith("what runs (K = 2) is no level of the ladder")


@pytest.mark.parametrize("pods", [1, 3])
def test_a_probe_that_was_made_and_won_is_followed(pods: int) -> None:
    """The first pod tries k3, where 70 % are accepted; then all of them go there."""
    ours = policy(LOW, HIGH, guardrails=PROBING)
    fleet = Fleet(NGRAM, lambda seconds, level: 0.7 if level.tokens == 3 else 0.5, pods=pods)
    told = govern(fleet, ours, 4000.0)
    found, again = replayed(fleet.recording, ours)
    assert [(one.decision.action, one.decision.level, one.carried_out) for one in found.changes[:2]] == [
        (ActionName.PROBE, "k3", True),
        (ActionName.STEP_UP, "k3", True),
    ]
    assert list(changes(again))[:2] == list(changes(told))[:2]


def test_a_probe_that_was_made_and_lost_makes_the_next_gap_twice_as_long() -> None:
    """Without the memory of the loss the same probe would be recommended after 1200 s again; with it after 2400 s."""
    ours = policy(LOW, HIGH, guardrails=PROBING)
    fleet = Fleet(NGRAM, lambda seconds, level: 0.2 if level.tokens == 3 else 0.5)
    told = govern(fleet, ours, 6000.0)
    found, again = replayed(fleet.recording, ours)
    assert list(changes(again)) == list(changes(told))
    probes = [one.seconds for one in found.changes if one.decision.action is ActionName.PROBE]
    lost = next(one.seconds for one in found.changes if "is lost" in one.decision.reason)
    assert probes[1] - lost >= 2400.0


def test_pods_that_come_back_under_another_name_are_there() -> None:
    """A Deployment gives every new pod a new name; the old one counts no more once it is silent for two windows."""
    ours = policy(AT_ONCE, guardrails=cooled(1800))
    fleet = Fleet(K5, lambda seconds, level: 0.2)
    told = govern(fleet, ours, 4500.0)
    renamed = [(f"{pod}-{named(sample)}", sample) for pod, sample in fleet.recording]
    found, again = replayed(renamed, ours)
    assert [one.carried_out for one in found.changes[:2]] == [True, True]
    assert list(changes(again))[:2] == list(changes(told))[:2]


def named(sample: Sample) -> str:
    """A name that changes with the process."""
    assert sample.process_start is not None
    return f"{sample.process_start - START:.0f}"


def test_a_page_without_an_engine_says_nothing_about_the_level() -> None:
    """An engine that starts may show a page without series: the fleet is still where it was."""
    recording = [
        (pod, Sample(sample.at, None) if 1000.0 < sample.at - START < 1100.0 else sample)
        for pod, sample in Fleet(K5, lambda seconds, level: 0.7).run(3000.0).recording
    ]
    found, _ = replayed(recording, policy(LOW))
    assert [one.level for one in found.stays] == ["k5"]


def test_no_more_is_read_ahead_than_a_roll_out_may_take() -> None:
    """1800 s, and the one sample that shows where to stop; so that memory does not grow with the recording."""
    recording = Fleet(K5, lambda seconds, level: 0.2).run(9000.0).recording
    last, ahead = [START], list[float]()

    def samples() -> Iterator[tuple[str, Sample]]:
        for pod, sample in recording:
            last[0] = sample.at
            yield pod, sample

    replay(
        policy(AT_ONCE, guardrails=cooled(0)),
        samples(),
        start=START,
        end=START + 9000.0,
        inputs=lambda now: Inputs(),
        listener=lambda now, decision: ahead.append(last[0] - now),
    )
    assert 1785.0 <= max(ahead) <= 1815.0


@pytest.mark.parametrize(
    ("levels", "everywhere", "probed"),
    [
        ([], False, False),
        (["k5"], False, False),
        (["k3"], True, True),
        (["k3", "k5"], False, True),
        (["k3", "k3"], True, False),
        ([None, "k3"], False, True),
    ],
)
def test_a_change_is_there_when_all_pods_are_and_a_probe_when_some_are(
    levels: list[str | None], everywhere: bool, probed: bool
) -> None:
    """A probe of the one pod that there is, is all of them."""
    assert Wanted("k3").reached(levels) is everywhere
    assert Wanted("k3", probe=True).reached(levels) is probed
