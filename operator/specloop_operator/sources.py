"""Where a tick's samples come from: the pods themselves, or a Prometheus that all policies share.

A source answers with what a reader has not had yet, and with what is wrong, in words.  One that does not answer delays
a tick by seconds at most, and no tick of a policy that reads another source.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import httpx

from specloop_control.credentials import CredentialError, bearer
from specloop_control.prometheus_hub import Connection, PrometheusHub
from specloop_control.prometheus_server import Answer, Prometheus, PrometheusError, PrometheusSettings
from specloop_control.scrape import fetch_page
from specloop_engine.page import PageError
from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample
from specloop_operator.pods import host
from specloop_operator.settings import OperatorSettings
from specloop_operator.source_settings import PodsSettings, PrometheusSourceSettings

SCRAPES_AT_ONCE = 64
"""Pages of one policy that are under way at a time; each policy has its own, so that slow pods delay no other."""

BACK_FILL_SECONDS = 3600.0
"""As far as evidence goes back by default: a restart of the operator costs a policy nothing that is still there."""

MOST_TURNS, TURN_SECONDS = 5, 3
"""Policies that share a source look in so many turns of their interval at most, so far apart at least.  What is fetched
is what is new, so that turns cost no more bytes; it is less at a time, and fewer policies decide at the same moment."""

LOG = logging.getLogger("specloop.sources")

Queried = Callable[[int, int], None]
"""Told how many queries were answered, and how many failed."""


@dataclass(frozen=True, slots=True)
class PodAddress:
    """A pod, and where its engine listens; `ip` is None while it has none."""

    namespace: str
    name: str
    ip: str | None
    port: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What a source had for a reader."""

    samples: tuple[tuple[str, Sample], ...]
    """By pod's name, oldest first; none that this reader had before."""
    until: float | None
    """Whoever has no sample up to here was silent; None while the source has not answered at all."""
    problem: str | None = None
    """What is wrong, in words; there may be samples all the same."""
    query: str | None = None
    """What was asked, as it was sent, where it is a query."""


class MetricSource(Protocol):
    """What a tick asks for samples."""

    def turns(self, interval_seconds: int) -> int:
        """In how many turns of an interval policies are to ask; those that ask in the same share what is fetched."""

    async def collect(self, reader: str, pods: Sequence[PodAddress], now: float, interval_seconds: float) -> Collected:
        """The samples of these pods, all of one namespace, that this reader has not had; it asks at this interval."""


class PodSource:
    """Pods, scraped when they are asked for; samples carry the time when that began, as Prometheus has it."""

    def __init__(
        self, settings: PodsSettings, client: httpx.AsyncClient, trust: ssl.SSLContext, queried: Queried
    ) -> None:
        """`trust` is the context that the client checks certificates in."""
        self._settings = settings
        self._client = client
        self._trust = trust
        self._queried = queried

    def turns(self, interval_seconds: int) -> int:
        """One each second: nothing is shared."""
        return interval_seconds

    async def collect(self, reader: str, pods: Sequence[PodAddress], now: float, interval_seconds: float) -> Collected:
        """Scrape all pods that have an address, within one interval."""
        try:
            headers = self._headers()
        except CredentialError as error:
            return Collected((), now, str(error))
        free, seconds = asyncio.Semaphore(SCRAPES_AT_ONCE), min(self._settings.timeout_seconds, interval_seconds)

        async def scrape(url: str) -> Sample | str:
            async with free:
                return await self._scrape(url, now, headers, seconds)

        urls = {pod.name: self._url(pod.ip, pod.port) for pod in pods if pod.ip is not None}
        found = dict(zip(urls, await asyncio.gather(*map(scrape, urls.values())), strict=True))
        samples = tuple((name, one) for name, one in sorted(found.items()) if isinstance(one, Sample))
        silent = {name: one for name, one in found.items() if isinstance(one, str)}
        if found:
            self._queried(len(samples), len(silent))
        return Collected(samples, now, _silent(silent, len(found)))

    def _headers(self) -> dict[str, str]:
        """The headers of every scrape; certificates are read again as well, for both are changed meanwhile."""
        if self._settings.ca_file is not None:
            try:
                self._trust.load_verify_locations(self._settings.ca_file)
            except OSError as error:
                raise CredentialError(f"cannot read certificates in {self._settings.ca_file}: {error}") from error
        return bearer(None if self._settings.token_file is None else Path(self._settings.token_file))

    def _url(self, ip: str, port: int) -> str:
        return f"{self._settings.scheme}://{host(ip)}:{self._settings.port or port}{self._settings.path}"

    async def _scrape(self, url: str, now: float, headers: Mapping[str, str], seconds: float) -> Sample | str:
        """What a pod says, or why it says nothing."""
        try:
            page, incarnation = await fetch_page(
                self._client,
                url,
                seconds=seconds,
                max_bytes=self._settings.max_bytes,
                headers=headers,
                server_name=self._settings.server_name,
            )
            # In a thread, because a page that is made to be hard to read takes a second.
            sample = await asyncio.to_thread(read_sample, page, now, incarnation=incarnation)
        except httpx.HTTPError as error:
            return _why(error)
        except PageError as error:
            return f"its page cannot be read: {error}"
        return sample if sample.dialect is not None else "its page has no metrics of an engine; is the port right?"


class HubSource:
    """A Prometheus that all policies share."""

    def __init__(self, settings: PrometheusSettings, hub: PrometheusHub) -> None:
        self._settings = settings
        self._hub = hub
        self._warned: tuple[str, ...] = ()

    def turns(self, interval_seconds: int) -> int:
        """A few, whatever the interval."""
        return max(1, min(MOST_TURNS, interval_seconds // TURN_SECONDS))

    async def collect(self, reader: str, pods: Sequence[PodAddress], now: float, interval_seconds: float) -> Collected:
        """What the hub has for this reader, after it has looked for news, unless it did so half a turn ago."""
        hub = self._hub
        await hub.refresh(now, interval_seconds / self.turns(int(interval_seconds)) / 2.0, interval_seconds)
        if hub.warnings != self._warned:
            self._warned = hub.warnings
            for warning in hub.warnings:
                LOG.warning("%s warns: %s", self._settings.source, warning)
        namespace, names = (pods[0].namespace if pods else ""), [pod.name for pod in pods]
        samples = tuple(hub.take(reader, namespace, names))
        return Collected(samples, hub.until, hub.problem or self._unheard(namespace, names), hub.query)

    def _unheard(self, namespace: str, names: Sequence[str]) -> str | None:
        """Words for an answer that has nothing of these pods."""
        hub, settings = self._hub, self._settings
        if not names or hub.until is None or hub.heard(namespace, names):
            return None
        if not hub.size:
            return f"{settings.source} has nothing of any engine: are they scraped, and are prefix and matchers right?"
        labels = f"{settings.namespace_label} and {settings.pod_label}"
        return (
            f"{settings.source} has nothing of these {len(names)} pods, though of {hub.size} others: are they scraped, "
            f"and are they named by the labels {labels}?"
        )


class _Counted:
    """A connection to a Prometheus whose queries are counted."""

    def __init__(self, server: Connection, queried: Queried) -> None:
        self._server = server
        self._queried = queried
        self.close = server.close

    def values(self, selector: str, start: float, end: float) -> Answer:
        """As the server."""
        with self._counting():
            return self._server.values(selector, start, end)

    def names(self, selector: str, start: float, end: float) -> Sequence[str]:
        """As the server."""
        with self._counting():
            return self._server.names(selector, start, end)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except PrometheusError:
            self._queried(0, 1)
            raise
        self._queried(1, 0)


@asynccontextmanager
async def open_sources(
    settings: OperatorSettings,
    *,
    queried: Callable[[str, int, int], None] = lambda *_: None,
    back_fill_seconds: float = BACK_FILL_SECONDS,
    connect: Callable[[PrometheusSettings], Connection] = Prometheus,
) -> AsyncIterator[Mapping[str, MetricSource]]:
    """All sources by name, for the length of a block; nothing is asked before somebody collects.

    `queried` is told, of a source by its name, how many queries were answered and failed; in any thread.
    """
    async with AsyncExitStack() as stack:
        found: dict[str, MetricSource] = {}
        for name, one in settings.sources.items():
            if isinstance(one, PodsSettings):
                found[name] = await stack.enter_async_context(_pods(one, partial(queried, name)))
            else:
                server = _within(one, settings.namespaces)
                connection = _Counted(connect(server), partial(queried, name))
                hub = PrometheusHub(server, connection, back_fill_seconds=back_fill_seconds)
                stack.push_async_callback(hub.close)
                found[name] = HubSource(server, hub)
        yield found


@asynccontextmanager
async def _pods(settings: PodsSettings, queried: Queried) -> AsyncIterator[PodSource]:
    trust = _trust(settings)
    # Engines close connections that are idle for five seconds, so none is kept; proxies lead nowhere inside a cluster.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(verify=trust, trust_env=False, limits=limits) as client:
        yield PodSource(settings, client, trust, queried)


def _trust(settings: PodsSettings) -> ssl.SSLContext:
    if settings.ca_file is not None:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody until the file is read
    trust = ssl.create_default_context()
    if settings.insecure_skip_verify:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def _within(settings: PrometheusSourceSettings, namespaces: Sequence[str]) -> PrometheusSettings:
    """The client's settings; pods of other namespaces than the operator's are not asked for."""
    server = settings.server()
    if not namespaces:
        return server
    return replace(server, matchers=(*server.matchers, f'{server.namespace_label}=~"{"|".join(namespaces)}"'))


def _silent(silent: Mapping[str, str], asked: int) -> str | None:
    """How many pods gave no metrics, and why the first of them did not."""
    if not silent:
        return None
    first = min(silent)
    return f"{len(silent)} of {asked} pods gave no metrics; {first}: {silent[first]}"


def _why(error: httpx.HTTPError) -> str:
    """What went wrong with a request, in words."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answers with status {error.response.status_code}"
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    text = str(error)
    if "certificate verify failed" in text:
        return f"its certificate is not trusted: {text.partition('failed: ')[2].partition(' (')[0]}"
    return text if "bytes" in text or "compressed" in text else "it cannot be reached"
