"""Faults of the engine: named with their mend, never mistaken for traffic, never a reason to go up."""

from dataclasses import replace
from typing import Any

import pytest

from specloop_policy.decision import ActionName, Decision, Inputs
from specloop_policy.observation import Window
from specloop_policy.policy import Policy
from specloop_policy.step import fresh, step
from tests.support.policies import policy_of, rule
from tests.support.windows import constant, measured, observe

LOW = rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)
HIGH = rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)
POLICY = policy_of(rules=[LOW, HIGH])
SILENT_RULES = policy_of(rules=[rule("never", {"kvCache": {"abovePercent": 100}}, "Disable")])


def decide(*windows: Window, level: str = "k5", policy: Policy = POLICY) -> Decision:
    """One decision about a target that has been at its level since long ago."""
    at = max(one.end for one in windows)
    return step(policy, fresh(level, -1e6), observe(policy.ladder, level, windows, replicas=3), Inputs(), at)[0]


def names(decision: Decision) -> list[str]:
    """The faults that a decision names."""
    return [fault.name for fault in decision.faults]


DEAD = replace(measured(constant(0.0, 5)), accepted_tokens_before=1e6)
SAMPLER = measured(constant(0.01, 5), hot_share=0.9)
SUSPECT = replace(measured(constant(0.98, 3), level="k3"), length_requests=200.0)


def test_zero_at_every_position_after_healthy_windows_is_a_dead_drafter() -> None:
    """vLLM 58080: exactly zero of 45,000; the drafter is left, not a smaller K, and the mend is named."""
    decision = decide(DEAD)
    assert names(decision) == ["DrafterDead"]
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "ngram")
    assert "it was healthy before" in decision.reason
    assert "restart the pods" in decision.reason


def test_a_dead_drafter_is_alerted_where_no_rule_says_to_leave_it() -> None:
    """The rules decide what is done; the alert comes without them."""
    decision = decide(DEAD, policy=SILENT_RULES)
    assert (decision.action, decision.level, names(decision)) == (ActionName.ALERT, "k5", ["DrafterDead"])


def test_collapse_in_hot_traffic_is_a_fault_of_the_sampler() -> None:
    """DeepSeek-V4-Flash fell to 10 %, others to nothing, as soon as T > 0; sampling alone costs 21 % of the length."""
    decision = decide(SAMPLER)
    assert names(decision) == ["SamplerMode"]
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "ngram")
    assert "draft_sample_method probabilistic" in decision.reason


def test_poor_acceptance_is_traffic_and_no_fault() -> None:
    """25 % at T of about 0.9, as in the field report, is what hot prose does to a greedy draft."""
    decision = decide(measured(constant(0.25, 5), hot_share=0.9))
    assert names(decision) == []
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "k3")


def test_acceptance_near_one_with_answers_that_never_end_is_suspect() -> None:
    """vLLM 44487: 98 % accepted and 200 of 240 answers at their limit; 98 % alone is success and goes up."""
    decision = decide(SUSPECT, level="k3")
    assert (decision.action, decision.level, names(decision)) == (ActionName.ALERT, "k3", ["OutputSuspect"])
    assert "83 % of the answers run into their length limit" in decision.reason
    assert decide(replace(SUSPECT, length_requests=20.0), level="k3").action is ActionName.STEP_UP


def fleet(oldest: float, others: float, *, starts: tuple[float, float, float] = (-9000.0, -1800.0, -1500.0)) -> Any:
    """Three pods at k3, the first the oldest, with these acceptance rates."""
    return [
        measured(constant(rate, 3), level="k3", pod=f"pod-{place}", process_start=start)
        for place, (rate, start) in enumerate(zip((oldest, others, others), starts, strict=True))
    ]


def test_one_pod_that_is_older_and_worse_is_recycled_and_the_others_decide() -> None:
    """sglang 28771: 3.33 to 1.90 tokens in two hours.  Without it the fleet is fine, and nothing is lowered."""
    decision = decide(*fleet(0.1, 0.6), level="k3")
    assert (decision.action, decision.level, names(decision)) == (ActionName.ALERT, "k3", ["AgeDependent"])
    assert "pod-0, the oldest pod, accepts 10 % where its siblings accept 60 %" in decision.reason
    assert "recycle pod-0" in decision.reason
    assert decision.faults[0].pods == ("pod-0",)


def test_the_others_may_lower_the_level_all_the_same() -> None:
    """10 % at the oldest, 30 % at the rest, limit 40."""
    decision = decide(*fleet(0.1, 0.3), level="k3")
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "ngram")
    assert "acceptance 30 %" in decision.reason


def test_a_difference_that_is_sure_but_small_is_nothing_to_restart_a_pod_for() -> None:
    """A million drafts a pod tell 58 % from 60 % for sure; the margin of five points says that it is no matter."""
    pods = [
        measured(constant(rate, 3), level="k3", pod=name, process_start=start, drafts=1e6, requests=2e4)
        for name, rate, start in (("pod-0", 0.58, -9000.0), ("pod-1", 0.6, -1800.0), ("pod-2", 0.6, -1500.0))
    ]
    assert names(decide(*pods, level="k3")) == []
    assert names(decide(replace(pods[0], accepted_tokens=0.5 * pods[0].draft_tokens), *pods[1:], level="k3")) == [
        "AgeDependent"
    ]


def test_an_old_pod_that_is_better_or_a_young_one_that_is_worse_is_no_matter_of_age() -> None:
    """Age makes worse, and only what is old."""
    assert names(decide(*fleet(0.9, 0.6), level="k3")) == []
    assert names(decide(*fleet(0.1, 0.6, starts=(-1500.0, -1800.0, -9000.0)), level="k3")) == []
    assert names(decide(*fleet(0.1, 0.6, starts=(-1500.0, -1500.0, -1500.0)), level="k3")) == []


GOOD = measured(constant(0.9, 3), level="k3")


@pytest.mark.parametrize(
    "windows",
    [
        [SUSPECT],
        fleet(0.6, 0.9),
    ],
    ids=["OutputSuspect", "AgeDependent"],
)
def test_no_fault_ever_leads_up(windows: list[Window]) -> None:
    """Though the rule for going up holds."""
    assert decide(GOOD, level="k3").action is ActionName.STEP_UP
    decision = decide(*windows, level="k3")
    assert (decision.action, decision.level) == (ActionName.ALERT, "k3")
    assert "a fault of the engine is no reason to go up" in decision.reason


def test_a_fault_starts_no_probe() -> None:
    """n-gram drafts and nothing is accepted: whatever is wrong there, k3 is not tried now."""
    dead = replace(measured(constant(0.0, 4), level="ngram"), level="ngram")
    decision = decide(dead, level="ngram", policy=SILENT_RULES)
    assert (decision.action, names(decision)) == (ActionName.ALERT, ["DrafterDead"])


def test_few_drafts_that_all_failed_are_no_dead_drafter_yet() -> None:
    """Nought of 60 independent drafts is up to 1.96^2 / (60 + 1.96^2) = 6 %: that may be bad luck."""
    few = measured(constant(0.0, 5), requests=60.0, drafts=60.0)
    assert names(decide(few)) == []
