"""What each outcome of the newest windows leads to: everything but `Measured` and `Off` holds, for its own reason."""

from dataclasses import replace

import pytest

from specloop_policy.decision import ActionName, Decision, Inputs, PolicyState
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.step import fresh, if_it_lasts, step
from tests.support.policies import default_policy, policy_of, rule
from tests.support.windows import constant, measured, observe, off
from tests.support.worlds import silent

POLICY = policy_of(rules=[rule("acceptance-low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)])
"""Steps down at the first window that is conclusive."""

BAD = constant(0.2, 5)
"""A survival that this policy steps down on."""


def decide(*windows: Window, now: float = 300.0, state: PolicyState | None = None) -> tuple[Decision, PolicyState]:
    """One decision about a target that has been at k5 since long ago."""
    remembered = fresh("k5", -1e6) if state is None else state
    return step(POLICY, remembered, observe(POLICY.ladder, "k5", windows), Inputs(), now)


def test_measured_windows_lead_to_a_change() -> None:
    """The control of the tests below: 20 % over 240 requests is far under 40 %."""
    decision, state = decide(measured(BAD))
    assert (decision.action, decision.level, decision.rule) == (ActionName.STEP_DOWN, "k3", "acceptance-low")
    assert state.level == "k3"


REASONS = {
    Outcome.INVALID: "Invalid: made invalid by the test",
    Outcome.RESET: "Reset: made reset by the test",
    Outcome.STALLED: "Stalled: made stalled by the test",
    Outcome.MIXED: "Mixed: made mixed by the test",
    Outcome.EMPTY: "Empty: made empty by the test",
    Outcome.STALE: "Stale: made stale by the test",
    Outcome.SETTLING: "Settling: made settling by the test",
    Outcome.THIN: "Thin: made thin by the test",
}


@pytest.mark.parametrize(("outcome", "reason"), REASONS.items())
def test_a_window_that_says_nothing_holds(outcome: Outcome, reason: str) -> None:
    """Its outcome and its own words are the reason, whatever the windows before said."""
    before = measured(BAD, end=300.0)
    decision, state = decide(before, silent(POLICY, "k5", outcome, end=600.0), now=600.0)
    assert (decision.action, decision.level, decision.reason) == (ActionName.HOLD, "k5", reason)
    assert state.level == "k5"
    assert state.holds_since == ()


def test_no_window_at_all_holds_as_empty() -> None:
    """A poller that has not filled a window yet is no evidence, and the memory waits untouched."""
    state = replace(fresh("k5", -1e6), holds_since=(("acceptance-low", 0.0),))
    decision, after = decide(state=state)
    assert decision.action is ActionName.HOLD
    assert decision.reason.startswith("Empty: ")
    assert after == state


def test_windows_that_stopped_coming_are_stale() -> None:
    """Two windows may be missing; after that the newest, however bad, is too old to act on."""
    assert decide(measured(BAD), now=900.0)[0].action is ActionName.STEP_DOWN
    decision, _ = decide(measured(BAD), now=901.0)
    assert decision.action is ActionName.HOLD
    assert decision.reason == "Stale: the newest window ended 601 s ago"


def test_windows_at_another_level_are_mixed() -> None:
    """A pod that has not arrived at the level yet says nothing of it."""
    decision, _ = decide(measured(constant(0.2, 3), level="k3"))
    assert decision.action is ActionName.HOLD
    assert decision.reason == "Mixed: pod-0 ran k3, not k5"


def test_windows_right_after_a_change_are_settling() -> None:
    """The window began 59 s after the change, and a minute is left out; at 60 s it counts."""
    early = replace(fresh("k5", -59.0), level="k5")
    assert decide(measured(BAD), state=early)[0].reason == "Settling: pod-0 is within 60 s of a change or a start"
    assert decide(measured(BAD), state=replace(early, changed_at=-60.0))[0].action is ActionName.STEP_DOWN


def test_windows_right_after_a_start_are_settling() -> None:
    """A process that started 30 s before the window is warming up."""
    decision, _ = decide(measured(BAD, process_start=-30.0))
    assert decision.reason == "Settling: pod-0 is within 60 s of a change or a start"
    assert decide(measured(BAD, process_start=-60.0))[0].action is ActionName.STEP_DOWN


def test_too_few_requests_are_thin() -> None:
    """60 finished requests are asked for; a stand-in for the count is named."""
    few = measured(BAD, requests=59.0, drafts=2000.0)
    assert decide(few)[0].reason == "Thin: 59 finished requests so far, 60 are needed"
    stand_in = replace(few, reason="predicted tokens / 200 stand in for requests")
    assert decide(stand_in)[0].reason.endswith("60 are needed; predicted tokens / 200 stand in for requests")


def test_thin_windows_add_up() -> None:
    """Three windows of 20 requests are 60."""
    windows = [measured(BAD, requests=20.0, drafts=1200.0, end=300.0 * place) for place in (1, 2, 3)]
    assert decide(*windows[:2], now=600.0)[0].reason.startswith("Thin: 40 ")
    assert decide(*windows, now=900.0)[0].action is ActionName.STEP_DOWN


def test_thin_evidence_that_lasts_leads_to_a_change() -> None:
    """What lasts comes to enough requests in the end: the count is one of the things that are then met."""
    few = measured(BAD, requests=59.0, drafts=2000.0)
    lasting = if_it_lasts(POLICY, fresh("k5", -1e6), observe(POLICY.ladder, "k5", [few]), Inputs(), 300.0)
    assert (lasting.action, lasting.level) == (ActionName.STEP_DOWN, "k3")


def test_evidence_older_than_the_limit_is_forgotten() -> None:
    """An hour is pooled: 59 requests of two hours ago and 59 of now are 59."""
    old, new = (measured(BAD, requests=59.0, end=end) for end in (300.0, 7500.0))
    assert decide(old, new, now=7500.0)[0].reason.startswith("Thin: 59 ")


def test_an_engine_that_should_speculate_and_does_not_holds() -> None:
    """`Off` at a level that drafts is somebody's mistake, and no evidence about the level."""
    decision, state = decide(replace(off(), level="k5"))
    assert decision.action is ActionName.HOLD
    assert decision.reason == "Off: the engine does not speculate, though k5 is its level"
    assert state.level == "k5"


def test_off_at_disabled_may_lead_to_a_change() -> None:
    """An hour at `disabled` is enough for a probe of the next level up."""
    policy = default_policy()
    seen = observe(policy.ladder, "disabled", [off(end=3600.0)])
    decision, state = step(policy, fresh("disabled", 0.0), seen, Inputs(), 3600.0)
    assert (decision.action, decision.level) == (ActionName.PROBE, "ngram")
    assert state.level == "disabled"
    assert state.probe is not None


def test_one_pod_that_is_measured_speaks_for_the_silent_ones() -> None:
    """A reset pod and one that still settles are left out, and the third decides."""
    windows = [
        measured(BAD, pod="pod-0"),
        silent(POLICY, "k5", Outcome.RESET, pod="pod-1"),
        measured(BAD, pod="pod-2", process_start=-10.0),
    ]
    assert decide(*windows)[0].action is ActionName.STEP_DOWN


PAIRS = list(zip(list(Outcome)[:-2], list(Outcome)[1:-1], strict=True))


@pytest.mark.parametrize(
    ("first", "second"), [pair for pair in PAIRS if Outcome.OFF not in pair], ids=lambda outcome: str(outcome)
)
def test_the_first_outcome_in_the_contract_s_order_is_reported(first: Outcome, second: Outcome) -> None:
    """Of two silent pods the one whose outcome stands earlier gives the reason."""
    windows = [silent(POLICY, "k5", second, pod="pod-0"), silent(POLICY, "k5", first, pod="pod-1")]
    assert decide(*windows)[0].reason.startswith(f"{first}: ")


def test_what_runs_outside_the_ladder_is_left_alone() -> None:
    """Somebody set K = 7 by hand: hold, say so, and name the ladder."""
    seen = Observation((measured(BAD),), Workload(None, 1, "draft_model K=7"))
    decision, state = step(POLICY, fresh("k5", -1e6), seen, Inputs(), 300.0)
    assert decision.action is ActionName.HOLD
    assert decision.reason == (
        "what runs (draft_model K=7) is no level of the ladder (k5, k3, ngram, disabled): left alone"
    )
    assert state == fresh("k5", -1e6)


def test_a_level_somebody_else_chose_is_adopted_and_its_evidence_begins_anew() -> None:
    """The memory follows the workload; what was measured before is not about this level's stay."""
    seen = Observation((measured(constant(0.2, 3), level="k3"),), Workload("k3"))
    decision, state = step(POLICY, replace(fresh("k5", -1e6), raised_at=-500.0), seen, Inputs(), 300.0)
    assert decision.action is ActionName.HOLD
    assert decision.reason.startswith("Settling: ")
    assert (state.level, state.changed_at, state.raised_at) == ("k3", 300.0, None)
