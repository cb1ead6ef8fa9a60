"""The simulated server's HTTP side: routes, streams, and its `/metrics` page."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from specloop_sim.engine import Draining, EngineModel, Refused
from specloop_sim.request import Finish, Request
from specloop_sim.serve.live import live_tokens
from specloop_sim.serve.model_clock import ModelClock
from specloop_sim.serve.pacing import Answer, PacedEngine, Progress
from specloop_sim.serve.page import EnginePage, Tallies
from specloop_sim.serve.protocol import (
    Ask,
    BadRequest,
    error_body,
    filler,
    first_chunk,
    read_ask,
    text_chunk,
    usage_chunk,
    whole_answer,
)
from specloop_sim.serve.settings import VERSION, Settings
from specloop_sim.serve.web_meter import ProcessFamilies, WebMeter
from specloop_vllm.middleware import Middleware

SIMULATED = {"server": "specloop-sim"}
HANDLERS = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/models"})


class SimulatedServer:
    """One simulated vLLM: its engine, kept up with the clock, and the application that serves it."""

    def __init__(self, settings: Settings, clock: ModelClock, started: float) -> None:
        self._settings = settings
        self._clock = clock
        self._name = settings.served_names[0]
        self._served = 0
        tallies = Tallies(settings.max_model_len or settings.profile.max_model_len)
        engine = EngineModel(
            settings.profile,
            settings.level,
            seed=settings.seed,
            now=started,
            clustering=settings.clustering,
            probabilistic=settings.probabilistic,
            max_num_seqs=settings.max_num_seqs,
            max_model_len=settings.max_model_len,
            speed=1.0 / settings.faults.step_factor,
            watcher=tallies,
        )
        live = live_tokens(engine, VERSION, settings.table, settings.live_folder, controlled=settings.live)
        self.paced = PacedEngine(engine, clock, live.between_steps if live is not None else None)
        self._page = EnginePage(engine, tallies, self._name)
        self._process = ProcessFamilies(started)
        self._plugin = CollectorRegistry()
        self._metered = WebMeter(self._starlette(), clock, HANDLERS)
        self.application = Middleware(self._metered, registry=self._plugin) if settings.plugin else self._metered

    @property
    def engine(self) -> EngineModel:
        """The engine."""
        return self.paced.engine

    def _starlette(self) -> Starlette:
        """With the state by which vLLM tells its name to middleware."""
        application = Starlette(routes=self._routes())
        model = SimpleNamespace(served_model_name=list(self._settings.served_names))
        application.state.vllm_config = SimpleNamespace(model_config=model)
        return application

    def _routes(self) -> list[Route]:
        return [
            Route("/health", self._health),
            Route("/version", self._version),
            Route("/metrics", self._metrics),
            Route("/v1/models", self._models),
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
        ]

    async def _health(self, request: HttpRequest) -> Response:
        return Response(headers=SIMULATED)

    async def _version(self, request: HttpRequest) -> Response:
        return JSONResponse({"version": f"{VERSION}+simulated"}, headers=SIMULATED)

    async def _metrics(self, request: HttpRequest) -> Response:
        self.paced.catch_up()
        return Response(generate_latest(self), media_type=CONTENT_TYPE_LATEST, headers=SIMULATED)

    async def _models(self, request: HttpRequest) -> Response:
        card = {
            "id": self._name,
            "object": "model",
            "created": int(self.engine.started),
            "owned_by": "specloop-sim",
            "root": self._settings.model,
            "parent": None,
            "max_model_len": self.engine.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [card]}, headers=SIMULATED)

    async def _completions(self, request: HttpRequest) -> Response:
        return await self._generate(request, chat=False)

    async def _chat(self, request: HttpRequest) -> Response:
        return await self._generate(request, chat=True)

    async def _generate(self, http: HttpRequest, chat: bool) -> Response:
        self._served += 1
        number = self._served
        body = await http.body()
        try:
            ask = read_ask(body, chat, self._settings.served_names, number, self.engine.level.speculates)
            request = self._request(ask)
            answer = self.paced.submit(request, ask.streams)
        except (BadRequest, Refused) as error:
            return _error(error)
        created = int(request.arrival)
        if ask.streams:
            return StreamingResponse(_stream(ask, created, answer), media_type="text/event-stream", headers=SIMULATED)
        last = await _end_of(answer, http)
        if last is None:
            return Response(status_code=499)  # nobody is there to read it
        return JSONResponse(whole_answer(ask, created, last.tokens, last.finish or Finish.ABORT), headers=SIMULATED)

    def _request(self, ask: Ask) -> Request:
        """What the engine gets; raises BadRequest."""
        settings = self._settings
        request = ask.request(self._clock.now(), self.engine.max_model_len, settings.seed)
        if settings.faults.fails(settings.seed, ask.id):
            raise BadRequest("simulated fault", 500, "InternalServerError")
        return settings.faults.shortened(request)

    def collect(self) -> Iterator[Metric]:
        """All families of the page."""
        yield from self._process.families()
        yield from self._page.families(self._clock.now())
        yield from self._plugin.collect()
        yield from self._metered.families()


def _error(error: BadRequest | Refused) -> Response:
    status, kind = 400, "BadRequestError"
    if isinstance(error, BadRequest):
        status, kind = error.status, error.kind
    elif isinstance(error, Draining):
        status, kind = 503, "ServiceUnavailableError"
    return JSONResponse(error_body(str(error), status, kind), status, headers=SIMULATED)


async def _stream(ask: Ask, created: int, answer: Answer) -> AsyncIterator[str]:
    """An answer as server-sent events."""
    try:
        if (first := first_chunk(ask, created)) is not None:
            yield _event(first)
        sent = 0
        async for progress in answer:
            yield _event(text_chunk(ask, created, filler(sent, progress.tokens), progress.finish))
            sent = progress.tokens
        if ask.stream_usage:
            yield _event(usage_chunk(ask, created, sent))
        yield "data: [DONE]\n\n"
    finally:
        answer.close()


def _event(chunk: dict[str, object]) -> str:
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"


async def _end_of(answer: Answer, http: HttpRequest) -> Progress | None:
    """The end of an answer; None when the client went before."""
    end, gone = asyncio.create_task(answer.end()), asyncio.create_task(_disconnected(http))
    try:
        await asyncio.wait((end, gone), return_when=asyncio.FIRST_COMPLETED)
        return end.result() if end.done() else None
    finally:
        end.cancel()
        gone.cancel()
        answer.close()


async def _disconnected(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
