"""What Alertmanager sends to a webhook, version 4 of its format; fields that are not used here are passed over.

MessageError    a message that cannot be read; sending it again does not help
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from specloop_policy.alerts import Alert

FORMAT = "4"

Labels = dict[str, str]
"""As many and as long as the body may have: one alert whose labels are long keeps no other of its message out."""


class MessageError(ValueError):
    """A message that is none of Alertmanager's."""


def _in_utc(time: datetime) -> datetime:
    """The same moment; none that is in the year 1 or 9999 where it was written, and in no year of ours in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is before the year 1 or after the year 9999") from error


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class Status(StrEnum):
    """Whether an alert fires."""

    FIRING = "firing"
    RESOLVED = "resolved"


class _Payload(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Alert(_Payload):
    status: Status
    labels: Labels
    starts_at: Moment
    ends_at: Moment | None = None
    """Go's zero time where it is not known."""
    fingerprint: Annotated[str, Field(min_length=1, max_length=64)]

    def alert(self) -> Alert:
        """The same as the policies take it."""
        starts_at, ends_at = self.starts_at.timestamp(), None if self.ends_at is None else self.ends_at.timestamp()
        return Alert(self.fingerprint, starts_at, self.status is Status.FIRING, self.labels, ends_at)


class Message(_Payload):
    """One notification of a group of alerts."""

    version: str
    truncated_alerts: Annotated[int, Field(ge=0)] = 0
    common_labels: Labels = Field(default_factory=dict)
    group_labels: Labels = Field(default_factory=dict)
    entries: Annotated[tuple[_Alert, ...], Field(alias="alerts", max_length=10_000)]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that it holds, in its order."""
        return tuple(one.alert() for one in self.entries)

    def namespace(self, label: str) -> str | None:
        """The one namespace that all its alerts are of, those left out too; None where they may be of any."""
        return self.group_labels.get(label)


def read_message(body: bytes) -> Message:
    """A message; raises MessageError."""
    try:
        message = Message.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise MessageError(f"{place}: {first['msg']}") from error
    if message.version != FORMAT:
        raise MessageError(f"version: {message.version[:32]!r} is not {FORMAT}, the format of Alertmanager's webhooks")
    return message
