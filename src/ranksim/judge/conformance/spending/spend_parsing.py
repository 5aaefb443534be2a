"""What a call asked to spend and what its reply gave it, on either surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ranksim.core.clock import Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import body_of, thing_of
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    JOBS,
    NOT_STATED,
    RANK_RUN,
    DryRunReport,
)

Json = Any

SPENDS: Final = {
    "keyword_briefs.create": "keyword_briefs",
    "keywords.create": "keywords",
    "scans.create": "scans",
}
SPENDING: Final = frozenset({"jobs.create", *SPENDS})


def dry(exchange: Observation) -> bool:
    """Return whether a call was a dry run (S29)."""
    return body_of(exchange).get("dry_run") is True


def spend_of(exchange: Observation, body: Mapping[str, Json]) -> str:
    """Return the label of what a call wants to spend, "" when it cannot be read."""
    if exchange.operation == "jobs.create":
        return str(body.get("kind")) if str(body.get("kind")) in JOBS else ""
    return SPENDS.get(exchange.operation, "")


def domain_of(body: Mapping[str, Json], made: Mapping[str, Json]) -> str:
    """Return the domain that a call is about, "" when it cannot be read (U41)."""
    briefs = made.get("briefs")
    brief = briefs[0] if isinstance(briefs, list) and briefs and isinstance(briefs[0], dict) else {}
    for domain in (body.get("domain_id"), made.get("domain_id"), brief.get("domain_id")):
        if isinstance(domain, str):
            return domain
    return ""


def unanswered(exchange: Observation) -> bool:
    """Return whether a reply leaves open what was done: none, a redirect, a time-out or a fault."""
    return exchange.lost or exchange.status == 408 or 300 <= exchange.status <= 399 or exchange.status >= 500


def subject_of(exchange: Observation) -> tuple[object, ...]:
    """Return what a call is about, dry or not, so that the same call can be recognised."""
    body = exchange.body if isinstance(exchange.body, dict) else {}
    rest = sorted((name, repr(value)) for name, value in body.items() if name != "dry_run")
    return exchange.operation, exchange.surface, exchange.key, tuple(rest)


def identity_of(exchange: Observation, made: Mapping[str, Json]) -> object:
    """Return what tells the same thing, returned twice, from two things."""
    if made.get("id") is not None:
        return job_name(made) if exchange.operation == "jobs.create" else str(made["id"])
    ids = tuple(str(item.get("id")) for item in created_by(made) or () if isinstance(item, dict))
    if ids or not exchange.idempotency_key:
        return ids or ("call", exchange.id)
    return "key", exchange.key, exchange.idempotency_key  # another API key's may be another (U27)


def report_of(
    exchange: Observation, body: Mapping[str, Json], low: Micros
) -> tuple[DryRunReport, dict[int, Json]]:
    """Read the answer of a dry run: a report, or the error of the live call (U56, U89); metas by check."""
    spend, domain = spend_of(exchange, body), domain_of(body, {})
    report = DryRunReport(spend, domain, low, exchange.received, exchange)
    if exchange.code in CHECKS:
        report.check = CHECKS[exchange.code]
        return report, {report.check: exchange.meta}
    data = thing_of(exchange)
    refusal, checks = data.get("refusal"), data.get("checks")
    code = refusal.get("code") if isinstance(refusal, dict) else None
    if code is not None:
        report.check = CHECKS.get(str(code), NOT_STATED)
    else:
        report.check = 0 if data.get("allowed") is True else NOT_STATED
    rows = [row for row in checks if isinstance(row, dict)] if isinstance(checks, list) else []
    failing = [(CHECKS.get(str(row.get("code")), 0), row) for row in rows if row.get("ok") is False]
    metas = {check: row.get("meta") for check, row in failing}
    if rows:
        report.failing = tuple(check for check, _ in failing)
        report.names = tuple(str(row.get("check")) for row in rows)
    if isinstance(refusal, dict) and report.check > 0:
        metas.setdefault(report.check, refusal.get("meta"))
    unsaid = "unknown" if spend == RANK_RUN and report.check == 0 else ""
    joins = data.get("would_join", unsaid)
    report.joins = joins if isinstance(joins, str) else ""
    return report, metas
