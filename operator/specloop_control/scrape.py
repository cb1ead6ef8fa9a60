"""Direct scraping: `/metrics` of every pod, read into samples and cut into windows."""

import asyncio
from collections.abc import Callable, Mapping

import httpx

from specloop_engine.history import History
from specloop_engine.page import PageError
from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample
from specloop_policy.ladder import Level
from specloop_policy.observation import Window

SCRAPE_SECONDS = 5.0
"""A page that takes longer is missed: the engine answers from memory, and the next scrape comes soon."""

PAGE_BYTES = 16 * 1024 * 1024
"""A larger page is none of an engine's: theirs are below 100 kB."""

AS_IT_IS: Mapping[str, str] = {"Accept-Encoding": "identity"}
"""A pod may not compress what it sends: 600 MB of the same byte take 1 kB once packed twice, and a client that unpacks
has them in memory before it can count them."""

INCARNATION_HEADER = "Process-Start-Time-Unix"
"""llama-server's page has no start time, but this header; its value is no date, only another one after a restart."""

INCARNATION_CHARACTERS = 64
"""So much of it is kept with every sample; llama-server's has about ten digits."""


async def fetch_page(
    client: httpx.AsyncClient,
    url: str,
    *,
    seconds: float = SCRAPE_SECONDS,
    max_bytes: int = PAGE_BYTES,
    headers: Mapping[str, str] | None = None,
    server_name: str | None = None,
) -> tuple[bytes, str | None]:
    """The page at `url`, read within `seconds` in all, and what its header says of the process.

    `server_name` is the name that the certificate must have, where that is not the URL's.  Raises httpx.HTTPError on a
    failure, a status other than success, or a page that takes longer, is above the limit, or compressed.
    """
    try:
        extensions = {} if server_name is None else {"sni_hostname": server_name}
        request = client.stream(
            "GET", url, timeout=seconds, headers={**AS_IT_IS, **(headers or {})}, extensions=extensions
        )
        async with asyncio.timeout(seconds), request as response:
            response.raise_for_status()
            body = await read_within(response, max_bytes)
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"the page at {url} took more than {seconds:g} s") from error
    incarnation = response.headers.get(INCARNATION_HEADER)
    return body, None if incarnation is None else incarnation[:INCARNATION_CHARACTERS]


async def read_within(response: httpx.Response, max_bytes: int) -> bytes:
    """The body as it comes; raises httpx.TransportError where it is longer, or compressed."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise httpx.TransportError(f"the answer of {response.url} is compressed, which it was asked not to be")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            raise httpx.TransportError(f"the answer of {response.url} is above {max_bytes} bytes")
    return bytes(body)


async def fetch_sample(
    client: httpx.AsyncClient, base_url: str, at: Callable[[], float], *, seconds: float = SCRAPE_SECONDS
) -> Sample | None:
    """What the engine at `base_url` says now; None when it does not answer or its page cannot be read."""
    try:
        page, incarnation = await fetch_page(client, f"{base_url}/metrics", seconds=seconds)
        return read_sample(page, at(), incarnation=incarnation)
    except (httpx.HTTPError, PageError):
        return None


class Scraper:
    """Telemetry from the pods themselves.

    `level_of` names the level that a pod runs at the moment of a scrape, None while that is not sure; `seconds` is how
    long a page may take.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        urls: Mapping[str, str],
        level_of: Callable[[str], Level | None],
        history: History,
        now: Callable[[], float],
        *,
        seconds: float = SCRAPE_SECONDS,
    ) -> None:
        self._client = client
        self._urls = urls
        self._level_of = level_of
        self._history = history
        self._now = now
        self._seconds = seconds
        self.latest: dict[str, Sample | None] = {}

    def windows(self) -> tuple[Window, ...]:
        """Every window that is still of interest, oldest first."""
        return self._history.windows()

    async def poll(self) -> None:
        """Scrape every pod once, all at the same time."""
        await asyncio.gather(*(self._scrape(pod, url) for pod, url in self._urls.items()))

    async def _scrape(self, pod: str, url: str) -> None:
        before = self._level_of(pod)
        sample = await fetch_sample(self._client, url, self._now, seconds=self._seconds)
        after = self._level_of(pod)
        self.latest[pod] = sample
        # A pod whose level changed while its page was on the way is at neither for sure.
        level = after if after == before else None
        name = "" if level is None else level.name
        if sample is None:
            self._history.miss(pod, self._now(), name)
        else:
            self._history.add(pod, sample, name, None if level is None else level.tokens)
