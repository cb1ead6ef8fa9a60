"""Clocks: the wall's, and one that runs faster for simulated servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn

from specloop_control.ports import Clock


class WallClock:
    """The wall's time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class FastClock:
    """A clock that shows the wall's time at `epoch` and runs `speed` times as fast from there."""

    def __init__(self, epoch: float, speed: float) -> None:
        self._epoch = epoch
        self._speed = speed

    def now(self) -> float:
        """Seconds since the epoch, on the fast clock."""
        return self._epoch + (time.time() - self._epoch) * self._speed

    async def sleep(self, seconds: float) -> None:
        """Wait this many of the fast seconds."""
        await asyncio.sleep(seconds / self._speed)


async def every(seconds: float, do: Callable[[], Awaitable[object]], clock: Clock) -> NoReturn:
    """Do something again and again, with this many of the clock's seconds in between."""
    while True:
        await do()
        await clock.sleep(seconds)
