"""The register of assumptions as people and programs read it, with the values that one policy gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import Assumption, register
from ranksim.core.errors import BadInput, near
from ranksim.report import units
from ranksim.report.readings import NO_READINGS, Readings

if TYPE_CHECKING:
    from rich.console import RenderableType


def select(numbers: Iterable[str]) -> list[Assumption]:
    """The assumptions of these numbers ("U48", "48") or words, in the order asked for; all of them without.

    Raises BadInput for a number that does not exist, and for a word that no assumption has.
    """
    by_number = {str(assumption.number): assumption for assumption in register()}
    chosen = []
    for number in numbers:
        assumption = by_number.get(number.removeprefix("U").removeprefix("u"))
        having = [assumption] if assumption is not None else _about(number)
        if not having:
            other = re.fullmatch("[SsEe][0-9]+", number) is not None
            close = near(number, [name.rpartition(".")[2] for entry in register() for name in entry.fields])
            hint = f"; `ranksim explain {number}` tells of facts and edge cases" if other else ""
            raise BadInput(f"{number}: no such assumption; they are U1 to U{len(register())}{hint or close}")
        chosen += having
    return chosen or list(register())


def _about(word: str) -> list[Assumption]:
    """The assumptions that name a word in what is open, in their settings or their options."""
    if re.fullmatch("[A-Za-z_]{4,}", word) is None:
        return []
    word = word.lower()
    return [
        entry
        for entry in register()
        if word in " ".join((entry.statement, *entry.fields, *map(str, entry.options))).lower()
    ]


def row(assumption: Assumption, policy: Policy) -> dict[str, Any]:
    """One assumption as plain data; `changed` says that one of its policy fields is no default.

    `values` are these fields; whole tables of a catalogue are only named.
    """
    values, defaults = _values(assumption, policy), _values(assumption, Policy())
    tables = f"as in catalogue {policy.catalogue.name}"
    return {
        "number": f"U{assumption.number}",
        "area": assumption.area,
        "statement": assumption.statement,
        "default": assumption.default,
        "values": {path: tables if path.startswith("catalogue.") else values[path] for path in values},
        "changed": values != defaults,
        "options": list(assumption.options),
        "reason": assumption.reason,
        "confidence": assumption.confidence,
        "observe": assumption.observe,
    }


def overrides(policy: Policy) -> tuple[tuple[str, str, str], ...]:
    """Number, statement and values of every assumption that a policy changes."""
    rows = (row(assumption, policy) for assumption in register())
    return tuple((r["number"], r["statement"], settings(r["values"])) for r in rows if r["changed"])


def rests_on(policy: Policy, consulted: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """The assumptions that set one of these fields of a policy, as rows, those that differ first."""
    read = set(consulted)
    rows = [row(entry, policy) for entry in register() if read & set(entry.fields)]
    return tuple(sorted(rows, key=lambda entry: not entry["changed"]))


@dataclass(frozen=True, slots=True)
class Basis:
    """The question in words, the assumptions behind its answer, and the command that asks it again.

    `rests_on` are rows of assumptions, `overrides` those that differ from their default.
    """

    question: str = ""
    rests_on: tuple[Mapping[str, Any], ...] = ()
    overrides: tuple[tuple[str, str, str], ...] = ()
    command: str = ""


def basis_of(question: str, policy: Policy, consulted: Iterable[str] = (), command: str = "") -> Basis:
    """Return what an answer rests on that was found under a policy, by reading these fields of it."""
    return Basis(question, rests_on(policy, consulted), overrides(policy), command)


def basis_lines(
    rests_on: Sequence[Mapping[str, Any]],
    overrides: Sequence[tuple[str, str, str]],
    readings: Readings = NO_READINGS,
) -> list[str]:
    """Say what would change a result, what differs from its default, and in a line what else was read."""
    read = [entry["number"] for entry in rests_on]
    lines = list(readings.deciding_sentences())
    for kind, among in (("", True), (", but not read", False)):
        differing = [f"{number} ({value})" for number, _, value in overrides if (number in read) is among]
        if differing:
            lines.append(f"Other than by default{kind}: {', '.join(differing)}.")
    if readings.tried:
        lines += readings.other_sentences()
    elif read:
        points = units.many(len(read), "open point")
        numbers = ", ".join(sorted(read, key=lambda number: int(number[1:])))
        lines.append(f"Read on the way to it: {points} of the specification, {numbers}.")
    return lines


def render(entry: dict[str, Any]) -> RenderableType:
    """One assumption for a terminal: a headline and what is assumed, set, why, and how to observe it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    headline = Text.assemble((f"{entry['number']:<5}", "bold"), (entry["statement"], "bold"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=15, no_wrap=True)
    grid.add_column(overflow="fold")
    lines = {
        "assumed": entry["default"],
        "changed to": settings(entry["values"]) if entry["changed"] else "",
        "set by": "" if entry["changed"] else settings(entry["values"]),
        "options": ", ".join(entry["options"]),
        "because": entry["reason"],
        "confidence": entry["confidence"],
        "observe": entry["observe"],
    }
    for label, text in lines.items():
        if text:
            grid.add_row(Text(f"     {label}"), Text(text))
    return Group(headline, grid, "")


def _values(assumption: Assumption, policy: Policy) -> dict[str, Any]:
    """The values of the policy fields that set an assumption."""
    document = policy.model_dump(mode="json")
    return {path: _at(document, path) for path in assumption.fields}


def _at(document: Any, path: str) -> Any:
    part, _, rest = path.partition(".")
    if part == "*":
        return {name: _at(below, rest) for name, below in document.items()}
    return _at(document[part], rest) if rest else document[part]


def settings(values: dict[str, Any]) -> str:
    """The fields that set an assumption, with their values."""
    return ", ".join(f"{path} = {_plain(value)}" for path, value in values.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
