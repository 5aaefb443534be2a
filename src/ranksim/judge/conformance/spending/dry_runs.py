"""Dry runs: all six checks, and nothing else (S29, S66)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, SPENDING_OPERATIONS, JobKind
from ranksim.judge.conformance.history.fields import plain, sent_body
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    DRY_RUN_QUEUED,
    JOBS,
    NOT_STATED,
    RANK_RUN,
    AccountActivity,
    DryRunReport,
    SpendCall,
    SpendWork,
    subject_of,
)
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.failed_checks import order_of, rule_of
from ranksim.judge.conformance.spending.left_alone import AllowedDryRuns, judge_dry_runs
from ranksim.judge.conformance.spending.statements import brackets
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare

PAIRS = tuple(combinations(CHECK_NAMES, 2))

RULES = declare(
    Rule(
        "dry_run.free",
        "A dry run consumes no quota and no slots, and spends nothing.",
        (29, 66),
        (49, 56),
        exercise="ladder: read usage and slots around dry runs",
        ways=(
            Breach(66, "a dry run of {} consumes or spends", "{}", SPENDING_OPERATIONS),
            Breach(29, "{} ignores dry_run", "{}", SPENDING_OPERATIONS),
        ),
        follows=(
            *(
                Cause(f"{name}.counted", "the same readings, with dry runs between them")
                for name in ("quota", "slots", "cost")
            ),
            Cause(
                "quota.counted",
                "a count that is too low at times rises by itself",
                account=True,
                tells="expected at least",
            ),
            DRY_RUN_QUEUED,
        ),
        needs=(Requirement.ALONE, Requirement.USAGE),
    ),
    Rule(
        "dry_run.queues",
        "A dry run starts no work.",
        (29, 66),
        (56,),
        exercise="ladder: list jobs after dry runs of each kind",
        ways=(
            Breach(66, "a dry run of {} starts a job, which turns up later", "{}", tuple(map(str, JobKind))),
        ),
        needs=(Requirement.ALONE, Requirement.JOB_LIST),
    ),
    Rule(
        "dry_run.verdict",
        "A dry run says what the call itself would get.",
        (59, 66),
        (45, 46, 48, 56),
        exercise="ladder: each call dry, then for real",
        ways=(
            Breach(66, "a dry run of {} says another thing than the call", "{}", SPENDING_OPERATIONS),
            Breach(66, "a dry run does not tell of {}", "{}", tuple(CHECK_OF)),
        ),
        follows=(DRY_RUN_QUEUED,),
    ),
    Rule(
        "dry_run.order",
        "A dry run reports all six checks, and refuses with the first in their order that fails.",
        (59, 66),
        (56, 89),
        exercise="ladder: dry-run what fails at two checks",
        ways=tuple(
            Breach(59, f"a dry run names {later} where {first} fails too", f"{first} before {later}")
            for first, later in PAIRS
        ),
        follows=(
            *(
                Cause(rule_of(check), "a dry run reports by the same checks", check=name)
                for check, name in enumerate(CHECK_NAMES[:-1], 1)
            ),
            Cause("dry_run.verdict", "the same dry run, which says otherwise than the call"),
        ),
    ),
    looks_at=(">dry_run", "data.allowed", "data.refusal", "data.checks", "data.id"),
    needs=(Requirement.DOMAIN,),
)


def judge(audit: AccountAudit) -> None:
    """Judge the dry runs of one account."""
    activity = audit.activity
    if not activity.dry_runs:
        return
    judge_dry_runs(audit, AllowedDryRuns(activity))
    judge_returned(audit)
    if activity.alone:
        judge_appeared(audit)
        judge_joined(audit)
        judge_verdicts(audit)
    for report in activity.reports:
        judge_order(audit, report)


# Nothing happens


def _jobs_tried(activity: AccountActivity) -> list[Observation]:
    return [exchange for exchange in activity.dry_runs if exchange.operation == "jobs.create" and exchange.ok]


def judge_returned(audit: AccountAudit) -> None:
    """No job exists whose id only dry runs returned: a read that shows it shows what a dry run started."""
    activity = audit.activity
    polled: dict[str, Observation] = {}
    for exchange in activity.polls:
        if exchange.operation == "jobs.get" and "id" in plain(exchange):
            polled.setdefault(job_name(plain(exchange)), exchange)
        elif exchange.operation == "jobs.list" and isinstance(exchange.data, tuple):
            for job in exchange.data:
                polled.setdefault(job, exchange)
    returned = {work.id for work in activity.works if work.id}
    for exchange in _jobs_tried(activity):
        job = job_name(plain(exchange)) if "id" in plain(exchange) else ""
        if job not in polled or job in returned:
            audit.tally.held("dry_run.queues", case=None)
        elif not activity.alone:  # it may show the job that another call has started
            audit.tally.open("dry_run.queues", "others may have used the account")
        else:
            says = f"a dry run was answered with the job {job}, which exists"
            case = str(sent_body(exchange).get("kind"))
            audit.broke("dry_run.queues", says, (exchange.id, polled[job].id), exchange.sent, case=case)


FILTERED = ("kind", "domain_id")
"""What a list of jobs may be filtered by, and a call for one says."""


def judge_appeared(audit: AccountAudit) -> None:
    """No job appears that no call asked for: one that is new in a later complete list was started between.

    It was returned by a call, or started by one without answer. A kind is shown to start nothing by a dry run
    that said yes, of a job that the lists would show, and that no later call can have been answered with, as
    if it had been begun by that call.
    """
    activity, allowed = audit.activity, AllowedDryRuns(audit.activity)
    returned = {work.id for work in activity.works if work.id}
    joinable = [work for work in activity.works if work.spend == RANK_RUN and work.id]
    lost = min((work.low for work in activity.works if not work.sure and not work.id), default=DISTANT_FUTURE)
    tried = _jobs_tried(activity)
    for first, second in _complete_lists(activity):
        dry = [
            exchange
            for exchange in tried
            if first.received < exchange.sent and exchange.received < second.sent
        ]
        if not dry or lost <= second.received:
            continue
        new = set(second.data) - set(first.data)
        started = new - returned
        says = f"the job {min(started, default='')} appeared, which no call but a dry run can have started"
        ids = (first.id, dry[0].id, second.id)
        case = allowed.only(dry) if started else None
        audit.check("dry_run.queues", not started, says, ids, second.sent, case=case)
        for exchange in dry if not started else ():
            body, could = sent_body(exchange), exchange.index in allowed.spends
            if could and _shows(activity, first, body) and not _joined_later(exchange, joinable, new):
                ids = (first.id, exchange.id, second.id)
                audit.tally.covers("dry_run.queues", str(body.get("kind")), ids)


def _complete_lists(activity: AccountActivity) -> Iterator[tuple[Observation, Observation]]:
    """Return each two complete lists of jobs that follow each other, of one key, surface and filter.

    A list over GraphQL counts where it shows a job that was begun over REST: else its jobs may have other ids
    (U83).
    """
    lists: dict[tuple[str, str, str], list[Observation]] = defaultdict(list)
    for exchange in activity.polls:
        complete = exchange.has_more is False and isinstance(exchange.data, tuple)
        if exchange.operation == "jobs.list" and complete and not {"cursor", "status"} & set(exchange.query):
            filters = sorted((name, value) for name, value in exchange.query.items() if name != "limit")
            lists[exchange.key, exchange.surface, repr(filters)].append(exchange)
    ids_over_rest = {work.id for work in activity.works if work.id and work.exchange.surface == "rest"}
    for polls in lists.values():
        for first, second in pairwise(polls):
            if second.surface != "graphql" or not ids_over_rest.isdisjoint(second.data):
                yield first, second


def _shows(activity: AccountActivity, listed: Observation, body: Mapping[str, object]) -> bool:
    """Return whether a whole list of jobs has those that such a body starts: by its filters and its key."""
    bound = activity.bound.get(listed.key, body.get("domain_id"))
    wanted = [listed.query.get(name, body.get(name)) == body.get(name) for name in FILTERED]
    return bound == body.get("domain_id") and all(wanted)


def _joined_later(dry: Observation, runs: Sequence[SpendWork], new: Collection[str]) -> bool:
    """Return whether a rank run that the dry run started may be a new one that later calls joined (S52)."""
    body = sent_body(dry)
    return body.get("kind") == RANK_RUN and any(
        run.id in new and run.domain in ("", body.get("domain_id")) and run.high >= dry.sent for run in runs
    )


def judge_joined(audit: AccountAudit) -> None:
    """No call joins a run after a dry run that would have joined none, with nothing between that began it.

    That it joined one its status tells, where joins have a status that no run surely begun has (U40).
    """
    activity = audit.activity
    begun, joins = _statuses_of_runs(audit)
    dry = [report for report in AllowedDryRuns(activity).reports if report.spend == RANK_RUN]
    before = brackets(dry, lambda report: report.domain)
    for work in activity.works:
        if work.spend != RANK_RUN or not work.id or work.domain not in before:
            continue
        tried, first = before[work.domain].before(work.low), _answered_first(work)
        if tried is None or first is None or activity.changed.possibly(tried.low, work.high) != 1:
            continue
        ids = (tried.exchange.id, first.id)
        if first.status in joins - begun:
            says = f"{first.status} tells that {work.id} was joined, which only the dry run can have started"
            audit.broke("dry_run.queues", says, ids, work.low, case=RANK_RUN)
        elif joins - begun and activity.fates[work.id].alive - work.high > work.high - tried.low:
            audit.tally.covers(
                "dry_run.queues", RANK_RUN, ids
            )  # as long a run of the dry run's would be joined


def _answered_first(work: SpendWork) -> Observation | None:
    """Return the call that was answered with a work before all others were sent; None if there is none.

    Its status is its own: not that of a replay, nor what all of GraphQL has.
    """
    first = work.answered_first
    others = [exchange for exchange in work.calls if exchange is not first]
    keys = {exchange.idempotency_key for exchange in others} - {None}
    alone = all(exchange.sent > first.received for exchange in others)
    tells = first.surface == "rest" and not first.old
    return first if alone and tells and first.idempotency_key not in keys else None


def _statuses_of_runs(audit: AccountAudit) -> tuple[set[int], set[int]]:
    """Return the statuses of calls that surely began a rank run, and of others that got it: shown, or pinned.

    A run of a domain that no dry run was tried on was begun by the first call that was answered with it.
    """
    activity, options = audit.activity, audit.options
    joined, accepted = options.status("job_joined"), options.status("job_accepted")
    if joined is not None and accepted is not None:
        return {accepted}, {joined}
    tried = {report.domain for report in activity.reports if report.spend == RANK_RUN}
    begun, joins = set[int](), set[int]()
    for work in activity.works:
        first = _answered_first(work) if work.spend == RANK_RUN and work.id else None
        if first is not None:
            begun |= set() if work.domain in tried else {first.status}
            joins |= {call.status for call in work.calls if call is not first and not call.old}
    return begun, joins if begun else set()


# What it says


def judge_verdicts(audit: AccountAudit) -> None:
    """A dry run, and the same call for real with surely nothing between: the same refusal, or none in both.

    Time alone mends checks 3 to 6 and the join, and breaks 3 and 6 only as a job ends; so what else differs
    cannot be right in both.
    """
    activity = audit.activity
    dry = brackets(activity.reports, lambda report: subject_of(report.exchange))
    works = [work for work in activity.works if work.high < DISTANT_FUTURE]
    for outcome in (*activity.refusals, *works):
        reports = dry.get(subject_of(outcome.exchange))
        before = None if reports is None else reports.before(outcome.low)
        if before is None or before.check == NOT_STATED:
            continue
        if activity.changed.possibly(before.low, outcome.high) == (0 if outcome.check else 1):
            _compare(audit, before, outcome)


def _compare(audit: AccountAudit, report: DryRunReport, outcome: SpendCall) -> None:
    """Compare what a dry run said with what came of the call."""
    check = outcome.check
    finishes = report.spend in JOBS and audit.options.may_be("cooldown_from", "finish")
    agrees = _agrees(report, check, finishes)
    if agrees is None:
        audit.tally.open("dry_run.verdict", "time may have mended a check, or a job have ended")
        return
    says = f"{report.spend}: a dry run said {_answer(report.check)}, and the call itself {_answer(check)}"
    ids, case = (report.exchange.id, outcome.exchange.id), _answer(check) if check else report.spend
    audit.check("dry_run.verdict", agrees, says, ids, outcome.low, case=case)
    if not agrees and 0 < check < report.check:
        audit.broke("dry_run.order", says, ids, outcome.low, case=order_of(check, report.check))


def _agrees(report: DryRunReport, check: int, finishes: bool) -> bool | None:
    """Compare what was said with what came; None where time, or the end of a job, may make the difference."""
    if report.check == check:
        return True
    if report.joins:
        return None  # the run that would be joined may have ended
    if {check, report.check} & {1, 2}:
        return False  # neither comes to fail by itself, nor is mended by time
    if check == 6 and report.check == 0 and not finishes:
        return False
    if check in (4, 5) and (report.check == 0 or report.check > check):
        return False
    return None


def _answer(check: int) -> str:
    return tuple(CHECK_OF)[check - 1] if check > 0 else "yes"


def judge_order(audit: AccountAudit, report: DryRunReport) -> None:
    """One report is of one instant: the refusal is that of the first check that its list shows to fail.

    Where a run would be joined, the later checks do not count (U89). A report without a list, or the error of
    the live call, is another form (U56); so is a list of only the checks that apply (U58), which still agrees
    with the refusal as far as it goes.
    """
    exchange, ids, at, tally = report.exchange, (report.exchange.id,), report.low, audit.tally
    if exchange.code in CHECKS:
        says = f"a dry run answered {exchange.status} {exchange.code}"
        if audit.options.must_be("dry_run_reply", "report"):
            audit.broke("dry_run.order", says, ids, at)
        else:
            audit.differs(56, "report", "live_error", says, ids, at)
            tally.open("dry_run.order", "dry runs answer with the error of the live call (U56)")
    elif _judge_list(audit, report):
        return
    elif exchange.surface == "graphql":
        tally.open("dry_run.order", "over GraphQL a dry run tells what was asked for")
    else:
        form = "a dry run reports no list of six checks"
        audit.differs(89, "allowed, refusal and six checks", "another form", form, ids, at)
        tally.open("dry_run.order", "the report has another form (U89)")


def _judge_list(audit: AccountAudit, report: DryRunReport) -> bool:
    """Judge the list of checks of a report, and return whether it tells: all six, or some and wrong."""
    failing, refusing, ids, at = report.failing, report.check, (report.exchange.id,), report.low
    if failing is None or refusing == NOT_STATED or 0 in failing:
        return False
    complete = len(report.names) == len(CHECK_NAMES)
    wrong = _wrong(report, failing, complete=complete)
    if not complete and not wrong:
        return False
    first = min(failing, default=0)
    pair = order_of(first, refusing) if 0 < first < refusing else ANY
    says = f"dry run of {report.spend}: {wrong}"
    audit.check("dry_run.order", not wrong, says, ids, at, case=pair if wrong else None)
    for check in failing if refusing in failing and not wrong else ():
        if check > refusing:
            audit.tally.covers("dry_run.order", order_of(refusing, check), ids)
    if report.names != CHECK_NAMES and complete:
        says = f"it lists its checks as {', '.join(report.names)}"
        audit.differs(89, *_listed_otherwise(report.names), says, ids, at)
    return True


def _listed_otherwise(names: Sequence[str]) -> tuple[str, str]:
    """Return how a list of six checks was assumed to be, and how it is: by other names, or out of order."""
    places = [CHECK_NAMES.index(name) for name in names if name in CHECK_NAMES]
    unlike = [(name, listed) for name, listed in zip(CHECK_NAMES, names, strict=True) if name != listed]
    if places == sorted(places) and all(listed not in CHECK_NAMES for _, listed in unlike):
        return ", ".join(name for name, _ in unlike), ", ".join(listed for _, listed in unlike)
    return "six checks in their order", "another order"


def _wrong(report: DryRunReport, failing: Sequence[int], *, complete: bool) -> str:
    """Return what is wrong with a list of all six checks, whose order is its own (U89), or of some; or "".

    What refuses may be a check that a list of some has not.
    """
    refusing, first = report.check, min(failing, default=0)
    if complete and first != refusing and not report.joins:
        return f"it refuses with {_answer(refusing)}, and the first check to fail is {_answer(first)}"
    if complete:
        return ""
    if first and not 0 < refusing <= first and not report.joins:
        return f"it says {_answer(refusing)}, and {_answer(first)} fails"
    if refusing and refusing not in failing and CHECK_NAMES[refusing - 1] in report.names:
        return f"it refuses with {_answer(refusing)}, and lists that check as met"
    return ""
