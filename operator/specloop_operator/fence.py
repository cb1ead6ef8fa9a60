"""The client for pods, by which who leads no more asks nothing of them."""

from collections.abc import Callable

import httpx


def fenced_client(leads: Callable[[], bool]) -> httpx.AsyncClient:
    """A client that asks `leads` before every request but a GET; where the answer is no, it raises RequestError."""

    async def fence(request: httpx.Request) -> None:
        if request.method != "GET" and not leads():
            raise httpx.RequestError("not sent, for another operator leads now", request=request)

    # Engines close connections that are idle for five seconds; proxies lead nowhere inside a cluster.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(trust_env=False, limits=limits, event_hooks={"request": [fence]})
