"""Results: intervals, comparisons with their gain, frames, plots and JSON."""

import json
import math
from collections.abc import Callable
from statistics import fmean, variance
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.errors import BadInput
from ranksim.inference.differences import compared
from ranksim.inference.kinds import MetricSample
from ranksim.inference.means import estimate
from ranksim.planner.study.plots import PLOTS
from ranksim.planner.study.presentation import TABLES
from ranksim.planner.study.results import StudyResult
from ranksim.planner.study.study import Study
from ranksim.report import units
from ranksim.report.figure import new_figure

Make = Callable[..., Study]


@pytest.fixture
def result(study: Make) -> StudyResult:
    made = study(
        factors={"toy.workers": [1, 2, 4]},
        measure=["level", "own", "cost", "seen", "chance"],
        quantiles=[0.5],
        replications=12,
        goal={"smallest": "toy.workers", "between": [1, 8], "such_that": "chance > 2%"},
        sensitivity={"parameters": {"toy.workers": [1, 3]}},
    )
    return made.run()


def test_a_mean_has_the_interval_of_a_mean(result: StudyResult) -> None:
    row = next(
        row for row in result.tables["points"] if (row["point"], row["metric"]) == ("workers=2", "own")
    )
    values = [value for value in result.values("workers=2", "own") if value is not None]
    assert (row["mean"], row["low"], row["high"]) == estimate(values, 0.95)


def test_a_comparison_tells_what_common_random_numbers_gained(result: StudyResult) -> None:
    shared, own = result.compare("workers=2", "workers=1", ["level", "own"])
    first, second = (result.values(label, "own") for label in ("workers=2", "workers=1"))
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    assert (own["difference"], own["low"], own["high"]) == estimate([a - b for a, b in pairs], 0.95)
    difference = variance([a - b for a, b in pairs])
    assert own["gain"] == pytest.approx(sum(variance(side) for side in zip(*pairs, strict=True)) / difference)
    assert shared["difference"] == pytest.approx(1.0)
    assert (
        shared["gain"] is None or shared["gain"] > 1e6
    )  # the same draw in both: nothing varies but rounding
    [row] = [
        row
        for row in result.tables["differences"]
        if (row["point"], row["against"], row["metric"]) == ("workers=2", "workers=1", "own")
    ]
    assert own == row
    assert (row["a"], row["b"]) == (fmean(b for _, b in pairs), fmean(a for a, _ in pairs))


def test_the_headline_of_several_points_is_the_greatest_difference(study: Make) -> None:
    result = study(factors={"toy.workers": [1, 2, 4]}, measure=["level"], replications=4).run()
    means = {row["point"]: row["mean"] for row in result.tables["points"]}
    assert abs(means["workers=4"] - means["workers=1"]) > abs(means["workers=2"] - means["workers=1"])
    assert " at workers=4 and " in result.sentence
    assert result.sentence.endswith(" at workers=1, a difference of 3, the same in all 4 pairs.")


def test_a_gain_is_the_replications_saved() -> None:
    """Of a, a + b: the difference varies with b alone, a hundredth of the variance of a."""
    first = [float(value % 7) for value in range(49)]
    second = [value + (index // 7) / 10 for index, value in enumerate(first)]
    answer = compared(MetricSample("mean", first), MetricSample("mean", second), 0.95)
    assert answer.gain == pytest.approx(201.0)
    assert answer.gain_low is not None
    assert answer.gain_high is not None
    assert 100 < answer.gain_low < 201 < answer.gain_high < 402


def test_replications_without_a_value_are_left_out_of_both(result: StudyResult) -> None:
    (row,) = result.compare("workers=2", "workers=1", ["seen"])
    assert (row["pairs"], row["difference"]) == (6, 0.0)


def test_every_table_has_its_columns(result: StudyResult) -> None:
    for name, table in TABLES.items():
        assert all(set(row) == set(table.columns) for row in result.tables[name]), name
        parameters = ["toy.workers"] if "settings" in table.columns else []
        assert list(result.frame(name).columns) == [*table.columns, *parameters]
    assert len(result.frame("points")) == 15
    assert result.frame("points")["toy.workers"].unique().tolist() == [1, 2, 4]


def test_the_frame_without_a_name_is_what_the_sentence_tells(result: StudyResult, study: Make) -> None:
    assert result.frame().equals(result.frame("goals"))
    assert result.rows() == result.tables["goals"]
    factors = {"toy.workers": [1, 2]}
    compared = study(factors=factors, measure="level").run()
    assert compared.frame().equals(compared.frame("differences"))
    alone = study(measure="level").run()
    assert alone.frame().equals(alone.frame("points"))


def test_a_goal_is_a_metric(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 8], "such_that": "chance > 2%"}
    result = study(goal=goal, measure=[], replications=12).run()
    ((name, metric),) = result.metrics.items()
    assert name.endswith(": toy.workers")
    assert (metric["unit"], metric["value"]) == ("count", result.tables["goals"][0]["answer"])


def test_differences_of_one_unit_name_it(result: StudyResult) -> None:
    row = next(row for row in result.tables["differences"] if row["metric"] == "cost")
    assert (row["low"], row["high"]) == (None, None)  # the same in all pairs, but for rounding
    dollars, micros = (result.frame("differences.money", integers=integers) for integers in (False, True))
    assert set(dollars["metric"]) == {"cost"}
    for column in ("a", "b", "difference", "low", "high"):
        value = math.nan if row[column] is None else row[column]
        assert micros[f"{column}_uusd"][0] == pytest.approx(value, rel=0, abs=0, nan_ok=True)
        assert dollars[f"{column}_usd"][0] == pytest.approx(value / 1_000_000, rel=0, abs=0, nan_ok=True)
    compared = result.compare(row["point"], row["against"])
    assert compared.frame("differences.money")["difference_usd"][0] == row["difference"] / 1_000_000


def test_tables_without_rows_have_the_types_of_others(result: StudyResult, study: Make) -> None:
    other = study(measure=["cost"], replications=2).run()
    assert {"tornado", "goals", "candidates"} <= {name for name, rows in other.tables.items() if not rows}
    for name, rows in result.tables.items():
        if rows and not other.tables[name]:
            none, some = other.frame(name), result.frame(name)
            for column in none.columns.drop(
                "answer", errors="ignore"
            ):  # a number, or text where it has a unit
                kinds = none[column].dtype.kind, some[column].dtype.kind
                assert kinds[0] == kinds[1] or kinds == ("f", "i"), (name, column)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda result: result.frame("nothing"), "frame: expected one of points"),
        (
            lambda result: result.values("workers=9", "level"),
            "no point 'workers=9'; expected one of workers=1",
        ),
        (
            lambda result: result.compare("workers=1", "workers=2", ["linear"]),
            "no values of 'linear'; add it",
        ),
        (lambda result: result.plot("failures"), "plot: expected one of .*points-1, .*found 'failures'"),
        (lambda result: result.plot("sobol"), "nothing to draw for 'sobol'"),
    ],
)
def test_what_a_result_has_not(result: StudyResult, ask: Callable[[StudyResult], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ask(result)


@pytest.mark.parametrize(
    ("name", "metric", "label"),
    [
        ("points", "level", "level"),
        ("points", "cost", "cost, USD"),
        ("differences", "own", "difference in own from workers=1"),
        ("candidates", None, "toy.workers"),
        ("tornado", "level", "change of level"),
    ],
)
def test_plots_name_their_units(result: StudyResult, name: str, metric: str | None, label: str) -> None:
    axes = result.plot(name, metric=metric)
    assert axes.get_xlabel() == label
    assert axes.get_title()


def test_a_goal_over_numbers_is_a_curve_with_its_bound(result: StudyResult) -> None:
    axes = result.plot("candidates")
    tried = {float(row["value"]): row["mean"] for row in result.tables["candidates"]}
    curve, *_, bound = axes.lines
    assert axes.get_ylabel() == "chance, %"
    assert list(curve.get_xdata()) == sorted(tried)
    assert list(curve.get_ydata()) == pytest.approx([100 * tried[value] for value in sorted(tried)])
    assert bound.get_ydata()[0] == pytest.approx(2)
    assert axes.get_ylim()[0] < 2 < axes.get_ylim()[1]


def test_figures_of_points_begin_at_zero_and_tell_their_finding(result: StudyResult) -> None:
    axes = result.plot("points", metric="cost")
    assert axes.get_xlim()[0] <= 0 <= axes.get_xlim()[1]
    assert axes.get_title().startswith("cost: ")


def test_differences_of_shares_are_in_percentage_points(result: StudyResult) -> None:
    row: dict[str, Any] = {
        "point": "b",
        "against": "a",
        "metric": "hit",
        "unit": "share",
        "difference_unit": "share",
    }
    row |= {"difference": 0.035, "low": 0.03, "high": 0.04, "sure": True}
    axes = new_figure().subplots()
    PLOTS["differences"](result.study, [row], axes)
    assert axes.get_xlabel() == "difference in hit from a, percentage points"
    assert axes.get_title() == "3.5 points more hit at b than at a"
    PLOTS["differences"](result.study, [row | {"low": -0.01, "sure": False}], axes)
    assert axes.get_title() == "No difference in hit is sure"


def test_names_of_points_leave_room_for_the_title(result: StudyResult) -> None:
    row: dict[str, Any] = {"metric": "jobs.rank_run.wait.p95", "unit": "count", "difference_unit": "count"}
    row |= {"difference": -3, "low": -4, "high": -2, "sure": True}
    sides = [
        {"point": f"longer, workers=1, keywords={n}", "against": f"now, keywords={n}"} for n in (1000, 2000)
    ]
    axes = new_figure().subplots()
    PLOTS["differences"](result.study, [row | of for of in sides], axes)
    for lines in (axes.get_title(), axes.get_xlabel()):
        assert max(map(len, lines.split("\n"))) <= 40
    assert axes.get_yticklabels()[-1].get_text() == "longer, workers=1, keywords=1000\n− now, keywords=1000"


def test_labels_of_a_tornado_whose_ends_lie_on_one_side_stand_apart(result: StudyResult) -> None:
    row: dict[str, Any] = {
        "metric": "wait",
        "unit": "duration",
        "parameter": "pool.duration",
        "swing": 60e6,
        "base": 9e6,
    }
    for end, change in (("low", 60e6), ("high", 59e6)):
        row |= {f"{end}_value": end, f"{end}_change": change}
        row |= {f"{end}_change_low": None, f"{end}_change_high": None}
    axes = new_figure().subplots()
    PLOTS["tornado"](result.study, [row], axes)
    low, high = (text.xy[1] for text in axes.texts)
    assert abs(high - low) > 0.2


@pytest.mark.slow
def test_a_page_answers_before_it_shows_how(result: StudyResult) -> None:
    text = result.page()
    order = [
        "<h1>",
        'class="answer"',
        "<h2>Smallest",
        "Plot: candidates",
        "Plot: points-1",
        "<h2>Tables",
        "<footer>",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    (goal,) = result.tables["goals"]
    assert result.sentence == f"The smallest toy.workers such that chance > 2% is {goal['answer']}."


def test_json_is_plain_and_the_same_twice(result: StudyResult, study: Make, toy: ModuleType) -> None:
    document = json.loads(result.to_json())
    assert (document["kind"], document["version"]) == ("study", 1)
    assert document["tables"].keys() == TABLES.keys()


def test_tables_for_people(result: StudyResult) -> None:
    views = {view.title: view for view in result.views()}
    comparison = next(row for row in views["Comparisons"].rows if row[2] == "own")
    row = next(row for row in result.tables["differences"] if row["metric"] == "own")
    assert comparison[4] == units.gain(row["gain"], row["gain_low"], row["gain_high"])
    assert comparison[4].endswith(")")
    assert views["Smallest toy.workers such that chance > 2%"].rows[0][2] in ("found", "undecided")
    assert views["Points"].headings == ("point", "runs", "level", "own", "cost", "seen", "chance")


def test_figures_of_what_is_the_same_at_every_point_say_so(study: Make) -> None:
    made = study(factors={"toy.pause": ["1s", "2s"]}, measure=["level"], replications=6).run()
    for plot in ("points", "differences"):
        assert "at every point" in made.plot(plot).get_title().replace("\n", " ")
        assert "less" not in made.plot(plot).get_title()
