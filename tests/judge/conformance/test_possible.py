"""The engine that runs a model over the calls of a partition, beside the search of every placement."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from tests.judge.conformance import placing
from tests.judge.conformance.test_brute_force import FAMILIES, HISTORIES, SEED, TRIED

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.judge.conformance.contradiction import contradictions, explained
from ranksim.judge.conformance.possible import ModelCall, Possible


def register_apply(
    state: str, op: placing.Op, number: int, last: int
) -> Iterator[tuple[str, placing.Limits]]:
    """The last value that was set is shown."""
    after = op.asks[1] if op.asks[0] == "set" else state
    if op.received is None or op.told == ("shows", after):
        yield after, ()


REGISTER = replace(FAMILIES["updates"], apply=register_apply, effects=list)

UNTIMED = {
    **{name: (family, TRIED[name]) for name, family in FAMILIES.items() if not family.timed},
    "register": (REGISTER, ("o", "x", "a", "aa", "b", "c")),
}
"""Families, and the states from which a placement may begin."""

READS = {"get", "look"}
"""What changes no state of a model: others note what they showed."""


def calls_of(ops: Iterable[placing.Op], *, overwrites: bool) -> list[ModelCall]:
    return [
        ModelCall(
            op.sent,
            DISTANT_FUTURE if op.received is None else op.received,
            op.asks,
            None if op.received is None else op.told,
            f"x{number}",
            op.asks[0] in READS and op.told[:1] != ("cost",),
            overwrites and op.asks[0] == "set",
        )
        for number, op in enumerate(ops)
    ]


def step_of(apply: placing.Apply) -> Any:
    def step(state: Any, call: ModelCall) -> Iterator[Any]:
        reply: Any = call.reply or ()
        question: Any = call.question
        op = placing.Op(call.sent, call.received if call.answered else None, question, reply)
        return (after for after, _ in apply(state, op, 0, -1))

    return step


def agrees(name: str, number: int, seed: str) -> bool:
    """Whether a drawn history was explained, both ways; what is found is small and still impossible."""
    (family, starts), rng = UNTIMED[name], random.Random(f"{seed} possible {name} {number}")
    ops = family.effects(placing.history_of(rng, family))
    expected = placing.explained(ops, starts, family.apply)
    step, calls = step_of(family.apply), calls_of(ops, overwrites=name == "register")
    assert explained(calls, starts, step) == expected, (name, seed, number, ops)
    if not expected:
        evidence = contradictions(calls, starts, step)[0][0]
        in_flight = not all(call.answered for call in evidence)  # it might not have taken effect yet
        for kept in (evidence, *(() if in_flight else combinations(evidence, len(evidence) - 1))):
            ids = {call.id for call in kept}
            weaker = [
                op if f"x{at}" in ids else placing.Op(op.sent, None, op.asks) for at, op in enumerate(ops)
            ]
            assert placing.explained(weaker, starts, family.apply) == (len(kept) < len(evidence)), (
                name,
                seed,
                number,
                ops,
            )
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("name", UNTIMED)
def test_it_explains_what_a_placement_explains(name: str) -> None:
    print(f"seed {SEED}")
    could = [agrees(name, number, SEED) for number in range(60)]
    assert True in could
    assert False in could


@pytest.mark.heavy
@pytest.mark.parametrize("name", UNTIMED)
def test_it_explains_what_a_placement_explains_in_thousands(name: str) -> None:
    print(f"seed {SEED}")
    for number in range(HISTORIES):
        agrees(name, number, SEED)


# Worst cases


UNKNOWN = "?"


def once(state: str | None, call: ModelCall) -> Iterator[str]:
    """The first work under a key is the only one."""
    if state in (None, UNKNOWN, call.reply) or call.reply is None:
        yield state or UNKNOWN if call.reply is None else str(call.reply)


def register(state: str | None, call: ModelCall) -> Iterator[str | None]:
    if call.question == "get":
        if call.reply in (state, None) or state is None:
            yield str(call.reply)
    else:
        yield str(call.question)


def test_a_thousand_twins_at_once_are_few_pairs() -> None:
    possible = Possible((None,), once)
    for number in range(1000):
        assert not possible.add(ModelCall(number, 5000 + number, "post", "made 1"))
    assert not [*possible.pass_to(DISTANT_FUTURE)]
    assert not possible.open
    assert possible.states == {"made 1"}
    calls = [ModelCall(number, 5000 + number, "post", "made 1") for number in range(1000)]
    other = ModelCall(1000, 6001, "post", "made 2", "other")
    found, is_open = contradictions([*calls, other], (None,), once)
    assert not is_open
    assert [[call.reply for call in evidence] for evidence in found] == [["made 1", "made 2"]]


def test_where_pairs_are_too_many_the_partition_is_open() -> None:
    def counted(state: frozenset[int], call: ModelCall) -> Iterator[frozenset[int]]:
        if call.question != "all" or len(state) == 3:
            yield state | {call.sent}

    writes = [ModelCall(number, 1000 + number, number, number) for number in range(20)]
    possible = Possible((frozenset[int](),), counted)
    for call in writes:
        possible.add(call)
    assert not [*possible.pass_to(DISTANT_FUTURE)]
    assert possible.open


def test_a_hundred_writes_at_once_are_few_pairs() -> None:
    """Each may have come right before the one that was last, so that nobody tells which came before."""
    possible = Possible(("start",), register)
    for number in range(100):
        possible.add(ModelCall(number, 1000 + 2 * number, f"v{number}", "done", overwrites=True))
    possible.add(ModelCall(1011, 1012, "get", "v3", reads=True))
    possible.add(ModelCall(1013, 1014, "get", "v60", reads=True))
    assert len(possible.pairs) < 10
    assert not [*possible.pass_to(DISTANT_FUTURE)]
    assert not possible.open
    assert possible.states == {f"v{number}" for number in (60, *range(7, 100))}


def test_a_call_that_begins_late_is_not_the_one_that_took_effect() -> None:
    calls = [
        ModelCall(0, 100, "a", "a", "early"),
        ModelCall(1, 2, "get", "a", "after it", reads=True),
        ModelCall(3, 4, "b", "b", "other"),
        ModelCall(5, 6, "a", "a", "late"),
        ModelCall(7, 8, "get", "b", "bad", reads=True),
    ]
    for overwrites in (False, True):
        played = [replace(call, overwrites=overwrites and not call.reads) for call in calls]
        found, _ = contradictions(played, ("start",), register)
        assert [[call.id for call in evidence] for evidence in found] == [["other", "late", "bad"]]


def test_lost_writes_stay_few_and_may_come_at_any_time() -> None:
    lost = [ModelCall(number, DISTANT_FUTURE, f"v{number % 7}") for number in range(200)]
    seen = [ModelCall(1000 + 2 * at, 1001 + 2 * at, "get", f"v{at % 7}", reads=True) for at in range(200)]
    found, is_open = contradictions([*lost, *seen], ("start",), register)
    assert not found
    assert not is_open
    late = ModelCall(2000, 2001, "get", "never", "bad", reads=True)
    found, is_open = contradictions([*lost, *seen, late], ("start",), register)
    assert [[call.id for call in evidence] for evidence in found] == [["bad"]]


def test_one_cause_is_one_contradiction() -> None:
    """After a contradiction the state is not known: what agrees with the new state is no further breach."""
    calls = [ModelCall(0, 1, "a", "a", "set")]
    calls += [ModelCall(10 * at, 10 * at + 1, "get", "b", f"get {at}", reads=True) for at in range(1, 5)]
    found, _ = contradictions(calls, (None,), register)
    assert [[call.id for call in evidence] for evidence in found] == [["set", "get 1"]]
