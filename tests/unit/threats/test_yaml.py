"""YAML whose anchors name each other until it would fill any memory: refused by every reader, in one line.

A million million values are meant; a reader that wrote them out would not come back within a test's time.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from specloop_cli.main import main
from specloop_operator.settings import SettingsError, load_settings
from tests.support.threats import laughs

BOMB = laughs(depth=12)
POLICY = """\
apiVersion: specloop.dev/v1alpha1
kind: SpecPolicy
metadata: {name: chat}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}, rules: *a11}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, annotations: {x: *a11}}
spec: {template: {spec: {containers: [{name: vllm, image: vllm/vllm-openai:v0.32.0, args: *a11}]}}}
"""
TRACE = "time,input,output\n0,10,10\n1,10,10\n"


def policy(file: str, folder: Path) -> list[str]:
    """`specloop check`."""
    return ["check", file]


def manifest(file: str, folder: Path) -> list[str]:
    """`specloop inject`."""
    return ["inject", "-f", file]


def simulated(option: str) -> Callable[[str, Path], list[str]]:
    """`specloop simulate` with the file as one of its inputs."""

    def command(file: str, folder: Path) -> list[str]:
        (folder / "trace.csv").write_text(TRACE)
        columns = ["--trace", str(folder / "trace.csv"), "--columns", "time=time,input=input,output=output,unit=s"]
        own = {} if option == "--policy" else {"--policy": "temperature-guard"}
        return ["simulate", *columns, option, file, *(word for pair in own.items() for word in pair)]

    return command


CASES = {
    "a policy": (policy, POLICY),
    "a policy to simulate": (simulated("--policy"), POLICY),
    "a workload": (simulated("--workload"), "phases: *a11\n"),
    "a hardware profile": (simulated("--profile"), "name: *a11\n"),
    "a manifest": (manifest, DEPLOYMENT),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_grows_without_end_is_refused_in_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the bomb stands beside what is read, and where it is part of it."""
    command, end = CASES[case]
    file = tmp_path / "bomb.yaml"
    file.write_text(BOMB + end)
    code = main(command(str(file), tmp_path))
    said = capsys.readouterr()
    assert code in (1, 2)
    assert "values, aliases written out" in said.out + said.err
    assert len(said.out + said.err) < 1000


@pytest.mark.parametrize("end", ["namespaces: *a11\n", "logLevel: *a11\n", "sources: {default: *a11}\n", "*a11 : 1\n"])
def test_settings_that_grow_without_end_are_refused_in_one_line(end: str, tmp_path: Path) -> None:
    """They are never written out: what is wrong with the first value is enough."""
    file = tmp_path / "settings.yaml"
    file.write_text(BOMB + end)
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {})
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 4_000, "{a: " * 4_000, "- " * 4_000])
def test_settings_that_are_nested_without_end_are_refused_in_one_line(text: str, tmp_path: Path) -> None:
    """Reading them recurses."""
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match="nested too deep"):
        load_settings(file, {})
