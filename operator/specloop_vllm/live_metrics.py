"""What live control shows on `/metrics`: both sides, read from their files when somebody looks."""

from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from specloop_vllm.control import is_pending, read_sides
from specloop_vllm.tables import Table


class LiveMetrics(Collector):
    """A collector over the folder of one engine."""

    def __init__(self, folder: Path, model_name: Callable[[], str]) -> None:
        self._folder = folder
        self._name = model_name

    def collect(self) -> Iterator[Metric]:
        """All families; what is not known has no series."""
        sides, name = read_sides(self._folder), self._name()
        up = GaugeMetricFamily("specloop_live_up", "1 where K can be changed live, else 0.", labels=("model_name",))
        up.add_metric((name,), 0.0 if sides.problem else 1.0)
        yield up
        generation = GaugeMetricFamily(
            "specloop_live_generation", "Number of the wish, by side: desired, applied.", labels=("model_name", "side")
        )
        table = GaugeMetricFamily(
            "specloop_live_tokens",
            "K by side, and by the least number of requests in a step from which it counts.",
            labels=("model_name", "side", "requests"),
        )
        if sides.desired is not None:
            generation.add_metric((name, "desired"), sides.desired.generation)
            _add(table, name, "desired", sides.desired.table)
        if sides.applied is not None:
            if sides.applied.generation is not None:
                generation.add_metric((name, "applied"), sides.applied.generation)
            _add(table, name, "applied", sides.applied.table)
        yield generation
        yield table
        pending = GaugeMetricFamily(
            "specloop_live_pending", "1 while a wish waits for the engine's next step.", labels=("model_name",)
        )
        pending.add_metric((name,), float(is_pending(sides)))
        yield pending
        if sides.applied is not None:
            clamped = GaugeMetricFamily(
                "specloop_live_clamped", "1 where a wish was cut down to the start-up maximum.", labels=("model_name",)
            )
            clamped.add_metric((name,), float(sides.applied.clamped))
            yield clamped
            ignored = CounterMetricFamily(
                "specloop_live_ignored_wishes", "Wishes that could not be taken.", labels=("model_name",)
            )
            ignored.add_metric((name,), float(sides.applied.ignored))
            yield ignored


def _add(family: GaugeMetricFamily, name: str, side: str, table: Table) -> None:
    for first, _, tokens in table:
        family.add_metric((name, side, str(first)), tokens)
