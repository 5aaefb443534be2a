"""Catalogues as pricing asks about them: as files have them, customers moved, and in what two differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from ranksim.core.contract.located import validate
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import CATALOGUES, Policy, catalogue_file, check_whole, shipped_catalogue
from ranksim.core.errors import BadInput, listed, near
from ranksim.planner.fleet.population import Population
from ranksim.report import units
from ranksim.report.table_spec import Row, TableSpec, views_of
from ranksim.report.tables import View

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
    return validate(Catalogue, check_whole(catalogue_file(Path(source))))


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


def name_with_moves(catalogue: Catalogue, moves: Moves) -> str:
    """Return the name of a catalogue, and which plans it serves by which others."""
    return ", ".join((catalogue.name, *(f"{old} → {new}" for old, new in moves.items())))


def check_customers(at: str, wanted: Iterable[str], plans: Iterable[str]) -> None:
    """Raise BadInput at a place unless customers, who are on some `plans`, are on every one `wanted`."""
    plans = dict.fromkeys(plans)
    for plan in wanted:
        if plan not in plans:
            raise BadInput(f"{at}: no customer is on {plan!r}; expected one of {listed(plans, plan)}")


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
    """Raise BadInput at a place unless a side's catalogue has all of some add-ons: nothing moves these."""
    for add_on in add_ons:
        if add_on not in catalogue.add_ons:
            expected = listed(catalogue.add_ons, add_on)
            expected = f"one of {expected}" if expected else "none, for there are none"
            raise BadInput(
                f"{at}: {side} has no add-on {add_on!r}, which no --move replaces; expected {expected}; if "
                f"customers are to lose it, let {side} sell it with amount 1 for 0 USD"
            )


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


# In what two catalogues differ, value by value, and whose customers that concerns

OFFERS = {"plans": "plan", "add_ons": "add-on"}
"""The parts of a catalogue that hold what is sold, and what one of it is called."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value that two catalogues state otherwise: its path, and how A and B write it, "–" for not at all.

    `part` is "plans", "add_ons", "unit_costs" or how jobs run; `name` the plan, the add-on, or what else the
    part names. `commercial` says whether it is a term that is sold: unit costs and how jobs run are not.
    """

    path: str
    part: str
    name: str
    a: str
    b: str
    commercial: bool

    def row(self) -> Row:
        """The change as a row."""
        return asdict(self)

    def concerns(self, plan: str, add_ons: Collection[str]) -> bool:
        """Return whether it can matter to customers of a plan with some add-ons."""
        if self.part == "plans":
            return self.name == plan
        return self.part != "add_ons" or self.name in add_ons


CHANGES = TableSpec(
    others=dict.fromkeys(("path", "part", "name", "a", "b"), "text") | {"commercial": "flag"},
    columns=tuple(field.name for field in fields(Change)),
)
"""The table of what two catalogues state otherwise."""

WORDS = {"name", "note", "prices_known"}
"""What a catalogue says of itself, not of what it sells and how work is done."""


def changes(a: Catalogue, b: Catalogue) -> tuple[Change, ...]:
    """Return every difference between two catalogues, but for what is said of them whole, in A's order.

    A plan or an add-on that only one of them sells is one difference.
    """
    first, second = (_terms_of(side) for side in (a, b))
    differences: list[Change] = []
    for part in first:
        for name in dict.fromkeys((*first[part], *second[part])):
            here, there = first[part].get(name), second[part].get(name)
            sold = part in OFFERS
            of_a, of_b = _stated(here, there, sold), _stated(there, here, sold)
            for at in dict.fromkeys((*of_a, *of_b)):
                x, y = of_a.get(at, NOTHING), of_b.get(at, NOTHING)
                if x != y:
                    differences.append(Change(f"{part}.{name}{at}", part, name, x, y, sold))
    return tuple(differences)


def _terms_of(side: Catalogue) -> dict[str, Any]:
    """Return as JSON what a catalogue sells, and how work is done; in words a price it does not know."""
    stated: dict[str, Any] = side.model_dump(mode="json", exclude=WORDS)
    for name, plan in stated["plans"].items():
        if not side.knows_price_of(name):
            plan["price"] = "not known"
    return stated


def changes_text(differences: Sequence[Change]) -> str:
    """Return the differences in a sentence: how many, and in which plans, add-ons and other parts."""
    if not differences:
        return "B does not differ from A."
    places = dict.fromkeys(
        f"{OFFERS[change.part]} {change.name}" if change.part in OFFERS else change.part.replace("_", " ")
        for change in differences
    )
    other = sum(not change.commercial for change in differences)
    beside = f", {units.count(other)} of them not commercial" if other else ""
    return f"B differs from A in {units.many(len(differences), 'value')}{beside}: {', '.join(places)}."


def terms_view(table: str, differences: Sequence[Change]) -> list[View]:
    """The differences as a table for people, of the answer's table of that name, if there are any."""
    columns = dict.fromkeys(("path", "a", "b"), "text")
    rows = [change.row() for change in differences]
    views = views_of("What B changes", rows, columns, "By path; – where one does not say.")
    return [replace(view, leads=True, table=table) for view in views]


def taken_over(a: Catalogue, b: Catalogue) -> tuple[str, ...]:
    """Say what each catalogue leaves out of how jobs run, and so has from the other."""
    sides = (("A", a, "B", b), ("B", b, "A", a))
    return tuple(
        f"{name} leaves out {' and '.join(parts)}; both run as {of} states."
        for name, side, of, other in sides
        if (parts := side.left_to(other))
    )


def unfailing_notes(*sold: Catalogue) -> tuple[str, ...]:
    """Say which failure rates of catalogues a population leaves out: none of its jobs fails."""
    rates: dict[str, int] = {}
    for catalogue in sold:
        for kind, rate in catalogue.job_failure_rates.items():
            rates[kind] = max(rate, rates.get(kind, 0))
    texts = [f"{kind} {units.percent(rate / 1000)}" for kind, rate in rates.items() if rate]
    if not texts:
        return ()
    return (
        f"No job of a population fails, so that failed ones cost as the others: left out is how often jobs "
        f"fail ({', '.join(texts)}), which a scenario has.",
    )


class ComparedSides(NamedTuple):
    """Catalogues A and B as they are `sold`, jobs running alike, and as they are `served`: B with moves.

    `taken_over` says what each has from the other, `changes` what B changes, `unpriced` what has no price.
    """

    sold: tuple[Catalogue, Catalogue]
    served: tuple[Catalogue, Catalogue]
    taken_over: tuple[str, ...]
    changes: tuple[Change, ...]
    unpriced: tuple[str, ...]
    moves: Moves

    def stated(self) -> dict[str, Any]:
        """Return what an answer states of the sides, by the names of its fields."""
        names = self.sold[0].name, name_with_moves(self.sold[1], self.moves)
        differing = {"changes": self.changes, "taken_over": self.taken_over}
        return {"names": names, "unpriced": self.unpriced} | differing


def compared_sides(
    a: Catalogue,
    b: Catalogue,
    moves: Moves | None,
    plans: Iterable[str],
    check: Callable[[Catalogue, str], None],
) -> ComparedSides:
    """Return two catalogues to compare for customers on some plans; `check` refuses what sells too little.

    Raises BadInput.
    """
    plans = tuple(plans)
    check_customers("move", moves or {}, plans)
    sold = alike(a, b)
    served = sold[0], moved(sold[1], moves or {}, "B")
    sides = dict(zip("AB", served, strict=True))
    for name, catalogue in sides.items():
        check(catalogue, name)
    unpriced = lacking_prices(sides, plans)
    return ComparedSides(sold, served, taken_over(a, b), changes(*served), unpriced, moves or {})


def _stated(value: Any, other: Any, sold: bool) -> dict[str, str]:
    """What a catalogue states by path, where another one states `other`; an offer is `sold` or not."""
    if not sold:
        return {"": _written(value)}
    if value is None or other is None:
        return {"": "not sold" if value is None else "sold"}
    return _flat(value)


NOTHING = units.text(None)


def _flat(value: Any, at: str = "") -> dict[str, str]:
    """The values below a path, as text."""
    if not isinstance(value, Mapping):
        return {at: _written(value)}
    flat: dict[str, str] = {}
    for name, inner in value.items():
        flat |= _flat(inner, f"{at}.{name}")
    return flat


def _written(value: Any) -> str:
    """A value about as files write it; a list is a set here, in alphabetical order."""
    if isinstance(value, list):
        return ", ".join(sorted(value)) or NOTHING
    return json.dumps(value, ensure_ascii=False).replace('"', "")
