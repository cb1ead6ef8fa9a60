"""Roll-outs by live control, from turn to turn: the same plan, pods that are asked, and no template that changes."""

from dataclasses import replace
from typing import Any

import pytest

from specloop_operator.conditions import ConditionReason
from specloop_operator.live_asks import BRAKED_SHARE
from specloop_operator.status_report import MetricsReport, seen_status
from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.status import SpecPolicyStatus
from tests.unit.operator_turn.live_scenes import LIVE, LiveScene
from tests.unit.operator_turn.scenes import OPEN, PASSED, SLOWER, PodOf


def canaried(**spec: Any) -> LiveScene:
    """Low acceptance led to a canary at k3 that soaks."""
    scene = LiveScene(**spec)
    scene.low()
    scene.turn()
    for _ in range(2):
        scene.turn(verdict=OPEN)
    assert scene.remembered.rollout is not None
    assert scene.remembered.rollout.soaking
    return scene


def promoted(**spec: Any) -> LiveScene:
    """And it was promoted."""
    scene = canaried(**spec)
    scene.turn(verdict=PASSED)
    scene.turn(verdict=None)
    assert scene.remembered.rollout is None
    return scene


def overridden(level: str, **spec: Any) -> LiveScene:
    """A person asks for a level."""
    scene = LiveScene(**spec)
    scene.override(level)
    scene.turn()
    return scene


def silenced(scene: LiveScene) -> None:
    """No pod answers."""
    for plugin in scene.plugins.values():
        plugin.silent = True


def condition(scene: LiveScene) -> tuple[str, str]:
    """Reason and message of LiveControl after the last turn."""
    metrics = MetricsReport((ConditionReason.HEARD, "all pods are heard from"))
    status = seen_status(SpecPolicyStatus(), scene.seen, scene.turns[-1], metrics, scene.now)
    one = next(one for one in status.conditions if one.type == "LiveControl")
    return one.reason, one.message


class TestARollOut:
    """From k5 to k3, in which no pod is made anew."""

    def test_asks_one_pod_first(self) -> None:
        """The others and the template stay as they are."""
        scene = canaried()
        assert scene.tokens == [3, 5, 5]
        assert scene.level == LIVE
        assert [turn.step for turn in scene.turns] == [Step.WRITE, Step.WAIT, Step.WAIT]
        assert scene.turns[0].words == "asking llama-0 for k3, live"
        assert scene.remembered.canary_pods == 1

    def test_reaches_all_once_the_gate_is_passed(self) -> None:
        """And holds them there, which the status remembers."""
        scene = promoted()
        assert scene.tokens == [3, 3, 3]
        assert scene.turns[-1].ended is Ending.PROMOTED
        assert scene.seen.level is not None
        assert scene.seen.level.name == "k3"
        assert scene.remembered.watch is not None
        scene.turn()
        assert condition(scene) == ("InLine", "3 pods are as asked, at k3")

    def test_that_is_slower_is_taken_back(self) -> None:
        """Only the canary is asked again."""
        scene = canaried()
        scene.turn(verdict=SLOWER)
        assert scene.tokens == [5, 5, 5]
        turn = scene.turn(verdict=None)
        assert (turn.ended, scene.remembered.state.level) == (Ending.LOST, "k5")
        assert [plugin.puts for plugin in scene.plugins.values()] == [2, 0, 0]

    def test_goes_on_while_a_pod_does_not_answer(self) -> None:
        """It is named, and brought in line by the round after."""
        scene = canaried()
        scene.plugins["llama-2"].silent = True
        scene.turn(verdict=PASSED)
        turn = scene.turn(verdict=None)
        assert (turn.ended, scene.tokens) == (Ending.PROMOTED, [3, 3, 5])
        reason, message = condition(scene)
        assert reason == "OutOfLine"
        assert message.startswith("1 of 3 pods are not as asked: llama-2: Unreachable, it cannot be reached")
        scene.plugins["llama-2"].silent = False
        scene.turn()
        assert scene.tokens == [3, 3, 3]

    def test_of_idle_pods_is_no_failure(self) -> None:
        """They take the wish up with their next request."""
        scene = canaried()
        for plugin in scene.plugins.values():
            plugin.idle = True
        scene.turn(verdict=PASSED)
        assert scene.turn(verdict=None).ended is Ending.PROMOTED
        scene.turn()
        assert condition(scene) == ("InLine", "3 pods are as asked, at k3; 2 take it up with their next request")

    def test_whose_canary_is_gone_asks_another(self) -> None:
        """Which soaks from the beginning."""
        scene = canaried()
        scene.leave("llama-0")
        scene.turn(verdict=None)
        rollout = scene.remembered.rollout
        assert rollout is not None
        assert (rollout.phase, rollout.canary) == (Phase.CANARY, "llama-1")
        scene.turn(verdict=None)
        assert scene.tokens == [3, 5]

    def test_is_called_off_where_a_pod_refuses(self) -> None:
        """Nothing is wrong with the level: it is reached by a restart next."""
        scene = canaried()
        scene.plugins["llama-1"].absent = True
        turn = scene.turn(verdict=OPEN)
        assert turn.words.startswith("llama-1 cannot be changed live: the plugin is not there")
        assert scene.turn(verdict=None).ended is Ending.CANCELLED
        assert not scene.remembered.state.quarantine
        scene.now += 1000.0
        scene.low()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.live, scene.level) == (False, "k3")

    def test_ends_where_somebody_edits_the_template(self) -> None:
        """Their word counts, and nothing is asked over it."""
        scene = canaried()
        scene.level = "ngram"
        turn = scene.turn(verdict=OPEN)
        assert turn.ended is Ending.UNDONE
        assert scene.remembered.live is None

    def test_goes_on_with_another_operator(self) -> None:
        """All that it needs is in the status, from which every turn of a scene begins."""
        scene = canaried()
        scene.turn(verdict=PASSED)
        scene.plugins["llama-1"].applied = {"generation": None, "table": [[1, 256, 5]]}
        scene.plugins["llama-1"].desired = None
        scene.turn(verdict=None)
        assert scene.tokens == [3, 3, 3]


class TestWhatIsHeld:
    """Pods at k3, live, under a template at k5."""

    def test_a_pod_that_joins_is_brought_in_line(self) -> None:
        """It was started at k5."""
        scene = promoted()
        plugin = scene.join("llama-new")
        assert plugin.tokens == 5
        scene.turn()
        assert plugin.tokens == 3

    def test_nothing_is_asked_twice(self) -> None:
        """Ten looks later each pod has had one wish."""
        scene = promoted()
        for _ in range(10):
            scene.turn()
        assert [plugin.puts for plugin in scene.plugins.values()] == [1, 1, 1]

    def test_a_pod_that_somebody_else_asked_is_asked_again(self) -> None:
        """By hand, with the token."""
        scene = promoted()
        scene.plugins["llama-1"].desired = {"generation": 7, "k": 1}
        scene.plugins["llama-1"].take_up()
        scene.turn()
        assert scene.tokens == [3, 3, 3]

    @pytest.mark.parametrize("how", ["suspended", "Recommend"])
    def test_nobody_is_asked_where_nothing_may_be_done(self, how: str) -> None:
        """What is seen is said all the same."""
        scene = promoted()
        if how == "suspended":
            scene.suspend()
        else:
            scene.spec["mode"] = "Recommend"
        plugin = scene.join("llama-new")
        scene.turn()
        assert (plugin.tokens, plugin.puts) == (5, 0)
        assert condition(scene) == (
            "OutOfLine",
            "1 of 4 pods are not as asked: llama-new: Other, K = 5 is in force",
        )

    def test_it_ends_with_its_template(self) -> None:
        """Somebody sets another drafter: k3 is not asked for over it."""
        scene = promoted()
        scene.level = "ngram"
        scene.pods = [PodOf("llama-new", "ngram", ready_since=scene.now)]
        scene.replicas = 1
        scene.turn()
        assert scene.remembered.live is None
        assert scene.remembered.reverted == "k3 was written, and somebody else set ngram"

    def test_a_level_that_takes_a_restart_is_reached_by_one(self) -> None:
        """And back on k3 it is held again, should that fail."""
        scene = promoted()
        scene.override("ngram")
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.live, turn.began.level, turn.began.back_to, scene.level) == (False, "ngram", "k3", "ngram")
        scene.pods.append(PodOf("llama-new", "ngram", ready_since=None, restarts=3))
        scene.turn()
        assert scene.level == LIVE
        scene.pods.pop()
        turn = scene.turn()
        assert (turn.ended, scene.remembered.state.level) == (Ending.FAILED, "k3")
        scene.turn()
        assert scene.tokens == [3, 3, 3]

    def test_it_is_left_once_a_restart_is_promoted(self) -> None:
        """Another template is another beginning."""
        scene = promoted()
        scene.override("ngram")
        scene.turn()
        scene.until_soaking("ngram")
        scene.turn(verdict=PASSED)
        scene.all_at("ngram")
        assert scene.turn(verdict=None).ended is Ending.PROMOTED
        assert scene.remembered.live is None

    def test_what_the_template_says_is_held_by_nothing(self) -> None:
        """Back at k5 there is nothing to remember."""
        scene = promoted()
        scene.override("k5")
        for verdict in (None, OPEN, OPEN, PASSED, None):
            scene.turn(verdict=verdict)
        assert scene.tokens == [5, 5, 5]
        assert (scene.remembered.live, scene.remembered.state.level) == (None, "k5")


class TestWhereItIsNotPossible:
    """Auto restarts, and says why; Live holds, and says why."""

    @pytest.mark.parametrize(
        ("break_it", "words"),
        [
            (lambda scene: setattr(scene.plugins["llama-1"], "absent", True), "llama-1: the plugin is not there"),
            (lambda scene: setattr(scene.plugins["llama-1"], "refusal", "data parallelism"), "llama-1: data parallel"),
            (lambda scene: scene.secrets.data.clear(), "there is no Secret specloop-live in namespace llm"),
            (lambda scene: scene.secrets.data["specloop-live"].clear(), "key token of Secret specloop-live is not one"),
            (lambda scene: scene.secrets.data["specloop-live"].update(token="x"), "llama-0: it expects another token"),
        ],
    )
    def test_a_restart_does_it(self, break_it: Any, words: str) -> None:
        """The condition has the reason."""
        scene = LiveScene()
        break_it(scene)
        scene.low()
        turn = scene.turn()
        assert turn.began is not None
        assert not turn.began.live
        reason, message = condition(scene)
        assert reason == "NotPossible"
        assert message.startswith(words)

    def test_pods_that_do_not_answer_are_waited_for(self) -> None:
        """Nothing is known of them: no fleet is restarted for what a request would do once the network is back."""
        scene = LiveScene()
        silenced(scene)
        scene.override("k3")
        turn = scene.turn()
        assert turn.began is None
        assert turn.blocked is not None
        assert turn.blocked[1].startswith("k3 can be reached without a restart once pods can be asked: llama-0: it can")
        for plugin in scene.plugins.values():
            plugin.silent = False
        turn = scene.turn()
        assert turn.began is not None
        assert turn.began.live

    def test_what_is_held_stays_where_the_policy_asks_for_no_live_control_any_more(self) -> None:
        """The level is still what pods are at, and the template's cannot be had by writing it once more."""
        scene = promoted()
        scene.spec["live"] = {}
        scene.turn()
        assert scene.seen.level is not None
        assert scene.seen.level.name == "k3"
        assert condition(scene) == ("NotPossible", "the policy asks for none any more")
        scene.override("k5")
        turn = scene.turn()
        assert turn.began is None
        assert turn.decision is not None
        assert "pods are held live at another level, and live control is not possible any more" in turn.decision.reason

    def test_the_actuator_live_restarts_nothing(self) -> None:
        """n-gram is another start-up profile."""
        scene = overridden("ngram", actuator="Live")
        assert scene.turns[-1].began is None
        assert scene.turns[-1].decision is not None
        assert "it takes a restart, and the policy's actuator is Live" in scene.turns[-1].decision.reason

    def test_the_actuator_restart_asks_nobody(self) -> None:
        """Whatever the policy names."""
        scene = LiveScene("Restart")
        scene.low()
        turn = scene.turn()
        assert turn.began is not None
        assert not turn.began.live
        assert condition(scene)[0] == "NotAskedFor"

    def test_a_table_that_is_not_there_is_missed(self) -> None:
        """The plugin has nothing to change without."""
        scene = LiveScene(level="k5")
        scene.turn()
        assert condition(scene) == (
            "NotPossible",
            "the target was started without num_speculative_tokens_per_batch_size: see specloop inject",
        )


class TestTwoStageOff:
    """K = 0 at once, and pods without a drafter once that pays."""

    def braked(self, **spec: Any) -> LiveScene:
        """A person asked for disabled, until they say otherwise."""
        scene = overridden("disabled", **{"rollout": {"watchSeconds": 0}, **spec})
        scene.turn()
        return scene

    def test_all_pods_are_braked_at_once(self) -> None:
        """Nothing can be wrong with no speculation: no canary soaks first."""
        scene = self.braked()
        assert scene.turns[0].words == "asking all pods for disabled, live"
        assert scene.tokens == [0, 0, 0]
        assert scene.turns[1].ended is Ending.PROMOTED
        assert scene.remembered.state.level == "disabled"

    def test_the_drafter_is_let_go_of_where_off_lasts(self) -> None:
        """An override without an end lasts longer than two restarts."""
        scene = self.braked()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.kind, turn.began.live, scene.level) == (Kind.SHED, False, "disabled")
        assert "until somebody ends it, longer than two restarts of 60 s cost" in turn.words
        scene.until_soaking("disabled")
        scene.turn(verdict=PASSED)
        scene.all_at("disabled")
        turn = scene.turn(verdict=None)
        assert (turn.ended, scene.remembered.live, scene.remembered.state.level) == (Ending.PROMOTED, None, "disabled")
        assert scene.turn().began is None

    def test_it_is_kept_where_off_is_short(self) -> None:
        """A gap of probes of an hour saves 4 % of 3,600 s, 144 s; two restarts of 90 s cost 180 s, of 60 s 120 s."""
        assert pytest.approx(144.0) == BRAKED_SHARE * 3600.0
        for seconds, sheds in ((90.0, False), (60.0, True)):
            scene = LiveScene(rollout={"watchSeconds": 0})
            for pod in scene.pods:
                pod.start_seconds = seconds
            scene.override("disabled", until=scene.now + 3600.0)
            for _ in range(2):
                scene.turn()
            turn = scene.turn()
            assert (turn.began is not None) is sheds

    def test_pods_without_it_that_fail_are_taken_back_to_the_brake(self) -> None:
        """And are not tried again before the policy is edited."""
        scene = self.braked()
        scene.turn()
        scene.pods.append(PodOf("llama-new", "disabled", ready_since=None, restarts=3))
        scene.turn()
        assert scene.level == LIVE
        scene.pods.pop()
        turn = scene.turn()
        assert (turn.ended, turn.decision) == (Ending.FAILED, None)
        assert scene.tokens == [0, 0, 0]
        assert scene.remembered.state.level == "disabled"
        assert not scene.remembered.state.quarantine
        assert scene.turn().began is None

    def test_a_wish_for_another_level_calls_it_off(self) -> None:
        """Speculation is wanted again, and the drafter is still in most pods."""
        scene = self.braked()
        scene.turn()
        scene.override("k3")
        turn = scene.turn()
        assert turn.moved is Phase.ROLLING_BACK
        assert scene.level == LIVE
        scene.turn()
        turn = scene.turn()
        assert turn.began is not None
        assert (turn.began.level, turn.began.live) == ("k3", True)

    def test_it_waits_for_the_watch(self) -> None:
        """A level that was just promoted may still be taken back."""
        scene = overridden("disabled")
        for _ in range(3):
            scene.turn()
        assert scene.remembered.watch is not None
        assert scene.turns[-1].began is None


RANGED = [
    {"name": "k5", "drafter": "small", "tokens": 5, "tokensByBatch": [{"fromRequests": 9, "tokens": 1}]},
    {"name": "k3", "drafter": "small", "tokens": 3, "tokensByBatch": [{"fromRequests": 17, "tokens": 0}]},
    {"name": "disabled"},
]


def test_k_by_batch_is_what_pods_are_asked_for() -> None:
    """Over a template with one K as well, whose level the policy knows by its largest."""
    scene = LiveScene(levels=RANGED, rollout={"watchSeconds": 0})
    scene.turn()
    assert [plugin.applied["table"] for plugin in scene.plugins.values()] == [[[1, 8, 5], [9, 256, 1]]] * 3
    assert scene.seen.level is not None
    assert scene.seen.level.name == "k5"
    scene.override("k3")
    for verdict in (None, OPEN, OPEN, PASSED, None, None):
        scene.turn(verdict=verdict)
    assert [plugin.applied["table"] for plugin in scene.plugins.values()] == [[[1, 16, 3], [17, 256, 0]]] * 3
    assert scene.remembered.live is not None
    assert scene.remembered.live.table == ((1, 16, 3), (17, 65536, 0))
    assert (scene.seen.level, scene.remembered.state.level) == (scene.seen.policy.ladder.levels[1], "k3")


def test_a_probe_is_one_pod_that_is_asked() -> None:
    """From braked, k3 is tried on one pod after the gap, and the rules judge it."""
    scene = LiveScene(rollout={"watchSeconds": 0})
    scene.override("disabled", until=scene.now + 60.0)
    for _ in range(2):
        scene.turn()
    scene.remembered = replace(scene.remembered, shed_failed=scene.seen.keys["disabled"])
    scene.annotations.clear()
    scene.now += 4000.0
    scene.low()
    turn = scene.turn()
    assert turn.began is not None
    assert turn.began.live
