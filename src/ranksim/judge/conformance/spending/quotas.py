"""Metered allowances: what they count, where they refuse, and when they reset (S63, S98, S108, S110).

Readings and the metas of refusals state a counter; the works between two of them bound it (`consumers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ranksim.core.clock import WEEK, Micros, billing_month, calendar_anchor, format_millis, iso, week_start
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import instant_or_none, integer_or_none, plain
from ranksim.judge.conformance.history.graphql import snaked
from ranksim.judge.conformance.spending.account_columns import UNITS_USED, units_used
from ranksim.judge.conformance.spending.activity import (
    AT_ONCE,
    DRY_RUN_QUEUED,
    JOBS,
    AccountActivity,
    SpendCall,
    SpendWork,
    check_applies,
)
from ranksim.judge.conformance.spending.audit import MOST_SHOWN, AccountAudit, judge_columns, judge_resets
from ranksim.judge.conformance.spending.columns import Contradictions
from ranksim.judge.conformance.spending.consumers import (
    BRIEFS,
    QUOTA,
    UNITS,
    WORDED,
    Consumers,
    Unit,
    asked_units,
    consumers_of,
    moves_of,
    units_of,
)
from ranksim.judge.conformance.spending.counter_bounds import (
    UNBOUNDED,
    Bound,
    Increment,
    Sample,
    between,
    bounds,
)
from ranksim.judge.conformance.spending.left_alone import AllowedDryRuns
from ranksim.judge.conformance.spending.statements import ROUNDING, MeterStatement, limit_of, meter_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import (
    ANY,
    MET_AT_ONCE,
    SAME_BODY,
    Breach,
    Cause,
    Requirement,
    Rule,
    declare,
)
from ranksim.judge.conformance.verdict.verdicts import Evidence

RULES = declare(
    Rule(
        "quota.counted",
        "What an allowance shows as used is what was admitted in its period, and nothing else.",
        (35, 38, 63),
        (50, 54, 106),
        exercise="everyday: read usage around requests for keyword briefs",
        ways=(
            Breach(35, "briefs take nothing of the weekly allowance", "{metric}"),
            Breach(38, "used grows by itself", "{metric}, at rest"),
            Breach(56, "briefs take of no weekly allowance", "{metric}"),
            Breach(63, "a refused request keeps the units of its quota", "{metric}, at rest"),
        ),
        follows=(DRY_RUN_QUEUED,),
        essential={"[^,]*": "no unit of an allowance was used between two readings"},
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        "quota.limit",
        "Never more is admitted in a period than the allowance.",
        (63, 108, 110),
        (50, 54),
        exercise="last: several ask at once for the last units of an allowance",
        ways=(
            Breach(63, "more is admitted than the allowance", "{metric}"),
            Breach(63, "calls at once pass the allowance together", "{metric}, at once"),
        ),
        essential={MET_AT_ONCE: "no two calls for the last units of an allowance met at once"},
        needs=(Requirement.SPENDING, Requirement.NO_BRIEFS),
    ),
    Rule(
        "quota.refused",
        "quota_exhausted comes only where what is asked for does not fit what is left.",
        (63,),
        (50, 54),
        exercise="race: use an allowance up, and ask again",
        ways=(Breach(63, "quota_exhausted comes while it would fit", "keyword_briefs"),),
        refuses=".*",
        needs=(Requirement.SPENDING, Requirement.ALONE, Requirement.NO_BRIEFS),
    ),
    Rule(
        "quota.meta",
        "quota_exhausted is a 402 whose meta has metric, used, limit and resets_at, as usage shows them.",
        (38, 98),
        (53, 55),
        exercise="ladder: use an allowance up, and read usage",
        ways=(Breach(98, "quota_exhausted is no 402", "keyword_briefs"),),
        looks_at=("status", "meta"),
        follows=(Cause("error.body", SAME_BODY),),
        needs=(Requirement.SPENDING, Requirement.NO_BRIEFS),
    ),
    Rule(
        "quota.sum",
        "Used and remaining units add up to the limit.",
        (38,),
        (109,),
        exercise="everyday: read usage",
        ways=(Breach(38, "used and remaining do not add up", "{metric}"),),
        by_reading=True,
    ),
    Rule(
        "quota.reset",
        "A weekly allowance resets on Mondays, any other monthly, each at the time that usage states.",
        (38, 108, 110),
        (51, 52),
        exercise="everyday: read usage, best across a Monday or a month's end",
        ways=(
            Breach(108, "the weekly allowance resets on another day", "{metric}"),
            Breach(110, "a monthly quota resets later than in a month", "{metric}"),
        ),
        by_reading=True,
    ),
    looks_at=("meta", "data.metrics"),
    needs=(Requirement.USAGE, Requirement.QUOTA_RESET),
)

WIDEST_ZONE = 14 * 3_600_000_000
"""A Monday begins at most this far from 00:00 UTC (U52)."""


def judge(audit: AccountAudit) -> None:
    """Judge the allowances of one account."""
    activity = audit.activity
    for metric, statements in activity.meters.items():
        for meter in statements:
            judge_sum(audit, meter)
        ordered = sorted((m for m in statements if m.ends is not None), key=lambda m: m.low)
        judge_resets(audit, "quota.reset", metric, ordered, lambda m, ends: _wrong_week(audit, m, ends))
        judge_counter(audit, metric, statements)
    judge_months(audit)
    for work in activity.works:
        judge_grant(audit, work)
    limits = limits_of(activity) if activity.alone else {}
    for refused in activity.refusals:
        if refused.check == QUOTA:
            judge_meta(audit, refused, limits)
            judge_refused(audit, refused)


def judge_grant(audit: AccountAudit, work: SpendWork) -> None:
    """What is granted is all that was asked for (U50, U64), each word once however it is written (U65).

    Words that stand in the list already are told apart from those that were created.
    """
    created, words = created_by(work.made), work.body.get("keywords")
    if created is None or not isinstance(words, list) or not words or work.spend not in WORDED:
        return
    if not all(isinstance(word, str) for word in words):
        return
    there = work.made.get("already_present", 0 if work.spend == BRIEFS else None)
    already_there = len(there) if isinstance(there, list) else integer_or_none(there)
    if already_there is None:
        return
    trimmed = {word.strip() for word in words}
    folded, granted = len({word.casefold() for word in trimmed}), len(created) + already_there
    says = f"{len(words)} keywords were asked for, {folded} without regard to case, and {granted} granted"
    if granted < folded and work.spend == BRIEFS:
        audit.differs(50, "all_or_nothing", "partial", says, (work.exchange.id,), work.low)
    elif granted < folded:
        audit.differs(64, "refuse_whole", "partial", says, (work.exchange.id,), work.low)
    elif granted == len(trimmed) > folded and work.spend == "keywords":
        audit.differs(65, "casefold", "exact", says, (work.exchange.id,), work.low)


# Checks


class CounterFit(NamedTuple):
    """What a counter may show by one unit of works, and where it does not."""

    unit: Unit
    moves: list[Increment]
    bounded: list[Bound]
    broken: list[Bound]
    falls: bool


def judge_counter(audit: AccountAudit, metric: str, statements: Sequence[MeterStatement]) -> None:
    """Every reading lies between what was surely and what was possibly admitted before it.

    Each admitted request moved the counter at one instant of its interval, at no other; so in one period a
    reading is at least an earlier one and what surely happened between, and at most that and what may have
    happened. Under every unit that a set of briefs may have (U54) this must fail before the rule breaks.
    """
    activity, tally = audit.activity, audit.tally
    tally.expect("quota.counted", metric, f"{metric}, at rest")
    tally.expect("quota.limit", metric, f"{metric}{AT_ONCE}")
    marks = [m.sample for m in statements if m.ends is not None]
    if not marks:
        tally.open("quota.counted", "usage states no resets_at")
        return
    consumers = consumers_of(activity, metric, marks, audit.options)
    fits = _fits(audit, marks, consumers)
    default, fit = fits[0], fits[-1]
    for kept, given in zip(bounds(marks, fit.moves), fit.bounded, strict=True):
        if activity.alone and kept.short and not given.short:  # which only a job's failure can have lowered
            tally.differs(50, "never", "on_failure", kept.evidence(metric, activity.about, fit.moves))
    if fit.broken:  # under every unit: show the default's
        fit = default
        _judge_broken(audit, metric, marks, consumers, fit)
    elif fit is not default:
        first = default.broken[0].evidence(metric, activity.about, default.moves)
        if fit.unit[1] == "any":
            tally.differs(106, "one unit a job or scan", "another number of units", first)
        else:
            tally.differs(54, "a unit a keyword", "one a request", first)
    _hold(audit, metric, fit.bounded)
    spends = {work.spend for work in activity.works} & consumers.possible
    checked = activity.alone and all(check_applies(activity, s, QUOTA, audit.options) for s in spends)
    for bound in fit.bounded:
        if bound.since is None or bound.since.limit == bound.mark.limit:  # else the plan was changed
            judge_limit(audit, metric, bound, fit.moves, checked)
    if activity.alone and not fit.falls and not fit.broken:
        _judge_order(audit, metric, statements, consumers, fit.unit)


def _fits(
    audit: AccountAudit, marks: Sequence[Sample], consumers: Consumers, dry: Sequence[SpendWork] = ()
) -> list[CounterFit]:
    """Return what a counter may show by each unit, up to the first by which nothing is broken."""
    fits: list[CounterFit] = []
    for unit in UNITS:
        moves, falls = moves_of(audit.activity, consumers.sure, consumers.possible, unit, audit.options, dry)
        bounded = bounds(marks, moves, falls)
        broken = [bound for bound in bounded if bound.breaks(alone=audit.activity.alone)]
        fits.append(CounterFit(unit, moves, bounded, broken, bool(falls)))
        if not broken:
            break
    return fits


def _judge_order(
    audit: AccountAudit, metric: str, statements: Sequence[MeterStatement], consumers: Consumers, unit: Unit
) -> None:
    """Each reading may be right by itself, and no order of all calls explain them all.

    It is open where some order does if dry runs consumed.
    """
    activity, kinds = audit.activity, (consumers.sure, consumers.possible)

    def unexplained(dry: Sequence[SpendWork]) -> Contradictions:
        units = UNITS[UNITS.index(unit) :]
        variants = (moves_of(activity, *kinds, unit, audit.options, dry)[0] for unit in units)
        return units_used(audit, statements, variants)

    broken, dry = unexplained(()), AllowedDryRuns(activity).as_works()
    if broken.calls and dry and not unexplained(dry).calls:
        audit.tally.open("quota.counted", CONSUMED)
    else:
        judge_columns(audit, "quota.counted", UNITS_USED, broken, metric, metric)


CONSUMED = "it shows what it would if dry runs consumed"


def _judge_broken(
    audit: AccountAudit, metric: str, marks: Sequence[Sample], consumers: Consumers, fit: CounterFit
) -> None:
    """Break the rule of dry runs where they explain all that a counter shows, else its own (S66).

    Then the dry runs are the cause, not the counter. One without an answer may have consumed.
    """
    dry, about = AllowedDryRuns(audit.activity).as_works(), audit.activity.about
    pieces = [bound.evidence(metric, about, fit.moves) for bound in fit.broken[:MOST_SHOWN]]
    if not dry or _fits(audit, marks, consumers, dry)[-1].broken:
        for piece in pieces:
            audit.tally.broke("quota.counted", piece, case=metric)
        return
    spends = {work.spend for work in dry if work.sure}
    consumed = spends & consumers.sure or spends & consumers.possible
    says, case = f"{pieces[0].says}, unless dry runs consumed", min(consumed) if len(consumed) == 1 else ANY
    audit.tally.broke("dry_run.free", replace(pieces[0], says=says), case=case)
    audit.tally.open("quota.counted", CONSUMED, len(fit.broken))


def _hold(audit: AccountAudit, metric: str, bounded: Sequence[Bound]) -> None:
    """Note the readings that are as they may be, and those of them that another count would have shown."""
    activity, tally = audit.activity, audit.tally
    fine = [
        (bound.since, bound)
        for bound in bounded
        if bound.since is not None and not bound.breaks(alone=activity.alone)
    ]
    if not activity.alone:
        if fine:
            tally.open("quota.counted", "others may have used the account", len(fine))
        return
    tally.held("quota.counted", len(fine), case=None)
    for since, bound in fine:
        if bound.least > since.value:
            tally.covers("quota.counted", metric, (since.id, bound.mark.id))
        elif bound.most == bound.mark.value:
            tally.covers("quota.counted", f"{metric}, at rest", (since.id, bound.mark.id))


def judge_limit(
    audit: AccountAudit, metric: str, bound: Bound, moves: Sequence[Increment], checked: bool
) -> None:
    """What was surely admitted after a reading, on top of what it shows, is within the limit.

    The last of these requests met all that went before it, and the check applies to it. A reading above the
    limit says the same only where the check surely applies to all that may consume (`checked`, U58), and not
    when it was above from the first, because a plan can have been changed before.
    """
    since, mark = bound.since, bound.mark
    limit, reached = mark.limit, max(mark.value, bound.least)
    if limit is None or since is None or since.value > limit or reached < limit:
        return
    if reached == limit:
        audit.tally.held("quota.limit", case=None)
    elif bound.least <= limit and not checked:
        audit.tally.open(
            "quota.limit", "what consumes the allowance may not be checked (U58), or not be seen"
        )
    else:
        inside = f"{bound.least - since.value} surely admitted after"
        says = (
            f"{metric} has a limit of {limit}; {since.value} were used, {inside}, and it shows {mark.value}"
        )
        admitted = between(moves, since, mark) if bound.least > limit else []
        met = any(earlier.high >= later.low for earlier, later in pairwise(admitted))
        ids = tuple(dict.fromkeys((since.id, *(m.id for m in admitted[-1:]), mark.id)))
        case = f"{metric}{AT_ONCE if met else ''}"
        audit.broke("quota.limit", says, ids, mark.low, f"{limit} at most", case=case)


def judge_refused(audit: AccountAudit, refused: SpendCall) -> None:
    """A refusal states what was used: with what was asked for, it passes the limit.

    The refusal is decided on these numbers, whatever else happens; units asked for are counted at their
    most (U54), so that no reading of them makes the request fit.
    """
    meta, ids = refused.exchange.meta, (refused.exchange.id,)
    used, limit, metric = integer_or_none(meta.get("used")), limit_of(meta.get("limit")), meta.get("metric")
    if used is None or limit is None:
        audit.tally.open("quota.refused", "the refusal states no used and limit")
        return
    most = _most_asked(refused)
    if refused.spend not in WORDED and used + 1 <= limit:
        audit.tally.open("quota.refused", "how many units a job or a scan costs is not stated (U106)")
        return
    if isinstance(metric, str) and (used == limit if refused.spend in JOBS else used + most == limit + 1):
        audit.tally.covers("quota.limit", metric, ids)  # for one unit more than the allowance
    granted = audit.activity.granted_beside(refused)
    beside = [work for work in granted if work.spend == refused.spend]
    taken = sum(units_of(work, UNITS[0])[0] for work in beside)
    if isinstance(metric, str) and used + most > limit >= used - taken + most:  # for what was granted beside
        by = (*(work.exchange.id for work in beside[:1]), *ids)
        audit.tally.covers("quota.limit", f"{metric}{AT_ONCE}", by)
    says, expected = (
        f"refused with {used} of {limit} used, although {most} more fit",
        "no refusal for want of the allowance",
    )
    audit.check("quota.refused", used + most > limit, says, ids, refused.low, expected, case=refused.spend)


def _most_asked(refused: SpendCall) -> int:
    """Return the most units that a refused call can have asked for."""
    words = refused.body.get("keywords")
    if not refused.body:
        return UNBOUNDED
    if refused.spend == "keywords":
        return len(words) if isinstance(words, list) else UNBOUNDED
    return asked_units(refused.body)[1] if refused.spend == BRIEFS else 1


def judge_meta(audit: AccountAudit, refused: SpendCall, limits: Mapping[str, set[int | None]]) -> None:
    """Each refusal by itself has the status and the four fields that S98 shows, and a metric of usage."""
    exchange, ids, case = refused.exchange, (refused.exchange.id,), refused.spend
    if exchange.code == "allowance_exhausted":
        says = "refused as allowance_exhausted"
        if audit.options.must_be("weekly_exhaustion_code", "quota_exhausted"):
            audit.broke("quota.meta", says, ids, exchange.sent, case=case)
        else:
            audit.differs(53, "quota_exhausted", "allowance_exhausted", says, ids, exchange.sent)
        return
    wrong = _wrong_meta(refused, limits, audit.options)
    says = f"quota_exhausted with status {exchange.status} and meta {dict(exchange.meta)}: {wrong}"
    audit.check("quota.meta", not wrong, says, ids, exchange.sent, case=case)


def _wrong_meta(refused: SpendCall, limits: Mapping[str, set[int | None]], options: Options) -> str:
    exchange = refused.exchange
    status = options.facts.quota_exhausted_status
    if exchange.surface == "rest" and exchange.status != status:
        return f"expected status {status}"
    stated = meter_of(exchange, snaked(dict(exchange.meta)), refused.low)
    if stated is None or stated.limit is None or stated.ends is None:
        return "expected metric (text), used and limit (integers) and resets_at (a UTC timestamp)"
    if limits and stated.metric not in limits:
        return f"usage lists no metric {stated.metric}"
    stated_limits = limits.get(stated.metric, {None})
    if len(stated_limits) == 1 and None not in stated_limits and stated.limit not in stated_limits:
        return f"usage shows a limit of {next(iter(stated_limits))}"
    return ""


def limits_of(activity: AccountActivity) -> dict[str, set[int | None]]:
    """Return the limits that usage stated, by metric."""
    limits: dict[str, set[int | None]] = {}
    for metric, meters in activity.meters.items():
        stated = {meter.limit for meter in meters if meter.exchange.operation == "account.usage"}
        if stated:
            limits[metric] = stated
    return limits


def judge_sum(audit: AccountAudit, meter: MeterStatement) -> None:
    """One reply is one snapshot: its numbers agree with each other."""
    if meter.remaining is None or meter.limit is None:
        return
    says = f"{meter.metric}: used {meter.used}, remaining {meter.remaining}, limit {meter.limit}"
    holds = meter.remaining in (max(0, meter.limit - meter.used), meter.limit - meter.used)
    audit.check("quota.sum", holds, says, (meter.exchange.id,), meter.low, case=meter.metric)


# Resets


def judge_months(audit: AccountAudit) -> None:
    """A monthly allowance resets where the billing month ends that the account tells of (U51)."""
    activity = audit.activity
    anchors = {instant_or_none(plain(health.exchange).get("billing_anchor")) for health in activity.health}
    anchor = anchors.pop() if len(anchors) == 1 else None
    if anchor is None:
        return
    for meter in (statement for meters in activity.meters.values() for statement in meters):
        ends = meter.ends
        if meter.period == "month" and ends is not None and not _begins(anchor, ends):
            says = f"{meter.metric} resets at {iso(ends)}, and the billing month is anchored at {iso(anchor)}"
            ids = (activity.health[0].exchange.id, meter.exchange.id)
            other = "calendar" if _begins(calendar_anchor(), ends) else "another day"
            audit.differs(51, "anchor", other, says, ids, meter.low)
            return


def _begins(anchor: Micros, instant: Micros) -> bool:
    """Return whether a month begins at an instant, give or take what rounding hides."""
    return abs(billing_month(anchor, instant + ROUNDING)[0] - instant) <= ROUNDING


def _wrong_week(audit: AccountAudit, meter: MeterStatement, ends: Micros) -> str:
    """Say what is wrong with the reset of a week, or "": it is a Monday, somewhere."""
    options = audit.options
    offset, default = (
        (ends - week_start(ends, 0) + WEEK // 2) % WEEK - WEEK // 2,
        options.default("week_offset"),
    )
    if options.pinned("week_offset") and offset != default:
        return f"expected Monday 00:00 UTC and {format_millis(default)}"
    if abs(offset) > WIDEST_ZONE:
        return "that is no Monday anywhere"
    if offset and offset != default:
        says = Evidence(
            f"{meter.metric} resets at {iso(ends)}", (meter.exchange.id,), about=audit.activity.about
        )
        audit.tally.differs(52, "Monday 00:00 UTC", iso(ends), says)
    return ""
