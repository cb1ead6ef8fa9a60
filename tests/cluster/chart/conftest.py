"""The chart as Helm renders it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.binaries import BUILD

CHART = Path(__file__).parents[3] / "charts" / "specloop"
NAMESPACE = "specloop-system"
NO_HELM = "no helm: install it, or run scripts/build-controlplane"


class Refused(Exception):
    """Helm did not take the values; says why."""


class Chart:
    """The chart in its folder, and the helm that renders it as a release in a namespace."""

    def __init__(self, helm: str | Path, release: str = "specloop", namespace: str = NAMESPACE) -> None:
        self._helm = helm
        self._whose = (release, CHART, "--namespace", namespace)
        self._rendered: dict[str, str] = {}
        """What was rendered already, by the values."""

    def released(self, release: str, namespace: str) -> "Chart":
        """The same as another release."""
        return Chart(self._helm, release, namespace)

    def lint(self) -> str:
        """What `helm lint` says of the chart with its own values; raises Refused where it finds fault."""
        return self._run("lint", "--strict", CHART)

    def render(self, **values: Any) -> Sequence[Mapping[str, Any]]:
        """Every manifest of the chart with these values."""
        command = ("template", *self._whose, "--values", "-")
        given = json.dumps(values)
        if given not in self._rendered:
            self._rendered[given] = self._run(*command, given=given)
        # The definition is long, and most of the time goes into reading it.
        return [one for one in yaml.load_all(self._rendered[given], Loader=yaml.CSafeLoader) if one]

    def notes(self, **values: Any) -> str:
        """What is printed after an installation with these values."""
        command = ("install", *self._whose, "--dry-run=client", "--values", "-")
        return self._run(*command, given=json.dumps(values)).partition("NOTES:\n")[2]

    def one(self, kind: str, name: str = "specloop", **values: Any) -> Any:
        """The one manifest of this kind and name."""
        (found,) = [one for one in self.render(**values) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        return found

    def _run(self, *arguments: str | Path, given: str = "") -> str:
        result = subprocess.run([self._helm, *arguments], input=given, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Refused(result.stderr)
        return result.stdout


def helm() -> str | None:
    """The installed program, else the one that the control plane was built with."""
    built = subprocess.check_output([sys.executable, BUILD, "--paths"], text=True).splitlines()
    return shutil.which("helm") or shutil.which(dict(line.split(" ", 1) for line in built)["helm"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs helm where there is none, unless it is required; from a fixture each test would say so."""
    if os.environ.get("SPECLOOP_REQUIRE_ENGINES") or helm():
        return
    for item in items:
        if Path(__file__).parent in item.path.parents and "chart" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=NO_HELM))


@pytest.fixture(scope="session")
def chart() -> Chart:
    """The chart and the program that renders it."""
    return Chart(helm() or pytest.fail(NO_HELM))
