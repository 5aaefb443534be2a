"""What a request costs the server of the facade, all rules on, against a bare handler: see facade_costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from facade_costs import costs  # a script beside this file

LEAST = {"GET": 0.4, "POST": 0.15}
"""The shares below which something is badly wrong; the aims are 0.65 and 0.33."""


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_bare_handler_takes_a_share_of_what_the_facade_takes(
    benchmark: Callable[..., Any], method: str
) -> None:
    bare, facade = benchmark.pedantic(lambda: costs(["bare", "facade"], method, 20), rounds=1, iterations=1)
    benchmark.extra_info.update(bare=round(bare), facade=round(facade), share=round(bare / facade, 2))
    assert bare / facade > LEAST[method]
