"""A browser for a module of tests, and a server of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.twin.facade.page import browser

from ranksim.testing import Server


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(plan="pro", seed=1, control_token="hands") as made:
        yield made
