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
    named = [one for one in history.named(set(evidence.exchanges)) if not one.lost]
    rate = history.run.traffic_rate
    limit = next((one.limit for one in named if one.limit is not None), None)
    if limit is None or not rate:
        return None
    length = facts.rate_window // rate
    refused = next((one for one in named if one.status == 429), None)
    begins = min(one.sent for one in named) if refused is None else refused.received - length
    keys = {one.key for one in named}
    low, high = begins - length // SIDE, begins + length + length // SIDE
    calls: list[Row] = [
        {
            "id": one.id,
            "t": one.received,
            "admitted": one.status != 429,
            "marked": one.id in evidence.exchanges,
        }
        for one in history.where(lambda one: one.key in keys and one.limit == limit and not one.lost)
        if low <= one.sent and one.received <= high
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
        "until": max(one.received for one in named)
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
    came = [one for one in history.arrived if one.event == event]
    marked = [one for one in came if f"{event}/{one.attempt}" in evidence.deliveries]
    endpoint = next((one.endpoint for one in marked), "")
    attempts = [one for one in came if one.endpoint == endpoint]
    if not attempts:
        return None
    rows = []
    for one in attempts:
        number = one.attempt - 1
        delay = facts.webhook_delays[number] // rate if 0 <= number < len(facts.webhook_delays) else None
        ended = one.answered if one.answered is not None else one.received + facts.webhook_timeout // rate
        acknowledged = one.status is not None and 200 <= one.status <= 299
        rows.append(
            {
                "attempt": one.attempt,
                "t": one.received,
                "status": one.status,
                "marked": f"{event}/{one.attempt}" in evidence.deliveries,
                "due": None if delay is None or acknowledged else ended + delay,
            }
        )
    return {"event": event, "endpoint": endpoint, "attempts": rows, "ended": history.run.ended}


def drawn(rule: str, evidence: Evidence, histories: Sequence[History], facts: Facts) -> dict[str, Row]:
    """Return the figures that evidence of a rule has, by name."""
    found: dict[str, Row] = {}
    for history in histories:
        if rule in WINDOWS and "staircase" not in found:
            steps = staircase(history, evidence, facts)
            found |= {"staircase": steps} if steps is not None else {}
        if rule.startswith("webhook.") and "timeline" not in found:
            line = timeline(history, evidence, facts)
            found |= {"timeline": line} if line is not None else {}
    return found
