"""`scripts/build-images`: which builder it takes, and what it tells it; the builders here write down their calls."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.component.images.conftest import ROOT

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAMS = ("bash", "sed", "date", "git", "dirname", "env")
"""All that it needs besides a builder."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs it where only these builders are there; one with a reason says it and does not work."""

    def start(*arguments: str, **builders: str) -> "subprocess.CompletedProcess[str]":
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in PROGRAMS:
            found = shutil.which(name)
            assert found, f"{name} is missing"
            (folder / name).symlink_to(found)
        for name, reason in builders.items():
            program = folder / name
            answer = f'echo "{reason}" >&2; exit 1' if reason else "exit 0"
            program.write_text(f'#!/bin/bash\nif [[ $1 == info ]]; then {answer}; fi\necho "CALL {name} $*"\n')
            program.chmod(0o755)
        command = [str(folder / "bash"), str(ROOT / "scripts" / "build-images"), *arguments]
        environment = {"PATH": str(folder), "HOME": os.environ.get("HOME", "/")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    return start


def calls(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the builder was told, a line a call."""
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("CALL ") for line in done.stdout.splitlines() if line.startswith("CALL ")]


def test_both_images_are_built_under_the_projects_version(run: Run) -> None:
    """From the root of the repository, with the labels."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    first, second = calls(run(buildah=""))
    assert f"build --file charts/images/operator.Containerfile --tag specloop:{version} " in first
    assert f"build --file charts/images/plugin.Containerfile --tag specloop-plugin:{version} " in second
    for call in (first, second):
        assert call.endswith(" .")
        assert f"--build-arg VERSION={version} " in call
        assert re.search(r"--build-arg CREATED=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", call)


def test_names_and_tags_are_as_asked(run: Run) -> None:
    first, second = calls(run("--tag", "try-7", "--registry", "registry.example.com/llm/", podman=""))
    assert " --tag registry.example.com/llm/specloop:try-7 " in first
    assert " --tag registry.example.com/llm/specloop-plugin:try-7 " in second


@pytest.mark.parametrize(
    ("builders", "taken"),
    [
        ({"buildah": "", "podman": "", "docker": ""}, "buildah"),
        ({"buildah": "no namespaces", "podman": "", "docker": ""}, "podman"),
        ({"docker": ""}, "docker"),
    ],
)
def test_the_first_builder_that_works_is_taken(run: Run, builders: dict[str, str], taken: str) -> None:
    assert [call.split()[0] for call in calls(run(**builders))] == [taken, taken]


def test_where_none_works_it_says_why_not_of_each(run: Run) -> None:
    """Exit code 3, as of the other builds: something is missing here."""
    done = run(docker="Cannot connect to the Docker daemon")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "scripts/build-images: nothing here builds images; buildah is not installed; podman is not installed; "
        "docker does not work: Cannot connect to the Docker daemon\n"
    )


@pytest.mark.parametrize("builder", ["podman", "docker"])
def test_the_time_of_the_commit_is_that_of_everything(run: Run, builder: str) -> None:
    """docker has no --timestamp; its BuildKit takes the build argument."""
    call = calls(run(**{builder: ""}))[0]
    committed = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    default = re.search(r"SOURCE_DATE_EPOCH=(\d+)", (ROOT / "charts/images/operator.Containerfile").read_text())
    assert default is not None
    moment = committed.stdout.strip() or default[1]  # where the sources came without git
    assert f"--build-arg SOURCE_DATE_EPOCH={moment} " in call
    assert (f"--timestamp {moment} " in call) == (builder == "podman")


@pytest.mark.parametrize("arguments", [("--tag",), ("--tag", "a/b"), ("--tag", ""), ("--push",)])
def test_what_it_cannot_take_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, podman="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("scripts/build-images: ")
