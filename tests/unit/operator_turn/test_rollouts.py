"""A roll-out that a rule, or a person's override, asks for, from turn to turn."""

from dataclasses import replace

import pytest

from specloop_operator.turn import restart_seconds
from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.decision import ActionName
from specloop_policy.watch import Watch
from tests.unit.operator_turn.scenes import NOW, OPEN, PASSED, SLOWER, WRONG, PodOf, Scene


class TestARollOutByARule:
    """Acceptance is low at k5, and the rule steps down to k3."""

    def test_begins_with_a_decision_and_a_written_template(self) -> None:
        """What led to it is said once."""
        scene = Scene()
        scene.low()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level, turn.began.back_to) == (Kind.RULE, "k3", "k5")
        assert turn.decision is not None
        assert (turn.decision.action, turn.before) == (ActionName.STEP_DOWN, "k5")
        assert (turn.step, scene.level) == (Step.WRITE, "k3")
        assert scene.turn().decision is None

    def test_is_soaked_compared_and_promoted(self) -> None:
        """The rest follows, and it is watched for two hours."""
        scene = Scene().promoted()
        steps = [turn.step for turn in scene.turns if turn.step is not Step.WAIT]
        assert steps == [Step.WRITE, Step.HOLD, Step.RELEASE]
        assert [turn.moved for turn in scene.turns if turn.moved] == [Phase.CANARY, Phase.SOAKING, Phase.PROMOTING]
        last = scene.turns[-1]
        assert (last.ended, last.decision) == (Ending.PROMOTED, None)
        remembered = scene.remembered
        assert (remembered.state.level, remembered.written_level, remembered.previous_level) == ("k3", "k3", "k5")
        assert remembered.watch == Watch("k3", "k5", scene.sight().keys["k3"], scene.now, scene.now + 7200.0)

    def test_says_the_size_of_its_canary(self) -> None:
        """One of four pods."""
        scene = Scene().soaking()
        assert scene.remembered.canary_pods == 1

    @pytest.mark.parametrize(
        ("verdict", "ending", "until"), [(WRONG, Ending.FAILED, None), (SLOWER, Ending.LOST, 3600.0 * 2)]
    )
    def test_that_fails_is_taken_back_and_not_tried_again(
        self, verdict: object, ending: Ending, until: float | None
    ) -> None:
        """Wrong answers: until it or the image changes; slower: after the gap of probes, an hour doubled once."""
        scene = Scene().soaking()
        assert scene.turn(verdict=verdict).step is Step.PUT_BACK
        assert (scene.level, scene.held) == ("k5", False)
        scene.pods.pop()
        turn = scene.turn(verdict=None)
        assert turn.ended is ending
        assert turn.decision is not None
        assert turn.decision.level == "k5"
        (failed,) = scene.remembered.state.quarantine
        assert (failed.level, failed.key) == ("k3", scene.sight().keys["k3"])
        assert failed.until == (None if until is None else scene.now + until)
        assert failed.rules_only == (ending is Ending.LOST)
        assert (scene.remembered.state.level, scene.remembered.watch) == ("k5", None)
        scene.now += 1000.0
        scene.low()
        again = scene.turn()
        assert again.began is not None
        assert again.began.level == "ngram"

    def test_whose_pods_fail_says_their_last_words(self) -> None:
        """The container's message stands in what is said."""
        scene = Scene()
        scene.low()
        scene.turn()
        scene.pods.append(PodOf("llama-new", "k3", ready_since=None, restarts=3))
        turn = scene.turn()
        assert turn.moved is Phase.ROLLING_BACK
        assert turn.words.startswith("pod llama-new fails: its container ended 3 times")

    def test_of_one_pod_has_no_control(self) -> None:
        """The canary is all there is, once the old pod is gone."""
        scene = Scene(replicas=1)
        scene.low()
        scene.turn()
        scene.pods = [PodOf("llama-new", "k3", ready_since=scene.now)]
        turns = [scene.turn(verdict=OPEN) for _ in range(3)]
        assert turns[-1].no_control
        assert not scene.turns[0].no_control

    def test_of_a_stateful_set_is_held_by_its_partition(self) -> None:
        """In the same write."""
        scene = Scene(kind="StatefulSet")
        scene.low()
        scene.turn()
        assert (scene.level, scene.held) == ("k3", True)
        scene.pods[-1] = PodOf("llama-2", "k3", ready_since=scene.now)
        for verdict in (None, None, OPEN, PASSED):
            scene.turn(verdict=verdict)
        assert [turn.step for turn in scene.turns] == [Step.WRITE, Step.WAIT, Step.WAIT, Step.WAIT, Step.RELEASE]


class TestAnOverride:
    """A person asks for n-gram."""

    def forced(self, **more: float) -> Scene:
        """It is promoted by a canary that is not judged by its speed."""
        scene = Scene()
        scene.override("ngram", **more)
        turn = scene.turn()
        assert turn.began is not None
        assert turn.began.kind is Kind.FORCED
        scene.until_soaking("ngram")
        scene.turn(verdict=PASSED)
        scene.all_at("ngram")
        scene.turn(verdict=None)
        return scene

    def test_holds_its_level(self) -> None:
        """And remembers where to go back to."""
        scene = self.forced()
        forced = scene.remembered.state.forced
        assert forced is not None
        assert (forced.by, forced.back_to, forced.alert) == ("the override by ada", "k5", False)
        turn = scene.turn()
        assert turn.decision is not None
        assert turn.decision.reason == "the override by ada asks for ngram"

    def test_whose_canary_gives_no_verdict_is_not_asked_for_again_at_once(self) -> None:
        """The same wish would lead to the same end, restart after restart."""
        scene = Scene()
        scene.override("ngram")
        scene.turn()
        scene.until_soaking("ngram")
        scene.now += 3600.0
        assert scene.turn(verdict=OPEN).moved is Phase.ROLLING_BACK
        scene.pods.pop()
        assert scene.turn(verdict=None).ended is Ending.LOST
        turn = scene.turn()
        assert turn.began is None
        assert turn.decision is not None
        assert "asks for ngram, but ngram failed (no verdict within" in turn.decision.reason

    def test_that_runs_out_goes_back_by_a_canary_too(self) -> None:
        """To where the level was."""
        scene = self.forced(until=NOW + 600.0)
        scene.now = NOW + 700.0
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level) == (Kind.FORCED, "k5")

    def test_that_has_run_out_calls_nothing_off(self) -> None:
        """The annotation stays where it is."""
        scene = Scene().soaking()
        scene.override("disabled", until=scene.now - 1.0)
        scene.turn()
        assert scene.remembered.rollout is not None
        assert scene.remembered.rollout.soaking

    def test_for_the_level_that_is_rolled_out_lets_it_go_on(self) -> None:
        """Nothing else is asked for."""
        scene = Scene().soaking()
        scene.override("k3")
        scene.turn()
        assert scene.remembered.rollout is not None
        assert scene.remembered.rollout.soaking

    def test_that_runs_out_or_is_taken_back_in_the_middle_of_its_roll_out_calls_that_off(self) -> None:
        """Nobody asks for n-gram any more."""
        expiring, taken_back = Scene(), Scene()
        for scene, until in ((expiring, NOW + 600.0), (taken_back, None)):
            scene.override("ngram", until=until)
            scene.turn()
            scene.until_soaking("ngram")
        expiring.now = NOW + 700.0
        taken_back.annotations.clear()
        for scene in (expiring, taken_back):
            turn = scene.turn(verdict=OPEN)
            assert (turn.moved, turn.words) == (Phase.ROLLING_BACK, "the override by ada is over")
            scene.pods.pop()
            assert scene.turn(verdict=None).ended is Ending.CANCELLED
            assert (scene.remembered.state.level, scene.remembered.state.forced) == ("k5", None)

    def test_gives_way_to_nobody_but_another_wish(self) -> None:
        """A schedule for its own level leaves the roll-out alone once the override is over; for another it ends it."""
        for level, phase in (("ngram", Phase.SOAKING), ("disabled", Phase.ROLLING_BACK)):
            scene = Scene()
            scene.override("ngram")
            scene.turn()
            scene.until_soaking("ngram")
            scene.annotations.clear()
            always = {"name": "nightly", "cron": "* * * * *", "durationSeconds": 60, "level": level}
            scene.spec["schedules"] = [always]
            scene.turn(verdict=OPEN)
            assert scene.remembered.rollout is not None
            assert scene.remembered.rollout.phase is phase

    def test_has_its_turn_after_the_roll_out_that_it_called_off(self) -> None:
        """k3 is taken back first."""
        scene = Scene().soaking()
        scene.override("disabled")
        scene.turn()
        scene.pods.pop()
        scene.turn()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level) == (Kind.FORCED, "disabled")


def test_in_recommend_mode_a_decision_is_said_and_nothing_is_written() -> None:
    """Nor is a change remembered."""
    scene = Scene(spec={"mode": "Recommend"})
    scene.low()
    before = scene.remembered.state
    turn = scene.turn()
    assert turn.decision is not None
    assert turn.decision.changes_level
    assert (turn.step, turn.began, turn.blocked) == (Step.WAIT, None, None)
    assert replace(scene.remembered.state, holds_since=()) == before


def test_the_time_that_a_restart_takes_is_the_median_of_the_pods_that_run() -> None:
    """60 s each, from the container's start to ready; what a level costs rests on it."""
    sight = Scene().sight()
    assert restart_seconds(sight) == 60.0
    assert restart_seconds(replace(sight, pods=())) is None
