"""What the documents tell to load and to ask, Prometheus takes."""

import json
from pathlib import Path

import pytest
import yaml

from tests.component.rules.promtool import run
from tests.unit.monitoring.shipped import PAGE, RULES
from tests.unit.monitoring.test_pages import PAGES, blocks, queries

pytestmark = pytest.mark.slow


def test_the_configuration_in_the_page_is_one_that_prometheus_loads(tmp_path: Path) -> None:
    """With the renaming of series in a job; Debian's Prometheus cannot ask Kubernetes, so that a target stands in."""
    text = PAGE.read_text(encoding="utf-8")
    documents = [yaml.safe_load(one) for one in blocks(text, "yaml")]
    (plain,) = [one for one in documents if "scrape_configs" in one]
    (renaming,) = [one for one in documents if "metric_relabel_configs" in one]
    plain["scrape_configs"][0] |= renaming
    for job in plain["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs")
        job["static_configs"] = [{"targets": ["127.0.0.1:9"]}]
    assert plain["rule_files"] == [RULES.name]
    (tmp_path / RULES.name).write_text(RULES.read_text(encoding="utf-8"))
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(plain))
    result = run("check", "config", path)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", PAGES)
def test_the_queries_of_a_runbook_can_be_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    rules = [{"record": f"a:b:c{place}", "expr": query} for place, query in enumerate(queries(name))]
    path.write_text(json.dumps({"groups": [{"name": name, "rules": rules}]}))
    result = run("check", "rules", path)
    assert result.returncode == 0, result.stdout
