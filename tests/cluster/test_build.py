"""How the programs of a real Kubernetes are found, or built once: the script itself, with a Go that only pretends."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster.binaries import BUILD

GO_SUM = Path(__file__).parents[1] / "controlplane" / "go.sum"
FOLDER = f"specloop/controlplane-{hashlib.sha256(GO_SUM.read_bytes()).hexdigest()[:16]}"
NAMES = ["etcd", "helm", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"]
FAKE_GO = """#!/bin/sh
# Writes what `go build -o FOLDER/` would, and what it was told.
echo "$* [$GOTOOLCHAIN,$GOFLAGS]" >> "$0.calls"
case $1 in
  version) echo "go version go{version} linux/amd64" ;;
  list) echo one; echo two; exit {list_code} ;;
  build)
    while [ "$1" != -o ]; do shift; done
    for name in kube-apiserver kube-controller-manager kube-scheduler kubectl server helm kwok; do
      printf '#!/bin/sh\\necho Kubernetes v1.37.2\\n' > "$2$name"
      chmod +x "$2$name"
    done
    exit {build_code} ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """A home without anything in it, and a pretended Go on the path."""

    home: Path

    @property
    def installed(self) -> Path:
        """Where the programs belong."""
        return self.home / FOLDER

    def with_go(self, version: str = "1.26.0", *, list_code: int = 0, build_code: int = 0) -> "Machine":
        """This machine with such a Go."""
        fake = self.home / "go"
        fake.write_text(FAKE_GO.format(version=version, list_code=list_code, build_code=build_code))
        fake.chmod(0o755)
        return self

    def calls(self, command: str) -> list[str]:
        """The calls of one of Go's commands."""
        return [line for line in (self.home / "go.calls").read_text().splitlines() if line.startswith(command)]

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """Start the script."""
        own = {"XDG_CACHE_HOME": str(self.home), "PATH": f"{self.home}:/usr/bin:/bin", "PIP_NO_INDEX": "1"}
        inherited = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
        return subprocess.Popen(
            [sys.executable, BUILD],
            env={**inherited, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, **environment: str) -> tuple[int, Mapping[str, str], str]:
        """Exit code, places by name, and what was said."""
        process = self.start(**environment)
        out, said = process.communicate(timeout=60.0)
        return process.returncode, dict(line.split(" ", 1) for line in out.splitlines()), said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine of its own."""
    return Machine(tmp_path)


def test_programs_are_built_once_into_a_folder_named_after_the_pins(machine: Machine) -> None:
    """Go's own name for etcd is that of its package's folder, server; the flags are those of Kubernetes' own build."""
    code, places, said = machine.with_go().run()
    assert code == 0, said
    assert sorted(places) == NAMES
    assert places["etcd"] == str(machine.installed / "server")
    assert all(os.access(path, os.X_OK) for path in places.values())
    assert "about 9 minutes" in said
    assert str(machine.installed) in said
    assert machine.run() == (0, places, "")
    [call] = machine.calls("build")
    assert "-X k8s.io/component-base/version.gitVersion=v1.37.2" in call
    assert call.endswith("[local,]")


def test_two_runs_at_once_build_once(machine: Machine) -> None:
    """The second waits for the first one's lock, and finds everything there."""
    machine.with_go()
    runs = [machine.start(), machine.start()]
    ends = [(run.communicate(timeout=60.0)[0], run.returncode) for run in runs]
    assert ends[0] == ends[1]
    assert ends[0][1] == 0
    assert len(machine.calls("build")) == 1


def test_a_failed_build_leaves_its_log_and_nothing_else(machine: Machine) -> None:
    """Half a folder would be taken for a whole one the next time."""
    code, _, said = machine.with_go(build_code=2).run()
    assert code == 1
    assert "go ended with 2" in said
    left = {path.name.removeprefix(machine.installed.name) for path in machine.installed.parent.iterdir()}
    assert left == {".lock", "-failed-build.log"}


@pytest.mark.parametrize(
    ("version", "list_code", "words"), [("1.26.0", 1, "source could not"), ("1.25.9", 0, "pip could not")]
)
def test_what_cannot_be_downloaded_is_missing(machine: Machine, version: str, list_code: int, words: str) -> None:
    """Sources on the one hand; on the other Go itself, where the one on the path is older than go.mod asks for."""
    code, _, said = machine.with_go(version, list_code=list_code).run()
    assert code == 3
    assert words in said


def put(folder: Path, *names: str) -> Path:
    """A folder with programs of these names."""
    folder.mkdir()
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_assets_come_first_and_the_cache_has_the_rest(machine: Machine) -> None:
    """The folder of the same variable that Go's envtest uses holds three of the seven."""
    assets = put(machine.home / "assets", "kube-apiserver", "etcd", "kubectl")
    code, places, said = machine.with_go().run(KUBEBUILDER_ASSETS=str(assets))
    assert code == 0, said
    given = {name for name, path in places.items() if Path(path).parent == assets}
    assert given == {"kube-apiserver", "etcd", "kubectl"}
    assert {Path(path).parent for name, path in places.items() if name not in given} == {machine.installed}


def test_whole_assets_need_no_build(machine: Machine) -> None:
    """Nobody asks for Go."""
    assets = put(machine.home / "assets", *NAMES)
    code, places, said = machine.run(KUBEBUILDER_ASSETS=str(assets))
    assert (code, said) == (0, "")
    assert {Path(path).parent for path in places.values()} == {assets}


def test_assets_without_etcd_are_refused_by_name(machine: Machine) -> None:
    """Somebody who names a folder wants that one; another etcd would be a surprise."""
    assets = put(machine.home / "assets", "kube-apiserver", "kubectl")
    code, _, said = machine.with_go().run(KUBEBUILDER_ASSETS=str(assets))
    assert code == 3
    assert f"KUBEBUILDER_ASSETS={assets} has no etcd" in said
