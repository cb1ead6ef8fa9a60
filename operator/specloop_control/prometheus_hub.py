"""One Prometheus for all policies that read it: everybody's samples are fetched together, and each takes its own.

A fetch asks for the raw values of all pods since the last one, in one query, whatever the number of policies and pods.
Only where there is much to catch up with, after a start or an outage, are there more, `CATCH_UP_VALUES` at most.

Raw ranges `{...}[15s]`, not pairs of instant queries (the values, and the times that they have).  Measured at 1,000
pods with 60 series each, scraped every 15 s (benchmarks/sources.py): for one sample of each both send 17 MB, and the
pair takes a tenth to a third more of our processor; labels are most of it either way.  A range loses no scrape where
they come faster than fetches, sends none again where they come slower (half of the bytes when asked twice as often; a
pair sends everything whenever asked, up to five minutes old), cannot be torn between its two halves, needs no series
that every page has (`timestamp` takes one name at a time), and catches up by being longer.

One fetch is under way at a time.  Who comes meanwhile waits for it, no longer than `wait_seconds` from its start.
"""

import asyncio
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from specloop_control.prometheus_pages import SCRAPER_SECONDS, Pages
from specloop_control.prometheus_server import PrometheusError, PrometheusSettings, Server, pull
from specloop_engine.sample import Sample

WAIT_SECONDS = 5.0
"""A thousand pods' answer takes two seconds; what takes longer than this comes with the next look."""

KEEP_SECONDS = 120.0
"""How long samples wait for those who want them, at least: eight looks at the default interval."""

SPAN_SECONDS = 30.0
"""A longer span than this is asked for in parts: two scrapes at the default interval."""

TASTE_SECONDS = 15.0
"""So much of it shows how many parts: scrapes of many pods are spread evenly."""

PART_VALUES = 20_000
"""So many values are asked for at a time then: a third of what a thousand pods say in an interval, so that catching up
takes hardly more memory than what follows."""

CATCH_UP_VALUES = 300_000
"""Most that is caught up with, in fifteen queries and some seven seconds of a processor: twenty minutes of 60 pods, one
minute of a thousand.  Evidence that is older begins anew."""


class Connection(Server, Protocol):
    """A Prometheus that is asked for as long as it takes."""

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class _News:
    """What one answer said."""

    until: float
    samples: Sequence[tuple[str, Sample]]
    query: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one answer brought, for whoever takes it."""

    fetched: float
    until: float
    samples: Mapping[str, tuple[Sample, ...]]
    """By pod as `namespace/pod`, oldest first."""


class PrometheusHub:
    """Samples of all pods of a Prometheus, for many readers."""

    def __init__(
        self,
        settings: PrometheusSettings,
        server: Connection,
        *,
        back_fill_seconds: float = 0.0,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Begin `back_fill_seconds` before the first fetch, or as far before it as can be caught up with."""
        self._settings = settings
        self._server = server
        self._pages = Pages(settings)
        self._back_fill_seconds = back_fill_seconds
        self._first: float | None = None
        """Where samples are wanted from."""
        self._wait_seconds = wait_seconds
        # A server that hangs must not keep others waiting: it has a thread of its own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self._flight: asyncio.Task[None] | None = None
        self._began = -math.inf
        self._overdue_at = 0.0
        self._keep_seconds = KEEP_SECONDS
        self._batches: deque[_Batch] = deque()
        self._had: dict[tuple[str, str], float] = {}
        """By reader and pod, until when it has taken what there was."""
        self.until: float | None = None
        """Everything up to here was fetched; None before the first answer."""
        self.problem: str | None = None
        """Why there is nothing new, in words; None when all is well."""
        self.warnings: tuple[str, ...] = ()
        """What Prometheus warned of in the last answer, and pages that could not be read."""
        self.query = settings.selector
        """The last query that was answered, as it was sent."""

    async def refresh(self, now: float, fresh_seconds: float, interval_seconds: float | None = None) -> None:
        """Fetch what is new, unless the last fetch began less than `fresh_seconds` ago; failures are `problem`.

        Whoever asks does so at an interval, twice `fresh_seconds` by default; samples wait for two of them at least.
        """
        two_intervals = 2.0 * (interval_seconds or 2.0 * fresh_seconds)
        self._keep_seconds = max(self._keep_seconds, two_intervals)
        clock = asyncio.get_running_loop().time
        if self._flight is None and not 0.0 <= now - self._began < fresh_seconds:
            self._began = now
            self._overdue_at = clock() + self._wait_seconds
            self._flight = asyncio.create_task(self._fetch(now))
        if self._flight is None:
            return
        done, _ = await asyncio.wait({self._flight}, timeout=max(0.0, self._overdue_at - clock()))
        for flight in done:
            flight.result()  # only a mistake of ours is raised here
        if not done and self._late(now, two_intervals):
            self.problem = f"{self._settings.source} has not given everything within {self._wait_seconds:g} s"

    def _late(self, now: float, two_intervals: float) -> bool:
        """Whether what there is is too old: a server that is slow, and gives all in two intervals, is no problem."""
        return self.until is None or now - self._settings.lag_seconds - self.until > two_intervals

    def take(self, reader: str, namespace: str, pods: Collection[str]) -> list[tuple[str, Sample]]:
        """The samples of these pods that this reader has not taken yet, oldest first."""
        found: list[tuple[str, Sample]] = []
        for pod in pods if self._batches else ():
            name = f"{namespace}/{pod}"
            since = self._had.get((reader, name), -math.inf)
            new = (batch.samples.get(name, ()) for batch in self._batches if batch.until > since)
            found += [(pod, sample) for samples in new for sample in samples]
            self._had[reader, name] = self._batches[-1].until
        return sorted(found, key=lambda one: (one[1].at, one[0]))

    def heard(self, namespace: str, pods: Collection[str]) -> frozenset[str]:
        """Those of these pods that were heard from lately."""
        return frozenset(pod for pod in pods if any(f"{namespace}/{pod}" in one.samples for one in self._batches))

    @property
    def size(self) -> int:
        """How many pods were heard from lately, whosever they are."""
        return len({name for batch in self._batches for name in batch.samples})

    async def close(self) -> None:
        """Give up what is under way; the thread ends once it has its answer."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait({self._flight})
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._server.close()

    async def _fetch(self, now: float) -> None:
        loop, answers = asyncio.get_running_loop(), self._answers(round(now - self._settings.lag_seconds, 3))
        try:
            while (found := await loop.run_in_executor(self._thread, next, answers, None)) is not None:
                self._put(now, found)
            self.problem = None
        except PrometheusError as error:
            self.problem = str(error)
        finally:
            self._flight = None

    def _answers(self, end: float) -> Iterator[_News]:
        """What is new up to `end`, answer by answer; for the thread."""
        if self._first is None:
            self._first = round(end - self._back_fill_seconds, 3)
        # Who scrapes a pod is known a while before the first sample that is wanted, so that each counts once.
        start, span = self._plan(self._first - SCRAPER_SECONDS if self.until is None else self.until, end)
        parts = pull(self._server, self._settings.selector, start, end, span=span, answer_values=PART_VALUES)
        for until, answer in parts:
            samples = [one for one in self._pages.samples(answer) if one[1].at > self._first]
            unreadable = tuple(f"a page of {pod} cannot be read: {why}" for pod, why in self._pages.unreadable.items())
            self._pages.unreadable.clear()
            self._pages.forget(until - SCRAPER_SECONDS)
            news = _News(until, samples, answer.query, (*answer.warnings, *unreadable))
            del answer  # before the next one, for it is long
            yield news

    def _plan(self, start: float, end: float) -> tuple[float, float]:
        """Where to begin, and how much to ask for at first, so that no answer is too long, nor all together."""
        if end - start <= SPAN_SECONDS:
            return start, end - start
        # PromQL counts no values of several names at once, so a little is fetched to see how much there is.
        rate = self._server.values(self._settings.selector, end - TASTE_SECONDS, end).values / TASTE_SECONDS
        most = CATCH_UP_VALUES / rate if rate else math.inf
        return max(start, round(end - most, 3)), min(end - start, PART_VALUES / rate if rate else math.inf)

    def _put(self, now: float, news: _News) -> None:
        only = self._settings.namespace
        by_pod: dict[str, list[Sample]] = {}
        for pod, sample in news.samples:
            by_pod.setdefault(pod if only is None else f"{only}/{pod}", []).append(sample)
        self._batches.append(_Batch(now, news.until, {pod: tuple(ones) for pod, ones in by_pod.items()}))
        self.until, self.query, self.warnings = news.until, news.query or self.query, news.warnings
        self._drop(now - self._keep_seconds)

    def _drop(self, before: float) -> None:
        """Drop what nobody took in time, and the notes on who had it."""
        gone = -math.inf
        while self._batches[0].fetched < before:
            gone = self._batches.popleft().until
        if gone > -math.inf:
            self._had = {key: until for key, until in self._had.items() if until > gone}
