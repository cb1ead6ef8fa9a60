"""The rules: which one wins, when it is ripe, where it leads, and when the cost model refuses."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from specloop_policy.acceptance import Pool
from specloop_policy.conditions import Truth, judge
from specloop_policy.cost import Load
from specloop_policy.decision import ActionName, Decision, Inputs, PolicyState
from specloop_policy.economics import Economics
from specloop_policy.ladder import Drafter, Level, Method
from specloop_policy.observation import Window
from specloop_policy.policy import Policy
from specloop_policy.step import fresh, if_it_lasts, step
from tests.support.policies import default_policy, policy_of, rule
from tests.support.windows import constant, measured, observe, off
from tests.support.worlds import Target, World, flat

LOW = {"acceptance": {"belowPercent": 40}}
HIGH = {"acceptance": {"abovePercent": 55}}


@dataclass(frozen=True)
class StepSeconds:
    """Step times by K at any load; the plain step is K = 0."""

    by_tokens: dict[int, float]

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step."""
        return self.by_tokens.get(level.tokens)


def decide(
    policy: Policy, *windows: Window, level: str = "k5", inputs: Inputs | None = None, state: PolicyState | None = None
) -> Decision:
    """One decision at the end of the newest window, about a target at its level since long ago."""
    remembered = fresh(level, -1e6) if state is None else state
    at = max(one.end for one in windows)
    return step(policy, remembered, observe(policy.ladder, level, windows), inputs or Inputs(), at)[0]


def at_once(*rules: Any, **fields: Any) -> Policy:
    """A policy of rules that are ripe as soon as they hold."""
    return policy_of(rules=[{**one, "forSeconds": 0} for one in rules], **fields)


@pytest.mark.parametrize(
    ("action", "level", "expected", "to"),
    [
        ("StepDown", None, ActionName.STEP_DOWN, "k3"),
        ("SwitchTo", "ngram", ActionName.SWITCH_TO, "ngram"),
        ("Disable", None, ActionName.DISABLE, "disabled"),
        ("Alert", None, ActionName.ALERT, "k5"),
    ],
)
def test_each_action_leads_where_it_says(action: str, level: str | None, expected: ActionName, to: str) -> None:
    """From k5 one down, straight to a level, straight to the end, or nowhere with a word."""
    policy = at_once(rule("low", LOW, action, level=level))
    decision = decide(policy, measured(constant(0.2, 5)))
    assert (decision.action, decision.level, decision.rule) == (expected, to, "low")


def test_step_up_leads_up_within_the_drafter() -> None:
    """At k3 80 % accepted promises more than 40 % at k5: one level up."""
    policy = at_once(rule("low", LOW, "StepDown"), rule("high", HIGH, "StepUp"))
    decision = decide(policy, measured((0.8, 0.8, 0.8), level="k3"), level="k3")
    assert (decision.action, decision.level, decision.rule) == (ActionName.STEP_UP, "k5", "high")


def test_step_up_never_leads_to_another_drafter() -> None:
    """High acceptance of n-gram look-up says nothing about the draft model."""
    policy = at_once(rule("high", HIGH, "StepUp"))
    decision = decide(policy, measured((0.8,) * 4, level="ngram"), level="ngram", state=fresh("ngram", 0.0))
    assert decision.action is ActionName.HOLD


def test_switch_never_leads_up() -> None:
    """Hot traffic at `disabled` is no reason to turn n-gram on."""
    hot = {"temperature": {"above": "0.6", "sharePercent": 50}}
    policy = at_once(rule("hot", hot, "SwitchTo", level="ngram"))
    window = replace(off(), temperatures=measured((), hot_share=0.9).temperatures)
    decision = decide(policy, window, level="disabled", state=fresh("disabled", 0.0))
    assert decision.action is ActionName.HOLD


def test_reason_holds_value_interval_limit_window_and_rule() -> None:
    """The contract's example: 32 % of 45,000 draft tokens in 240 requests, 29 to 35 % over 300 s, limit 40 %."""
    policy = policy_of(rules=[rule("acceptance-low", LOW, "StepDown", for_seconds=0)])
    decision = decide(policy, measured((0.62, 0.41, 0.28, 0.18, 0.11)))
    for words in ("32 %", "(29 to 35 %)", "over 300 s", "below the limit of 40 %", "rule acceptance-low", "k5", "k3"):
        assert words in decision.reason


def test_the_first_rule_that_leads_anywhere_wins() -> None:
    """At n-gram the first rule leads nowhere, so the second one takes its turn."""
    hot = {"temperature": {"above": "0.6", "sharePercent": 50}}
    policy = at_once(rule("hot", hot, "SwitchTo", level="ngram"), rule("low", LOW, "Disable"))
    bad = measured(constant(0.2, 5), hot_share=0.9)
    assert decide(policy, bad).level == "ngram"
    worse = measured(constant(0.2, 4), level="ngram", hot_share=0.9)
    assert decide(policy, worse, level="ngram").level == "disabled"


def test_a_mild_answer_to_low_acceptance_does_not_shield_from_a_stronger_one() -> None:
    """10 % is below 40 % and below 20 %: StepDown stands first, and the Disable behind it is what 10 % asks for."""
    policy = at_once(rule("low", LOW, "StepDown"), rule("very-low", {"acceptance": {"belowPercent": 20}}, "Disable"))
    assert decide(policy, measured(constant(0.3, 5))).level == "k3"
    assert decide(policy, measured(constant(0.1, 5))).level == "disabled"


CONDITIONS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # Condition, a window that meets it, one that does not.
    "acceptance below": ({"acceptance": {"belowPercent": 40}}, {"rate": 0.3}, {"rate": 0.5}),
    "temperature above": ({"temperature": {"above": "0.6", "sharePercent": 50}}, {"hot": 0.8}, {"hot": 0.2}),
    "coverage below": ({"coverage": {"belowPercent": 30}}, {"coverage": 0.1}, {"coverage": 0.6}),
    "coverage above": ({"coverage": {"abovePercent": 30}}, {"coverage": 0.6}, {"coverage": 0.1}),
    "running above": ({"running": {"above": 32}}, {"running": 33.0}, {"running": 32.0}),
    "running below": ({"running": {"below": 32}}, {"running": 31.0}, {"running": 32.0}),
    "kvCache above": ({"kvCache": {"abovePercent": 90}}, {"kv": 91.0}, {"kv": 90.0}),
    "kvCache below": ({"kvCache": {"belowPercent": 20}}, {"kv": 19.0}, {"kv": 20.0}),
}


def window_of(
    rate: float = 0.5, hot: float = 0.0, coverage: float = 1.0, running: float = 8.0, kv: float = 40.0
) -> Window:
    """A window at k5 of 240 requests."""
    window = measured(constant(rate, 5), hot_share=hot, coverage=coverage, running=running)
    return replace(window, kv_cache_percent=kv)


@pytest.mark.parametrize(("when", "met", "unmet"), CONDITIONS.values(), ids=CONDITIONS)
def test_each_condition_holds_on_its_side_alone(
    when: dict[str, Any], met: dict[str, Any], unmet: dict[str, Any]
) -> None:
    """A limit is passed by being beyond it, not by being at it."""
    policy = at_once(rule("one", when, "StepDown"))
    assert decide(policy, window_of(**met)).action is ActionName.STEP_DOWN
    assert decide(policy, window_of(**unmet)).action is ActionName.HOLD


@pytest.mark.parametrize(
    ("running", "expected"), [(40.0, ActionName.STEP_DOWN), (20.0, ActionName.HOLD)], ids=["both", "one"]
)
def test_all_that_a_rule_names_must_hold(running: float, expected: ActionName) -> None:
    """Low acceptance alone does not fire a rule that asks for a full batch as well."""
    policy = at_once(rule("both", {**LOW, "running": {"above": 32}}, "StepDown"))
    assert decide(policy, window_of(rate=0.2, running=running)).action is expected


def test_what_nobody_reports_never_holds() -> None:
    """No temperatures, no batch size, no KV cache, no step times: each is unknown, and unknown keeps."""
    unknown = replace(measured(constant(0.2, 5)), running=None, kv_cache_percent=None)
    for when in (
        {"temperature": {"above": "0.6", "sharePercent": 0}},
        {"running": {"below": 100}},
        {"kvCache": {"belowPercent": 100}},
        {"gain": {"belowPercent": 0}},
    ):
        assert decide(at_once(rule("one", when, "StepDown")), unknown).action is ActionName.HOLD


def test_evidence_too_near_the_limit_keeps() -> None:
    """39 % with an interval from 36 to 42 % is neither below nor above 40 %."""
    policy = at_once(rule("low", LOW, "StepDown"), rule("high", {"acceptance": {"abovePercent": 40}}, "Alert"))
    assert decide(policy, measured(constant(0.39, 5))).action is ActionName.HOLD


def test_a_rule_waits_for_its_duration() -> None:
    """Held at 300 s, 600 s to wait: nothing at 600 s, the change at 900 s, and the reason counts the wait."""
    policy = policy_of(rules=[rule("low", LOW, "StepDown", for_seconds=600)])
    target = Target(policy, World({"small": flat(0.2)}), "k5", state=fresh("k5", -1e6))
    first, second, third = (target.decide() for _ in range(3))
    assert (first.action, second.action, third.action) == (ActionName.HOLD, ActionName.HOLD, ActionName.STEP_DOWN)
    assert "held for 0 of the 600 s" in first.reason
    assert "held for 300 of the 600 s" in second.reason
    assert (second.rule, second.after_seconds) == ("low", 600.0)


def test_a_break_starts_the_duration_again() -> None:
    """A rule that stopped holding for one window waits from the beginning."""
    policy = policy_of(
        rules=[rule("busy", {"running": {"above": 32}}, "StepDown", for_seconds=600)],
        signals={"maxEvidenceSeconds": 300},
    )
    state, changed = fresh("k5", -1e6), []
    for place, running in enumerate((40.0, 40.0, 8.0, 40.0, 40.0, 40.0), start=1):
        window = measured(constant(0.6, 5), running=running, end=300.0 * place)
        decision, state = step(policy, state, observe(policy.ladder, "k5", [window]), Inputs(), 300.0 * place)
        changed.append(decision.action is ActionName.STEP_DOWN)
    assert changed == [False, False, False, False, False, True]


def test_lasting_evidence_is_judged_as_if_every_duration_were_over() -> None:
    """`if_it_lasts` names the change and its duration while the decision of now is to hold."""
    policy = default_policy()
    seen = observe(policy.ladder, "k5", [measured((0.62, 0.41, 0.28, 0.18, 0.11))])
    now, _ = step(policy, fresh("k5", 0.0 - 60.0), seen, Inputs(), 300.0)
    lasting = if_it_lasts(policy, fresh("k5", -60.0), seen, Inputs(), 300.0)
    assert (now.action, now.level, now.rule) == (ActionName.HOLD, "k5", "acceptance-low")
    assert (lasting.action, lasting.level, lasting.rule, lasting.after_seconds) == (
        ActionName.STEP_DOWN,
        "k3",
        "acceptance-low",
        600.0,
    )


def test_a_vetoed_step_down_holds_and_says_why() -> None:
    """k5 at 30 % is 2.5 tokens a step in 12 ms against 1.9 in 11 at k3, off 10 ms: 2.08 against 1.73 of plain speed."""
    policy = at_once(rule("low", LOW, "StepDown"))
    times = StepSeconds({0: 0.010, 3: 0.011, 5: 0.012})
    decision = decide(policy, measured(constant(0.3, 5)), inputs=Inputs(step_times=times))
    assert decision.action is ActionName.HOLD
    assert "the cost model refuses k3: k5 is 21 % faster" in decision.reason  # (2.5 / 1.2) / (1.9 / 1.1) = 1.206
    assert "rule low" in decision.reason


def test_a_step_down_that_gains_nothing_is_not_worth_a_restart() -> None:
    """2.5 / 14.4 = .1736 tokens a ms at k5 against 1.9 / 11 = .1727 at k3: a restart for nothing."""
    policy = at_once(rule("low", LOW, "StepDown"))
    dear = Inputs(step_times=StepSeconds({0: 0.010, 3: 0.011, 5: 0.0144}), restart_seconds=600.0)
    decision = decide(policy, measured(constant(0.3, 5)), inputs=dear)
    assert decision.action is ActionName.HOLD
    assert "the cost model refuses k3: it would be no faster, and a restart takes 600 s" in decision.reason
    live = replace(dear, restart_seconds=0.0)
    assert decide(policy, measured(constant(0.3, 5)), inputs=live).level == "k3"


def test_a_step_down_must_earn_its_restart_too() -> None:
    """2.5 / 14.6 = .1712 at k5, .1727 at k3: .9 % more, so 600 s are earned after 68,000 s, less than a day."""
    dear = Inputs(step_times=StepSeconds({0: 0.010, 3: 0.011, 5: 0.0146}), restart_seconds=600.0)
    for payback, expected in ((3600, ActionName.HOLD), (86400, ActionName.STEP_DOWN)):
        policy = at_once(rule("low", LOW, "StepDown"), costModel={"paybackSeconds": payback})
        assert decide(policy, measured(constant(0.3, 5)), inputs=dear).action is expected


def test_a_level_that_surely_pays_is_not_left_for_another_drafter_on_its_acceptance_alone() -> None:
    """1.9 tokens a step in 11 ms at k3 against one in 10 ms off: 73 % faster; of n-gram lookup nothing is known."""
    policy = at_once(rule("low", LOW, "StepDown"))
    window = measured(constant(0.3, 3), level="k3")
    fast = Inputs(step_times=StepSeconds({0: 0.010, 3: 0.011, 5: 0.012}))
    decision = decide(policy, window, level="k3", inputs=fast)
    assert decision.action is ActionName.HOLD
    assert "the cost model refuses ngram: nothing is known of it at this load, and k3 is 73 % faster" in decision.reason
    slow = Inputs(step_times=StepSeconds({0: 0.010, 3: 0.0185, 5: 0.020}))  # 1.9 / 1.85 = 2.7 %, within the margin
    assert decide(policy, window, level="k3", inputs=slow).level == "ngram"


def test_hot_traffic_leaves_for_another_drafter_all_the_same() -> None:
    """A rule about temperatures is not about what pays now but about what is to come."""
    policy = at_once(rule("hot", {"temperature": {"above": "0.6", "sharePercent": 50}}, "SwitchTo", level="ngram"))
    window = measured(constant(0.3, 3), level="k3", hot_share=0.9)
    fast = Inputs(step_times=StepSeconds({0: 0.010, 3: 0.011, 5: 0.012}))
    assert decide(policy, window, level="k3", inputs=fast).level == "ngram"


def test_a_cost_model_that_is_ignored_never_vetoes() -> None:
    """The same window, costModel.policy Ignore: the rule has its way."""
    policy = at_once(rule("low", LOW, "StepDown"), costModel={"policy": "Ignore"})
    times = StepSeconds({0: 0.010, 3: 0.011, 5: 0.012})
    assert decide(policy, measured(constant(0.3, 5)), inputs=Inputs(step_times=times)).level == "k3"


def test_without_step_times_nothing_is_vetoed() -> None:
    """The same window on unknown hardware walks the ladder."""
    assert decide(at_once(rule("low", LOW, "StepDown")), measured(constant(0.3, 5))).level == "k3"


def test_a_rule_about_memory_is_not_vetoed() -> None:
    """A full KV cache needs the draft model's room, fast or not."""
    policy = at_once(rule("full", {"kvCache": {"abovePercent": 90}}, "StepDown"))
    times = StepSeconds({0: 0.010, 3: 0.011, 5: 0.012})
    full = replace(measured(constant(0.6, 5)), kv_cache_percent=97.0)
    assert decide(policy, full, inputs=Inputs(step_times=times)).level == "k3"


def test_a_vetoed_step_up_holds_and_says_why() -> None:
    """Survival .8 .7 .6 at k3 is 3.1 in 12 ms; the mean acceptance is .843, so .506 and .427 follow: 4.03 in 20 ms."""
    policy = at_once(rule("high", HIGH, "StepUp"))
    times = StepSeconds({0: 0.010, 3: 0.012, 5: 0.020})
    window = measured((0.8, 0.7, 0.6), level="k3")
    decision = decide(policy, window, level="k3", inputs=Inputs(step_times=times))
    assert decision.action is ActionName.HOLD
    # (4.033 / 2.0) / (3.1 / 1.2) = .781
    assert "the cost model refuses k5: expected -22 % of speed against k3" in decision.reason


def test_a_step_up_that_gains_less_than_the_margin_is_vetoed() -> None:
    """3.1 / 1.2 = 2.583 and 4.033 / 1.5 = 2.689 of plain speed: 4 % more, and 5 are asked for."""
    policy = at_once(rule("high", HIGH, "StepUp"))
    window = measured((0.8, 0.7, 0.6), level="k3")
    slow, fast = (Inputs(step_times=StepSeconds({0: 0.010, 3: 0.012, 5: at})) for at in (0.0150, 0.0145))
    assert "less than the margin of 5 %" in decide(policy, window, level="k3", inputs=slow).reason
    assert decide(policy, window, level="k3", inputs=fast).level == "k5"


def test_a_restart_must_earn_its_price() -> None:
    """k5 gains 7.7 %: a restart of 600 s is earned after 7,800 s, more than an hour and less than a day."""
    times = StepSeconds({0: 0.010, 3: 0.012, 5: 0.0145})
    window = measured((0.8, 0.7, 0.6), level="k3")
    dear = Inputs(step_times=times, restart_seconds=600.0)
    for payback, expected in ((3600, ActionName.HOLD), (86400, ActionName.STEP_UP)):
        policy = at_once(rule("high", HIGH, "StepUp"), costModel={"paybackSeconds": payback})
        decision = decide(policy, window, level="k3", inputs=dear)
        assert decision.action is expected
    policy = at_once(rule("high", HIGH, "StepUp"), costModel={"paybackSeconds": 3600})
    assert "a restart of 600 s earns its price only after" in decide(policy, window, level="k3", inputs=dear).reason
    live = replace(dear, restart_seconds=0.0)
    assert decide(policy, window, level="k3", inputs=live).action is ActionName.STEP_UP


LONG_LADDER: dict[str, Any] = {
    "drafters": [{"name": "small", "method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct"}],
    "levels": [
        *({"name": f"k{tokens}", "drafter": "small", "tokens": tokens} for tokens in (7, 5, 3)),
        {"name": "disabled"},
    ],
}


def test_step_up_goes_straight_to_the_best_level() -> None:
    """.9 at every position of k3: 3.7 in 12 ms now; k5 5.18 in 14 ms, k7 6.58 in 24 ms: k5 is best.

    Mean acceptance is .9^(1/3) = .965, so positions 4 to 7 are .869 .839 .810 .782: 5.41 tokens at k5, 7.00 at k7.
    Speeds are 308, 386 and 292 a second.  With a k7 step of 16 ms (437 a second) it is k7, past k5.
    """
    policy = at_once(rule("high", HIGH, "StepUp"), **LONG_LADDER)
    window = measured((0.9, 0.9, 0.9), level="k3")
    for seconds, best in ((0.024, "k5"), (0.016, "k7")):
        times = StepSeconds({0: 0.010, 3: 0.012, 5: 0.014, 7: seconds})
        assert decide(policy, window, level="k3", inputs=Inputs(step_times=times)).level == best


MTP = Drafter("mtp", Method.MTP)


def test_high_acceptance_that_does_not_pay_is_disabled() -> None:
    """vLLM issue 39680: MTP K=1, 96.6 % accepted, 128 tokens a second where off had 342: a step of 5.25 plain ones.

    1.966 / 5.25 - 1 = -63 %, so the field report's rule `does-not-pay` disables after its ten minutes.
    """
    policy = default_policy(running=MTP, tokens=1)
    assert policy.ladder.names() == ("k1", "ngram", "disabled")
    plain = 1.0 / 342.0
    times = StepSeconds({0: plain, 1: 5.25 * plain})
    world = World({"mtp": flat(0.966)})
    target = Target(policy, world, "k1", inputs=Inputs(step_times=times), state=fresh("k1", -1e6))
    (change,) = target.run(3)
    assert (change.decision.action, change.after, change.decision.rule) == (
        ActionName.DISABLE,
        "disabled",
        "does-not-pay",
    )
    assert "-63 %" in change.decision.reason


def test_step_down_skips_a_level_that_pays_less_than_the_next() -> None:
    """vLLM issue 44697: 25 ms a round on a plain step of 20 ms; survival .7 .5 at K=2.

    k2 yields 2.2 / 45 ms = 49 tokens a second, k1 1.7 / 45 ms = 38, off 50: from k2 down is straight to off.
    """
    levels = [
        {"name": "k2", "drafter": "small", "tokens": 2},
        {"name": "k1", "drafter": "small", "tokens": 1},
        {"name": "disabled"},
    ]
    policy = at_once(rule("low", {"acceptance": {"belowPercent": 70}}, "StepDown"), **{**LONG_LADDER, "levels": levels})
    window = measured((0.7, 0.5), level="k2")
    times = StepSeconds({0: 0.020, 1: 0.045, 2: 0.045})
    decision = decide(policy, window, level="k2", inputs=Inputs(step_times=times))
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "disabled")
    assert decide(policy, window, level="k2").level == "k1"


@pytest.mark.parametrize("coverage", [0.0, 0.02], ids=["no draft", "scarce drafts"])
def test_drafts_that_never_come_are_evidence_of_no_gain(coverage: float) -> None:
    """n-gram with a match in 2 % of the steps: at most 1 + .02 x 4 = 1.08, and at 50 % accepted 1.04 tokens a step.

    That is under 1.05, so that no step time makes it pay, and `does-not-pay` needs none to say so.
    """
    policy = default_policy()
    world = World({"lookup": flat(0.5)}, coverage={"lookup": coverage})
    target = Target(policy, world, "ngram", state=fresh("ngram", -600.0))
    changes = target.run(4)
    assert [(change.after, change.decision.rule) for change in changes] == [("disabled", "does-not-pay")]


def test_drafts_that_may_be_too_scarce_are_not_sure_to_pay() -> None:
    """1.05 tokens a step, give or take: without step times it is not known whether anything could make it pay."""
    policy = default_policy()
    rule_of = {one.name: one for one in policy.rules}
    window = measured(constant(0.5, 4), level="ngram", coverage=0.025, drafts=225.0)
    ngram = policy.ladder.find("ngram")
    assert ngram is not None
    judged = judge(rule_of["does-not-pay"].when, [Pool((window,), 300.0, 50.0)], Economics(policy, None, ngram))
    assert judged.truth is Truth.INCONCLUSIVE
    assert judged.text == "tokens added by drafts 5 % (4 to 6 %) over 300 s is too near the limit of 5 % to tell"


def test_a_collapse_shows_in_the_short_span() -> None:
    """A calm hour at 72 %, then 25 %: the pool of the hour still says 68 %, the newest window alone decides."""
    policy = policy_of(rules=[rule("low", LOW, "StepDown", for_seconds=0)])
    windows = [measured(constant(0.72, 5), end=300.0 * place) for place in range(1, 12)]
    collapsed = measured(constant(0.25, 5), end=3600.0)
    decision = decide(policy, *windows, collapsed)
    assert decision.action is ActionName.STEP_DOWN
    assert "over 300 s" in decision.reason


def test_a_small_shift_shows_in_the_long_span() -> None:
    """38 % against 40 %: 900 independent drafts a window (.3 to .42 is too near), 10,800 in an hour tell.

    2.58 sqrt(.38 .62 / 900) = .042 for one window of five looks, 2.58 sqrt(.38 .62 / 10,800) = .012 for twelve.
    """
    policy = policy_of(rules=[rule("low", LOW, "StepDown", for_seconds=0)])
    windows = [measured(constant(0.38, 5), end=300.0 * place) for place in range(1, 13)]
    assert decide(policy, *windows[:1]).action is ActionName.HOLD
    decision = decide(policy, *windows)
    assert decision.action is ActionName.STEP_DOWN
    assert "over 300 s" not in decision.reason
