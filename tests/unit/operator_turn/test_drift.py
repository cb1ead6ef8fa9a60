"""Somebody else sets another level than the operator had."""

from dataclasses import replace

from specloop_operator.conditions import ConditionReason
from specloop_operator.turn import new_generation
from specloop_policy.canary import Ending, Kind, Step
from specloop_policy.decision import FailedChange
from tests.unit.operator_turn.scenes import WRONG, Scene


class TestDrift:
    """k3 was promoted, and somebody else sets another level."""

    def drifted(self) -> Scene:
        """Back at k5, by whoever."""
        scene = Scene().promoted()
        scene.all_at("k5")
        scene.turn()
        return scene

    def asks(self, scene: Scene) -> None:
        """A window later, the rule asks for k3 again."""
        scene.now += 1000.0
        scene.low()

    def test_is_noticed_and_held(self) -> None:
        """Whatever the rules ask for, look after look."""
        scene = self.drifted()
        words = "k3 was written, and somebody else set k5"
        assert (scene.remembered.reverted, scene.remembered.written_level) == (words, None)
        for _ in range(3):
            self.asks(scene)
            turn = scene.turn()
            assert turn.blocked == (ConditionReason.REVERTED, f"{words}: held until the policy is edited or overridden")
            assert turn.step is Step.WAIT
        assert scene.level == "k5"

    def test_is_over_when_the_policy_is_edited(self) -> None:
        """A new generation is somebody's word too; what failed before may be tried again."""
        scene = self.drifted()
        state = replace(scene.remembered.state, quarantine=(FailedChange("ngram", "key", "it crashed"),))
        scene.remembered = new_generation(replace(scene.remembered, state=state))
        assert (scene.remembered.reverted, scene.remembered.state.quarantine) == ("", ())
        self.asks(scene)
        assert scene.turn().began is not None

    def test_is_over_when_an_override_asks_for_a_level(self) -> None:
        """And stays over once that was written."""
        scene = self.drifted()
        scene.override("k3")
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, scene.remembered.reverted) == (Kind.FORCED, "")

    def test_is_not_over_by_an_override_that_has_run_out(self) -> None:
        """It asks for nothing any more."""
        scene = self.drifted()
        scene.override("k3", until=scene.now - 60.0)
        self.asks(scene)
        assert scene.turn().blocked is not None

    def test_to_what_is_no_level_says_what_it_is(self) -> None:
        """The words name the setting."""
        scene = Scene().promoted()
        scene.level = "none of the ladder"
        scene.turn()
        assert scene.remembered.reverted.startswith("k3 was written, and somebody else set ")
        assert "ngram" in scene.remembered.reverted

    def test_in_the_middle_of_a_roll_out_ends_it_where_it_is(self) -> None:
        """`kubectl rollout undo`: nothing is written over it, it is unpaused, held and said."""
        scene = Scene().soaking()
        scene.level = "k5"
        turn = scene.turn()
        assert (turn.ended, turn.step, scene.held) == (Ending.UNDONE, Step.LET_GO, False)
        assert scene.remembered.reverted == "somebody else set k5 while k3 was rolled out: left as it is"
        assert scene.remembered.state.level == "k5"
        scene.pods.pop()
        self.asks(scene)
        assert scene.turn().blocked is not None

    def test_does_not_keep_a_person_from_asking_for_that_level(self) -> None:
        """What was undone is out of the rules' reach; an override is a newer word."""
        scene = Scene().soaking()
        scene.all_at("k5")
        scene.turn()
        assert [(one.level, one.rules_only) for one in scene.remembered.state.quarantine] == [("k3", True)]
        scene.override("k3")
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.level, turn.began.kind) == ("k3", Kind.FORCED)

    def test_on_the_way_back_is_somebody_else_s_word_too(self) -> None:
        """The canary is being taken back when a person sets n-gram."""
        scene = Scene().soaking()
        scene.turn(verdict=WRONG)
        scene.all_at("ngram")
        scene.turn(verdict=None)
        assert scene.level == "ngram"
        assert scene.remembered.reverted

    def test_before_anything_was_written_is_none(self) -> None:
        """A level that people change while the operator had no word in it is simply what runs."""
        scene = Scene()
        scene.turn()
        scene.all_at("ngram")
        scene.turn()
        assert (scene.remembered.reverted, scene.remembered.state.level) == ("", "ngram")
