"""The tutorial, from an empty cluster to its end, by its own commands."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.beside import beside
from tests.support.cluster.binaries import control_plane_binaries
from tests.support.cluster.container import SIMULATED_VLLM
from tests.support.cluster.controlplane import ControlPlane
from tests.support.cluster.daemons import free_port
from tests.support.cluster.kubelet import Kubelet
from tests.support.cluster.traffic import PROSE, Traffic
from tests.support.cluster.tutorial import Shell, replayed, shape
from tests.support.cluster.workloads import SIMULATION

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """The terminal of a reader with a cluster of one node, and with clients that never stop asking."""
    binaries = control_plane_binaries()
    with (
        ControlPlane(binaries, tmp_path) as plane,
        beside(Kubelet(plane.admin, "node-1", tmp_path / "node")),
        beside(Traffic(plane.admin, "llm", "app=llama", PROSE, None)),
        Shell(folder(tmp_path), environment(plane, tmp_path)) as one,
    ):
        yield one


def folder(scratch: Path) -> Path:
    """The reader's copy of the repository, as far as the tutorial needs it."""
    copy = scratch / "specloop"
    shutil.copytree(ROOT / "charts", copy / "charts")
    shutil.copytree(ROOT / "docs" / "tutorial", copy / "docs" / "tutorial")
    manifest = copy / "docs" / "tutorial" / "deployment.yaml"
    settings = {**SIMULATION, "SPECLOOP_SIM_CLUSTERING": "0"}  # what levels differ by shows in seconds
    simulation = "".join(f'        - {{name: {name}, value: "{value}"}}\n' for name, value in settings.items())
    text = manifest.read_text().replace("vllm/vllm-openai", SIMULATED_VLLM).replace("env:\n", f"env:\n{simulation}")
    manifest.write_text(text)
    return copy


def environment(plane: ControlPlane, scratch: Path) -> dict[str, str]:
    """What a reader's terminal has: kubectl, helm and specloop in the path, and a kubeconfig."""
    tools = scratch / "tools"
    tools.mkdir()
    for name in ("kubectl", "helm"):
        (tools / name).symlink_to(plane.binaries[name])
    return {
        "HOME": str(scratch),
        "KUBECONFIG": str(shutil.copy(plane.admin.path, scratch / "kubeconfig")),
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPECLOOP_HEALTH_PORT": str(free_port()),
    }


def test_the_tutorial_shows_what_its_commands_print(shell: Shell) -> None:
    """All is as shown but figures, ages and names given by chance; UPDATE_TUTORIAL=1 writes the page anew."""
    page = PAGE.read_text(encoding="utf-8")
    now = replayed(page, shell.run)
    if os.environ.get("UPDATE_TUTORIAL"):
        PAGE.write_text(now, encoding="utf-8")
    else:
        assert shape(page)
        for shown, printed in zip(shape(page), shape(now), strict=True):
            assert printed == shown
