"""What is written to the API server and asked of pods by who leads, and what is not by who leads no more."""

from collections.abc import Awaitable, Callable

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specloop_operator.cluster import KubernetesCluster, NotLeading
from specloop_operator.fence import fenced_client
from specloop_operator.leadership import RENEW_SECONDS, Leadership
from specloop_operator.workload import KINDS, Target
from tests.component.operator_health.api_server import FakeApi
from tests.support.fakes import ManualClock

METADATA = {"name": "llama", "namespace": "llm", "uid": "uid-1", "resourceVersion": "7"}
LLAMA = {"metadata": METADATA, "spec": {"template": {}}}

Write = Callable[[KubernetesCluster], Awaitable[object]]


def _applies(kind: str) -> Write:
    target = Target(KINDS[kind], LLAMA)
    return lambda cluster: cluster.apply(target, target.application({}))


WRITES: dict[str, Write] = {
    "a Deployment": _applies("Deployment"),
    "a StatefulSet": _applies("StatefulSet"),
    "the status of a policy": lambda cluster: cluster.write_status({"metadata": METADATA}, {"observedLevel": "k3"}),
}
"""Each of which says which version of its object it is about."""

DELETES: dict[str, Write] = {"a pod": lambda cluster: cluster.delete_pod("llm", "llama-2", "uid-of-llama-2")}


@pytest.mark.parametrize("what", WRITES)
async def test_a_leader_writes_to_the_version_that_it_read_alone(what: str) -> None:
    """So that the API server refuses what arrives after somebody else's write."""
    api, leadership = FakeApi(status=200), Leadership(ManualClock().now)
    leadership.renewed(0.0)
    async with api.client() as client:
        await WRITES[what](KubernetesCluster(client, leadership.holds))
    ((method, _, body),) = api.sent
    assert (method, body["metadata"]["resourceVersion"]) == ("PATCH", "7")


@pytest.mark.parametrize("what", WRITES | DELETES)
async def test_who_leads_no_more_sends_nothing(what: str) -> None:
    """Its own clock says so, without asking anybody; and the error says that it helps not to try again."""
    api, clock = FakeApi(status=200), ManualClock()
    leadership = Leadership(clock.now)
    leadership.renewed(0.0)
    clock.time = RENEW_SECONDS
    async with api.client() as client:
        with pytest.raises(NotLeading, match="not sent, for another operator leads now") as raised:
            await (WRITES | DELETES)[what](KubernetesCluster(client, leadership.holds))
    assert api.sent == []
    assert not raised.value.retry


READ, WRITES_TO_PODS = "GET", ("PUT", "POST", "PATCH", "DELETE")


@pytest.mark.parametrize("leads", [True, False], ids=["leads", "leads no more"])
async def test_who_leads_no_more_reads_what_pods_run_and_asks_them_for_nothing(leads: bool) -> None:
    """Of every way to ask, on one client that goes on from when it led."""
    clock, came = ManualClock(), list[str]()
    leadership = Leadership(clock.now)
    leadership.renewed(0.0)

    async def pod(request: web.Request) -> web.Response:
        came.append(request.method)
        return web.Response()

    application = web.Application()
    application.router.add_route("*", "/specloop", pod)
    async with TestServer(application) as server, fenced_client(leadership.holds) as client:
        url = str(server.make_url("/specloop"))
        clock.time = 0.0 if leads else RENEW_SECONDS
        await client.get(url)
        for method in WRITES_TO_PODS:
            if leads:
                await client.request(method, url)
            else:
                with pytest.raises(httpx.RequestError, match="not sent, for another operator leads now"):
                    await client.request(method, url)
    assert came == [READ, *(WRITES_TO_PODS if leads else ())]
