"""What the operator needs for 200 policies over 1,000 pods, on a real API server.

    python -P benchmarks/operator.py [-o json] [--policies 200] [--ticks 240]

The pods are kwok's: they only say that they run.  Their metrics are a Prometheus of our own, which answers the
operator's queries in the shape of the real one (60 series a pod, compressed), from counters that are arithmetic.  It
has a scrape at the moment it was begun, so the operator is told that nothing lags.

A tick is one look at all policies.  First it looks every 15 seconds, as often as pods are scraped: requests and
processor time while nothing changes; then how long after the scrape that ends a window, and shows that acceptance has
fallen, each policy's decision is logged, which it is once the status is written.  Then it looks every second for as
many ticks as an hour has by default, and memory is read.  Windows are of 30 s and kept for four minutes, so that a pod
has eight; by default it has 24.

Needs what scripts/build-controlplane builds, and takes eight minutes and the ticks.
"""

import argparse
import gzip
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests' control plane

import pytest
from tests.support.cluster.binaries import control_plane_binaries
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.controlplane import ControlPlane
from tests.support.cluster.kwok import NODE_LABELS, PODS_PER_NODE
from tests.support.cluster.operator import Operator
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

PODS = 5
"""Of each policy's Deployment."""

INTERVAL_SECONDS, FAST_SECONDS = 15, 1
WINDOW_SECONDS, EVIDENCE_SECONDS, FULL_SECONDS = 30, 120, 300.0
"""Twice the evidence is kept, and the back-fill brings a part of it."""
SIGNALS = {
    "windowSeconds": WINDOW_SECONDS,
    "maxEvidenceSeconds": EVIDENCE_SECONDS,
    "settleSeconds": 1,
    "minRequests": 40,
}
LOW = {"name": "low", "when": {"acceptance": {"belowPercent": 60}}, "forSeconds": 0, "action": {"type": "StepDown"}}
"""Half a window of low acceptance is enough: 43 %."""

IDLE_TICKS, PATIENCE_SECONDS, LOOK_SECONDS = 5, 420.0, 2.0

STEPS, REQUESTS = 300.0, 1.5
"""Decode steps and finished requests of a pod a second."""
HEALTHY, COLLAPSED = (0.85, 0.8, 0.75, 0.7, 0.6), (0.3, 0.15, 0.1, 0.05, 0.02)
"""Acceptance by position."""

BUCKETS = ("1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0", "500.0", "1000.0", "+Inf")
TEMPERATURES = (*(f"{edge / 10:.1f}" for edge in range(21)), "+Inf")
VLLM = {
    "spec_decode_num_drafts_total": "steps",
    "spec_decode_num_draft_tokens_total": "drafted",
    "spec_decode_num_accepted_tokens_total": "accepted",
    "num_requests_running": "running",
    "num_requests_waiting": "none",
    "kv_cache_usage_perc": "cache",
    "prefix_cache_queries_total": "prompts",
    "prefix_cache_hits_total": "none",
    "num_preemptions_total": "none",
    "prompt_tokens_total": "prompts",
    "generation_tokens_total": "tokens",
    "request_generation_tokens_count": "requests",
    "request_generation_tokens_sum": "tokens",
    "iteration_tokens_total_count": "steps",
    "time_to_first_token_seconds_count": "requests",
    "time_to_first_token_seconds_sum": "requests",
    "request_decode_time_seconds_sum": "requests",
}


def series() -> Iterator[tuple[str, Mapping[str, str], str]]:
    """The series of a vLLM with a sidecar that the operator asks for: name, own labels, and which figure it shows."""
    yield "process_start_time_seconds", {}, "start"
    yield "http_requests_total", {"handler": "/v1/completions", "method": "POST", "status": "5xx"}, "none"
    own = {"engine": "0", "model_name": "llama"}
    for name, figure in VLLM.items():
        yield f"vllm:{name}", own, figure
    for place in range(len(HEALTHY)):
        label = {"position": str(place)}
        yield "vllm:spec_decode_num_accepted_tokens_per_pos_total", {**own, **label}, f"accepted{place}"
    for reason in ("stop", "length", "abort", "error", "repetition"):
        label = {"finished_reason": reason}
        yield "vllm:request_success_total", {**own, **label}, "requests" if reason == "stop" else "none"
    for edge in BUCKETS:
        figure = "requests" if float(edge) >= 200.0 else "none"
        yield "vllm:request_generation_tokens_bucket", {**own, "le": edge}, figure
    for edge in TEMPERATURES:
        yield "specloop_request_temperature_bucket", {"model_name": "llama", "le": edge}, "requests"


SERIES = tuple(series())


class Prometheus(ThreadingHTTPServer):
    """A Prometheus on loopback that has scraped all pods for ever, the pods of a policy all at the same moment."""

    daemon_threads = True

    def __init__(self, namespace: str, pods: Sequence[Sequence[str]]) -> None:
        """`pods` are the names of each policy's."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.queries = 0
        self.caught_up = False
        """Whether the last query was about what is new since the one before, and no more."""
        self._start = time.time() - 86400.0
        self._collapse = math.inf
        self._pods = pods
        self._heads = {pod: tuple(_heads(namespace, pod)) for ones in pods for pod in ones}

    def collapse(self, now: float) -> list[float]:
        """Let acceptance fall; when the scrape comes that shows it, for each policy: the next to end a window."""
        edge = math.ceil(now / WINDOW_SECONDS) * WINDOW_SECONDS
        self._collapse = edge - INTERVAL_SECONDS
        return [edge + self._offset(place) for place in range(len(self._pods))]

    def answer(self, query: str, end: float) -> bytes:
        """The values of a range that ends then, as JSON."""
        if "vllm:spec_decode_num_drafts_total" not in query or not query.endswith("ms]"):
            raise ValueError(f"not a query of the operator: {query}")
        seconds = float(query[query.rindex("[") + 1 : -3]) / 1000.0
        self.queries += 1
        parts = [part for place in range(len(self._pods)) for part in self._of_policy(place, end - seconds, end)]
        self.caught_up = seconds < 2.0 * INTERVAL_SECONDS and time.time() - end < INTERVAL_SECONDS
        return ('{"status":"success","data":{"resultType":"matrix","result":[' + ",".join(parts) + "]}}").encode()

    def _of_policy(self, place: int, start: float, end: float) -> Iterator[str]:
        scrapes = [(f"{at:.3f}", self._figures(place, at)) for at in self._scrapes(place, start, end)]
        if not scrapes:
            return
        values = {
            figure: ",".join(f'[{at},"{found[figure]}"]' for at, found in scrapes) + "]}" for figure in scrapes[0][1]
        }
        for pod in self._pods[place]:
            for head, (_, _, figure) in zip(self._heads[pod], SERIES, strict=True):
                yield head + values[figure]

    def _scrapes(self, place: int, start: float, end: float) -> list[float]:
        """When a policy's pods are scraped after the start, up to the end: policies are spread over the interval."""
        first, last = (math.floor((at - self._offset(place)) / INTERVAL_SECONDS) for at in (start, end))
        return [round(one * INTERVAL_SECONDS + self._offset(place), 3) for one in range(first + 1, last + 1)]

    def _offset(self, place: int) -> float:
        return INTERVAL_SECONDS * place / len(self._pods)

    def _figures(self, place: int, at: float) -> Mapping[str, str]:
        """What each of a policy's pods shows then."""
        good = min(at, self._collapse + self._offset(place))
        healthy, collapsed = STEPS * (good - self._start), STEPS * (at - good)
        accepted = [int(healthy * one + collapsed * other) for one, other in zip(HEALTHY, COLLAPSED, strict=True)]
        steps, requests = int(healthy + collapsed), int(REQUESTS * (at - self._start))
        return {
            **{f"accepted{position}": str(count) for position, count in enumerate(accepted)},
            "start": f"{self._start:.2f}",
            "steps": str(steps),
            "drafted": str(len(HEALTHY) * steps),
            "accepted": str(sum(accepted)),
            "tokens": str(steps + sum(accepted) + requests),
            "requests": str(requests),
            "prompts": str(500 * requests),
            "running": "8",
            "cache": "0.4",
            "none": "0",
        }


def _heads(namespace: str, pod: str) -> Iterator[str]:
    """The beginning of every series of a pod, with the labels that a PodMonitor adds."""
    added = {"container": "vllm", "endpoint": "http", "instance": "10.0.0.1:8000", "job": "monitoring/vllm"}
    for name, own, _ in SERIES:
        labels = {"__name__": name, **added, "namespace": namespace, "pod": pod, **own}
        yield '{"metric":' + json.dumps(labels, sort_keys=True, separators=(",", ":")) + ',"values":['


class Handler(BaseHTTPRequestHandler):
    """Instant queries, compressed as the real one does."""

    protocol_version = "HTTP/1.1"
    server: Prometheus

    def do_GET(self) -> None:
        """Answer a query."""
        asked = parse_qs(urlsplit(self.path).query)
        body = gzip.compress(self.server.answer(asked["query"][0], float(asked["time"][0])), 1)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the operator says of itself."""

    ticks: float
    cpu_seconds: float
    requests: float
    """To the API server; opening a watch anew, every four minutes, is none."""
    megabytes: float


def look(operator: Operator) -> Look:
    """Read its metrics."""
    found = {"specloop_ticks_total": 0.0, "process_cpu_seconds_total": 0.0, "specloop_api_requests_total": 0.0}
    found["process_resident_memory_bytes"] = 0.0
    for line in operator.get("/metrics").text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in found and 'verb="watch"' not in line:
            found[name] += float(line.rpartition(" ")[2])
    ticks, cpu, requests, resident = found.values()
    return Look(ticks, cpu, requests, resident / 1e6)


class Benchmark:
    """Policies, their Deployments, an operator and its Prometheus, ready to be measured."""

    def __init__(self, cluster: Cluster, operator: Operator, prometheus: Prometheus, policies: Sequence[str]) -> None:
        self._cluster = cluster
        self._operator = operator
        self._prometheus = prometheus
        self._policies = policies
        self._full = time.monotonic() + FULL_SECONDS

    def settle(self) -> None:
        """Wait until all is read, and two ticks have brought nothing new."""
        quiet, before = 0, self._between_ticks()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while quiet < 2:
            now = self._between_ticks(1)
            calm = now.requests == before.requests and now.ticks >= 2 * len(self._policies)
            quiet, before = quiet + 1 if calm and self._prometheus.caught_up else 0, now
            if time.monotonic() > deadline:
                raise AssertionError(f"no rest: {self._operator.log_file.read_text()[-4000:]}")

    def idle(self) -> dict[str, float]:
        """What a tick costs while nothing changes."""
        before, asked = self._between_ticks(), self._prometheus.queries
        after, asked = self._between_ticks(IDLE_TICKS), self._prometheus.queries - asked
        ticks = (after.ticks - before.ticks) / len(self._policies)
        return {
            "queriesPerTick": round(asked / ticks, 2),
            "cpuSecondsPerTick": round((after.cpu_seconds - before.cpu_seconds) / ticks, 2),
            "idleApiRequestsPerTick": round((after.requests - before.requests) / ticks, 2),
        }

    def decide(self) -> dict[str, float]:
        """How long decisions take after the scrape that calls for them."""
        shown = dict(zip(self._policies, self._prometheus.collapse(time.time()), strict=True))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(decided := self._decided()) < len(shown):
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(decided)} of {len(shown)} policies have decided")
            time.sleep(LOOK_SECONDS)
        seconds = sorted(decided[name] - shown[name] for name in shown)
        cuts = statistics.quantiles(seconds, n=100, method="inclusive")
        return {"decisionSecondsP50": round(cuts[49], 2), "decisionSecondsP99": round(cuts[98], 2)}

    def hour(self, ticks: int) -> dict[str, float]:
        """Memory over so many ticks, one a second where the machine keeps up."""
        for name in self._policies:
            self._cluster.patch("SpecPolicy", name, {"spec": {"intervalSeconds": FAST_SECONDS}})
        time.sleep(max(0.0, self._full - time.monotonic()))
        looks, end = [look(self._operator)], ticks * len(self._policies)
        while looks[-1].ticks < looks[0].ticks + end:
            time.sleep(LOOK_SECONDS)
            looks.append(look(self._operator))
        quarter = len(looks) // 4
        first, last = (statistics.fmean(one.megabytes for one in part) for part in (looks[:quarter], looks[-quarter:]))
        return {
            "residentMegabytes": round(max(one.megabytes for one in looks)),
            "firstQuarterMegabytes": round(first),
            "lastQuarterMegabytes": round(last),
        }

    def _decided(self) -> Mapping[str, float]:
        """When each policy first asked for less."""
        found: dict[str, float] = {}
        for line in self._operator.lines():
            if line.get("action") == "StepDown":
                found.setdefault(line["policy"], datetime.fromisoformat(line["time"]).timestamp())
        return found

    def _between_ticks(self, ticks: int = 0) -> Look:
        """A look so many ticks later, half a second before the next."""
        wait = (INTERVAL_SECONDS - 0.5 - time.time()) % INTERVAL_SECONDS
        time.sleep(wait + (ticks - 1 if ticks and wait > 1.0 else ticks) * INTERVAL_SECONDS)
        return look(self._operator)


@contextmanager
def benchmark(folder: Path, policies: int) -> Iterator[Benchmark]:
    """All of it, started; what is said of the progress goes to standard error."""
    (folder / "control-plane").mkdir()
    names = [f"app-{place:03d}" for place in range(policies)]
    with (
        ControlPlane(control_plane_binaries(), folder / "control-plane") as plane,
        Cluster(plane, folder) as cluster,
        cluster.kwok(math.ceil(policies * PODS / PODS_PER_NODE)),
    ):
        plane.install_crds()
        pods = _pods(cluster, names)
        say(f"{policies * PODS} pods are Ready")
        prometheus = Prometheus(cluster.namespace, pods)
        threading.Thread(target=prometheus.serve_forever, daemon=True).start()
        for name in names:
            cluster.apply(_policy(name))
        source = {"type": "prometheus", "url": prometheus.url, "lagSeconds": 0}
        with Operator(cluster, {"sources": {"default": source}}) as operator:
            say("the operator runs")
            yield Benchmark(cluster, operator, prometheus, names)
        prometheus.shutdown()


def _pods(cluster: Cluster, names: Sequence[str]) -> list[list[str]]:
    """Make the Deployments; the names of their pods, once all are Ready."""
    for name in names:
        annotations = {ANNOTATION: drafts(5)}
        cluster.apply(workload(name, PODS, [bound(container())], annotations=annotations, nodes=NODE_LABELS))

    def available() -> bool:
        found = cluster.objects("Deployment")
        return all(one.get("status", {}).get("availableReplicas") == PODS for one in found)

    cluster.until(available, "all pods Ready", PATIENCE_SECONDS)
    pods: dict[str, list[str]] = {name: [] for name in names}
    for pod in cluster.objects("Pod"):
        pods[pod["metadata"]["labels"]["app"]].append(pod["metadata"]["name"])
    return list(pods.values())


def _policy(name: str) -> dict[str, object]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"targetRef": ref, "intervalSeconds": INTERVAL_SECONDS, "signals": SIGNALS, "rules": [LOW]}
    return {"apiVersion": "specloop.dev/v1alpha1", "kind": "SpecPolicy", "metadata": {"name": name}, "spec": spec}


def say(words: str) -> None:
    """Tell who waits."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, and print a table or one line of JSON; 3 where there is no control plane."""
    parser = argparse.ArgumentParser(description="What the operator needs for many policies.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--policies", type=int, default=200, help=f"each of a Deployment of {PODS} pods")
    parser.add_argument("--ticks", type=int, default=240, help="run fast while memory is read")
    given = parser.parse_args()
    figures: dict[str, float] = {"policies": given.policies, "pods": given.policies * PODS}
    figures |= {"intervalSeconds": INTERVAL_SECONDS, "ticks": given.ticks}
    try:
        with tempfile.TemporaryDirectory() as folder, benchmark(Path(folder), given.policies) as bench:
            bench.settle()
            for what, measure in (
                ("at rest", bench.idle),
                ("deciding", bench.decide),
                ("fast", partial(bench.hour, given.ticks)),
            ):
                say(what)
                figures |= measure()
                say(json.dumps(figures))  # should it fail later
    except pytest.skip.Exception as reason:
        say(str(reason))
        return 0 if given.output == "text" else 3
    if given.output == "json":
        print(json.dumps(figures))
        return 0
    for name, figure in figures.items():
        print(f"{name:24} {figure:12,.10g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
