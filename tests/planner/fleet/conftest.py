"""What the tests of the fleet share: the arrays of a result, compared one by one."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranksim.planner.fleet.results import ARRAYS, FleetResult

sys.path.insert(0, str(Path(__file__).parent))

Same = Callable[[FleetResult, FleetResult], None]


def assert_same(one: FleetResult, other: FleetResult) -> None:
    for name in ARRAYS:
        left, right = getattr(one, name), getattr(other, name)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.size == 0:
            continue
        differing = np.flatnonzero((left != right).reshape(len(left), -1).any(axis=1))
        row: Any = differing[0] if len(differing) else None
        assert row is None, f"{name}[{row}]: {left[row]} and {right[row]}"


@pytest.fixture
def same() -> Same:
    """Assert that two results are equal, array by array, and say where they are not."""
    return assert_same
