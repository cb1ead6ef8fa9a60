"""The clients of the live demo: each sends its next request when the last one is answered."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable

import httpx

from specloop_cli import demo_traffic
from specloop_control.process import ProcessActuator
from specloop_policy.rollout import Phase as ProcessPhase
from specloop_sim.phases import Phase, answer_length

POOLS = 24
"""Pools of connections that the clients share: finding a free one takes a pool the square of their number, and one
pool of 300 kept the loop from its scrapes for seconds."""

ANSWER_SECONDS = 120.0
"""On the wall's clock; far more than any answer takes."""

RATE_SECONDS = 30.0
"""Answers of the last so many seconds make up the tokens per second that are shown."""


class Clients:
    """Clients that each send their next request when the last one is answered, to the least busy server."""

    def __init__(
        self,
        actuator: ProcessActuator,
        phase: Callable[[], Phase],
        seed: int,
    ) -> None:
        # verify: the servers are on loopback without TLS, and every pool would read all certificates.
        self._pools = [httpx.AsyncClient(timeout=ANSWER_SECONDS, verify=False) for _ in range(POOLS)]
        self._actuator = actuator
        self._phase = phase
        self._seed = seed
        self._busy: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent = 0
        self.answered = 0
        self.failed = 0
        self._answers: deque[tuple[float, int]] = deque()

    def rate(self, now: float) -> str:
        """Tokens per second of the servers' time in answers of the last `RATE_SECONDS`."""
        while self._answers and self._answers[0][0] < now - RATE_SECONDS:
            self._answers.popleft()
        return f"{sum(tokens for _, tokens in self._answers) / RATE_SECONDS:,.0f} tokens/s"

    async def keep_going(self) -> None:
        """Keep as many requests under way as the phase has clients."""
        while True:
            for _ in range(self._phase().clients - len(self._tasks)):
                name = self._least_busy()
                if name is None:
                    break
                self._sent += 1
                task = asyncio.create_task(self._ask(name, self._phase(), self._sent))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Hang up on every server, so that none of them has to wait for an answer to be read."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(pool.aclose() for pool in self._pools))

    def _least_busy(self) -> str | None:
        serving = [name for name, one in self._actuator.engines.items() if one.phase is ProcessPhase.SERVING]
        return min(serving, key=lambda name: self._busy[name], default=None)

    async def _ask(self, name: str, phase: Phase, number: int) -> None:
        self._busy[name] += 1
        body = {
            "model": "demo",
            "prompt": demo_traffic.prompt(phase),
            "temperature": phase.temperature,
            "max_tokens": answer_length(phase, number, self._seed),
            "ignore_eos": True,
        }
        try:
            url = f"{self._actuator.engines[name].spec.url}/v1/completions"
            answer = await self._pools[number % POOLS].post(url, json=body)
            answer.raise_for_status()
            self._answers.append((self._actuator.clock.now(), answer.json()["usage"]["completion_tokens"]))
            self.answered += 1
        except httpx.HTTPError:
            self.failed += 1  # cut off by a restart; its client asks again
            await asyncio.sleep(0.05)
        finally:
            self._busy[name] -= 1
