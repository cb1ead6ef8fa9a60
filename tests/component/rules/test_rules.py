"""Every alert fires when it should, and is silent when it should not; promtool says so."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.component.rules import engine_cases, policy_cases
from tests.component.rules.promtool import Case, play, run, silenced
from tests.unit.monitoring.shipped import RULES, alerts, dashboard_queries, groups

CASES = {f"{one.alert}: {one.name}": one for one in (*engine_cases.CASES, *policy_cases.CASES)}
FIRING = {name: one for name, one in CASES.items() if one.fires}


pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What promtool finds wrong with each case."""
    return play(CASES, tmp_path_factory.mktemp("cases"), groups())


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should_and_only_then(name: str, wrong: Mapping[str, str | None]) -> None:
    assert wrong[name] is None


def test_a_case_that_fires_fails_where_the_alert_says_nothing(tmp_path: Path) -> None:
    """Otherwise it would prove nothing."""
    found = play(FIRING, tmp_path, silenced())
    assert [name for name in FIRING if "got:[]" not in (found[name] or "")] == []


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    """Where series are there and all is well, not only where nothing is scraped or the time is not up."""
    assert {one.alert for one in FIRING.values()} == alerts().keys()
    silent = {one.alert for one in CASES.values() if one.series and not one.fires and not one.pending}
    assert silent == alerts().keys()


def test_a_pod_of_v0_that_has_not_drafted_yet_does_not_hide_the_others_from_the_dashboard(tmp_path: Path) -> None:
    """Its gauge is NaN, and so would be the mean."""
    query = dict(dashboard_queries())["Acceptance C"]
    series = engine_cases.old_vllm(engine_cases.steady(0.2)) | engine_cases.old_vllm("NaN NaN NaN", pod="new")
    expected = {"labels": '{namespace="llm", model_name="m"}', "value": 0.2}
    one = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "2m", "exp_samples": [expected]}],
    }
    path = tmp_path / "panel.yml"
    path.write_text(json.dumps({"tests": [one]}))
    result = run("test", "rules", path)
    assert result.returncode == 0, result.stdout


def test_no_two_cases_have_one_name() -> None:
    """The later one would hide the earlier."""
    assert len(CASES) == len(engine_cases.CASES) + len(policy_cases.CASES)


def test_promtool_finds_no_fault_with_the_rules() -> None:
    result = run("check", "rules", "--lint-fatal", RULES)
    assert result.returncode == 0, result.stdout


def test_two_alerts_are_told_apart_by_what_they_are_about(tmp_path: Path) -> None:
    """Pods of two namespaces make two alerts, so that each finds its own policies."""
    both = engine_cases.engine() | engine_cases.engine("b", namespace="other", accepted=630)
    case = Case("two namespaces", "SpecDecodeAcceptanceLow", both, [engine_cases.MODEL], engine_cases.low("30%"))
    assert play({case.name: case}, tmp_path, groups()) == {case.name: None}
