"""A trace sorted by account: every call that spends becomes a work, a refusal or a dry run of its account."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.judge.conformance.history.fields import body_of, plain, snaked, state_of, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.history.packed import ObservationLog
from ranksim.judge.conformance.spending import statements
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    RANK_RUN,
    AccountActivity,
    JobLifetime,
    RefusedSpend,
    SpendWork,
)
from ranksim.judge.conformance.spending.spend_parsing import (
    SPENDING,
    domain_of,
    dry,
    identity_of,
    report_of,
    spend_of,
    unanswered,
)
from ranksim.judge.conformance.spending.statements import (
    LONGEST_MONTH,
    Interval,
    StatusStatement,
    aligned,
    sharpened,
)
from ranksim.judge.conformance.verdict.options import Options

Json = Any

MEMORY: Final = 23 * HOUR
"""Repeats of an Idempotency-Key this near surely are repeats (S47, U30)."""

REMOVALS: Final = frozenset({"keywords.delete", "keyword_lists.delete", "scans.delete", "domains.delete"})
"""Writes that may free slots."""

Owner: TypeAlias = tuple[str, str]
"""Environment and account."""


STATED: Final = frozenset(
    {"account.usage", "slots.get", "account.entitlements", "account.get", "jobs.get", "jobs.list"}
)
"""Reads of what an account has: its books, its plan, its jobs."""

IDLE: Final = LONGEST_MONTH
"""Business time without a call after which an account is judged and forgotten: its periods have ended."""


@dataclass(slots=True)
class AccountLog:
    """The calls of one account that matter to its books, packed until it is judged."""

    account: str
    environment: str
    begins: Micros
    busy: Micros = 0
    """When its last call was sent."""
    calls: ObservationLog = field(default_factory=ObservationLog)
    sent: array[int] = field(default_factory=lambda: array("q"))
    received: array[int] = field(default_factory=lambda: array("q"))
    """When other reads that were answered were sent and received."""

    def add(self, exchange: Observation) -> None:
        """Keep what matters of the next call."""
        self.busy = exchange.sent
        keyed = exchange.idempotency_key is not None and exchange.method == "POST"
        if (
            keyed
            or _spends(exchange)
            or _writes(exchange)
            or exchange.code in CHECKS
            or exchange.operation in STATED
        ):
            self.calls.add(exchange)
        elif exchange.ok:
            self.sent.append(exchange.sent)
            self.received.append(exchange.received)

    def activity(self, rate: int) -> AccountActivity:
        """Return all that the account did; `rate` is that of its business time."""
        record = AccountRecord(AccountActivity(self.account, self.environment, False, begins=self.begins))
        for exchange in self.calls:
            record.add(exchange)
        activity = record.finished(rate)
        activity.reads += map(Interval, self.sent, self.received)
        return activity


@dataclass(slots=True)
class ObservedAccounts:
    """What every account did, and the ends of its jobs that webhooks reported."""

    logs: dict[Owner, AccountLog] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The keys that worked in each environment."""
    created: dict[str, set[Owner]] = field(default_factory=lambda: defaultdict(set))
    """Who created each job, by its name."""
    ended: dict[str, JobLifetime] = field(default_factory=lambda: defaultdict(JobLifetime))
    """When webhooks reported the ends of jobs (S76), by their names."""

    def add(self, exchange: Observation) -> None:
        """Keep the next call."""
        owner = (exchange.environment, exchange.account)
        if exchange.ok and exchange.operation == "jobs.create":
            self.created[job_name(thing_of(exchange))].add(owner)
        if exchange.key and exchange.happened is not False:
            if owner not in self.logs:
                self.logs[owner] = AccountLog(exchange.account, exchange.environment, exchange.sent)
            self.logs[owner].add(exchange)
            # what needs no key (S39) shows of no key that it works
            if 200 <= exchange.status <= 299 and exchange.operation != "webhook_events.list":
                self.used[exchange.environment].add(exchange.key)

    def add_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep the end of a job, if the webhook attempt tells one."""
        data = attempt.body.get("data") if isinstance(attempt.body, dict) else None
        job = data.get("job") if isinstance(data, dict) else None
        if isinstance(job, dict):
            self.ended[job_name(job)].end(attempt.type, attempt.received)

    def activity(self, watermark: Micros, run: ObservedRun, options: Options) -> Iterator[AccountActivity]:
        """Return what each account did that is idle at the watermark, one at a time, and forget it."""
        idle = [
            owner for owner, log in self.logs.items() if (watermark - log.busy) * max(1, run.rate) >= IDLE
        ]
        for owner in idle:
            activity = self.logs.pop(owner).activity(run.rate)
            for work in activity.works:
                if len(self.created.get(work.id, ())) == 1:
                    del self.created[work.id]
                    if work.id in self.ended:
                        activity.fates[work.id].join(self.ended.pop(work.id))
            activity.meters = {metric: aligned(meters) for metric, meters in activity.meters.items()}
            activity.cost, activity.slots = sharpened(aligned(activity.cost)), aligned(activity.slots)
            activity.alone = _alone(run, self.used[activity.environment]) and not _runs_by_itself(activity)
            activity.others_ended = _others_ended(activity, run)
            activity.bound = {
                name: key.domain_id for name, key in run.header.keys.items() if key.domain_id is not None
            }
            _settle_rank_runs(activity, options)
            activity.works.sort(key=lambda work: work.low)
            yield activity


def _alone(run: ObservedRun, keys: Collection[str]) -> bool:
    """Return whether nobody else used an account's books: two keys of unknown account may share them.

    `keys` are all that worked in its environment.
    """
    strangers = any(not run.key(key).account for key in keys)
    return run.exclusive and (not strangers or len(keys) == 1)


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
        if _spends(exchange):
            self._ask(exchange)
        elif _writes(exchange):
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
        body = body_of(exchange)
        self.activity.spend_calls.append(exchange)
        if body.get("dry_run") is True:
            self._dry_run(exchange, body)
        elif unanswered(exchange):
            self.unanswered.append(exchange)
        elif exchange.code in CHECKS:
            low = self._since(exchange)
            if low is not None:
                spend, domain, check = spend_of(exchange, body), domain_of(body, {}), CHECKS[exchange.code]
                refused = RefusedSpend(spend, domain, low, exchange.received, exchange, check)
                self.activity.refusals.append(refused)
                self._meta(exchange, exchange.meta, low)
        elif exchange.ok:
            self._granted(exchange, body)
        elif exchange.surface == "graphql" and 200 <= exchange.status <= 299:
            self.unanswered.append(exchange)  # an error of some field; others may have been executed

    def _since(self, exchange: Observation) -> Micros | None:
        """Return when the reply can first have been decided: a replay was earlier; None if unknown.

        It is, where the first call of its key may be a replay, too, of one that was not captured.
        """
        first = self.repeats.get(exchange.idempotency_key or "", [exchange])[0]
        return None if exchange.old and first.old else min(exchange.sent, first.sent)

    def _granted(self, exchange: Observation, body: Mapping[str, Json]) -> None:
        low, made = self._since(exchange), thing_of(exchange)
        if low is None:
            return
        if not body or not _names_work(exchange):
            self.unanswered.append(exchange)  # nobody can tell what it was, or whether it was joined
            return
        identity = identity_of(exchange, made)
        work = self.works.get((exchange.operation, identity))
        if work is None:
            spend, domain = spend_of(exchange, body), domain_of(body, made)
            work = SpendWork(spend, domain, low, exchange.received, exchange, granted=True)
            work.id = str(identity) if made.get("id") else ""
            self.works[exchange.operation, identity] = work
        work.low, work.high = min(work.low, low), min(work.high, exchange.received)
        work.calls.append(exchange)
        self._job(exchange, made)

    def _maybe(self, exchange: Observation, rate: int) -> None:
        """Count a call without an answer as one work that may exist, unless a repeat of it was answered."""
        key = exchange.idempotency_key
        group = [other for other in self.repeats.get(key or "", []) if other.key == exchange.key]  # U27
        near = rate > 0 and group and (group[-1].sent - group[0].sent) * rate < MEMORY
        body = body_of(exchange)
        identity: object = ("lost", exchange.id)
        if key is not None and near and exchange.surface == "rest":
            answered = (other for other in group if other.ok and not dry(other) and _names_work(other))
            if any(other.operation == exchange.operation for other in answered):
                return
            identity = ("lost", exchange.key, key)
        if (exchange.operation, identity) in self.works:
            self.works[exchange.operation, identity].calls.append(exchange)
            return
        spend, domain = spend_of(exchange, body), domain_of(body, {})
        self.works[exchange.operation, identity] = SpendWork(
            spend, domain, exchange.sent, DISTANT_FUTURE, exchange, sure=False, calls=[exchange]
        )

    def _dry_run(self, exchange: Observation, body: Mapping[str, Json]) -> None:
        self.activity.dry_runs.append(exchange)
        low = self._since(exchange)
        if exchange.lost or low is None or not (exchange.ok or exchange.code in CHECKS):
            return
        report, metas = report_of(exchange, body, low)
        self.activity.reports.append(report)
        for meta in metas.values():
            self._meta(exchange, meta, low)

    def _meta(self, exchange: Observation, meta: Json, low: Micros) -> None:
        """Take the numbers behind a refusal as statements."""
        if exchange.surface == "graphql":
            meta = snaked(meta)
        if not isinstance(meta, dict):
            return
        meter = statements.meter_of(exchange, meta, low, exchange.received)
        if meter is not None:
            self.activity.meters[meter.metric].append(meter)
        elif "requested" in meta or "needed" in meta:
            slots = statements.slots_of(exchange, meta, low, exchange.received)
            self.activity.slots += [] if slots is None else [slots]
        else:
            cost = statements.cost_of(exchange, meta, low, exchange.received)
            self.activity.cost += [] if cost is None else [cost]

    # Other calls

    def _other(self, exchange: Observation) -> None:
        activity = self.activity
        if not exchange.ok:
            return
        match exchange.operation:
            case "account.usage":
                for meter in statements.meters_of(exchange):
                    activity.meters[meter.metric].append(meter)
                cost = statements.cost_of(
                    exchange, plain(exchange).get("cost"), exchange.sent, exchange.received
                )
                activity.cost += [] if cost is None else [cost]
            case "slots.get":
                slots = statements.slots_of(exchange, plain(exchange), exchange.sent, exchange.received)
                activity.slots += [] if slots is None else [slots]
            case "account.entitlements":
                activity.entitled.append(statements.entitled_of(exchange))
            case "account.get":
                status = str(plain(exchange).get("status", "")).lower()
                activity.health.append(StatusStatement(exchange, exchange.sent, exchange.received, status))
            case "jobs.get":
                self._job(exchange, plain(exchange))
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


def _spends(exchange: Observation) -> bool:
    """Return whether a call may want to spend."""
    return exchange.operation in SPENDING or (
        not exchange.operation and any(name in SPENDING for name in exchange.operations)
    )


def _writes(exchange: Observation) -> bool:
    """Return whether a call may change something; what a GraphQL call does, its operations tell."""
    if exchange.surface != "graphql":
        return exchange.method not in ("GET", "HEAD", "OPTIONS")
    named = (exchange.operation, *exchange.operations)
    return any(name.rpartition(".")[2] in ("create", "update", "delete") for name in named)


def _others_ended(activity: AccountActivity, run: ObservedRun) -> Micros:
    """Return when a whole list came, of all domains, with no job under way that no call began."""
    started = {work.id for work in activity.works}
    for exchange in activity.polls:
        declared = run.header.keys.get(exchange.key)
        complete = exchange.ok and exchange.operation == "jobs.list" and exchange.has_more is False
        if (
            complete
            and not set(exchange.query) - {"limit"}
            and declared is not None
            and declared.domain_id is None
        ):
            jobs = [job for job in exchange.items or () if isinstance(job, dict)]
            if all(state_of(job) in ("done", "failed") or job_name(job) in started for job in jobs):
                return exchange.received
    return DISTANT_FUTURE


def _runs_by_itself(activity: AccountActivity) -> bool:
    """Return whether a rank run is under way that no call asked for, dry or not: one of a scan."""
    started = {work.id for work in activity.works}
    if any(work.spend in ("", RANK_RUN) and not work.id for work in activity.works):
        return False  # a call without an answer may have begun it
    dry = [(exchange, body_of(exchange)) for exchange in activity.dry_runs]
    tried = {domain_of(body, {}) for exchange, body in dry if spend_of(exchange, body) in ("", RANK_RUN)}
    return any(
        str(job.get("kind")).lower() == RANK_RUN
        and state_of(job) in ("queued", "running")
        and job_name(job) not in started
        and str(job.get("domain_id")) not in tried
        for exchange in activity.polls
        if exchange.ok
        for job in ([plain(exchange)] if exchange.operation == "jobs.get" else exchange.items or ())
        if isinstance(job, dict)
    )


def _settle_rank_runs(activity: AccountActivity, options: Options) -> None:
    """Note which rank runs were surely begun in the trace: a reply may be that of a run already under way.

    It was begun here when the run's domain was made here, when an earlier call on the domain was answered
    with another run, or when its status is not that of a join; all this only if no call without an answer
    may have begun it.
    """
    runs: dict[str, list[SpendWork]] = defaultdict(list)
    for work in activity.works:
        if work.spend == RANK_RUN:
            runs[work.domain].append(work)
    begun = _statuses_of_begun(runs.values(), options)
    anywhere = [work for work in activity.works if work.spend in ("", RANK_RUN) and not work.domain]
    for domain, works in runs.items():
        works.sort(key=lambda work: work.high)
        lost = min((work.low for work in works + anywhere if not work.sure), default=DISTANT_FUTURE)
        first = min((work.high for work in works if work.sure), default=DISTANT_FUTURE)
        for work in works:
            begun_here = work.exchange.status in begun or domain in activity.domains or first < work.low
            if work.sure and (not activity.alone or not begun_here or lost <= work.high):
                work.sure = False


def _statuses_of_begun(runs: Iterable[list[SpendWork]], options: Options) -> set[int]:
    """Return the statuses that a join never has: pinned, or shown by runs that were surely joined (U40)."""
    joined, accepted = options.status("job_joined"), options.status("job_accepted")
    if joined is not None and accepted is not None and joined != accepted:
        return {accepted}
    begun, joins = set(), set()
    for works in runs:
        for work in works:
            first = min(work.calls, key=lambda exchange: exchange.received)
            for exchange in work.calls:
                if exchange.sent > first.received and not exchange.old and exchange.idempotency_key is None:
                    joins.add(exchange.status)
                    begun.add(first.status)
    return begun - joins
