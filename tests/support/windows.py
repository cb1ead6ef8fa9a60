"""Windows made from rates: what a fleet of given traffic would have counted."""

from collections.abc import Sequence
from dataclasses import replace

from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Observation, Outcome, Window, Workload


def measured(
    survival: Sequence[float],
    *,
    end: float = 300.0,
    seconds: float = 300.0,
    pod: str = "pod-0",
    level: str = "k5",
    requests: float = 240.0,
    drafts: float = 9000.0,
    coverage: float = 1.0,
    hot_share: float | None = None,
    hot: float = 0.8,
    running: float = 8.0,
    prompt_tokens: float = 500.0,
    process_start: float | None = None,
) -> Window:
    """A window of `drafts` steps that drafted K = len(survival) tokens and accepted them as `survival` says."""
    per_position = tuple(drafts * share for share in survival)
    accepted = sum(per_position)
    steps = drafts / coverage
    temperatures: tuple[tuple[float, float], ...] = ()
    if hot_share is not None:
        edges = [round(0.1 * i, 1) for i in range(21)]
        cool = requests * (1.0 - hot_share)
        temperatures = (*((edge, requests if edge >= hot else cool) for edge in edges), (float("inf"), requests))
    return Window(
        pod=pod,
        start=end - seconds,
        end=end,
        outcome=Outcome.MEASURED,
        level=level,
        tokens=len(survival),
        process_start=process_start,
        drafts=drafts,
        draft_tokens=drafts * len(survival),
        accepted_tokens=accepted,
        accepted_per_position=per_position,
        generation_tokens=steps + accepted + requests,
        prompt_tokens=prompt_tokens * requests,
        finished_requests=requests,
        first_tokens=requests,
        running=running,
        kv_cache_percent=40.0,
        temperatures=temperatures,
    )


def off(*, end: float = 300.0, seconds: float = 300.0, pod: str = "pod-0", requests: float = 240.0) -> Window:
    """A window of an engine that does not speculate."""
    window = measured((), end=end, seconds=seconds, pod=pod, level="disabled", requests=requests, drafts=0.0)
    return replace(window, outcome=Outcome.OFF, tokens=0, generation_tokens=200.0 * requests)


def constant(rate: float, tokens: int) -> tuple[float, ...]:
    """A survival whose mean over all positions is `rate`: the same at each, the plainest profile of that rate."""
    return (rate,) * tokens


def observe(ladder: Ladder, level: Level | str, windows: Sequence[Window], replicas: int = 1) -> Observation:
    """An observation of a target at a level of the ladder."""
    name = level if isinstance(level, str) else level.name
    assert ladder.find(name) is not None
    return Observation(tuple(windows), Workload(name, replicas))
