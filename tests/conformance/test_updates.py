"""The last PATCH of a field is what is shown of it."""

from typing import Any

import pytest
from tests.conformance.building import Entry, call, found, judged

from ranksim.conformance.calls import updates


def get(sent: float, label: Any, received: float | None = None) -> Entry:
    return call(
        "domains.get",
        sent,
        sent + 1 if received is None else received,
        {"id": "d", "label": label},
        path={"id": "d"},
    )


def patch(sent: float, received: float | None, label: Any, shown: Any = "as asked", **more: Any) -> Entry:
    data = {"id": "d", "label": label if shown == "as asked" else shown}
    return call("domains.update", sent, received, data, path={"id": "d"}, body={"label": label}, **more)


TABLE: dict[str, tuple[list[Entry], str]] = {
    "shown": ([patch(0, 1, "a"), get(2, "a")], "held"),
    "forgotten": ([get(-2, "o"), patch(0, 1, "a"), get(2, "o")], "broken"),
    "without effect": ([get(-2, "o"), patch(0, 1, "a", "o")], "broken"),
    "tidied up": ([get(-2, "o"), patch(0, 1, " O ", "o"), get(2, "o")], "held"),
    "the second of two": ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "b")], "held"),
    "the first of two": ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "a")], "broken"),
    "either of two that overlap": ([patch(0, 3, "a"), patch(1, 2, "b"), get(4, "a")], "held"),
    "neither of two that overlap": ([patch(0, 3, "a"), patch(1, 2, "b"), get(4, "o")], "broken"),
    "read meanwhile": ([patch(0, 3, "a"), get(1, "o", 2)], "held"),
    "a lost one after it": ([patch(0, 1, "a"), patch(2, None, "b"), get(4, "c")], "held"),
    "a lost one that is shown": ([patch(0, 1, "a"), patch(2, None, "b"), get(4, "b")], "held"),
    "one that never was": ([patch(0, 1, "a"), patch(2, None, "b", effect="none"), get(4, "b")], "broken"),
    "a lost one after it, and what was before both": (
        [get(-2, "o"), patch(0, 1, "a"), patch(2, None, "b"), get(4, "o")],
        "broken",
    ),
    "a lost one after it, and a text much like it": (
        [get(-2, "www.b.example"), patch(0, 1, "a"), patch(2, None, "b.example"), get(4, "www.b.example")],
        "held",
    ),
    "what it replaces is shown by its reply": ([patch(0, 1, "a"), patch(2, 3, "b", "a")], "broken"),
    "another beside it": ([patch(0, 1, "a"), patch(2, 4, "b", "a"), patch(3, 5, "a")], "held"),
    "a scheme is dropped": (
        [get(-2, "b.example"), patch(0, 1, "https://b.example", "b.example")],
        "nothing",
    ),
    "refused": ([patch(0, 1, "a", code="validation_failed", status=422), get(2, "o")], "nothing"),
}


@pytest.mark.fact("S42", "S49", "E45")
@pytest.mark.parametrize(("entries", "expected"), TABLE.values(), ids=TABLE)
def test_patches(entries: list[Entry], expected: str) -> None:
    assert found(judged(updates, entries), updates.PATCHED) == expected


def test_where_others_write_nothing_is_told() -> None:
    tally = judged(updates, [patch(0, 1, "a"), get(2, "o")], exclusive=False)
    assert found(tally, updates.PATCHED) == "nothing"


@pytest.mark.fact("S49")
@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ([patch(0, 1, "a"), get(2, "a")], {"domains"}),
        ([get(-2, "o"), patch(0, 1, "a"), get(2, "a")], {"domains", "domains, again"}),
        ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "b")], {"domains", "domains, again"}),
        ([patch(0, 1, "a"), patch(2, 3, "a"), get(4, "a")], {"domains"}),
    ],
    ids=["one", "one over what was read", "two", "two of one value"],
)
def test_that_the_last_wins_is_shown_where_another_value_was_before(
    entries: list[Entry], shown: set[str]
) -> None:
    [finding, _] = judged(updates, entries).findings()
    assert {case.name for case in finding.cases if case.exercised} == shown
