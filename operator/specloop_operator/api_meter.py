"""Counts every request that an HTTP session sends to the API server, by what Kubernetes calls it.

The session is aiohttp's, which both the Kubernetes client (`Configuration.trace_configs`) and kopf (a login handler
that returns a session) take.
"""

from types import SimpleNamespace

import aiohttp

from specloop_operator.metrics import Metrics

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
NO_ANSWER = "none"
NO_RESOURCE = "none"


def api_meter(metrics: Metrics) -> aiohttp.TraceConfig:
    """A meter to put on a session; it counts a watch when it is opened."""

    def count(request: aiohttp.TraceRequestEndParams | aiohttp.TraceRequestExceptionParams, code: str) -> None:
        watching = request.url.query.get("watch", "").lower() in ("true", "1")
        metrics.requested(*verb_and_resource(request.method, request.url.path, watching=watching), code)

    async def answered(
        session: aiohttp.ClientSession, context: SimpleNamespace, request: aiohttp.TraceRequestEndParams
    ) -> None:
        count(request, str(request.response.status))

    async def failed(
        session: aiohttp.ClientSession, context: SimpleNamespace, request: aiohttp.TraceRequestExceptionParams
    ) -> None:
        count(request, NO_ANSWER)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(answered)
    trace.on_request_exception.append(failed)
    return trace


def verb_and_resource(method: str, path: str, *, watching: bool = False) -> tuple[str, str]:
    """A request as roles name it: `patch`, `deployments`; discovery and health have no resource."""
    parts = _after_version([part for part in path.split("/") if part])
    resource = "/".join((parts[0], *parts[2:3])) if parts else NO_RESOURCE
    if method in VERBS:
        return VERBS[method], resource
    if len(parts) != 1:
        return "get", resource
    return "watch" if watching else "list", resource


def _after_version(parts: list[str]) -> list[str]:
    """Resource, name and subresource: what follows the API version and the namespace."""
    if parts[:1] == ["api"]:
        parts = parts[2:]
    elif parts[:1] == ["apis"]:
        parts = parts[3:]
    else:
        return []
    return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
