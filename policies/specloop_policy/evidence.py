"""What the windows since the last change are worth: one outcome, and pools over doubling spans.

A collapse shows in a short span soon, a small shift in a long one in the end; the intervals of all spans are widened
for the number of spans looked at.  All time in here is the windows' own, so that nothing changes between two windows.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import attrgetter

from specloop_policy.acceptance import Pool
from specloop_policy.observation import Outcome, Window
from specloop_policy.policy import Policy

STALE_WINDOWS = 2
"""Windows that may be missing before the newest one is stale: one is being filled, and one may have failed."""

END = attrgetter("end")

RANK = {outcome: place for place, outcome in enumerate(Outcome)} | {Outcome.OFF: -1}
"""Which outcome speaks for several pods of which none is measured: off, then the first in the order of `Outcome`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of the newest windows, and the pools that a decision may rest on.

    `spans` run from the shortest with enough requests to everything since the last change; empty unless the outcome
    is `Measured` or `Off`.
    """

    outcome: Outcome
    reason: str
    at: float
    """End of the newest window, seconds since the epoch."""
    spans: tuple[Pool, ...] = ()
    windows: tuple[Window, ...] = ()
    """The windows in the longest span, newest first."""

    @property
    def usable(self) -> bool:
        """Whether anything may be decided on it."""
        return bool(self.spans)

    @property
    def recent(self) -> Pool:
        """The shortest span."""
        return self.spans[0]

    @property
    def whole(self) -> Pool:
        """Everything since the last change."""
        return self.spans[-1]


def gather(policy: Policy, windows: Sequence[Window], level: str, since: float | None, now: float) -> Evidence:
    """The evidence about `level` in windows that began after `since` and the settling time.

    `since` is when the level was entered, None when it was not by us.
    """
    if not windows:
        return Evidence(Outcome.EMPTY, f"no window of metrics at {level} is complete yet", now)
    newest_first = sorted(windows, key=END, reverse=True)
    at = newest_first[0].end
    length = policy.signals.window_seconds
    age = now - at
    if age > STALE_WINDOWS * length:
        return Evidence(Outcome.STALE, f"the newest window ended {age:.0f} s ago", at)
    newest = takewhile(lambda one: at - one.end < length / 2.0, newest_first)
    outcome, reason = _newest(policy, newest, level, since)
    if outcome not in (Outcome.MEASURED, Outcome.OFF):
        return Evidence(outcome, reason, at)
    usable = _usable(policy, newest_first, outcome, level, since)
    spans = _spans(policy, usable, at, thin=outcome is Outcome.OFF)
    if not spans:
        seen = sum(one.finished_requests for one in usable)
        wanted = policy.signals.min_requests
        stand_in = next((f"; {one.reason}" for one in usable if one.reason), "")
        return Evidence(
            Outcome.THIN, f"{seen:.0f} finished requests so far, {wanted} are needed{stand_in}", at, (), usable
        )
    return Evidence(outcome, reason, at, spans, usable)


def _newest(policy: Policy, newest: Iterable[Window], level: str, since: float | None) -> tuple[Outcome, str]:
    """One outcome for the pods of the newest round: measured if any is, else off if any is, else the first in order."""
    first: tuple[Outcome, str] | None = None
    for one in newest:
        outcome, reason = one.outcome, one.reason
        if outcome in (Outcome.MEASURED, Outcome.OFF):
            if one.level != level:
                outcome, reason = Outcome.MIXED, f"{one.pod} ran {one.level or 'an unknown setting'}, not {level}"
            elif not _settled(policy, one, since):
                outcome = Outcome.SETTLING
                reason = f"{one.pod} is within {policy.signals.settle_seconds} s of a change or a start"
        if outcome is Outcome.MEASURED:
            return outcome, reason
        if first is None or RANK[outcome] < RANK[first[0]]:
            first = outcome, reason
    assert first is not None  # there is always a newest window
    return first


def _settled(policy: Policy, window: Window, since: float | None) -> bool:
    settle = policy.signals.settle_seconds
    if since is not None and window.start < since + settle:
        return False
    return window.process_start is None or window.start >= window.process_start + settle


def _usable(
    policy: Policy, newest_first: Sequence[Window], outcome: Outcome, level: str, since: float | None
) -> tuple[Window, ...]:
    """The settled windows of this outcome and level within the longest span."""
    signals = policy.signals
    settle = signals.settle_seconds
    begin = newest_first[0].end - signals.max_evidence_seconds - signals.window_seconds / 2.0
    if since is not None:
        begin = max(begin, since + settle)
    return tuple(
        [
            one
            for one in newest_first
            if one.start >= begin
            and one.outcome is outcome
            and one.level == level
            and (one.process_start is None or one.start >= one.process_start + settle)
        ]
    )


def _spans(policy: Policy, newest_first: tuple[Window, ...], at: float, *, thin: bool) -> tuple[Pool, ...]:
    """Pools over the last n, 2n, 4n, ... rounds of windows and over all, n the fewest with enough requests."""
    signals = policy.signals
    length, wanted = signals.window_seconds, 0 if thin else signals.min_requests
    totals: dict[int, tuple[int, tuple[float, float, float]]] = {}
    count, requests, drafted, accepted = 0, 0.0, 0.0, 0.0
    first = None
    for end, group in groupby(newest_first, END):
        for one in group:
            count += 1
            requests += one.finished_requests
            drafted += one.draft_tokens
            accepted += one.accepted_tokens
        place = int((at - end) / length + 0.5)
        totals[place] = count, (requests, drafted, accepted)
        if first is None and requests >= wanted:
            first = place
    if first is None:
        return ()
    depths = _depths(list(totals), first + 1)
    spans = []
    for depth in depths:
        count, trials = totals[depth - 1]
        windows = newest_first[:count]
        spans.append(Pool(windows, depth * length, signals.design_effect, len(depths), trials))
    return tuple(spans)


def _depths(places: Sequence[int], shortest: int) -> tuple[int, ...]:
    """How many rounds back each span goes: n, 2n, 4n, ... and all, moved on to the next round that has windows."""
    deepest = places[-1] + 1
    depths = []
    while shortest < deepest:
        depths.append(places[bisect_left(places, shortest - 1)] + 1)
        shortest *= 2
    return tuple(dict.fromkeys((*depths, deepest)))


def clock(policy: Policy, windows: Iterable[Window], now: float) -> float:
    """The windows' own time, the end of the newest one; `now` once they have stopped coming."""
    at = max(map(END, windows), default=now)
    return now if now - at > STALE_WINDOWS * policy.signals.window_seconds else at


def without(windows: Iterable[Window], pods: Iterable[str]) -> tuple[Window, ...]:
    """The windows of all other pods."""
    left_out = frozenset(pods)
    return tuple(one for one in windows if one.pod not in left_out)
