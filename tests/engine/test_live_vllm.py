"""Live control inside a real vLLM: K changes while streams go on, and the engine's own counters show it."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.real_vllm import TOKEN, Vllm, authorized, drafts, lookups, running

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(420)]

PLUGIN = ("--middleware", "specloop_vllm.Middleware")
ASYNC = (*PLUGIN, "--scheduler-cls", "specloop_vllm.LiveAsyncScheduler")
# On processors vLLM schedules every method step by step (platforms/cpu.py sets async_scheduling to False).
SYNC = (*PLUGIN, "--scheduler-cls", "specloop_vllm.LiveScheduler")
TO_FIVE = [[1, 32, 5]]


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """Drafts five tokens, and may be told to draft fewer."""
    with running(tmp_path_factory.mktemp("vllm"), *SYNC, *drafts(5, TO_FIVE)) as found:
        yield found


def until(read: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + seconds
    while not read():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def test_k_goes_down_and_up_and_off_and_the_counters_show_it(vllm: Vllm) -> None:
    """5, 2, 0, 3: positions from K on stop counting."""
    for tokens in (5, 2, 0, 3):
        assert vllm.want(k=tokens).status_code == 200
        vllm.complete(tokens=5)  # an engine without requests takes nothing up
        moved = vllm.moved()
        assert all(one > 0 for one in moved[:tokens]), (tokens, moved)
        assert all(one == 0 for one in moved[tokens:]), (tokens, moved)
        shown = vllm.live()
        assert (shown["applied"]["generation"], shown["pending"]) == (shown["desired"]["generation"], False)
        assert (vllm.sample().tokens, vllm.sample().generation) == (tokens, shown["applied"]["generation"])


def test_an_idle_engine_takes_a_wish_at_its_next_request_and_says_so(vllm: Vllm) -> None:
    time.sleep(0.5)
    answer = vllm.want(k=1).json()
    assert (answer["pending"], answer["live"]) == (True, True)
    assert "next one" in answer["reason"]
    vllm.complete(tokens=5)
    assert vllm.live()["pending"] is False


def test_streams_go_on_whole_while_k_changes_under_them(vllm: Vllm) -> None:
    """Twenty at a time, at temperature 0 in float32: no more differ from a still run than two still runs do."""
    prompts = [f"{number} {number + 1} {number + 2}" for number in range(20)]

    def run() -> list[str]:
        with ThreadPoolExecutor(20) as pool:
            return list(pool.map(lambda prompt: streamed(vllm, prompt), prompts))

    vllm.want(k=5)
    first, second = run(), run()
    over = threading.Event()

    def change() -> None:
        wishes: list[dict[str, Any]] = [{"k": 2}, {"k": 0}, {"k": 3}, {"table": [[1, 4, 5], [5, 32, 1]]}, {"k": 5}]
        while not over.is_set():
            for wish in wishes:
                assert vllm.want(**wish).status_code == 200
                over.wait(0.1)

    changing = threading.Thread(target=change)
    changing.start()
    changed = run()
    over.set()
    changing.join()
    still = sum(one != other for one, other in zip(first, second, strict=True))
    assert all(changed)
    assert sum(one != other for one, other in zip(first, changed, strict=True)) <= still


def streamed(vllm: Vllm, prompt: str) -> str:
    """An answer that came in parts; its end is asserted."""
    body = {"model": "target", "prompt": prompt, "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    text, reason = "", None
    with httpx.stream("POST", f"{vllm.url}/v1/completions", json={**body, "stream": True}, timeout=120.0) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                [choice] = json.loads(line[6:])["choices"]
                text, reason = text + choice["text"], choice["finish_reason"]
    assert reason == "length"
    return text


def test_a_table_goes_by_the_number_of_requests(vllm: Vllm) -> None:
    """None is drafted from two requests on."""
    vllm.want(table=[[1, 1, 5], [2, 32, 0]])
    vllm.complete(tokens=5)
    assert vllm.moved()[4] > 0


def test_what_is_asked_for_wrongly_has_no_effect(vllm: Vllm) -> None:
    vllm.want(k=4)
    vllm.complete(tokens=5)
    before = vllm.live()
    url = f"{vllm.url}/specloop/v1/speculation"
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}):
        assert httpx.put(url, json={"generation": 99, "k": 0}, headers=headers).status_code == 401
    for body in (b"garbage", b"{}", b'{"generation": 99, "k": "0"}', b"[" * 10_000):
        assert httpx.put(url, content=body, headers=authorized()).status_code == 400
    vllm.complete(tokens=5)
    assert vllm.live() == before


def test_more_than_it_was_started_for_is_cut_down_and_the_engine_lives(vllm: Vllm) -> None:
    vllm.want(k=9)
    vllm.complete(tokens=5)
    assert vllm.live()["applied"]["clamped"] is True
    assert vllm.moved()[4] > 0


def test_what_requests_ask_for_is_on_its_own_page(vllm: Vllm) -> None:
    vllm.complete(tokens=5, temperature=0.7)
    page = vllm.page()
    assert 'specloop_request_temperature_bucket{le="0.7",model_name="target"}' in page
    assert 'specloop_default_temperature{model_name="target",origin=' in page
    assert 'specloop_live_up{model_name="target"} 1.0' in page


def test_thousands_of_wishes_leave_its_memory_as_it_was(vllm: Vllm) -> None:
    """Ten thousand; of the API server's memory, after the first thousand."""
    generation = vllm.live()["desired"]["generation"]
    with closing(HTTPConnection(vllm.url.removeprefix("http://"), timeout=10.0)) as client:  # the quickest there is

        def ask(count: int) -> None:
            nonlocal generation
            for _ in range(count):
                generation += 1
                wish = json.dumps({"generation": generation, "k": generation % 6})
                client.request("PUT", "/specloop/v1/speculation", wish, authorized())
                answer = client.getresponse()
                assert answer.read()
                assert answer.status == 200

        ask(1000)
        before = resident_kb(vllm.process.pid)
        ask(9000)
    assert resident_kb(vllm.process.pid) - before < 10_000


def resident_kb(pid: int) -> int:
    """Memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def test_an_engine_core_that_is_killed_is_said_and_the_next_one_has_its_k(vllm: Vllm) -> None:
    """Last of this engine's tests; the folder outlives it, as an emptyDir outlives a container."""
    vllm.want(k=2)
    vllm.complete(tokens=5)
    os.kill(vllm.live()["applied"]["pid"], signal.SIGKILL)

    def said() -> bool:
        try:
            return 'specloop_live_up{model_name="target"} 0.0' in vllm.page()
        except httpx.TransportError:
            return vllm.process.poll() is not None  # vLLM itself has ended for it

    until(said, "the page says so, or the server is gone")
    vllm.end()
    with running(vllm.folder.parent, *SYNC, *drafts(5, TO_FIVE)) as next_one:
        assert_two_are_drafted(next_one)


def assert_two_are_drafted(vllm: Vllm) -> None:
    """By the first request after the start, or the wish."""
    moved = vllm.moved()
    assert all(one > 0 for one in moved[:2]), moved
    assert not any(moved[2:]), moved


def test_n_gram_lookup_is_controlled_too(tmp_path: Path) -> None:
    with running(tmp_path, *SYNC, *lookups(4, [[1, 32, 4]])) as found:
        assert found.moved()[3] > 0
        found.want(k=2)
        found.complete(tokens=5)
        assert_two_are_drafted(found)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((*SYNC, *drafts(5)), "num_speculative_tokens_per_batch_size"),
        ((*ASYNC, *drafts(5, TO_FIVE)), "--scheduler-cls specloop_vllm.LiveScheduler"),
    ],
    ids=["no table", "wrong scheduler"],
)
def test_an_engine_that_cannot_be_controlled_serves_and_says_why(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    with running(tmp_path, *flags) as found:
        assert found.complete(tokens=5)
        assert said in found.live()["reason"]
        assert found.want(k=2).status_code == 409
