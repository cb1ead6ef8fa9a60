"""Courses kept, so that contestants and candidates that meet the same requests at the same level work them out once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from specloop_policy.ladder import DISABLED
from specloop_sim.course import Course, Drafting, courses_of
from specloop_sim.request import Request

MOST_TOKENS = 200_000_000
"""Tokens of answers kept at most: at five bytes each a gigabyte, some fifty levels of the Azure conversation hour."""

Key = tuple[object, ...]
Kept = tuple[Request, Course]


class Courses:
    """A store of whole courses by request and drafting; it holds on to the requests."""

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._most_tokens = most_tokens
        self._tokens = 0
        self._kept: dict[Key, dict[int, Kept]] = {}

    def of(self, drafting: Drafting) -> Callable[[Sequence[Request]], list[Course]]:
        """What gives the courses of requests from their first tokens on."""
        if drafting.level.tokens == 0:
            return partial(courses_of, drafting=drafting)  # one token a step: sooner made than found

        def courses(requests: Sequence[Request]) -> list[Course]:
            kept = self._kept.setdefault(key, {})
            # By identity: two traces may have requests of one name, and comparing whole requests takes longer.
            new = [request for request in requests if id(request) not in kept]
            if new:
                kept = self._keep(key, new, courses_of(new, drafting))
            return [kept[id(request)][1] for request in requests]

        key = _key(drafting)
        return courses

    def _keep(self, key: Key, requests: Sequence[Request], courses: Sequence[Course]) -> dict[int, Kept]:
        if self._tokens > self._most_tokens:
            self._kept.clear()
            self._tokens = 0
        self._tokens += sum(request.output_tokens for request in requests)
        kept = self._kept.setdefault(key, {})
        kept.update((id(request), (request, course)) for request, course in zip(requests, courses, strict=True))
        return kept


def _key(drafting: Drafting) -> Key:
    """What a course depends on beside its request: the level's name is not part of it."""
    level = drafting.level
    method = level.drafter.method if level.drafter is not None else None
    return method, replace(drafting, level=DISABLED), level.tokens
