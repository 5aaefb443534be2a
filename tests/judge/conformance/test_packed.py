"""Rows take little room, and give back each exchange as it was."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, ObservationDetail
from ranksim.judge.conformance.history.packed import PackedObservations
from ranksim.judge.conformance.history.spill_file import SpillFile

SHELF = SpillFile(ObservationDetail)

ODD: tuple[dict[str, Any], ...] = (
    {},
    {"received": DISTANT_FUTURE, "status": 0, "happened": None},
    {"happened": False, "dry_run": True, "outside": True, "replayed": True},
    {"id": "", "key": "", "idempotency_key": "", "code": "x"},
    {"id": "a\0b\ud800", "idempotency_key": "ключ"},
    {"limit": 0, "remaining": 0, "reset": 0, "retry_after": 0, "has_more": False},
    {"limit": 10**15, "remaining": 10**15 - 1, "reset": 10**15 - 2, "retry_after": 7, "has_more": True},
    {"sent": -5, "received": -(1 << 61)},
)


def exchange(index: int, **given: Any) -> Observation:
    usual = {
        "id": f"x{index}",
        "sent": 100 - index,
        "received": 200,
        "key": "main",
        "account": "alpha",
        "environment": "production",
        "surface": "rest",
        "operation": "domains.list",
        "method": "GET",
        "status": 200,
    }
    return Observation(SHELF, index, **{**usual, **given})


def rows(*exchanges: Observation) -> PackedObservations:
    made = PackedObservations(SHELF)
    for one in exchanges:
        made.append(one)
    return made


@pytest.mark.parametrize("given", ODD)
def test_an_exchange_comes_back_as_it_was(given: dict[str, Any]) -> None:
    usual, odd = exchange(0), exchange(1, **given)
    back = rows(usual, odd, usual)[1]
    for about in fields(Observation):
        assert getattr(back, about.name) == getattr(odd, about.name), about.name
        assert type(getattr(back, about.name)) is type(getattr(odd, about.name)), about.name


def test_rows_stand_in_order_of_sending_and_those_of_one_instant_as_they_came() -> None:
    found = rows(*(exchange(index, sent=sent) for index, sent in enumerate((7, 3, 7, 3, 1))))
    assert [seen.index for seen in found] == [0, 1, 2, 3, 4]
    found.sort()
    assert [seen.index for seen in found] == [4, 1, 3, 0, 2]
    assert [seen.index for seen in found[-2:]] == [0, 2]
    assert (found[0].index, found[-1].index, len(found)) == (4, 2, 5)
    with pytest.raises(IndexError):
        found[5]


def test_those_that_may_be_replays_say_so() -> None:
    found = rows(exchange(0), exchange(1))
    found.repeats = {1}
    assert [seen.repeat for seen in found] == [False, True]


@pytest.mark.parametrize("packed", [True, False])
def test_exchanges_are_told_apart_by_what_many_have_alike(packed: bool) -> None:
    made = [
        exchange(index, operation=name) for index, name in enumerate(("jobs.get", "slots.get", "jobs.get"))
    ]
    history = History(seen=rows(*made) if packed else made)
    assert [seen.index for seen in history.by_operation("jobs.get", "jobs.list")] == [0, 2]
    assert [seen.index for seen in history.where(lambda seen: seen.ok and not seen.lost)] == [0, 1, 2]


def test_a_test_may_not_look_at_what_is_an_exchange_s_own() -> None:
    with pytest.raises(AttributeError):
        rows(exchange(0)).where(lambda seen: seen.sent > 0)
