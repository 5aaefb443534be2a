"""Slots: what a trace shows of counting, holding and refusing."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]


def made(d: ModuleType) -> list[Any]:
    """A domain and a list of the trace's own, and what is used before."""
    return [d.domain(0), d.listed(1), d.slots(2, 0)]


NEEDED = {"used": 2, "limit": 20, "needed": 1}

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
        "counted: two devices as one, after another scan was widened",
        "slots.counted",
        lambda d: [
            *made(d),
            d.domain(2.0, "d2"),
            d.listed(2.1, "l2", "d2"),
            d.scan(2.2, of="l2", on="d2", id="s2"),
            d.call(2.5, "scans.update", path={"id": "s2"}, body={"geographies": []}),
            d.scan(3, devices=2),
            d.words(4, "a", added=1),
            d.slots(5, 1),
        ],
        "broke",
    ),
    (
        "counted: two devices as one, after another scan was given lists",
        "slots.counted",
        lambda d: [
            *made(d),
            d.listed(2.1, "l2"),
            d.scan(2.2, of="l2", id="s2"),
            d.call(2.5, "scans.update", path={"id": "s2"}, body={"list_ids": ["l2"]}),
            d.scan(3, devices=2),
            d.words(4, "a", added=1),
            d.slots(5, 1),
        ],
        "open",
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
    (
        "refused: by numbers that fit, needed as it says",
        "slots.refused",
        lambda d: [*made(d), d.words(3, "a", code="slot_limit_exceeded", status=403, meta=NEEDED)],
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
    (
        "held: a word that comes back takes its hold up again",
        "slots.held",
        lambda d: [
            *[*made(d), d.scan(3), words := d.words(4, "a", added=1), gone_word(d, 5, words)],
            *[d.slots(6, 0, 1), d.words(7, "a", added=0), d.slots(8, 1)],
        ],
        "held",
    ),
    # limit
    ("limit: reached", "slots.limit", lambda d: [d.slots(0, 18), d.scan(1), d.slots(2, 20)], "held"),
    ("limit: passed", "slots.limit", lambda d: [d.slots(0, 18), d.scan(1), d.slots(2, 21)], "broke"),
    ("limit: passed before", "slots.limit", lambda d: [d.slots(0, 23), d.slots(2, 23)], "-"),
    (
        "limit: a scan was widened meanwhile",
        "slots.limit",
        lambda d: [d.slots(0, 18), d.scan(1), widened(d, 2), d.slots(3, 21)],
        "open",
    ),
    (
        "limit: passed after a scan was widened",
        "slots.limit",
        lambda d: [widened(d, 0), d.slots(1, 18), d.scan(2), d.slots(3, 21)],
        "broke",
    ),
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


def gone_scan(d: ModuleType, at: float, id: str = "s") -> Any:
    return d.call(at, "scans.delete", path={"id": id}, status=204)


def gone_word(d: ModuleType, at: float, words: Any) -> Any:
    """Remove the first keyword that a call made."""
    return d.call(at, "keywords.delete", path={"id": d.created_ids(words)[0]}, status=204)


def widened(d: ModuleType, at: float) -> Any:
    """Change the places of a scan that was there before."""
    body = {"geographies": [{"country": "DE"}, {"country": "AT"}]}
    return d.call(at, "scans.update", {"id": "s"}, body=body, path={"id": "s"})


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


@pytest.mark.fact("S26", "S27")
def test_what_is_held_names_what_was_removed(d: ModuleType) -> None:
    """A removal that took no slots, or that others came beside, shows nothing of them."""

    def cases(*steps: Any) -> set[str]:
        found = d.finding(d.judged([*made(d), *steps]), "slots.held")
        assert not found.broken
        return {case.name for case in found.cases if case.exercised}

    scan, words = d.scan(3, id="s"), d.words(4, "a", "b")
    tracked = [scan, words, d.slots(5, 2)]
    assert cases(*tracked, gone_word(d, 6, words), d.slots(7, 1, 1)) == {"keywords removed"}
    assert cases(*tracked, gone_scan(d, 6), d.slots(7, 0, 2)) == {"a scan removed"}
    assert cases(*tracked, gone(d, 6), d.slots(7, 2)) == set()
    assert cases(words, d.slots(5, 0), gone_word(d, 6, words), d.slots(7, 0)) == set()
    assert cases(*tracked, gone_scan(d, 6), d.scan(6.5), d.slots(7, 2)) == set()
    assert cases(*tracked, gone_scan(d, 6), d.slots(7, 0, 2), d.slots(8, 0, 2)) == {
        "a scan removed",
        "held before",
    }


@pytest.mark.fact("S26", "S27")
def test_what_frees_its_slots_at_once_is_the_case(d: ModuleType) -> None:
    def tracked() -> list[Any]:
        return [*made(d), d.scan(3, id="s"), words, d.slots(5, 2)]

    def broken(*steps: Any) -> set[str]:
        found = d.finding(d.judged([*tracked(), *steps]), "slots.held")
        return {case.name for case in found.cases if case.broken}

    words = d.words(4, "a", "b")
    assert broken(gone_word(d, 6, words), d.slots(7, 1)) == {"keywords removed"}
    assert broken(gone_scan(d, 6), d.slots(7, 0)) == {"a scan removed"}
    assert broken(gone_word(d, 6, words), gone_scan(d, 6.5), d.slots(7, 0)) == {"any"}
    for operation, which, case in (
        ("keyword_lists.delete", "l1", "a list removed"),
        ("domains.delete", "d1", "a domain removed"),
    ):
        removal = d.call(6, operation, path={"id": which}, status=204)
        assert broken(removal, d.slots(7, 0)) == {case}
        held = d.finding(d.judged([*tracked(), removal, d.slots(7, 0, 2)]), "slots.held")
        assert case in {one.name for one in held.cases if one.conforms}


@pytest.mark.fact("S23", "S25")
def test_what_multiplies_slots_is_read_where_one_call_alone_adds_them(d: ModuleType) -> None:
    wide = d.scan(4, devices=2, places=2)
    steps = [*made(d), d.words(3, "a", "b"), d.slots(3.5, 0), wide, d.slots(5, 8), d.scan(6), d.slots(7, 10)]
    cases = d.finding(d.judged(steps), "slots.counted").cases
    shown = {case.name: case.by for case in cases if case.exercised and case.name != "read between"}
    assert shown.keys() == {"scans", "several words", "several pairings", "several places"}
    assert shown["several places"][0] == wide.id
    assert "several places" not in {
        case.name
        for case in d.finding(d.judged([*steps[:4], d.scan(4), d.slots(5, 2)]), "slots.counted").cases
        if case.exercised
    }


@pytest.mark.fact("S32", "S33")
@pytest.mark.parametrize("removed", ["a word", "a scan of another domain", "a domain beside"])
def test_slots_are_counted_after_a_removal(d: ModuleType, removed: str) -> None:
    """What was removed can be held, and taken up again by its like alone."""
    words, apart = d.words(4, "a"), [d.domain(1.1, "d2"), d.listed(1.2, "l2", "d2")]
    before = [
        *made(d),
        *apart,
        d.scan(3, id="s"),
        d.scan(3.5, of="l2", on="d2", id="s2"),
        words,
        d.slots(5, 1),
    ]
    taken = {
        "a word": gone_word(d, 6, words),
        "a scan of another domain": gone_scan(d, 6, "s2"),
        "a domain beside": d.call(6, "domains.delete", path={"id": "d9"}, status=204),
    }[removed]
    more = [taken, d.slots(6.5, 1), d.words(7, "b", "c")]
    assert d.verdict("slots.counted", [*before, *more, d.slots(8, 3)]) == "held"
    assert d.verdict("slots.counted", [*before, *more, d.slots(8, 1)]) == "broke"
    again = [taken, d.slots(6.5, 1), d.words(7, "a", "b")]
    assert d.verdict("slots.counted", [*before, *again, d.slots(8, 1)]) == "broke"  # "b" is held nowhere
    assert (d.verdict("slots.counted", [*before, *again, d.slots(8, 2)]) == "broke") == (removed != "a word")


REMOVED: dict[str, tuple[Steps, int, int, int]] = {
    "a word comes back": (
        lambda d: [d.scan(3, id="s"), words := d.words(4, "a"), d.slots(5, 1), gone_word(d, 6, words),
                   d.slots(7, 0, 1), d.words(8, "a")],
        1, 2, 63,
    ),
    "another scan of the same words": (
        lambda d: [d.scan(3, id="s"), words := d.words(4, "a", "b"), gone_word(d, 5, words),
                   d.words(5.5, "a", added=0), gone_scan(d, 6), d.slots(7, 0, 2), d.scan(8, id="t")],
        2, 4, 94,
    ),
    "a word in two lists of a scan": (
        lambda d: [d.listed(2.2, "l2"), d.words(3, "a"), d.words(4, "a", to="l2"), d.slots(5, 0),
                   d.scan(6, lists=("l1", "l2"))],
        1, 2, 94,
    ),
}  # fmt: skip


@pytest.mark.fact("U63", "U94")
@pytest.mark.parametrize("name", REMOVED)
def test_what_is_held_again_or_counted_twice_differs(d: ModuleType, name: str) -> None:
    steps, assumed, other, number = REMOVED[name]
    whole = [*made(d), *steps(d)]
    assert d.differing([*whole, d.slots(9, assumed)]) == set()
    assert d.differing([*whole, d.slots(9, other)]) == {number}
    assert d.differing([*whole, d.slots(9, other)], exclusive=False) == set()
    lost = d.words(8.5, "z", lost=True)
    assert d.differing([*whole, lost, d.slots(9, other)]) == set()


@pytest.mark.fact("U94")
def test_a_word_of_another_list_that_counts_as_there_differs(d: ModuleType) -> None:
    lists = [*made(d), d.listed(2.2, "l2"), d.words(3, "a"), d.slots(4, 0)]
    second = d.words(5, "a", to="l2", created=(), present=1)
    assert d.differing([*lists, second, d.slots(6, 0)]) == {94}
    assert d.differing([*lists, d.words(5, "a", to="l2"), d.slots(6, 0)]) == set()
    assert d.differing([*lists, d.words(5, "b", to="l2", created=(), present=1), d.slots(6, 0)]) == set()


@pytest.mark.fact("S64")
def test_slots_are_shown_to_hold_for_several_at_once_where_they_met(d: ModuleType) -> None:
    def seen(*entries: Any) -> tuple[str, list[str]]:
        found = d.finding(d.judged(entries), "slots.limit")
        return found.verdict, [case.name for case in found.cases if case.exercised]

    known = [*made(d), d.slots(3, 0, limit=2), d.scan(4)]
    refused = d.words(5.2, "c", **d.full(2, 1, limit=2))
    before = [*known, d.words(4.5, "a", added=1)]
    assert seen(*before, d.words(5, "b", added=1, took=1), refused, d.slots(7, 2, limit=2)) == (
        "conforms",
        ["reached", "at once"],
    )
    assert seen(*before, d.words(5, "b", added=1), refused, d.slots(7, 2, limit=2)) == (
        "undecided",
        ["reached"],
    )


@pytest.mark.fact("S26", "S33", "S37")
def test_no_order_of_calls_that_overlap_explains_used_slots(d: ModuleType) -> None:
    """Either reading came first; a word was added between them, or nothing was."""
    reads = [d.slots(1, 2, took=3), d.slots(1.1, 3, took=3)]
    word = d.words(1.2, "late", took=2, lost=True)
    made = [d.domain(-9), d.listed(-8), d.scan(-7)]
    assert d.verdict("slots.counted", [*made, *reads, word]) != "broke"
    assert d.verdict("slots.counted", [*made, *reads]) == "broke"


@pytest.mark.fact("S26", "S37")
def test_a_word_that_is_removed_is_held_and_nothing_else_is(d: ModuleType) -> None:
    """Used slots stay the same, whether one of them is held or two."""
    added = d.words(-5, "a", "b", added=2)
    made = [d.domain(-9), d.listed(-8), d.scan(-7), added, d.slots(0, 2)]
    removal = d.call(1, "keywords.delete", path={"id": d.created_ids(added)[0]}, status=204)
    assert d.verdict("slots.held", [*made, removal, d.slots(2, 1, 1)]) == "held"
    assert d.verdict("slots.held", [*made, removal, d.slots(2, 2, 0)]) == "broke"
    assert d.verdict("slots.held", [*made, removal, d.slots(2, 0, 2)]) == "broke"
    assert d.verdict("slots.held", [*made, d.slots(2, 1, 1)]) == "broke"
    other = d.call(1, "labels.create", {"id": "x"}, body={"name": "n"}, status=201)
    assert d.verdict("slots.held", [*made, other, d.slots(2, 1, 1)]) != "broke"  # another write may hold
