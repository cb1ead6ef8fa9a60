"""What people ask for by annotations on a SpecPolicy: read and written here by the operator and the command line alike.

AnnotationError    a value that cannot be read: no use trying again before somebody has mended it, and no reason to act
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specloop_policy.decision import Override
from specloop_policy.model import GROUP, Name
from specloop_policy.report import Time

OVERRIDE = f"{GROUP}/override"
"""`{"level": "k3", "until": "2026-11-30T12:00:00.000000Z", "by": "alice"}`; without `until` until it is taken back."""
SUSPEND = f"{GROUP}/suspend"
"""`true`: hold everything as it is."""
ROLLBACK = f"{GROUP}/rollback"
"""`{"at": "2026-11-30T12:00:00.000000Z", "by": "alice"}`: put back what was there before the last change."""

OVERRIDE_MEND = 'write {"level": "k3", "until": "2026-11-30T12:00:00Z"}, or take it back by specloop override --clear'
ROLLBACK_MEND = 'remove it, or write {"at": "2026-11-30T12:00:00Z"}, as specloop rollback does'


class AnnotationError(ValueError):
    """An annotation that cannot be read: its name, what is wrong with it, and how to mend it."""

    def __init__(self, name: str, message: str, mend: str) -> None:
        super().__init__(f"annotation {name}: {message}; {mend}")


@dataclass(frozen=True, slots=True)
class Rollback:
    """A person's wish to be back before the last change; `at` (seconds since the epoch) tells two wishes apart."""

    at: float
    by: str = ""


Person = Annotated[str, Field(max_length=1024)]


class _Wish(BaseModel):
    """A value as it stands in an annotation; closed, or a misspelt `until` would be an override without an end."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Value = TypeVar("Value", bound=_Wish)


class _OverrideValue(_Wish):
    level: Name
    until: Time | None = None
    by: Person = ""


class _RollbackValue(_Wish):
    at: Time
    by: Person = ""


def read_override(annotations: Mapping[str, str]) -> Override | None:
    """The level that a person asks for, run out or not; None without any.  Raises AnnotationError."""
    value = _read(annotations, OVERRIDE, _OverrideValue, OVERRIDE_MEND)
    if value is None:
        return None
    return Override(value.level, None if value.until is None else value.until.timestamp(), value.by)


def write_override(override: Override) -> str:
    """The annotation's value; its end in whole microseconds."""
    until = None if override.until is None else _moment(override.until)
    return _OverrideValue(level=override.level, until=until, by=override.by).model_dump_json(exclude_none=True)


def read_rollback(annotations: Mapping[str, str]) -> Rollback | None:
    """The last wish to be back before a change; None without any.  Raises AnnotationError."""
    value = _read(annotations, ROLLBACK, _RollbackValue, ROLLBACK_MEND)
    return None if value is None else Rollback(value.at.timestamp(), value.by)


def write_rollback(rollback: Rollback) -> str:
    """The annotation's value; its time in whole microseconds."""
    return _RollbackValue(at=_moment(rollback.at), by=rollback.by).model_dump_json()


def is_suspended(annotations: Mapping[str, str]) -> bool:
    """Whether a person asks to hold everything.  Raises AnnotationError."""
    value = annotations.get(SUSPEND, "false")
    if value not in ("true", "false"):
        raise AnnotationError(SUSPEND, f"{json.dumps(value)} is neither true nor false", 'write "true", or remove it')
    return value == "true"


def _read(annotations: Mapping[str, str], name: str, model: type[Value], mend: str) -> Value | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise AnnotationError(name, place + first["msg"], mend) from error


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
