"""The programs of a real Kubernetes, as scripts/build-controlplane finds them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[3] / "scripts" / "build-controlplane"


def control_plane_binaries() -> Mapping[str, Path]:
    """Programs by name; where one is missing, tests are skipped, or fail if they are required."""
    lines = subprocess.check_output([sys.executable, BUILD, "--paths"], text=True).splitlines()
    paths = {name: Path(path) for name, path in (line.split(" ", 1) for line in lines)}
    missing = [name for name, path in paths.items() if not os.access(path, os.X_OK)]
    missing += [name for name in ("openssl", "setpriv") if shutil.which(name) is None]
    if missing:
        reason = f"no Kubernetes to test with: run scripts/build-controlplane; missing: {', '.join(missing)}"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return paths
