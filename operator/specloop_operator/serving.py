"""A small web server inside the operator's event loop, so that a blocked loop is seen as silence.

ListenError    the address cannot be listened on, or its certificate not read
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette

SHUTDOWN_SECONDS = 2
"""Given to a request under way when the operator ends: pages are small, and the pod's grace period is for roll-outs."""

RENEWAL_SECONDS = 60.0
"""Between two looks at the certificate's files: as long as a kubelet may take to bring a changed Secret."""

CONNECTIONS = 256
"""At a time; what is beyond gets 503.  A kubelet, some Prometheus servers and Alertmanagers have a few each."""


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

    def __init__(self, application: Starlette, what: str, address: str, port: int, tls: Tls | None = None) -> None:
        """`what` names the pages in errors."""
        self._what = what
        self._address = (address, port)
        self._tls = tls
        self.port = port
        """The port that it listens on."""
        self._config = uvicorn.Config(
            application,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = _Server(self._config)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to serve; connections are taken from now on.  Raises ListenError."""
        if self._tls is not None:
            seen, context = self._certificate(self._tls)
            self._config.ssl_context_factory = lambda *_: context
            self._tasks.append(asyncio.create_task(self._renewing(self._tls, context, seen), name="certificates"))
        listening = _listen(self._what, *self._address)
        self.port = listening.getsockname()[1]
        self._tasks.insert(0, asyncio.create_task(self._server.serve([listening]), name=f"server of {self._what}"))
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

    async def _renewing(self, tls: Tls, context: ssl.SSLContext, seen: tuple[int, ...]) -> None:
        """Take up certificates that were renewed; new connections get them."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            with contextlib.suppress(OSError):  # half-written files are whole at the next look
                if (now := tls.changed_at()) != seen:
                    tls.context()
                    context.load_cert_chain(tls.certificate, tls.key)
                    if tls.client_ca is not None:
                        context.load_verify_locations(tls.client_ca)
                    seen = now


def _listen(what: str, address: str, port: int) -> socket.socket:
    """Open the port; raises ListenError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = address == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((address, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ListenError(f"cannot listen on {address} port {port} for {what}: {error}") from error


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals: they are the operator's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield
