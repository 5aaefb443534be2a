"""A build against its baseline, for people: the sentence, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ranksim.report import units
from ranksim.report.tables import View

Plain = Mapping[str, Any]

DEVIATES = "deviates"


def slower(builds: Plain) -> bool:
    """Return whether the build is slower than its baseline, all operations together."""
    return bool(builds["latencies"]) and builds["latencies"][0]["says"] == "slower"


def build_sentence(builds: Plain) -> str:
    """Return what changed, in a sentence."""
    return "; ".join([_of_latency(builds), *_of_verdicts(builds)])


def build_views(builds: Plain) -> list[View]:
    """Return the tables that have rows: latencies, refusals, verdicts."""
    refusals = [row for row in builds["refusals"] if row["before"] != row["share"]]
    tables = (
        View(
            "Latency by operation, build against baseline",
            ("operation", "verdict", "calls", "p50 before", "p50", "p95 before", "p95", "change"),
            2,
            tuple(map(_latency, builds["latencies"])),
            note="Changes are of the mean logarithm, with 95 % intervals that allow for autocorrelation.",
        ),
        View(
            "Refusals, share of all calls",
            ("answer", "before", "build", "difference"),
            1,
            tuple(map(_refusal, refusals)),
        ),
        View(
            "Verdicts that changed",
            ("rule", "before", "build"),
            3,
            tuple((row["rule"], row["before"], row["verdict"]) for row in builds["verdicts"]),
        ),
    )
    return [table for table in tables if table.rows]


def _of_latency(builds: Plain) -> str:
    if not builds["latencies"]:
        return "No operation was answered in both builds, so latency cannot be compared"
    row = builds["latencies"][0]
    if row["says"] == "open":
        return f"Whether it is slower is open ({_change(row)})"
    if row["says"] == "alike":
        return f"As fast as its baseline ({_change(row)})"
    return f"{row['says'].capitalize()} than its baseline: {_change(row)}"


def _of_verdicts(builds: Plain) -> list[str]:
    clauses = []
    for title, side in (("now deviate", "verdict"), ("deviate no more", "before")):
        rules = [row["rule"] for row in builds["verdicts"] if row[side] == DEVIATES]
        if rules:
            clauses.append(f"{title}: {', '.join(rules)}")
    return clauses or ["no rule deviates that did not, or did"]


def _latency(row: Plain) -> tuple[str, ...]:
    quantiles = [units.duration(row[name]) for name in ("p50_before", "p50", "p95_before", "p95")]
    return row["operation"], row["says"], units.count(row["calls"]), *quantiles, _change(row)


def _change(row: Plain) -> str:
    if row["change"] is None:
        return "–"
    signed = f"{row['change'] * 100:+.1f} %"
    if row["low"] is None:
        return signed
    return f"{signed} ({row['low'] * 100:+.1f} to {row['high'] * 100:+.1f})"


def _refusal(row: Plain) -> tuple[str, ...]:
    difference = units.percentage_points(row["share"] - row["before"])
    if row["low"] is not None:
        difference += f" ({row['low'] * 100:+.1f} to {row['high'] * 100:+.1f})"
    return row["answer"], units.percent(row["before"]), units.percent(row["share"]), difference
