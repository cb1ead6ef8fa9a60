"""The simulated server's pages against pages of a real vLLM: families, types, texts, labels, presence."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.component.sim.servers import NGRAM_K4, serving

PAGES = Path(__file__).parents[2] / "unit" / "engine_metrics" / "pages"
"""Recorded from a real vLLM 0.32.0 (CPU build, tiny models); `-idle` is before the first request."""
SERIES = re.compile(r"([\w:]+)(?:\{(.*)\})? \S+")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
OWN_VALUES = {"vllm:cache_config_info", "python_info"}
"""Families whose label values are this machine's or this engine's."""
FLAGS = ("--served-model-name", "tiny", "--max-model-len", "1024")
SETTINGS = {
    "off": (),
    "draft": ("--speculative-config", '{"method": "draft_model", "model": "small", "num_speculative_tokens": 3}'),
    "ngram": NGRAM_K4,
}


@dataclass
class Family:
    """One family of a page."""

    help: str
    type: str = ""
    series: set[tuple[str, frozenset[tuple[str, str]]]] = field(default_factory=set)


def families(page: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    name = ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            found[name] = Family(text)
        elif line.startswith("# TYPE "):
            found[name].type = line.split(" ")[3]
        elif one := SERIES.fullmatch(line):
            labels = dict(LABEL.findall(one[2] or ""))
            if name in OWN_VALUES:
                labels = dict.fromkeys(labels, "")
            found[name].series.add((one[1], frozenset(labels.items())))
    return {name: family for name, family in found.items() if not name.startswith("request_temperature_probe")}


@pytest.mark.parametrize("setting", SETTINGS)
def test_families_types_and_labels_are_those_of_a_real_vllm_before_and_after_requests(setting: str) -> None:
    with serving(*FLAGS, *SETTINGS[setting], speed=1000) as server:
        idle = families(server.page())
        for _ in range(6):
            server.complete(prompt="Write JSON", max_tokens=100, temperature=0)
        running = families(server.page())
    assert idle == families((PAGES / f"vllm-0.32.0-{setting}-idle.txt").read_text("utf-8"))
    assert running == families((PAGES / f"vllm-0.32.0-{setting}.txt").read_text("utf-8"))
