"""What the status remembers of a roll-out and of what follows it: enough for another process to go on."""

from math import ceil
from typing import Annotated, Self

from pydantic import Field, model_validator

from specloop_policy.canary import Ending, Kind, Phase, Rollout
from specloop_policy.model import Name
from specloop_policy.report import Report, Text, Time, as_time
from specloop_policy.watch import Watch

Hash = Annotated[str, Field(max_length=64)]
Pods = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=65536)]
MOST_TIMES = 1000
"""Counted; the longest gap is reached long before."""
PodName = Annotated[str, Field(max_length=253)]


class RolloutMemory(Report):
    """A roll-out under way."""

    level: Name = Field(description="The level that is rolled out.")
    back_to: Name = Field(description="The level before.")
    kind: Kind = Field(description="Rule, Probe, Forced, Retreat or Shed.")
    key: Hash = Field(description="Hash of its configuration and image.")
    setting: Hash | None = Field(
        default=None, description="Hash of its configuration alone; of the template's, where the roll-out is live."
    )
    back_setting: Hash | None = Field(default=None, description="Hash of the configuration before.")
    live: bool | None = Field(default=None, description="Whether running pods are asked, instead of being made anew.")
    canary: PodName | None = Field(default=None, description="The pod that is asked first, where it is live.")
    rest: Hash = Field(description="Hash of the rest of the pod template, which must not change meanwhile.")
    started_at: Time = Field(description="When it began.")
    phase: Phase = Field(description="Starting, Canary, Soaking, Promoting or RollingBack.")
    since: Time = Field(description="When the phase began.")
    written: bool = Field(description="Whether the pod template said the level once.")
    ending: Ending | None = Field(default=None, description="What it will have been once it is rolled back.")
    reason: Text = Field(description="Why it is promoted or rolled back.")
    failed_share_percent: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="Failed requests beside the canary when it passed, rounded up."
    )
    canary_pods: Pods | None = Field(default=None, description="Size of the canary; absent before it is known.")

    @model_validator(mode="after")
    def _begun_by_an_operator(self) -> Self:
        if self.kind is Kind.RETREAT and self.phase not in (Phase.PROMOTING, Phase.ROLLING_BACK):
            raise ValueError(f"a retreat goes to all pods at once, and is never in phase {self.phase}")
        return self


class RangeMemory(Report):
    """K while so many requests are in a step."""

    first: Count = Field(description="The least number of requests.")
    last: Count = Field(description="The largest number of requests.")
    tokens: Count = Field(description="K.")


class LiveMemory(Report):
    """What running pods are held at live, over what the pod template says."""

    table: Annotated[tuple[RangeMemory, ...], Field(min_length=1, max_length=64)] = Field(
        description="K by number of requests in a step."
    )
    setting: Hash = Field(description="Hash of the template's configuration: over another one it says nothing.")


class InterruptedMemory(Report):
    """A roll-out that somebody had asked for, and that something else ended."""

    level: Name = Field(description="Its level.")
    by: Text = Field(description="Who asked for it.")
    at: Time = Field(description="When it was ended.")
    times: Annotated[int, Field(ge=1, le=MOST_TIMES)] = Field(
        description="How often that has happened, each within a day of the one before."
    )


class WatchMemory(Report):
    """A promoted level that is still watched."""

    level: Name = Field(description="The level.")
    back_to: Name = Field(description="The level to go back to should it do harm.")
    key: Hash = Field(description="Hash of its configuration and image.")
    since: Time = Field(description="When it was promoted.")
    until: Time = Field(description="Until when it is watched.")
    failed_share_percent: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="Failed requests beside it at the level before, rounded up."
    )
    restarts: Pods | None = Field(default=None, description="Restarts that its pods had when it was promoted.")


def to_rollout_memory(rollout: Rollout, canary_pods: int | None) -> RolloutMemory:
    """A roll-out as it is stored."""
    return RolloutMemory(
        level=rollout.level,
        back_to=rollout.back_to,
        kind=rollout.kind,
        key=rollout.key,
        setting=rollout.setting,
        back_setting=rollout.back_setting or None,
        live=rollout.live or None,
        canary=rollout.canary or None,
        rest=rollout.rest,
        started_at=as_time(rollout.started_at),
        phase=rollout.phase,
        since=as_time(rollout.since),
        written=rollout.written,
        ending=rollout.ending,
        reason=rollout.reason[:4096],
        failed_share_percent=_percent(rollout.failed_share),
        canary_pods=canary_pods,
    )


def to_rollout(memory: RolloutMemory) -> Rollout:
    """The roll-out that was stored."""
    return Rollout(
        memory.level,
        memory.back_to,
        memory.kind,
        memory.key,
        memory.rest,
        memory.started_at.timestamp(),
        memory.phase,
        memory.since.timestamp(),
        memory.written,
        memory.ending,
        memory.reason,
        (memory.failed_share_percent or 0) / 100.0,
        memory.setting or "",
        memory.back_setting or "",
        bool(memory.live),
        memory.canary or "",
    )


def to_watch_memory(watch: Watch) -> WatchMemory:
    """A watch as it is stored."""
    return WatchMemory(
        level=watch.level,
        back_to=watch.back_to,
        key=watch.key,
        since=as_time(watch.since),
        until=as_time(watch.until),
        failed_share_percent=_percent(watch.failed_share),
        restarts=watch.restarts,
    )


def to_watch(memory: WatchMemory) -> Watch:
    """The watch that was stored."""
    share = (memory.failed_share_percent or 0) / 100.0
    return Watch(
        memory.level,
        memory.back_to,
        memory.key,
        memory.since.timestamp(),
        memory.until.timestamp(),
        share,
        memory.restarts or 0,
    )


def _percent(share: float) -> int:
    """A share in whole percent, rounded up; what was rounded before stays as it is."""
    return min(100, ceil(round(100.0 * share, 6)))
