"""What pods say of themselves on their own metrics pages: how fast they served, and how much."""

from collections.abc import Collection
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Served:
    """What pods did since they started, in their own seconds."""

    requests: float
    answer_tokens: float
    decode_seconds: float
    outputs: float
    """Steps that answers waited for: with speculation, each brings several tokens."""
    output_seconds: float

    @property
    def seconds_per_token(self) -> float:
        """Time per output token, the first ones left out."""
        return self.decode_seconds / (self.answer_tokens - self.requests)

    @property
    def seconds_between_outputs(self) -> float:
        """Inter-token latency, as vLLM calls it."""
        return self.output_seconds / self.outputs

    @property
    def tokens_per_answer(self) -> float:
        """Mean length of an answer."""
        return self.answer_tokens / self.requests


def served(cluster: Cluster, pods: Collection[str]) -> Served:
    """What these pods have served so far, together; pods that do not answer any more are left out."""
    addresses = [
        pod["status"]["podIP"]
        for pod in cluster.objects("Pod")
        if pod["metadata"]["name"] in pods and "podIP" in pod["status"]
    ]
    pages = [values for address in addresses if (values := _values(f"http://{address}:8000/metrics"))]

    def total(name: str) -> float:
        return sum(page.get(f"vllm:{name}", 0.0) for page in pages)

    return Served(
        total("request_generation_tokens_count"),
        total("request_generation_tokens_sum"),
        total("request_decode_time_seconds_sum"),
        total("inter_token_latency_seconds_count"),
        total("inter_token_latency_seconds_sum"),
    )


def _values(url: str) -> dict[str, float]:
    """Values by name, of series that are one of their name; empty where nobody answers."""
    try:
        text = httpx.get(url, timeout=5.0).text
    except httpx.TransportError:
        return {}
    return {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
