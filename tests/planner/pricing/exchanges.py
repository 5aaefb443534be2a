"""Recordings written line by line: exchanges of one account, so many seconds after a noon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ranksim.core.clock import SECOND, instant
from ranksim.planner.pricing.recording import Recording, read_recording

NOON = instant("2026-09-02T12:00:00Z")

Line = dict[str, Any]


def call(number: int, method: str, path: str, body: Any = None, **fields: Any) -> Line:
    """An exchange, so many seconds after noon."""
    at = NOON + number * SECOND
    return {
        "kind": "exchange", "id": f"x{number}", "sent": at, "received": at + 1000, "api_key": "main",
        "operations": [], "method": method, "path": path, "status": 200,
        "body": "" if body is None else json.dumps(body),
    } | fields  # fmt: skip


def recorded(tmp_path: Path, *lines: Line, **header: Any) -> Recording:
    """Read these lines as a trace, whose header has these fields too."""
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}} | header
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)), encoding="utf-8")
    return read_recording(path)
