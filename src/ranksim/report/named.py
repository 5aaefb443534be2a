"""The numbers of ready answers that have a name: metrics of a document, made of its tables' rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ranksim.report.document import Kind, MetricShown
from ranksim.report.tables import Tables


class Named(NamedTuple):
    """Columns of a table whose numbers are metrics, by unit; "" is that of the row.

    A metric is called by what the row's `keys` hold and by its column, without the unit at its end, with
    points between, and no spaces: agency.price. Rows of one name are added up.
    """

    table: str
    keys: tuple[str, ...]
    columns: Mapping[str, str]


def _of(unit: str, *columns: str) -> dict[str, str]:
    return dict.fromkeys(columns, unit)


NAMED: Mapping[Kind, tuple[Named, ...]] = {
    "capacity fit": (
        Named(
            "answer",
            ("plan",),
            {
                **_of("money", "plan_price_uusd", "price_uusd", "price_grown_uusd"),
                **_of("money", "provider_cost_uusd", "provider_cost_grown_uusd"),
                **_of("count", "factor", "breaks_at"),
                **_of("count", "burst_refused", "burst_given_up"),
                "burst_late": "duration",
            },
        ),
        Named("limits", ("plan", "name"), _of("share", "used", "used_grown")),
    ),
    "capacity slots": (
        Named("answer", ("day",), _of("count", "used_mean", "used_p95") | _of("share", "refused_by")),
    ),
    "capacity sync": (
        Named(
            "answer", ("window", "way"), _of("duration", "time", "pace") | _of("count", "calls", "refused")
        ),
    ),
    "capacity workers": (
        Named(
            "answer",
            ("kind",),
            _of("count", "jobs", "load", "by_formula", "by_simulation") | _of("share", "started_in_time"),
        ),
    ),
    "capacity outage": (Named("answer", ("name",), _of("count", "expected", "simulated")),),
    "capacity portfolio": (
        Named("answer", ("name",), _of("", "need", "there") | _of("share", "used") | _of("count", "allows")),
    ),
    "price compare": (Named("differences", ("plan", "metric"), _of("", "a", "b", "difference")),),
    "price break-even": (
        Named(
            "plans", ("plan",), _of("money", "price", "even", "ceiling", "safe") | _of("count", "customers")
        ),
    ),
    "price pareto": (
        Named("points", ("point",), _of("money", "margin", "change") | _of("share", "blocked")),
    ),
    "price search": (
        Named("candidates", ("point",), _of("money", "margin", "change") | _of("share", "share")),
    ),
    "price back-test": (Named("invoices", ("side",), _of("money", "revenue", "cost", "margin")),),
}


def metrics_of(kind: Kind, tables: Tables) -> dict[str, MetricShown]:
    """Return the metrics of an answer by name; what is not known of a row is None."""
    found: dict[str, MetricShown] = {}
    for named in NAMED.get(kind, ()):
        for row in tables.get(named.table, ()):
            words = [str(row[key]).replace(" ", "_") for key in named.keys if row[key] not in (None, "")]
            for column, unit in named.columns.items():
                name = ".".join([*words, column.removesuffix("_uusd")])
                shown = _shown(row, column, unit)
                if name in found and shown["value"] is not None:
                    shown["value"] += found[name]["value"] or 0
                found[name] = shown
    return found


def _shown(row: Mapping[str, Any], column: str, unit: str) -> MetricShown:
    own = row.get("unit", row.get("quantity", "count"))
    if column == "difference":
        return {"unit": row["difference_unit"], "value": row[column], "low": row["low"], "high": row["high"]}
    low, high = (row.get(f"{column}_{end}") for end in ("low", "high"))
    return {"unit": unit or own, "value": row[column], "low": low, "high": high}
