"""What pods did, block by block, written as few figures as a test is about."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specloop_policy.gate import Evidence
from specloop_policy.observation import Service

STEADY = Service(
    decode_seconds=100.0,
    decode_tokens=10_000.0,
    first_token_seconds=20.0,
    first_tokens=100.0,
    finished_requests=100.0,
    output_tokens=10_100.0,
    length_requests=10.0,
    failed_requests=0.0,
    cache_queries=50_000.0,
    cache_hits=10_000.0,
    preemptions=0.0,
)
"""A hundred requests of 101 tokens at 10 ms a token, their first after 200 ms; a tenth ran into their limit."""


def served(**figures: Any) -> Service:
    """A block like the steady one but for these figures."""
    return replace(STEADY, **figures)


def blocks(count: int = 3, **figures: Any) -> tuple[Service, ...]:
    """So many blocks that are all alike: nothing varies, so that an interval is a point."""
    return (served(**figures),) * count


def seconds(*values: float) -> tuple[Service, ...]:
    """Blocks of 100 tokens that took so many seconds each."""
    return tuple(served(decode_seconds=value, decode_tokens=100.0) for value in values)


def against(canary: Sequence[Service], control: Sequence[Service] | None = None, **more: Any) -> Evidence:
    """A canary beside its control; without one it is as many steady blocks."""
    return Evidence(tuple(canary), tuple(blocks(len(canary)) if control is None else control), **more)
