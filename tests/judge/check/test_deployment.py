"""A check from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import ranksim as rs
from ranksim.testing import Server


@pytest.mark.slow
def test_it_is_checked_and_judged(tmp_path: Path) -> None:
    with Server(clock="real", start=None) as server:
        found = rs.check.check(
            server.url, key=server.key, length="90s", only=["paging"], out=tmp_path / "out"
        )
    assert str(found.finding("paging.once").verdict) == "conforms"
    assert (tmp_path / "out" / "trace.jsonl").exists()
    assert "paging.once" in found.page(plots=False).replace("<wbr>", "")


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(rs.BadInput, match="either host and key or target"):
        rs.check.check("http://127.0.0.1:1", target="x.yaml")
    with pytest.raises(rs.BadInput, match=r"length: .*soon"):
        rs.check.check("http://127.0.0.1:1", key="k", length="soon")
    with pytest.raises(rs.BadInput, match="ratez"):
        rs.check.check("http://127.0.0.1:1", key="k", only=["ratez"])
