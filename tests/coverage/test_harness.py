"""The instrument itself: it counts what it should, and its queues have the waits that theory gives them."""

from statistics import fmean, stdev

import numpy as np
import pytest
from tests.coverage.harness import coverage, covers
from tests.coverage.queues import QUEUES, Queue

from ranksim.inference.distributions import student_t


def test_an_interval_covers_lies_below_or_lies_above() -> None:
    found = covers([(5, 4, 6), (5, 4, 4.5), (5, 5.5, 6), (5, None, 4.9), (5, None, None), (4, 5)], 5.0)
    assert (found.covered, found.below, found.above, found.of) == (3, 2, 1, 6)
    assert found.width == pytest.approx((2 + 0.5 + 0.5 + 1) / 4)


def student(values: list[float]) -> tuple[float, float]:
    """Student's interval itself, whose coverage of normal values is exact."""
    half = student_t(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return fmean(values) - half, fmean(values) + half


@pytest.mark.slow
def test_student_covers_the_mean_of_normal_values() -> None:
    found = coverage(student, 10.0, lambda random, *shape: random.normal(10, 3, shape), 5, 4000, seed=5)
    assert found.share == pytest.approx(0.95, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_a_queue_waits_as_theory_says(queue: Queue) -> None:
    waits = queue.runs(np.random.default_rng(3), 3000, 60, dropped=1000)
    means = waits.mean(axis=1)
    assert means.mean() == pytest.approx(queue.mean, abs=4 * means.std() / 3000**0.5)
    if queue.variation == 1:
        above = (waits > queue.quantile(0.95)).mean(axis=1)
        assert above.mean() == pytest.approx(0.05, abs=4 * above.std() / 3000**0.5)
