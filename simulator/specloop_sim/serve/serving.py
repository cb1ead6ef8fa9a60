"""The life of a simulated server: start-up, serving, drain."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import uvicorn

from specloop_sim.serve.application import SimulatedServer
from specloop_sim.serve.model_clock import ModelClock
from specloop_sim.serve.settings import VERSION, BadEnvironment, Settings, StartFailure, read_settings


def run(arguments: Sequence[str], environment: Mapping[str, str], began: float) -> int:
    """Serve as these say, in a process that began at `began` on the wall; the exit code."""
    try:
        asyncio.run(_serve(read_settings(arguments, environment, began), began))
    except StartFailure as failure:
        _say(f"ERROR [simulated] EngineCore failed to start.\n{failure}")
        return 1
    except BadEnvironment as error:
        _say(str(error))
        return 2
    return 0


async def _serve(settings: Settings, began: float) -> None:
    clock = ModelClock(settings.epoch, settings.speed)
    await _start_up(settings, clock, began)
    simulated = SimulatedServer(settings, clock, clock.at(began))
    server = _Server(_uvicorn_config(simulated))
    told_to_end = asyncio.Event()

    def end() -> None:
        if told_to_end.is_set():  # told twice
            server.force_exit = server.should_exit = True
        told_to_end.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    with _listen(settings) as listening:
        _say(
            f"INFO [simulated] vLLM {VERSION}, profile {settings.profile.name}, {settings.level.name}, "
            f"{settings.speed:g} times real time, on http://{settings.host}:{settings.port}"
        )
        async with asyncio.TaskGroup() as tasks:  # if the engine model fails, so does the server
            pacing = tasks.create_task(simulated.paced.run())
            ending = tasks.create_task(_end_when_told(told_to_end, simulated, server, settings.shutdown_seconds))
            await server.serve([listening])
            pacing.cancel()
            ending.cancel()


async def _start_up(settings: Settings, clock: ModelClock, began: float) -> None:
    """Wait for the end of the simulated start-up, which may never come."""
    await asyncio.sleep(clock.wall_seconds(settings.startup_seconds) - (time.time() - began))
    faults = settings.faults
    if faults.crash_after_seconds is not None:
        seconds = clock.wall_seconds(faults.crash_after_seconds)
        asyncio.get_running_loop().call_later(seconds, _crash, faults.crash_message)
    if faults.never_ready:
        await asyncio.Event().wait()


def _crash(last_words: str) -> None:
    """End at once, as when the engine dies: nobody is told, and nothing is closed."""
    _say(last_words)
    os._exit(1)


def _listen(settings: Settings) -> socket.socket:
    """Open the port; raises StartFailure."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise StartFailure(f"OSError: {settings.host}:{settings.port}: {error.strerror}") from error


async def _end_when_told(
    told: asyncio.Event, simulated: SimulatedServer, server: uvicorn.Server, model_seconds: float
) -> None:
    await told.wait()
    simulated.engine.drain()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(simulated.paced.idle.wait(), simulated.paced.clock.wall_seconds(model_seconds))
    server.force_exit = not simulated.engine.idle
    server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals, which would not drain."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _uvicorn_config(simulated: SimulatedServer) -> uvicorn.Config:
    return uvicorn.Config(
        simulated.application,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_level="critical",
        server_header=False,
    )


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
