"""What a level gains in speed on the evidence at hand, and what another level would: the cost model put to use."""

from dataclasses import dataclass

from specloop_policy.acceptance import Interval, Pool, at_tokens
from specloop_policy.cost import LevelCost, Load, StepTimes, level_cost
from specloop_policy.ladder import Level, same_drafter
from specloop_policy.policy import Policy


@dataclass(frozen=True, slots=True)
class Economics:
    """Gains of levels, from evidence measured at level `measured`; unknown wherever step times are."""

    policy: Policy
    times: StepTimes | None
    measured: Level

    @property
    def margin(self) -> float:
        """By how much a level must be better to count as better, as a fraction."""
        return self.policy.cost_model.margin_percent / 100.0

    def cost(self, level: Level, evidence: Pool) -> LevelCost | None:
        """Step time of a level at the load of the evidence."""
        if self.times is None or not evidence.running:
            return None
        load = Load(evidence.running, evidence.context_tokens)
        return level_cost(self.times, level, self.policy.ladder.levels[-1], load)

    def gain(self, level: Level, evidence: Pool) -> Interval | None:
        """Speed gained by a level against `disabled`, as a fraction; None when unknown.

        0 for `disabled`; measured for the level that the evidence comes from; predicted for another K of the same
        drafter; unknown for another drafter, whose acceptance the evidence says nothing about.
        """
        if not level.speculates:
            return Interval(0.0, 0.0, 0.0)
        cost = self.cost(level, evidence)
        expected = self.expected(level, evidence) if cost is not None else None
        tokens = expected.tokens_per_step if expected is not None else None
        if expected is None or cost is None or tokens is None or expected.covered is None:
            return None
        return tokens.scaled(1.0 / cost.ratio(expected.covered)).shifted(-1.0)

    def expected(self, level: Level, evidence: Pool) -> Pool | None:
        """The evidence as it would be at a level of the same drafter; None for another drafter."""
        if level == self.measured:
            return evidence
        if not same_drafter(level, self.measured):
            return None
        requests = evidence.running or 0.0
        return at_tokens(evidence, self.measured.tokens_at(requests), level.tokens_at(requests))

    def added(self, evidence: Pool) -> Interval | None:
        """Tokens that speculation adds to those of a plain step, as a fraction, E - 1; no hardware gains more.

        A speculative step is never shorter than a plain one, so that a level whose E stays under 1 + margin cannot
        pay whatever the step times are.
        """
        return evidence.added_tokens_per_step if self.measured.speculates else None

    def pays_less(self, level: Level, other: Level, evidence: Pool) -> bool:
        """Whether a level is known to be slower than another, as best estimates go."""
        one, two = self.gain(level, evidence), self.gain(other, evidence)
        return one is not None and two is not None and one.value < two.value

    def surely_better(self, level: Level, other: Level, evidence: Pool) -> bool:
        """Whether a level is faster than another by the margin, even where the evidence is read against it.

        Two levels of one drafter rise and fall together, so their lower ends are compared.
        """
        one, two = self.gain(level, evidence), self.gain(other, evidence)
        return one is not None and two is not None and one.low > two.low + self.margin * (1.0 + two.low)

    def advantage(self, level: Level, other: Level, evidence: Pool) -> float | None:
        """Best estimate of the speed of a level against another, 0.1 for ten percent; None when unknown."""
        one, two = self.gain(level, evidence), self.gain(other, evidence)
        return None if one is None or two is None else (1.0 + one.value) / (1.0 + two.value) - 1.0
