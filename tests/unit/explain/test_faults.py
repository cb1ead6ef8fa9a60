"""Faults of the engine: named, with the mend, and never a reason to go up."""

from dataclasses import replace

from tests.support.pages import START, Counted, idle
from tests.unit.explain.calls import DECLARED, Explain, decision

HEALTHY = idle(5, hot=True).after((0.85, 0.75, 0.65, 0.55, 0.45), drafts=9000, requests=240)


def test_a_dead_drafter_is_named_and_left_rather_than_given_a_smaller_k(explain: Explain) -> None:
    """Nothing accepted after a healthy past, and cool traffic: no rule about heat has a part in it."""
    cool = replace(HEALTHY, temperatures=None)
    after = cool.after((0.0,) * 5, drafts=9000, requests=240)
    rules = [{"name": "low", "when": {"acceptance": {"belowPercent": 40}}, "action": {"type": "StepDown"}}]
    answer = explain(cool, after, policy={**DECLARED, "rules": rules})
    assert answer["window"]["faults"] == ["DrafterDead"]
    assert decision(answer) == ("Alert", "k5", "low")
    assert "it was healthy before" in answer["now"]["reason"]
    assert "restart the pods" in answer["now"]["reason"]
    assert decision(answer, "ifItLasts") == ("StepDown", "ngram", "low")


def test_acceptance_that_collapses_as_soon_as_traffic_is_warm_is_the_sampler_s_mode(explain: Explain) -> None:
    after = HEALTHY.after((0.03, 0.0, 0.0, 0.0, 0.0), drafts=9000, requests=240, hot=240)
    answer = explain(HEALTHY, after)
    assert answer["window"]["faults"] == ["SamplerMode"]
    assert decision(answer)[0] == "Alert"
    assert "draft_sample_method" in answer["now"]["reason"]
    action, level, _ = decision(answer, "ifItLasts")
    assert action != "StepUp"
    assert level in ("ngram", "disabled")


def test_acceptance_near_one_with_answers_that_run_into_their_limit_is_suspect(explain: Explain) -> None:
    """200 of 240 answers: 83 %."""
    start = idle(3)
    answer = explain(start, start.after((0.995, 0.99, 0.985), drafts=9000, requests=240, cut=200), policy=DECLARED)
    assert answer["window"]["faults"] == ["OutputSuspect"]
    assert decision(answer) == ("Alert", "k3", "acceptance-healthy")
    assert "83 % of the answers run into their length limit" in answer["now"]["reason"]
    assert decision(answer, "ifItLasts")[:2] == ("Alert", "k3")  # no StepUp on it


def test_acceptance_near_one_with_answers_that_end_by_themselves_is_success(explain: Explain) -> None:
    start = idle(3)
    answer = explain(start, start.after((0.995, 0.99, 0.985), drafts=9000, requests=240), policy=DECLARED)
    assert answer["window"]["faults"] == []
    assert decision(answer, "ifItLasts") == ("StepUp", "k5", "acceptance-healthy")


def pod(survival: tuple[float, ...], *, older: float = 0.0) -> tuple[Counted, Counted]:
    start = idle(5, process_start=START - older)
    return start, start.after(survival, drafts=90000, requests=2400)


def test_one_old_pod_unlike_its_siblings_is_named_and_does_not_lower_the_level(explain: Explain) -> None:
    well = (0.85, 0.75, 0.65, 0.55, 0.45)
    pods = {"pod-a": pod(well), "pod-b": pod((0.3, 0.1, 0.05, 0.02, 0.01), older=7200.0), "pod-c": pod(well)}
    answer = explain.pods(pods)
    assert answer["window"]["faults"] == ["AgeDependent"]
    assert [one["faults"] for one in answer["pods"]] == [[], ["AgeDependent"], []]
    assert decision(answer) == ("Alert", "k5", None)
    assert "recycle pod-b" in answer["now"]["reason"]
    assert decision(answer, "ifItLasts")[:2] == ("Alert", "k5")


def test_the_text_names_the_fault(explain: Explain) -> None:
    cool = replace(HEALTHY, temperatures=None)
    text = explain.text(cool, cool.after((0.0,) * 5, drafts=9000, requests=240))
    assert "faults       DrafterDead\n" in text
    assert "now          Alert at k5\n" in text
