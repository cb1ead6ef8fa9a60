"""`specloop local`: the loop round one engine process that the user would have started anyway.

The process gets the user's own command, and later the same command at another level.  Signals are passed on, and its
exit code is ours.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

from specloop_control.clock import WallClock, every
from specloop_control.local_live import LocalLive, has_plugin, plugin_environment
from specloop_control.ports import Listener
from specloop_control.process import EngineGone, EngineSlow, EngineSpec, Output, ProcessActuator
from specloop_control.tick import Controller
from specloop_engine.command_line import CommandLine, Written, read, write
from specloop_engine.failure import Harm
from specloop_engine.known_failures import known_failures, start_of
from specloop_engine.speculation import StartupProfile, match, running_drafter, startup_profile
from specloop_engine.words import CommandLineError
from specloop_policy.decision import FailedChange, Inputs, PolicyState
from specloop_policy.engine import Engine
from specloop_policy.ladder import MAX_TOKENS, Ladder, Level
from specloop_policy.model import ActuatorType, SpecPolicySpec
from specloop_policy.policy import Policy, resolve
from specloop_policy.rollout import Limits
from specloop_vllm.control import TOKEN_FILE

PORTS = {Engine.VLLM: 8000, Engine.LLAMACPP: 8080}
"""Where the engines listen when nothing is said."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that are passed on."""

LINGER_SECONDS = 8.0
"""Given on top to an engine that was told to end by a signal to us: an answer may be nearly out."""

POLL_SECONDS = 0.25
"""How often a change under way is looked at: a hundredth of the fastest start of a real model."""


class LocalListener(Listener, Protocol):
    """Who is told of decisions, and of an engine that ends without having been asked to."""

    def ended(self, why: str) -> None:
        """The engine is gone, and the loop with it."""

    def reached(self, words: str) -> None:
        """How a level is reached."""


class LocalError(ValueError):
    """A command that the loop cannot be put round; the message says what to change."""


@dataclass(frozen=True, slots=True)
class LocalSetup:
    """One engine's command and the policy that is to govern it, made ready."""

    line: CommandLine
    policy: Policy
    level: Level
    """What the command asks for; a level outside the ladder where it asks for none of them."""
    url: str
    commands: Mapping[str, Written]
    """The command at each level that it can be written at, with the variables that it then takes."""
    profiles: Mapping[str, StartupProfile | None]
    """What the engine is started with at each of these levels."""
    refused: tuple[FailedChange, ...]
    """Levels that are not gone to: they cannot be written into the command, or are known to fail."""
    spec: SpecPolicySpec
    cut_from: int | None = None
    """The K that the command asks for, where that is above what a ladder may have."""


def prepare(
    name: str, spec: SpecPolicySpec, command: list[str], environment: Mapping[str, str], *, recommend: bool
) -> LocalSetup:
    """Read the command and fill the policy in from it.

    Raises LocalError where the command cannot be read or watched, and PolicyError where the policy does not fit.
    """
    own = Written(tuple(command), ())
    try:
        line = read(command, engine=spec.engine, environment=environment)
    except CommandLineError as error:
        raise LocalError(str(error)) from error
    _check_metrics(line)
    running = running_drafter(line.speculation)
    drafter, tokens = running if running is not None else (None, 0)
    policy = resolve(name, spec, drafter, tokens, enforce=not recommend)
    level = match(line.speculation, policy.ladder)
    cut = level is None and spec.levels is None and tokens > MAX_TOKENS
    if cut:
        level = policy.ladder.levels[0]  # the same drafter, its K cut to what a ladder may have
        own = own if recommend else _cut(line, level)
    if level is None:
        level = Level("unmanaged", drafter, tokens)
    commands, profiles, refused = _commands(line, policy.ladder, level, own)
    if spec.rollout.actuator is ActuatorType.LIVE:
        refused = (*refused, *_out_of_reach(policy.ladder, level, profiles[level.name]))
    return LocalSetup(line, policy, level, _url(line), commands, profiles, refused, spec, tokens if cut else None)


def _out_of_reach(ladder: Ladder, level: Level, profile: StartupProfile | None) -> list[FailedChange]:
    """Levels that only a restart leads to, where the policy wants none."""
    words = "it takes a restart, and the policy's actuator is Live"
    away = [one for one in ladder.levels if one != level and (profile is None or not profile.reaches(one))]
    return [FailedChange(one.name, "", words, untried=True) for one in away]


def _cut(line: CommandLine, level: Level) -> Written:
    try:
        return write(line, level)
    except CommandLineError as error:
        raise LocalError(f"K cannot be cut to {level.tokens}, the most that a ladder has: {error}") from error


def _check_metrics(line: CommandLine) -> None:
    if line.engine is Engine.LLAMACPP and line.flag("--metrics") is None:
        raise LocalError("llama-server shows no metrics without --metrics: add it to the command")
    if line.engine is Engine.VLLM and line.flag("--disable-log-stats") is not None:
        raise LocalError("--disable-log-stats takes all of vLLM's metrics away: remove it from the command")


def _url(line: CommandLine) -> str:
    port, host = line.flag("--port"), line.flag("--host")
    asked = host.value if host is not None else None
    name = "127.0.0.1" if asked in (None, "", "0.0.0.0", "::", "localhost") else asked
    shown = f"[{name}]" if name and ":" in name else name
    number = port.value if port is not None and port.value else str(PORTS[line.engine])
    if not (number.isdecimal() and 0 < int(number) < 65536):
        raise LocalError(f"--port {number} is no port")
    return f"http://{shown}:{number}"


def _commands(
    line: CommandLine, ladder: Ladder, level: Level, own: Written
) -> tuple[dict[str, Written], dict[str, StartupProfile | None], tuple[FailedChange, ...]]:
    """The command at each level, what it starts, and the levels that are better not tried, each with the reason."""
    commands, refused = {level.name: own}, []
    profiles = {level.name: startup_profile(line.speculation)}
    for one in ladder.levels:
        if one.name in commands:
            continue
        try:
            written = write(line, one)
            environment = {**(line.environment or {}), **written.variables}
            again = read(written.command, engine=line.engine, environment=environment)
        except CommandLineError as error:
            words = f"it cannot be written into the command: {error}"
            refused.append(FailedChange(one.name, "", words, untried=True))
            continue
        commands[one.name] = written
        profiles[one.name] = startup_profile(again.speculation)
        fatal = next((found for found in known_failures(start_of(again)) if found.harm is Harm.NO_START), None)
        if fatal is not None:
            words = f"the engine would not start: {fatal.message} ({fatal.mend})"
            refused.append(FailedChange(one.name, "", words, untried=True))
    return commands, profiles, tuple(refused)


async def run_local(
    setup: LocalSetup, listener: LocalListener, *, drain_seconds: float, start_seconds: float, output: Output
) -> int:
    """Run the engine and the loop round it; the engine's exit code, 128 + n where signal n ended it.

    `output` is where the engine's own output goes.  Raises LocalError where the engine cannot be started.
    """
    clock = WallClock()
    limits = Limits(drain_seconds, _stop_seconds(setup.line), start_seconds)
    async with contextlib.AsyncExitStack() as stack:
        environment: Mapping[str, str] = {}
        if has_plugin(setup.line):
            environment = stack.enter_context(plugin_environment(os.environ))
        client = await stack.enter_async_context(httpx.AsyncClient())
        engine_spec = EngineSpec(
            "engine",
            setup.url,
            lambda level: setup.commands[level.name].command,
            environment,
            output,
            variables=lambda level: setup.commands[level.name].variables,
        )
        actuator = ProcessActuator(
            [engine_spec],
            setup.policy.ladder,
            setup.level,
            client=client,
            clock=clock,
            limits=limits,
            poll_seconds=POLL_SECONDS,
            live=_live(setup, client, environment),
            told=listener.reached,
        )
        stopping = _pass_signals_on(actuator)
        try:
            await actuator.start()
            await _loop(setup, actuator, listener, stopping)
        except EngineGone as gone:
            listener.ended(str(gone))
            return _exit_code(gone.returncode)
        except EngineSlow as slow:
            raise LocalError(f"{slow}: see what it says, or give it longer with --start") from slow
        except FileNotFoundError as error:
            raise LocalError(f"{error.filename}: there is no such program") from error
        except PermissionError as error:
            raise LocalError(f"{error.filename}: this cannot be run") from error
        finally:
            await actuator.stop()
        return _exit_code(actuator.engines["engine"].returncode or 0)


def _live(setup: LocalSetup, client: httpx.AsyncClient, environment: Mapping[str, str]) -> LocalLive | None:
    """Live control, where the command has the plugin and the policy does not want restarts."""
    if TOKEN_FILE not in environment or setup.spec.rollout.actuator is ActuatorType.RESTART:
        return None
    return LocalLive(client, Path(environment[TOKEN_FILE]), lambda level: setup.profiles.get(level.name))


def _stop_seconds(line: CommandLine) -> float:
    """How long an engine may take to end once it is told to.

    vLLM drains for as long as its --shutdown-timeout says.  llama-server does not drain: with a request in flight it
    closes its port and waits until the client goes away, so there is nothing to wait for (seen on build 11434).
    """
    if line.engine is Engine.LLAMACPP:
        return 2.0
    timeout = line.flag("--shutdown-timeout")
    asked = timeout.value if timeout is not None else None
    return 10.0 + (float(asked) if asked is not None and asked.isdecimal() else 0.0)


def _pass_signals_on(actuator: ProcessActuator) -> asyncio.Event:
    """Send what we are sent on to the engine; the event says that it was asked to end."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def passed(number: signal.Signals) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            stopping.set()
        for engine in actuator.engines.values():
            engine.signal(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, passed, number)
    return stopping


async def _loop(setup: LocalSetup, actuator: ProcessActuator, listener: Listener, stopping: asyncio.Event) -> None:
    """Watch and decide until the engine ends or is asked to."""
    scraper = actuator.scraper(setup.policy.signals)
    state = PolicyState(quarantine=setup.refused)
    controller = Controller(setup.policy, scraper, actuator, _inputs(setup.spec), listener, state)
    engine, interval = actuator.engines["engine"], setup.policy.interval_seconds
    parts = [
        asyncio.create_task(every(interval, scraper.poll, actuator.clock)),
        asyncio.create_task(every(interval, lambda: controller.tick(actuator.clock.now()), actuator.clock)),
        asyncio.create_task(actuator.watch()),
        asyncio.create_task(stopping.wait()),
    ]
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
    if stopping.is_set() and engine.alive:
        # llama-server may hang on its first SIGTERM (once in 40 times), and waits for clients; what follows is firmer.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(engine.wait(), _stop_seconds(setup.line) + LINGER_SECONDS)


def _inputs(spec: SpecPolicySpec) -> Callable[[float], Inputs]:
    if not spec.schedules:
        return lambda now: Inputs()
    from specloop_policy.schedules import scheduled_level  # a quarter of a second, for the few with schedules

    return lambda now: Inputs(scheduled=scheduled_level(spec.schedules, now))


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode
