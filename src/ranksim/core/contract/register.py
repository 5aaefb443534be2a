"""The register of assumptions: what the specification leaves open (U), as people read it.

The entries are in `data/assumptions.yaml`. Which fields of a policy set an entry, and to which values,
follows from the models `Assumptions` and `Statuses` unless the entry states it.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin

from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.quantities import Frozen

SECTIONS: dict[str, type[Frozen]] = {"assumptions": Assumptions, "statuses": Statuses}
"""The sections of a policy whose fields name, at the head of their description, the entries that they set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One entry of the register.

    `default` is what is assumed and `confidence` that in it; `observe` is how a real deployment shows it;
    `fields` are the dotted policy fields that set it, none when it is listed only; `options` are the values
    that the fields take, or the readings of an entry that is listed only.
    """

    number: int
    area: str
    statement: str
    default: str
    reason: str
    confidence: Literal["high", "medium", "low"]
    observe: str
    options: tuple[str, ...]
    fields: tuple[str, ...]


@cache
def register() -> tuple[Assumption, ...]:
    """Return the entries, U1 to U112, in order.

    The JSON is read: `scripts/shipped_json` writes it from the YAML beside it, which takes 60 ms to read.
    """
    text = files("ranksim").joinpath("data/assumptions.json").read_text(encoding="utf-8")
    return tuple(_entry(int(number), stated) for number, stated in json.loads(text).items())


def assumption(number: int) -> Assumption:
    """Return the entry of that number. Raises KeyError when there is none."""
    if not 1 <= number <= len(register()):
        raise KeyError(f"there is no U{number}; assumptions are U1 to U{len(register())}")
    return register()[number - 1]


def _entry(number: int, stated: dict[str, Any]) -> Assumption:
    fields = tuple(stated.pop("fields", None) or _fields().get(number, ()))
    options = stated.pop("options", None) or [
        str(value).lower() if isinstance(value, bool) else value
        for field in fields
        for value in options_of(field)
    ]
    return Assumption(number=number, options=tuple(options), fields=fields, **stated)


@cache
def _fields() -> dict[int, list[str]]:
    """Return the fields of a policy by the number at the head of their description: "U46: where …"."""
    fields: dict[int, list[str]] = {}
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            for number in (field.description or "").partition(":")[0].split(", "):
                fields.setdefault(int(number.removeprefix("U")), []).append(f"{section}.{name}")
    return fields


def options_of(field: str) -> tuple[bool | str, ...]:
    """Return the values that a field of a policy takes, none where they cannot be listed."""
    section, _, name = field.partition(".")
    annotation = SECTIONS[section].model_fields[name].annotation if section in SECTIONS else None
    if annotation is bool:
        return False, True
    return get_args(annotation) if get_origin(annotation) is Literal else ()
