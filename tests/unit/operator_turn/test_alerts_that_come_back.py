"""Alerts that fire because of a roll-out, or end because of one: days of them, look by look.

What is counted is roll-outs.  The first way back is at once, the next ones come 2, 4, 8 and 16 hours after the level
was lost: five of them in a day, each with one in the other direction.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from specloop_operator.remembered import Remembered
from specloop_policy.canary import Ending, Kind, Phase
from specloop_policy.decision import FiringAlert
from specloop_policy.model import AlertActionType
from specloop_policy.step import fresh
from tests.support.policies import rule
from tests.unit.operator_turn.scenes import NOW, OPEN, PASSED, WRONG, Scene

LOOK_SECONDS = 60.0
FEW = 2 * 5 + 1
NO_RULE = rule("none", {"acceptance": {"belowPercent": 1}}, "Alert", for_seconds=0)
LOW = FiringAlert("AcceptanceLow", AlertActionType.STEP_DOWN)
OFF = FiringAlert("GpuOnFire", AlertActionType.DISABLE)
MISMATCH = FiringAlert("ReplicasMismatch", AlertActionType.SUSPEND)
ALWAYS = {"name": "office", "cron": "* * * * *", "durationSeconds": 60, "level": "k5"}

Fires = Callable[[Scene], Sequence[FiringAlert]]


def at(level: str, **spec: object) -> Scene:
    """Three pods at a level, under a policy whose rules ask for nothing."""
    remembered = Remembered(fresh(level, NOW - 1e6))
    return Scene(spec={"rules": [NO_RULE], **spec}, level=level, remembered=remembered)


def live(scene: Scene, fires: Fires, hours: float) -> int:
    """Time goes by, and pods come as they are asked for; how many roll-outs were begun."""
    begun, end = 0, scene.now + 3600.0 * hours
    while scene.now < end:
        rollout, verdict = scene.remembered.rollout, None
        if rollout is None and any(pod.level != scene.level for pod in scene.pods):
            scene.all_at(scene.level)
        elif rollout is not None and rollout.phase in (Phase.STARTING, Phase.CANARY):
            if scene.level == rollout.level and not any(pod.level == rollout.level for pod in scene.pods):
                scene.canary(rollout.level)
        elif rollout is not None and rollout.soaking:
            verdict = PASSED if scene.now - rollout.since > 600.0 else OPEN
        elif rollout is not None and scene.level == goal(scene) and not scene.held:
            scene.all_at(scene.level)
        scene.alerts = tuple(fires(scene))
        scene.now += LOOK_SECONDS
        begun += scene.turn(verdict=verdict, windows=()).began is not None
        scene.turns.clear()
    return begun


def goal(scene: Scene) -> str:
    """The level that the roll-out under way is about to end at."""
    rollout = scene.remembered.rollout
    assert rollout is not None
    return rollout.back_to if rollout.phase is Phase.ROLLING_BACK else rollout.level


def serves(scene: Scene, level: str) -> bool:
    """Whether any pod is at a level."""
    return any(pod.level == level for pod in scene.pods)


@pytest.mark.parametrize("asked", ["schedule", "alert"])
def test_a_way_up_that_an_alert_ends_in_its_canary_is_begun_later_and_later(asked: str) -> None:
    """k5 is asked for all day, and an alert that turns off fires while any pod is there."""
    up = FiringAlert("QuietHours", AlertActionType.SWITCH_TO, "k5")
    scene = at("k3", **({"schedules": [ALWAYS]} if asked == "schedule" else {}))
    others = [up] if asked == "alert" else []
    assert live(scene, lambda now: [*others, OFF] if serves(now, "k5") else others, 24.0) <= FEW


def test_a_way_back_that_an_alert_suspends_is_begun_later_and_later() -> None:
    """It fires while there are pods of two levels, which is what a canary is."""
    scene = at("k5")

    def fires(now: Scene) -> list[FiringAlert]:
        if now.now < NOW + 1800.0:
            return [OFF]
        return [MISMATCH] if len({pod.level for pod in now.pods}) > 1 else []

    assert live(scene, fires, 24.0) <= FEW


def test_a_roll_out_that_leads_back_anyway_goes_on_when_its_alert_is_over() -> None:
    """From off, k5 by an override that is over; an alert fires while all pods are at k5, and asks for off too."""
    scene = at("disabled")
    scene.override("k5")
    live(scene, lambda now: [], 1.0)
    scene.annotations.clear()
    assert live(scene, lambda now: [OFF] if {pod.level for pod in now.pods} == {"k5"} else [], 24.0) == 1
    assert scene.remembered.state.level == "disabled"


def owing() -> Scene:
    """At k3; k5 was left for an alert that had come back, and waits."""
    scene = Scene()
    for alerts, level in (((LOW,), "k3"), ((), "k5"), ((LOW,), "k3")):
        scene.alerts = alerts
        scene.turn()
        scene.until_promoted(level)
    scene.alerts = ()
    assert scene.turn().began is None
    assert scene.remembered.state.owed == "k5"
    return scene


def test_a_retreat_to_the_owed_level_settles_it() -> None:
    """k3 does harm, and k5 is what it goes back to."""
    scene = owing()
    scene.pods[0].restarts += 2
    turn = scene.turn()
    assert turn.began is not None
    assert (turn.began.kind, turn.began.level) == (Kind.RETREAT, "k5")
    assert scene.remembered.state.owed is None


def test_an_override_for_the_owed_level_that_outlasts_the_gap_settles_it() -> None:
    """Not back to k3 first, and to k5 from there."""
    scene = owing()
    scene.override("k5")
    scene.turn()
    scene.until_promoted("k5")
    scene.now += 5 * 3600.0
    scene.turn()
    scene.annotations.clear()
    assert [scene.turn().began for _ in range(2)] == [None, None]
    assert (scene.remembered.state.level, scene.remembered.state.owed) == ("k5", None)


def test_an_edit_that_removes_the_owed_level_settles_it() -> None:
    scene = owing()
    scene.spec["levels"] = [one for one in scene.policy()["spec"]["levels"] if one["name"] != "k5"]
    scene.now += 1e5
    assert scene.turn().began is None
    assert scene.remembered.state.owed is None


def test_a_way_back_whose_level_fails_is_not_begun_again_though_its_roll_back_is_late() -> None:
    """The canary is not ready in half an hour, nor is the old pod half an hour later."""
    scene = Scene()
    scene.alerts = (OFF,)
    scene.turn()
    scene.until_promoted("disabled")
    scene.alerts = ()
    scene.turn()
    scene.until_soaking("k5")
    scene.turn(verdict=WRONG)
    scene.now += 1e5
    assert scene.turn(verdict=None).ended is Ending.ABANDONED
    scene.all_at("disabled")
    scene.now += 1e5
    assert scene.turn().began is None
    assert [one.level for one in scene.remembered.state.quarantine] == ["k5"]
    assert replace(scene.remembered.state, owed="k5") == scene.remembered.state
