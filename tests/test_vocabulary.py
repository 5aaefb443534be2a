"""One vocabulary: results have the same names, show themselves, and list what they know."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from matplotlib.axes import Axes

import ranksim as rs
from ranksim.report.answer import ReadyAnswer

ROOT = Path(__file__).parents[1]
WORLD = {"length": "3d", "timeline": [], "expect": []}
PRICING = ROOT / "examples" / "pricing"


def quickstart(**more: Any) -> rs.Result:
    """Run three days of the quickstart."""
    return rs.run(rs.Scenario.load(ROOT / "scenarios" / "quickstart.yaml").replace(**WORLD), seed=1, **more)


def calibrated() -> rs.Calibration:
    """Calibrate by what the quickstart shows."""
    with TemporaryDirectory() as folder:
        trace = Path(folder, "trace.jsonl")
        quickstart(trace=trace)
        return rs.calibrate(trace)


RESULTS: dict[str, Callable[[], Any]] = {
    "run": quickstart,
    "why": lambda: quickstart().why("refusals.quota_exhausted", futures=2),
    "compare": lambda: rs.compare(PRICING / "trace.jsonl"),
    "limits": lambda: rs.limits(PRICING / "trace.jsonl", "60/60s", by="key"),
    "calibrate": calibrated,
    "Result.compare": lambda: quickstart(settings={"scenario.pools.rank_run.capacity": 8}).compare(
        quickstart()
    ),
    "simulate_fleet": lambda: rs.simulate_fleet(
        rs.Population.load(PRICING / "population.yaml"), rs.Policy(), seed=1
    ),
    "capacity.fit": lambda: rs.capacity.fit(rs.capacity.Portfolio(domains=3, keywords=30, pairings=2)),
    "capacity.largest": lambda: rs.capacity.largest(rs.capacity.Portfolio(domains=3, keywords=30), "pro"),
    "capacity.slot_use": lambda: rs.capacity.slot_use(rs.capacity.Churn(keywords=100), limit=2_000),
    "capacity.sync_time": lambda: rs.capacity.sync_time(rs.capacity.Sync(keywords=100)),
    "capacity.outage_cost": lambda: rs.capacity.outage_cost(rs.capacity.Outage("3h", "48m")),
    "price.compare": lambda: rs.price.compare(
        PRICING / "population.yaml", "illustrative", PRICING / "tighter.yaml"
    ),
}
"""By the name that makes it, a small result of each kind."""

SLOW = ("why", "price.compare", "calibrate")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in RESULTS],
)
def answer(request: pytest.FixtureRequest) -> Any:
    return RESULTS[request.param]()


def test_a_result_shows_itself_in_a_line_and_in_a_notebook(answer: Any) -> None:
    assert "\n" not in repr(answer)
    assert "<table" in answer._repr_html_()


def test_one_name_is_of_one_form_in_all_kinds_of_results(answer: Any) -> None:
    assert isinstance(answer.tables, dict)
    assert {*map(type, (answer.notes, answer.plots))} == {tuple}
    assert {*map(type, answer.notes)} <= {str}
    assert issubclass(type(answer.summary()), str)
    for number in getattr(answer, "metrics", {}).values():
        assert set(number) == {"unit", "value", "low", "high"}


def test_a_cell_of_a_notebook_has_all_notes_of_an_answer(answer: Any) -> None:
    if isinstance(answer, ReadyAnswer):
        assert all(escape(note) in answer._repr_html_() for note in answer.notes)


def test_a_result_has_a_page(answer: Any) -> None:
    assert answer.page(plots=False).startswith("<!doctype html>")


@pytest.mark.parametrize("form", ["frame", "plot"])
def test_a_name_that_there_is_not_is_answered_with_those_that_there_are(answer: Any, form: str) -> None:
    with pytest.raises(rs.BadInput, match=r"expected (one of )?\w+") as told:
        getattr(answer, form)("nonsense")
    assert "nonsense" in str(told.value)


def test_every_frame_is_a_file_of_parquet(answer: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name in answer.tables:
        answer.frame(name).to_parquet(tmp_path / f"{name}.parquet")


def test_every_table_is_a_frame_and_every_plot_axes(answer: Any) -> None:
    for name, rows in answer.tables.items():
        assert len(answer.frame(name)) == len(rows)
    for name in answer.plots:
        assert isinstance(answer.plot(name), Axes)
