"""The door for alerts: `POST /alerts`, as Alertmanager's webhook receiver sends them.

Who is asked for a token is asked before anything of the body is read, and told nothing.  Alertmanager sends again after
5xx alone, so that whatever may pass is 503, and 4xx is what sending again would not mend.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from specloop_control.credentials import CredentialError
from specloop_operator.alert_book import AlertBook, NoRoom
from specloop_operator.alertmanager import MessageError, read_message
from specloop_operator.cluster import ApiError
from specloop_operator.metrics import Metrics
from specloop_operator.pulse import Readiness

LOG = logging.getLogger("specloop.alerts")

MAX_BYTES = 4 * 1024 * 1024
"""Longest body: an alert has 1 to 2 kB, so that two thousand fit; longer lists are for Alertmanager's `max_alerts`."""

BODY_SECONDS = 10.0
"""In which a body must have come: Alertmanager and the operator are a few milliseconds apart."""

RECORD_SECONDS = 20.0
"""In which all policies must be written; Alertmanager's own limit for a notification is its group_interval, 5 min."""

RATE, BURST = 10.0, 50.0
"""Messages a second and at once: a group sends one in its group_interval, so that 50 groups may start together."""


class Bucket:
    """Lets through `rate` a second, and `burst` at once; `clock` counts seconds and never jumps."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self._burst, self._clock = burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> bool:
        """Whether one more may pass."""
        now = self._clock()
        self._left = min(self._burst, self._left + self.rate * (now - self._at))
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Doorkeeper:
    """Who may come in: whoever shows one of the tokens in a file, one a line; read again at every request."""

    def __init__(self, token_file: Path | None, same: Callable[[bytes, bytes], bool] = hmac.compare_digest) -> None:
        """Without a file, all that reach the door: their certificates were checked before."""
        self._file, self._same = token_file, same

    def admits(self, authorization: str) -> bool:
        """Whether the header carries a token; takes the same time whatever it carries.  Raises CredentialError."""
        if self._file is None:
            return True
        kind, _, shown = authorization.partition(" ")
        given = _digest(shown.strip())
        matches = [self._same(given, _digest(token)) for token in _tokens(self._file)]
        return kind.lower() == "bearer" and any(matches)


def webhook(
    book: AlertBook,
    door: Doorkeeper,
    bucket: Bucket,
    readiness: Readiness,
    metrics: Metrics,
    *,
    body_seconds: float = BODY_SECONDS,
    record_seconds: float = RECORD_SECONDS,
) -> Starlette:
    """The application."""

    async def alerts(request: Request) -> Response:
        status, words = await _taken(request, book, door, bucket, readiness, body_seconds, record_seconds)
        metrics.answered(status)
        if status >= 400 and status != 401:
            LOG.warning("a message of alerts was answered with %d: %s", status, words)
        headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}.get(status)
        return PlainTextResponse(words + "\n", status, headers)

    return Starlette(routes=[Route("/alerts", alerts, methods=["POST"])])


async def _taken(
    request: Request,
    book: AlertBook,
    door: Doorkeeper,
    bucket: Bucket,
    readiness: Readiness,
    body_seconds: float,
    record_seconds: float,
) -> tuple[int, str]:
    """What a request is answered with, and why."""
    try:
        if not door.admits(request.headers.get("authorization", "")):
            return 401, "send the token of this webhook as Authorization: Bearer TOKEN"
    except CredentialError as error:
        LOG.error("nobody can be let in: %s", error)
        return 503, "the webhook's token cannot be read"
    if readiness.missing:
        return 503, f"not ready: waiting for {', '.join(readiness.missing)}"
    if not bucket.take():
        return 503, f"more than {bucket.rate:g} messages a second"
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        return 415, "send the body as it is, not compressed"
    try:
        async with asyncio.timeout(body_seconds):
            body = await _body(request)
    except TimeoutError:
        return 503, f"the body did not come within {body_seconds:g} s"
    except ClientDisconnect:
        return 400, "the body was cut off"
    if body is None:
        return 413, f"the body is longer than {MAX_BYTES} bytes: set max_alerts in the receiver"
    try:
        message = read_message(body)
    except MessageError as error:
        return 400, f"this is no message of Alertmanager: {error}"
    try:
        async with asyncio.timeout(record_seconds):
            await book.record(message)
    except (ApiError, NoRoom, TimeoutError) as error:
        return 503, f"not recorded: {str(error) or f'it took more than {record_seconds:g} s'}"
    return 200, "recorded"


async def _body(request: Request) -> bytes | None:
    """All of it; None where it is too long, of which no more than that is kept."""
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > MAX_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _tokens(file: Path) -> list[str]:
    try:
        tokens = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"cannot read the tokens in {file}: {error}") from error
    if not tokens:
        raise CredentialError(f"there is no token in {file}")
    return tokens


def _digest(token: str) -> bytes:
    """So that lengths are the same."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
