"""Bills: what each account of a fleet pays and costs, and which cheaper or dearer plan would be enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DAY
from ranksim.core.contract.facts import Decision
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.engine import simulate_again
from ranksim.planner.fleet.offers import add_ons_price, price_of
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import LIFTED, LIMITED, OUTCOMES, Integers
from ranksim.planner.fleet.sides import Flags, FleetSide
from ranksim.planner.pricing.catalogues import selling
from ranksim.planner.study.fleets import charged
from ranksim.report.table_spec import Row

MONTH = 30 * DAY
"""The month that prices are charged by: thirty days."""


@dataclass(frozen=True, slots=True, eq=False)
class Bills:
    """One run's accounts in µUSD, arrays of shape (accounts,); `months` is the time served in 30 days."""

    plans: NDArray[np.str_]
    months: NDArray[np.float64]
    prices: Integers
    add_ons: Integers
    cost: Integers

    @property
    def revenue(self) -> Integers:
        """Plan prices and add-ons."""
        return self.prices + self.add_ons

    @property
    def margin(self) -> Integers:
        """Revenue less provider cost."""
        return self.revenue - self.cost

    def of(self, plan: str | None) -> NDArray[np.bool_]:
        """Which accounts are on a plan; None for all."""
        return np.ones(len(self.plans), dtype=np.bool_) if plan is None else self.plans == plan


def bills(result: FleetResult, catalogue: Catalogue | None = None) -> Bills:
    """Bill the accounts of a fleet, at the prices of `catalogue` if it is not the one they ran under.

    An account pays its plan and add-ons for the time it is served, thirty days to the month.
    """
    catalogue = result.policy.catalogue if catalogue is None else catalogue
    served = result.customers["leaves"] - result.customers["joins"]

    def charge(monthly: list[int]) -> Integers:
        return charged(np.array(monthly, dtype=np.int64)[result.customers["offer"]], served)

    return Bills(
        plans=result.plan_names,
        months=served / MONTH,
        prices=charge([catalogue.plans[plan].price for plan, _ in result.sold]),
        add_ons=charge([add_ons_price(catalogue, add_ons) for _, add_ons in result.sold]),
        cost=result.tallies["spend"].astype(np.int64),
    )


# What would have been enough

NONE = "more than any plan"
"""The need of customers for whom no plan is enough."""


@dataclass(frozen=True, slots=True)
class Need:
    """`accounts` customers of a plan need a plan, or `count` of some add-ons; `uplift` µUSD more a month.

    Of the `kind` "plan" are those whom their plan was not enough for, and what they need may come with
    add-ons, which are in `count` and `uplift`. Of "enough" are the others: their uplift is nothing, or
    negative where they could pay less. Of "add_on" `still_refused` is the code that customers meet with the
    add-ons all the same, which are then not enough, and no uplift.
    """

    side: str
    plan: str
    kind: str
    needs: str
    accounts: int
    count: int
    uplift: int
    still_refused: str = ""

    def row(self) -> Row:
        """The need as a row."""
        return asdict(self)


def trials(population: Population, sold: Catalogue, policy: Policy) -> dict[str, FleetSide]:
    """Return what has to be served to tell who needs what: everybody on each plan, without add-ons.

    By what of a catalogue can change what comes of it: plans that differ in their price alone are tried once.
    """
    return {
        _alone(sold, plan): FleetSide(population.on(plan.name), selling(policy, sold))
        for plan in sold.plans.values()
    }


def _alone(sold: Catalogue, plan: Plan) -> str:
    # What the other plans sell, and at which price, changes nothing for who is on this one.
    alone = sold.model_copy(update={"plans": {plan.name: plan}})
    return alone.model_dump_json(exclude={"name": True, "note": True, "plans": {"__all__": {"price"}}})


def needs(
    side: str, sold: Catalogue, own: FleetResult, tried: Mapping[str, Packed], packs: Packed
) -> list[Need]:
    """Return what would have been enough for the customers of each plan: plans first, then add-ons.

    It is the cheapest of what each has, and of all plans of `sold` with the add-ons that their quotas lack,
    by what was `tried` of `trials` with the same requests. `own` is the run of the population as it is,
    `packs` what came of it with add-ons.
    """
    plans = sorted(sold.plans.values(), key=lambda plan: plan.price)
    alone = [tried[_alone(sold, plan)] for plan in plans]
    charges = [offer.price for offer in sold.add_ons.values()]
    offer = own.customers["offer"]
    has = np.array([[dict(add_ons).get(name, 0) for name in sold.add_ons] for _, add_ons in own.sold])[offer]
    pays = np.array([price_of(own.policy.catalogue, plan) for plan in own.sold])[offer]
    enough = np.stack([*(served.enough for served in alone), own.accounts["enough"]])
    counts = np.stack([*(served.counts for served in alone), has, np.zeros_like(has)]).astype(np.int64)
    bill = np.stack([plan.price + served.counts @ charges for plan, served in zip(plans, alone, strict=True)])
    bill = np.concatenate([bill, pays[None]]).astype(np.int64)
    least = np.where(enough, bill, bill.max() + 1).argmin(axis=0)
    least[~enough.any(axis=0)] = len(bill)
    counts = counts[least, np.arange(len(least))]
    uplift = np.concatenate([bill, pays[None]])[least, np.arange(len(least))] - pays
    kinds = np.column_stack([own.accounts["enough"], least, counts > 0])
    rows: list[Need] = []
    for name in dict.fromkeys(plan for plan, _ in own.sold):
        members = own.plan_names == name
        names = [*(plan.name for plan in plans), name, NONE]
        for kind in np.unique(kinds[members], axis=0):
            lacks_nothing, index, *bought = kind.tolist()
            of = members & (kinds == kind).all(axis=1)
            text = " + ".join([names[index], *compress(sold.add_ons, bought)])
            sums = int(counts[of].sum()), int(uplift[of].sum())
            rows.append(Need(side, name, "enough" if lacks_nothing else "plan", text, int(of.sum()), *sums))
        rows += _add_ons_needed(side, name, sold, packs, members)
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """The add-ons that would cover all that customers asked for on their own plan, and what came of them.

    `counts` has shape (accounts, add-ons of the catalogue). `refusals` (accounts,) is the outcome that an
    account met with them all the same, GRANTED where they are enough: a refusal that a plan can lift, an
    inactive subscription, or more cooldowns than without. `enough` (accounts,) says for whom the plan is
    enough, with these add-ons or without any.
    """

    counts: Integers
    refusals: Integers
    enough: Flags


def with_packs(own: FleetResult, threads: int = 1, compiled: bool | None = None) -> Packed:
    """Serve again, with add-ons, the customers of a run who asked for more than their quotas (S109).

    Of several add-ons for one metric each takes the one that comes cheapest.
    """
    add_ons, metered = list(own.policy.catalogue.add_ons.items()), own.metered
    wanted = [own.add_ons_needed(name) for name, _ in add_ons]
    counts = np.zeros((len(own.customers), len(add_ons)), dtype=np.int64)
    more = np.zeros((len(own.customers), len(metered)), dtype=np.int64)
    for index, (_, offer) in enumerate(add_ons):
        if offer.metric in metered:
            rivals = [at for at, (_, other) in enumerate(add_ons) if other.metric == offer.metric]
            charges = np.stack([wanted[at] * add_ons[at][1].price for at in rivals])
            cheapest = np.array(rivals)[charges.argmin(axis=0)] == index
            counts[:, index] = np.where(cheapest, wanted[index], 0)
            more[:, metered.index(offer.metric)] += counts[:, index] * offer.amount
    refusals = np.zeros(len(counts), dtype=np.int64)
    if len(rows := np.flatnonzero(counts.any(axis=1))):
        again = simulate_again(own, rows, more[rows], threads=threads, compiled=compiled)
        refusals[rows] = _still_refused(again, own.counts[rows])
    served = counts.any(axis=1) & (refusals == Decision.GRANTED)
    return Packed(counts, refusals, own.accounts["enough"] | served)


def _still_refused(again: FleetResult, before: Integers) -> Integers:
    """The first outcome that each account met all the same, which had some `before` without add-ons."""
    outcomes, was = again.counts.sum(axis=1), before.sum(axis=1)
    refused = outcomes > 0
    refused[:, [Decision.GRANTED, Decision.JOINED, LIMITED]] = False
    refused[:, Decision.COOLDOWN_ACTIVE] = (outcomes > was)[:, Decision.COOLDOWN_ACTIVE]
    refused[:, Decision.SLOT_LIMIT_EXCEEDED] |= ~again.accounts["enough"] & ~refused[:, LIFTED].any(axis=1)
    return np.asarray(refused.argmax(axis=1))


def _add_ons_needed(side: str, plan: str, sold: Catalogue, packs: Packed, of: Flags) -> Iterator[Need]:
    """Yield the add-ons, by which and what is refused with them, that customers of a plan need."""
    kinds = np.column_stack([packs.counts > 0, packs.refusals])
    for kind in np.unique(kinds[of & kinds[:, :-1].any(axis=1)], axis=0):
        counts = packs.counts[of & (kinds == kind).all(axis=1)]
        *bought, refusal = kind.tolist()
        names = " + ".join(compress(sold.add_ons, bought))
        uplift = sum(
            offer.price * int(count)
            for offer, count in zip(sold.add_ons.values(), counts.sum(axis=0), strict=True)
        )
        code = OUTCOMES[refusal] if refusal else ""
        yield Need(side, plan, "add_on", names, len(counts), int(counts.sum()), 0 if code else uplift, code)
