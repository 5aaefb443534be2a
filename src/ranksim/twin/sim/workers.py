"""Pools of workers that run the jobs of one kind: servers, a queue and its discipline, by callbacks alone."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ranksim.core.contract.quantities import NUMBER, WHOLE, Distribution, Duration, Frozen, also
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.service.calls import StartJob
from ranksim.twin.sim.simpy_clock import SimpyClock


def _read_capacity(value: Any) -> Any:
    if value == "unlimited" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError(f"write a number of workers, or unlimited, found {value!r}")


Capacity = Annotated[int | Literal["unlimited"], BeforeValidator(_read_capacity)]


class CostFactor(Frozen):
    """What a job really costs, as a multiple of its estimate: uniform between `low` and `high`.

    Written as a number when both are the same.
    """

    model_config = also(NUMBER)

    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"low": value, "high": value}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError("cost_factor wants low at most high")
        return self

    def at(self, u: float) -> float:
        """The factor below which a share `u` of all draws lies; 0 < u < 1."""
        return self.low + (self.high - self.low) * u


class PoolSpec(Frozen):
    """A worker pool: `capacity` workers, who take waiting jobs by a `discipline`.

    A job takes a draw of `duration` plus `per_unit` for each of its pages or questions; with neither, what
    the catalogue says of its kind. A job that would wait behind `queue_limit` others fails at once.
    `failure_rate` is the share of jobs that end in an error (0 to 1), the catalogue's unless given. May be
    written as its capacity alone.
    """

    model_config = also(WHOLE, {"const": "unlimited"})

    capacity: Capacity
    discipline: Literal["fifo", "lifo", "shortest"] = "fifo"
    queue_limit: Annotated[int, Field(ge=0)] | None = None
    duration: Distribution | None = None
    per_unit: Annotated[Duration, Field(ge=0)] = 0
    failure_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    error: str = "worker failed"
    cost_factor: CostFactor | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return {"capacity": value}
        return value


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended: `error` is "" for success, `factor` its cost as a multiple of the estimate."""

    error: str
    factor: float


QUEUE_FULL = Ending("queue full", 0.0)


class Pool:
    """The workers of one job kind. It knows nothing of the service: three functions tell what happens.

    `on_start(task)` and `on_end(task, ending)` are called as each job starts and ends (a job refused by a
    full queue ends without a start), `on_change(pool)` after every change of `busy`, `capacity` or `waiting`.
    Draws are addressed as the service addresses its own, by the job's domain and kind and the instant at
    which it came, so neither the discipline nor other jobs change them. Two jobs of one domain that come at
    the same instant count as a microsecond apart.
    """

    def __init__(
        self,
        kind: str,
        spec: PoolSpec,
        time: SimpyClock,
        seed: int,
        on_start: Callable[[StartJob], None],
        on_end: Callable[[StartJob, Ending], None],
        on_change: "Callable[[Pool], None]",
    ) -> None:
        self.kind = kind
        self.spec = spec
        self.time = time
        self.seed = seed
        self.on_start = on_start
        self.on_end = on_end
        self.on_change = on_change
        self.capacity: int | None = None if spec.capacity == "unlimited" else spec.capacity
        self.busy = 0
        self._queue: list[tuple[int, int, int, StartJob]] = []
        self._serial = 0
        self._latest: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """How many jobs wait for a worker."""
        return len(self._queue)

    def add(self, task: StartJob) -> None:
        """Take a job: start it, let it wait, or end it at once because the queue is full."""
        limit = self.spec.queue_limit
        index = max(self.time.now, self._latest.get(task.domain, -1) + 1)
        self._latest[task.domain] = index
        if self._has_room():
            self._start(index, task)
        elif limit is not None and self.waiting >= limit:
            self.on_end(task, QUEUE_FULL)
            return
        else:
            self._serial += 1
            heappush(self._queue, (self._rank(self._serial, task), self._serial, index, task))
        self.on_change(self)

    def resize(self, capacity: int | None) -> None:
        """Change the number of workers (None: unlimited). Running jobs go on, even beyond a smaller one."""
        self.capacity = capacity
        self._take_waiting()
        self.on_change(self)

    def change(self, spec: PoolSpec) -> None:
        """Go on by another specification: for jobs that start from now on, and for the order of the queue."""
        before, self.spec = self.spec, spec
        if spec.discipline != before.discipline:
            queue = [
                (self._rank(serial, task), serial, index, task) for _, serial, index, task in self._queue
            ]
            self._queue = sorted(queue)
        if spec.capacity != before.capacity:
            self.resize(None if spec.capacity == "unlimited" else spec.capacity)

    def _has_room(self) -> bool:
        return self.capacity is None or self.busy < self.capacity

    def _rank(self, serial: int, task: StartJob) -> int:
        match self.spec.discipline:
            case "fifo":
                return serial
            case "lifo":
                return -serial
            case "shortest":
                return task.units

    def _take_waiting(self) -> None:
        while self._queue and self._has_room():
            _, _, index, task = heappop(self._queue)
            self._start(index, task)

    def _start(self, index: int, task: StartJob) -> None:
        self.busy += 1
        self.on_start(task)
        duration, ending = self._draw(index, task)
        self.time.after(duration, self._end, task, ending, urgent=True)

    def _end(self, task: StartJob, ending: Ending) -> None:
        self.busy -= 1
        self.on_end(task, ending)
        self._take_waiting()
        self.on_change(self)

    def _draw(self, index: int, task: StartJob) -> tuple[int, Ending]:
        """Draw how long a job runs (µs) and how it ends."""
        who = entity(f"{task.domain}/{self.kind}")
        spec = self.spec
        duration = spec.per_unit * task.units
        if spec.duration is not None:
            duration += spec.duration.at(uniform(self.seed, who, index, Purpose.JOB_DURATION))
        factor = 1.0
        if spec.cost_factor is not None:
            factor = spec.cost_factor.at(uniform(self.seed, who, index, Purpose.JOB_COST))
        failed = False
        if spec.failure_rate:
            failed = uniform(self.seed, who, index, Purpose.JOB_OUTCOME) < spec.failure_rate
        return duration, Ending(spec.error if failed else "", factor)
