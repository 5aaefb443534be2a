"""The order of the six checks: what refuses first, and what must refuse at all (S51-S61, S67, S97).

A refusal at check k says that the checks before it passed. So the judges look for a check before k that
certainly failed throughout the call: by what the deployment states of the account, or by a dry run beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, SPENDING_OPERATIONS
from ranksim.judge.conformance.history.fields import body_of
from ranksim.judge.conformance.history.observation import AFTER_RATE_LIMIT, Observation
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    JOBS,
    RANK_RUN,
    ROWS,
    AccountActivity,
    DryRunReport,
    RefusedSpend,
    SpendWork,
)
from ranksim.judge.conformance.spending.failed_checks import (
    ACTIVE,
    NEEDED,
    CheckFailure,
    CheckOutcome,
    FailedChecks,
    order_of,
    rule_of,
)
from ranksim.judge.conformance.spending.spend_parsing import spend_of
from ranksim.judge.conformance.spending.statements import Bracket, BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, SAME_BODY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally


def _operations(check: int) -> tuple[str, ...]:
    """Return the operations that the table names a check for."""
    return tuple(name for name, checks in ROWS.items() if check in checks)


HEALTH = 2
"""The check of all operations (S61)."""


def _order(check: int) -> Iterator[Breach]:
    """Yield how each later check could come before one."""
    for later in CHECK_NAMES[check:]:
        yield Breach(59, f"{later} refuses where {CHECK_NAMES[check - 1]} fails too", f"before {later}")


RULES = declare(
    Rule(
        rule_of(1),
        "What the plan does not include is refused first of all, as entitlement_required.",
        (51, 59, 60),
        (45, 47, 58, 60, 89),
        exercise="ladder: a key whose plan lacks a capability, best with other checks failing too",
        cases=(*_operations(1), *(f"before {name}" for name in CHECK_NAMES[1:])),
        ways=(
            Breach(
                4, "site_optimization over GraphQL is granted without its capability", "site_optimization"
            ),
            *_order(1),
            Breach(60, "what the plan lacks is granted", "site_optimization"),
            Breach(60, "AI scans are granted without the capability", "ai_scan"),
        ),
        needs=(Requirement.LESSER_PLAN, Requirement.SPENDING),
    ),
    Rule(
        rule_of(2),
        "A past-due account cannot spend: subscription_inactive, before ceiling, quota, slots and cooldown.",
        (51, 59, 61),
        (45, 57, 89),
        exercise="ladder: a key of a past-due account, best with other checks failing too",
        ways=(
            Breach(4, "rank_run over GraphQL is granted to an account past due", "rank_run"),
            Breach(61, "a past-due account is granted {}", "{}", SPENDING_OPERATIONS),
            *_order(HEALTH),
        ),
        needs=(Requirement.PAST_DUE, Requirement.SPENDING),
    ),
    Rule(
        rule_of(3),
        "At the cost ceiling new spending stops: cost_cap_reached, before quota, slots and cooldown.",
        (59, 62, 67),
        (45, 48, 58, 89, 90),
        exercise="ladder: a key of an account at its ceiling, best with a cooldown running",
        ways=(
            Breach(4, "rank_run over GraphQL is granted at the ceiling", "rank_run"),
            Breach(62, "{} is granted at the ceiling", "{}", _operations(3)),
            *_order(3),
        ),
        needs=(Requirement.CEILING, Requirement.SPENDING),
    ),
    Rule(
        rule_of(4),
        "A used up allowance is refused as quota_exhausted, before slots and cooldown.",
        (59, 63),
        (45, 89, 106),
        exercise="ladder: an allowance used up, best with a cooldown running on the same operation",
        ways=(Breach(63, "briefs are granted beyond the allowance", "keyword_briefs"), *_order(4)),
        needs=(Requirement.SPENDING, Requirement.NO_BRIEFS),
    ),
    Rule(
        rule_of(5),
        "What does not fit the slots is refused as slot_limit_exceeded, before the cooldown.",
        (59, 64),
        (89, 106),
        exercise="ladder: no slots left, best with a cooldown running on the same operation",
        ways=(
            Breach(64, "keywords are granted beyond the slots", "keywords"),
            Breach(64, "a scan is granted beyond the slots", "scans"),
            *_order(5),
        ),
        needs=(Requirement.SPENDING, Requirement.SLOTS, Requirement.FULL_SLOTS),
    ),
    Rule(
        "guards.healthy",
        "subscription_inactive comes only where the account is not in order.",
        (61,),
        (57,),
        exercise="ladder: spend on an active account",
        ways=(Breach(61, "an account in order is refused as inactive"),),
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        "guards.reads",
        "Reads go on when the account is past due or at its ceiling.",
        (36, 61, 67),
        exercise="ladder: read with a past-due account, or at the cost ceiling",
        ways=(
            Breach(36, "reading briefs is refused at the allowance's end"),
            Breach(61, "a past-due account cannot read", "past due"),
            Breach(67, "reads are refused at the ceiling", "at the ceiling"),
        ),
        needs=(Requirement.SPENDING_OR_PAST_DUE,),
    ),
    Rule(
        "guards.codes",
        "A refusal to spend carries the code of one of the six checks.",
        (51, 59, 97),
        (19, 20, 21, 22, 23, 53),
        exercise="ladder: make each check fail",
        ways=(
            Breach(97, "{} has another code", "{}", tuple(CHECK_OF)),
            Breach(51, "a refusal to spend has another code", "cost_cap_reached"),
        ),
        follows=(Cause("error.body", SAME_BODY),),
        needs=(Requirement.SPENDING,),
    ),
    looks_at=("status", "code", "meta"),
)


def judge(activity: AccountActivity, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge what one account was refused and granted."""
    failures = FailedChecks(activity, clock, options)
    for refused in activity.refusals:
        judge_outcome(failures, CheckOutcome.of_refusal(refused), tally)
        judge_status(activity, refused, options, tally)
        if refused.check == 2:
            judge_healthy(failures, refused, tally)
    for work in activity.works:
        judge_names(failures, work, options, tally)
        if work.sure or (work.spend in JOBS and work.high < DISTANT_FUTURE):
            judge_outcome(failures, CheckOutcome.of_work(work), tally)
    for report in activity.reports:
        judge_report(failures, report, tally)
    judge_codes(failures, options, tally)
    judge_reads(failures, tally)


CAPPED = ("crawl", "ai_scan")
"""Jobs that a plan caps (S53, S55)."""


PAY = 402

REFUSING = (PAY, 403)
"""Statuses of refusals that are none of a body, a lost key or traffic."""


def judge_codes(failures: FailedChecks, options: Options, tally: Tally) -> None:
    """A 402 to a call that spends, with a code that is of no refusal, is none of those there are (U17).

    Where a job beyond a cap is refused, no code is stated for that (U47). A 403 may have been given before
    all checks, for what a key may not reach. But where calls of the key for the same thing came to the checks
    before and after, it may reach that; so while a check certainly fails, the refusal is that check's.
    """
    activity, refuses = failures.activity, "refuse" in options.candidates("cap")
    reached: dict[tuple[str, str, str], list[tuple[Micros, Micros, Observation]]] = {}
    for exchange in activity.spend_calls:
        if exchange.ok or exchange.code in CHECKS:
            reached.setdefault(_wanted(exchange), []).append((exchange.sent, exchange.received, exchange))
    let_in = {wanted: Bracket(spans) for wanted, spans in reached.items()}
    for exchange in activity.spend_calls:
        if exchange.lost or exchange.ok:
            continue
        if exchange.code in CHECKS:
            code = exchange.code if exchange.code in CHECK_OF else "quota_exhausted"
            tally.held("guards.codes", case=code, by=(exchange.id,))
            continue
        if exchange.status not in REFUSING or exchange.code in AFTER_RATE_LIMIT or exchange.surface != "rest":
            continue
        if refuses and spend_of(exchange, body_of(exchange)) in CAPPED:
            if exchange.status == PAY:
                tally.open("guards.codes", "what is beyond a cap may be refused with a code of its own (U47)")
        elif exchange.status == PAY:
            says = f"refused with status 402 and code {exchange.code!r}, which is of none of the six checks"
            failure = next(failures.of(CheckOutcome.of_other(exchange)), None)
            case = ANY if failure is None else CODES[failure.check - 1]
            tally.broke("guards.codes", activity.evidence(says, (exchange.id,), exchange.sent), case=case)
        else:
            calls = let_in.get(_wanted(exchange))
            if calls is None or calls.before(exchange.sent) is None or calls.after(exchange.received) is None:
                continue
            failure = next(failures.of(CheckOutcome.of_other(exchange)), None)
            if failure is not None:
                says = f"refused with {exchange.status} and code {exchange.code!r}, although {failure.says}"
                evidence = activity.evidence(says, (*failure.ids, exchange.id), exchange.sent)
                tally.broke("guards.codes", evidence, case=CODES[failure.check - 1])


CODES = tuple(CHECK_OF)


def _wanted(exchange: Observation) -> tuple[str, str, str]:
    """Return whose call it is, for which operation, on what: what a key may reach does not hang on more."""
    body = body_of(exchange)
    named = {name: body.get(name) for name in ("domain_id", "list_id", "list_ids", "keyword_ids")}
    return exchange.key, exchange.operation, repr(named)


def judge_outcome(failures: FailedChecks, outcome: CheckOutcome, tally: Tally) -> None:
    """A check that certainly failed refuses, unless one before it did.

    The checks run in order and the first that fails ends them; a check that failed at every instant of the
    call failed at the instant of the decision. A running job may be joined before any check (U45).
    """
    decided, later = set[int](), dict[int, CheckFailure]()
    for failure in failures.of(outcome):
        if 0 < outcome.check < failure.check:
            later.setdefault(failure.check, failure)
        if failure.check in decided or 0 < outcome.check < failure.check:
            continue
        decided.add(failure.check)
        if outcome.check == failure.check:
            ids = (*failure.ids, outcome.exchange.id)
            tally.held(rule_of(failure.check), case=outcome.spend, by=ids)
            continue
        evidence = failures.activity.evidence(
            f"{outcome.spend} was {outcome.says}, although {failure.says}",
            tuple(dict.fromkeys((*failure.ids, outcome.exchange.id))),
            outcome.low,
        )
        _weigh(failures, outcome, failure, evidence, tally)
    if outcome.check in decided and (cools := failures.cooling(outcome)) is not None:
        later[cools.check] = cools
    for check, failure in later.items():
        if outcome.check in decided:  # it surely failed, and so did the later one
            ids = (outcome.exchange.id, *failure.ids)
            tally.covers(rule_of(outcome.check), f"before {CHECK_NAMES[check - 1]}", ids)


def judge_report(failures: FailedChecks, report: DryRunReport, tally: Tally) -> None:
    """A dry run names no check where an earlier one certainly failed, and does not say yes where one did.

    A run that would be joined passes checks 3 to 6 (U89), so of rank runs only what refuses is looked at.
    """
    if report.check is None or report.exchange.surface != "rest":
        return
    if report.joins or (report.spend == RANK_RUN and not report.check):
        return
    low, high, exchange = report.low, report.high, report.exchange
    outcome = CheckOutcome(report.check, report.spend, report.domain, low, high, exchange)
    failed = {failure.check: failure for failure in failures.of(outcome)}
    if (cools := failures.cooling(outcome)) is not None:
        failed[cools.check] = cools
    for check, failure in failed.items():
        code, answer = CODES[check - 1], CODES[report.check - 1] if report.check else "yes"
        says = f"a dry run of {report.spend} said {answer}, although {failure.says}"
        ids = tuple(dict.fromkeys((*failure.ids, exchange.id)))
        evidence = failures.activity.evidence(says, ids, low)
        if not report.check:
            tally.broke("dry_run.verdict", evidence, case=code)
        elif check < report.check:
            pair = order_of(check, report.check)
            tally.broke("dry_run.order", evidence, case=pair)
        elif check == report.check:
            tally.covers("dry_run.verdict", code, ids)
        elif report.check in failed:
            pair = order_of(report.check, check)
            tally.covers("dry_run.order", pair, ids)


def _weigh(
    failures: FailedChecks, outcome: CheckOutcome, failure: CheckFailure, evidence: Evidence, tally: Tally
) -> None:
    """Break the rule, unless a run was joined: that passes checks 3 to 6, and under one option all (U45)."""
    rule = rule_of(failure.check)
    if outcome.joined and (failure.check >= 3 or "before_checks" in failures.options.candidates("join")):
        tally.open(rule, "the run may have been joined")
    else:
        passed = CHECK_NAMES[outcome.check - 1] if outcome.check else ""
        tally.broke(rule, evidence, case=f"before {passed}" if passed else outcome.spend)


def judge_names(failures: FailedChecks, work: SpendWork, options: Options, tally: Tally) -> None:
    """What is granted without the capability that is assumed for it is known by another name (U60)."""
    if work.spend not in NEEDED or not work.sure or options.names_capabilities:
        return
    before, after = failures.entitled.before(work.low), failures.entitled.after(work.high)
    needed = NEEDED[work.spend]
    if before is None or after is None or before.capabilities is None or not failures.activity.alone:
        return
    if before.capabilities == after.capabilities and needed not in before.capabilities:
        says = f"{work.spend} was granted on a plan without {needed}"
        ids = (before.exchange.id, work.exchange.id)
        evidence = failures.activity.evidence(says, ids, work.low)
        tally.differs(60, f"{work.spend} needs {needed}", "something else, or nothing", evidence)


def judge_healthy(failures: FailedChecks, refused: RefusedSpend, tally: Tally) -> None:
    """subscription_inactive is a matter of the status alone: active on both sides, it was active within."""
    before, after = failures.health.before(refused.low), failures.health.after(refused.high)
    if before is None or after is None or before.status != after.status:
        return
    if before.status == ACTIVE:
        says = "refused as subscription_inactive, although the account reads active before and after"
        ids = (before.exchange.id, refused.exchange.id, after.exchange.id)
        tally.broke("guards.healthy", failures.activity.evidence(says, ids, refused.low))
    else:
        tally.held("guards.healthy")


def judge_status(activity: AccountActivity, refused: RefusedSpend, options: Options, tally: Tally) -> None:
    """A code has one status; one other than the default differs (U19-U23), or deviates where it is pinned."""
    exchange, numbers = refused.exchange, {1: 19, 2: 20, 3: 21, 5: 22, 6: 23}
    if exchange.surface != "rest" or refused.check not in numbers:
        return
    expected = options.default_status(exchange.code)
    if exchange.status == expected:
        return
    says = f"{exchange.code} with status {exchange.status}, assumed {expected}"
    evidence = activity.evidence(says, (exchange.id,), exchange.sent)
    if options.status(exchange.code) is None:
        tally.differs(numbers[refused.check], expected, exchange.status, evidence)
    else:
        tally.broke("guards.codes", evidence, case=exchange.code)


READ_AT = {2: "past due", 3: "at the ceiling"}
"""The case of a read, by the check that fails meanwhile."""


def judge_reads(failures: FailedChecks, tally: Tally) -> None:
    """No read is refused for the health of the account or its spending: reads pass no such check."""
    for exchange in failures.activity.refused_reads:
        free = (2, 3, 4) if exchange.operation == "keyword_briefs.list" else (2, 3)
        check = CHECKS[exchange.code]
        if check in free:
            says = f"a read was refused as {exchange.code}"
            evidence = failures.activity.evidence(says, (exchange.id,), exchange.sent)
            tally.broke("guards.reads", evidence, case=READ_AT.get(check, ANY))
    for sent, received in failures.activity.reads:
        failing = failures.unhealthy(sent, received) or failures.at_ceiling(sent, received)
        if failing:
            tally.held("guards.reads", case=READ_AT[failing.check], by=failing.ids)
