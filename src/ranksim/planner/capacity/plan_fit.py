"""Which plan fits a portfolio, what it costs, and what breaks first when the portfolio grows.

Needs and limits are those of `limits.limits`, at the size there is and at so many times its domains, and how
many job starts the rate limit lets in that come at once, before one is given up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ranksim.core.clock import DAY, Micros
from ranksim.core.contract.located import Located
from ranksim.core.contract.parameters import Settings
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import Policy, policy_of, read_catalogue
from ranksim.core.errors import BadInput, check_kind, no_such
from ranksim.planner.capacity.bursts import (
    BURST,
    burst_of,
    enough_keys,
    enough_spread,
    lossy_plans,
    most_domains,
)
from ranksim.planner.capacity.common import expect, micros
from ranksim.planner.capacity.fit_answer import Fit, LimitUse, PlanFit
from ranksim.planner.capacity.growth import GrownMonth, grown_domains, growth_of
from ranksim.planner.capacity.later import later_sizes
from ranksim.planner.capacity.limits import (
    MOST,
    RATE,
    Limit,
    allowed_alone,
    check_add_ons,
    plan_limits,
    provider_cost,
)
from ranksim.planner.capacity.plan_size import Size
from ranksim.planner.capacity.planned import OwnAccount
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.workload import MONTH, LoadUnder, Workload
from ranksim.planner.readings import consulting
from ranksim.report import units
from ranksim.report.readings import Readings, under_readings
from ranksim.twin.sim.scenario import Scenario, with_parameters

DAYS = MONTH // DAY

_Use = Mapping[str, tuple[Limit, int | None]]
"""By name the limits of a plan, and the first day of the month, from 1, on which more is needed."""


def fit(
    tracked: Portfolio | Scenario | Workload | LoadUnder | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    *,
    account: str = "",
    growth: float | str = 2.0,
    spread: Micros | str | None = None,
    catalogue: str | Path | Catalogue | None = None,
    settings: Settings = MappingProxyType({}),
    **done: Any,
) -> Fit:
    """Find for every plan of a catalogue whether it fits a portfolio, and what breaks first as it grows.

    `tracked` is a portfolio, whose fields may be given instead (domains=30, keywords=300), or a scenario or
    its file, of which an `account` is meant (the only one, unless it is named), with fields of what is done
    in place of what its clients do (crawls=2); the answer is about its beginning, and then about each time at
    which something changes. `policy` is the scenario's unless given, and `catalogue` stands in place of the
    policy's: a file's path, or the name of a shipped one; `settings` are parameters of these by path, as of
    `Scenario.changed`. Grown are the domains, `growth` times, and with them all their work. As text it may be
    a rate, "×2 / year", or a factor for each month from now on, "1,1.2,1.5"; the answer then tells until when
    each plan fits. The rank runs of one occasion are started evenly over `spread` (µs, or text such as "10m";
    at one instant unless the scenario says otherwise), each again after a 429. The answer's `readings` are
    what other assumptions would make of it. Raises BadInput.
    """
    largest, path = growth_of(growth)
    if isinstance(tracked, str | Path):
        tracked = Scenario.load(tracked)
    if isinstance(catalogue, str | Path):
        catalogue = read_catalogue(Located("catalogue", str(catalogue), {}), Path())
    stated = tracked if isinstance(tracked, Scenario) else None
    if catalogue is not None:
        under = policy_of(policy) if stated is None or policy is not None else stated.policy
        policy = under.model_copy(update={"catalogue": catalogue})
    if settings:
        stated, policy = with_parameters(settings, stated, policy)
    load_under, policy = _asked_about(stated or tracked, policy, account, max(1, len(path)), done)
    if spread is not None:
        spread = micros("spread", spread)
        expect(spread >= 0, "spread", "0 or more", spread)

    def ask(policy: Policy, spread: Micros | None = spread) -> Fit:
        load = load_under(policy)
        return _fit(load if spread is None else load.over(spread), largest, path, policy)

    answer, readings = under_readings(consulting(ask), policy, _verdict)
    readings = replace(readings, remedy=_remedy(ask, answer, readings, policy))
    return replace(_with_limits(answer), readings=readings)


def _verdict(answer: Fit) -> str:
    return answer.verdict


def _remedy(ask: Callable[..., Fit], answer: Fit, readings: Readings, policy: Policy) -> str:
    """Say of which assumptions any reading will do once starts are spread, and over how long."""
    if not readings.deciding or answer.cheapest() is None:
        return ""
    sizes = (answer.load, answer.largest)
    spreads = {enough_spread(size, other) for size in sizes for other in readings.policies(policy)}
    deciding = dict.fromkeys(number for tried in readings.deciding for number in tried.numbers)
    mended: dict[Micros, list[str]] = {}
    for spread in sorted(spread for spread in spreads if spread is not None):
        again, others = under_readings(consulting(partial(ask, spread=spread)), policy, _verdict)
        left = {number for tried in others.deciding for number in tried.numbers}
        if again.verdict == answer.verdict and deciding.keys() - left:
            mended[spread] = [number for number in deciding if number not in left]
    if not mended:
        return ""
    best = max(mended, key=lambda spread: (len(mended[spread]), -spread))
    return f"Started over {units.duration(best)} it holds under all readings of {' and '.join(mended[best])}."


def _fit(load: Workload, growth: float, path: Sequence[float], policy: Policy) -> Fit:
    """Return what each plan comes to, without the limits and what breaks first."""
    check_add_ons(load.add_ons, policy)
    prices = {
        name: plan.price if policy.catalogue.knows_price_of(name) else None
        for name, plan in policy.catalogue.plans.items()
    }
    months = tuple(_months(load, path, _by_price(prices), policy))
    begun = replace(load.times[0].load, notes=load.notes) if load.times else load
    first = _in_month(load, 1, policy) if path else (begun, policy)
    largest = path.index(max(path)) if path else 0
    latest = _in_month(load, 1 + largest, policy) if largest else first
    now = _sizes(*first)
    later = tuple(later_sizes(load.times[1:], now, _sizes))
    grown = _sizes(latest[0].of_domains(grown_domains(load.domains, growth)), latest[1])
    plans = [PlanFit(name, prices[name], now[name], grown[name]) for name in _by_price(prices)]
    return Fit(*first, *latest, growth, tuple(plans), months=months, later=later)


def _in_month(load: Workload, number: int, policy: Policy) -> tuple[Workload, Policy]:
    """Return a workload and a policy in a month from now on, counted from 1, as set and bought by its end."""
    has = next((then.load for then in reversed(load.times) if then.month <= number), load)
    for then in load.later:
        if then.month <= number:
            load, policy = then.load, then.policy
    return replace(load.in_month(number), plan=has.plan, add_ons=has.add_ons), policy


def _by_price(prices: Mapping[str, int | None]) -> list[str]:
    return sorted(prices, key=lambda name: prices[name] or 0)


def _months(
    load: Workload, path: Sequence[float], plans: Sequence[str], policy: Policy
) -> Iterator[GrownMonth]:
    """Yield what each plan comes to in each month, at whose end it is looked at."""
    for number, factor in enumerate(path, 1):
        there, under = _in_month(load, number, policy)
        grown = there.of_domains(grown_domains(load.domains, factor))
        sizes = _sizes(grown, under)
        by_plan = {name: sizes[name] for name in plans}
        begins, _ = load.month(number) or (None, None)
        yield GrownMonth(number, factor, grown.domains, by_plan, there.plan, begins)


def _sizes(load: Workload, policy: Policy) -> dict[str, Size]:
    """Return what each plan comes to."""
    plans = policy.catalogue.plans
    losing = lossy_plans(load, plans.values(), policy)
    return {name: _size(load, plan, policy, name in losing) for name, plan in plans.items()}


def _with_limits(answer: Fit) -> Fit:
    """Return an answer with the limits of its plans, and with what the starts of an occasion meet."""
    sizes = ((answer.load, answer.policy), (answer.largest, answer.latest_policy))
    latest = _most(answer.latest, answer.latest_policy)
    most = (latest if answer.latest is answer.load else _most(answer.load, answer.policy), latest)
    bursts = [burst_of(*size) for size in sizes]
    given_up, busiest = max(zip((burst.given_up for burst in bursts), sizes, strict=True), key=itemgetter(0))
    plans = []
    for fit in answer.plans:
        now, then = (
            _use_of(load, fit, under, started[fit.plan])
            for (load, under), started in zip(sizes, most, strict=True)
        )
        allowed = _allowed(answer, fit, latest[fit.plan])
        plans.append(replace(fit, limits=_uses(now, then, allowed, answer.load.domains)))
    return replace(
        answer,
        plans=tuple(plans),
        burst=bursts[0],
        burst_grown=bursts[1],
        enough=(enough_spread(*busiest), enough_keys(*busiest)) if given_up else (None, None),
    )


def _most(load: Workload, policy: Policy) -> dict[str, int | None]:
    return most_domains(load, policy.catalogue.plans.values(), policy)


def _asked_about(
    tracked: Portfolio | Scenario | Workload | LoadUnder | None,
    policy: Policy | str | Path | None,
    account: str,
    months: int,
    done: Mapping[str, Any],
) -> tuple[LoadUnder, Policy]:
    """Return the workload that a plan is to fit for so many months, and which policy. Raises BadInput."""
    fields = tuple(field.name for field in dataclasses.fields(Portfolio))
    for name in done:
        if name not in fields:
            raise BadInput(no_such("argument", name, fields))
    if isinstance(tracked, Scenario):
        return OwnAccount(tracked, account, months=months, **done).under, policy_of(policy or tracked.policy)
    if account:
        raise BadInput("account: only a scenario has accounts; leave it out")
    if tracked is None:
        tracked = Portfolio(**done)
    elif done:
        raise BadInput(f"{next(iter(done))}: what is asked about says it; leave one out")
    if callable(tracked):
        return tracked, policy_of(policy)
    check_kind("fit", tracked, Portfolio | Workload, "a portfolio, a scenario or its file")
    load = tracked.workload if isinstance(tracked, Portfolio) else tracked
    return lambda policy: load, policy_of(policy)


def _use_of(load: Workload, fit: PlanFit, policy: Policy, most: int | None) -> _Use:
    """Return every limit of a plan with further add-ons, and the day of the month on which it is exceeded.

    With `most` domains no job start is lost to the rate limit (S104), None without end.
    """
    plan, load = policy.catalogue.plans[fit.plan], _with_add_ons(load, fit)
    limits, days = plan_limits(load, plan, policy), _first_days(load, plan, policy)
    use = {limit.name: (limit, day) for limit, day in zip(limits, days, strict=True)}
    if most is not None:
        limit = Limit(BURST, load.domains, most, "count", RATE)
        use[BURST] = limit, 1 if limit.exceeded else None
    return use


def _allowed(answer: Fit, fit: PlanFit, most: int | None) -> dict[str, int]:
    """Return by limit of a plan how many domains it alone allows, of a growth in time at its largest."""
    load, policy = _with_add_ons(answer.latest, fit), answer.latest_policy
    plan = policy.catalogue.plans[fit.plan]
    names = [limit.name for limit in plan_limits(load, plan, policy)]
    allowed = dict(zip(names, allowed_alone(load.of_domains, plan, policy), strict=True))
    return allowed if most is None else {**allowed, BURST: most}


def _with_add_ons(load: Workload, fit: PlanFit) -> Workload:
    helps = fit.now.helps
    bought = {**load.add_ons, **{name: load.add_ons.get(name, 0) + more for name, more in helps.items()}}
    return replace(load, add_ons=bought)


def _uses(now: _Use, grown: _Use, allowed: Mapping[str, int], domains: int) -> tuple[LimitUse, ...]:
    """Return the use of each limit, what breaks first before the rest; a size needs 0 of what it lacks."""
    uses = []
    for name in dict.fromkeys((*grown, *now)):
        limit, day = now.get(name) or _unneeded(grown[name])
        then, grown_day = grown.get(name) or _unneeded(now[name])
        most = allowed.get(name, MOST)
        breaks_at, factor = (None, None) if most == MOST else (most + 1, (most + 1) / domains)
        uses.append(LimitUse(limit, then, breaks_at, factor, day, grown_day))
    uses.sort(key=lambda use: (MOST if use.breaks_at is None else use.breaks_at, -use.now.used))
    return tuple(uses)


def _unneeded(use: tuple[Limit, int | None]) -> tuple[Limit, int | None]:
    return replace(use[0], need=0), None


def _first_days(load: Workload, plan: Plan, policy: Policy) -> list[int | None]:
    """By limit the first day of the month, from 1, on which more is needed than there is."""
    by_day = [
        [limit.exceeded for limit in plan_limits(load, plan, policy, elapsed=day * DAY)]
        for day in range(1, DAYS + 1)
    ]
    return [
        next((day for day, exceeded in enumerate(column, 1) if exceeded), None)
        for column in zip(*by_day, strict=True)
    ]


def _size(load: Workload, plan: Plan, policy: Policy, loses_starts: bool) -> Size:
    """What a plan comes to at one size, with the add-ons that it breaks."""
    lacking = [limit for limit in plan_limits(load, plan, policy) if limit.exceeded]
    helps = dict(_add_ons(lacking, policy.catalogue))
    enlarged = {policy.catalogue.add_ons[name].metric for name in helps}
    breaks = [limit.name for limit in lacking if limit.metric not in enlarged] + [BURST] * loses_starts
    fits = not breaks
    bought = {name: load.add_ons.get(name, 0) + helps.get(name, 0) for name in policy.catalogue.add_ons}
    price = (
        policy.catalogue.price_of(plan.name, bought) if policy.catalogue.knows_price_of(plan.name) else None
    )
    cost = max(0, provider_cost(load, plan, policy) + load.left_out.spent)
    return Size(load.domains, fits, helps if fits else {}, price if fits else None, cost, tuple(breaks))


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
