"""Where replications run: in this process, on processes of this machine, or on a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from ranksim.core.errors import BadInput
from ranksim.core.extras import missing
from ranksim.core.processes import Workers
from ranksim.core.rulebook import rulebook_digest
from ranksim.planner.study.engines import Engine
from ranksim.planner.study.store import Outcome

AHEAD = 2
"""Tasks handed out for each worker, so that none waits for the next."""

CONNECT = "10s"
"""How long a scheduler may take to answer."""

DIED = "its process died; it was killed, or ran out of memory"


class Task(NamedTuple):
    """One replication of a point: where its result belongs, and all that it takes to run it."""

    point: str
    replication: int
    engine: Engine
    built: Any
    seed: int


class TaskRunner(Protocol):
    """Runs tasks, in any order."""

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, as they finish."""


def attempt(task: Task) -> Outcome:
    """Run one replication; what goes wrong in it becomes one line."""
    try:
        return task.engine.observe(task.built, task.seed, task.replication)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())


class Here:
    """Runs tasks one after the other in this process."""

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome."""
        for task in tasks:
            yield task, attempt(task)


class Processes:
    """Runs tasks on processes of this machine; one that dies costs its task, and no other."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor = Workers(workers)

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, as they finish."""
        waiting = deque(tasks)
        while waiting:
            flying: dict[Future[Outcome], Task] = {}
            try:
                yield from _flown(self._executor, waiting, flying, AHEAD * self._workers)
            except BrokenProcessPool:
                self._restart()
                yield from self._alone(flying.values())

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        processes = list((self._executor._processes or {}).values())
        manager: Any = self._executor._executor_manager_thread
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if manager is not None:
            manager.join()  # it reaps them too, and only one of two that wait for a process hears of its end
        for process in processes:
            process.join()

    def _alone(self, suspects: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Run tasks that were under way when a process died one by one, to learn which of them it was."""
        for task in suspects:
            try:
                yield task, self._executor.submit(attempt, task).result()
            except BrokenProcessPool:
                self._restart()
                yield task, DIED

    def _restart(self) -> None:
        self.close()
        self._executor = Workers(self._workers)


class Cluster:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        try:
            client = import_module("distributed").Client
            read: Callable[[str], object] = import_module("distributed.comm").get_address_host_port
        except ImportError:
            raise missing("--scheduler needs distributed", "study") from None
        try:
            read(address)  # a client of what is no address says so again, at length, when it goes
            self._client: Any = client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise BadInput(
                f"--scheduler: no Dask scheduler answers at {address} ({str(error) or type(error).__name__})"
            ) from None

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, as they finish. Raises BadInput when the cluster is gone."""
        waiting = deque(tasks)
        if not waiting:
            return
        threads = sum(self._client.nthreads().values())
        if not threads:
            raise BadInput("--scheduler: the cluster has no workers; start some")
        self._check_version(waiting[0].engine.sources)
        executor = self._client.get_executor(pure=False)
        yield from _flown(executor, waiting, {}, AHEAD * threads)

    def _check_version(self, sources: tuple[str, ...]) -> None:
        """Refuse workers that would simulate by other rules than those that the store is bound to."""
        try:
            digests = set(self._client.run(rulebook_digest, sources).values())
        except ImportError as error:
            raise BadInput(f"--scheduler: a worker lacks {error.name}; install ranksim there") from None
        if digests != {rulebook_digest(sources)}:
            raise BadInput("--scheduler: a worker has another version of ranksim; install this one there")

    def close(self) -> None:
        """Leave the cluster; what it still runs for this study is cancelled."""
        self._client.close()


@contextmanager
def open_pool(workers: int = 1, scheduler: str | None = None) -> Iterator[TaskRunner]:
    """Open a pool, and close it whatever happens. Raises BadInput."""
    if workers < 1:
        raise BadInput(f"workers: expected at least 1, found {workers}")
    if scheduler is None and workers == 1:
        yield Here()
        return
    pool = Processes(workers) if scheduler is None else Cluster(scheduler)
    try:
        yield pool
    finally:
        pool.close()


def _flown(
    executor: Executor, waiting: deque[Task], flying: dict[Future[Outcome], Task], most: int
) -> Iterator[tuple[Task, Outcome]]:
    """Hand out waiting tasks, `most` at a time; `flying` are those that are under way."""
    while waiting or flying:
        while waiting and len(flying) < most:
            flying[executor.submit(attempt, waiting[0])] = waiting[0]
            waiting.popleft()
        done, _ = wait(flying, return_when=FIRST_COMPLETED)
        for future in done:
            outcome = _outcome(future)
            yield flying.pop(future), outcome


def _outcome(future: Future[Outcome]) -> Outcome:
    """What a future gave; a worker of a cluster that died again and again is the task's failure."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            return DIED
        raise BadInput(
            f"the cluster failed ({type(error).__name__}); start it again, and this study"
        ) from None
