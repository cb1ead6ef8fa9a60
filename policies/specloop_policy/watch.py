"""After a promotion: whether the new level does harm that a soak is too short to show."""

from collections.abc import Sequence
from dataclasses import dataclass

from specloop_policy.acceptance import wilson
from specloop_policy.gate import failed_share
from specloop_policy.observation import Outcome, Service, Window

RESTARTS = 2
"""Restarts that are too many: one may be chance."""

STALLED_WINDOWS = 2
"""Stalled windows of one pod in a row that are a hang: in one, a long prefill may look like it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A level that was promoted, watched `until` then (seconds since the epoch)."""

    level: str
    back_to: str
    key: str
    since: float
    until: float
    failed_share: float = 0.0
    """Share of requests that failed beside it at the level before."""
    restarts: int = 0
    """Restarts that its pods had when it was promoted."""


def judge_watch(
    watch: Watch, restarts: int, windows: Sequence[Window], served: Service, max_error_rate_percent: int
) -> str | None:
    """What harm the level does, in words; None while none is sure.

    `restarts` counts those of its pods, `windows` and `served` are theirs since the promotion.
    """
    since = restarts - watch.restarts
    if since >= RESTARTS:
        return f"{since} restarts of its engines since it was promoted"
    for pod in dict.fromkeys(window.pod for window in windows):
        last = [window for window in windows if window.pod == pod and window.end > watch.since][-STALLED_WINDOWS:]
        if len(last) == STALLED_WINDOWS and all(window.outcome is Outcome.STALLED for window in last):
            return f"pod {pod} hangs: requests run and no counter moves"
    share = failed_share(served)
    allowed = max(max_error_rate_percent / 100.0, watch.failed_share)
    if not share or served.failed_requests is None:
        return None
    total = served.failed_requests / share
    if wilson(served.failed_requests, total, total, 1).low <= allowed:
        return None
    return f"{100 * share:.1f} % of requests failed since it was promoted, {100 * allowed:.1f} % are allowed"
