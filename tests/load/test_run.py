"""Opening a run: what keeps it from being recorded is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ranksim.errors import BadInput
from ranksim.load.run import Run, Wishes
from ranksim.load.target import Target


def test_a_directory_that_cannot_be_made_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.symlink_to(tmp_path / "gone" / "away")
    with pytest.raises(BadInput, match=r"out/\.parts-.*: cannot be written \(.*\); give another --out"):
        Run(Target.simple("http://127.0.0.1:1", "rk_1"), Wishes(out))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
