"""What is remembered of a policy between two ticks, and between two operators: it lives in the policy's status."""

from dataclasses import dataclass, field

from specloop_policy.canary import Rollout
from specloop_policy.decision import PolicyState
from specloop_policy.report import maybe_seconds, maybe_time
from specloop_policy.rollout_status import to_rollout, to_rollout_memory, to_watch, to_watch_memory
from specloop_policy.status import Memory, to_memory, to_state
from specloop_policy.watch import Watch


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
    )


def store(remembered: Remembered) -> Memory:
    """The same as it is stored."""
    rollout, watch = remembered.rollout, remembered.watch
    return to_memory(remembered.state).model_copy(
        update={
            "rollout": None if rollout is None else to_rollout_memory(rollout, remembered.canary_pods),
            "watch": None if watch is None else to_watch_memory(watch),
            "written_level": remembered.written_level,
            "previous_level": remembered.previous_level,
            "reverted": remembered.reverted[:4096] or None,
            "reverted_wish": remembered.reverted_wish[:4096] or None,
            "rolled_back_at": maybe_time(remembered.rolled_back_at),
        }
    )
