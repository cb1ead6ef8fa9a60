"""What every piece of a status is made of: a lenient model, and times as Kubernetes writes them."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel


def _in_utc(time: datetime) -> datetime:
    """The same moment; somebody may have written one that is in no year of UTC's calendar."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is a time before the year 1 or after 9999") from error


Time = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(lambda time: time.isoformat(timespec="microseconds").replace("+00:00", "Z"), return_type=str),
]
Text = Annotated[str, Field(max_length=4096)]


def plain(text: str) -> str:
    """Words of others on one line, with nothing in it that steers a terminal."""
    return "".join([letter if letter.isprintable() else "?" for letter in " ".join(text.split())])


class Report(BaseModel):
    """A piece of a status: written by the operator, read leniently."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""A later moment may be rounded into a year that no calendar of ours has."""


def as_time(seconds: float) -> datetime:
    """Seconds since the epoch as a moment; what is later than any calendar of ours is its end."""
    return datetime.fromtimestamp(min(seconds, LATEST), UTC)


def maybe_time(seconds: float | None) -> datetime | None:
    """The same, where there is one."""
    return None if seconds is None else as_time(seconds)


def maybe_seconds(time: datetime | None) -> float | None:
    """A moment as seconds since the epoch, where there is one."""
    return None if time is None else time.timestamp()
