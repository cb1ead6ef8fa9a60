"""What docs/install.md has a reader write is what the chart takes."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.chart.conftest import CHART, Chart

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "install.md"
MANIFESTS = ROOT / "scripts" / "manifests"


def values_shown() -> list[dict[str, Any]]:
    """The blocks of the page that are values of the chart; others are Alertmanager's and a policy's."""
    known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")).keys()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = [yaml.safe_load(block) for block in blocks]
    return [one for one in found if one.keys() <= known]


def test_all_values_that_the_page_shows_are_taken_together(chart: Chart) -> None:
    """A reader gathers them in one file."""
    shown = values_shown()
    together = {name: value for one in shown for name, value in one.items()}
    assert sum(len(one) for one in shown) == len(together) >= 9
    kinds = {one["kind"] for one in chart.render(**together)}
    assert kinds >= {"PrometheusRule", "ServiceMonitor", "PodMonitor"}
    assert "ClusterRoleBinding" not in kinds


def printed(folder: Path, *arguments: str, values: Mapping[str, Any]) -> list[Any]:
    """What scripts/manifests prints in a folder with these values in values.yaml."""
    (folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    text = subprocess.check_output([str(MANIFESTS), *arguments], text=True, cwd=folder)
    return [one for one in yaml.safe_load_all(text) if one]


def test_plain_manifests_are_those_of_the_chart(chart: Chart, tmp_path: Path) -> None:
    """But for what `helm test` starts.  With a Namespace among them, to delete them would take all that is in it."""
    values = {"namespaces": ["llm"], "replicas": 3, "networkPolicies": {"enabled": True}}
    found = printed(tmp_path, "specloop-system", "--values=values.yaml", values=values)
    rendered = chart.render(**values)
    assert found == [one for one in rendered if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    assert "Namespace" not in {one["kind"] for one in found}


@pytest.mark.usefixtures("chart")
@pytest.mark.parametrize("values", [{"namespaces": ["llm"]}, {}], ids=["some namespaces", "all namespaces"])
def test_the_page_deletes_what_it_has_applied_but_the_definition(tmp_path: Path, values: dict[str, Any]) -> None:
    """By its very commands: those of another namespace would find the Roles of the governed ones alone."""
    page = PAGE.read_text(encoding="utf-8")
    [made] = re.findall(r"^\$ scripts/manifests (.*) > specloop\.yaml$", page, re.MULTILINE)
    [deleted] = re.findall(r"^\$ scripts/manifests (.*) \| kubectl delete -f -$", page, re.MULTILINE)
    before, after = (printed(tmp_path, *shlex.split(one), values=values) for one in (made, deleted))
    assert after == [one for one in before if one["kind"] != "CustomResourceDefinition"]
    assert len(after) == len(before) - 1


def test_a_refusal_prints_no_half_of_the_manifests(chart: Chart) -> None:
    """They may be on their way into kubectl."""
    result = subprocess.run(
        [MANIFESTS, "--set", "webhook.enabled=true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode != 0, result.stdout) == (True, "")
    assert "or anybody could post alerts" in result.stderr
