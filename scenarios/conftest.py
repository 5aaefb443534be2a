"""Scenarios that take minutes run with `-m heavy` only."""

import pytest

HEAVY = {"real-arrivals-month.yaml"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in HEAVY:
            item.add_marker("heavy")
