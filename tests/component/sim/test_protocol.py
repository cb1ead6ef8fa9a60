"""What a client sees of a simulated server, over HTTP."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from specloop_engine.service import service
from tests.component.sim.servers import DRAFT_K5, MIDDLEWARE, Server, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(*DRAFT_K5, *MIDDLEWARE, "--served-model-name", "demo", "other", speed=100) as one:
        yield one


def events(server: Server, path: str, **values: object) -> list[Any]:
    """The events of a stream, the last of which must be [DONE]."""
    with httpx.stream("POST", f"{server.url}{path}", json={**values, "stream": True}, timeout=60.0) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_an_answer_cut_by_max_tokens_says_so_and_counts_its_tokens(server: Server) -> None:
    answer = server.complete(prompt="Return JSON", max_tokens=7, ignore_eos=True, model="other")
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {
        "prompt_tokens": 3,
        "total_tokens": 10,
        "completion_tokens": 7,
        "prompt_tokens_details": None,
    }
    assert (answer["object"], answer["model"]) == ("text_completion", "demo")
    assert len(answer["choices"][0]["text"].split()) == 7


def test_an_answer_with_room_ends_by_itself(server: Server) -> None:
    answer = server.complete(prompt="Return JSON", max_tokens=100_000)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] < 100_000


def test_the_length_of_an_answer_follows_from_the_request_id(server: Server) -> None:
    first, again, other = (
        server.complete(prompt="Hi", max_tokens=9999, request_id=name)["usage"]["completion_tokens"]
        for name in ("a", "a", "b")
    )
    assert first == again != other


def test_a_stream_brings_the_tokens_piece_by_piece_and_the_usage_last(server: Server) -> None:
    found = events(
        server,
        "/v1/completions",
        prompt="Write a story",
        max_tokens=10_000,
        ignore_eos=True,
        stream_options={"include_usage": True},
    )
    *pieces, last = found
    assert len(pieces) >= 2
    assert len("".join(piece["choices"][0]["text"] for piece in pieces).split()) == 10_000
    assert [piece["choices"][0]["finish_reason"] for piece in pieces][-1] == "length"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 10_000


def test_a_chat_is_answered_whole_and_in_a_stream(server: Server) -> None:
    ask = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "max_completion_tokens": 5}
    whole = server.post(ask, "/v1/chat/completions").json()
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"]["role"] == "assistant"
    first, *pieces = events(server, "/v1/chat/completions", **ask)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(piece["object"] == "chat.completion.chunk" for piece in pieces)
    assert len("".join(piece["choices"][0]["delta"]["content"] for piece in pieces).split()) <= 5


def test_it_says_what_it_is(server: Server) -> None:
    health = httpx.get(f"{server.url}/health")
    assert (health.status_code, health.headers["server"]) == (200, "specloop-sim")
    assert httpx.get(f"{server.url}/version").json() == {"version": "0.32.0+simulated"}
    card = httpx.get(f"{server.url}/v1/models").json()["data"][0]
    assert (card["id"], card["root"], card["owned_by"]) == ("demo", "tiny", "specloop-sim")
    assert "simulated" in server.complete(prompt="Hi", max_tokens=10, ignore_eos=True)["choices"][0]["text"]


@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ({"prompt": "Hi", "model": "unknown"}, 404, "does not exist"),
        ({"prompt": "Hi", "max_tokens": -1}, 400, "max_tokens"),
        ({"prompt": "Hi", "temperature": -1}, 400, "temperature must be non-negative"),
        ({"prompt": "Hi", "temperature": "hot"}, 400, "temperature"),
        ({"prompt": "Hi", "n": 2}, 400, "one choice"),
        ({"prompt": "Hi", "min_p": 0.1}, 400, "min_p"),
        ({"prompt": "Hi", "max_tokens": 10**9, "ignore_eos": True}, 400, "too large"),
        ({"prompt": "x" * 4 * 140_000}, 400, "maximum context length"),
        ({}, 400, "prompt"),
    ],
)
def test_bad_requests_are_answered_with_a_reason(
    server: Server, values: dict[str, object], status: int, message: str
) -> None:
    response = server.post(values)
    assert response.status_code == status
    assert response.json()["error"]["code"] == status
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_bad_request(server: Server, body: bytes) -> None:
    assert httpx.post(f"{server.url}/v1/completions", content=body).status_code == 400


def test_temperatures_are_counted_in_tenths(server: Server) -> None:
    def counted() -> dict[str, float]:
        lines = [line for line in server.page().splitlines() if line.startswith("specloop_request_temperature_bucket")]
        return {line.split('le="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    before = counted()
    for temperature in (0, 0.3, 0.35, None):
        server.complete(prompt="Hi", max_tokens=1, temperature=temperature)
    after = counted()
    assert list(after) == [str(tenth / 10) for tenth in range(21)] + ["+Inf"]
    new = {edge: after[edge] - before[edge] for edge in after}
    assert (new["0.0"], new["0.2"], new["0.3"], new["0.4"], new["0.9"], new["1.0"]) == (1, 1, 2, 3, 3, 4)


def test_a_client_who_goes_takes_its_request_along_and_is_in_no_figure_of_requests(server: Server) -> None:
    """As vLLM's issues 31503 and 55634 say: first tokens alone were counted."""
    before = server.sample()
    ask = {"prompt": "Write a story", "max_tokens": 100_000, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=ask, timeout=60.0) as response:
        lines = response.iter_lines()
        next(lines)
        assert server.sample().running == 1.0
    deadline = time.monotonic() + 20.0
    while server.sample().running and time.monotonic() < deadline:
        pass
    assert server.sample().running == 0.0
    found = service(before, server.sample())
    assert found is not None
    assert (found.finished_requests, found.output_tokens, found.decode_seconds) == (0.0, 0.0, 0.0)
    assert (found.failed_requests, found.first_tokens) == (0.0, 1.0)
