"""Operators that are treated badly, and what is written down of them: lives, memory, and who holds the Lease."""

import asyncio
import json
import math
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self

import httpx
from aiohttp import web

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import LEASE, Operator
from tests.support.cluster.proxy import Fault, Proxy
from tests.support.soak_checks import Held, Life, Write

AGAIN_SECONDS = 1.0
"""Until one that ended is started again.  Kubelets wait for 10 s and longer; less gives more lives."""
LOOK_SECONDS = 0.1
SAMPLE_SECONDS = 2.0
WATCH_SECONDS = 5
FOR_EVER = 10**9
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WORKLOADS = ("deployments", "statefulsets", "pods")


class Replica(Operator):
    """An operator that is started again whenever it has ended, as a kubelet would; its lives are written down."""

    def __init__(self, cluster: Cluster, settings: Object, name: str, proxy: "RoughProxy") -> None:
        super().__init__(cluster, settings, url=proxy.url, replica=name)
        self.name = name
        self.proxy = proxy
        self.stuck: list[str] = []
        """When it did not end though it was asked to."""
        self._lives: list[Life] = []
        self._memory: list[tuple[float, float]] = []
        self._start_at = 0.0
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep)

    def __enter__(self) -> Self:
        """Begin to start it."""
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it for good."""
        self._over.set()
        while self._keeper.is_alive():  # it may be just about to be started
            self.be_down(0.0, self.stop)
            self._keeper.join(LOOK_SECONDS)

    @property
    def pid(self) -> int | None:
        """Its process; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def be_down(self, seconds: float, end: Callable[[], None]) -> None:
        """End it in some way, and start it again after so many seconds."""
        self._start_at = time.monotonic() + max(seconds, AGAIN_SECONDS)
        if self.pid is None:
            return
        try:
            end()
        except subprocess.TimeoutExpired as error:
            self.stuck.append(f"{self.name} did not end within {error.timeout:.0f} s")
            self.kill()

    def sample(self) -> None:
        """Write down how much memory it holds now, unless that was done right before."""
        now, pid = time.time(), self.pid
        if pid is None or (self._memory and now < self._memory[-1][0] + SAMPLE_SECONDS):
            return
        with suppress(OSError):  # it has ended meanwhile
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            self._memory.append((now, float(pages * resource.getpagesize())))

    def lives(self) -> list[Life]:
        """Its processes so far."""
        samples = list(self._memory)
        return [
            replace(one, memory=tuple(sample for sample in samples if one.began <= sample[0] <= one.ended))
            for one in self._lives
        ]

    def identities(self) -> set[str]:
        """As what it has held the Lease, over all its lives."""
        return {line["identity"] for line in self.lines() if "identity" in line}

    def writes(self) -> list[Write]:
        """What it wrote to workloads and pods, by the API server's audit log."""
        done = [
            one
            for one in self._cluster.control_plane.audit(self.kubeconfig)
            if one["objectRef"]["resource"] in WORKLOADS and httpx.codes.is_success(one["responseStatus"]["code"])
        ]
        return [
            Write(
                _time(one["requestReceivedTimestamp"]),
                self.name,
                f"{one['verb']} of {one['objectRef']['resource']} {one['objectRef']['name']}",
            )
            for one in done
        ]

    def _keep(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if time.monotonic() >= self._start_at:
                self._live()
                self._start_at = max(self._start_at, time.monotonic() + AGAIN_SECONDS)

    def _live(self) -> None:
        began = time.time()
        self._lives.append(Life(self.name, began, math.inf))
        with suppress(AssertionError):  # it could not list, say, or was killed: it is started again
            self.start()
        assert self._process is not None
        code = self._process.wait()
        self._lives[-1] = Life(self.name, began, time.time(), code)


class RoughProxy(Proxy):
    """A proxy that also cuts connections, and takes its time."""

    delay_seconds = 0.0
    """Before a request is passed on."""
    cutting = False
    """Whether each new request's connection is cut."""

    async def __aenter__(self) -> Self:
        """Listen."""
        self._open: set[asyncio.Transport] = set()
        self._loop = asyncio.get_running_loop()
        return await super().__aenter__()

    def refuse(self, status: int) -> list[Fault]:
        """Answer everything with this status; what is to be undone."""
        return [self.fail(status, times=FOR_EVER, method=method, path="/") for method in METHODS]

    def cut(self) -> None:
        """Cut all connections that are open, watches too."""
        for transport in list(self._open):
            self._loop.call_soon_threadsafe(transport.abort)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        if self.cutting:
            transport.abort()
            await asyncio.Event().wait()  # until this is cancelled, for its client is gone
        self._open.add(transport)
        try:
            await asyncio.sleep(self.delay_seconds)
            return await super()._pass_on(request)
        finally:
            self._open.discard(transport)


@dataclass
class LeaseBook:
    """The Lease of a namespace's operators after each write, and who is behind it."""

    history: list[Held] = field(default_factory=list)

    def write_down(self, lease: Object) -> None:
        """As a write has left it."""
        spec = lease["spec"]
        holder, renewed, lasts = spec.get("holderIdentity") or "", spec["renewTime"], spec["leaseDurationSeconds"]
        self.history.append(Held(holder, _time(renewed), float(lasts), time.time()))


@contextmanager
def lease_book(cluster: Cluster) -> Iterator[LeaseBook]:
    """A book of all that is written for the length of the block."""
    book, over = LeaseBook(), threading.Event()

    def follow() -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"
        with cluster.control_plane.client() as http:
            version = http.get(path).raise_for_status().json()["metadata"]["resourceVersion"]
            while not over.is_set():
                asked = {"watch": "true", "timeoutSeconds": str(WATCH_SECONDS), "resourceVersion": version}
                with http.stream("GET", path, params=asked) as answer:
                    for event in map(json.loads, answer.iter_lines()):
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["object"]["metadata"]["name"] == LEASE:
                            book.write_down(event["object"])

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        try:
            yield book
        finally:
            over.set()
            following.result()


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
