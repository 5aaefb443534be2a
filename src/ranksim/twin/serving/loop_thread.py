"""Running asyncio beside ordinary code: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own. `stop` cancels what still runs on it and ends the thread."""

    def __init__(self, name: str = "ranksim") -> None:
        self._loop = asyncio.new_event_loop()  # here, where OSError reaches the caller: files may run out
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._running = threading.Event()
        self._thread.start()
        self._running.wait()

    def call(self, coroutine: Coroutine[Any, Any, T], patience_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Raises RuntimeError in the loop's own thread, and when the thread has been stopped. After `patience_s`
        raises TimeoutError, and the coroutine goes on.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call from the thread that would have to answer it; await instead")
        return self._submit(coroutine).result(patience_s)

    def run(self, what: Callable[[], T]) -> T:
        """Do something on the loop and return its result; raises as `call` does."""

        async def done() -> T:
            return what()

        return self.call(done())

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop and do not wait for it; `stop` cancels it."""
        return self._submit(coroutine)

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and await its result on any loop; raises as `call` does."""
        if threading.current_thread() is self._thread:
            return await coroutine
        return await asyncio.wrap_future(self._submit(coroutine))

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if not self._thread.is_alive():
            coroutine.close()
            raise RuntimeError(f"{self._thread.name}: is closed; open another")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """End the loop and its thread; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._stopping = asyncio.Event()
        self._running.set()
        await self._stopping.wait()
