"""The same samples and the same looks give the same windows, and a sample's level is told by what it shows."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_engine.feed import Feed, ShownLevels, level_shown
from specloop_engine.history import History
from specloop_engine.sample import Dialect, Drafting, Sample
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.observation import Outcome, Window

DRAFT, LOOKUP = Drafter("small", Method.DRAFT_MODEL, "draft"), Drafter("lookup", Method.NGRAM)
K5, K4, NGRAM = Level("k5", DRAFT, 5), Level("k4", DRAFT, 4), Level("ngram", LOOKUP, 4)
LADDER = Ladder((K5, K4, NGRAM, DISABLED))


def shows(tokens: int | None, at: float = 0.0, *, steps: float = 0.0, dialect: Dialect = Dialect.VLLM_V1) -> Sample:
    """A sample whose page shows this K; `None`: drafts without their positions."""
    positions = (steps,) * (tokens or 0)
    drafting = None if tokens == 0 else Drafting(steps, steps * len(positions), sum(positions), positions)
    return Sample(at, dialect, 1.0, drafting=drafting, tokens=tokens, generation_tokens=steps, finished_requests=steps)


@pytest.mark.parametrize(
    ("sample", "last", "level"),
    [
        (shows(5), None, K5),
        (shows(5), K4, K5),
        (shows(0), K5, DISABLED),
        (shows(4), None, None),
        (shows(4), K4, K4),
        (shows(4), NGRAM, NGRAM),
        (shows(4), K5, None),
        (shows(3), K5, None),
        (shows(None), None, None),
        (shows(None), K5, K5),
        (shows(None), DISABLED, None),
        (Sample(0.0, None), K5, None),
        (Sample(0.0, Dialect.LLAMACPP), None, None),
        (Sample(0.0, Dialect.LLAMACPP), DISABLED, DISABLED),
        (Sample(0.0, Dialect.LLAMACPP), K5, K5),
    ],
)
def test_a_level_is_told_where_one_fits_or_the_last_one_does(
    sample: Sample, last: Level | None, level: Level | None
) -> None:
    assert level_shown(sample, LADDER, last) == level


def test_the_last_level_is_kept_for_each_pod() -> None:
    shown = ShownLevels(LADDER, first=NGRAM)
    assert [shown("a", shows(4)), shown("a", shows(5)), shown("a", shows(4))] == [NGRAM, K5, None]
    assert shown("b", shows(4)) == NGRAM


def windows(samples: list[tuple[str, Sample]], looks: list[float], *, shuffled: int | None = None) -> list[Window]:
    """The windows of 60 s after these looks, whatever the order in which samples came within each."""
    history = History(60.0, 10_000.0)
    feed = Feed(history, ShownLevels(LADDER))
    since = float("-inf")
    for until in looks:
        new = [one for one in samples if since < one[1].at <= until]
        if shuffled is not None:
            random.Random(shuffled).shuffle(new)
        feed.feed(new, until)
        since = until
    return list(history.windows())


SCRAPES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 600)), max_size=60, unique=True)


@given(SCRAPES, st.lists(st.integers(1, 600), min_size=1, max_size=12, unique=True), st.integers(0, 9))
def test_the_order_in_which_samples_come_does_not_matter(
    scrapes: list[tuple[str, int]], looks: list[int], seed: int
) -> None:
    samples = [(pod, shows(5, float(at), steps=float(at))) for pod, at in scrapes]
    untils = sorted(map(float, looks))
    assert windows(samples, untils) == windows(samples, untils, shuffled=seed)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=10, unique=True))
def test_where_every_pod_is_heard_at_every_look_the_looks_do_not_matter(looks: list[int]) -> None:
    """Scrapes every 15 s, looks at any multiples of it: windows close by the samples alone."""
    samples = [(pod, shows(5, 15.0 * n, steps=float(n))) for n in range(41) for pod in "ab"]
    untils = sorted({15.0 * n for n in looks} | {600.0})
    assert windows(samples, untils) == windows(samples, [600.0])


def test_a_pod_that_gave_nothing_is_missed_at_the_end_of_the_look() -> None:
    """Pod b is silent after 60 s; its windows end at the looks from then on, and hold nothing."""
    samples = [("a", shows(5, 15.0 * n, steps=float(n))) for n in range(17)]
    samples += [("b", shows(5, 15.0 * n, steps=float(n))) for n in range(5)]
    found = [one for one in windows(samples, [60.0, 120.0, 180.0, 240.0]) if one.pod == "b"]
    assert [(one.start, one.end, one.outcome) for one in found] == [
        (0.0, 60.0, Outcome.MEASURED),
        (60.0, 120.0, Outcome.STALE),
        (120.0, 180.0, Outcome.STALE),
        (180.0, 240.0, Outcome.STALE),
    ]


def test_a_pod_that_was_silent_for_as_long_as_windows_are_kept_is_gone() -> None:
    history = History(60.0, 600.0)
    feed = Feed(history, ShownLevels(LADDER))
    feed.feed([("old", shows(5, 15.0 * n, steps=float(n))) for n in range(5)], 60.0)
    for until in range(120, 661, 60):
        feed.feed([("new", shows(5, until - 1.0))], float(until))
    assert "old" in feed.latest
    feed.feed([("new", shows(5, 719.0))], 720.0)  # the last sample of the old one is 660 s old
    assert list(feed.latest) == list(feed.levels) == ["new"]
    assert {one.pod for one in history.windows()} == {"new"}
