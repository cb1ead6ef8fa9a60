"""Values of a Prometheus put together into the pages that it scraped, and read as any page.

All series of one scrape carry the time at which it began.  Together they are the page that was scraped, and are read
as one.  A page without any series of an engine is passed over: every program shows when its process started.

A pod counts once.  Where several jobs (or several servers of a pair) scrape it, the first by name counts, as long as
it was heard from within `SCRAPER_SECONDS`.  Which one that is depends on the data alone: whoever begins that long
before the first sample that is wanted gets the same samples as everybody else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_control.prometheus_server import Answer, PrometheusError, PrometheusSettings
from specloop_engine.page import Page, PageError, Series
from specloop_engine.reader import sample_of
from specloop_engine.sample import Sample

SCRAPER_SECONDS = 120.0
"""Twice Prometheus' default interval: a job that was silent for longer has stopped scraping a pod."""

SCRAPER_LABELS = ("prometheus_replica", "prometheus", "replica", "job", "instance")
"""What tells one scraper's series from another's; the first three are what pairs of servers are told apart by."""


@dataclass(slots=True)
class Pages:
    """Pages put together from answers, in the order of time, and read; each pod's from one scraper at a time."""

    settings: PrometheusSettings
    unreadable: dict[str, str] = field(default_factory=dict)
    """The last problem of every pod that had a page which contradicted itself."""
    _heard: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    """By pod, the scrapers and when they were heard from last."""

    @property
    def begun(self) -> bool:
        """Whether any page was read yet."""
        return bool(self._heard)

    def samples(self, answer: Answer) -> list[tuple[str, Sample]]:
        """The samples of one answer, in the order of time and pod; answers must come in the order of time.

        Raises PrometheusError where it holds anything else.
        """
        try:
            pages = self._pages(answer.series)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise PrometheusError(
                f"{self.settings.source} answers values that are no samples: is it a Prometheus?"
            ) from error
        found = (self._sample(*key, page) for key, page in sorted(pages.items(), key=lambda one: one[0]))
        return [one for one in found if one is not None]

    def forget(self, before: float) -> None:
        """Forget scrapers that were last heard from before this time, so that pods may come and go for ever."""
        for pod, heard in list(self._heard.items()):
            if max(heard.values()) < before:
                del self._heard[pod]

    def _pages(
        self, series: Iterable[Mapping[str, Any]]
    ) -> dict[tuple[float, str, tuple[str, ...]], dict[str, list[Series]]]:
        pages: dict[tuple[float, str, tuple[str, ...]], dict[str, list[Series]]] = {}
        for one in series:
            labels = one["metric"]
            name, pod = labels["__name__"], self._pod(labels)
            scraper = tuple(labels.get(label, "") for label in SCRAPER_LABELS)
            for at, value in one["values"]:
                page = pages.setdefault((float(at), pod, scraper), {})
                page.setdefault(name, []).append(Series(name, labels, float(value), 0))
        return pages

    def _pod(self, labels: Mapping[str, str]) -> str:
        pod = labels.get(self.settings.pod_label) or labels.get("instance", "")
        namespace = labels.get(self.settings.namespace_label)
        return pod if namespace is None or self.settings.namespace is not None else f"{namespace}/{pod}"

    def _sample(
        self, at: float, pod: str, scraper: tuple[str, ...], page: Mapping[str, Sequence[Series]]
    ) -> tuple[str, Sample] | None:
        try:
            sample = sample_of(
                Page({name: tuple(ones) for name, ones in page.items()}), at, prefix=self.settings.prefix
            )
        except PageError as error:
            self.unreadable[pod] = error.problem
            return None
        if sample.dialect is None or not self._counts(at, pod, scraper):
            return None
        return pod, sample

    def _counts(self, at: float, pod: str, scraper: tuple[str, ...]) -> bool:
        """Whether this scraper is the pod's first by name of those that are heard from."""
        heard = self._heard.setdefault(pod, {})
        heard[scraper] = at
        for one, last in list(heard.items()):
            if at - last > SCRAPER_SECONDS:
                del heard[one]
        return scraper == min(heard)
