"""The toy engine, importable in this process and in those that it starts."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ranksim.planner.study.study import Study


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{path}" if path else folder)
    import toy

    return toy


@pytest.fixture
def study(toy: ModuleType) -> Callable[..., Study]:
    """Make a study of the toy from the fields of a file."""

    def made(**fields: Any) -> Study:
        return Study.of(toy.Toys(), **fields)

    return made
