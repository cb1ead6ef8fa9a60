"""Limits of the alerts are those of the operator's own rules and faults."""

import re

import pytest

from specloop_engine.reader import TOKENS_PER_REQUEST
from specloop_policy.acceptance import standard_errors
from specloop_policy.faults import EVERYTHING_ACCEPTED, NOTHING_ACCEPTED
from specloop_policy.guardrails import DAY_SECONDS
from specloop_policy.model import CostModelSpec, Rollout, Signals, SpecPolicySpec
from specloop_policy.policy import resolve
from tests.unit.monitoring.shipped import alerts, recorded


def limits(alert: str, pattern: str) -> set[float]:
    """The numbers that an alert's query compares something with."""
    found = re.findall(pattern + r"\s*(?:<|>|<=|>=|==)\s*([\d.]+)", alerts()[alert]["expr"])
    assert found
    return {float(one) for one in found}


@pytest.mark.parametrize(
    "alert",
    [
        "SpecDecodeAcceptanceLow",
        "SpecDecodeSamplerMode",
        "SpecDecodeDrafterDead",
        "SpecDecodeOutputSuspect",
        "SpecDecodePodUnlikeSiblings",
    ],
)
def test_the_least_number_of_requests_is_a_policys_own(alert: str) -> None:
    assert limits(alert, r"finished_requests:\w+") == {Signals().min_requests}


def test_acceptance_is_low_where_the_default_rules_step_down() -> None:
    spec = SpecPolicySpec.model_validate({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}})
    rules = {rule.name: rule for rule in resolve("a", spec, enforce=True).rules}
    low = rules["acceptance-low"]
    assert low.when.acceptance is not None
    assert low.when.acceptance.below_percent is not None
    share = low.when.acceptance.below_percent / 100
    assert limits("SpecDecodeAcceptanceLow", r"acceptance:\w+") == {share}
    assert alerts()["SpecDecodeAcceptanceLow"]["for"] == f"{low.for_seconds // 60}m"


def test_faults_are_found_at_the_same_limits() -> None:
    for alert in ("SpecDecodeSamplerMode", "SpecDecodeDrafterDead"):
        assert limits(alert, "acceptance:high10m") == {NOTHING_ACCEPTED}
        assert limits(alert, "hot_share:low10m") == {0.5}
    assert limits("SpecDecodeOutputSuspect", "acceptance:low10m") == {EVERYTHING_ACCEPTED}
    assert limits("SpecDecodeOutputSuspect", "length_share:ratio10m") == {0.5}


def test_a_pod_is_unlike_its_siblings_by_more_than_a_policys_margin() -> None:
    query = alerts()["SpecDecodePodUnlikeSiblings"]["expr"]
    assert f"siblings_acceptance:low1h - {CostModelSpec().margin_percent / 100}" in query


def test_draft_tokens_are_worth_as_many_trials_as_in_a_policy() -> None:
    queries = [query for name, query in recorded().items() if "_trials:" in name]
    assert len(queries) == 3
    for query in queries:
        assert f", 1, {Signals().design_effect})" in query


def test_llama_cpps_tokens_stand_for_as_many_requests() -> None:
    assert f"/ {TOKENS_PER_REQUEST:.0f}" in recorded()["specloop:pod_finished_requests:increase10m"]


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("specloop:model_acceptance:low10m", 1),
        ("specloop:model_acceptance:high10m", 1),
        ("specloop:model_hot_share:low10m", 1),
        # A pod is looked at once a window, all day: `_surely` in faults.py.
        ("specloop:pod_acceptance:high1h", int(DAY_SECONDS / Signals().window_seconds) + 1),
        ("specloop:siblings_acceptance:low1h", int(DAY_SECONDS / Signals().window_seconds) + 1),
    ],
)
def test_an_interval_is_wilsons_with_as_many_standard_errors_as_a_policy_takes(name: str, looks: int) -> None:
    """In the formula stand z, z^2 / 2, z^2 / 4 and z^2, rounded."""
    query, z = recorded()[name], standard_errors(looks)
    (half,) = re.findall(r"(?:ratio10m|ratio1h) \+ ([\d.]+) /", query)
    (factor,) = re.findall(r"([\d.]+) \* sqrt", query)
    (quarter,) = re.findall(r"\+ ([\d.]+) / specloop:\w+:\w+ \^ 2", query)
    (whole,) = re.findall(r"/ \(1 \+ ([\d.]+) /", query)
    found = [float(one) for one in (factor, half, quarter, whole)]
    assert found == pytest.approx([z, z * z / 2, z * z / 4, z * z], rel=0.001)


def test_a_rollout_is_stuck_after_four_deadlines() -> None:
    """Getting ready, soaking, promoting, going back."""
    limit = re.search(r"> (\d+)", alerts()["SpecLoopRolloutStuck"]["expr"])
    assert limit
    assert int(limit[1]) == 4 * Rollout().progress_deadline_seconds
