"""What is remembered of a policy between two ticks, and between two operators: it lives in the policy's status."""

import copy
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from specloop_engine.speculation import BatchTable
from specloop_policy.canary import Rollout
from specloop_policy.decision import PolicyState
from specloop_policy.report import as_time, maybe_seconds, maybe_time
from specloop_policy.rollout_status import (
    MOST_TIMES,
    InterruptedMemory,
    LiveMemory,
    RangeMemory,
    to_rollout,
    to_rollout_memory,
    to_watch,
    to_watch_memory,
)
from specloop_policy.status import Memory, SpecPolicyStatus, to_memory, to_state
from specloop_policy.watch import Watch

LOG = logging.getLogger("specloop.status")


@dataclass(frozen=True, slots=True)
class LiveHold:
    """What running pods were asked for, and the setting of the template that it was asked over."""

    table: BatchTable
    setting: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A roll-out that somebody asked for, and that something else ended: when, and how often since a day without."""

    level: str
    by: str
    at: float
    times: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory of decisions, and where the operator's own doings stand."""

    state: PolicyState = field(default_factory=PolicyState)
    rollout: Rollout | None = None
    canary_pods: int | None = None
    watch: Watch | None = None
    written_level: str | None = None
    """The level that the operator last wrote to the target; None: it wrote none, or somebody else did since."""
    previous_level: str | None = None
    """The level before the last change that was promoted; None where there is none to go back to."""
    reverted: str = ""
    """Who set another level than the operator, in words; "" while nobody did."""
    reverted_wish: str = ""
    """The override that was in force then, in words: it says nothing new."""
    rolled_back_at: float | None = None
    """Time of the last wish to roll back that was carried out, seconds since the epoch."""
    interrupted: Interrupted | None = None
    """The last roll-out that was asked for and that an alert or a change of the target ended."""
    live: LiveHold | None = None
    """What running pods are held at over what the template says; None: at the template's."""
    shed_failed: str = ""
    """Key of the configuration without a drafter that did not serve; "" where none failed."""
    configurations: tuple[str, ...] = ()
    """What the target said of each drafter that it had, as JSON, the latest first: a level of that drafter is written
    with the same keys again."""


def recall(memory: Memory | None) -> Remembered:
    """What was stored; nothing at the first visit."""
    if memory is None:
        return Remembered()
    rollout = memory.rollout
    return Remembered(
        to_state(memory),
        None if rollout is None else to_rollout(rollout),
        None if rollout is None else rollout.canary_pods,
        None if memory.watch is None else to_watch(memory.watch),
        memory.written_level,
        memory.previous_level,
        memory.reverted or "",
        memory.reverted_wish or "",
        maybe_seconds(memory.rolled_back_at),
        None if memory.interrupted is None else _interrupted(memory.interrupted),
        None if memory.live is None else _held(memory.live),
        memory.shed_failed or "",
        tuple(one for one in memory.configurations if _is_object(one)),
    )


def store(remembered: Remembered) -> Memory:
    """The same as it is stored."""
    rollout, watch, live, cut = remembered.rollout, remembered.watch, remembered.live, remembered.interrupted
    return to_memory(remembered.state).model_copy(
        update={
            "rollout": None if rollout is None else to_rollout_memory(rollout, remembered.canary_pods),
            "watch": None if watch is None else to_watch_memory(watch),
            "interrupted": None if cut is None else _interrupted_memory(cut),
            "live": None if live is None else _hold_memory(live),
            "shed_failed": remembered.shed_failed or None,
            "configurations": remembered.configurations,
            "written_level": remembered.written_level,
            "previous_level": remembered.previous_level,
            "reverted": remembered.reverted[:4096] or None,
            "reverted_wish": remembered.reverted_wish[:4096] or None,
            "rolled_back_at": maybe_time(remembered.rolled_back_at),
        }
    )


def _is_object(text: str) -> bool:
    """Whether it can be read: somebody may have written a status by hand."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _interrupted(memory: InterruptedMemory) -> Interrupted:
    return Interrupted(memory.level, memory.by, memory.at.timestamp(), memory.times)


def _interrupted_memory(known: Interrupted) -> InterruptedMemory:
    at, times = as_time(known.at), min(known.times, MOST_TIMES)
    return InterruptedMemory(level=known.level, by=known.by[:4096], at=at, times=times)


def _held(memory: LiveMemory) -> LiveHold:
    return LiveHold(tuple((one.first, one.last, one.tokens) for one in memory.table), memory.setting)


def _hold_memory(live: LiveHold) -> LiveMemory:
    ranges = tuple(RangeMemory(first=first, last=last, tokens=tokens) for first, last, tokens in live.table)
    return LiveMemory(table=ranges, setting=live.setting)


def read_status(body: Mapping[str, Any]) -> SpecPolicyStatus:
    """The status of a policy; parts that cannot be read, a newer operator's for instance, are begun anew."""
    known = body.get("status") or {}
    while True:
        try:
            return SpecPolicyStatus.model_validate(known)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = _part(first["loc"])
            LOG.warning("status.%s cannot be read and is begun anew: %s", ".".join(map(str, place)), first["msg"])
            known = copy.deepcopy(known)  # the store's own stays as it is
            if not _taken_out(known, place):
                return SpecPolicyStatus()


def _part(place: Sequence[int | str]) -> Sequence[int | str]:
    """The part of a status that means nothing without what is wrong: an item of a list, a field, a memory's field."""
    first = next((index for index, name in enumerate(place) if isinstance(name, int)), None)
    return place[: first + 1] if first is not None else place[: 2 if place[:1] == ("memory",) else 1]


def _taken_out(known: Any, place: Sequence[int | str]) -> bool:
    """Take a part out of a status; whether it was there."""
    if not place:
        return False
    *way, last = place
    try:
        for name in way:
            known = known[name]
        del known[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True
