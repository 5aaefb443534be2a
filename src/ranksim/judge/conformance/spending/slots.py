"""Slots: what scans and keywords occupy, what stays held, and where there is room (S23-S27, S32, S33, S64).

Where a list and the scans over it were made in the trace, what a call adds is known: keywords × pairings ×
geographies for each scan, without de-duplication between scans. Elsewhere the reply's own count is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ranksim.judge.conformance.history.fields import integer_or_none, sent_body
from ranksim.judge.conformance.spending import slot_choices
from ranksim.judge.conformance.spending.account_columns import SLOTS_USED, slots_used
from ranksim.judge.conformance.spending.activity import ADDS, AccountActivity, SpendCall, SpendWork
from ranksim.judge.conformance.spending.audit import AccountAudit, judge_columns
from ranksim.judge.conformance.spending.columns import Contradictions
from ranksim.judge.conformance.spending.counter_bounds import (
    ANY_FALL,
    UNBOUNDED,
    Bound,
    Increment,
    SpanSums,
    bounds,
)
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.statements import Bracket, SlotStatement, neighbours, slots_of
from ranksim.judge.conformance.verdict.rule import ANY, MET_AT_ONCE, Breach, Cause, Requirement, Rule, declare

REACHED, TOGETHER = "reached", "at once"
"""The limit was reached by one call after another, or by several that overlapped."""

FACTORS = ("several pairings", "several places", "several words")
"""What a slot is counted by (S23, S25)."""

RULES = declare(
    Rule(
        "slots.counted",
        "Each keyword on each pairing in each geography is a slot, and each scan counts its own.",
        (23, 24, 25, 32, 33, 37),
        (47, 63, 94, 109),
        exercise="everyday: read slots around additions of keywords and scans",
        cases=(*ADDS, *FACTORS, "read between"),
        ways=(
            Breach(23, "pairings do not multiply slots", "several pairings"),
            Breach(23, "places do not multiply slots", "several places"),
            Breach(23, "keywords do not multiply slots", "several words"),
            Breach(24, "a second scan of the same keywords adds nothing", "scans"),
            Breach(
                25,
                "one keyword on one engine, two devices and two places is not four slots",
                "several pairings",
            ),
            Breach(32, "keywords in a tracked list take no slots", "keywords"),
            Breach(33, "a scan takes no slots", "scans"),
        ),
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        "slots.held",
        "What is removed stays counted to the end of the billing month.",
        (26, 27, 37),
        (62,),
        exercise="everyday: remove keywords and scans, and read slots",
        cases=(*slot_choices.REMOVED.values(), "held before"),
        ways=(
            Breach(26, "removed keywords free their slots at once", "keywords removed"),
            Breach(27, "a removed scan frees its slots at once", "a scan removed"),
            Breach(27, "a removed list frees its slots at once", "a list removed"),
            Breach(27, "a removed domain frees its slots at once", "a domain removed"),
        ),
        follows=(Cause("slots.counted", "the same reading"),),
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        "slots.limit",
        "No more slots are given than the plan has.",
        (33, 64),
        (64,),
        exercise="last: several ask at once for the last slots",
        ways=(
            Breach(33, "more slots are given than the plan has", "reached"),
            Breach(64, "calls at once pass the slots together", "at once"),
        ),
        follows=(Cause("slots.counted", "the same reading"),),
        essential={MET_AT_ONCE: "no two calls for the last slots met at once"},
        needs=(Requirement.SPENDING, Requirement.FULL_SLOTS),
    ),
    Rule(
        "slots.refused",
        "slot_limit_exceeded comes only where what is asked for does not fit.",
        (64,),
        (59, 63, 64),
        exercise="ladder: ask for more keywords than there is room for",
        ways=(
            Breach(64, "slot_limit_exceeded comes for keywords that fit", "keywords"),
            Breach(64, "slot_limit_exceeded comes for a scan that fits", "scans"),
        ),
        refuses=".*",
        needs=(Requirement.SPENDING, Requirement.ALONE, Requirement.FULL_SLOTS),
    ),
    Rule(
        "slots.sum",
        "Active and held slots add up to the used ones, and what is available to the limit.",
        (37,),
        (61,),
        exercise="everyday: read slots",
        ways=(Breach(37, "what is held is not counted as used"),),
        by_reading=True,
    ),
    looks_at=("meta", "data.used", "data.held", "data.limit", "data.slots_added"),
    needs=(Requirement.SLOTS, Requirement.SLOT_RESET),
)

Json = Any


SLOTS = 5
"""The check of slots."""


def judge(audit: AccountAudit) -> None:
    """Judge the slots of one account."""
    activity = audit.activity
    for slots in activity.slots:
        judge_sum(audit, slots)
    stated, tracked = dated(activity.slots), SlotBounds(activity)
    if len(stated) > 1:
        broken = judge_counter(audit, stated, tracked)
        broken = judge_held(audit, stated, tracked) or broken
        if activity.alone and not broken:
            judge_all(audit, stated, tracked)
        slot_choices.judge(audit, stated, tracked)
    judge_patches(audit)
    for refused in activity.refusals:
        if refused.check == SLOTS:
            judge_refused(audit, refused, tracked)


def dated(statements: Sequence[SlotStatement]) -> list[SlotStatement]:
    """Return the statements with their month; one without, as in a refusal, lies between two of one month."""
    readings, dated = Bracket(slots for slots in statements if slots.ends is not None), []
    for slots in sorted(statements, key=lambda slots: slots.low):
        around = None if slots.ends is not None else readings.around(slots)
        if slots.ends is not None:
            dated.append(slots)
        elif around is not None and around[0].ends == around[1].ends:
            dated.append(replace(slots, ends=around[0].ends))
    return dated


# Checks


def judge_counter(audit: AccountAudit, stated: Sequence[SlotStatement], tracked: SlotBounds) -> bool:
    """Every reading lies between what was surely and what was possibly added before it in its month.

    Additions move the counter within their intervals, removals never do before the month ends; so a smaller
    reading frees what must be held, or has not counted, and a larger one counts what nobody added. Into a new
    month goes what was active. A scan that is narrowed may free its slots (U62), so after one the least is
    tried without. Tells whether any reading does not.
    """
    activity, options, tally = audit.activity, audit.options, audit.tally
    marks, moves = [slots.sample for slots in stated], tracked.moves()
    falls = []
    if options.may_be("narrowing", "freed"):
        falls = tracked.of_patches() if activity.alone else [ANY_FALL]
    unchecked = options.may_be("patch_checks", "none")
    broken, refusing = False, {refused.exchange.id for refused in activity.refusals if refused.check == SLOTS}
    strict = bounds(marks, moves, carried=True)
    for bound, lenient in zip(strict, bounds(marks, moves, falls, carried=True), strict=True):
        mark = bound.mark
        if lenient.least <= mark.value < bound.least:
            tally.differs(62, "held", "freed", bound.evidence("use of slots", activity.about, moves))
            bound = lenient
        broken = not _judge_bound(audit, bound, moves, tracked) or broken
        low = mark.low if bound.since is None else bound.since.low
        widened = not activity.alone or tracked.patched.possibly(low, mark.high)
        if unchecked and widened:
            tally.open("slots.limit", "a scan was changed, which may pass no check (U95)")
        elif bound.since is None or bound.since.limit == mark.limit:
            judge_limit(audit, bound, refusing)
    for work in activity.works:
        judge_stated(audit, work, tracked)
    return broken


def _judge_bound(audit: AccountAudit, bound: Bound, moves: Sequence[Increment], tracked: SlotBounds) -> bool:
    activity, tally, since, mark = audit.activity, audit.tally, bound.since, bound.mark
    removed = since is not None and tracked.removals.upto(mark.high) > tracked.removals.before(since.low)
    if bound.breaks(alone=activity.alone):
        lost = bound.short and removed
        rule, case = ("slots.held", _removed(activity, bound)) if lost else ("slots.counted", "read between")
        tally.broke(rule, bound.evidence("use of slots", activity.about, moves), case=case)
        return False
    if since is not None and bound.least > -UNBOUNDED // 2:
        if removed:
            tally.held("slots.held", case=None)
        if activity.alone and bound.most < UNBOUNDED // 2:
            tight = bound.least == bound.most != since.value
            tally.held("slots.counted", case="read between" if tight else None, by=(since.id, mark.id))
        elif not removed:
            tally.open("slots.counted", "what was added is not known, or others may have used the account")
    return True


def _removed(activity: AccountActivity, bound: Bound) -> str:
    """Return the case of what was removed between two readings, where all of it is of one kind."""
    low, high = bound.against.low, bound.mark.high
    operations = [seen.operation for seen in activity.removals if seen.sent <= high and seen.received >= low]
    kinds = {slot_choices.REMOVED.get(operation, ANY) for operation in operations}
    return kinds.pop() if len(kinds) == 1 else ANY


def judge_limit(audit: AccountAudit, bound: Bound, refusing: Collection[str]) -> None:
    """What is used did not grow beyond the limit; above it from the first, a plan was changed before."""
    since, mark = bound.since, bound.mark
    if mark.limit is None or since is None:
        return
    reached = max(mark.value, bound.least)
    if reached > mark.limit and reached > since.value:
        says = f"{since.value} slots were used, then {reached}, with a limit of {mark.limit}"
        ids = tuple(dict.fromkeys((since.id, mark.id)))
        audit.broke("slots.limit", says, ids, mark.low, f"{mark.limit} at most", case=REACHED)
    elif reached == mark.limit or mark.id in refusing:
        audit.tally.held("slots.limit", case=REACHED, by=(since.id, mark.id))


def judge_stated(audit: AccountAudit, work: SpendWork, tracked: SlotBounds) -> None:
    """The slots that a reply says it added are what its words and scans make; both are of one instant."""
    stated, ids = integer_or_none(work.made.get("slots_added")), (work.exchange.id,)
    if stated is None or not work.sure:
        return
    least, most = tracked.added(work)
    if not least <= stated <= most:
        says, span = f"{stated} slots were added, says the reply", f"{least} to {most}"
        says += f"; {span} can have been"
        audit.broke("slots.counted", says, ids, work.low, f"{span} slots added", case=work.spend)
    elif most < UNBOUNDED:
        tight = least == most > 0
        audit.tally.held("slots.counted", case=work.spend if tight else None, by=ids)
        for factor in _factors(work) if tight else ():
            audit.tally.covers("slots.counted", factor, ids)


def _factors(work: SpendWork) -> Iterator[str]:
    """Return by what a call multiplies slots."""
    for name, factor in zip(("engine_devices", "geographies", "keywords"), FACTORS, strict=True):
        values = work.body.get(name)
        if isinstance(values, list) and len(values) > 1:
            yield factor


def judge_held(audit: AccountAudit, stated: Sequence[SlotStatement], tracked: SlotBounds) -> bool:
    """Held slots of a month become fewer only as additions revive them (U63), one for one at most."""
    broken, revivals = False, SpanSums((m.low, m.high, m.most) for m in tracked.revivals())
    for first, second in neighbours([slots for slots in stated if slots.held is not None]):
        if not first.held:
            continue
        revived, ids = revivals.possibly(first.low, second.high), (first.exchange.id, second.exchange.id)
        if (second.held or 0) >= first.held - revived:
            case = "held before" if first.held > revived else None
            audit.tally.held("slots.held", case=case, by=ids)
        elif audit.activity.alone:
            says = (
                f"{first.held} slots were held, at most {revived} taken up again, and {second.held} are held"
            )
            audit.broke("slots.held", says, ids, second.low, case="held before")
            broken = True
    return broken


def judge_all(audit: AccountAudit, stated: Sequence[SlotStatement], tracked: SlotBounds) -> None:
    """Some order of all calls explains what is used, and what is held besides."""
    used = slots_used(audit, stated, tracked, held=False)
    judge_columns(audit, "slots.counted", SLOTS_USED, used, "slots", "read between")
    if not used.calls:
        held = slots_used(audit, stated, tracked, held=True)
        judge_columns(audit, "slots.held", SLOTS_USED, Contradictions(held.calls), "slots")


def judge_refused(audit: AccountAudit, refused: SpendCall, tracked: SlotBounds) -> None:
    """A refusal states what is used and asked for: together more than the limit, and no more than was asked.

    All its numbers are of the instant of the decision. A scan beyond the plan's dimensions may have this code
    too (U59), and then its numbers may fit.
    """
    ids, at, body = (refused.exchange.id,), refused.low, refused.body
    stated = slots_of(refused.exchange, refused.exchange.meta, refused.low)
    if stated is None or stated.limit is None or stated.requested is None:
        audit.tally.open("slots.refused", "the refusal states no used, limit and requested")
        return
    used, limit, requested = stated.used, stated.limit, stated.requested
    says = f"{requested} slots asked for with {used} of {limit} used"
    if used + requested <= limit and _may_pass_dimensions(audit, refused):
        audit.tally.open("slots.refused", "the scan may pass the plan's dimensions")
        if _passes_dimensions(audit.activity, body):
            beyond = f"{says}, on a scan beyond the plan"
            audit.differs(59, "entitlement_required", "slot_limit_exceeded", beyond, ids, at)
        return
    fit, case = f"{says}: they fit, and were refused", refused.spend
    audit.check("slots.refused", used + requested > limit, fit, ids, at, "no refusal for slots", case=case)
    beside = audit.activity.granted_beside(refused)
    if used + requested > limit >= used - sum(tracked.added(work)[0] for work in beside) + requested:
        audit.tally.covers("slots.limit", TOGETHER, (*(work.exchange.id for work in beside[:1]), *ids))
    if refused.spend in ADDS:
        most = tracked.requested(refused)[1]
        if requested > most:
            audit.broke(
                "slots.counted", f"{says}, but the call can ask for {most} at most", ids, at, case=case
            )


def _passes_dimensions(activity: AccountActivity, body: Mapping[str, Json]) -> bool:
    """Return whether a scan, or a change of one, surely asks for more than the plan's dimensions."""
    pairings, places = body.get("engine_devices"), body.get("geographies")
    sizes = [len(values) if isinstance(values, list) else 0 for values in (pairings, places)]
    most = [(entitled.engine_devices, entitled.geographies) for entitled in activity.entitled]
    return bool(most) and all(
        any(limit is not None and asks > limit for asks, limit in zip(sizes, limits, strict=True))
        for limits in most
    )


def judge_patches(audit: AccountAudit) -> None:
    """A change that widens a scan beyond the plan's dimensions is refused under U95's default."""
    for exchange in audit.activity.patches:
        widened = exchange.ok and exchange.operation == "scans.update"
        if widened and _passes_dimensions(audit.activity, sent_body(exchange)):
            says = f"{exchange.id} widened a scan beyond the plan's dimensions"
            audit.differs(95, "dimensions_slots", "none", says, (exchange.id,), exchange.sent)


def _may_pass_dimensions(audit: AccountAudit, refused: SpendCall) -> bool:
    """Return whether a scan beyond the plan's dimensions may have been refused so (U59)."""
    options, body = audit.options, refused.body
    if refused.spend == "keywords" or not options.may_be("dimension_refusal", "slot_limit_exceeded"):
        return False
    pairings, places = body.get("engine_devices"), body.get("geographies")
    if not isinstance(pairings, list) or not isinstance(places, list):
        return True
    return not any(
        len(pairings) <= (entitled.engine_devices or 0) and len(places) <= (entitled.geographies or 0)
        for entitled in audit.activity.entitled
    )


def judge_sum(audit: AccountAudit, slots: SlotStatement) -> None:
    """One reply is one snapshot: its numbers agree with each other."""
    wrong = []
    if slots.active is not None and slots.held is not None and slots.active + slots.held != slots.used:
        wrong.append(f"active {slots.active} and held {slots.held}, used {slots.used}")
    if slots.limit is not None and slots.available is not None:
        room = slots.limit - slots.used
        if slots.available not in (room, max(0, room)):
            wrong.append(f"used {slots.used} of {slots.limit}, available {slots.available}")
    audit.check("slots.sum", not wrong, "; ".join(wrong), (slots.exchange.id,), slots.low)
