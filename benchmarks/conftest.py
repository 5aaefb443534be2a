"""Tells beside the table of times what a benchmark measured else: ratios, memory, calls a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    benchmark: Any = request.node.funcargs.get("benchmark")
    if benchmark is not None and benchmark.extra_info:
        told = ", ".join(f"{name} {value}" for name, value in benchmark.extra_info.items())
        print(f"\n{request.node.name}: {told}")
