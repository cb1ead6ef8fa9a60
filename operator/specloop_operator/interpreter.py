"""The interpreter set up for a process that reads long answers in a thread, beside an event loop that must not wait.

An answer about a thousand pods is 16 MB of text and some 300,000 objects, at every look.  Measured over 200 policies
(benchmarks/operator.py).
"""

import contextlib
import ctypes
import gc
import sys

COLLECT = (10_000, 20, 10)
"""Look for cycles among objects a tenth as often: there are none in an answer, and a third of all time went into it."""

SWITCH_SECONDS = 0.0005
"""How long the thread goes on before the event loop has its turn, which it asks for at every request: a tenth of the
default, under which the loop does a quarter as much while an answer is read."""

TRIM_THRESHOLD, TRIM_BYTES = -1, 128 * 1024
"""Give memory back to the system as glibc does at first, and stops doing after the first long answer."""


def set_up() -> None:
    """Once, before anything else."""
    gc.set_threshold(*COLLECT)
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, TRIM_BYTES)
