"""Who wins over whom: the tables of the documentation, row by row, against what a turn makes of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from specloop_operator.conditions import ConditionReason
from specloop_operator.precedence import DECIDING, ENDING, WAITING
from specloop_operator.sight import Blind
from specloop_operator.turn import new_generation
from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.decision import ActionName, FiringAlert
from specloop_policy.model import AlertActionType
from tests.unit.operator_turn.scenes import OPEN, PASSED, WRONG, Scene, windows

Speak = Callable[[Scene], None]


def invalid(scene: Scene) -> None:
    """A spec that no schema would have let through."""
    scene.spec["intervalSeconds"] = "often"


def suspended(scene: Scene) -> None:
    """By annotation."""
    scene.suspend()


def unmanaged(scene: Scene) -> None:
    """Another look-up than the ladder's."""
    scene.level = "none of the ladder"


def asks_back(scene: Scene) -> None:
    """A person asks to be back before the last change."""
    scene.roll_back()


def does_harm(scene: Scene) -> None:
    """Two restarts."""
    scene.pods[0].restarts += 2


def override(scene: Scene) -> None:
    """A person asks for k5."""
    scene.override("k5")


def schedule(scene: Scene) -> None:
    """Every minute of the day, off."""
    always = {"name": "nightly", "cron": "* * * * *", "durationSeconds": 60, "level": "disabled"}
    scene.spec["schedules"] = [always]


def disabling(scene: Scene) -> None:
    """An alert for which the policy asks to be off; the one that was there first goes on asking."""
    scene.alerts = (*scene.alerts, FiringAlert("EngineSlow", AlertActionType.DISABLE))


def switching(scene: Scene) -> None:
    """An alert for which the policy asks for k5."""
    scene.alerts = (*scene.alerts, FiringAlert("QuietHours", AlertActionType.SWITCH_TO, "k5"))


def low(scene: Scene) -> None:
    """Acceptance of 20 % at n-gram: the rule asks for one step down."""
    scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.2, scene.now + 15.0))


def due(scene: Scene) -> None:
    """Acceptance of 60 %, and more than an hour at n-gram without a sign of how k3 would do."""
    if not scene.measured.windows:
        scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.6, scene.now + 15.0))


SPEAKING: Mapping[str, tuple[Speak, ActionName | None, str | None, Kind | None, str]] = {
    # Who speaks, what the turn's decision is, where to, by what kind of roll-out, and in which words.
    "cannot be followed": (invalid, None, None, None, "spec.intervalSeconds: Input should be a valid integer"),
    "suspended": (suspended, ActionName.HOLD, "ngram", None, "the policy is suspended"),
    "unmanaged": (unmanaged, ActionName.HOLD, "ngram", None, "is no level of the ladder"),
    "rollback": (asks_back, ActionName.SWITCH_TO, "k3", Kind.RETREAT, "ngram failed (rolled back by ada)"),
    "harm": (does_harm, ActionName.SWITCH_TO, "k3", Kind.RETREAT, "ngram failed (2 restarts"),
    "override": (override, ActionName.SWITCH_TO, "k5", Kind.FORCED, "the override by ada asks for k5"),
    "disabling alert": (disabling, ActionName.DISABLE, "disabled", Kind.FORCED, "alert EngineSlow asks for disabled"),
    "schedule": (schedule, ActionName.DISABLE, "disabled", Kind.FORCED, "schedule nightly asks for disabled"),
    "alert": (switching, ActionName.SWITCH_TO, "k5", Kind.FORCED, "alert QuietHours asks for k5"),
    "rules": (low, ActionName.STEP_DOWN, "disabled", Kind.RULE, "rule low"),
    "new probe": (due, ActionName.PROBE, "k3", Kind.PROBE, "without a sign of how k3 would do: trying it"),
}


def at_ngram() -> Scene:
    """Promoted from k3 to n-gram more than an hour ago, and still watched; nobody asks for anything."""
    scene = Scene(level="k3")
    scene.remembered = replace(scene.remembered, state=replace(scene.remembered.state, level="k3"))
    scene.promoted("ngram")
    scene.measured, scene.now = replace(scene.measured, windows=()), scene.now + 4000.0
    return scene


def test_the_table_of_who_decides_is_tested_row_by_row() -> None:
    """In its order."""
    assert [row.name for row in DECIDING] == list(SPEAKING)


@pytest.mark.parametrize("top", range(len(DECIDING)), ids=[row.name for row in DECIDING])
def test_the_highest_that_speaks_decides(top: int) -> None:
    """While all that stand below it speak too."""
    scene = at_ngram()
    for row in reversed(DECIDING[top:]):
        SPEAKING[row.name][0](scene)
    _, action, level, kind, words = SPEAKING[DECIDING[top].name]
    if action is None:
        with pytest.raises(Blind, match=words):
            scene.turn()
        return
    turn = scene.turn()
    assert turn.decision is not None
    assert (turn.decision.action, turn.decision.level) == (action, level)
    assert words in turn.decision.reason
    assert (None if turn.began is None else turn.began.kind) is kind


def test_a_suspension_by_the_spec_is_the_same_as_one_by_annotation() -> None:
    """Nothing is done, whoever asks."""
    scene = at_ngram()
    scene.spec["suspend"] = True
    for speak in (asks_back, does_harm, override, schedule, low):
        speak(scene)
    turn = scene.turn()
    assert turn.decision is not None
    assert (turn.decision.action, turn.decision.reason) == (ActionName.HOLD, "the policy is suspended")


def undone(scene: Scene) -> None:
    """Somebody set n-gram."""
    scene.level = "ngram"


def changed(scene: Scene) -> None:
    """Another image of the same release."""
    scene.image = "registry.example/vllm/vllm-openai:v0.32.0"


def recommend(scene: Scene) -> None:
    """Somebody only wants to be told."""
    scene.spec["mode"] = "Recommend"


def edited(scene: Scene) -> None:
    """k3 is of another draft model now."""
    policy = scene.policy()["spec"]
    drafters = [*policy["drafters"], {"name": "other", "method": "draft_model", "model": "other/model"}]
    levels = [{**one, "drafter": "other"} if one["name"] == "k3" else one for one in policy["levels"]]
    scene.spec |= {"drafters": drafters, "levels": levels}


def still_low(scene: Scene) -> None:
    """Acceptance stays low at k5: the rule would step down again."""
    scene.low()


ENDINGS: Mapping[str, tuple[Speak, Phase | None, Ending | None, str]] = {
    # Who speaks, the phase that the roll-out then is in (None: it is over), what it will have been, and the words.
    "cannot be followed": (invalid, None, None, "spec.intervalSeconds"),
    "undone": (undone, None, Ending.UNDONE, "somebody else set ngram while k3 was rolled out: left as it is"),
    "changed": (changed, Phase.ROLLING_BACK, Ending.CANCELLED, "the target's pod template was changed meanwhile"),
    "rollback": (asks_back, Phase.ROLLING_BACK, Ending.FAILED, "rolled back by ada"),
    "suspended": (suspended, Phase.ROLLING_BACK, Ending.CANCELLED, "the policy is suspended"),
    "recommend": (recommend, Phase.ROLLING_BACK, Ending.CANCELLED, "the policy's mode is Recommend now"),
    "edited": (edited, Phase.ROLLING_BACK, Ending.CANCELLED, "the policy's level k3 is another than when this began"),
    "override": (override, Phase.ROLLING_BACK, Ending.CANCELLED, "the override by ada asks for k5"),
    "schedule": (schedule, Phase.SOAKING, None, "1 pod at k3 compared with 3 left alone"),
    "rules": (still_low, Phase.SOAKING, None, "1 pod at k3 compared with 3 left alone"),
}


def test_the_table_of_what_ends_a_roll_out_is_tested_row_by_row() -> None:
    """In its order."""
    assert [row.name for row in ENDING] == list(ENDINGS)


@pytest.mark.parametrize("top", range(len(ENDING)), ids=[row.name for row in ENDING])
def test_the_highest_that_speaks_ends_a_roll_out(top: int) -> None:
    """While all that stand below it speak too."""
    scene = Scene().soaking()
    for row in reversed(ENDING[top:]):
        ENDINGS[row.name][0](scene)
    _, phase, ending, words = ENDINGS[ENDING[top].name]
    if phase is None and ending is None:
        with pytest.raises(Blind, match=words):
            scene.turn()
        return
    turn = scene.turn()
    assert words in turn.words
    rollout = turn.remembered.rollout
    assert (None if rollout is None else rollout.phase) is phase
    assert (turn.ended if rollout is None else rollout.ending) is ending


@pytest.mark.parametrize("name", [row.name for row in ENDING if row.name not in ("cannot be followed", "undone")])
def test_a_retreat_goes_on_whoever_asks_for_something_else(name: str) -> None:
    """All pods leave the level that does harm; what was asked for has its turn afterwards."""
    scene = Scene().promoted()
    does_harm(scene)
    scene.turn()
    assert scene.level == "k5"
    ENDINGS[name][0](scene)
    turn = scene.turn()
    assert turn.remembered.rollout is not None
    assert (turn.remembered.rollout.phase, turn.step) == (Phase.PROMOTING, Step.WAIT)


def test_an_alert_that_disables_ends_a_roll_out_as_an_override_does() -> None:
    """Then it is its turn."""
    scene = Scene().soaking()
    disabling(scene)
    turn = scene.turn()
    assert "alert EngineSlow asks for disabled" in turn.words
    assert turn.remembered.rollout is not None
    assert turn.remembered.rollout.phase is Phase.ROLLING_BACK


def test_another_alert_waits_for_the_end_of_a_roll_out() -> None:
    """As a schedule does."""
    scene = Scene().soaking()
    switching(scene)
    assert scene.turn().words.startswith("1 pod at k3 compared with 3 left alone")


def test_an_alert_that_suspends_holds_everything_and_takes_a_roll_out_back() -> None:
    """As the policy's own suspension does; the words name it."""
    hush = FiringAlert("Maintenance", AlertActionType.SUSPEND)
    scene = at_ngram()
    scene.alerts = (hush,)
    for speak in (does_harm, override, schedule, low):
        speak(scene)
    decision = scene.turn().decision
    assert decision is not None
    assert (decision.action, decision.reason) == (ActionName.HOLD, "suspended by alert Maintenance")
    rolling = Scene().soaking()
    rolling.alerts = (hush,)
    assert "the policy is suspended by alert Maintenance" in rolling.turn().words


def test_what_an_alert_forced_goes_back_when_it_is_over() -> None:
    """To where the level was before."""
    scene = Scene()
    disabling(scene)
    scene.turn()
    scene.until_promoted("disabled")
    scene.alerts = ()
    decision = scene.turn().decision
    assert decision is not None
    assert (decision.level, decision.reason) == ("k5", "alert EngineSlow is over: back to k5")


def test_an_alert_that_flickers_does_not_begin_roll_outs_again_and_again() -> None:
    """The first is taken back when the alert is over; the second goes on, and its level stays."""
    scene = Scene()
    for _ in range(2):
        disabling(scene)
        scene.turn()
        scene.until_soaking("disabled")
        scene.alerts = ()
        scene.turn(verdict=OPEN)
        if scene.remembered.rollout is not None and scene.remembered.rollout.phase is Phase.ROLLING_BACK:
            assert scene.turns[-1].words == "alert EngineSlow is over"
            scene.pods.pop()
            assert scene.turn(verdict=None).ended is Ending.CANCELLED
    scene.turn(verdict=PASSED)
    scene.all_at("disabled")
    scene.turn(verdict=None)
    assert [turn.ended for turn in scene.turns if turn.ended is not None] == [Ending.CANCELLED, Ending.PROMOTED]
    turn = scene.turn()
    assert turn.began is None
    assert turn.decision is not None
    assert turn.decision.reason == ("alert EngineSlow is over, but k5 was lost once and is tried again 7200 s after")


def test_an_alert_in_the_place_of_another_is_no_flickering() -> None:
    """What one asked for is taken back for the other, and when both are over the level is back at once."""
    scene = Scene()
    scene.alerts = (FiringAlert("SlowAnswers", AlertActionType.STEP_DOWN),)
    scene.turn()
    scene.until_soaking("k3")
    disabling(scene)
    scene.turn(verdict=OPEN)
    scene.pods.pop()
    assert scene.turn(verdict=None).ended is Ending.CANCELLED
    scene.turn()
    assert scene.remembered.rollout is not None
    assert scene.remembered.rollout.level == "disabled"
    scene.until_soaking("disabled")
    scene.alerts = ()
    turn = scene.turn(verdict=OPEN)
    assert (turn.moved, turn.words) == (Phase.ROLLING_BACK, "alert EngineSlow is over")


def test_a_schedule_takes_a_probe_back() -> None:
    """What is tried must not stand in the way of what is planned."""
    scene = at_ngram()
    due(scene)
    scene.turn()
    scene.until_soaking("k3")
    schedule(scene)
    turn = scene.turn()
    assert turn.remembered.rollout is not None
    assert turn.remembered.rollout.phase is Phase.ROLLING_BACK
    assert "schedule nightly asks for disabled" in turn.words


def paused(scene: Scene) -> None:
    """By kubectl."""
    scene.held, scene.held_by = True, "kubectl-rollout"


def reverted(scene: Scene) -> None:
    """Somebody put k5 back after k3 was promoted."""
    scene.all_at("k5")


def busy(scene: Scene) -> None:
    """The controller has not made all pods of the latest template."""
    scene.updated = 2


def no_slot(scene: Scene) -> None:
    """Others roll out."""
    scene.measured = replace(scene.measured, slot_free=False)


def cannot_be_written(scene: Scene) -> None:
    """A release of vLLM that runs no draft models."""
    scene.image = "vllm/vllm-openai:v0.11.0"


HINDERING: Mapping[str, tuple[Speak, str]] = {
    # What stands in the way of the rule's step down, and the words of its condition.
    "Recommend": (recommend, ""),
    "TargetPaused": (paused, "somebody else holds the roll-out of Deployment llama"),
    "Reverted": (
        reverted,
        "ngram was written, and somebody else set k5: held until the policy is edited or overridden",
    ),
    "TargetBusy": (busy, "2 of 3 pods are at the target's template"),
    "Waiting": (no_slot, "as many roll-outs as the cluster may have at a time are under way"),
}


def test_the_table_of_what_is_waited_for_is_tested_row_by_row() -> None:
    """In its order; what cannot be written is no level that a rule may lead to, and is tested below."""
    assert [row.name for row in WAITING] == [*HINDERING, "UnsupportedCommand"]


@pytest.mark.parametrize("top", range(len(HINDERING)), ids=list(HINDERING))
def test_the_highest_hindrance_is_said(top: int) -> None:
    """While all that stand below it hinder too: the rule's decision is made and not carried out, nor remembered."""
    scene = at_ngram()
    for speak, _ in reversed(list(HINDERING.values())[top:]):
        speak(scene)
    scene.turn()
    scene.now += 400.0
    low(scene)
    before = scene.remembered.state
    turn = scene.turn()
    name = list(HINDERING)[top]
    assert turn.decision is not None
    assert (turn.decision.action, turn.decision.rule) == (ActionName.STEP_DOWN, "low")
    assert (turn.began, turn.step) == (None, Step.WAIT)
    assert replace(turn.remembered.state, holds_since=()) == replace(before, holds_since=())
    said = None if turn.blocked is None else (str(turn.blocked[0]), turn.blocked[1])
    assert said == (None if name == "Recommend" else (name, HINDERING[name][1]))


def test_what_is_no_hindrance_any_more_lets_the_decision_through() -> None:
    """At the next look, without anybody's doing."""
    scene = at_ngram()
    paused(scene)
    busy(scene)
    no_slot(scene)
    low(scene)
    assert scene.turn().began is None
    scene.held, scene.updated = False, None
    low(scene)
    assert scene.turn(slot_free=True).began is not None


def test_a_target_without_pods_is_not_rolled_out() -> None:
    """Scaled to nothing: there is nobody to be a canary."""
    scene = Scene()
    scene.low()
    scene.replicas, scene.pods, scene.updated = 0, [], 0
    assert scene.turn().blocked == (ConditionReason.TARGET_BUSY, "the target has no pods")


@pytest.mark.parametrize("speak", [busy, no_slot])
def test_a_retreat_does_not_wait_for_room(speak: Speak) -> None:
    """Harm does not wait for other roll-outs, nor for pods that may never come."""
    scene = at_ngram()
    does_harm(scene)
    speak(scene)
    turn = scene.turn()
    assert turn.began is not None
    assert turn.began.kind is Kind.RETREAT


def test_a_retreat_does_not_go_against_somebody_who_holds_the_target() -> None:
    """It is said, and done once they let go."""
    scene = at_ngram()
    does_harm(scene)
    paused(scene)
    turn = scene.turn()
    assert turn.blocked is not None
    assert turn.blocked[0] is ConditionReason.TARGET_PAUSED
    scene.held = False
    assert scene.turn().step is Step.WRITE


def test_a_level_that_cannot_be_written_any_more_is_not_gone_back_to() -> None:
    """k3 ran until somebody took an image that knows no draft models: the retreat leads to the next lower level."""
    scene = at_ngram()
    does_harm(scene)
    cannot_be_written(scene)
    turn = scene.turn()
    assert turn.began is not None
    assert (turn.began.kind, turn.began.level) == (Kind.RETREAT, "disabled")


def test_a_level_that_cannot_be_written_is_passed_over_by_rules() -> None:
    """From k5 under clients that send min_p, which no level that drafts can serve: straight to disabled."""
    scene = Scene(spec={"clientsSend": ["MinP"]})
    scene.low()
    turn = scene.turn()
    assert turn.began is not None
    assert turn.began.level == "disabled"
    assert turn.remembered.state.quarantine == ()


class TestAWayBackThatIsCutShort:
    """From what an override or an alert asked for; it is begun again, whatever ended it."""

    def on_the_way_back(self) -> Scene:
        """At n-gram by an override that is over, with a canary at k5."""
        scene = Scene()
        scene.override("ngram")
        scene.turn()
        scene.until_promoted("ngram")
        scene.remembered = replace(scene.remembered, watch=None)
        scene.annotations.clear()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level) == (Kind.FORCED, "k5")
        scene.until_soaking("k5")
        return scene

    def taken_back(self, scene: Scene) -> Ending | None:
        """The canary goes; how the roll-out ended."""
        scene.pods.pop()
        return scene.turn(verdict=None).ended

    def begun_again(self, scene: Scene) -> None:
        """The next roll-out is the way back to k5."""
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.level, turn.began.back_to) == (Kind.FORCED, "k5", "ngram")

    def test_by_a_suspension(self) -> None:
        scene = self.on_the_way_back()
        scene.suspend()
        scene.turn(verdict=OPEN)
        assert self.taken_back(scene) is Ending.CANCELLED
        assert scene.turn().began is None
        scene.annotations.clear()
        self.begun_again(scene)

    def test_by_a_change_of_the_template(self) -> None:
        scene = self.on_the_way_back()
        scene.image = "registry.example/vllm/vllm-openai:v0.32.0"
        scene.turn(verdict=OPEN)
        assert self.taken_back(scene) is Ending.CANCELLED
        scene.all_at("ngram")
        self.begun_again(scene)

    def test_by_another_wish(self) -> None:
        """An override for off in the middle of it; afterwards all is as it was before both."""
        scene = self.on_the_way_back()
        scene.override("disabled")
        scene.turn(verdict=OPEN)
        assert self.taken_back(scene) is Ending.CANCELLED
        turn = scene.turn()
        assert turn.began is not None
        assert turn.began.level == "disabled"
        scene.annotations.clear()
        scene.turn()
        scene.all_at("ngram")
        scene.turn()
        assert scene.remembered.rollout is None
        self.begun_again(scene)

    def test_by_a_canary_without_a_verdict(self) -> None:
        """Too few requests by the deadline: it waits twice an hour first, and says so."""
        scene = self.on_the_way_back()
        scene.now += 3600.0
        scene.turn(verdict=OPEN)
        assert self.taken_back(scene) is Ending.LOST
        turn = scene.turn()
        assert turn.began is None
        assert turn.decision is not None
        assert "k5 failed (no verdict within" in turn.decision.reason
        scene.now += 7200.0
        self.begun_again(scene)

    def test_by_a_level_that_does_not_start(self) -> None:
        """For good, until somebody edits the policy: that is how to say that it may be tried again."""
        scene = self.on_the_way_back()
        scene.turn(verdict=WRONG)
        assert self.taken_back(scene) is Ending.FAILED
        scene.now += 1e6
        assert scene.turn().began is None
        scene.remembered = new_generation(scene.remembered)
        self.begun_again(scene)


def test_an_alert_that_fires_again_on_the_way_back_makes_that_wait() -> None:
    """Its canary is taken back; once the alert is over, the level from before it has its next try after a gap."""
    scene = Scene()
    disabling(scene)
    scene.turn()
    scene.until_promoted("disabled")
    scene.alerts = ()
    scene.turn()
    scene.until_soaking("k5")
    disabling(scene)
    scene.turn(verdict=OPEN)
    scene.pods.pop()
    assert scene.turn(verdict=None).ended is Ending.CANCELLED
    scene.turn()
    scene.alerts = ()
    turn = scene.turn()
    assert turn.began is None
    assert (scene.remembered.state.level, scene.remembered.state.owed) == ("disabled", "k5")
    scene.now += 7200.0
    turn = scene.turn()
    assert turn.began is not None
    assert turn.began.level == "k5"


def test_a_second_alert_that_is_over_in_the_middle_of_its_roll_out_leaves_the_first_where_it_was() -> None:
    """k5, one level down for the first, off for the second that is over soon: k3 and not n-gram, and k5 in the end."""
    scene = Scene()
    slow = FiringAlert("SlowAnswers", AlertActionType.STEP_DOWN)
    scene.alerts = (slow,)
    scene.turn()
    scene.until_promoted("k3")
    disabling(scene)
    scene.turn()
    scene.until_soaking("disabled")
    scene.alerts = (slow,)
    scene.turn(verdict=OPEN)
    scene.pods.pop()
    assert scene.turn(verdict=None).ended is Ending.CANCELLED
    turn = scene.turn()
    assert turn.decision is not None
    assert (turn.began, turn.decision.reason) == (None, "alert SlowAnswers asks for k3")
    scene.alerts = ()
    turn = scene.turn()
    assert turn.decision is not None
    assert turn.decision.reason == "alert SlowAnswers is over: back to k5"
