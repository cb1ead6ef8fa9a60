"""Events as they reach an API server, and requests to it as they are counted."""

import re

import pytest
from kubernetes.aio.client import EventsV1Api
from prometheus_client import generate_latest

from specloop_operator.announcer import Event, ObjectRef, PostFailed
from specloop_operator.api_meter import api_meter
from specloop_operator.events import Reason
from specloop_operator.kubernetes_events import KubernetesEvents
from specloop_operator.metrics import Metrics
from tests.component.operator_health.api_server import FakeApi, client_of
from tests.component.sim.servers import free_port

POLICY = ObjectRef("specloop.dev/v1alpha1", "SpecPolicy", "llm", "chat", "uid-1")
NOON = 1_796_040_000.0
"""2026-11-30T12:00:00Z, at whole seconds: 20,787 days of 86,400 s after 1970, and half a day."""


def event(note: str = "from k5 to k3", at: float = NOON) -> Event:
    """A level that changed."""
    return Event(POLICY, Reason.LEVEL_CHANGED, note, at)


async def test_an_event_has_all_that_the_api_server_asks_of_it() -> None:
    """k8s.io/kubernetes pkg/apis/core/validation/events.go, ValidateEvent, for events.k8s.io/v1."""
    api = FakeApi()
    async with api.client() as client:
        await KubernetesEvents(EventsV1Api(client), "specloop-0").post(event())
    ((method, path, body),) = api.sent
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/llm/events")
    time = body.pop("eventTime")
    assert re.fullmatch(r"2026-11-30T12:00:00\.\d{6}\+00:00", time), "six digits, or the server cannot read it"
    assert body == {
        "metadata": {"generateName": "specloop-", "namespace": "llm"},
        "type": "Normal",
        "reason": "LevelChanged",
        "action": "Decide",
        "note": "from k5 to k3",
        "regarding": {
            "apiVersion": "specloop.dev/v1alpha1",
            "kind": "SpecPolicy",
            "namespace": "llm",
            "name": "chat",
            "uid": "uid-1",
        },
        "reportingController": "specloop.dev/operator",
        "reportingInstance": "specloop-0",
    }


async def test_what_is_too_long_is_cut_to_the_servers_limits() -> None:
    """1,024 bytes of note, 128 characters of instance."""
    api = FakeApi()
    async with api.client() as client:
        await KubernetesEvents(EventsV1Api(client), "o" * 300).post(event("×" * 1000))
    ((_, _, body),) = api.sent
    assert body["note"] == "×" * 510 + "…"  # 2 bytes each, 3 for the last: 1,023, as one × more would be 1,025
    assert len(body["reportingInstance"]) == 128


@pytest.mark.parametrize("status", [403, 409, 429, 500])
async def test_a_refusal_is_one_error_in_words(status: int) -> None:
    """A namespace that is being deleted takes no events, for one."""
    async with FakeApi(status=status).client() as client:
        with pytest.raises(PostFailed, match=f"HTTP {status} "):
            await KubernetesEvents(EventsV1Api(client), "specloop-0").post(event())


async def test_a_server_that_is_not_there_is_the_same_error() -> None:
    """Nobody listens on the port."""
    async with client_of(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(PostFailed, match="Cannot connect"):
            await KubernetesEvents(EventsV1Api(client), "specloop-0").post(event())


async def test_requests_are_counted_with_their_status() -> None:
    """Two posts, the second refused, and one that nobody answers."""
    metrics, api = Metrics("1.0"), FakeApi()
    async with api.client(api_meter(metrics)) as client:
        events = KubernetesEvents(EventsV1Api(client), "specloop-0")
        await events.post(event())
        api.status = 403
        with pytest.raises(PostFailed):
            await events.post(event())
    async with client_of(f"http://127.0.0.1:{free_port()}", api_meter(metrics)) as client:
        with pytest.raises(PostFailed):
            await KubernetesEvents(EventsV1Api(client), "specloop-0").post(event())
    page = generate_latest(metrics.registry).decode()
    counted = re.findall(r'specloop_api_requests_total\{code="(\w+)",resource="events",verb="create"\} (\S+)', page)
    assert sorted(counted) == [("201", "1.0"), ("403", "1.0"), ("none", "1.0")]
