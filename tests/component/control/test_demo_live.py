"""`specloop demo` over real HTTP: it decides on what servers show, and leaves none of them behind."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import Program, run
from tests.support.toys import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SERVER = "specloop_sim.server"
SOON_SECONDS = 30.0
"""Far more than an end takes, and far less than the demo would go on for."""


def servers_of(demo: Program) -> list[int]:
    """The simulated servers that this demo has started and that still run."""
    return [number for number in running(SERVER) if parent(number) == demo.process.pid]


def parent(number: int) -> int:
    """The process that started one; 0 when it is gone."""
    try:
        return int((Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return 0


@pytest.fixture
def started() -> Iterator[Program]:
    """A demo whose three servers run; whatever it leaves behind is a failure."""
    with Program("demo", "--phases", "structured,prose") as demo:
        demo.until(lambda: len(servers_of(demo)) == 3, "three servers")
        servers = servers_of(demo)
        yield demo
        demo.until(lambda: demo.process.poll() is not None, "the end", SOON_SECONDS)
    assert [number for number in servers if number in running(SERVER)] == []


def test_prose_lowers_k_and_ctrl_c_ends_it_all(started: Program) -> None:
    line = started.says("prose", "StepDown", "k5 → k3")
    assert "s  prose" in line
    started.says("is below the limit of 40 %")
    started.process.send_signal(signal.SIGINT)
    assert started.end(SOON_SECONDS) == 130
    assert not any("Traceback" in one for one in started.err)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_it_all(started: Program, number: signal.Signals) -> None:
    started.process.send_signal(number)
    assert started.end(SOON_SECONDS) == 128 + number
    assert started.err == []


def test_ctrl_c_again_and_again_leaves_nothing_behind_either(started: Program) -> None:
    for _ in range(3):
        started.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert started.end(SOON_SECONDS) == 130
    assert not any("Traceback" in one for one in started.err)


def test_a_policy_that_no_simulated_server_starts_with_is_refused_in_one_line(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    head = {"apiVersion": "specloop.dev/v1alpha1", "kind": "SpecPolicy", "metadata": {"name": "head"}}
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"},
        "drafters": [{"name": "head", "method": "medusa"}],
        "levels": [{"name": "m3", "drafter": "head", "tokens": 3}, {"name": "disabled"}],
    }
    policy.write_text(json.dumps({**head, "spec": spec}))
    for flags in ([], ["--fast"]):
        code, out, err = run("demo", "--policy", str(policy), *flags)
        assert (code, out) == (2, "")
        assert err.startswith("specloop: head: ")
        assert err.count("\n") == 1
