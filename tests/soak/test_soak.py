"""Ten minutes of all kinds of trouble at once, and what must hold during it and afterwards: docs/reliability.md.

SOAK_SEED is where the trouble comes from, SOAK_SECONDS how long it lasts.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from tests.support.cluster.binaries import control_plane_binaries
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.controlplane import ControlPlane
from tests.support.soak_plan import plan
from tests.support.soak_run import AROUND_SECONDS, REST_SECONDS, soak
from tests.support.soak_scene import GPUS

SECONDS = float(os.environ.get("SOAK_SECONDS") or 600)
SEED = int(os.environ.get("SOAK_SEED") or SystemRandom().randrange(10**6))
FULL_SECONDS = 600.0
"""A run of this length, the default, says something of everything; a shorter one tries the soak itself."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(SECONDS + REST_SECONDS + AROUND_SECONDS)]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Cluster]:
    """A namespace with a node, of a control plane of its own."""
    with ControlPlane(control_plane_binaries(), tmp_path_factory.mktemp("control-plane")) as control_plane:
        control_plane.install_crds()
        with Cluster(control_plane, tmp_path, gpus=GPUS) as one:
            yield one


def test_whatever_is_done_to_operators_all_comes_to_rest_and_nothing_was_written_without_the_lease(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Killed, stopped and cut off operators, a Prometheus that fails, pods that come and go, people, and alerts."""
    print(f"\nSOAK_SEED={SEED} SOAK_SECONDS={SECONDS:g}")
    problems = soak(cluster, tmp_path, plan(SEED, SECONDS), memory=SECONDS >= FULL_SECONDS)
    assert problems == [], "\n".join((f"SOAK_SEED={SEED}", *problems))
