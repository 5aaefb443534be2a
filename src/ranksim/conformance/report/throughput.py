"""What went over the wire, as plain rows: throughput, latencies, and what stood around evidence."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ranksim.clock import SECOND, Micros
from ranksim.conformance.history.history import History
from ranksim.conformance.history.observation import Observation
from ranksim.conformance.verdict.verdicts import Evidence

Row = dict[str, Any]

MOST_BINS = 120
"""Points of time in a series."""

QUANTILES = (0.5, 0.95, 0.99)

AROUND = 20
"""Exchanges shown on each side of the evidence."""


def answer(seen: Observation) -> str:
    """Sort an exchange by its outcome: ok, limited, refused, failed or lost."""
    if seen.lost:
        return "lost"
    if seen.ok:
        return "ok"
    if seen.code == "rate_limited":
        return "limited"
    return "failed" if seen.status >= 500 else "refused"


def throughput(history: History) -> list[Row]:
    """Calls a second by outcome, and latency quantiles (µs), over equal steps of time.

    Rows have t, the step's start; ok, limited, refused, failed and lost, a second; p50, p95 and p99 from
    sending, and planned_p50 and so on from when a call was meant to be sent, where the recorder planned it.
    """
    if not history.seen:
        return []
    begin, step = history.seen[0].sent, _step(history.seen)
    bins: dict[int, list[Observation]] = defaultdict(list)
    for seen in history.seen:
        bins[(seen.sent - begin) // step].append(seen)
    return [_bin(begin + number * step, step, bins[number]) for number in range(max(bins) + 1)]


def _step(seen: Sequence[Observation]) -> Micros:
    """A step of whole seconds that gives no more than MOST_BINS."""
    span = seen[-1].sent - seen[0].sent
    return SECOND * max(1, -(-span // (MOST_BINS * SECOND)))


def _bin(t: Micros, step: Micros, seen: Sequence[Observation]) -> Row:
    counts = Counter(answer(one) for one in seen)
    told = [one for one in seen if not one.lost]
    row: Row = {"t": t}
    for outcome in ("ok", "limited", "refused", "failed", "lost"):
        row[outcome] = counts[outcome] * SECOND / step
    row |= _quantiles("", [one.received - one.sent for one in told])
    planned = [one.received - one.planned for one in told if one.planned is not None]
    return row | (_quantiles("planned_", planned) if planned else {})


def _quantiles(prefix: str, values: list[Micros]) -> Row:
    values.sort()
    return {f"{prefix}p{round(100 * q)}": quantile(values, q) if values else None for q in QUANTILES}


def quantile(values: Sequence[Micros], q: float) -> Micros:
    """Return the least of sorted values that a share `q` of them does not exceed."""
    return values[max(0, -(-round(q * len(values) * 1000) // 1000) - 1)]


def answers(history: History) -> list[Row]:
    """Calls by operation, status and code, the most frequent first."""
    counts = Counter((seen.operation, seen.status or None, seen.code) for seen in history.seen)
    return [
        {"operation": operation, "status": status, "code": code, "count": count}
        for (operation, status, code), count in counts.most_common()
    ]


def surroundings(history: History, evidence: Evidence) -> list[Row]:
    """The exchanges of the same key and operations around evidence, which is marked; deliveries likewise.

    Rows have id, t, until (null for a lost reply), label, outcome and marked.
    """
    if evidence.deliveries:
        return _deliveries(history, evidence)
    marked = frozenset(evidence.exchanges)
    chosen = [seen for seen in history.seen if seen.id in marked]
    if not chosen:
        return []
    keys, operations = {seen.key for seen in chosen}, {seen.operation for seen in chosen}
    alike = [seen for seen in history.seen if seen.key in keys and seen.operation in operations]
    times = [seen.sent for seen in alike]
    low = max(0, bisect_left(times, chosen[0].sent) - AROUND)
    high = bisect_right(times, chosen[-1].sent) + AROUND
    near = [seen for seen in alike[low:high] if seen.id not in marked][: 4 * AROUND]
    return [_row(seen, seen.id in marked) for seen in sorted([*chosen, *near], key=lambda seen: seen.sent)]


def _row(seen: Observation, marked: bool) -> Row:
    return {
        "id": seen.id,
        "t": seen.sent,
        "until": None if seen.lost else seen.received,
        "label": seen.operation or seen.path,
        "outcome": answer(seen),
        "marked": marked,
    }


def _deliveries(history: History, evidence: Evidence) -> list[Row]:
    marked = frozenset(evidence.deliveries)
    chosen = [came for came in history.arrived if f"{came.event}/{came.attempt}" in marked]
    endpoints = {came.endpoint for came in chosen}
    alike = [came for came in history.arrived if came.endpoint in endpoints]
    return [
        {
            "id": f"{came.event}/{came.attempt}",
            "t": came.received,
            "until": came.answered,
            "label": f"attempt {came.attempt}",
            "outcome": "ok" if came.status is not None and 200 <= came.status <= 299 else "refused",
            "marked": f"{came.event}/{came.attempt}" in marked,
        }
        for came in alike[: 4 * AROUND]
    ]
