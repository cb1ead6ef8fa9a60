"""A Prometheus in memory that many may ask at once, and that can be held up."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from specloop_control.prometheus_server import Answer, PrometheusError, PrometheusSettings
from specloop_engine.sample import Sample
from tests.unit.recording.store import Store

SETTINGS = PrometheusSettings("http://prometheus:9090", lag_seconds=10.0)
NOW = 1_796_000_000.0


@dataclass(frozen=True)
class Heavy(Answer):
    """An answer whose values count as ten thousand each, so that a test need not have millions."""

    @property
    def values(self) -> int:
        """How many values there seem to be."""
        return 10_000 * sum(len(one["values"]) for one in self.series)


@dataclass
class Held(Store):
    """A store that answers once its gate is open, and as a file that was closed once it is."""

    gate: threading.Event = field(default_factory=threading.Event)
    heavy: bool = False
    """Whether there seems to be ten thousand times as much."""
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
        answer = super().values(selector, start, end)
        return Heavy(answer.series, answer.warnings) if self.heavy else answer

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
