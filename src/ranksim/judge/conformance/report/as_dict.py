"""A judgement as plain data: what --json prints, and what every report is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.contract.register import assumption
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.exhibits import Exhibits, as_plain, attempt_as_plain, found_in
from ranksim.judge.conformance.explain import fact_text
from ranksim.judge.conformance.following import causes
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.joining import address_notes
from ranksim.judge.conformance.report import traffic
from ranksim.judge.conformance.report.builds import BuildComparison
from ranksim.judge.conformance.report.model_fit import Compared
from ranksim.judge.conformance.verdict.rule import Cause, Rule
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding
from ranksim.judge.report.judgement import headline
from ranksim.report.document import document, number
from ranksim.report.heading import ExpectationVerdict

Plain = dict[str, Any]

DRAWN = 1
"""Pieces of evidence of a rule that come with the calls around them."""


def judgement_data(
    judgement: Judgement,
    *,
    trace: str | Sequence[str] = "",
    policy: str = "",
    required: tuple[str, ...] = (),
    model: Sequence[Compared] | None = None,
    builds: BuildComparison | None = None,
    exhibits: Exhibits | None = None,
    scripts: Mapping[str, str] = MappingProxyType({}),
) -> Plain:
    """Return a judgement as mappings, lists, text and numbers (instants and durations in µs).

    `trace` and `policy` name the files, `trace` as many as were judged; `required` are the rules that had to
    conform; `model` is what was measured beside what a simulated world predicted; `builds` is how the traces
    compare with a baseline; `exhibits` are the exchanges that evidence points at, whole; `scripts` says for
    rules that deviate how they are shown again. Raises BadInput for a required name that no rule has.
    """
    histories, names = judgement.histories, [trace] if isinstance(trace, str) else list(trace)
    traces = [_trace(name, history) for name, history in zip(names, histories, strict=True)]
    evidence, following = exhibits or Exhibits(), causes(judgement.findings)
    facts = {number for finding in judgement.deviating for number in finding.rule.facts}
    single = histories[0] if len(histories) == 1 else None
    return {
        "trace": ", ".join(names),
        "traces": traces,
        "policy": policy,
        **_together(traces, histories),
        **_coverage(judgement),
        "required": list(required),
        "missing": [finding.rule.name for finding in judgement.missing(required)],
        "facts": {f"S{number}": fact_text(number) for number in sorted(facts)},
        "rules": [
            _finding(finding, judgement, evidence, following) | {"script": scripts.get(finding.rule.name, "")}
            for finding in judgement.findings
        ],
        "differences": [_difference(difference, evidence, judgement) for difference in judgement.differences],
        "model": None if model is None else [asdict(row) for row in model],
        "builds": None if builds is None else _builds(builds),
        "answers": traffic.answers(histories),
        "throughput": [] if single is None else traffic.throughput(single),
        "latency": {} if single is None else traffic.latency(single),
        **_pointed_at(judgement, evidence),
    }


def _builds(builds: BuildComparison) -> Plain:
    latencies = [{**asdict(row), "says": row.says} for row in builds.latencies]
    return {**asdict(builds), "latencies": latencies}


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
        metrics={name: number("count", value) for name, value in numbers.items()},
        expectations=held,
        tables={name: judged[name] or [] for name in TABLES},
        **{name: value for name, value in judged.items() if name not in (*TABLES, "relied_on")},
    )


JOINED = (
    "verdicts, cases and what each trace excludes are joined; instants and lengths of time are compared "
    "within a trace only, since each has a clock of its own"
)
"""What a judgement of several traces rests on."""


def _together(traces: Sequence[Plain], histories: Sequence[History]) -> Plain:
    """Return what traces are together; of a name that several have, what the first says."""
    several = len(traces) > 1
    notes = [note for row in traces for note in row["relied_on"]]
    headers = [history.run.header for history in histories]
    return {
        "started": min(row["started"] for row in traces),
        "ended": max(row["ended"] for row in traces),
        **{part: sum(row[part] for row in traces) for part in ("exchanges", "lost", "deliveries")},
        **{
            part: {name: value for row in reversed(traces) for name, value in row[part].items()}
            for part in ("targets", "keys")
        },
        "exclusive": all(row["exclusive"] for row in traces),
        "relied_on": [*dict.fromkeys(notes), *([*address_notes(headers), JOINED] if several else [])],
        "clock_offset": None if several else traces[0]["clock_offset"],
        "pace": traces[0]["pace"],
    }


def _coverage(judgement: Judgement) -> Plain:
    exercised, cases = judgement.coverage
    rules_decided, rules = judgement.rules_decided
    conforming, decided = judgement.agreement
    return {
        "coverage": {
            "exercised": exercised,
            "cases": cases,
            "rules_decided": rules_decided,
            "rules": rules,
        },
        "agreement": {"conforming": conforming, "decided": decided},
        "unseen": [{"what": what, "cases": count} for what, count in judgement.unseen],
    }


def _trace(name: str, history: History) -> Plain:
    """Return what one trace is: when it was, how much is in it, and what it relies on."""
    run, offset = history.run, history.run.offset
    header = run.header
    ends = (seen.sent if seen.lost else seen.received for seen in history.seen)
    clock_offset = {"low": offset.low, "high": offset.high, "exchanges": offset.count}
    return {
        "trace": name,
        "started": history.seen[0].sent if history.seen else header.started,
        "ended": max(ends, default=header.started),
        "exchanges": len(history.seen),
        "lost": sum(count for alike, count in history.kinds() if alike.lost),
        "deliveries": len(history.arrived),
        "targets": dict(header.targets),
        "keys": {key: about.model_dump() for key, about in sorted(header.keys.items())},
        "exclusive": run.exclusive,
        "relied_on": list(_relied_on(history)),
        "clock_offset": clock_offset if offset.count else None,
        "pace": {"business": run.rate, "traffic": run.traffic_rate},
    }


def _relied_on(history: History) -> Iterator[str]:
    """Yield in sentences what the verdicts rest on, as the header of the trace tells it."""
    run = history.run
    if run.beside:
        yield "traces of the same accounts lie at one time, so each is judged as if others had used them"
    elif run.header.exclusive:
        yield "nobody else used these accounts, as the trace says"
    else:
        yield "others may have used these accounts, so “refused too early” cannot be told"
    if run.captured:
        yield "every call of its keys is in the trace"
    elif run.unrecorded:
        yield (
            f"of {run.unrecorded:,} of {len(history.seen):,} exchanges it is not recorded whose they were or "
            "what they asked for: they are judged by their form alone, and the capture counts as partial"
        )
    else:
        yield (
            "the capture is partial, so nothing that a call or an attempt that is not in it could explain is "
            "held against the deployment"
        )
    if run.repeated:
        yield f"{run.repeated:,} lines repeat another one to the letter, and were read once"
    if run.unread:
        yield "calls changed what is not followed here, so others might as well have"


def _finding(
    finding: Finding, judgement: Judgement, exhibits: Exhibits, following: Mapping[str, Cause]
) -> Plain:
    rule, histories = finding.rule, judgement.histories
    says = rule.under(judgement.facts)
    pieces = [_evidence(rule, says, piece, exhibits, judgement) for piece in finding.evidence]
    cause = following.get(rule.name)
    for piece, evidence in zip(pieces[:DRAWN], finding.evidence, strict=False):
        around = (traffic.surroundings(history, evidence) for history in histories)
        piece["around"] = next((rows for rows in around if rows), [])
        piece.update(traffic.figure_rows(rule.name, evidence, histories, judgement.facts))
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


def _evidence(
    rule: Rule | None, expected: str, piece: Evidence, exhibits: Exhibits, judgement: Judgement
) -> Plain:
    """Return a piece: what was expected, what was found, and the difference in words.

    What came between the exchanges that prove it stands there among them.
    """
    seen, names = judgement.exhibits, list(piece.named)
    if piece.between:
        names.sort(key=lambda name: seen[name].sent if name in seen else DISTANT_FUTURE)
    return {
        "expected": piece.expected or expected.rstrip("."),
        "found": found_in(rule, piece, exhibits),
        "says": piece.says,
        "about": piece.about,
        "at": piece.at,
        "exchanges": names,
        "between": list(piece.between),
        "deliveries": list(piece.deliveries),
        "readings": [
            {"reading": name, "says": against.says, "exchanges": list(against.exchanges)}
            for name, against in piece.readings
        ],
    }


def _difference(difference: Difference, exhibits: Exhibits, judgement: Judgement) -> Plain:
    return {
        "number": difference.number,
        "statement": assumption(difference.number).statement,
        "assumed": difference.assumed,
        "found": difference.found,
        "evidence": _evidence(None, difference.assumed, difference.evidence, exhibits, judgement),
    }


def _pointed_at(judgement: Judgement, evidence: Exhibits) -> Plain:
    """Return the exchanges and attempts that evidence points at, by id."""
    attempts = sorted(evidence.attempts.items())
    return {
        "exhibits": {
            name: _exhibit(name, exchange, evidence) for name, exchange in sorted(judgement.exhibits.items())
        },
        "attempts": {name: list(map(attempt_as_plain, those)) for name, those in attempts},
    }


def _exhibit(name: str, exchange: Observation, exhibits: Exhibits) -> Plain:
    """Return an exchange as judges saw it, and whole where it was read again."""
    seen = {
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
    if name not in exhibits.exchanges:
        return seen
    return seen | as_plain(exhibits.exchanges[name], exhibits.headers[name])
