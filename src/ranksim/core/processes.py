"""Worker processes that end quietly with an interrupt, and never outlive the process that started them."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

DIED = "workers: one of the processes died; it was killed, or ran out of memory; give fewer workers"
"""What is told where a worker process ended before its task did."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers(ProcessPoolExecutor):
    """An executor on so many processes of this machine, which start with the first task.

    They import what tasks are made of, not the caller's script, unless a task is made of what that defines:
    so a script needs `if __name__ == "__main__":` only then.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, multiprocessing.get_context("spawn"), _begin)

    def submit(self, task: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        """Hand out a task. Processes that start now do not hear of an interrupt before they have begun."""
        of_script = b"__main__" in pickle.dumps((task, args, options))
        with _interrupts_held(), nullcontext() if of_script else _script_hidden():
            return super().submit(task, *args, **options)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let an interrupt wait for the end of the block; processes that start in it begin in the same way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let processes that start in the block not run the caller's script, which would start more of them."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _begin() -> None:
    """Let a worker process end quietly with an interrupt, and with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent: Callable[[], Any] = multiprocessing.parent_process
    threading.Thread(target=_end_with, args=(parent().sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
