"""`ranksim compare` and `ranksim trace calibrate` as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim import cli

TRACE = json.dumps({"ranksim_trace": 1, "keys": {}, "exclusive": True}) + "\n"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty trace in the current directory, beside a policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text("name: mine\n")
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE)
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare trace.jsonl --html ./trace.jsonl", "trace.jsonl: is read"),
        ("compare trace.jsonl --junit trace.jsonl", "trace.jsonl: is read"),
        ("compare trace.jsonl --policy policy.yaml --html policy.yaml", "policy.yaml: is read"),
        ("compare trace.jsonl --html page --junit page", "page: is given for two outputs"),
        ("trace calibrate trace.jsonl --out trace.jsonl", "trace.jsonl: is read"),
    ],
)
def test_no_output_takes_the_place_of_what_is_read(trace: Path, words: str, message: str) -> None:
    told = CliRunner().invoke(cli.app, words.split())
    assert told.exit_code == 2
    assert told.stderr.startswith(f"ranksim: {message}")
    assert trace.read_text() == TRACE
    assert sorted(path.name for path in trace.parent.iterdir()) == ["policy.yaml", "trace.jsonl"]


def test_calibrate_says_what_an_empty_trace_shows(trace: Path) -> None:
    told = CliRunner().invoke(cli.app, ["trace", "calibrate", trace.name, "--out", "found.yaml"])
    assert told.exit_code == 0
    assert re.fullmatch(
        r"0 of \d+ choices pinned\n0 statuses seen, 0 quantities measured\nWritten to found.yaml\n",
        told.stdout,
    )
