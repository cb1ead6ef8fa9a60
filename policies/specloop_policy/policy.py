"""A policy made ready for deciding: its ladder and rules filled in from what the target runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from specloop_policy.contradictions import Contradiction, contradictions
from specloop_policy.ladder import DISABLED, LOOKUP_METHODS, Drafter, Ladder, Level, derive_ladder
from specloop_policy.model import (
    Action,
    ActionType,
    CostModelSpec,
    GainLimit,
    Guardrails,
    LevelSpec,
    Mode,
    PercentLimit,
    Rule,
    Signals,
    SpecPolicySpec,
    TemperatureLimit,
    When,
    lookup_range,
)


class PolicyError(ValueError):
    """A policy that contradicts itself or its target; trying again does not help until it is edited."""

    def __init__(self, found: Sequence[Contradiction]) -> None:
        self.found = tuple(found)
        super().__init__(
            "; ".join(f"{'.'.join(map(str, one.field))}: {one.message} ({one.hint})" for one in self.found)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a decision asks of a policy, with nothing left to derive."""

    name: str
    ladder: Ladder
    rules: tuple[Rule, ...]
    guards: tuple[Rule, ...]
    """The rules that may lower the level, their acceptance limits raised by the margin: what a higher level must
    stand up to before it is entered."""
    signals: Signals
    cost_model: CostModelSpec
    guardrails: Guardrails
    enforce: bool
    suspended: bool
    interval_seconds: float


def resolve(
    name: str,
    spec: SpecPolicySpec,
    running: Drafter | None = None,
    tokens: int = 0,
    *,
    enforce: bool | None = None,
    derived: Ladder | None = None,
) -> Policy:
    """Fill in what the policy leaves to its target, which runs drafter `running` with K = `tokens`.

    `enforce` overrides the policy's mode; `derived` is the ladder that was derived before, where one is remembered.
    Raises PolicyError naming every contradiction.
    """
    found = list(contradictions(spec))
    if found:
        raise PolicyError(found)
    ladder = _declared_ladder(spec) if spec.levels is not None else derived or derive_ladder(running, tokens)
    rules = spec.rules if spec.rules is not None else field_report_rules(ladder)
    named: list[tuple[tuple[str | int, ...], str | None]] = [
        *((("rules", place, "action", "level"), rule.action.level) for place, rule in enumerate(rules)),
        *((("schedules", place, "level"), one.level) for place, one in enumerate(spec.schedules)),
        *((("alerts", place, "action", "level"), one.action.level) for place, one in enumerate(spec.alerts)),
    ]
    unknown = [
        Contradiction(field, f"no level is called {name!r}", "levels here: " + ", ".join(ladder.names()))
        for field, name in named
        if name is not None and ladder.find(name) is None
    ]
    if unknown:
        raise PolicyError(unknown)
    return Policy(
        name=name,
        ladder=ladder,
        rules=rules,
        guards=tuple(_with_margin(rule, spec.cost_model.margin_percent) for rule in rules if lowers(rule)),
        signals=spec.signals,
        cost_model=spec.cost_model,
        guardrails=spec.guardrails,
        enforce=spec.mode is Mode.ENFORCE if enforce is None else enforce,
        suspended=spec.suspend,
        interval_seconds=float(spec.interval_seconds),
    )


def lowers(rule: Rule) -> bool:
    """Whether a rule may lower the level: none but StepUp and Alert may not."""
    return rule.action.type not in (ActionType.STEP_UP, ActionType.ALERT)


def _with_margin(rule: Rule, margin_percent: int) -> Rule:
    limit = rule.when.acceptance
    if limit is None or limit.below_percent is None:
        return rule
    raised = PercentLimit(below_percent=min(100, limit.below_percent + margin_percent))
    return rule.model_copy(update={"when": rule.when.model_copy(update={"acceptance": raised})})


def _declared_ladder(spec: SpecPolicySpec) -> Ladder:
    drafters = {}
    for one in spec.drafters or ():
        low, high = lookup_range(one) if one.method in LOOKUP_METHODS else (None, None)
        drafters[one.name] = Drafter(one.name, one.method, one.model, low, high)
    return Ladder(
        tuple(
            Level(one.name, drafters[one.drafter], one.tokens, _by_batch(one))
            if one.drafter and one.tokens
            else DISABLED
            for one in spec.levels or ()
        )
    )


def _by_batch(level: LevelSpec) -> tuple[tuple[int, int], ...]:
    return tuple((one.from_requests, one.tokens) for one in level.tokens_by_batch or ())


def field_report_rules(ladder: Ladder) -> tuple[Rule, ...]:
    """The rules of a policy that names none: the thresholds of the field report this project started from.

    Hot traffic goes to the first look-up level of the ladder, or to `disabled` where there is none.
    """
    lookup = next((level for level in ladder.levels if _is_lookup(level)), ladder.levels[-1])
    return (
        Rule(
            name="hot-traffic",
            when=When(temperature=TemperatureLimit(above="0.6", share_percent=50)),
            action=Action(type=ActionType.SWITCH_TO, level=lookup.name),
        ),
        Rule(
            name="acceptance-low",
            when=When(acceptance=PercentLimit(below_percent=40)),
            action=Action(type=ActionType.STEP_DOWN),
        ),
        Rule(
            name="does-not-pay",
            when=When(gain=GainLimit(below_percent=0)),
            action=Action(type=ActionType.DISABLE),
        ),
        Rule(
            name="acceptance-healthy",
            when=When(acceptance=PercentLimit(above_percent=55)),
            for_seconds=1800,
            action=Action(type=ActionType.STEP_UP),
        ),
    )


def _is_lookup(level: Level) -> bool:
    return level.drafter is not None and level.drafter.method in LOOKUP_METHODS
