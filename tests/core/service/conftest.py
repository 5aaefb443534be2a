"""The desk, as fixtures."""

import pytest
from tests.kit.desk import Desk


@pytest.fixture
def desk() -> Desk:
    """A desk with the plan and policy of these tests."""
    return Desk()


@pytest.fixture
def open_desk() -> type[Desk]:
    """Open desks of another plan or policy: `open_desk({"slot_limit": 4}, assumptions={"join": "never"})`."""
    return Desk
