"""A probe from its first turn to its last: won, lost, failed or called off."""

from dataclasses import replace

import pytest

from specloop_operator.turn import ProbeNews
from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.decision import ActionName
from specloop_policy.step import fresh
from tests.unit.operator_turn.scenes import LOOK_SECONDS, NOW, OPEN, PASSED, SLOWER, PodOf, Scene, windows


def off() -> Scene:
    """Three pods at disabled, for a week without a change."""
    scene = Scene(level="disabled")
    scene.remembered = replace(scene.remembered, state=fresh("disabled", NOW - 6e5))
    return scene


def probing() -> Scene:
    """A probe of n-gram is on its canary, and its window settles."""
    scene = off()
    scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.0, scene.now + LOOK_SECONDS))
    turn = scene.turn()
    assert turn.began is not None
    assert (turn.began.kind, turn.began.level, turn.probe) == (Kind.PROBE, "ngram", ProbeNews.STARTED)
    scene.until_soaking("ngram")
    return scene


def show(scene: Scene, acceptance: float) -> None:
    """A window of what the canary did, after the cool-down that the probe began."""
    scene.now += 1000.0
    scene.measured = replace(scene.measured, windows=windows(scene.pods, acceptance, scene.now + LOOK_SECONDS))


class TestAProbe:
    """Speculation is off, and nothing is known of n-gram look-up; the rule lowers it below 40 %."""

    def test_leaves_the_level_where_it_was_until_it_is_won(self) -> None:
        """It holds in words that say what is tried."""
        scene = probing()
        turn = scene.turns[-1]
        assert scene.remembered.state.level == "disabled"
        assert turn.decision is not None
        assert turn.decision.action is ActionName.HOLD
        assert turn.decision.reason.startswith("probing ngram")
        assert (turn.evidence_level, turn.before) == ("ngram", "disabled")

    def test_is_not_ended_by_the_gate_s_pass(self) -> None:
        """That it serves no worse is not yet that it pays: the rules have the first word."""
        scene = probing()
        scene.turn(verdict=PASSED)
        assert scene.remembered.rollout is not None
        assert scene.remembered.rollout.soaking

    def test_that_is_won_goes_on_as_a_rule_s(self) -> None:
        """The gate's word comes second: inconclusive, it soaks on; passed, the rest follows."""
        scene = probing()
        show(scene, 0.7)
        turn = scene.turn(verdict=OPEN)
        assert turn.probe is ProbeNews.WON
        assert turn.decision is not None
        assert (turn.decision.action, turn.decision.level, turn.before) == (ActionName.STEP_UP, "ngram", "disabled")
        assert scene.remembered.rollout is not None
        assert (scene.remembered.rollout.kind, scene.remembered.rollout.phase) == (Kind.RULE, Phase.SOAKING)
        assert scene.turn(verdict=PASSED).moved is Phase.PROMOTING
        scene.all_at("ngram")
        assert scene.turn(verdict=None).ended is Ending.PROMOTED
        assert scene.remembered.state.level == "ngram"
        assert scene.remembered.watch is not None

    def test_that_is_lost_is_taken_back_and_its_gap_remembered(self) -> None:
        """Acceptance of 20 %: the rule would lower it; the next try comes two hours later."""
        scene = probing()
        show(scene, 0.2)
        turn = scene.turn()
        assert (turn.probe, turn.step) == (ProbeNews.LOST, Step.PUT_BACK)
        assert turn.decision is not None
        assert (turn.decision.level, turn.before) == ("disabled", "ngram")
        scene.pods.pop()
        ended = scene.turn()
        assert scene.level == "disabled"
        assert ended.ended is not None
        assert [(one.level, one.losses) for one in scene.remembered.state.trials] == [("ngram", 1)]
        assert (scene.remembered.state.level, scene.remembered.state.probe) == ("disabled", None)

    def test_that_serves_slower_is_lost(self) -> None:
        """Whatever its acceptance: a loss like one by the rules."""
        scene = probing()
        scene.turn(verdict=SLOWER)
        scene.pods.pop()
        assert scene.turn(verdict=None).ended is Ending.LOST
        assert [(one.level, one.losses) for one in scene.remembered.state.trials] == [("ngram", 1)]
        assert scene.remembered.state.probe is None

    def test_that_crashes_is_a_failure_for_good(self) -> None:
        """It is not probed again."""
        scene = probing()
        scene.pods[-1] = PodOf("llama-ngram", "ngram", ready_since=None, restarts=3)
        scene.turn()
        scene.pods.pop()
        assert scene.turn().ended is Ending.FAILED
        assert [one.level for one in scene.remembered.state.quarantine] == ["ngram"]
        assert scene.remembered.state.probe is None

    @pytest.mark.parametrize("ask", ["suspend", "recommend", "override"])
    def test_that_is_called_off_is_no_loss(self, ask: str) -> None:
        """Nothing was learnt."""
        scene = probing()
        if ask == "suspend":
            scene.suspend()
        elif ask == "recommend":
            scene.spec["mode"] = "Recommend"
        else:
            scene.override("k5")
        assert scene.turn().moved is Phase.ROLLING_BACK
        scene.pods.pop()
        assert scene.turn().ended is Ending.CANCELLED
        assert (scene.remembered.state.trials, scene.remembered.state.quarantine) == ((), ())
        assert scene.remembered.state.probe is None
