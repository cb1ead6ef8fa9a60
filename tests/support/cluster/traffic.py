"""Clients of a workload's Ready pods: the only way by which tests give an engine something to count.

Load is chosen for tests: long answers rather than many, since every request costs this machine's own time.
"""

import asyncio
import math
import ssl
import time
from collections import Counter
from dataclasses import replace
from typing import Any, Self

import httpx

from specloop_cli import demo_traffic
from specloop_sim.phases import Phase, answer_length
from tests.support.cluster.kubeconfig import Kubeconfig

STRUCTURED = Phase("structured", math.inf, 6, demo_traffic.STRUCTURED, 0.0, 200, 200)
PROSE = Phase("prose", math.inf, 6, demo_traffic.PROSE, 0.2, 200, 200)
HOT = Phase("hot", math.inf, 6, demo_traffic.TALK, 0.9, 200, 200)

LOOK_SECONDS = 0.3
TICK_SECONDS = 0.02
ANSWER_SECONDS = 30.0
AGAIN_SECONDS = 0.1
"""What a client waits after a failure."""


class Traffic:
    """Requests for the length of an async block, each to the least busy pod that is Ready and not ending.

    In a closed loop (`requests_per_second` None) each of `phase.clients` clients sends its next request when the last
    one is answered.  In an open loop requests come at their rate, whatever the answers do.  Both may change any time.
    """

    def __init__(self, kubeconfig: Kubeconfig, namespace: str, labels: str, phase: Phase, rate: float | None) -> None:
        self.phase = phase
        self.requests_per_second = rate
        self.body: dict[str, object] = {}
        """Further fields of every request."""
        self.answered: Counter[str] = Counter()
        """Answers by pod."""
        self.failed: Counter[str] = Counter()
        """Requests that were refused or cut off, by pod."""
        self._kubeconfig = kubeconfig
        self._query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": labels}
        self._pods: dict[str, str] = {}
        self._busy: Counter[str] = Counter()
        self._sent = 0
        self._due = 0.0
        self._asks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Begin."""
        headers = {"Authorization": f"Bearer {self._kubeconfig.token}"}
        trust = ssl.create_default_context(cafile=self._kubeconfig.ca)
        self._api = httpx.AsyncClient(base_url=self._kubeconfig.url, headers=headers, verify=trust)
        # verify: without TLS there is nothing to verify, and reading all certificates takes long.
        unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(verify=False, timeout=ANSWER_SECONDS, limits=unlimited)
        self._loops = [asyncio.create_task(self._look()), asyncio.create_task(self._send())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up on every pod."""
        tasks = [*self._loops, *self._asks]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()
        await self._api.aclose()
        if failures := [end for end in ends if isinstance(end, Exception)]:
            raise ExceptionGroup("traffic failed", failures)

    def change(self, **fields: Any) -> None:
        """From the next request on, other `clients`, `prompt`, `temperature`, `prompt_tokens` or `output_tokens`."""
        self.phase = replace(self.phase, **fields)

    async def _look(self) -> None:
        """Keep the list of pods up to date; without an API server the last one holds."""
        path, query = self._query
        while True:
            try:
                answer = await self._api.get(path, params=query)
                if answer.is_success:
                    pods = answer.json()["items"] or ()
                    self._pods = {pod["metadata"]["name"]: _url(pod) for pod in pods if _is_ready(pod)}
            except httpx.TransportError:
                pass
            await asyncio.sleep(LOOK_SECONDS)

    async def _send(self) -> None:
        last = time.monotonic()
        while True:
            now = time.monotonic()
            for _ in range(self._wanted(now - last) if self._pods else 0):
                self._sent += 1
                pod = min(self._pods, key=lambda name: self._busy[name])
                self._busy[pod] += 1
                ask = asyncio.create_task(self._ask(pod, self._pods[pod], self._sent))
                self._asks.add(ask)
                ask.add_done_callback(self._asks.discard)
            last = now
            await asyncio.sleep(TICK_SECONDS)

    def _wanted(self, elapsed: float) -> int:
        """How many requests to send after so many seconds more."""
        if self.requests_per_second is None:
            return self.phase.clients - len(self._asks)
        self._due += elapsed * self.requests_per_second
        whole = int(self._due)
        self._due -= whole
        return whole

    async def _ask(self, pod: str, url: str, number: int) -> None:
        phase = self.phase
        own = {
            "prompt": demo_traffic.prompt(phase),
            "temperature": phase.temperature,
            "max_tokens": answer_length(phase, number, 0),
            "ignore_eos": True,
        }
        try:
            answer = await self._http.post(f"{url}/v1/completions", json={**own, **self.body})
            answer.raise_for_status()
            self.answered[pod] += 1
        except httpx.HTTPError:
            self.failed[pod] += 1
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._busy[pod] -= 1


def _url(pod: dict[str, Any]) -> str:
    return f"http://{pod['status']['podIP']}:8000"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
