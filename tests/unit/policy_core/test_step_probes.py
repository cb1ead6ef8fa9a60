"""Probes: when a level of another drafter is tried, on what, and what becomes of it."""

from dataclasses import dataclass, replace

import pytest

from specloop_policy.cost import Load, StepTimes
from specloop_policy.decision import ActionName, Inputs, Probe, Trial
from specloop_policy.ladder import Level
from specloop_policy.observation import Observation, Outcome, Workload
from specloop_policy.policy import Policy
from specloop_policy.probes import candidates
from specloop_policy.step import fresh, step
from tests.support.policies import default_policy, policy_of, rule
from tests.support.windows import constant, measured, off
from tests.support.worlds import Target, World, flat, silent

LOW = rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)


PLAIN = policy_of(rules=[LOW])


def at(level: str, world: World, *, pods: int = 3, policy: Policy = PLAIN, times: StepTimes | None = None) -> Target:
    """A target that entered its level at time 0."""
    return Target(policy, world, level, pods, Inputs(step_times=times), fresh(level, 0.0))


GOOD = World({"small": flat(0.7), "lookup": flat(0.6)})
POOR = World({"small": flat(0.2), "lookup": flat(0.2)})


def test_candidates_are_the_lowest_level_of_each_other_drafter_above() -> None:
    """From off n-gram, then k3; from n-gram k3; from k3 nothing, for k5 is predicted."""
    ladder = default_policy().ladder
    names = {level.name: tuple(one.name for one in candidates(ladder, level)) for level in ladder.levels}
    assert names == {"k5": (), "k3": (), "ngram": ("k3",), "disabled": ("ngram", "k3")}


def test_off_is_left_by_a_probe_of_the_next_level_up_after_its_gap() -> None:
    """An hour after the level was entered, on one of three replicas, and the level itself stays."""
    target = at("disabled", GOOD)
    target.run(11)
    assert target.changes == []
    (probe,) = target.run(1)
    assert (probe.at, probe.decision.action, probe.decision.level) == (3600.0, ActionName.PROBE, "ngram")
    assert (probe.decision.rule, probe.decision.after_seconds) == ("probe", 3600.0)
    assert "on one replica" in probe.decision.reason
    assert (target.level, target.probed) == ("disabled", "ngram")


def test_n_gram_is_left_by_a_probe_of_the_draft_model() -> None:
    """Its acceptance says nothing of the draft model's."""
    target = at("ngram", GOOD)
    (probe,) = target.run(12)
    assert (probe.decision.action, probe.decision.level) == (ActionName.PROBE, "k3")


def test_a_probe_that_no_rule_objects_to_is_won() -> None:
    """n-gram at 60 %: up for all, with the interval in the reason; a cool-down lies between the two changes."""
    target = at("disabled", GOOD)
    target.run(20)
    won = target.changes[1]
    assert (won.decision.action, won.after, won.decision.rule) == (ActionName.STEP_UP, "ngram", "probe")
    assert won.decision.reason.startswith("the probe of ngram is won: acceptance 60 % (")
    assert won.at - target.changes[0].at >= 900.0
    assert (target.level, target.probed) == ("ngram", None)


def test_the_way_back_leads_to_the_top() -> None:
    """Off, n-gram, k3 by probes; k5 by prediction: 70 % at every position of k3 promises 51 % of five or more."""
    policy = policy_of(
        rules=[LOW, rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=600)],
    )
    target = at("disabled", GOOD, policy=policy)
    target.run(40)
    assert [change.after for change in target.changes if change.before != change.after] == ["ngram", "k3", "k5"]


def test_a_probe_that_a_rule_would_lower_is_lost_and_tried_again_after_a_growing_gap() -> None:
    """20 % against 40: lost at the first conclusive window; 2, 4, 8, 16, 24 and 24 hours later again."""
    policy = policy_of(rules=[LOW, rule("never", {"kvCache": {"abovePercent": 100}}, "Disable")])
    only_ngram = replace(policy, ladder=replace(policy.ladder, levels=policy.ladder.levels[2:]))
    target = at("disabled", POOR, policy=only_ngram)
    target.run(12 * 24 * 5)
    probes = [change.at for change in target.changes if change.decision.action is ActionName.PROBE]
    losses = [change.at for change in target.changes if change.decision.action is ActionName.DISABLE]
    assert "the probe of ngram is lost: rule low would lower it: acceptance 20 %" in target.changes[1].decision.reason
    assert "next try in 7200 s" in target.changes[1].decision.reason
    gaps = [later - lost for lost, later in zip(losses, probes[1:], strict=False)]
    assert gaps[:5] == [7200.0, 14400.0, 28800.0, 57600.0, 86400.0]
    assert set(gaps[5:]) == {86400.0}
    assert target.level == "disabled"


def test_a_lost_probe_leaves_the_next_drafter_its_own_gap() -> None:
    """n-gram matches nothing, the draft model is good: k3 is tried as soon as the cool-down allows."""
    target = at("disabled", World({"small": flat(0.7), "lookup": flat(0.2)}))
    target.run(30)
    story = [(change.decision.action, change.decision.level) for change in target.changes]
    assert story[:4] == [
        (ActionName.PROBE, "ngram"),
        (ActionName.DISABLE, "disabled"),
        (ActionName.PROBE, "k3"),
        (ActionName.STEP_UP, "k3"),
    ]


def test_the_only_replica_is_tried_too() -> None:
    """With one replica the target itself runs the level under trial, and the memory still says where it came from."""
    target = at("disabled", GOOD, pods=1)
    target.run(13)
    assert "on the one replica there is" in target.changes[0].decision.reason
    assert target.observation().workload == Workload("ngram", 1)
    assert (target.state.level, target.state.probe) == ("disabled", Probe("ngram", 3600.0))
    target.run(6)
    assert target.level == "ngram"


def test_a_fault_loses_a_probe() -> None:
    """n-gram drafts and nothing is ever accepted: the drafter is dead, not the traffic bad."""
    policy = policy_of(rules=[rule("never", {"kvCache": {"abovePercent": 100}}, "Disable")])
    target = at("disabled", World({"small": flat(0.7), "lookup": flat(0.0)}), policy=policy)
    target.run(16)
    assert "the probe of ngram is lost: DrafterDead" in target.changes[1].decision.reason


def test_a_probe_without_evidence_is_lost_at_its_deadline() -> None:
    """Settling and twice the evidence, 60 + 2 x 3,600 s; until then it stays open.  A window's end is what counts."""
    policy = policy_of(rules=[LOW])
    state = replace(fresh("disabled", -1e6), probe=Probe("ngram", 0.0))
    for end, action in ((7200.0, ActionName.HOLD), (7500.0, ActionName.DISABLE)):
        windows = (off(pod="pod-0", end=end), silent(policy, "ngram", Outcome.THIN, pod="pod-1", end=end))
        for now in (end, end + 150.0):
            decision, _ = step(policy, state, Observation(windows, Workload("disabled", 2)), Inputs(), now)
            assert decision.action is action, (end, now)


def test_a_probe_that_is_only_inconclusive_goes_on() -> None:
    """39 % against 40: not lost, not won."""
    target = at("disabled", World({"small": flat(0.7), "lookup": flat(0.39)}))
    target.run(16)
    assert [change.decision.action for change in target.changes] == [ActionName.PROBE]
    assert target.decide().reason.startswith("probing ngram: ")


def test_a_probe_waits_until_it_is_sure_that_drafts_are_not_scarce() -> None:
    """Coverage 19.5 % against 20: 9,000 steps a window are 18 to 20 %, so that high acceptance alone does not win.

    1.96 sqrt(.195 .805 / 9,000) = .008 with one window and a design effect of 1; five windows are 2.50 sqrt(.195 .805 /
    45,000) = .0047, and the probe is lost.
    """
    scarce = rule("scarce", {"coverage": {"belowPercent": 20}}, "Disable", for_seconds=0)
    policy = policy_of(rules=[LOW, scarce], signals={"designEffect": 1})
    world = World({"small": flat(0.7), "lookup": flat(0.6)}, coverage={"lookup": 0.195})
    target = at("disabled", world, policy=policy, pods=1)
    target.run(12)
    assert [target.decide().reason[:15] for _ in range(5)] == ["probing ngram: "] * 5
    assert (
        "the probe of ngram is lost: rule scarce would lower it: coverage 20 % (19 to 20 %)" in target.decide().reason
    )


def test_a_level_of_another_drafter_between_two_of_one_is_tried() -> None:
    """a5, b4, a2: that a2 may not go up to a5 is no reason to leave b4 untried."""
    levels = [
        {"name": "a5", "drafter": "small", "tokens": 5},
        {"name": "b4", "drafter": "lookup", "tokens": 4},
        {"name": "a2", "drafter": "small", "tokens": 2},
        {"name": "disabled"},
    ]
    high = rule("high", {"acceptance": {"abovePercent": 55}}, "StepUp", for_seconds=0)
    policy = policy_of(levels=levels, rules=[LOW, high])
    # At a2 .9 .3 is 60 %; the mean acceptance is .548, so .164 .090 .049 follow: 1.503 of 5 is 30 %, too low for a5.
    world = World({"small": (0.9, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1), "lookup": flat(0.6)}, requests=240.0)
    target = at("a2", world, policy=policy)
    changes = target.run(12)
    assert [(change.decision.action, change.decision.level) for change in changes] == [(ActionName.PROBE, "b4")]


def test_a_rule_that_holds_whatever_the_drafter_blocks_the_probe() -> None:
    """Hot traffic sent the target to n-gram and would send it there again: k3 is not tried until it cools."""
    hot = rule("hot", {"temperature": {"above": "0.6", "sharePercent": 50}}, "SwitchTo", level="ngram", for_seconds=0)
    target = at("ngram", replace(GOOD, hot_share=0.9), policy=policy_of(rules=[hot, LOW]))
    assert target.run(100) == []
    target.world = replace(GOOD, hot_share=0.1)
    probes = target.run(15)
    assert probes[0].decision.level == "k3"


def test_without_traffic_nothing_is_tried() -> None:
    """Nobody asks anything, so that nothing would be learnt."""
    target = at("disabled", replace(GOOD, requests=0.0))
    assert target.run(50) == []


def test_a_probe_counts_as_a_change_by_rules() -> None:
    """The daily limit of one is used up by the first probe, and the second waits for the next day."""
    target = at("disabled", POOR, policy=policy_of(rules=[LOW], guardrails={"maxChangesPerDay": 1}))
    target.run(12 * 24)
    assert [change.decision.action for change in target.changes] == [ActionName.PROBE, ActionName.DISABLE]


@dataclass(frozen=True)
class Slow:
    """Every speculative step takes three plain ones."""

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step."""
        return 0.030 if level.speculates else 0.010


def test_a_probe_that_gains_nothing_is_lost() -> None:
    """n-gram at 60 % of 4 is 3.4 tokens for three steps' time, 13 % more: won; at 45 % 2.8, 7 % less: lost."""
    won, lost = (
        at("disabled", World({"small": flat(0.2), "lookup": flat(rate)}), times=Slow()) for rate in (0.6, 0.45)
    )
    won.run(18)
    lost.run(18)
    assert (won.level, lost.level) == ("ngram", "disabled")
    assert "estimated gain -7 % is below the margin of 5 %" in lost.changes[1].decision.reason


def test_a_level_that_was_won_and_lost_again_soon_is_tried_after_a_longer_gap() -> None:
    """n-gram wins at 60 % and falls to 20 % at once: its loss is remembered, and two hours pass before the next."""
    target = at("disabled", GOOD)
    target.run(16)
    assert target.level == "ngram"
    target.world = POOR
    target.run(10)
    assert target.level == "disabled"
    lost = target.changes[-1].at
    assert target.state.trials == (Trial("ngram", 1, lost),)
    target.run(60)
    tries = [change.at for change in target.changes if change.decision.level == "ngram" and change.at > lost]
    assert tries[0] == lost + 7200.0


def test_a_level_that_stood_long_is_lost_without_a_grudge() -> None:
    """Entered by a probe, two days of good traffic, then a collapse: the next probe comes after the first gap again."""
    only_ngram = policy_of(rules=[LOW])
    only_ngram = replace(only_ngram, ladder=replace(only_ngram.ladder, levels=only_ngram.ladder.levels[2:]))
    target = at("disabled", POOR, policy=only_ngram)
    target.run(20)
    assert target.state.trials[0].losses == 1
    target.world = GOOD
    target.run(2 * 12 * 24)
    assert target.level == "ngram"
    target.world = POOR
    target.run(10)
    assert target.level == "disabled"
    assert target.state.trials == ()


@pytest.mark.parametrize("pods", [1, 3])
def test_base_windows_are_no_evidence_of_the_probed_level(pods: int) -> None:
    """While n-gram is tried the other pods' windows, and those from before the probe, say nothing of it."""
    policy = policy_of(rules=[LOW])
    before = tuple(measured(constant(0.9, 4), level="ngram", end=end, requests=500.0) for end in (300.0, 600.0))
    state = replace(fresh("disabled", 700.0), probe=Probe("ngram", 900.0))
    windows = (*before, *(off(pod=f"pod-{pod}", end=1200.0) for pod in range(pods)))
    level = "ngram" if pods == 1 else "disabled"
    decision, _ = step(policy, state, Observation(windows, Workload(level, pods)), Inputs(), 1200.0)
    assert decision.action is ActionName.HOLD
