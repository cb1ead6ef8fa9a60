"""Ticks: one policy's one after the other, different policies' side by side.

apscheduler says when a tick is due, on one grid of time, where policies take turns and those of one turn share what a
source fetches; an event about the policy or its target makes one due at once.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from zlib import crc32

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from specloop_operator.cluster import ApiError, Conflict
from specloop_operator.families import TickResult
from specloop_operator.governor import Governor, World
from specloop_operator.metrics import Metrics
from specloop_operator.pulse import Pulse
from specloop_operator.store import Name

LOG = logging.getLogger("specloop.ticks")

PAUSE_SECONDS = 0.05
"""Between two ticks of one policy: events come in bursts, and one look sees all of them."""

RETRY_SECONDS = 1.0
"""Until the tick after one that failed; doubled each time, up to the policy's interval."""

HURRY_SECONDS = 0.25
"""Until the next look at pods that were asked live: vLLM 0.32.0 took 1 to 53 ms to take a wish up."""

LIMIT_SECONDS = 60.0
"""A tick that takes longer than this is given up: every request in it has a limit of ten seconds or less."""

HEARTBEAT = "the tick loop"


class Runner:
    """The governors of all policies, and their ticks."""

    def __init__(self, world: World, metrics: Metrics, pulse: Pulse) -> None:
        self._world = world
        self._metrics = metrics
        self._pulse = pulse
        self._scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None})
        self._loops: dict[Name, _Loop] = {}
        self.started = False
        """Whether this operator acts: another may lead."""

    def start(self) -> None:
        """Begin to tick, and to show that it lives."""
        self.started = True
        self._scheduler.start()
        self._pulse.expect(HEARTBEAT, 60.0)
        self._scheduler.add_job(self._beat, IntervalTrigger(seconds=5, timezone=UTC))

    async def stop(self) -> None:
        """End all ticks; one that is under way is given up, for whoever comes next goes on where it was."""
        if not self.started:
            return
        self.started = False
        self._pulse.release(HEARTBEAT)
        self._scheduler.shutdown(wait=False)
        for loop in self._loops.values():
            loop.task.cancel()
        await asyncio.gather(*(loop.task for loop in self._loops.values()), return_exceptions=True)

    def govern(self, name: Name, interval_seconds: int, source: str, *, at_once: bool = True) -> None:
        """Tick a policy at this interval, and at once unless it can wait for its turn on the grid."""
        loop = self._loops.get(name)
        if loop is None:
            self._metrics.introduce(*name)
            loop = self._loops[name] = _Loop(Governor(name, self._world), self._ticked)
        if (loop.interval_seconds, loop.source) != (interval_seconds, source):
            loop.interval_seconds, loop.source = interval_seconds, source
            begin = datetime.fromtimestamp(self._phase(name, interval_seconds, source), UTC)
            trigger = IntervalTrigger(seconds=interval_seconds, start_date=begin, timezone=UTC)
            self._scheduler.add_job(loop.fall_due, trigger, id="/".join(name), replace_existing=True)
        if at_once:
            loop.due.set()

    def _phase(self, name: Name, interval_seconds: int, source: str) -> float:
        """Where on the grid a policy ticks, in seconds: it has a turn of its own, or one of a few."""
        found = self._world.sources.get(source)
        turns = 1 if found is None else found.turns(interval_seconds)
        return crc32("/".join(name).encode()) % turns * interval_seconds / turns

    def wake(self, name: Name) -> None:
        """Something about a policy or its target has changed: tick now."""
        if name in self._loops:
            self._loops[name].due.set()

    async def forget(self, name: Name) -> None:
        """A policy is gone; its tick under way comes to its end first."""
        loop = self._loops.pop(name, None)
        if loop is None:
            return
        with contextlib.suppress(Exception):
            self._scheduler.remove_job("/".join(name))
        await loop.end()

    def governs(self, name: Name) -> bool:
        """Whether a policy is ticked."""
        return name in self._loops

    def busy(self, name: Name) -> bool:
        """Whether a policy has a roll-out under way."""
        loop = self._loops.get(name)
        return loop is not None and loop.governor.rolling_out

    def _ticked(self, seconds: float, result: TickResult) -> None:
        self._metrics.ticked(seconds, result)
        self._metrics.rollouts_in_progress(self._world.slots.taken)

    async def _beat(self) -> None:
        self._pulse.beat(HEARTBEAT)


class _Loop:
    """One policy's ticks, each begun when it is due and the one before is over."""

    def __init__(self, governor: Governor, ticked: Callable[[float, TickResult], None]) -> None:
        self.governor = governor
        self.interval_seconds: int | None = None
        self.source: str | None = None
        self.due = asyncio.Event()
        self._ticked = ticked
        self._ending = False
        self._retry = RETRY_SECONDS
        self.task = asyncio.create_task(self._run(), name="/".join(governor.name))

    async def fall_due(self) -> None:
        """Make a tick due; a coroutine, because the scheduler calls plain functions in a thread."""
        self.due.set()

    async def end(self) -> None:
        """Let the tick under way come to its end, and begin no other."""
        self._ending = True
        self.due.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def _run(self) -> None:
        while True:
            await self.due.wait()
            self.due.clear()
            if self._ending:
                return
            began = time.perf_counter()
            result = await self._tick()
            self._ticked(time.perf_counter() - began, result)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _tick(self) -> TickResult:
        namespace, policy = self.governor.name
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self.governor.tick()
        except Conflict as error:
            LOG.debug("%s/%s: %s", namespace, policy, error, extra={"namespace": namespace, "policy": policy})
            self._again()
            return TickResult.CONFLICT
        except (ApiError, TimeoutError) as error:
            words = str(error) or f"the tick took more than {LIMIT_SECONDS:.0f} s"
            LOG.warning("%s/%s: %s", namespace, policy, words, extra={"namespace": namespace, "policy": policy})
            self._again()
            return TickResult.FAILED
        except Exception:  # a mistake of ours must not end this policy's ticks, nor any other's
            about = {"namespace": namespace, "policy": policy}
            LOG.exception("%s/%s: the tick failed", namespace, policy, extra=about)
            return TickResult.FAILED
        self._retry = RETRY_SECONDS
        if self.governor.hurries:
            asyncio.get_running_loop().call_later(HURRY_SECONDS, self.due.set)
        return TickResult.DONE

    def _again(self) -> None:
        """Tick again soon, and less soon each time; the next interval comes anyway."""
        delay = self._retry * random.uniform(0.5, 1.0)
        self._retry = min(2.0 * self._retry, float(self.interval_seconds or RETRY_SECONDS))
        asyncio.get_running_loop().call_later(delay, self.due.set)
