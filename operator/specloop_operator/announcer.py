"""Posts events on change only: once when something is so, not again while it stays so.

The memory is bounded and does not outlive the process: after a restart, what is still so is said once more.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from specloop_operator.events import Action, Reason
from specloop_operator.gist import gist as gist_of

LOG = logging.getLogger("specloop.events")

POSTS_A_MINUTE = 10
"""On one object; what is over the limit is left out, and posted later if it is still so when announced again."""

MAX_OBJECTS = 2_000
"""Objects remembered; the longest unheard go first."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that events are about; one made anew under the same name has another `uid`."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be posted; `at` is in seconds since the epoch."""

    regarding: ObjectRef
    reason: Reason
    note: str
    at: float


class PostFailed(Exception):
    """An event was not posted; announcing it again may help."""


class EventPort(Protocol):
    """The way an event reaches the API server."""

    async def post(self, event: Event) -> None:
        """Post it; raises PostFailed."""


@dataclass(slots=True)
class _Said:
    """What was last said about one object, action by action, and when posts went out."""

    last: dict[Action, tuple[Reason, str]] = field(default_factory=dict)
    posts: deque[float] = field(default_factory=lambda: deque(maxlen=POSTS_A_MINUTE))

    def full(self, now: float) -> bool:
        """Whether the limit is reached; a clock that was set back holds nothing up."""
        return len(self.posts) == POSTS_A_MINUTE and 0.0 <= now - self.posts[0] < 60.0


class Announcer:
    """Decides which events are news, and posts those."""

    def __init__(self, port: EventPort) -> None:
        self._port = port
        self._said: OrderedDict[ObjectRef, _Said] = OrderedDict()

    async def announce(
        self, reason: Reason, note: str, now: float, objects: Iterable[ObjectRef], gist: str | None = None
    ) -> bool:
        """Post on each of the objects that the reason is meant for, where it is news; False where one was not posted.

        Things of one action that are so at the same time belong into one note, or they replace each other at every
        call.  `gist` is what of the note is news when it changes; by default all but its figures.
        """
        what = gist if gist is not None else gist_of(note)
        meant = [one for one in objects if reason.on.includes(one.kind)]
        return all([await self._post_news(Event(regarding, reason, note, now), what) for regarding in meant])

    async def _post_news(self, event: Event, what: str) -> bool:
        said = self._remembered(event.regarding)
        before, news = said.last.get(event.reason.action), (event.reason, what)
        if news == before:
            return True
        if said.full(event.at):
            return False
        said.last[event.reason.action] = news
        said.posts.append(event.at)
        try:
            await self._port.post(event)
        except PostFailed as error:
            said.last.pop(event.reason.action, None)
            about = {"kind": event.regarding.kind, "namespace": event.regarding.namespace, "name": event.regarding.name}
            LOG.warning("the event %s was not posted: %s", event.reason, error, extra={"k8s_ref": about})
            return False
        return True

    def _remembered(self, regarding: ObjectRef) -> _Said:
        said = self._said.setdefault(regarding, _Said())
        self._said.move_to_end(regarding)
        if len(self._said) > MAX_OBJECTS:
            self._said.popitem(last=False)
        return said

    def settled(self, regarding: ObjectRef, action: Action) -> None:
        """What was said of this action is no longer so: when it is so again, it is news."""
        if regarding in self._said:
            self._said[regarding].last.pop(action, None)

    def forget(self, regarding: ObjectRef) -> None:
        """The object is gone."""
        self._said.pop(regarding, None)
