"""The workload of most scenarios: a Deployment `llama` of simulated vLLM pods, its traffic, and what it looks like."""

import json
from collections.abc import Mapping
from dataclasses import replace

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.traffic import HOT, PROSE, STRUCTURED
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

LLAMA = "llama"
LABELS = f"app={LLAMA}"

ONE_MORE: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""A canary beside the old pods, not in the place of one."""

K5, K3 = ({"name": f"k{tokens}", "drafter": "small", "tokens": tokens} for tokens in (5, 3))
LADDER: Object = {
    "drafters": [{"name": "small", "method": "draft_model", "model": "small"}],
    "levels": [K5, K3, {"name": "disabled"}],
}
"""The fields of a policy that knows the draft model alone."""

TELLING_TEMPERATURE = "--middleware=specloop_vllm.Middleware"
"""The flag by which engines count their requests by temperature."""

RECORDS = replace(STRUCTURED, output_tokens=800)
"""With two requests in the batch, in milliseconds a token and between outputs: 4.8 and 25 at k5, 5.8 and 21 at k3."""
TALK = replace(HOT, name="talk", temperature=0.0, output_tokens=800)
"""7.5 and 24 at k5, 7.8 and 21 at k3."""
STORIES = replace(PROSE, temperature=0.0, output_tokens=800)
"""8.9 and 23 at k5, 8.7 and 20 at k3; of drafts, 33 and 44 in 100 are accepted."""
HOT_SUMMARIES = replace(HOT, name="hot summaries", prompt="Summarise this.", temperature=0.7, output_tokens=800)
"""9.4 and 21 at k3, 7.0 and 17 at ngram; 40 and 51 in 100 are accepted."""
HOT_STORIES = replace(STORIES, name="hot stories", temperature=0.7)
"""14.7 and 16 at ngram, 16 and 16 at disabled; 15 in 100 are accepted."""
SUMMARIES = replace(HOT_SUMMARIES, name="summaries", temperature=0.0)
"""5.9 and 16 at ngram, 16 and 16 at disabled; 64 in 100 are accepted."""


def serving(
    cluster: Cluster,
    tokens: int = 5,
    *flags: str,
    replicas: int = 2,
    strategy: Object = ONE_MORE,
    faults: Mapping[str, Object] | None = None,
    simulation: Mapping[str, str] | None = None,
) -> None:
    """Ready pods that draft so many tokens; servers have faults at the levels that say so."""
    # All requests are equally easy to guess: what levels differ by shows within seconds.
    own = {"SPECLOOP_SIM_FAULTS": json.dumps(faults or {}), "SPECLOOP_SIM_CLUSTERING": "0", **(simulation or {})}
    one = bound(container(*flags, simulation=own))
    annotations = {ANNOTATION: drafts(tokens)}
    cluster.apply(workload(LLAMA, replicas, [one], annotations=annotations, strategy=strategy))
    cluster.until_rolled_out(LLAMA)


def deployment(cluster: Cluster) -> Object:
    """The workload now."""
    return cluster.get("Deployment", LLAMA)


def generation(cluster: Cluster) -> int:
    """How often its spec was changed."""
    found: int = deployment(cluster)["metadata"]["generation"]
    return found


def template(cluster: Cluster) -> str:
    """Its pod template, byte for byte."""
    return json.dumps(deployment(cluster)["spec"]["template"], sort_keys=True)


def lives(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Its pods that run and are not on their way out: when their process began, and how often it was begun again."""
    found = {}
    for pod in cluster.objects("Pod", LABELS):
        containers = pod["status"].get("containerStatuses", ())
        if "deletionTimestamp" not in pod["metadata"] and containers and "running" in containers[0]["state"]:
            [container] = containers
            found[pod["metadata"]["name"]] = container["state"]["running"]["startedAt"], container["restartCount"]
    return found
