"""`specloop local` as a user starts it: round a toy engine called llama-server, and round a simulated vLLM."""

import json
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from specloop_cli.main import main
from tests.support.policies import TARGET, rule
from tests.support.programs import Program, run
from tests.support.toys import SCRIPT, events, free_port, running

pytestmark = pytest.mark.timeout(90)

QUICK: dict[str, Any] = {
    "intervalSeconds": 1,
    "signals": {"windowSeconds": 1, "maxEvidenceSeconds": 4, "settleSeconds": 0, "minRequests": 5},
    "rules": [
        rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0),
        rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0),
    ],
    "guardrails": {"cooldownSeconds": 0, "maxChangesPerDay": 1000},
}
"""Decides on every second's evidence; the toy engine answers fifty requests a second."""

MODELS = ["-m", "target.gguf", "-md", "draft.gguf", "--metrics"]
DRAFTS = ["--spec-type", "draft-simple", "--spec-draft-n-max", "5"]


class Setup:
    """A folder with an engine, a policy and a journal, and a port for it all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.journal = folder / "journal"
        self.engine = self.program("llama-server", SCRIPT)

    def program(self, name: str, *command: object) -> Path:
        """A program of this name that runs Python with these words and its own arguments."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {" ".join(map(str, command))} "$@"\n')
        path.chmod(0o755)
        return path

    def policy(self, **fields: Any) -> str:
        """A policy that decides quickly."""
        path = self.folder / "policy.yaml"
        head = {"apiVersion": "specloop.dev/v1alpha1", "kind": "SpecPolicy", "metadata": {"name": "toy"}}
        path.write_text(json.dumps({**head, "spec": {"targetRef": TARGET, **QUICK, **fields}}))
        return str(path)

    def arguments(self, *toy: str, flags: tuple[str, ...] = (), **fields: Any) -> list[str]:
        """Arguments of `specloop` to put the loop round a toy engine with these behaviours."""
        behaviours = [part for one in toy for part in ("--toy", one)]
        written = ["--port", str(self.port), "--toy-journal", str(self.journal)]
        loop = ["local", "--policy", self.policy(**fields), "--drain", "1", *flags]
        return [*loop, "--", str(self.engine), *MODELS, *DRAFTS, *written, *behaviours]

    def starts(self) -> list[int]:
        """The K of every start so far."""
        return [tokens for tokens, event in events(self.journal) if event == "start"]

    def left(self) -> list[int]:
        """Engines that still run."""
        return running("--port", str(self.port))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def own(lines: list[str]) -> list[str]:
    """The lines that SpecLoop itself said, without the time."""
    return [line.split(" ", 2)[2] for line in lines if line.startswith("specloop ")]


def test_low_acceptance_leads_down_the_ladder_and_json_is_one_document(setup: Setup) -> None:
    """The n-gram level of a derived ladder drafts 4 tokens a step."""
    arguments = setup.arguments("5:rate=0.2", "3:rate=0.2", flags=("-o", "json"))
    with Program(*arguments) as local:
        local.says("StepDown k3 → ngram")
        local.until(lambda: setup.starts() == [5, 3, 4], "three starts")
        local.says("toy engine: K = 4")
        local.process.send_signal(signal.SIGTERM)
        assert local.end() == 0
    document = json.loads("\n".join(local.out))
    assert document["exitCode"] == 0
    changes = [(one["action"], one["from"], one["to"], one["rule"]) for one in document["decisions"]]
    assert changes == [("StepDown", "k5", "k3", "low"), ("StepDown", "k3", "ngram", "low")]
    assert all("acceptance 20 %" in one["reason"] and one["seconds"] >= 0 for one in document["decisions"])
    assert "toy engine: K = 5 on port" in "\n".join(local.err)  # its own stdout went to stderr
    assert setup.left() == []


def test_a_level_that_does_not_start_is_taken_back_said_and_not_tried_again(setup: Setup) -> None:
    with Program(*setup.arguments("5:rate=0.2", "3:exit=7")) as local:
        local.says("SwitchTo k3 → k5", "k3 failed (engine ended with exit code 7): back at k5")
        local.says("StepDown k5 → ngram")
        local.until(lambda: setup.starts() == [5, 3, 5, 4], "the start of the n-gram level")
    assert setup.left() == []


def test_recommending_says_what_it_would_do_and_restarts_nothing(setup: Setup) -> None:
    with Program(*setup.arguments("rate=0.2", flags=("--recommend", "-o", "json"))) as local:
        local.says("would StepDown k5 → k3")
        local.process.send_signal(signal.SIGINT)
        assert local.end() == 0
    assert setup.starts() == [5]
    [change] = json.loads("\n".join(local.out))["decisions"]
    assert (change["action"], change["from"], change["to"]) == ("StepDown", "k5", "k3")


def test_the_engine_s_own_output_passes_through_and_ours_is_on_stderr(setup: Setup) -> None:
    with Program(*setup.arguments()) as local:
        local.says("Hold k5")
        local.process.send_signal(signal.SIGTERM)
        assert local.end() == 0
    assert local.out == [f"toy engine: K = 5 on port {setup.port}"]
    assert own(local.err)[0] == (f"ladder k5, k3, ngram, disabled; running k5; watching http://127.0.0.1:{setup.port}")


def test_a_schedule_is_followed(setup: Setup) -> None:
    """Every minute of every day, for an hour each time: it is always in force."""
    always = {"name": "always", "cron": "* * * * *", "durationSeconds": 3600, "level": "disabled"}
    with Program(*setup.arguments(schedules=[always])) as local:
        local.says("Disable k5 → disabled: schedule always asks for disabled")
        local.until(lambda: setup.starts() == [5, 0], "a start without a drafter")


class TestTheEnd:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_is_passed_on_and_the_engine_s_exit_code_is_ours(
        self, setup: Setup, number: signal.Signals
    ) -> None:
        with Program(*setup.arguments("stop=0.2")) as local:
            local.says("Hold k5")
            local.process.send_signal(number)
            assert local.end() == 0
        assert events(setup.journal) == [(5, "start"), (5, "sigterm"), (5, "end")]
        assert setup.left() == []

    def test_a_signal_while_the_engine_is_starting_ends_it_too(self, setup: Setup) -> None:
        with Program(*setup.arguments("start=60")) as local:
            local.until(lambda: setup.starts() == [5], "the start")
            local.process.send_signal(signal.SIGTERM)
            assert local.end() == 0
        assert setup.left() == []

    def test_a_signal_in_the_middle_of_a_change_leaves_nothing_running(self, setup: Setup) -> None:
        with Program(*setup.arguments("5:rate=0.2", "3:start=60")) as local:
            local.until(lambda: setup.starts() == [5, 3], "the start at k3")
            local.process.send_signal(signal.SIGTERM)
            assert local.end() == 0
        assert setup.left() == []

    def test_an_engine_that_ends_by_itself_ends_us_with_its_exit_code(self, setup: Setup) -> None:
        with Program(*setup.arguments("exit=7"), "-o", "json") as local:
            assert local.end() == 7
        assert own(local.err)[-1] == "engine ended with exit code 7"

    def test_an_engine_that_a_signal_ends_is_128_and_the_signal(self, setup: Setup) -> None:
        with Program(*setup.arguments()) as local:
            local.says("Hold k5")
            [engine] = [one for one in setup.left() if one != local.process.pid]
            os.kill(engine, signal.SIGKILL)
            assert local.end() == 128 + signal.SIGKILL
        assert own(local.err)[-1] == "engine was ended by SIGKILL"

    def test_an_engine_whose_port_is_taken_ends_us_with_its_exit_code(self, setup: Setup) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", setup.port))
            code, _, err = run(*setup.arguments())
        assert code == 1
        assert "Address already in use" in err
        assert "engine ended with exit code 1" in err

    def test_an_engine_that_does_not_become_healthy_in_time_is_ended(self, setup: Setup) -> None:
        code, _, err = run(*setup.arguments("sick", flags=("--start", "2")))
        assert code == 2
        assert err.splitlines()[-1] == (
            "specloop: engine did not become healthy within 2 s of its start: "
            "see what it says, or give it longer with --start"
        )
        assert setup.left() == []


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line on stderr of a call that must end with exit code 2 before anything is told on stdout."""
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    *before, last = err.splitlines()
    assert all("ladder" in line for line in before)  # what runs may be said; what is wrong is one line
    assert last.startswith("specloop: ")
    return last.removeprefix("specloop: ")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sleep", "60"], "no engine is seen to start here"),
        (["llama-server", *DRAFTS, "-md", "draft.gguf"], "add it to the command"),
        (["vllm", "serve", "m", "--disable-log-stats"], "remove it from the command"),
        (["llama-server", "--metrics", "--port", "http"], "--port http is no port"),
        (["llama-server", "--metrics", "--port", "99999"], "--port 99999 is no port"),
        (["llama-server", "--metrics", "--spec-draft-n-max", "many"], "has no value that fits"),
        (["llama-server", "--metrics", "--draft-max", "6", "--spec-type", "draft-simple"], "an old flag"),
        (["vllm", "serve", "m", "--speculative-config", "{broken"], "--speculative-config"),
        (["/no/such/llama-server", "--metrics"], "/no/such/llama-server: there is no such program"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_in_one_line(
    command: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, "local", "--", *command)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "Missing argument '-- COMMAND...'"),
        (["--policy", "/no/such.yaml", "--", "llama-server", "--metrics"], "cannot read /no/such.yaml"),
        (["--drain", "-1", "--", "llama-server", "--metrics"], "--drain"),
        (["--start", "0", "--", "llama-server", "--metrics"], "--start"),
        (["--recomend", "--", "llama-server", "--metrics"], "No such option: --recomend"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(capsys, "local", *flags)


def test_a_program_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "llama-server"
    text.write_text("this is no program\n")
    nowhere = "there is no such program, or it may not be run: install it, or give its path"
    assert refusal(capsys, "local", "--", str(text), "--metrics") == f"{text}: {nowhere}"
    text.chmod(0o755)
    assert refusal(capsys, "local", "--", str(text), "--metrics") == f"{text}: Exec format error"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schedules": [{"name": "s", "cron": "61 * * * *", "durationSeconds": 60, "level": "disabled"}]}, "61"),
        ({"engine": "VLLM"}, "correct the policy's engine"),
        ({"rules": [rule("low", {"acceptance": {"belowPercent": 40}}, "SwitchTo", level="k7")]}, "'k7'"),
    ],
)
def test_a_policy_that_does_not_fit_the_command_is_refused_in_one_line(
    setup: Setup, fields: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, *setup.arguments(**fields))
    assert setup.starts() == []


CONFIG = json.dumps({"method": "draft_model", "model": "small", "num_speculative_tokens": 5})


@pytest.mark.parametrize("form", ["flag", "variable"])
def test_a_simulated_vllm_is_taken_off_speculation_by_its_own_setting(setup: Setup, form: str) -> None:
    """`vllm` is found on PATH; its setting is a flag, or a variable that a shell puts in.

    A schedule that is always in force asks for disabled.
    """
    setup.program("vllm", "-m", "specloop_sim.server")
    environment = {
        **os.environ,
        "PATH": f"{setup.folder}:{os.environ['PATH']}",
        "SPECLOOP_SIM_STARTUP_SECONDS": "0",
        "SPECLOOP_SIM_SPEED": "20",
        "SPECULATION": CONFIG,
    }
    always = {"name": "always", "cron": "* * * * *", "durationSeconds": 3600, "level": "disabled"}
    flags = ["--port", str(setup.port), "--speculative-config"]
    script = " ".join(["exec vllm serve tiny", *flags, '"$SPECULATION"'])
    command = ["vllm", "serve", "tiny", *flags, CONFIG] if form == "flag" else ["sh", "-c", script]
    arguments = ["local", "--policy", setup.policy(schedules=[always]), "--drain", "1", "-o", "json", "--", *command]
    with Program(*arguments, environment=environment) as local:
        local.says("ladder k5, k3, ngram, disabled; running k5")
        local.says("Disable k5 → disabled")
        local.until(lambda: "spec_decode" not in page(setup.port), "a page without speculation")
        local.process.send_signal(signal.SIGTERM)
        assert local.end() == 0
    [change] = json.loads("\n".join(local.out))["decisions"]
    assert (change["action"], change["to"]) == ("Disable", "disabled")
    assert setup.left() == []


LIVE_CONFIG = json.dumps({**json.loads(CONFIG), "num_speculative_tokens_per_batch_size": [[1, 256, 5]]})
PLUGIN = ("--middleware", "specloop_vllm.Middleware", "--scheduler-cls", "specloop_vllm.LiveAsyncScheduler")


class Asked:
    """`specloop local` round a simulated vLLM with the plugin, whose one schedule asks for a level."""

    def __init__(self, setup: Setup, level: str, *flags: str, **fields: Any) -> None:
        self.setup = setup
        setup.program("vllm", "-m", "specloop_sim.server")
        always = {"name": "always", "cron": "* * * * *", "durationSeconds": 3600, "level": level}
        own = ("--port", str(setup.port), "--speculative-config", LIVE_CONFIG)
        policy = ["--policy", setup.policy(schedules=[always], **fields)]
        self.arguments = ["local", *policy, "--drain", "1", "--", "vllm", "serve", "tiny", *own, *flags]
        self.environment = {
            **os.environ,
            "PATH": f"{setup.folder}:{os.environ['PATH']}",
            "SPECLOOP_SIM_STARTUP_SECONDS": "0",
            "SPECLOOP_SIM_SPEED": "20",
        }

    def __call__(self) -> Program:
        """Start it."""
        return Program(*self.arguments, environment=self.environment)


@pytest.mark.parametrize(("level", "tokens"), [("k3", 3), ("disabled", 0)])
def test_a_simulated_vllm_with_the_plugin_changes_k_and_goes_on_running(setup: Setup, level: str, tokens: int) -> None:
    """The engine that was started once takes the wish up with its next request, and is told nothing by a restart."""
    with Asked(setup, level, *PLUGIN)() as local:
        local.says(f"{level} is reached live: no restart")
        [engine] = running("specloop_sim.server", str(setup.port))
        answer = {"model": "tiny", "prompt": "a b c", "max_tokens": 20}
        httpx.post(f"http://127.0.0.1:{setup.port}/v1/completions", json=answer).raise_for_status()
        shown = re.search(r'^specloop_live_tokens{[^}]*side="applied"[^}]*} (\S+)', page(setup.port), re.MULTILINE)
        assert shown is not None
        assert float(shown[1]) == tokens
        assert running("specloop_sim.server", str(setup.port)) == [engine]
        local.process.send_signal(signal.SIGTERM)
        assert local.end() == 0
    assert setup.left() == []


def test_a_drafter_that_it_was_not_started_with_takes_a_restart(setup: Setup) -> None:
    """The page of the process that is started anew drafts from text at hand."""
    with Asked(setup, "ngram", *PLUGIN)() as local:
        local.says("k5 → ngram")
        local.until(lambda: 'side="applied"' not in page(setup.port) and "spec_decode" in page(setup.port), "n-gram")
    assert not any("live" in line for line in own(local.err))


def test_without_the_middleware_it_is_said_and_restarted(setup: Setup) -> None:
    """The scheduler is there, and nobody to ask it."""
    with Asked(setup, "k3", "--scheduler-cls", "specloop_vllm.LiveAsyncScheduler")() as local:
        local.says("k3 takes a restart, for live control is not possible: the plugin is not there")
        local.says("draft_model-3, 20 times real time")


def test_where_the_policy_wants_no_restarts_there_are_none(setup: Setup) -> None:
    """n-gram is another start-up profile."""
    with Asked(setup, "ngram", *PLUGIN, rollout={"actuator": "Live"})() as local:
        local.says("level ngram is left out: it takes a restart, and the policy's actuator is Live")
        local.says("Hold k5")


def page(port: int) -> str:
    """An engine's metrics; the name of what is waited for while there is no answer."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics").text
    except httpx.TransportError:
        return "spec_decode: no answer"
