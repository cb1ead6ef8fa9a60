"""Whatever a user does, the command line answers with an exit code and at most one line on stderr."""

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from specloop_cli.main import app, main

SLOW_TO_IMPORT = ("apscheduler", "httpx", "kubernetes", "numpy", "pydantic", "rich", "starlette", "uvicorn", "yaml")


def specloop(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "specloop_cli", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    shown = capsys.readouterr().out
    assert all(
        f"\n  {command.name or command.callback.__name__}" in shown
        for command in app.registered_commands
        if command.callback
    )


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: specloop" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", flag]) == 0
    assert "FILE..." in capsys.readouterr().out


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("specloop 0")


def test_help_imports_nothing_that_is_slow() -> None:
    program = (
        "import sys; from specloop_cli.main import main; main(['--help']); "
        f"print(*(name for name in {SLOW_TO_IMPORT} if name in sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.split() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chek"], "Did you mean 'check'?"),
        (["check"], "Missing argument"),
        (["crd", "--nothing"], "No such option: --nothing"),
        (["crd", "-o", "xml"], "'xml' is not one of 'text', 'json'"),
        (["check", "/no/such/file"], "cannot read /no/such/file: No such file"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("specloop: ")
    assert err.count("\n") == 1
    assert words in err


def test_kubectl_has_the_same_program_as_a_plugin() -> None:
    """kubectl runs `kubectl-specloop` for `kubectl specloop`."""
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = project["project"]["scripts"]
    assert scripts["kubectl-specloop"] == scripts["specloop"]


def test_a_name_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "no\x1b[31m\nsuch"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("specloop_cli.crd.run", interrupted)
    assert main(["crd"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    """The definition is larger than nothing, and nobody reads it."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "specloop_cli", "crd"]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert result.stderr == ""
    assert result.returncode == 141


def test_a_disk_that_is_full_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "specloop_cli", "crd"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "specloop: standard output: No space left on device\n"


def test_standard_input_is_a_file_too() -> None:
    result = specloop("check", "-", text="kind: SpecPolicy\n")
    assert result.returncode == 1
    assert result.stdout.startswith("standard input:1: error: apiVersion: is missing")


def test_no_colour_where_there_is_no_terminal() -> None:
    assert "\x1b" not in specloop("check", "-", text="kind: SpecPolicy\n").stdout


def test_a_closed_standard_output_is_one_line() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m specloop_cli crd >&-"
    result = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "specloop: standard output is closed: send it to a file, or to /dev/null\n"
