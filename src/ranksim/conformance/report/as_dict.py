"""A judgement as plain data: what --json prints, and what every report is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ranksim.clock import DISTANT_FUTURE
from ranksim.conformance.compare import Judgement
from ranksim.conformance.history.history import History
from ranksim.conformance.history.observation import Observation
from ranksim.conformance.report import throughput
from ranksim.conformance.report.model_fit import Compared
from ranksim.conformance.verdict.verdicts import Difference, Evidence, Finding
from ranksim.contract.assumptions import assumption

Plain = dict[str, Any]

DRAWN = 1
"""Pieces of evidence of a rule that come with the calls around them."""


def plain(
    judgement: Judgement,
    *,
    trace: str = "",
    policy: str = "",
    required: tuple[str, ...] = (),
    model: Sequence[Compared] | None = None,
) -> Plain:
    """Return a judgement as mappings, lists, text and numbers (instants and durations in µs).

    `trace` and `policy` name the files; `required` are the rules that had to conform; `model` is what was
    measured beside what a simulated world predicted. Raises BadInput for a
    required name that no rule has.
    """
    history, offset = judgement.history, judgement.history.run.offset
    exercised, cases = judgement.coverage
    rules_decided, rules = judgement.rules_decided
    conforming, decided = judgement.agreement
    return {
        "ranksim_judgement": 1,
        "trace": trace,
        "policy": policy,
        "started": history.seen[0].sent if history.seen else history.run.header.started,
        "ended": max(
            (s.sent if s.lost else s.received for s in history.seen), default=history.run.header.started
        ),
        "exchanges": len(history.seen),
        "lost": sum(exchange.lost for exchange in history.seen),
        "deliveries": len(history.arrived),
        "targets": dict(history.run.header.targets),
        "keys": {name: key.model_dump() for name, key in sorted(history.run.header.keys.items())},
        "exclusive": history.run.exclusive,
        "clock_offset": {"low": offset.low, "high": offset.high, "exchanges": offset.count}
        if offset.count
        else None,
        "pace": {"business": history.run.rate, "traffic": history.run.traffic_rate},
        "coverage": {
            "exercised": exercised,
            "cases": cases,
            "rules_decided": rules_decided,
            "rules": rules,
        },
        "agreement": {"conforming": conforming, "decided": decided},
        "required": list(required),
        "missing": [finding.rule.name for finding in judgement.missing(required)],
        "rules": [_finding(finding, history) for finding in judgement.findings],
        "differences": [_difference(difference) for difference in judgement.differences],
        "model": None if model is None else [asdict(row) for row in model],
        "answers": throughput.answers(history),
        "throughput": throughput.throughput(history),
        "exhibits": {name: _exhibit(exchange) for name, exchange in sorted(judgement.exhibits.items())},
    }


def _finding(finding: Finding, history: History) -> Plain:
    rule = finding.rule
    pieces = [_evidence(piece) for piece in finding.evidence]
    for piece, evidence in zip(pieces[:DRAWN], finding.evidence, strict=False):
        piece["around"] = throughput.surroundings(history, evidence)
    return {
        "name": rule.name,
        "says": rule.says,
        "facts": list(rule.facts),
        "assumptions": list(rule.assumptions),
        "verdict": str(finding.verdict),
        "held": finding.held,
        "broken": finding.broken,
        "open": finding.open,
        "exercised": finding.exercised,
        "cases": [
            {"name": case.name, "held": case.held, "broken": case.broken, "by": list(case.by)}
            for case in finding.cases
        ],
        "evidence": pieces,
        "reasons": [{"why": why, "count": count} for why, count in finding.reasons],
        "exercise": rule.exercise,
    }


def _evidence(piece: Evidence) -> Plain:
    return {
        "says": piece.says,
        "about": piece.about,
        "at": piece.at,
        "exchanges": list(piece.exchanges),
        "deliveries": list(piece.deliveries),
    }


def _difference(difference: Difference) -> Plain:
    return {
        "number": difference.number,
        "statement": assumption(difference.number).statement,
        "assumed": difference.assumed,
        "found": difference.found,
        "evidence": _evidence(difference.evidence),
    }


def _exhibit(exchange: Observation) -> Plain:
    return {
        "sent": exchange.sent,
        "received": None if exchange.received == DISTANT_FUTURE else exchange.received,
        "key": exchange.key,
        "operation": exchange.operation,
        "method": exchange.method,
        "path": exchange.path,
        "status": exchange.status or None,
        "code": exchange.code,
        "remaining": exchange.remaining,
        "idempotency_key": exchange.idempotency_key,
    }
