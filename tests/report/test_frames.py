"""Tables as files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ranksim as rs
from ranksim.core.errors import BadInput
from ranksim.report import frames
from ranksim.report.table_spec import TableSpec
from ranksim.twin.sim.tables import COLUMNS, in_files, quantities, quantities_in_files

SCENARIO = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"

Tables = dict[str, list[dict[str, Any]]]


def save(tables: Tables, path: Path) -> None:
    columns = {name: in_files(name, rows) for name, rows in tables.items()}
    frames.save_tables(columns, {name: quantities_in_files(name) for name in tables}, path)


def test_parquet_holds_every_table_with_times_as_times(tables: Tables, tmp_path: Path) -> None:
    import pyarrow.parquet

    save(tables, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.parquet" for name in tables}
    for name, rows in tables.items():
        table = pyarrow.parquet.read_table(tmp_path / f"{name}.parquet")
        assert table.column_names == list(in_files(name, rows))
        types = {"instant": "timestamp[us, tz=UTC]", "duration": "duration[us]"}
        typed = {column: of for column, of in quantities(name).items() if of in types}
        assert {column: str(table.schema.field(column).type) for column in typed} == {
            column: types[of] for column, of in typed.items()
        }
        plain = [column for column in table.column_names if column not in typed]
        assert [table[column].to_pylist() for column in plain] == [
            in_files(name, rows)[column] for column in plain
        ]
        for column in typed:
            integers = [None if row[column] is None else round(row[column]) for row in rows]
            assert table[column].cast("int64").to_pylist() == integers


def test_dates_and_unknown_times_are_times_in_parquet(tmp_path: Path) -> None:
    columns = {"day": ["2026-01-05", None], "wait": [None, None], "low": [1.4, None]}
    times = {"day": "date", "wait": "duration", "low": "duration", "wait_high": "duration"}
    frames.save_tables({"days": columns}, {"days": times}, tmp_path)
    frame = pd.read_parquet(tmp_path / "days.parquet")
    assert frame["day"].tolist() == [pd.Timestamp("2026-01-05", tz="UTC"), pd.NaT]
    assert [frame[column].dtype.kind for column in frame] == ["M", "m", "m"]
    assert frame["low"][0] == pd.Timedelta(1, "us")


def test_times_are_rounded_alike_in_files_and_in_frames(tmp_path: Path) -> None:
    plain = {"wait": [624_566.7, 1.2, None], "t": [1_767_225_600_000_000.7, 0.4, None]}
    quantities = {"wait": "duration", "t": "instant"}
    frames.save_tables({"waits": plain}, {"waits": quantities}, tmp_path)
    saved, frame = pd.read_parquet(tmp_path / "waits.parquet"), pd.DataFrame(plain)
    typed = frames.with_units(frame.copy(), quantities)
    assert saved.equals(typed)
    assert saved["wait"][0] == pd.Timedelta(624_567, "us")
    for column, unit in quantities.items():
        by_row = frames.with_units_of_rows(frame.assign(unit=unit)[[column, "unit"]], [column])
        assert by_row[column].equals(typed[column])


def types_in(folder: Path) -> dict[str, dict[str, str]]:
    import pyarrow.parquet

    schemas = {path.stem: pyarrow.parquet.read_schema(path) for path in folder.glob("*.parquet")}
    return {name: {field.name: str(field.type) for field in schema} for name, schema in schemas.items()}


def test_tables_without_rows_or_values_have_the_types_of_others(tmp_path: Path) -> None:
    """The few that this run leaves empty are written by hand; means on which replications agree are whole."""
    run = rs.run(SCENARIO, replications=2, settings={"scenario.length": "11d"}).tables
    call = {**run["calls"][0], "tries": 3}
    filled = {**run, "notes": [{"replication": 0, "text": "late", "count": 2}], "given_up": [call]}
    assert all(filled.values())
    for name, column in (("levels", "limit"), ("queues_by_day", "jobs"), ("windows_by_day", "fullest")):
        filled[name] = [
            row | {of: row[of] + 0.5 for of in (column, "low", "high") if row.get(of)} for row in run[name]
        ]
    folders = [tmp_path / name for name in ("filled", "empty", "unknown")]
    for folder in folders:
        folder.mkdir()
    save(filled, folders[0])
    save({name: [] for name in filled}, folders[1])
    save({name: [dict.fromkeys(COLUMNS[name])] for name in filled}, folders[2])
    of_filled, *others = map(types_in, folders)
    for of_others in others:
        assert of_others == of_filled


def test_without_pyarrow_it_is_csv(tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    tables["endpoints"][0]["reason"] = 'down, "again"'
    tables["endpoints"][0]["account"] = point = "capacity=4, arrivals=1,2"
    save(tables, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in tables}
    with (tmp_path / "endpoints.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS["endpoints"]
    assert rows[0]["reason"] == 'down, "again"'
    assert rows[0]["account"] == pd.read_csv(tmp_path / "endpoints.csv")["account"][0] == point
    assert (tmp_path / "answers.csv").read_text() == "endpoint,answer,count,low,high\n"


def test_a_table_that_there_is_not_is_answered_with_what_comes_near() -> None:
    with pytest.raises(
        BadInput, match=r"^frame: expected one of jobs, calls, found 'job'; did you mean 'jobs'\?$"
    ):
        frames.rows_named({"jobs": [], "calls": []}, "job")


def test_a_table_without_rows_has_none_of_any_unit() -> None:
    assert frames.rows_named({"differences": []}, "differences.money") == []


def test_files_name_columns_of_money_by_their_unit() -> None:
    spec = TableSpec({"plan": "text", "cost": "money"}, {"price_uusd": "money", "share": "share"})
    row = {"plan": "pro", "cost": 3, "cost_low": 1, "price_uusd": 4, "share": 0.5, "share_low": 0.1}
    named = {"plan": "pro", "cost_uusd": 3, "cost_uusd_low": 1} | dict(list(row.items())[3:])
    assert spec.in_files([row]) == [named]
    assert list(spec.in_files([row])[0]) == list(named)


def test_frames_of_one_unit_name_it_where_no_type_tells_it() -> None:
    frame = pd.DataFrame(columns=["unit", "a", "a_low", "low"])
    columns = ["a", "a_low", "low"]
    cases = {
        ("rows.money", False): ["a_usd", "a_usd_low", "low_usd"],
        ("rows.money", True): ["a_uusd", "a_uusd_low", "low_uusd"],
        ("rows.duration", True): ["a_us", "a_us_low", "low_us"],
        ("rows.instant", True): ["a_us", "a_us_low", "low_us"],
        ("rows.duration", False): columns,
        ("rows.share", True): columns,
        ("rows", False): columns,
    }
    for (name, integers), names in cases.items():
        assert list(frames.named_by_unit(frame, name, columns, integers)) == ["unit", *names], name


def test_a_frame_without_rows_has_the_types_of_one_with_rows() -> None:
    rows = [{"endpoint": "erp", "value": "1h", "count": 2.5, "exchanges": ["x1"]}]
    quantities = {"value": "text", "exchanges": "list"}
    types = pd.DataFrame(rows).dtypes
    none = pd.DataFrame(columns=list(rows[0]))
    assert not none.dtypes.equals(types)
    assert frames.typed_without_rows(none, quantities).dtypes.equals(types)
    assert frames.typed_without_rows(pd.DataFrame(rows), {}).dtypes.equals(types)


@pytest.mark.parametrize("ends", [[1, 2], [None, None], [1, None], [1.5, 2]])
def test_ends_are_floats_whatever_the_rows_are(ends: list[float | None]) -> None:
    waits = pd.to_timedelta([1, 2], unit="s")
    frame = pd.DataFrame({"low": ends, "used": ends, "used_low": ends, "wait_high": waits, "count": [1, 2]})
    types = frames.with_number_ends(frame).dtypes.map(str).to_dict()
    assert {column: types.pop(column) for column in ("low", "used", "used_low")} == {
        "low": "float64",
        "used": "float64",
        "used_low": "float64",
    }
    assert types == {"wait_high": str(waits.dtype), "count": "int64"}


def test_units_of_all_rows_say_what_every_column_is() -> None:
    """Durations beside money that never varies: also of ends, which only durations have."""
    rows = [
        {"unit": "duration", "mean": 1_500_000.5, "low": 1_000_000, "high": 2_000_000, "gain": None},
        {"unit": "money", "mean": 3_000_000, "low": None, "high": None, "gain": None},
    ]
    columns = ["mean", "low", "high", "gain"]
    mixed = frames.with_units_of_rows(pd.DataFrame(rows), columns)
    assert {str(mixed[column].dtype) for column in columns} == {"float64"}
    assert mixed["mean"].tolist() == [1.5000005, 3]
    waits = frames.with_units_of_rows(pd.DataFrame(rows[:1]), columns)
    assert {str(waits[column].dtype) for column in columns} == {"timedelta64[us]"}
