"""The stage, as a fixture."""

import pytest
from tests.kit.stage import Stage


@pytest.fixture(scope="session")
def stage() -> Stage:
    """A stage under the default policy; calls go to forks of its service, so that nobody changes it."""
    return Stage()
