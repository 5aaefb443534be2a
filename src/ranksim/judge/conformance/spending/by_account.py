"""A trace sorted by account: every call that spends becomes a work, a refusal or a dry run of its account."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.judge.conformance.history.fields import plain, state_of, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.history.packed import ObservationLog
from ranksim.judge.conformance.spending.account_record import AccountRecord, may_spend, may_write
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    RANK_RUN,
    AccountActivity,
    JobLifetime,
    SpendWork,
    asked_of,
)
from ranksim.judge.conformance.spending.counter_bounds import Interval
from ranksim.judge.conformance.spending.statements import LONGEST_MONTH, aligned, sharpened
from ranksim.judge.conformance.verdict.options import Options

Json = Any

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
    brief_reads: list[Interval] = field(default_factory=list)

    def add(self, exchange: Observation) -> None:
        """Keep what matters of the next call."""
        self.busy = exchange.sent
        keyed = exchange.idempotency_key is not None and exchange.method == "POST"
        if (
            keyed
            or may_spend(exchange)
            or may_write(exchange)
            or exchange.code in CHECKS
            or exchange.operation in STATED
        ):
            self.calls.add(exchange)
        elif exchange.ok:
            self.sent.append(exchange.sent)
            self.received.append(exchange.received)
            if exchange.operation == "keyword_briefs.list":
                self.brief_reads.append(Interval(exchange.sent, exchange.received))

    def activity(self, rate: int) -> AccountActivity:
        """Return all that the account did; `rate` is that of its business time."""
        record = AccountRecord(AccountActivity(self.account, self.environment, False, begins=self.begins))
        for exchange in self.calls:
            record.add(exchange)
        activity = record.finished(rate)
        activity.reads += map(Interval, self.sent, self.received)
        activity.brief_reads = self.brief_reads
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
            keys = self.used[activity.environment]  # two of unknown account may share its books
            strangers = len(keys) != 1 and any(not run.key(key).account for key in keys)
            activity.alone = run.exclusive and not strangers and not _runs_by_itself(activity)
            activity.others_ended = _others_ended(activity, run)
            activity.bound = {
                name: key.domain_id for name, key in run.header.keys.items() if key.domain_id is not None
            }
            _settle_rank_runs(activity, options)
            activity.works.sort(key=lambda work: work.low)
            yield activity


def _others_ended(activity: AccountActivity, run: ObservedRun) -> Micros:
    """Return when a whole list came, of all domains, with no job under way that no call began."""
    started = {work.id for work in activity.works}
    everywhere = {name for name, key in run.header.keys.items() if key.domain_id is None}
    for exchange in activity.polls:
        whole_list = exchange.operation == "jobs.list" and exchange.has_more is False
        if not whole_list or exchange.key not in everywhere or set(exchange.query) - {"limit"}:
            continue
        running = (job for job in _jobs_shown(exchange) if state_of(job) not in ("done", "failed"))
        if all(job_name(job) in started for job in running):
            return exchange.received
    return DISTANT_FUTURE


def _jobs_shown(exchange: Observation) -> list[Mapping[str, Json]]:
    jobs = [plain(exchange)] if exchange.operation == "jobs.get" else exchange.items or ()
    return [job for job in jobs if isinstance(job, dict)]


def _runs_by_itself(activity: AccountActivity) -> bool:
    """Return whether a rank run is under way that no call asked for, dry or not: one of a scan."""
    if any(work.spend in ("", RANK_RUN) and not work.id for work in activity.works):
        return False  # a call without an answer may have begun it
    started = {work.id for work in activity.works}
    tried = {domain for spend, domain in map(asked_of, activity.dry_runs) if spend in ("", RANK_RUN)}
    return any(
        str(job.get("kind")).lower() == RANK_RUN
        and state_of(job) in ("queued", "running")
        and job_name(job) not in started
        and str(job.get("domain_id")) not in tried
        for exchange in activity.polls
        for job in _jobs_shown(exchange)
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
    begun = _statuses_of_begun(chain.from_iterable(runs.values()), options)
    anywhere = [work for work in activity.works if work.spend in ("", RANK_RUN) and not work.domain]
    for domain, works in runs.items():
        works.sort(key=lambda work: work.high)
        lost = min((work.low for work in works + anywhere if not work.sure), default=DISTANT_FUTURE)
        first = min((work.high for work in works if work.sure), default=DISTANT_FUTURE)
        for work in works:
            begun_here = work.exchange.status in begun or domain in activity.domains or first < work.low
            if work.sure and (not activity.alone or not begun_here or lost <= work.high):
                work.sure = False


def _statuses_of_begun(runs: Iterable[SpendWork], options: Options) -> set[int]:
    """Return the statuses that a join never has: pinned, or shown by runs that were surely joined (U40)."""
    joined, accepted = options.status("job_joined"), options.status("job_accepted")
    if joined is not None and accepted is not None and joined != accepted:
        return {accepted}
    begun, joins = set[int](), set[int]()
    for work in runs:
        first = work.answered_first
        later = (call for call in work.calls if call.sent > first.received and not call.old)
        shown_by = {call.status for call in later if call.idempotency_key is None}
        joins |= shown_by
        begun |= {first.status} if shown_by else set()
    return begun - joins
