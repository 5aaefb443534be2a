"""Which assumptions an answer hangs on: what is tried, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import options_of, register
from ranksim.report.readings import NO_READINGS, Readings, TriedField, under_readings

WINDOW, CAP, LONGEST = "assumptions.window", "assumptions.cap", "assumptions.idempotency_key_max"


def asking(read: Iterable[str], asked: list[Policy]) -> Any:
    """A question that reads these fields, and whose answer is a window that is no GCRA."""

    def ask(policy: Policy) -> tuple[str, Iterable[str]]:
        asked.append(policy)
        return "no" if policy.assumptions.window in ("gcra", "clock") else "yes", read

    return ask


def test_every_other_option_of_what_was_read_is_tried_once_and_nothing_else() -> None:
    asked: list[Policy] = []
    policy = Policy().replace(assumptions={"cap": "refuse"})
    answer, readings = under_readings(asking([WINDOW, CAP, LONGEST], asked), policy, lambda answer: answer)
    assert (answer, readings.verdict) == ("yes", "yes")
    assert readings.changing() == {WINDOW: ("clock", "gcra")}
    assert asked[0] is policy
    differences = [
        {name: value for name, value in other.assumptions if value != getattr(policy.assumptions, name)}
        for other in asked[1:]
    ]
    assert differences == [
        *({"window": option} for option in ("clock", "sliding_log", "sliding_counter", "gcra")),
        {"cap": "truncate"},
    ]
    assert all(other.catalogue is policy.catalogue for other in asked)
    assert list(readings.policies(policy)) == [asked[1], asked[4]]


def test_what_changes_the_verdict_is_told_first_with_how_to_observe_it_and_the_rest_in_a_line() -> None:
    _, readings = under_readings(asking([CAP, LONGEST, WINDOW], []), Policy(), lambda answer: answer)
    assert readings.around() == (
        "This holds under 3 of 5 readings of U1, how the 60 s window of a key and class runs (assumed: "
        "window = first_hit): under clock and gcra no. To observe it, send 1, 19, 1, 20 and 20 calls at 0, "
        "29, 35, 60.5 and 89.5 s and see how many pass.",
        "1 other leaves the verdict as it is: U47.",
        "Read, and not tried, as their values cannot be listed: U32.",
    )
    rows = readings.rows()
    assert [row["reading"] for row in rows] == [
        *("first_hit", "clock", "sliding_log", "sliding_counter", "gcra"),
        *("truncate", "refuse"),
    ]
    assert [row["holds"] for row in rows] == [True, False, True, True, False, True, True]


def test_readings_are_in_the_order_of_their_numbers_however_they_were_read() -> None:
    read = ["assumptions.cooldown_scope", CAP, WINDOW, "assumptions.refused_calls_count", LONGEST]
    orders = [
        [tried.numbers[0] for tried in under_readings(asking(some, []), Policy(), str)[1].tried]
        for some in (read, read[::-1], set(read))
    ]
    assert orders == [["U1", "U4", "U46", "U47"]] * 3


def test_a_field_of_two_assumptions_is_named_by_both() -> None:
    folding = TriedField("assumptions.keyword_folding", "casefold", {"exact": "no"})
    deciding, calm = Readings("yes", (folding,)), Readings("no", (folding,))
    assert deciding.around()[0].startswith("This holds under 1 of 2 readings of U65 and U103, ")
    assert len(deciding.around()) == 1
    assert {row["assumption"] for row in deciding.rows()} == {"U65, U103"}
    assert calm.around() == ("2 assumptions leave the verdict as it is: U65, U103.",)


def test_a_remedy_stands_behind_what_it_mends() -> None:
    tried = TriedField(CAP, "truncate", {"refuse": "no"})
    told = Readings("yes", (tried,), remedy="Smaller, it holds under all.").around()
    assert (len(told), told[-1]) == (2, "Smaller, it holds under all.")
    assert Readings("no", (tried,), ("U32",)).around() == (
        "1 assumption leaves the verdict as it is: U47.",
        "Read, and not tried, as their values cannot be listed: U32.",
    )
    assert NO_READINGS.around() == ()


def test_options_are_those_that_the_register_lists() -> None:
    listed = {
        entry.number: [str(option).lower() if isinstance(option, bool) else option for option in options]
        for entry in register()
        if len(entry.fields) == 1 and (options := options_of(entry.fields[0]))
    }
    assert len(listed) > 30
    for entry in register():
        assert entry.number not in listed or sorted(listed[entry.number]) == sorted(entry.options)
    assert options_of(LONGEST) == options_of("catalogue.plans") == ()
