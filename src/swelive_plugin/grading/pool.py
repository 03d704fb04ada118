"""Many pieces of work in a pool of workers, stopped without loss.

Work is a function of a module with a small picklable item, so that any executor can run it, one of processes too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import TypeVar

from swelive_plugin.extensions import executor_named
from swelive_plugin.sandbox.processes import interrupt_all
from swelive_plugin.workspace.git import interrupt_git

__all__ = ["in_pool", "listening", "report_step"]

_AGAIN_S = 0.2

Listener = Callable[[str, int, str], None]
_listeners: dict[str, Listener] = {}

T = TypeVar("T")
R = TypeVar("R")


def in_pool(
    work: Callable[[T], R], items: Sequence[T], *, workers: int, executor: str = "threads"
) -> Iterator[tuple[T, R]]:
    """Yield each item with what ``work`` made of it, in the order in which they are done.

    When the consumer stops, by Ctrl-C or an error, commands that run are ended and nothing new begins; what ``work``
    has written stays.
    """
    if not items:
        return
    pool = executor_named(executor, max(1, min(workers, len(items))))
    running: dict[Future[R], T] = {}
    try:
        for item in items:
            running[pool.submit(work, item)] = item
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for task in done:
                yield running.pop(task), task.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        while at_work := [task for task in running if not task.done()]:
            interrupt_all()  # again and again: work that was between two commands begins another one
            interrupt_git()
            wait(at_work, timeout=_AGAIN_S)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def listening(listener: Listener) -> Iterator[str]:
    """Give a name for `report_step`, by which workers of this process reach ``listener``."""
    name = uuid.uuid4().hex
    _listeners[name] = listener
    try:
        yield name
    finally:
        del _listeners[name]


def report_step(name: str, instance_id: str, attempt: int, text: str) -> None:
    """Tell the listener of that name what a piece of work is at; in a worker of another process nobody listens."""
    listener = _listeners.get(name)
    if listener is not None:
        listener(instance_id, attempt, text)
