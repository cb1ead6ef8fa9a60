"""Names of Secrets in policies and the paths that the API server is asked for: no name leads out of a namespace."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specloop_operator.cluster import KubernetesCluster
from tests.component.operator_health.api_server import client_of


@pytest.mark.parametrize(
    "name",
    ["..", ".", "../pods", "a/../../b", "../../kube-system/secrets/x", "x?watch=1", "x#y", "%2e%2e%2fpods", "ü"],
)
async def test_a_name_is_one_part_of_a_path(name: str) -> None:
    """What is read at the worst is the namespace itself, which no role of the chart allows; nothing but GET is sent."""
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.raw_path))
        return web.json_response({"data": {}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server, client_of(str(server.make_url(""))) as client:
        assert await KubernetesCluster(client).secret("llm", name) == {}
    [(method, path)] = asked
    assert method == "GET"
    assert path.startswith("/api/v1/namespaces/llm/")
    assert path.removeprefix("/api/v1/namespaces/llm/").removeprefix("secrets/").count("/") == 0
    assert "?" not in path
