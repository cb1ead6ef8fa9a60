"""Processes that do one kind of work, each with what the work needs kept from task to task.

They are spawned rather than forked: progress bars and numpy have threads, and a process with threads cannot be forked
safely.  What the work needs is sent to each of them once.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from threading import Thread, current_thread, main_thread
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Generic[Task, Result]):
    """So many processes; `work` is a callable that can be pickled."""

    def __init__(self, jobs: int, work: Callable[[Task], Result]) -> None:
        before = set(active_children())
        begin: Any = _begin  # stubs take no arguments where the context is not named
        self._executor = ProcessPoolExecutor(jobs, get_context("spawn"), begin, (work,))
        with _ctrl_c_never():
            for _ in range(jobs):
                self._executor.submit(_nothing)
        self._processes = set(active_children()) - before

    def submit(self, task: Task) -> "Future[Result]":
        """Have a task done."""
        return self._executor.submit(_do, task)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


@contextmanager
def at_work(jobs: int, work: Callable[[Task], Result]) -> Iterator[Workers[Task, Result]]:
    """Workers, ended with the block whatever happens."""
    with _ctrl_c_later() as came:
        workers = Workers(jobs, work)
    try:
        if came:
            raise KeyboardInterrupt
        yield workers
    finally:
        workers.close()


@contextmanager
def _ctrl_c_later() -> Iterator[list[int]]:
    """Only take note of Ctrl-C while processes start: one that is half started says so in a traceback of its own.

    Nobody but a main thread can do so, and in no other would it be raised.
    """
    came: list[int] = []
    if current_thread() is not main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ctrl_c_never() -> Iterator[None]:
    """Keep Ctrl-C, which reaches the whole group, from processes started here: they keep the mask, and we end them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_work: Callable[[Any], Any] | None = None
"""The work of this process, once it is a worker."""


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers."""
    parent = parent_process()
    assert parent is not None  # this is a worker
    connection.wait([parent.sentinel])
    os._exit(1)


def _nothing() -> None:
    """The first task of a process: it has started."""


def _do(task: Any) -> Any:
    assert _work is not None  # the process began with it
    return _work(task)
