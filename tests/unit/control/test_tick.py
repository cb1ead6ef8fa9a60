"""One tick of the loop: what is decided is done, once, and told; what fails is not tried again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_control.tick import Controller
from specloop_policy.decision import ActionName, Decision, FiringAlert, Inputs, PolicyState, ScheduledLevel
from specloop_policy.model import AlertActionType
from specloop_policy.observation import Window
from specloop_policy.policy import Policy, resolve
from specloop_policy.step import fresh
from tests.support.fakes import FakeActuator, FakeTelemetry, RecordingListener
from tests.support.policies import DRAFTERS, LEVELS, rule, spec
from tests.support.windows import constant, measured, off

LOW = rule("acceptance-low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)
GUARDRAILS = {"cooldownSeconds": 0, "maxChangesPerDay": 1000, "probe": {"afterSeconds": 600, "maxSeconds": 600}}
TOKENS = {"k5": 5, "k3": 3, "ngram": 4}


@dataclass
class Loop:
    """A controller whose world is fakes; every tick shows one more window of each pod at the level that it runs."""

    pods: Sequence[str] = ("a", "b", "c")
    level: str = "k5"
    enforce: bool = True
    failing: dict[str, str] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=Inputs)
    now: float = 0.0
    windows: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        fields: dict[str, Any] = {
            "drafters": DRAFTERS,
            "levels": LEVELS,
            "rules": [LOW],
            "guardrails": GUARDRAILS,
            "signals": {"settleSeconds": 0},
            "costModel": {"policy": "Ignore"},
        }
        policy = resolve("chat-70b", spec(**fields), enforce=self.enforce)
        self.telemetry = FakeTelemetry()
        self.actuator = FakeActuator(dict.fromkeys(self.pods, self.level), self.failing)
        self.listener = RecordingListener()
        self.controller = self.round(policy, self.actuator)

    def round(self, policy: Policy, actuator: FakeActuator) -> Controller:
        """A controller whose target has been at the level since before the first window."""
        state = fresh(self.level, 0.0)
        return Controller(policy, self.telemetry, actuator, lambda now: self.inputs, self.listener, state)

    @property
    def quarantined(self) -> list[str]:
        """Levels that are not tried again."""
        return [one.level for one in self.controller.state.quarantine]

    async def tick(self, rate: float) -> Decision:
        """A window of 300 s passes in which this share is accepted wherever anything is drafted; then a tick."""
        self.now += 300.0
        for pod, level in self.actuator.levels.items():
            if level == "disabled":
                self.windows.append(off(end=self.now, pod=pod))
            else:
                self.windows.append(measured(constant(rate, TOKENS[level]), end=self.now, pod=pod, level=level))
        self.telemetry.shown = self.windows
        return await self.controller.tick(self.now)


async def test_what_is_decided_is_asked_of_every_pod() -> None:
    loop = Loop()
    await loop.tick(0.7)
    assert loop.actuator.asked == []
    decision = await loop.tick(0.1)
    assert (decision.action, decision.level) == (ActionName.STEP_DOWN, "k3")
    assert loop.actuator.asked == [{"a": "k3", "b": "k3", "c": "k3"}]


async def test_a_decision_that_keeps_the_level_asks_for_nothing() -> None:
    loop = Loop()
    for _ in range(5):
        decision = await loop.tick(0.7)
        assert decision.action is ActionName.HOLD
    assert loop.actuator.asked == []


async def test_the_listener_is_told_of_every_tick() -> None:
    loop = Loop()
    for rate in (0.7, 0.7, 0.1, 0.7):
        await loop.tick(rate)
    assert [at for at, _, _ in loop.listener.told] == [300.0, 600.0, 900.0, 1200.0]
    assert loop.listener.changes == [("StepDown", "k5", "k3")]


async def test_the_listener_is_told_before_anything_is_done() -> None:
    """A restart takes minutes: whoever watches is told why at once."""

    class Watched(FakeActuator):
        """Notes how many decisions had been told when it was asked."""

        async def apply(self, wanted: Any) -> None:
            told_at.append(len(loop.listener.told))
            self.levels.update(wanted)

    told_at: list[int] = []
    loop = Loop()
    loop.controller = loop.round(loop.controller.policy, Watched(loop.actuator.levels))
    await loop.tick(0.1)
    assert told_at == [1]


async def test_a_level_that_fails_is_quarantined_at_the_next_tick_and_not_tried_again() -> None:
    loop = Loop(failing={"k3": "engine ended with exit code 1"})
    await loop.tick(0.1)
    assert loop.actuator.asked == [{"a": "k3", "b": "k3", "c": "k3"}]
    assert loop.controller.state.level == "k3"  # decided, and not yet known to have failed

    decision = await loop.tick(0.1)
    assert (decision.action, decision.level) == (ActionName.SWITCH_TO, "k5")
    assert "k3 failed (engine ended with exit code 1): back at k5" in decision.reason
    assert loop.controller.state.level == "k5"
    assert loop.quarantined == ["k3"]

    for _ in range(10):
        await loop.tick(0.1)
    assert ["k3" in wanted.values() for wanted in loop.actuator.asked].count(True) == 1
    assert "ngram" in [level for _, _, level in loop.listener.changes]


async def test_after_a_failure_the_next_level_below_is_taken() -> None:
    loop = Loop(failing={"k3": "it did not become healthy"})
    for _ in range(3):
        await loop.tick(0.1)
    assert loop.listener.changes[0] == ("StepDown", "k5", "k3")
    assert loop.listener.changes[-1] == ("StepDown", "k5", "ngram")


async def test_a_failure_during_a_suspension_is_remembered_when_that_is_over() -> None:
    loop = Loop(failing={"k3": "no such luck"})
    await loop.tick(0.1)
    loop.inputs = Inputs(alerts=(FiringAlert("Maintenance", AlertActionType.SUSPEND),))
    await loop.tick(0.1)
    assert loop.quarantined == []
    loop.inputs = Inputs()
    await loop.tick(0.1)
    assert loop.quarantined == ["k3"]


async def test_recommending_never_asks_for_anything_and_says_the_same_again() -> None:
    loop = Loop(enforce=False)
    decisions = [await loop.tick(0.1) for _ in range(5)]
    assert {(decision.action, decision.level) for decision in decisions} == {(ActionName.STEP_DOWN, "k3")}
    assert loop.actuator.asked == []
    assert loop.actuator.levels == dict.fromkeys("abc", "k5")
    assert loop.controller.state.level == "k5"


async def test_recommending_does_not_carry_out_a_schedule_either() -> None:
    loop = Loop(enforce=False, inputs=Inputs(scheduled=ScheduledLevel("nightly", "disabled")))
    decision = await loop.tick(0.7)
    assert (decision.action, decision.level) == (ActionName.DISABLE, "disabled")
    assert loop.actuator.asked == []


async def test_what_is_decided_at_the_first_look_leaves_the_level_that_runs() -> None:
    loop = Loop(inputs=Inputs(scheduled=ScheduledLevel("nightly", "disabled")))
    loop.controller.state = PolicyState()
    await loop.tick(0.7)
    assert loop.listener.changes == [("Disable", "k5", "disabled")]


async def test_a_schedule_is_carried_out_and_taken_back() -> None:
    loop = Loop()
    await loop.tick(0.7)
    loop.inputs = Inputs(scheduled=ScheduledLevel("nightly", "disabled"))
    await loop.tick(0.7)
    await loop.tick(0.7)
    loop.inputs = Inputs()
    await loop.tick(0.7)
    assert loop.actuator.asked == [dict.fromkeys("abc", "disabled"), dict.fromkeys("abc", "k5")]


async def test_a_probe_goes_to_the_first_pod_alone_and_is_taken_back_when_it_is_lost() -> None:
    """600 s at disabled, then n-gram is tried and accepts .1: the rule would lower it."""
    loop = Loop(level="disabled")
    for _ in range(3):
        await loop.tick(0.1)
    assert loop.actuator.asked == [
        {"a": "ngram", "b": "disabled", "c": "disabled"},
        {"a": "disabled", "b": "disabled", "c": "disabled"},
    ]
    assert loop.listener.changes == [("Probe", "disabled", "ngram"), ("Disable", "ngram", "disabled")]


async def test_a_probe_that_is_won_reaches_every_pod() -> None:
    loop = Loop(level="disabled")
    for _ in range(3):
        await loop.tick(0.7)
    assert loop.actuator.asked == [
        {"a": "ngram", "b": "disabled", "c": "disabled"},
        {"a": "ngram", "b": "ngram", "c": "ngram"},
    ]
    assert loop.listener.changes == [("Probe", "disabled", "ngram"), ("StepUp", "disabled", "ngram")]


async def test_the_only_pod_is_probed_and_kept_at_what_it_won() -> None:
    loop = Loop(pods=("only",), level="disabled")
    for _ in range(3):
        await loop.tick(0.7)
    assert loop.actuator.asked[0] == {"only": "ngram"}
    assert loop.actuator.levels == {"only": "ngram"}


async def test_a_probe_that_does_not_come_up_is_a_failed_change() -> None:
    loop = Loop(level="disabled", failing={"ngram": "engine ended with exit code 1"})
    for _ in range(8):
        await loop.tick(0.7)
    assert [wanted["a"] for wanted in loop.actuator.asked].count("ngram") == 1
    assert loop.quarantined == ["ngram"]


async def test_a_level_that_somebody_else_set_is_adopted() -> None:
    loop = Loop()
    await loop.tick(0.7)
    loop.actuator.levels = dict.fromkeys("abc", "ngram")
    decision = await loop.tick(0.7)
    assert (decision.action, decision.level) == (ActionName.HOLD, "ngram")
    assert loop.actuator.asked == []
