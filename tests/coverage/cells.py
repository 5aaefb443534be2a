"""The rows of the table: what is estimated, by which procedure, where the truth is known.

A row has one source of data and one procedure, and a column for each number of replications; its data are
made once and serve all columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from tests.coverage.harness import Cover, Matrix, Procedure, covers
from tests.coverage.queues import QUEUES, Queue

from ranksim.inference.counts import counted
from ranksim.inference.differences import compared
from ranksim.inference.gains import estimate_gain
from ranksim.inference.kinds import Kind, MetricSample
from ranksim.inference.means import estimate
from ranksim.inference.quantiles import quantile
from ranksim.inference.shares import chance, clustered

SIZES = (5, 10, 30, 100)
"""Replications that users run."""

CUSTOMERS, DROPPED = 500, 300
"""Waits of a run, and those before them that a run leaves out as its warm-up."""

Measure = Callable[[int, int], Mapping[str, Cover]]
"""Give what covered in each column, of so many repetitions and a seed."""


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    group: str
    name: str
    measure: Measure


def columns(
    procedure: Procedure, truth: float, matrix: Matrix, sizes: tuple[int, ...] = SIZES
) -> dict[str, Cover]:
    """Measure a procedure on the first 5, 10, … replications of each repetition."""
    return {str(n): covers([procedure(row[:n].tolist()) for row in matrix], truth) for n in sizes}


def values(draw: Callable[[np.random.Generator, tuple[int, int]], Matrix], truth: float) -> Measure:
    """Means of values that are drawn at random."""
    return lambda repetitions, seed: columns(
        estimate, truth, draw(np.random.default_rng(seed), (repetitions, SIZES[-1]))
    )


# Waits


def mean_of_runs(waits: Matrix) -> Matrix:
    return waits.mean(axis=1)


def p95_of_runs(waits: Matrix) -> Matrix:
    rank = int(np.ceil(0.95 * waits.shape[1])) - 1
    return np.partition(waits, rank, axis=1)[:, rank]


def runs(
    queue: Queue,
    repetitions: int,
    seed: int | tuple[int, ...],
    number: Callable[[Matrix], Matrix],
    dropped: int = DROPPED,
) -> Matrix:
    """Return a number of each run, a row for each repetition."""
    random, at_once = np.random.default_rng(seed), 50
    parts = [
        number(queue.runs(random, at_once * SIZES[-1], CUSTOMERS, dropped))
        for _ in range(0, repetitions, at_once)
    ]
    return np.concatenate(parts).reshape(-1, SIZES[-1])[:repetitions]


def mean_wait(queue: Queue) -> Measure:
    return lambda repetitions, seed: columns(
        estimate, queue.mean, runs(queue, repetitions, seed, mean_of_runs)
    )


def p95_of_a_run(queue: Queue) -> Measure:
    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        truth = float(runs(queue, 500, (seed, 1), p95_of_runs).mean())
        return columns(estimate, truth, runs(queue, repetitions, seed, p95_of_runs))

    return measure


def batches(
    queue: Queue, repetitions: int, random: np.random.Generator, count: int, customers: int, dropped: int = 0
) -> Iterator[Matrix]:
    """Yield the waits of so many runs for each repetition."""
    at_once = 50
    for done in range(0, repetitions, at_once):
        waits = queue.runs(random, at_once * count, customers, dropped)
        yield from waits.reshape(at_once, count, customers)[: repetitions - done]


def bucketed(waits: Matrix) -> Matrix:
    """Round to the middle of buckets of which every power of two has 128, as `sim.histogram` does."""
    fraction, power = np.frexp(waits)
    rounded: Matrix = np.ldexp((np.floor(fraction * 256) + 0.5) / 256, power) * (waits > 0)
    return rounded


# Shares and counts

TRIALS = 100


def share(truth: float, together: float = 0.0) -> Measure:
    """Shares of the calls of a run; `together` is the correlation of two calls of the same run."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        random, shape = np.random.default_rng(seed), (repetitions, SIZES[-1])
        chances = np.full(shape, truth)
        if together:
            size = 1 / together - 1
            chances = random.beta(truth * size, (1 - truth) * size, shape)
        hits = random.binomial(TRIALS, chances).astype(float)
        return columns(lambda row: clustered(row, [TRIALS] * len(row)), truth, hits)

    return measure


def chance_of(truth: float) -> Measure:
    """The chance that a replication shows something."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        happened = np.random.default_rng(seed).random((repetitions, SIZES[-1])) < truth
        return columns(lambda row: chance(int(sum(row)), len(row)), truth, happened.astype(float))

    return measure


def count(mean: float, together: int = 1) -> Measure:
    """How often something happens in a run: by itself, or so many times together."""
    return lambda repetitions, seed: columns(
        counted,
        mean,
        together
        * np.random.default_rng(seed).poisson(mean / together, (repetitions, SIZES[-1])).astype(float),
    )


# Differences


def difference(kind: Kind, truth: float, pairs: Callable[[int, int], tuple[Matrix, Matrix]]) -> Measure:
    """The difference of two points, replication by replication."""

    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        first, second = pairs(repetitions, seed)
        trials = (TRIALS,) * SIZES[-1] if kind == "share" else None

        def interval(a: list[float], b: list[float], n: int) -> tuple[float | None, float | None]:
            of = None if trials is None else trials[:n]
            found = compared(MetricSample(kind, a[:n], of), MetricSample(kind, b[:n], of))
            return found.low, found.high

        return {
            str(n): covers(
                [interval(a.tolist(), b.tolist(), n) for a, b in zip(first, second, strict=True)], truth
            )
            for n in SIZES
        }

    return measure


def gained(truth: float, pairs: Callable[[int, int], tuple[Matrix, Matrix]]) -> Measure:
    def measure(repetitions: int, seed: int) -> Mapping[str, Cover]:
        both = list(zip(*(side.tolist() for side in pairs(repetitions, seed)), strict=True))
        return {str(n): covers([estimate_gain(a[:n], b[:n]) for a, b in both], truth) for n in SIZES}

    return measure


FASTER = 0.9
"""By how much shorter service is at the second point."""


def two_queues(repetitions: int, seed: int) -> tuple[Matrix, Matrix]:
    """Mean waits of M/M/1 from empty, and with service a tenth faster for the same customers."""
    sides: list[list[Matrix]] = [[], []]
    random = np.random.default_rng(seed)
    for _ in range(0, repetitions, 50):
        waits, sums = np.zeros((2, 50 * SIZES[-1])), np.zeros((2, 50 * SIZES[-1]))
        for _ in range(CUSTOMERS):
            sums += waits
            service, gap = random.standard_exponential((2, waits.shape[1]))
            waits = np.maximum(0.0, waits + np.stack([service, FASTER * service]) - gap / 0.8)
        for side, total in zip(sides, sums, strict=True):
            side.append(total / CUSTOMERS)
    first, second = (np.concatenate(side).reshape(-1, SIZES[-1])[:repetitions] for side in sides)
    return first, second


def waits_apart(repetitions: int, seed: int) -> Mapping[str, Cover]:
    first, second = two_queues(3000, seed + 1)
    return difference("mean", float((first - second).mean()), two_queues)(repetitions, seed)


def waits_gain(repetitions: int, seed: int) -> Mapping[str, Cover]:
    first, second = two_queues(3000, seed + 1)
    truth = (first.var() + second.var()) / (first - second).var()
    return gained(float(truth), two_queues)(repetitions, seed)


def rare_counts(repetitions: int, seed: int) -> tuple[Matrix, Matrix]:
    """Five events in each of a pair, the same ones, and to the first 0.2 more."""
    random, shape = np.random.default_rng(seed), (repetitions, SIZES[-1])
    same = random.poisson(5, shape).astype(float)
    return same + random.poisson(0.2, shape), same


def shares_apart(repetitions: int, seed: int) -> tuple[Matrix, Matrix]:
    """Of 100 calls one in twenty fails at both points, and one in a hundred more at the first."""
    random, shape = np.random.default_rng(seed), (repetitions, SIZES[-1])
    same = random.binomial(TRIALS, 0.05, shape)
    return (same + random.binomial(TRIALS - same, 0.01 / 0.95)) / TRIALS, same / TRIALS


def correlated(repetitions: int, seed: int) -> tuple[Matrix, Matrix]:
    """Normal numbers with a correlation of 0.9."""
    random, shape = np.random.default_rng(seed), (repetitions, SIZES[-1])
    same = random.normal(size=shape)
    first, second = (0.9**0.5 * same + 0.1**0.5 * random.normal(size=shape) for _ in range(2))
    return first, second


def lognormal_pairs(repetitions: int, seed: int) -> tuple[Matrix, Matrix]:
    first, second = correlated(repetitions, seed)
    return np.exp(first), np.exp(second)


LOGNORMAL_GAIN = 1 / (1 - math.expm1(0.9) / math.expm1(1))

MEANS, WAITS, P95 = (
    "Means of independent values",
    "Mean wait in the long run",
    "95th percentile of a run, on average",
)
SHARES, COUNTS, DIFFERENCES, GAINS = ("Shares and chances", "Counts", "Paired differences", "Gains")
QUANTILES = "Quantiles over replications"

ROWS = [
    Row(MEANS, "normal", values(lambda random, shape: random.normal(10, 3, shape), 10)),
    Row(MEANS, "exponential", values(lambda random, shape: random.standard_exponential(shape), 1)),
    Row(
        MEANS, "lognormal, deviation 0.5", values(lambda r, shape: r.lognormal(0, 0.5, shape), np.exp(0.125))
    ),
    Row(MEANS, "lognormal, deviation 1", values(lambda r, shape: r.lognormal(0, 1, shape), np.exp(0.5))),
    *(Row(WAITS, queue.name, mean_wait(queue)) for queue in QUEUES),
    *(Row(P95, queue.name, p95_of_a_run(queue)) for queue in QUEUES),
    *(Row(SHARES, f"{p:g} of 100 calls", share(p)) for p in (0.001, 0.05, 0.5, 0.999)),
    *(
        Row(SHARES, f"{p:g} of 100 calls, correlated by {together:g}", share(p, together))
        for p, together in ((0.05, 0.02), (0.05, 0.2), (0.5, 0.2))
    ),
    *(Row(SHARES, f"chance of {p:g}", chance_of(p)) for p in (0.001, 0.05, 0.5)),
    *(Row(COUNTS, f"{mean:g} in a run", count(mean)) for mean in (0.026, 0.2, 1, 10)),
    Row(COUNTS, "0.3 in a run, three together", count(0.3, together=3)),
    Row(COUNTS, "1 in a run, three together", count(1, together=3)),
    Row(DIFFERENCES, "mean waits, service a tenth faster", waits_apart),
    Row(DIFFERENCES, "counts: 5 of both, 0.2 more", difference("count", 0.2, rare_counts)),
    Row(DIFFERENCES, "shares: 5 % of both, a point more", difference("share", 0.01, shares_apart)),
    Row(GAINS, "normal, correlation 0.9", gained(10.0, correlated)),
    Row(GAINS, "lognormal, correlation 0.85", gained(LOGNORMAL_GAIN, lognormal_pairs)),
    Row(GAINS, "mean waits, service a tenth faster", waits_gain),
    *(
        Row(
            QUANTILES,
            f"{q:g} of exponential values",
            lambda repetitions, seed, q=q: columns(
                lambda row: quantile(row, q, 0.95),
                -float(np.log1p(-q)),
                np.random.default_rng(seed).standard_exponential((repetitions, SIZES[-1])),
            ),
        )
        for q in (0.5, 0.95)
    ),
]
