"""The whole operator put together: watches, ticks, sources, and its own web server, in one event loop."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

import httpx
import kopf
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger
from kubernetes.aio.client import ApiClient, AppsV1Api, CoreV1Api, CustomObjectsApi, EventsV1Api

from specloop_operator.announcer import Announcer
from specloop_operator.api import connect, login
from specloop_operator.cluster import KubernetesCluster, listed
from specloop_operator.governor import World, read_status
from specloop_operator.health import Server
from specloop_operator.kubernetes_events import KubernetesEvents
from specloop_operator.live import LiveActuator
from specloop_operator.metrics import Metrics
from specloop_operator.pulse import Pulse, Readiness
from specloop_operator.runner import Runner
from specloop_operator.settings import OperatorSettings
from specloop_operator.slots import Slots
from specloop_operator.sources import open_sources
from specloop_operator.store import PODS, POLICIES, Store
from specloop_operator.sweep import put_right
from specloop_operator.telling import Telling
from specloop_operator.watching import Watching, kept
from specloop_operator.workload import KINDS
from specloop_policy.model import GROUP, VERSION

WATCH_SECONDS = 240
"""A watch is begun anew after so long: shorter than the five minutes after which common proxies cut it off."""

CACHES, WATCHES = "the first list of everything", "the watches"


async def run(settings: OperatorSettings) -> None:
    """Run until a signal asks to end; raises ConnectError, ListenError, and ApiError where the first lists fail."""
    async with AsyncExitStack() as stack:
        metrics, pulse, readiness = Metrics(version("specloop")), Pulse(), Readiness(CACHES, WATCHES)
        await stack.enter_async_context(
            Server(metrics.registry, pulse, readiness, settings.health_address, settings.health_port)
        )
        client = await connect(metrics)
        stack.push_async_callback(client.close)
        sources = await stack.enter_async_context(open_sources(settings, queried=metrics.queried))
        telling = Telling(metrics, Announcer(KubernetesEvents(EventsV1Api(client), os.uname().nodename)))
        store = Store(per_namespace=bool(settings.namespaces))
        slots = Slots(settings.max_concurrent_rollouts)
        cluster = KubernetesCluster(client)
        # Engines close connections that are idle for five seconds; proxies lead nowhere inside a cluster.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        pods = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, limits=limits))
        world = World(store, cluster, sources, slots, telling, LiveActuator(pods, cluster), time.time)
        runner = Runner(world, metrics, pulse)
        watching = Watching(world, runner)
        await _fill(store, client, settings.namespaces, world.now)
        slots.fill(_under_way(store))
        readiness.done(CACHES)
        await put_right(world)
        runner.start()
        stack.push_async_callback(runner.stop)
        stack.push_async_callback(_sweeping(watching))
        await _watch(settings, watching, client, metrics, pulse, readiness)


async def _fill(store: Store, client: ApiClient, namespaces: tuple[str, ...], now: Callable[[], float]) -> None:
    """List everything once, so that the first tick sees it all."""
    apps, core, custom = AppsV1Api(client), CoreV1Api(client), CustomObjectsApi(client)
    for namespace in namespaces or (None,):
        lists: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            POLICIES: (
                lambda: custom.list_custom_object_for_all_namespaces_without_preload_content(GROUP, VERSION, POLICIES),
                lambda name: custom.list_namespaced_custom_object_without_preload_content(
                    GROUP, VERSION, name, POLICIES
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
        for resource, (everywhere, within) in lists.items():
            asking = everywhere() if namespace is None else within(namespace)
            for body in await listed(f"listing {resource}", asking):
                store.put(resource, kept(resource, body), now())


def _under_way(store: Store) -> list[tuple[str, str]]:
    names = []
    for body in store.policies():
        memory = read_status(body).memory
        if memory is not None and memory.rollout is not None:
            names.append((body["metadata"]["namespace"], body["metadata"]["name"]))
    return names


def _sweeping(watching: Watching) -> Callable[[], Awaitable[None]]:
    scheduler = AsyncIOScheduler()
    scheduler.add_job(watching.sweep, IntervalTrigger(seconds=5), coalesce=True, misfire_grace_time=None)
    scheduler.start()

    async def stop() -> None:
        scheduler.shutdown(wait=False)

    return stop


async def _watch(
    settings: OperatorSettings,
    watching: Watching,
    client: ApiClient,
    metrics: Metrics,
    pulse: Pulse,
    readiness: Readiness,
) -> None:
    """Let kopf watch until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    awaited = {POLICIES, PODS, *(kind.plural for kind in KINDS.values())}

    def watched(resource: str) -> None:
        pulse.beat(f"the watch of {resource}")
        awaited.discard(resource)
        if not awaited:
            readiness.done(WATCHES)

    for resource in sorted(awaited):
        pulse.expect(f"the watch of {resource}", 2.0 * WATCH_SECONDS)
    registry = watching.registry()
    kopf.on.login(registry=registry)(login(client, metrics, watched))
    await kopf.operator(
        registry=registry,
        settings=_kopf_settings(settings),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=stop,
    )
    asyncio.get_running_loop().set_exception_handler(_unless_left_open)


def _unless_left_open(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """kopf leaves its watches open; how they are closed once everything ends is nobody's concern."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


def _kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """kopf's own settings, so that it writes nothing anywhere."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False  # events are posted on change only, by the announcer
    found.persistence.finalizer = f"{GROUP}/none"
    found.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    found.persistence.diffbase_storage = _NoDifference()
    found.networking.request_timeout = 30.0
    found.networking.connect_timeout = 10.0
    found.watching.server_timeout = WATCH_SECONDS  # a float would be no number to the API server
    found.watching.client_timeout = WATCH_SECONDS + 30.0
    found.watching.connect_timeout = 10.0
    found.scanning.disabled = bool(settings.namespaces)
    return found


class _NoDifference(kopf.DiffBaseStorage):
    """No handler asks what changed in an object, so that none is copied at every event: a third of its price."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass
