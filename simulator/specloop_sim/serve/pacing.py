"""An engine model kept up with the clock, for requests that wait for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from specloop_sim.engine import EngineModel
from specloop_sim.request import Finish, Request
from specloop_sim.serve.model_clock import ModelClock

TICK_SECONDS = 0.01
"""How often, on the wall, answers go out while anything runs; what happens between two ticks is timed by the model."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an answer is: its tokens so far, and how it ended if it did."""

    tokens: int
    finish: Finish | None = None


class Answer:
    """One answer on its way; iterate over its progress, and close it when nobody listens any more."""

    __slots__ = ("_close", "_news", "streams", "tokens")

    def __init__(self, streams: bool, close: Callable[[], None]) -> None:
        self.streams = streams
        self.tokens = 0
        self._close = close
        self._news: asyncio.Queue[Progress] = asyncio.Queue()

    def tell(self, progress: Progress) -> None:
        """Pass on how far it is."""
        self.tokens = progress.tokens
        self._news.put_nowait(progress)

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """Progress as it comes where it `streams`, and its end."""
        while True:
            progress = await self._news.get()
            yield progress
            if progress.finish is not None:
                return

    async def end(self) -> Progress:
        """Its end, of an answer that does not stream."""
        return await self._news.get()

    def close(self) -> None:
        """Cancel the request unless it is over."""
        self._close()


class PacedEngine:
    """Runs an engine up to the clock's present, again and again, and tells those who wait."""

    def __init__(self, engine: EngineModel, clock: ModelClock, between_steps: Callable[[], None] | None = None) -> None:
        """`between_steps` is called again and again while the engine has work, as a scheduler is."""
        self._between_steps = between_steps
        self.engine = engine
        self.clock = clock
        self._answers: dict[str, Answer] = {}
        self._work = asyncio.Event()
        self.idle = asyncio.Event()
        """Whether nothing is under way."""
        self.idle.set()

    def submit(self, request: Request, streams: bool) -> Answer:
        """Put a request to the engine; raises its Refused."""
        self.engine.submit(request)
        answer = self._answers[request.id] = Answer(streams, partial(self._cancel, request.id))
        self._work.set()
        self.idle.clear()
        return answer

    async def run(self) -> None:
        """Keep up with the clock until cancelled; costs nothing while nothing runs."""
        while True:
            if self.engine.idle:
                self._work.clear()
                self.idle.set()
                await self._work.wait()
            await asyncio.sleep(TICK_SECONDS)
            self.catch_up()

    def catch_up(self) -> None:
        """Run the engine up to now and tell those who wait."""
        if self._between_steps is not None and not self.engine.idle:
            self._between_steps()
        self.engine.advance(self.clock.now())
        for finished in self.engine.finished():
            answer = self._answers.pop(finished.request.id, None)
            if answer is not None:
                answer.tell(Progress(finished.tokens, finished.finish))
        for name, answer in self._answers.items():
            if answer.streams and (tokens := self.engine.emitted(name)) > answer.tokens:
                answer.tell(Progress(tokens))

    def _cancel(self, name: str) -> None:
        if self._answers.pop(name, None) is not None:
            self.engine.cancel(name)
