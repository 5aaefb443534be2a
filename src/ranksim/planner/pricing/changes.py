"""In what two catalogues differ, value by value, and whose customers that concerns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ranksim.core.contract.plans import Catalogue
from ranksim.report import units
from ranksim.report.answer import Row, views_of
from ranksim.report.tables import View

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


WORDS = {"name", "note", "prices_known"}
"""What a catalogue says of itself, not of what it sells and how work is done."""


def changes(a: Catalogue, b: Catalogue) -> tuple[Change, ...]:
    """Return every difference between two catalogues, but for what is said of them whole, in A's order.

    A plan or an add-on that only one of them sells is one difference.
    """
    first, second = (side.model_dump(mode="json", exclude=WORDS) for side in (a, b))
    differences: list[Change] = []
    for part in first:
        sold = part in OFFERS
        for name in dict.fromkeys((*first[part], *second[part])):
            here, there = first[part].get(name), second[part].get(name)
            if sold and here is not None and there is not None:
                pairs = _differing(_flat(here), _flat(there))
            elif sold:
                pairs = iter([("", _whether_sold(here), _whether_sold(there))])
            else:
                pairs = _differing({"": _written(here)}, {"": _written(there)})
            differences += [Change(f"{part}.{name}{at}", part, name, x, y, sold) for at, x, y in pairs]
    return tuple(differences)


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


def terms_view(differences: Sequence[Change]) -> list[View]:
    """The differences as a table for people, if there are any."""
    columns = dict.fromkeys(("path", "a", "b"), "text")
    rows = [change.row() for change in differences]
    views = views_of("What B changes", rows, columns, "By path; – where one does not say.")
    return [replace(view, leads=True) for view in views]


def taken_over(a: Catalogue, b: Catalogue) -> tuple[str, ...]:
    """Say what each catalogue leaves out of how jobs run, and so has from the other."""
    sides = (("A", a, "B", b), ("B", b, "A", a))
    return tuple(
        f"{name} leaves out {' and '.join(parts)}; both run as {of} states."
        for name, side, of, other in sides
        if (parts := side.left_to(other))
    )


def _whether_sold(offer: Any) -> str:
    return "not sold" if offer is None else "sold"


def _differing(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for path in dict.fromkeys((*first, *second)):
        a, b = first.get(path, NOTHING), second.get(path, NOTHING)
        if a != b:
            yield path, a, b


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
