"""What live control costs an engine and how soon it acts: on a real vLLM for processors, and over a hundred pods.

    python -P benchmarks/live.py [-o json]

Three engines that differ in one thing each (bare; with the middleware; with table and scheduler too) are loaded in
turns, never two at once, in another order every round.  Then K changes under two streams of the last one.  The pods of
the fleet are simulated: a web server each with the real middleware, and a loop of steps with the real plugin's side of
the engine core.  Where nobody has installed the vLLM of `make test-engine`, the fleet is all that is measured.

Six minutes on two quiet cores.  Every part ends when its time is up, with fewer rounds or changes, which it says.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import create_server
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests' real vLLM

import httpx
import uvicorn
from prometheus_client import CollectorRegistry
from tests.support.real_vllm import TOKEN, Vllm, authorized, drafts, find_python, running

from specloop_control.live import LiveControl, Standing
from specloop_vllm.control import TOKEN_FILE
from specloop_vllm.exchange import FOLDER, Profile, applied_letter, read_applied
from specloop_vllm.middleware import Message, Middleware
from specloop_vllm.steering import Steering
from specloop_vllm.tables import constant, lookup

ROUNDS, ROUNDS_SECONDS = 40, 180.0
CLIENTS, REQUESTS, TOKENS = 4, 4, 60
"""Of one engine's turn: streams at a time, streams in all, and tokens of each."""
QUIET_SECONDS = 1.3
"""After a turn: for a second after its last step an idle engine still spins."""
CHANGES, CHANGES_SECONDS, STREAMS = 300, 60.0, 2
LOOK_SECONDS = 0.005

PODS, PROCESSES = 100, 4
FLEET_CHANGES, FLEET_SECONDS = 60, 120.0
STEP_SECONDS = 0.03
"""Of a simulated pod: a decode step of a large model."""
PROFILE = Profile("0.32.0", "draft_model", "draft", 5, 256)
CONTEXT = multiprocessing.get_context("spawn")

MIDDLEWARE = ("--middleware", "specloop_vllm.Middleware")
SIDES = {
    "bare": drafts(5),
    "middleware": (*MIDDLEWARE, *drafts(5)),
    "live": (*MIDDLEWARE, "--scheduler-cls", "specloop_vllm.LiveScheduler", *drafts(5, [[1, 32, 5]])),
}


@dataclass(frozen=True)
class Turn:
    """What one engine did in one round."""

    tokens_per_second: float
    request_seconds: float
    """Mean, from the request to the end of its stream."""
    server_seconds: float
    """Of the processor, in the API server alone: it never spins."""


def main() -> int:
    """Measure, and print a table or one line of JSON."""
    parser = argparse.ArgumentParser(description="What live control costs an engine, and how soon it acts.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        figures = fleet(folder)
        if find_python() is None:
            say("there is no real vLLM here (make test-engine installs it): the fleet is all that was measured")
        else:
            figures = {**on_a_real_vllm(folder), **figures}
    if output == "json":
        print(json.dumps(figures))
        return 0
    for name, figure in figures.items():
        print(f"{name:42} {figure:12,.4g}")
    return 0


def on_a_real_vllm(folder: Path) -> dict[str, float]:
    """What it costs there, and from a wish to the step that follows it."""
    with ExitStack() as stack:
        engines = {}
        for name, flags in SIDES.items():
            say(f"starting a vLLM: {name}")
            (folder / name).mkdir()
            engines[name] = stack.enter_context(running(folder / name, *flags))
        say(f"{ROUNDS} rounds")
        rounds = list(in_turns(engines))
        say(f"{CHANGES} changes of K")
        return {**costs(rounds), **first_steps(engines["live"])}


def in_turns(engines: Mapping[str, Vllm]) -> Iterator[Mapping[str, Turn]]:
    """Rounds in which every engine is loaded once; the first, in which all is new to them, does not count."""
    names, deadline = list(engines), time.monotonic() + ROUNDS_SECONDS
    for number in range(ROUNDS + 1):
        if time.monotonic() > deadline:
            return
        random.Random(number).shuffle(names)
        turns = {name: turn(engines[name]) for name in names}
        if number:
            yield turns


def turn(vllm: Vllm) -> Turn:
    """Load one engine, and let it come to rest."""
    used, began = processor_seconds(vllm.process.pid), time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        taken = list(pool.map(partial(stream, vllm), (f"{number} {number + 1}" for number in range(REQUESTS))))
    seconds = time.perf_counter() - began
    time.sleep(QUIET_SECONDS)
    return Turn(REQUESTS * TOKENS / seconds, statistics.mean(taken), processor_seconds(vllm.process.pid) - used)


def processor_seconds(pid: int) -> float:
    """What a process has used of the processor, all threads (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stream(vllm: Vllm, prompt: str, tokens: int = TOKENS) -> float:
    """Seconds that a streamed answer took to its end."""
    body = {"model": "target", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    began, last = time.perf_counter(), b""
    with httpx.stream("POST", f"{vllm.url}/v1/completions", json={**body, "stream": True}, timeout=120.0) as answer:
        for part in answer.iter_bytes():
            last = (last + part)[-32:]
    assert last.endswith(b"data: [DONE]\n\n"), last
    return time.perf_counter() - began


def costs(rounds: Sequence[Mapping[str, Turn]]) -> dict[str, float]:
    """Each side against the one that lacks one thing; medians over rounds, with the quartiles of ratios."""
    figures: dict[str, float] = {"rounds": len(rounds)}
    for name in SIDES:
        figures[f"{name}TokensPerSecond"] = round(statistics.median(one[name].tokens_per_second for one in rounds), 1)
    for what, side, other in (("middleware", "middleware", "bare"), ("table", "live", "middleware")):
        pairs = [(one[side], one[other]) for one in rounds]
        figures |= spread(f"{what}TokensPerSecondRatio", [a.tokens_per_second / b.tokens_per_second for a, b in pairs])
        figures |= spread(f"{what}RequestSecondsRatio", [a.request_seconds / b.request_seconds for a, b in pairs])
        figures |= spread(f"{what}ServerProcessorRatio", [a.server_seconds / b.server_seconds for a, b in pairs])
    return figures


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    first, median, third = statistics.quantiles(values, n=4)
    return {name: round(median, 3), f"{name}Q1": round(first, 3), f"{name}Q3": round(third, 3)}


def first_steps(vllm: Vllm) -> dict[str, float]:
    """From the PUT to the step that has the new K, while streams go on.

    The engine core writes applied.json before that step, so the time of the file is taken, which the kernel knows to
    4 ms or better: whoever looks at it all the time takes a core from the engine, and comes late when it has none.
    """
    rng, taken, deadline = random.Random(1), [], time.monotonic() + CHANGES_SECONDS
    letter = applied_letter(vllm.folder)
    with streaming(vllm), httpx.Client(headers=authorized(), timeout=10.0) as client:
        generation = (vllm.live()["desired"] or {"generation": 0})["generation"]
        for number in range(CHANGES):
            if time.monotonic() > deadline:
                break
            time.sleep(rng.uniform(0.0, 0.1))  # the engine looks every 50 ms
            generation += 1
            began, wish = time.time(), {"generation": generation, "k": (1, 3, 5)[number % 3]}
            answer = client.put(f"{vllm.url}/specloop/v1/speculation", json=wish)
            assert answer.status_code == 200, answer.text
            while read_applied(letter.read()).generation != generation:
                time.sleep(LOOK_SECONDS)
            taken.append(letter.path.stat().st_mtime - began)
    return {
        "changes": len(taken),
        "putToStepMillisecondsP50": milliseconds(taken, 50),
        "putToStepMillisecondsP99": milliseconds(taken, 99),
    }


@contextmanager
def streaming(vllm: Vllm) -> Iterator[None]:
    """Streams one after the other, some at a time."""
    over = threading.Event()

    def go_on(client: int) -> None:
        turns = 0
        while not over.is_set():
            turns += 1
            stream(vllm, f"{client} {turns}", tokens=900)

    with ThreadPoolExecutor(STREAMS) as pool:
        goings = [pool.submit(go_on, client) for client in range(STREAMS)]
        try:
            time.sleep(0.5)
            yield
        finally:
            over.set()
        for one in goings:
            one.result()


def milliseconds(seconds: Sequence[float], percent: int) -> float:
    """A percentile."""
    return round(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 1)


def fleet(folder: Path) -> dict[str, float]:
    """From a new table to a round in which every pod says that it is in force."""
    say(f"{FLEET_CHANGES} changes over {PODS} simulated pods")
    (folder / "token").write_text(TOKEN)
    mine, theirs = CONTEXT.Pipe()
    share = PODS // PROCESSES
    processes = [
        CONTEXT.Process(target=serve, args=(folder, range(first, first + share), theirs), daemon=True)
        for first in range(0, PODS, share)
    ]
    for one in processes:
        one.start()
    try:
        urls: dict[str, str] = {}
        while len(urls) < PODS:
            assert mine.poll(60.0), "pods did not start: the reason is above"
            urls |= mine.recv()
        return asyncio.run(change_all(urls, [applied_letter(folder / name).path for name in urls]))
    finally:
        for one in processes:
            one.kill()
            one.join()


async def change_all(urls: Mapping[str, str], files: Sequence[Path]) -> dict[str, float]:
    """Change all pods again and again, with a client as the operator has it: three requests a pod.

    Two figures: until the last pod's next step, by the time of its applied.json, and until a second round has shown it
    of every pod.
    """
    in_force, shown, used, rounds, deadline = [], [], [], [], time.monotonic() + FLEET_SECONDS
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, limits=limits) as client:
        control = LiveControl(client, authorized())
        for number in range(FLEET_CHANGES + 1):
            if time.monotonic() > deadline:
                break
            wanted = (1, 8, 5), (9, 256, number % 5)
            began, processor, asked, standings = time.time(), time.process_time(), 0, {Standing.PENDING}
            while standings != {Standing.APPLIED}:
                asked += 1
                found = await control.bring(urls, wanted)
                standings = {one.standing for one in found.values()}
                if Standing.UNREACHABLE in standings:
                    reasons = Counter(one.reason for one in found.values() if one.standing is Standing.UNREACHABLE)
                    say(f"change {number}, round {asked}: {dict(reasons)}")
            if number:  # the first one finds servers that have served nobody
                shown.append(time.time() - began)
                in_force.append(max(file.stat().st_mtime for file in files) - began)
                used.append(time.process_time() - processor)
                rounds.append(asked)
    return {
        "fleetPods": PODS,
        "fleetChanges": len(shown),
        "fleetInForceMillisecondsP50": milliseconds(in_force, 50),
        "fleetInForceMillisecondsP99": milliseconds(in_force, 99),
        "fleetShownMillisecondsP50": milliseconds(shown, 50),
        "fleetShownMillisecondsP99": milliseconds(shown, 99),
        "fleetClientProcessorMillisecondsP50": milliseconds(used, 50),
        "fleetMostRounds": max(rounds),
    }


def serve(folder: Path, numbers: Sequence[int], listening: Any) -> None:
    """Be some of the pods, in a process of their own: one web server on all their ports, one loop of steps."""
    asyncio.run(_serve(folder, numbers, listening))


async def _serve(folder: Path, numbers: Sequence[int], listening: Any) -> None:
    urls, sockets, steerings, by_port = {}, [], [], {}
    for number in numbers:
        name = f"pod-{number}"
        own = folder / name
        own.mkdir()
        socket = create_server(("127.0.0.1", 0))
        port = socket.getsockname()[1]
        environment = {FOLDER: str(own), TOKEN_FILE: str(folder / "token")}
        by_port[port] = Middleware(nothing, environment=environment, registry=CollectorRegistry())
        start = lookup(constant(PROFILE.tokens), PROFILE.requests + 1, PROFILE.tokens).tokens
        steerings.append(Steering(own, PROFILE, start, say))
        urls[name] = f"http://127.0.0.1:{port}"
        sockets.append(socket)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await by_port[scope["server"][1]](scope, receive, send)

    listening.send(urls)
    config = uvicorn.Config(application, lifespan="off", interface="asgi3", log_level="critical")
    await asyncio.gather(uvicorn.Server(config).serve(sockets), make_steps(steerings))


async def make_steps(steerings: Sequence[Steering]) -> None:
    """For ever, with a look for wishes before each."""
    while True:
        for one in steerings:
            one.look()
        await asyncio.sleep(STEP_SECONDS)


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that nobody asks."""
    message: Message = {"type": "http.response.start", "status": 404, "headers": []}
    await send(message)
    await send({"type": "http.response.body", "body": b""})


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"benchmarks/live.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
