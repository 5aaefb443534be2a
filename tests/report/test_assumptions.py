"""The register of assumptions as it is listed."""

from __future__ import annotations

import pytest
from rich.console import Console

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import register
from ranksim.core.errors import BadInput
from ranksim.report import assumptions


def test_all_are_listed_without_numbers() -> None:
    assert assumptions.select([]) == list(register())


def test_numbers_are_taken_in_the_order_asked_for() -> None:
    assert [assumption.number for assumption in assumptions.select(["U48", "1", "u3"])] == [48, 1, 3]


@pytest.mark.parametrize("number", ["U113", "0", "-1", "48.0", "all"])
def test_a_number_that_does_not_exist_is_refused(number: str) -> None:
    with pytest.raises(BadInput, match=f"^{number}: no such assumption; they are U1 to U112$"):
        assumptions.select([number])


@pytest.mark.parametrize("number", ["S1", "e50"])
def test_what_tells_of_other_ids_is_named(number: str) -> None:
    with pytest.raises(BadInput, match=f"U1 to U112; `ranksim explain {number}` tells of facts and edge"):
        assumptions.select([number])


def test_every_assumption_has_a_row_with_its_values() -> None:
    for assumption in register():
        row = assumptions.row(assumption, Policy())
        assert list(row["values"]) == list(assumption.fields)
        assert not row["changed"]
        assert row["confidence"] in ("high", "medium", "low")
        assert all(row[key] for key in ("number", "statement", "default", "reason", "observe"))


def test_a_policy_shows_what_it_changes() -> None:
    policy = Policy().replace(
        assumptions={"window": "gcra", "week_offset": "1h"}, catalogue="illustrative-metered"
    )
    assert assumptions.overrides(Policy()) == ()
    changed = {number: value for number, _, value in assumptions.overrides(policy)}
    assert changed["U1"] == "assumptions.window = gcra"
    assert changed["U52"] == "assumptions.week_offset = 1h"
    assert "catalogue.plans = as in catalogue illustrative-metered" in changed["U60"]


def test_a_catalogue_of_another_name_alone_changes_nothing() -> None:
    shipped = Policy().catalogue
    renamed = Policy(catalogue=shipped.model_copy(update={"name": "ours"}))
    assert assumptions.overrides(renamed) == ()
    (costs,) = assumptions.select(["U60"])
    assert set(assumptions.row(costs, renamed)["values"].values()) == {"as in catalogue ours"}
    dearer = Policy().replace(catalogue={"plans": {"pro": {"price": "1 USD"}}})
    assert [number for number, _, _ in assumptions.overrides(dearer)] == ["U60"]


def test_the_listing_says_what_is_assumed_why_and_how_to_see_it() -> None:
    (first,) = assumptions.select(["U1"])
    console = Console(width=60)
    with console.capture() as capture:
        console.print(assumptions.render(assumptions.row(first, Policy())))
        console.print(
            assumptions.render(assumptions.row(first, Policy().replace(assumptions={"window": "gcra"})))
        )
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines[0] == "U1   How the 60 s window of a key and class runs"
    assert "     set by      assumptions.window = first_hit" in lines
    assert "     changed to  assumptions.window = gcra" in lines
    assert [line.split()[0] for line in lines if line.startswith("     ") and line[5] != " "][-5:] == [
        "changed", "options", "because", "confidence", "observe",
    ]  # fmt: skip
