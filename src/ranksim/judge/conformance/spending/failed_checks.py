"""Which of the six checks certainly failed while a call was decided, and by what evidence (S59-S65).

Only what holds under every choice that is still open fails for certain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ranksim.core.clock import Micros, format_millis
from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF, Spend
from ranksim.core.rules.terms import NAMES_CAPABILITY
from ranksim.judge.conformance.history.fields import body_of
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import (
    ADDS,
    JOBS,
    AccountActivity,
    DryRunReport,
    JobsUnderWay,
    NoActivity,
    RefusedSpend,
    SpendWork,
    minds,
)
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups, CooldownInterpretation
from ranksim.judge.conformance.spending.cooldowns import readings_left
from ranksim.judge.conformance.spending.cost import refundable
from ranksim.judge.conformance.spending.quotas import metric_of
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.spend_parsing import domain_of, spend_of, subject_of
from ranksim.judge.conformance.spending.statements import (
    Bracket,
    BusinessClock,
    CostStatement,
    MeterStatement,
    SlotStatement,
)
from ranksim.judge.conformance.verdict.options import Options

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


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What came of a call that wanted to spend: refused by `check`, or 0 when it was granted or joined."""

    check: int
    spend: str
    domain: str
    low: Micros
    high: Micros
    exchange: Observation
    joined: bool = False

    @classmethod
    def of_refusal(cls, refused: RefusedSpend) -> CheckOutcome:
        """See a refusal."""
        return cls(refused.check, refused.spend, refused.domain, refused.low, refused.high, refused.exchange)

    @classmethod
    def of_work(cls, work: SpendWork) -> CheckOutcome:
        """See what was granted; a job that may have been begun elsewhere was joined perhaps."""
        return cls(0, work.spend, work.domain, work.low, work.high, work.exchange, not work.sure)

    @classmethod
    def of_other(cls, exchange: Observation) -> CheckOutcome:
        """See a refusal that is of no check."""
        body = body_of(exchange)
        spend, domain = spend_of(exchange, body), domain_of(body, {})
        return cls(len(CHECK_OF) + 1, spend, domain, exchange.sent, exchange.received, exchange)

    @property
    def says(self) -> str:
        """Return the outcome in a word."""
        if self.check:
            return self.exchange.code
        return "granted or joined" if self.joined else "granted"


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A check that certainly failed throughout a call, and the exchanges that show it."""

    check: int
    says: str
    ids: tuple[str, ...]


class FailedChecks:
    """Tells which checks certainly failed throughout a call."""

    def __init__(self, activity: AccountActivity, clock: BusinessClock, options: Options) -> None:
        self.activity, self.clock, self.options = activity, clock, options
        self.health = Bracket([(h.exchange.sent, h.exchange.received, h) for h in activity.health])
        self.entitled = Bracket([(e.exchange.sent, e.exchange.received, e) for e in activity.entitled])
        self.cost = Bracket([(c.low, c.high, c) for c in activity.cost if c.settled is not None])
        self.spent = Bracket([(c.low, c.high, c) for c in activity.cost if c.settled is None])
        self.running = JobsUnderWay(activity)
        self.meters = {
            metric: Bracket([(m.low, m.high, m) for m in statements if m.ends is not None])
            for metric, statements in activity.meters.items()
        }
        self.metrics = {spend.label: metric_of(activity, spend.label) for spend in Spend}
        self.lacking = self._learn_lacking()
        self.quiet = NoActivity(activity)
        self.cooled = CooldownGroups(activity, clock.rate, options)
        self.slots = Bracket([(s.low, s.high, s) for s in activity.slots if s.ends is not None])
        self.tracked = SlotBounds(activity)
        self.refuses_whole = self._learn_refuses_whole()
        self.refundable = {work.exchange.index: work.low for work in refundable(activity)}
        self.refunded = sorted(self.refundable.values())
        grouped: dict[tuple[object, ...], list[tuple[Micros, Micros, DryRunReport]]] = {}
        for report in activity.reports:
            grouped.setdefault(subject_of(report.exchange), []).append((report.low, report.high, report))
        self.reports: dict[tuple[object, ...], Bracket[DryRunReport]] = {
            subject: Bracket(statements) for subject, statements in grouped.items()
        }

    def _learn_lacking(self) -> dict[tuple[str, str], Observation]:
        """Remember what was once refused as entitlement_required, by operation and domain.

        Scans are left out: theirs may be the dimensions of one scan (U59). A cap may be of one domain (U47).
        """
        stated: list[RefusedSpend | DryRunReport] = [*self.activity.refusals, *self.activity.reports]
        refused = [r for r in stated if r.check == 1]
        return {(r.spend, r.domain): r.exchange for r in refused if r.spend and r.spend != "scans"}

    def of(self, outcome: CheckOutcome) -> Iterator[CheckFailure]:
        """Return the checks that certainly failed while a call was under way."""
        for failure in (self.capability(outcome), self.unhealthy(outcome.low, outcome.high)):
            if failure is not None:
                yield failure
        if outcome.spend in JOBS or minds(self.activity, outcome.spend, 3, self.options):
            free = outcome.spend in ADDS  # which passes no ceiling that is only reached (U48)
            ceiling = self.at_ceiling(outcome.low, outcome.high, outcome.exchange, above=free)
            if ceiling is not None:
                yield ceiling
        for failure in (self.exhausted(outcome), self.full(outcome)):
            if failure is not None:
                yield failure
        yield from self.reported(outcome)

    def capability(self, outcome: CheckOutcome) -> CheckFailure | None:
        """Return evidence that the plan lacks what the call needs.

        What was refused for this once is refused as long as entitlements read the same on both sides. Names
        of capabilities are the deployment's own (U60); only a policy that states them can be relied on. But a
        plan that lists none at all, and for which another operation was refused, has none of any name.
        """
        before, after = self.entitled.before(outcome.low), self.entitled.after(outcome.high)
        if before is None or after is None or before.capabilities != after.capabilities:
            return None
        if not self.activity.alone or before.capabilities is None:
            return None
        needed = self._needed(outcome.spend, before.capabilities)
        if needed and needed not in before.capabilities:
            return CheckFailure(1, f"the plan has no {needed}", (before.exchange.id,))
        if outcome.spend in NEEDED and not before.capabilities:
            others = (
                seen for (spend, _), seen in self.lacking.items() if spend in NEEDED.keys() - {outcome.spend}
            )
            other = next((seen for seen in others if self._same_plan(seen, before.capabilities)), None)
            if other is not None:
                says = "the plan lists no capability, and another operation was refused for it"
                return CheckFailure(1, says, (before.exchange.id, other.id))
        learnt = self.lacking.get((outcome.spend, outcome.domain))
        if learnt is None or learnt is outcome.exchange or not self._same_plan(learnt, before.capabilities):
            return None
        return CheckFailure(
            1, f"{outcome.spend} was refused as entitlement_required on this plan", (learnt.id,)
        )

    def _same_plan(self, exchange: Observation, capabilities: frozenset[str]) -> bool:
        before, after = self.entitled.before(exchange.sent), self.entitled.after(exchange.received)
        return (
            before is not None
            and after is not None
            and before.capabilities == after.capabilities == capabilities
        )

    def _needed(self, spend: str, listed: frozenset[str]) -> str:
        """Return the name that a policy states for what a call needs; "" where the plan lists other names."""
        catalogue = self.options.policy.catalogue
        operation = {kind.label: kind for kind in Spend}.get(spend)
        if operation is None or not self.options.names_capabilities:
            return ""
        if operation not in NAMES_CAPABILITY and self.options.candidates("checks_apply") != ("all",):
            return ""
        if not listed.issubset(catalogue.capability_of.values()):
            return ""
        return str(catalogue.capability_for(operation.label))

    def unhealthy(self, low: Micros, high: Micros) -> CheckFailure | None:
        """Return evidence that the subscription was past due on both sides of a call (S61); others: U57."""
        before, after = self.health.before(low), self.health.after(high)
        if before is None or after is None or before.status != after.status:
            return None
        pinned = self.options.default("inactive_statuses") if self.options.pinned("inactive_statuses") else ()
        if before.status == PAST_DUE or before.status in pinned:
            return CheckFailure(2, f"the account is {before.status}", (before.exchange.id, after.exchange.id))
        return None

    def at_ceiling(
        self, low: Micros, high: Micros, own: Observation | None = None, *, above: bool = False
    ) -> CheckFailure | None:
        """Return evidence that the month's settled cost had reached the ceiling, or was `above` it.

        In a month it never falls, but for what was given back of other jobs than the call's `own` (U49). What
        is reserved falls alone while nothing is accepted: what is reserved after it was so at the call.
        """
        before = self.cost.before(low)
        if before is None:
            return None if above else self._spent_up(low, high, own)
        if before.settled is None or before.ceiling is None or before.ends is None:
            return None
        reserved = self._still_reserved(before, high)
        sure = before.settled + reserved - before.blur - above
        if sure < before.ceiling or not self._same_month(before, high):
            return None
        if bisect_right(self.refunded, high) > (own is not None and own.index in self.refundable):
            return None
        says = f"{before.settled / 1_000_000} of {before.ceiling / 1_000_000} USD had been settled"
        says += f", and {reserved / 1_000_000} USD was reserved to the end of it" if reserved else ""
        return CheckFailure(3, says, (before.exchange.id,))

    def _still_reserved(self, before: CostStatement, high: Micros) -> int:
        """Return what surely was reserved from a reading to the one after a call, where it counts (U96)."""
        after = self.cost.after(high)
        if after is None or not after.reserved or not self.quiet.between(before.low, after.high):
            return 0
        counts = before.spent is not None and before.spent - (before.settled or 0) > before.apart
        return max(0, after.reserved - after.apart) if counts and self.activity.alone else 0

    def _spent_up(self, low: Micros, high: Micros, own: Observation | None) -> CheckFailure | None:
        """Return the same evidence where one amount is told: what is spent, or reserved for what runs.

        With no job under way nothing of it is reserved, nor will be given back.
        """
        before, after = self.spent.before(low), self.spent.after(high)
        if before is None or after is None or before.spent is None or before.ceiling is None:
            return None
        if before.spent < before.ceiling or before.ends is None or not self.activity.alone:
            return None
        if (after.ends, after.ceiling) != (before.ends, before.ceiling):
            return None
        begun = own is not None and any(work.exchange is own for work in self.activity.works)
        if self.running.within(before.low, high, int(begun)):
            return None
        says = (
            f"{before.spent / 1_000_000} of {before.ceiling / 1_000_000} USD had been spent, and no job ran"
        )
        return CheckFailure(3, says, (before.exchange.id,))

    def _same_month(self, before: CostStatement | MeterStatement, high: Micros) -> bool:
        """Return whether the period of a statement surely lasted to the end of a call."""
        if isinstance(before, CostStatement):
            after: CostStatement | MeterStatement | None = self.cost.after(high)
            same = isinstance(after, CostStatement) and after.ceiling == before.ceiling
        else:
            after = self.meters[before.metric].after(high)
            same = isinstance(after, MeterStatement) and after.limit == before.limit
        return after is not None and same and after.ends == before.ends

    def exhausted(self, outcome: CheckOutcome) -> CheckFailure | None:
        """Return evidence that the allowance was used up: nothing gives units back but failed jobs (U50).

        Of what jobs consume, a reading after the call says the same where nothing was accepted in between.
        """
        metric = self.metrics.get(outcome.spend, "")
        if outcome.spend == "keywords":
            return None  # words that stand in the list already ask for nothing
        meters = self.meters.get(metric)
        before = None if meters is None else meters.before(outcome.low)
        if before is None or before.limit is None or before.used < before.limit:
            return None
        refunds = self.options.candidates("quota_refund") != ("never",)
        jobs = any(work.spend in JOBS for work in self.activity.works if self._consumes(work, metric))
        if not self._same_month(before, outcome.high):
            return None
        if refunds and jobs and not self._still_used_up(before, outcome.high):
            return None
        return CheckFailure(4, f"{before.used} of {before.limit} {metric} were used", (before.exchange.id,))

    def _still_used_up(self, before: MeterStatement, high: Micros) -> bool:
        """Return whether a meter reads used up after a call, too, and nothing can have been taken since."""
        after = self.meters[before.metric].after(high)
        if after is None or after.limit is None or after.used < after.limit:
            return False
        return self.activity.alone and self.quiet.between(before.low, after.high)

    def full(self, outcome: CheckOutcome) -> CheckFailure | None:
        """Return evidence that what the call adds did not fit the slots that were free.

        What is used grows within a month, and is freed by nothing but a scan that is narrowed (U62). Where a
        request may be granted in part (U64), what was not done fails for certain only where no slot is free.
        """
        before = self._slots_around(outcome.low, outcome.high)
        if outcome.spend not in ADDS or before is None or before.limit is None:
            return None
        least = self.tracked.wanted(outcome.spend, outcome.exchange, outcome.low, outcome.high)
        undone = outcome.check > 5 or outcome.exchange.dry_run
        in_part = undone and not self.refuses_whole
        room = 0 if in_part else least - 1
        if not least or before.limit - before.used > room:
            return None
        says = f"{before.used} of {before.limit} slots were used, and it adds {least} at least"
        return CheckFailure(5, says, (before.exchange.id,))

    def _slots_around(self, low: Micros, high: Micros) -> SlotStatement | None:
        """Return the reading of slots before a call, where none was freed from then to one after the call."""
        before, after = self.slots.before(low), self.slots.after(high)
        if before is None or after is None or not self.activity.alone:
            return None
        if (after.ends, after.limit) != (before.ends, before.limit):
            return None
        narrowed = any(
            patch.sent <= high and (not patch.ok or patch.received >= before.low)
            for patch in self.activity.patches
        )
        return None if narrowed else before

    def _learn_refuses_whole(self) -> bool:
        """Return whether keywords are never granted in part (U64): some were refused where one would fit."""
        if "partial" not in self.options.candidates("over_slots"):
            return True
        for refused in self.activity.refusals:
            words, after = refused.body.get("keywords"), self.slots.after(refused.high)
            if refused.check != 5 or refused.spend != "keywords" or not isinstance(words, list):
                continue
            if self._slots_around(refused.low, refused.high) is None or after is None or after.limit is None:
                continue
            _, most = self.tracked.of_words(refused.body, {}, refused.low, refused.high)
            if most // max(1, len(words)) <= after.limit - after.used:
                return True
        return False

    @cached_property
    def cooling_kinds(self) -> list[CooldownInterpretation]:
        """The readings of U46 that what was accepted and refused leaves."""
        return readings_left(self.cooled)

    def cooling(self, outcome: CheckOutcome) -> CheckFailure | None:
        """Return evidence that the same thing was accepted so short a time ago that it cools (S65).

        Under every reading of U46 and U91 that is left: its job was seen done before the call, if the
        cooldown may begin then, and no other that may have failed can have cleared it.
        """
        groups, low, high = self.cooled, outcome.low, outcome.high
        length = groups.lengths.get(outcome.spend)
        if not length or not outcome.domain or not self.clock.rate or not groups.minded(outcome.spend):
            return None
        finish = outcome.spend in JOBS and any(kind.begins == "finish" for kind in self.cooling_kinds)
        same = [
            work for work in groups.works[outcome.spend] if work.domain == outcome.domain and work.low <= high
        ]
        together = any(kind.scope == "account" for kind in self.cooling_kinds)  # with other domains' (U46)
        cleared_by = [work for work in groups.works[outcome.spend] if work.low <= high] if together else same
        for work in same:
            span = high - work.low
            if not work.sure or work.high >= low or span * groups.rate >= length - groups.slack(span):
                continue
            if groups.unfailed(work, high) is not True or (finish and groups.fate(work).done >= low):
                continue
            if groups.clears and any(groups.unfailed(other, high) is not True for other in cleared_by):
                continue
            says = f"it had been accepted {format_millis(span * groups.rate)} before, and cools for "
            return CheckFailure(6, f"{says}{format_millis(length)}", (work.exchange.id,))
        return None

    def _consumes(self, work: SpendWork, metric: str) -> bool:
        return self.metrics.get(work.spend) == metric

    def reported(self, outcome: CheckOutcome) -> Iterator[CheckFailure]:
        """Return what dry runs of the very same call, one before and one after, both show to fail.

        A plan or a subscription that fails on both sides failed between. An allowance or slots may have been
        mended by time, and failed again only by what was done in between; so nothing may have been.
        """
        reports = self.reports.get(subject_of(outcome.exchange))
        before = None if reports is None else reports.before(outcome.low)
        after = None if reports is None else reports.after(outcome.high)
        if before is None or after is None or not self.activity.alone:
            return
        if before.failing is None or after.failing is None:
            return
        still = outcome.check > 0 and self.quiet.between(before.low, after.high)
        for check in (1, 2, 4, 5) if still else (1, 2):
            if check in before.failing and check in after.failing:
                name = rule_of(check).removeprefix("guards.")
                says = f"dry runs of the same before and after show check {check}, {name}, to fail"
                yield CheckFailure(check, says, (before.exchange.id, after.exchange.id))
