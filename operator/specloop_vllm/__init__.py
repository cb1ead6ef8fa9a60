"""A plugin inside vLLM: it counts what requests ask for, and changes K between two steps.

    vllm serve ... --middleware specloop_vllm.Middleware --scheduler-cls specloop_vllm.LiveAsyncScheduler

| module | what it does |
|---|---|
| `middleware` | ASGI: passes everything on, counts requests, answers on `/specloop/v1/speculation` |
| `requests` | what a request asks for, and its metrics |
| `control` | GET and PUT of the wanted speculation |
| `exchange` | `desired.json` and `applied.json`, by which API server and engine core talk |
| `tables` | K by number of requests in a step |
| `scheduler` | vLLM's schedulers with a look at `desired.json` before a step |

It imports the standard library, prometheus_client and vLLM, and vLLM only where it is there.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specloop_vllm.middleware import Middleware
    from specloop_vllm.scheduler import LiveAsyncScheduler, LiveScheduler

__all__ = ["LiveAsyncScheduler", "LiveScheduler", "Middleware"]

_HOMES = {"Middleware": "middleware", "LiveScheduler": "scheduler", "LiveAsyncScheduler": "scheduler"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: vLLM's API server needs no scheduler, its engine core no middleware."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
