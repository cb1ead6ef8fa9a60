"""The whole operator put together: watches, ticks, sources, and its own web servers, in one event loop.

Every replica watches and takes alerts; one of them, the leader, ticks.  A leader that is none any more ends.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import kopf
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger
from kubernetes.aio.client import ApiClient, EventsV1Api

from specloop_operator.alert_book import AlertBook
from specloop_operator.announcer import Announcer
from specloop_operator.api import connect, login
from specloop_operator.cluster import KubernetesCluster
from specloop_operator.door_settings import LeaseSettings, WebhookSettings
from specloop_operator.fence import fenced_client
from specloop_operator.first_lists import fill, under_way
from specloop_operator.governor import World
from specloop_operator.health import PAGES, health
from specloop_operator.kopf_settings import STALLED_SECONDS, kopf_settings
from specloop_operator.kubernetes_events import KubernetesEvents
from specloop_operator.leadership import Alone, Election, Leadership, Lease
from specloop_operator.live import LiveActuator
from specloop_operator.metrics import Metrics
from specloop_operator.pulse import Pulse, Readiness
from specloop_operator.runner import Runner
from specloop_operator.serving import Server
from specloop_operator.settings import OperatorSettings
from specloop_operator.slots import Slots
from specloop_operator.sources import open_sources
from specloop_operator.store import PODS, POLICIES, Store
from specloop_operator.sweep import put_right
from specloop_operator.telling import Telling
from specloop_operator.watching import Watching
from specloop_operator.webhook import BURST, RATE, Bucket, Doorkeeper, webhook
from specloop_operator.workload import KINDS

CACHES, WATCHES = "the first list of everything", "the watches"

ELECTION, ELECTION_SECONDS = "the leader election", 30.0
"""Several times longer than a look at the Lease may take, and its two requests with it."""


async def run(settings: OperatorSettings) -> None:
    """Run until a signal asks to end.

    Raises ConnectError, ListenError, ApiError where the first lists fail, and Deposed where another leads now.
    """
    async with AsyncExitStack() as stack:
        metrics, pulse, readiness = Metrics(version("specloop")), Pulse(), Readiness(CACHES, WATCHES)
        pages, tls = health(metrics.registry, pulse, readiness), settings.tls
        own = (PAGES, settings.health_address, settings.health_port)
        await stack.enter_async_context(Server(pages, *own, None if tls is None else tls.tls()))
        client = await connect(metrics)
        stack.push_async_callback(client.close)
        sources = await stack.enter_async_context(open_sources(settings, queried=metrics.queried))
        telling = Telling(metrics, Announcer(KubernetesEvents(EventsV1Api(client), os.uname().nodename)))
        store = Store(per_namespace=bool(settings.namespaces), kinds=settings.target_kinds)
        slots = Slots(settings.max_concurrent_rollouts)
        leadership = Alone() if settings.lease is None else Leadership()
        cluster = KubernetesCluster(client, leadership.holds)
        pods = await stack.enter_async_context(fenced_client(leadership.holds))
        world = World(store, cluster, sources, slots, telling, LiveActuator(pods, cluster), time.time)
        runner = Runner(world, metrics, pulse)
        watching = Watching(world, runner)
        await fill(store, client, settings.namespaces, world.now)
        readiness.done(CACHES)
        if settings.webhook is not None:
            door = _door(settings.webhook, settings.health_address, world, client, readiness, metrics)
            await stack.enter_async_context(door)

        metrics.leads(leadership.holds)

        async def lead() -> None:
            slots.fill(under_way(store))
            await put_right(world)
            watching.lead()

        stop, rest = asyncio.Event(), asyncio.Event()
        election = _election(settings.lease, client, leadership, pulse)
        turn = asyncio.create_task(_turn(election, lead, stop), name="leading")

        async def end() -> None:
            await runner.stop()
            await _end(turn, election)

        stack.push_async_callback(end)
        stack.push_async_callback(_sweeping(watching))
        ending = asyncio.create_task(_first(stop, end, rest), name="ending")
        await _watch(settings, watching, client, metrics, pulse, readiness, stop, rest)
        ending.cancel()
        if turn.done() and not turn.cancelled():
            turn.result()


def _door(
    settings: WebhookSettings, address: str, world: World, client: ApiClient, readiness: Readiness, metrics: Metrics
) -> Server:
    """The webhook; what it hears is written down by any operator, leader or not."""
    everybodys = KubernetesCluster(client)
    labels = (settings.namespace_label, settings.pod_label)
    book = AlertBook(world.store, everybodys, world.telling, world.now, *labels)
    door = Doorkeeper(None if settings.token_file is None else Path(settings.token_file))
    pages = webhook(book, door, Bucket(RATE, BURST, time.monotonic), readiness, metrics)
    tls = settings.tls
    return Server(pages, "/alerts", address, settings.port, None if tls is None else tls.tls())


def _election(
    settings: LeaseSettings | None, client: ApiClient, leadership: Leadership, pulse: Pulse
) -> Election | None:
    if settings is None:
        return None
    pulse.expect(ELECTION, ELECTION_SECONDS)
    identity = f"{os.uname().nodename}_{uuid4()}"
    looked = partial(pulse.beat, ELECTION)
    return Election(Lease(client, settings.namespace, settings.name, identity, leadership, looked), leadership)


async def _turn(election: Election | None, lead: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Lead once it is our turn, and end everything when that is over; raises Deposed then."""
    try:
        if election is None:
            await lead()
            return
        renewing, won = election.start(), asyncio.create_task(election.won.wait())
        await asyncio.wait((renewing, won), return_when=asyncio.FIRST_COMPLETED)
        won.cancel()
        if not renewing.done():
            await lead()
        await renewing
    except Exception:
        stop.set()
        raise


async def _end(turn: "asyncio.Task[None]", election: Election | None) -> None:
    """Lead no more, and give the Lease away."""
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):  # how it ended was looked at before
        await turn
    if election is not None:
        await election.stop()


async def _first(stop: asyncio.Event, end: Callable[[], Awaitable[None]], rest: asyncio.Event) -> None:
    """Act no more before anything else ends: kopf waits five seconds for tasks of ours, and the Lease would too."""
    await stop.wait()
    try:
        await end()
    finally:
        rest.set()


def _heed_signals(stop: asyncio.Event) -> None:
    """Let those that ask to end set it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


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
    stop: asyncio.Event,
    rest: asyncio.Event,
) -> None:
    """Let kopf watch until everything else has ended."""
    awaited = {POLICIES, PODS, *(KINDS[kind].plural for kind in settings.target_kinds)}

    def watched(resource: str) -> None:
        pulse.beat(f"the watch of {resource}")
        awaited.discard(resource)
        if not awaited:
            readiness.done(WATCHES)

    for resource in sorted(awaited):
        pulse.expect(f"the watch of {resource}", STALLED_SECONDS)
    registry = watching.registry()
    kopf.on.login(registry=registry)(login(client, metrics, watched))
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=kopf_settings(),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=rest,
    )
    _heed_signals(stop)  # which kopf has just taken for its own
    await kopf.run_tasks(tasks, ignored=before)
    asyncio.get_running_loop().set_exception_handler(_unless_left_open)


def _unless_left_open(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """kopf leaves its watches open; how they are closed once everything ends is nobody's concern."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)
