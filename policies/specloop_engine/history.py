"""Samples as they come, cut into windows: disjoint per pod, aligned over pods on one grid of time.

A window closes with the first sample at or after the next edge of the grid, and the next begins with that sample, so
that the pods of one round end their windows in the same cell.  A window that began late in a cell closes at the edge
after next: none is shorter than half a cell.  Where scrapes fail at the edge, the last sample before it closes the
window; a round in which none came is `Stale`, and the next window begins with the first sample after it.

A restart or a change makes the window that it falls into `Reset` or `Mixed`, and no other: the next begins at an edge
after it.  A sample that is no use as the start of a window is dropped for the first that is.

Time is the samples' own.  The same calls give the same windows.
"""

import math
from dataclasses import dataclass, field
from typing import Self

from specloop_engine.sample import Sample
from specloop_engine.span import flaw
from specloop_engine.window import difference, stale
from specloop_policy.model import Signals
from specloop_policy.observation import Window


@dataclass(frozen=True, slots=True)
class _Scrape:
    """A sample and what the pod was known to run when it was taken."""

    sample: Sample
    level: str
    tokens: int | None


@dataclass(slots=True)
class _Track:
    """One pod: its closed windows, and the one that is being filled."""

    start: float
    """Where the next window begins."""
    latest: float
    """When the pod was last looked at."""
    scrapes: list[_Scrape] = field(default_factory=list)
    """Of the window that is being filled, its start included."""
    flawed: bool = False
    """Whether its start is no use as one."""
    level: str = ""
    windows: list[Window] = field(default_factory=list)


class History:
    """Windows of all pods of one target, from samples in the order of their times."""

    def __init__(self, window_seconds: float, keep_seconds: float) -> None:
        """Cut windows of about `window_seconds`, and keep what ended no longer than `keep_seconds` ago."""
        if not (window_seconds > 0.0 and keep_seconds > 0.0):
            raise ValueError(f"a window of {window_seconds} s kept for {keep_seconds} s: both must be above 0")
        self._window_seconds = window_seconds
        self._keep_seconds = keep_seconds
        self._tracks: dict[str, _Track] = {}
        self._latest = -math.inf
        self._sorted: tuple[Window, ...] | None = None
        """All windows that are kept, oldest first, as long as they stay the same."""

    @classmethod
    def of(cls, signals: Signals) -> Self:
        """As a policy asks for: windows are kept for twice its longest evidence, so that none is missed at its edge."""
        return cls(signals.window_seconds, 2 * signals.max_evidence_seconds)

    @property
    def keep_seconds(self) -> float:
        """How long a window is kept after its end."""
        return self._keep_seconds

    def add(self, pod: str, sample: Sample, level: str = "", tokens: int | None = None) -> None:
        """Take a pod's sample; `level` names what it runs ("" unknown), `tokens` is that level's K where known.

        A sample no newer than the last look at the pod is left out: two jobs may scrape one pod.
        """
        track = self._look(pod, sample.at)
        if track is None:
            return
        at_edge = sample.at >= self._edge(track.start)
        if track.scrapes and not at_edge and track.flawed and not flaw(sample):
            track.scrapes.clear()
        if not track.scrapes:
            track.start = sample.at
            track.flawed = bool(flaw(sample))
            at_edge = False
        track.scrapes.append(_Scrape(sample, level, tokens))
        track.level = level
        if at_edge:
            self._close(pod, track)

    def miss(self, pod: str, at: float, level: str = "") -> None:
        """Take note that a pod gave no sample at `at`: its scrape failed, or its page could not be read."""
        track = self._look(pod, at)
        if track is None:
            return
        track.level = level or track.level
        if at >= self._edge(track.start):
            if len(track.scrapes) > 1:
                self._close(pod, track)
            else:
                self._close_stale(pod, track, at)

    def forget(self, pod: str) -> None:
        """Drop a pod and all its windows."""
        self._tracks.pop(pod, None)
        self._sorted = None

    def windows(self) -> tuple[Window, ...]:
        """All windows that are kept, oldest first."""
        if self._sorted is None or (self._sorted and self._sorted[0].end < self._latest - self._keep_seconds):
            self._drop_old()
            kept = [window for track in self._tracks.values() for window in track.windows]
            self._sorted = tuple(sorted(kept, key=lambda window: (window.end, window.start, window.pod)))
        return self._sorted

    def _look(self, pod: str, at: float) -> _Track | None:
        """The pod's track, moved on to `at`; None when that is no news."""
        track = self._tracks.get(pod)
        if track is None:
            track = self._tracks[pod] = _Track(at, -math.inf)
        if at <= track.latest:
            return None
        track.latest = at
        self._latest = max(self._latest, at)
        return track

    def _edge(self, start: float) -> float:
        """The first edge of the grid that is at least half a window after `start`."""
        return (math.floor(start / self._window_seconds + 0.5) + 1.0) * self._window_seconds

    def _close(self, pod: str, track: _Track) -> None:
        """Close the window with the last sample, which begins the next."""
        first, *between, last = track.scrapes
        levels = [scrape.level for scrape in track.scrapes]
        window = difference(
            pod, first.sample, last.sample, (one.sample for one in between), levels=levels, tokens=last.tokens
        )
        track.scrapes = [last]
        track.flawed = bool(flaw(last.sample))
        self._keep(track, window, last.sample.at)

    def _close_stale(self, pod: str, track: _Track, at: float) -> None:
        """Close a window for which no sample came; the next begins with the next sample, or at `at` without one."""
        track.scrapes = []
        self._keep(track, stale(pod, track.start, at, levels=[track.level]), at)

    def _keep(self, track: _Track, window: Window, start: float) -> None:
        """Keep a window that has closed; the next begins at `start`."""
        track.windows.append(window)
        track.start = start
        self._sorted = None
        self._drop_old()

    def _drop_old(self) -> None:
        """Keep memory bounded: windows, and pods that nobody has looked at."""
        oldest = self._latest - self._keep_seconds
        for pod, track in list(self._tracks.items()):
            track.windows = [window for window in track.windows if window.end >= oldest]
            if track.latest < oldest:
                del self._tracks[pod]
