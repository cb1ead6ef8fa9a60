"""The harness itself: what the other tests of this folder take for granted of nodes, pods and control plane."""

from contextlib import nullcontext

import httpx
import pytest

from specloop_engine.reader import read_sample
from tests.support.cluster.cluster import Cluster, ProgramFailed
from tests.support.cluster.environment import Object, expand
from tests.support.cluster.kwok import NODE_LABELS
from tests.support.cluster.traffic import HOT, STRUCTURED
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = pytest.mark.cluster


def address(pod: Object) -> str:
    """Where its engine listens."""
    return f"http://{pod['status']['podIP']}:8000"


def first_status(pod: Object) -> Object:
    """What the node says of its first container."""
    status: Object = pod["status"]["containerStatuses"][0]
    return status


def test_a_deployment_of_simulated_engines_becomes_ready_answers_and_shows_metrics(cluster: Cluster) -> None:
    """Each pod listens on an address of its own, and counts what it answered."""
    cluster.apply(workload("llama", 2, [bound(container())], annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out("llama")
    addresses = {address(pod) for pod in cluster.objects("Pod", "app=llama")}
    assert len(addresses) == 2
    for one in addresses:
        answer = httpx.post(f"{one}/v1/completions", json={"prompt": "Once", "max_tokens": 7, "ignore_eos": True})
        assert answer.json()["usage"]["completion_tokens"] == 7
        assert 'vllm:generation_tokens_total{engine="0",' in httpx.get(f"{one}/metrics").text


def test_pods_beyond_the_gpus_stay_pending_for_them(cluster: Cluster) -> None:
    """The real scheduler counts; nine pods of one GPU do not fit on a node of eight."""
    cluster.apply(workload("llama", 9, [sleeper()]))

    def pending() -> list[Object]:
        return [pod for pod in cluster.objects("Pod") if pod["status"].get("conditions", [{}])[0].get("reason")]

    [pod] = cluster.until(pending, "a pod that cannot be scheduled")
    condition = pod["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in condition["message"]


def sleeper(script: str = "sleep 600") -> Object:
    """A container of no engine, that is ready while it runs."""
    return {**container(), "image": "busybox", "command": ["sh", "-c", script], "args": [], "readinessProbe": None}


def test_an_engine_that_is_killed_comes_back_with_the_flags_of_its_own_pod(cluster: Cluster) -> None:
    """The pod keeps name and address; the exit code is 128 + 9, as kubelets write it for SIGKILL."""
    cluster.apply(workload("llama", 1, [bound(container())], annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out("llama")
    [pod] = cluster.objects("Pod")
    name = pod["metadata"]["name"]
    before = cluster.kubelet.pid(name), cluster.kubelet.command_line(name)
    cluster.kubelet.kill(name)

    def back() -> bool:
        status = first_status(cluster.get("Pod", name))
        return bool(status["restartCount"] == 1 and status["ready"])

    cluster.until(back, "ready again after one restart")
    assert cluster.kubelet.pid(name) != before[0]
    assert cluster.kubelet.command_line(name) == before[1]
    assert f"--speculative-config={drafts(5)}" in before[1]
    assert first_status(cluster.get("Pod", name))["lastState"]["terminated"]["exitCode"] == 137


def test_a_crash_loop_shows_its_last_message(cluster: Cluster) -> None:
    """The simulated engine says why it does not start, and the kubelet passes it on while it waits."""
    cluster.apply(workload("llama", 1, [container("--speculative-config", '{"method": "ngram"}')]))

    def waiting() -> Object | None:
        for pod in cluster.objects("Pod"):
            for status in pod["status"].get("containerStatuses", ()):
                if status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff":
                    found: Object = status
                    return found
        return None

    status = cluster.until(waiting, "a crash loop")
    assert status is not None
    ended = status["lastState"]["terminated"]
    assert ended["exitCode"] == 1
    assert "num_speculative_tokens must be provided" in ended["message"]
    assert not status["ready"]


def test_traffic_reaches_all_ready_pods_and_changes_while_it_runs(cluster: Cluster) -> None:
    """Drafts of structured text at temperature 0 are mostly accepted, those of hot talk mostly not."""
    cluster.apply(workload("llama", 2, [bound(container())], annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out("llama")
    with cluster.traffic("app=llama", STRUCTURED) as traffic:
        cluster.until(lambda: len(traffic.answered) == 2 and traffic.answered.total() > 40, "answers of both pods")
        cool = acceptance(cluster)
        traffic.phase = HOT
        cluster.until(lambda: acceptance(cluster) < cool - 0.1, "a lower acceptance")
        traffic.requests_per_second = 0.0
        traffic.change(clients=0)
    assert not traffic.failed


def acceptance(cluster: Cluster) -> float:
    """Accepted of all draft tokens, over all pods and their whole life."""
    samples = [read_sample(httpx.get(f"{address(pod)}/metrics").text, 0.0) for pod in cluster.objects("Pod")]
    found = [sample.drafting for sample in samples if sample.drafting is not None]
    return sum(one.accepted_tokens or 0.0 for one in found) / sum(one.draft_tokens or 1.0 for one in found)


def test_the_proxy_passes_watches_on_counts_and_fails_as_often_as_it_is_told(cluster: Cluster) -> None:
    """A client of the proxy sees a change at once, and the refusals that the test asked for."""
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"key": "old"}}
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    with cluster.proxy() as proxy:
        admin = cluster.control_plane.kubeconfig("proxied", cluster.control_plane.admin.token, proxy.url)
        with (
            cluster.control_plane.client(admin) as http,
            http.stream("GET", path, params={"watch": "1", "fieldSelector": "metadata.name=one"}) as watch,
        ):
            lines = watch.iter_lines()
            fault = proxy.fail(409, times=2, method="POST", path="/configmaps$")
            codes = [http.post(path, json=config).status_code for _ in range(3)]
            assert codes == [409, 409, 201]
            assert fault.left == 0
            assert '"type":"ADDED"' in next(lines)
        created = proxy.count(lambda one: (one.verb, one.resource) == ("create", "configmaps"))
        assert created == 3
        assert proxy.count(lambda one: one.verb == "watch" and one.agent == "specloop-test") == 1


def test_pods_outlive_an_absent_api_server_and_are_told_apart_afterwards(cluster: Cluster) -> None:
    """A process that was killed meanwhile is back, and its restart is reported as soon as somebody listens."""
    cluster.apply(workload("llama", 1, [sleeper()]))
    cluster.until_rolled_out("llama")
    [pod] = cluster.objects("Pod")
    with cluster.control_plane.api_down():
        cluster.kubelet.kill(pod["metadata"]["name"])
    cluster.until(lambda: first_status(cluster.get("Pod", pod["metadata"]["name"]))["restartCount"] == 1, "a restart")
    cluster.delete("Deployment", "llama")
    cluster.until(lambda: not cluster.objects("Pod"), "no pods")


@pytest.mark.slow
def test_three_hundred_pods_of_kwok_become_ready(cluster: Cluster) -> None:
    """Three nodes of 110 pods have room for them."""
    with cluster.kwok(nodes=3):
        cluster.apply(workload("many", 300, [sleeper()], nodes=NODE_LABELS))
        cluster.until_rolled_out("many", seconds=100.0)
        hosts = {pod["spec"]["nodeName"] for pod in cluster.objects("Pod")}
    assert len(hosts) == 3


def test_a_container_that_starts_again_reads_the_config_map_as_it_is_then(cluster: Cluster) -> None:
    """As kubelets do, which is why a pod's own annotation is the better place for a setting."""
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}, "data": {"word": "old"}}
    word = {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "flags", "key": "word"}}}
    cluster.apply(workload("llama", 1, [{**sleeper("echo $(WORD); sleep 600"), "env": [word]}]))

    def waiting() -> list[Object]:
        states = [one["state"] for pod in cluster.objects("Pod") for one in pod["status"].get("containerStatuses", ())]
        return [one for one in states if one.get("waiting", {}).get("reason") == "CreateContainerConfigError"]

    cluster.until(waiting, "a container without its ConfigMap")
    cluster.apply(config)
    cluster.until_rolled_out("llama")
    [pod] = cluster.objects("Pod")
    name = pod["metadata"]["name"]
    cluster.apply({**config, "data": {"word": "new"}})
    cluster.kubelet.kill(name)
    cluster.until(lambda: cluster.kubelet.log(name) == "old\nnew\n", "both words")


def test_a_stateful_set_is_rolled_pod_by_pod(cluster: Cluster) -> None:
    """With a partition of 1 only the pod of number 1 takes the new template."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    one = workload("llama", 2, [sleeper("sleep 600")], kind="StatefulSet", updateStrategy=strategy)
    cluster.apply(one)
    cluster.until_rolled_out("llama", "StatefulSet")
    cluster.apply(workload("llama", 2, [sleeper("sleep 700")], kind="StatefulSet", updateStrategy=strategy))

    def command_lines() -> list[str]:
        return [cluster.kubelet.command_line(pod["metadata"]["name"])[-1] for pod in cluster.objects("Pod")]

    def updated() -> bool:
        status = cluster.get("StatefulSet", "llama")["status"]
        return (status.get("updatedReplicas"), status.get("readyReplicas")) == (1, 2)

    cluster.until(updated, "one updated pod")
    assert command_lines() == ["sleep 600", "sleep 700"]


@pytest.mark.parametrize("proxied", [False, True], ids=["straight", "proxied"])
def test_a_service_account_may_do_what_its_roles_say_and_no_more(cluster: Cluster, proxied: bool) -> None:
    """The token is the account's own, through the proxy too."""
    with cluster.proxy() if proxied else nullcontext() as proxy:
        cluster.kubectl("create", "serviceaccount", "reader")
        config = cluster.control_plane.service_account(cluster.namespace, "reader", url=proxy.url if proxy else None)
        with cluster.control_plane.client(config) as http:
            pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
            assert http.get(pods).status_code == 403
            whose = f"--serviceaccount={cluster.namespace}:reader"
            cluster.kubectl("create", "rolebinding", "reads", "--clusterrole=view", whose)
            cluster.until(lambda: http.get(pods).status_code == 200, "the right to read")
            assert http.delete(f"{pods}/any").status_code == 403


def test_people_use_kubectl_and_helm_and_are_told_what_went_wrong(cluster: Cluster) -> None:
    """Both act in the test's namespace."""
    assert cluster.kubectl("create", "configmap", "one") == "configmap/one created\n"
    assert cluster.get("ConfigMap", "one")["metadata"]["namespace"] == cluster.namespace
    assert cluster.helm("list", "--short") == ""
    with pytest.raises(ProgramFailed, match="NotFound"):
        cluster.kubectl("get", "deployment", "nobody")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("$(A)", "a"), ("-$(A)-$(B)", "-a-$(B)"), ("$$(A)", "$(A)"), ("$A $", "$A $"), ("$$$(A)", "$a"), ("$(A", "$(A")],
)
def test_references_are_expanded_as_the_api_reference_says(text: str, expanded: str) -> None:
    """Known names are replaced, unknown ones stay, a doubled dollar escapes."""
    assert expand(text, {"A": "a"}) == expanded
