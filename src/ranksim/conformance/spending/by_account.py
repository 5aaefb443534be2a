"""A trace sorted by account: every call that spends becomes a work, a refusal or a dry run of its account."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ranksim.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.conformance.history.fields import body_of, plain, snaked, thing_of
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Observation, ReceivedAttempt, job_name
from ranksim.conformance.history.observation_log import ObservationLog
from ranksim.conformance.spending import statements
from ranksim.conformance.spending.activity import (
    CHECKS,
    RANK_RUN,
    AccountActivity,
    JobLifetime,
    RefusedSpend,
    SpendWork,
)
from ranksim.conformance.spending.spend_parsing import (
    SPENDING,
    domain_of,
    dry,
    identity_of,
    report_of,
    spend_of,
    unanswered,
)
from ranksim.conformance.spending.statements import LONGEST_MONTH, StatusStatement, aligned, sharpened
from ranksim.conformance.verdict.options import Options

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

    def add(self, seen: Observation) -> None:
        """Keep what matters of the next call."""
        self.busy = seen.sent
        keyed = seen.idempotency_key is not None and seen.method == "POST"
        if keyed or _spends(seen) or _writes(seen) or seen.code in CHECKS or seen.operation in STATED:
            self.calls.add(seen)
        elif seen.ok:
            self.sent.append(seen.sent)
            self.received.append(seen.received)

    def activity(self, rate: int) -> AccountActivity:
        """Return all that the account did; `rate` is that of its business time."""
        record = AccountRecord(AccountActivity(self.account, self.environment, False, begins=self.begins))
        for seen in self.calls:
            record.add(seen)
        dealings = record.finished(rate)
        dealings.reads += zip(self.sent, self.received, strict=True)
        return dealings


@dataclass(slots=True)
class ObservedAccounts:
    """What every account did, and what webhooks told of its jobs."""

    logs: dict[Owner, AccountLog] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The keys that worked in each environment."""
    created: dict[str, set[Owner]] = field(default_factory=lambda: defaultdict(set))
    """Who created each job, by its name."""
    ended: dict[str, JobLifetime] = field(default_factory=lambda: defaultdict(JobLifetime))
    """When webhooks told the ends of jobs (S76), by their names."""

    def add(self, seen: Observation) -> None:
        """Keep the next call."""
        owner = (seen.environment, seen.account)
        if seen.ok and seen.operation == "jobs.create":
            self.created[job_name(thing_of(seen))].add(owner)
        if seen.key and seen.happened is not False:
            if owner not in self.logs:
                self.logs[owner] = AccountLog(seen.account, seen.environment, seen.sent)
            self.logs[owner].add(seen)
            if 200 <= seen.status <= 299:
                self.used[seen.environment].add(seen.key)

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
            dealings = self.logs.pop(owner).activity(run.rate)
            for work in dealings.works:
                if len(self.created.get(work.id, ())) == 1:
                    del self.created[work.id]
                    if work.id in self.ended:
                        dealings.fates[work.id].join(self.ended.pop(work.id))
            dealings.meters = {metric: aligned(found) for metric, found in dealings.meters.items()}
            dealings.cost, dealings.slots = sharpened(aligned(dealings.cost)), aligned(dealings.slots)
            dealings.alone = _alone(run, self.used[dealings.environment]) and not _runs_by_itself(dealings)
            _settle_rank_runs(dealings, options)
            dealings.works.sort(key=lambda work: work.low)
            yield dealings


def _alone(run: ObservedRun, keys: Collection[str]) -> bool:
    """Return whether nobody else used an account's books: two keys of unknown account may share them.

    `keys` are all that worked in its environment.
    """
    strangers = any(not run.key(key).account for key in keys)
    return run.exclusive and (not strangers or len(keys) == 1)


@dataclass(slots=True)
class AccountRecord:
    """What one account's keys did, sorted into works, refusals, dry runs and statements as it is observed."""

    dealings: AccountActivity
    repeats: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))
    works: dict[object, SpendWork] = field(default_factory=dict)
    unanswered: list[Observation] = field(default_factory=list)
    shown: list[tuple[str, Observation, Json]] = field(default_factory=list)
    """Jobs shown under an Idempotency-Key: they tell nothing if it is repeated, as a replay is old (E6)."""

    def add(self, seen: Observation) -> None:
        """Sort the next call of the account."""
        if seen.idempotency_key is not None and seen.method == "POST":
            self.repeats[seen.idempotency_key].append(seen)
        if _spends(seen):
            self._ask(seen)
        elif _writes(seen):
            if not 300 <= seen.status <= 499:
                self._change(seen)
            self._other(seen)
        elif seen.code in CHECKS:
            self.dealings.refused_reads.append(seen)
        elif seen.ok:
            self.dealings.reads.append((seen.sent, seen.received))
            if seen.operation in ("jobs.get", "jobs.list"):
                self.dealings.polls.append(seen)
            self._other(seen)

    def finished(self, rate: int) -> AccountActivity:
        """Return all that the account did; `rate` is that of its business time."""
        for key, seen, job in self.shown:
            if len(self.repeats.get(key, ())) <= 1:
                self._tell(seen, job)
        for seen in self.unanswered:
            self._maybe(seen, rate)
        self.dealings.works.extend(self.works.values())
        return self.dealings

    # Calls that spend

    def _ask(self, seen: Observation) -> None:
        body = body_of(seen)
        self.dealings.asked.append(seen)
        if body.get("dry_run") is True:
            self._dry_run(seen, body)
        elif unanswered(seen):
            self.unanswered.append(seen)
        elif seen.code in CHECKS:
            low = self._since(seen)
            if low is not None:
                spend, domain = spend_of(seen, body), domain_of(body, {})
                refused = RefusedSpend(CHECKS[seen.code], spend, domain, low, seen.received, seen)
                self.dealings.refusals.append(refused)
                self._meta(seen, seen.meta, low)
        elif seen.ok:
            self._granted(seen, body)
        elif seen.surface == "graphql" and 200 <= seen.status <= 299:
            self.unanswered.append(seen)  # an error of some field; others may have been executed

    def _since(self, seen: Observation) -> Micros | None:
        """Return when the reply can first have been decided: a replay was earlier; None if unknown."""
        earlier = self.repeats.get(seen.idempotency_key or "", [seen])
        if seen.replayed and earlier[0].index == seen.index:
            return None
        return min(seen.sent, earlier[0].sent)

    def _granted(self, seen: Observation, body: Mapping[str, Json]) -> None:
        low, made = self._since(seen), thing_of(seen)
        if low is None:
            return
        if not body or (seen.operation == "jobs.create" and "id" not in made):
            self.unanswered.append(seen)  # nobody can tell what it was, or whether it was joined
            return
        identity = identity_of(seen, made)
        work = self.works.get((seen.operation, identity))
        if work is None:
            spend, domain = spend_of(seen, body), domain_of(body, made)
            name = str(identity) if made.get("id") else ""
            work = SpendWork(spend, domain, low, seen.received, True, [], name, granted=True)
            self.works[seen.operation, identity] = work
        work.low, work.high = min(work.low, low), min(work.high, seen.received)
        work.calls.append(seen)
        self._job(seen, made)

    def _maybe(self, seen: Observation, rate: int) -> None:
        """Count a call without an answer as one work that may exist, unless a repeat of it was answered."""
        key = seen.idempotency_key
        group = [other for other in self.repeats.get(key or "", []) if other.key == seen.key]  # U27
        near = rate > 0 and group and (group[-1].sent - group[0].sent) * rate < MEMORY
        body = body_of(seen)
        identity: object = ("lost", seen.id)
        if key is not None and near and seen.surface == "rest":
            if any(other.ok and not dry(other) and other.operation == seen.operation for other in group):
                return
            identity = ("lost", seen.key, key)
        if (seen.operation, identity) in self.works:
            self.works[seen.operation, identity].calls.append(seen)
            return
        work = SpendWork(spend_of(seen, body), domain_of(body, {}), seen.sent, DISTANT_FUTURE, False, [seen])
        self.works[seen.operation, identity] = work

    def _dry_run(self, seen: Observation, body: Mapping[str, Json]) -> None:
        self.dealings.dry_runs.append(seen)
        low = self._since(seen)
        if seen.lost or low is None or not (seen.ok or seen.code in CHECKS):
            return
        report, metas = report_of(seen, body, low)
        self.dealings.reports.append(report)
        for meta in metas.values():
            self._meta(seen, meta, low)

    def _meta(self, seen: Observation, meta: Json, low: Micros) -> None:
        """Take the numbers behind a refusal as statements."""
        if seen.surface == "graphql":
            meta = snaked(meta)
        if not isinstance(meta, dict):
            return
        meter = statements.meter_of(seen, meta, low, seen.received)
        if meter is not None:
            self.dealings.meters[meter.metric].append(meter)
        elif "requested" in meta:
            slots = statements.slots_of(seen, meta, low, seen.received)
            self.dealings.slots += [] if slots is None else [slots]
        else:
            cost = statements.cost_of(seen, meta, low, seen.received)
            self.dealings.cost += [] if cost is None else [cost]

    # Other calls

    def _other(self, seen: Observation) -> None:
        dealings = self.dealings
        if not seen.ok:
            return
        match seen.operation:
            case "account.usage":
                for meter in statements.meters_of(seen):
                    dealings.meters[meter.metric].append(meter)
                cost = statements.cost_of(seen, plain(seen).get("cost"), seen.sent, seen.received)
                dealings.cost += [] if cost is None else [cost]
            case "slots.get":
                slots = statements.slots_of(seen, plain(seen), seen.sent, seen.received)
                dealings.slots += [] if slots is None else [slots]
            case "account.entitlements":
                dealings.entitled.append(statements.entitled_of(seen))
            case "account.get":
                dealings.health.append(StatusStatement(seen, str(plain(seen).get("status", "")).lower()))
            case "jobs.get":
                self._job(seen, plain(seen))
            case "jobs.list":
                for item in seen.items or ():
                    self._job(seen, snaked(item) if seen.surface == "graphql" else item)
            case "domains.create":
                dealings.domains.setdefault(str(thing_of(seen).get("id")), seen)
            case "keyword_lists.create":
                dealings.lists.setdefault(str(thing_of(seen).get("id")), seen)

    def _change(self, seen: Observation) -> None:
        """Note a write that may have changed something without spending."""
        self.dealings.changes.append((seen.sent, seen.received))
        named = {seen.operation, *seen.operations}
        if "scans.update" in named:
            self.dealings.patches.append(seen)
        if named & REMOVALS:
            self.dealings.removals.append(seen.sent)

    def _job(self, seen: Observation, job: Json) -> None:
        """Note what a reply shows of a job; what a repeat shows may be old (E6)."""
        if seen.replayed or not isinstance(job, dict) or not isinstance(job.get("status"), str):
            return
        if seen.idempotency_key is not None:
            told = {name: job.get(name) for name in ("id", "kind", "status", "error_detail")}
            self.shown.append((seen.idempotency_key, seen, told))
        else:
            self._tell(seen, job)

    def _tell(self, seen: Observation, job: Mapping[str, Json]) -> None:
        """Note when a job was seen alive, done or failed."""
        fate = self.dealings.fates[job_name(job)]
        status = job["status"].lower()
        if status == "done":
            fate.end("job.completed", seen.received)
        elif job.get("error_detail") or status in ("failed", "error"):
            fate.end("job.failed", seen.received)
        elif status in ("queued", "running"):
            fate.alive = max(fate.alive, seen.sent)


def _spends(seen: Observation) -> bool:
    """Return whether a call may want to spend."""
    return seen.operation in SPENDING or (
        not seen.operation and any(name in SPENDING for name in seen.operations)
    )


def _writes(seen: Observation) -> bool:
    """Return whether a call may change something; what a GraphQL call does, its operations tell."""
    if seen.surface != "graphql":
        return seen.method not in ("GET", "HEAD", "OPTIONS")
    named = (seen.operation, *seen.operations)
    return any(name.rpartition(".")[2] in ("create", "update", "delete") for name in named)


def _runs_by_itself(dealings: AccountActivity) -> bool:
    """Return whether a rank run is under way that no call asked for, dry or not: one of a scan."""
    asked = {work.id for work in dealings.works}
    if any(work.spend in ("", RANK_RUN) and not work.id for work in dealings.works):
        return False  # a call without an answer may have begun it
    dry = [(seen, body_of(seen)) for seen in dealings.dry_runs]
    tried = {domain_of(body, {}) for seen, body in dry if spend_of(seen, body) in ("", RANK_RUN)}
    return any(
        str(job.get("kind")).lower() == RANK_RUN
        and str(job.get("status")).lower() in ("queued", "running")
        and job_name(job) not in asked
        and str(job.get("domain_id")) not in tried
        for seen in dealings.polls
        if seen.ok
        for job in (snaked([plain(seen)] if seen.operation == "jobs.get" else seen.items or []))
        if isinstance(job, dict)
    )


def _settle_rank_runs(dealings: AccountActivity, options: Options) -> None:
    """Note which rank runs were surely begun in the trace: a reply may be that of a run already under way.

    It was begun here when the run's domain was made here, when an earlier call on the domain was answered
    with another run, or when its status is not that of a join; all this only if no call without an answer
    may have begun it.
    """
    runs: dict[str, list[SpendWork]] = defaultdict(list)
    for work in dealings.works:
        if work.spend == RANK_RUN:
            runs[work.domain].append(work)
    begun = _statuses_of_begun(runs.values(), options)
    anywhere = [work for work in dealings.works if work.spend in ("", RANK_RUN) and not work.domain]
    for domain, works in runs.items():
        works.sort(key=lambda work: work.high)
        lost = min((work.low for work in works + anywhere if not work.sure), default=DISTANT_FUTURE)
        first = min((work.high for work in works if work.sure), default=DISTANT_FUTURE)
        for work in works:
            known = work.seen.status in begun or domain in dealings.domains or first < work.low
            if work.sure and (not dealings.alone or not known or lost <= work.high):
                work.sure = False


def _statuses_of_begun(runs: Iterable[list[SpendWork]], options: Options) -> set[int]:
    """Return the statuses that a join never has: pinned, or shown by runs that were surely joined (U40)."""
    joined, accepted = options.status("job_joined"), options.status("job_accepted")
    if joined is not None and accepted is not None and joined != accepted:
        return {accepted}
    begun, joins = set(), set()
    for works in runs:
        for work in works:
            first = min(work.calls, key=lambda seen: seen.received)
            for seen in work.calls:
                if seen.sent > first.received and not seen.replayed and seen.idempotency_key is None:
                    joins.add(seen.status)
                    begun.add(first.status)
    return begun - joins
