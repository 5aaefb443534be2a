"""One account of a scenario, such as that of a mirrored world, as the only customer of a population."""

from __future__ import annotations

from pathlib import Path

from ranksim.capacity.planned import OwnAccount, own_account
from ranksim.clock import DAY
from ranksim.contract.yamlfile import read_yaml
from ranksim.errors import BadInput
from ranksim.fleet.amounts import Amount
from ranksim.fleet.population import (
    InitialPortfolio,
    PlanChoice,
    Population,
    Range,
    Segment,
    Sizes,
    Usage,
)
from ranksim.sim.scenario import Scenario

LENGTH = 30 * DAY
"""How long the customer is served (µs): a month as bills count it."""


def read_own_account(path: Path, account: str = "") -> OwnAccount:
    """Read an account of a scenario's file, the only one unless it is named. Raises BadInput."""
    return own_account(Scenario.load(path), account)


def population_of(own: OwnAccount) -> Population:
    """Return the population whose only customer is an account: what it tracks, and evenly what it has done.

    Keywords are dealt over its domains evenly. The customer begins at the scenario's start with nothing used.
    """
    load = own.load
    domains, each = load.domains, max(1, load.pairings * load.geographies)
    pages, questions = load.largest("crawl", "site_optimization"), load.largest("ai_scan")
    rates: dict[str, float] = {}
    for work in load.work:
        rates[work.operation] = rates.get(work.operation, 0.0) + work.each * work.times * DAY / work.per
    segment = Segment(
        plans={own.plan.name: PlanChoice(add_ons=dict(load.add_ons))},
        portfolio=InitialPortfolio(
            domains=Amount.constant(domains),
            keywords=Amount.constant(-(-load.slots // (domains * each))),
            engine_devices=load.pairings,
            geographies=load.geographies,
            **{
                name: Amount.constant(size)
                for name, size in (("pages", pages), ("questions", questions))
                if size
            },
        ),
        usage=Usage(**{operation: Amount.constant(rate) for operation, rate in rates.items()}),
        sizes=Sizes(keywords=Range(low=1, high=1)),
        arrivals="steady",
    )
    return Population(name=load.name, accounts=1, start=own.now, length=LENGTH, segments={load.name: segment})


def notes_of(own: OwnAccount) -> tuple[str, ...]:
    """Say what is taken to be so of an account that becomes a customer."""
    begins = "The customer begins with nothing used, at another day of its billing month in each replication."
    unpriced = (
        ""
        if own.policy.catalogue.knows_price_of(own.plan.name)
        else (
            f"The scenario's catalogue does not know what the plan {own.plan.name} costs, so its invoices "
            "are 0: write the price into it."
        )
    )
    return (*own.load.notes, begins, *((unpriced,) if unpriced else ()))


def refuse_scenario(path: Path, instead: str) -> None:
    """Raise BadInput, saying what to do `instead`, where a file of many customers is a scenario."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return
    data = read_yaml(path).data
    if isinstance(data, dict) and "accounts" in data and "segments" not in data and "length" in data:
        raise BadInput(f"{path}: is a scenario, with accounts rather than many customers; {instead}")
