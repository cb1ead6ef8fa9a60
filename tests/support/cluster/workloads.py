"""Manifests of workloads that run the simulated vLLM, as their authors would write them."""

import json
from collections.abc import Sequence

from tests.support.cluster.environment import Object
from tests.support.cluster.kubelet import GPU

IMAGE = "specloop.test/simulated-vllm:0.32.0"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
ANNOTATION = "specloop.dev/speculative-config"
BOUND_FLAG = "--speculative-config=$(SPECULATIVE_CONFIG)"
BOUND_VARIABLE: Object = {
    "name": "SPECULATIVE_CONFIG",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{ANNOTATION}']"}},
}
SIMULATION = {"SPECLOOP_SIM_SPEED": "20", "SPECLOOP_SIM_STARTUP_SECONDS": "0"}
"""The simulated vLLM's own settings: 20 times as fast as a real one, and no start-up."""


def drafts(tokens: int) -> str:
    """The setting of a draft model that proposes so many tokens."""
    return json.dumps({"method": "draft_model", "model": "small", "num_speculative_tokens": tokens})


def lookups(tokens: int) -> str:
    """The setting of an n-gram lookup that proposes so many tokens."""
    lookup = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
    return json.dumps({"method": "ngram", "num_speculative_tokens": tokens, **lookup})


def container(*flags: str, simulation: dict[str, str] | None = None) -> Object:
    """A container that serves the model with these flags, on one GPU."""
    settings = {**SIMULATION, **(simulation or {})}
    return {
        "name": "vllm",
        "image": IMAGE,
        "args": [MODEL, *flags],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {GPU: "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def bound(one: Object) -> Object:
    """A container that takes its setting from the pod's annotation."""
    return {**one, "args": [*one["args"], BOUND_FLAG], "env": [*one["env"], BOUND_VARIABLE]}


def workload(
    name: str,
    replicas: int,
    containers: Sequence[Object],
    *,
    kind: str = "Deployment",
    annotations: dict[str, str] | None = None,
    nodes: dict[str, str] | None = None,
    **spec: object,
) -> Object:
    """A Deployment or StatefulSet whose pods are labelled `app=NAME` and select nodes; `spec` goes in beside."""
    labels = {"app": name}
    selector = {"nodeSelector": nodes} if nodes else {}  # an empty one is dropped, and conflicts with the next apply
    template = {
        "metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})},
        "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 5, **selector},
    }
    own = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own}
