"""Worker pools: disciplines, limits, resizing, and the formulas of queueing theory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy
from pydantic import ValidationError

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.service.calls import StartJob
from ranksim.twin.sim.simpy_clock import SimpyClock
from ranksim.twin.sim.workers import CostFactor, Ending, Pool, PoolSpec


class Yard:
    """A pool alone on a clock, with a log of what it says."""

    def __init__(self, spec: Any, seed: int = 1) -> None:
        self.time = SimpyClock()
        self.log: list[tuple[int, str, str]] = []
        self.endings: dict[str, Ending] = {}
        self.states: list[tuple[int, int | None, int]] = []
        self.pool = Pool(
            "crawl", PoolSpec.model_validate(spec), self.time, seed, self.started, self.ended, self.changed
        )

    def started(self, task: StartJob) -> None:
        self.log.append((self.time.now, "start", task.job))

    def ended(self, task: StartJob, ending: Ending) -> None:
        self.log.append((self.time.now, "end", task.job))
        self.endings[task.job] = ending

    def changed(self, pool: Pool) -> None:
        self.states.append((pool.busy, pool.capacity, pool.waiting))

    def send(self, *jobs: str | tuple[str, int]) -> None:
        for job in jobs:
            name, units = job if isinstance(job, tuple) else (job, 1)
            self.pool.add(StartJob(name, "crawl", "acc", "dom", units))

    def starts(self) -> list[str]:
        return [job for _, what, job in self.log if what == "start"]


@pytest.mark.parametrize(
    ("discipline", "order"),
    [("fifo", "abcd"), ("lifo", "adcb"), ("shortest", "acdb")],
)
def test_disciplines(discipline: str, order: str) -> None:
    yard = Yard({"capacity": 1, "discipline": discipline, "duration": 10})
    yard.send("a", ("b", 9), ("c", 2), ("d", 5))
    yard.time.env.run()
    assert "".join(yard.starts()) == order
    assert yard.time.now == 40


def test_of_equally_short_jobs_the_first_comes_first() -> None:
    yard = Yard({"capacity": 1, "discipline": "shortest", "duration": 1})
    yard.send("a", "b", "c", "d")
    yard.time.env.run()
    assert yard.starts() == ["a", "b", "c", "d"]


def test_a_pool_tells_every_change() -> None:
    yard = Yard({"capacity": 2, "duration": 10})
    yard.send("a", "b", "c")
    yard.time.env.run()
    assert yard.states == [(1, 2, 0), (2, 2, 0), (2, 2, 1), (2, 2, 0), (1, 2, 0), (0, 2, 0)]


def test_unlimited_workers_let_nothing_wait() -> None:
    yard = Yard("unlimited")
    yard.send(*(str(number) for number in range(50)))
    assert (yard.pool.busy, yard.pool.waiting, yard.pool.capacity) == (50, 0, None)


def test_a_job_beyond_the_queue_limit_fails_at_once() -> None:
    yard = Yard({"capacity": 1, "queue_limit": 1, "duration": 10})
    yard.send("a", "b", "c")
    assert yard.log == [(0, "start", "a"), (0, "end", "c")]
    assert yard.endings["c"].error == "queue full"
    yard.time.env.run()
    assert yard.starts() == ["a", "b"]


def test_resizing_starts_what_waits_and_stops_nothing() -> None:
    yard = Yard({"capacity": 1, "duration": 10})
    yard.send("a", "b", "c", "d")
    yard.time.after(5, yard.pool.resize, 3)
    yard.time.after(6, yard.pool.resize, 0)
    yard.time.after(100, yard.pool.resize, None)
    yard.time.env.run()
    assert yard.log == [
        (0, "start", "a"),
        (5, "start", "b"),
        (5, "start", "c"),
        (10, "end", "a"),
        (15, "end", "b"),
        (15, "end", "c"),
        (100, "start", "d"),
        (110, "end", "d"),
    ]


def test_a_worker_that_ends_is_free_before_a_job_of_the_same_instant() -> None:
    yard = Yard({"capacity": 1, "queue_limit": 0, "duration": 10})
    yard.time.at(10, yard.send, "b")
    yard.send("a")
    yard.time.env.run()
    assert yard.starts() == ["a", "b"]


def test_a_job_takes_its_draw_and_so_much_for_each_unit() -> None:
    yard = Yard({"capacity": "unlimited", "duration": "1s", "per_unit": "2ms"})
    yard.send(("a", 500))
    yard.time.env.run()
    assert yard.time.now == 2 * SECOND


def test_failures_and_costs_have_their_rates() -> None:
    yard = Yard(
        {
            "capacity": "unlimited",
            "duration": 1,
            "failure_rate": 0.25,
            "error": "provider down",
            "cost_factor": {"low": 0.5, "high": 1.5},
        }
    )
    yard.send(*(str(number) for number in range(4000)))
    yard.time.env.run()
    errors = [ending.error for ending in yard.endings.values()]
    factors = [ending.factor for ending in yard.endings.values()]
    assert set(errors) == {"", "provider down"}
    assert sum(map(bool, errors)) / 4000 == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 4000))
    assert sum(factors) / 4000 == pytest.approx(1.0, abs=4 * math.sqrt(1 / 12 / 4000))
    assert (round(min(factors), 1), round(max(factors), 1)) == (0.5, 1.5)


def test_a_draw_belongs_to_the_job_not_to_the_order_of_service() -> None:
    def durations(discipline: str, capacity: int) -> dict[str, int]:
        yard = Yard(
            {
                "capacity": capacity,
                "discipline": discipline,
                "duration": Distribution(kind="exponential", durations=(MINUTE,)),
            }
        )
        yard.send(*(str(number) for number in range(20)))
        yard.time.env.run()
        began = {job: t for t, what, job in yard.log if what == "start"}
        return {job: t - began[job] for t, what, job in yard.log if what == "end"}

    assert durations("fifo", 1) == durations("lifo", 3)
    assert len(set(durations("fifo", 1).values())) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity": -1},
        {"capacity": "many"},
        {"capacity": 1, "failure_rate": 1.5},
        {"capacity": 1, "discipline": "random"},
        {"capacity": 1, "cost_factor": {"low": 2.0, "high": 1.0}},
        {"capacity": 1, "workers": 2},
        True,
    ],
)
def test_wrong_specifications_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        PoolSpec.model_validate(wrong)


def test_a_cost_factor_may_be_one_number() -> None:
    assert CostFactor.model_validate(1.2).at(0.3) == 1.2


# Queueing theory. Each formula lies inside a 99.9 % interval of batch means, and the interval is narrow
# enough to notice a wrong pool.


class Queue(Yard):
    """Poisson arrivals at a pool of exponential workers."""

    def __init__(self, spec: dict[str, Any], rate: float, mean: int, seed: int = 7) -> None:
        service = Distribution(kind="exponential", durations=(mean,))
        super().__init__(spec | {"duration": service}, seed)
        self.gap = mean / rate
        self.came: dict[str, int] = {}
        self.waits: list[int] = []
        self.lost: list[int] = []

    def arrive(self, left: int) -> None:
        job = str(left)
        self.came[job] = self.time.now
        self.lost.append(0)
        self.pool.add(StartJob(job, "crawl", "acc", "dom", 1))
        if left > 1:
            u = uniform(self.pool.seed, entity("arrivals"), left, Purpose.ARRIVAL)
            self.time.after(round(-self.gap * math.log(u)), self.arrive, left - 1)

    def started(self, task: StartJob) -> None:
        self.waits.append(self.time.now - self.came.pop(task.job))

    def ended(self, task: StartJob, ending: Ending) -> None:
        if ending.error == "queue full":
            self.lost[-1] = 1

    def changed(self, pool: Pool) -> None:
        pass


def interval(values: list[int], batches: int = 25) -> tuple[float, float]:
    """The mean of a long stationary series and the half width of its 99.9 % interval, by batch means."""
    size = len(values) // batches
    means = [sum(values[b * size : (b + 1) * size]) / size for b in range(1, batches)]
    mean = sum(means) / len(means)
    spread = math.sqrt(sum((x - mean) ** 2 for x in means) / (len(means) - 1) / len(means))
    return mean, float(scipy.stats.t.ppf(0.9995, len(means) - 1)) * spread


def erlang_c_wait(offered: float, servers: int) -> float:
    """Mean wait in M/M/c, in mean service times: Erlang C over (c - a)."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    wait = servers * blocked / (servers - offered * (1 - blocked))
    return wait / (servers - offered)


@pytest.mark.slow
@pytest.mark.parametrize(("offered", "servers"), [(0.7, 1), (1.6, 2), (3.5, 5)])
def test_the_mean_wait_of_an_mmc_queue_is_erlangs(offered: float, servers: int) -> None:
    mean = 10 * SECOND
    queue = Queue({"capacity": servers}, offered, mean)
    queue.arrive(40_000)
    queue.time.env.run()
    measured, half = interval(queue.waits)
    assert half < 0.25 * measured
    assert measured == pytest.approx(erlang_c_wait(offered, servers) * mean, abs=half)


@pytest.mark.parametrize(("offered", "room"), [(0.8, 3), (1.2, 4), (0.5, 1)])
def test_the_blocking_of_an_mm1k_queue_is_the_formulas(offered: float, room: int) -> None:
    queue = Queue({"capacity": 1, "queue_limit": room - 1}, offered, 10 * SECOND)
    queue.arrive(20_000)
    queue.time.env.run()
    measured, half = interval(queue.lost)
    assert half < 0.15 * measured
    expected = (1 - offered) * offered**room / (1 - offered ** (room + 1))
    assert measured == pytest.approx(expected, abs=half)
