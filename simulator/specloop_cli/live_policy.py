"""A SpecPolicy as the API server has it, and which one a user means.

Unknown fields are passed over: the operator there may be newer than this program.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from specloop_cli.errors import InputError
from specloop_policy.annotations import AnnotationError, is_suspended
from specloop_policy.model import Mode
from specloop_policy.status import Condition, ConditionStatus, Memory, SpecPolicyStatus

SHORT_KINDS = {
    "deploy": "deployment",
    "sts": "statefulset",
    "lws": "leaderworkerset",
    "specpol": "specpolicy",
    "specpolicies": "specpolicy",
}
"""As kubectl has them, and a plural that does not end in s alone."""

SHOWN = 10
"""Policies that an error names."""


class Part(BaseModel):
    """A piece of an object that belongs to the API server."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Metadata(Part):
    """What is needed of an object's metadata."""

    name: str
    namespace: str
    resource_version: str
    generation: int = 0
    annotations: dict[str, str] = Field(default_factory=dict)


class TargetRef(Part):
    """The workload that a policy governs."""

    api_version: str = ""
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Spec(Part):
    """What is needed of a policy's spec."""

    target_ref: TargetRef
    mode: str = Mode.RECOMMEND
    suspend: bool = False


class LivePolicy(Part):
    """A policy with its status, which is empty before the operator's first visit."""

    metadata: Metadata
    spec: Spec
    status: SpecPolicyStatus = Field(default_factory=SpecPolicyStatus)

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.metadata.name

    @property
    def memory(self) -> Memory:
        """What the operator remembers; nothing before its first visit."""
        return self.status.memory or Memory()

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type, None before the operator has set it."""
        return next((one for one in self.status.conditions if one.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Whether the condition of this type is True."""
        found = self.condition(kind)
        return found is not None and found.status is ConditionStatus.TRUE


class PolicyList(Part):
    """What the API server answers when it is asked for all policies."""

    items: tuple[LivePolicy, ...]


def suspended_by(policy: LivePolicy) -> list[str]:
    """What holds the policy: its spec, an annotation (one that cannot be read counts), or what the operator says."""
    by = ["spec.suspend"] if policy.spec.suspend else []
    try:
        by += ["the annotation specloop.dev/suspend"] if is_suspended(policy.metadata.annotations) else []
    except AnnotationError as error:
        by.append(str(error))
    condition = policy.condition("Suspended")
    return by or ([condition.message] if condition is not None and policy.holds("Suspended") else [])


def hindrances(policy: LivePolicy) -> list[str]:
    """Why the operator will not carry out at once what a person asks for, in words."""
    found = []
    if policy.spec.mode != Mode.ENFORCE:
        found.append(f"its mode is {policy.spec.mode}: the operator will say what it would do, and not do it")
    if by := suspended_by(policy):
        found.append(f"it is suspended by {', '.join(by)}: nothing happens before that ends")
    if policy.holds("Conflicted"):
        found.append("another policy governs the same target (condition Conflicted): this one does nothing")
    return found


def find(policies: Sequence[LivePolicy], target: str, namespace: str) -> LivePolicy:
    """The policy of a namespace that a user means by its name or by KIND/NAME of the workload; else InputError."""
    kind, _, name = target.rpartition("/")
    kind = _plain(kind)
    if kind in ("", "specpolicy"):
        found = [one for one in policies if one.name == name]
    else:
        found = [
            one for one in policies if (_plain(one.spec.target_ref.kind), one.spec.target_ref.name) == (kind, name)
        ]
    if len(found) > 1:
        found = [one for one in found if not one.holds("Conflicted")] or found
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise InputError(f"{target}: several policies govern it: name one of {names}")
    if not found:
        what = f"no policy is called {name}" if kind in ("", "specpolicy") else f"no policy governs {target}"
        raise InputError(f"{what} in namespace {namespace}; {_there(policies)}")
    return found[0]


def _plain(kind: str) -> str:
    """`Deployment`, `deployments.apps` and `deploy` are one kind."""
    kind = kind.lower().partition(".")[0]
    return SHORT_KINDS.get(kind) or kind.removesuffix("s")


def _there(policies: Sequence[LivePolicy]) -> str:
    if not policies:
        return "there is none"
    named = [f"{one.name} ({one.spec.target_ref})" for one in policies[:SHOWN]]
    more = [f"and {len(policies) - SHOWN} more"] if len(policies) > SHOWN else []
    return "there is " + ", ".join(named + more)
