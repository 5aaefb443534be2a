"""The one shape of results as JSON: what `--json` prints, and result.json holds. docs/json.md tells it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

if TYPE_CHECKING:
    from ranksim.inference.estimate import Estimate
    from ranksim.report.heading import ExpectationVerdict

VERSION: Final = 1
"""Counted up when a field goes or means something else; new fields leave it."""

KINDS = ("run", "study", "why", "compare", "calibrate", "explain", "assumptions", "plans", "load", "limits")
"""What a document is of: the command that makes it. Ready questions add theirs (`ReadyAnswer.kind`)."""

COMPARISON: Final = "comparison"
"""What a document of Python alone is of: two results metric by metric."""


class MetricShown(TypedDict):
    """A number with its 95 % interval (both ends null where it has none).

    By `unit` a duration or an instant is in µs, money in µUSD, and a share a fraction of 1.
    """

    unit: str
    value: float | None
    low: float | None
    high: float | None


class ExpectationShown(TypedDict):
    """Whether something that was asked for holds, and a sentence on it."""

    holds: bool
    text: str


class ResultDocument(TypedDict):
    """A result of ranksim; a kind has fields of its own beside these."""

    kind: str
    version: Literal[1]
    title: str
    answer: str
    notes: list[str]
    metrics: dict[str, MetricShown]
    expectations: list[ExpectationShown]
    tables: dict[str, list[dict[str, Any]]]


def document(
    kind: str,
    title: str,
    *,
    answer: str = "",
    notes: Iterable[str] = (),
    metrics: Mapping[str, MetricShown] | None = None,
    expectations: Iterable[ExpectationVerdict] = (),
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    **own: object,
) -> dict[str, Any]:
    """Return a result as plain data: a `ResultDocument`, with the fields of its kind (`own`) beside."""
    shared: ResultDocument = {
        "kind": kind,
        "version": VERSION,
        "title": title,
        "answer": answer,
        "notes": list(notes),
        "metrics": dict(metrics or {}),
        "expectations": [{"holds": verdict.holds, "text": verdict.text} for verdict in expectations],
        "tables": {name: [dict(row) for row in rows] for name, rows in tables.items()},
    }
    return {**shared, **own}


def metric(unit: str, estimate: Estimate) -> MetricShown:
    """Return an estimate as a metric of a document."""
    return {"unit": unit, "value": estimate.mean, "low": estimate.low, "high": estimate.high}


def number(unit: str, value: float | None) -> MetricShown:
    """Return a number without an interval as a metric of a document."""
    return {"unit": unit, "value": value, "low": None, "high": None}


JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

WIDTH = 110
"""Of JSON text: what is shorter stands in one line."""


def as_text(plain: Mapping[str, Any]) -> str:
    """Return a document as JSON text, a line for each metric, row and whatever else is short or flat."""
    return _laid_out(plain, "\n") + "\n"


def _laid_out(value: Any, line: str) -> str:
    """Return a value as JSON; what is neither short nor flat has an entry a line, each begun by `line`."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if not any(isinstance(part, dict | list | tuple) for part in parts):
        return JSON.encode(value)
    inner = line + " "
    entries = [_laid_out(part, inner) for part in parts]
    if isinstance(value, dict):
        entries = [f"{JSON.encode(name)}: {entry}" for name, entry in zip(value, entries, strict=True)]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    if sum(map(len, entries)) + 2 * len(entries) <= WIDTH:
        return begin + ", ".join(entries) + end
    return begin + inner + ("," + inner).join(entries) + line + end


def is_a(kind: str, parsed: object) -> bool:
    """Tell whether something that was read is a document of a kind, as this version writes it."""
    return isinstance(parsed, dict) and (parsed.get("kind"), parsed.get("version")) == (kind, VERSION)
