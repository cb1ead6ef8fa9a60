"""A small web server inside the operator's event loop, so that a blocked loop is seen as silence.

ListenError    the address cannot be listened on, or its certificate not read
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette

from specloop_operator.connections import ANSWER_SECONDS, CONNECTIONS, IDLE_SECONDS, Connection, Connections

SHUTDOWN_SECONDS = 2
"""Given to a request under way when the operator ends: pages are small, and the pod's grace period is for roll-outs."""

ALL, ALL_OF_IPV4 = "::", "0.0.0.0"
"""Addresses that stand for all of a machine's."""

RENEWAL_SECONDS = 60.0
"""Between two looks at the certificate's files: as long as a kubelet may take to bring a changed Secret."""


class ListenError(OSError):
    """The address cannot be listened on; another setting, or ending who has it, helps."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: the server's certificate and key, and the certificates that clients' are checked against."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """None: clients are asked for no certificate."""

    def context(self) -> ssl.SSLContext:
        """TLS with the files as they are now; raises OSError, of which ssl's errors are."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def changed_at(self) -> tuple[int, ...]:
        """When the files were last written."""
        files = [file for file in (self.certificate, self.key, self.client_ca) if file is not None]
        return tuple(file.stat().st_mtime_ns for file in files)


class Server:
    """Serves from entering to leaving the context; port 0 takes any free one."""

    def __init__(
        self,
        application: Starlette,
        what: str,
        address: str,
        port: int,
        tls: Tls | None = None,
        *,
        renewal_seconds: float = RENEWAL_SECONDS,
        idle_seconds: int = IDLE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        connections: int = CONNECTIONS,
        dual_stack: Callable[[], bool] = socket.has_dualstack_ipv6,
    ) -> None:
        """`what` names the pages in errors; `dual_stack`: whether one socket can take both IPv4 and IPv6."""
        self._what = what
        self._address = (address, port)
        self._tls = tls
        self._renewal_seconds = renewal_seconds
        self.port = port
        """The port that it listens on."""
        self._config = uvicorn.Config(
            application,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=idle_seconds,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._answer_seconds, self._connections, self._dual_stack = answer_seconds, connections, dual_stack
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to serve; connections are taken from now on.  Raises ListenError."""
        if self._tls is not None:
            seen, self._latest = self._certificate(self._tls)
            context = self._latest
            context.sni_callback = self._show_latest
            self._config.ssl_context_factory = lambda *_: context
            self._tasks.append(asyncio.create_task(self._renewing(self._tls, seen), name="certificates"))
        listening = _listen(self._what, *self._address, self._dual_stack)
        self.port = listening.getsockname()[1]
        self._server = _Server(self._config, listening, self._connections, self._answer_seconds)
        self._tasks.insert(0, asyncio.create_task(self._server.serve(), name=f"server of {self._what}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and let requests under way finish."""
        self._server.should_exit = True
        serving, *renewing = self._tasks
        for task in renewing:
            task.cancel()
        await serving

    def _certificate(self, tls: Tls) -> tuple[tuple[int, ...], ssl.SSLContext]:
        try:
            return tls.changed_at(), tls.context()
        except OSError as error:
            raise ListenError(f"cannot serve {self._what} with {tls.certificate} and {tls.key}: {error}") from error

    async def _renewing(self, tls: Tls, seen: tuple[int, ...]) -> None:
        """Take up certificates that were renewed."""
        while True:
            await asyncio.sleep(self._renewal_seconds)
            with contextlib.suppress(OSError):  # half-written files are whole at the next look
                if (now := tls.changed_at()) != seen:
                    seen, self._latest = now, tls.context()

    def _show_latest(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Go on with the latest certificates, of clients as well: what is trusted no more is in the old context yet.

        OpenSSL asks at every handshake, whether or not the client names a server.
        """
        connection.context = self._latest


def _listen(what: str, address: str, port: int, dual_stack: Callable[[], bool]) -> socket.socket:
    """Open the port; raises ListenError.  `::` is every address there is, of IPv4 alone where there is no IPv6."""
    if address == ALL and not dual_stack():
        address = ALL_OF_IPV4
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=CONNECTIONS, dualstack_ipv6=address == ALL)
    except OSError as error:
        raise ListenError(f"cannot listen on {address} port {port} for {what}: {error}") from error


class _Server(uvicorn.Server):
    """uvicorn with connections of ours, and without its own handling of signals: they are the operator's."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, most: int, answer_seconds: float) -> None:
        super().__init__(config)
        self._listening, self._most, self._answer_seconds = listening, most, answer_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections; asyncio's own server, which is not made, would count none."""
        self.servers = []
        self._connections = Connections(
            self._listening, self._connection, self.config.ssl, self._most, self.config.timeout_keep_alive
        )
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, and let requests under way finish."""
        await self._connections.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self._answer_seconds)
