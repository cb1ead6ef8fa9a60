"""Courses kept, so that contestants and candidates that meet the same requests at the same level work them out once."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specloop_policy.ladder import DISABLED
from specloop_sim.course import Course, Drafting, course_of
from specloop_sim.request import Request

MOST_STEPS = 200_000_000
"""Decode steps kept at most: at five bytes a step a gigabyte, some forty levels of the Azure conversation hour."""

Key = tuple[object, ...]


class Courses:
    """A store of whole courses by request and drafting; it holds on to the requests."""

    def __init__(self, most_steps: int = MOST_STEPS) -> None:
        self._most_steps = most_steps
        self._steps = 0
        self._kept: dict[Key, dict[int, tuple[Request, Course]]] = {}

    def of(self, drafting: Drafting) -> Callable[[Request], Course]:
        """What gives the course of a request from its first token on."""
        if drafting.level.tokens == 0:
            return lambda request: course_of(request, drafting)  # one token a step: sooner made than found

        def course(request: Request) -> Course:
            # By identity: two traces may have requests of one name, and comparing whole requests takes longer.
            found = self._kept.setdefault(key, {}).get(id(request))
            return found[1] if found is not None else self._keep(key, request, course_of(request, drafting))

        key = _key(drafting)
        return course

    def _keep(self, key: Key, request: Request, course: Course) -> Course:
        if self._steps > self._most_steps:
            self._kept.clear()
            self._steps = 0
        small = _small(course)
        self._steps += len(small)
        self._kept.setdefault(key, {})[id(request)] = (request, small)
        return small


def _key(drafting: Drafting) -> Key:
    """What a course depends on beside its request: the level's name is not part of it."""
    level = drafting.level
    method = level.drafter.method if level.drafter is not None else None
    return method, replace(drafting, level=DISABLED), level.tokens


def _small(course: Course) -> Course:
    """The same course in a third of the memory: answers are below 2^31 tokens, K is 8 at most."""
    rejected = None if course.rejected is None else course.rejected.astype(np.int8)
    return Course(course.emitted.astype(np.int32), rejected)
