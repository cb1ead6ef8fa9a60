"""What the init container of `specloop inject` does: the plugin, copied to where vLLM's Python finds it."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.component.images.conftest import ROOT, VERSION
from tests.support.clean_root import Image
from tests.support.programs import run

pytestmark = pytest.mark.timeout(1200)  # as in test_operator_image.py, for both images are used

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  template:
    metadata: {labels: {app: llama}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.32.0
        args: [meta-llama/Llama-3.3-70B-Instruct, --port=8000]
"""
PLUGIN = ROOT / "operator" / "specloop_vllm"
IN_BOTH = pytest.mark.parametrize("image", ["plugin", "operator"])


@pytest.fixture
def injected(tmp_path: Path) -> dict[str, Any]:
    """The pod as `specloop inject` writes it."""
    manifest = tmp_path / "deployment.yaml"
    manifest.write_text(DEPLOYMENT)
    code, out, err = run("inject", "-f", str(manifest))
    assert code == 0, err
    spec: dict[str, Any] = yaml.safe_load(out)["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """An emptyDir: every user may write to it."""
    folder = tmp_path / "emptyDir"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@IN_BOTH
@pytest.mark.parametrize("user", ["", "1000:1000"], ids=["its own user", "the engine's user"])
def test_the_injected_command_copies_the_plugin_in_either_image(
    request: pytest.FixtureRequest, injected: dict[str, Any], volume: Path, image: str, user: str
) -> None:
    """All of it, and nothing but it; a second time as well, since a pod's sandbox may be made again."""
    made: Image = request.getfixturevalue(image)
    (first,) = injected["initContainers"]
    (mount,) = first["volumeMounts"]
    for _ in range(2):
        done = made.run(*first["command"], user=user, volumes={mount["mountPath"]: volume})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in volume.iterdir()] == ["specloop_vllm"]
    compared = filecmp.dircmp(PLUGIN, volume / "specloop_vllm", ignore=["__pycache__"])
    assert (compared.left_only, compared.right_only, compared.diff_files) == ([], [], [])
    assert compared.subdirs["schemas"].left_only == []


def test_what_is_copied_is_imported_from_where_the_engine_looks(
    plugin: Image, injected: dict[str, Any], volume: Path
) -> None:
    """By this Python, which has prometheus_client as vLLM's has; -P, so that nothing comes from where it is started."""
    (first,), (engine,) = injected["initContainers"], injected["containers"]
    assert plugin.run(*first["command"], volumes={first["volumeMounts"][0]["mountPath"]: volume}).returncode == 0
    variables = {one["name"]: one.get("value") for one in engine["env"]}
    assert variables["PYTHONPATH"] == first["volumeMounts"][0]["mountPath"]
    ask = "import specloop_vllm; print(specloop_vllm.__file__, specloop_vllm.Middleware.__name__)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", ask],
        env={**os.environ, "PYTHONPATH": str(volume), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [str(volume / "specloop_vllm" / "__init__.py"), "Middleware"]


def test_without_a_command_it_does_the_same(plugin: Image, injected: dict[str, Any]) -> None:
    """For whoever writes the init container by hand."""
    assert list(plugin.entrypoint) == injected["initContainers"][0]["command"]


def test_its_user_is_not_root_and_can_change_nothing_in_it(plugin: Image) -> None:
    """65532, as in the operator's."""
    assert plugin.user == "65532:65532"
    done = plugin.run("sh", "-c", "find / -xdev -user 65532; touch /usr/share/specloop/x", building=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Permission denied" in done.stderr


def test_it_is_small_and_says_what_it_is(plugin: Image) -> None:
    """Every node with a GPU pulls it: the plugin, a licence and a busybox of one megabyte, or Debian's of two."""
    size = sum(path.lstat().st_size for path in plugin.root.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < 5_000_000
    named = {name.removeprefix("org.opencontainers.image."): value for name, value in plugin.labels.items()}
    assert (named["title"], named["version"], named["licenses"]) == ("specloop-plugin", VERSION, "Apache-2.0")
