"""recommend-only.yaml says what an enforcing policy would do, and touches nothing."""

from pathlib import Path

from specloop_cli.policy_file import load_policy
from specloop_control.tick import Controller
from specloop_policy.decision import ActionName, Decision, Inputs
from specloop_policy.policy import resolve
from specloop_policy.step import fresh
from tests.support.fakes import FakeActuator, FakeTelemetry, RecordingListener
from tests.support.policies import SMALL
from tests.support.windows import constant, measured

FILE = Path(__file__).resolve().parents[3] / "policies" / "library" / "recommend-only.yaml"
WINDOW = 300.0
ROUNDS = 6
"""Half an hour: twice the ten minutes that a low acceptance must last, and the window that shows it first."""


async def lived(*, enforce: bool | None, rate: float) -> tuple[list[Decision], FakeActuator]:
    """Every decision over half an hour of this acceptance, and what was asked of the three pods."""
    policy = resolve("recommend-only", load_policy(str(FILE)).spec, SMALL, 5, enforce=enforce)
    actuator = FakeActuator(dict.fromkeys(("a", "b", "c"), "k5"))
    telemetry, listener = FakeTelemetry(), RecordingListener()
    state = fresh("k5", 0.0)
    controller = Controller(policy, telemetry, actuator, lambda now: Inputs(), listener, state)
    for end in (WINDOW * (place + 1) for place in range(ROUNDS)):
        pods = {pod: level for pod, level in actuator.levels.items() if level == "k5"}
        shown = [measured(constant(rate, 5), end=end, pod=pod, level=level) for pod, level in pods.items()]
        telemetry.shown = (*telemetry.shown, *shown)
        await controller.tick(end)
    return [decision for _, decision, _ in listener.told], actuator


async def test_it_gives_the_same_advice_as_a_policy_that_acts_until_that_one_has_acted() -> None:
    advised, _ = await lived(enforce=None, rate=0.2)
    done, _ = await lived(enforce=True, rate=0.2)
    first = next(place for place, one in enumerate(done) if one.changes_level)
    assert done[first].action is ActionName.STEP_DOWN
    assert advised[: first + 1] == done[: first + 1]


async def test_it_repeats_its_advice_and_touches_nothing() -> None:
    advised, actuator = await lived(enforce=None, rate=0.2)
    assert [one.changes_level for one in advised[-2:]] == [True, True]
    assert actuator.asked == []
    assert set(actuator.levels.values()) == {"k5"}


async def test_the_one_that_acts_does_touch_the_pods() -> None:
    _, actuator = await lived(enforce=True, rate=0.2)
    assert actuator.asked != []


async def test_it_has_nothing_to_say_about_a_healthy_fleet() -> None:
    advised, actuator = await lived(enforce=None, rate=0.6)
    assert [one for one in advised if one.changes_level] == []
    assert actuator.asked == []
