"""A promoted level is left when it surely does harm, and for nothing less."""

from dataclasses import replace

import pytest

from specloop_policy.observation import Outcome, Service, Window
from specloop_policy.watch import Watch, judge_watch

WATCH = Watch("k3", "k5", "key", since=1000.0, until=8200.0)
CALM = Service(finished_requests=1000.0, failed_requests=0.0)


def window(pod: str, end: float, outcome: Outcome) -> Window:
    """A quarter of a minute of one pod."""
    return Window(pod, end - 15.0, end, outcome, level="k3")


def hang(*outcomes: Outcome, pod: str = "llama-a") -> list[Window]:
    """Windows of one pod, one after the other since the promotion."""
    return [window(pod, 1000.0 + 15.0 * place, outcome) for place, outcome in enumerate(outcomes, 1)]


S, M = Outcome.STALLED, Outcome.MEASURED


def test_a_level_that_serves_is_left_alone() -> None:
    """Nor is one of which nothing is known: no requests, or errors that are not counted."""
    assert judge_watch(WATCH, 0, hang(M, M, M), CALM, 1) is None
    assert judge_watch(WATCH, 0, [], Service(), 1) is None
    assert judge_watch(WATCH, 0, [], Service(finished_requests=0.0, failed_requests=0.0), 1) is None


def test_two_restarts_are_harm_and_one_may_be_chance() -> None:
    """A node may fail."""
    assert judge_watch(WATCH, 1, [], CALM, 1) is None
    assert judge_watch(WATCH, 2, [], CALM, 1) == "2 restarts of its engines since it was promoted"


@pytest.mark.parametrize(
    ("outcomes", "hangs"),
    [((S,), False), ((S, M, S), False), ((S, S, M), False), ((M, S, S), True), ((S, S), True)],
)
def test_two_stalled_windows_in_a_row_are_a_hang(outcomes: tuple[Outcome, ...], hangs: bool) -> None:
    """The last two count: one may be a long prefill, and what moves again did not hang."""
    said = judge_watch(WATCH, 0, hang(*outcomes), CALM, 1)
    assert said == ("pod llama-a hangs: requests run and no counter moves" if hangs else None)


def test_windows_of_two_pods_are_no_row() -> None:
    """One stalled window each; the second pod's next one makes a hang, and that pod is named."""
    mixed = [*hang(M, S, pod="llama-a"), *hang(M, S, pod="llama-b")]
    assert judge_watch(WATCH, 0, mixed, CALM, 1) is None
    assert judge_watch(WATCH, 0, [*mixed, window("llama-b", 1045.0, S)], CALM, 1) == (
        "pod llama-b hangs: requests run and no counter moves"
    )


def test_what_stalled_before_the_promotion_is_not_counted_against_it() -> None:
    """One window before it, one after it."""
    assert judge_watch(WATCH, 0, [window("llama-a", 1000.0, S), window("llama-a", 1015.0, S)], CALM, 1) is None


@pytest.mark.parametrize(
    ("failed", "finished", "harm"), [(0.0, 100.0, False), (1.0, 100.0, False), (3.0, 100.0, False), (4.0, 100.0, True)]
)
def test_errors_that_are_surely_more_than_allowed_are_harm(failed: float, finished: float, harm: bool) -> None:
    """Wilson's low end at 95 %: 0.995 % for 3 of 103 and 1.506 % for 4 of 104, worked out in test_gate.py."""
    said = judge_watch(WATCH, 0, [], Service(finished_requests=finished, failed_requests=failed), 1)
    assert said == ("3.8 % of requests failed since it was promoted, 1.0 % are allowed" if harm else None)


def test_errors_that_the_level_before_had_too_are_no_harm() -> None:
    """5 % failed beside it: 5 of 105 is what is usual; 20 of 120 has its low end at 11 % and is not."""
    watch = replace(WATCH, failed_share=0.05)
    assert judge_watch(watch, 0, [], Service(finished_requests=100.0, failed_requests=5.0), 1) is None
    said = judge_watch(watch, 0, [], Service(finished_requests=100.0, failed_requests=20.0), 1)
    assert said == "16.7 % of requests failed since it was promoted, 5.0 % are allowed"
