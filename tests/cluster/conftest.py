"""One control plane for all tests of a process; a namespace and a node for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.binaries import control_plane_binaries
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.controlplane import ControlPlane

LONGEST = "test_tutorial"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, or all wait for it in the end."""
    items.sort(key=lambda item: item.path.stem != LONGEST)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running control plane that knows SpecPolicies."""
    binaries = control_plane_binaries()
    with ControlPlane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        running.install_crds()
        yield running


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """A namespace of its own, with a node of eight GPUs."""
    with Cluster(control_plane, tmp_path) as one:
        yield one


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that has never heard of SpecLoop, with one namespace for engines."""
    with ControlPlane(control_plane_binaries(), tmp_path) as plane, Cluster(plane, tmp_path) as one:
        yield one
