"""Findings of shipped scenarios, recomputed and compared with the results that are kept of their runs."""

from __future__ import annotations

import heapq
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

EXPECTED = Path(__file__).parents[2] / "scenarios" / "expected"


def kept(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.example(
    "README.md",
    "40 domains, 12,000 keywords, 144,000 slots, 1,480 rank runs, 5 % churn a week",
    "room for two Mondays of churn: from the third on additions are refused",
)
@pytest.mark.example(
    "scenarios/README.md",
    "two Mondays fit; from the third on 112 additions are refused and 13 % of the slots",
)
def test_a_month_of_churn() -> None:
    """Domain by domain: what is removed is held until 1 April, and what does not fit is lost."""
    keywords, held, limit = [300] * 40, 0, 160_000
    removed, added, refused, active = 0, 0, [], []
    assert sum(keywords) * 12 == 144_000
    for monday in ("2 March", "9 March", "16 March", "23 March", "30 March", "6 April"):
        held = 0 if monday == "6 April" else held
        refused.append(0)
        for domain in range(40):
            gone = round(keywords[domain] * 0.05)
            keywords[domain] -= gone
            held, removed = held + gone, removed + gone
            wanted = 300 - keywords[domain]
            if (sum(keywords) + held + wanted) * 12 <= limit:
                keywords[domain], added = keywords[domain] + wanted, added + 1
            else:
                refused[-1] += 1
        active.append(sum(keywords) * 12)
    assert refused == [0, 0, 32, 40, 40, 0]
    calls = kept("agency-month")["calls"]
    assert calls["sync keywords.create refused 402"] == sum(refused) == 112
    assert calls["sync keywords.create granted 201"] == added
    assert calls["sync keywords.delete ok 204"] == removed
    assert calls["nightly jobs.create granted 202"] == 40 * 37 == 1480
    assert active[4] == 124_704
    assert round(100 * (1 - active[4] / 144_000)) == 13


@pytest.mark.example(
    "scenarios/README.md", "1,890 refusals for 1,500 calls", "74,520 refusals for the same 1,500 calls"
)
@pytest.mark.parametrize("manner", ["obey", "ignore"])
def test_a_retry_storm(manner: str) -> None:
    """A call every 400 ms for ten minutes; 120 pass in a minute that begins with the first of them."""
    calls = [(number * 400, number) for number in range(1500)]
    opened, count, passed, refused = -60_000, 0, 0, 0
    while calls:
        now, number = heapq.heappop(calls)
        if now >= opened + 60_000:
            opened, count = now, 0
        if count < 120:
            count, passed = count + 1, passed + 1
            continue
        refused += 1
        told = -(-(opened + 60_000 - now) // 1000) * 1000
        heapq.heappush(calls, (now + (told if manner == "obey" else 1000), number))
    found = kept(f"retry-storm-{manner}")["calls"]
    assert (passed, refused) == (
        found["importer labels.create ok 201"],
        found["importer labels.create limited 429"],
    )
    assert refused == {"obey": 30 * sum(range(11)) + 180 + 60, "ignore": 74_520}[manner]


ATTEMPTS = (0, 1, 6, 36, 156, 516)


def night(events: int, down: int) -> tuple[int, int | None]:
    """(failures, minute of the 20th) of events that come together, ten minutes into an outage of so many."""
    failures = [10 + at for at in ATTEMPTS for _ in range(events) if 10 + at < down]
    return min(len(failures), 20), failures[19] - 10 if len(failures) >= 20 else None


@pytest.mark.example(
    "scenarios/README.md",
    "Three events at once are all acknowledged, 8 h 36 min late; four make 20 failures in a row",
)
def test_a_receiver_that_is_down_for_three_hours() -> None:
    found = kept("receiver-down-3h")
    for name, events in (("three", 3), ("four", 4)):
        failures, off = night(events, 180)
        failed = (
            sum(found["attempts"][f"{name} {n}"] for n in range(1, 6))
            - found["endpoints"][name]["acknowledged"]
        )
        failed += found["attempts"].get(f"{name} 6", 0)
        assert failed == failures
        assert found["endpoints"][name]["disabled"] == (off is not None)
        assert found["endpoints"][name]["lost"] == (events if off is not None else 0)
    assert night(3, 180) == (15, None)
    assert night(4, 180) == (20, 156)
    assert divmod(ATTEMPTS[5], 60) == (8, 36)


@pytest.mark.example(
    "scenarios/README.md",
    "With 20 events at once, with 10 after 1 min, 7 after 6, 5 after 36, 4 after 156, with 3 never",
)
def test_a_receiver_that_is_down_for_nine_hours() -> None:
    found = kept("receiver-down-9h")["endpoints"]
    table = {
        "twenty": (20, 0),
        "ten": (10, 1),
        "seven": (7, 6),
        "five": (5, 36),
        "four": (4, 156),
        "three": (3, None),
    }
    for name, (events, minute) in table.items():
        assert night(events, 540)[1] == minute
        assert found[name]["disabled"] == (minute is not None)
    assert sum(events for events, _ in table.values()) == 49


@pytest.mark.example(
    "scenarios/README.md", "None of 6 events is acknowledged, though all are acted on: 15 duplicates"
)
def test_a_receiver_that_is_always_late() -> None:
    """Three events are tried six times each, 18 failures; of the next three the second makes 20."""
    failures, attempts, endpoint = 0, 0, kept("slow-receiver-10.1s")["endpoints"]["slow"]
    for events in (3, 3):
        for _ in ATTEMPTS:
            if failures < 20:
                attempts, failures = attempts + events, failures + events
    assert endpoint["duplicates"] == attempts - 6 == 15
    assert (endpoint["acknowledged"], endpoint["disabled"]) == (0, 1)


@pytest.mark.example(
    "scenarios/README.md",
    "By 0.0552 USD of 90, one job; by 1.776 USD, ten jobs, if cost were booked at completion",
)
def test_ten_jobs_at_the_ceiling() -> None:
    """239 keywords on two pairings, ten domains an hour, three days; jobs reserve their cost, or not."""
    job, ceiling = 239 * 2 * Decimal("0.0004"), Decimal(90)
    booked, late, granted = Decimal(0), Decimal(0), 0
    for _ in range(3 * 24):
        begun = late
        for _ in range(10):
            if booked < ceiling:
                booked, granted = booked + job, granted + 1
            if begun < ceiling:
                late += job
    assert (str(booked - ceiling), str(late - ceiling)) == ("0.0552", "1.7760")
    calls = kept("ceiling-concurrent-jobs")["calls"]
    assert calls["rounds jobs.create granted 202"] == granted
    assert calls["rounds jobs.create refused 402"] == 720 - granted


@pytest.mark.example(
    "docs/why.md",
    "why.moment.at == scenario.start + 3 * 86_400_000_000",
    'why.change.new) == ("scenario.clients.crawls.every", "1d")',
)
def test_the_shortest_interval_that_meets_no_cooldown() -> None:
    """Crawls from the third of five days on, in minutes: a second one within a day of one is refused."""

    def refused(every: int) -> int:
        free, count = 0, 0
        for t in range(3 * 1440, 5 * 1440, every):
            count += t < free
            free = free if t < free else t + 1440
        return count

    assert next(every for every in range(720, 3000) if not refused(every)) == 1440
    assert min(range(3 * 1440, 5 * 1440, 720)) * 60_000_000 == 3 * 86_400_000_000
