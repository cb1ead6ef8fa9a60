"""Real processes through the roll-out plan: toy engines that start slowly, die, fall ill or do not listen."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from specloop_control.clock import WallClock
from specloop_control.process import EngineGone, EngineSlow, EngineSpec, Output, ProcessActuator
from specloop_policy.decision import FailedChange
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.rollout import Limits, Phase
from tests.support.toys import events, free_port, read_journal, running, toy_command

pytestmark = pytest.mark.timeout(60)

SMALL = Drafter("small", Method.DRAFT_MODEL, "draft")
K5, K3 = Level("k5", SMALL, 5), Level("k3", SMALL, 3)
LADDER = Ladder((K5, K3, DISABLED))
SOON = Limits(drain_seconds=0.5, stop_seconds=0.5, start_seconds=20.0)
"""A drain and a stop that are over soon, and time to start for a machine with other things to do."""
POLL_SECONDS = 0.02


class Toys:
    """Toy engines under an actuator, each with its journal, and the phases that their changes went through."""

    def __init__(
        self, folder: Path, client: httpx.AsyncClient, behaviours: Mapping[str, list[str]], limits: Limits
    ) -> None:
        self.ports = {name: free_port() for name in behaviours}
        self.journals = {name: folder / f"{name}.journal" for name in behaviours}
        self.behaviours = behaviours
        specs = [
            EngineSpec(name, f"http://127.0.0.1:{port}", self._command(name, port), output=Output.NOWHERE)
            for name, port in self.ports.items()
        ]
        self.actuator = ProcessActuator(
            specs, LADDER, K5, client=client, clock=WallClock(), limits=limits, poll_seconds=POLL_SECONDS
        )

    def _command(self, name: str, port: int) -> Callable[[Level], list[str]]:
        return lambda level: toy_command(port, level.tokens, *self.behaviours[name], journal=self.journals[name])

    def events(self, name: str = "a") -> list[tuple[int, str]]:
        """What an engine's processes wrote down."""
        return events(self.journals[name])

    def levels(self) -> dict[str, str]:
        """The level of each engine."""
        return {name: engine.level.name for name, engine in self.actuator.engines.items()}

    async def reaches(self, phase: Phase) -> None:
        """Wait until the first engine is in a phase."""
        while self.actuator.engines["a"].phase is not phase:  # noqa: ASYNC110 - nothing tells of phases
            await asyncio.sleep(0.005)

    def left(self) -> list[int]:
        """Processes that still run."""
        return [number for port in self.ports.values() for number in running("--port", str(port))]

    async def served_tokens(self, name: str = "a") -> int:
        """The K that an engine shows on its page."""
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{self.ports[name]}/metrics")).text
        return text.count("position=")


@asynccontextmanager
async def toys(
    folder: Path, *behaviours: str, names: str = "a", limits: Limits = SOON, started: bool = True
) -> AsyncIterator[Toys]:
    """Toy engines that all show the same behaviours, started at k5; nothing is left of them afterwards."""
    async with httpx.AsyncClient() as client:
        found = Toys(folder, client, {name: list(behaviours) for name in names}, limits)
        try:
            if started:
                await found.actuator.start()
            yield found
        finally:
            await found.actuator.stop()
        assert found.left() == []


async def test_a_change_stops_the_process_and_starts_it_at_the_new_level(tmp_path: Path) -> None:
    async with toys(tmp_path) as one:
        assert await one.actuator.apply({"a": "k3"}) is None
        assert one.events() == [(5, "start"), (5, "sigterm"), (5, "end"), (3, "start")]
        assert one.levels() == {"a": "k3"}
        assert await one.served_tokens() == 3
        engine = one.actuator.engines["a"]
        assert (engine.phase, engine.last_good) == (Phase.SERVING, K3)
        assert one.actuator.workload().level == "k3"


async def test_a_level_that_runs_already_is_left_alone(tmp_path: Path) -> None:
    async with toys(tmp_path) as one:
        assert await one.actuator.apply({"a": "k5"}) is None
        assert one.events() == [(5, "start")]


async def test_disabled_is_a_start_without_a_drafter(tmp_path: Path) -> None:
    async with toys(tmp_path) as one:
        assert await one.actuator.apply({"a": "disabled"}) is None
        assert one.events()[-1] == (0, "start")
        assert await one.served_tokens() == 0


async def test_an_engine_that_is_idle_is_stopped_at_once(tmp_path: Path) -> None:
    async with toys(tmp_path, limits=Limits(3600.0, 0.5, 20.0)) as one:
        assert await one.actuator.apply({"a": "k3"}) is None


async def test_a_busy_engine_is_stopped_when_its_time_is_over_and_serves_until_then(tmp_path: Path) -> None:
    async with toys(tmp_path, "busy", limits=Limits(1.0, 0.5, 20.0)) as one:
        change = asyncio.create_task(one.actuator.apply({"a": "k3"}))
        await one.reaches(Phase.DRAINING)
        assert one.actuator.level_of("a") == K5
        assert await one.served_tokens() == 5
        assert await change is None
        assert one.levels() == {"a": "k3"}


async def test_an_engine_that_takes_its_time_to_end_is_given_it(tmp_path: Path) -> None:
    async with toys(tmp_path, "5:stop=0.3", limits=Limits(0.0, 5.0, 20.0)) as one:
        assert await one.actuator.apply({"a": "k3"}) is None
        assert one.events() == [(5, "start"), (5, "sigterm"), (5, "end"), (3, "start")]


async def test_an_engine_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    async with toys(tmp_path, "5:deaf") as one:
        assert await one.actuator.apply({"a": "k3"}) is None
        assert one.events() == [(5, "start"), (5, "sigterm"), (3, "start")]


async def test_the_new_process_is_waited_for_until_it_is_healthy(tmp_path: Path) -> None:
    async with toys(tmp_path, "3:start=0.5") as one:
        change = asyncio.create_task(one.actuator.apply({"a": "k3"}))
        seen = set()
        while not change.done():
            seen.add(one.actuator.engines["a"].phase)
            if one.actuator.engines["a"].phase is Phase.STARTING:
                assert one.actuator.level_of("a") is None
            await asyncio.sleep(0.01)
        assert await change is None
        assert Phase.STARTING in seen


async def test_a_process_that_dies_at_start_leads_back_to_the_last_good_level(tmp_path: Path) -> None:
    async with toys(tmp_path, "3:exit=7") as one:
        failed = await one.actuator.apply({"a": "k3"})
        assert failed == FailedChange("k3", "", "a ended with exit code 7")
        assert one.events() == [(5, "start"), (5, "sigterm"), (5, "end"), (3, "start"), (5, "start")]
        assert one.levels() == {"a": "k5"}
        assert await one.served_tokens() == 5


async def test_a_process_that_never_becomes_healthy_is_taken_back_and_killed_where_it_does_not_listen(
    tmp_path: Path,
) -> None:
    async with toys(tmp_path, "3:sick", "3:deaf", limits=Limits(0.0, 0.5, 4.0)) as one:
        failed = await one.actuator.apply({"a": "k3"})
        assert failed == FailedChange("k3", "", "a did not become healthy within 4 s")
        assert one.events()[3:] == [(3, "start"), (3, "sigterm"), (5, "start")]
        assert one.levels() == {"a": "k5"}


async def test_after_going_back_another_level_can_be_reached(tmp_path: Path) -> None:
    async with toys(tmp_path, "3:exit=1") as one:
        assert await one.actuator.apply({"a": "k3"}) is not None
        assert await one.actuator.apply({"a": "disabled"}) is None
        assert one.levels() == {"a": "disabled"}


async def test_not_even_the_last_good_level_running_is_the_end(tmp_path: Path) -> None:
    """Told to be ill at K = 5 after its first start, and at K = 3 from the start."""
    async with toys(tmp_path, "3:exit=3") as one:
        one.behaviours["a"].append("5:exit=4")
        with pytest.raises(EngineGone) as raised:
            await one.actuator.apply({"a": "k3"})
        assert raised.value.returncode == 4
        assert str(raised.value) == "a ended with exit code 4"
        assert one.actuator.engines["a"].phase is Phase.FAILED


async def test_a_last_good_level_that_never_becomes_healthy_is_the_end_too(tmp_path: Path) -> None:
    async with toys(tmp_path, "3:exit=3", limits=Limits(0.0, 0.5, 4.0)) as one:
        one.behaviours["a"].append("5:sick")
        with pytest.raises(EngineGone) as raised:
            await one.actuator.apply({"a": "k3"})
        assert raised.value.returncode == 1
        assert str(raised.value) == "a does not become healthy even as it last ran"


class TestTheFirstStart:
    async def test_an_engine_that_dies_is_gone_with_its_exit_code(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "exit=9", started=False) as one:
            with pytest.raises(EngineGone) as raised:
                await one.actuator.start()
            assert raised.value.returncode == 9

    async def test_an_engine_that_takes_too_long_is_slow(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "sick", limits=Limits(0.0, 0.5, 2.0), started=False) as one:
            with pytest.raises(EngineSlow) as raised:
                await one.actuator.start()
            assert str(raised.value) == "a did not become healthy within 2 s of its start"

    async def test_several_start_at_the_same_time(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "start=0.5", names="abc") as three:
            starts = [read_journal(journal)[0].seconds for journal in three.journals.values()]
            assert {engine.phase for engine in three.actuator.engines.values()} == {Phase.SERVING}
        assert len(starts) == 3

    async def test_a_program_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        async with httpx.AsyncClient() as client:
            spec = EngineSpec("a", "http://127.0.0.1:1", lambda level: ["/no/such/engine"])
            actuator = ProcessActuator(
                [spec], LADDER, K5, client=client, clock=WallClock(), limits=SOON, poll_seconds=POLL_SECONDS
            )
            with pytest.raises(FileNotFoundError) as raised:
                await actuator.start()
            assert raised.value.filename == "/no/such/engine"
            await actuator.stop()


class TestAnEngineThatEndsByItself:
    async def test_it_is_noticed(self, tmp_path: Path) -> None:
        async with toys(tmp_path, names="ab") as two:
            watch = asyncio.create_task(two.actuator.watch())
            await asyncio.sleep(0.1)
            assert not watch.done()
            two.actuator.engines["b"].kill()
            with pytest.raises(EngineGone) as raised:
                await watch
            assert str(raised.value) == "b was ended by SIGKILL"
            assert raised.value.returncode == -9

    async def test_one_that_a_change_stops_is_not_taken_for_it(self, tmp_path: Path) -> None:
        async with toys(tmp_path) as one:
            watch = asyncio.create_task(one.actuator.watch())
            assert await one.actuator.apply({"a": "k3"}) is None
            await asyncio.sleep(0.1)
            assert not watch.done()
            watch.cancel()

    async def test_while_it_is_being_drained_it_goes_on_to_the_new_level(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "5:busy", limits=Limits(30.0, 0.5, 20.0)) as one:
            change = asyncio.create_task(one.actuator.apply({"a": "k3"}))
            await one.reaches(Phase.DRAINING)
            one.actuator.engines["a"].kill()
            assert await change is None
            assert one.levels() == {"a": "k3"}


class TestSeveralEngines:
    async def test_they_are_changed_one_by_one_in_their_order(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "3:start=0.1", names="abc") as three:
            change = asyncio.create_task(three.actuator.apply(dict.fromkeys("abc", "k3")))
            order: list[str] = []
            while not change.done():
                away = [name for name, one in three.actuator.engines.items() if one.phase is not Phase.SERVING]
                assert len(away) <= 1
                order += [name for name in away if order[-1:] != [name]]
                await asyncio.sleep(0.005)
            assert await change is None
            assert order == ["a", "b", "c"]
            assert three.levels() == dict.fromkeys("abc", "k3")

    async def test_a_probe_changes_the_first_alone(self, tmp_path: Path) -> None:
        async with toys(tmp_path, names="abc") as three:
            assert await three.actuator.apply({"a": "k3", "b": "k5", "c": "k5"}) is None
            assert three.levels() == {"a": "k3", "b": "k5", "c": "k5"}
            assert three.actuator.workload().level == "k5"
            assert three.events("b") == [(5, "start")]

    async def test_a_failure_half_way_takes_back_those_that_were_changed(self, tmp_path: Path) -> None:
        async with toys(tmp_path, names="abc") as three:
            three.behaviours["b"].append("3:exit=5")
            failed = await three.actuator.apply(dict.fromkeys("abc", "k3"))
            assert failed == FailedChange("k3", "", "b ended with exit code 5")
            assert three.levels() == dict.fromkeys("abc", "k5")
            assert [k for k, event in three.events("a") if event == "start"] == [5, 3, 5]
            assert three.events("c") == [(5, "start")]


class TestTheEnd:
    async def test_engines_are_ended_politely(self, tmp_path: Path) -> None:
        async with toys(tmp_path, names="ab") as two:
            pass
        assert two.events("a")[-2:] == [(5, "sigterm"), (5, "end")]
        assert two.events("b")[-2:] == [(5, "sigterm"), (5, "end")]

    async def test_those_that_do_not_listen_are_killed(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "deaf", names="ab") as two:
            pass
        assert two.left() == []

    async def test_being_cancelled_does_not_spare_them(self, tmp_path: Path) -> None:
        """A second Ctrl-C while the engines are given time to end."""
        async with toys(tmp_path, "deaf", limits=Limits(0.0, 600.0, 20.0)) as one:
            stop = asyncio.create_task(one.actuator.stop())
            await asyncio.sleep(0.1)
            assert not stop.done()
            stop.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stop
            assert one.left() == []

    async def test_a_change_that_is_cancelled_leaves_nothing_running(self, tmp_path: Path) -> None:
        async with toys(tmp_path, "3:start=30") as one:
            change = asyncio.create_task(one.actuator.apply({"a": "k3"}))
            await one.reaches(Phase.STARTING)
            change.cancel()
            with pytest.raises(asyncio.CancelledError):
                await change

    async def test_children_that_a_shell_leaves_behind_are_ended_with_it(self, tmp_path: Path) -> None:
        """`sh -c` without exec: SIGTERM ends the shell alone, and the engine would keep the port."""
        port = free_port()

        def command(level: Level) -> list[str]:
            return ["sh", "-c", f"{shlex.join(toy_command(port, level.tokens))}; true"]

        async with httpx.AsyncClient() as client:
            spec = EngineSpec("a", f"http://127.0.0.1:{port}", command, output=Output.NOWHERE)
            actuator = ProcessActuator(
                [spec], LADDER, K5, client=client, clock=WallClock(), limits=SOON, poll_seconds=POLL_SECONDS
            )
            try:
                await actuator.start()
                assert await actuator.apply({"a": "k3"}) is None
                page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                assert page.count("position=") == 3
            finally:
                await actuator.stop()
        for _ in range(500):  # nobody waits for a killed grandchild: it takes its moment
            if not running("--port", str(port)):
                break
            await asyncio.sleep(0.01)
        assert running("--port", str(port)) == []
