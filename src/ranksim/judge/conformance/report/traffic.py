"""What went over the wire, as plain rows: throughput, latencies, and what is drawn beside evidence."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.inference.quantiles import rank_of
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.rate.group_bounds import TWO_WINDOWS
from ranksim.judge.conformance.verdict.verdicts import Evidence

Row = dict[str, Any]

MOST_BINS = 120
"""Points of time in a series."""

QUANTILES = (0.5, 0.95, 0.99)

AROUND = 20
"""Exchanges shown on each side of the evidence."""

WINDOWS = ("rate.read", "rate.write", "rate.expensive", "rate.per_key", "rate.remaining")
"""The rules whose evidence is calls in a window."""

MOST_CALLS = 5_000
"""Calls drawn against a window."""

SIDE = 10
"""Share of a window that is shown on each side of it: one in so many."""


def _outcome(exchange: Observation) -> str:
    """Return how an exchange ended: ok, limited, refused, failed or lost."""
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
    begin = history.seen[0].sent
    step = SECOND * max(1, -(-(history.seen[-1].sent - begin) // (MOST_BINS * SECOND)))  # whole seconds
    bins: dict[int, _Bin] = defaultdict(_Bin)
    for exchange in history.seen:
        bins[(exchange.sent - begin) // step].add(exchange)
    return [bins[number].row(begin + number * step, step) for number in range(max(bins) + 1)]


@dataclass(slots=True)
class _Bin:
    """What came of the calls of one step."""

    outcomes: Counter[str] = field(default_factory=Counter)
    lasted: array[int] = field(default_factory=lambda: array("q"))
    """How long answers took from sending."""
    planned: array[int] = field(default_factory=lambda: array("q"))
    """How long they took from when the call was meant to be sent."""

    def add(self, exchange: Observation) -> None:
        self.outcomes[_outcome(exchange)] += 1
        if not exchange.lost:
            self.lasted.append(exchange.received - exchange.sent)
            if exchange.planned is not None:
                self.planned.append(exchange.received - exchange.planned)

    def row(self, t: Micros, step: Micros) -> Row:
        row: Row = {"t": t}
        for outcome in ("ok", "limited", "refused", "failed", "lost"):
            row[outcome] = self.outcomes[outcome] * SECOND / step
        row |= _quantiles("", self.lasted)
        return row | (_quantiles("planned_", self.planned) if self.planned else {})


def latency(history: History) -> Row:
    """Latency quantiles (µs) of all calls that were answered, from sending: p50, p95 and p99."""
    return _quantiles("", [seen.received - seen.sent for seen in history.seen if not seen.lost])


def _quantiles(prefix: str, values: Sequence[Micros]) -> Row:
    values = sorted(values)
    return {
        f"{prefix}p{round(100 * q)}": values[rank_of(q, len(values)) - 1] if values else None
        for q in QUANTILES
    }


def answers(histories: Sequence[History]) -> list[Row]:
    """Calls by operation, status and code, the most frequent first."""
    counts = Counter[tuple[str, int | None, str]]()
    for history in histories:
        for alike, count in history.kinds():
            counts[alike.operation, alike.status or None, alike.code] += count
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
        "outcome": _outcome(exchange),
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
            "outcome": "ok" if _acknowledged(came) else "refused",
            "marked": came.name in marked,
        }
        for came in alike[: 4 * AROUND]
    ]


def _acknowledged(attempt: ReceivedAttempt) -> bool:
    return attempt.status is not None and 200 <= attempt.status <= 299


# Figures


def figure_rows(rule: str, evidence: Evidence, histories: Sequence[History], facts: Facts) -> dict[str, Row]:
    """Return what the figure of a rule's evidence is drawn from, by its name; none where it has none."""
    if rule in WINDOWS:
        name, draw = "staircase", _staircase
    elif rule.startswith("webhook."):
        name, draw = "timeline", _timeline
    else:
        return {}
    figures = (draw(history, evidence, facts) for history in histories)
    return next(({name: figure} for figure in figures if figure is not None), {})


def _staircase(history: History, evidence: Evidence, facts: Facts) -> Row | None:
    """Return the calls of a window: its `limit`, from when (`t`) for how long, each call; None without any.

    The window begins with the first call that evidence names, or ends with the first that was refused. It is
    `since` so long after the trace began, and stands for so many `windows`, which may admit the limit each.
    `until` is when the last call comes of which evidence speaks.
    """
    named = [seen for seen in history.named(set(evidence.exchanges)) if not seen.lost]
    rate = history.run.traffic_rate
    limit = next((seen.limit for seen in named if seen.limit is not None), None)
    if limit is None or not rate:
        return None
    length = facts.rate_window // rate
    begins, until = _span(named, length)
    low, high = begins - length // SIDE, begins + length + length // SIDE
    calls = _calls_between(history, {seen.key for seen in named}, limit, low, high)
    if len(calls) < 2:
        return None
    return {
        "limit": limit,
        "windows": 2 if TWO_WINDOWS in evidence.says else 1,
        "t": begins,
        "since": begins - (history.run.began or begins),
        "length": length,
        "until": until,
        "calls": [_call(seen, evidence) for seen in calls],
    }


def _span(named: Sequence[Observation], length: Micros) -> tuple[Micros, Micros]:
    """Return when a window begins, and when the last call comes of which evidence speaks."""
    refused = next((seen.received for seen in named if seen.status == 429), None)
    if refused is not None:
        return refused - length, refused
    begins = min(seen.sent for seen in named)
    return begins, max(seen.received for seen in named) if len(named) > 1 else begins + length


def _calls_between(
    history: History, keys: Collection[str], limit: int, low: Micros, high: Micros
) -> list[Observation]:
    """Return the calls of keys under a limit, in the order of their replies."""
    alike = history.where(lambda seen: seen.key in keys and seen.limit == limit and not seen.lost)
    calls = [seen for seen in alike if low <= seen.sent and seen.received <= high][:MOST_CALLS]
    return sorted(calls, key=lambda seen: seen.received)


def _call(seen: Observation, evidence: Evidence) -> Row:
    admitted, marked = seen.status != 429, seen.id in evidence.exchanges
    return {"id": seen.id, "t": seen.received, "admitted": admitted, "marked": marked}


def _timeline(history: History, evidence: Evidence, facts: Facts) -> Row | None:
    """Return the attempts of the first delivery that evidence names, each with when the next was due."""
    rate = history.run.rate
    if not evidence.deliveries or not rate:
        return None
    event = evidence.deliveries[0].rpartition("/")[0]
    came = [attempt for attempt in history.arrived if attempt.event == event]
    endpoint = next((attempt.endpoint for attempt in came if attempt.name in evidence.deliveries), "")
    rows = [
        {
            "attempt": attempt.attempt,
            "t": attempt.received,
            "status": attempt.status,
            "marked": attempt.name in evidence.deliveries,
            "due": _next_due(attempt, rate, facts),
        }
        for attempt in came
        if attempt.endpoint == endpoint
    ]
    if not rows:
        return None
    return {"event": event, "endpoint": endpoint, "attempts": rows, "ended": history.run.ended}


def _next_due(attempt: ReceivedAttempt, rate: int, facts: Facts) -> Micros | None:
    """Return when the next attempt is due by the stated delays; None where none is."""
    delays, number = facts.webhook_delays, attempt.attempt - 1
    if _acknowledged(attempt) or not 0 <= number < len(delays):
        return None
    hung_up = attempt.received + facts.webhook_timeout // rate
    return (hung_up if attempt.answered is None else attempt.answered) + delays[number] // rate
