"""The programs of a real Kubernetes, as scripts/build-controlplane finds them."""

import os
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
    missing = [str(path) for path in paths.values() if not os.access(path, os.X_OK)]
    if missing or sys.platform != "linux":
        reason = f"no control plane ({', '.join(missing) or 'only on Linux'}): run scripts/build-controlplane"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return paths
