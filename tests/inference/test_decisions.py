"""Decisions on means and chances: what evidence comes to, what looks cost, how often they are wrong."""

import math
import random
from collections.abc import Callable

import pytest

from ranksim.inference import evidence
from ranksim.inference.decisions import (
    Range,
    above,
    allowed,
    error_of_value,
    first_stage,
    looks,
    share_above,
    spent,
)
from ranksim.inference.skewed import agree, corrected_t


def test_evidence_that_nothing_happens_is_that_of_the_boldest_bet() -> None:
    found = evidence.of_chance(0, 100, 0.05)
    assert found.less == pytest.approx(100 * math.log(1 / 0.95) + math.log(0.5), abs=0.1)
    assert found.more < 0
    assert evidence.of_mean([0.0] * 100, 0.05) == pytest.approx(found)


def test_evidence_is_fair() -> None:
    """Were the mean `at`, a stake would be worth 1 on average: the sum over all outcomes is 1."""
    n, at = 12, 0.3
    chances = [math.comb(n, k) * at**k * (1 - at) ** (n - k) for k in range(n + 1)]
    for side in (0, 1):
        stakes = [math.exp(evidence.of_chance(k, n, at)[side]) for k in range(n + 1)]
        assert sum(p * stake for p, stake in zip(chances, stakes, strict=True)) == pytest.approx(1)


def test_evidence_at_and_beyond_the_ends() -> None:
    assert evidence.of_mean([0.0, 0.0], 0.0) == (-math.inf, -math.inf)
    assert evidence.of_mean([0.0, 0.1], 0.0) == (math.inf, -math.inf)
    assert evidence.of_mean([0.5], 1.5) == (-math.inf, math.inf)
    assert evidence.of_mean([0.5], -1.0) == (math.inf, -math.inf)
    assert (
        evidence.of_mean([7.0] * 50, 5.0, math.inf).less
        < 0
        < evidence.of_mean([7.0] * 50, 5.0, math.inf).more
    )


def test_t_is_students_where_values_are_symmetric() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert corrected_t(values, 2.0) == pytest.approx(math.sqrt(5) / math.sqrt(2.5))


def test_t_is_pushed_up_by_a_tail_to_the_right() -> None:
    """Where large values are rare a sample's mean is mostly too low, and more so than its spread tells."""
    values = [1.0] * 30 + [1.5] * 10 + [9.0]
    plain = math.sqrt(41) * (sum(values) / 41 - 2.0)
    assert plain < 0
    assert corrected_t(values, 2.0) > plain / 1.3
    mirrored = [-value for value in values]
    assert corrected_t(mirrored, -2.0) == pytest.approx(-corrected_t(values, 2.0))


def test_t_grows_with_the_mean() -> None:
    source = random.Random(2)
    values = [source.expovariate(1) ** 3 for _ in range(20)]
    found = [corrected_t(values, at / 10) for at in range(-50, 200)]
    assert found == sorted(found, reverse=True)


def test_a_share_of_equal_trials_is_decided_as_its_values() -> None:
    source, error = random.Random(3), allowed(0.05, 80, 72, 320, 72)
    hits = [float(sum(source.random() < 0.8 for _ in range(10))) for _ in range(80)]
    for at in (0.5, 0.7, 0.75, 0.79, 0.81, 0.85, 0.9):
        shares = above([hit / 10 for hit in hits], at, "fraction", error)
        assert share_above(hits, [10.0] * 80, at, error) is shares


def test_a_share_that_replications_agree_on_is_decided_by_evidence_alone() -> None:
    """What none has shown is not ruled out by t: 72 replications, all in time, do not show 99.9 %."""
    trials = [4.0, 5.0, 6.0] * 24
    assert share_above(trials, trials, 0.999, allowed(0.05, 72, 0, 320, 72)) is None
    assert share_above(trials, trials, 0.5, allowed(0.05, 72, 0, 320, 72)) is True
    assert share_above([], [], 0.5, allowed(0.05, 72, 0, 320, 72)) is None


def test_values_agree_but_for_rounding() -> None:
    assert agree([0.1 + 0.2, 0.3])
    assert agree([0.0, 0.0])
    assert not agree([0.0, 1e-12])


def test_what_looks_cost() -> None:
    assert first_stage(0.95) == 72  # 0.95 ** 72 < 0.025 < 0.95 ** 71
    assert looks(10, 320, 72) == [10, 13, 17, 22, 28, 35, 44, 55, 69, 72, 90, 113, 142, 178, 223, 279, 320]
    assert looks(1, 5, 72) == [2, 3, 4, 5]
    assert looks(100, 200, 72) == [100, 125, 157, 197, 200]
    assert error_of_value(0.95, 16) == pytest.approx(0.05 / 10)
    assert error_of_value(0.95, 2) == pytest.approx(0.05 / 2)


def test_all_looks_together_spend_what_is_allowed() -> None:
    counts = looks(10, 320, 72)
    shares = [
        allowed(0.01, count, before, 320, 72) for before, count in zip([0, *counts], counts, strict=False)
    ]
    assert sum(share.now for share in shares) == pytest.approx(0.0025)
    assert [share.now for share in shares[:9]] == [0.0] * 9
    assert {(share.ever, share.total) for share in shares} == {(0.0075, 0.01)}
    assert spent(0.0025, 108, 72, 320) == pytest.approx(0.0025 * 36 / 320)


Draw = Callable[[random.Random], float]

FAMILIES: dict[str, tuple[Range, float, Draw]] = {
    "rare failures": ("count", 0.02, lambda source: float(source.random() < 0.02)),
    "rare failures, as shares": ("fraction", 0.02, lambda source: float(source.random() < 0.02)),
    "rare outages": ("fraction", 0.05, lambda source: float(source.random() < 0.1) * source.random()),
    "exponential": ("from 0", 1.0, lambda source: source.expovariate(1)),
    "lognormal": ("from 0", math.exp(0.5), lambda source: source.lognormvariate(0, 1)),
    "losses": ("any", -math.exp(0.5), lambda source: -source.lognormvariate(0, 1)),
    "shares near one": ("fraction", 0.95, lambda source: source.betavariate(4.75, 0.25)),
}


CROWDS: dict[str, Callable[[random.Random], tuple[int, float]]] = {
    "calm or busy": lambda source: (10, 0.2) if source.random() < 0.3 else (2, 0.9),
    "all or none of a few": lambda source: (k := source.randint(1, 8), float(source.random() < 1 / k)),
    "busy is a little worse": lambda source: (k := source.randint(0, 40), 0.95 - k / 80),
}
"""How many trials a replication has, and the chance that one hits."""


@pytest.mark.slow
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_share_on_the_bound_is_seldom_decided(crowd: str) -> None:
    """The share of all trials is the bound, the mean of shares is not: 5 % are allowed, over all looks."""
    source = random.Random(crowd)

    def draw() -> tuple[float, float]:
        trials, chance = CROWDS[crowd](source)
        return float(sum(source.random() < chance for _ in range(trials))), float(trials)

    many = [draw() for _ in range(200_000)]
    at = math.fsum(hit for hit, _ in many) / math.fsum(of for _, of in many)
    counts, wrong, runs = looks(10, 320, first_stage(0.95)), 0, 100
    for _ in range(runs):
        seen = [draw() for _ in range(320)]
        for before, count in zip([0, *counts], counts, strict=False):
            hits, trials = zip(*((hit, of) for hit, of in seen[:count] if of), strict=True)
            if share_above(hits, trials, at, allowed(0.05, count, before, 320, 72)) is not None:
                wrong += 1
                break
    assert wrong <= 9, crowd


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_decision_on_the_bound_is_seldom_taken(family: str) -> None:
    """The mean is the bound itself, where either decision is wrong; 5 % are allowed, over all looks."""
    kind, at, draw = FAMILIES[family]
    source = random.Random(family)
    counts, wrong, runs = looks(10, 320, first_stage(0.95)), 0, 100
    for _ in range(runs):
        values = [draw(source) for _ in range(320)]
        for before, count in zip([0, *counts], counts, strict=False):
            if above(values[:count], at, kind, allowed(0.05, count, before, 320, 72)) is not None:
                wrong += 1
                break
    assert wrong <= 9, family  # of 100 where 5 are expected, 10 have a chance of 3 %
