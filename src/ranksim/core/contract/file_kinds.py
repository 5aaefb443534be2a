"""Files of another kind than was asked for, recognised by what they say of themselves.

A YAML file is known by the fields at its top, a trace by its header, columns by how Parquet begins.
"""

from __future__ import annotations

from collections.abc import Collection

MARKS: dict[str, tuple[str, ...]] = {
    "result": ("tables",),
    "study": ("study",),
    "population": ("population", "segments"),
    "target": ("environments",),
    "scenario": ("scenario", "clients", "timeline", "pools", "receivers"),
    "catalogue": ("plans", "unit_costs", "extends"),
    "policy": ("assumptions", "facts", "statuses"),
    "map": ("rules",),
}
"""Kind to the fields of which one shows it; the first that fits."""

TIMES = ("start", "length")
"""Fields that beside `accounts` only a scenario has, and a population, which shows itself by others."""

USES = {
    "study": "is a study; give it to ranksim study",
    "population": "is a population; give it to ranksim price as --population, or to a study",
    "target": "is a target; give it to ranksim check or ranksim check load as --target",
    "scenario": "is a scenario; give it to ranksim run, or name it in a study",
    "catalogue": "is a catalogue; give it to ranksim explain plans, or ranksim price as --catalogue or --b",
    "policy": "is a policy; give it as --policy, or name it in a scenario",
    "map": "is a map of an access log; give it to ranksim price import or ranksim price back-test as --map",
    "accounts": "says what accounts had; give it to ranksim price back-test as --accounts",
    "result": "is a result as JSON; a run's directory, of --out, is what ranksim why takes",
    "trace": "is a trace; give it to ranksim compare, or to ranksim price back-test",
    "columns": "has recorded calls as columns; give it to ranksim price back-test, "
    "or rs.price.back_test_columns",
}

BEGIN = {b'{"ranksim_trace"': "trace", b"PAR1": "columns"}
"""How a file that is no YAML begins, and its kind."""


def kind_of(fields: Collection[str]) -> str:
    """Return the kind of a YAML file by the fields at its top, or "" where they show none."""
    for kind, marks in MARKS.items():
        if any(mark in fields for mark in marks):
            return kind
        if kind == "scenario" and "accounts" in fields and any(name in fields for name in TIMES):
            return kind
    return "accounts" if "accounts" in fields else ""


def other_kind(fields: Collection[str], expected: str) -> str:
    """Return of which other kind a YAML file with these fields at its top is, or "" where it may be right.

    A study names a scenario or a population, so these fields of its own say nothing; so does a result.
    """
    own = MARKS.get(expected, ())
    if expected == "study":
        fields = set(fields) - {"scenario", "population"}
    kind = kind_of(fields)
    if expected == "accounts" and kind == "scenario":  # whose accounts are read
        return ""
    if kind == expected or (kind not in ("study", "result") and any(mark in fields for mark in own)):
        return ""
    return kind


def told_other(kind: str, expected: str) -> str:
    """Say of which kind a file is, and which was expected."""
    return f"{USES[kind]}; expected here: {'an' if expected[0] in 'aeiou' else 'a'} {expected}"
