"""The operator's image as a cluster starts it: read-only, as another user than root, and without what builds things."""

import asyncio
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml

from tests.component.images.api_server import empty_cluster
from tests.component.images.conftest import IMAGES, ROOT, VERSION
from tests.component.sim.servers import free_port
from tests.support.clean_root import Image

pytestmark = pytest.mark.timeout(1200)  # the first test makes the images; on a busy machine that took four minutes

BUILDING = ("cc", "gcc", "g++", "c++", "clang", "ld", "as", "make", "uv", "uvx", "pip", "pip3", "pip3.11")
READY_SECONDS = 60.0
PACKAGES = ("specloop_policy", "specloop_engine", "specloop_control", "specloop_operator", "specloop_vllm",
            "specloop_sim", "specloop_cli")  # fmt: skip
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    found = importlib.import_module(name)
    for module in pkgutil.walk_packages(found.__path__, name + "."):
        if not module.name.endswith((".__main__", "specloop_vllm.scheduler")):
            importlib.import_module(module.name)
            print(module.name)
"""
"""Programs are started elsewhere; the scheduler is a class of vLLM, which is not here."""
DISTRIBUTIONS = """
import importlib.metadata, json
print(json.dumps({one.name.lower().replace("_", "-").replace(".", "-"): one.version
                  for one in importlib.metadata.distributions()}))
"""


def test_its_entry_point_is_the_operator(operator: Image) -> None:
    """With what the chart adds, as arguments."""
    done = operator.run(*operator.entrypoint, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m specloop_operator [-h] [--config FILE]")


def test_the_chart_starts_what_the_image_starts(operator: Image) -> None:
    """The chart names it again, so that an image that differs is found out here."""
    templates = ROOT / "charts" / "specloop" / "templates"
    (command,) = re.findall(r"^ +command: (\[.*\])$", (templates / "deployment.yaml").read_text(), re.MULTILINE)
    assert tuple(yaml.safe_load(command)) == operator.entrypoint


def test_its_user_is_a_number_and_not_root(operator: Image) -> None:
    """The chart says runAsNonRoot and no user, and the kubelet takes a name for no proof."""
    assert operator.user == "65532:65532"
    done = operator.run("python", "-c", "import os; print(os.getresuid(), os.getresgid(), os.getgroups())")
    assert done.stdout == f"{3 * (65532,)} {3 * (65532,)} []\n"


def test_settings_that_cannot_be_used_end_it_with_one_line(operator: Image, tmp_path: Path) -> None:
    """The file is mounted where the chart mounts it."""
    (tmp_path / "settings.yaml").write_text("healthPort: many\n")
    tmp_path.chmod(0o755)
    arguments = ("--config", "/etc/specloop/settings.yaml")
    done = operator.run(*operator.entrypoint, *arguments, volumes={"/etc/specloop": tmp_path})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("specloop-operator: /etc/specloop/settings.yaml: healthPort: must be")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("user", ["", "1000680000:0"], ids=["its own", "one of OpenShift"])
async def test_it_serves_on_a_read_only_root_and_ends_by_sigterm(operator: Image, tmp_path: Path, user: str) -> None:
    """It is the first process there, as in a container: the kernel hands such a one only signals that it asks for.

    OpenShift runs it as some number of the namespace's own range, which no file of the image knows, in the group root.
    """
    async with empty_cluster() as url:
        code, said = await asyncio.to_thread(_serve_and_end, operator, tmp_path, url, user)
    assert code == 0, said
    assert "Traceback" not in said
    assert "Read-only file system" not in said


def _serve_and_end(operator: Image, folder: Path, api_server: str, user: str) -> tuple[int, str]:
    """The exit code, and all that it said, of an operator that became ready and then got a SIGTERM."""
    port, log, kubeconfig = free_port(), folder / "log", folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(api_server)))
    kubeconfig.chmod(0o644)
    command = operator.command(
        *operator.entrypoint,
        volumes={"/etc/kubeconfig": kubeconfig},
        environment={"KUBECONFIG": "/etc/kubeconfig", "SPECLOOP_HEALTH_PORT": str(port)},
        network=True,
        user=user,
    )
    with log.open("w") as written, subprocess.Popen(command, stdout=written, stderr=written) as process:
        try:
            _until_ready(f"http://127.0.0.1:{port}/readyz", process, log)
            os.kill(_first_process(process.pid), signal.SIGTERM)
            code = process.wait(READY_SECONDS)
        finally:
            process.kill()  # and with it, by --kill-child, all that runs there
    return code, log.read_text()


def test_every_module_can_be_imported(operator: Image) -> None:
    """With no warning either."""
    done = operator.run("python", "-W", "error", "-c", IMPORT_ALL, *PACKAGES)
    assert (done.returncode, done.stderr) == (0, "")
    assert {f"{name}." for name in PACKAGES} <= {line[: line.index(".") + 1] for line in done.stdout.splitlines()}


def test_it_holds_what_the_lock_names_and_nothing_else(operator: Image) -> None:
    """Asked of uv: the versions for this machine, without those for development."""
    ask = [".venv/bin/uv", "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--no-annotate", "-q"]
    listed = subprocess.run([*ask, "--no-header"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {}
    for line in listed.splitlines():
        requirement, _, marker = line.partition(" ; ")
        if marker not in ("sys_platform == 'win32'", "python_full_version >= '3.14'"):
            name, _, number = requirement.partition("==")
            wanted[name] = number
    found = operator.run("python", "-c", DISTRIBUTIONS)
    assert json.loads(found.stdout) == {**wanted, "specloop": VERSION}


def test_the_command_line_is_in_it(operator: Image) -> None:
    """By its name, and with the policies that it knows by name."""
    assert operator.run("specloop", "--version").stdout == f"specloop {VERSION}\n"
    library = "specloop_cli.__path__[0] + '/library'"
    listed = operator.run("python", "-c", f"import os, specloop_cli; print(*sorted(os.listdir({library})))")
    assert listed.stdout.split() == sorted(path.name for path in (ROOT / "policies" / "library").iterdir())


@pytest.mark.parametrize("name", BUILDING)
def test_nothing_in_it_builds_or_installs_anything(operator: Image, name: str) -> None:
    """Looked for wherever programs lie, not only on the path."""
    places = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin", "opt/venv/bin")
    assert [place for place in places if (operator.root / place / name).exists()] == []


def test_no_python_in_it_knows_pip(operator: Image) -> None:
    """Neither the one of the programs nor that of the base, nor anything that could bring it."""
    ask = "import importlib.util as u; print([n for n in ('pip', 'ensurepip', 'setuptools') if u.find_spec(n)])"
    for python in ("/opt/venv/bin/python", "/usr/local/bin/python"):
        assert operator.run(python, "-c", ask).stdout == "[]\n"


def test_its_user_can_change_nothing_that_runs(operator: Image) -> None:
    """Even where the root is not read-only."""
    uid, gid = map(int, operator.user.split(":"))
    changeable = []
    for top in ("opt", "usr/share/specloop", "usr/local"):
        for path in (operator.root / top).rglob("*"):
            mode = path.lstat()
            if not stat.S_ISLNK(mode.st_mode):
                open_to_all = mode.st_mode & stat.S_IWOTH
                if open_to_all or mode.st_uid == uid or mode.st_gid == gid:
                    changeable.append(str(path))
    assert changeable == []


def test_all_bytecode_is_there_and_holds_whatever_the_time_of_its_source(operator: Image) -> None:
    """PEP 552: bytes 4 to 8 are the flags; 1 is a hash that is not checked. A builder may set all times anew."""
    sources = [path for path in (operator.root / "opt/venv/lib").rglob("*.py") if "tests" not in path.parts]
    assert len(sources) > 1000
    lacking = []
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        if not compiled.exists() or compiled.read_bytes()[4:8] != b"\x01\0\0\0":
            lacking.append(str(source))
    assert lacking == []


def test_it_says_what_it_is(operator: Image) -> None:
    """In the OCI image specification's annotations."""
    named = {name.removeprefix("org.opencontainers.image."): value for name, value in operator.labels.items()}
    assert (named["title"], named["version"], named["licenses"]) == ("specloop", VERSION, "Apache-2.0")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", named["created"])


def test_uv_is_that_of_the_set_up() -> None:
    """Another one might read the lock otherwise."""
    (here,) = re.findall(r"^ARG UV_VERSION=(.+)$", (IMAGES / "operator.Containerfile").read_text(), re.MULTILINE)
    (there,) = re.findall(r"^UV_VERSION=(.+)$", (ROOT / "scripts" / "setup").read_text(), re.MULTILINE)
    assert here == shlex.split(there)[0]


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def _until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline, answer = time.monotonic() + READY_SECONDS, ""
    while not answer.startswith("ok"):
        try:
            answer = httpx.get(url).text
        except httpx.TransportError as error:
            answer = str(error)
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{answer}\n{log.read_text()}"
        time.sleep(0.1)


def _first_process(unshare: int) -> int:
    """The one that `unshare` started, by its number on this machine: 1 in its own."""
    (child,) = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    return int(child)
