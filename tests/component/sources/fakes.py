"""A Prometheus in memory that many may ask at once, and that can be held up."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from specloop_control.prometheus_server import Answer, PrometheusError, PrometheusSettings
from specloop_engine.sample import Sample
from tests.unit.recording.store import Store

SETTINGS = PrometheusSettings("http://prometheus:9090", lag_seconds=10.0)
NOW = 1_796_000_000.0


@dataclass
class Held(Store):
    """A store that answers once its gate is open, and as a file that was closed once it is."""

    gate: threading.Event = field(default_factory=threading.Event)
    counted: list[tuple[float, float]] = field(default_factory=list)
    per_value: int = 1
    """Each value counts as so many, so that a test need not have millions."""
    dead: str | None = None
    """Why nothing is answered at all."""
    closed: bool = False

    def __post_init__(self) -> None:
        """The gate is open at first."""
        self.gate.set()

    def values(self, selector: str, start: float, end: float) -> Answer:
        """As the store, when the gate is open."""
        assert self.gate.wait(60.0)
        if self.dead is not None:
            raise PrometheusError(self.dead)
        return super().values(selector, start, end)

    def count(self, selector: str, start: float, end: float) -> int:
        """How many values there are after `start` and up to `end`."""
        self.counted.append((start, end))
        return self.per_value * sum(start < float(one[0]) <= end for ones in self.series.values() for one in ones)

    def close(self) -> None:
        """Nothing is asked any more."""
        self.closed = True


def pod(name: str, namespace: str = "llm", job: str = "vllm") -> dict[str, str]:
    """Labels that Prometheus adds to the series of a pod."""
    return {"job": job, "instance": f"{name}:8000", "namespace": namespace, "pod": name}


def page(tokens: float | str) -> str:
    """The shortest page of an engine that tells one scrape from another."""
    return f'vllm:generation_tokens_total{{model_name="tiny",engine="0"}} {tokens}\n'


def told(samples: Sequence[tuple[str, Sample]]) -> list[tuple[str, float, float | None]]:
    """Samples as pod, time before now, and tokens."""
    return [(name, round(one.at - NOW, 3), one.generation_tokens) for name, one in samples]
