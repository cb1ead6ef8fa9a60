"""An event loop that waits for answers alone: while none is under way, it goes on to what is due next at once."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp

QUIET_SECONDS = 0.002
"""What is no request, such as the end of a connection, has this long to come before time is skipped."""


class _Skipping(selectors.DefaultSelector):
    """Counts the time that it did not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        self.under_way = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, now or soon."""
        if timeout is None or timeout <= QUIET_SECONDS or self.under_way > 0:
            return super().select(timeout)
        found = super().select(QUIET_SECONDS)
        if not found:
            self.skipped += timeout - QUIET_SECONDS
        return found


class NoWaiting(asyncio.SelectorEventLoop):
    """Its time is that of its clock, and what was skipped."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)
        self._unanswered = 0

    def time(self) -> float:
        """Seconds."""
        return super().time() + self._skipping.skipped

    def trace(self) -> aiohttp.TraceConfig:
        """By which it knows of a client's requests."""

        async def begun(*_: object) -> None:
            self._skipping.under_way += 1

        async def answered(*_: object) -> None:
            self._skipping.under_way -= 1

        async def failed(*_: object) -> None:
            self._skipping.under_way -= 1 - self._unanswered
            self._unanswered = 0

        found = aiohttp.TraceConfig()
        found.on_request_start.append(begun)
        found.on_request_end.append(answered)
        found.on_request_exception.append(failed)
        return found

    def wait_no_more(self) -> None:
        """The one request that is under way gets no answer."""
        self._skipping.under_way -= 1
        self._unanswered = 1


def loop() -> NoWaiting:
    """The one that runs."""
    found = asyncio.get_running_loop()
    assert isinstance(found, NoWaiting)
    return found


def without_waiting(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test on such a loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def whole() -> None:
            await test(*arguments, **named)

        _run(whole())

    return run


def _run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=NoWaiting) as runner:
        runner.run(main)
