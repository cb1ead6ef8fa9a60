"""An HTTP or HTTPS server on loopback that answers every request alike and keeps what it was asked with."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.component.sources.certificates import Pair


class Server(ThreadingHTTPServer):
    """It answers with `body`, until `tls` says otherwise over https."""

    body = b""
    tls: ssl.SSLContext | None = None

    def __init__(self) -> None:
        self.asked: list[Message] = []
        """The headers of every request."""
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.server_port}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the thread of the connection."""
        with request if self.tls is None else self.tls.wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def handle_error(self, *_: object) -> None:
        """A client that does not trust us goes away; it is what tests look at."""


class Handler(BaseHTTPRequestHandler):
    """Answers every request with the server's body."""

    server: Server

    def do_GET(self) -> None:
        """Answer, and close the connection."""
        self.server.asked.append(self.headers)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def serving(body: str, own: Pair | None = None, asks_for: Pair | None = None) -> Iterator[Server]:
    """A server for the length of a block; with `asks_for`, clients need a certificate of that authority."""
    with Server() as server:
        server.body = body.encode()
        if own is not None:
            server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.tls.load_cert_chain(own.cert, own.key)
            if asks_for is not None:
                server.tls.verify_mode = ssl.CERT_REQUIRED
                server.tls.load_verify_locations(asks_for.cert)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
