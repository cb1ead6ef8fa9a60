"""Ways back that are not open, writes that do not stick, and roll-outs that would be begun again and again."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from specloop_operator.cluster import ApiError
from specloop_operator.turn import Turn, new_generation
from specloop_policy.annotations import OVERRIDE
from specloop_policy.canary import Ending, Kind, Phase, Rollout, Step
from specloop_policy.decision import FailedChange, FiringAlert
from specloop_policy.model import AlertActionType
from tests.support.policies import LEVELS
from tests.unit.operator_turn.live_scenes import LiveScene
from tests.unit.operator_turn.scenes import OPEN, PASSED, SLOWER, WRONG, Scene, moment, windows

DEADLINE = 1800.0
"""The default of progressDeadlineSeconds."""


def renamed(scene: Scene, **names: str) -> None:
    """Somebody edits the policy and calls levels otherwise."""
    levels = [{**level, "name": names.get(level["name"], level["name"])} for level in LEVELS]
    edited(scene, levels=levels)


def edited(scene: Scene, **spec: object) -> None:
    """Somebody edits the policy."""
    scene.spec.update(spec)
    scene.generation += 1
    scene.remembered = new_generation(scene.remembered)


def begun(turn: Turn) -> tuple[Kind, str]:
    """The roll-out that a turn has begun: its kind and its level."""
    assert turn.began is not None
    return turn.began.kind, turn.began.level


class TestALevelThatWasLostOnceAndIsAskedForAllTheSame:
    """k3 was slower beside k5, so that rules leave it alone; an override promoted it."""

    @pytest.fixture
    def scene(self) -> Scene:
        """It runs, and is watched."""
        scene = Scene().soaking()
        scene.turn(verdict=SLOWER)
        scene.all_at("k5")
        assert scene.turn(verdict=None).ended is Ending.LOST
        scene.override("k3")
        scene.turn(windows=())
        scene.until_promoted("k3")
        return scene

    def test_is_left_for_harm(self, scene: Scene) -> None:
        """That it was lost before does not keep it from being left now; the failure is what is remembered."""
        scene.pods[0].restarts = 7
        turn = scene.turn()
        assert begun(turn) == (Kind.RETREAT, "k5")
        assert [(one.level, one.until) for one in scene.remembered.state.quarantine] == [("k3", None)]

    def test_is_left_by_hand(self, scene: Scene) -> None:
        scene.roll_back()
        turn = scene.turn()
        assert begun(turn) == (Kind.RETREAT, "k5")


class TestAWayBackThatIsNotOpen:
    """k3 was promoted, and the policy has k5 no more."""

    @pytest.fixture
    def scene(self) -> Scene:
        scene = Scene().promoted()
        edited(scene, levels=[level for level in LEVELS if level["name"] != "k5"])
        scene.measured = replace(scene.measured, windows=())
        scene.now += 100.0
        return scene

    def test_leads_further_down_where_there_is_harm(self, scene: Scene) -> None:
        scene.pods[0].restarts = 9
        turn = scene.turn()
        assert begun(turn) == (Kind.RETREAT, "ngram")

    def test_leads_to_none_that_is_known_to_fail(self, scene: Scene) -> None:
        """n-gram crashed here before: off is the next."""
        failed = FailedChange("ngram", scene.sight().keys["ngram"], "its container ended 5 times")
        state = replace(scene.remembered.state, quarantine=(failed,))
        scene.remembered = replace(scene.remembered, state=state)
        scene.pods[0].restarts = 9
        turn = scene.turn()
        assert begun(turn) == (Kind.RETREAT, "disabled")

    def test_by_hand_is_done_and_silences_nobody(self, scene: Scene) -> None:
        """An override after it counts as always."""
        scene.roll_back()
        scene.override("disabled")
        turn = scene.turn()
        assert begun(turn) == (Kind.FORCED, "disabled")


def rollout_of(scene: Scene) -> Rollout:
    """The roll-out under way."""
    found = scene.remembered.rollout
    assert found is not None
    return found


def test_a_wish_on_the_way_back_is_fulfilled_by_it() -> None:
    """Back before the canary is where it was asked to be: not one level further."""
    scene = Scene().promoted()
    scene.now += 1000.0
    scene.low()
    scene.turn()
    scene.until_soaking("ngram")
    scene.turn(verdict=WRONG)
    scene.roll_back()
    scene.turn(verdict=None)
    scene.all_at("k3")
    assert scene.turn(windows=()).ended is Ending.FAILED
    assert [scene.turn().began for _ in range(3)] == [None] * 3
    assert (scene.level, [one.level for one in scene.remembered.state.quarantine]) == ("k3", ["ngram"])


def test_a_wish_beside_a_deploy_is_remembered_as_what_it_is() -> None:
    """A deploy ended the roll-out; the person rolls back during the way back: the level is not tried again."""
    scene = Scene()
    scene.override("k3")
    scene.turn()
    scene.until_soaking("k3")
    scene.image = "vllm/vllm-openai:v0.33.0"
    scene.turn(verdict=OPEN)
    scene.roll_back()
    scene.turn(verdict=None)
    scene.all_at("k5")
    scene.turn(verdict=None)
    assert [scene.turn().began for _ in range(3)] == [None] * 3
    assert [one.level for one in scene.remembered.state.quarantine] == ["k3"]


def test_a_wish_counts_after_one_whose_clock_was_ahead() -> None:
    """Each is another one by its time, whichever is later."""
    scene = Scene().promoted()
    scene.now += 3600.0
    scene.roll_back()
    scene.now -= 3600.0
    assert scene.turn().began is not None
    scene.all_at("k5")
    assert scene.turn().ended is Ending.PROMOTED
    edited(scene)
    scene.now += 1000.0
    scene.promoted()
    scene.roll_back()
    began = scene.turn(windows=()).began
    assert began is not None
    assert began.level == "k5"


class TestLevelsThatAreCalledOtherwise:
    """The setting is what counts: a name is the policy's own."""

    def test_are_nobodys_doing(self) -> None:
        scene = Scene().promoted()
        renamed(scene, k3="three")
        turn = scene.turn(windows=())
        assert turn.remembered.reverted == ""
        assert scene.remembered.state.level == "three"

    def test_in_the_middle_of_a_canary_lead_back(self) -> None:
        scene = Scene().soaking()
        renamed(scene, k5="five", k3="three")
        assert scene.turn().remembered.rollout is not None
        scene.all_at("k5")
        turn = scene.turn(verdict=None)
        assert turn.ended is Ending.CANCELLED
        assert turn.remembered.reverted == ""


class TestAWrite:
    """To the pod template, that the API server refuses or somebody undoes."""

    def test_that_is_refused_until_the_deadline_ends_the_roll_out_with_the_refusal(self) -> None:
        """So that the one place for roll-outs is free again."""
        scene = Scene()
        scene.override("k3")
        began = scene.turn()
        scene.level = "k5"  # it was refused
        refusal = "applying to Deployment llm/llama: HTTP 403"
        turn = scene.turn(attempt=refusal)
        scene.level = "k5"
        assert (turn.step, turn.words) == (
            Step.WRITE,
            f"writing k3 into the pod template; the last try failed: {refusal}",
        )
        scene.now += DEADLINE
        turn = scene.turn(attempt=refusal)
        assert turn.remembered.rollout is not None
        assert turn.remembered.rollout.phase is Phase.ROLLING_BACK
        ended = scene.turn(attempt="")
        assert ended.ended is Ending.CANCELLED
        assert f"k3 could not be written within 1800 s: {refusal}" in ended.words
        assert began.began is not None

    def test_is_tried_before_it_is_given_up_after_an_outage(self) -> None:
        """The operator was away for longer than the deadline: nothing was refused."""
        scene = Scene()
        scene.override("k3")
        scene.turn()
        scene.level = "k5"
        scene.now += DEADLINE
        assert scene.turn(attempt=None).step is Step.WRITE

    def test_of_the_way_back_is_not_repeated_for_ever(self) -> None:
        """A controller that puts the new level in again and again."""
        scene = Scene().soaking()
        assert scene.turn(verdict=WRONG).step is Step.PUT_BACK
        scene.level = "k3"
        assert scene.turn(verdict=None, attempt="").step is Step.PUT_BACK
        scene.level = "k3"
        scene.now += DEADLINE
        turn = scene.turn(attempt="")
        assert turn.ended is Ending.ABANDONED
        assert "k5 did not stay for 1800 s: somebody puts k3 in again and again" in turn.words

    def test_of_the_way_back_is_tried_on_while_it_is_refused(self) -> None:
        """That it is refused is said; who refuses it may be mended."""
        scene = Scene().soaking()
        scene.turn(verdict=WRONG)
        scene.level = "k3"
        scene.now += DEADLINE
        turn = scene.turn(verdict=None, attempt="HTTP 403")
        assert (turn.ended, turn.step) == (None, Step.PUT_BACK)
        assert "the last try failed: HTTP 403" in turn.words


def looked(scene: Scene, speak: Callable[[Scene], None], looks: int = 240) -> int:
    """Look as often, with a workload that follows its template; how many roll-outs began.  240 looks are an hour."""
    began = 0
    for _ in range(looks):
        rollout = scene.remembered.rollout
        if rollout is None or rollout.phase in (Phase.ROLLING_BACK, Phase.PROMOTING):
            scene.all_at(scene.level)
        elif rollout.phase is Phase.STARTING and scene.level == rollout.level and len(scene.pods) == scene.replicas:
            scene.canary(rollout.level)
        speak(scene)
        began += scene.turn(verdict=OPEN).began is not None
    return began


def silent_while(scene: Scene, *always: FiringAlert) -> None:
    """An alert about canaries suspends the policy while there is one."""
    canary = any(pod.level != "k5" for pod in scene.pods)
    scene.alerts = (*always, *([FiringAlert("Stuck", AlertActionType.SUSPEND)] if canary else []))


SLOW = FiringAlert("Slow", AlertActionType.STEP_DOWN)


@pytest.mark.parametrize("asked", ["override", "alert"])
def test_what_is_asked_for_is_not_begun_again_and_again_under_an_alert_about_its_canary(asked: str) -> None:
    """Four times in an hour: the second at once, as the first may be chance; then 15 and 30 minutes later, then 60."""
    scene = Scene()
    if asked == "override":
        scene.override("k3")
    always = (SLOW,) if asked == "alert" else ()
    assert looked(scene, lambda scene: silent_while(scene, *always)) == 4


class Stamped(Scene):
    """Something changes the target's image whenever it is written."""

    stamps = 0

    def _carry_out(self, turn: Turn) -> None:
        super()._carry_out(turn)
        if turn.step in (Step.WRITE, Step.PUT_BACK):
            self.stamps += 1
            self.image = f"r{self.stamps}.example/vllm/vllm-openai:v0.32.0"


def test_nor_where_every_write_has_somebody_change_the_target() -> None:
    scene = Stamped()
    scene.override("k3")
    assert looked(scene, lambda scene: None) == 4


def test_off_never_waits() -> None:
    """It is what people and alerts ask for where something is wrong: a deploy beside it holds up nothing."""
    scene = Stamped()
    scene.override("disabled")
    assert looked(scene, lambda scene: None) > 10


def test_somebody_else_who_asks_need_not_wait() -> None:
    """What was interrupted was another's wish."""
    scene = Stamped()
    scene.override("k3")
    looked(scene, lambda scene: None, 12)
    waiting = scene.turn()
    assert waiting.began is None
    assert waiting.blocked is not None
    assert "which an alert or a change of the target has interrupted 2 times" in waiting.blocked[1]
    scene.annotations[OVERRIDE] = json.dumps({"level": "k3", "by": "bob"})
    assert scene.turn().began is not None


def test_a_level_that_was_promoted_was_not_interrupted() -> None:
    """One deploy beside the canary of every night: it is begun again at once each time."""
    scene = Scene()
    scene.override("k3")
    for night in range(4):
        scene.annotations.clear()
        scene.all_at("k5")
        scene.now += 20.0 * 3600.0
        scene.remembered = replace(scene.remembered, written_level=None, watch=None)
        scene.turn(windows=())
        scene.override("k3")
        scene.turn()
        scene.until_soaking("k3")
        scene.image = f"vllm/vllm-openai:v0.32.{night + 1}"
        scene.turn(verdict=OPEN)
        scene.all_at("k5")
        scene.turn(verdict=None)
        assert scene.turn().began is not None, f"night {night}"
        scene.until_promoted("k3")


def test_one_deploy_beside_a_canary_costs_what_is_asked_for_no_time() -> None:
    """It is begun again at the next look."""
    scene = Scene()
    scene.override("k3")
    scene.turn()
    scene.until_soaking("k3")
    scene.image = "vllm/vllm-openai:v0.33.0"
    scene.turn(verdict=OPEN)
    scene.all_at("k5")
    scene.turn(verdict=None)
    assert scene.turn().began is not None


def test_a_token_that_cannot_be_read_for_a_moment_leads_no_fleet_down() -> None:
    """Pods held live at K = 3 do harm, and the Secret is not answered at that look: the way back waits for the next."""
    scene = held_live_at_k3()
    scene.pods[0].restarts = 9
    scene.secrets.error = ApiError("reading Secret llm/specloop-live: HTTP 503")
    scene.now += 60.0  # the token that was read is too old
    waiting = scene.turn(verdict=None)
    assert (waiting.began, waiting.step) == (None, Step.WAIT)
    scene.secrets.error = None
    back = scene.turn()
    assert back.began is not None
    assert (back.began.kind, back.began.level, back.began.live) == (Kind.RETREAT, "k5", True)


def held_live_at_k3() -> LiveScene:
    """Promoted live over a template at K = 5."""
    scene = LiveScene()
    scene.low()
    turn = scene.turn()
    for verdict in (OPEN, OPEN, OPEN, PASSED, PASSED, PASSED):
        turn = turn if turn.ended else scene.turn(verdict=verdict, windows=())
    assert turn.ended is Ending.PROMOTED
    scene.turn(verdict=None)
    return scene


class TestAWishToRollBackThatCannotBeWrittenNow:
    """The Secret is gone, so that pods cannot be brought back to K = 5."""

    @pytest.fixture
    def scene(self) -> LiveScene:
        scene = held_live_at_k3()
        scene.secrets.data.clear()
        scene.now += 60.0  # the token that was read is too old
        scene.roll_back()
        return scene

    def test_is_said(self, scene: LiveScene) -> None:
        turn = scene.turn()
        assert turn.blocked is not None
        assert turn.blocked[1] == "rolled back by ada: the level before cannot be written now"

    def test_does_not_disarm_the_watch(self, scene: LiveScene) -> None:
        scene.turn()
        scene.pods[0].restarts = 9
        turn = scene.turn()
        assert begun(turn) == (Kind.RETREAT, "ngram")

    def test_ends_nothing_that_is_begun_after_it(self, scene: LiveScene) -> None:
        scene.turn()
        scene.alerts = (FiringAlert("Broken", AlertActionType.DISABLE),)
        assert scene.turn().began is not None
        turn = scene.turn()
        assert turn.remembered.rollout is not None
        assert turn.remembered.rollout.phase is not Phase.ROLLING_BACK
        assert turn.remembered.state.quarantine == ()


def test_a_way_back_that_waits_leaves_the_rules_to_decide() -> None:
    """After an alert, cut by two deploys; then acceptance is low at the level below."""
    scene = Scene()
    scene.alerts = (SLOW,)
    scene.turn()
    scene.until_promoted("k3")
    scene.remembered = replace(scene.remembered, watch=None)
    scene.alerts = ()
    for version in (1, 2):
        began = scene.turn(windows=()).began
        assert began is not None
        assert began.level == "k5"
        scene.until_soaking("k5")
        scene.image = f"vllm/vllm-openai:v0.32.{version}"
        scene.turn(verdict=OPEN)
        scene.all_at("k3")
        scene.turn(verdict=None)
    waiting = scene.turn()
    assert (waiting.began, waiting.blocked, scene.remembered.state.owed) == (None, None, "k5")
    assert waiting.decision is not None
    scene.now += 600.0
    scene.low()
    memory = scene.remembered
    turn = scene.turn()
    assert turn.began is not None
    assert turn.began.level == "ngram"
    scene.remembered, scene.level = memory, "k3"
    scene.override("k5")
    turn = scene.turn(windows=())
    assert turn.began is not None, "who asks for it by now does not wait"
    assert turn.began.level == "k5"


def test_a_retreat_to_a_level_that_leaves_the_ladder_before_it_is_written_ends() -> None:
    """It would be tried for ever, and the one place for roll-outs with it."""
    scene = Scene().promoted()
    scene.pods[0].restarts = 9
    scene.turn(windows=())
    scene.level = "k3"  # the write did not get through
    scene.remembered = replace(scene.remembered, rollout=replace(rollout_of(scene), written=False))
    edited(scene, levels=[level for level in LEVELS if level["name"] != "k5"])
    assert scene.turn().ended is Ending.ABANDONED


class TestLiveCanaries:
    """One pod is asked for K = 3, the others stay at 5."""

    @pytest.mark.parametrize("how", ["suspend", "recommend"])
    def test_are_taken_back_where_nothing_is_to_be_changed_any_more(self, how: str) -> None:
        scene = LiveScene()
        scene.low()
        scene.turn()
        for _ in range(4):
            scene.turn(verdict=OPEN, windows=())
        assert sorted(scene.tokens) == [3, 5, 5]
        if how == "suspend":
            scene.suspend()
        else:
            scene.spec["mode"] = "Recommend"
        for _ in range(3):
            scene.turn(verdict=None)
        assert (scene.tokens, scene.remembered.rollout) == ([5, 5, 5], None)

    def test_do_no_harm_by_what_idle_pods_did_before(self) -> None:
        """Two pods restarted three times long ago, and take the new K with their next request."""
        scene = LiveScene()
        for pod in scene.pods[1:]:
            pod.restarts = 3
            scene.plugins[pod.name].idle = True
        scene.low()
        turn = scene.turn()
        for verdict in (OPEN, OPEN, OPEN, PASSED, PASSED, PASSED):
            turn = turn if turn.ended else scene.turn(verdict=verdict, windows=())
        assert turn.ended is Ending.PROMOTED
        for pod in scene.pods[1:]:
            scene.plugins[pod.name].idle = False
        assert scene.turn(verdict=None).began is None


def test_a_probe_that_wins_at_the_limit_of_the_day_goes_on() -> None:
    """Probe and win are one change, which was counted when the probe began."""
    scene = Scene(level="k3", spec={"guardrails": {"maxChangesPerDay": 2}})
    scene.remembered = replace(scene.remembered, state=replace(scene.remembered.state, level="k3"))
    scene.promoted("ngram")
    scene.now += 4000.0
    scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.6, scene.now + 15.0))
    probe = scene.turn()
    assert probe.began is not None
    assert probe.began.kind is Kind.PROBE
    scene.until_soaking("k3")
    for _ in range(40):
        scene.now += 105.0
        scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.6, scene.now + 15.0))
        if scene.turn(verdict=PASSED).moved is Phase.PROMOTING:
            return
    raise AssertionError(f"still {scene.turns[-1].words} at {moment(scene.now)}")
