"""Catalogues as pricing asks about them: read from a file, and with customers moved from plan to plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ranksim.core.contract.located import validate
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import CATALOGUES, Policy, check_whole, shipped_catalogue
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput, listed, near
from ranksim.planner.fleet.population import Population

Moves = Mapping[str, str]
"""Plan that customers are on → plan of the catalogue that serves them instead."""


def read_catalogue(source: str | Path) -> Catalogue:
    """Read a catalogue from a file, or take a shipped one by its name. Raises BadInput."""
    if str(source) in CATALOGUES:
        return shipped_catalogue(str(source))
    if not Path(source).is_file():
        raise BadInput(
            f"{source}: no such catalogue; give a YAML file, or one of {', '.join(CATALOGUES)}, "
            f"which are shipped{near(source, CATALOGUES)}"
        )
    return validate(Catalogue, check_whole(read_yaml(source, "catalogue")))


def catalogue_of(source: Catalogue | str | Path) -> Catalogue:
    """Return a catalogue, read first where it is a file or the name of a shipped one. Raises BadInput."""
    return source if isinstance(source, Catalogue) else read_catalogue(source)


def alike(a: Catalogue, b: Catalogue) -> tuple[Catalogue, Catalogue]:
    """Return two catalogues under which jobs run alike, as far as only one of them says how they run."""
    return a.completed_by(b), b.completed_by(a)


def moved(catalogue: Catalogue, moves: Moves, side: str) -> Catalogue:
    """Return the catalogue in which customers of one plan are served by another.

    The plan keeps the name by which the population knows it, so that everybody stays who they are and the
    draws of two catalogues are the same. Raises BadInput for a target that is not on sale.
    """
    for target in moves.values():
        check_plan(target, catalogue, "move", side)
    served = {old: catalogue.plans[new].model_copy(update={"name": old}) for old, new in moves.items()}
    return catalogue.model_copy(update={"plans": catalogue.plans | served})


def check_moves(plans: Iterable[str], moves: Moves) -> None:
    """Raise BadInput unless somebody is on every plan that customers are moved from: `plans` are theirs."""
    plans = dict.fromkeys(plans)
    for old in moves:
        if old not in plans:
            raise BadInput(f"move: no customer is on {old!r}; expected one of {listed(plans, old)}")


def plans_of(population: Population) -> tuple[str, ...]:
    """Return the plans that customers of a population are on, each once."""
    return tuple(dict.fromkeys(plan for segment in population.segments.values() for plan in segment.plans))


def check_sold(population: Population, catalogue: Catalogue, side: str) -> None:
    """Raise BadInput unless every plan and add-on of a population is in a catalogue."""
    for name, segment in population.segments.items():
        for plan, choice in segment.plans.items():
            at = f"segments.{name}.plans.{plan}"
            check_plan(plan, catalogue, at, side, movable=True)
            check_add_ons(choice.add_ons, catalogue, f"{at}.add_ons", side)


def check_plan(plan: str, catalogue: Catalogue, at: str, side: str, movable: bool = False) -> None:
    """Raise BadInput at a place unless a side's catalogue has a plan; `movable`: a move would help."""
    if plan not in catalogue.plans:
        hint = f", or say where its customers go with --move {plan}=PLAN" if movable else ""
        expected = f"{', '.join(catalogue.plans)}{hint}{near(plan, catalogue.plans)}"
        raise BadInput(f"{at}: {side} has no plan {plan!r}; expected one of {expected}")


def check_add_ons(add_ons: Iterable[str], catalogue: Catalogue, at: str, side: str) -> None:
    """Raise BadInput at a place unless a side's catalogue has all of some add-ons."""
    for add_on in add_ons:
        if add_on not in catalogue.add_ons:
            expected = listed(catalogue.add_ons, add_on) or "none, for there are none"
            raise BadInput(f"{at}: {side} has no add-on {add_on!r}; expected one of {expected}")


def unknown_prices(catalogue: Catalogue, plans: Iterable[str]) -> tuple[str, ...]:
    """Return those of some plans of which a catalogue does not know what they cost, as that of a mirror."""
    return tuple(plan for plan in dict.fromkeys(plans) if not catalogue.knows_price_of(plan))


def lacking_prices(sides: Mapping[str, Catalogue], plans: Iterable[str]) -> tuple[str, ...]:
    """Return for each side whose catalogue does not know what some plans cost, which these are."""
    plans = tuple(plans)
    return tuple(
        f"{side} does not know what {' and '.join(unknown)} costs (write it into the catalogue {sold.name})"
        for side, sold in sides.items()
        if (unknown := unknown_prices(sold, plans))
    )


def check_priced(catalogue: Catalogue, plans: Iterable[str], side: str) -> None:
    """Raise BadInput unless a side's catalogue knows what some plans cost."""
    if unknown := unknown_prices(catalogue, plans):
        raise BadInput(
            f"{side}: {catalogue.name} does not know what {' and '.join(unknown)} costs a month; write it "
            f"into the catalogue as {' and '.join(f'plans.{plan}.price' for plan in unknown)}"
        )


def selling(policy: Policy, catalogue: Catalogue) -> Policy:
    """Return the policy under which a catalogue is sold."""
    return policy.model_copy(update={"catalogue": catalogue})


def unpriced(catalogue: Catalogue) -> str:
    """What of a catalogue can change a run."""
    each = {"price"}
    return catalogue.model_dump_json(
        exclude={"name": True, "note": True, "plans": {"__all__": each}, "add_ons": {"__all__": each}}
    )
