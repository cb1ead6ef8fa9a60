"""What a tick sees: the policy made ready, its target, and the pods, all from the store.

Blind    something without which nothing can be decided is missing or cannot be read: a condition with its reason
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from typing import Any

from pydantic import ValidationError

from specloop_engine.speculation import match, running_drafter
from specloop_operator.binding import Binding, BindingError, bind, rest_of
from specloop_operator.conditions import ConditionReason
from specloop_operator.pods import Pod, read_pod
from specloop_operator.store import Store, target_of
from specloop_operator.workload import Target
from specloop_policy.annotations import AnnotationError, Rollback, is_suspended, read_override, read_rollback
from specloop_policy.canary import Limits
from specloop_policy.decision import FailedChange, FiringAlert, Override
from specloop_policy.ladder import MAX_TOKENS, Ladder, Level
from specloop_policy.model import ClientFeature, Mode, SpecPolicySpec
from specloop_policy.policy import Policy, PolicyError, resolve
from specloop_policy.wishes import suspends

Body = Mapping[str, Any]


class Blind(Exception):
    """Why nothing can be decided: the reason of a condition, and a sentence."""

    def __init__(self, reason: ConditionReason, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


@dataclass(frozen=True)
class Wishes:
    """What people ask for by annotation."""

    override: Override | None
    suspended: bool
    rollback: Rollback | None


@dataclass(frozen=True)
class Live:
    """Live control of a target: whether it is possible, and what pods are held at."""

    problem: str = ""
    """Why it is not possible, in words; "" where it is."""
    reach: frozenset[str] = frozenset()
    """Levels that running pods can be brought to, or could, where the problem may pass."""
    holds: bool = False
    """Whether pods are held at something else than the template says."""
    level: Level | None = None
    """What they are held at; None for what is no level of the ladder."""


@dataclass(frozen=True)
class Sight:
    """One look at a policy and its target."""

    spec: SpecPolicySpec
    wishes: Wishes
    generation: int
    target: Target
    binding: Binding
    policy: Policy
    pods: tuple[Pod, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    """Levels that can be written, with the key of their configuration and image."""
    refused: tuple[FailedChange, ...] = ()
    """Levels that cannot, each with the reason."""

    live: Live | None = None
    """How running pods stand to live control; None where nobody asks for it."""
    alerts: tuple[FiringAlert, ...] = ()
    """Alerts in force."""

    @property
    def level(self) -> Level | None:
        """The level that all is to be at: the one that running pods were asked for, else the pod template's."""
        return self.live.level if self.live is not None and self.live.holds else self.template_level

    @property
    def live_levels(self) -> frozenset[str]:
        """Levels that are reached in running pods."""
        return frozenset() if self.live is None else self.live.reach

    @property
    def template_level(self) -> Level | None:
        """The level that the pod template asks for."""
        return _level_of(self.binding, self.policy.ladder, self.spec)

    @cached_property
    def rest(self) -> str:
        """Hash of the template without its setting."""
        return rest_of(self.target.template, self.binding)

    @property
    def limits(self) -> Limits:
        """How long the parts of a roll-out may take."""
        rollout = self.spec.rollout
        warmup = float(self.spec.signals.settle_seconds)
        return Limits(float(rollout.soak_seconds), float(rollout.progress_deadline_seconds), warmup)

    @property
    def suspended(self) -> bool:
        """Whether spec, annotation or an alert suspends the policy."""
        return self.policy.suspended or suspends(self.alerts) is not None


def parse(body: Body) -> tuple[SpecPolicySpec, Wishes]:
    """The policy's own part; raises Blind where it cannot be followed."""
    try:
        spec = SpecPolicySpec.model_validate_json(json.dumps(body["spec"]))  # strict: JSON knows no enums or tuples
        annotations = body["metadata"].get("annotations") or {}
        wishes = Wishes(read_override(annotations), is_suspended(annotations), read_rollback(annotations))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Blind(ConditionReason.INVALID_SPEC, f"spec.{place}: {first['msg']}") from error
    except AnnotationError as error:
        raise Blind(ConditionReason.INVALID_ANNOTATION, str(error)) from error
    return spec, wishes


def find_target(body: Body, store: Store) -> Target:
    """The workload that a policy governs; raises Blind where there is none, or it is another policy's."""
    kind, name = target_of(body)
    if kind not in store.kinds or body["spec"]["targetRef"]["apiVersion"] != "apps/v1":
        known = ", ".join(f"apps/v1 {one}" for one in store.kinds)
        raise Blind(ConditionReason.UNSUPPORTED_KIND, f"{kind} is no kind of target: these are {known}")
    older = next(iter(store.governing(kind, name)), body)
    if older["metadata"]["name"] != body["metadata"]["name"]:
        message = f"policy {older['metadata']['name']} is older and has the same target: delete one of the two"
        raise Blind(ConditionReason.OLDER_POLICY, message)
    target = store.target(kind, name)
    if target is None:
        raise Blind(ConditionReason.TARGET_NOT_FOUND, f"there is no {kind} {name[1]} in namespace {name[0]}")
    refusal = target.kind.refusal(target.body)
    if refusal is not None:
        raise Blind(ConditionReason.UNSUPPORTED_STRATEGY, f"{kind} {name[1]}: {refusal}")
    return target


Bind = Callable[[Body], Binding]


def see(body: Body, store: Store, derived: Ladder | None, before: tuple[str, ...] = ()) -> Sight:
    """Look at everything; `derived` is the ladder that was derived before.  Raises Blind.

    `before` are configurations that the target once had, as JSON.
    """
    spec, wishes = parse(body)
    target = find_target(body, store)
    try:
        binding = bind(target.template, spec.container_name, spec.engine)
    except BindingError as error:
        raise Blind(ConditionReason.UNSUPPORTED_COMMAND, f"{target.kind.name} {target.name}: {error}") from error
    binding = replace(binding, before=tuple(map(json.loads, before)))
    policy = _policy(body["metadata"]["name"], spec, wishes, binding, derived)
    keys, refused = _levels(policy.ladder, binding, spec.clients_send)
    generation = int(body["metadata"].get("generation") or 0)

    def bound(pod: Body) -> Binding:
        return bind(pod, binding.container, spec.engine)  # by name: a webhook may have put sidecars beside it

    pods = tuple([_pod(one, bound, policy.ladder, spec) for one in store.pods_of(target)])
    return Sight(spec, wishes, generation, target, binding, policy, pods, keys, refused)


class Eye:
    """Looks at one policy again and again, reading nothing twice: objects in the store are replaced, never changed."""

    def __init__(self) -> None:
        self._asked: object = None
        self._objects: Sequence[Body] = ()
        self._sight: Sight | None = None

    def see(self, body: Body, store: Store, derived: Ladder | None, before: tuple[str, ...] = ()) -> Sight:
        """As the function `see`; the same sight as before where all it was made of is the same."""
        asked, objects = (_asked(body, derived), before), _objects(body, store)
        same = asked == self._asked and len(objects) == len(self._objects) and all(map(is_, objects, self._objects))
        if self._sight is None or not same:
            self._sight = None
            self._sight = see(body, store, derived, before)
            self._asked, self._objects = asked, objects
        return self._sight


def _asked(body: Body, derived: Ladder | None) -> object:
    """What a sight has of the policy: all but its status, which is written often."""
    metadata = body["metadata"]
    return metadata.get("generation"), metadata.get("annotations"), body.get("spec"), derived


def _objects(body: Body, store: Store) -> Sequence[Body]:
    """What else a sight is made of: other policies of the target, the target, and its pods."""
    kind, name = target_of(body)
    target = store.target(kind, name) if kind in store.kinds else None
    others = [one for one in store.governing(kind, name) if one is not body]
    return (*others, *((target.body, *store.pods_of(target)) if target is not None else ()))


def _policy(name: str, spec: SpecPolicySpec, wishes: Wishes, binding: Binding, derived: Ladder | None) -> Policy:
    speculation = binding.line.speculation
    if derived is not None and match(speculation, derived) is None:
        derived = None  # somebody gave the target another drafter: the ladder follows it
    drafter, tokens = running_drafter(speculation) or (None, 0)
    if wishes.suspended:
        spec = spec.model_copy(update={"suspend": True})
    try:
        return resolve(name, spec, drafter, tokens, derived=derived)
    except PolicyError as error:
        raise Blind(ConditionReason.INVALID_SPEC, str(error)) from error


def _levels(
    ladder: Ladder, binding: Binding, clients_send: Collection[ClientFeature]
) -> tuple[dict[str, str], tuple[FailedChange, ...]]:
    """Keys of the levels that can be written, and the others with the reason."""
    keys, refused = {}, []
    for level in ladder.levels:
        try:
            keys[level.name] = binding.key(level, clients_send)
        except BindingError as error:
            refused.append(FailedChange(level.name, "", str(error), untried=True))
    return keys, tuple(refused)


def _level_of(binding: Binding, ladder: Ladder, spec: SpecPolicySpec) -> Level | None:
    """The level of a setting; a K above what a derived ladder may have counts as its highest level."""
    level, running = binding.level(ladder), running_drafter(binding.line.speculation)
    if level is None and spec.levels is None and running is not None and running[1] > MAX_TOKENS:
        top = ladder.levels[0]
        return top if top.drafter == running[0] else None
    return level


def _pod(body: Body, bound: Bind, ladder: Ladder, spec: SpecPolicySpec) -> Pod:
    """A pod; one whose command cannot be read is at no level, and where it answers is not known."""
    try:
        binding = bound(body)
    except BindingError:
        return Pod(str(body["metadata"]["name"]), None, leaving=bool(body["metadata"].get("deletionTimestamp")))
    level = _level_of(binding, ladder, spec)
    return read_pod(body, binding, None if level is None else level.name)


def enforces(sight: Sight) -> bool:
    """Whether decisions are carried out."""
    return sight.spec.mode is Mode.ENFORCE
