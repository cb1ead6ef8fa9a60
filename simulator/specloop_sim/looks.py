"""What a policy saw, round by round of its windows: the figures behind a report, simulated or recorded."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from specloop_policy.acceptance import Interval, Pool
from specloop_policy.observation import Outcome, Window
from specloop_policy.policy import Policy

FIELD_REPORT_TEMPERATURE = 0.6
"""Where a policy names no temperature of its own: above it the field report's rules call traffic hot."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one round of windows showed at the fleet's level, all pods together; None where nobody says."""

    at: float
    """End of the round, in the windows' time."""
    level: str | None
    """Of the fleet; None: at none of the ladder."""
    acceptance: Interval | None
    """Accepted per draft token; None when nothing was drafted."""
    hot: Interval | None
    """Share of requests above the policy's temperature."""
    running: float | None
    """Requests in the batch, mean per pod."""


class Looks:
    """Collects rounds of windows as they close; memory grows with rounds, not with samples."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.temperature = hot_above(policy)
        self.outcomes: Counter[Outcome] = Counter()
        """Windows by outcome."""
        self._seen: tuple[Window, ...] = ()
        self._counted: dict[str, float] = {}
        """End of the last window of each pod that was counted."""
        self._round: list[Window] = []
        self._level: str | None = None
        self._looks: list[Look] = []

    def see(self, windows: tuple[Window, ...], level: str | None) -> None:
        """Take note of windows that have closed since the last call, oldest first, while the fleet is at a level."""
        if windows != self._seen:
            self._seen = windows
            for window in windows:
                if window.end > self._counted.get(window.pod, -math.inf):
                    self._counted[window.pod] = window.end
                    self._count(window)
        self._level = level

    def finish(self) -> list[Look]:
        """All rounds, the last one as far as it has come."""
        self._close_round()
        return self._looks

    def _count(self, window: Window) -> None:
        """A window belongs to the round of its place on the grid; the first of the next round closes it."""
        self.outcomes[window.outcome] += 1
        if self._round and self._place(self._round[0]) != self._place(window):
            self._close_round()
        self._round.append(window)

    def _place(self, window: Window) -> int:
        return math.floor(window.end / self._policy.signals.window_seconds + 0.5)

    def _close_round(self) -> None:
        if not self._round:
            return
        pool = self._pool(one for one in self._round if says_something(one) and one.level == self._level)
        self._looks.append(
            Look(
                at=max(one.end for one in self._round),
                level=self._level,
                acceptance=None if pool is None else pool.acceptance,
                hot=None if pool is None else pool.hotter_than(self.temperature),
                running=None if pool is None else pool.running,
            )
        )
        self._round = []

    def _pool(self, windows: Iterable[Window]) -> Pool | None:
        sound = tuple(windows)
        signals = self._policy.signals
        return Pool(sound, float(signals.window_seconds), signals.design_effect) if sound else None


def says_something(window: Window) -> bool:
    """Whether a window may lead to a change."""
    return window.outcome in (Outcome.MEASURED, Outcome.OFF)


def hot_above(policy: Policy) -> float:
    """The temperature above which a policy calls traffic hot."""
    limits = (rule.when.temperature for rule in policy.rules)
    return next((float(one.above) for one in limits if one is not None), FIELD_REPORT_TEMPERATURE)
