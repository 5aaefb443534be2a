"""A judgement as plain data: what --json prints, and what every report is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.contract.register import assumption
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.exhibits import Exhibits, as_plain, attempt_as_plain, found_in
from ranksim.judge.conformance.explain import fact
from ranksim.judge.conformance.following import causes
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.joining import moved
from ranksim.judge.conformance.report import throughput
from ranksim.judge.conformance.report.figures import drawn
from ranksim.judge.conformance.report.model_fit import Compared
from ranksim.judge.conformance.verdict.rule import Cause, Rule
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding
from ranksim.judge.report.judgement import headline
from ranksim.report.document import counted, document
from ranksim.report.heading import ExpectationVerdict

Plain = dict[str, Any]

DRAWN = 1
"""Pieces of evidence of a rule that come with the calls around them."""


def plain(
    judgement: Judgement,
    *,
    trace: str | Sequence[str] = "",
    policy: str = "",
    required: tuple[str, ...] = (),
    model: Sequence[Compared] | None = None,
    exhibits: Exhibits | None = None,
) -> Plain:
    """Return a judgement as mappings, lists, text and numbers (instants and durations in µs).

    `trace` and `policy` name the files, `trace` as many as were judged; `required` are the rules that had to
    conform; `model` is what was measured beside what a simulated world predicted; `exhibits` are the
    exchanges that evidence points at, whole. Raises BadInput for a required name that no rule has.
    """
    histories, names = judgement.histories, [trace] if isinstance(trace, str) else list(trace)
    traces = [_trace(name, history) for name, history in zip(names, histories, strict=True)]
    evidence, following = exhibits or Exhibits(), causes(judgement.findings)
    exercised, cases = judgement.coverage
    rules_decided, rules = judgement.rules_decided
    conforming, decided = judgement.agreement
    return {
        "trace": ", ".join(names),
        "traces": traces,
        "policy": policy,
        "started": min(trace_row["started"] for trace_row in traces),
        "ended": max(trace_row["ended"] for trace_row in traces),
        "exchanges": sum(trace_row["exchanges"] for trace_row in traces),
        "lost": sum(trace_row["lost"] for trace_row in traces),
        "deliveries": sum(trace_row["deliveries"] for trace_row in traces),
        "targets": {
            name: url for trace_row in reversed(traces) for name, url in trace_row["targets"].items()
        },
        "keys": {name: key for trace_row in reversed(traces) for name, key in trace_row["keys"].items()},
        "exclusive": all(trace_row["exclusive"] for trace_row in traces),
        "relied_on": list(dict.fromkeys(note for trace_row in traces for note in trace_row["relied_on"]))
        + ([*moved([history.run.header for history in histories]), JOINED] if len(traces) > 1 else []),
        "clock_offset": traces[0]["clock_offset"] if len(traces) == 1 else None,
        "pace": traces[0]["pace"],
        "coverage": {
            "exercised": exercised,
            "cases": cases,
            "rules_decided": rules_decided,
            "rules": rules,
        },
        "agreement": {"conforming": conforming, "decided": decided},
        "unseen": [{"what": what, "cases": count} for what, count in judgement.unseen],
        "required": list(required),
        "missing": [finding.rule.name for finding in judgement.missing(required)],
        "facts": {
            f"S{number}": fact(number)
            for number in sorted({n for finding in judgement.deviating for n in finding.rule.facts})
        },
        "rules": [_finding(finding, judgement, evidence, following) for finding in judgement.findings],
        "differences": [_difference(difference, evidence) for difference in judgement.differences],
        "model": None if model is None else [asdict(row) for row in model],
        "answers": throughput.answers(histories),
        "throughput": throughput.throughput(histories[0]) if len(histories) == 1 else [],
        "latency": throughput.latency(histories[0]) if len(histories) == 1 else {},
        "exhibits": {
            name: _exhibit(exchange)
            | (
                as_plain(evidence.exchanges[name], evidence.addresses[name])
                if name in evidence.exchanges
                else {}
            )
            for name, exchange in sorted(judgement.exhibits.items())
        },
        "attempts": {
            name: [attempt_as_plain(attempt) for attempt in attempts]
            for name, attempts in sorted(evidence.attempts.items())
        },
    }


TABLES = ("rules", "differences", "model", "answers", "throughput")
"""What of a judgement is tables of a document; the rest stands beside them."""


def as_document(judged: Plain) -> Plain:
    """Return a plain judgement as `ranksim compare --json` prints it: a document, its own fields beside."""
    rules = judged["rules"]
    numbers = {
        "exchanges": judged["exchanges"],
        "deliveries": judged["deliveries"],
        "cases.total": judged["coverage"]["cases"],
        "cases.exercised": judged["coverage"]["exercised"],
        "cases.decided": judged["agreement"]["decided"],
        "cases.conforming": judged["agreement"]["conforming"],
        "rules.total": judged["coverage"]["rules"],
        "rules.decided": judged["coverage"]["rules_decided"],
        "rules.deviating": sum(rule["verdict"] == "deviates" for rule in rules),
    }
    missing = set(judged["missing"])
    held = [ExpectationVerdict(not numbers["rules.deviating"], "no rule deviates")]
    if judged["required"]:
        wanted = ", ".join(judged["required"])
        left = f"; {', '.join(sorted(missing))} does not" if missing else ""
        held.append(ExpectationVerdict(not missing, f"what is required conforms ({wanted}){left}"))
    return document(
        "compare",
        f"Judgement of {judged['trace']}",
        answer=headline(judged),
        notes=judged["relied_on"],
        metrics={name: counted(number) for name, number in numbers.items()},
        expectations=held,
        tables={name: judged[name] or [] for name in TABLES},
        **{name: value for name, value in judged.items() if name not in (*TABLES, "relied_on")},
    )


JOINED = (
    "verdicts, cases and what each trace excludes are joined; instants and lengths of time are compared "
    "within a trace only, since each has a clock of its own"
)
"""What a judgement of several traces rests on."""


def _trace(name: str, history: History) -> Plain:
    """Return what one trace is: when it was, how much is in it, and what it relies on."""
    run, offset = history.run, history.run.offset
    ends = (seen.sent if seen.lost else seen.received for seen in history.seen)
    return {
        "trace": name,
        "started": history.seen[0].sent if history.seen else run.header.started,
        "ended": max(ends, default=run.header.started),
        "exchanges": len(history.seen),
        "lost": sum(exchange.lost for exchange in history.seen),
        "deliveries": len(history.arrived),
        "targets": dict(run.header.targets),
        "keys": {key: about.model_dump() for key, about in sorted(run.header.keys.items())},
        "exclusive": run.exclusive,
        "relied_on": _relied_on(history),
        "clock_offset": {"low": offset.low, "high": offset.high, "exchanges": offset.count}
        if offset.count
        else None,
        "pace": {"business": run.rate, "traffic": run.traffic_rate},
    }


def _relied_on(history: History) -> list[str]:
    """Return in sentences what the verdicts rest on, as the header of the trace tells it."""
    run = history.run
    notes = []
    if run.beside:
        notes.append(
            "traces of the same accounts lie at one time, so each is judged as if others had used them"
        )
    elif run.header.exclusive:
        notes.append("nobody else used these accounts, as the trace says")
    else:
        notes.append("others may have used these accounts, so “refused too early” cannot be told")
    if run.captured:
        notes.append("every call of its keys is in the trace")
    elif run.unrecorded:
        notes.append(
            f"of {run.unrecorded:,} of {len(history.seen):,} exchanges it is not recorded whose they were or "
            "what they asked for: they are judged by their form alone, and the capture counts as partial"
        )
    else:
        notes.append(
            "the capture is partial, so nothing that a call or an attempt that is not in it could explain is "
            "held against the deployment"
        )
    if run.repeated:
        notes.append(f"{run.repeated:,} lines repeat another one to the letter, and were read once")
    if run.unread:
        notes.append("calls changed what is not followed here, so others might as well have")
    return notes


def _finding(
    finding: Finding, judgement: Judgement, exhibits: Exhibits, following: Mapping[str, Cause]
) -> Plain:
    rule, histories = finding.rule, judgement.histories
    says = rule.under(judgement.facts)
    pieces = [_evidence(rule, says, piece, exhibits) for piece in finding.evidence]
    cause = following.get(rule.name)
    for piece, evidence in zip(pieces[:DRAWN], finding.evidence, strict=False):
        around = (throughput.surroundings(history, evidence) for history in histories)
        piece["around"] = next((rows for rows in around if rows), [])
        piece.update(drawn(rule.name, evidence, histories, judgement.facts))
    return {
        "name": rule.name,
        "says": says,
        "facts": list(rule.facts),
        "assumptions": list(rule.assumptions),
        "verdict": str(finding.verdict),
        "follows": "" if cause is None else cause.rule,
        "because": "" if cause is None else cause.because,
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


def _evidence(rule: Rule | None, expected: str, piece: Evidence, exhibits: Exhibits) -> Plain:
    """Return a piece: what was expected, what was found, and the difference in words."""
    return {
        "expected": piece.expected or expected.rstrip("."),
        "found": found_in(rule, piece, exhibits),
        "says": piece.says,
        "about": piece.about,
        "at": piece.at,
        "exchanges": list(piece.exchanges),
        "deliveries": list(piece.deliveries),
        "readings": [
            {"reading": name, "says": against.says, "exchanges": list(against.exchanges)}
            for name, against in piece.readings
        ],
    }


def _difference(difference: Difference, exhibits: Exhibits) -> Plain:
    return {
        "number": difference.number,
        "statement": assumption(difference.number).statement,
        "assumed": difference.assumed,
        "found": difference.found,
        "evidence": _evidence(None, difference.assumed, difference.evidence, exhibits),
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
