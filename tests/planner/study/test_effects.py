"""Main effects: means over the other parameters, held against a design whose effects are known."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from ranksim.inference.kinds import MetricSample, interval
from ranksim.planner.study.design import points
from ranksim.planner.study.effects import effect_rows, mean_over
from ranksim.planner.study.study import Study

Make = Callable[..., Study]

GRID: dict[str, Any] = {"toy.second": [0.0, 1.0], "toy.first": [0.0, 1.0, 2.0], "toy.pause": ["1s", "2s"]}


def test_a_grid_tells_what_each_parameter_moves(study: Make) -> None:
    """Of 3a + 2b the means over b in {0, 1} are 3a + 1, and those over a in {0, 1, 2} are 2b + 3."""
    result = study(factors=GRID, measure=["linear", "own"], replications=3).run()
    rows = [row for row in result.tables["effects"] if row["metric"] == "linear"]
    assert [(row["parameter"], row["value"], row["mean"], row["points"], row["swing"]) for row in rows] == [
        *(("toy.first", f"{a}.0", 3.0 * a + 1, 4, 6.0) for a in (0, 1, 2)),
        *(("toy.second", f"{b}.0", 2.0 * b + 3, 6, 2.0) for b in (0, 1)),
        *(("toy.pause", value, 4.0, 6, 0.0) for value in ("1s", "2s")),
    ]
    assert result.sentence == "Of all, the toy.first moves the linear most: 1 at 0.0 to 7 at 2.0."
    assert result.rows() == result.tables["effects"]
    assert result.frame("effects")["mean"].dtype == float
    assert "Main effects" in [view.title for view in result.views()]
    axes = result.plot("effects", metric="linear")
    assert "toy.first moves linear most" in axes.get_title().replace("\n", " ")
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "toy.first=0.0"


def test_effects_are_paired_by_seed(study: Make) -> None:
    """A replication has one draw at all points: what lies apart has no spread, the means have that of one."""
    factors = {"toy.workers": [1, 2], "toy.pause": ["1s", "2s"]}
    result = study(factors=factors, measure=["level"], replications=8).run()
    row = result.tables["effects"][0]
    values = [value for value in result.values("workers=1, pause=1s", "level") if value is not None]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(interval(MetricSample("mean", values)))
    assert (row["swing"], row["replications"]) == (pytest.approx(1.0), 8)
    assert (row["swing_low"] or 1.0) == pytest.approx(1.0)


def test_what_moves_nothing_surely_is_not_said_to(study: Make) -> None:
    factors = {"toy.third": [0.0, 1.0], "toy.pause": ["1s", "2s"]}
    result = study(factors=factors, measure=["level"], replications=3).run()
    assert result.sentence == "No parameter moves the level."


def test_a_list_of_points_has_the_effects_of_the_grid_it_is(study: Make) -> None:
    """What a variant leaves as it is has the value of the inputs, however it is written."""
    variants: dict[str, Any] = {
        "base": {"toy.workers": 1},
        "more": {"toy.workers": 2},
        "both": {"toy.workers": 2, "toy.first": 1.0},
        "first": {"toy.first": 1, "toy.pause": "0s"},
    }
    result = study(variants=variants, measure=["linear", "steady"], replications=2).run()
    rows = {(row["metric"], row["parameter"], row["value"]): row for row in result.tables["effects"]}
    assert {parameter for _, parameter, _ in rows} == {"toy.workers", "toy.first"}
    assert [rows["linear", "toy.first", value]["mean"] for value in ("0.0", "1.0")] == [0, 3]
    assert [rows["steady", "toy.workers", value]["mean"] for value in ("1", "2")] == [1, 2]
    assert {row["points"] for row in rows.values()} == {2}


def test_variants_that_set_several_things_are_the_values_of_one_parameter(study: Make) -> None:
    variants = {"now": {}, "more": {"toy.workers": 4, "toy.first": 1.0}}
    result = study(variants=variants, factors={"toy.second": [0.0, 1.0]}, measure=["linear"]).run()
    rows = result.tables["effects"]
    assert [(row["parameter"], row["value"], row["mean"]) for row in rows] == [
        *(("variant", "now", 1.0), ("variant", "more", 4.0)),
        *(("toy.second", "0.0", 1.5), ("toy.second", "1.0", 3.5)),
    ]


def test_what_failed_at_one_value_counts_at_none(study: Make) -> None:
    made = study(factors={"toy.second": [0.0, 1.0], "toy.first": [0.0, 1.0]}, measure=["linear"])
    design = points(made)
    samples = {at.label: {"linear": MetricSample("mean", [float(i)] * 2)} for i, at in enumerate(design)}
    del samples[design[0].label]
    rows = effect_rows(made, design, samples)
    assert {(row["parameter"], row["value"], row["mean"], row["points"]) for row in rows} == {
        *(("toy.second", "0.0", 1.0, 1), ("toy.second", "1.0", 3.0, 1)),
        *(("toy.first", "0.0", 2.0, 1), ("toy.first", "1.0", 3.0, 1)),
    }


def test_the_headline_of_a_named_baseline_is_a_comparison(study: Make) -> None:
    factors = {"toy.workers": [1, 2], "toy.pause": ["1s", "2s"]}
    label = study(factors=factors, measure=["level"], replications=2).run().points[0]
    result = study(factors=factors, measure=["level"], replications=2, baseline=label).run()
    assert ", a difference of " in result.sentence


def test_points_count_alike_in_a_share_and_no_more_than_one_of_them() -> None:
    few = MetricSample("share", [0.5, 0.0, 1.0], [2.0, 2.0, 2.0])
    many = MetricSample("share", [0.1, 0.2, None], [100.0, 100.0, 0.0])
    mean = mean_over([few, many])
    assert mean.values[2] is None
    assert interval(mean).mean == pytest.approx(fmean([0.25, 0.15]))
    assert sum(size or 0 for size in mean.trials or ()) == pytest.approx((4 + 200) / 2)
    alone = mean_over([many, many])
    assert interval(alone) == pytest.approx(interval(many))


def test_parameters_of_points_have_units_and_the_values_of_the_inputs(study: Make) -> None:
    variants: dict[str, Any] = {
        "now": {},
        "longer": {"toy.pause": "1m30s"},
        "dear": {"toy.price": "12.5 USD", "toy.workers": 4},
    }
    result = study(variants=variants, measure=["level"], replications=2).run()
    frame = result.frame("points")
    assert [span.total_seconds() for span in frame["toy.pause"]] == [0, 90, 0]
    assert frame["toy.price_usd"].tolist() == [10.0, 10.0, 12.5]
    assert frame["toy.workers"].tolist() == [1, 1, 4]
    plain = result.frame("points", integers=True)
    assert plain["toy.pause"].tolist() == [0, 90_000_000, 0]
    assert plain["toy.price_uusd"].tolist() == [10_000_000, 10_000_000, 12_500_000]
