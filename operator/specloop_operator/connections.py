"""The connections of a web server: how many there may be, and how long each may be silent or slow.

uvicorn has limits for neither until TLS is agreed on, and few afterwards: who never says a word would hold as many
connections as they like, and as much memory, without showing any token.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

LOG = logging.getLogger("specloop.serving")

IDLE_SECONDS = 5
"""For TLS, for a request's head, and between two requests; uvicorn's own for the latter.  Each is a packet or two."""

ANSWER_SECONDS = 60.0
"""For a request from its head to its answer, and for what is left of the answer once the connection ends: twice what a
webhook's message may take, 10 s for its body and 20 s to be written down."""

CONNECTIONS = 256
"""At a time.  A kubelet, some Prometheus servers and Alertmanagers have a few each.  With TLS one holds 0.3 MB, most of
it the buffer of 256 KiB that asyncio reads into (`SSLProtocol.max_size`): 77 MB, of the chart's limit of 512Mi."""

TLS_LIMITS = ("ssl_handshake_timeout", "ssl_shutdown_timeout")
"""What asyncio calls the times for the first and the last words of TLS; its own are 60 and 30 s."""

PAUSE_SECONDS = 1.0
"""After an accept that failed for want of files or memory; asyncio's own servers wait for as long."""


class Connection(H11Protocol):
    """uvicorn's, with a limit for a request's head, for its answer, and for a body after its answer: it has none.

    Whoever sends or takes a byte now and then would hold one of the connections for ever.
    """

    def __init__(self, config: Config, state: ServerState, answer_seconds: float) -> None:
        super().__init__(config, state, {})
        self._answer_seconds = answer_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for_head = True

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Wait for the answer once the head is whole."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next head."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Count from the beginning when another thing is waited for, and not at every byte."""
        if self._deadline is None or self._waits_for_head is not self.idle:
            self._forget()
            self._waits_for_head = self.idle
            seconds = self.timeout_keep_alive if self.idle else self._answer_seconds
            self._deadline = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Let what is written still go out, but not for ever: who reads nothing holds a page each time."""
        self.transport.close()
        self._deadline = self.loop.call_later(self._answer_seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """A connection that was accepted."""

    socket: socket.socket
    connection: Connection
    beginning: "asyncio.Task[None]"
    """Agrees on TLS."""

    @property
    def open(self) -> bool:
        """Whether it is there still; asyncio closes the socket with the connection."""
        return self.socket.fileno() >= 0

    def drop(self) -> None:
        """End it at once."""
        self.beginning.cancel()
        if self.connection.transport is not None:
            self.connection.transport.abort()


class Connections:
    """Takes connections at a port from now on, so many at a time, which are counted before TLS.

    One more takes the place of the first of those that are idle, or of the first of all where none is: a probe is
    answered within milliseconds of its coming, and so never the first.  To refuse the new one would leave the port to
    whoever came before, and the kubelet would end the operator.
    """

    def __init__(
        self,
        listening: socket.socket,
        made: Callable[[], Connection],
        context: ssl.SSLContext | None,
        most: int,
        idle_seconds: float,
    ) -> None:
        """`context` has the certificates; without it there is no TLS."""
        self._listening, self._made, self._context, self._most = listening, made, context, most
        self._limits = {} if context is None else dict.fromkeys(TLS_LIMITS, idle_seconds)
        self._taken: list[_Taken] = []
        self._full = False
        listening.setblocking(False)
        self._taking = asyncio.create_task(self._take(), name="connections")

    async def close(self) -> None:
        """Take no more, and end those that have not begun."""
        self._taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._taking
        self._listening.close()
        for one in self._taken:
            one.beginning.cancel()

    async def _take(self) -> None:
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(self._listening)
            except OSError as error:
                LOG.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._make_room()
            connection = self._made()
            beginning = asyncio.create_task(self._begin(accepted, connection), name="a connection's beginning")
            self._taken.append(_Taken(accepted, connection, beginning))
            await asyncio.sleep(0)  # so that it has begun before it can be dropped, and those before it are served

    def _make_room(self) -> None:
        self._taken = [one for one in self._taken if one.open]
        if len(self._taken) >= self._most:
            first = next((one for one in self._taken if one.connection.idle), self._taken[0])
            self._taken.remove(first)
            first.drop()
            if not self._full:  # a line for each would be one a connection
                LOG.warning("there are %d connections to a port: from now on each new one ends another", self._most)
            self._full = True
        elif len(self._taken) < self._most // 2:
            self._full = False

    async def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        with contextlib.suppress(OSError):  # of which what TLS ends with is, and a client that has gone
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._context, **self._limits
            )
