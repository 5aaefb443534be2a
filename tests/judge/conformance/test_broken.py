"""Broken, empty and thin traces on the command line: a clear error, and nothing that passes by silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim.cli import app

HEADER: dict[str, Any] = {
    "ranksim_trace": 1,
    "targets": {"production": "https://api.example.com"},
    "keys": {"main": {"account": "acme"}},
    "exclusive": True,
}
CALL: dict[str, Any] = {
    "kind": "exchange",
    "id": "x1",
    "target": "production",
    "sent": 1_000_000,
    "received": 1_010_000,
    "api_key": "main",
    "operations": ["domains.list"],
    "method": "GET",
    "path": "/v1/domains",
    "status": 200,
    "response_headers": {
        "X-Request-Id": "r-1",
        "Content-Type": "application/json",
        "RateLimit-Limit": "600",
        "RateLimit-Remaining": "599",
        "RateLimit-Reset": "60",
    },
    "response": '{"data": [], "has_more": false, "next_cursor": null}',
}
HOOK: dict[str, Any] = {"kind": "delivery", "received": 2_000_000, "answered": 1_999_999, "endpoint": "whk_1",
                        "headers": {}}  # fmt: skip


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def compared(folder: Path, text: str, *words: str) -> tuple[int, str]:
    path = folder / "trace.jsonl"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["compare", str(path), *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output.replace("\n", " ")


BROKEN = {
    "truncated line": (lines(HEADER, CALL)[:-40], ":2: expected one JSON object on a line"),
    "clock backwards": (lines(HEADER, CALL | {"received": 999_999}), ":2: received is before sent"),
    "answered backwards": (lines(HEADER, HOOK), ":2: answered is before received"),
    "undeclared target": (
        lines(HEADER, CALL, CALL | {"target": "moon"}),
        ":3: target: expected one that",
    ),
    "undeclared key": (
        lines(HEADER, CALL | {"api_key": "other"}),
        ":2: api_key: expected one that the",
    ),
    "missing first line": (lines(CALL), ":1: expected the header"),
    "unknown version": (
        lines(HEADER | {"ranksim_trace": 7}),
        ":1: ranksim_trace: expected one of 1",
    ),
    "empty": ("", "is empty; expected a trace"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    code, said = compared(tmp_path, text)
    assert code == 2
    assert message in said
    assert "Traceback" not in said


def test_a_key_that_nobody_has_needs_no_declaration(tmp_path: Path) -> None:
    code, said = compared(tmp_path, lines(HEADER, CALL, CALL | {"id": "x2", "api_key": "unknown"}))
    assert code == 1
    assert "access.key" in said


THIN = {
    "a header alone": lines(HEADER),
    "one call": lines(HEADER, CALL),
}


@pytest.mark.parametrize("text", THIN.values(), ids=THIN)
@pytest.mark.parametrize("required", ["all", "rate", "quota", "S47", "webhook.signature"])
def test_a_thin_trace_passes_nothing_that_is_required(tmp_path: Path, text: str, required: str) -> None:
    code, said = compared(tmp_path, text, "--require", required)
    assert code == 1, said


def test_a_header_alone_exercises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(THIN["a header alone"], encoding="utf-8")
    done = CliRunner().invoke(app, ["compare", str(path), "--json"])
    found = json.loads(done.output)
    assert {rule["verdict"] for rule in found["tables"]["rules"]} == {"not exercised"}


def test_what_one_call_shows_may_be_required(tmp_path: Path) -> None:
    assert compared(tmp_path, THIN["one call"], "--require", "header.request_id")[0] == 0


@pytest.mark.parametrize("name", ["nonsense", "S999", ""])
def test_what_is_required_must_exist(tmp_path: Path, name: str) -> None:
    code, said = compared(tmp_path, THIN["one call"], "--require", name)
    assert code == 2
    assert "no rule is named" in said
