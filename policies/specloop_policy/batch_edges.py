"""Levels whose K depends on the batch, where that changes just where the batch usually is.

An engine looks K up anew at every step, with no hysteresis: a batch that sways about an edge has its K changed all the
time, and throughput was seen to collapse there (vLLM issue 49548).
"""

import math
from collections.abc import Iterable

from specloop_policy.decision import FailedChange, Inputs
from specloop_policy.ladder import Ladder
from specloop_policy.observation import Outcome, Window

RARE = 10
"""Of so many windows, the one with the least and the one with the largest batch are not usual."""


def usual_batch(windows: Iterable[Window]) -> tuple[float, float] | None:
    """The range in which the number of requests in a step usually is; None where nobody reports it.

    Windows have the mean alone; inside one the number sways by its root, as of requests that come independently.
    """
    known = (Outcome.MEASURED, Outcome.OFF)
    means = sorted(one.running for one in windows if one.running is not None and one.outcome in known)
    if not means:
        return None
    rare = len(means) // RARE
    low, high = means[rare], means[len(means) - 1 - rare]
    return max(0.0, low - math.sqrt(low)), high + math.sqrt(high)


def edge_failures(ladder: Ladder, windows: Iterable[Window], inputs: Inputs) -> tuple[FailedChange, ...]:
    """The levels that are not gone to for an edge where the batch usually is, each with the reason."""
    ranged = [level for level in ladder.levels if level.by_batch]
    usual = usual_batch(windows) if ranged else None
    if usual is None:
        return ()
    low, high = usual
    keys, found = dict(inputs.keys), []
    for level in ranged:
        edge = next((edge for edge, _ in level.by_batch if low <= edge <= high), None)
        if edge is not None:
            reason = (
                f"its K changes at {edge} requests, and the batch usually has {low:.0f} to {high:.0f}: "
                "there it would change from step to step"
            )
            found.append(FailedChange(level.name, keys.get(level.name, ""), reason, untried=True))
    return tuple(found)
