"""Provider spend and its monthly ceiling: what is stated and counted, and where it refuses (S62, S99)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros, iso
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.observation import leaves
from ranksim.judge.conformance.spending.account_columns import COST, month_spend
from ranksim.judge.conformance.spending.activity import (
    ADDS,
    DRY_RUN_QUEUED,
    JOBS,
    ROWS,
    AccountActivity,
    SpendCall,
    SpendWork,
)
from ranksim.judge.conformance.spending.audit import AccountAudit, judge_columns, judge_resets
from ranksim.judge.conformance.spending.left_alone import judge_additions
from ranksim.judge.conformance.spending.statements import (
    ROUNDING,
    Bracket,
    CostStatement,
    neighbours,
    parse_money,
    spent_of,
)
from ranksim.judge.conformance.verdict.rule import SAME_BODY, Breach, Cause, Requirement, Rule, declare

CEILING = 3
"""The check of the cost ceiling."""

AHEAD, AS_REFUSED = "within a month", "as refusals tell"
"""Cases of when the month's spend resets: what usage states by itself, and beside a refusal's date (S99)."""

RULES = declare(
    Rule(
        "cost.refused",
        "cost_cap_reached comes only where what was spent has reached the ceiling.",
        (62,),
        (48, 96),
        exercise="ladder: spend up to the ceiling, and on",
        cases=tuple(spend for spend, row in ROWS.items() if CEILING in row),
        ways=(Breach(62, "cost_cap_reached comes before the ceiling", "crawl"),),
        refuses=".*",
        needs=(Requirement.CEILING, Requirement.SPENDING, Requirement.ALONE),
    ),
    Rule(
        "cost.meta",
        "The meta of cost_cap_reached has the amount spent, the ceiling and the reset date, as in usage.",
        (99,),
        (26,),
        exercise="ladder: spend up to the ceiling, and read usage",
        ways=(Breach(99, "it tells another ceiling than usage"),),
        looks_at=("status", "meta"),
        follows=(Cause("error.body", SAME_BODY),),
        needs=(Requirement.CEILING, Requirement.SPENDING),
    ),
    Rule(
        "cost.sum",
        "What is spent is what is settled and what is reserved.",
        (62,),
        (96, 109),
        exercise="everyday: read usage that states spent, settled and reserved cost, while jobs run",
        ways=(Breach(62, "spent is not what is settled and reserved"),),
    ),
    Rule(
        "cost.counted",
        "Within a month settled cost only grows, and reserved cost grows only as work is accepted.",
        (52, 62, 66),
        (49,),
        exercise="everyday: read usage that states settled cost and when it resets, around jobs",
        ways=(
            Breach(62, "settled cost falls within a month"),
            Breach(52, "a joined rank run is paid again"),
        ),
        follows=(DRY_RUN_QUEUED,),
    ),
    Rule(
        "cost.reset",
        "The month's spend resets at the stated time, which lies ahead and within a month.",
        (62, 99),
        (51,),
        exercise="everyday: read usage that states when the month's spend resets; "
        "ladder: spend up to the ceiling",
        cases=(AHEAD, AS_REFUSED),
        ways=(Breach(62, "the month's spend resets at another time", "as refusals tell"),),
        by_reading=True,
    ),
    Rule(
        "cost.tracking",
        "Adding keywords or scans spends nothing: they commit future scans alone.",
        (57, 58),
        (49,),
        exercise="everyday: read usage around additions of keywords and scans",
        ways=(
            Breach(57, "keywords are paid when they are added", "keywords"),
            Breach(58, "a scan is paid when it is created", "scans"),
        ),
        follows=(DRY_RUN_QUEUED,),
        needs=(Requirement.SPENDING,),
    ),
    looks_at=("meta", "data.cost"),
    needs=(Requirement.USAGE, Requirement.COST_RESET),
)

_DIGIT = re.compile(r"[0-9]")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE = re.compile(r"[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])")


def judge(audit: AccountAudit) -> None:
    """Judge the provider spend of one account."""
    ordered = sorted(audit.activity.cost, key=lambda cost: cost.low)
    for cost in audit.activity.cost:
        judge_sum(audit, cost)
    falls = judge_counted(audit, ordered)
    if audit.activity.alone:
        judge_additions(audit)
        judge_timing(audit, ordered)
        judge_released(audit, ordered)
        if not falls:
            judge_columns(audit, "cost.counted", COST, month_spend(audit, ordered), "the month's spend")
    judge_resets(audit, "cost.reset", AHEAD, ordered)
    usage = Bracket(cost for cost in ordered if cost.exchange.operation == "account.usage")
    for refused in audit.activity.refusals:
        if refused.check == CEILING:
            judge_refused(audit, refused)
            judge_meta(audit, refused, usage)
            judge_date(audit, refused, usage)


def _usd(amount: int) -> str:
    """Write µUSD for evidence."""
    return f"{amount / 1_000_000:.6f}".rstrip("0").rstrip(".") + " USD"


def judge_refused(audit: AccountAudit, refused: SpendCall) -> None:
    """A refusal states what was spent at its decision: that has reached the ceiling it states.

    Where a request that would pass the ceiling is refused too (U48), less may have been spent, by as much as
    the request itself would cost; that is not known, so only the default can be excluded, and what costs
    nothing at once leaves no such excuse (S57, S58).
    """
    spent, ceiling = spent_of(refused.exchange.meta), parse_money(refused.exchange.meta.get("ceiling"))
    if spent is None or ceiling is None:
        audit.tally.open("cost.refused", "the refusal states no spent and ceiling")
        return
    says, ids = f"refused with {_usd(spent)} of {_usd(ceiling)} spent", (refused.exchange.id,)
    expected = f"cost_cap_reached from {_usd(ceiling)} on"
    sure = spent >= ceiling or refused.spend in ADDS
    if sure or audit.options.must_be("cost_gate", "at_ceiling"):
        audit.check("cost.refused", spent >= ceiling, says, ids, refused.low, expected, case=refused.spend)
    else:
        audit.differs(48, "at_ceiling", "would_exceed", says, ids, refused.low, expected)
        audit.tally.open("cost.refused", "the request may have passed the ceiling by its own cost (U48)")


def judge_meta(audit: AccountAudit, refused: SpendCall, usage: Bracket[CostStatement]) -> None:
    """Each refusal has two amounts and a date; where names and form are usual, they agree with usage."""
    exchange, meta = refused.exchange, refused.exchange.meta
    around, by = usage.around(refused), list[str]()
    if not _tells_all(meta):
        wrong = "expected the amount spent, the ceiling and the reset date"
    elif wrong := "" if around is None else _unlike_usage(meta, *around):
        by = [around[0].exchange.id] if around is not None else []
    audit.check("cost.meta", not wrong, f"meta {dict(meta)}: {wrong}", (*by, exchange.id), exchange.sent)


def _unlike_usage(meta: Mapping[str, Any], before: CostStatement, after: CostStatement) -> str:
    """Say where a refusal differs from usage, or "".

    The ceiling belongs to the plan and the reset to the month, so replies before and after that agree with
    each other leave no other value between.
    """
    ceiling, ends = parse_money(meta.get("ceiling")), instant_or_none(meta.get("resets_at"))
    if None is not ceiling != before.ceiling == after.ceiling is not None:
        return f"usage has a ceiling of {_usd(before.ceiling or 0)}"
    if ends is not None and before.ends == after.ends and abs(ends - (after.ends or ends)) > ROUNDING:
        return f"usage resets at {iso(before.ends or 0)}"
    return ""


def judge_date(audit: AccountAudit, refused: SpendCall, usage: Bracket[CostStatement]) -> None:
    """A refusal tells the date on which the month's spend resets, and usage the instant of the same.

    Usage before and after it that agrees leaves no other value between. A date may be written in any zone,
    and be the last day of the month that ends or the first of the next. One that is past is another's.
    """
    around, clock = usage.around(refused), audit.clock
    dates = [date for date in _dates(refused.exchange.meta) if clock.passed(refused.high, date) is False]
    ends = None if around is None or around[0].ends != around[1].ends else around[0].ends
    if around is None or not dates or ends is None:
        return
    days = " and ".join(iso(date)[:10] for date in dates)
    says = f"usage has the month's spend reset at {iso(ends)}, and the refusal on {days}"
    near = any(abs(date - ends) <= DAYS_APART for date in dates)
    ids = (around[0].exchange.id, refused.exchange.id)
    audit.check("cost.reset", near, says, ids, refused.low, case=AS_REFUSED)


def _dates(meta: Mapping[str, Any]) -> list[Micros]:
    """Return the days that a meta tells, each as its 00:00 UTC, however they are called (U26)."""
    days = [match[0] for value in leaves(dict(meta)) if (match := _DAY.match(str(value)))]
    return [day for day_text in days if (day := instant_or_none(f"{day_text}T00:00:00Z")) is not None]


def _tells_all(meta: Mapping[str, Any]) -> bool:
    """Return whether three values have digits, one a date and two none: names, units, nesting vary (U26)."""
    written = [str(value) for value in leaves(dict(meta)) if not isinstance(value, bool)]
    counted = [value for value in written if _DIGIT.search(value)]
    dates = sum(_DATE.match(value) is not None for value in counted)
    days = sum(_DAY.match(value) is not None for value in counted)  # an amount may look like 20260401
    return dates >= 1 and len(counted) >= max(3, days + 2)


def judge_sum(audit: AccountAudit, cost: CostStatement) -> None:
    """One reply is one snapshot: its amounts agree. What is settled may alone count as spent (U96)."""
    if cost.spent is None or cost.settled is None or cost.reserved is None:
        return
    says = f"settled {_usd(cost.settled)}, reserved {_usd(cost.reserved)}, spent {_usd(cost.spent)}"
    expected, ids = f"spent {_usd(cost.settled + cost.reserved)}", (cost.exchange.id,)
    sums = {"settled_and_reserved": cost.settled + cost.reserved, "settled": cost.settled}
    fits = [counts for counts, amount in sums.items() if abs(amount - cost.spent) <= cost.apart]
    holds = len(fits) == len(sums) or any(audit.options.may_be("spent_counts", counts) for counts in fits)
    audit.check("cost.sum", holds, says, ids, cost.low, expected)
    assumed = audit.options.policy.assumptions.spent_counts
    if holds and assumed not in fits:
        audit.differs(96, assumed, fits[0], says, ids, cost.low, expected)


def judge_counted(audit: AccountAudit, ordered: Sequence[CostStatement]) -> bool:
    """Settled cost never falls within a month; reserved cost rises only where work may have been accepted.

    Settling and releasing only lower what is reserved, and only acceptance raises it. Two readings of one
    reset lie in one month. Returns whether any was wrong.
    """
    activity, broken = audit.activity, False
    returnable = min((work.low for work in refundable(activity)), default=DISTANT_FUTURE)
    for first, second in neighbours([c for c in ordered if c.settled is not None and c.ends is not None]):
        wrong = ""
        if (second.settled or 0) < (first.settled or 0):
            if returnable <= second.high:
                audit.tally.open("cost.counted", "what a failed job had cost may have been given back (U49)")
                continue
            wrong = f"settled cost fell from {_usd(first.settled or 0)} to {_usd(second.settled or 0)}"
        elif (
            _rose(first, second) and activity.alone and not activity.changed.possibly(first.low, second.high)
        ):
            rise = f"{_usd(first.reserved or 0)} to {_usd(second.reserved or 0)}"
            wrong = f"reserved cost rose from {rise}, and no work was accepted"
        broken = broken or bool(wrong)
        audit.check("cost.counted", not wrong, wrong, (first.exchange.id, second.exchange.id), second.low)
    return broken


def judge_timing(audit: AccountAudit, ordered: Sequence[CostStatement]) -> None:
    """Where nothing is ever reserved, one job alone shows when its cost is booked (U49).

    A reading before it, one while it ran, and one after its end: all of its cost lies in one of the gaps.
    """
    if any(cost.reserved for cost in ordered):
        return
    activity = audit.activity
    readings = Bracket(c for c in ordered if c.settled is not None and c.reserved is not None)
    jobs = [work for work in activity.works if work.spend in JOBS and work.id in activity.fates]
    for work in jobs:
        fate = activity.fates[work.id]
        before, after = readings.before(work.low), readings.after(fate.over)
        during = readings.after(work.high)
        if before is None or during is None or after is None or not before.ends == during.ends == after.ends:
            continue
        if activity.changed.possibly(before.low, after.high) != 1 or during.high >= fate.alive:
            continue
        earlier = (job for job in jobs if job is not work and job.low < work.low)
        if any(activity.fates[job.id].over >= before.low for job in earlier):
            continue
        timing = _booked(before, during, after)
        if timing:
            says = f"nothing was reserved while {work.id} ran, and its cost was booked as it {BOOKED[timing]}"
            ids = (before.exchange.id, during.exchange.id, after.exchange.id)
            audit.differs(49, "reserve", timing, says, ids, during.low)
            return


def judge_released(audit: AccountAudit, ordered: Sequence[CostStatement]) -> None:
    """What a job had reserved is released as it fails (U49), as readings before it and after its end show.

    All that was accepted between them reserves nothing or was over, so what is reserved can only be less.
    """
    activity = audit.activity
    works = [work for work in activity.works if work.spend not in ADDS]
    for work, before, after in islice(_around_failures(activity, works, ordered), MOST_TRIED):
        between = (other for other in works if other.high >= before.low and other.low <= after.high)
        if all(_over(activity, accepted, after.low) for accepted in between):
            more = _usd((after.reserved or 0) - (before.reserved or 0))
            says = f"{work.id} had failed, and {more} more were reserved than before it was asked for"
            ids = (before.exchange.id, work.exchange.id, after.exchange.id)
            audit.differs(49, "a failure is released", "it stays reserved", says, ids, after.low)
            return


def _over(activity: AccountActivity, work: SpendWork, by: Micros) -> bool:
    return work.id in activity.fates and activity.fates[work.id].over < by


LOOKS, MOST_TRIED = 20, 200
"""Readings after a failure that are held against the last before its job; and how often all that lies between
two is looked through."""


def _around_failures(
    activity: AccountActivity, works: Sequence[SpendWork], ordered: Sequence[CostStatement]
) -> Iterator[tuple[SpendWork, CostStatement, CostStatement]]:
    """Yield the jobs that failed, with readings before and after of one month, more reserved by the later."""
    readings = [cost for cost in ordered if cost.reserved is not None]
    bracket = Bracket(readings)
    for work in works:
        before = bracket.before(work.low)
        if before is None or work.spend not in JOBS or work.id not in activity.fates:
            continue
        start = bisect_right(readings, activity.fates[work.id].failed, key=lambda cost: cost.low)
        for after in readings[start : start + LOOKS]:
            more = (after.reserved or 0) - (before.reserved or 0)
            if more > before.blur + after.blur and before.ends == after.ends:
                yield work, before, after


BOOKED = {"acceptance": "began", "completion": "ended"}


def _booked(before: CostStatement, during: CostStatement, after: CostStatement) -> str:
    """Return when a job's cost was booked, by a reading while it ran and those around it; "" if unseen."""
    settled = [reading.settled or 0 for reading in (before, during, after)]
    blur = before.blur + during.blur + after.blur
    if settled[1] - settled[0] > blur:
        return "acceptance"
    return "completion" if settled[2] - settled[1] > blur else ""


DAYS_APART = 2 * DAY
"""How far a day's 00:00 UTC may be from an instant on it, or on the one before, in any zone."""


def refundable(activity: AccountActivity) -> list[SpendWork]:
    """Return the jobs whose settled cost may be given back as they fail: where none was reserved (U49)."""
    if any(cost.reserved for cost in activity.cost):
        return []
    jobs = [work for work in activity.works if work.spend in JOBS or not work.spend]
    return [
        work
        for work in jobs
        if work.id not in activity.fates or activity.fates[work.id].done == DISTANT_FUTURE
    ]


def _rose(first: CostStatement, second: CostStatement) -> bool:
    return first.reserved is not None and second.reserved is not None and second.reserved > first.reserved
