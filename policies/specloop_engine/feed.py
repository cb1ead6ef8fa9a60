"""Samples of a whole target fed into its history, look by look: the same live, and from a recording.

A look ends at `until`.  It takes every sample since the look before, and a pod that gave none is missed at `until`, so
that the same samples and the same looks give the same windows, however the samples arrived.
"""

from collections.abc import Callable, Iterable

from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_policy.ladder import Ladder, Level, matching

LevelOf = Callable[[str, Sample], Level | None]
"""The level that a pod ran when it gave a sample, None where that is not sure."""


class Feed:
    """What brings samples into a history."""

    def __init__(self, history: History, level_of: LevelOf) -> None:
        self._history = history
        self._level_of = level_of
        self.latest: dict[str, Sample] = {}
        """The newest sample of every pod that is not forgotten."""
        self.levels: dict[str, Level | None] = {}
        """The level that each of them ran then."""

    def feed(self, samples: Iterable[tuple[str, Sample]], until: float) -> None:
        """Take the samples since the last look, in any order; those that are no newer than it are left out."""
        heard = set()
        for pod, sample in sorted(samples, key=lambda one: (one[1].at, one[0])):
            self._add(pod, sample)
            heard.add(pod)
        for pod in self.latest.keys() - heard:
            self._miss(pod, until)

    def _add(self, pod: str, sample: Sample) -> None:
        level = self._level_of(pod, sample)
        self.latest[pod], self.levels[pod] = sample, level
        self._history.add(pod, sample, "" if level is None else level.name, None if level is None else level.tokens)

    def _miss(self, pod: str, until: float) -> None:
        """Note that a pod was silent; one that was for as long as windows are kept is gone for good."""
        if until - self.latest[pod].at <= self._history.keep_seconds:
            self._history.miss(pod, until)
            return
        self._history.forget(pod)
        del self.latest[pod], self.levels[pod]


def level_shown(sample: Sample, ladder: Ladder, last: Level | None = None) -> Level | None:
    """The level of the ladder that a sample shows; None where it shows none of them, or may be at several.

    `last` decides between several: it is the level that the pod was at before, or that somebody says it is at.
    """
    fitting = _fitting(sample, ladder)
    if len(fitting) == 1:
        return fitting[0]
    return last if last in fitting else None


def _fitting(sample: Sample, ladder: Ladder) -> tuple[Level, ...]:
    """Levels that a process with this sample may be at."""
    if sample.dialect is None:
        return ()
    if sample.tokens is not None:
        return matching(ladder.levels, sample.tokens)
    drafts = sample.drafting is not None  # what drafts is not disabled; what is silent may only not have drafted yet
    return tuple(level for level in ladder.levels if level.speculates or not drafts)


class ShownLevels:
    """The level of every pod by what its samples show, and by what it was at before where they show several."""

    def __init__(self, ladder: Ladder, first: Level | None = None) -> None:
        """`first` is the level that pods are taken to be at where their first samples leave several."""
        self._ladder = ladder
        self._first = first
        self._last: dict[str, Level] = {}

    def __call__(self, pod: str, sample: Sample) -> Level | None:
        """The level that this sample shows."""
        found = level_shown(sample, self._ladder, self._last.get(pod, self._first))
        if found is not None:
            self._last[pod] = found
        return found
