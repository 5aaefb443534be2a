"""Which months recorded customers are billed for, and what is said of those without a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from exchanges import call, recorded

from ranksim.core.clock import DAY, SECOND
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.planner.pricing.back_test import BackTest, back_test, read_accounts
from ranksim.planner.pricing.column_back_test import ColumnBackTest, back_test_columns
from ranksim.planner.pricing.columns import read_columns, save_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recorded_sides import Side

STARTER = [Side(shipped_catalogue("illustrative"), "starter")]


def both(
    tmp_path: Path, accounts: str = "", days: tuple[int, ...] = (0, 34, 60)
) -> tuple[BackTest, ColumnBackTest]:
    """Calls of acme from 2 September at noon to 1 November; beta's on these days. Both engines' answers."""
    keys = {name: {"account": name} for name in ("acme", "beta")}
    lines = [(day, "acme") for day in (0, 20, 40, 60)] + [(day, "beta") for day in days]
    exchanges = (
        call(day * DAY // SECOND, "GET", "/v1/domains", id=f"{name}{day}", api_key=name)
        for day, name in sorted(lines)
    )
    recording, described = recorded(tmp_path, *exchanges, keys=keys), {}
    if accounts:
        (file := tmp_path / "accounts.yaml").write_text(f"accounts:\n  beta: {{plan: starter, {accounts}}}\n")
        described = read_accounts(file)
    columns = columns_of(recording, accounts=described)
    save_columns(columns, path := tmp_path / "calls.parquet", names=(names := tmp_path / "names.csv"))
    again = back_test_columns(read_columns(path, names), STARTER, compiled=False)
    assert again.customers == back_test_columns(columns, STARTER, compiled=False).customers
    assert [side.audit.unequal for side in again.served] == [0]
    return back_test(recording, STARTER, accounts=described), again


def billed(answer: BackTest | ColumnBackTest) -> list[tuple[int, int]]:
    return [(row["month"], row["calls"]) for row in answer.tables["invoices"] if row["account"] == "beta"]


def test_months_without_a_call_are_billed_and_told(tmp_path: Path) -> None:
    for answer in both(tmp_path, days=(34, 60)):
        assert billed(answer) == [(1, 0), (2, 2)]
        (note,) = (note for note in answer.notes if "have no call" in note)
        assert note.startswith(
            "Of 4 months billed, 1 have no call: 1 customer made none in the first or the last, and may have "
            "joined later or left before: say so by joined and left in --accounts"
        )
        assert not any("in full" in note for note in answer.notes)


def test_nothing_is_said_where_each_month_has_calls(tmp_path: Path) -> None:
    for answer in both(tmp_path):
        assert not any("no call" in note for note in answer.notes)


def test_months_that_reach_out_of_a_recording_are_told(tmp_path: Path) -> None:
    for answer in both(tmp_path, "anchor: 2026-08-15T00:00:00Z"):
        assert billed(answer) == [(1, 1), (2, 1), (3, 1)]
        assert "Months are billed in full: 2 of 5 reach more than a day out of the recording." in answer.notes


def test_who_joined_is_billed_from_then(tmp_path: Path) -> None:
    for answer in both(tmp_path, "joined: 2026-10-05T00:00:00Z", days=(34, 60)):
        assert billed(answer) == [(1, 2)]
        assert not any("no call" in note for note in answer.notes)


def test_who_left_is_billed_until_then(tmp_path: Path) -> None:
    for answer in both(tmp_path, "left: 2026-09-20T00:00:00Z", days=(0, 3)):
        assert billed(answer) == [(1, 2)]


@pytest.mark.parametrize(
    ("stay", "complaint"),
    [
        (
            "joined: 2026-10-05T00:00:00Z",
            "beta.joined: 2026-10-05T00:00:00Z, but a call was recorded at 2026-09",
        ),
        (
            "left: 2026-09-05T00:00:00Z",
            "beta.left: 2026-09-05T00:00:00Z, but a call was recorded at 2026-10-06",
        ),
        (
            "joined: 2026-09-05T00:00:00Z, left: 2026-08-05T00:00:00Z",
            "beta: left: expected an instant after it joined, 2026-09-05T00:00:00Z, found 2026-08-05",
        ),
    ],
)
def test_who_calls_was_there(stay: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"accounts.{complaint}"):
        both(tmp_path, stay)
