"""How a Prometheus is best asked for what it scraped of a thousand pods: raw ranges, pairs of instants, or by policy.

And what it takes to do without one.

It starts a real Prometheus, and an exporter that is all the pods.  Every way is measured in a process of its own.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import requests
from rich.console import Console
from rich.table import Table

from specloop_control.prometheus_hub import PrometheusHub
from specloop_control.prometheus_pages import Pages
from specloop_control.prometheus_server import Answer, Prometheus, PrometheusSettings
from specloop_engine.reader import wanted_series
from specloop_operator.settings import OperatorSettings
from specloop_operator.sources import PodAddress, open_sources

PAGE = Path(__file__).parents[1] / "tests" / "unit" / "engine_metrics" / "pages" / "vllm-0.32.0-draft.txt"
PODS_A_POLICY = 5
INTERVAL_SECONDS = 15
ROUNDS = 3
CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Cost:
    """What it takes to have one sample of every pod."""

    queries: int
    samples: int
    megabytes: float
    """Of the answers, once they are unpacked; 0 where nobody counted."""
    sentMegabytes: float  # noqa: N815
    seconds: float
    cpuSeconds: float  # noqa: N815
    serverCpuSeconds: float  # noqa: N815
    peakMegabytes: float  # noqa: N815
    """What the process grew by."""


def main() -> None:
    """Print a table, or one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--pods", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, scraped(Path(folder), arguments.pods) as place:
        end = time.time() - 1.0
        costs = {way: middle([alone(way, place, end, arguments.pods) for _ in range(ROUNDS)]) for way in WAYS}
    if arguments.output == "json":
        print(json.dumps({way: asdict(cost) for way, cost in costs.items()}))
        return
    names = [field.name for field in fields(Cost)]
    table = Table("way", *names, title=f"One sample of {arguments.pods} pods, median of {ROUNDS}")
    for way, cost in costs.items():
        table.add_row(way, *(f"{getattr(cost, name):g}" for name in names))
    Console(width=160).print(table)


@dataclass(frozen=True)
class Place:
    """Where the server and the pods are."""

    url: str
    pid: int
    """The server's process."""
    pods_port: int


def series() -> list[str]:
    """The lines of a pod's page that samples are read from, temperatures added."""
    model = 'model_name="tiny"'
    edges = [*(f"{tenths / 10.0:.1f}" for tenths in range(21)), "+Inf"]
    wanted = wanted_series()
    lines = [line for line in PAGE.read_text().splitlines() if re.split("[{ ]", line, maxsplit=1)[0] in wanted]
    return lines + [f'specloop_request_temperature_bucket{{{model},le="{edge}"}} 1' for edge in edges]


def export(port: int) -> None:
    """Serve /NUMBER/metrics for every pod, values growing from scrape to scrape, and at any other path a whole page."""
    heads, whole = [line.rpartition(" ")[0] for line in series()], PAGE.read_text()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                pod = (await reader.readuntil(b"\r\n\r\n")).decode().split("/", 2)[1]
                body = whole.encode()
                if pod.isdigit():
                    body = "".join(f"{one} {int(pod) + int(time.time())}\n" for one in heads).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
            await server.serve_forever()

    asyncio.run(run())


@contextmanager
def scraped(folder: Path, pods: int) -> Iterator[Place]:
    """A Prometheus that has scraped every pod at least twice."""
    program = shutil.which("prometheus")
    if program is None:
        sys.exit("benchmarks/sources.py: no prometheus: install the package of this name")
    port, own = free_port(), free_port()
    exporter = CONTEXT.Process(target=export, args=(port,), daemon=True)
    exporter.start()
    (folder / "prometheus.yml").write_text(json.dumps(configuration(pods, port)))
    flags = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = [program, *flags, f"--web.listen-address=127.0.0.1:{own}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3.0 * INTERVAL_SECONDS)
        yield Place(f"http://127.0.0.1:{own}", process.pid, port)
    finally:
        process.kill()
        process.wait()
        exporter.kill()
        exporter.join()


def configuration(pods: int, port: int) -> dict[str, Any]:
    """Targets with the labels that a PodMonitor of the Prometheus operator gives them."""
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {
                "__metrics_path__": f"/{pod}/metrics",
                "namespace": f"team-{pod % 40}",
                "pod": pod_name(pod),
                "instance": f"10.0.{pod // 250}.{pod % 250}:8000",
                "container": "vllm",
                "endpoint": "http",
            },
        }
        for pod in range(pods)
    ]
    every = {"scrape_interval": f"{INTERVAL_SECONDS}s", "scrape_timeout": "10s"}
    return {"global": every, "scrape_configs": [{"job_name": "monitoring/vllm", "static_configs": targets}]}


def pod_name(pod: int) -> str:
    """As a Deployment calls it."""
    return f"llama-70b-{pod // PODS_A_POLICY:03d}-7c9d8f5b6d-{pod:05d}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Client:
    """Asks, and counts."""

    def __init__(self, place: Place, end: float) -> None:
        self.place = place
        self.url = place.url
        self.end = end
        self.session = requests.Session()
        self.queries = self.bytes = self.sent = 0

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The result of an instant query."""
        params = {"query": query, "time": f"{self.end:.3f}"}
        response = self.session.get(f"{self.url}/api/v1/query", params=params, stream=True)
        packed = response.raw.read(decode_content=False)
        body = zlib.decompress(packed, 31) if response.headers.get("Content-Encoding") == "gzip" else packed
        self.queries, self.bytes, self.sent = self.queries + 1, self.bytes + len(body), self.sent + len(packed)
        found: list[dict[str, Any]] = json.loads(body)["data"]["result"]
        return found


def ranges(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """One raw range of all series."""
    return len(Pages(settings).samples(Answer(client.ask(f"{settings.selector}[{INTERVAL_SECONDS}s]"))))


def half_ranges(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """What is new where policies look twice between two scrapes; a pair of instants is what it always is."""
    return len(Pages(settings).samples(Answer(client.ask(f"{settings.selector}[{500 * INTERVAL_SECONDS}ms]"))))


def pairs(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """All series now, and when each pod was scraped; `timestamp` takes no more than one name at a time."""
    values = client.ask(settings.selector)
    times = {one["metric"]["pod"]: float(one["value"][1]) for one in client.ask("timestamp(vllm:num_requests_running)")}
    answer = [{**one, "values": [[times[one["metric"]["pod"]], one["value"][1]]]} for one in values]
    return len(Pages(settings).samples(Answer(answer)))


def by_policy(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """A raw range for the pods of every policy."""
    found = 0
    for first in range(0, pods, PODS_A_POLICY):
        names = "|".join(pod_name(pod) for pod in range(first, first + PODS_A_POLICY))
        query = f'{settings.selector[:-1]},pod=~"{names}"}}[{INTERVAL_SECONDS}s]'
        found += len(Pages(settings).samples(Answer(client.ask(query))))
    return found


def hub(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """What the operator does: one refresh, and every policy takes its own."""

    async def run() -> int:
        one = PrometheusHub(settings, Counted(client, settings), back_fill_seconds=0.0, wait_seconds=60.0)
        one.until = client.end - INTERVAL_SECONDS
        one._first = one.until
        await one.refresh(client.end + settings.lag_seconds, 1.0)
        found = 0
        for policy in range(pods // PODS_A_POLICY):
            names = [pod_name(policy * PODS_A_POLICY + place) for place in range(PODS_A_POLICY)]
            for space in {pod % 40 for pod in range(policy * PODS_A_POLICY, (policy + 1) * PODS_A_POLICY)}:
                found += len(one.take(f"policy-{policy}", f"team-{space}", names))
        await one.close()
        return found

    return asyncio.run(run())


def by_pod(client: Client, settings: PrometheusSettings, pods: int) -> int:
    """No Prometheus at all: every pod is scraped, for a whole page."""

    async def run() -> int:
        found = 0
        async with open_sources(OperatorSettings()) as opened:
            for first in range(0, pods, PODS_A_POLICY):
                names = [pod_name(pod) for pod in range(first, min(pods, first + PODS_A_POLICY))]
                ours = [PodAddress("llm", name, "127.0.0.1", client.place.pods_port) for name in names]
                collected = await opened["default"].collect(f"policy-{first}", ours, client.end, INTERVAL_SECONDS)
                found += len(collected.samples)
        return found

    return asyncio.run(run())


class Counted(Prometheus):
    """The client of the operator; its queries are counted."""

    def __init__(self, client: Client, settings: PrometheusSettings) -> None:
        super().__init__(settings)
        self.client = client

    def values(self, selector: str, start: float, end: float) -> Answer:
        """As always."""
        self.client.queries += 1
        return super().values(selector, start, end)


WAYS: dict[str, Callable[[Client, PrometheusSettings, int], int]] = {
    "range": ranges,
    "halfRange": half_ranges,
    "pair": pairs,
    "byPolicy": by_policy,
    "hub": hub,
    "pods": by_pod,
}


def alone(way: str, place: Place, end: float, pods: int) -> Cost:
    """What a way costs in a process of its own."""
    mine, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=measure, args=(theirs, way, place, end, pods))
    process.start()
    cost: Cost = mine.recv()
    process.join()
    return cost


def measure(pipe: Any, way: str, place: Place, end: float, pods: int) -> None:
    """Measure one way, and send what it cost."""
    client, settings = Client(place, end), PrometheusSettings(place.url)
    memory, server, cpu, start = peak(), server_cpu(place.pid), time.process_time(), time.perf_counter()
    samples = WAYS[way](client, settings, pods)
    pipe.send(
        Cost(
            client.queries,
            samples,
            round(client.bytes / 1e6, 2),
            round(client.sent / 1e6, 2),
            round(time.perf_counter() - start, 2),
            round(time.process_time() - cpu, 2),
            round(server_cpu(place.pid) - server, 2),
            round(peak() - memory, 1),
        )
    )


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def server_cpu(pid: int) -> float:
    """Seconds of the processor that a process has used, on Linux."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    medians = {one.name: statistics.median(getattr(cost, one.name) for cost in costs) for one in fields(Cost)}
    return Cost(**medians)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
