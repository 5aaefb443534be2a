"""Designs that look before they estimate: a warm-up cut by pilots, precision pursued, goals sought."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tests.coverage.cells import CUSTOMERS, DROPPED, SIZES, Measure, Row, batches, mean_of_runs
from tests.coverage.harness import Cover, Matrix, covers
from tests.coverage.queues import Queue

import ranksim as rs
from ranksim.core.clock import MINUTE
from ranksim.inference.decisions import Range, above, allowed, error_of_value, first_stage, looks
from ranksim.inference.estimate import Estimate
from ranksim.inference.kinds import MetricSample
from ranksim.inference.means import estimate
from ranksim.inference.precision import is_precise
from ranksim.inference.shares import chance
from ranksim.inference.warm_up import mser5, welch
from ranksim.planner.study.goal import first_index
from ranksim.planner.study.runs import GROWTH

MOST = 400
"""Replications at which a sequential design gives up."""


# Warm-up

PILOTS, LENGTH, SAMPLE = 10, 1000, 10
"""Pilot runs, customers of a run, and those between two samples of it."""


def none(pilots: Matrix) -> int:
    return 0


def long_enough(pilots: Matrix) -> int:
    return 300


def by_mser5(pilots: Matrix) -> int:
    return SAMPLE * mser5(pilots.mean(axis=0).tolist())


def by_welch(pilots: Matrix) -> int:
    return SAMPLE * welch(pilots.tolist())


def warmed(queue: Queue, cut: Callable[[Matrix], int]) -> Measure:
    """The mean wait in the long run, of runs from empty without their first customers, as pilots tell."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        random = np.random.default_rng(seed)
        found: dict[int, list[Estimate]] = {n: [] for n in SIZES}
        for waits in batches(queue, repetitions, random, PILOTS + SIZES[-1], LENGTH):
            pilots = waits[:PILOTS].reshape(PILOTS, -1, SAMPLE).mean(axis=2)
            means = waits[PILOTS:, cut(pilots) :].mean(axis=1).tolist()
            for n, intervals in found.items():
                intervals.append(estimate(means[:n]))
        return {str(n): covers(intervals, queue.mean) for n, intervals in found.items()}

    return measure


# Worlds

WORLD = """
start: 2026-03-02T00:00:00Z
length: 4h
warm_up: 1h
policy: {catalogue: illustrative}
accounts:
  acme: {plan: agency, portfolio: {domains: 1, keywords: 1}}
clients:
  ci:
    kind: caller
    account: acme
    every: 100s
    arrivals: poisson
    mix: {jobs.create: {body: {kind: ai_scan}}}
pools:
  ai_scan: {capacity: 1, duration: {exponential: {mean: 1m}}}
"""
REPLICATIONS = 1500


def world(repetitions: int, seed: int) -> Mapping[str, Cover]:
    """The mean wait of jobs in worlds that are an M/M/1 queue: as many repetitions as 1,500 runs give."""
    result = rs.run(rs.Scenario.parse(WORLD), seed=seed, replications=REPLICATIONS)
    waits = np.array(result.values("jobs.ai_scan.wait.mean"), dtype=np.float64) / MINUTE
    return {
        str(n): covers([estimate(row.tolist()) for row in waits.reshape(-1, n)], Queue("", 0.6).mean)
        for n in (5, 10)
    }


# Precision


def until_precise(values: list[float], relative: float, growth: float = 1.0) -> Estimate:
    """Ask after each replication, as a run does, or after rounds that grow, as a study does."""
    count = 2 if growth == 1 else 10
    while count < len(values) and not is_precise(MetricSample("mean", values[:count]), relative):
        count = min(len(values), max(count + 1, math.ceil(count * growth)))
    return estimate(values[:count])


def precision(
    truth: float, draw: Callable[[np.random.Generator, int], Matrix], growth: float = 1.0
) -> Measure:
    """A mean that is estimated until it is known to within 10, 20 or 30 % of itself."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        random = np.random.default_rng(seed)
        rows = [draw(random, MOST).tolist() for _ in range(repetitions)]
        return {
            f"±{relative:.0%}": covers([until_precise(row, relative, growth) for row in rows], truth)
            for relative in (0.1, 0.2, 0.3)
        }

    return measure


def precise_after(queue: Queue, cut: Callable[[Matrix], int]) -> Measure:
    """The mean wait in the long run, of runs that are cut as pilots tell, as many as a precision asks for."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        random = np.random.default_rng(seed)
        found: dict[float, list[Estimate]] = {relative: [] for relative in (0.1, 0.2, 0.3)}
        for waits in batches(queue, repetitions, random, PILOTS + MOST, LENGTH):
            pilots = waits[:PILOTS].reshape(PILOTS, -1, SAMPLE).mean(axis=2)
            means = waits[PILOTS:, cut(pilots) :].mean(axis=1).tolist()
            for relative, intervals in found.items():
                intervals.append(until_precise(means, relative))
        return {f"±{relative:.0%}": covers(intervals, queue.mean) for relative, intervals in found.items()}

    return measure


def mean_waits(queue: Queue) -> Callable[[np.random.Generator, int], Matrix]:
    return lambda random, count: mean_of_runs(queue.runs(random, count, CUSTOMERS, DROPPED))


# Goals

LEVEL = 0.95
LEAST, BUDGET = 10, 320
"""Replications of a value at first and at most, as a study has them unless it says otherwise."""

POOL = 20_000
"""Runs of each value that replications are drawn from, so that their mean is the truth."""


def decide(values: Sequence[float], bound: float, kind: Range, error: float) -> tuple[bool | None, int]:
    """Whether the mean is above a bound, looked at as a study looks, and how many values it took."""
    stage, before = first_stage(LEVEL), 0
    for count in looks(LEAST, BUDGET, stage):
        found = above(values[:count], bound, kind, allowed(error, count, before, BUDGET, stage))
        if found is not None:
            return found, count
        before = count
    return None, before


class Search:
    """One search for the first of some values that meets a goal, by bisection, as a study searches."""

    def __init__(
        self,
        drawn: Sequence[Sequence[float]],
        judge: Callable[[Sequence[float]], tuple[bool | None, int]],
    ) -> None:
        self.drawn, self.judge = drawn, judge
        self.said: dict[int, bool | None] = {}
        self.taken: dict[int, int] = {}
        self.best = first_index(len(drawn), lambda index: self.meets(index) is True)
        if self.best:
            first_index(self.best, lambda index: self.meets(index) is not False)

    def meets(self, index: int) -> bool | None:
        if index not in self.said:
            self.said[index], self.taken[index] = self.judge(self.drawn[index])
        return self.said[index]

    @property
    def is_decided(self) -> bool:
        """Whether a value is named, and the one before it is shown to fail."""
        return self.best == 0 or (self.best is not None and self.said.get(self.best - 1) is False)


def goal(
    pools: Callable[[np.random.Generator], Matrix],
    bound: float,
    kind: Range,
    at_least: bool,
    interval: Callable[[Sequence[float]], Estimate] = estimate,
) -> Measure:
    """Seek the first of some values whose mean is above a bound (or below it), where the last ones are.

    `pools` has a row for each value, of what replications show. An answer is false if what is said to meet
    the goal does not, or what is said to fail it meets it; what stays undecided is neither. `interval` is
    that of the values of an answer, which is shown beside it.
    """

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        random = np.random.default_rng(seed)
        pool = pools(random)
        truth = [bool(mean > bound) is at_least for mean in pool.mean(axis=1)]
        error = error_of_value(LEVEL, len(pool))

        def judge(values: Sequence[float]) -> tuple[bool | None, int]:
            more, taken = decide(values, bound, kind, error)
            return (more if more is None else more is at_least), taken

        draws = (pool[:, random.integers(pool.shape[1], size=BUDGET)].tolist() for _ in range(repetitions))
        searches = [Search(drawn, judge) for drawn in draws]
        true = sum(
            all(says in (None, truth[index]) for index, says in search.said.items()) for search in searches
        )
        decided = sum(search.is_decided for search in searches)
        answers = [(search, search.best) for search in searches if search.best is not None]
        held = sum(
            covers([interval(search.drawn[best][: search.taken[best]])], pool[best].mean()).covered
            for search, best in answers
        )
        found = {
            "not false": Cover(true, 0, repetitions - true, repetitions, 0.0),
            "(decided)": Cover(decided, 0, repetitions - decided, repetitions, 0.0),
        }
        if answers:
            found["(mean of the answer)"] = Cover(held, 0, len(answers) - held, len(answers), 0.0)
        return found

    return measure


def of_chance(values: Sequence[float]) -> Estimate:
    """The interval that a study shows of a chance."""
    return chance(round(sum(values)), len(values), LEVEL)


def rare_failures(random: np.random.Generator) -> Matrix:
    """A job in each run, which fails with a chance of 20, 19, … 1 %."""
    chances = np.arange(20, 0, -1)[:, None] / 100
    failed: Matrix = (random.random((20, POOL)) < chances).astype(float)
    return failed


def prompt_starts(random: np.random.Generator) -> Matrix:
    """The share of 100 jobs that start within a fifth of their length, with 4 to 9 workers; from empty."""
    return np.stack([(Queue("", 3 / c, c).runs(random, POOL, 100) <= 0.2).mean(axis=1) for c in range(4, 10)])


def waits_by_load(random: np.random.Generator) -> Matrix:
    """The mean wait of 100 customers in M/M/1 with a load of 0.9, 0.8, … 0.5; from empty."""
    return np.stack(
        [mean_of_runs(Queue("", load / 100, 1).runs(random, POOL, 100)) for load in range(90, 40, -10)]
    )


WARM_UP, WORLDS, PRECISION, GOALS = (
    "Mean wait after a warm-up, M/M/1 with load 0.8",
    "Mean wait in worlds",
    "Mean wait until it is precise",
    "Goals",
)
BUSY = Queue("M/M/1, load 0.8", 0.8)

ROWS = [
    Row(WARM_UP, "none", warmed(BUSY, none)),
    Row(WARM_UP, "fixed, 300 of 1,000 customers", warmed(BUSY, long_enough)),
    Row(WARM_UP, "MSER-5 of the mean of 10 pilots", warmed(BUSY, by_mser5)),
    Row(WARM_UP, "Welch, 10 pilots", warmed(BUSY, by_welch)),
    Row(WORLDS, "M/M/1 with load 0.6, by rs.run", world),
    Row(PRECISION, "M/M/1, load 0.8, as a run does", precision(BUSY.mean, mean_waits(BUSY))),
    Row(PRECISION, "M/M/1, load 0.8, as a study does", precision(BUSY.mean, mean_waits(BUSY), GROWTH)),
    Row(
        PRECISION,
        "exponential, as a study does",
        precision(1.0, lambda random, count: random.standard_exponential(count), GROWTH),
    ),
    Row(PRECISION, "the same of whole runs from empty", precise_after(BUSY, none)),
    Row(PRECISION, "the same after a fixed warm-up of 300 of 1,000", precise_after(BUSY, long_enough)),
    Row(PRECISION, "the same after MSER-5 of 10 pilots", precise_after(BUSY, by_mser5)),
    Row(PRECISION, "the same after Welch, 10 pilots", precise_after(BUSY, by_welch)),
    Row(GOALS, "a failure in a run: chance <= 2.5 %", goal(rare_failures, 0.025, "count", False, of_chance)),
    Row(GOALS, "a share of jobs in time >= 90 %", goal(prompt_starts, 0.9, "fraction", True)),
    Row(GOALS, "a mean wait <= 2.6", goal(waits_by_load, 2.6, "from 0", False)),
]
