"""Which of several operators acts: the Kubernetes client's own leader election on a Lease, made safe.

    LEASE_SECONDS   others wait for so long after the last renewal that they saw
    RENEW_SECONDS   the leader takes itself for one for so long after it began its last renewal: always shorter
    RETRY_SECONDS   between two looks at the Lease

A leader that is killed is followed within 9 + 2 × 1.5 = 12 s, one that ends by itself within a look.  What the
client's own lacks: limits on its requests, an end at once when the Lease is another's, and the release of the Lease.  A
clock that is set forward may make two operators think that they lead, until the first looks at the Lease: what both
write carries the resourceVersion that was read.

Deposed    another operator leads, or may; the process ends, for what it remembers is old
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, V1Lease, V1ObjectMeta
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

LOG = logging.getLogger("specloop.leadership")

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 9, 6.0, 1.5
"""Those of Kubernetes' own components (15, 10, 2), shorter by two fifths, so that a take-over is within 15 s.

A Lease counts whole seconds.
"""

REQUEST_SECONDS = 2.0
"""Two requests to a renewal leave time for a second try before RENEW_SECONDS are over."""

FAILURES = (ApiException, aiohttp.ClientError, TimeoutError)
"""What requests fail with."""


def seconds_awake_or_not() -> float:
    """Seconds that also pass while the machine sleeps, so that a lease does."""
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(boot)


class Deposed(Exception):
    """Another operator leads, or may; being started anew as one that waits helps."""


class Leadership:
    """Whether this process may act; `clock` counts seconds and is never set."""

    def __init__(self, clock: Callable[[], float] = seconds_awake_or_not) -> None:
        self._clock = clock
        self._until: float | None = None
        self._lost = False

    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def renewed(self, began: float) -> None:
        """A renewal that began at this time succeeded."""
        self._until = began + RENEW_SECONDS

    def lose(self) -> None:
        """Another leads, or soon may: for ever, because what this process remembers is old by then."""
        self._lost = True

    def holds(self) -> bool:
        """Whether no other operator can lead now."""
        return not self._lost and self._until is not None and self._clock() < self._until


class Alone(Leadership):
    """The only operator there is."""

    def holds(self) -> bool:
        """Always."""
        return True


class Election:
    """Takes part until the Lease is won, renews it until it is lost or `stop`ped."""

    def __init__(self, lease: "Lease", leadership: Leadership) -> None:
        """`leadership` is the lease's."""
        self.won = asyncio.Event()
        self._lock = lease
        self._leadership = leadership
        self._election = LeaderElection(
            Config(self._lock, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, self._lead, None)  # type: ignore[arg-type]
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Take part; the task ends when the Lease is lost, and only then."""
        self._task = asyncio.create_task(self._run(), name="leader election")
        return self._task

    async def stop(self) -> None:
        """Take part no more; the Lease, where it is ours, is given away."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
        held = self._leadership.holds()
        self._leadership.lose()  # first, for the next one may lead as soon as it is given away
        if held:
            await self._lock.release()

    async def _run(self) -> None:
        try:
            await self._election.run()
            raise Deposed(f"the lease {self._lock.name} was not renewed within {RENEW_SECONDS:g} s")
        except Exception:  # not where `stop` ends it, which gives the Lease away
            self._leadership.lose()
            raise

    async def _lead(self) -> None:
        LOG.info("this operator leads", extra={"identity": self._lock.identity})
        self.won.set()


class Lease(LeaseLock):
    """The client's own lock, with limits on its requests, and no word of a stack trace where one fails."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        leadership: Leadership,
        looked: Callable[[], None],
    ) -> None:
        """`looked` is called at every look at it: who wants to know whether the election lives asks that."""
        super().__init__(name, namespace, identity, client)
        self._leadership = leadership
        self._looked = looked
        self._led = False
        self._about = {"k8s_ref": {"kind": "Lease", "namespace": namespace, "name": name}}

    async def get(self, name: str, namespace: str) -> Any:
        """The record; raises Deposed where the Lease was ours and is another's now, or may be soon."""
        self._looked()
        try:
            lease = await self.api_instance.read_namespaced_lease(name, namespace, _request_timeout=REQUEST_SECONDS)
        except FAILURES as error:
            if getattr(error, "status", None) != HTTPStatus.NOT_FOUND:
                LOG.warning("the lease cannot be read: %s", _words(error), extra=self._about)
            self._check()
            return False, error if isinstance(error, ApiException) else ApiException(status=0, reason=_words(error))
        self.lease_reference = lease
        record = self.election_record(lease)
        if self._led and record.holder_identity != self.identity:
            raise Deposed(f"the lease {name} is held by {record.holder_identity or 'nobody'} now")
        self._check()
        return True, record

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """Make it; another may be faster."""
        body = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(election_record))
        return await self._written(
            lambda: self.api_instance.create_namespaced_lease(namespace, body, _request_timeout=REQUEST_SECONDS)
        )

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Replace it as it was read, or leave it."""
        lease = self.lease_reference
        assert lease is not None  # it was read right before
        lease.spec = self.update_lease(updated_record, lease.spec)
        return await self._written(
            lambda: self.api_instance.replace_namespaced_lease(name, namespace, lease, _request_timeout=REQUEST_SECONDS)
        )

    async def release(self) -> None:
        """Say that it is nobody's, so that the next takes it at its next look; else it runs out by itself."""
        try:
            lease = await self.api_instance.read_namespaced_lease(
                self.name, self.namespace, _request_timeout=REQUEST_SECONDS
            )
            if lease.spec is not None and lease.spec.holder_identity == self.identity:
                lease.spec.holder_identity = ""
                await self.api_instance.replace_namespaced_lease(
                    self.name, self.namespace, lease, _request_timeout=REQUEST_SECONDS
                )
        except FAILURES as error:
            LOG.warning("the lease was not given away, and runs out by itself: %s", _words(error), extra=self._about)

    async def _written(self, write: Callable[[], Any]) -> bool:
        began = self._leadership.now()
        try:
            await write()
        except FAILURES as error:
            LOG.warning("the lease cannot be written: %s", _words(error), extra=self._about)
            self._check()
            return False
        self._led = True
        self._leadership.renewed(began)
        return True

    def _check(self) -> None:
        """End what leads no more before another can: what this process remembers is old by then."""
        if self._led and not self._leadership.holds():
            raise Deposed(f"the lease {self.name} was not renewed within {RENEW_SECONDS:g} s")


def _words(error: BaseException) -> str:
    return str(error.reason or "" if isinstance(error, ApiException) else error) or type(error).__name__
