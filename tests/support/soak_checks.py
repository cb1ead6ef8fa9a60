"""What must hold of operators however they were treated, judged by what was written down of them.  No I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from tests.support.cluster.environment import Object

MIB = 2.0**20
WARM_UP_SECONDS = 60.0
"""Left out of the beginning of each stretch: libraries are loaded, and caches filled, at first use."""
STRETCH_SECONDS = 120.0
"""Shorter ones say nothing."""
PIECES_BYTES = 2.0 * MIB
"""What may come and go: two of the pieces of 1 MiB that CPython takes memory in (ARENA_BITS 20 in its obmalloc)."""
LEAK_BYTES_PER_SECOND = (512.0 - 256.0) * MIB / (8.0 * 3600.0)
"""A leak that takes what the chart's limit leaves over its request (values.yaml, resources) in a working day."""


@dataclass(frozen=True, slots=True)
class Held:
    """A Lease as one write left it; times in seconds since the epoch."""

    holder: str
    """Empty where it was given away."""
    renewed: float
    """When that began, by the holder's own clock."""
    lasts: float
    seen: float
    """When the write was heard of."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """From when to when one process held the Lease."""

    holder: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Life:
    """A process of an operator, from its start to its end."""

    operator: str
    began: float
    ended: float
    code: int | None = None
    """None where it was there to the end."""
    memory: tuple[tuple[float, float], ...] = ()
    """Bytes that it held, and when."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write to a workload or a pod that the API server answered with success."""

    at: float
    operator: str
    what: str


def tenures(history: Iterable[Held]) -> list[Tenure]:
    """Who held the Lease; each holds it until it gives it away, or for as long as it lasts after the last renewal."""
    found: list[Tenure] = []
    last = ""
    for one in history:
        until = one.renewed + one.lasts
        if one.holder and one.holder == last:
            found[-1] = replace(found[-1], until=until)
        elif not one.holder and last:
            found[-1] = replace(found[-1], until=min(found[-1].until, one.seen))
        elif one.holder:
            if not last and found:  # the next one may have heard that it was given away before we have
                found[-1] = replace(found[-1], until=min(found[-1].until, one.renewed))
            found.append(Tenure(one.holder, one.renewed, until))
        last = one.holder
    return found


def overlaps(found: Sequence[Tenure]) -> list[str]:
    """Where somebody took the Lease from one who still held it."""
    return [
        f"{after.holder} held the Lease from {after.since:.3f} on, and {before.holder} until {before.until:.3f}"
        for before, after in pairwise(found)
        if after.since < before.until
    ]


def unlawful(
    writes: Iterable[Write], found: Sequence[Tenure], lives: Sequence[Life], owners: Mapping[str, str]
) -> list[str]:
    """Writes by a process that did not hold the Lease; `owners` has the operator of each holder."""

    def lawful(write: Write) -> bool:
        began = max((one.began for one in lives if one.operator == write.operator and one.began <= write.at), default=0)
        return any(
            owners.get(one.holder) == write.operator and began <= one.since <= write.at <= one.until for one in found
        )

    return [f"{one.what} by {one.operator} at {one.at:.3f}, without the Lease" for one in writes if not lawful(one)]


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory of one process in one role: the middle of the first quarter, and of the last, `apart` seconds later."""

    life: Life
    role: str
    first: float
    last: float
    apart: float

    @property
    def allowed(self) -> float:
        """Bytes that the last may be above the first."""
        return PIECES_BYTES + LEAK_BYTES_PER_SECOND * self.apart

    @property
    def words(self) -> str:
        """What it is, in words."""
        figures = f"{self.first / MIB:.1f} MiB, {self.last / MIB:.1f} MiB {self.apart:.0f} s later"
        return f"{self.life.operator}, {self.role}: {figures}, {self.allowed / MIB:.1f} MiB more allowed"


def growths(lives: Iterable[Life], found: Sequence[Tenure], owners: Mapping[str, str]) -> list[Growth]:
    """Of each life, the stretches as follower and as leader that are long enough: a leader holds more from then on."""
    grown = []
    for life in lives:
        # Who leads does so to its end.
        led = [one.since for one in found if owners.get(one.holder) == life.operator]
        turn = min((at for at in led if life.began <= at <= life.ended), default=math.inf)
        stretches = (("following", life.began, min(turn, life.ended)), ("leading", turn, life.ended))
        for role, since, until in stretches:
            samples = [one for one in life.memory if since + WARM_UP_SECONDS <= one[0] <= until]
            quarter = len(samples) // 4
            if until - since > STRETCH_SECONDS and quarter:
                first, last = samples[:quarter], samples[-quarter:]
                apart = median(at for at, _ in last) - median(at for at, _ in first)
                before, after = (median(size for _, size in part) for part in (first, last))
                grown.append(Growth(life, role, before, after, apart))
    return grown


def swollen(found: Iterable[Growth]) -> list[str]:
    """Those that are surely more in the end."""
    return [one.words for one in found if one.last - one.first > one.allowed]


def unrest(policy: Object, target: Object, pods: Mapping[str, str]) -> str:
    """Why a policy and its target are not at rest; "" where they are.  `pods` have the level that each runs."""
    status, name = policy.get("status") or {}, policy["metadata"]["name"]
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    progressing = conditions.get("Progressing", {})
    if (status.get("memory") or {}).get("rollout") or progressing.get("status") != "False":
        return f"{name}: a roll-out is under way: {progressing.get('reason')}: {progressing.get('message')}"
    if held := holding(target):
        return f"{name}: {held}, and no roll-out is under way"
    firing = [one["name"] for one in status.get("alerts", ()) if "resolvedAt" not in one]
    if firing:
        return f"{name}: {', '.join(firing)} fires still, though its end was heard"
    metrics = conditions.get("MetricsAvailable", {})
    if metrics.get("status") != "True":
        return f"{name}: all sources answer, and it is not heard of: {metrics.get('message')}"
    if unfinished := _unfinished(target, pods):
        return f"{name}: not all pods are there, up to date and ready: {unfinished}"
    desired = status.get("desiredLevel")
    astray = {pod: level for pod, level in pods.items() if level != desired}
    if astray and not excuse(conditions):
        return f"{name}: is to be at {desired}, and no condition says why it is not: {astray}"
    return ""


def _unfinished(target: Object, pods: Mapping[str, str]) -> str:
    status, wanted = target.get("status", {}), target["spec"]["replicas"]
    counts = {one: status.get(one, 0) for one in ("replicas", "updatedReplicas", "availableReplicas")}
    observed = status.get("observedGeneration") == target["metadata"]["generation"]
    done = observed and set(counts.values()) == {wanted} == {len(pods)}
    return "" if done else f"{wanted} wanted, {counts}, {len(pods)} run"


def excuse(conditions: Mapping[str, Object]) -> str:
    """The condition that says why a target is not at its level; "" without any."""
    reasons = (("Suspended", "True"), ("Drifted", "True"), ("Ready", "False"))
    said = [one for type_, status in reasons if (one := conditions.get(type_, {})).get("status") == status]
    return f"{said[0]['type']}: {said[0]['reason']}: {said[0]['message']}" if said else ""


def holding(target: Object) -> str:
    """How a workload's roll-out is held; "" where it is not."""
    spec = target["spec"]
    partition = (spec.get("updateStrategy") or {}).get("rollingUpdate", {}).get("partition", 0)
    if spec.get("paused"):
        return "the Deployment is paused"
    return f"the StatefulSet has partition {partition}" if partition else ""
