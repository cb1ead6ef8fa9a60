"""Worlds that never change, and a target that lives in one: what a policy does there, window by window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specloop_policy.decision import KEEPS_LEVEL, ActionName, Decision, Inputs, PolicyState
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.policy import Policy
from specloop_policy.step import step
from tests.support.windows import measured, off


@dataclass(frozen=True, slots=True)
class World:
    """True survival and coverage by drafter, and traffic; windows hold exactly what is to be expected."""

    survival: Mapping[str, tuple[float, ...]]
    """By the drafter's name, eight positions each."""
    coverage: Mapping[str, float] = field(default_factory=dict)
    """Share of steps that draft, by the drafter's name; 1 where it is not named."""
    hot_share: float | None = None
    running: float = 8.0
    requests: float = 100.0
    """Finished requests a pod and window."""
    steps: float = 9000.0
    """Decode steps a pod and window, summed over requests."""

    def window(self, policy: Policy, level: str, *, pod: str, end: float, process_start: float | None = None) -> Window:
        """What a pod at a level counts in the policy's window that ends at `end`."""
        seconds = float(policy.signals.window_seconds)
        at = policy.ladder.find(level)
        assert at is not None
        if at.drafter is None:
            window = off(end=end, seconds=seconds, pod=pod, requests=self.requests)
            hot = measured((), end=end, requests=self.requests, hot_share=self.hot_share)
            return replace(window, temperatures=hot.temperatures, running=self.running, process_start=process_start)
        coverage = self.coverage.get(at.drafter.name, 1.0)
        if coverage <= 0.0:
            window = measured((), end=end, seconds=seconds, pod=pod, level=level, requests=self.requests, drafts=0.0)
            return replace(window, generation_tokens=self.steps + self.requests, tokens=at.tokens, running=self.running)
        return measured(
            self.survival[at.drafter.name][: at.tokens],
            end=end,
            seconds=seconds,
            pod=pod,
            level=level,
            requests=self.requests,
            drafts=self.steps * coverage,
            coverage=coverage,
            hot_share=self.hot_share,
            running=self.running,
            process_start=process_start,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that does something, when it was taken, and the level before and after it."""

    at: float
    decision: Decision
    before: str | None
    after: str | None


@dataclass(slots=True)
class Target:
    """A workload that does what is decided at once, and its memory."""

    policy: Policy
    world: World
    level: str
    pods: int = 1
    inputs: Inputs = field(default_factory=Inputs)
    state: PolicyState = field(default_factory=PolicyState)
    now: float = 0.0
    windows: tuple[Window, ...] = ()
    changes: list[Change] = field(default_factory=list)
    probed: str | None = None

    def run(self, rounds: int) -> Sequence[Change]:
        """Live through so many windows; returns the changes made in them."""
        before = len(self.changes)
        for _ in range(rounds):
            self.decide()
        return self.changes[before:]

    def decide(self) -> Decision:
        """Live through one window and carry out the decision at its end."""
        self.observe()
        decision, after = step(self.policy, self.state, self.observation(), self.inputs, self.now)
        self.carry_out(decision, after)
        return decision

    def observe(self) -> None:
        """One window more of every pod; what is older than the evidence may be is dropped."""
        self.now += self.policy.signals.window_seconds
        fresh = [
            self.world.window(self.policy, self.level_of(pod), pod=f"pod-{pod}", end=self.now)
            for pod in range(self.pods)
        ]
        signals = self.policy.signals
        oldest = self.now - signals.max_evidence_seconds - 2 * signals.window_seconds
        self.windows = (*(one for one in self.windows if one.start >= oldest), *fresh)

    def level_of(self, pod: int) -> str:
        """What a pod runs: the last one runs the probed level while there is a probe."""
        return self.probed if self.probed is not None and pod == self.pods - 1 else self.level

    def observation(self) -> Observation:
        """What the policy sees."""
        alone = self.probed if self.probed is not None and self.pods == 1 else self.level
        return Observation(self.windows, Workload(alone, self.pods))

    def carry_out(self, decision: Decision, after: PolicyState) -> None:
        """Do what was decided and remember it; a policy that only recommends changes nothing."""
        before, self.state = self.state.level, after
        if decision.action in KEEPS_LEVEL:
            return
        self.changes.append(Change(self.now, decision, before, after.level))
        if not self.policy.enforce:
            return
        self.probed = decision.level if decision.action is ActionName.PROBE else None
        if self.probed is None and decision.level is not None:
            self.level = decision.level

    def restart(self) -> None:
        """Lose every window; the memory stays."""
        self.windows = ()


def flat(rate: float) -> tuple[float, ...]:
    """Eight positions with the same survival, so that the acceptance rate is the same at every K."""
    return (rate,) * 8


def silent(policy: Policy, level: str, outcome: Outcome, *, pod: str = "pod-0", end: float = 300.0) -> Window:
    """A window that says nothing of acceptance, and why."""
    seconds = float(policy.signals.window_seconds)
    return Window(pod, end - seconds, end, outcome, f"made {outcome.lower()} by the test", level)
