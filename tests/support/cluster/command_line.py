"""`specloop` as a person runs it, against the cluster of a test."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.cluster.cluster import Cluster, ProgramFailed
from tests.support.cluster.environment import Object

PROGRAM = Path(sys.executable).with_name("specloop")
SECONDS = 180.0


def run_specloop(cluster: Cluster, *arguments: str) -> str:
    """What it prints; raises ProgramFailed."""
    where = [f"--kubeconfig={cluster.control_plane.admin.path}", f"--namespace={cluster.namespace}"]
    result = subprocess.run([PROGRAM, *arguments, *where], capture_output=True, text=True, timeout=SECONDS)
    if result.returncode not in (0, 1):
        raise ProgramFailed(f"specloop {' '.join(arguments)}: {result.stderr}")
    return result.stdout


def asked_specloop(cluster: Cluster, *arguments: str) -> Object:
    """Its answer as a document; raises ProgramFailed."""
    document: Object = json.loads(run_specloop(cluster, *arguments, "--output=json"))
    return document
