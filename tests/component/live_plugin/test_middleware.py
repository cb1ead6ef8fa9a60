"""What passes through the middleware passes untouched and at once, and what it asks for is counted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from specloop_vllm.exchange import Profile
from specloop_vllm.requests import MOST_BYTES
from specloop_vllm.steering import Steering
from tests.component.live_plugin.served import CHUNKS, Server, completion, served

Pair = tuple[Server, httpx.AsyncClient]


def names(folder: Path) -> list[str]:
    """Of the files there."""
    return sorted(path.name for path in folder.iterdir())


def open_files() -> int:
    """Of this process."""
    return len(names(Path("/proc/self/fd")))


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with served(tmp_path) as found:
        yield found


async def test_requests_are_counted_by_what_they_ask_for(pair: Pair) -> None:
    server, client = pair
    for fields in ({"temperature": 0.7, "max_tokens": 20}, {}, {"temperature": 0}):
        assert (await client.post("/v1/completions", content=completion(**fields))).json() == {"ok": True}
    assert server.value("specloop_request_temperature_count") == 3
    assert server.value("specloop_request_temperature_sum") == pytest.approx(0.7 + 1.0 + 0.0)
    assert server.value("specloop_request_max_tokens_count") == 1
    assert server.value("specloop_requests_total", status="2xx", stream="false") == 3


async def test_a_refusal_counts_by_its_status(pair: Pair) -> None:
    server, client = pair
    answer = await client.post("/v1/completions", content=completion(temperature=2), headers={"x-status": "422"})
    assert answer.status_code == 422
    assert server.value("specloop_requests_total", status="4xx", stream="false") == 1
    assert server.value("specloop_request_temperature_count") in (None, 0)


async def test_a_stream_comes_chunk_by_chunk(pair: Pair) -> None:
    """The application gives the next one only once the client has the one before, so nothing is kept back."""
    server, client = pair
    async with client.stream("POST", "/v1/chat/completions", content=completion(stream=True)) as answer:
        lines = answer.aiter_lines()
        for number in range(CHUNKS):
            server.next_chunk.set()
            assert await asyncio.wait_for(anext(lines), 5.0) == f"data: {number}"
            assert await anext(lines) == ""
    assert server.value("specloop_requests_total", status="2xx", stream="true") == 1


async def test_a_client_that_leaves_ends_its_stream(pair: Pair) -> None:
    server, client = pair
    async with client.stream("POST", "/v1/chat/completions", content=completion(stream=True)) as answer:
        server.next_chunk.set()
        await anext(answer.aiter_lines())
    await asyncio.wait_for(server.gone.wait(), 5.0)


async def test_a_body_in_chunks_reaches_the_application_whole(pair: Pair) -> None:
    server, client = pair
    body = completion(temperature=0.3, prompt="x" * 5000)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 700):
            yield body[start : start + 700]

    await client.post("/v1/completions", content=parts())
    assert server.bodies == [body]
    assert server.value("specloop_request_temperature_sum") == pytest.approx(0.3)


async def test_a_body_too_long_to_look_at_passes_and_is_said(pair: Pair) -> None:
    server, client = pair
    body = completion(prompt="x" * MOST_BYTES)
    assert (await client.post("/v1/completions", content=body)).status_code == 200
    assert server.bodies == [body]
    assert server.value("specloop_unread_requests_total") == 1


@pytest.mark.parametrize("body", [b"", b"no", b"\xff\x00", b"[" * 100_000])
async def test_what_cannot_be_read_passes(pair: Pair, body: bytes) -> None:
    server, client = pair
    assert (await client.post("/v1/completions", content=body)).json() == {"ok": True}
    assert server.bodies == [body]
    assert server.value("specloop_unread_requests_total") == 1


async def test_forms_pass(pair: Pair) -> None:
    server, client = pair
    answer = await client.post("/v1/audio/transcriptions", files={"file": b"sound"}, data={"temperature": "1.5"})
    assert answer.status_code == 200
    assert b"sound" in server.bodies[0]


async def test_only_who_shows_the_token_gets_an_answer_on_the_path_of_our_own(pair: Pair) -> None:
    server, client = pair
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = await client.put("/specloop/v1/speculation", content=b'{"generation": 1, "k": 2}', headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert not (server.folder / "desired.json").exists()
    assert (await client.get("/specloop/v1/speculation", headers=server.authorized)).status_code == 200
    assert (await client.delete("/specloop/v1/speculation", headers=server.authorized)).status_code == 405


async def test_a_wish_goes_to_the_engine_and_both_sides_are_on_the_page(pair: Pair) -> None:
    server, client = pair
    profile = Profile("0.32.0", "draft_model", "small", 5, 8)
    clock = iter(range(100))
    engine = Steering(server.folder, profile, [5] * 9, lambda words: None, lambda: float(next(clock)))
    path, own = "/specloop/v1/speculation", server.authorized
    assert (await client.put(path, content=b"garbage", headers=own)).status_code == 400
    assert (await client.put(path, content=b"x" * 70_000, headers=own)).status_code == 413
    answer = await client.put(path, content=b'{"generation": 1, "k": 9}', headers=own)
    assert (answer.status_code, answer.json()["pending"]) == (200, True)
    assert server.value("specloop_live_pending") == 1
    engine.look()
    assert (await client.get(path, headers=own)).json()["applied"]["clamped"] is True
    shown = {
        side: (
            server.value("specloop_live_generation", side=side),
            server.value("specloop_live_tokens", side=side, requests="1"),
        )
        for side in ("desired", "applied")
    }
    assert shown == {"desired": (1, 9), "applied": (1, 5)}
    assert server.value("specloop_live_clamped") == 1
    assert server.value("specloop_live_up") == 1
    assert server.value("specloop_live_pending") == 0


async def test_five_hundred_wishes_leave_one_file_each_way(pair: Pair) -> None:
    """And no file open."""
    server, client = pair
    profile = Profile("0.32.0", "draft_model", "small", 5, 8)
    Steering(server.folder, profile, [5] * 9, lambda words: None)
    open_before = open_files()
    for generation in range(1, 501):
        content = f'{{"generation": {generation}, "k": {generation % 6}}}'.encode()
        await client.put("/specloop/v1/speculation", content=content, headers=server.authorized)
    assert names(server.folder) == ["applied.json", "desired.json", "token"]
    assert open_files() <= open_before + 2


async def test_without_token_or_folder_there_is_no_such_path(tmp_path: Path) -> None:
    async with served(tmp_path, controlled=False) as (server, client):
        assert (await client.get("/specloop/v1/speculation", headers=server.authorized)).status_code == 404
