"""The intervals of counts, shares and means by the formulas that the page states, computed with SciPy."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats

Page = Callable[[str], dict[str, Any]]
Ends = tuple[float, float]


def wider(n: int) -> float:
    return float((stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975)) ** 2)


def binomial(hits: float, trials: float) -> Ends:
    """Clopper and Pearson's."""
    misses = trials - hits
    low = stats.beta.ppf(0.025, hits, misses + 1) if hits else 0
    return float(low), float(stats.beta.ppf(0.975, hits + 1, misses) if misses else 1)


def least(counts: Sequence[float]) -> float:
    """The exact low end of the share of replications with one or more."""
    return binomial(sum(count >= 1 for count in counts), len(counts))[0]


def of_mean(values: Sequence[float]) -> Ends:
    """Student's and Willink's, on each side the farther end."""
    n, m, s = len(values), fmean(values), stdev(values)
    t = stats.t.ppf(0.975, n - 1)
    if n == 2 or s == 0:
        return m - t * s / math.sqrt(n), m + t * s / math.sqrt(n)
    a = n / ((n - 1) * (n - 2)) * sum(((x - m) / s) ** 3 for x in values) / (6 * math.sqrt(n))

    def g(x: float) -> float:
        return float(x if abs(a) < 1e-6 else (math.cbrt(1 + 6 * a * (x - a)) - 1) / (2 * a))

    e = s / math.sqrt(n)
    return m - max(t, g(t)) * e, m + max(t, -g(-t)) * e


def of_count(counts: Sequence[float]) -> Ends:
    n, m, s = len(counts), fmean(counts), stdev(counts)
    if not m:
        return 0, float(stats.chi2.ppf(0.975, 2) / 2 / n)
    if not s:
        u = 1 - 0.025 ** (1 / n)
        return max(least(counts), m - u), m + u
    f = s**2 / m * wider(n)
    events = n * m / f
    low = f / n * stats.chi2.ppf(0.025, 2 * events) / 2
    high = f / n * stats.chi2.ppf(0.975, 2 * events + 2) / 2
    student = of_mean(counts)
    return max(least(counts), min(low, student[0])), max(high, student[1])


def of_share(hits: Sequence[float], trials: Sequence[float]) -> Ends:
    n, total = len(hits), sum(trials)
    p = sum(hits) / total
    if p in (0, 1):
        return binomial(p * total, total)
    off = [h - p * of for h, of in zip(hits, trials, strict=True)]
    v = n / (n - 1) * sum(x**2 for x in off) / total**2
    if v < 1e-24:
        u = (1 - 0.025 ** (1 / n)) * n / total
        return max(0, p - u), min(1, p + u)
    effective = p * (1 - p) / v / wider(n)
    low, high = binomial(p * effective, effective)
    student = of_mean([p + x * n / total for x in off])
    misses = [of - h for h, of in zip(hits, trials, strict=True)]
    return (
        max(least(hits) * n / total, min(low, student[0])),
        min(1 - least(misses) * n / total, max(high, student[1])),
    )


@pytest.mark.slow
@pytest.mark.example(
    "docs/statistics.md",
    "lost == [7, 7, 8, 7, 7]",
    'result.metric("endpoints.erp.lost_cancelled")',
    "[54, 55, 56, 53, 55]",
    'result.metric("jobs.rank_run.wait.within.10m")',
)
def test_printed_intervals_are_those_of_the_formulas(page: Page) -> None:
    names = page("docs/statistics.md")
    low, high = of_count(names["lost"])
    assert tuple(names["result"].metric("endpoints.erp.lost_cancelled")) == pytest.approx((7.2, low, high))
    assert f"7.2 ({low:.1f} to {high:.1f})" == "7.2 (6.6 to 8.5)"
    low, high = of_share([56 * share for share in names["in_time"]], [56] * 5)  # 8 domains × 7 nights
    assert tuple(names["result"].metric("jobs.rank_run.wait.within.10m")) == pytest.approx((0.975, low, high))
    assert f"97.5 ({100 * low:.1f} to {100 * high:.1f}) %" == "97.5 (93.5 to 99.5) %"


@pytest.mark.slow
def test_other_counts_and_shares_have_the_intervals_of_the_formulas(page: Page) -> None:
    names, draw = page("docs/statistics.md"), random.Random(7)
    for case in range(400):
        n = draw.choice((2, 3, 5, 10, 30))
        most = draw.choice((1, 3, 60))
        counts = [float(draw.randrange(most)) + draw.choice((0, 0, 2)) for _ in range(n)]
        if case % 7 == 0:
            counts = counts[:1] * n
        trials = [max(count, 1) + draw.randrange(1, 40) * (case % 5 > 0) for count in counts]
        mean = fmean(counts), *of_count(counts)
        assert tuple(names["counted"](counts)) == pytest.approx(mean, abs=1e-9), counts
        share = sum(counts) / sum(trials), *of_share(counts, trials)
        assert tuple(names["clustered"](counts, trials)) == pytest.approx(share, abs=1e-9), (counts, trials)
        if len(set(counts)) > 1:
            assert tuple(names["estimate"](counts))[1:] == pytest.approx(of_mean(counts)), counts
