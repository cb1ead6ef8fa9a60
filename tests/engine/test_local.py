"""`specloop local` round a real llama-server: down the whole ladder and back, and out of the way when it ends."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.conftest import BASE_FLAGS, FORCED, HERE, Traffic, draft_flags
from tests.support.local_loop import Local, healthy

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(240)]

POLICY = HERE / "local-policy.yaml"


def loop(command: Sequence[str | Path], *flags: str, environment: dict[str, str] | None = None) -> Local:
    """The loop under that policy."""
    return Local(command, *flags, policy=POLICY, environment=environment)


def test_forced_acceptance_leads_down_the_whole_ladder_and_back(llama_server_binary: Path, tmp_path: Path) -> None:
    rates = tmp_path / "rates"
    rates.write_text("0.30 0.10 0.05 0.02")  # 12 % of the tokens at K=4, 15 % at K=3
    environment = {"LLAMA_SERVER": str(llama_server_binary), "FORCED_RATES_FILE": str(rates)}
    command: list[str | Path] = [FORCED, *BASE_FLAGS, *draft_flags(4)]
    with loop(command, environment=environment) as local, Traffic(local.url, 0.0, seconds=200):
        local.wait_for_level("disabled", 90)
        rates.write_text("0.95 0.90 0.85 0.80")  # 88 % at K=4
        local.wait_for_level("k4", 110)
    levels = [after for _, _, after in local.changes]
    assert levels[:3] == ["k3", "ngram", "disabled"]
    assert ("Probe", "disabled", "ngram") in local.changes
    assert local.changes[-1] == ("StepUp", "k3", "k4")


def test_nothing_but_hotter_traffic_leads_down_the_ladder_and_cooler_traffic_back(llama_server_binary: Path) -> None:
    command: list[str | Path] = [llama_server_binary, *BASE_FLAGS, *draft_flags(4)]
    with loop(command) as local, Traffic(local.url, 0.0, seconds=220) as traffic:
        time.sleep(6)
        assert local.changes == []  # .79 accepted at T = 0
        traffic.temperature = 1.0  # .08
        local.wait_for_level("disabled", 90)
        traffic.temperature = 0.0
        local.wait_for_level("k4", 110)
    assert [after for _, _, after in local.changes][:2] == ["k3", "ngram"]
    assert local.changes[-1] == ("StepUp", "k3", "k4")


def test_recommend_only_says_what_it_would_do(llama_server_binary: Path) -> None:
    with loop([llama_server_binary, *BASE_FLAGS, *draft_flags(4)], "--recommend") as local:
        with Traffic(local.url, 1.0, seconds=60):
            local.wait_until(
                lambda: any("would StepDown k4 → k3" in line for line in local.lines), 40, "a recommendation"
            )
        assert local.changes == []


def test_an_engine_that_ends_by_itself_ends_local_with_its_exit_code(llama_server_binary: Path) -> None:
    with loop([llama_server_binary, *BASE_FLAGS, *draft_flags(4)]) as local:
        children = subprocess.run(
            ["pgrep", "-P", str(local.process.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert local.process.wait(15) == 128 + signal.SIGKILL


def test_a_signal_is_passed_on_and_nothing_is_left_running(llama_server_binary: Path) -> None:
    with loop([llama_server_binary, *BASE_FLAGS, *draft_flags(4)]) as local:
        time.sleep(1)
        local.process.send_signal(signal.SIGINT)
        assert local.process.wait(15) == 0  # what llama-server answers to SIGINT when idle
        assert not healthy(local.url)


def test_a_configuration_that_does_not_start_is_taken_back_and_not_tried_again(
    llama_server_binary: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "llama-server"
    broken.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" --spec-draft-n-max 3 "*) echo "no such luck" >&2; exit 7;; esac\n'
        f'exec "{llama_server_binary}" "$@"\n'
    )
    broken.chmod(0o755)
    with loop([broken, *BASE_FLAGS, *draft_flags(4)]) as local, Traffic(local.url, 1.0, seconds=120):
        local.wait_for_level("ngram", 80)
    assert local.changes[0] == ("StepDown", "k4", "k3")
    assert any("k3 failed" in line and "exit code 7" in line for line in local.lines)
    assert ("StepDown", "k4", "ngram") in local.changes
