"""The shipped rules and the dashboard on what a real Prometheus scraped: simulated engines and an operator's page."""

import time
from collections.abc import Iterator

import pytest

from tests.component.prometheus.servers import traffic, until
from tests.component.rules.scraped import Server, scraping
from tests.component.sim.servers import DRAFT_K5, MIDDLEWARE, serving
from tests.unit.monitoring.shipped import VARIABLES, alerts, dashboard, filled, panels, recorded, variable_queries

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(180)]

PANELS = {panel["title"]: panel for panel in panels()}
SPAN_SECONDS = 60
"""What is looked at: more than the test takes."""

ONLY_ELSEWHERE = frozenset({"specloop:model_acceptance:lifetime"})
"""Recorded from vLLM V0 alone, of which there is no simulated one."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has scraped two pods that draft with K = 5 and answer requests, until what is recorded was recorded."""
    flags = (*DRAFT_K5, *MIDDLEWARE)
    wanted = {name for name in recorded() if name not in ONLY_ELSEWHERE and not name.endswith("1h")}
    with (
        serving(*flags, speed=20) as a,
        serving(*flags, speed=20, seed=1) as b,
        scraping(tmp_path_factory.mktemp("prometheus"), {"a": a.url, "b": b.url}) as server,
    ):
        with traffic(a.url, b.url):
            until(lambda: wanted <= names(server, "specloop:.+"), "all is recorded")
        yield server


def names(server: Server, pattern: str) -> set[str]:
    """The names of all series that match."""
    return {one["metric"]["__name__"] for one in server.query(f'{{__name__=~"{pattern}"}}')}


def test_every_rule_is_evaluated_without_an_error(server: Server) -> None:
    assert {rule["name"] for rule in _rules(server)} == recorded().keys() | alerts().keys()
    until(lambda: all(rule["health"] != "unknown" for rule in _rules(server)), "all rules are evaluated")
    assert [(rule["name"], rule["lastError"]) for rule in _rules(server) if rule["health"] != "ok"] == []


def _rules(server: Server) -> list[dict[str, str]]:
    return [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(
    ("series", "labels"),
    [
        ("specloop:pod_draft_tokens:increase10m", {"namespace": "llm", "model_name": "tiny", "pod": "a"}),
        ("specloop:model_acceptance:ratio10m", {"namespace": "llm", "model_name": "tiny"}),
    ],
)
def test_what_is_recorded_carries_what_alerts_are_matched_by(
    server: Server, series: str, labels: dict[str, str]
) -> None:
    found = [one["metric"] for one in server.query(series)]
    assert {"__name__": series, **labels} in found


def test_the_interval_lies_round_the_acceptance_of_the_simulated_text(server: Server) -> None:
    """Chat is accepted at .75 at every position, so at (.75 + .75^2 + ... + .75^5) / 5 = 46 % with K = 5 (text.py)."""
    expected = sum(0.75**place for place in range(1, 6)) / 5
    (low,) = server.query("specloop:model_acceptance:low10m")
    (high,) = server.query("specloop:model_acceptance:high10m")
    assert float(low["value"][1]) < expected < float(high["value"][1])


def test_k_of_every_pod_is_recorded(server: Server) -> None:
    found = {one["metric"]["pod"]: one["value"][1] for one in server.query("specloop:pod_draft_length:max")}
    assert found == {"a": "5", "b": "5"}


@pytest.mark.parametrize("title", PANELS)
def test_every_panel_shows_something_of_it(server: Server, title: str) -> None:
    """Each query is answered, and of each panel one at least with data: there is no llama.cpp and no vLLM V0 here."""
    queries = [filled(target["expr"], {**VARIABLES, "$__rate_interval": "10s"}) for target in PANELS[title]["targets"]]
    now = time.time()
    span = {"start": f"{now - SPAN_SECONDS:.3f}", "end": f"{now:.3f}", "step": "1"}
    answers = [server.ask("query_range", query=query, **span)["result"] for query in queries]
    assert any(answers), queries


@pytest.mark.parametrize("title", ["Operators up", "Leaders"])
def test_an_operator_that_two_jobs_scrape_is_one(server: Server, title: str) -> None:
    assert len(server.query("specloop_leader")) == 2
    [target] = PANELS[title]["targets"]
    assert [one["value"][1] for one in server.query(filled(target["expr"]))] == ["1"]


def test_annotations_are_answered(server: Server) -> None:
    found = [filled(one["expr"]) for one in dashboard()["annotations"]["list"] if "expr" in one]
    assert len(found) == 2
    for query in found:
        server.query(query)


@pytest.mark.parametrize(("name", "selector", "label"), list(variable_queries()))
def test_every_variable_has_something_to_choose_from(server: Server, name: str, selector: str, label: str) -> None:
    found = server.ask(f"label/{label}/values", **{"match[]": selector})
    assert found == {"namespace": ["llm"], "policy": ["chat"], "model": ["tiny"]}[name]


def test_an_operator_that_is_scraped_is_not_missed(server: Server) -> None:
    """Nor does it lack a leader: its page says 1."""
    assert server.query('ALERTS{alertname=~"SpecLoop(OperatorDown|NoLeader|TwoLeaders)"}') == []
