"""What the figures of a page are drawn from: calls against a window, attempts against their schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.rate.group_bounds import TWO_WINDOWS
from ranksim.judge.conformance.verdict.verdicts import Evidence

Row = dict[str, Any]

WINDOWS = ("rate.read", "rate.write", "rate.expensive", "rate.per_key", "rate.remaining")
"""The rules whose evidence is calls in a window."""

MOST_CALLS = 5_000
"""Calls drawn against a window."""

SIDE = 10
"""Share of a window that is shown on each side of it: one in so many."""


def staircase(history: History, evidence: Evidence, facts: Facts) -> Row | None:
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
    refused = next((seen for seen in named if seen.status == 429), None)
    begins = min(seen.sent for seen in named) if refused is None else refused.received - length
    keys = {seen.key for seen in named}
    low, high = begins - length // SIDE, begins + length + length // SIDE
    calls: list[Row] = [
        {
            "id": seen.id,
            "t": seen.received,
            "admitted": seen.status != 429,
            "marked": seen.id in evidence.exchanges,
        }
        for seen in history.where(lambda seen: seen.key in keys and seen.limit == limit and not seen.lost)
        if low <= seen.sent and seen.received <= high
    ][:MOST_CALLS]
    calls.sort(key=lambda call: call["t"])
    if len(calls) < 2:
        return None
    return {
        "limit": limit,
        "windows": 2 if TWO_WINDOWS in evidence.says else 1,
        "t": begins,
        "since": begins - (history.run.began or begins),
        "length": length,
        "until": max(seen.received for seen in named)
        if refused is None and len(named) > 1
        else begins + length,
        "calls": calls,
    }


def timeline(history: History, evidence: Evidence, facts: Facts) -> Row | None:
    """Return the attempts of the first delivery that evidence names, each with when the next was due."""
    rate = history.run.rate
    if not evidence.deliveries or not rate:
        return None
    event = evidence.deliveries[0].rpartition("/")[0]
    came = [tried for tried in history.arrived if tried.event == event]
    marked = [tried for tried in came if f"{event}/{tried.attempt}" in evidence.deliveries]
    endpoint = next((tried.endpoint for tried in marked), "")
    attempts = [tried for tried in came if tried.endpoint == endpoint]
    if not attempts:
        return None
    rows = []
    for tried in attempts:
        number = tried.attempt - 1
        delay = facts.webhook_delays[number] // rate if 0 <= number < len(facts.webhook_delays) else None
        ended = (
            tried.answered if tried.answered is not None else tried.received + facts.webhook_timeout // rate
        )
        acknowledged = tried.status is not None and 200 <= tried.status <= 299
        rows.append(
            {
                "attempt": tried.attempt,
                "t": tried.received,
                "status": tried.status,
                "marked": f"{event}/{tried.attempt}" in evidence.deliveries,
                "due": None if delay is None or acknowledged else ended + delay,
            }
        )
    return {"event": event, "endpoint": endpoint, "attempts": rows, "ended": history.run.ended}


def drawn(rule: str, evidence: Evidence, histories: Sequence[History], facts: Facts) -> dict[str, Row]:
    """Return the figures that evidence of a rule has, by name."""
    figures: dict[str, Row] = {}
    for history in histories:
        if rule in WINDOWS and "staircase" not in figures:
            steps = staircase(history, evidence, facts)
            figures |= {"staircase": steps} if steps is not None else {}
        if rule.startswith("webhook.") and "timeline" not in figures:
            line = timeline(history, evidence, facts)
            figures |= {"timeline": line} if line is not None else {}
    return figures
