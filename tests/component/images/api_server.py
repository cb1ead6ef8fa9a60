"""An API server on loopback with nothing in it: the operator starts, lists nothing, and watches for more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

GROUPS = {
    "v1": ("namespaces", "pods", "events", "secrets"),
    "apps/v1": ("deployments", "statefulsets", "replicasets", "controllerrevisions"),
    "specloop.dev/v1alpha1": ("specpolicies",),
}
"""What it serves, by the group and version that Kubernetes' API names."""


@asynccontextmanager
async def empty_cluster() -> AsyncIterator[str]:
    """Its URL, while it runs."""
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/")
        if path == "api":
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        if path == "apis":
            return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()})
        if (version := path.removeprefix("apis/").removeprefix("api/")) in GROUPS:
            return web.json_response({"kind": "APIResourceList", "groupVersion": version, "resources": _kinds(version)})
        if request.query.get("watch") not in (None, "false"):
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await ended.wait()
            return stream
        return web.json_response(
            {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        )

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")
        ended.set()


def _groups() -> list[dict[str, object]]:
    versions = [(one, *one.split("/")) for one in GROUPS if "/" in one]
    return [
        {
            "name": group,
            "versions": [{"groupVersion": both, "version": version}],
            "preferredVersion": {"groupVersion": both, "version": version},
        }
        for both, group, version in versions
    ]


def _kinds(version: str) -> list[dict[str, object]]:
    return [
        {
            "name": plural,
            "singularName": plural[:-1],
            "namespaced": plural != "namespaces",
            "kind": plural.title(),
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }
        for plural in GROUPS[version]
    ]
