"""How a process served between two of its samples: what the gate of a roll-out compares.

Everything here is a difference of counters, so that parts add up to the whole, over time and over pods.  The price is
that nothing is cut off at zero: see the lower bounds below.

One-token requests are health probes and classifiers.  They take no time from first to last token and are one first
token each, so that both sides of the time per token know nothing of them: decode tokens are the tokens of all requests
that ended less one for each.  Out of finished requests, their tokens and those cut by length they have to be taken, and
can only be counted over all reasons of ending.  So these three are lower bounds where requests failed with at most one
token, and those cut by length also where one-token requests ended by themselves.
"""

from specloop_engine.judges import restart
from specloop_engine.sample import Sample, Served
from specloop_engine.span import Counted, counters, flaw, served_counters, unsound
from specloop_policy.observation import Service


def service(before: Sample, after: Sample) -> Service | None:
    """How the process served between two samples, the older one first.

    None where they say nothing sound: a counter went back, vanished or is no number, or another process answered.
    Finished requests of llama.cpp are the stand-in that windows have, and its first tokens count as decode tokens.
    """
    ends = [_counted(sample) for sample in (before, after)]
    if ends[0] is None or ends[1] is None or restart(ends[0], ends[1]) is not None:
        return None
    return _difference(before, after)


def _counted(sample: Sample) -> Counted | None:
    """The sample with all its counters; None where one is of no use."""
    served = served_counters(sample)
    if sample.served is None or flaw(sample) is not None or unsound(served) is not None:
        return None
    return Counted(sample, counters(sample) | served)


def _difference(before: Sample, after: Sample) -> Service:
    def moved(name: str) -> float | None:
        return _moved(before, after, name)

    def served(name: str) -> float | None:
        return _moved(before.served, after.served, name)

    ended, one_token = served("ended_requests"), moved("one_token_requests")
    return Service(
        decode_seconds=served("decode_seconds"),
        decode_tokens=_less(served("answer_tokens"), ended),
        first_token_seconds=served("first_token_seconds"),
        first_tokens=moved("first_tokens"),
        finished_requests=_less(moved("finished_requests"), one_token),
        output_tokens=None if ended is None else _less(served("answer_tokens"), one_token),
        generated_tokens=_less(moved("generation_tokens"), one_token),
        length_requests=_less(moved("length_requests"), one_token),
        failed_requests=_more(served("failed_requests"), served("failed_responses")),
        cache_queries=served("cache_queries"),
        cache_hits=served("cache_hits"),
        preemptions=served("preemptions"),
    )


def _moved(before: Sample | Served | None, after: Sample | Served | None, name: str) -> float | None:
    """How far a counter moved; one that has just appeared began at zero."""
    later: float | None = getattr(after, name)
    earlier: float | None = getattr(before, name)
    return None if later is None else later - (earlier or 0.0)


def _less(count: float | None, part: float | None) -> float | None:
    """What is left without a part of it that may not be counted."""
    return None if count is None else count - (part or 0.0)


def _more(one: float | None, other: float | None) -> float | None:
    """The larger of two counts of which some are the same: an engine's error is often answered with a 500."""
    return max((count for count in (one, other) if count is not None), default=None)
