"""Worker processes that end quietly with an interrupt, and never outlive the process that started them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any, ParamSpec, TypeVar

DIED = "workers: one of the processes died; it was killed, or ran out of memory; give fewer workers"
"""What is told where a worker process ended before its task did."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers(ProcessPoolExecutor):
    """An executor on so many processes of this machine, which start with the first task."""

    def __init__(self, count: int) -> None:
        super().__init__(count, multiprocessing.get_context("spawn"), _begin)

    def submit(self, task: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        """Hand out a task. Processes that start now do not hear of an interrupt before they have begun."""
        with _interrupts_held():
            return super().submit(task, *args, **options)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let an interrupt wait for the end of the block; processes that start in it begin in the same way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Let a worker process end quietly with an interrupt, and with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent: Callable[[], Any] = multiprocessing.parent_process
    threading.Thread(target=_end_with, args=(parent().sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
