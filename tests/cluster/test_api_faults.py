"""An API server that refuses writes, and one that is gone for a while, in the middle of a roll-out."""

import json
from dataclasses import replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LLAMA, STORIES, deployment, lives, serving
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import asked_for, follow, until_ticks
from tests.support.cluster.proxy import Fault, Proxy
from tests.support.cluster.workloads import ANNOTATION, drafts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FEW_STORIES = replace(STORIES, clients=3)
"""One for each pod."""
LONG: Object = {"soakSeconds": 600, "progressDeadlineSeconds": 900}


def refusing(proxy: Proxy, status: int) -> tuple[Fault, ...]:
    """Refuse the next two writes to the workload, two to the policy's status, and one event."""
    return (
        proxy.fail(status, times=2, method="PATCH", path="/deployments/"),
        proxy.fail(status, times=2, method="PATCH", path="/specpolicies/"),
        proxy.fail(status, times=1, method="POST", path="/events"),
    )


def test_a_roll_out_whose_writes_are_refused_ends_as_any_other(cluster: Cluster) -> None:
    """At each phase a few are, with conflicts, for too many requests, and for failures of the server's own."""
    serving(cluster)
    with cluster.proxy() as proxy, Operator(cluster, url=proxy.url), cluster.traffic(LABELS, FEW_STORIES):
        refused = [*refusing(proxy, 409)]
        chat = follow(cluster, asked_for("k3", LLAMA))
        chat.until_phase("Starting")
        refused += refusing(proxy, 429)
        chat.until_phase("Soaking")
        refused += refusing(proxy, 500)
        chat.until_phase("Promoting")
        chat.until_condition("Progressing", "Promoted")
        # The last event is posted once the status is written.
        cluster.until(lambda: not any(one.left for one in refused), "every refusal met")
        cluster.until_rolled_out(LLAMA)
        applied = proxy.count(lambda one: (one.verb, one.resource, one.status) == ("patch", "deployments", 200))
        assert applied == 3  # written, held, let go
    assert "paused" not in deployment(cluster)["spec"]


def setting(cluster: Cluster) -> int:
    """The K of the template."""
    text = deployment(cluster)["spec"]["template"]["metadata"]["annotations"][ANNOTATION]
    k: int = json.loads(text)["num_speculative_tokens"]
    return k


def test_a_roll_out_that_somebody_undoes_is_let_go_of_though_the_write_is_refused_at_first(cluster: Cluster) -> None:
    """The undone template stays: what is tried again is to let go, not to put anything back."""
    serving(cluster)
    old_pods = lives(cluster)
    with cluster.proxy() as proxy, Operator(cluster, url=proxy.url) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        chat.until_phase("Soaking")
        refused = proxy.fail(409, times=2, method="PATCH", path="/deployments/")
        undone = {"metadata": {"annotations": {ANNOTATION: drafts(5)}}}
        cluster.patch("Deployment", LLAMA, {"spec": {"template": undone}})
        cluster.until(lambda: "paused" not in deployment(cluster)["spec"], "a workload that is not paused")
        assert refused.left == 0
        cluster.until_rolled_out(LLAMA)
        until_ticks(cluster, operator)
        assert setting(cluster) == 5
        assert lives(cluster) == old_pods
        assert chat.condition("Drifted")["reason"] == "Reverted"


def test_a_roll_out_outlives_an_api_server_that_is_restarted(cluster: Cluster) -> None:
    """What was missed meanwhile is seen afterwards, by watches that are begun anew."""
    serving(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, FEW_STORIES):
        chat = follow(cluster, asked_for("k3", LLAMA))
        chat.until_phase("Soaking")
        with cluster.control_plane.api_down():
            until_ticks(cluster, operator)
        chat.until_condition("Progressing", "Promoted")
        cluster.until_rolled_out(LLAMA)
        assert setting(cluster) == 3
        # A watch that had not recovered would not show the next wish.
        cluster.patch("SpecPolicy", "chat", {"metadata": {"annotations": None}})
        chat.until_level("k5")
        assert operator.get("/healthz").status_code == 200
