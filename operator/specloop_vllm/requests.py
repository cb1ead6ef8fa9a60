"""What requests ask for, counted on vLLM's own `/metrics` page: the temperatures that no metric of vLLM's shows.

A request counts once its answer begins, and its temperature only where it is answered: what is refused decodes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from specloop_vllm.tables import is_whole

PATHS = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"})
"""What generates text and takes JSON."""

MOST_BYTES = 4 * 1024 * 1024
"""A longer body is passed on and not looked at: it is pictures, and reading it would hold up the event loop."""

TEMPERATURE_EDGES = tuple(tenth / 10 for tenth in range(21))
"""0.0 to 2.0 by 0.1, so that a share above a limit of one decimal is exact."""

TOKEN_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)

NEUTRAL_TEMPERATURE = 1.0
"""vLLM's own default, where neither request nor generation config name one."""

MOST_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""As chat, completions and responses call it; the first that is there counts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for; None where it does not say, or cannot be read."""

    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False
    readable: bool = True


UNREADABLE = Asked(readable=False)


def read_asked(body: bytes) -> Asked:
    """What a body of JSON asks for; `UNREADABLE` for anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return UNREADABLE
    if not isinstance(found, dict):
        return UNREADABLE
    temperature = found.get("temperature")
    tokens = next((found[name] for name in MOST_TOKENS_FIELDS if found.get(name) is not None), None)
    return Asked(
        float(temperature) if is_number(temperature) and 0 <= temperature <= 1e6 else None,
        tokens if is_whole(tokens) and 0 <= tokens <= 2**53 else None,
        found.get("stream") is True,
    )


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number; JSON's true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Served:
    """The model that a server serves, and the temperature of requests that name none."""

    name: str = ""
    """Its first served name, as in vLLM's own metrics."""
    temperature: float = NEUTRAL_TEMPERATURE
    origin: str = "vllm"
    """Who set that temperature: `vllm`, or the model's `generation_config`."""


def served_by(application: Any) -> Served:
    """Of vLLM's application, once it has started; what it does not show is as if it had not been set."""
    config = getattr(getattr(application, "state", None), "vllm_config", None)
    model = getattr(config, "model_config", None)
    names = getattr(model, "served_model_name", None)
    name = names[0] if isinstance(names, list | tuple) and names else names
    defaults: object = getattr(model, "get_diff_sampling_param", dict)()
    named = defaults.get("temperature") if isinstance(defaults, Mapping) else None
    shown = name if isinstance(name, str) else ""
    return Served(shown, float(named), "generation_config") if is_number(named) else Served(shown)


class RequestMetrics:
    """The metrics of one server's requests."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        labels = ("model_name",)
        self._temperature = Histogram(
            "specloop_request_temperature",
            "Sampling temperature of each answered request; the default where it names none.",
            labels,
            buckets=TEMPERATURE_EDGES,
            registry=registry,
        )
        self._max_tokens = Histogram(
            "specloop_request_max_tokens",
            "Most tokens that each answered request asks for; one that names no limit is not in it.",
            labels,
            buckets=TOKEN_EDGES,
            registry=registry,
        )
        self._requests = Counter(
            "specloop_requests",
            "Requests by status of the answer, and by whether they stream.",
            (*labels, "status", "stream"),
            registry=registry,
        )
        self._counters: dict[tuple[str, int, bool], Counter] = {}
        self._by_name: dict[str, tuple[Histogram, Histogram]] = {}
        self._unread = Counter(
            "specloop_unread_requests",
            "Answered requests whose body was no JSON, or too long to look at: in no other figure here.",
            labels,
            registry=registry,
        )
        self._default = Gauge(
            "specloop_default_temperature",
            "Temperature of requests that name none, and who set it.",
            (*labels, "origin"),
            registry=registry,
            multiprocess_mode="livemax",
        )

    def introduce(self, served: Served) -> None:
        """Show what is known before the first request."""
        self._default.labels(served.name, served.origin).set(served.temperature)
        self._temperature.labels(served.name)

    def count(self, served: Served, asked: Asked, status: int) -> None:
        """Count a request whose answer begins with this status."""
        self._ended(served.name, status // 100, asked.stream).inc()
        if status >= 400:
            return
        if not asked.readable:
            self._unread.labels(served.name).inc()
            return
        temperature, max_tokens = self._histograms(served.name)
        temperature.observe(served.temperature if asked.temperature is None else asked.temperature)
        if asked.max_tokens is not None:
            max_tokens.observe(asked.max_tokens)

    # Looking a labelled metric up takes longer than counting in it.

    def _ended(self, name: str, hundreds: int, stream: bool) -> Counter:
        key = name, hundreds, stream
        found = self._counters.get(key)
        if found is None:
            found = self._counters[key] = self._requests.labels(name, f"{hundreds}xx", str(stream).lower())
        return found

    def _histograms(self, name: str) -> tuple[Histogram, Histogram]:
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = self._temperature.labels(name), self._max_tokens.labels(name)
        return found
