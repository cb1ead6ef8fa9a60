"""GET and PUT of `/specloop/v1/speculation`: what is wanted of this engine, and what is in force.

Whoever asks shows a bearer token.  A wish is accepted when it can be read and is meant for what runs; whether it is in
force is another matter, which the answer shows: an engine without requests makes no step, and takes it up at its next.
"""

import hmac
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specloop_vllm.exchange import (
    Applied,
    Desired,
    ExchangeError,
    applied_letter,
    desired_letter,
    process_start,
    read_applied,
    read_desired,
)

PATH = "/specloop/v1/speculation"
TOKEN_FILE = "SPECLOOP_LIVE_TOKEN_FILE"
"""Variable of the environment that names the file with the token; there is no control without it."""

PENDING = "an engine takes a wish up between two steps: without requests, at the next one"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: status and JSON."""

    status: int
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both files as they are."""

    desired: Desired | None
    applied: Applied | None
    problem: str | None
    """Why there is no control, in words; None when there is."""


class Control:
    """Of one engine, by its folder."""

    def __init__(self, folder: Path, token_file: Path) -> None:
        self._folder = folder
        self._token_file = token_file

    def allowed(self, authorization: bytes) -> bool | None:
        """Whether this header shows the token; None while there is none to compare with."""
        try:
            token = self._token_file.read_bytes().strip()
        except OSError:
            token = b""
        if not token:
            return None
        scheme, _, shown = authorization.partition(b" ")
        return hmac.compare_digest(shown.strip(), token) and scheme.lower() == b"bearer"

    def get(self) -> Reply:
        """What is wanted, and what is in force."""
        return self._shown()

    def put(self, body: bytes) -> Reply:
        """Take a wish: 400 what cannot be read, 409 what does not fit what runs."""
        sides = read_sides(self._folder)
        if sides.problem is not None or sides.applied is None or sides.applied.profile is None:
            return Reply(409, {"error": sides.problem or "there is no live control"})
        profile = sides.applied.profile.hash
        try:
            wish = read_desired(body, profile=profile)
        except ExchangeError as error:
            return Reply(400, {"error": str(error)})
        if wish.profile != profile:
            return Reply(409, {"error": f"the wish is for start-up profile {wish.profile}, and {profile} runs"})
        before = sides.desired if sides.desired is not None and sides.desired.profile == profile else None
        if before is not None and before != wish and before.generation >= wish.generation:
            return Reply(409, {"error": f"generation {wish.generation} is not above {before.generation}"})
        if before != wish:
            try:
                desired_letter(self._folder).write(wish.to_json())
            except OSError as error:
                return Reply(503, {"error": f"desired.json cannot be written: {error.strerror}"})
        return self._shown()

    def _shown(self) -> Reply:
        sides = read_sides(self._folder)
        desired, applied = sides.desired, sides.applied
        pending = is_pending(sides)
        return Reply(
            200,
            {
                "desired": None if desired is None else desired.to_json(),
                "applied": None if applied is None else applied.to_json(),
                "live": sides.problem is None,
                "pending": pending,
                "reason": sides.problem or (PENDING if pending else None),
            },
        )


def read_sides(folder: Path) -> Sides:
    """Both files, and whether the engine that wrote its own is the one that runs."""
    desired, applied, problem = None, None, None
    with suppress(ExchangeError):  # missing, or refused by the engine too, which says so
        desired = read_desired(desired_letter(folder).read())
    try:
        applied = read_applied(applied_letter(folder).read())
    except ExchangeError:
        problem = "the engine was started without --scheduler-cls specloop_vllm.LiveScheduler or LiveAsyncScheduler"
    if applied is not None:
        problem = _problem(applied)
    return Sides(desired, applied, problem)


def _problem(applied: Applied) -> str | None:
    if applied.pid and not _runs(applied.pid, applied.started):
        return "the engine core that wrote applied.json is gone"
    return applied.error if applied.profile is None else None


def is_pending(sides: Sides) -> bool:
    """Whether a wish for what runs is not in force yet."""
    desired, applied = sides.desired, sides.applied
    if desired is None or applied is None or applied.profile is None or desired.profile != applied.profile.hash:
        return False
    return desired.generation != applied.generation


def _runs(pid: int, started: int) -> bool:
    """Whether a process is there, and is the one that began then: numbers are given again after a restart."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not started or process_start(pid) == started
