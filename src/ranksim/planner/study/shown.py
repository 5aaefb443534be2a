"""The tables of a study as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ranksim.core.contract.policy import Policy
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.spec import CheckedSpec
from ranksim.report import units
from ranksim.report.assumptions import Basis, basis_of
from ranksim.report.page import tables_page
from ranksim.report.tables import View

Row = dict[str, Any]


class StudyTables(Protocol):
    """What is shown of a result of a study."""

    @property
    def study(self) -> CheckedSpec:
        """The study."""

    @property
    def tables(self) -> Mapping[str, Sequence[Row]]:
        """Its tables as plain rows, by name."""

    @property
    def points(self) -> list[str]:
        """The points of its design, by label."""


def heading(result: StudyTables) -> list[str]:
    """The lines above the tables."""
    spec = result.study.spec
    points = len(result.points)
    about = [f"{points} {'point' if points == 1 else 'points'}"] if points else []
    about += [f"seed {spec.seed}", f"{units.level(spec.confidence)} intervals"]
    return [spec.title or spec.name, f"{', '.join(about)}; on {result.study.engine.name}"]


def page(result: StudyTables, images: Mapping[str, str], command: str = "") -> str:
    """Return a study as one HTML page, with its plots as SVG by name; `command` asks it again.

    A run of a study's scenario tells which assumptions its worlds rest on.
    """
    title, *lines = heading(result)
    first, *rest = views(result) or [View("Nothing", (), 0, ())]
    findings = [replace(first, leads=True), *rest]
    spec, engine = result.study.spec, result.study.engine
    basis = Basis(question_text := spec.description or question(result), command=command)
    if isinstance(policy := engine.roots().get("policy"), Policy):
        basis = basis_of(question_text, policy, engine.consulted(spec.seed), command)
    return tables_page(title, [answer(result), *lines], findings, dict(_answer_first(images)), basis)


def question(result: StudyTables) -> str:
    """What a study asks, in a sentence, where its file does not say it."""
    spec, metrics = result.study.spec, " and ".join(result.study.measured)
    if spec.goal is not None:
        which = "smallest" if spec.goal.smallest else "largest"
        return f"Which is the {which} {spec.goal.parameter} such that {spec.goal.such_that}?"
    if spec.sensitivity is not None:
        return f"How much does {metrics} depend on {' and '.join(spec.sensitivity.parameters)}?"
    if spec.factors:
        return f"What is {metrics} for each {' and '.join(spec.factors)}?"
    return f"What is {metrics} for each of {', '.join(spec.variants)}?" if spec.variants else ""


def _answer_first(images: Mapping[str, str]) -> list[tuple[str, str]]:
    """Plots in the order of the tables: what answers a question before what it was found by."""
    kinds = ("candidates", "comparisons", "tornado", "sobol", "points")
    return sorted(images.items(), key=lambda item: kinds.index(item[0].partition("-")[0]))


def answer(result: StudyTables) -> str:
    """What a study found, in a sentence."""
    spec, tables = result.study.spec, result.tables
    if tables["goals"] and spec.goal is not None:
        which = "smallest" if spec.goal.smallest else "largest"
        several = len(tables["goals"]) > 1
        answers = (f"{row['point']}: " * several + units.text(row["answer"]) for row in tables["goals"])
        sought = f"The {which} {spec.goal.parameter} such that {spec.goal.such_that}"
        return (
            f"{sought} is {'; '.join(answers)}."
            if any(row["answer"] for row in tables["goals"])
            else (f"{sought} was not found: {tables['goals'][0]['text']}.")
        )
    if tables["comparisons"]:
        return _of_comparison(tables["comparisons"][0])
    if tables["tornado"]:
        most = max(tables["tornado"], key=lambda row: row["swing"] or 0)
        ends = " and ".join(most[f"{end}_value"] for end in ("low", "high"))
        swing = units.write(units.difference_of(most["unit"]), most["swing"])
        return f"{most['parameter']} moves {most['metric']} most: by {swing} between {ends}."
    return _of_points([row for row in tables["points"] if row["mean"] is not None])


def _of_comparison(row: Row) -> str:
    changed = units.write(row["difference_unit"], row["difference"], row["low"], row["high"])
    means = (units.write(row["unit"], row[f"{side}_mean"]) for side in ("first", "second"))
    of = dict(zip(("first", "second"), means, strict=True))
    return (
        f"{row['metric']} is {of['first']} at {row['first']} and {of['second']} at {row['second']}: a "
        f"difference of {changed}."
    )


def _of_points(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing was observed."
    metric = [row for row in rows if row["metric"] == rows[0]["metric"]]
    ends = min(metric, key=lambda row: row["mean"]), max(metric, key=lambda row: row["mean"])
    low, high = (units.write(row["unit"], row["mean"], row["low"], row["high"]) for row in ends)
    if len(metric) == 1:
        return f"{rows[0]['metric']} is {low}."
    return f"{rows[0]['metric']} is between {low} ({ends[0]['point']}) and {high} ({ends[1]['point']})."


def views(result: StudyTables) -> list[View]:
    """The tables that have rows, in the order in which they are read."""
    makers = (_goals, _candidates, _points, _quantiles, _comparisons, _tornado, _sobol, _failures)
    return [view for make in makers for view in make(result) if view.rows]


def _points(result: StudyTables) -> Iterator[View]:
    metrics = list(dict.fromkeys(row["metric"] for row in result.tables["points"]))
    cells: dict[str, dict[str, str]] = {}
    times: dict[str, int] = {}
    for row in result.tables["points"]:
        interval = units.write(row["unit"], row["mean"], row["low"], row["high"])
        cells.setdefault(row["point"], {})[row["metric"]] = interval
        times[row["point"]] = max(row["replications"], times.get(row["point"], 0))
    rows = tuple(
        (point, str(times[point]), *(of.get(metric, "–") for metric in metrics))
        for point, of in cells.items()
    )
    yield View("Points", ("point", "runs", *metrics), 1, rows)


def _quantiles(result: StudyTables) -> Iterator[View]:
    rows = tuple(
        (
            row["point"],
            row["metric"],
            units.percent(row["quantile"]),
            units.write(row["unit"], row["value"]),
            _span(row["unit"], row["low"], row["high"]),
        )
        for row in result.tables["quantiles"]
    )
    yield View("Quantiles over replications", ("point", "metric", "quantile", "value", "interval"), 2, rows)


def _comparisons(result: StudyTables) -> Iterator[View]:
    rows = tuple(
        (
            row["first"],
            row["second"],
            row["metric"],
            units.write(row["difference_unit"], row["difference"], row["low"], row["high"]),
            units.gain(row["gain"], row["gain_low"], row["gain_high"]),
        )
        for row in result.tables["comparisons"]
    )
    note = (
        "On common random numbers. So many times more runs on independent ones would give the same interval; "
        "– where the difference does not vary."
    )
    headings = ("point", "against", "metric", "difference", "variance reduction")
    yield View("Comparisons", headings, 3, rows, note)


def _goals(result: StudyTables) -> Iterator[View]:
    spec = result.study.spec
    if spec.goal is None:
        return
    which = "Smallest" if spec.goal.smallest else "Largest"
    rows = tuple(
        (row["point"], units.text(row["answer"]), row["status"], row["text"])
        for row in result.tables["goals"]
    )
    title = f"{which} {spec.goal.parameter} such that {spec.goal.such_that}"
    note = (
        f"Right with {units.level(spec.confidence)} confidence in all, if the condition only gets easier "
        "along the range."
    )
    yield View(title, ("point", "answer", "status", "why"), 4, rows, note)


def _candidates(result: StudyTables) -> Iterator[View]:
    goal = result.study.spec.goal
    if goal is None:
        return
    condition = MetricCondition.parse(goal.such_that, result.study.engine)
    name, unit = condition.decides
    rows = tuple(
        (
            row["point"],
            row["value"],
            str(row["replications"]),
            units.write(unit, row["mean"], row["low"], row["high"]),
            row["decision"],
        )
        for row in result.tables["candidates"]
    )
    yield View("Values tried", ("point", "value", "runs", name, goal.such_that), 2, rows)


def _tornado(result: StudyTables) -> Iterator[View]:
    rows = tuple(
        (
            row["metric"],
            row["parameter"],
            *(
                f"{row[f'{end}_value']}: "
                + _signed(
                    row["unit"], row[f"{end}_change"], row[f"{end}_change_low"], row[f"{end}_change_high"]
                )
                for end in ("low", "high")
            ),
            units.write(row["unit"], row["base"]),
        )
        for row in result.tables["tornado"]
    )
    yield View("Sensitivity, one at a time", ("metric", "parameter", "at low", "at high", "base"), 2, rows)


def _sobol(result: StudyTables) -> Iterator[View]:
    rows = tuple(
        (
            row["metric"],
            row["parameter"],
            *(_index(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in ("first", "total")),
        )
        for row in result.tables["sobol"]
    )
    yield View("Sensitivity, Sobol's indices", ("metric", "parameter", "alone", "in all"), 2, rows)


def _index(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"


def _failures(result: StudyTables) -> Iterator[View]:
    rows = tuple(
        (row["point"], units.text(row["replication"]), row["reason"]) for row in result.tables["failures"]
    )
    yield View("Failed", ("point", "replication", "why"), 3, rows)


def _span(unit: str, low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "–"
    return f"{units.write(unit, low)} to {units.write(unit, high)}"


def _signed(unit: str, value: float | None, low: float | None, high: float | None) -> str:
    sign = "+" if value is not None and value > 0 else ""
    return sign + units.write(units.difference_of(unit), value, low, high)
