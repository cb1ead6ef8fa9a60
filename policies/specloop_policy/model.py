"""SpecPolicy as its author writes it: every field with its meaning, default and bound.

The custom resource, the reference page and `specloop check` are all made from these models.  What one field decides
for itself stands in its type; what the fields of one part decide together in its validators, the rest in
`contradictions`.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from specloop_policy.engine import Engine
from specloop_policy.ladder import MAX_TOKENS, Method

GROUP = "specloop.dev"
VERSION = "v1alpha1"
KIND = "SpecPolicy"
DISABLED_NAME = "disabled"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=63)]
"""A name inside a policy: lower-case letters, digits and dashes, at most 63."""

ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", min_length=1, max_length=253)
]
"""The name of an object of Kubernetes: a DNS subdomain."""

MAX_ITEMS = 16
"""Longest list in a policy."""

Percent = Annotated[int, Field(ge=0, le=100)]
Decimal = Annotated[str, StringConstraints(pattern=r"^[0-9]\.[0-9]$", max_length=3)]
"""A number with one decimal, quoted: a custom resource has no floats."""


class Clash(ValueError):
    """Fields of one part of a policy that do not go together; pydantic hands it on with the place of the part."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Part(BaseModel):
    """A piece of a policy: frozen, strict, and closed to unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class Mode(StrEnum):
    """Whether decisions are carried out."""

    RECOMMEND = "Recommend"
    ENFORCE = "Enforce"


class ActionType(StrEnum):
    """What a rule may ask for."""

    STEP_DOWN = "StepDown"
    STEP_UP = "StepUp"
    SWITCH_TO = "SwitchTo"
    DISABLE = "Disable"
    ALERT = "Alert"


class AlertActionType(StrEnum):
    """What an alert may ask for."""

    EVALUATE_NOW = "EvaluateNow"
    STEP_DOWN = "StepDown"
    STEP_UP = "StepUp"
    SWITCH_TO = "SwitchTo"
    DISABLE = "Disable"
    SUSPEND = "Suspend"


class CostPolicy(StrEnum):
    """What the cost model may do."""

    IGNORE = "Ignore"
    VETO = "Veto"


class ActuatorType(StrEnum):
    """The way a level reaches the engine."""

    AUTO = "Auto"
    LIVE = "Live"
    RESTART = "Restart"


class ClientFeature(StrEnum):
    """What clients may send that some levels cannot serve."""

    MIN_P = "MinP"
    LOGIT_BIAS = "LogitBias"
    GRAMMAR = "Grammar"


class TargetRef(Part):
    """The workload that a policy governs, in the policy's own namespace."""

    api_version: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="API group and version of the target, such as apps/v1."
    )
    kind: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Kind of the target, such as Deployment or StatefulSet."
    )
    name: ObjectName = Field(description="Name of the target.")


class DrafterSpec(Part):
    """What proposes tokens: a draft model, a head of the target, or a look-up in the text at hand."""

    name: Name = Field(description="Name of the drafter, unique in the policy.")
    method: Method = Field(description="How it proposes tokens, in vLLM's words.")
    model: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        default=None, description="Model name or path; needed by draft_model, eagle, eagle3 and dflash."
    )
    lookup_min: Annotated[int, Field(ge=1, le=32)] | None = Field(
        default=None, description="Shortest n-gram looked up; n-gram methods only, default 2."
    )
    lookup_max: Annotated[int, Field(ge=1, le=32)] | None = Field(
        default=None, description="Longest n-gram looked up; n-gram methods only, default 4."
    )


def lookup_range(drafter: DrafterSpec) -> tuple[int, int]:
    """Shortest and longest n-gram, both always set: vLLM copies a lone one onto the other."""
    low, high = drafter.lookup_min, drafter.lookup_max
    if low is None and high is None:
        return 2, 4
    if low is None:
        return min(2, high or 2), high or 2
    return low, high if high is not None else max(4, low)


class BatchRange(Part):
    """K from a number of requests in a step on."""

    from_requests: Annotated[int, Field(ge=2, le=65536)] = Field(
        description="The least number of requests in a step for which it counts."
    )
    tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = Field(description="K, the draft tokens a step.")


BatchRanges = Annotated[tuple[BatchRange, ...], Field(min_length=1, max_length=MAX_ITEMS, strict=False)]


class LevelSpec(Part):
    """A drafter with its K, or `disabled` with neither."""

    name: Name = Field(description="Name of the level, unique in the policy; the last one is `disabled`.")
    drafter: Name | None = Field(default=None, description="Name of the drafter; absent for `disabled`.")
    tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = Field(
        default=None, description="K, the draft tokens a step; absent for `disabled`."
    )
    tokens_by_batch: BatchRanges | None = Field(
        default=None, description="K from larger batches on, rising in requests; `tokens` counts below them."
    )


class Signals(Part):
    """Where the evidence comes from and how much of it is asked for."""

    source: Name = Field(
        default="default", description="Name of a metric source that the operator's configuration defines."
    )
    window_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=300, description="Length of one window; decisions are taken when a window ends."
    )
    max_evidence_seconds: Annotated[int, Field(ge=1, le=86400)] = Field(
        default=3600, description="How far back windows since the last change are pooled."
    )
    settle_seconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        default=60, description="How long after a change or a start a pod's figures are left out."
    )
    min_requests: Annotated[int, Field(ge=1, le=100000)] = Field(
        default=60, description="Finished requests below which evidence is too thin to act on."
    )
    design_effect: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=50,
        description="Draft tokens that are worth one independent one, because drafts of one request are alike; "
        "never taken as more than a request's own draft tokens.",
    )


class OneSide(Part):
    """A limit on one side."""

    @model_validator(mode="after")
    def one_side(self) -> Self:
        """Exactly one side is given."""
        sides = list(type(self).model_fields)
        if sum(getattr(self, side) is not None for side in sides) != 1:
            names = " and ".join(map(to_camel, sides))
            raise Clash(f"needs exactly one of {names}", "a range is two rules, one a side")
        return self


class PercentLimit(OneSide):
    """A limit in percent, on one side."""

    below_percent: Percent | None = Field(default=None, description="Holds when surely below this.")
    above_percent: Percent | None = Field(default=None, description="Holds when surely above this.")


class GainLimit(OneSide):
    """A limit on the estimated gain against `disabled`, in percent of its speed, on one side."""

    below_percent: Annotated[int, Field(ge=-100, le=1000)] | None = Field(
        default=None, description="Holds when the gain is surely below this."
    )
    above_percent: Annotated[int, Field(ge=-100, le=1000)] | None = Field(
        default=None, description="Holds when the gain is surely above this."
    )


class CountLimit(OneSide):
    """A limit on requests in the batch of one pod, on one side."""

    below: Annotated[int, Field(ge=0, le=100000)] | None = Field(default=None, description="Holds below this.")
    above: Annotated[int, Field(ge=0, le=100000)] | None = Field(default=None, description="Holds above this.")


class TemperatureLimit(Part):
    """A share of requests that are hotter than a limit."""

    above: Decimal = Field(description='Temperature with one decimal, quoted, such as "0.6".')
    share_percent: Percent = Field(
        default=50, description="Holds when surely more than this share of the requests is hotter."
    )


class When(Part):
    """The condition of a rule: all that it names must hold."""

    acceptance: PercentLimit | None = Field(
        default=None, description="Accepted draft tokens per draft token of the running level."
    )
    temperature: TemperatureLimit | None = Field(default=None, description="Share of requests above a temperature.")
    coverage: PercentLimit | None = Field(default=None, description="Share of decode steps that drafted anything.")
    gain: GainLimit | None = Field(
        default=None, description="Estimated gain in speed against `disabled`; unknown without step times."
    )
    running: CountLimit | None = Field(default=None, description="Requests in the batch, mean per pod over the window.")
    kv_cache: PercentLimit | None = Field(default=None, description="KV cache in use, mean over pods and window.")

    @model_validator(mode="after")
    def some_condition(self) -> Self:
        """At least one condition is named."""
        if all(getattr(self, name) is None for name in WHEN_NAMES):
            raise Clash("names no condition", "name at least one of " + ", ".join(map(to_camel, WHEN_NAMES)))
        return self

    @property
    def asks_for_low(self) -> bool:
        """Whether it needs acceptance, or the gain that grows with it, to be low."""
        return any(limit is not None and limit.below_percent is not None for limit in (self.acceptance, self.gain))

    @property
    def asks_for_high(self) -> bool:
        """Whether it needs acceptance, or the gain that grows with it, to be high."""
        return any(limit is not None and limit.above_percent is not None for limit in (self.acceptance, self.gain))


WHEN_NAMES = tuple(When.model_fields)


def check_level(switches: bool, level: str | None) -> None:
    """Raise `Clash` unless a level is named exactly where an action switches to one."""
    if switches != (level is not None):
        hint = "add the level" if switches else "remove the level, or use SwitchTo"
        raise Clash("SwitchTo needs a level, and no other action takes one", hint)


class Action(Part):
    """What a rule does to the level."""

    type: ActionType = Field(description="StepDown, StepUp, SwitchTo a level, Disable, or Alert only.")
    level: Name | None = Field(default=None, description="The level to switch to; for SwitchTo alone.")

    @model_validator(mode="after")
    def level_with_switch(self) -> Self:
        """A level is named exactly by SwitchTo."""
        check_level(self.type == ActionType.SWITCH_TO, self.level)
        return self


class Rule(Part):
    """One rule: when all of its condition has held for its duration, its action is taken."""

    name: Name = Field(description="Name of the rule, unique in the policy; reasons quote it.")
    when: When = Field(description="The condition; all that it names must hold.")
    for_seconds: Annotated[int, Field(ge=0, le=86400)] = Field(
        default=600, description="How long the condition must have held without a break."
    )
    action: Action = Field(description="What to do then.")

    @model_validator(mode="after")
    def direction(self) -> Self:
        """Low acceptance or gain lowers, high raises."""
        kind = self.action.type
        if kind is ActionType.ALERT:
            return self
        if self.when.asks_for_low and kind is ActionType.STEP_UP:
            raise Clash("low acceptance or gain may only lower the level", "use StepDown, SwitchTo or Disable")
        if self.when.asks_for_high and kind is not ActionType.STEP_UP:
            raise Clash("high acceptance or gain may only raise the level", "use StepUp or Alert")
        return self


class CostModelSpec(Part):
    """What the cost model may do where step times are known."""

    policy: CostPolicy = Field(
        default=CostPolicy.VETO, description="Veto refuses changes that would not pay; Ignore never asks."
    )
    margin_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5, description="By how much a level must be better to count as better."
    )
    payback_seconds: Annotated[int, Field(ge=0, le=2592000)] = Field(
        default=86400, description="A restart must earn its own price within this time."
    )


class ProbeSpec(Part):
    """When a level is tried again: one that gives no signal from below, and one that was left for an alert twice."""

    after_seconds: Annotated[int, Field(ge=1, le=2592000)] = Field(
        default=3600, description="Gap before the first probe of a level."
    )
    backoff_factor: Annotated[int, Field(ge=2, le=10)] = Field(
        default=2, description="Every lost probe multiplies the gap by this."
    )
    max_seconds: Annotated[int, Field(ge=1, le=2592000)] = Field(default=86400, description="The gap grows up to this.")


class Guardrails(Part):
    """Limits on how often the level may change."""

    cooldown_seconds: Annotated[int, Field(ge=0, le=86400)] = Field(
        default=900, description="At most one change by rules in this time."
    )
    max_changes_per_day: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=12, description="At most this many changes by rules in 24 hours; a probe and its win are one."
    )
    probe: ProbeSpec = Field(default_factory=ProbeSpec, description="Probes of levels that give no signal.")


class SecretKeyRef(Part):
    """A key of a Secret in the policy's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = Field(
        default="token", description="Key in it."
    )


class LiveSpec(Part):
    """Access to the plugin that changes K without a restart."""

    token_secret_ref: SecretKeyRef | None = Field(default=None, description="The bearer token that the plugin expects.")


class Gate(Part):
    """What a canary may cost before it is rolled back."""

    max_tpot_increase_percent: Percent = Field(
        default=5, description="Time per output token, against the untouched replicas."
    )
    max_ttft_increase_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=20, description="Time to first token, against the untouched replicas."
    )
    max_error_rate_percent: Percent = Field(default=1, description="Failed requests of the canary.")
    max_output_length_change_percent: Percent = Field(
        default=20, description="Mean answer length, either way, against the untouched replicas."
    )


class Rollout(Part):
    """How a new level reaches the replicas."""

    actuator: ActuatorType = Field(
        default=ActuatorType.AUTO, description="Auto uses Live where the start-up profile allows, else Restart."
    )
    soak_seconds: Annotated[int, Field(ge=0, le=86400)] = Field(
        default=300, description="How long a canary runs before it is judged."
    )
    min_requests: Annotated[int, Field(ge=1, le=100000)] = Field(
        default=60, description="Finished requests that a judgement needs."
    )
    progress_deadline_seconds: Annotated[int, Field(ge=1, le=86400)] = Field(
        default=1800, description="A roll-out that is not healthy by then is rolled back."
    )
    gate: Gate = Field(default_factory=Gate, description="Limits of the comparison.")
    watch_seconds: Annotated[int, Field(ge=0, le=604800)] = Field(
        default=7200, description="How long a promoted level is watched for restarts, hangs and errors."
    )


class Schedule(Part):
    """A time window that forces a level."""

    name: Name = Field(description="Name of the schedule, unique in the policy.")
    cron: Annotated[str, Field(min_length=9, max_length=128)] = Field(
        description="Start of the window as five cron fields: minute, hour, day of month, month, day of week."
    )
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        default="Etc/UTC", description="IANA time zone of the cron fields."
    )
    duration_seconds: Annotated[int, Field(ge=60, le=604800)] = Field(description="Length of the window.")
    level: Name = Field(description="The level during the window.")


class AlertAction(Part):
    """What an alert does to the level."""

    type: AlertActionType = Field(description="EvaluateNow, StepDown, StepUp, SwitchTo a level, Disable or Suspend.")
    level: Name | None = Field(default=None, description="The level to switch to; for SwitchTo alone.")

    @model_validator(mode="after")
    def level_with_switch(self) -> Self:
        """A level is named exactly by SwitchTo."""
        check_level(self.type == AlertActionType.SWITCH_TO, self.level)
        return self


LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=128)]
LabelValue = Annotated[str, Field(max_length=256)]


class AlertBinding(Part):
    """What to do while a matching alert fires."""

    match: Annotated[dict[LabelName, LabelValue], Field(min_length=1, max_length=16)] = Field(
        description="Labels that the alert must carry, all of them."
    )
    action: AlertAction = Field(description="What to do.")
    expire_seconds: Annotated[int, Field(ge=60, le=604800)] = Field(
        default=43200,
        description="How long an alert counts that nothing more is heard of; 12 hours, three times the repeat_interval "
        "that Alertmanager has by default, so that one lost message ends nothing, and one lost end is no end for ever.",
    )


class SpecPolicySpec(Part):
    """What a policy asks for."""

    target_ref: TargetRef = Field(description="The workload that this policy governs.")
    container_name: Annotated[str, Field(min_length=1, max_length=63)] | None = Field(
        default=None, description="The engine's container; by default the one that runs an engine."
    )
    engine: Engine = Field(default=Engine.AUTO, description="The serving engine; its version is discovered.")
    clients_send: Annotated[tuple[ClientFeature, ...], Field(max_length=MAX_ITEMS, strict=False)] = Field(
        default=(),
        description="What clients send: MinP or LogitBias (sampling parameters), Grammar (structured output). Levels "
        "that are known to refuse or to spoil it are never gone to; no metric says whether anybody sends it.",
    )
    mode: Mode = Field(default=Mode.RECOMMEND, description="Recommend says what it would do; Enforce does it.")
    suspend: bool = Field(default=False, description="Hold everything as it is.")
    interval_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=15, description="How often the target is looked at."
    )
    drafters: Annotated[tuple[DrafterSpec, ...], Field(min_length=1, max_length=MAX_ITEMS, strict=False)] | None = (
        Field(default=None, description="The drafters that levels name.")
    )
    levels: Annotated[tuple[LevelSpec, ...], Field(min_length=1, max_length=MAX_ITEMS, strict=False)] | None = Field(
        default=None,
        description="The ladder, most aggressive first, `disabled` last; absent: derived from what the target runs.",
    )
    signals: Signals = Field(default_factory=Signals, description="The evidence that decisions need.")
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=MAX_ITEMS, strict=False)] | None = Field(
        default=None, description="The rules in order; absent: the field report's."
    )
    cost_model: CostModelSpec = Field(default_factory=CostModelSpec, description="What the cost model may do.")
    guardrails: Guardrails = Field(default_factory=Guardrails, description="Limits on changes.")
    live: LiveSpec | None = Field(default=None, description="Access to live control of K.")
    rollout: Rollout = Field(default_factory=Rollout, description="How a new level reaches the replicas.")
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=MAX_ITEMS, strict=False)] = Field(
        default=(), description="Time windows that force a level."
    )
    alerts: Annotated[tuple[AlertBinding, ...], Field(max_length=MAX_ITEMS, strict=False)] = Field(
        default=(), description="What alerts do."
    )


class Metadata(BaseModel):
    """The part of the object's metadata that SpecLoop reads; the rest is Kubernetes' own."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: ObjectName = Field(description="Name of the policy.")
    namespace: str | None = Field(default=None, description="Namespace of the policy and its target.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations.")


class SpecPolicy(Part):
    """A declared policy for the speculative decoding of one workload."""

    api_version: Literal["specloop.dev/v1alpha1"] = Field(description="API group and version.")
    kind: Literal["SpecPolicy"] = Field(description="Kind of the object.")
    metadata: Metadata = Field(description="Name and namespace.")
    spec: SpecPolicySpec = Field(description="What the policy asks for.")
    status: dict[str, Any] | None = Field(default=None, description="What the operator found; never read from files.")
