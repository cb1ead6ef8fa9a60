"""Open-loop traffic: requests that come when they come, however long the answers take."""

from bisect import bisect_right
from collections.abc import Sequence

from specloop_sim.request import Request


class OpenLoop:
    """Requests in the order of their arrivals."""

    closed_loop = False

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._next = 0

    def arrivals(self, now: float, until: float, outstanding: int) -> list[Request]:
        """The requests that come by `until` and were not given yet."""
        first = self._next
        self._next = bisect_right(self._requests, until, lo=first, key=lambda request: request.arrival)
        return list(self._requests[first : self._next])
