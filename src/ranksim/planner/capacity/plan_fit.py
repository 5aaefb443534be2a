"""Which plan fits a portfolio, what it costs, and what breaks first when the portfolio grows.

Needs and limits are those of `limits.limits`, at the size there is and at so many times its domains, and how
many job starts the rate limit lets in that come at once, before one is given up.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import DAY, Micros
from ranksim.core.contract.located import Located
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import Policy, policy_of, read_catalogue
from ranksim.core.errors import BadInput, no_such
from ranksim.planner.capacity.bursts import BURST, Burst, burst_of, enough_keys, enough_spread, most_domains
from ranksim.planner.capacity.common import expect, micros, number
from ranksim.planner.capacity.limits import (
    MOST,
    RATE,
    SPEND,
    TRACKED,
    Limit,
    allowed_alone,
    check_add_ons,
    limits,
    provider_cost,
)
from ranksim.planner.capacity.planned import workload_of
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.workload import MONTH, Workload
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer, Row, Tables, TableSpec
from ranksim.report.notebook import fragment
from ranksim.report.plans import UNKNOWN
from ranksim.report.tables import View
from ranksim.twin.sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAYS = MONTH // DAY

RESTS_ON = (
    "It rests on what is assumed of rate windows and retries (U1, U4, U6), ceilings and caps (U47, U48), "
    "refused sizes and capabilities (U59, U60), cooldowns (U46), held slots (U63) and allowances (U106)."
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
class Size:
    """What a plan comes to at one size of the portfolio: whether it `fits`, and the money of a month (µUSD).

    `helps` are the add-ons, by count, without which it does not fit; `price` is that of the plan and of all
    add-ons, and None where no add-ons are enough or prices are not known. `cost` is what the work would
    cost the provider.
    """

    domains: int
    fits: bool
    helps: Mapping[str, int]
    price: int | None
    cost: int

    @property
    def word(self) -> str:
        """Whether it fits, in a word or two."""
        return "no" if not self.fits else f"with {_named(self.helps)}" if self.helps else "yes"


@dataclass(frozen=True, slots=True)
class PlanFit:
    """One plan: what it comes to now and grown, and the use of each limit, what breaks first on top.

    `price` is that of the plan alone (µUSD a month), None where the catalogue does not know prices.
    """

    plan: str
    price: int | None
    now: Size
    grown: Size
    limits: tuple[LimitUse, ...]

    @property
    def first(self) -> LimitUse | None:
        """The limit that breaks first, None where none ever does."""
        return self.limits[0] if self.limits[0].breaks_at is not None else None

    def row(self) -> Row:
        """The plan as plain data; money is µUSD."""
        first = self.first
        return {
            "plan": self.plan,
            "plan_price_uusd": self.price,
            "fits": self.now.fits,
            "helps": dict(self.now.helps),
            "price_uusd": self.now.price,
            "provider_cost_uusd": self.now.cost,
            "fits_grown": self.grown.fits,
            "helps_grown": dict(self.grown.helps),
            "price_grown_uusd": self.grown.price,
            "provider_cost_grown_uusd": self.grown.cost,
            "breaks_first": None if first is None else first.now.name,
            "refusal": None if first is None else first.now.refusal,
            "factor": None if first is None else first.factor,
            "breaks_at": None if first is None else first.breaks_at,
            "day": None if first is None else first.day,
            "day_grown": None if first is None else first.grown_day,
            "limits": [use.row() for use in self.limits],
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

    Where some of these are given up, `enough` is the spread (µs) and the number of keys that start them all,
    None where no such thing does.
    """

    kind = "capacity fit"
    title = "Which plan fits"
    plots = ("limits",)
    TABLES = MappingProxyType({"answer": PLANS, "limits": LIMITS})

    load: Workload
    growth: float
    plans: tuple[PlanFit, ...]
    burst: Burst
    burst_grown: Burst
    enough: tuple[Micros | None, int | None] = (None, None)

    def cheapest(self, grown: bool = False) -> PlanFit | None:
        """The plan with the lowest price a month among those that fit, None where none does.

        Of plans whose prices are not known, which come last, it is the one there is, else the first.
        """
        fitting = [plan for plan in self.plans if (plan.grown if grown else plan.now).fits]

        def costs(plan: PlanFit) -> tuple[bool, int, bool]:
            price = (plan.grown if grown else plan.now).price
            return price is None, price or 0, plan.plan != self.load.plan

        return min(fitting, key=costs, default=None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken as given, and what is not counted."""
        used = "What is used of the month so far is counted, by what is planned for the rest of it."
        unpriced = (
            "The catalogue does not know what every plan costs, as the API shows no prices: write them into "
            "it, or name another catalogue (--catalogue)."
        )
        notes = (self.question, *self.load.notes, *(() if self.load.used is None else (used,)))
        unknown = any(plan.price is None for plan in self.plans)
        return (*notes, *((unpriced,) if unknown else ()), RESTS_ON)

    @property
    def question(self) -> str:
        """What was asked about: what is tracked, what is done, and the growth."""
        load = self.load
        alike: Counter[tuple[str, Micros]] = Counter()
        for work in load.work:
            alike[work.operation, work.gap] += math.ceil(work.each)
        done = [f"{each:,} × {kind} every {units.duration(gap)}" for (kind, gap), each in alike.items()]
        of = f"The account {load.name}" if load.name else "A portfolio"
        grown = "" if self.growth == 1 else f"; and {_times(self.growth)} of it"
        return (
            f"{of}: {units.many(load.domains, 'domain')}, {units.many(load.keywords, 'keyword')} in "
            f"{units.many(load.slots, 'slot')}; {', '.join(done)}{grown}."
        )

    @property
    def sentence(self) -> str:
        """The answer in a few sentences."""
        best = self.cheapest()
        if best is None:
            last = max(self.plans, key=self._nearness)
            return f"No plan fits. The nearest is {last.plan}: {_broken(last)}. {self._bursts}".strip()
        helped = f" with {_named(best.now.helps)}" if best.now.helps else ""
        fits = (
            f"The plan {best.plan}{helped} fits, {_for(best.now)}; the work costs the provider "
            f"{_money(best.now.cost)}."
        )
        return " ".join(part for part in (fits, self._beyond(best), self._growth(best), self._bursts) if part)

    def _beyond(self, best: PlanFit) -> str:
        """What the plan has not enough of for what is left out, too, which the notes tell."""
        out = self.load.left_out
        more = {TRACKED: out.slots, SPEND: out.spent}
        short = [
            use.now.name
            for use in best.limits
            if use.now.need + more.get(use.now.name, out.metrics.get(use.now.metric, 0)) > use.now.there
        ]
        return f"With what is left out it does not: {' and '.join(short)} would be too much." if short else ""

    def _nearness(self, plan: PlanFit) -> tuple[float, int, bool, int]:
        """How far a plan that does not fit would reach; of equals what lacks least."""
        reach = MOST if plan.first is None else plan.first.factor or 0
        lacking = sum(use.now.exceeded for use in plan.limits)
        return reach, -lacking, plan.plan == self.load.plan, -(plan.price or 0)

    def _growth(self, best: PlanFit) -> str:
        first, times = best.first, _times(self.growth)
        breaks = "nothing breaks" if first is None else _broken(best)
        if self.growth == 1:
            return f"As domains are added, {breaks}."
        if best.grown.fits and not best.grown.helps:
            return f"At {times} it still fits; {breaks}."
        if best.grown.fits:
            return f"At {times} it wants {_named(best.grown.helps)}, {_for(best.grown)}; {breaks}."
        other = self.cheapest(grown=True)
        then = "no plan does" if other is None else f"{other.plan} does, {_for(other.grown)}"
        return f"At {times} it does not, and {then}: {breaks}."

    @property
    def _bursts(self) -> str:
        """What the rate limit puts off."""
        sizes = [self.burst] if self.burst == self.burst_grown else [self.burst, self.burst_grown]
        if not any(size.refused for size in sizes):
            return ""
        spread = self.burst.spread
        when = f"Started within {units.duration(spread)}" if spread else "Started at one instant"
        put_off = f"{when}, {'; '.join(_put_off(size, self.load) for size in sizes)}."
        over, keys = self.enough
        cures = [f"spread over {units.duration(over)}"] if over is not None else []
        cures += [f"on {units.many(keys, 'key')}"] if keys is not None else []
        if not cures:
            return put_off
        cured = ", or ".join(cures)
        return f"{put_off} {cured[0].upper()}{cured[1:]}, all are started."

    def rows(self) -> list[Row]:
        """One row a plan; `limits` in it has the use of each limit, what breaks first before the rest."""
        return [plan.row() | _burst_row(self.burst, self.burst_grown) for plan in self.plans]

    def views(self) -> list[View]:
        """The answer as tables for people: a row a plan, what breaks first, and the use of each limit."""
        return [self._plans_view(), self._first_view(), self._limits_view()]

    def tables(self) -> Tables:
        """The same as flat tables: `answer`, a row a plan, and `limits` of all plans."""
        plans = [{name: value for name, value in row.items() if name != "limits"} for row in self.rows()]
        for row in plans:
            row |= {name: _named(row[name]) for name in ("helps", "helps_grown")}
        uses = [{"plan": plan.plan, **use.row()} for plan in self.plans for use in plan.limits]
        return {"answer": plans, "limits": uses}

    @property
    def _sizes(self) -> str:
        """The sizes that a table shows."""
        return "×1" if self.growth == 1 else f"×1 → {_times(self.growth)}"

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
        note = (
            "The price is the invoice, with add-ons where these make the plan fit; the provider cost is what "
            "a month's work costs whoever runs the service, which the plan's ceiling bounds."
        )
        headings = ("plan", "fits", "price a month", "provider cost")
        return View(f"Plans, at {self._sizes}", headings, 2, rows, note)

    def _first_view(self) -> View:
        rows = []
        for plan in self.plans:
            first = plan.first
            if first is None or first.factor is None:
                rows.append((self._named(plan), *[units.text(None)] * 4))
                continue
            day = units.text(first.day or first.grown_day)
            then = f" at {_times(self.growth)}" if not first.day and first.grown_day else ""
            broken = (first.now.name, _times(first.factor), units.count(first.breaks_at or 0), day + then)
            rows.append((self._named(plan), *broken))
        note = (
            "The first size that loses work, in times of the domains there are; days are those of the "
            "billing month."
        )
        headings = ("plan", "what breaks first", "breaks at", "domains", "from day")
        return View("What breaks first", headings, 2, tuple(rows), note)

    def _limits_view(self) -> View:
        names = list(dict.fromkeys(use.now.name for plan in self.plans for use in plan.limits))
        by_plan = [{use.now.name: use for use in plan.limits} for plan in self.plans]
        rows = tuple((name, *(_share(uses.get(name)) for uses in by_plan)) for name in names)
        title = f"Use of each limit, at {self._sizes}"
        note = (
            f"The limit of {BURST} is the number of domains of which the rate limit lets in every start "
            "before it is given up."
        )
        return View(title, ("limit", *(plan.plan for plan in self.plans)), 1, rows, note)

    def _repr_html_(self) -> str:
        return fragment(self.sentence, self.notes, self.views())

    def draw(self, name: str = "limits", ax: Axes | None = None) -> Axes:
        """Draw the use of each limit of the cheapest plan that fits. Raises BadInput without matplotlib."""
        from ranksim.planner.capacity import plots

        best = self.cheapest() or self.plans[-1]
        finding = f"{best.plan}: {_broken(best)}"
        return plots.fit([use.row() for use in best.limits], finding, _times(self.growth), ax)


def fit(
    tracked: Portfolio | Scenario | Workload | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    *,
    account: str = "",
    growth: float = 2.0,
    spread: Micros | str | None = None,
    catalogue: str | Path | Catalogue | None = None,
    **done: Any,
) -> Fit:
    """Find for every plan of a catalogue whether it fits a portfolio, and what breaks first as it grows.

    `tracked` is a portfolio, whose fields may be given instead (domains=30, keywords=300), or a scenario or
    its file, of which an `account` is meant (the only one, unless it is named), with fields of what is done
    in place of what its clients do (crawls=2). `policy` is the scenario's unless given, and `catalogue`
    stands in place of the policy's: a file's path, or the name of a shipped one. Grown are the domains,
    `growth` times, and with them all their work. The rank runs of one occasion are started evenly over
    `spread` (µs, or text such as "10m"; at one instant unless the scenario says otherwise), each again after
    a 429. Raises BadInput.
    """
    if isinstance(tracked, str | Path):
        tracked = Scenario.load(tracked)
    fields = tuple(field.name for field in dataclasses.fields(Portfolio))
    for name in done:
        if name not in fields:
            raise BadInput(no_such("argument", name, fields))
    if isinstance(tracked, Scenario):
        policy, tracked = policy or tracked.policy, workload_of(tracked, account, **done)
    elif account:
        raise BadInput("account: only a scenario has accounts; leave it out")
    elif tracked is None:
        tracked = Portfolio(**done)
    elif done:
        raise BadInput(f"{next(iter(done))}: what is asked about says it; leave one out")
    load = tracked.workload if isinstance(tracked, Portfolio) else tracked
    policy = policy_of(policy)
    if isinstance(catalogue, str | Path):
        catalogue = read_catalogue(Located("catalogue", str(catalogue), {}), Path())
    if catalogue is not None:
        policy = policy.model_copy(update={"catalogue": catalogue})
    if spread is not None:
        over = micros("spread", spread)
        expect(over >= 0, "spread", "0 or more", over)
        load = load.over(over)
    number("growth", growth)
    expect(1 <= growth <= 1000, "growth", "a factor from 1 to 1000", growth)
    check_add_ons(load.add_ons, policy)
    grown = load.of_domains(round(load.domains * growth))
    plans = policy.catalogue.plans.values()
    most = most_domains(load, plans, policy)
    plan_fits = [_plan_fit(load, grown, plan, policy, most[plan.name]) for plan in plans]
    plan_fits.sort(key=lambda plan: plan.price or 0)
    now, then = (burst_of(size, policy) for size in (load, grown))
    enough = (enough_spread(load, policy), enough_keys(load, policy)) if now.given_up else (None, None)
    return Fit(load, growth, tuple(plan_fits), now, then, enough)


def _started_together(load: Workload, grown: Workload, most: int | None) -> Iterator[LimitUse]:
    """Yield with how many domains no job start is lost to the rate limit (S104), unless there is no end."""
    if most is None:
        return
    now, then = (Limit(BURST, size.domains, most, "count", RATE) for size in (load, grown))
    day, grown_day = (1 if limit.exceeded else None for limit in (now, then))
    yield LimitUse(now, then, most + 1, (most + 1) / load.domains, day, grown_day)


def _plan_fit(load: Workload, grown: Workload, plan: Plan, policy: Policy, most: int | None) -> PlanFit:
    allowed = allowed_alone(load.of_domains, plan, policy)
    sizes = [limits(size, plan, policy) for size in (load, grown)]
    days = [_first_days(size, plan, policy) for size in (load, grown)]
    uses = [
        LimitUse(
            now=now,
            grown=then,
            breaks_at=None if most == MOST else most + 1,
            factor=None if most == MOST else (most + 1) / load.domains,
            day=day,
            grown_day=grown_day,
        )
        for now, then, most, day, grown_day in zip(*sizes, allowed, *days, strict=True)
    ]
    uses += _started_together(load, grown, most)
    uses.sort(key=lambda use: (MOST if use.breaks_at is None else use.breaks_at, -use.now.used))
    return PlanFit(
        plan.name,
        plan.price if policy.catalogue.knows_price_of(plan.name) else None,
        _size(load, plan, policy, [use.now for use in uses]),
        _size(grown, plan, policy, [use.grown for use in uses]),
        tuple(uses),
    )


def _first_days(load: Workload, plan: Plan, policy: Policy) -> list[int | None]:
    """By limit the first day of the month, from 1, on which more is needed than there is."""
    by_day = [
        [limit.exceeded for limit in limits(load, plan, policy, elapsed=day * DAY)]
        for day in range(1, DAYS + 1)
    ]
    return [
        next((day for day, exceeded in enumerate(column, 1) if exceeded), None)
        for column in zip(*by_day, strict=True)
    ]


def _size(load: Workload, plan: Plan, policy: Policy, needed: Sequence[Limit]) -> Size:
    """What a plan comes to at one size, with the add-ons that it lacks."""
    lacking = [limit for limit in needed if limit.exceeded]
    helps = dict(_add_ons(lacking, policy.catalogue))
    enlarged = {policy.catalogue.add_ons[name].metric for name in helps}
    fits = all(limit.metric in enlarged for limit in lacking)
    bought = {name: load.add_ons.get(name, 0) + helps.get(name, 0) for name in policy.catalogue.add_ons}
    price = (
        policy.catalogue.price_of(plan.name, bought) if policy.catalogue.knows_price_of(plan.name) else None
    )
    cost = provider_cost(load, plan, policy)
    return Size(load.domains, fits, helps if fits else {}, price if fits else None, cost)


def _add_ons(lacking: Sequence[Limit], catalogue: Catalogue) -> Iterator[tuple[str, int]]:
    """For each allowance that is too small, the add-on that makes it large enough for the least money."""
    for limit in lacking:
        sold = [
            (-(-(limit.need - limit.there) // add_on.amount), name, add_on.price)
            for name, add_on in catalogue.add_ons.items()
            if add_on.metric == limit.metric
        ]
        if sold:
            count, name, _ = min(sold, key=lambda offer: (offer[0] * offer[2], offer[1]))
            yield name, count


# Words


def _broken(plan: PlanFit) -> str:
    """What breaks first, at which size and from which day."""
    first = plan.first
    if first is None or first.factor is None:
        return "nothing breaks"
    domains = units.many(first.breaks_at or 0, "domain")
    when = f", from day {first.day} of a month" if first.day and first.now.name == SPEND else ""
    if first.breaks_at == 1:
        return f"what breaks first is {first.now.name} ({first.now.refusal}), at any size{when}"
    return (
        f"what breaks first is {first.now.name} ({first.now.refusal}), at {_times(first.factor)} "
        f"({domains}){when}"
    )


def _price(plan: PlanFit, size: Size) -> str:
    """The invoice of a month; of a plan that does not fit, without further add-ons."""
    price = plan.price if size.price is None else size.price
    return UNKNOWN if price is None else units.usd(price)


def _both(now: str, grown: str) -> str:
    """What is told of both sizes; a unit stands once."""
    return now if now == grown else f"{now.removesuffix(' USD')} → {grown}"


def _for(size: Size) -> str:
    """What a size costs whoever pays the invoice."""
    return "for a price that is not known" if size.price is None else f"for {_money(size.price)} a month"


def _put_off(size: Burst, load: Workload) -> str:
    """What happens to the starts of one occasion, the busiest."""
    what = "rank run" if all(start.kind == "rank_run" for start in load.starts) else "start"
    if not size.refused:
        return f"{units.many(size.starts, what)} meet no rate limit"
    tries = min(start.tries for start in load.starts)
    lost = f" and {size.given_up:,} given up after {tries} tries" if size.given_up else ""
    return (
        f"{units.many(size.starts, what)} meet {units.many(size.refused, 'refusal')} by the rate limit "
        f"(429){lost}, and the last begins {units.duration(size.late)} late"
    )


def _burst_row(size: Burst, grown: Burst) -> Row:
    return {
        "burst_refused": size.refused,
        "burst_given_up": size.given_up,
        "burst_late": size.late,
        "burst_refused_grown": grown.refused,
        "burst_given_up_grown": grown.given_up,
        "burst_late_grown": grown.late,
    }


def _share(use: LimitUse | None) -> str:
    """The use of a limit at both sizes; beyond it, how many times."""
    if use is None:
        return "–"
    if not use.now.there:
        return "none there" if use.now.need else "–"
    first, second = (_used(limit) for limit in (use.now, use.grown))
    return first if first == second else f"{first} → {second}"


def _used(limit: Limit) -> str:
    return units.percent(limit.used) if not limit.exceeded else _times(limit.used)


def _times(factor: float) -> str:
    return f"×{factor:,.0f}" if factor >= 100 else f"×{factor:.3g}"


def _named(add_ons: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} {name}" for name, count in add_ons.items())


def _money(amount: Any) -> str:
    return units.write("money", amount)
