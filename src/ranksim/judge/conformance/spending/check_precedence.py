"""The order of the six checks: what refuses first, and what must refuse at all (S51-S61, S67, S97).

A refusal at check k says that the checks before it passed. So the judges look for a check before k that
certainly failed throughout the call: by what the deployment states of the account, or by a dry run beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, SPENDING_OPERATIONS
from ranksim.judge.conformance.history.fields import sent_body
from ranksim.judge.conformance.history.observation import AFTER_RATE_LIMIT, Observation
from ranksim.judge.conformance.spending.activity import (
    CHECKS,
    JOBS,
    NOT_STATED,
    RANK_RUN,
    ROWS,
    DryRunReport,
    RefusedSpend,
    SpendCall,
    SpendWork,
    asked_of,
)
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.failed_checks import (
    ACTIVE,
    NEEDED,
    NO_CHECK,
    CheckFailure,
    FailedChecks,
    order_of,
    rule_of,
)
from ranksim.judge.conformance.verdict.rule import ANY, SAME_BODY, Breach, Cause, Requirement, Rule, declare


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
        refuses=".*",
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
        refuses=".*",
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


def judge(audit: AccountAudit) -> None:
    """Judge what one account was refused and granted."""
    activity, failures = audit.activity, FailedChecks(audit)
    for refused in activity.refusals:
        judge_outcome(audit, failures, refused)
        judge_status(audit, refused)
        if refused.check == HEALTH:
            judge_healthy(audit, failures, refused)
    for work in activity.works:
        judge_names(audit, failures, work)
        if work.sure or (work.spend in JOBS and work.high < DISTANT_FUTURE):
            judge_outcome(audit, failures, work)
    for report in activity.reports:
        judge_report(audit, failures, report)
    judge_codes(audit, failures)
    judge_reads(audit, failures)


CAPPED = ("crawl", "ai_scan")
"""Jobs that a plan caps (S53, S55)."""


PAY = 402

REFUSING = (PAY, 403)
"""Statuses of refusals that are none of a body, a lost key or traffic."""


def judge_codes(audit: AccountAudit, failures: FailedChecks) -> None:
    """A refusal to spend has the code of one of the six checks."""
    reached: dict[tuple[str, str, str], tuple[Micros, Micros]] = {}  # first answer, last sending
    for exchange in audit.activity.spend_calls:
        if exchange.ok or exchange.code in CHECKS:
            first, last = reached.get(_wanted(exchange), (DISTANT_FUTURE, DISTANT_PAST))
            reached[_wanted(exchange)] = min(first, exchange.received), max(last, exchange.sent)
    for exchange in audit.activity.spend_calls:
        if exchange.code in CHECKS and not exchange.lost and not exchange.ok:
            code = exchange.code if exchange.code in CHECK_OF else "quota_exhausted"
            audit.tally.held("guards.codes", case=code, by=(exchange.id,))
        elif exchange.status in REFUSING and exchange.surface == "rest" and not exchange.lost:
            _judge_code(audit, failures, exchange, reached.get(_wanted(exchange)))


def _judge_code(
    audit: AccountAudit, failures: FailedChecks, exchange: Observation, reached: tuple[Micros, Micros] | None
) -> None:
    """A 402 to a call that spends, with a code that is of no refusal, is none of those there are (U17).

    Where a job beyond a cap is refused, no code is stated for that (U47). A 403 may have been given before
    all checks, for what a key may not reach. But where calls of the key for the same thing came to the checks
    before and after, it may reach that; so while a check certainly fails, the refusal is that check's.
    """
    call = RefusedSpend(exchange.sent, exchange.received, *asked_of(exchange), exchange, NO_CHECK)
    pays = exchange.status == PAY
    if exchange.code in AFTER_RATE_LIMIT:
        return
    if call.spend in CAPPED and audit.options.may_be("cap", "refuse"):
        if pays:
            says = "what is beyond a cap may be refused with a code of its own (U47)"
            audit.tally.open("guards.codes", says)
        return
    if not pays and (reached is None or reached[0] >= exchange.sent or reached[1] <= exchange.received):
        return
    failure = next(failures.of(call), None)
    case = ANY if failure is None else CODES[failure.check - 1]
    if pays:
        says = f"refused with status 402 and code {exchange.code!r}, which is of none of the six checks"
        audit.broke("guards.codes", says, (exchange.id,), exchange.sent, case=case)
    elif failure is not None:
        says = f"refused with {exchange.status} and code {exchange.code!r}, although {failure.says}"
        audit.broke("guards.codes", says, (*failure.ids, exchange.id), exchange.sent, case=case)


CODES = tuple(CHECK_OF)


def _wanted(exchange: Observation) -> tuple[str, str, str]:
    """Return whose call it is, for which operation, on what: what a key may reach does not hang on more."""
    body = sent_body(exchange)
    named = {name: body.get(name) for name in ("domain_id", "list_id", "list_ids", "keyword_ids")}
    return exchange.key, exchange.operation, repr(named)


def judge_outcome(audit: AccountAudit, failures: FailedChecks, call: SpendCall) -> None:
    """A check that certainly failed refuses, unless one before it did.

    The checks run in order and the first that fails ends them; a check that failed at every instant of the
    call failed at the instant of the decision.
    """
    decided, later = set[int](), dict[int, CheckFailure]()
    for failure in failures.of(call):
        if 0 < call.check < failure.check:
            later.setdefault(failure.check, failure)
        elif failure.check not in decided:
            decided.add(failure.check)
            if call.check == failure.check:
                ids = (*failure.ids, call.exchange.id)
                audit.tally.held(rule_of(failure.check), case=call.spend, by=ids)
            else:
                _judge_passed(audit, call, failure)
    if call.check not in decided:
        return
    if (cools := failures.cooling(call)) is not None:
        later[cools.check] = cools
    for check, failure in later.items():  # the refusing check surely failed, and so did the later one
        ids = (call.exchange.id, *failure.ids)
        audit.tally.covers(rule_of(call.check), f"before {CHECK_NAMES[check - 1]}", ids)


def _judge_passed(audit: AccountAudit, call: SpendCall, failure: CheckFailure) -> None:
    """Break the rule of a check that was passed, unless a run was joined.

    That passes checks 3 to 6, and under one option all (U45).
    """
    rule = rule_of(failure.check)
    if not call.sure and (failure.check >= 3 or audit.options.may_be("join", "before_checks")):
        audit.tally.open(rule, "the run may have been joined")
        return
    outcome = call.exchange.code if call.check else "granted" if call.sure else "granted or joined"
    says = f"{call.spend} was {outcome}, although {failure.says}"
    ids = tuple(dict.fromkeys((*failure.ids, call.exchange.id)))
    case = f"before {CHECK_NAMES[call.check - 1]}" if call.check else call.spend
    audit.broke(rule, says, ids, call.low, case=case)


def judge_report(audit: AccountAudit, failures: FailedChecks, report: DryRunReport) -> None:
    """A dry run names no check where an earlier one certainly failed, and does not say yes where one did.

    A run that would be joined passes checks 3 to 6 (U89), so of rank runs only what refuses is looked at.
    """
    if report.check == NOT_STATED or report.exchange.surface != "rest" or report.joins:
        return
    if report.spend == RANK_RUN and not report.check:
        return
    failed = {failure.check: failure for failure in failures.of(report)}
    if (cools := failures.cooling(report)) is not None:
        failed[cools.check] = cools
    for check, failure in failed.items():
        code, answer = CODES[check - 1], CODES[report.check - 1] if report.check else "yes"
        says = f"a dry run of {report.spend} said {answer}, although {failure.says}"
        ids = tuple(dict.fromkeys((*failure.ids, report.exchange.id)))
        if not report.check:
            audit.broke("dry_run.verdict", says, ids, report.low, case=code)
        elif check < report.check:
            audit.broke("dry_run.order", says, ids, report.low, case=order_of(check, report.check))
        elif check == report.check:
            audit.tally.covers("dry_run.verdict", code, ids)
        elif report.check in failed:
            audit.tally.covers("dry_run.order", order_of(report.check, check), ids)


def judge_names(audit: AccountAudit, failures: FailedChecks, work: SpendWork) -> None:
    """What is granted without the capability that is assumed for it is known by another name (U60)."""
    if work.spend not in NEEDED or not work.sure or audit.options.names_capabilities:
        return
    plan, needed = failures.plan_of(work), NEEDED[work.spend]
    if plan is None or plan.capabilities is None or not audit.activity.alone:
        return
    if needed not in plan.capabilities:
        says = f"{work.spend} was granted on a plan without {needed}"
        ids, assumed = (plan.exchange.id, work.exchange.id), f"{work.spend} needs {needed}"
        audit.differs(60, assumed, "something else, or nothing", says, ids, work.low)


def judge_healthy(audit: AccountAudit, failures: FailedChecks, refused: SpendCall) -> None:
    """subscription_inactive is a matter of the status alone: active on both sides, it was active within."""
    around = failures.health.around(refused)
    if around is None or around[0].status != around[1].status:
        return
    says = "refused as subscription_inactive, although the account reads active before and after"
    if around[0].status == ACTIVE:
        ids = (around[0].exchange.id, refused.exchange.id, around[1].exchange.id)
        audit.broke("guards.healthy", says, ids, refused.low)
    else:
        audit.tally.held("guards.healthy")


STATUS_OF = {1: 19, 2: 20, 3: 21, 5: 22, 6: 23}
"""The assumption of the status of a check's refusal."""


def judge_status(audit: AccountAudit, refused: SpendCall) -> None:
    """A code has one status; one other than the default differs (U19-U23), or deviates where it is pinned."""
    exchange, options = refused.exchange, audit.options
    if exchange.surface != "rest" or refused.check not in STATUS_OF:
        return
    expected = options.default_status(exchange.code)
    if exchange.status == expected:
        return
    says, ids = f"{exchange.code} with status {exchange.status}, assumed {expected}", (exchange.id,)
    if options.status(exchange.code) is None:
        audit.differs(STATUS_OF[refused.check], expected, exchange.status, says, ids, exchange.sent)
    else:
        audit.broke("guards.codes", says, ids, exchange.sent, case=exchange.code)


READ_AT = {2: "past due", 3: "at the ceiling"}
"""The case of a read, by the check that fails meanwhile."""


def judge_reads(audit: AccountAudit, failures: FailedChecks) -> None:
    """No read is refused for the health of the account or its spending: reads pass no such check."""
    for exchange in audit.activity.refused_reads:
        free = (2, 3, 4) if exchange.operation == "keyword_briefs.list" else (2, 3)
        check, says = CHECKS[exchange.code], f"a read was refused as {exchange.code}"
        if check in free:
            audit.broke("guards.reads", says, (exchange.id,), exchange.sent, case=READ_AT.get(check, ANY))
    for read in audit.activity.reads:
        failing = failures.unhealthy(read) or failures.at_ceiling(read)
        if failing:
            audit.tally.held("guards.reads", case=READ_AT[failing.check], by=failing.ids)
    for read in audit.activity.brief_reads:
        used_up = failures.used_up("keyword_briefs", read)
        if used_up:
            audit.tally.held("guards.reads", by=used_up.ids)
