"""Telemetry from a Prometheus: what it scraped of all pods, fed into their history."""

import asyncio
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from specloop_control.prometheus_pages import SCRAPER_SECONDS, Pages
from specloop_control.prometheus_server import PrometheusError, PrometheusSettings, Server, pull
from specloop_engine.feed import Feed, LevelOf
from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_policy.observation import Window

TOLERANCE = 1e-6
"""Times since the epoch are exact to a tenth of a microsecond, and looks are a second or more."""


class PrometheusSource:
    """Telemetry from a Prometheus, for a loop that polls before it looks.

    A poll takes what is complete by then: up to `lag_seconds` ago.  With `look_seconds`, it looks where a multiple of
    them was that long ago, so that the windows depend on the data alone, whenever polls come and whichever fail.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        server: Server,
        history: History,
        level_of: LevelOf,
        *,
        back_fill_seconds: float = 0.0,
        look_seconds: float | None = None,
    ) -> None:
        """Begin `back_fill_seconds` before the first poll; no poll looks further back than the history keeps."""
        self._settings = settings
        self._server = server
        self._history = history
        self._feed = Feed(history, level_of)
        self._pages = Pages(settings)
        self._back_fill_seconds = back_fill_seconds
        self._look_seconds = look_seconds
        self._until: float | None = None
        # A server that hangs must not keep others waiting: it has a thread of its own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self.problem: str | None = None
        """Why the last poll failed, in words; None when it did not."""
        self.warnings: tuple[str, ...] = ()
        """What Prometheus warned of at the last poll."""

    @property
    def latest(self) -> Mapping[str, Sample]:
        """The newest sample of every pod that is heard from."""
        return self._feed.latest

    def windows(self) -> tuple[Window, ...]:
        """Every window that is still of interest, oldest first."""
        return self._history.windows()

    async def poll(self, now: float) -> None:
        """Fetch what is new; after a failure, `problem` says so, and the next poll fetches this as well."""
        last = now if self._look_seconds is None else now - now % self._look_seconds
        end = round(last - self._settings.lag_seconds, 3)
        start = round(max(self._begin(end), end - self._history.keep_seconds), 3)
        if end <= start:
            return
        try:
            samples = await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch, start, end)
        except PrometheusError as error:
            self.problem = str(error)
            return
        self.problem = None
        self._until = end
        times = [sample.at for _, sample in samples]
        done = bisect_right(times, start)
        for until in self._looks(start, end):
            new = bisect_right(times, until)
            self._feed.feed(samples[done:new], until)
            done = new

    def close(self) -> None:
        """End the thread once it has its answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self, end: float) -> float:
        """Where the last poll that was answered ended; before the first one, where the back-fill begins."""
        if self._until is None:
            self._until = end - self._back_fill_seconds
        return self._until

    def _fetch(self, start: float, end: float) -> list[tuple[str, Sample]]:
        """The samples in the order of time, some from before the start at first; for the thread."""
        before = 0.0 if self._pages.begun else SCRAPER_SECONDS
        answers = [answer for _, answer in pull(self._server, self._settings.selector, start - before, end)]
        self.warnings = tuple(dict.fromkeys(warning for one in answers for warning in one.warnings))
        return [sample for answer in answers for sample in self._pages.samples(answer)]

    def _looks(self, start: float, end: float) -> Iterator[float]:
        """Ends of the looks after `start` up to `end`."""
        if self._look_seconds is not None:
            earlier = math.ceil((end - start) / self._look_seconds - TOLERANCE) - 1
            yield from (round(end - place * self._look_seconds, 3) for place in range(earlier, 0, -1))
        yield end
