"""The process actuator: engines that we start ourselves, restarted one by one with new flags.

Each change follows the plan of `specloop_policy.rollout`: drain, stop, start, wait for healthy, keep or go back.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import httpx

from specloop_control.ports import Clock
from specloop_control.scrape import Scraper, fetch_sample
from specloop_engine.history import History
from specloop_policy.decision import FailedChange
from specloop_policy.ladder import Ladder, Level
from specloop_policy.model import Signals
from specloop_policy.observation import Workload
from specloop_policy.rollout import Event, Limits, Phase, ProcessView, Step, advance, find_event, next_pod

HEALTH_SECONDS = 2.0
"""An engine that takes longer to say that it is healthy is not."""


class EngineGone(Exception):
    """An engine ended by itself, or would not start even as it last ran; `returncode` is its exit code."""

    def __init__(self, name: str, returncode: int | None) -> None:
        self.returncode = 1 if returncode is None else returncode
        super().__init__(f"{name} {_ended(returncode)}")


class EngineSlow(Exception):
    """An engine did not become healthy in time when it was first started."""


def _ended(returncode: int | None) -> str:
    """How a process ended, in words."""
    if returncode is None:
        return "does not become healthy even as it last ran"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


class Output(StrEnum):
    """Where an engine's own output goes."""

    SAME = "same"
    """Where ours goes."""
    STDERR = "stderr"
    """All of it to stderr: stdout is for our answer."""
    NOWHERE = "nowhere"


def _streams(output: Output) -> tuple[int | None, int | None]:
    """What a process is given for stdout and stderr."""
    match output:
        case Output.SAME:
            return None, None
        case Output.STDERR:
            return sys.stderr.fileno(), None
        case Output.NOWHERE:
            return DEVNULL, DEVNULL


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How to run one engine: its name, where it answers, and its command at each level."""

    name: str
    url: str
    command: Callable[[Level], Sequence[str]]
    environment: Mapping[str, str] | None = None
    output: Output = Output.SAME
    variables: Callable[[Level], Mapping[str, str]] = lambda level: {}
    """Variables that differ by level, for commands that name their setting there."""


class Live(Protocol):
    """The way to another level without a restart."""

    async def reach(self, url: str, started: Level, level: Level) -> str | None:
        """Bring an engine that was started at one level to another; None once it has taken that, else why not."""


class Engine:
    """One engine process, the level that it was started with, and the one that it is at."""

    def __init__(self, spec: EngineSpec, level: Level, clock: Clock) -> None:
        self.spec = spec
        self.level = level
        self.started_at = level
        self.last_good = level
        self.phase = Phase.STARTING
        self.phase_since = clock.now()
        self._clock = clock
        self._process: Process | None = None

    @property
    def returncode(self) -> int | None:
        """Exit code; None while it runs or before it was started."""
        return None if self._process is None else self._process.returncode

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    def enter(self, phase: Phase) -> None:
        """Move on to a phase."""
        self.phase, self.phase_since = phase, self._clock.now()

    async def start(self, level: Level) -> None:
        """Start the process at a level, in a session of its own so that signals reach it through us alone."""
        self.kill()  # children that the process before left behind would hold its port and memory
        out, err = _streams(self.spec.output)
        environment = {**os.environ, **(self.spec.environment or {}), **self.spec.variables(level)}
        self.level = self.started_at = level
        self._process = await asyncio.create_subprocess_exec(
            *self.spec.command(level), stdout=out, stderr=err, env=environment, start_new_session=True
        )

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it still runs."""
        if self._process is not None and self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """End the process and all its children at once, or the children alone where it has ended without them."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of the process; its exit code."""
        assert self._process is not None
        return await self._process.wait()


class ProcessActuator:
    """Levels for engine processes on this machine, changed one after the other."""

    def __init__(
        self,
        specs: Sequence[EngineSpec],
        ladder: Ladder,
        level: Level,
        *,
        client: httpx.AsyncClient,
        clock: Clock,
        limits: Limits,
        poll_seconds: float,
        live: Live | None = None,
        told: Callable[[str], None] = lambda words: None,
    ) -> None:
        """`told` hears how a level is reached where there is a choice."""
        self.engines = {spec.name: Engine(spec, level, clock) for spec in specs}
        self._ladder = ladder
        self._level = level
        self._client = client
        self.clock = clock
        self._limits = limits
        self._poll_seconds = poll_seconds
        self._live = live
        self._told = told

    def pods(self) -> tuple[str, ...]:
        """Names of the engines."""
        return tuple(self.engines)

    def workload(self) -> Workload:
        """The level of the last engine: the first may be on probe."""
        level = list(self.engines.values())[-1].level
        managed = level in self._ladder.levels
        setting = f"{level.drafter.method} with K = {level.tokens}" if level.drafter else "a setting that is not known"
        return Workload(level.name if managed else None, len(self.engines), setting)

    def level_of(self, pod: str) -> Level | None:
        """The level that a pod serves at; None while it changes."""
        engine = self.engines[pod]
        return engine.level if engine.phase in (Phase.SERVING, Phase.DRAINING) else None

    def scraper(self, signals: Signals) -> Scraper:
        """Telemetry from these engines, kept for twice the longest evidence."""
        return Scraper(
            self._client,
            {name: engine.spec.url for name, engine in self.engines.items()},
            self.level_of,
            History.of(signals),
            self.clock.now,
        )

    async def start(self) -> None:
        """Start all engines as they were given to us.

        Raises EngineGone when one ends, and EngineSlow when one does not become healthy in time.
        """
        await asyncio.gather(*(engine.start(engine.level) for engine in self.engines.values()))
        await asyncio.gather(*(self._first_start(engine) for engine in self.engines.values()))

    async def _first_start(self, engine: Engine) -> None:
        engine.enter(Phase.STARTING)
        while True:
            match find_event(await self._view(engine, change_wanted=False), self._limits):
                case Event.GONE:
                    raise EngineGone(engine.spec.name, engine.returncode)
                case Event.OVERDUE:
                    limit = f"{self._limits.start_seconds:g} s"
                    raise EngineSlow(f"{engine.spec.name} did not become healthy within {limit} of its start")
                case Event.HEALTHY:
                    engine.enter(Phase.SERVING)
                    return
                case _:
                    await self.clock.sleep(self._poll_seconds)

    async def watch(self) -> None:
        """Look out for an engine that ends by itself; raises EngineGone."""
        while True:
            for engine in self.engines.values():
                if engine.phase is Phase.SERVING and not engine.alive:
                    raise EngineGone(engine.spec.name, engine.returncode)
            await self.clock.sleep(self._poll_seconds)

    async def apply(self, wanted: Mapping[str, str]) -> FailedChange | None:
        """Bring every engine to its level; a failure takes back what was changed.  Raises EngineGone when lost."""
        before = {name: engine.level.name for name, engine in self.engines.items()}
        failed = await self._bring(wanted)
        if failed is not None:
            await self._bring(before)
        return failed

    async def _bring(self, wanted: Mapping[str, str]) -> FailedChange | None:
        while True:
            running = {name: engine.level.name for name, engine in self.engines.items()}
            name = next_pod(running, wanted)
            if name is None:
                return None
            level = self._ladder.find(wanted[name])
            assert level is not None  # decisions never leave the ladder
            failed = await self._change(self.engines[name], level)
            if failed is not None:
                return failed

    async def _change(self, engine: Engine, level: Level) -> FailedChange | None:
        """Walk one engine through the plan; None when it serves at the new level."""
        if await self._changed_live(engine, level):
            return None
        why: str | None = None
        while True:
            view = await self._view(engine, change_wanted=engine.level != level and why is None)
            event = find_event(view, self._limits)
            if event is None:
                await self.clock.sleep(self._poll_seconds)
                continue
            if engine.phase is Phase.STARTING and event is not Event.HEALTHY:
                limit = f"did not become healthy within {self._limits.start_seconds:g} s"
                why = _ended(engine.returncode) if event is Event.GONE else limit
            phase, step = advance(engine.phase, event)
            engine.enter(phase)
            await self._do(engine, step, level)
            if step is Step.KEEP:
                break
        if why is not None:
            return FailedChange(level.name, "", f"{engine.spec.name} {why}")
        engine.last_good = level
        if self._live is not None:  # what it was asked for before it was started anew may still lie there
            await self._live.reach(engine.spec.url, level, level)
        return None

    async def _changed_live(self, engine: Engine, level: Level) -> bool:
        """Whether an engine has taken a level without a restart."""
        if self._live is None:
            return False
        why_not = await self._live.reach(engine.spec.url, engine.started_at, level)
        if why_not is None:
            engine.level = level
            self._told(f"{level.name} is reached live: no restart")
            return True
        if why_not:
            self._told(f"{level.name} takes a restart, for live control is not possible: {why_not}")
        return False

    async def _do(self, engine: Engine, step: Step, level: Level) -> None:
        match step:
            case Step.STOP | Step.GO_BACK:
                engine.signal(signal.SIGTERM)
            case Step.KILL:
                engine.kill()
            case Step.START:
                await engine.start(level)
            case Step.START_LAST_GOOD:
                await engine.start(engine.last_good)
            case Step.GIVE_UP:
                raise EngineGone(engine.spec.name, engine.returncode)
            case Step.DRAIN | Step.KEEP:
                pass

    async def _view(self, engine: Engine, *, change_wanted: bool) -> ProcessView:
        return ProcessView(
            engine.phase,
            self.clock.now() - engine.phase_since,
            engine.alive,
            healthy=engine.phase in (Phase.STARTING, Phase.RETURNING) and await self._healthy(engine),
            busy=engine.phase is Phase.DRAINING and await self._busy(engine),
            change_wanted=change_wanted,
        )

    async def _healthy(self, engine: Engine) -> bool:
        try:
            answer = await self._client.get(f"{engine.spec.url}/health", timeout=HEALTH_SECONDS)
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK and engine.alive

    async def _busy(self, engine: Engine) -> bool:
        sample = await fetch_sample(self._client, engine.spec.url, self.clock.now)
        return sample is None or bool((sample.running or 0.0) + (sample.waiting or 0.0))

    async def stop(self) -> None:
        """End all engines: politely first, then for sure, also when this is cancelled."""
        engines = [engine for engine in self.engines.values() if engine.alive]
        for engine in engines:
            engine.signal(signal.SIGTERM)
        ended = asyncio.gather(*(engine.wait() for engine in engines))
        overdue = asyncio.ensure_future(self.clock.sleep(self._limits.stop_seconds))
        try:
            await asyncio.wait((ended, overdue), return_when=asyncio.FIRST_COMPLETED)
        finally:
            overdue.cancel()
            for engine in self.engines.values():
                engine.kill()
            await ended
