"""One tick of the loop: look, decide, act, tell.  Everything it knows is decided elsewhere."""

from collections.abc import Callable
from dataclasses import replace

from specloop_control.ports import Actuator, Listener, Telemetry
from specloop_policy.decision import Decision, FailedChange, Inputs, PolicyState
from specloop_policy.observation import Observation
from specloop_policy.policy import Policy
from specloop_policy.rollout import placement
from specloop_policy.step import level_before, step


class Controller:
    """The loop round one target; `state` is all that it remembers."""

    def __init__(
        self,
        policy: Policy,
        telemetry: Telemetry,
        actuator: Actuator,
        inputs: Callable[[float], Inputs],
        listener: Listener,
        state: PolicyState | None = None,
    ) -> None:
        self.policy = policy
        self.state = state if state is not None else PolicyState()
        self._telemetry = telemetry
        self._actuator = actuator
        self._inputs = inputs
        self._listener = listener
        self._failed: FailedChange | None = None

    async def tick(self, now: float) -> Decision:
        """Look once, decide, and act when the decision says so."""
        observation = Observation(self._telemetry.windows(), self._actuator.workload())
        inputs = replace(self._inputs(now), failed=self._failed)
        before = self.state
        decision, self.state = step(self.policy, self.state, observation, inputs, now)
        if self._failed is not None and self._failed in self.state.quarantine:
            self._failed = None  # a suspension may have kept it from being heard
        self._listener.decided(now, decision, level_before(before, observation, decision))
        if decision.changes_level and self.policy.enforce and self.state.level is not None:
            probed = self.state.probe.level if self.state.probe is not None else None
            self._failed = await self._actuator.apply(placement(self._actuator.pods(), self.state.level, probed))
        return decision
