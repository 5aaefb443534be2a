"""Which of the six checks certainly failed while a call was decided, and by what evidence (S59-S65).

Only what holds under every choice that is still open fails for certain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ranksim.core.clock import format_millis
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, Spend
from ranksim.core.rules.terms import NAMES_CAPABILITY
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import ADDS, JOBS, SpendCall, check_applies, subject_of
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.consumers import consumed_metric
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups, CooldownInterpretation
from ranksim.judge.conformance.spending.cooldowns import readings_left
from ranksim.judge.conformance.spending.cost import refundable
from ranksim.judge.conformance.spending.counter_bounds import Interval
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.statements import (
    Bracket,
    CostStatement,
    EntitlementStatement,
    SlotStatement,
    brackets,
)

NAMES = ("capability", "health", "ceiling", "quota", "slots")
"""The first five checks, as their rules are called; the sixth is that of cooldowns."""


def order_of(first: int, later: int) -> str:
    """Return the case of one check before another, by their numbers."""
    return f"{CHECK_NAMES[first - 1]} before {CHECK_NAMES[later - 1]}"


def rule_of(check: int) -> str:
    """Return the name of the rule of a check, from 1 on, which is none of cooldowns."""
    return f"guards.{NAMES[check - 1]}"


NEEDED = {"site_optimization": "site_optimization", "ai_scan": "ai_visibility"}
"""The capability that is assumed for an operation, where the table names one (U60)."""

ACTIVE = "active"
PAST_DUE = "past_due"


NO_CHECK = len(CHECK_OF) + 1
"""Stands for the check of a refusal that is of none."""


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A check that certainly failed throughout a call, and the exchanges that show it."""

    check: int
    says: str
    ids: tuple[str, ...]


class FailedChecks:
    """Tells which checks certainly failed throughout a call."""

    def __init__(self, audit: AccountAudit) -> None:
        activity = audit.activity
        self.activity, self.clock, self.options = activity, audit.clock, audit.options
        self.health, self.entitled = Bracket(activity.health), Bracket(activity.entitled)
        self.cost = Bracket(cost for cost in activity.cost if cost.settled is not None)
        self.spent = Bracket(cost for cost in activity.cost if cost.settled is None)
        self.meters = {
            metric: Bracket(meter for meter in meters if meter.ends is not None)
            for metric, meters in activity.meters.items()
        }
        self.metrics = {spend.label: consumed_metric(activity, spend.label) for spend in Spend}
        self.lacking = self._learn_lacking()
        self.cooled = CooldownGroups(activity, audit.clock.rate, audit.options)
        self.slots = Bracket(slots for slots in activity.slots if slots.ends is not None)
        self.tracked = SlotBounds(activity)
        self.refundable = {work.exchange.index: work.low for work in refundable(activity)}
        self.refunded = sorted(self.refundable.values())
        self.reports = brackets(activity.reports, lambda report: subject_of(report.exchange))

    def _learn_lacking(self) -> dict[tuple[str, str], Observation]:
        """Remember what was once refused as entitlement_required, by operation and domain.

        Scans are left out: theirs may be the dimensions of one scan (U59). A cap may be of one domain (U47).
        """
        stated: list[SpendCall] = [*self.activity.refusals, *self.activity.reports]
        refused = [call for call in stated if call.check == 1 and call.spend not in ("", "scans")]
        return {(call.spend, call.domain): call.exchange for call in refused}

    def of(self, call: SpendCall) -> Iterator[CheckFailure]:
        """Return the checks that certainly failed while a call was under way."""
        failures = [self.capability(call), self.unhealthy(call)]
        free = call.spend in ADDS  # which passes no ceiling that is only reached (U48)
        spent = self.at_ceiling(call, call.exchange, above=free)
        if spent and (call.spend in JOBS or check_applies(self.activity, call.spend, 3, self.options)):
            failures.append(spent)
        yield from filter(None, (*failures, self.exhausted(call), self.full(call)))
        yield from self.reported(call)

    def capability(self, call: SpendCall) -> CheckFailure | None:
        """Return evidence that the plan lacks what the call needs.

        What was refused for this once is refused as long as entitlements read the same on both sides. Names
        of capabilities are the deployment's own (U60); only a policy that states them can be relied on. But a
        plan that lists none at all, and for which another operation was refused, has none of any name.
        """
        before = self.plan_of(call)
        if before is None or before.capabilities is None or not self.activity.alone:
            return None
        needed = self._needed(call.spend, before.capabilities)
        if needed and needed not in before.capabilities:
            return CheckFailure(1, f"the plan has no {needed}", (before.exchange.id,))
        if call.spend in NEEDED and not before.capabilities:
            others = NEEDED.keys() - {call.spend}
            refused = (exchange for (spend, _), exchange in self.lacking.items() if spend in others)
            other = next((exchange for exchange in refused if self._had(exchange, before)), None)
            if other is not None:
                says = "the plan lists no capability, and another operation was refused for it"
                return CheckFailure(1, says, (before.exchange.id, other.id))
        learnt = self.lacking.get((call.spend, call.domain))
        if learnt is None or learnt is call.exchange or not self._had(learnt, before):
            return None
        says = f"{call.spend} was refused as entitlement_required on this plan"
        return CheckFailure(1, says, (learnt.id,))

    def plan_of(self, call: Interval) -> EntitlementStatement | None:
        """Return what the plan gave before a call, where its capabilities were the same after."""
        around = self.entitled.around(call)
        return around[0] if around is not None and around[0].capabilities == around[1].capabilities else None

    def _had(self, exchange: Observation, plan: EntitlementStatement) -> bool:
        """Return whether the plan at an exchange had the same capabilities."""
        same = self.plan_of(Interval(exchange.sent, exchange.received))
        return same is not None and same.capabilities == plan.capabilities

    def _needed(self, spend: str, listed: frozenset[str]) -> str:
        """Return the name that a policy states for what a call needs; "" where the plan lists other names."""
        catalogue = self.options.policy.catalogue
        operation = {kind.label: kind for kind in Spend}.get(spend)
        if operation is None or not self.options.names_capabilities:
            return ""
        if operation not in NAMES_CAPABILITY and not self.options.must_be("checks_apply", "all"):
            return ""
        if not listed.issubset(catalogue.capability_of.values()):
            return ""
        return str(catalogue.capability_for(operation.label))

    def unhealthy(self, call: Interval) -> CheckFailure | None:
        """Return evidence that the subscription was past due on both sides of a call (S61); others: U57."""
        around = self.health.around(call)
        if around is None or around[0].status != around[1].status:
            return None
        pinned = self.options.default("inactive_statuses") if self.options.pinned("inactive_statuses") else ()
        if around[0].status not in (PAST_DUE, *pinned):
            return None
        ids = (around[0].exchange.id, around[1].exchange.id)
        return CheckFailure(2, f"the account is {around[0].status}", ids)

    def at_ceiling(
        self, call: Interval, own: Observation | None = None, *, above: bool = False
    ) -> CheckFailure | None:
        """Return evidence that the month's settled cost had reached the ceiling, or was `above` it.

        In a month it never falls, but for what was given back of other jobs than the call's `own` (U49). What
        is reserved falls alone while nothing is accepted: what is reserved after it was so at the call.
        """
        before = self.cost.before(call.low)
        if before is None:
            return None if above else self._spent_up(call, own)
        after = self.cost.after(call.high)
        if before.settled is None or before.ceiling is None or before.ends is None or after is None:
            return None
        reserved = self._still_reserved(before, after)
        sure = before.settled + reserved - before.blur - above
        if sure < before.ceiling or (after.ends, after.ceiling) != (before.ends, before.ceiling):
            return None
        if bisect_right(self.refunded, call.high) > (own is not None and own.index in self.refundable):
            return None
        says = f"{before.settled / 1_000_000} of {before.ceiling / 1_000_000} USD had been settled"
        says += f", and {reserved / 1_000_000} USD was reserved to the end of it" if reserved else ""
        return CheckFailure(3, says, (before.exchange.id,))

    def _still_reserved(self, before: CostStatement, after: CostStatement) -> int:
        """Return what surely was reserved from a reading to the one after a call, where it counts (U96)."""
        if not after.reserved or self.activity.changed.possibly(before.low, after.high):
            return 0
        counts = before.spent is not None and before.spent - (before.settled or 0) > before.apart
        return max(0, after.reserved - after.apart) if counts and self.activity.alone else 0

    def _spent_up(self, call: Interval, own: Observation | None) -> CheckFailure | None:
        """Return the same evidence where one amount is told: what is spent, or reserved for what runs.

        With no job under way nothing of it is reserved, nor will be given back.
        """
        around = self.spent.around(call)
        if around is None or around[0].spent is None or around[0].ceiling is None:
            return None
        before, after = around
        spent, ceiling = around[0].spent, around[0].ceiling
        if spent < ceiling or before.ends is None or not self.activity.alone:
            return None
        if (after.ends, after.ceiling) != (before.ends, before.ceiling):
            return None
        begun = own is not None and any(work.exchange is own for work in self.activity.works)
        if self.activity.jobs_run(before.low, call.high, int(begun)):
            return None
        says = f"{spent / 1_000_000} of {ceiling / 1_000_000} USD had been spent, and no job ran"
        return CheckFailure(3, says, (before.exchange.id,))

    def exhausted(self, call: SpendCall) -> CheckFailure | None:
        """Return evidence that the allowance of a call was used up."""
        if call.spend == "keywords":  # words that stand in the list already ask for nothing
            return None
        return self.used_up(call.spend, call)

    def used_up(self, spend: str, call: Interval) -> CheckFailure | None:
        """Return evidence that an allowance was used up: nothing gives units back but failed jobs (U50).

        Of what jobs consume, a reading after the call says the same where nothing was accepted in between.
        """
        metric = self.metrics.get(spend, "")
        meters = self.meters.get(metric)
        around = None if meters is None else meters.around(call)
        if around is None:
            return None
        before, after = around
        if before.limit is None or before.used < before.limit:
            return None
        if (after.ends, after.limit) != (before.ends, before.limit):
            return None
        jobs = any(
            self.metrics.get(work.spend) == metric for work in self.activity.works if work.spend in JOBS
        )
        still = after.used >= before.limit and not self.activity.changed.possibly(before.low, after.high)
        jobs = jobs and not (still and self.activity.alone)
        if jobs and not self.options.must_be("quota_refund", "never"):
            return None
        return CheckFailure(4, f"{before.used} of {before.limit} {metric} were used", (before.exchange.id,))

    def full(self, call: SpendCall) -> CheckFailure | None:
        """Return evidence that what the call adds did not fit the slots that were free.

        What is used grows within a month, and is freed by nothing but a scan that is narrowed (U62). Where a
        request may be granted in part (U64), what was not done fails for certain only where no slot is free.
        """
        around = None if call.spend not in ADDS else self._slots_around(call)
        if around is None or around[0].limit is None:
            return None
        before, least = around[0], self.tracked.wanted(call)
        undone = call.check > 5 or call.exchange.dry_run
        free = around[0].limit - before.used
        if not least or free >= least or (free > 0 and undone and not self.refuses_whole):
            return None
        says = f"{before.used} of {before.limit} slots were used, and it adds {least} at least"
        return CheckFailure(5, says, (before.exchange.id,))

    def _slots_around(self, call: SpendCall) -> tuple[SlotStatement, SlotStatement] | None:
        """Return the readings of slots around a call, where none was freed between them."""
        around = self.slots.around(call)
        if around is None or not self.activity.alone:
            return None
        before, after = around
        narrowed = self.tracked.patched.possibly(before.low, call.high)
        same = (after.ends, after.limit) == (before.ends, before.limit)
        return around if same and not narrowed else None

    @cached_property
    def refuses_whole(self) -> bool:
        """Whether keywords are never granted in part (U64): some were refused where one would fit."""
        if not self.options.may_be("over_slots", "partial"):
            return True
        for refused in self.activity.refusals:
            words = refused.body.get("keywords")
            if refused.check != 5 or refused.spend != "keywords" or not isinstance(words, list):
                continue
            around = self._slots_around(refused)
            if around is None or around[1].limit is None:
                continue
            if self.tracked.requested(refused)[1] // max(1, len(words)) <= around[1].limit - around[1].used:
                return True
        return False

    @cached_property
    def cooling_kinds(self) -> list[CooldownInterpretation]:
        """The readings of U46 that what was accepted and refused leaves."""
        return readings_left(self.cooled)

    def cooling(self, call: SpendCall) -> CheckFailure | None:
        """Return evidence that the same thing was accepted so short a time ago that it cools (S65).

        Under every reading of U46 and U91 that is left: its job was seen done before the call, if the
        cooldown may begin then, and no other that may have failed can have cleared it.
        """
        groups, low, high = self.cooled, call.low, call.high
        length = groups.lengths.get(call.spend)
        if not length or not call.domain or not self.clock.rate:
            return None
        for work in groups.works[call.spend]:
            span = high - work.low
            if work.domain != call.domain or not work.sure or work.high >= low:
                continue
            if span * groups.rate >= length - groups.slack(span) or not groups.unfailed(work, high):
                continue
            ran = call.spend in JOBS and groups.fate(work).done >= low
            if not (ran and any(kind.begins == "finish" for kind in self.cooling_kinds)):
                if not groups.applies(call.spend) or (groups.clears and self._may_be_cleared(call)):
                    return None
                says = f"it had been accepted {format_millis(span * groups.rate)} before, and cools for "
                return CheckFailure(6, f"{says}{format_millis(length)}", (work.exchange.id,))
        return None

    def _may_be_cleared(self, call: SpendCall) -> bool:
        """Return whether a run that may have failed can have cleared what cools, other domains' too (U46)."""
        together = any(kind.scope == "account" for kind in self.cooling_kinds)
        earlier = (work for work in self.cooled.works[call.spend] if work.low <= call.high)
        return any(
            self.cooled.unfailed(work, call.high) is not True
            for work in earlier
            if together or work.domain == call.domain
        )

    def reported(self, call: SpendCall) -> Iterator[CheckFailure]:
        """Return what dry runs of the very same call, one before and one after, both show to fail.

        A plan or a subscription that fails on both sides failed between. An allowance or slots may have been
        mended by time, and failed again only by what was done in between; so nothing may have been.
        """
        reports = self.reports.get(subject_of(call.exchange))
        around = None if reports is None else reports.around(call)
        if around is None or not self.activity.alone:
            return
        before, after = around
        still = call.check > 0 and not self.activity.changed.possibly(before.low, after.high)
        for check in (1, 2, 4, 5) if still else (1, 2):
            if check in (before.failing or ()) and check in (after.failing or ()):
                name = rule_of(check).removeprefix("guards.")
                says = f"dry runs of the same before and after show check {check}, {name}, to fail"
                yield CheckFailure(check, says, (before.exchange.id, after.exchange.id))
