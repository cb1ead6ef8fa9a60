"""Calls that cannot be swept are answered at once, in one line."""

from pathlib import Path

import pytest

from specloop_cli.main import main
from tests.component.sweep.sweeps import arguments, write_policy, write_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A policy and a trace, and a file that is in the way."""
    write_policy(tmp_path)
    write_trace(tmp_path, count=20)
    (tmp_path / "there.yaml").write_text("mine")
    return tmp_path


def test_help_needs_no_optuna(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--help"]) == 0
    assert "--vary" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--vary", "rules.lo.forSeconds=40"], "--vary: rules has no 'lo'; there are low"),
        (["--vary", "rules.low.forSeconds"], "says no values; write PATH=LOW..HIGH"),
        (["--vary", "rules.low.forSeconds=-1"], "-1 is out of range; allowed: 0 to 86400"),
        (["--vary", "rules.low.forSeconds=1", "--vary", "rules[0].forSeconds=2"], "is varied twice"),
        pytest.param(
            ["--vary", "rules.low.when.acceptance.abovePercent=50..60"],
            "--vary: none of 11 combinations is a policy",
            marks=pytest.mark.slow,
        ),
        (["--vary", "rules.low.forSeconds=0..20000", "--grid"], "there are 20,001 combinations; vary less"),
        (["--hold-out"], "--hold-out keeps the last trace for the end: name two or more"),
        (["--workload", "-", "--trace", "-"], "standard input can be read once"),
        (["--out", "there.yaml"], "there.yaml exists already; use --force to replace it"),
        (["--report", "there.yaml"], "there.yaml exists already; use --force to replace it"),
        (["--out", "nowhere/best.yaml"], "there is no folder nowhere"),
        (["--study", "there.yaml"], "--study: there.yaml is no study of a sweep"),
        (["--study", "nowhere/s.jsonl"], "cannot write nowhere/s.jsonl"),
        (["--jobs", "0"], "--jobs"),
        (["--trials", "0"], "--trials"),
    ],
)
def test_a_wrong_call_is_answered_in_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    assert main(arguments(folder, *more)) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert (err.count("\n"), out) == (1, "")
    assert (folder / "there.yaml").read_text() == "mine"


def test_one_policy_is_swept_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "chat.yaml"
    path.write_text(path.read_text() + "---\n" + path.read_text())
    assert main(arguments(folder)) == 2
    assert "one policy is asked for, and here are 2: chat, chat" in capsys.readouterr().err
