"""Dry runs: all six checks, and nothing else (S29, S66)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, SPENDING_OPERATIONS, JobKind
from ranksim.judge.conformance.history.fields import body_of, plain
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.judge.conformance.spending.activity import (
    ADDS,
    CHECKS,
    DRY_RUN_QUEUED,
    JOBS,
    RANK_RUN,
    AccountActivity,
    DryRunReport,
    JobsUnderWay,
    NoActivity,
    RefusedSpend,
    SpendWork,
)
from ranksim.judge.conformance.spending.counter_bounds import RunningSums
from ranksim.judge.conformance.spending.failed_checks import order_of, rule_of
from ranksim.judge.conformance.spending.spend_parsing import spend_of, subject_of
from ranksim.judge.conformance.spending.statements import Bracket, BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

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


def judge(activity: AccountActivity, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge the dry runs of one account."""
    if not activity.dry_runs:
        return
    judge_free(activity, tally)
    judge_queues(activity, tally)
    judge_joined(activity, options, tally)
    judge_verdicts(activity, options, tally)
    for report in activity.reports:
        judge_order(activity, report, options, tally)


# Nothing happens


BRIEFS = ("keyword_briefs",)


@dataclass(frozen=True, slots=True)
class StatedNumber:
    """A number that works alone can raise, as a reply stated it; `by` has those that surely do (S51-S58).

    Numbers are compared where what stands `beside` them (µUSD) is the same.
    """

    what: str
    low: Micros
    high: Micros
    value: int
    ends: Micros | None
    exchange: Observation
    by: Collection[str] = ()
    beside: int = 0


class _Allowed:
    """Dry runs that said yes, in order: only such could have consumed anything."""

    def __init__(self, activity: AccountActivity) -> None:
        self.reports = sorted(
            (report for report in activity.reports if report.check == 0 and not report.joins),
            key=lambda report: report.low,
        )
        self.lows = [report.low for report in self.reports]

    def between(self, low: Micros, high: Micros) -> Iterator[DryRunReport]:
        """Return those that were made after `low` and answered before `high`."""
        for report in self.reports[bisect_right(self.lows, low) :]:
            if report.low >= high:
                return
            if report.high < high:
                yield report


SPENT = "spent µUSD"


def readings_of(activity: AccountActivity) -> Iterator[list[StatedNumber]]:
    """Return what a dry run might consume, each in order: units, slots, and cost.

    Where cost is reserved (U49), nothing has settled while what is reserved stayed the same; elsewhere what
    is spent may grow by jobs that run.
    """
    for metric, meters in activity.meters.items():
        yield [
            StatedNumber(
                metric, m.low, m.high, m.used, m.ends, m.exchange, BRIEFS if m.period == "week" else ()
            )
            for m in meters
        ]
    yield [StatedNumber("slots", s.low, s.high, s.used, s.ends, s.exchange, ADDS) for s in activity.slots]
    yield [
        StatedNumber("reserved µUSD", c.low, c.high, c.reserved, c.ends, c.exchange)
        for c in activity.cost
        if c.reserved is not None
    ]
    if any(c.reserved for c in activity.cost):
        yield [
            StatedNumber("settled µUSD", c.low, c.high, c.settled, c.ends, c.exchange, JOBS, c.reserved)
            for c in activity.cost
            if c.settled is not None and c.reserved is not None
        ]
    else:
        yield [
            StatedNumber(SPENT, c.low, c.high, spent, c.ends, c.exchange, JOBS)
            for c in activity.cost
            if (spent := c.settled if c.spent is None else c.spent) is not None
        ]


def _apart(first: StatedNumber, second: StatedNumber) -> bool:
    return (first.ends, first.beside) != (second.ends, second.beside)


def _only(dry: Sequence[Observation], allowed: _Allowed, by: Collection[str] = ()) -> str:
    """Return the one operation of which dry runs can have done something, if it is one.

    Those that said yes can, of the operations `by` which it is done, where these are known.
    """
    allowing = {report.exchange.index: report.spend for report in allowed.reports}
    spends = {
        allowing[exchange.index]
        for exchange in dry
        if exchange.index in allowing and (not by or allowing[exchange.index] in by)
    }
    spends = spends or {spend_of(exchange, body_of(exchange)) for exchange in dry if exchange.ok}
    return next(iter(spends)) or ANY if len(spends) == 1 else ANY


def judge_free(activity: AccountActivity, tally: Tally) -> None:
    """Between two readings with dry runs and surely no work between them, nothing has grown.

    Only accepted work raises used units, used slots and reserved cost, what is settled while no reservation
    is given up, and what is spent where no job runs; and all calls that may have been accepted in between
    are counted out.
    """
    quiet, running = NoActivity(activity), JobsUnderWay(activity)
    tried = RunningSums((exchange.sent, 1) for exchange in activity.dry_runs)
    sent = [exchange.sent for exchange in activity.dry_runs]
    allowed = _Allowed(activity)
    for readings in readings_of(activity):
        readings.sort(key=lambda reading: reading.low)
        for first, second in pairwise(readings):
            inside = tried.before(second.low) - tried.upto(first.high)
            if first.high >= second.low or inside <= 0 or _apart(first, second):
                continue
            if not quiet.between(first.low, second.high):
                continue
            if first.what == SPENT and running.within(first.low, second.high):
                continue
            dry = activity.dry_runs[bisect_right(sent, first.high) : bisect_left(sent, second.low)]
            says = (
                f"{first.what}: {first.value} before and {second.value} after {inside} dry runs, "
                "with no other call that spends"
            )
            ids = (first.exchange.id, dry[0].id, second.exchange.id)
            if not activity.alone:
                tally.open("dry_run.free", "others may have used the account")
            else:
                evidence = activity.evidence(says, ids, second.low)
                free = second.value <= first.value
                tally.check(
                    "dry_run.free", free, evidence, case=None if free else _only(dry, allowed, first.by)
                )
                for report in allowed.between(first.high, second.low) if free else ():
                    if report.spend in first.by:
                        ids = (first.exchange.id, report.exchange.id, second.exchange.id)
                        tally.covers("dry_run.free", report.spend, ids)


def judge_queues(activity: AccountActivity, tally: Tally) -> None:
    """No job that a dry run returned exists, and no job appears that no call asked for.

    An id that only dry runs returned, and that a read then shows, is work that a dry run started. A job
    that was not in a complete list, and is in a later one, was started between by some call.
    """
    polled: dict[str, Observation] = {}
    for exchange in activity.polls:
        if exchange.ok and exchange.operation == "jobs.get" and "id" in plain(exchange):
            polled.setdefault(job_name(plain(exchange)), exchange)
        elif exchange.ok and exchange.operation == "jobs.list" and isinstance(exchange.data, tuple):
            for job in exchange.data:
                polled.setdefault(job, exchange)
    returned = {work.id for work in activity.works if work.id}
    tried = [
        exchange for exchange in activity.dry_runs if exchange.operation == "jobs.create" and exchange.ok
    ]
    for exchange in tried:
        job = job_name(plain(exchange)) if "id" in plain(exchange) else ""
        if job in polled and job not in returned:
            says = f"a dry run was answered with the job {job}, which exists"
            ids = (exchange.id, polled[job].id)
            case = str(body_of(exchange).get("kind"))
            if not activity.alone:  # it may show the job that another call has started
                tally.open("dry_run.queues", "others may have used the account")
            else:
                tally.broke("dry_run.queues", activity.evidence(says, ids, exchange.sent), case=case)
        else:
            tally.held("dry_run.queues", case=None)
    judge_appeared(activity, returned, tried, tally)


FILTERED = ("kind", "domain_id")
"""What a list of jobs may be filtered by, and a call for one says."""


def judge_appeared(
    activity: AccountActivity, returned: set[str], tried: Sequence[Observation], tally: Tally
) -> None:
    """Compare complete lists of jobs: what is new was returned by a call, or by one without answer.

    A kind is shown to start nothing by a dry run that said yes, of a job that the lists would show, and that
    no later call can have been answered with, as if it had been begun by that call.

    A list over GraphQL counts where it shows a job that was begun over REST: else its jobs may have other ids
    (U83).
    """
    if not activity.alone:
        return
    allowed = _Allowed(activity)
    could = {report.exchange.index for report in allowed.reports}
    lost = RunningSums((work.low, 1) for work in activity.works if not work.sure and not work.id)
    joinable = [work for work in activity.works if work.spend == RANK_RUN and work.id]
    lists: dict[tuple[str, str, str], list[Observation]] = defaultdict(list)
    for exchange in activity.polls:
        complete = (
            exchange.has_more is False and "cursor" not in exchange.query and isinstance(exchange.data, tuple)
        )
        if exchange.ok and exchange.operation == "jobs.list" and complete:
            filters = {name: value for name, value in exchange.query.items() if name != "limit"}
            if "status" not in filters:
                lists[exchange.key, exchange.surface, repr(sorted(filters.items()))].append(exchange)
    ids_over_rest = {work.id for work in activity.works if work.id and work.exchange.surface == "rest"}
    for (_, surface, _), polls in lists.items():
        for first, second in pairwise(polls):
            if surface == "graphql" and ids_over_rest.isdisjoint(second.data):
                continue
            dry = [
                exchange
                for exchange in tried
                if first.received < exchange.sent and exchange.received < second.sent
            ]
            if first.received >= second.sent or not dry or lost.upto(second.received):
                continue
            new = set(second.data) - set(first.data) - returned
            says = f"the job {min(new, default='')} appeared, which no call but a dry run can have started"
            ids = (first.id, dry[0].id, second.id)
            evidence = activity.evidence(says, ids, second.sent)
            tally.check("dry_run.queues", not new, evidence, case=None if not new else _only(dry, allowed))
            for exchange in (tried_call for tried_call in dry if tried_call.index in could and not new):
                listed = _shows(activity, first, body_of(exchange))
                if listed and not _joined_later(exchange, joinable, set(second.data) - set(first.data)):
                    kind = str(body_of(exchange).get("kind"))
                    tally.covers("dry_run.queues", kind, (first.id, exchange.id, second.id))


def _shows(activity: AccountActivity, listed: Observation, body: Mapping[str, object]) -> bool:
    """Return whether a whole list of jobs has those that such a body starts: by its filters and its key."""
    bound = activity.bound.get(listed.key, body.get("domain_id"))
    wanted = [listed.query.get(name, body.get(name)) == body.get(name) for name in FILTERED]
    return bound == body.get("domain_id") and all(wanted)


def _joined_later(dry: Observation, runs: Sequence[SpendWork], new: Collection[str]) -> bool:
    """Return whether a rank run that the dry run started may be a new one that later calls joined (S52)."""
    body = body_of(dry)
    return body.get("kind") == RANK_RUN and any(
        run.id in new and run.domain in ("", body.get("domain_id")) and run.high >= dry.sent for run in runs
    )


def judge_joined(activity: AccountActivity, options: Options, tally: Tally) -> None:
    """No call joins a run after a dry run that would have joined none, with nothing between that began it.

    That it joined one its status tells, where joins have a status that no run surely begun has (U40).
    """
    if not activity.alone:
        return
    quiet, (begun, joins) = NoActivity(activity), _statuses_of_runs(activity, options)
    dry: dict[str, list[tuple[Micros, Micros, DryRunReport]]] = defaultdict(list)
    for report in _Allowed(activity).reports:
        if report.spend == RANK_RUN:
            dry[report.domain].append((report.low, report.high, report))
    before = {domain: Bracket(spans) for domain, spans in dry.items()}
    for work in activity.works:
        if work.spend != RANK_RUN or not work.id or work.domain not in before:
            continue
        tried, first = before[work.domain].before(work.low), _answered_first(work)
        if tried is None or first is None or quiet.count(tried.low, work.high) != 1:
            continue
        ids = (tried.exchange.id, first.id)
        if first.status in joins - begun:
            says = f"{first.status} tells that {work.id} was joined, which only the dry run can have started"
            tally.broke("dry_run.queues", activity.evidence(says, ids, work.low), case=RANK_RUN)
        elif joins - begun and activity.fates[work.id].alive - work.high > work.high - tried.low:
            tally.covers("dry_run.queues", RANK_RUN, ids)  # as long a run of the dry run's would be joined


def _answered_first(work: SpendWork) -> Observation | None:
    """Return the call that was answered with a work before all others were sent; None if there is none."""
    first = min(work.calls, key=lambda exchange: exchange.received)
    others = [exchange for exchange in work.calls if exchange is not first]
    keys = {exchange.idempotency_key for exchange in others} - {None}
    alone = all(exchange.sent > first.received for exchange in others)
    return first if alone and _tells(first) and first.idempotency_key not in keys else None


def _tells(exchange: Observation) -> bool:
    """Return whether the status is that of this very call: not of a replay, nor what all of GraphQL has."""
    return exchange.surface == "rest" and not exchange.old


def _statuses_of_runs(activity: AccountActivity, options: Options) -> tuple[set[int], set[int]]:
    """Return the statuses of calls that surely began a rank run, and of others that got it: shown, or pinned.

    A run of a domain that no dry run was tried on was begun by the first call that was answered with it.
    """
    joined, accepted = options.status("job_joined"), options.status("job_accepted")
    if joined is not None and accepted is not None:
        return {accepted}, {joined}
    tried = {report.domain for report in activity.reports if report.spend == RANK_RUN}
    begun, joins = set(), set()
    for work in activity.works:
        first = _answered_first(work) if work.spend == RANK_RUN and work.id else None
        if first is not None:
            begun |= set() if work.domain in tried else {first.status}
            joins |= {
                exchange.status for exchange in work.calls if exchange is not first and not exchange.old
            }
    return begun, joins if begun else set()


# What it says


def judge_verdicts(activity: AccountActivity, options: Options, tally: Tally) -> None:
    """A dry run, and the same call for real with surely nothing between: the same refusal, or none in both.

    Time alone mends checks 3 to 6 and the join, and breaks 3 and 6 only as a job ends; so what else differs
    cannot be right in both.
    """
    quiet = NoActivity(activity)
    reported: dict[tuple[object, ...], list[tuple[Micros, Micros, DryRunReport]]] = defaultdict(list)
    for report in activity.reports:
        reported[subject_of(report.exchange)].append((report.low, report.high, report))
    dry = {subject: Bracket(reports) for subject, reports in reported.items()}
    live: list[RefusedSpend | SpendWork] = [
        *activity.refusals,
        *(work for work in activity.works if work.high < DISTANT_FUTURE),
    ]
    for outcome in live:
        reports = dry.get(subject_of(outcome.exchange))
        before = None if reports is None else reports.before(outcome.low)
        if before is None or before.check is None or not activity.alone:
            continue
        if not _nothing_between(quiet, before, outcome):
            continue
        check = outcome.check if isinstance(outcome, RefusedSpend) else 0
        says = f"{before.spend}: a dry run said {_answer(before.check)}, and the call itself {_answer(check)}"
        evidence = activity.evidence(says, (before.exchange.id, outcome.exchange.id), outcome.low)
        finishes = before.spend in JOBS and "finish" in options.candidates("cooldown_from")
        agrees = _agrees(before, check, finishes)
        if agrees is None:
            tally.open("dry_run.verdict", "time may have mended a check, or a job have ended")
        else:
            tally.check("dry_run.verdict", agrees, evidence, case=_answer(check) if check else before.spend)
            if not agrees and 0 < check < (before.check or 0):
                pair = order_of(check, before.check or 0)
                tally.broke("dry_run.order", evidence, case=pair)


def _nothing_between(quiet: NoActivity, report: DryRunReport, outcome: RefusedSpend | SpendWork) -> bool:
    """Return whether no other work or change can have happened from the dry run to the outcome."""
    if isinstance(outcome, RefusedSpend):
        return quiet.between(report.low, outcome.high)
    return quiet.count(report.low, outcome.high) == 1


def _agrees(report: DryRunReport, check: int, finishes: bool) -> bool | None:
    """Compare what was said with what came; None where time, or the end of a job, may make the difference."""
    reported = report.check or 0
    if reported == check:
        return True
    if report.joins:
        return None  # the run that would be joined may have ended
    if check in (1, 2):
        return False  # neither comes to fail by itself
    if reported in (1, 2):
        return False  # nor is mended by time
    if check == 6 and reported == 0 and not finishes:
        return False
    if check in (4, 5) and (reported == 0 or reported > check):
        return False
    return None


def _answer(check: int) -> str:
    names = {number: code for code, number in CHECKS.items() if code != "allowance_exhausted"}
    return names.get(check, "yes")


def judge_order(activity: AccountActivity, report: DryRunReport, options: Options, tally: Tally) -> None:
    """One report is of one instant: the refusal is that of the first check that its list shows to fail.

    Where a run would be joined, the later checks do not count (U89). A report without a list, or the error of
    the live call, is another form (U56); so is a list of only the checks that apply (U58), which still agrees
    with the refusal as far as it goes.
    """
    exchange = report.exchange
    about = activity.about
    if exchange.code in CHECKS:
        evidence = Evidence(
            f"a dry run answered {exchange.status} {exchange.code}",
            (exchange.id,),
            about=about,
            at=report.low,
        )
        if options.candidates("dry_run_reply") == ("report",):
            tally.broke("dry_run.order", evidence)
        else:
            tally.differs(56, "report", "live_error", evidence)
            tally.open("dry_run.order", "dry runs answer with the error of the live call (U56)")
        return
    wrong = ""
    if report.failing is not None and report.check is not None and 0 not in report.failing:
        complete = len(report.names) == len(CHECK_NAMES)
        wrong = (_wrong_list if complete else _wrong_part)(report, report.failing)
        if complete or wrong:
            says = f"dry run of {report.spend}: {wrong}"
            evidence = Evidence(says, (exchange.id,), about=about, at=report.low)
            pairs = _pairs(report, report.failing)
            refusing, first = report.check or 0, min(report.failing, default=0)
            pair = order_of(first, refusing) if 0 < first < refusing else ANY
            tally.check("dry_run.order", not wrong, evidence, case=pair if wrong else None)
            for pair in pairs if not wrong else ():
                tally.covers("dry_run.order", pair, (exchange.id,))
            if report.names != CHECK_NAMES and complete:
                order = f"it lists its checks as {', '.join(report.names)}"
                listed = Evidence(order, (exchange.id,), about=about, at=report.low)
                tally.differs(89, *_listed_otherwise(report.names), listed)
            return
    if exchange.surface == "graphql":
        tally.open("dry_run.order", "over GraphQL a dry run tells what was asked for")
        return
    form = Evidence("a dry run reports no list of six checks", (exchange.id,), about=about, at=report.low)
    tally.differs(89, "allowed, refusal and six checks", "another form", form)
    tally.open("dry_run.order", "the report has another form (U89)")


def _listed_otherwise(names: Sequence[str]) -> tuple[str, str]:
    """Return how a list of six checks was assumed to be, and how it is: by other names, or out of order."""
    places = [CHECK_NAMES.index(name) for name in names if name in CHECK_NAMES]
    unlike = [(name, listed) for name, listed in zip(CHECK_NAMES, names, strict=True) if name != listed]
    if places == sorted(places) and all(listed not in CHECK_NAMES for _, listed in unlike):
        return ", ".join(name for name, _ in unlike), ", ".join(listed for _, listed in unlike)
    return "six checks in their order", "another order"


def _pairs(report: DryRunReport, failing: Sequence[int]) -> list[str]:
    """Return the pairs of failing checks of which the first one refused, so that the other did not."""
    refusing = report.check
    if not refusing or refusing not in failing:
        return []
    return [order_of(refusing, check) for check in failing if check > refusing]


def _wrong_list(report: DryRunReport, failing: Sequence[int]) -> str:
    """Return what is wrong with a list of all six checks, or "": its order is its own (U89)."""
    first = min(failing, default=0)
    if first != report.check and not report.joins:
        return (
            f"it refuses with {_answer(report.check or 0)}, and the first check to fail is {_answer(first)}"
        )
    return ""


def _wrong_part(report: DryRunReport, failing: Sequence[int]) -> str:
    """Return what is wrong with a list of some checks, or "": what refuses may be one that is not listed."""
    refusing, first = report.check or 0, min(failing, default=0)
    if first and not 0 < refusing <= first and not report.joins:
        return f"it says {_answer(refusing)}, and {_answer(first)} fails"
    if refusing and refusing not in failing and CHECK_NAMES[refusing - 1] in report.names:
        return f"it refuses with {_answer(refusing)}, and lists that check as met"
    return ""
