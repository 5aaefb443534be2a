"""The accounts of a population as records of exact integers, each drawn by its own address.

An account is a function of (population, policy, seed, its number) alone: any range of them can be made by
itself.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksim.core import draws
from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy
from ranksim.core.draws import Purpose
from ranksim.planner.fleet import rows as schema
from ranksim.planner.fleet.kernel import KernelInputs
from ranksim.planner.fleet.offers import Offers, sold_of
from ranksim.planner.fleet.population import Population, Segment
from ranksim.planner.fleet.requests import AVERAGE, LONGEST_GAP
from ranksim.planner.fleet.rows import ACTIVITIES, OUTCOMES, Integers, Records, blank, to_records

FULL = 1 << 53
"""The whole of a share: draws of the kernel are integers below it."""

MONTH = 30 * DAY

EPOCHS = 400 * DAY
"""How long before the start the first of the older accounts opened; it spreads their billing months."""


def customers_of(
    population: Population, policy: Policy, offers: Offers, seed: int, first: int, last: int
) -> KernelInputs:
    """Make the accounts with numbers in [first, last), and what they are sold."""
    seed = seed if population.seed is None else population.seed
    kinds = list(population.segments.values())
    made = blank(last - first, schema.CustomerRow)
    numbers = np.arange(first, last, dtype=np.int64)
    made["number"] = numbers
    shares = [kind.share for kind in kinds]
    made["segment"] = _picked(_drawn(seed, 0, numbers, Purpose.CHOICE), shares)
    _set_stay(made, population, policy, seed)
    odds = np.zeros((len(made), len(ACTIVITIES)), dtype=np.int64)
    parts = []
    for index, kind in enumerate(kinds):
        chosen = np.flatnonzero(made["segment"] == index)
        rows = made[chosen]
        _set_plan(rows, kind, offers, seed)
        odds[chosen] = _set_usage(rows, kind, seed)
        parts.append((chosen, _domains(rows, kind, offers, seed)))
        made[chosen] = rows
    first_domains, domains = _laid_out(made, parts)
    return KernelInputs(
        made,
        first_domains,
        domains,
        odds,
        to_records([_segment(kind) for kind in kinds], schema.SegmentRow),
        np.stack([_habits(kind) for kind in kinds]),
        np.stack([_reactions(kind) for kind in kinds]),
        np.array([hours_of(kind) for kind in kinds], dtype=np.int64),
        levels_of(population),
        *offers[2:],
    )


def _drawn(seed: int, who: int, numbers: Integers, purpose: int) -> NDArray[np.float64]:
    """Draws of many accounts for one thing: `who` tells things apart that share a purpose."""
    return draws.uniforms(seed, draws.entity(f"fleet/{who}"), numbers, purpose)


def _picked(u: NDArray[np.float64], weights: Sequence[float]) -> Integers:
    edges = np.cumsum(np.array(weights, dtype=np.float64))
    return np.asarray(np.minimum(np.searchsorted(edges, u * edges[-1], side="right"), len(weights) - 1))


# Of the whole population


def _set_stay(made: Records, population: Population, policy: Policy, seed: int) -> None:
    """Set from when to when each account is served, and where its billing months begin (U51, U102)."""
    numbers = made["number"]
    start, end, length = population.start, population.end, population.length
    joins = _drawn(seed, 0, numbers, Purpose.GROWTH) < population.joins
    late = start + np.floor(_drawn(seed, 1, numbers, Purpose.GROWTH) * length).astype(np.int64)
    made["joins"] = np.where(joins, late, start)
    before = np.floor(_drawn(seed, 0, numbers, Purpose.ANCHOR) * EPOCHS).astype(np.int64)
    made["anchor"] = np.where(joins, made["joins"], start - before)
    if policy.assumptions.month == "calendar":
        made["anchor"] = 0
    made["leaves"] = end
    if population.churn:
        monthly = -math.log1p(-population.churn)
        u = _drawn(seed, 0, numbers, Purpose.CHURN)
        stays = np.array([-math.log(v) / monthly * MONTH for v in u.tolist()])
        left = made["joins"] + np.minimum(stays, float(length)).astype(np.int64)
        made["leaves"] = np.minimum(left, end)


def levels_of(population: Population) -> Integers:
    """The growth of usage on each day of the run, AVERAGE at first."""
    days = -(-population.length // DAY)
    growth = 1.0 + population.growth
    return np.array([round(AVERAGE * growth ** (day / 30)) for day in range(days)], dtype=np.int64)


# Of one segment


def _set_plan(rows: Records, kind: Segment, offers: Offers, seed: int) -> None:
    numbers = rows["number"]
    weights = [choice.weight for choice in kind.plans.values()]
    which = [offers.sold.index(sold_of(plan, choice.add_ons)) for plan, choice in kind.plans.items()]
    picked = _picked(_drawn(seed, 0, numbers, Purpose.PLAN), weights)
    rows["offer"] = np.array(which, dtype=np.int64)[picked]
    rows["healthy"] = _drawn(seed, 1, numbers, Purpose.PLAN) >= kind.past_due
    zones = list(kind.calendar.zones)
    picked = _picked(_drawn(seed, 2, numbers, Purpose.PLAN), list(kind.calendar.zones.values()))
    rows["zone"] = np.array(zones, dtype=np.int64)[picked]


def _set_usage(rows: Records, kind: Segment, seed: int) -> Integers:
    """Draw how often each account does what: sets the mean gap, gives the odds of the activities."""
    rates = np.zeros((len(rows), len(ACTIVITIES)))
    for index, activity in enumerate(ACTIVITIES):
        u = _drawn(seed, index, rows["number"], Purpose.ARRIVAL)
        rates[:, index] = kind.usage.of(activity).at(u)
    edges = np.cumsum(rates, axis=1)
    total = edges[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.where(total > 0, DAY / total, 0.0)
        odds = np.where(total[:, None] > 0, edges / total[:, None], 1.0)
    rows["gap"] = np.rint(np.minimum(gaps, float(LONGEST_GAP))).astype(np.int64)
    return np.asarray(np.rint(odds * FULL).astype(np.int64))


def _domains(rows: Records, kind: Segment, offers: Offers, seed: int) -> Records:
    """Draw the portfolios of a segment, customer by customer, cut to what their plans have room for."""
    spec = kind.portfolio
    rows["domains"] = spec.domains.integers(_drawn(seed, 0, rows["number"], Purpose.SIZE), least=1)
    counts = rows["domains"]
    firsts = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(len(rows)), counts)
    addresses = rows["number"][owner] << 20 | np.arange(len(owner)) - firsts[owner]
    made = blank(len(owner), schema.DomainRow)
    made["pages"] = spec.pages.integers(_drawn(seed, 2, addresses, Purpose.SIZE))
    made["questions"] = spec.questions.integers(_drawn(seed, 3, addresses, Purpose.SIZE))
    wanted = spec.keywords.integers(_drawn(seed, 1, addresses, Purpose.SIZE))
    offer = offers.offers[rows["offer"]]
    pairings = np.minimum(offer["pairings"], spec.engine_devices)
    tuples = pairings * np.minimum(offer["places"], spec.geographies)
    room = np.where(tuples > 0, offer["slot_limit"] // np.maximum(tuples, 1), np.iinfo(np.int64).max)
    so_far = np.cumsum(wanted) - wanted
    # The last customer's keywords before each customer's first domain.
    before = so_far - so_far[firsts[owner]] if len(owner) else so_far
    kept = np.minimum(before + wanted, room[owner]) - np.minimum(before, room[owner])
    made["keywords"], made["tuples"] = kept, tuples[owner]
    each = spec.engine_devices * spec.geographies
    rows["slots_wanted"] = np.bincount(owner, weights=wanted, minlength=len(rows)).astype(np.int64) * each
    return made


def _laid_out(made: Records, parts: list[tuple[Integers, Records]]) -> tuple[Integers, Records]:
    """Put the domains of all segments into one array by customer; return where those of each begin."""
    counts = made["domains"]
    first_domains = np.cumsum(counts) - counts
    laid = blank(int(counts.sum()), schema.DomainRow)
    for chosen, domains in parts:
        sizes = counts[chosen]
        firsts = np.cumsum(sizes) - sizes
        offset = np.arange(len(domains)) - np.repeat(firsts, sizes)
        laid[np.repeat(first_domains[chosen], sizes) + offset] = domains
    return first_domains, laid


def _segment(kind: Segment) -> schema.SegmentRow:
    portfolio = kind.portfolio
    return schema.SegmentRow(
        pairings=portfolio.engine_devices,
        places=portfolio.geographies,
        steady=int(kind.arrivals == "steady"),
        backlog=kind.after_refusal.backlog,
    )


def _habits(kind: Segment) -> Records:
    sizes = {name: getattr(kind.sizes, name) for name in type(kind.sizes).model_fields}
    ends = [(sizes[name].low, sizes[name].high) if name in sizes else () for name in ACTIVITIES]
    return to_records([schema.RequestSize(*each) for each in ends], schema.RequestSize)


def _reactions(kind: Segment) -> Records:
    rows = []
    for react in map(kind.after_refusal.of, range(len(OUTCOMES))):
        chance, backs_off = round(react.retry * FULL), int(react.wait == "backoff")
        rows.append(schema.Reaction(chance, react.tries, backs_off, react.first, react.most))
    return to_records(rows, schema.Reaction)


def hours_of(kind: Segment) -> list[int]:
    """The weights of the 168 hours of the week from Monday, AVERAGE on average."""
    table = np.outer(kind.calendar.days, kind.calendar.hours).ravel()
    return [round(weight) for weight in (table * (AVERAGE / table.mean())).tolist()]
