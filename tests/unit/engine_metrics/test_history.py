"""How samples that come one by one are cut into windows."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_policy.observation import Outcome, Window
from tests.unit.engine_metrics.builders import START, v1


def history(keep_seconds: float = 100_000.0) -> History:
    """Windows of 60 seconds."""
    return History(60.0, keep_seconds)


def scrape(target: History, pod: str, *times: float, level: str = "k2", **fields: Any) -> None:
    """Add samples of a pod that makes one draft a second since time 0."""
    for at in times:
        target.add(pod, v1(at, at, **fields), level)


def ends(windows: tuple[Window, ...], pod: str = "a") -> list[tuple[float, float, Outcome]]:
    return [(one.start, one.end, one.outcome) for one in windows if one.pod == pod]


MEASURED, STALE, RESET, MIXED = Outcome.MEASURED, Outcome.STALE, Outcome.RESET, Outcome.MIXED


def test_windows_close_at_the_edges_of_the_grid_and_follow_each_other() -> None:
    target = history()
    scrape(target, "a", *range(0, 181, 15))
    assert ends(target.windows()) == [(0.0, 60.0, MEASURED), (60.0, 120.0, MEASURED), (120.0, 180.0, MEASURED)]
    assert [one.drafts for one in target.windows()] == [60.0, 60.0, 60.0]


def test_a_window_closes_with_the_first_sample_at_or_after_the_edge() -> None:
    target = history()
    scrape(target, "a", 2.0, 17.0, 32.0, 47.0, 62.0, 77.0, 92.0, 107.0, 122.0)
    assert ends(target.windows()) == [(2.0, 62.0, MEASURED), (62.0, 122.0, MEASURED)]


def test_windows_of_several_pods_end_in_the_same_cell() -> None:
    target = history()
    for step in range(9):
        scrape(target, "a", 15.0 * step)
        scrape(target, "b", 15.0 * step + 7.0)
    assert [(one.pod, one.end) for one in target.windows()] == [("a", 60.0), ("b", 67.0), ("a", 120.0), ("b", 127.0)]


def test_a_pod_that_comes_late_in_a_cell_gets_no_short_window() -> None:
    target = history()
    scrape(target, "a", *range(45, 181, 15))
    assert ends(target.windows()) == [(45.0, 120.0, MEASURED), (120.0, 180.0, MEASURED)]


def test_a_window_carries_level_and_gauges_of_all_its_samples() -> None:
    target = history()
    for at, running in ((0.0, 1.0), (20.0, 3.0), (40.0, 5.0), (60.0, 7.0)):
        scrape(target, "a", at, running=running)
    (found,) = target.windows()
    assert (found.level, found.running, found.tokens) == ("k2", 4.0, 2)


def test_k_of_the_level_reaches_the_window() -> None:
    target = history()
    for at in (0.0, 60.0):
        target.add("a", replace(v1(at, at), running=0.0), "disabled", tokens=0)
    assert [one.outcome for one in target.windows()] == [Outcome.OFF]


def test_a_sample_no_newer_than_the_last_is_left_out() -> None:
    target = history()
    scrape(target, "a", 0.0, 30.0, 30.0, 15.0, 60.0, 60.0, 59.0)
    target.miss("a", 60.0)
    assert ends(target.windows()) == [(0.0, 60.0, MEASURED)]


def test_one_failed_scrape_in_the_middle_does_no_harm() -> None:
    target = history()
    scrape(target, "a", 0.0, 15.0)
    target.miss("a", 30.0)
    scrape(target, "a", 45.0, 60.0)
    assert ends(target.windows()) == [(0.0, 60.0, MEASURED)]


def test_a_failed_scrape_at_the_edge_closes_the_window_with_the_sample_before() -> None:
    target = history()
    scrape(target, "a", 0.0, 15.0, 30.0, 45.0)
    target.miss("a", 60.0)
    scrape(target, "a", 75.0, 90.0, 105.0, 120.0)
    assert ends(target.windows()) == [(0.0, 45.0, MEASURED), (45.0, 120.0, MEASURED)]


def test_a_round_without_any_sample_is_stale_and_the_next_begins_after_it() -> None:
    target = history()
    scrape(target, "a", 0.0, 60.0)
    for at in (75.0, 90.0, 105.0, 120.0, 135.0):
        target.miss("a", at)
    scrape(target, "a", *range(150, 241, 15))
    assert ends(target.windows()) == [
        (0.0, 60.0, MEASURED),
        (60.0, 120.0, STALE),
        (150.0, 240.0, MEASURED),
    ]
    assert target.windows()[1].level == "k2"


def test_a_pod_that_never_answers_is_stale_every_round() -> None:
    target = history()
    for at in range(0, 181, 15):
        target.miss("a", at, "k2")
    assert ends(target.windows()) == [(0.0, 60.0, STALE), (60.0, 120.0, STALE), (120.0, 180.0, STALE)]


def test_where_scrapes_are_rarer_than_windows_each_pair_makes_one() -> None:
    target = history()
    scrape(target, "a", 0.0, 200.0, 400.0)
    assert ends(target.windows()) == [(0.0, 200.0, MEASURED), (200.0, 400.0, MEASURED)]


def test_a_restart_spoils_its_own_window_and_no_other() -> None:
    target = history()
    scrape(target, "a", 0.0, 15.0, 30.0)
    for at in range(45, 181, 15):
        target.add("a", v1(at, 10.0 * at, process_start=START + 40.0), "k2")
    assert ends(target.windows()) == [(0.0, 60.0, RESET), (60.0, 120.0, MEASURED), (120.0, 180.0, MEASURED)]
    assert target.windows()[1].drafts == 600.0


def test_a_restart_shows_though_it_lies_between_two_samples_of_a_window() -> None:
    """The page has no start time, and the counters have caught up by the edge."""
    target = history()
    for at, steps in ((0.0, 100.0), (30.0, 5.0), (60.0, 300.0), (120.0, 400.0)):
        target.add("a", v1(at, steps, process_start=None), "k2")
    assert ends(target.windows()) == [(0.0, 60.0, RESET), (60.0, 120.0, MEASURED)]


def test_a_change_of_level_spoils_its_own_window_and_no_other() -> None:
    target = history()
    scrape(target, "a", 0.0, 30.0)
    scrape(target, "a", *range(45, 181, 15), level="k1")
    assert ends(target.windows()) == [(0.0, 60.0, MIXED), (60.0, 120.0, MEASURED), (120.0, 180.0, MEASURED)]
    assert [one.level for one in target.windows()] == ["", "k1", "k1"]


def test_a_sample_that_is_no_use_begins_no_window_when_a_better_one_comes() -> None:
    target = history()
    scrape(target, "a", 0.0)
    scrape(target, "a", 60.0, generation_tokens=float("nan"))
    scrape(target, "a", 75.0, 90.0, 105.0, 120.0)
    assert ends(target.windows()) == [(0.0, 60.0, Outcome.INVALID), (75.0, 120.0, MEASURED)]


def test_an_engine_that_says_nothing_sound_is_reported_every_round() -> None:
    target = history()
    for at in range(0, 121, 15):
        target.add("a", Sample(at, None))
    assert ends(target.windows()) == [(0.0, 60.0, Outcome.EMPTY), (60.0, 120.0, Outcome.EMPTY)]


def test_a_pod_that_vanished_stops_and_keeps_what_it_had() -> None:
    target = history()
    scrape(target, "a", *range(0, 61, 15))
    scrape(target, "b", *range(0, 301, 15))
    assert ends(target.windows()) == [(0.0, 60.0, MEASURED)]
    assert len(ends(target.windows(), "b")) == 5


def test_a_forgotten_pod_is_gone_and_begins_anew() -> None:
    target = history()
    scrape(target, "a", 0.0, 60.0)
    target.forget("a")
    target.forget("never seen")
    assert target.windows() == ()
    scrape(target, "a", 75.0, 120.0)
    assert ends(target.windows()) == [(75.0, 120.0, MEASURED)]


def test_old_windows_and_vanished_pods_are_dropped() -> None:
    target = history(keep_seconds=120.0)
    scrape(target, "gone", *range(0, 61, 15))
    scrape(target, "a", *range(0, 601, 15))
    assert [(one.pod, one.end) for one in target.windows()] == [("a", 480.0), ("a", 540.0), ("a", 600.0)]


@pytest.mark.parametrize("lengths", [(0.0, 60.0), (60.0, 0.0), (-1.0, 60.0), (float("nan"), 60.0)])
def test_lengths_that_make_no_sense_are_refused(lengths: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="both must be above 0"):
        History(*lengths)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.floats(0.1, 50.0),
        st.sampled_from(["sample"] * 6 + ["miss", "restart", "level", "nan", "empty", "forget"]),
    ),
    max_size=60,
)


def play(events: list[tuple[str, float, str]], keep_seconds: float = 1e9) -> tuple[Window, ...]:
    """Windows after these events, each some seconds after the last; one draft a second."""
    target = History(60.0, keep_seconds)
    at, starts, levels = 0.0, {"a": 0.0, "b": 0.0}, {"a": 0, "b": 0}
    for pod, seconds, event in events:
        at += seconds
        if event == "restart":
            starts[pod] = at
        elif event == "level":
            levels[pod] += 1
        if event == "miss":
            target.miss(pod, at)
        elif event == "forget":
            target.forget(pod)
        elif event == "empty":
            target.add(pod, Sample(at, None))
        else:
            sample = v1(at, at - starts[pod], process_start=START + starts[pod])
            sample = replace(sample, generation_tokens=float("nan")) if event == "nan" else sample
            target.add(pod, sample, f"k{levels[pod]}")
    return target.windows()


@given(events=EVENTS)
def test_windows_of_one_pod_never_overlap_and_the_same_events_give_the_same_windows(
    events: list[tuple[str, float, str]],
) -> None:
    windows = play(events)
    assert windows == play(events)
    assert list(windows) == sorted(windows, key=lambda one: one.end)
    for pod in ("a", "b"):
        mine = [one for one in windows if one.pod == pod]
        assert all(one.start < one.end for one in mine)
        assert all(earlier.end <= later.start for earlier, later in pairwise(mine))


@given(events=EVENTS)
def test_what_is_measured_is_never_more_than_what_happened(events: list[tuple[str, float, str]]) -> None:
    """One draft a second: a measured window has as many drafts as seconds."""
    for one in play(events):
        if one.outcome is Outcome.MEASURED:
            assert one.drafts == pytest.approx(one.seconds)
            assert one.level


@given(events=EVENTS, keep_seconds=st.floats(50.0, 500.0))
def test_all_windows_that_ended_long_enough_ago_are_dropped_and_no_others(
    events: list[tuple[str, float, str]], keep_seconds: float
) -> None:
    of_one_pod = [("a", seconds, event) for _, seconds, event in events if event != "forget"]
    oldest = sum(seconds for _, seconds, _ in of_one_pod) - keep_seconds
    kept = tuple(one for one in play(of_one_pod) if one.end >= oldest)
    assert play(of_one_pod, keep_seconds) == kept
