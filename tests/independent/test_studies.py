"""The worked examples of studies: rounds of four minutes, a ceiling counted twice, and a sum's variance."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

MINUTE = 60_000_000


def starts(workers: int) -> list[int]:
    """Minutes that each of eight jobs of four minutes waits."""
    return [job // workers * 4 for job in range(8)]


@pytest.mark.example(
    "docs/studies.md",
    'within == {"capacity=1": 2 / 8, "capacity=2": 4 / 8, "capacity=4": 8 / 8}',
    'longest["difference"] == (4 - 28) * 60 * 1_000_000',
)
def test_eight_jobs_at_two_in_the_morning(page: Page) -> None:
    names = page("docs/studies.md")
    assert names["within"] == {
        f"capacity={workers}": sum(wait <= 5 for wait in starts(workers)) / 8 for workers in (1, 2, 4)
    }
    assert names["longest"]["difference"] == (max(starts(4)) - max(starts(1))) * MINUTE == -24 * MINUTE


@pytest.mark.example(
    "docs/studies.md", 'goal["answer"] == 4', '"4 meets jobs.rank_run.wait.within.5m >= 95%, 3 does not"'
)
def test_the_smallest_pool(page: Page) -> None:
    enough = [workers for workers in range(1, 17) if sum(wait <= 5 for wait in starts(workers)) / 8 >= 0.95]
    assert page("docs/studies.md")["goal"]["answer"] == min(enough) == 4
    assert page("docs/studies.md")["goal"]["text"].startswith(f"{min(enough)} meets ")
    assert page("docs/studies.md")["goal"]["text"].endswith(f", {min(enough) - 1} does not")


@pytest.mark.example("docs/studies.md", "60 USD in steps of five, for 65 USD would be 130")
def test_twice_the_ceiling_stays_below_the_price() -> None:
    assert max(ceiling for ceiling in range(50, 251, 5) if 2 * ceiling < 129) == 60
    assert 2 * 65 == 130


@pytest.mark.example(
    "docs/statistics.md", "every kind of replication that one in twenty is of", "The 72 are those"
)
def test_how_many_replications_show_what_one_in_twenty_is_of() -> None:
    """But for half of an error of five in a hundred."""
    unseen, replications = Fraction(1), 0
    while unseen > Fraction(25, 1000):
        unseen, replications = unseen * Fraction(19, 20), replications + 1
    assert replications == 72


@pytest.mark.example(
    "docs/studies.md", "Of 3*a* + 2*b* + *c* over the unit cube the shares are 9, 4 and 1 fourteenths"
)
def test_shares_of_the_variance_of_a_sum() -> None:
    """The variance of k times a uniform draw is k²/12."""
    parts = [Fraction(k * k, 12) for k in (3, 2, 1)]
    assert [part / sum(parts) for part in parts] == [Fraction(9, 14), Fraction(4, 14), Fraction(1, 14)]
