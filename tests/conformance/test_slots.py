"""Slots: what a trace shows of counting, holding and refusing."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]


def made(d: ModuleType) -> list[Any]:
    """A domain and a list of the trace's own, and what is used before."""
    return [d.domain(0), d.listed(1), d.slots(2, 0)]


TABLE: list[tuple[str, str, Steps, str]] = [
    # counted
    (
        "counted: one keyword, two devices, two places",
        "slots.counted",
        lambda d: [*made(d), d.scan(3, devices=2, places=2), d.words(4, "a"), d.slots(5, 4)],
        "held",
    ),
    (
        "counted: two devices as one",
        "slots.counted",
        lambda d: [*made(d), d.scan(3, devices=2, places=2), d.words(4, "a"), d.slots(5, 2)],
        "broke",
    ),
    (
        "counted: two scans count twice",
        "slots.counted",
        lambda d: [*made(d), d.scan(3), d.scan(4), d.words(5, "a", "b"), d.slots(6, 4)],
        "held",
    ),
    (
        "counted: two scans as one",
        "slots.counted",
        lambda d: [*made(d), d.scan(3), d.scan(4), d.words(5, "a", "b"), d.slots(6, 2)],
        "broke",
    ),
    (
        "counted: a scan over words that are there",
        "slots.counted",
        lambda d: [*made(d), d.words(3, "a", "b"), d.scan(4, places=2), d.slots(5, 3)],
        "broke",
    ),
    (
        "counted: words that no scan covers take nothing",
        "slots.counted",
        lambda d: [*made(d), d.words(3, "a"), d.slots(4, 1)],
        "broke",
    ),
    (
        "counted: the reply says one too few",
        "slots.counted",
        lambda d: [*made(d), d.scan(3), d.words(4, "a", "b", added=1), d.slots(5, 1)],
        "broke",
    ),
    (
        "counted: a lost scan may be there",
        "slots.counted",
        lambda d: [*made(d), d.scan(3, lost=True), d.words(4, "a"), d.slots(5, 1)],
        "held",
    ),
    (
        "counted: a refused call added",
        "slots.counted",
        lambda d: [*made(d), d.scan(3), d.words(4, "a", **d.full(0, 30)), d.slots(5, 1)],
        "broke",
    ),
    (
        "counted: what is active goes into the new month",
        "slots.counted",
        lambda d: [
            *made(d),
            d.scan(3),
            d.words(4, "a", "b"),
            d.slots(5, 2),
            d.slots(7, 2, resets_at="2026-05-01T00:00:00Z"),
        ],
        "held",
    ),
    (
        "counted: more than was there before the month, and nobody added",
        "slots.counted",
        lambda d: [*made(d), d.slots(5, 2), d.slots(7, 3, resets_at="2026-05-01T00:00:00Z")],
        "broke",
    ),
    # held
    (
        "held: a removed word stays counted",
        "slots.held",
        lambda d: [*made(d), d.scan(3), d.words(4, "a"), d.slots(5, 1), gone(d, 6), d.slots(7, 0, 1)],
        "held",
    ),
    (
        "held: a removed word frees its slot",
        "slots.held",
        lambda d: [*made(d), d.scan(3), d.words(4, "a"), d.slots(5, 1), gone(d, 6), d.slots(7, 0)],
        "broke",
    ),
    (
        "held: what is held is freed without a reason",
        "slots.held",
        lambda d: [d.slots(0, 2, 3), d.slots(1, 5, 0)],
        "broke",
    ),
    (
        "held: next month nothing is held",
        "slots.held",
        lambda d: [d.slots(0, 2, 3), d.slots(1, 2, 0, resets_at="2026-05-01T00:00:00Z")],
        "-",
    ),
    # limit
    ("limit: reached", "slots.limit", lambda d: [d.slots(0, 18), d.scan(1), d.slots(2, 20)], "held"),
    ("limit: passed", "slots.limit", lambda d: [d.slots(0, 18), d.scan(1), d.slots(2, 21)], "broke"),
    ("limit: passed before", "slots.limit", lambda d: [d.slots(0, 23), d.slots(2, 23)], "-"),
    # refused
    ("refused: does not fit", "slots.refused", lambda d: [d.words(0, "a", "b", **d.full(19, 2))], "held"),
    ("refused: would fit", "slots.refused", lambda d: [d.words(0, "a", **d.full(19, 1))], "broke"),
    ("refused: a scan may be too wide", "slots.refused", lambda d: [d.scan(0, **d.full(1, 1))], "open"),
    (
        "refused: a scan within the dimensions",
        "slots.refused",
        lambda d: [d.entitled(0), d.scan(1, **d.full(1, 1))],
        "broke",
    ),
    (
        "refused: nothing stated",
        "slots.refused",
        lambda d: [d.words(0, "a", code="slot_limit_exceeded")],
        "open",
    ),
    # sum
    ("sum: adds up", "slots.sum", lambda d: [d.slots(0, 3, 4)], "held"),
    ("sum: held left out", "slots.sum", lambda d: [d.slots(0, 3, 4, used=3)], "broke"),
    ("sum: one too many available", "slots.sum", lambda d: [d.slots(0, 3, 4, available=14)], "broke"),
]


def gone(d: ModuleType, at: float) -> Any:
    return d.call(at, "keywords.delete", path={"id": "k"}, status=204)


@pytest.mark.fact("S23", "S24", "S25", "S26", "S27", "S37", "S64")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_slots(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


@pytest.mark.fact("U62")
def test_a_paused_scan_may_free_its_slots(d: ModuleType) -> None:
    pause = d.call(5, "scans.update", {"id": "s"}, body={"active": False}, path={"id": "s"})
    steps = [*made(d), d.scan(3, id="s"), d.words(4, "a"), d.slots(4.5, 1), pause, d.slots(6, 0)]
    assert d.verdict("slots.held", steps) != "broke"
    assert d.differing(steps) == {62}
    assert d.verdict("slots.counted", steps, Policy().replace(assumptions={"narrowing": "held"})) == "broke"


@pytest.mark.fact("U62")
def test_others_may_free_slots_too(d: ModuleType) -> None:
    steps = [d.slots(5, 4), d.slots(6, 2)]
    assert d.verdict("slots.counted", steps) == "broke"
    assert d.verdict("slots.counted", steps, exclusive=False) != "broke"
    assert d.differing(steps, exclusive=False) == {62}
    held = Policy().replace(assumptions={"narrowing": "held"})
    assert d.verdict("slots.counted", steps, held, exclusive=False) == "broke"


@pytest.mark.fact("U63")
def test_adding_again_may_take_up_a_hold_or_not(d: ModuleType) -> None:
    begin = [*made(d), d.scan(3), d.words(4, "a"), d.slots(5, 1), gone(d, 6), d.words(7, "a")]
    assert d.verdict("slots.counted", [*begin, d.slots(8, 1)]) == "held"
    assert d.verdict("slots.counted", [*begin, d.slots(8, 1, 1)]) == "held"
    assert d.verdict("slots.counted", [*begin, d.slots(8, 2, 1)]) == "broke"
