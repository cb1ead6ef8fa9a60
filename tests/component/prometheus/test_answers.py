"""Asking over real HTTP: a good answer is read whole, and whatever goes wrong is one sentence with what to do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from specloop_control.prometheus_pages import Pages
from specloop_control.prometheus_server import Answer, Prometheus, PrometheusError, PrometheusSettings
from tests.support.raw_server import Answer as HttpAnswer
from tests.support.raw_server import RawServer, cut, endless, raw, raw_server, silent, text, trickle

SELECTOR = '{__name__="vllm:x"}'
GOOD: dict[str, Any] = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [{"metric": {"__name__": "vllm:x"}, "values": [[99.5, "0"], [100.25, "1"], [110.0, "NaN"]]}],
    },
}


class Everywhere(dict[str, HttpAnswer]):
    """The same answer to every path."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__()
        self.answer = answer

    def get(self, key: str, default: object = None) -> HttpAnswer:
        """The answer."""
        return self.answer


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


async def ask(server: RawServer, answer: HttpAnswer, *, seconds: float = 5.0, **settings: Any) -> Answer:
    """What comes of a query that is answered like this."""
    server.answers = Everywhere(answer)
    url = settings.pop("url", server.url)
    with closing(Prometheus(PrometheusSettings(url, timeout_seconds=seconds, **settings))) as prometheus:
        return await asyncio.to_thread(prometheus.values, SELECTOR, 99.5, 110.0)


async def test_values_have_their_own_times_and_the_one_at_the_start_is_left_out(server: RawServer) -> None:
    """Prometheus before 3.0 counts both ends of a range in, later ones leave the start out."""
    answer = await ask(server, text(json.dumps(GOOD)))
    assert answer.series[0]["values"] == [[100.25, "1"], [110.0, "NaN"]]
    assert answer.values == 2
    assert answer.warnings == ()
    assert "query=%7B__name__%3D%22vllm%3Ax%22%7D%5B10500ms%5D" in server.asked[0]
    assert "time=110.000" in server.asked[0]


async def test_warnings_are_heard(server: RawServer) -> None:
    answer = await ask(server, text(json.dumps({**GOOD, "warnings": ["a store is away"]})))
    assert answer.warnings == ("a store is away",)


async def test_a_path_before_the_api_is_kept(server: RawServer) -> None:
    await ask(server, text(json.dumps(GOOD)), url=f"{server.url}/monitoring/")
    assert server.asked[0].startswith("/monitoring/api/v1/query?")


BAD: dict[str, tuple[HttpAnswer, str, bool]] = {
    "a query that is too much": (
        text('{"status":"error","errorType":"execution","error":"too many samples"}', status="422 Unprocessable"),
        "refused with status 422: too many samples",
        True,
    ),
    "a query that took too long": (
        text('{"status":"error","errorType":"timeout","error":"query timed out"}', status="503 Service Unavailable"),
        "refused with status 503: query timed out",
        True,
    ),
    "a wrong query": (
        text('{"status":"error","errorType":"bad_data","error":"parse error"}', status="400 Bad Request"),
        "refused with status 400: parse error",
        False,
    ),
    "a missing token": (text("no", status="401 Unauthorized"), "status 401: it wants a token", False),
    "another address": (text("Not Found", status="404 Not Found"), "status 404: is the address right?", False),
    "HTML": (text("<html><body>Sign in</body></html>"), "answers nothing that a Prometheus would", False),
    "JSON of something else": (text('{"detail": "hello"}'), "answers nothing that a Prometheus would", False),
    "a list": (text("[]"), "answers nothing that a Prometheus would", False),
    "a vector": (
        text('{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}'),
        "answers no ranges of values",
        False,
    ),
    "values without times": (
        text('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["a","b"]]}]}}'),
        "values that are no samples",
        False,
    ),
    "brackets without end": (text("[" * 100_000), "brackets nested too deep", False),
    "half an answer": (cut(json.dumps(GOOD), 60), "cannot be reached", False),
    "no HTTP": (raw(b"220 mail.example.org ESMTP\r\n"), "cannot be reached", False),
    "no answer": (silent(), "did not answer within 0.5 s", True),
    "an answer that trickles": (trickle(" " * 500 + json.dumps(GOOD), 0.01), "did not answer within 0.5 s", True),
}


@pytest.mark.parametrize("case", BAD)
async def test_whatever_goes_wrong_is_one_sentence(server: RawServer, case: str) -> None:
    answer, words, shorter = BAD[case]
    with pytest.raises(PrometheusError) as caught:
        await ask(server, answer, seconds=0.5)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert caught.value.shorter is shorter


@pytest.mark.parametrize(
    "series", [{"metric": {}, "values": [[1.0, "2"]]}, {"metric": {"__name__": "x"}, "values": [[1, "two"]]}]
)
def test_a_series_without_a_name_or_a_number_is_no_sample(series: dict[str, object]) -> None:
    with pytest.raises(PrometheusError, match="answers values that are no samples"):
        Pages(PrometheusSettings("http://127.0.0.1:9")).samples(Answer([series]))


async def test_an_answer_that_never_ends_is_cut_off_by_its_size(server: RawServer) -> None:
    with pytest.raises(PrometheusError, match="the answer is above 256 MB") as caught:
        await ask(server, endless(b" " * 1_000_000), seconds=60.0)
    assert caught.value.shorter


async def test_nobody_there_is_one_sentence(server: RawServer) -> None:
    with pytest.raises(PrometheusError, match=r"^http://127\.0\.0\.1:1 cannot be reached: connection refused$"):
        await ask(server, silent(), url="http://user:secret@127.0.0.1:1")


class Asked(BaseHTTPRequestHandler):
    """Answers every query, and keeps what it was authorised with."""

    authorisations: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        """The good answer."""
        self.authorisations.append(self.headers["Authorization"])
        body = json.dumps(GOOD).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def test_a_token_is_read_again_for_every_query(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings = PrometheusSettings(f"http://127.0.0.1:{server.server_port}", token_file=token)
        with closing(Prometheus(settings)) as prometheus:
            with pytest.raises(PrometheusError, match="cannot read the token"):
                prometheus.values(SELECTOR, 0.0, 1.0)
            for word in ("one\n", "two"):
                token.write_text(word)
                prometheus.values(SELECTOR, 0.0, 1.0)
        server.shutdown()
    assert Asked.authorisations == ["Bearer one", "Bearer two"]
