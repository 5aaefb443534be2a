"""Accounts apart: what one has is not shown to another (S5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.traces import KEYS, Entry, a_trace, call

from ranksim.core.trace import TraceKey
from ranksim.judge.conformance.calls.tenants import TENANT, TenantJudge
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.judging import judged
from ranksim.judge.conformance.verdict.options import Options

MINE = {"id": "dom_1", "host": "mine.example", "created_at": "2026-03-02T09:00:00Z"}
THEIRS = {"id": "dom_1", "host": "theirs.example", "created_at": "2026-03-02T09:00:00Z"}


def made(thing: dict[str, str] = MINE, key: str = "main", sent: float = 0) -> Entry:
    return call("domains.create", sent, sent + 1, thing, status=201, body={"host": thing["host"]}, key=key)


def read(key: str, thing: dict[str, str] | None = MINE, status: int = 200, sent: float = 5) -> Entry:
    more: dict[str, Any] = {} if status == 200 else {"code": "not_found", "status": status}
    return call("domains.get", sent, sent + 1, thing, path={"id": "dom_1"}, key=key, **more)


def scan(key: str = "main", host: str = "mine", sent: float = 0) -> Entry:
    return call("scans.create", sent, sent + 1, scan_of(host), status=201, body={"name": host}, key=key)


def scan_of(name: str) -> dict[str, str]:
    return {"id": "scn_1", "name": name, "created_at": "2026-03-02T09:00:00Z"}


def listing(key: str, *names: str) -> Entry:
    return call("scans.list", 5, 6, [scan_of(name) for name in names], key=key)


TABLE: dict[str, tuple[list[Entry], str]] = {
    "read by its id": ([made(), read("stranger")], "broken"),
    "listed": ([scan(), listing("stranger", "mine")], "broken"),
    "refused": ([made(), read("stranger", None, 404)], "held"),
    "forbidden": ([made(), read("stranger", None, 403)], "held"),
    "not listed": ([scan(), listing("stranger", "theirs")], "held"),
    "another thing of the same number": (
        [made(), made(THEIRS, "stranger", 2), read("stranger", THEIRS)],
        "nothing",
    ),
    "read by another key of the account": ([made(), read("second")], "nothing"),
    "failed otherwise": ([made(), read("stranger", None, 500)], "nothing"),
    "nothing of the other account is known": ([listing("stranger", "mine")], "nothing"),
    "it tells too little": (
        [made({"id": "dom_1", "host": ""}), read("stranger", {"id": "dom_1"})],
        "nothing",
    ),
    "a key whose account is not known": ([made(), read("nobody")], "nothing"),
    "the owner read it last": ([read("stranger", sent=0), made(sent=5)], "broken"),
}


CASES = {
    "read by its id": "domains",
    "listed": "scans listed",
    "refused": "domains",
    "forbidden": "domains",
    "not listed": "scans listed",
    "the owner read it last": "domains",
}
"""The case of those that are decided."""


def verdict_of(entries: list[Entry], **keys: TraceKey) -> tuple[str, list[str]]:
    trace = a_trace(entries)
    trace.header.keys.update({"stranger": TraceKey(account="them"), "nobody": TraceKey(), **keys})
    [finding] = judged(TenantJudge, read_history(trace), Options.of()).findings()
    assert finding.rule.name == TENANT
    verdict = "broken" if finding.broken else "held" if finding.held else "nothing"
    return verdict, [case.name for case in finding.cases if case.exercised]


@pytest.mark.fact("S5")
@pytest.mark.parametrize("name", TABLE)
def test_a_thing_is_shown_to_its_account_alone(name: str) -> None:
    entries, expected = TABLE[name]
    assert verdict_of(entries) == (expected, [CASES[name]] if name in CASES else [])


@pytest.mark.fact("S5")
def test_environments_are_apart() -> None:
    keys = {"stranger": TraceKey(account="them", environment="sandbox")}
    assert KEYS["main"].environment == "production"
    assert verdict_of([made(), read("stranger")], **keys) == ("nothing", [])


@pytest.mark.fact("S5")
def test_evidence_names_both_accounts_replies() -> None:
    trace = a_trace([made(), read("stranger")])
    trace.header.keys["stranger"] = TraceKey(account="them")
    [finding] = judged(TenantJudge, read_history(trace), Options.of()).findings()
    [piece] = finding.evidence
    account = trace.header.keys["main"].account
    assert piece.says == f"key stranger of them was shown dom_1, which belongs to {account}"
    assert len(piece.exchanges) == 2
