"""The windows of a loop that reads a Prometheus depend on what it scraped, not on when it was asked."""

from collections.abc import Iterator

import pytest

from specloop_control.prometheus import PrometheusSource
from specloop_engine.feed import Feed, ShownLevels
from specloop_engine.history import History
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.observation import Outcome, Window
from tests.unit.recording.store import BEGIN, SETTINGS, Store, expected, failure, filled, target, text

LADDER = Ladder((Level("k5", Drafter("small", Method.DRAFT_MODEL, "draft"), 5), DISABLED))
LAG = SETTINGS.lag_seconds


class Sources:
    """Makes sources with windows of a minute, and ends them all."""

    def __init__(self) -> None:
        self._made: list[PrometheusSource] = []

    def make(
        self, store: Store, *, back_fill: float = 0.0, look: float | None = None, keep: float = 1e4
    ) -> PrometheusSource:
        """A source over a store."""
        history = History(60.0, keep)
        source = PrometheusSource(
            SETTINGS, store, history, ShownLevels(LADDER), back_fill_seconds=back_fill, look_seconds=look
        )
        self._made.append(source)
        return source

    def close(self) -> None:
        """End their threads."""
        for one in self._made:
            one.close()


@pytest.fixture
def sources() -> Iterator[Sources]:
    made = Sources()
    yield made
    made.close()


def fed(looks: list[float], pods: str = "ab") -> tuple[Window, ...]:
    """The windows of a filled store's samples, fed directly, with looks at these seconds after its beginning."""
    history = History(60.0, 1e4)
    feed = Feed(history, ShownLevels(LADDER))
    samples = [
        (pod, expected(10.0 * passed, BEGIN + passed + place * 0.25))
        for passed in range(0, 601, 15)
        for place, pod in enumerate(pods)
    ]
    since = -1.0
    for until in looks:
        feed.feed([one for one in samples if since < one[1].at - BEGIN <= until], BEGIN + until)
        since = until
    return history.windows()


async def test_polls_see_what_is_older_than_the_lag(sources: Sources) -> None:
    source = sources.make(filled(), back_fill=100.0)
    for now in range(10, 611, 30):
        await source.poll(BEGIN + now)
    assert source.windows() == fed([float(now - LAG) for now in range(10, 611, 30)])
    assert source.windows()[-1].end == BEGIN + 585.25  # b's first sample after the edge at 580 s, BEGIN being 20 s past
    assert {one.outcome for one in source.windows()} == {Outcome.MEASURED}
    assert source.problem is None
    assert set(source.latest) == {"a", "b"}


async def test_the_first_poll_goes_back_as_far_as_it_is_told(sources: Sources) -> None:
    """At 610 s less the lag, 300 s back, the first sample is that of 315 s; the last edge is at 580 s."""
    source = sources.make(filled("a"), back_fill=300.0)
    await source.poll(BEGIN + 610.0)
    assert (source.windows()[0].start, source.windows()[-1].end) == (BEGIN + 315.0, BEGIN + 585.0)


async def test_a_failed_poll_says_why_feeds_nothing_and_the_next_one_fetches_it_all(sources: Sources) -> None:
    store = filled()
    source = sources.make(store, back_fill=100.0)
    await source.poll(BEGIN + 310.0)
    before = source.windows()
    store.failing[len(store.asked) + 1] = failure("the server is away")
    await source.poll(BEGIN + 370.0)
    assert (source.problem, source.windows()) == ("the server is away", before)
    await source.poll(BEGIN + 610.0)
    assert source.problem is None
    assert store.asked[-1] == (BEGIN + 300.0, BEGIN + 600.0)


async def test_no_poll_looks_further_back_than_windows_are_kept(sources: Sources) -> None:
    store = filled()
    source = sources.make(store, back_fill=5.0, keep=120.0)
    await source.poll(BEGIN + 10.0)
    await source.poll(BEGIN + 610.0)
    assert store.asked[-1] == (BEGIN + 600.0 - 120.0, BEGIN + 600.0)


async def test_with_looks_on_a_grid_neither_jitter_nor_failures_change_a_window(sources: Sources) -> None:
    """Pod b is silent for a while, so that it matters where looks end: 30 s multiples less the lag of 10 s."""
    store = filled("a")
    for passed in [*range(0, 151, 15), *range(450, 601, 15)]:
        store.scrape(target("b"), BEGIN + passed, text(10.0 * passed))
    begin = BEGIN - BEGIN % 30.0
    punctual, late = (sources.make(store, back_fill=60.0, look=30.0) for _ in range(2))
    for tick in range(1, 22):
        await punctual.poll(begin + 30.0 * tick)
    await late.poll(begin + 30.0)
    await late.poll(begin + 95.0)
    store.failing[len(store.asked) + 1] = failure()
    await late.poll(begin + 300.0)
    await late.poll(begin + 301.7)
    await late.poll(begin + 659.9)
    assert late.windows() == punctual.windows()
    assert Outcome.STALE in {one.outcome for one in late.windows()}


async def test_the_number_of_queries_does_not_grow_with_the_pods(sources: Sources) -> None:
    for pods in ("a", "abcdefgh"):
        store = filled(pods, seconds=60)
        await sources.make(store, back_fill=60.0).poll(BEGIN + 70.0)
        assert len(store.asked) == 1


async def test_warnings_of_prometheus_are_kept(sources: Sources) -> None:
    store = filled()
    store.warnings = ("a store is away",)
    source = sources.make(store, back_fill=60.0)
    await source.poll(BEGIN + 70.0)
    assert source.warnings == ("a store is away",)
