"""Conditions: how they are read, when they are decided, and intervals held against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import scipy

from ranksim.inference.decisions import Allowed
from ranksim.inference.kinds import MetricSample
from ranksim.inference.shares import chance
from ranksim.planner.study.condition import MetricCondition


@pytest.fixture
def condition(toy: ModuleType) -> Callable[[str], MetricCondition]:
    return lambda text: MetricCondition.parse(text, toy.Toys())


@pytest.mark.parametrize(
    ("text", "metric", "sign", "bound", "event"),
    [
        ("level <= 10", "level", "<=", 10.0, None),
        ("cost>1.5 USD", "cost", ">", 1_500_000.0, None),
        ("chance >= 95 %", "chance", ">=", 0.95, None),
        ("P(cost < 0 USD) < 1%", "cost", "<", 0.01, ("<", 0.0)),
        ("P( level >= 3 ) <= 0.05", "level", "<=", 0.05, (">=", 3.0)),
    ],
)
def test_it_is_read(
    condition: Callable[[str], MetricCondition],
    text: str,
    metric: str,
    sign: str,
    bound: float,
    event: object,
) -> None:
    found = condition(text)
    assert (found.metric, found.sign, found.bound, found.event) == (metric, sign, pytest.approx(bound), event)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level", "expected a condition such as"),
        ("level = 3", "expected a condition such as"),
        ("nothing <= 3", "no metric 'nothing'"),
        ("level <= many", "expected a number, found 'many'"),
        ("cost <= 3", "expected an amount such as '15 USD', found '3'"),
        ("P(level > 1) < 2", "expected a chance between 0 and 100 %"),
        ("P(level) < 2%", "expected a condition such as"),
    ],
)
def test_what_is_no_condition(condition: Callable[[str], MetricCondition], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"expected|no metric") as caught:
        condition(text)
    assert message in str(caught.value)


ANY_TIME = Allowed(ever=0.05, now=0.05, total=0.05)


@pytest.mark.parametrize(
    ("text", "values", "decision"),
    [
        ("level <= 10", [], None),
        ("level <= 10", [9.0], None),  # one value shows nothing
        ("level <= 10", [9.0] * 28, None),  # 0.05 ** (1 / 28) leaves 10 % to others, which may be at 19
        ("level <= 10", [9.0] * 30, True),
        ("level < 10", [10.0] * 1000, None),  # on the bound
        ("level < 0.1", [0.0] * 28, None),  # a count that differs does so by one
        ("level < 0.1", [0.0] * 29, True),
        ("level < 9", [10.0] * 30, False),
        ("cost < 1 USD", [0.9e6] * 30, True),
        ("chance <= 10%", [0.1] * 1000, None),
        ("chance <= 10%", [0.0] * 34, None),  # half the stake is on 1 / 0.9 each time
        ("chance <= 10%", [0.0] * 36, True),
        ("chance > 0%", [0.0, 0.01], True),
        ("chance <= 0%", [0.0] * 1000, None),
        ("chance <= 100%", [1.0, 0.99], True),
        ("level <= 10", [9.0, 9.1, 8.9, 9.0], True),
        ("level >= 10", [9.0, 9.1, 8.9, 9.0], False),
        ("level <= 10", [5.0, 14.0, 9.0, 11.0], None),
        ("P(level > 5) < 1%", [1.0] * 360, None),
        ("P(level > 5) < 1%", [1.0] * 370, True),  # 1.01 ** 370 / 2 > 20
        ("P(level > 5) < 1%", [1.0, 6.0, 6.0], False),
        ("P(level <= 5) > 99%", [1.0] * 370, True),
    ],
)
def test_it_is_decided(
    condition: Callable[[str], MetricCondition], text: str, values: list[float], decision: bool | None
) -> None:
    assert condition(text).decide(MetricSample("mean", values), ANY_TIME) is decision


def test_a_share_of_independent_trials_counts_each(condition: Callable[[str], MetricCondition]) -> None:
    share = condition("chance <= 10%")
    alike = MetricSample("share", [0.0] * 4, [10.0] * 4)
    assert share.decide(alike._replace(independent=True), ANY_TIME) is True
    assert share.decide(alike, ANY_TIME) is None


def test_a_share_is_decided_of_all_trials(condition: Callable[[str], MetricCondition]) -> None:
    """Of 1 of 1, 1 of 1 and 0 of 8 the mean of shares is two thirds, the share 2 of 10."""
    share = condition("chance >= 50%")
    busy_is_bad = MetricSample("share", [1.0, 1.0, 0.0] * 100, [1.0, 1.0, 8.0] * 100)
    assert share.decide(busy_is_bad, ANY_TIME) is False
    assert share.estimate(busy_is_bad, 0.95).mean == pytest.approx(0.2)
    without = MetricSample("share", [0.0, None] * 100, [10.0, 0.0] * 100)  # no trials, no share
    assert share.decide(without, ANY_TIME) is False


def test_a_replication_without_a_value_does_not_show_an_event(
    condition: Callable[[str], MetricCondition],
) -> None:
    """A job waits too long in 48 of 300 replications; in the others there is none."""
    sample = MetricSample("quantile", [9.0] * 48 + [None] * 252)
    for sign, held in (("<", True), (">=", False)):
        late = condition(f"P(level > 5) {sign} 50%")
        assert late.decide(sample, ANY_TIME) is held
        assert late.estimate(sample, 0.95).mean == pytest.approx(0.16)
    for event in ("< 10", "<= 9", ">= 9"):
        assert condition(f"P(level {event}) < 50%").events(sample.values) == 48


def test_a_mean_is_not_decided_by_t_before_it_may_be(condition: Callable[[str], MetricCondition]) -> None:
    not_yet, level = Allowed(ever=0.05, now=0.0, total=0.05), condition("level <= 10")
    assert level.decide(MetricSample("count", [9.0, 9.1, 8.9, 9.0] * 10), not_yet) is None
    above_zero = MetricSample("count", [90.0, 91.0, 89.0])  # as nothing is below 0
    assert level.decide(above_zero, not_yet) is False


@pytest.mark.parametrize(("events", "of"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 1000), (999, 1000)])
def test_the_interval_of_a_chance_is_that_of_clopper_and_pearson(events: int, of: int) -> None:
    oracle = scipy.stats.binomtest(events, of).proportion_ci(0.95, method="exact")
    assert chance(events, of, 0.95)[1:] == pytest.approx((oracle.low, oracle.high), abs=1e-9)


@pytest.mark.parametrize("text", ["chance >= 95%", "chance < 5%", "P(level > 3) <= 2%", "P(level > 3) > 98%"])
def test_so_many_replications_that_all_meet_it_decide(
    condition: Callable[[str], MetricCondition], text: str
) -> None:
    allowed = Allowed(ever=0.03, now=0.0, total=0.04)
    least = condition(text).least_replications(allowed, 1000)
    assert least is not None
    value = (4.0 if text.startswith("P") else 1.0) * (">" in text.partition(")")[2] or ">=" in text)
    for kind in ("share", "fraction"):
        for count, decision in ((least - 1, None), (least, True)):
            trials = [7.0] * count if kind == "share" and not text.startswith("P") else None
            assert condition(text).decide(MetricSample(kind, [value] * count, trials), allowed) is decision


def test_where_replications_that_differ_decide_as_well_none_are_counted(
    condition: Callable[[str], MetricCondition],
) -> None:
    assert condition("level <= 10").least_replications(ANY_TIME, 1000) is None
    assert condition("chance >= 100%").least_replications(ANY_TIME, 1000) is None
    assert condition("P(level > 3) < 0.1%").least_replications(ANY_TIME, 1000) == 1000
