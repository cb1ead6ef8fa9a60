"""A promoted level that is watched, and people who ask to be back before it."""

import pytest

from specloop_operator.turn import new_generation
from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.observation import Outcome, Service, Window
from tests.unit.operator_turn.scenes import LOOK_SECONDS, NOW, PASSED, WRONG, Scene


class TestAWatchedLevel:
    """k3 was promoted, k5 is what it replaced."""

    def test_that_does_harm_is_left_by_all_pods_at_once(self) -> None:
        """Not tried again, and what is gone back to is not watched."""
        scene = Scene().promoted()
        scene.pods[0].restarts = 2
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level, turn.began.phase) == (Kind.RETREAT, "k5", Phase.PROMOTING)
        assert (turn.step, scene.level, scene.held) == (Step.WRITE, "k5", False)
        assert turn.decision is not None
        assert turn.decision.reason == (
            "k3 failed (2 restarts of its engines since it was promoted): back to k5; "
            "it is not tried again until its configuration or image changes"
        )
        scene.all_at("k5")
        assert scene.turn().ended is Ending.PROMOTED
        remembered = scene.remembered
        assert [(one.level, one.key) for one in remembered.state.quarantine] == [("k3", scene.sight().keys["k3"])]
        assert (remembered.watch, remembered.previous_level) == (None, None)

    def test_is_left_for_a_hang_and_for_errors(self) -> None:
        """Two stalled windows of one pod; 20 of 120 requests where 1 % are allowed."""
        hanging, failing = Scene().promoted(), Scene().promoted()
        pod, end = hanging.pods[0].name, hanging.now
        stalled = tuple(
            Window(pod, end + 15.0 * place, end + 15.0 * (place + 1), Outcome.STALLED, level="k3") for place in (0, 1)
        )
        hanging.now += 30.0
        assert hanging.turn(windows=stalled).began is not None
        assert failing.turn(served=Service(finished_requests=100.0, failed_requests=20.0)).began is not None

    def test_may_fail_as_often_as_what_was_beside_its_canary(self) -> None:
        """5 % failed at k5 too: that was known when the gate passed, and is what counts hours later."""
        scene = Scene().soaking()
        scene.turn(verdict=PASSED, failed_share=0.05)
        scene.all_at("k3")
        scene.turn(verdict=None, failed_share=0.0)
        assert scene.remembered.watch is not None
        assert scene.remembered.watch.failed_share == 0.05
        assert scene.turn(served=Service(finished_requests=1000.0, failed_requests=50.0)).began is None
        assert scene.turn(served=Service(finished_requests=1000.0, failed_requests=150.0)).began is not None

    def test_restarts_of_its_pods_before_the_promotion_are_not_counted_against_it(self) -> None:
        """A canary that ended twice while it started, and then served for its whole soak, passed."""
        scene = Scene().soaking()
        scene.pods[-1].restarts = 2
        scene.turn(verdict=PASSED)
        scene.all_at("k3")
        scene.pods[0].restarts = 2
        scene.turn(verdict=None)
        assert scene.turn().began is None

    def test_is_watched_for_as_long_as_is_asked_for(self) -> None:
        """Two hours later, restarts are nobody's business."""
        scene = Scene().promoted()
        scene.now += 7200.0
        scene.pods[0].restarts = 2
        assert scene.turn().began is None
        assert scene.remembered.watch is None

    def test_is_not_watched_where_nobody_asks_for_it(self) -> None:
        """watchSeconds of 0."""
        assert Scene(spec={"rollout": {"watchSeconds": 0}}).promoted().remembered.watch is None

    def test_is_not_watched_on_once_it_is_left(self) -> None:
        """Somebody sets another one."""
        scene = Scene().promoted()
        scene.all_at("ngram")
        scene.turn()
        assert scene.remembered.watch is None


class TestAPersonWhoAsksToRollBack:
    """`specloop rollback` writes an annotation with a time."""

    def test_gets_back_what_was_before_the_last_promoted_change(self) -> None:
        """All pods at once, and the level is not tried again."""
        scene = Scene().promoted()
        scene.roll_back()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level) == (Kind.RETREAT, "k5")
        scene.all_at("k5")
        scene.turn()
        assert [one.reason for one in scene.remembered.state.quarantine] == ["rolled back by ada"]
        assert scene.remembered.rolled_back_at == float(int(NOW + 5 * LOOK_SECONDS + LOOK_SECONDS))

    def test_is_asked_once(self) -> None:
        """The annotation stays; the next level that is promoted is not rolled back for it."""
        scene = Scene().promoted()
        scene.roll_back()
        scene.turn()
        scene.all_at("k5")
        scene.turn()
        scene.now += 1000.0
        assert scene.turn().began is None

    def test_in_the_middle_of_a_roll_out_ends_it(self) -> None:
        """The old template is back, and that configuration is not tried again."""
        scene = Scene().soaking()
        scene.roll_back()
        assert scene.turn().step is Step.PUT_BACK
        scene.pods.pop()
        turn = scene.turn()
        assert (turn.ended, scene.level) == (Ending.FAILED, "k5")
        assert [(one.level, one.reason) for one in scene.remembered.state.quarantine] == [("k3", "rolled back by ada")]
        assert scene.remembered.rolled_back_at is not None

    def test_after_a_roll_out_that_failed_is_back_already(self) -> None:
        """k3 was taken back by itself: nobody is sent there."""
        scene = Scene().soaking()
        scene.turn(verdict=WRONG)
        scene.pods.pop()
        scene.turn(verdict=None)
        scene.roll_back()
        turn = scene.turn()
        assert (turn.began, scene.level) == (None, "k5")
        assert scene.remembered.rolled_back_at is not None

    def test_where_nothing_was_changed_gets_nothing(self) -> None:
        """And the wish is done with."""
        scene = Scene()
        scene.roll_back()
        assert scene.turn().began is None
        assert scene.remembered.rolled_back_at == scene.now - LOOK_SECONDS

    @pytest.mark.parametrize("hindrance", ["suspended", "recommend", "paused", "unmanaged"])
    def test_is_not_forgotten_while_nothing_can_be_done(self, hindrance: str) -> None:
        """The wish is carried out once the way is free."""
        scene = Scene().promoted()
        scene.roll_back()
        if hindrance == "suspended":
            scene.spec["suspend"] = True
        elif hindrance == "recommend":
            scene.spec["mode"] = "Recommend"
        elif hindrance == "paused":
            scene.held, scene.held_by = True, "kubectl"
        else:
            scene.level = "none of the ladder"
        assert scene.turn().began is None
        if hindrance == "unmanaged":  # somebody else's word by now, which only an edit lifts
            scene.remembered = new_generation(scene.remembered)
        scene.spec, scene.held, scene.level = {}, False, "k3"
        turn = scene.turn()
        assert turn.began is not None
        assert turn.began.level == "k5"
