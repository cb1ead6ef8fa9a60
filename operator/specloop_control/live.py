"""Live control of K: what is wanted goes to the plugin in each pod, and what is in force comes back.

    look at a pod -> compare -> ask, where it differs -> say how it stands

Nothing is remembered between two rounds: a pod that has restarted, joined or missed a round is brought in line by the
next one.  A wish that a pod has taken is in force at its next step, so an idle pod is `pending`, which is no failure.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, Field, ValidationError

from specloop_control.scrape import AS_IT_IS, read_within
from specloop_engine.speculation import BatchTable
from specloop_policy.ladder import Level
from specloop_policy.report import plain
from specloop_vllm.control import PATH
from specloop_vllm.exchange import MOST_GENERATION, wanted_json
from specloop_vllm.tables import MOST_RANGES, MOST_REQUESTS, constant

Count = Annotated[int, Field(ge=0, le=MOST_REQUESTS)]
Generation = Annotated[int, Field(ge=0, le=MOST_GENERATION)]
Ranges = Annotated[tuple[tuple[Count, Count, Count], ...], Field(max_length=MOST_RANGES)]

AT_ONCE = 64
"""Pods that are asked at a time: as many connections as a scrape has."""

SECONDS = 2.0
"""For one request: the answer is two small files, and what takes longer is asked again in the next round."""

ANSWER_BYTES = 256 * 1024
"""Longest answer that is read: twice the two files, of 64 KiB each at most, that a pod may show."""

REASON_CHARACTERS = 300
"""Of what a pod says of itself: as much as reads well in a condition."""


class Standing(StrEnum):
    """How a pod stands to what is wanted."""

    APPLIED = "Applied"
    PENDING = "Pending"
    """It has taken the wish, which is in force at its next step."""
    OTHER = "Other"
    """It is as somebody else left it, and is not to be asked."""
    CLAMPED = "Clamped"
    """In force, but cut down to what the pod was started for."""
    REFUSED = "Refused"
    """It cannot be controlled, or not like this; the reason is its own."""
    UNREACHABLE = "Unreachable"
    """It gave no answer, or none that can be read; the next round asks again."""


@dataclass(frozen=True, slots=True)
class PodStanding:
    """How one pod stands, with the reason where it is not as wanted."""

    standing: Standing
    reason: str = ""
    asked: bool = False
    """Whether this round has asked it for something new."""
    tokens: int | None = None
    """The largest K that is in force in it; None where that is not known."""

    @property
    def in_line(self) -> bool:
        """Whether it is as wanted, or will be at its next step, as far as it can be."""
        return self.standing in (Standing.APPLIED, Standing.PENDING, Standing.CLAMPED)


class ShownWish(BaseModel):
    """What a pod has been asked for."""

    generation: Generation
    k: Count | None = None
    table: Ranges | None = None

    @property
    def wanted(self) -> BatchTable:
        """As a table, whichever way it was written."""
        return self.table if self.table is not None else constant(self.k or 0)


class ShownForce(BaseModel):
    """What is in force in a pod."""

    generation: Generation | None
    table: Ranges = ()
    clamped: bool = False
    error: str | None = None


class Shown(BaseModel):
    """A pod's answer, as far as it is of interest."""

    desired: ShownWish | None
    applied: ShownForce | None
    live: bool
    pending: bool
    reason: str | None = None

    @property
    def tokens(self) -> int | None:
        """The largest K in force."""
        return max((tokens for _, _, tokens in self.applied.table), default=None) if self.applied is not None else None


def level_table(level: Level) -> BatchTable:
    """What pods are asked for at a level: 0 drafts stand for one without a drafter."""
    return level.table(MOST_REQUESTS)


def started_table(level: Level | None, table: BatchTable) -> BatchTable:
    """What pods started at a level with this table are to have: just that, unless the level has K by batch."""
    return level_table(level) if level is not None and level.by_batch else table


def standing(shown: Shown, wanted: BatchTable) -> PodStanding | None:
    """How a pod stands that shows this; None where it has to be asked for what is wanted."""
    if not shown.live:
        return PodStanding(Standing.REFUSED, _shortened(shown.reason) or "there is no live control")
    if shown.applied is not None and shown.desired is None and _same(shown.applied.table, wanted):
        return PodStanding(Standing.APPLIED, tokens=shown.tokens)  # it was started so
    if shown.desired is None or shown.desired.wanted != wanted:
        return None
    if shown.pending:
        return PodStanding(Standing.PENDING, _shortened(shown.reason), tokens=shown.tokens)
    if shown.applied is not None and shown.applied.generation != shown.desired.generation:
        return None  # it was for another start-up profile: this process has not taken it
    if shown.applied is not None and shown.applied.clamped:
        reason = f"K = {shown.tokens} is the most that it was started for"
        return PodStanding(Standing.CLAMPED, reason, tokens=shown.tokens)
    return PodStanding(Standing.APPLIED, tokens=shown.tokens)


def _same(running: BatchTable, wanted: BatchTable) -> bool:
    """Whether a table in force is the one wanted, which may go on beyond the engine's largest batch."""
    return len(running) == len(wanted) and all(
        one[0] == other[0] and one[2] == other[2] for one, other in zip(running, wanted, strict=True)
    )


class Refusal(BaseModel):
    """A pod's answer where it refuses, as far as it is of interest."""

    error: str = ""


class LiveControl:
    """Asks pods, with the token that they expect."""

    def __init__(self, client: httpx.AsyncClient, headers: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._client = client
        self._headers = headers
        self._seconds = seconds

    async def bring(self, pods: Mapping[str, str], wanted: BatchTable, *, ask: bool = True) -> dict[str, PodStanding]:
        """One round over pods, each by its name and base URL, to one table; how each stands afterwards.

        Without `ask` it only looks.
        """
        free = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> PodStanding:
            async with free:
                return await self._bring(url, wanted, ask=ask)

        found = await asyncio.gather(*map(one, pods.values()))
        return dict(zip(pods, found, strict=True))

    async def _bring(self, url: str, wanted: BatchTable, *, ask: bool) -> PodStanding:
        try:
            shown = await self._ask("GET", url)
            if isinstance(shown, PodStanding):
                return shown
            stands = standing(shown, wanted)
            if stands is not None:
                return stands
            if not ask:
                return PodStanding(Standing.OTHER, f"K = {shown.tokens} is in force", tokens=shown.tokens)
            after = await self._ask("PUT", url, _wish(shown, wanted))
        except httpx.HTTPError as error:
            return PodStanding(Standing.UNREACHABLE, f"it cannot be reached: {str(error) or type(error).__name__}")
        if isinstance(after, PodStanding):
            return after
        meanwhile = PodStanding(Standing.PENDING, "it was asked for another meanwhile", tokens=after.tokens)
        return replace(standing(after, wanted) or meanwhile, asked=True)

    async def _ask(self, method: str, url: str, content: Mapping[str, Any] | None = None) -> Shown | PodStanding:
        """What a pod shows, or how it stands where it shows nothing."""
        headers = {**AS_IT_IS, **self._headers}
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._client.stream(
                    method, f"{url}{PATH}", json=content, headers=headers, timeout=self._seconds
                ) as answer,
            ):
                body = await read_within(answer, ANSWER_BYTES)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {self._seconds:g} s") from error
        if answer.is_success:
            try:
                return Shown.model_validate_json(body)
            except ValidationError:
                return PodStanding(Standing.UNREACHABLE, "its answer cannot be read")
        return _refusal(answer, body)


def _wish(shown: Shown, wanted: BatchTable) -> dict[str, Any]:
    generations: Sequence[int] = [
        side.generation for side in (shown.desired, shown.applied) if side is not None and side.generation is not None
    ]
    return {"generation": max(generations, default=0) + 1, **wanted_json(wanted)}


def _shortened(said: str | None) -> str:
    """What a pod says, as it may be repeated."""
    return plain((said or "")[:REASON_CHARACTERS])


def _refusal(answer: httpx.Response, body: bytes) -> PodStanding:
    """Whether it helps to ask again: not where the plugin is absent, the token wrong, or the wish refused."""
    try:
        said = _shortened(Refusal.model_validate_json(body).error)
    except ValidationError:
        said = ""
    status = answer.status_code
    if status == httpx.codes.NOT_FOUND:
        return PodStanding(Standing.REFUSED, "the plugin is not there, or has no token: see specloop inject")
    if status == httpx.codes.UNAUTHORIZED:
        return PodStanding(Standing.REFUSED, "it expects another token")
    if answer.is_client_error:
        return PodStanding(Standing.REFUSED, said or f"it answers with status {status}")
    return PodStanding(Standing.UNREACHABLE, said or f"it answers with status {status}")
