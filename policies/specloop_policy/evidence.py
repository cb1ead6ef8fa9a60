"""What the windows since the last change are worth: one outcome, and pools over doubling spans.

A collapse shows in a short span soon, a small shift in a long one in the end; the intervals of all spans are widened
for the number of spans looked at.  All time in here is the windows' own, so that nothing changes between two windows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specloop_policy.acceptance import Pool
from specloop_policy.observation import Outcome, Window
from specloop_policy.policy import Policy

STALE_WINDOWS = 2
"""Windows that may be missing before the newest one is stale: one is being filled, and one may have failed."""

ORDER = {outcome: place for place, outcome in enumerate(Outcome)}


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
    """The windows in the longest span, oldest first."""

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
    at = max(one.end for one in windows)
    length = policy.signals.window_seconds
    newest = [one for one in windows if at - one.end < length / 2.0]
    age = now - at
    if age > STALE_WINDOWS * length:
        return Evidence(Outcome.STALE, f"the newest window ended {age:.0f} s ago", at)
    outcome, reason = _newest(policy, newest, level, since)
    if outcome not in (Outcome.MEASURED, Outcome.OFF):
        return Evidence(outcome, reason, at)
    horizon = at - policy.signals.max_evidence_seconds - length / 2.0
    usable = tuple(
        one
        for one in windows
        if one.start >= horizon and one.outcome is outcome and _settled(policy, one, since) and one.level == level
    )
    spans = _spans(policy, usable, at, thin=outcome is Outcome.OFF)
    if not spans:
        seen = sum(one.finished_requests for one in usable)
        wanted = policy.signals.min_requests
        stand_in = next((f"; {one.reason}" for one in usable if one.reason), "")
        return Evidence(
            Outcome.THIN, f"{seen:.0f} finished requests so far, {wanted} are needed{stand_in}", at, (), usable
        )
    return Evidence(outcome, reason, at, spans, usable)


def _newest(policy: Policy, newest: Sequence[Window], level: str, since: float | None) -> tuple[Outcome, str]:
    """One outcome for the pods of the newest round: measured if any is, else off if any is, else the first in order."""
    found: list[tuple[int, Outcome, str]] = []
    for one in newest:
        outcome, reason = one.outcome, one.reason
        if outcome in (Outcome.MEASURED, Outcome.OFF):
            if one.level != level:
                outcome, reason = Outcome.MIXED, f"{one.pod} ran {one.level or 'an unknown setting'}, not {level}"
            elif not _settled(policy, one, since):
                outcome = Outcome.SETTLING
                reason = f"{one.pod} is within {policy.signals.settle_seconds} s of a change or a start"
        rank = {Outcome.MEASURED: -2, Outcome.OFF: -1}.get(outcome, ORDER[outcome])
        found.append((rank, outcome, reason))
    _, outcome, reason = min(found, key=lambda item: item[0])
    return outcome, reason


def _settled(policy: Policy, window: Window, since: float | None) -> bool:
    settle = policy.signals.settle_seconds
    if since is not None and window.start < since + settle:
        return False
    return window.process_start is None or window.start >= window.process_start + settle


def _spans(policy: Policy, windows: Sequence[Window], at: float, *, thin: bool) -> tuple[Pool, ...]:
    """Pools over the last n, 2n, 4n, ... rounds of windows and over all, n the fewest with enough requests."""
    length = policy.signals.window_seconds
    rounds: dict[int, list[Window]] = {}
    for one in windows:
        rounds.setdefault(int((at - one.end) / length + 0.5), []).append(one)
    wanted = 0.0 if thin else policy.signals.min_requests
    depths = _depths({place: sum(one.finished_requests for one in found) for place, found in rounds.items()}, wanted)
    effect = policy.signals.design_effect
    return tuple(
        Pool(
            tuple(one for place in range(depth) if place in rounds for one in rounds[place]),
            depth * length,
            effect,
            len(depths),
        )
        for depth in depths
    )


def _depths(requests: Mapping[int, float], wanted: float) -> tuple[int, ...]:
    """How many rounds back each span goes: n, 2n, 4n, ... and all, moved on to the next round that has windows."""
    places = sorted(requests)
    seen, enough = 0.0, None
    for place in places:
        seen += requests[place]
        if seen >= wanted:
            enough = place + 1
            break
    if enough is None:
        return ()
    deepest = places[-1] + 1
    depths = []
    while enough < deepest:
        depths.append(next(place + 1 for place in places if place + 1 >= enough))
        enough *= 2
    return tuple(dict.fromkeys((*depths, deepest)))


def clock(policy: Policy, windows: Iterable[Window], now: float) -> float:
    """The windows' own time, the end of the newest one; `now` once they have stopped coming."""
    at = max((one.end for one in windows), default=now)
    return now if now - at > STALE_WINDOWS * policy.signals.window_seconds else at


def without(windows: Iterable[Window], pods: Iterable[str]) -> tuple[Window, ...]:
    """The windows of all other pods."""
    left_out = frozenset(pods)
    return tuple(one for one in windows if one.pod not in left_out)
