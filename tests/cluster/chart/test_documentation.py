"""What docs/install.md has a reader write is what the chart takes."""

import re
import subprocess
from pathlib import Path
from typing import Any

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


def test_plain_manifests_are_those_of_the_chart_with_their_namespace_first(chart: Chart, tmp_path: Path) -> None:
    """But for the pod of `helm test`, which nobody would start."""
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"namespaces": ["llm"], "replicas": 3}))
    command = [str(MANIFESTS), "specloop-system", f"--values={values}"]
    printed = list(yaml.safe_load_all(subprocess.check_output(command, text=True, cwd=tmp_path)))
    assert printed[0] == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "specloop-system"}}
    rendered = chart.render(namespaces=["llm"], replicas=3)
    assert printed[1:] == [one for one in rendered if one["kind"] != "Pod"]


def test_a_refusal_prints_no_half_of_the_manifests(chart: Chart) -> None:
    """They may be on their way into kubectl."""
    result = subprocess.run(
        [MANIFESTS, "--set", "webhook.enabled=true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode != 0, result.stdout) == (True, "")
    assert "or anybody could post alerts" in result.stderr
