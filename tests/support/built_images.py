"""Images made by a real builder, where there is one that has their bases or can fetch them; as roots to look into."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.clean_root import Image

BUILD = Path(__file__).resolve().parents[2] / "scripts" / "build-images"
BUILDERS = ("buildah", "podman", "docker")
"""In the order in which scripts/build-images takes the first that works."""
FETCH_SECONDS = 120.0
BUILD_SECONDS = 500.0


def builder_with(bases: Iterable[str]) -> str | None:
    """The builder that scripts/build-images takes, if it has all bases or fetches them; None where not."""
    working = (name for name in BUILDERS if shutil.which(name) and _run(name, "info") is not None)
    name = next(working, None)
    return name if name and all(_has(name, base) for base in bases) else None


def build_images(builder: str, tag: str, into: Path) -> tuple[Image, Image]:
    """The operator's and the plugin's, as scripts/build-images makes them; copies, without the images themselves."""
    done = subprocess.run([BUILD, "--tag", tag], capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    names = re.findall(rf"^scripts/build-images: {builder} builds (\S+)$", done.stdout, re.MULTILINE)
    operator, plugin = (_unpacked(builder, name, into / str(number)) for number, name in enumerate(names))
    for name in names:
        _run(builder, "rmi", name)
    return operator, plugin


def _has(builder: str, base: str) -> bool:
    look = (builder, "inspect", "--type", "image", base)
    return _run(*look) is not None or _run(builder, "pull", base) is not None


def _unpacked(builder: str, name: str, root: Path) -> Image:
    """The files and the configuration, in the OCI image specification's words."""
    root.mkdir()
    found = json.loads(_surely(builder, "inspect", "--type", "image", name))
    if builder == "buildah":
        container = _surely(builder, "from", "--pull-never", name).strip()
        mounted = _surely(builder, "mount", container).strip()
        subprocess.run(["cp", "--archive", f"{mounted}/.", str(root)], check=True)
        config: dict[str, Any] = found["OCIv1"]["config"]
    else:
        container = _surely(builder, "create", name).strip()
        archive = root.with_suffix(".tar")
        _surely(builder, "export", "--output", str(archive), container)
        subprocess.run(["tar", "--extract", "--numeric-owner", "--file", archive, "--directory", root], check=True)
        archive.unlink()
        config = found[0]["Config"]
    _surely(builder, "rm", container)
    variables = dict(one.split("=", 1) for one in config["Env"])
    folder, entrypoint = config.get("WorkingDir") or "/", tuple(config["Entrypoint"])
    return Image(root, variables, folder, config["User"], entrypoint, config["Labels"])


def _surely(*command: str) -> str:
    said = _run(*command)
    assert said is not None, f"{' '.join(command)} failed"
    return said


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
