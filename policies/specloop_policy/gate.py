"""The gate: whether a canary serves as well as the pods that were left alone.

Both are measured over the same blocks of time, one a look.  Figures are ratios of sums over all blocks, such as decode
time to tokens; their intervals come from leaving out one block after another (the jackknife: Quenouille 1956, Tukey
1958), because the requests of one block share load and kind and are no independent ones.  Where no pod was left alone,
the blocks before the change stand in; those are others than the blocks after it, so that both vary.

Speed is time per real output token and time to first token.  Acceptance is no part of it, nor is the gap between
output events, which grows with every token that an event carries.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from specloop_policy.acceptance import CONFIDENCE, Interval, wilson
from specloop_policy.model import Gate
from specloop_policy.observation import Service
from specloop_policy.student import quantile


class Result(StrEnum):
    """What a comparison comes to."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


TPOT, TTFT = "time per output token", "time to first token"


@dataclass(frozen=True, slots=True)
class Evidence:
    """How the canary and its control served, block by block; paired blocks are of the same spans of time."""

    canary: tuple[Service, ...]
    control: tuple[Service, ...]
    paired: bool = True
    load: tuple[float, float] | None = None
    """Requests in the batch of a pod, canary and control, where the two are of different times."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of the canary beside the control's, with its sentence."""

    figure: str
    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What all comparisons come to together: one that fails fails all, one that is inconclusive keeps all open."""

    result: Result
    reason: str
    comparisons: tuple[Comparison, ...] = ()

    @property
    def on_speed_alone(self) -> bool:
        """Whether it fails for nothing but how fast the canary serves, which is the traffic's doing too."""
        failed = {one.figure for one in self.comparisons if one.result is Result.FAIL}
        return bool(failed) and failed <= {TPOT, TTFT}


LOAD_TOLERANCE = 0.2
"""Before and after are compared while a pod's batch is as large to within this share: time per token moves by a third
of the batch's change or less up to batch 64 (table C of vLLM pull request 32374: 16 to 64 sequences, 9.52 to 13.50 ms),
so that a fifth moves it by less than the speed that a gate's default lets go by."""


def judge_gate(evidence: Evidence, gate: Gate, min_requests: int, *, speed: bool = True) -> GateVerdict:
    """Compare every figure; `speed` False: how fast it serves is said, but decides nothing."""
    found = [
        _requests(evidence, min_requests, beside=speed),
        _load(evidence) if speed else None,
        *_speeds(evidence, gate, decide=speed),
        _errors(evidence, gate.max_error_rate_percent),
        _output(evidence, gate.max_output_length_change_percent),
        _endings(evidence, gate.max_output_length_change_percent),
        *_notes(evidence),
    ]
    comparisons = tuple(one for one in found if one is not None)
    if _ended(evidence.canary) < min_requests:  # a few requests prove no harm either
        comparisons = tuple([replace(one, result=_kept_open(one.result)) for one in comparisons])
    for result in (Result.FAIL, Result.INCONCLUSIVE):
        said = [one.reason for one in comparisons if one.result is result]
        if said:
            return GateVerdict(result, "; ".join(said), comparisons)
    return GateVerdict(Result.PASS, "; ".join(one.reason for one in comparisons), comparisons)


def _ended(side: Sequence[Service]) -> float:
    total = add(side)
    return (total.finished_requests or 0.0) + (total.failed_requests or 0.0)


def _kept_open(result: Result) -> Result:
    return Result.INCONCLUSIVE if result is Result.FAIL else result


def add(parts: Iterable[Service]) -> Service:
    """Sums field by field; what one part does not know is not known of the sum, nor anything of no part at all."""
    known = tuple(parts)
    return Service(**{name: _sum([getattr(part, name) for part in known]) for name in FIELDS})


FIELDS = tuple(field.name for field in fields(Service))


def _sum(values: Sequence[float | None]) -> float | None:
    said = [value for value in values if value is not None]
    return sum(said) if said and len(said) == len(values) else None


def _requests(evidence: Evidence, least: int, *, beside: bool) -> Comparison | None:
    """Enough requests on the canary, and where speed decides also on what it is compared with."""
    canary, control = (add(side).finished_requests or 0.0 for side in (evidence.canary, evidence.control))
    if canary >= least and (control >= least or not beside):
        return None
    reason = f"{canary:.0f} requests finished on the canary and {control:.0f} beside it, {least} each are asked for"
    return Comparison("requests", Result.INCONCLUSIVE, reason)


def _load(evidence: Evidence) -> Comparison | None:
    if evidence.load is None:
        return None
    after, before = evidence.load
    if abs(after - before) <= LOAD_TOLERANCE * max(after, before):
        return None
    reason = f"the load is another than before the change: {after:.1f} requests in a pod's batch, {before:.1f} before"
    return Comparison("load", Result.INCONCLUSIVE, reason)


def _speeds(evidence: Evidence, gate: Gate, *, decide: bool) -> Iterable[Comparison]:
    asked = (
        (TPOT, "decode_seconds", "decode_tokens", gate.max_tpot_increase_percent, True),
        (TTFT, "first_token_seconds", "first_tokens", gate.max_ttft_increase_percent, False),
    )
    for figure, top, bottom, limit, needed in asked:
        spread = _ratio(evidence, top, bottom)
        if spread is None:
            if needed and decide:
                yield Comparison(figure, Result.INCONCLUSIVE, f"{figure}: not enough was measured to compare it")
            continue
        values = [1000.0 * _mean(side, top, bottom) for side in (evidence.canary, evidence.control)]
        reason = f"{figure} {values[0]:.2f} ms against {values[1]:.2f} ms: {_change(spread)}, " + (
            f"at most +{limit} % is allowed" if decide else "which decides nothing here"
        )
        result = _above(spread, 1.0 + limit / 100.0) if decide else Result.PASS
        yield Comparison(figure, result, reason)


def _above(spread: Interval, limit: float) -> Result:
    """FAIL when surely above the limit, PASS when surely not."""
    if spread.low > limit:
        return Result.FAIL
    return Result.PASS if spread.high <= limit else Result.INCONCLUSIVE


def _output(evidence: Evidence, limit: int) -> Comparison | None:
    """Length of answers, by two estimates that a pod which has just begun to serve has too low and too high.

    Its short answers end first, so that what has ended is too short.  Tokens generated for each answer that ended have
    those under way too, and are too many.  Both come to the same with time; harm is what both show, and to pass neither
    may show any.
    """
    ended = _ratio(evidence, "output_tokens", "finished_requests")
    if ended is None:
        return None
    all_ = _ratio(evidence, "generated_tokens", "finished_requests") or ended
    tokens = [_mean(side, "output_tokens", "finished_requests") for side in (evidence.canary, evidence.control)]
    low, high = 1.0 - limit / 100.0, 1.0 + limit / 100.0
    reason = f"answers of {tokens[0]:.0f} tokens against {tokens[1]:.0f}: {_change(ended)}, {limit} % is allowed"
    if max(ended.high, all_.high) < low or min(ended.low, all_.low) > high:
        return Comparison("output length", Result.FAIL, reason)
    # The second one varies with every answer that ends a block later: only its value is asked.
    if ended.low >= low and ended.high <= high and low <= all_.value <= high:
        return Comparison("output length", Result.PASS, reason)
    return Comparison("output length", Result.INCONCLUSIVE, f"{reason}; with those under way {_change(all_)}")


def _endings(evidence: Evidence, limit: int) -> Comparison | None:
    """Answers that run into their limit where the others end by themselves are loops, however fast they come."""
    spread = _difference(evidence, "length_requests", "finished_requests")
    if spread is None:
        return None
    shares = [
        100.0 * _mean(side, "length_requests", "finished_requests") for side in (evidence.canary, evidence.control)
    ]
    reason = f"{shares[0]:.0f} % of answers ran into their length limit against {shares[1]:.0f} %"
    result = _above(spread, limit / 100.0)
    # Whether it rises by less than the limit is not worth a wait: the length itself is compared above.
    return Comparison("finish reasons", result if result is Result.FAIL else Result.PASS, reason)


def _errors(evidence: Evidence, limit: int) -> Comparison | None:
    """FAIL when the share is surely above the limit and above the control's; PASS while the share seen is below."""
    canary, control = add(evidence.canary), add(evidence.control)
    share = failed_share(canary)
    if share is None:
        return None
    beside = failed_share(control) or 0.0
    reason = f"{100 * share:.1f} % of requests failed against {100 * beside:.1f} %, {limit} % are allowed"
    allowed = max(limit / 100.0, beside)
    if share <= allowed:
        return Comparison("errors", Result.PASS, reason)
    failed = canary.failed_requests or 0.0
    total = failed / share
    sure = wilson(failed, total, total, 1).low > allowed
    return Comparison("errors", Result.FAIL if sure else Result.INCONCLUSIVE, reason)


def failed_share(service: Service) -> float | None:
    """Failed requests among all that ended; None when that is not known or none ended."""
    if service.failed_requests is None or service.finished_requests is None:
        return None
    total = service.failed_requests + service.finished_requests
    return service.failed_requests / total if total > 0.0 else None


def _notes(evidence: Evidence) -> Iterable[Comparison]:
    """What explains a difference without deciding anything: cache hits, and requests pushed out of the batch."""
    canary, control = add(evidence.canary), add(evidence.control)
    hits = [_quotient(side.cache_hits, side.cache_queries) for side in (canary, control)]
    if None not in hits:
        said = " against ".join(f"{100.0 * (share or 0.0):.0f} %" for share in hits)
        yield Comparison("prefix cache", Result.PASS, f"prefix-cache hits {said}")
    pushed = [_quotient(side.preemptions, side.finished_requests) for side in (canary, control)]
    if None not in pushed and any(pushed):
        said = " against ".join(f"{share or 0.0:.2f}" for share in pushed)
        yield Comparison("preemptions", Result.PASS, f"preemptions per request {said}")


def _ratio(evidence: Evidence, top: str, bottom: str) -> Interval | None:
    """The canary's quotient over the control's."""
    found = _difference(evidence, top, bottom, math.log)
    return None if found is None else Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def _difference(evidence: Evidence, top: str, bottom: str, scale: Callable[[float], float] = float) -> Interval | None:
    """How far the canary's quotient is above the control's on a scale; None where a part of it is not known."""
    try:
        canary, control = (
            [scale(quotient) for quotient in _left_out(side, top, bottom)]
            for side in (evidence.canary, evidence.control)
        )
    except (TypeError, ValueError, ZeroDivisionError):  # an unknown quantity, nothing to divide by, or no logarithm
        return None
    freedom = min(len(canary), len(control)) - 2
    if freedom < 1:
        return None
    if evidence.paired:
        variance = _variance([one - other for one, other in zip(canary[1:], control[1:], strict=True)])
    else:
        variance = _variance(canary[1:]) + _variance(control[1:])
    half = quantile(CONFIDENCE, freedom) * math.sqrt(variance)
    value = canary[0] - control[0]
    return Interval(value, value - half, value + half)


def _left_out(side: Sequence[Service], top: str, bottom: str) -> Iterable[float]:
    """The quotient over all blocks, and then with each of them left out."""
    tops, bottoms = ([getattr(block, name) for block in side] for name in (top, bottom))
    over, under = sum(tops), sum(bottoms)
    yield over / under
    for one, other in zip(tops, bottoms, strict=True):
        yield (over - one) / (under - other)


def _variance(left_out: Sequence[float]) -> float:
    """Variance of an estimate from its values with one block left out each."""
    n = len(left_out)
    mean = sum(left_out) / n
    return (n - 1) / n * sum((one - mean) ** 2 for one in left_out)


def _mean(side: Sequence[Service], top: str, bottom: str) -> float:
    total = add(side)
    return float(getattr(total, top) / getattr(total, bottom))


def _quotient(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom else top / bottom


def _change(spread: Interval) -> str:
    ends = " to ".join(f"{100.0 * (end - 1.0):+.0f}" for end in (spread.low, spread.high))
    return f"{100.0 * (spread.value - 1.0):+.1f} % ({ends} %)"
