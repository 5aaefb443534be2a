"""Which plan fits a portfolio: the answer, in rows and in words."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.clock import Micros
from ranksim.core.contract.policy import Policy
from ranksim.planner.capacity.bursts import BURST, NO_STARTS, Burst, put_off
from ranksim.planner.capacity.growth import (
    MONTHS,
    GrownMonth,
    grown_domains,
    growth_sentence,
    growth_verdict,
    months_view,
    when_view,
)
from ranksim.planner.capacity.later import LATER, LaterSizes, later_sentence, later_view
from ranksim.planner.capacity.limits import CAPABILITY_OF, MOST, SPEND, Limit
from ranksim.planner.capacity.plan_size import Size, add_ons_text, cheapest, factor_text, plan_text, used_text
from ranksim.planner.capacity.workload import Workload
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.plans import UNKNOWN
from ranksim.report.readings import NO_READINGS, READINGS, Readings
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAKEN = (
    "Counted as assumed, and not tried otherwise: how long clients wait (U6), the ceiling (U48), "
    "capabilities (U60), held slots (U63) and allowances (U106)."
)


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit of a plan, `now` and `grown`, and how far it alone allows the domains to grow.

    `breaks_at` is the first number of domains that is too many, None without end, and `factor` that number
    by the domains there are. `day` and `grown_day` are the days of the billing month, counted from 1, on
    which the first refusal falls; None where there is none.
    """

    now: Limit
    grown: Limit
    breaks_at: int | None
    factor: float | None
    day: int | None
    grown_day: int | None

    def row(self) -> Row:
        """The limit as plain data."""
        return {
            "name": self.now.name,
            "refusal": self.now.refusal,
            "quantity": self.now.quantity,
            "there": self.now.there,
            "need": self.now.need,
            "used": self.now.used if self.now.there else None,
            "need_grown": self.grown.need,
            "used_grown": self.grown.used if self.grown.there else None,
            "breaks_at": self.breaks_at,
            "factor": self.factor,
            "day": self.day,
            "day_grown": self.grown_day,
        }


@dataclass(frozen=True, slots=True)
class PlanFit:
    """One plan: what it comes to now and grown, and the use of each limit, what breaks first on top.

    `price` is that of the plan alone (µUSD a month), None where the catalogue does not know prices.
    """

    plan: str
    price: int | None
    now: Size
    grown: Size
    limits: tuple[LimitUse, ...] = ()

    @property
    def first(self) -> LimitUse | None:
        """The limit that breaks first, None where none ever does."""
        return self.limits[0] if self.limits[0].breaks_at is not None else None

    def row(self) -> Row:
        """The plan as plain data; money is µUSD."""
        first = {} if self.first is None else self.first.row()
        return {
            "plan": self.plan,
            "plan_price_uusd": self.price,
            **self.now.row(""),
            **self.grown.row("_grown"),
            "breaks_first": first.get("name"),
            **{name: first.get(name) for name in ("refusal", "factor", "breaks_at", "day", "day_grown")},
        }


PLANS = TableSpec(
    others={
        **dict.fromkeys(("plan_price_uusd", "price_uusd", "price_grown_uusd"), "money"),
        **dict.fromkeys(("provider_cost_uusd", "provider_cost_grown_uusd"), "money"),
        **dict.fromkeys(("factor", "breaks_at", "burst_refused", "burst_given_up"), "count"),
        **dict.fromkeys(("burst_late", "burst_late_grown"), "duration"),
    },
    keys=("plan",),
    metrics=(
        "plan_price_uusd", "price_uusd", "price_grown_uusd", "provider_cost_uusd", "provider_cost_grown_uusd",
        "factor", "breaks_at", "burst_refused", "burst_given_up", "burst_late",
    ),
)  # fmt: skip
LIMITS = TableSpec(
    others={"used": "share", "used_grown": "share"}, keys=("plan", "name"), metrics=("used", "used_grown")
)


@dataclass(frozen=True, slots=True, repr=False)
class Fit(ReadyAnswer):
    """The answer: every plan of the catalogue, the cheapest first, and what the starts of one night meet.

    Where some of these are given up, now or grown, `enough` is the spread (µs) and the number of keys that
    start them all, None where no such thing does. `growth` is the largest factor, and `months` are those of a
    growth in time, of which `load` is the first month, under `policy`, and `latest` the one that is the
    largest first; `later` is without growth what becomes of the plans at each time after the beginning.
    """

    kind = "capacity fit"
    title = "Which plan fits"
    TABLES = MappingProxyType(
        {"answer": PLANS, "limits": LIMITS, "months": MONTHS, "later": LATER, "readings": READINGS}
    )

    load: Workload
    policy: Policy
    latest: Workload
    latest_policy: Policy
    growth: float
    plans: tuple[PlanFit, ...]
    burst: Burst = NO_STARTS
    burst_grown: Burst = NO_STARTS
    enough: tuple[Micros | None, int | None] = (None, None)
    readings: Readings = NO_READINGS
    months: tuple[GrownMonth, ...] = ()
    later: tuple[LaterSizes, ...] = ()

    @property
    def plots(self) -> tuple[str, ...]:
        """The use of each limit; before it, of a growth in time, until when each plan fits."""
        return ("growth", "limits") if self.months else ("limits",)

    @property
    def largest(self) -> Workload:
        """The workload as it has grown."""
        return self.latest.of_domains(grown_domains(self.load.domains, self.growth))

    def cheapest(self, grown: bool = False) -> PlanFit | None:
        """The plan with the lowest price a month among those that fit, None where none does.

        Of plans whose prices are not known, which come last, it is the one there is, else the first.
        """
        name = cheapest(self._sizes(grown), self.load.plan)
        return next((plan for plan in self.plans if plan.plan == name), None)

    def _sizes(self, grown: bool) -> dict[str, Size]:
        return {plan.plan: plan.grown if grown else plan.now for plan in self.plans}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken as given, and what is not counted."""
        used = "What is used of the month so far is counted, by what is planned for the rest of it."
        unpriced = (
            "The catalogue does not know what every plan costs, as the API shows no prices: write them into "
            "it, or name another catalogue (--catalogue)."
        )
        late = [self._bursts] if self._bursts and not self._given_up else []
        notes = [self.question, *self.readings.deciding_sentences(), *late, *self.load.notes]
        notes += [f"Without growth: {self._later}"] if self.months and self._later else []
        notes += [] if self.load.used is None else [used]
        notes += [unpriced] if any(plan.price is None for plan in self.plans) else []
        return (*notes, *self.readings.other_sentences(), TAKEN)

    @property
    def question(self) -> str:
        """What was asked about: what is tracked, what is done, and the growth."""
        load = self.load
        alike: Counter[tuple[str, Micros]] = Counter()
        for work in load.work:
            alike[work.operation, work.gap] += math.ceil(work.each)
        done = [f"{each:,} × {kind} every {units.duration(gap)}" for (kind, gap), each in alike.items()]
        of = f"The account {load.name}" if load.name else "A portfolio"
        grown = "" if self.growth == 1 else f"; and {factor_text(self.growth)} of it"
        return (
            f"{of}: {units.many(load.domains, 'domain')}, {units.many(load.keywords, 'keyword')} in "
            f"{units.many(load.slots, 'slot')}; {', '.join(done)}{grown}."
        )

    @property
    def verdict(self) -> str:
        """Which plan fits, and which one grown or later: what other assumptions may change."""
        choices = [plan_text(then.plan, then.sizes) or "no plan" for then in self.later]
        before = plan_text(cheapest(self._sizes(False), self.load.plan), self._sizes(False)) or "no plan"
        later = [now for was, now in pairwise((before, *choices)) if was != now]
        return ", then ".join((self._verdict_now, *later))

    @property
    def _verdict_now(self) -> str:
        both = (self._sizes(grown) for grown in (False, True))
        now, then = (plan_text(cheapest(sizes, self.load.plan), sizes) for sizes in both)
        if self.months:
            fits = f"{f'the plan {now}' if now else 'no plan'} fits; "
            return f"{fits if now or self._ever else ''}{growth_verdict(self.months)}"
        if not now:
            return "no plan fits"
        if self.growth == 1:
            return f"the plan {now} fits"
        grown = "it does too" if then == now else f"{then or 'no plan'} does"
        return f"the plan {now} fits, and at {factor_text(self.growth)} {grown}"

    @property
    def sentence(self) -> str:
        """The answer in a few sentences."""
        best = self.cheapest()
        lost = self._bursts if self._given_up else ""
        if best is None:
            last = max(self.plans, key=self._nearness)
            ever = f" in any of {len(self.months)} months" if self.months and not self._ever else ""
            later = growth_sentence(self.months, None) if self.months else self._later
            return f"No plan fits{ever}. The nearest is {last.plan}: {_broken(last)}. {later} {lost}".strip()
        helped = f" with {add_ons_text(best.now.helps)}" if best.now.helps else ""
        fits = (
            f"The plan {best.plan}{helped} fits, {best.now.for_price}; the work costs the provider "
            f"{units.usd(best.now.cost)}."
        )
        later = "" if self.months else self._later
        return " ".join(part for part in (fits, self._lacking, self._growth(best), later, lost) if part)

    @property
    def _lacking(self) -> str:
        """What the plan that the account has lacks, where that is another, and which size it would carry."""
        own = next((plan for plan in self.plans if plan.plan == self.load.plan), None)
        lacking = [use.now for use in own.limits if use.now.exceeded and use.now.there] if own else []
        if own is None or own.now.fits or not lacking:
            return ""
        needs = ", ".join(
            f"{limit.name} ({units.write(limit.quantity, limit.need)} of "
            f"{units.write(limit.quantity, limit.there)})"
            for limit in lacking
        )
        most = (own.first.breaks_at or 1) - 1 if own.first else 0
        carries = f"; it carries {units.many(most, 'domain')}" if most else ""
        return f"Its plan {own.plan} lacks {needs}{carries}."

    @property
    def _later(self) -> str:
        """What becomes of the plans with what a timeline sets."""
        return later_sentence(self.later, self._sizes(False))

    @property
    def _given_up(self) -> bool:
        """Whether what the rate limit puts off is lost, and so belongs to the answer."""
        return bool(self.burst.given_up or self.burst_grown.given_up)

    @property
    def _ever(self) -> bool:
        """Whether in any month a plan fits."""
        return any(month.plan for month in self.months)

    def _nearness(self, plan: PlanFit) -> tuple[float, int, bool, int]:
        """How far a plan that does not fit would reach; of equals what lacks least."""
        reach = MOST if plan.first is None else plan.first.factor or 0
        lacking = sum(use.now.exceeded for use in plan.limits)
        return reach, -lacking, plan.plan == self.load.plan, -(plan.price or 0)

    def _growth(self, best: PlanFit) -> str:
        factor = factor_text(self.growth)
        breaks = "nothing breaks" if best.first is None else _broken(best)
        if self.months:
            return growth_sentence(self.months, best.plan)
        if self.growth == 1:
            return f"As domains are added, {breaks}."
        if best.grown.fits and not best.grown.helps:
            return f"At {factor} it still fits; {breaks}."
        if best.grown.fits:
            return f"At {factor} it wants {add_ons_text(best.grown.helps)}, {best.grown.for_price}; {breaks}."
        other = self.cheapest(grown=True)
        then = "no plan does" if other is None else f"{other.plan} does, {other.grown.for_price}"
        return f"At {factor} it does not, and {then}: {breaks}."

    @property
    def _bursts(self) -> str:
        """What the rate limit puts off."""
        return put_off(self.latest, dict.fromkeys((self.burst, self.burst_grown)), *self.enough)

    def views(self) -> list[View]:
        """The answer as tables for people: a row a plan, what breaks first, and the use of each limit."""
        in_time = [when_view(self.months), months_view(self.months)] if self.months else []
        later = [later_view(self.later)] if self.later else []
        return [*in_time, self._plans_view(), *later, self._first_view(), self._limits_view()]

    @property
    def tables(self) -> Tables:
        """A row a plan, and `limits` of all plans, what breaks first before the rest."""
        burst = {
            f"burst_{name}{size}": getattr(starts, name)
            for size, starts in (("", self.burst), ("_grown", self.burst_grown))
            for name in ("refused", "given_up", "late")
        }
        uses = [{"plan": plan.plan, **use.row()} for plan in self.plans for use in plan.limits]
        plans = [plan.row() | burst for plan in self.plans]
        months = {"months": [row for month in self.months for row in month.rows()]} if self.months else {}
        later = {"later": [row for then in self.later for row in then.rows()]} if self.later else {}
        return {"answer": plans, "limits": uses, **months, **later, **self.readings.tables()}

    @property
    def _factors(self) -> str:
        """The sizes that a table shows, of a growth in time with the months whose work they have."""
        first, last = (f" of month {month.numbered}" if month else "" for month in self._ends)
        return f"×1{first}" if self.growth == 1 else f"×1{first} → {factor_text(self.growth)}{last}"

    @property
    def _ends(self) -> tuple[GrownMonth | None, GrownMonth | None]:
        """The first month of a growth in time, and the one that is the largest first."""
        if not self.months:
            return None, None
        return self.months[0], max(self.months, key=lambda month: month.factor)

    def _named(self, plan: PlanFit) -> str:
        return f"{plan.plan} (now)" if plan.plan == self.load.plan else plan.plan

    def _plans_view(self) -> View:
        rows = tuple(
            (
                self._named(plan),
                _both(plan.now.word, plan.grown.word),
                _both(_price(plan, plan.now), _price(plan, plan.grown)),
                _both(units.usd(plan.now.cost), units.usd(plan.grown.cost)),
            )
            for plan in self.plans
        )
        of_work = "the month's work" if self.months else "the work of a month of 31 days"
        note = (
            "The price is the invoice, with add-ons where these make the plan fit, which its limits below "
            f"then have, too; the provider cost is what {of_work} costs whoever runs the service, which "
            "the plan's ceiling bounds."
        )
        headings = ("plan", "fits", "price a month", "provider cost")
        return View(f"Plans, at {self._factors}", headings, 2, rows, note)

    def _first_view(self) -> View:
        rows = []
        for plan in self.plans:
            first = plan.first
            if first is None or first.factor is None:
                rows.append((self._named(plan), *[units.text(None)] * 4))
                continue
            day = units.text(first.day or first.grown_day)
            then = f" at {factor_text(self.growth)}" if not first.day and first.grown_day else ""
            broken = (
                first.now.name,
                factor_text(first.factor),
                units.count(first.breaks_at or 0),
                day + then,
            )
            rows.append((self._named(plan), *broken))
        last = self._ends[1]
        work = f" with what is done in month {last.numbered}" if last else ""
        note = (
            f"The first size that loses work{work}, in times of the domains there are; days are those of the "
            "billing month."
        )
        headings = ("plan", "what breaks first", "breaks at", "domains", "from day")
        return View("What breaks first", headings, 2, tuple(rows), note)

    def _limits_view(self) -> View:
        names = list(dict.fromkeys(use.now.name for plan in self.plans for use in plan.limits))
        by_plan = [{use.now.name: use for use in plan.limits} for plan in self.plans]
        rows = tuple((name, *(_share(uses.get(name)) for uses in by_plan)) for name in names)
        title = f"Use of each limit, at {self._factors}"
        note = (
            f"The limit of {BURST} is the number of domains of which the rate limit lets in every start "
            "before it is given up."
        )
        return View(title, ("limit", *(plan.plan for plan in self.plans)), 1, rows, note)

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        if name == "growth":
            return plots.growth(self.months, ax)
        best = self.cheapest() or self.plans[-1]
        last = self._ends[1]
        work = f", with what is done in month {last.numbered}" if last else ""
        finding = f"{best.plan}: {_broken(best)}{work}"
        return plots.fit([use.row() for use in best.limits], finding, factor_text(self.growth), ax)


# Words


def _broken(plan: PlanFit) -> str:
    """What breaks first, at which size and from which day."""
    first = plan.first
    if first is None or first.factor is None:
        return "nothing breaks"
    name = f"what breaks first is {first.now.name} ({first.now.refusal})"
    when = f", from day {first.day} of a month" if first.day and first.now.name == SPEND else ""
    if first.breaks_at == 1:
        return f"{name}, at any size{when}"
    return f"{name}, at {factor_text(first.factor)} ({units.many(first.breaks_at or 0, 'domain')}){when}"


def _price(plan: PlanFit, size: Size) -> str:
    """The invoice of a month; of a plan that does not fit, without further add-ons."""
    price = plan.price if size.price is None else size.price
    return UNKNOWN if price is None else units.usd(price)


def _both(now: str, grown: str) -> str:
    """Join what is told of both sizes; a unit stands once."""
    return now if now == grown else f"{now.removesuffix(' USD')} → {grown}"


def _share(use: LimitUse | None) -> str:
    """The use of a limit at both sizes; beyond it, how many times."""
    if use is None:
        return "–"
    if not use.now.there:
        return "none there" if use.now.need or use.grown.need else "–"
    if use.now.name.startswith(CAPABILITY_OF):
        return "has it"
    return _both(used_text(use.now.used), used_text(use.grown.used))
