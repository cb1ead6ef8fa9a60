"""The operator killed at every step of a roll-out and started again: the same end, and no step twice."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LLAMA, STORIES, deployment, lives, serving, template
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import ROLLOUT_SECONDS, asked_for, follow
from tests.support.cluster.proxy import Asked, Hold, Proxy
from tests.support.cluster.workloads import ANNOTATION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FEW_STORIES = replace(STORIES, clients=4)
"""One for each pod."""
BROKEN: Object = {"k3": {"crashAfterSeconds": 0}}
PROVED: Object = {"minReadySeconds": 120}
"""So that the second wave waits longer than an operator takes to start: in between, nobody holds the workload."""
UNPROVED: Object = {"minReadySeconds": 0}
LONG: Object = {"soakSeconds": 600, "progressDeadlineSeconds": 900}


@dataclass(frozen=True)
class Traces:
    """What a roll-out leaves behind of its steps."""

    generation: int
    """One for the manifest, and one for each change of the spec."""
    revision: int
    """One for the manifest, and one for each change of the template."""
    replica_sets: int
    pods: int
    """Ever bound to the node."""
    applications: int
    """Writes to the workload by the operator that were answered with success."""


PROMOTED = Traces(generation=6, revision=2, replica_sets=2, pods=6, applications=3)
"""Three pods at k5 and three at k3; written, held, let go; beside that their author edits how pods are proved."""
ROLLED_BACK = Traces(generation=4, revision=3, replica_sets=2, pods=4, applications=3)
"""Three pods at k5 and the canary; written, held, and in one write put back and let go."""


def traces(cluster: Cluster, proxy: Proxy) -> Traces:
    """What there is of the workload `llama`."""
    found = deployment(cluster)["metadata"]
    bound = [one for one in cluster.objects("Event") if one["reason"] == "Scheduled"]
    return Traces(
        found["generation"],
        int(found["annotations"]["deployment.kubernetes.io/revision"]),
        len(cluster.objects("ReplicaSet", LABELS)),
        len({one["involvedObject"]["name"] for one in bound}),
        proxy.count(_applied),
    )


def _applied(one: Asked) -> bool:
    return (one.verb, one.resource, one.status) == ("patch", "deployments", 200)


@dataclass
class Steps:
    """The operator's writes about a roll-out, each by its name, in the order in which it first comes to them."""

    names: list[str] = field(default_factory=list)
    _phase: str = ""

    def reached(self, method: str, path: str, body: bytes) -> bool:
        """Whether a request is a step that was not come to before."""
        name = self._name(json.loads(body)) if method == "PATCH" else None
        if name is None or name in self.names:
            return False
        self.names.append(name)
        return True

    def _name(self, written: Object) -> str | None:
        if "spec" in written:
            setting = json.loads(written["spec"]["template"]["metadata"]["annotations"][ANNOTATION])
            return f"{self._phase}: K = {setting['num_speculative_tokens']}{', held' * ('paused' in written['spec'])}"
        memory = written["status"].get("memory") or {}
        if "rollout" not in memory:
            return None
        self._phase = "over" if memory["rollout"] is None else memory["rollout"].get("phase", self._phase)
        return f"remember {self._phase}"


FORWARD = [
    "remember Starting",
    "Starting: K = 3",
    "Starting: K = 3, held",
    "remember Canary",
    "remember Soaking",
    "remember Promoting",
    "Promoting: K = 3",
    "remember over",
]
BACK = ["remember RollingBack", "RollingBack: K = 5", "remember over"]


@dataclass(frozen=True)
class Killer:
    """Kills the operator before a step of a policy's roll-out gets through, and starts it again."""

    cluster: Cluster
    operator: Operator
    steps: Steps
    hold: Hold

    def kill_before(self, names: Sequence[str]) -> None:
        """Do so at each of these steps, which must be the next ones in this order."""
        for name in names:
            self.cluster.until(lambda: self.hold.waiting, f"{name} after {self.steps.names}", ROLLOUT_SECONDS)
            assert self.steps.names[-1] == name
            self.operator.kill()
            self.cluster.until(lambda: not self.hold.waiting, "the end of a request whose client is gone")
            self.operator.start()


def killing(cluster: Cluster, operator: Operator, proxy: Proxy, steps: Steps) -> Killer:
    """A killer for the steps that are not come to yet."""
    return Killer(cluster, operator, steps, proxy.hold(steps.reached))


def test_a_roll_out_whose_operator_is_killed_before_each_step_is_promoted_as_any_other(cluster: Cluster) -> None:
    """What is remembered before a step is taken, and what is seen of the workload, is all that the next one needs."""
    serving(cluster, replicas=3)
    cluster.patch("Deployment", LLAMA, {"spec": PROVED})
    with (
        cluster.proxy() as proxy,
        Operator(cluster, url=proxy.url) as operator,
        cluster.traffic(LABELS, FEW_STORIES),
    ):
        chat = follow(cluster, asked_for("k3", LLAMA))
        killer = killing(cluster, operator, proxy, Steps())
        killer.kill_before(FORWARD[:-1])
        cluster.patch("Deployment", LLAMA, {"spec": UNPROVED})
        killer.kill_before(FORWARD[-1:])
        chat.until_condition("Progressing", "Promoted")
        cluster.until_rolled_out(LLAMA)
        assert traces(cluster, proxy) == PROMOTED


def test_a_roll_out_whose_operator_is_left_alone_takes_the_same_steps(cluster: Cluster) -> None:
    """What the ones whose operators are killed are compared with."""
    serving(cluster, replicas=3)
    cluster.patch("Deployment", LLAMA, {"spec": PROVED})
    with cluster.proxy() as proxy, Operator(cluster, url=proxy.url), cluster.traffic(LABELS, FEW_STORIES):
        chat = follow(cluster, asked_for("k3", LLAMA))
        chat.until_phase("Promoting")
        cluster.patch("Deployment", LLAMA, {"spec": UNPROVED})
        chat.until_condition("Progressing", "Promoted")
        cluster.until_rolled_out(LLAMA)
        assert traces(cluster, proxy) == PROMOTED


def test_a_roll_out_whose_operator_is_killed_on_the_way_back_is_rolled_back_as_any_other(cluster: Cluster) -> None:
    """The old pods never notice, and the old template is back word for word."""
    serving(cluster, replicas=3, faults=BROKEN)
    old_pods, old_template = lives(cluster), template(cluster)
    with cluster.proxy() as proxy, Operator(cluster, url=proxy.url) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA))
        killing(cluster, operator, proxy, Steps(names=FORWARD[:4])).kill_before(BACK)
        chat.until_condition("Progressing", "RolledBack")
        cluster.until_rolled_out(LLAMA)
        assert (lives(cluster), template(cluster)) == (old_pods, old_template)
        assert traces(cluster, proxy) == ROLLED_BACK


def test_a_workload_whose_policy_is_deleted_while_the_operator_is_down_is_put_right_when_it_is_back(
    cluster: Cluster,
) -> None:
    """Nobody else would ever let go of it."""
    serving(cluster)
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        chat.until_phase("Soaking")
        operator.kill()
        cluster.delete("SpecPolicy", "chat")
        assert deployment(cluster)["spec"]["paused"]
        operator.start()
        cluster.until(lambda: "paused" not in deployment(cluster)["spec"], "a workload that is not paused")
        cluster.until_rolled_out(LLAMA)
        assert (lives(cluster), template(cluster)) == (old_pods, old_template)
        said = cluster.until(lambda: notes(cluster, "LeftPaused"), "an event LeftPaused")
        assert said == ["was left held by a roll-out that no policy goes on with: the template before was put back"]


def notes(cluster: Cluster, reason: str) -> list[str]:
    """What events on the workload say for this reason."""
    return [one["message"] for one in cluster.events(LLAMA) if one["reason"] == reason]
