"""The command: files and standard input in, a manifest, a difference or JSON out, words on stderr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from specloop_cli.main import main
from tests.unit.inject.manifests import DRAFTS, MODEL, deployment, inject, shape, speculating


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one Deployment."""
    path = tmp_path / "deployment.yaml"
    path.write_text(speculating())
    return path


def test_the_manifest_goes_to_stdout_and_words_to_stderr(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inject", "-f", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == inject(speculating()).after
    assert err.startswith("Deployment/llama: container vllm: added the plugin, live control")


def test_no_file_is_written(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inject", "-f", str(path)]) == 0
    assert capsys.readouterr().out != path.read_text()
    assert path.read_text() == speculating()
    assert list(path.parent.iterdir()) == [path]


def test_uninject_is_the_way_back(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inject", "-f", str(path)]) == 0
    path.write_text(capsys.readouterr().out)
    assert main(["inject", "--uninject", "-f", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == speculating()
    assert "is as it was before the injection" in err


def test_a_second_injection_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(inject(speculating()).after)
    assert main(["inject", "-f", str(path), "--no-live"]) == 0
    out, err = capsys.readouterr()
    assert out == path.read_text()
    assert "is injected already, and left as it is" in err


def test_a_difference_can_be_applied(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `patch`, to the file that it is of."""
    path.write_text(speculating().rstrip("\n"))
    assert main(["inject", "-f", str(path), "--diff"]) == 0
    diff = capsys.readouterr().out
    assert "-        - '" in diff
    assert "+        - --speculative-config=$(SPECULATIVE_CONFIG)" in diff
    subprocess.run(["patch", str(path)], input=diff, text=True, check=True, capture_output=True)
    assert path.read_text() == inject(speculating().rstrip("\n")).after


def test_no_difference_is_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(inject(speculating()).after)
    assert main(["inject", "-f", str(path), "--diff"]) == 0
    assert capsys.readouterr().out == ""


def test_json_says_what_was_done_to_what(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inject", "-f", str(path), "--no-live", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["manifest"] == inject(speculating(), live=False).after
    (workload,) = answer["workloads"]
    assert (workload["file"], workload["kind"], workload["name"]) == (str(path), "Deployment", "llama")
    assert (workload["container"], workload["done"]) == ("vllm", "injected")
    assert workload["notes"] == ["no live control: --no-live"]
    assert main(["inject", "-f", str(path), "--diff", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["diff"].startswith(f"--- {path}")


def test_standard_input_is_a_file_too() -> None:
    command = [sys.executable, "-m", "specloop_cli", "inject", "-f", "-"]
    text = shape("list.json").encode()
    result = subprocess.run(command, input=text, capture_output=True, check=True)
    assert result.stdout.decode() == inject(shape("list.json")).after


def test_several_files_become_documents_of_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = path.with_name("service.yaml")
    other.write_text("kind: Service\napiVersion: v1")
    assert main(["inject", "-f", str(other), "-f", str(path)]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["Service", "Deployment"]


def test_one_refused_file_keeps_all_from_being_printed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = path.with_name("bad.yaml")
    bad.write_text(speculating("--scheduler-cls=a.B"))
    assert main(["inject", "-f", str(path), "-f", str(bad)]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["-f", "-", "-f", "-"], "standard input can be read once"),
        (["-f", "/no/such/file"], "cannot read /no/such/file"),
        (["-f", "/"], "cannot read /: Is a directory"),
        ([], "Missing option"),
    ],
)
def test_a_wrong_call_is_one_line(files: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inject", *files]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_what_is_left_out_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(deployment(MODEL))
    assert main(["inject", "-f", str(path)]) == 0
    assert "note: no live control: there is no speculative setting" in capsys.readouterr().err


def test_a_flag_that_needs_speculation_is_pointed_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With it an annotation that says off would keep vLLM from starting."""
    path.write_text(speculating("--per-request-spec-decode-metrics=summary"))
    assert main(["inject", "-f", str(path)]) == 0
    assert "vLLM does not start with --per-request-spec-decode-metrics while" in capsys.readouterr().err


def test_the_setting_is_in_no_word_of_ours(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of models may be nobody's business."""
    assert main(["inject", "-f", str(path)]) == 0
    assert DRAFTS not in capsys.readouterr().err
