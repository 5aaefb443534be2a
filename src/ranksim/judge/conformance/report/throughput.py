"""What went over the wire, as plain rows: throughput, latencies, and what stood around evidence."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.inference.quantiles import rank_of
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.verdict.verdicts import Evidence

Row = dict[str, Any]

MOST_BINS = 120
"""Points of time in a series."""

QUANTILES = (0.5, 0.95, 0.99)

AROUND = 20
"""Exchanges shown on each side of the evidence."""


def answer(exchange: Observation) -> str:
    """Sort an exchange by its outcome: ok, limited, refused, failed or lost."""
    if exchange.lost:
        return "lost"
    if exchange.ok:
        return "ok"
    if exchange.code == "rate_limited":
        return "limited"
    return "failed" if exchange.status >= 500 else "refused"


def throughput(history: History) -> list[Row]:
    """Calls a second by outcome, and latency quantiles (µs), over equal steps of time.

    Rows have t, the step's start; ok, limited, refused, failed and lost, a second; p50, p95 and p99 from
    sending, and planned_p50 and so on from when a call was meant to be sent, where the recorder planned it.
    """
    if not history.seen:
        return []
    begin, step = history.seen[0].sent, _step(history.seen)
    bins: dict[int, list[Observation]] = defaultdict(list)
    for exchange in history.seen:
        bins[(exchange.sent - begin) // step].append(exchange)
    return [_bin(begin + number * step, step, bins[number]) for number in range(max(bins) + 1)]


def _step(exchanges: Sequence[Observation]) -> Micros:
    """A step of whole seconds that gives no more than MOST_BINS."""
    span = exchanges[-1].sent - exchanges[0].sent
    return SECOND * max(1, -(-span // (MOST_BINS * SECOND)))


def _bin(t: Micros, step: Micros, exchanges: Sequence[Observation]) -> Row:
    counts = Counter(answer(exchange) for exchange in exchanges)
    answered = [exchange for exchange in exchanges if not exchange.lost]
    row: Row = {"t": t}
    for outcome in ("ok", "limited", "refused", "failed", "lost"):
        row[outcome] = counts[outcome] * SECOND / step
    row |= _quantiles("", [exchange.received - exchange.sent for exchange in answered])
    planned = [exchange.received - exchange.planned for exchange in answered if exchange.planned is not None]
    return row | (_quantiles("planned_", planned) if planned else {})


def latency(history: History) -> Row:
    """Latency quantiles (µs) of all calls that were answered, from sending: p50, p95 and p99."""
    return _quantiles("", [seen.received - seen.sent for seen in history.seen if not seen.lost])


def _quantiles(prefix: str, values: list[Micros]) -> Row:
    values.sort()
    return {f"{prefix}p{round(100 * q)}": quantile(values, q) if values else None for q in QUANTILES}


def quantile(values: Sequence[Micros], q: float) -> Micros:
    """Return the least of sorted values that a share `q` of them does not exceed."""
    return values[rank_of(q, len(values)) - 1]


def answers(histories: Sequence[History]) -> list[Row]:
    """Calls by operation, status and code, the most frequent first."""
    counts = Counter(
        (exchange.operation, exchange.status or None, exchange.code)
        for history in histories
        for exchange in history.seen
    )
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
    chosen = [exchange for exchange in history.seen if exchange.id in marked]
    if not chosen:
        return []
    keys, operations = {exchange.key for exchange in chosen}, {exchange.operation for exchange in chosen}
    alike = [
        exchange for exchange in history.seen if exchange.key in keys and exchange.operation in operations
    ]
    times = [exchange.sent for exchange in alike]
    low = max(0, bisect_left(times, chosen[0].sent) - AROUND)
    high = bisect_right(times, chosen[-1].sent) + AROUND
    near = [exchange for exchange in alike[low:high] if exchange.id not in marked][: 4 * AROUND]
    return [
        _row(exchange, exchange.id in marked)
        for exchange in sorted([*chosen, *near], key=lambda exchange: exchange.sent)
    ]


def _row(exchange: Observation, marked: bool) -> Row:
    return {
        "id": exchange.id,
        "t": exchange.sent,
        "until": None if exchange.lost else exchange.received,
        "label": exchange.operation or exchange.path,
        "outcome": answer(exchange),
        "marked": marked,
    }


def _deliveries(history: History, evidence: Evidence) -> list[Row]:
    marked = frozenset(evidence.deliveries)
    chosen = [came for came in history.arrived if came.name in marked]
    endpoints = {came.endpoint for came in chosen}
    alike = [came for came in history.arrived if came.endpoint in endpoints]
    return [
        {
            "id": came.name,
            "t": came.received,
            "until": came.answered,
            "label": f"attempt {came.attempt}",
            "outcome": "ok" if came.status is not None and 200 <= came.status <= 299 else "refused",
            "marked": came.name in marked,
        }
        for came in alike[: 4 * AROUND]
    ]
