"""Everything as it is when the operator begins, so that the first tick sees it all."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from kubernetes.aio.client import ApiClient, AppsV1Api, CoreV1Api, CustomObjectsApi

from specloop_operator.cluster import Busy, listed
from specloop_operator.kopf_settings import REQUEST_SECONDS
from specloop_operator.remembered import read_status
from specloop_operator.store import PODS, POLICIES, Name, Store
from specloop_operator.watching import kept
from specloop_operator.workload import KINDS
from specloop_policy.model import GROUP, VERSION

BUSY_TRIES = 10
"""A second each: in the end kubelet starts the operator anew, with longer gaps."""

Body = Mapping[str, Any]


async def fill(
    store: Store,
    client: ApiClient,
    namespaces: tuple[str, ...],
    now: Callable[[], float],
    *,
    list_seconds: float = REQUEST_SECONDS,
) -> None:
    """List everything once; raises ApiError, also where a list takes longer than it may."""
    apps, core, custom = AppsV1Api(client), CoreV1Api(client), CustomObjectsApi(client)
    for namespace in namespaces or (None,):
        lists: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            POLICIES: (
                partial(custom.list_custom_object_for_all_namespaces_without_preload_content, GROUP, VERSION, POLICIES),
                lambda name, **more: custom.list_namespaced_custom_object_without_preload_content(
                    GROUP, VERSION, name, POLICIES, **more
                ),
            ),
            "deployments": (
                apps.list_deployment_for_all_namespaces_without_preload_content,
                apps.list_namespaced_deployment_without_preload_content,
            ),
            "statefulsets": (
                apps.list_stateful_set_for_all_namespaces_without_preload_content,
                apps.list_namespaced_stateful_set_without_preload_content,
            ),
            PODS: (
                core.list_pod_for_all_namespaces_without_preload_content,
                core.list_namespaced_pod_without_preload_content,
            ),
        }
        for resource in (POLICIES, *(KINDS[kind].plural for kind in store.kinds), PODS):
            everywhere, within = lists[resource]
            lister = everywhere if namespace is None else partial(within, namespace)
            ask = partial(lister, _request_timeout=list_seconds)
            for body in await _listed(f"listing {resource}", ask):
                store.put(resource, kept(resource, body), now())


async def _listed(what: str, ask: Callable[[], Any]) -> list[Body]:
    """A list; asked for again while the server is busy, as it is for a second after the definition was made."""
    for _ in range(BUSY_TRIES):
        with suppress(Busy):
            return await listed(what, ask())
        await asyncio.sleep(1.0)
    return await listed(what, ask())


def under_way(store: Store) -> list[Name]:
    """Policies whose status has a roll-out under way."""
    names = []
    for body in store.policies():
        memory = read_status(body).memory
        if memory is not None and memory.rollout is not None:
            names.append((body["metadata"]["namespace"], body["metadata"]["name"]))
    return names
