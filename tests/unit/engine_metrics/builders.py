"""Pages and samples for these tests: the recorded ones, changed ones, and small ones made from engine facts."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from specloop_engine.reader import read_sample
from specloop_engine.sample import Dialect, Drafting, Sample

PAGES = Path(__file__).with_name("pages")
RECORDED = sorted(path.name for path in PAGES.glob("*.txt"))
START = 1_795_973_043.29


def recorded(name: str) -> str:
    """A recorded page, by its file name without the ending."""
    return (PAGES / f"{name}.txt").read_text(encoding="utf-8")


def changed(page: str, series: str, value: str) -> str:
    """The page with another value for every series of this name (a name, or a name with its labels' start)."""
    changed_page, count = re.subn(rf"^({re.escape(series)}.*) \S+$", rf"\g<1> {value}", page, flags=re.MULTILINE)
    assert count, f"no {series} on the page"
    return changed_page


def without(page: str, series: str) -> str:
    """The page without the series whose names begin like this."""
    return "".join(line for line in page.splitlines(keepends=True) if not line.startswith(series))


def draft_page(at: float) -> Sample:
    """The recorded page of vLLM 0.32.0 with a draft model and K = 3, after six requests of 100 tokens."""
    return read_sample(recorded("vllm-0.32.0-draft"), at)


def draft_idle_page(at: float) -> Sample:
    """The same process before its first request."""
    return read_sample(recorded("vllm-0.32.0-draft-idle"), at)


def v1(at: float, steps: float = 0.0, *, survival: tuple[float, ...] = (0.5, 0.25), **fields: Any) -> Sample:
    """A V1 sample after `steps` drafts in one process, requests of 100 steps; `fields` are set over it."""
    positions = tuple(steps * share for share in survival)
    requests = steps / 100.0
    sample = Sample(
        at,
        Dialect.VLLM_V1,
        START,
        drafting=Drafting(steps, steps * len(survival), sum(positions), positions),
        tokens=len(survival),
        generation_tokens=steps + sum(positions) + requests,
        prompt_tokens=500.0 * requests,
        finished_requests=requests,
        one_token_requests=0.0,
        length_requests=0.0,
        first_tokens=requests,
        engine_steps=steps,
        running=2.0,
        waiting=0.0,
        kv_cache_percent=10.0,
    )
    return replace(sample, **fields)


def v1_off(at: float, steps: float = 0.0, **fields: Any) -> Sample:
    """The same process without speculation."""
    return replace(v1(at, steps, survival=()), drafting=None, tokens=0, **fields)


def v0(at: float, rate: float, generation_tokens: float, **fields: Any) -> Sample:
    """A V0 sample: the gauge of the lifetime's acceptance, and generated tokens."""
    sample = Sample(
        at,
        Dialect.VLLM_V0,
        START,
        drafting=Drafting(lifetime_rate=rate),
        generation_tokens=generation_tokens,
        finished_requests=generation_tokens / 100.0,
        first_tokens=generation_tokens / 100.0,
    )
    return replace(sample, **fields)
