"""A Prometheus of values in memory, filled with scraped pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_control.prometheus_server import Answer, PrometheusError, PrometheusSettings
from specloop_engine.page import parse_page
from specloop_engine.reader import read_sample, wanted_series
from specloop_engine.sample import Sample
from tests.support.pages import idle, page

SETTINGS = PrometheusSettings("http://prometheus:9090", namespace="llm", lag_seconds=10.0)
BEGIN = 1_700_000_000.0
K5 = (0.7, 0.5, 0.35, 0.25, 0.18)


def target(pod: str, job: str = "vllm", **more: str) -> dict[str, str]:
    """Labels that Prometheus adds to the series of a pod."""
    return {"job": job, "instance": f"{pod}:8000", "namespace": "llm", "pod": pod, **more}


def text(steps: float, survival: tuple[float, ...] = K5) -> str:
    """The page of a process that has drafted this many times, a request a hundred drafts."""
    return page(idle(len(survival)).after(survival, drafts=steps, requests=steps / 100.0))


def expected(steps: float, at: float, survival: tuple[float, ...] = K5) -> Sample:
    """What the page says, read as text."""
    return read_sample(text(steps, survival), at)


@dataclass
class Store:
    """Series by name and labels, with their values in the order of time; what was asked for is kept in `asked`."""

    series: dict[tuple[tuple[str, str], ...], list[list[Any]]] = field(default_factory=dict)
    most_values: int = 10**9
    """An answer with more is refused, as too much."""
    failing: dict[int, Exception] = field(default_factory=dict)
    """What goes wrong, by the number of the query."""
    warnings: tuple[str, ...] = ()
    asked: list[tuple[float, float]] = field(default_factory=list)

    def scrape(self, labels: Mapping[str, str], at: float, content: str) -> None:
        """Take a page as Prometheus does: every series at the time of the scrape."""
        for ones in parse_page(content, wanted_series()).series.values():
            for one in ones:
                key = tuple(sorted({"__name__": one.name, **one.labels, **labels}.items()))
                self.series.setdefault(key, []).append([round(at, 3), f"{one.value:.17g}"])

    def values(self, selector: str, start: float, end: float) -> Answer:
        """Every value after `start` and up to `end`; the selector is not looked at."""
        self.asked.append((start, end))
        if (failure := self.failing.pop(len(self.asked), None)) is not None:
            raise failure
        found = [
            {"metric": dict(key), "values": [one for one in values if start < one[0] <= end]}
            for key, values in self.series.items()
        ]
        answer = Answer([one for one in found if one["values"]], self.warnings)
        if answer.values > self.most_values:
            raise PrometheusError("query processing would load too many samples", shorter=True)
        return answer

    def names(self, selector: str, start: float, end: float) -> Sequence[str]:
        """Names of all series; those of `selector` are told by how it begins."""
        found = {dict(key)["__name__"] for key in self.series}
        return sorted(one for one in found if self._matches(one, selector))

    def _matches(self, name: str, selector: str) -> bool:
        similar = '=~".*('
        if similar in selector:
            ends = selector.partition(similar)[2].partition(")")[0].split("|")
            return name.endswith(tuple(ends)) and not ('namespace="' in selector and 'namespace="llm"' not in selector)
        return name in selector.partition('"')[2].partition('"')[0].split("|") and 'namespace="llm"' in selector


def filled(
    pods: Iterable[str] = ("a", "b"), *, seconds: int = 600, every: int = 15, gap: tuple[int, int] = (0, 0)
) -> Store:
    """A store of pods that draft ten times a second, scraped every so often except in the gap."""
    store = Store()
    for place, pod in enumerate(pods):
        for passed in range(0, seconds + 1, every):
            if not gap[0] < passed < gap[1]:
                store.scrape(target(pod), BEGIN + passed + place * 0.25, text(10.0 * passed))
    return store


def failure(message: str = "it did not answer") -> PrometheusError:
    """A failure after which the same query may be answered."""
    return PrometheusError(message)
