"""Wilson intervals, against SciPy's."""

import pytest
import scipy

from ranksim.inference.shares import wilson


@pytest.mark.parametrize(("count", "total"), [(0, 10), (3, 10), (10, 10), (1, 1000), (480, 1000)])
def test_the_interval_of_a_share_is_that_of_scipy(count: int, total: int) -> None:
    expected = scipy.stats.binomtest(count, total).proportion_ci(method="wilson")
    assert wilson(count, total) == pytest.approx((expected.low, expected.high), abs=1e-12)
