"""What one account's keys did, call by call: works, refusals, dry runs, and what replies state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import plain, sent_body, state_of, thing_of
from ranksim.judge.conformance.history.graphql import snaked
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    NOT_STATED,
    RANK_RUN,
    SPENDING,
    AccountActivity,
    DryRunReport,
    RefusedSpend,
    SpendWork,
    asked_of,
)
from ranksim.judge.conformance.spending.counter_bounds import Interval
from ranksim.judge.conformance.spending.statements import (
    CostStatement,
    MeterStatement,
    SlotStatement,
    StatusStatement,
    cost_of,
    entitled_of,
    meter_of,
    meters_of,
    slots_of,
)

Json = Any

MEMORY: Final = 23 * HOUR
"""Repeats of an Idempotency-Key this near surely are repeats (S47, U30)."""

REMOVALS: Final = frozenset({"keywords.delete", "keyword_lists.delete", "scans.delete", "domains.delete"})
"""Writes that may free slots."""


@dataclass(slots=True)
class AccountRecord:
    """What one account's keys did, sorted into works, refusals, dry runs and statements as it is observed."""

    activity: AccountActivity
    repeats: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))
    works: dict[object, SpendWork] = field(default_factory=dict)
    unanswered: list[Observation] = field(default_factory=list)
    job_states: list[tuple[str, Observation, Json]] = field(default_factory=list)
    """Jobs shown under an Idempotency-Key: they show nothing if that is repeated, as a replay is old (E6)."""

    def add(self, exchange: Observation) -> None:
        """Sort the next call of the account."""
        if exchange.idempotency_key is not None and exchange.method == "POST":
            self.repeats[exchange.idempotency_key].append(exchange)
        if may_spend(exchange):
            self._ask(exchange)
        elif may_write(exchange):
            if not 300 <= exchange.status <= 499:
                self._change(exchange)
            self._other(exchange)
        elif exchange.code in CHECKS:
            self.activity.refused_reads += [exchange] if exchange.named else []
        elif exchange.ok:
            self.activity.reads.append(Interval(exchange.sent, exchange.received))
            if exchange.operation in ("jobs.get", "jobs.list"):
                self.activity.polls.append(exchange)
            self._other(exchange)

    def finished(self, rate: int) -> AccountActivity:
        """Return all that the account did; `rate` is that of its business time."""
        for key, exchange, job in self.job_states:
            if len(self.repeats.get(key, ())) <= 1:
                self._note_state(exchange, job)
        for exchange in self.unanswered:
            self._maybe(exchange, rate)
        self.activity.works.extend(self.works.values())
        return self.activity

    # Calls that spend

    def _ask(self, exchange: Observation) -> None:
        self.activity.spend_calls.append(exchange)
        if _is_dry(exchange):
            self._dry_run(exchange)
        elif _unanswered(exchange):
            self.unanswered.append(exchange)
        elif exchange.code in CHECKS:
            low = self._since(exchange)
            if low is not None:
                check = CHECKS[exchange.code]
                refused = RefusedSpend(low, exchange.received, *asked_of(exchange), exchange, check)
                self.activity.refusals.append(refused)
                self._meta(exchange, exchange.meta, low)
        elif exchange.ok:
            self._granted(exchange)
        elif exchange.surface == "graphql" and 200 <= exchange.status <= 299:
            self.unanswered.append(exchange)  # an error of some field; others may have been executed

    def _since(self, exchange: Observation) -> Micros | None:
        """Return when the reply can first have been decided: a replay was earlier; None if unknown.

        It is, where the first call of its key may be a replay, too, of one that was not captured.
        """
        first = self.repeats.get(exchange.idempotency_key or "", [exchange])[0]
        return None if exchange.old and first.old else min(exchange.sent, first.sent)

    def _granted(self, exchange: Observation) -> None:
        low, made = self._since(exchange), thing_of(exchange)
        if low is None:
            return
        if not sent_body(exchange) or not _names_work(exchange):
            self.unanswered.append(exchange)  # nobody can tell what it was, or whether it was joined
            return
        identity = _identity_of(exchange, made)
        work = self.works.get((exchange.operation, identity))
        if work is None:
            work = SpendWork(low, exchange.received, *asked_of(exchange, made), exchange, granted=True)
            listed = created_by(made)
            work.created = None if listed is None else len(listed)
            work.id = str(identity) if made.get("id") else ""
            self.works[exchange.operation, identity] = work
        work.low, work.high = min(work.low, low), min(work.high, exchange.received)
        work.calls.append(exchange)
        self._job(exchange, made)

    def _maybe(self, exchange: Observation, rate: int) -> None:
        """Count a call without an answer as one work that may exist, unless a repeat of it was answered."""
        repeats = self._repeats_of(exchange, rate)
        if any(other.ok and not _is_dry(other) and _names_work(other) for other in repeats):
            return
        own = ("lost", exchange.key, exchange.idempotency_key) if repeats else ("lost", exchange.id)
        if (exchange.operation, own) not in self.works:
            self.works[exchange.operation, own] = SpendWork(
                exchange.sent, DISTANT_FUTURE, *asked_of(exchange), exchange, sure=False
            )
        self.works[exchange.operation, own].calls.append(exchange)

    def _repeats_of(self, exchange: Observation, rate: int) -> list[Observation]:
        """Return the calls under one Idempotency-Key that surely are one; none without a key (U27)."""
        sent = self.repeats.get(exchange.idempotency_key or "", [])
        group = [other for other in sent if other.key == exchange.key]
        near = rate > 0 and group and (group[-1].sent - group[0].sent) * rate < MEMORY
        if exchange.idempotency_key is None or not near or exchange.surface != "rest":
            return []
        return [other for other in group if other.operation == exchange.operation]

    def _dry_run(self, exchange: Observation) -> None:
        self.activity.dry_runs.append(exchange)
        low = self._since(exchange)
        if exchange.lost or low is None or not (exchange.ok or exchange.code in CHECKS):
            return
        report = DryRunReport(low, exchange.received, *asked_of(exchange), exchange)
        self.activity.reports.append(report)
        for meta in _read_report(report).values():
            self._meta(exchange, meta, low)

    def _meta(self, exchange: Observation, meta: Json, low: Micros) -> None:
        """Take the numbers behind a refusal as statements."""
        if exchange.surface == "graphql":
            meta = snaked(meta)
        if not isinstance(meta, dict):
            return
        meter = meter_of(exchange, meta, low)
        if meter is not None:
            self._state(meter)
        elif "requested" in meta or "needed" in meta:
            self._state(slots_of(exchange, meta, low))
        else:
            self._state(cost_of(exchange, meta, low))

    def _state(self, statement: MeterStatement | SlotStatement | CostStatement | None) -> None:
        match statement:
            case MeterStatement(metric=metric):
                self.activity.meters[metric].append(statement)
            case SlotStatement():
                self.activity.slots.append(statement)
            case CostStatement():
                self.activity.cost.append(statement)

    # Other calls

    def _other(self, exchange: Observation) -> None:
        activity, data = self.activity, plain(exchange)
        match exchange.operation if exchange.ok else "":
            case "account.usage":
                for meter in meters_of(exchange):
                    self._state(meter)
                self._state(cost_of(exchange, data.get("cost"), exchange.sent))
            case "slots.get":
                self._state(slots_of(exchange, data, exchange.sent))
            case "account.entitlements":
                activity.entitled.append(entitled_of(exchange))
            case "account.get":
                status = str(data.get("status", "")).lower()
                activity.health.append(StatusStatement(exchange.sent, exchange.received, exchange, status))
            case "jobs.get":
                self._job(exchange, data)
            case "jobs.list":
                for item in exchange.items or ():
                    self._job(exchange, item)
            case "domains.create":
                activity.domains.setdefault(str(thing_of(exchange).get("id")), exchange)
            case "keyword_lists.create":
                activity.lists.setdefault(str(thing_of(exchange).get("id")), exchange)

    def _change(self, exchange: Observation) -> None:
        """Note a write that may have changed something without spending."""
        self.activity.changes.append(Interval(exchange.sent, exchange.received))
        named = {exchange.operation, *exchange.operations}
        if "scans.update" in named:
            self.activity.patches.append(exchange)
        if named & REMOVALS:
            self.activity.removals.append(exchange)

    def _job(self, exchange: Observation, job: Json) -> None:
        """Note what a reply shows of a job; what a repeat shows may be old (E6)."""
        if exchange.old or not isinstance(job, dict) or not isinstance(job.get("status"), str):
            return
        if exchange.idempotency_key is not None:
            state = {name: job.get(name) for name in ("id", "kind", "status", "error_detail", "finished_at")}
            self.job_states.append((exchange.idempotency_key, exchange, state))
        else:
            self._note_state(exchange, job)

    def _note_state(self, exchange: Observation, job: Mapping[str, Json]) -> None:
        """Note when a job was observed alive, done or failed."""
        fate = self.activity.fates[job_name(job)]
        state = state_of(job)
        if state == "done":
            fate.end("job.completed", exchange.received)
        elif job.get("error_detail") or state == "failed" or job["status"].lower() == "error":
            fate.end("job.failed", exchange.received)
        elif state in ("queued", "running"):
            fate.alive = max(fate.alive, exchange.sent)


def _names_work(exchange: Observation) -> bool:
    """Return whether a reply can be read and tells what was done, of a job by its id."""
    made = thing_of(exchange)
    return bool(made) and (exchange.operation != "jobs.create" or "id" in made)


def may_spend(exchange: Observation) -> bool:
    """Return whether a call may want to spend."""
    return exchange.operation in SPENDING or (
        not exchange.operation and any(name in SPENDING for name in exchange.operations)
    )


def may_write(exchange: Observation) -> bool:
    """Return whether a call may change something; what a GraphQL call does, its operations tell."""
    if exchange.surface != "graphql":
        return exchange.method not in ("GET", "HEAD", "OPTIONS")
    named = (exchange.operation, *exchange.operations)
    return any(name.rpartition(".")[2] in ("create", "update", "delete") for name in named)


def _is_dry(exchange: Observation) -> bool:
    """Return whether a call was a dry run (S29)."""
    return sent_body(exchange).get("dry_run") is True


def _unanswered(exchange: Observation) -> bool:
    """Return whether a reply leaves open what was done: none, a redirect, a time-out or a fault."""
    return exchange.lost or exchange.status == 408 or 300 <= exchange.status <= 399 or exchange.status >= 500


def _identity_of(exchange: Observation, made: Mapping[str, Json]) -> object:
    """Return what tells the same thing, returned twice, from two things."""
    if made.get("id") is not None:
        return job_name(made) if exchange.operation == "jobs.create" else str(made["id"])
    ids = tuple(str(item.get("id")) for item in created_by(made) or () if isinstance(item, dict))
    if ids or not exchange.idempotency_key:
        return ids or ("call", exchange.id)
    return "key", exchange.key, exchange.idempotency_key  # another API key's may be another (U27)


def _read_report(report: DryRunReport) -> dict[int, Json]:
    """Read the answer of a dry run, a report or the live call's error (U56, U89), and return its metas."""
    exchange = report.exchange
    if exchange.code in CHECKS:
        report.check = CHECKS[exchange.code]
        return {report.check: exchange.meta}
    data = thing_of(exchange)
    refusal = data["refusal"] if isinstance(data.get("refusal"), dict) else {}
    if refusal.get("code") is not None:
        report.check = CHECKS.get(str(refusal["code"]), NOT_STATED)
    else:
        report.check = 0 if data.get("allowed") is True else NOT_STATED
    joins = data.get("would_join", "unknown" if report.spend == RANK_RUN and report.check == 0 else "")
    report.joins = joins if isinstance(joins, str) else ""
    metas = _read_list(report, data.get("checks"))
    if report.check > 0:
        metas.setdefault(report.check, refusal.get("meta"))
    return metas


def _read_list(report: DryRunReport, checks: Json) -> dict[int, Json]:
    """Read the list of checks of a report, if it has one, and return the metas of those that fail."""
    rows = [row for row in checks if isinstance(row, dict)] if isinstance(checks, list) else []
    failing = [(CHECKS.get(str(row.get("code")), 0), row) for row in rows if row.get("ok") is False]
    if rows:
        report.failing = tuple(check for check, _ in failing)
        report.names = tuple(str(row.get("check")) for row in rows)
    return {check: row.get("meta") for check, row in failing}
