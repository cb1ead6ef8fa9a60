"""A little workload that reacts as its controller would, and a roll-out of it driven look by look to its end.

What it does was taken from how Kubernetes does it: a Deployment makes up to `surge` pods more than it is to have and
takes old ones away as new ones become ready, unready ones first; paused, it only keeps the number.  A StatefulSet
replaces its pods from the last one on, down to its partition, each once all others are ready; a pod that is not keeps
it from going on until somebody deletes it (kubernetes/kubernetes issue 67250).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from specloop_policy.canary import (
    Ending,
    Kind,
    Limits,
    Phase,
    Plan,
    PodView,
    Rollout,
    Step,
    View,
    begin,
    plan,
)
from specloop_policy.gate import GateVerdict, Result

OLD, NEW, OTHER = "k5", "k3", "ngram"
LOOK_SECONDS = 15.0
LIMITS = Limits(soak_seconds=60.0, progress_deadline_seconds=600.0, warmup_seconds=30.0)


class Fate(StrEnum):
    """What becomes of a pod at a level."""

    READY = "becomes ready at its third look"
    CRASHES = "crashes again and again"
    PENDING = "cannot be scheduled"
    HANGS = "never becomes ready"


@dataclass
class Pod:
    """One pod."""

    name: str
    level: str
    seen: int = 0
    """Looks since it was made."""
    ready_since: float | None = None
    broken: str = ""
    pending: str = ""

    def live(self, fate: Fate, now: float) -> None:
        """One look more."""
        self.seen += 1
        self.broken = "its container ended 3 times" if fate is Fate.CRASHES and self.seen >= 2 else ""
        self.pending = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu" if fate is Fate.PENDING else ""
        if fate is not Fate.READY:
            self.ready_since = None
        elif self.ready_since is None and self.seen >= 3:
            self.ready_since = now


@dataclass
class Workload:
    """A Deployment; its pods take two looks to become ready, so that the rest can be held in time."""

    replicas: int = 3
    surge: int = 1
    """Pods of its first wave: made on top, or in the place of others where `unavailable`."""
    unavailable: bool = False
    template: str | None = OLD
    rest: str = "rest"
    held: bool = False
    settled: bool = True
    gone: bool = False
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """What becomes of pods, by level; of all others: ready."""
    pods: list[Pod] = field(default_factory=list)
    made: int = 0
    writes: list[str | None] = field(default_factory=list)
    """Every template that we wrote."""
    ordered = False

    def __post_init__(self) -> None:
        """All pods are ready at the old level."""
        for _ in range(self.replicas):
            self.make(OLD).ready_since = 0.0

    def make(self, level: str) -> Pod:
        """One pod more."""
        self.made += 1
        self.pods.append(Pod(f"llama-{self.made}", level))
        return self.pods[-1]

    def view(self) -> View | None:
        """What is seen of it while NEW is rolled out."""
        if self.gone:
            return None
        pods = tuple(
            [PodView(one.name, one.level == NEW, one.ready_since, one.broken, one.pending) for one in self.pods]
        )
        return View(self.template, self.rest, self.held, self.settled, self.replicas, pods, self.ordered)

    def live(self, now: float) -> None:
        """Let pods and controller do what they do between two looks."""
        for pod in self.pods:
            pod.live(self.fates.get(pod.level, Fate.READY), now)
        self.settled = True
        self.control()

    def control(self) -> None:
        """One round of the controller."""
        wanted = self.template or "unknown"
        if self.held:
            self._keep_the_number()
            return
        old = [one for one in self.pods if one.level != wanted]
        for pod in [one for one in old if one.ready_since is None]:
            self.pods.remove(pod)
        spare = 0 if self.unavailable else self.surge
        least = self.replicas - (self.surge if self.unavailable else 0)
        for pod in [one for one in self.pods if one.level != wanted]:
            if sum(one.ready_since is not None for one in self.pods) > least:
                self.pods.remove(pod)
        while len(self.pods) < self.replicas + spare and self._at(wanted) < self.replicas:
            self.make(wanted)
        while self._at(wanted) > self.replicas:
            self.pods.remove(next(one for one in reversed(self.pods) if one.level == wanted))

    def _keep_the_number(self) -> None:
        while len(self.pods) < self.replicas:
            self.make(OLD)
        while len(self.pods) > self.replicas + self.surge:
            self.pods.remove(next(one for one in self.pods if one.level == OLD))

    def _at(self, level: str) -> int:
        return sum(one.level == level for one in self.pods)

    def write(self, level: str | None) -> None:
        """Somebody writes another template."""
        self.template, self.settled = level, False

    def hold(self) -> None:
        """Somebody of ours holds it where it is."""
        self.held = True

    def carry_out(self, step: Step, rollout: Rollout) -> None:
        """Take a step as the operator does."""
        if self.gone:
            return
        match step:
            case Step.WRITE:
                self._written(rollout.level, hold=self.ordered and rollout.phase is not Phase.PROMOTING)
            case Step.HOLD:
                self.hold()
            case Step.RELEASE | Step.LET_GO:
                self.held = False
            case Step.PUT_BACK:
                self._written(rollout.back_to, hold=False)
            case Step.CLEAR:
                left = rollout.level if rollout.phase is Phase.ROLLING_BACK else rollout.back_to
                self.pods = [one for one in self.pods if one.level != left or one.ready_since is not None]
            case Step.WAIT:
                pass

    def _written(self, level: str, *, hold: bool) -> None:
        self.writes.append(level)
        self.held = False
        if hold:
            self.hold()
        if self.template != level:
            self.write(level)


@dataclass
class StatefulSet(Workload):
    """A StatefulSet: one pod at a time, from the last one on; what is scaled up while it is held is new."""

    partition: int = 0
    ordered = True

    def hold(self) -> None:
        """The partition leaves all pods but the last one alone; more pods later do not move it."""
        self.held, self.partition = True, max(0, self.replicas - 1)

    def control(self) -> None:
        """Make the pods that are missing, and replace the last one that is due once all others are ready."""
        first = self.partition if self.held else 0
        wanted = self.template or "unknown"
        del self.pods[self.replicas :]
        while len(self.pods) < self.replicas:
            self.make(wanted if len(self.pods) >= first else OLD)
        due = [place for place, pod in enumerate(self.pods) if place >= first and pod.level != wanted]
        if due and all(pod.ready_since is not None for pod in self.pods):
            self.made += 1
            self.pods[due[-1]] = Pod(f"llama-{self.made}", wanted)


class Mishap(StrEnum):
    """What befalls the operator at one look."""

    KILLED = "killed between storing what was planned and doing it"
    TWICE = "does the same thing twice"


Chance = Callable[["Drive"], None]
"""Something that happens to a workload between two looks."""

Moment = tuple[Phase, int]
"""Before the look of this number, from 0, in this phase."""

MOST_LOOKS = 400
"""A hundred minutes: ten times the deadline."""


@dataclass
class Drive:
    """One roll-out on its way, and all that was seen of it."""

    workload: Workload
    kind: Kind = Kind.RULE
    gate: Result = Result.PASS
    """What the gate says of a canary whose soak is over."""
    rollout: Rollout = field(init=False)
    now: float = 1000.0
    called_off: str = ""
    plans: list[Plan] = field(default_factory=list)
    happened: list[Moment] = field(default_factory=list)
    """When something happened."""
    most_new_before_the_gate: int = 0

    def __post_init__(self) -> None:
        """It begins now."""
        self.rollout = begin(NEW, OLD, self.kind, "key", self.workload.rest, self.now)

    @property
    def ending(self) -> Ending | None:
        """How it ended."""
        return self.plans[-1].ended if self.plans else None

    @property
    def steps(self) -> list[Step]:
        """Every step but waiting."""
        return [one.step for one in self.plans if one.step is not Step.WAIT]

    def look(self, mishap: "Mishap | None" = None) -> None:
        """One look: plan, store, act."""
        self.now += LOOK_SECONDS
        self.workload.live(self.now)
        found = plan(
            self.rollout, self.workload.view(), LIMITS, self.now, called_off=self.called_off, gate=self._verdict()
        )
        self.plans.append(found)
        self.rollout = found.rollout
        # A process that is killed at the end leaves nothing to do but to let go, which the next one does at its start.
        acted = {None: 1, Mishap.KILLED: 0, Mishap.TWICE: 2}[mishap] or (1 if found.ended is not None else 0)
        for _ in range(acted):
            self.workload.carry_out(found.step, found.rollout)
        if self.rollout.phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING):
            new = sum(one.level == NEW for one in self.workload.pods)
            self.most_new_before_the_gate = max(self.most_new_before_the_gate, new)

    def run(self, chances: Mapping[Moment, Chance] | None = None, mishaps: Iterable["Mishap | None"] = ()) -> "Drive":
        """Look until it ends; mishaps befall the looks in their order, and no other one."""
        looks_in_phase = dict.fromkeys(Phase, 0)
        befalling = iter(mishaps)
        for _ in range(MOST_LOOKS):
            if self.ending is not None:
                return self
            phase = self.rollout.phase
            chance = (chances or {}).get((phase, looks_in_phase[phase]))
            if chance is not None:
                self.happened.append((phase, looks_in_phase[phase]))
                chance(self)
            looks_in_phase[phase] += 1
            self.look(next(befalling, None))
        raise AssertionError(f"still {self.rollout.phase} after {MOST_LOOKS} looks: {self.plans[-1].words}")

    def _verdict(self) -> GateVerdict | None:
        soaked = self.now - self.rollout.since >= LIMITS.warmup_seconds + LIMITS.soak_seconds
        if not self.rollout.soaking or not soaked:
            return None
        return GateVerdict(self.gate, f"the gate says {self.gate}")


def call_off(drive: Drive) -> None:
    """Somebody suspends the policy."""
    drive.called_off = "the policy is suspended"


def undo(drive: Drive) -> None:
    """A person takes back what was written last."""
    drive.workload.write(OLD if drive.workload.template == NEW else NEW)


def set_another(drive: Drive) -> None:
    """A person sets a level of their own."""
    drive.workload.write(OTHER)


def change_the_image(drive: Drive) -> None:
    """Somebody changes the template beside the setting: all pods are to be new."""
    drive.workload.rest = "another image"
    drive.workload.settled = False


def scale_up(drive: Drive) -> None:
    """Two pods more, at whatever level the controller gives them."""
    drive.workload.replicas += 2


def scale_down(drive: Drive) -> None:
    """One pod fewer, but for the last."""
    drive.workload.replicas = max(1, drive.workload.replicas - 1)


def kill_a_pod(drive: Drive) -> None:
    """A pod's process ends; the pod comes up again as it was."""
    if drive.workload.pods:
        pod = drive.workload.pods[0]
        pod.ready_since, pod.seen = None, 0


def delete_the_target(drive: Drive) -> None:
    """The workload is deleted."""
    drive.workload.gone = True


def break_the_new(drive: Drive) -> None:
    """From now on pods at the new level crash."""
    drive.workload.fates = {**drive.workload.fates, NEW: Fate.CRASHES}
    for pod in drive.workload.pods:
        if pod.level == NEW:
            pod.ready_since, pod.seen = None, 0
