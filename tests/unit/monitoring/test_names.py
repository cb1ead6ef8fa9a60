"""Every query asks for series and labels that exist."""

import re
from collections.abc import Mapping

import pytest

from tests.unit.monitoring.known import ALERTS, PAGES, SCRAPED, V0_GAUGE, all_series, engine_series
from tests.unit.monitoring.promql import read
from tests.unit.monitoring.shipped import dashboard_queries, recorded, rules, variable_queries

QUERIES = {
    **{f"rule {rule.get('record') or rule['alert']}": rule["expr"] for rule in rules()},
    **{f"panel {place}": query for place, query in dashboard_queries()},
    **{f"variable {name}": selector for name, selector, _ in variable_queries()},
}


Known = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    """Scraped and recorded series, each with the labels that it has in Prometheus."""
    found = {name: labels | SCRAPED for name, labels in all_series(tmp_path_factory.mktemp("plugin")).items()}
    for name, query in recorded().items():
        found[name] = labels_of_rule(name, query)
    return found | {ALERTS: frozenset({"alertname", "namespace", "pod", "model_name", "policy"})}


def labels_of_rule(name: str, query: str) -> frozenset[str]:
    """The labels of a recorded series: the level that its name begins with says which; its query must keep them."""
    level = name.removeprefix("specloop:").partition("_")[0]
    labels = {"model": frozenset({"namespace", "model_name"})}.get(level, frozenset({"namespace", "pod", "model_name"}))
    assert level in ("pod", "model", "siblings")
    for by in re.findall(r"^\s*(?:\w+ - )?(?:sum|max|avg|count) by \(([^)]*)\)", query):
        assert level == "siblings" or frozenset(by.split(", ")) == labels, name
    return labels


@pytest.mark.parametrize("place", QUERIES)
def test_every_series_that_a_query_names_exists(place: str, known: Known) -> None:
    """Recorded from a real engine, of the plugin, of the operator, or recorded by a rule."""
    found = read(QUERIES[place])
    assert found.names
    assert found.names - known.keys() == set()


@pytest.mark.parametrize("place", QUERIES)
def test_every_label_that_a_series_is_chosen_by_is_one_of_its_own(place: str, known: Known) -> None:
    """Otherwise it would choose nothing, or everything.  llama.cpp's pods get their `model_name` from the scrape."""
    wrong = {
        (name, label)
        for name, chosen in read(QUERIES[place]).series
        for label in chosen - known[name]
        if not (name.startswith("llamacpp:") and label == "model_name")
    }
    assert wrong == set()


@pytest.mark.parametrize("place", QUERIES)
def test_every_label_that_a_query_groups_by_is_on_a_series_of_it(place: str, known: Known) -> None:
    found = read(QUERIES[place])
    own = {label for name in found.names for label in known[name]}
    assert found.grouped - own - ({"model_name", "engine"} if "llamacpp:" in QUERIES[place] else set()) == set()


@pytest.mark.parametrize(("variable", "selector", "label"), list(variable_queries()))
def test_every_variable_lists_a_label_that_exists(variable: str, selector: str, label: str, known: Known) -> None:
    assert all(label in known[name] for name in read(selector).names), variable


def test_the_gauge_of_old_vllm_is_the_only_name_without_a_recorded_page() -> None:
    """Once a page has it, it is no exception any more."""
    pages = {name for name in engine_series() if name.startswith("vllm:")}
    assert V0_GAUGE in pages
    text = "".join(path.read_text() for path in PAGES.glob("*.txt"))
    assert {name for name in pages if f"\n{name}" not in text} == {V0_GAUGE}


def test_some_rule_asks_for_every_recorded_series() -> None:
    """What nobody asks for is not recorded."""
    asked = {name for rule in rules() for name in read(rule["expr"]).names}
    assert asked
    assert recorded().keys() - asked == set()


@pytest.mark.parametrize(
    ("query", "series", "grouped"),
    [
        ("up", {("up", ())}, ()),
        ('sum by (a, b) (rate(x:y_total{c="d e", f!~"g|h"}[5m])) > 0', {("x:y_total", ("c", "f"))}, ("a", "b")),
        ("a / on (n) group_left (m) b offset 2m", {("a", ()), ("b", ())}, ("n", "m")),
        ('{__name__=~"a|b", n="m"}', {("a", ("n",)), ("b", ("n",))}, ()),
        ("time() - max(a_b) > 7200 unless 0 * c", {("a_b", ()), ("c", ())}, ()),
        ('label_replace(a{c!~".{9,}", d="e"}, "n", "$1", "p", "(.+)-[a-z]{5}")', {("a", ("c", "d"))}, ()),
    ],
)
def test_series_and_labels_are_read_off_a_query(
    query: str, series: set[tuple[str, tuple[str, ...]]], grouped: tuple[str, ...]
) -> None:
    """What reads the queries for the other tests."""
    found = read(query)
    assert found.series == {(name, frozenset(labels)) for name, labels in series}
    assert found.grouped == set(grouped)
