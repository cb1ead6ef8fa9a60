"""The operator's own metrics: named as Prometheus wants them, bounded, and gone with their policy."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from specloop_operator.conditions import ConditionType
from specloop_operator.families import FAMILIES, TickResult
from specloop_operator.metrics import Metrics
from specloop_policy.canary import Ending
from specloop_policy.decision import ActionName
from specloop_policy.observation import Outcome
from specloop_policy.status import ConditionStatus


def series(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scrape finds: every sample by name and labels."""
    page = generate_latest(metrics.registry).decode()
    families = text_string_to_metric_families(page)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One sample; None where there is none."""
    return series(metrics).get((name, frozenset(labels.items())))


def of_policy(metrics: Metrics, namespace: str, policy: str) -> list[tuple[str, Mapping[str, str]]]:
    """Every series of a policy."""
    labels = {("namespace", namespace), ("policy", policy)}
    return [(name, dict(found)) for name, found in series(metrics) if labels <= found]


def filled(metrics: Metrics, namespace: str, policy: str) -> None:
    """Show everything of a policy that can be shown."""
    metrics.introduce(namespace, policy)
    for action in ActionName:
        metrics.decided(namespace, policy, action)
    metrics.windows(namespace, policy, Outcome)
    for result in Ending:
        metrics.rolled_out(namespace, policy, result)
    metrics.watch_failed(namespace, policy)
    for type_ in ConditionType:
        metrics.condition(namespace, policy, type_, ConditionStatus.TRUE)
    metrics.levels(namespace, policy, "k5", "k3")
    metrics.acceptance(namespace, policy, 0.5)


def test_the_registry_holds_the_families_of_the_table_and_those_of_the_process() -> None:
    """A family outside the table would be missing in the reference."""
    names = {family.name for family in Metrics("1.0").registry.collect()}
    ours = {family.name.removesuffix("_total") for family in FAMILIES}  # the client adds the suffix to samples
    assert {name for name in names if not name.startswith("process_")} == ours


def test_names_keep_the_conventions_of_prometheus() -> None:
    """One prefix; `_total` for counters and nothing else; base units (prometheus.io/docs/practices/naming)."""
    for family in FAMILIES:
        assert family.name.startswith("specloop_")
        assert family.name.endswith("_total") == (family.kind is Counter)
        assert not family.name.endswith(("_milliseconds", "_percent"))
        if family.name.endswith("_info"):
            assert family.kind is Gauge


def test_decisions_are_counted_by_action() -> None:
    """Two holds and a step down."""
    metrics = Metrics("1.0")
    for action in (ActionName.HOLD, ActionName.HOLD, ActionName.STEP_DOWN):
        metrics.decided("llm", "chat", action)
    assert value(metrics, "specloop_decisions_total", namespace="llm", policy="chat", action="Hold") == 2
    assert value(metrics, "specloop_decisions_total", namespace="llm", policy="chat", action="StepDown") == 1


def test_a_policy_that_is_introduced_begins_its_counters_at_nought() -> None:
    """The first roll-back of all would otherwise be invisible to `increase`."""
    metrics = Metrics("1.0")
    metrics.introduce("llm", "chat")
    labels = {"namespace": "llm", "policy": "chat", "result": "Failed"}
    assert value(metrics, "specloop_rollouts_total", **labels) == 0


def test_a_level_that_is_left_has_no_series_any_more() -> None:
    """Otherwise a target would seem to run two levels."""
    metrics = Metrics("1.0")
    metrics.levels("llm", "chat", "k5", "k5")
    metrics.levels("llm", "chat", "k5", "k3")
    metrics.levels("llm", "chat", "k3", "k3")
    found = [labels for name, labels in of_policy(metrics, "llm", "chat") if name == "specloop_level_info"]
    assert sorted((labels["kind"], labels["level"]) for labels in found) == [("desired", "k3"), ("observed", "k3")]


def test_what_is_not_known_has_no_series() -> None:
    """Neither an unknown level nor an unknown acceptance is shown as something."""
    metrics = Metrics("1.0")
    metrics.levels("llm", "chat", "k5", "k5")
    metrics.acceptance("llm", "chat", 0.6)
    metrics.levels("llm", "chat", None, None)
    metrics.acceptance("llm", "chat", None)
    metrics.acceptance("llm", "chat", None)
    assert of_policy(metrics, "llm", "chat") == []


def test_conditions_are_one_nought_and_minus_one() -> None:
    """True, False, Unknown."""
    metrics = Metrics("1.0")
    found = []
    for status in (ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN):
        metrics.condition("llm", "chat", "Ready", status)
        found.append(value(metrics, "specloop_condition", namespace="llm", policy="chat", type="Ready"))
    assert found == [1, 0, -1]


def test_a_policy_has_a_bounded_number_of_series() -> None:
    """7 actions, 10 outcomes, 7 results, 1 of watches, 9 conditions, 2 levels, 1 acceptance."""
    metrics = Metrics("1.0")
    filled(metrics, "llm", "chat")
    for number in range(100):
        metrics.levels("llm", "chat", f"k{number}", f"k{number + 1}")
    assert len(of_policy(metrics, "llm", "chat")) == 7 + 10 + 7 + 1 + 9 + 2 + 1


def test_a_policy_that_is_forgotten_takes_its_series_with_it_and_no_others() -> None:
    """Two policies share a name, two a namespace."""
    metrics = Metrics("1.0")
    for namespace, policy in (("llm", "chat"), ("llm", "code"), ("lab", "chat")):
        filled(metrics, namespace, policy)
    metrics.forget("llm", "chat")
    metrics.forget("llm", "chat")
    assert of_policy(metrics, "llm", "chat") == []
    assert len(of_policy(metrics, "llm", "code")) == len(of_policy(metrics, "lab", "chat")) == 37


def test_a_policy_made_anew_begins_anew() -> None:
    """It has the same name, and the level shown before was dropped with the series."""
    metrics = Metrics("1.0")
    filled(metrics, "llm", "chat")
    metrics.forget("llm", "chat")
    metrics.levels("llm", "chat", "k5", None)
    metrics.decided("llm", "chat", ActionName.HOLD)
    assert value(metrics, "specloop_decisions_total", namespace="llm", policy="chat", action="Hold") == 1
    assert value(metrics, "specloop_level_info", namespace="llm", policy="chat", kind="observed", level="k5") == 1


def test_ticks_are_counted_and_timed() -> None:
    """0.2 s + 0.3 s in two ticks."""
    metrics = Metrics("1.0")
    metrics.ticked(0.2, TickResult.DONE)
    metrics.ticked(0.3, TickResult.FAILED)
    assert value(metrics, "specloop_tick_seconds_sum") == 0.5
    assert value(metrics, "specloop_tick_seconds_count") == 2
    counts = [value(metrics, "specloop_ticks_total", result=result) for result in ("done", "conflict", "failed")]
    assert counts == [1, 0, 1]


def test_sources_show_their_answers_and_whether_they_are_up() -> None:
    """97 pods answered and 3 did not; the source as a whole is up."""
    metrics = Metrics("1.0")
    metrics.queried("default", 97, 3)
    metrics.queried("thanos", 0, 1)
    assert value(metrics, "specloop_source_queries_total", source="default", result="answered") == 97
    assert value(metrics, "specloop_source_queries_total", source="default", result="failed") == 3
    assert [value(metrics, "specloop_source_up", source=source) for source in ("default", "thanos")] == [1, 0]


def test_the_build_is_shown() -> None:
    """The version is what the program was told."""
    (found,) = [dict(labels) for name, labels in series(Metrics("1.2.3")) if name == "specloop_build_info"]
    assert found["version"] == "1.2.3"


def test_roll_outs_under_way_are_shown() -> None:
    """The latest count stands."""
    metrics = Metrics("1.0")
    metrics.rollouts_in_progress(2)
    metrics.rollouts_in_progress(1)
    assert value(metrics, "specloop_rollouts_in_progress") == 1
