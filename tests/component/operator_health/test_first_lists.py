"""The first lists of an operator, from an API server on loopback."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specloop_operator.cluster import ApiError
from specloop_operator.first_lists import fill
from specloop_operator.store import Store
from tests.component.operator_health.api_server import client_of

PATIENCE_SECONDS = 60.0
"""What a test waits for at most: a fifth of the client's own limit, 300 s."""
KINDS = ("Deployment", "StatefulSet")


@pytest.mark.parametrize("namespaces", [(), ("llm",)], ids=["the cluster", "a namespace"])
@pytest.mark.parametrize("silent", ["specpolicies", "deployments", "statefulsets", "pods"])
async def test_a_list_that_does_not_come_is_given_up(silent: str, namespaces: tuple[str, ...]) -> None:
    """Its head comes, and its body does not; the operator ends, and is started anew."""
    over = asyncio.Event()

    async def lists(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith(f"/{silent}"):
            return web.json_response({"items": []})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await over.wait()
        return answer

    application = web.Application()
    application.router.add_get("/{path:.*}", lists)
    async with TestServer(application) as server, client_of(str(server.make_url(""))) as client:
        store = Store(per_namespace=bool(namespaces), kinds=KINDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(ApiError, match=f"listing {silent}: TimeoutError"):
                await fill(store, client, namespaces, lambda: 0.0, list_seconds=0.2)
        over.set()
