"""Posts events through the API, as `events.k8s.io/v1`."""

from datetime import UTC, datetime

import aiohttp
from kubernetes.aio.client import EventsV1Api, EventsV1Event, V1ObjectMeta, V1ObjectReference
from kubernetes.aio.client.exceptions import ApiException

from specloop_operator.announcer import Event, PostFailed
from specloop_policy.report import plain

CONTROLLER = "specloop.dev/operator"
MAX_NOTE_BYTES = 1024
MAX_INSTANCE_LENGTH = 128
"""Both are the API server's limits."""

TIMEOUT_SECONDS = 5.0
"""The client's own is 300 s; nothing that a tick does should wait that long for the telling of it."""


class KubernetesEvents:
    """The event port of a cluster; `instance` is this operator's name among its replicas."""

    def __init__(self, api: EventsV1Api, instance: str) -> None:
        self._api = api
        self._instance = instance[:MAX_INSTANCE_LENGTH]

    async def post(self, event: Event) -> None:
        """Post it; raises PostFailed."""
        try:
            await self._api.create_namespaced_event(
                event.regarding.namespace, self._body(event), _request_timeout=TIMEOUT_SECONDS
            )
        except ApiException as error:
            raise PostFailed(f"HTTP {error.status} {error.reason}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PostFailed(str(error) or type(error).__name__) from error

    def _body(self, event: Event) -> EventsV1Event:
        regarding = event.regarding
        return EventsV1Event(
            metadata=V1ObjectMeta(generate_name="specloop-", namespace=regarding.namespace),
            event_time=_time(event.at),
            type=event.reason.type.value,
            reason=event.reason.value,
            action=event.reason.action.value,
            note=cut(plain(event.note)),
            regarding=V1ObjectReference(
                api_version=regarding.api_version,
                kind=regarding.kind,
                namespace=regarding.namespace,
                name=regarding.name,
                uid=regarding.uid,
            ),
            reporting_controller=CONTROLLER,
            reporting_instance=self._instance,
        )


def _time(at: float) -> datetime:
    """The time with microseconds other than 0: the client leaves those out, and the server wants six digits."""
    time = datetime.fromtimestamp(at, UTC)
    return time.replace(microsecond=max(1, time.microsecond))


def cut(note: str) -> str:
    """The note at no more bytes than the API server takes."""
    written = note.encode()
    if len(written) <= MAX_NOTE_BYTES:
        return note
    ellipsis = "…"
    return written[: MAX_NOTE_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
