"""Asynchronous parts of the harness, each in a thread of its own beside a test that just reads on."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from anyio.from_thread import start_blocking_portal

Part = TypeVar("Part")


@contextmanager
def beside(part: AbstractAsyncContextManager[Part]) -> Iterator[Part]:
    """Run a part for the length of the block; what fails when it ends is raised here."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(part) as running:
        yield running
