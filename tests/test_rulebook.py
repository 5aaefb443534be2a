"""The digest of the rulebook."""

from pathlib import Path

import pytest

from ranksim.core import rulebook
from ranksim.core.rulebook import rulebook_digest


def test_the_rulebook_is_all_that_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest changes with every source of the rules, and with nothing else."""
    parts = ["clock.py", "draws.py", "contract/a.py", "rules/deep/a.py", "service/a.py"]
    parts = [f"core/{part}" for part in parts]
    monkeypatch.setattr(rulebook, "files", lambda package: tmp_path)
    for name in [*parts, "twin/facade/a.py", "core/service/notes.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("first")
    first = rulebook_digest()
    for name in ["twin/facade/a.py", "core/service/notes.txt"]:
        (tmp_path / name).write_text("second")
        assert rulebook_digest() == first
    for name in parts:
        (tmp_path / name).write_text("second")
        assert rulebook_digest() != first
        (tmp_path / name).write_text("first")
    assert rulebook_digest() == first
