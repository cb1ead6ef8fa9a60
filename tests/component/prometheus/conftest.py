"""A Prometheus that scraped three simulated servers, one of which was restarted at another level meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from subprocess import PIPE, Popen

import pytest

from specloop_control.prometheus import PrometheusSource
from specloop_control.prometheus_server import Prometheus, PrometheusSettings
from specloop_engine.feed import ShownLevels
from specloop_engine.history import History
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.observation import Window
from tests.component.prometheus.servers import pod, prometheus, traffic
from tests.component.sim.servers import DRAFT_K5, MIDDLEWARE, Server, command, environment, serving, wait_until_ready

SMALL = Drafter("small", Method.DRAFT_MODEL, "small")
LADDER = Ladder((Level("k5", SMALL, 5), Level("k3", SMALL, 3), DISABLED))
DRAFT_K3 = ("--speculative-config", DRAFT_K5[1].replace("5", "3"))
WINDOW_SECONDS, KEEP_SECONDS = 3.0, 600.0
LOOK_SECONDS = 1.0
DEADLINE_SECONDS = 60.0
"""A window takes six seconds to be seen; the machine may have other things to do."""


@dataclass(frozen=True)
class Scraped:
    """What a live loop saw, and the Prometheus that it read, which is still there."""

    settings: PrometheusSettings
    begin: float
    """Before the first scrape."""
    looks: tuple[float, ...]
    """Times up to which the live loop looked, in order; it began at the first."""
    live: tuple[Window, ...]
    """The windows of the live loop after the last look."""


def history() -> History:
    """A history as the live loop's."""
    return History(WINDOW_SECONDS, KEEP_SECONDS)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Pods a and b draft with K = 5, and b is restarted with K = 3; c does not speculate, and half of what it answers
    are errors.  Two jobs scrape a."""
    begin = time.time()
    flags = (*DRAFT_K5, *MIDDLEWARE)
    with (
        serving(*flags, speed=20) as a,
        serving(*flags, speed=20, seed=1) as b,
        serving(speed=20, faults='{"*": {"errorShare": 0.5}}') as c,
    ):
        targets = [pod(a.url, "a"), pod(b.url, "b"), pod(c.url, "c"), pod(a.url, "a", "zz-monitor")]
        with prometheus(tmp_path_factory.mktemp("prometheus"), targets) as settings:
            with traffic(a.url, b.url, c.url):
                looks, live = asyncio.run(_live(settings, b))
            yield Scraped(settings, begin, looks, live)


async def _live(settings: PrometheusSettings, restarted: Server) -> tuple[tuple[float, ...], tuple[Window, ...]]:
    """Poll at no particular times, with a restart in the middle during which nobody polls."""
    polled: list[float] = []
    with closing(Prometheus(settings)) as server:
        source = PrometheusSource(settings, server, history(), ShownLevels(LADDER), look_seconds=LOOK_SECONDS)

        async def poll_until_measured(pods: str, level: str) -> None:
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not set(pods) <= {one.pod for one in source.windows() if one.tokens and one.level == level}:
                assert time.monotonic() < deadline, source.windows()
                polled.append(time.time())
                await source.poll(polled[-1])
                assert source.problem is None
                await asyncio.sleep(0.3)

        await poll_until_measured("ab", "k5")
        restarted.process.kill()
        restarted.process.wait()
        with at_k3(restarted.url):
            await poll_until_measured("b", "k3")
        source.close()
    first, last = (now - now % LOOK_SECONDS - settings.lag_seconds for now in (polled[0], polled[-1]))
    looks = round((last - first) / LOOK_SECONDS)
    return tuple(first + place * LOOK_SECONDS for place in range(looks + 1)), source.windows()


@contextmanager
def at_k3(url: str) -> Iterator[None]:
    """A server on the same port, with K = 3, after two seconds and more: four scrapes are missed at least."""
    flags = command(int(url.rpartition(":")[2]), (*DRAFT_K3, *MIDDLEWARE))
    process = Popen(flags, env=environment({"speed": 20, "startup_seconds": 40}), stderr=PIPE, text=True)
    try:
        wait_until_ready(Server(url, process))
        yield
    finally:
        process.kill()
        process.communicate()
