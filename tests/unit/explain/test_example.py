"""The example of the documentation, figure by figure, and the shape of the answer."""

import json
from typing import Any

import pytest

from tests.support.pages import idle
from tests.unit.explain.calls import Explain, decision

SURVIVAL = (0.62, 0.41, 0.28, 0.18, 0.11)

BEFORE = idle(5, hot=True).after((0.7, 0.5, 0.4, 0.3, 0.2), drafts=1000, requests=40)
"""An hour of other traffic, of which nothing may be counted."""

AFTER = BEFORE.after(SURVIVAL, drafts=9000, requests=240, coverage=0.98, hot=28.8)

WINDOW_KEYS = [
    *("outcome", "elapsedSeconds", "finishedRequests", "drafts", "draftTokens", "acceptedTokens", "acceptanceRate"),
    *("acceptanceRateInterval", "acceptanceLength", "survival", "coverage", "temperatureShareAbove", "faults"),
]
DECISION_KEYS = ["action", "level", "rule", "reason"]


@pytest.fixture
def answer(explain: Explain) -> dict[str, Any]:
    return explain(BEFORE, AFTER)


def test_the_figures_are_those_of_the_documentation(answer: dict[str, Any]) -> None:
    """14400 of 45000 is .32; the length is 1 + 14400/9000 = 2.6; 28.8 of 240 requests are 12 %.

    45000 draft tokens of 240 requests are 187.5 each, so worth 45000/50 = 900 independent ones: the interval is
    .32 ± 1.96 √(.32 · .68 / 900) = .32 ± .0305.
    """
    window = answer["window"]
    interval = window.pop("acceptanceRateInterval")
    assert {key: window[key] for key in WINDOW_KEYS if key in window} == {
        "outcome": "Measured",
        "elapsedSeconds": 300,
        "finishedRequests": 240,
        "drafts": 9000,
        "draftTokens": 45000,
        "acceptedTokens": 14400,
        "acceptanceRate": pytest.approx(0.32),
        "acceptanceLength": pytest.approx(2.6),
        "survival": pytest.approx(SURVIVAL),
        "coverage": pytest.approx(0.98),
        "temperatureShareAbove": {"0.6": pytest.approx(0.12)},
        "faults": [],
    }
    assert [round(bound, 2) for bound in interval] == [0.29, 0.35]


def test_now_the_rule_has_only_begun_to_hold(answer: dict[str, Any]) -> None:
    assert decision(answer) == ("Hold", "k5", "acceptance-low")
    reason = answer["now"]["reason"]
    assert "acceptance 32 % (29 to 35 %) over 300 s is below the limit of 40 %" in reason
    assert "0 of the 600 s" in reason


def test_if_it_lasts_the_rule_steps_down_after_its_duration(answer: dict[str, Any]) -> None:
    assert decision(answer, "ifItLasts") == ("StepDown", "k3", "acceptance-low")
    assert answer["ifItLasts"]["afterSeconds"] == 600
    assert "32 %" in answer["ifItLasts"]["reason"]


def test_every_promised_key_is_there(answer: dict[str, Any]) -> None:
    assert list(answer) == ["policy", "pods", "window", "now", "ifItLasts"]
    assert answer["policy"] == "chat-70b"
    assert set(WINDOW_KEYS) <= set(answer["window"])
    assert list(answer["now"]) == DECISION_KEYS
    assert list(answer["ifItLasts"]) == [*DECISION_KEYS, "afterSeconds"]
    [pod] = answer["pods"]
    assert {"pod", "reason", *WINDOW_KEYS} <= set(pod)


def test_every_key_is_in_camel_case(answer: dict[str, Any]) -> None:
    keys = [key for part in (answer, answer["window"], answer["pods"][0], answer["ifItLasts"]) for key in part]
    assert [key for key in keys if not (key[0].islower() and key.isalnum())] == []


def test_the_only_pod_shows_what_the_window_shows(answer: dict[str, Any]) -> None:
    [pod] = answer["pods"]
    assert {key: pod[key] for key in answer["window"]} == answer["window"]


def test_the_same_pages_give_the_same_bytes(explain: Explain) -> None:
    arguments = [*explain.arguments({"": (BEFORE, AFTER)}, None), "-o", "json"]
    assert explain.run(*arguments) == explain.run(*arguments)


def test_a_count_of_a_whole_number_is_printed_as_one(explain: Explain) -> None:
    _, out, _ = explain.run(*explain.arguments({"": (BEFORE, AFTER)}, None), "-o", "json")
    assert '"finishedRequests": 240,' in out
    assert '"draftTokens": 45000,' in out


def test_the_text_says_the_same_in_plain_words(explain: Explain) -> None:
    """Every line that somebody reads at night; what is not known is left out, and no line is cut."""
    assert explain.text(BEFORE, AFTER) == (
        "policy       chat-70b\n"
        "window       Measured, 300 s\n"
        "traffic      240 finished requests, 8 running per pod, KV cache 40 % full\n"
        "temperature  12 % of the requests above 0.6\n"
        "acceptance   32 % (29 to 35 %): 14,400 of 45,000 draft tokens, by position 62 41 28 18 11 %\n"
        "coverage     98 % of the decode steps drafted\n"
        "\n"
        "now          Hold at k5\n"
        "             acceptance 32 % (29 to 35 %) over 300 s is below the limit of 40 % (rule acceptance-low): held "
        "for 0 of the 600 s asked for\n"
        "if it lasts  StepDown to k3 after 600 s\n"
        "             acceptance 32 % (29 to 35 %) over 300 s is below the limit of 40 %, for 600 s (rule "
        "acceptance-low): from k5 to k3\n"
    )


def test_a_page_without_temperatures_says_nothing_of_them(explain: Explain) -> None:
    cold = idle(5)
    answer = explain(cold, cold.after(SURVIVAL, drafts=9000, requests=240))
    assert answer["window"]["temperatureShareAbove"] == {}


def test_shares_are_given_for_every_limit_that_a_rule_names(explain: Explain) -> None:
    """240 requests at 0.2 and 60 of them at 0.8: 25 % above 0.6, all above 0.1, none above 0.9."""
    rules = [
        {"name": f"above-{place}", "when": {"temperature": {"above": limit}}, "action": {"type": "Alert"}}
        for place, limit in enumerate(("0.6", "0.1", "0.9"))
    ]
    start = idle(5, hot=True)
    answer = explain(start, start.after(SURVIVAL, drafts=9000, requests=240, hot=60), policy={"rules": rules})
    assert answer["window"]["temperatureShareAbove"] == {"0.1": 1.0, "0.6": 0.25, "0.9": 0.0}


def test_an_answer_can_be_read_back_from_standard_output_alone(explain: Explain) -> None:
    code, out, err = explain.run(*explain.arguments({"": (BEFORE, AFTER)}, None), "--output", "json")
    assert code == 0
    assert err == ""
    assert json.loads(out)["window"]["outcome"] == "Measured"


def test_the_time_between_the_pages_is_all_the_evidence_there_is(explain: Explain) -> None:
    """Pages a day apart under a policy with windows of 300 s: nothing is stale, and one look is all of it."""
    arguments = explain.arguments({"": (BEFORE, AFTER)}, None)
    arguments[arguments.index("300")] = "86400"
    code, out, _ = explain.run(*arguments, "-o", "json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["window"]["outcome"], answer["window"]["elapsedSeconds"]) == ("Measured", 86400)
    assert decision(answer, "ifItLasts") == ("StepDown", "k3", "acceptance-low")


def test_a_policy_with_the_shortest_durations_still_knows_what_lasts(explain: Explain) -> None:
    """Durations longer than the greatest gap between probes, and pages further apart than that."""
    guardrails = {"probe": {"afterSeconds": 1, "maxSeconds": 1}}
    answer = explain(BEFORE, AFTER, policy={"guardrails": guardrails})
    assert decision(answer, "ifItLasts") == ("StepDown", "k3", "acceptance-low")
