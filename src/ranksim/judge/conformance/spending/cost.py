"""Provider spend and its monthly ceiling: what is stated and counted, and where it refuses (S62, S99)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros, iso
from ranksim.judge.conformance.history.fields import moment
from ranksim.judge.conformance.history.observation import leaves
from ranksim.judge.conformance.spending.activity import (
    ADDS,
    DRY_RUN_QUEUED,
    JOBS,
    ROWS,
    AccountActivity,
    JobsUnderWay,
    NoActivity,
    RefusedSpend,
    SpendWork,
)
from ranksim.judge.conformance.spending.counter_bounds import RunningSums
from ranksim.judge.conformance.spending.statements import (
    LONGEST_MONTH,
    ROUNDING,
    Bracket,
    BusinessClock,
    CostStatement,
    money,
    spent_of,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import SAME_BODY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

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
        (62, 66),
        (49,),
        exercise="everyday: read usage that states settled cost and when it resets, around jobs",
        ways=(Breach(62, "settled cost falls within a month"),),
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


def judge(activity: AccountActivity, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge the provider spend of one account."""
    for cost in activity.cost:
        judge_sum(activity, cost, options, tally)
    ordered = sorted(activity.cost, key=lambda cost: cost.low)
    judge_counted(activity, ordered, tally)
    judge_tracking(activity, ordered, tally)
    judge_timing(activity, ordered, tally)
    judge_reset(activity, ordered, clock, tally)
    usage = Bracket([(c.low, c.high, c) for c in ordered if c.exchange.operation == "account.usage"])
    for refused in activity.refusals:
        if refused.check == 3:
            judge_refused(activity, refused, options, tally)
            judge_meta(activity, refused, usage, tally)
            judge_date(activity, refused, usage, clock, tally)


def usd(amount: int) -> str:
    """Write µUSD for evidence."""
    return f"{amount / 1_000_000:.6f}".rstrip("0").rstrip(".") + " USD"


def judge_refused(activity: AccountActivity, refused: RefusedSpend, options: Options, tally: Tally) -> None:
    """A refusal states what was spent at its decision: that has reached the ceiling it states.

    Where a request that would pass the ceiling is refused too (U48), less may have been spent, by as much as
    the request itself would cost; that is not known, so only the default can be excluded, and what costs
    nothing at once leaves no such excuse (S57, S58).
    """
    spent, ceiling = spent_of(refused.exchange.meta), money(refused.exchange.meta.get("ceiling"))
    if spent is None or ceiling is None:
        tally.open("cost.refused", "the refusal states no spent and ceiling")
        return
    if spent >= ceiling:
        tally.held("cost.refused", case=refused.spend, by=(refused.exchange.id,))
        return
    says = f"refused with {usd(spent)} of {usd(ceiling)} spent"
    expected = f"cost_cap_reached from {usd(ceiling)} on"
    evidence = activity.evidence(says, (refused.exchange.id,), refused.low, expected)
    if options.candidates("cost_gate") == ("at_ceiling",) or refused.spend in ("keywords", "scans"):
        tally.broke("cost.refused", evidence, case=refused.spend)
    else:
        tally.differs(48, "at_ceiling", "would_exceed", evidence)
        tally.open("cost.refused", "the request may have passed the ceiling by its own cost (U48)")


def judge_meta(
    activity: AccountActivity, refused: RefusedSpend, usage: Bracket[CostStatement], tally: Tally
) -> None:
    """Each refusal has two amounts and a date; where their names and form are usual, they agree with usage.

    The ceiling belongs to the plan and the reset to the month, so replies before and after that agree with
    each other leave no other value between.
    """
    exchange, meta = refused.exchange, refused.exchange.meta
    wrong = ""
    if not _tells_all(meta):
        wrong = "expected the amount spent, the ceiling and the reset date"
    ceiling, ends = money(meta.get("ceiling")), moment(meta.get("resets_at"))
    before, after = usage.before(refused.low), usage.after(refused.high)
    ids: tuple[str, ...] = (exchange.id,)
    if not wrong and before is not None and after is not None:
        if None is not ceiling != before.ceiling == after.ceiling is not None:
            wrong, ids = (
                f"usage has a ceiling of {usd(before.ceiling or 0)}",
                (before.exchange.id, exchange.id),
            )
        elif ends is not None and before.ends == after.ends and abs(ends - (after.ends or ends)) > ROUNDING:
            wrong, ids = f"usage resets at {iso(before.ends or 0)}", (before.exchange.id, exchange.id)
    evidence = activity.evidence(f"meta {dict(meta)}: {wrong}", ids, exchange.sent)
    tally.check("cost.meta", not wrong, evidence)


def judge_date(
    activity: AccountActivity,
    refused: RefusedSpend,
    usage: Bracket[CostStatement],
    clock: BusinessClock,
    tally: Tally,
) -> None:
    """A refusal tells the date on which the month's spend resets, and usage the instant of the same.

    Usage before and after it that agrees leaves no other value between. A date may be written in any zone,
    and be the last day of the month that ends or the first of the next. One that is past is another's.
    """
    before, after = usage.before(refused.low), usage.after(refused.high)
    dates = [date for date in _dates(refused.exchange.meta) if clock.passed(refused.high, date) is False]
    if not dates or before is None or after is None or before.ends is None or before.ends != after.ends:
        return
    days, ends = " and ".join(iso(date)[:10] for date in dates), before.ends
    says = f"usage has the month's spend reset at {iso(ends)}, and the refusal on {days}"
    ids = (before.exchange.id, refused.exchange.id)
    near = any(abs(date - ends) <= DAYS_APART for date in dates)
    tally.check("cost.reset", near, activity.evidence(says, ids, refused.low), case=AS_REFUSED)


def _dates(meta: Mapping[str, Any]) -> list[Micros]:
    """Return the days that a meta tells, each as its 00:00 UTC, however they are called (U26)."""
    days = [match[0] for value in leaves(dict(meta)) if (match := _DAY.match(str(value)))]
    return [day for day_text in days if (day := moment(f"{day_text}T00:00:00Z")) is not None]


def _tells_all(meta: Mapping[str, Any]) -> bool:
    """Return whether three values have digits, one a date and two none: names, units, nesting vary (U26)."""
    written = [str(value) for value in leaves(dict(meta)) if not isinstance(value, bool)]
    counted = [value for value in written if _DIGIT.search(value)]
    dates = sum(_DATE.match(value) is not None for value in counted)
    days = sum(_DAY.match(value) is not None for value in counted)  # an amount may look like 20260401
    return dates >= 1 and len(counted) >= max(3, days + 2)


def judge_sum(activity: AccountActivity, cost: CostStatement, options: Options, tally: Tally) -> None:
    """One reply is one snapshot: its amounts agree. What is settled may alone count as spent (U96)."""
    if cost.spent is None or cost.settled is None or cost.reserved is None:
        return
    says = f"settled {usd(cost.settled)}, reserved {usd(cost.reserved)}, spent {usd(cost.spent)}"
    expected = f"spent {usd(cost.settled + cost.reserved)}"
    evidence = activity.evidence(says, (cost.exchange.id,), cost.low, expected)
    sums = {
        "settled_and_reserved": cost.settled + cost.reserved,
        "settled": cost.settled,
    }
    allowed = [
        name for name in options.candidates("spent_counts") if abs(sums[name] - cost.spent) <= cost.apart
    ]
    tally.check("cost.sum", bool(allowed), evidence)
    if allowed and options.default("spent_counts") not in allowed:
        tally.differs(96, options.default("spent_counts"), allowed[0], evidence)


def judge_counted(activity: AccountActivity, ordered: Sequence[CostStatement], tally: Tally) -> None:
    """Settled cost never falls within a month; reserved cost rises only where work may have been accepted.

    Settling and releasing only lower what is reserved, and only acceptance raises it. Two readings of one
    reset lie in one month.
    """
    quiet = NoActivity(activity)
    stated = [cost for cost in ordered if cost.settled is not None and cost.ends is not None]
    for first, second in pairwise(stated):
        if first.high >= second.low or first.ends != second.ends:
            continue
        wrong = ""
        if (second.settled or 0) < (first.settled or 0):
            if any(work.low <= second.high for work in refundable(activity)):
                tally.open("cost.counted", "what a failed job had cost may have been given back (U49)")
                continue
            wrong = f"settled cost fell from {usd(first.settled or 0)} to {usd(second.settled or 0)}"
        elif _rose(first, second) and activity.alone and quiet.between(first.low, second.high):
            rise = f"{usd(first.reserved or 0)} to {usd(second.reserved or 0)}"
            wrong = f"reserved cost rose from {rise}, and no work was accepted"
        ids = (first.exchange.id, second.exchange.id)
        tally.check("cost.counted", not wrong, activity.evidence(wrong, ids, second.low))


def judge_tracking(activity: AccountActivity, ordered: Sequence[CostStatement], tally: Tally) -> None:
    """Between two readings with additions and surely no other work, nothing is reserved or spent (S57, S58).

    Settling and releasing only lower what is reserved; and where cost is reserved, with none reserved nothing
    is under way that could settle. Where only what is spent is told, a job under way could raise it.
    """
    if not activity.alone:
        return
    others = [work for work in activity.works if work.spend not in ADDS]
    begun, ended = (
        RunningSums((work.low, 1) for work in others),
        RunningSums((work.high, 1) for work in others),
    )
    added = sorted((w for w in activity.works if w.sure and w.spend in ADDS), key=lambda work: work.low)
    lows, reserves = [work.low for work in added], any(cost.reserved for cost in ordered)
    running = JobsUnderWay(activity)
    stated = [cost for cost in ordered if cost.ends is not None]
    for first, second in pairwise(stated):
        if first.high >= second.low or first.ends != second.ends:
            continue
        place = bisect_right(lows, first.high)
        inside = [work for work in added[place : place + MOST_ADDED] if work.high < second.low]
        if not inside or begun.upto(second.high) - ended.before(first.low):
            continue
        if first.reserved is not None and second.reserved is not None:
            paid = _rose(first, second) or (
                reserves and first.reserved == 0 and second.settled != first.settled
            )
        elif (
            first.spent is not None
            and second.spent is not None
            and not running.within(first.low, second.high)
        ):
            paid = second.spent - first.spent > first.apart + second.apart
        else:
            continue
        says = (
            f"{inside[0].spend} was added and nothing else accepted; {_amounts_of(first)}, and then "
            f"{_amounts_of(second)}"
        )
        ids = (first.exchange.id, inside[0].exchange.id, second.exchange.id)
        evidence = activity.evidence(says, ids, second.low)
        tally.check("cost.tracking", not paid, evidence, case=inside[0].spend)


def _amounts_of(cost: CostStatement) -> str:
    """Write the amounts that a reading states of a month's cost."""
    amounts = {"spent": cost.spent, "settled": cost.settled, "reserved": cost.reserved}
    return ", ".join(f"{usd(amount)} was {name}" for name, amount in amounts.items() if amount is not None)


def judge_timing(activity: AccountActivity, ordered: Sequence[CostStatement], tally: Tally) -> None:
    """Where nothing is ever reserved, one job alone shows when its cost is booked (U49).

    A reading before it, one while it ran, and one after its end: all of its cost lies in one of the gaps.
    """
    if not activity.alone or any(cost.reserved for cost in ordered):
        return
    stated = [cost for cost in ordered if cost.settled is not None and cost.reserved is not None]
    readings = Bracket([(cost.low, cost.high, cost) for cost in stated])
    quiet = NoActivity(activity)
    ends = [
        (work, min(activity.fates[work.id].done, activity.fates[work.id].failed))
        for work in activity.works
        if work.spend in JOBS and work.id in activity.fates
    ]
    for work, end in ends:
        before, during = readings.before(work.low), readings.after(work.high)
        after = readings.after(end) if end < DISTANT_FUTURE else None
        if before is None or during is None or after is None or not before.ends == during.ends == after.ends:
            continue
        if quiet.count(before.low, after.high) != 1 or during.high >= activity.fates[work.id].alive:
            continue
        if any(other is not work and finish >= before.low for other, finish in ends if other.low < work.low):
            continue
        blur = before.blur + during.blur + after.blur
        rose = (during.settled or 0) - (before.settled or 0) > blur
        late = (after.settled or 0) - (during.settled or 0) > blur
        if rose or late:
            says = f"nothing was reserved while {work.id} ran, and its cost was booked "
            says += "as it began" if rose else "as it ended"
            ids = (before.exchange.id, during.exchange.id, after.exchange.id)
            evidence = activity.evidence(says, ids, during.low)
            tally.differs(49, "reserve", "acceptance" if rose else "completion", evidence)
            return


DAYS_APART = 2 * DAY
"""How far a day's 00:00 UTC may be from an instant on it, or on the one before, in any zone."""

MOST_ADDED = 8
"""Additions after a reading that are looked at."""


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


def judge_reset(
    activity: AccountActivity, ordered: Sequence[CostStatement], clock: BusinessClock, tally: Tally
) -> None:
    """A stated reset lies ahead, within a month, and never moves back."""
    latest: CostStatement | None = None
    for cost in ordered:
        if cost.ends is None:
            continue
        wrong = _wrong_reset(cost, cost.ends, clock)
        ids: tuple[str, ...] = (cost.exchange.id,)
        if latest is not None and latest.high < cost.low and (latest.ends or 0) > cost.ends:
            wrong, ids = f"it was {iso(latest.ends or 0)} before", (latest.exchange.id, cost.exchange.id)
        if latest is None or cost.ends > (latest.ends or 0):
            latest = cost
        if wrong != "?":
            says = f"the month's spend resets at {iso(cost.ends)}: {wrong}"
            evidence = activity.evidence(says, ids, cost.low)
            tally.check("cost.reset", not wrong, evidence, case=AHEAD)


def _wrong_reset(cost: CostStatement, ends: Micros, clock: BusinessClock) -> str:
    if clock.at(cost.low) is None:
        return "?"
    if clock.passed(cost.low, ends):
        return "that had passed when it was stated"
    if clock.passed(cost.high, ends - LONGEST_MONTH) is False:
        return "that is more than a month ahead"
    return ""
