"""A Prometheus server and what is asked of it: raw values of series, with the times at which they were scraped.

One instant query asks for a range of all series of all pods, so that the number of queries does not grow with the
pods.  `increase()` and range queries are never used: they resample, and what is between two scrapes is not known.

PrometheusError    the server does not answer, or refuses; `shorter` says whether asking for less may help
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from specloop_control.credentials import BasicAuth, CredentialError, bearer
from specloop_engine.reader import VLLM_PREFIX, wanted_series

LAG_SECONDS = 10.0
"""Prometheus' default `scrape_timeout`: a scrape's samples carry the time when it began and appear when it ended, so
that nothing older than this is still to come."""

TIMEOUT_SECONDS = 30.0
"""Prometheus gives a query up after two minutes by default; a loop that ticks every 30 s has no use for its answer."""

ANSWER_BYTES = 256 * 1024 * 1024
"""Longest answer that is read, some eight million values; it takes several times as much memory once it is read."""

READ_BYTES = 1024 * 1024
"""Read at a time; any size does."""

ANSWER_VALUES = 200_000
"""So many values are asked for at a time where there is a choice: 6 MB of answer, some 80 MB once it is read."""

MOST_GROWTH = 2.0
"""A span grows by doubling: what comes may hold more than what was."""

SHORTEST_SECONDS = 1.0
"""A span that is refused is halved down to here; a second of scrapes that is too much stays too much."""

NO_ANSWER = (408, 413, 422, 503)
"""Statuses of a query that took too long or was too much: Prometheus says 422 and 503, proxies the others."""

PASSING = (429, 502, 504)
"""Statuses after which the same query may well be answered."""

TENANT_HEADER = "X-Scope-OrgID"
"""What Mimir and Cortex tell tenants apart by."""

SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that hold secrets, which are given as files."""

REFUSALS = {401: "it wants a token", 403: "it forbids this query", 404: "is the address right?"}

FAILED_ALONE = ('status=~"(5.*)?"', 'code=""')
"""Of `http_requests_total`, which half the programs of a cluster have, the failures alone, as vLLM labels them; the
engines' own series have neither label."""

MATCHER = re.compile(r'\s*[a-zA-Z_]\w*\s*(=~|!~|!=|=)\s*"([^"\\\n]|\\.)*"\s*', re.ASCII)
"""One matcher of PromQL, such as `namespace="llm"`."""


class PrometheusError(ValueError):
    """The server did not give what was asked for; `shorter`: it may give as much of a shorter span."""

    def __init__(self, message: str, *, shorter: bool = False) -> None:
        super().__init__(message)
        self.shorter = shorter


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where the series are, and what they are called there."""

    url: str
    prefix: str = VLLM_PREFIX
    """What the names of vLLM's series begin with (KServe's monitor: "kserve_vllm:")."""
    namespace: str | None = None
    """Only pods of this namespace; with None, pods are called `namespace/pod` where series say both."""
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    """Label that names the pod; series without it belong to the pod named by their `instance`."""
    matchers: tuple[str, ...] = ()
    """Further matchers in PromQL, such as `cluster="west"`."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long an answer may take as a whole."""
    lag_seconds: float = LAG_SECONDS
    """How old data must be to be complete: the longest scrape time-out of the pods' jobs."""
    token_file: Path | None = None
    """File with a bearer token, read again for every query."""
    basic_auth: BasicAuth | None = None
    """A user and a password instead of a token, read again for every query."""
    ca_file: Path | None = None
    """Certificates, in PEM, that the server's is checked against; None: those that the system trusts."""
    cert_file: Path | None = None
    """Certificate, in PEM, that the server may ask for; read again for every connection, as the next two are."""
    key_file: Path | None = None
    """Its key; None: it stands in the same file."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of every query, none of them secret."""
    tenant: str | None = None
    """Whose series are asked for, where a server keeps those of several tenants."""

    def __post_init__(self) -> None:
        """Refuse what cannot be asked for, with PrometheusError."""
        if not _is_address(self.url):
            shown = "the address" if "@" in self.url else repr(self.url)  # it may hold a password
            raise PrometheusError(f"{shown} is none of a Prometheus: give one such as http://host:9090")
        for one in self.matchers:
            if not MATCHER.fullmatch(one):
                raise PrometheusError(f"""{one!r} is no matcher: give one such as 'model_name="chat"'""")
        for label in (self.namespace_label, self.pod_label):
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
                raise PrometheusError(f"{label!r} is no name of a label: letters, digits and _ alone")
        if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", self.prefix):
            raise PrometheusError(f"{self.prefix!r} begins no name of a series: give one such as {VLLM_PREFIX}")
        if self.token_file is not None and self.basic_auth is not None:
            raise PrometheusError("a token and a password: give one of them, a query carries one")
        if self.key_file is not None and self.cert_file is None:
            raise PrometheusError("a key without its certificate: give both")
        for name, value in self.sent_headers.items():
            _check_header(name, value)

    @property
    def source(self) -> str:
        """The address without credentials."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """The headers of every query, the tenant's among them."""
        return {**self.headers, **({} if self.tenant is None else {TENANT_HEADER: self.tenant})}

    @property
    def selector(self) -> str:
        """The series that are wanted, in PromQL."""
        names = "|".join(sorted(wanted_series(self.prefix)))
        return "{" + ",".join((f'__name__=~"{names}"', *FAILED_ALONE, *self.chosen)) + "}"

    @property
    def chosen(self) -> tuple[str, ...]:
        """The matchers that choose pods."""
        namespace = () if self.namespace is None else (f"{self.namespace_label}={json.dumps(self.namespace)}",)
        return (*namespace, *self.matchers)


def _check_header(name: str, value: str) -> None:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise PrometheusError(f"{name!r} is no name of a header: letters, digits and dashes")
    if name.lower() in SECRET_HEADERS:
        raise PrometheusError(f"the header {name} holds a secret: give it as a file, with a token or a password")
    if not (value.isascii() and value.isprintable()):
        raise PrometheusError(f"the header {name} must be one line of plain letters")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a range of series was: as Prometheus says it, with what it warned of."""

    series: Sequence[Mapping[str, Any]]
    """Each with its labels under "metric" and its pairs of time and value under "values"."""
    warnings: tuple[str, ...] = ()
    query: str = ""
    """What was asked, in PromQL as it was sent."""

    @property
    def values(self) -> int:
        """How many values there are."""
        return sum(len(one["values"]) for one in self.series)


class Server(Protocol):
    """What is asked of a Prometheus; raises PrometheusError."""

    def values(self, selector: str, start: float, end: float) -> Answer:
        """Every value of the series after `start` and up to `end`."""

    def names(self, selector: str, start: float, end: float) -> Sequence[str]:
        """Names of the series that there were between two times."""


class Prometheus:
    """A real server, asked through prometheus-api-client in the thread that calls.

    The client gives answers no size, has no limit on the time of a whole answer, and drops warnings; a hook on its
    session has all three.
    """

    def __init__(self, settings: PrometheusSettings, *, tries: int = 1) -> None:
        """Ask so many times where a failure may pass, a second apart and then two, four, ..."""
        self._settings = settings
        self._warnings: tuple[str, ...] = ()
        self._deadline = 0.0
        self._session = requests.Session()
        self._session.hooks["response"].append(self._read)
        self._session.verify = True if settings.ca_file is None else str(settings.ca_file)
        self._session.cert = _certificate(settings)
        self._client = PrometheusConnect(
            url=settings.url.rstrip("/"),
            session=self._session,
            timeout=settings.timeout_seconds,  # type: ignore[arg-type]  # of one read; requests takes fractions
            retry=Retry(
                total=tries - 1,
                read=False,  # a query that took too long is not asked again, but for less
                backoff_factor=1.0,
                status_forcelist=PASSING,
                raise_on_status=False,
                respect_retry_after_header=False,
            ),
        )

    def values(self, selector: str, start: float, end: float) -> Answer:
        """Every value of the series after `start` and up to `end`, both in whole milliseconds."""
        since, until = round(start * 1000.0), round(end * 1000.0)
        query = f"{selector}[{until - since}ms]"
        found = self._ask(lambda: self._client.custom_query(query, params={"time": f"{until / 1000.0:.3f}"}))
        if any("values" not in one for one in found):
            raise PrometheusError(f"{self._settings.source} answers no ranges of values: is it a Prometheus?")
        # Prometheus before 3.0 counts a value at the very start in.
        series = [{**one, "values": _after(one["values"], start)} for one in found]
        return Answer(series, self._warnings, query)

    def names(self, selector: str, start: float, end: float) -> Sequence[str]:
        """Names of the series that there were between two times."""
        params = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        found: Sequence[str] = self._ask(lambda: self._client.get_label_values("__name__", params=params))
        return found

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _ask(self, ask: Callable[[], Any]) -> Any:
        source, seconds = self._settings.source, self._settings.timeout_seconds
        self._identify()
        self._deadline = time.monotonic() + seconds
        self._warnings = ()
        try:
            return ask()
        except PrometheusError:
            raise
        except PrometheusApiClientException as error:
            raise self._refused(str(error)) from error
        except (requests.ReadTimeout, ReadTimeoutError) as error:
            raise PrometheusError(f"{source} did not answer within {seconds:g} s", shorter=True) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # of JSON, or of what is in it
            raise PrometheusError(f"{source} answers nothing that a Prometheus would: is the address right?") from error
        except (requests.RequestException, HTTPError) as error:
            raise PrometheusError(f"{source} cannot be reached: {_cause(error)}") from error
        except OSError as error:  # requests' own for a certificate's file that is not there
            raise PrometheusError(f"{source} cannot be asked: {error}") from error

    def _identify(self) -> None:
        """Say who asks, as the files have it now."""
        settings = self._settings
        try:
            self._client.headers = {**settings.sent_headers, **bearer(settings.token_file)}
            password = None if settings.basic_auth is None else settings.basic_auth.read()
        except CredentialError as error:
            raise PrometheusError(str(error)) from error
        self._client.auth = password  # type: ignore[assignment]  # None is its own default

    def _read(self, response: requests.Response, *_: object, **__: object) -> None:
        """Read an answer within the limits of size and time, parse it once, and keep its warnings."""
        body = bytearray()
        while part := response.raw.read1(READ_BYTES, decode_content=True):  # what there is, without waiting for more
            body += part
            if len(body) > ANSWER_BYTES:
                response.close()
                raise PrometheusError(f"the answer is above {ANSWER_BYTES // 1024**2} MB", shorter=True)
            if time.monotonic() > self._deadline:
                response.close()
                raise requests.ReadTimeout
        if response.status_code != requests.codes.ok:
            response._content = bytes(body)
        else:
            response._content = b""  # it is long, and read by nobody but us
            try:
                text = body.decode()
                del body  # long enough once
                parsed = json.loads(text, object_hook=_one_of_each())
            except RecursionError:
                raise PrometheusError(f"{self._settings.source} answers with brackets nested too deep") from None
            self._warnings = tuple(str(one) for one in parsed.get("warnings") or ())
            response.json = lambda **_: parsed  # type: ignore[method-assign]

    def _refused(self, message: str) -> PrometheusError:
        """The client's error in words: it quotes the status and the whole answer."""
        status = int(found[1]) if (found := re.search(r"HTTP Status Code (\d+)", message)) else 0
        quoted = re.search(r'"error":\s*"((?:[^"\\]|\\.)*)"', message)
        why = quoted[1] if quoted else REFUSALS.get(status, "")
        text = f"{self._settings.source} refused with status {status}" + (f": {why[:300]}" if why else "")
        return PrometheusError(text, shorter=status in NO_ANSWER)


def _after(values: Sequence[Any], start: float) -> Sequence[Any]:
    try:
        return values[1:] if values and values[0][0] <= start else values
    except (TypeError, LookupError):
        raise PrometheusError("the answer holds values that are no samples; is this a Prometheus?") from None


def _one_of_each() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What keeps equal labels of an answer's series once, which saves a third of its memory."""
    known: dict[str, str] = {}

    def shared(found: dict[str, Any]) -> dict[str, Any]:
        return {name: known.setdefault(label, label) for name, label in found.items()} if "__name__" in found else found

    return shared


def _certificate(settings: PrometheusSettings) -> str | tuple[str, str] | None:
    if settings.cert_file is None or settings.key_file is None:
        return None if settings.cert_file is None else str(settings.cert_file)
    return str(settings.cert_file), str(settings.key_file)


def _cause(error: BaseException) -> str:
    """The innermost reason of a failed connection, without the wrappings of three libraries."""
    text = str(error)
    if found := re.search(r"certificate verify failed: ([^(]+)", text):
        return f"its certificate is not trusted: {found[1].strip()}"
    if found := re.search(r"SSL\w*Error\(\d+, '(?:\[[^\]]*\] )?([^(']+)", text):
        return f"TLS failed ({found[1].strip()}); are the certificates and the key the right ones?"
    for known in ("Name or service not known", "Connection refused", "No route to host"):
        if known.lower() in text.lower():
            return known.lower()
    return type(error).__name__


def pull(
    server: Server,
    selector: str,
    start: float,
    end: float,
    *,
    span: float | None = None,
    answer_values: int = ANSWER_VALUES,
) -> Iterator[tuple[float, Answer]]:
    """The values after `start` up to `end`, in as many answers as the server needs, each with where it ends.

    `span` is how much is asked for at first; then as much as makes an answer of `answer_values`, or less where the
    server refuses.
    """
    span = end - start if span is None else span
    most = end - start
    while start < end:
        until = min(end, round(start + span, 3))
        try:
            answer = server.values(selector, start, until)
        except PrometheusError as error:
            span = most = (until - start) / 2.0
            if not error.shorter or span < SHORTEST_SECONDS:
                raise
            continue
        values = max(1, answer.values)
        yield until, answer
        del answer  # before the next one, for it is long
        start = until
        span = max(SHORTEST_SECONDS, min(most, span * min(MOST_GROWTH, answer_values / values)))
