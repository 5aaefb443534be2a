"""A load from Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ranksim as rs
from ranksim.testing import Server


@pytest.mark.slow
def test_it_is_loaded_and_recorded(tmp_path: Path) -> None:
    with Server(clock="real", start=None) as server:
        trace = rs.load.load(server.url, key=server.key, length="3s", users=2, out=tmp_path / "out", seed=1)
    assert trace == tmp_path / "out" / "trace.jsonl"
    assert len(rs.Trace.read(trace).exchanges) > 10


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rs.BadInput, match="either host and key or target"):
        rs.load.load("http://127.0.0.1:1", target="x.yaml")
    with pytest.raises(rs.BadInput, match=r"length: .*soon"):
        rs.load.load("http://127.0.0.1:1", key="k", length="soon")
    (tmp_path / "trace.jsonl").touch()
    with pytest.raises(rs.BadInput, match="holds a trace already"):
        rs.load.load("http://127.0.0.1:1", key="k", length="3s", out=tmp_path)


@pytest.mark.parametrize("call", [rs.check.check, rs.load.load], ids=["check", "load"])
def test_a_key_that_is_given_stays_in_no_environment(
    call: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKSIM_KEY", raising=False)
    for before in (None, "of another deployment"):
        if before is not None:
            monkeypatch.setenv("RANKSIM_KEY", before)
        with pytest.raises(rs.BadInput, match="ftp"):
            call("ftp://127.0.0.1:1", key="k", length="3s")
        assert os.environ.get("RANKSIM_KEY") == before
    assert list(tmp_path.iterdir()) == [], "a target that is none leaves nothing behind"
