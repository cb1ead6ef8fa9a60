"""The demo over real HTTP: three simulated vLLM servers as processes, clients, and the loop round them.

The servers' clock runs faster than the wall's, and the loop's with it; durations below are the servers'.
"""

import asyncio
import contextlib
import json
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from specloop_cli import demo_traffic
from specloop_cli.demo_clients import Clients
from specloop_cli.errors import InputError
from specloop_cli.output import Format, console, print_document
from specloop_cli.reports import demo_report, policy_run
from specloop_control.clock import FastClock, every
from specloop_control.process import EngineGone, EngineSlow, EngineSpec, Output, ProcessActuator
from specloop_control.scrape import Scraper
from specloop_control.tick import Controller
from specloop_engine.configuration import ConfigurationError, to_config
from specloop_policy.acceptance import Pool
from specloop_policy.decision import Decision, Inputs
from specloop_policy.engine import Engine
from specloop_policy.ladder import Level
from specloop_policy.observation import Outcome
from specloop_policy.policy import Policy
from specloop_policy.rollout import Limits
from specloop_sim.looks import Looks
from specloop_sim.loop import Decided
from specloop_sim.phases import Phase, phase_at, total_seconds
from specloop_sim.profile import profile_named
from specloop_sim.report.model import Report
from specloop_sim.simulate import stays

SPEED = 20.0
"""Servers' seconds per second of the wall: half an hour of traffic in a minute and a half."""
LIMITS = Limits(drain_seconds=demo_traffic.DRAIN_SECONDS, stop_seconds=60.0, start_seconds=600.0)
POLL_SECONDS = 2.0
"""How often a change under way is looked at, on the servers' clock: ten times a second on the wall's."""


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the demo, servers and all; a second one does not wait for servers to end politely."""


def run(
    policy: Policy, phases: Sequence[Phase], seed: int, output: Format, write: Callable[[Callable[[], Report]], None]
) -> int:
    """Run the demo to its end, or until it is told to end; nothing is left running.

    `write` is given what makes the report, at the end.
    """
    demo = Demo(policy, phases, seed, output)
    try:
        code = asyncio.run(_run_until_told(demo))
    except ConfigurationError as error:
        raise InputError(f"{policy.name}: {error}") from error
    except (EngineGone, EngineSlow) as error:
        level = policy.ladder.levels[0].name
        raise InputError(
            f"{policy.name}: a simulated server at {level}: {error}; specloop demo --fast says more"
        ) from error
    if not code:
        write(demo.report)
    return code


async def _run_until_told(demo: "Demo") -> int:
    """Run the demo; 128 + n where signal n ended it."""
    told: list[int] = []
    task = asyncio.ensure_future(demo.run())

    def tell(number: int) -> None:
        told.append(number)
        task.cancel()

    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, tell, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not told:
            raise
        # Ending: once more says nothing new, neither while the event loop closes nor after.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return 128 + told[0]


@dataclass(slots=True)
class _Seen:
    """What the table shows of the loop: the last decision, and the changes so far."""

    policy: Policy
    started: float
    phases: Sequence[Phase]
    tell: Callable[[str], None]
    last: Decision | None = None
    decisions: list[Decided] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def decided(self, now: float, decision: Decision, before: str | None) -> None:
        """Remember a decision, and print it when it changes something."""
        self.last = decision
        if not decision.changes_level:
            return
        seconds = now - self.started
        self.decisions.append(Decided(seconds, before or "", decision))
        change = {
            "policy": self.policy.name,
            "seconds": round(seconds, 1),
            "phase": phase_at(self.phases, seconds).name,
            "from": before,
            "to": decision.level,
            "action": decision.action,
            "rule": decision.rule,
            "reason": decision.reason,
        }
        self.changes.append(change)
        self.tell(f"{seconds:6.0f} s  {change['phase']:16}  {decision.action:8}  {before} → {decision.level}")
        self.tell(f"{'':10}{decision.reason}")


class Demo:
    """The demo's parts, put together."""

    def __init__(self, policy: Policy, phases: Sequence[Phase], seed: int, output: Format) -> None:
        self._policy = policy
        self._phases = phases
        self._seed = seed
        self._output = output
        self._epoch = time.time()
        self._clock = FastClock(self._epoch, SPEED)
        self._out = console(stderr=output is Format.JSON)
        self._seen = _Seen(policy, self._epoch, phases, self._tell)
        self._looks = Looks(policy)

    def _tell(self, line: str) -> None:
        self._out.print(line)
        self._out.file.flush()  # a file or a pipe would keep it until the end

    def say(self, tell: Callable[[str], None]) -> None:
        """Tell of changes here rather than on the console."""
        self._seen.tell = tell

    async def run(self) -> int:
        """Start the servers, play all phases, and end the servers, whatever happens."""
        began = time.perf_counter()
        async with httpx.AsyncClient() as client:
            actuator = self._actuator(client)
            try:
                await actuator.start()
                self._announce()
                answered = await self._play(actuator)
            finally:
                await actuator.stop()
        if self._output is Format.JSON:
            print_document(self._answer(time.perf_counter() - began, answered))
        return 0

    def report(self) -> Report:
        """The page that tells of it."""
        started = self._seen.started
        looks = [replace(one, at=one.at - started) for one in self._looks.finish()]
        ladder, seconds = self._policy.ladder, total_seconds(self._phases)
        stayed = stays(ladder, ladder.levels[0], self._seen.decisions, seconds)
        return demo_report(
            self._policy,
            policy_run(self._policy, looks, stayed, self._seen.decisions),
            self._phases,
            self._seed,
            ("Engines are simulated.",),
            ("HTTP, metric pages, restarts of processes and decisions are real.",),
            {},
        )

    def _announce(self) -> None:
        names = ", ".join(one.name for one in self._phases)
        seconds = total_seconds(self._phases) / SPEED
        self._tell(f"{demo_traffic.REPLICAS} simulated vLLM servers are up. Traffic: {names}.")
        self._tell(f"{seconds:.0f} s in all; a second here is {SPEED:g} of the servers'. Ctrl-C ends it.")

    def _actuator(self, client: httpx.AsyncClient) -> ProcessActuator:
        environment = {
            "SPECLOOP_SIM_PROFILE": demo_traffic.PROFILE,
            "SPECLOOP_SIM_SPEED": str(SPEED),
            "SPECLOOP_SIM_EPOCH": str(self._epoch),
            "SPECLOOP_SIM_STARTUP_SECONDS": str(demo_traffic.STARTUP_SECONDS),
            "SPECLOOP_SIM_SEED": str(self._seed),
        }
        specs = [
            EngineSpec(f"server-{place}", f"http://127.0.0.1:{port}", _command(port), environment, Output.NOWHERE)
            for place, port in enumerate(_free_ports(demo_traffic.REPLICAS))
        ]
        return ProcessActuator(
            specs,
            self._policy.ladder,
            self._policy.ladder.levels[0],
            client=client,
            clock=self._clock,
            limits=LIMITS,
            poll_seconds=POLL_SECONDS,
        )

    async def _play(self, actuator: ProcessActuator) -> int:
        self._seen.started = self._clock.now()
        scraper = actuator.scraper(self._policy.signals)
        inputs = Inputs(
            step_times=profile_named(demo_traffic.PROFILE).times, restart_seconds=demo_traffic.STARTUP_SECONDS
        )
        controller = Controller(self._policy, scraper, actuator, lambda now: inputs, self._seen)
        clients = Clients(actuator, self._phase, self._seed)
        clock, interval = self._clock, self._policy.interval_seconds

        async def tick() -> None:
            self._looks.see(scraper.windows(), actuator.workload().level)
            await controller.tick(clock.now())

        parts = (
            every(interval, scraper.poll, clock),
            clients.keep_going(),
            every(interval, tick, clock),
            self._show(scraper, actuator, clients),
        )
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(
                tasks, timeout=total_seconds(self._phases) / SPEED, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()  # a part that ends early has failed, and says how
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await clients.stop()
        return clients.answered

    def _phase(self) -> Phase:
        return phase_at(self._phases, self._clock.now() - self._seen.started)

    async def _show(self, scraper: Scraper, actuator: ProcessActuator, clients: Clients) -> None:
        """Keep a table up to date on a terminal; elsewhere the changes alone are printed."""
        if not self._out.is_terminal:
            await asyncio.Event().wait()
        with Live(console=self._out, auto_refresh=False, transient=True) as live:
            self._seen.tell = live.console.print
            while True:
                live.update(self._table(scraper, actuator, clients), refresh=True)
                await asyncio.sleep(0.5)

    def _table(self, scraper: Scraper, actuator: ProcessActuator, clients: Clients) -> Group:
        elapsed = self._clock.now() - self._seen.started
        table = Table(box=None, pad_edge=False)
        for heading in ("server", "state", "level", "K", "acceptance", "hotter than 0.6", "batch"):
            table.add_column(heading)
        windows = scraper.windows()
        for name, engine in actuator.engines.items():
            own = [one for one in windows if one.pod == name and one.outcome is Outcome.MEASURED][-1:]
            seen = Pool(tuple(own), 0.0, self._policy.signals.design_effect) if own else None
            sample = scraper.latest.get(name)
            table.add_row(
                name,
                engine.phase,
                engine.level.name,
                str(engine.level.tokens),
                _interval(seen.acceptance) if seen and engine.level.speculates else "–",
                _interval(seen.hotter_than(0.6)) if seen else "–",
                "–" if sample is None or sample.running is None else f"{sample.running:.0f}",
            )
        head = (
            f"{elapsed:5.0f} s of the servers' time · traffic: {self._phase().name} · {clients.rate(self._clock.now())}"
        )
        why = self._seen.last.reason if self._seen.last is not None else "starting"
        return Group(Text(head), table, Text(why))

    def _answer(self, wall_seconds: float, answered: int) -> dict[str, Any]:
        return {
            "trace": {"requests": answered, "seconds": total_seconds(self._phases)},
            "seed": self._seed,
            "wallSeconds": round(wall_seconds, 3),
            "simulated": "engines; HTTP, metrics pages and decisions are real",
            "decisions": self._seen.changes,
        }


def _interval(value: Any) -> str:
    if value is None:
        return "–"
    return f"{100 * value.value:.0f} % ({100 * value.low:.0f}–{100 * value.high:.0f})"


def _command(port: int) -> Callable[[Level], Sequence[str]]:
    def at(level: Level) -> Sequence[str]:
        config = to_config(level, None, Engine.VLLM)
        flags = [] if config is None else ["--speculative-config", json.dumps(dict(config))]
        return [
            sys.executable,
            "-m",
            "specloop_sim.server",
            "serve",
            profile_named(demo_traffic.PROFILE).model,
            *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "demo"),
            *("--middleware", "specloop_vllm.Middleware", "--shutdown-timeout", "30"),
            *flags,
        ]

    return at


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
