"""What the tests of the judges share."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.kit import spending


@pytest.fixture
def limiters(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `limiters`, which lies beside the tests."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import limiters

    return limiters


@pytest.fixture
def d() -> ModuleType:
    """The module `tests.kit.spending`: hand-made traces of calls that spend."""
    return spending
