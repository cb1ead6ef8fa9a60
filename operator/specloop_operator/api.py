"""Connections to the API server: one for kopf's watches, one for everything that is written.

Inside a cluster by the pod's service account, elsewhere by the kubeconfig that kubectl would use.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from specloop_operator.api_meter import api_meter
from specloop_operator.metrics import Metrics

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class ConnectError(Exception):
    """There is no cluster to connect to; a kubeconfig, or running inside one, helps."""


async def connect(metrics: Metrics) -> ApiClient:
    """A client for writing; raises ConnectError."""
    configuration = Configuration()
    configuration.trace_configs = [api_meter(metrics)]
    try:
        if IN_CLUSTER in os.environ and "KUBECONFIG" not in os.environ:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError, ValueError) as error:
        raise ConnectError(f"there is no cluster to connect to: {error}") from error
    return ApiClient(configuration)


def login(client: ApiClient, metrics: Metrics, watched: Callable[[str], None]) -> Callable[..., Any]:
    """kopf's login handler: a session with the client's address, trust and credentials; `watched` hears of watches."""
    configuration = client.configuration

    async def session(**_: Any) -> kopf.AiohttpSession:
        trace = aiohttp.TraceConfig()

        async def opened(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
        ) -> None:
            if params.response.ok and params.url.query.get("watch"):
                watched(Path(params.url.path).name)

        trace.on_request_end.append(opened)
        connector = aiohttp.TCPConnector(limit=0, ssl=client.rest_client.ssl_context)
        made = aiohttp.ClientSession(
            connector=connector, middlewares=[_authorised(client)], trace_configs=[api_meter(metrics), trace]
        )
        return kopf.AiohttpSession(server=configuration.host, default_namespace=None, aiohttp_session=made)

    return session


def _authorised(client: ApiClient) -> Any:
    """Every request with the token of the moment: a service account's is renewed within the hour."""

    async def middleware(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        token = await client.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            request.headers["Authorization"] = token
        return await handler(request)

    return middleware
