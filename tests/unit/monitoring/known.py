"""The series that there are, with their labels: recorded pages of engines, the plugin's families, the operator's."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from specloop_operator.families import FAMILIES
from specloop_vllm.exchange import Profile
from specloop_vllm.live_metrics import LiveMetrics
from specloop_vllm.requests import Asked, RequestMetrics, Served
from specloop_vllm.steering import Steering

PAGES = Path(__file__).resolve().parents[1] / "engine_metrics" / "pages"
SERIES = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", re.MULTILINE)

SCRAPED = frozenset({"namespace", "pod", "job", "instance"})
"""Labels that the scrape's configuration adds."""

V0_GAUGE = "vllm:spec_decode_draft_acceptance_rate"
"""On no recorded page: vLLM 0.5.3 to 0.9.2 has it with its V0 engine (vllm/engine/metrics.py,
`gauge_spec_decode_draft_acceptance_rate`, label `model_name`), and no later one."""

ALERTS = "ALERTS"
"""Prometheus' own: every alert that is pending or firing, with its labels."""


def on_page(page: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The series of a page: name and labels."""
    for name, labels in SERIES.findall(page):
        yield name, frozenset(re.findall(r'(\w+)="', labels))


def plugin_page(folder: Path) -> str:
    """What the plugin shows once it has served and been asked for another K."""
    registry = CollectorRegistry()
    served = Served("tiny")
    requests = RequestMetrics(registry)
    requests.introduce(served)
    requests.count(served, Asked(0.7, 100, stream=True), 200)
    profile = Profile("0.32.0", "draft_model", "small", 5, 8)
    Steering(folder, profile, [5] * 9, lambda words: None, lambda: 0.0).look()
    registry.register(LiveMetrics(folder, lambda: "tiny"))
    return generate_latest(registry).decode()


@cache
def engine_series() -> dict[str, frozenset[str]]:
    """Series of engines: all labels that each was seen with."""
    found: dict[str, frozenset[str]] = {V0_GAUGE: frozenset({"model_name"})}
    for path in sorted(PAGES.glob("*.txt")):
        for name, labels in on_page(path.read_text(encoding="utf-8")):
            found[name] = found.get(name, frozenset()) | labels
    # Pipelines of OpenTelemetry write an underscore for what is no letter: the same series, one character apart.
    return found | {name.replace(":", "_", 1): labels for name, labels in found.items() if name.startswith("vllm:")}


def operator_series() -> dict[str, frozenset[str]]:
    """Series of the operator."""
    found: dict[str, frozenset[str]] = {}
    for family in FAMILIES:
        labels = frozenset(family.labels)
        if family.kind is Histogram:
            found[family.name + "_bucket"] = labels | {"le"}
            found |= {family.name + end: labels for end in ("_sum", "_count")}
        else:
            found[family.name] = labels
    return found


def all_series(folder: Path) -> dict[str, frozenset[str]]:
    """Every series that may be scraped, with its own labels; `folder` is for the plugin."""
    return engine_series() | dict(on_page(plugin_page(folder))) | operator_series()
