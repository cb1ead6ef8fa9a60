"""Pods that lie in their figures: how far they can drive a fleet, and that no figure ends a look in an error."""

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_engine.history import History
from specloop_engine.page import PageError
from specloop_engine.reader import MOST_EDGES, MOST_POSITIONS, read_sample
from specloop_operator.status_report import acceptance_percent
from specloop_policy.decision import KEEPS_LEVEL, Inputs
from specloop_policy.evidence import gather
from specloop_policy.guardrails import DAY_SECONDS
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.step import fresh, step
from tests.support.pages import idle, page
from tests.support.policies import policy_of, rule
from tests.support.windows import constant, measured

RULES: list[dict[str, Any]] = [
    rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0),
    rule("hot", {"temperature": {"above": "0.6"}}, "Disable", for_seconds=0),
    rule("busy", {"running": {"above": 100}}, "StepDown", for_seconds=0),
    rule("full", {"kvCache": {"abovePercent": 90}}, "StepDown", for_seconds=0),
    rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0),
]
POLICY = policy_of(rules=RULES)
COOLDOWN_SECONDS, A_DAY = 900, 12
"""Defaults of guardrails.cooldownSeconds and maxChangesPerDay."""
WINDOW_SECONDS = 300.0

LIES = ["NaN", "+Inf", "-Inf", "-1", "0", "0.5", "1e308", "-1e308", "5e-324", "9007199254740993", "1" + "0" * 300]
"""What a gauge or a counter may be in Prometheus' format: every float there is."""


def honest(level: str, pod: str, end: float) -> Window:
    """A pod at half of its drafts accepted, which no rule minds."""
    tokens = {"k5": 5, "k3": 3, "ngram": 4}.get(level, 0)
    return measured(constant(0.5, tokens), level=level, pod=pod, end=end)


def liar(level: str, pod: str, end: float, share: float) -> Window:
    """A pod that says to have drafted a million times as much, with this share accepted."""
    tokens = {"k5": 5, "k3": 3, "ngram": 4}.get(level, 0)
    return measured(constant(share, tokens), level=level, pod=pod, end=end, drafts=9e9, requests=2.4e8)


def test_the_guardrails_here_are_those_that_a_policy_has_by_default() -> None:
    """So that the bound below is everybody's who changes nothing."""
    guardrails = POLICY.guardrails
    assert (guardrails.cooldown_seconds, guardrails.max_changes_per_day) == (COOLDOWN_SECONDS, A_DAY)


@given(st.lists(st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]), min_size=1, max_size=12))
@settings(max_examples=8, deadline=None)
def test_one_pod_that_lies_changes_the_level_once_in_a_cool_down_and_twelve_times_a_day_at_most(
    shares: list[float],
) -> None:
    """Of three; it drives all evidence, and goes on for a day and a half in whatever rhythm.

    Every change then has a canary, which is compared with pods that were left alone, before the others follow.
    """
    changes, level, state, windows = [], "k5", fresh("k5", -1e6), list[Window]()
    for place in range(432):
        now = (place + 1) * WINDOW_SECONDS
        share = shares[place % len(shares)]
        windows = [one for one in windows if one.end > now - 7200.0]
        windows += [honest(level, "pod-1", now), honest(level, "pod-2", now), liar(level, "pod-0", now, share)]
        seen = Observation(tuple(windows), Workload(level, 3))
        decision, state = step(POLICY, state, seen, Inputs(), now)
        if decision.action not in KEEPS_LEVEL and decision.level is not None:
            changes.append(now)
            level = decision.level
    assert all(later - earlier >= COOLDOWN_SECONDS for earlier, later in pairwise(changes))
    assert all(sum(at - DAY_SECONDS < other <= at for other in changes) <= A_DAY for at in changes)


def test_a_pod_that_lies_can_drive_the_fleet_within_that_bound() -> None:
    """It is no proof against lies: whoever answers for a pod may cause a change, a canary at a time."""
    windows = (honest("k5", "pod-1", 300.0), honest("k5", "pod-2", 300.0), liar("k5", "pod-0", 300.0, 0.01))
    decision, _ = step(POLICY, fresh("k5", -1e6), Observation(windows, Workload("k5", 3)), Inputs(), 300.0)
    assert decision.level == "k3"


@pytest.mark.parametrize("outcome", [Outcome.INVALID, Outcome.RESET, Outcome.STALLED])
def test_a_pod_that_says_nonsense_is_left_out_and_the_others_decide(outcome: Outcome) -> None:
    """It can neither drive them nor hold them up: 10 % of their drafts are accepted, and 40 % is the limit."""
    bad = replace(liar("k5", "pod-0", 300.0, 1.0), outcome=outcome, reason="nonsense")
    windows = (measured(constant(0.1, 5), pod="pod-1"), bad)
    decision, _ = step(POLICY, fresh("k5", -1e6), Observation(windows, Workload("k5", 2)), Inputs(), 300.0)
    assert (decision.level, decision.rule) == ("k3", "low")


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_figure_ends_a_look_in_an_error_or_reaches_a_status(data: st.DataObject) -> None:
    """Any series of one of two pods may have any value, at any of five scrapes."""
    history, counted = History(WINDOW_SECONDS, 7200.0), idle(5, hot=True)
    for place in range(5):
        counted = counted.after((0.6, 0.4, 0.3, 0.2, 0.1), drafts=9000, requests=240, hot=100)
        for pod, lies in (("pod-0", True), ("pod-1", False)):
            lines = page(counted).splitlines()
            series = [at for at, line in enumerate(lines) if not line.startswith("#")]
            for at in data.draw(st.lists(st.sampled_from(series), max_size=4)) if lies else ():
                lines[at] = f"{lines[at].rpartition(' ')[0]} {data.draw(st.sampled_from(LIES))}"
            history.add(pod, read_sample("\n".join(lines) + "\n", WINDOW_SECONDS * place), "k5", 5)
    windows, now = history.windows(), WINDOW_SECONDS * 4
    seen = Observation(windows, Workload("k5", 2))
    decision, state = step(POLICY, fresh("k5", -1e6), seen, Inputs(), now)
    percent = acceptance_percent(gather(POLICY, windows, "k5", -1e6, now))
    assert percent is None or 0 <= percent <= 100
    assert decision.gain_percent is None or math.isfinite(decision.gain_percent)
    assert all(math.isfinite(at) for at in (*state.changes, state.changed_at or 0.0))
    if decision.action not in KEEPS_LEVEL:
        assert not re.search(r"\b(nan|inf)\b", decision.reason)


PER_POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="m",position="{}"}} 1\n'
DRAFTS = (
    'vllm:spec_decode_num_drafts_total{model_name="m"} 1\nvllm:spec_decode_num_draft_tokens_total{model_name="m"} 1\n'
)
EDGE = 'specloop_request_temperature_bucket{{model_name="m",le="{}"}} 1\n'


def test_positions_without_end_are_no_page() -> None:
    """Every sample of a window is kept: an hour of them, once a second, of ten thousand positions is a gigabyte."""
    text = DRAFTS + "".join(PER_POSITION.format(place) for place in range(MOST_POSITIONS + 1))
    with pytest.raises(PageError, match=f"has {MOST_POSITIONS + 1} positions; {MOST_POSITIONS} are read at most"):
        read_sample(text, 0.0)
    fewer = DRAFTS + "".join(PER_POSITION.format(place) for place in range(MOST_POSITIONS))
    assert read_sample(fewer, 0.0).tokens == MOST_POSITIONS


def test_edges_without_end_are_no_page() -> None:
    """For the same reason."""
    text = DRAFTS + "".join(EDGE.format(f"{place}.0") for place in range(MOST_EDGES + 1))
    with pytest.raises(PageError, match=f"has more than {MOST_EDGES} edges"):
        read_sample(text, 0.0)
    fewer = DRAFTS + "".join(EDGE.format(f"{place}.0") for place in range(MOST_EDGES))
    assert len(read_sample(fewer, 0.0).temperatures) == MOST_EDGES
