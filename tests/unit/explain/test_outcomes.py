"""What two pages are worth: one case for each outcome, and what is decided on it."""

from dataclasses import replace

import pytest

from tests.support.pages import START, Counted, idle, off, page
from tests.unit.explain.calls import DECLARED, RECORDED, Explain, Source, decision

HIGH = (0.85, 0.75, 0.65, 0.55, 0.45)
""".65 accepted: above the limits of both rules about acceptance."""
LOW = (0.62, 0.41, 0.28, 0.18, 0.11)

RUNNING = idle(5).after(HIGH, drafts=1000, requests=40)
LATER = RUNNING.after(LOW, drafts=9000, requests=240)
OTHER = "python_info 1\n"
"""A page of metrics that are not an engine's."""


def broken(counted: Counted, series: str, value: str) -> str:
    """The page with another value for a series."""
    lines = page(counted).splitlines()
    assert any(line.startswith(series) for line in lines)
    kept = (f"{line.rpartition(' ')[0]} {value}" if line.startswith(series) else line for line in lines)
    return "\n".join(kept) + "\n"


KEEPING: list[tuple[str, Source, Source, str | None, str]] = [
    # outcome, before, after, level, a part of the reason
    ("Empty", OTHER, OTHER, None, "no series of an engine"),
    ("Empty", page(RUNNING), OTHER, None, "no series of an engine"),
    ("Empty", OTHER, page(RUNNING), "k5", "no series of an engine"),
    ("Invalid", RUNNING, broken(LATER, "vllm:generation_tokens_total", "NaN"), "k5", "generation tokens is nan"),
    ("Invalid", RUNNING, broken(LATER, "vllm:generation_tokens_total", "+Inf"), "k5", "generation tokens is inf"),
    ("Invalid", RUNNING, broken(LATER, "vllm:prompt_tokens_total", "-1"), "k5", "prompt tokens is -1"),
    (
        "Invalid",
        RUNNING,
        broken(LATER, "vllm:spec_decode_num_accepted_tokens_total", "99999"),
        "k5",
        "accepted of 45000 drafted",
    ),
    ("Reset", LATER, RUNNING, "k5", "the counter of drafts went back from 10000 to 1000"),
    ("Reset", RUNNING, replace(LATER, process_start=START + 60.0), "k5", "the process restarted"),
    ("Stalled", RUNNING, RUNNING, "k5", "8 requests are running and no counter has moved for 300 s"),
    ("Mixed", idle(3), RUNNING, "k5", "3 draft positions, then 5"),
    ("Mixed", off(), RUNNING, "k5", "speculation went on inside the window"),
    ("Mixed", RUNNING, off().after(requests=300), "disabled", "speculation went off inside the window"),
    ("Thin", RUNNING, RUNNING.after(LOW, drafts=2000, requests=59), "k5", "59 finished requests so far, 60 are needed"),
    ("Thin", replace(RUNNING, running=0.0), replace(RUNNING, running=0.0), "k5", "0 finished requests so far"),
]


@pytest.mark.parametrize(("outcome", "before", "after", "level", "words"), KEEPING)
def test_an_outcome_that_says_nothing_keeps_the_level_and_says_why(
    explain: Explain, outcome: str, before: Source, after: Source, level: str | None, words: str
) -> None:
    answer = explain(before, after)
    assert (answer["window"]["outcome"], answer["pods"][0]["outcome"]) == (outcome, outcome)
    assert decision(answer) == ("Hold", level, None)
    assert answer["now"]["reason"].startswith(f"{outcome}: ")
    assert words in answer["now"]["reason"]


@pytest.mark.parametrize(("outcome", "before", "after", "level", "words"), [one for one in KEEPING if one[0] != "Thin"])
def test_it_keeps_the_level_however_long_it_lasts(
    explain: Explain, outcome: str, before: Source, after: Source, level: str | None, words: str
) -> None:
    answer = explain(before, after)
    assert decision(answer, "ifItLasts") == ("Hold", level, None)
    assert words in answer["ifItLasts"]["reason"]
    assert answer["window"]["acceptanceRate"] is None


def test_no_traffic_at_all_would_not_become_evidence_by_lasting(explain: Explain) -> None:
    quiet = replace(RUNNING, running=0.0)
    answer = explain(quiet, quiet)
    assert decision(answer, "ifItLasts") == ("Hold", "k5", None)
    assert "0 finished requests so far, 60 are needed" in answer["ifItLasts"]["reason"]


def test_thin_evidence_is_shown_and_would_do_if_there_were_more_of_it(explain: Explain) -> None:
    """30 requests of 150 draft tokens: 4500/50 = 90 independent ones; .1 ± .06 is below .40 whatever comes."""
    answer = explain(RUNNING, RUNNING.after((0.1,) * 5, drafts=900, requests=30))
    assert answer["window"]["outcome"] == "Thin"
    assert answer["window"]["acceptanceRate"] == pytest.approx(0.1)
    assert decision(answer) == ("Hold", "k5", None)
    assert decision(answer, "ifItLasts")[0] != "Hold"


def test_a_policy_may_ask_for_fewer_requests(explain: Explain) -> None:
    after = RUNNING.after(LOW, drafts=1000, requests=30)
    assert explain(RUNNING, after)["window"]["outcome"] == "Thin"
    assert explain(RUNNING, after, policy={"signals": {"minRequests": 30}})["window"]["outcome"] == "Measured"


def test_health_probes_of_one_token_are_no_requests(explain: Explain) -> None:
    """100 requests ended, 70 of them with their first token: 30 count."""
    after = RUNNING.after(LOW, drafts=1000, requests=100)
    answer = explain(RUNNING, replace(after, one_token=70.0))
    assert answer["window"]["finishedRequests"] == 30
    assert answer["window"]["outcome"] == "Thin"


class TestMeasured:
    def test_healthy_traffic_keeps_the_top_level(self, explain: Explain) -> None:
        answer = explain(RUNNING, RUNNING.after(HIGH, drafts=9000, requests=240))
        assert answer["window"]["acceptanceRate"] == pytest.approx(0.65)
        assert decision(answer) == ("Hold", "k5", None)
        assert decision(answer, "ifItLasts") == ("Hold", "k5", None)
        assert answer["ifItLasts"]["afterSeconds"] == 0

    def test_healthy_traffic_lower_down_steps_up_if_it_lasts(self, explain: Explain) -> None:
        """At K = 3 and .88 .80 .75 the mean acceptance is .909; two positions more at .68 and .62 make .75 at K = 5."""
        start = idle(3)
        answer = explain(start, start.after((0.88, 0.80, 0.75), drafts=9000, requests=240), policy=DECLARED)
        assert decision(answer) == ("Hold", "k3", "acceptance-healthy")
        assert decision(answer, "ifItLasts") == ("StepUp", "k5", "acceptance-healthy")
        assert answer["ifItLasts"]["afterSeconds"] == 1800

    def test_drafts_that_stay_at_zero_while_traffic_flows_are_evidence_of_no_gain(self, explain: Explain) -> None:
        window = explain(RUNNING, RUNNING.after(requests=240))["window"]
        assert (window["outcome"], window["acceptanceRate"], window["coverage"]) == ("Measured", None, 0.0)
        assert (window["drafts"], window["finishedRequests"]) == (0, 240)
        assert window["acceptanceRateInterval"] is None
        assert window["acceptanceLength"] is None

    def test_no_drafts_at_all_lead_to_disabled_if_it_lasts(self, explain: Explain) -> None:
        answer = explain(RUNNING, RUNNING.after(requests=240))
        assert decision(answer) == ("Hold", "k5", "does-not-pay")
        assert decision(answer, "ifItLasts") == ("Disable", "disabled", "does-not-pay")

    def test_high_acceptance_in_a_few_steps_shows_in_the_coverage(self, explain: Explain) -> None:
        """200 drafts in 10000 steps: 2 %."""
        start = idle(4)
        answer = explain(start, start.after((0.9, 0.8, 0.7, 0.6), drafts=200, coverage=0.02, requests=240))
        assert answer["window"]["acceptanceRate"] == pytest.approx(0.75)
        assert answer["window"]["coverage"] == pytest.approx(0.02)

    def test_hot_traffic_switches_to_n_gram_if_it_lasts(self, explain: Explain) -> None:
        start = idle(5, hot=True)
        answer = explain(start, start.after(HIGH, drafts=9000, requests=240, hot=180))
        assert answer["window"]["temperatureShareAbove"] == {"0.6": 0.75}
        assert decision(answer) == ("Hold", "k5", "hot-traffic")
        assert decision(answer, "ifItLasts") == ("SwitchTo", "ngram", "hot-traffic")

    def test_a_suspended_policy_holds_and_says_so(self, explain: Explain) -> None:
        answer = explain(RUNNING, LATER, policy={"suspend": True})
        assert answer["window"]["outcome"] == "Measured"
        assert decision(answer, "ifItLasts") == ("Hold", "k5", None)
        assert "suspended" in answer["now"]["reason"]


class TestOff:
    AFTER = off().after(requests=240)

    def test_pages_without_the_series_are_off(self, explain: Explain) -> None:
        answer = explain(off(), self.AFTER)
        window = answer["window"]
        assert (window["outcome"], window["finishedRequests"], window["acceptanceRate"]) == ("Off", 240, None)
        assert decision(answer) == ("Hold", "disabled", None)

    def test_traffic_while_off_leads_to_a_probe_if_it_lasts(self, explain: Explain) -> None:
        answer = explain(off(), self.AFTER, policy=DECLARED)
        assert decision(answer, "ifItLasts") == ("Probe", "ngram", "probe")
        assert answer["ifItLasts"]["afterSeconds"] == 3600

    def test_a_level_that_is_said_to_be_disabled_is_off_whatever_the_page_shows(self, explain: Explain) -> None:
        """A live K of 0: the series stay."""
        answer = explain(RUNNING, RUNNING.after(requests=240), "--level", "disabled")
        assert answer["window"]["outcome"] == "Off"
        assert answer["pods"][0]["reason"] == "speculation is off: K is set to 0"
        assert decision(answer) == ("Hold", "disabled", None)

    def test_an_engine_that_is_off_though_its_level_speculates_keeps_and_says_so(self, explain: Explain) -> None:
        answer = explain(off(), self.AFTER, "--level", "k5", policy=DECLARED)
        assert answer["window"]["outcome"] == "Off"
        assert decision(answer) == ("Hold", "k5", None)
        assert "does not speculate, though k5 is its level" in answer["now"]["reason"]


class TestVllmV0:
    """One gauge, the acceptance over the process's life."""

    @staticmethod
    def page(rate: str, generated: float, finished: float) -> str:
        labels = 'model_name="m"'
        return (
            f"vllm:spec_decode_draft_acceptance_rate{{{labels}}} {rate}\n"
            f"vllm:generation_tokens_total{{{labels}}} {generated}\n"
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {finished}\n'
            f"vllm:time_to_first_token_seconds_count{{{labels}}} {finished}\n"
        )

    def test_the_window_is_recovered_from_the_gauge_at_a_level(self, explain: Explain) -> None:
        """D = K G / (1 + K R): 5e5 / 5 = 1e5 drafted at first and 1e6 / 4 = 2.5e5 later, A = R D = 8e4 and 1.5e5;
        in between 7e4 of 1.5e5 are .467, while the gauge itself still shows .6."""
        answer = explain(self.page("0.8", 1e5, 500), self.page("0.6", 2e5, 1000), "--level", "k5")
        window = answer["window"]
        assert (window["outcome"], window["draftTokens"]) == ("Measured", 150000)
        assert window["acceptanceRate"] == pytest.approx(7 / 15)
        assert window["survival"] == []
        assert "derived from V0's lifetime rate with K = 5" in answer["now"]["reason"]

    def test_a_declared_level_has_its_own_k(self, explain: Explain) -> None:
        """K = 3: 3e5 / 3.4 = 88235 and 6e5 / 2.8 = 214286 drafted; .8 and .6 of them are 70588 and 128571."""
        pages = self.page("0.8", 1e5, 500), self.page("0.6", 2e5, 1000)
        answer = explain(*pages, "--level", "k3", policy=DECLARED)
        assert answer["window"]["acceptanceRate"] == pytest.approx((128571 - 70588) / (214286 - 88235), abs=1e-4)

    def test_without_a_level_it_asks_for_one(self, explain: Explain) -> None:
        pages = {"": (self.page("0.8", 1e5, 500), self.page("0.6", 2e5, 1000))}
        assert explain.refusal(*explain.arguments(pages, None)) == (
            "the pages show no K: say --level (levels: ngram, disabled, or k1 to k8 for a draft model)"
        )

    def test_the_gauge_before_the_first_draft_is_no_number_and_no_mistake(self, explain: Explain) -> None:
        answer = explain(self.page("NaN", 0, 0), self.page("0.5", 7e4, 350), "--level", "k5")
        assert answer["window"]["outcome"] == "Measured"
        assert answer["window"]["acceptanceRate"] == pytest.approx(0.5)


class TestLlamaCpp:
    """The recorded pages of build 11434."""

    IDLE = RECORDED / "llamacpp-11434-draft-idle.txt"
    DRAFT = RECORDED / "llamacpp-11434-draft.txt"

    def test_a_draft_model_is_measured(self, explain: Explain) -> None:
        """945 of 2552 draft tokens in 643 drafts: 37.0 %, 1 + 945/643 = 2.47 tokens; 369/643 = .574 at first."""
        answer = explain(self.IDLE, self.DRAFT, policy={"signals": {"minRequests": 8}})
        window = answer["window"]
        assert (window["outcome"], window["drafts"], window["draftTokens"]) == ("Measured", 643, 2552)
        assert window["acceptanceRate"] == pytest.approx(945 / 2552)
        assert window["acceptanceLength"] == pytest.approx(1 + 945 / 643)
        assert window["survival"] == pytest.approx([369 / 643, 241 / 643, 183 / 643, 152 / 643])
        assert decision(answer)[1] == "k4"

    def test_requests_are_not_counted_there_and_the_reason_says_what_stands_in(self, explain: Explain) -> None:
        """1600 predicted tokens / 200 are 8 requests: too few for the default of 60."""
        answer = explain(self.IDLE, self.DRAFT)
        assert (answer["window"]["outcome"], answer["window"]["finishedRequests"]) == ("Thin", 8)
        assert "8 finished requests so far, 60 are needed" in answer["now"]["reason"]
        assert "predicted tokens / 200" in answer["now"]["reason"]

    def test_totals_at_zero_without_positions_are_off(self, explain: Explain) -> None:
        page = RECORDED / "llamacpp-11434-off.txt"
        answer = explain(page, page)
        assert answer["window"]["outcome"] == "Off"
        assert decision(answer) == ("Hold", "disabled", None)

    def test_a_level_tells_a_drafter_that_found_nothing_yet_from_none(self, explain: Explain) -> None:
        """The page before the first draft is that of a server without speculation; 1600 tokens flow, none drafted."""
        after = self.IDLE.read_text().replace("tokens_predicted_total 0", "tokens_predicted_total 1600")
        assert explain(self.IDLE, after)["window"]["outcome"] == "Off"
        answer = explain(self.IDLE, after, "--level", "k4", policy={"signals": {"minRequests": 8}})
        window = answer["window"]
        assert (window["outcome"], window["acceptanceRate"], window["coverage"]) == ("Measured", None, 0.0)


class TestRealVllm:
    """The recorded pages of 0.32.0."""

    def test_a_draft_model(self, explain: Explain) -> None:
        """323 of 831 draft tokens."""
        pages = RECORDED / "vllm-0.32.0-draft-idle.txt", RECORDED / "vllm-0.32.0-draft.txt"
        window = explain(*pages, policy={"signals": {"minRequests": 6}})["window"]
        assert (window["outcome"], window["finishedRequests"]) == ("Measured", 6)
        assert window["acceptanceRate"] == pytest.approx(323 / 831)

    def test_n_gram_lookup_drafts_in_few_steps(self, explain: Explain) -> None:
        """36 drafts in 600 - 6 - 98 = 496 decode steps: 7 %, at 98 of 120 accepted."""
        pages = RECORDED / "vllm-0.32.0-ngram-idle.txt", RECORDED / "vllm-0.32.0-ngram.txt"
        window = explain(*pages, "--level", "ngram", policy=DECLARED)["window"]
        assert window["acceptanceRate"] == pytest.approx(98 / 120)
        assert window["coverage"] == pytest.approx(36 / 496)

    def test_off(self, explain: Explain) -> None:
        pages = RECORDED / "vllm-0.32.0-off-idle.txt", RECORDED / "vllm-0.32.0-off.txt"
        assert explain(*pages)["window"]["outcome"] == "Off"
