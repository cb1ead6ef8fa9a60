"""What came of a candidate: on one trace, and on all of them against speculation off."""

from collections.abc import Sequence
from dataclasses import dataclass

from specloop_sim.figures import Figures


@dataclass(frozen=True, slots=True)
class Measured:
    """A run over one trace."""

    mean_request_seconds: float
    changes: int
    restarts: int
    unanswered: int
    """Requests refused, or not answered when the run was over."""

    @classmethod
    def of(cls, figures: Figures) -> "Measured":
        """What a sweep needs of a run's figures."""
        unanswered = figures.refused_requests + figures.unfinished_requests
        return cls(figures.mean_request_seconds, figures.changes, figures.restarts, unanswered)


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate over all traces."""

    speed_percent: float
    """Percent less mean request time than with speculation off, mean over the traces."""
    changes: int
    restarts: int
    mean_request_seconds: float
    """Mean over the traces."""
    unanswered: int
    """Requests that it left unanswered and speculation off did not."""


def judge(runs: Sequence[Measured], disabled: Sequence[Measured]) -> Judged:
    """A candidate's runs against those with speculation off, trace by trace."""
    pairs = tuple(zip(runs, disabled, strict=True))
    return Judged(
        speed_percent=_mean([_less(one, off) for one, off in pairs]),
        changes=sum(one.changes for one in runs),
        restarts=sum(one.restarts for one in runs),
        mean_request_seconds=_mean([one.mean_request_seconds for one in runs]),
        unanswered=sum(max(0, one.unanswered - off.unanswered) for one, off in pairs),
    )


def _less(one: Measured, off: Measured) -> float:
    """Percent; nought where speculation off answered nothing."""
    if not off.mean_request_seconds:
        return 0.0
    return 100.0 * (1.0 - one.mean_request_seconds / off.mean_request_seconds)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
