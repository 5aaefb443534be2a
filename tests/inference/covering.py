"""Counting how many intervals reach over what is true."""

from collections.abc import Callable, Sequence

from ranksim.inference.estimate import Estimate


def covering(
    interval: Callable[[Sequence[float]], Estimate],
    draw: Callable[[], list[float]],
    truth: float,
    *,
    tries: int,
) -> int:
    """Draw a sample so many times, and count the intervals that reach over the truth."""
    kept = 0
    for _ in range(tries):
        _, low, high = interval(draw())
        assert low is not None
        assert high is not None
        kept += low <= truth <= high
    return kept
