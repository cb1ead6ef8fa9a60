"""Two operators of one namespace: one acts, and the other takes over, whatever becomes of the first."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

import httpx
import pytest

from specloop_operator.cluster import TIMEOUT_SECONDS
from specloop_operator.leadership import LEASE_SECONDS, RENEW_SECONDS
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LLAMA, ONE_MORE, STORIES, serving
from tests.support.cluster.operator import LEASE, Operator
from tests.support.cluster.policies import asked_for, follow
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TAKE_OVER_SECONDS = 15.0
"""What is demanded of a take-over; docs/operator.md says 12 s, and a machine of tests has other things to do."""
FEW_STORIES = replace(STORIES, clients=3)
"""One for each pod."""
STOP_SECONDS = (RENEW_SECONDS + TIMEOUT_SECONDS) / 2
"""Longer than a leader leads after its last renewal, which began before the stop, and shorter than a request may take;
2 s are left on either side."""
BOTH_AT_ONCE: Object = {"maxConcurrentRollouts": 2}


@dataclass(frozen=True)
class Lease:
    """The Lease that a namespace's operators take turns by, from now on."""

    cluster: Cluster
    since: str
    """The resource version after which its history begins."""

    def history(self) -> list[Object]:
        """Its spec after each write; the API server remembers those of the last minute for sure."""
        asked = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": self.since}
        with self.cluster.control_plane.client() as http:
            lines = http.get(_leases(self.cluster), params=asked).raise_for_status().text.splitlines()
        events = map(json.loads, lines)
        return [one["object"]["spec"] for one in events if one["object"]["metadata"]["name"] == LEASE]


def lease_of(cluster: Cluster) -> Lease:
    """The one of this namespace, which need not be there yet."""
    with cluster.control_plane.client() as http:
        found = http.get(_leases(cluster)).raise_for_status().json()
    return Lease(cluster, found["metadata"]["resourceVersion"])


def _leases(cluster: Cluster) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"


def gap(history: list[Object]) -> float:
    """Seconds from the first leader's last renewal to the next leader's first write."""
    first = history[0]["holderIdentity"]
    last = [one for one in history if one["holderIdentity"] == first][-1]
    following = next(one for one in history if one["holderIdentity"] not in (first, ""))
    return (_time(following["renewTime"]) - _time(last["renewTime"])).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def leaders(*operators: Operator) -> list[Operator]:
    """Those that say that they lead, one at most; who may follow is named, and asked, before whom it follows."""
    found = [one for one in operators if _leads(one)]
    assert len(found) <= 1
    return found


def _leads(operator: Operator) -> bool:
    try:
        return operator.leads
    except httpx.TransportError:  # it has ended
        return False


def writes(cluster: Cluster, operator: Operator, *, after: str = "") -> list[tuple[str, str, int]]:
    """What an operator wrote, from a time on, by the API server's audit log: resource, name, and the answer."""
    found = [
        (one["objectRef"]["resource"], one["objectRef"]["name"], one["responseStatus"]["code"])
        for one in cluster.control_plane.audit(operator.kubeconfig)
        if one["requestReceivedTimestamp"] > after and one["objectRef"]["resource"] != "events"
    ]
    return found


def test_a_leader_that_is_killed_is_followed_within_the_bound_and_its_roll_out_goes_on(cluster: Cluster) -> None:
    """The follower is ready all the while, waits for as long as the Lease lasts, and then goes on where the first was.

    No step of the roll-out is taken twice: written and held by the one, let go by the other.
    """
    serving(cluster)
    lease = lease_of(cluster)
    with Operator(cluster, replica="a") as a:
        cluster.until(lambda: leaders(a) == [a], "a leader")
        with Operator(cluster, replica="b") as b, cluster.traffic(LABELS, FEW_STORIES):
            chat = follow(cluster, asked_for("k3", LLAMA))
            chat.until_phase("Soaking")
            assert leaders(b, a) == [a]
            a.kill()
            assert b.get("/readyz").status_code == httpx.codes.OK
            cluster.until(lambda: leaders(b) == [b], "a new leader")
            assert LEASE_SECONDS <= gap(lease.history()) < TAKE_OVER_SECONDS
            chat.until_condition("Progressing", "Promoted")
            cluster.until_rolled_out(LLAMA)
            applied = ("deployments", LLAMA, httpx.codes.OK)
            assert [writes(cluster, one).count(applied) for one in (a, b)] == [2, 1]


def test_a_leader_that_is_asked_to_end_gives_its_lease_away_and_the_follower_takes_it(cluster: Cluster) -> None:
    """Nobody waits until it has run out, and at no time do both say that they lead."""
    lease = lease_of(cluster)
    with Operator(cluster, replica="a") as a:
        cluster.until(lambda: leaders(a) == [a], "a leader")
        with Operator(cluster, replica="b") as b:
            a.terminate()
            cluster.until(lambda: leaders(b, a) == [b], "a new leader")
            assert a.until_ended() == 0
            history = lease.history()
            first, given_away, following = (holder for holder, _ in groupby(one["holderIdentity"] for one in history))
            assert given_away == ""
            assert first != following
            assert gap(history) < LEASE_SECONDS


@dataclass
class Stop:
    """Freezes an operator once it has sent a write of a policy's status that begins a roll-out, before the answer."""

    operator: Operator
    policy: str
    done: bool = False

    def __call__(self, method: str, path: str, body: bytes) -> bool:
        """Lets everything pass."""
        if not self.done and method == "PATCH" and path.endswith(f"/specpolicies/{self.policy}/status"):
            memory = json.loads(body)["status"].get("memory") or {}
            if memory.get("rollout"):
                self.operator.freeze()
                self.done = True
        return False


@dataclass
class Late:
    """Takes the first write to a workload, which then is under way for as long as a test wants."""

    workload: str
    sent: list[tuple[str, bytes]] = field(default_factory=list)

    def __call__(self, method: str, path: str, body: bytes) -> bool:
        """Whether it is that one."""
        if self.sent or method != "PATCH" or not path.endswith(f"/deployments/{self.workload}"):
            return False
        self.sent.append((path, body))
        return True

    def arrive(self, cluster: Cluster, operator: Operator) -> int:
        """Let it reach the API server, in its operator's name; the answer's status."""
        [(path, body)] = self.sent
        how = {"params": {"fieldManager": "specloop", "force": "true"}, "content": body}
        with cluster.control_plane.client(operator.kubeconfig) as http:
            return http.patch(path, headers={"Content-Type": "application/apply-patch+yaml"}, **how).status_code  # type: ignore[arg-type]


def test_a_leader_that_was_stopped_between_read_and_write_writes_to_no_workload_afterwards(cluster: Cluster) -> None:
    """Two guards: what it had not sent it does not send, and what was under way for too long is refused.

    Of policy `one` it has written that a roll-out begins, and is stopped before it reads the answer; it goes on once
    the other leads, and cannot ask who does.  Its next step is to write to the workload, but its leadership is over by
    its own clock, which counted the stop: nothing is sent.  (After the 10 s of a request the tick is over as well; the
    next test leaves no other reason than the clock.)

    Of policy `two` the write to the workload had been sent before the stop, and arrives after the other's: no clock
    helps there.  It says which version of the workload it is about, and the API server answers 409.
    """
    for name in ("one", "two"):
        annotations = {ANNOTATION: drafts(5)}
        cluster.apply(workload(name, 1, [bound(container())], annotations=annotations, strategy=ONE_MORE))
    for name in ("one", "two"):
        cluster.until_rolled_out(name)
    with cluster.proxy() as proxy, Operator(cluster, BOTH_AT_ONCE, url=proxy.url, replica="a") as a:
        cluster.until(lambda: leaders(a) == [a], "a leader")
        with Operator(cluster, BOTH_AT_ONCE, replica="b") as b:
            late, stop = Late("two"), Stop(a, "one")
            proxy.hold(late)
            proxy.hold(stop)
            proxy.hold(lambda _, path, __: stop.done and path.endswith(f"/leases/{LEASE}"))  # nor is it told afterwards
            follow(cluster, asked_for("k3", "two", "two"))
            cluster.until(lambda: late.sent, "a write to a workload that is under way")
            follow(cluster, asked_for("k3", "one", "one"))
            cluster.until(lambda: stop.done, "a leader that is stopped")
            cluster.until(lambda: leaders(b) == [b], "a new leader")
            a.thaw()
            assert leaders(b, a) == [b]
            assert a.until_ended() == 1
            assert "; another operator leads, or may" in a.log_file.read_text()
            cluster.until(written_by(cluster, b, "one", "two"), "writes by the new leader")
            assert late.arrive(cluster, a) == httpx.codes.CONFLICT
            taken = next(
                one["requestReceivedTimestamp"]
                for one in cluster.control_plane.audit(b.kubeconfig)
                if one["objectRef"]["resource"] == "leases" and one["responseStatus"]["code"] == httpx.codes.OK
            )
            refused = ("deployments", "two", httpx.codes.CONFLICT)
            cluster.until(lambda: refused in writes(cluster, a), "an audit log that has it")
            assert writes(cluster, a, after=taken) == [refused]


def test_a_leader_that_was_stopped_for_longer_than_it_leads_is_held_back_by_its_own_clock_alone(
    cluster: Cluster,
) -> None:
    """For shorter than a request may take, so that its answer is read; and no other operator is there to follow it."""
    cluster.apply(workload("one", 1, [bound(container())], annotations={ANNOTATION: drafts(5)}, strategy=ONE_MORE))
    cluster.until_rolled_out("one")
    with cluster.proxy() as proxy, Operator(cluster, url=proxy.url, replica="a") as a:
        cluster.until(lambda: leaders(a) == [a], "a leader")
        stop = Stop(a, "one")
        proxy.hold(stop)
        proxy.hold(lambda _, path, __: stop.done and path.endswith(f"/leases/{LEASE}"))  # its tick is the first to know
        follow(cluster, asked_for("k3", "one", "one"))
        cluster.until(lambda: stop.done, "a leader that is stopped")
        time.sleep(STOP_SECONDS)
        a.thaw()
        assert a.until_ended() == 1
        words = f"applying to Deployment {cluster.namespace}/one: not sent, for another operator leads now"
        assert words in a.log_file.read_text()
        assert not [one for one in writes(cluster, a) if one[0] == "deployments"]


def written_by(cluster: Cluster, operator: Operator, *workloads: str) -> Callable[[], bool]:
    """Whether an operator has written to all of these."""
    wanted = {("deployments", one, httpx.codes.OK) for one in workloads}
    return lambda: wanted <= set(writes(cluster, operator))
