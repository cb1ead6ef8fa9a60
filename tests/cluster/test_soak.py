"""A minute of `make soak`, so that what it is made of is tried with every change: docs/reliability.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.controlplane import ControlPlane
from tests.support.soak_plan import each_once
from tests.support.soak_run import AROUND_SECONDS, REST_SECONDS, soak
from tests.support.soak_scene import GPUS

SEED, SECONDS = 7, 60.0
"""The longest trouble takes a minute."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(SECONDS + REST_SECONDS + AROUND_SECONDS)]


@pytest.fixture
def roomy(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """A namespace with a node for all targets."""
    with Cluster(control_plane, tmp_path, gpus=GPUS) as one:
        yield one


def test_after_each_kind_of_trouble_all_comes_to_rest_and_nothing_was_written_without_the_lease(
    roomy: Cluster, tmp_path: Path
) -> None:
    """All that the long one looks at but memory, of which so short a run says nothing."""
    problems = soak(roomy, tmp_path, each_once(SEED, SECONDS), memory=False)
    assert problems == [], "\n".join(problems)
