"""What a rate limit of twenty calls in two seconds can have done, counted by hand."""

from __future__ import annotations

import pytest

LIMIT, LENGTH = 20, 2_000_000


@pytest.mark.example("docs/limits.md", 'assert not rs.limits(calls, "20/2s").broken')
def test_a_window_admits_twenty_and_refuses_five() -> None:
    """One that opens with the first call: no second one begins within the 25 ms that the calls take."""
    admitted = []
    for at in range(0, 25_000, 1000):
        counted = sum(earlier > at - LENGTH for earlier in admitted)
        if counted < LIMIT:
            admitted.append(at)
    assert admitted == list(range(0, 20_000, 1000))


@pytest.mark.example("docs/limits.md", 'for n in range(25)]], "20/2s").broken')
def test_no_windows_admit_forty_five_in_less_than_one() -> None:
    """In less than the length of a window at most two of them meet, each of which admits twenty."""
    admitted = [*range(0, 20_000, 1000), *[900_000] * 25]
    assert max(admitted) + 1000 - min(admitted) < LENGTH
    assert len(admitted) > 2 * LIMIT
