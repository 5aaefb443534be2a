"""The result of a study: tables of points, differences, goals and sensitivities; frames, plots, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ranksim.core.errors import BadInput
from ranksim.core.extras import imported
from ranksim.inference.differences import compared
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.quantiles import quantile
from ranksim.inference.ratios import relative_change
from ranksim.planner.study import goal, presentation, sensitivity
from ranksim.planner.study import plots as drawing
from ranksim.planner.study.design import Point, baseline
from ranksim.planner.study.effects import effect_rows
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.scale import Scale
from ranksim.planner.study.spec import CheckedSpec
from ranksim.planner.study.values import base_values, column_of
from ranksim.report.answer import ReadyAnswer, printed
from ranksim.report.assumptions import Basis
from ranksim.report.document import MetricShown, number
from ranksim.report.frames import with_units
from ranksim.report.heading import ExpectationVerdict
from ranksim.report.measured import MetricComparison
from ranksim.report.page import tables_page
from ranksim.report.table_spec import Row, Tables
from ranksim.report.tables import View, fragment
from ranksim.report.units import difference_unit, many
from ranksim.twin.sim.scenario_fields import ScenarioFields, scenario_notes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW_HEIGHT = 0.3
"""Inches for each row of a plot that has many."""

Samples: TypeAlias = Mapping[str, Mapping[str, MetricSample]]
"""Label of a point → metric → what its replications gave."""


class Made(NamedTuple):
    """The tables of a study, and its metrics by point, replication by replication."""

    tables: Tables
    samples: Samples


class StudyResult(ReadyAnswer):
    """What a study found, in the tables of `presentation.TABLES`."""

    kind = "study"
    TABLES = presentation.TABLES

    def __init__(self, study: CheckedSpec, made: Made) -> None:
        self.study = study
        self._tables = made.tables
        self._samples = made.samples

    @property
    def _answering(self) -> str:
        """The table that the sentence is of."""
        return presentation.answering(self.study, self._tables)

    def __repr__(self) -> str:
        metrics = len({row["metric"] for row in self._tables["points"]})
        about = [many(len(self.points), "point"), many(metrics, "metric")] if self.points else []
        for method in ("tornado", "sobol"):
            if rows := self._tables[method]:
                sizes = (many(len({row[of] for row in rows}), of) for of in ("metric", "parameter"))
                about.append(f"{method} of {' and '.join(sizes)}")
        for row in self._tables["goals"]:
            about.append(f"goal {row['status']}: {row['answer' if row['status'] == 'found' else 'text']}")
        about += [many(len(self.failures), "failure")] if self.failures else []
        return f"<StudyResult of {self.study.spec.name!r}: {', '.join(about)}>"

    def _repr_html_(self) -> str:
        return fragment(self.title, self.notes, self.views())

    def _frame(self, name: str, rows: Sequence[Row], integers: bool) -> pd.DataFrame:
        """Return rows of a table as a frame; of points also a column for each parameter, under its path.

        A point that leaves a parameter as it is has the value of the inputs there.
        """
        frame = super()._frame(name, rows, integers)
        return self._with_parameters(frame, integers) if "settings" in frame else frame

    def _with_parameters(self, frame: pd.DataFrame, integers: bool) -> pd.DataFrame:
        pandas = imported("pandas", "frames need pandas", "plots")
        settings = [json.loads(text) for text in frame["settings"]]
        base = base_values(dict.fromkeys(chain.from_iterable(settings)), self.study.engine.roots())
        columns, quantities = {}, {}
        for path in base:
            quantity, values = column_of([of.get(path, base[path]) for of in settings])
            name = f"{path}_uusd" if quantity == "money" else path
            columns[name], quantities[name] = values, quantity
        parameters = pandas.DataFrame(columns, index=frame.index)
        if not integers:
            parameters = with_units(parameters, {name: of for name, of in quantities.items() if of})
        return frame.join(parameters)

    @property
    def title(self) -> str:
        """The title of the study, or its name."""
        return self.study.spec.title or self.study.spec.name

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        return presentation.study_sentence(self.study, self._tables)

    @property
    def notes(self) -> tuple[str, ...]:
        """How many points there are, of which seed and confidence, on which engine, and the scenario's."""
        scenario = self.study.engine.roots().get("scenario")
        notes = scenario_notes(scenario) if isinstance(scenario, ScenarioFields) else ()
        return (presentation.study_scope(self.study, len(self.points)), *notes)

    @property
    def tables(self) -> Tables:
        """The tables as plain rows, by name."""
        return self._tables

    def views(self) -> list[View]:
        """The tables that have rows, in the order in which they are read."""
        return presentation.study_views(self.study, self._tables)

    def summary(self) -> str:
        """Return what `ranksim study` prints."""
        return printed(self.title, self.notes, self.views())

    def basis(self, command: str = "") -> Basis:
        """Return what the study asks and which assumptions it rests on; `command` asks it again."""
        return presentation.basis(self.study, command)

    def _page(self, images: Mapping[str, str], basis: Basis | None = None) -> str:
        answers = self.views() or [View("Nothing", (), 0, (), leads=True)]
        lines = [self.sentence, *self.notes]
        return tables_page(self.title, lines, answers, images, basis or self.basis())

    @property
    def points(self) -> list[str]:
        """The points of the design, by label."""
        return list(self._samples)

    @property
    def failures(self) -> Sequence[Row]:
        """What went wrong, a row for each replication that failed and each point that could not be built."""
        return self._tables["failures"]

    def values(self, point: str, metric: str) -> list[float | None]:
        """Return a metric of each replication of a point. Raises BadInput."""
        return list(self._sample(point, metric).values)

    def _sample(self, point: str, metric: str) -> MetricSample:
        if point not in self._samples:
            raise BadInput(f"no point {point!r}; expected one of {', '.join(self._samples)}")
        if metric not in self._samples[point]:
            raise BadInput(
                f"no values of {metric!r}; add it to measure (with a store, nothing runs again for that)"
            )
        return self._samples[point][metric]

    def compare(self, point: str, against: str, metrics: Iterable[str] | None = None) -> MetricComparison:
        """Compare a point (b) with another (a), metric by metric, as `Result.compare` does two results.

        Rows are those of the table `differences`. Raises BadInput for a point or metric that there is not.
        """
        metrics = [metrics] if isinstance(metrics, str) else metrics
        names = self.study.measured if metrics is None else tuple(metrics)
        rows = [_comparison(self.study, point, against, name, self._sample) for name in names]
        level = self.study.spec.confidence
        changes = {
            name: relative_change(self._sample(point, name), self._sample(against, name), level)
            for name in names
        }
        return MetricComparison(against, point, rows, changes=changes, goals=self.study.sought)

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots that have rows: one for each table and metric."""
        return tuple(drawing.filled_plots(self._tables))

    def _figure(self, name: str) -> Figure:
        figure = super()._figure(name)
        rows = drawing.filled_plots(self._tables)[name][-1]
        figure.set_figheight(max(figure.get_figheight(), 1.2 + ROW_HEIGHT * len(rows)))
        return figure

    def plot(self, name: str = "", ax: Axes | None = None, metric: str | None = None) -> Axes:
        """Draw one of `plots`, the first unless it is named, or a table that has any.

        A table (`points`, `effects`, `differences`, `candidates`, `tornado` or `sobol`) is drawn of its first
        metric unless that is named; a metric alone is drawn of `points`. Raises BadInput when there is
        nothing to draw, or no matplotlib.
        """
        if metric is None and name not in drawing.PLOTS:
            return super().plot(name, ax)
        return drawing.plot(self.study, self._tables, name or "points", metric, ax)

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        table, metric, _ = drawing.filled_plots(self._tables)[name]
        return drawing.plot(self.study, self._tables, table, metric, ax)

    @property
    def metrics(self) -> dict[str, MetricShown]:
        """The mean of each metric at each point, and what a goal found of its parameter from there."""
        means: dict[str, MetricShown] = {
            f"{row['point']}: {row['metric']}": {
                "unit": row["unit"], "value": row["mean"], "low": row["low"], "high": row["high"],
            }
            for row in self._tables["points"]
        }  # fmt: skip
        if (sought := self.study.spec.goal) is None:
            return means
        scale = Scale.between(*sought.between, sought.step)
        return means | {
            f"{row['point']}: {row['parameter']}": number(*scale.in_unit_of_kind(row["answer"]))
            for row in self._tables["goals"]
        }

    def fields(self) -> dict[str, Any]:
        """Return what the document of a study has: its goals are the answer, and what is expected."""
        spec, goals = self.study.spec, self._tables["goals"]
        return {
            "answer": " ".join(f"{row['text']}." for row in goals),
            "notes": (),
            "expectations": [ExpectationVerdict(row["status"] == "found", row["text"]) for row in goals],
            "study": spec.name,
            "seed": spec.seed,
            "confidence": spec.confidence,
        }


def make_tables(
    study: CheckedSpec,
    design: Sequence[Point],
    moved: Sequence[Point],
    findings: Sequence[goal.GoalResult],
    runs: Runs,
    counts: Mapping[str, int],
) -> Made:
    """Make the tables of a study from what its runs gave; `counts` is the replications by key of point."""
    samples = {
        point.label: {metric: runs.sample(point, metric, counts[point.key]) for metric in study.measured}
        for point in design
        if not point.problem
    }
    goals, candidates = goal.rows(list(findings))
    made: Tables = {
        "points": [row for point in design for row in _point_rows(study, point, samples)],
        "quantiles": [row for point in design for row in _quantile_rows(study, point, samples)],
        "differences": list(_comparisons(study, design, samples)),
        "effects": effect_rows(study, design, samples),
        "goals": goals,
        "candidates": candidates,
        **sensitivity.rows(study, moved, runs, dict(counts)),
        "failures": [
            {"point": point.label, "replication": replication, "reason": reason}
            for point in (*design, *moved)
            for replication, reason in runs.failures(point, counts[point.key])
        ],
    }
    return Made(made, samples)


def _point_rows(study: CheckedSpec, point: Point, samples: Samples) -> Iterable[Row]:
    for metric, sample in samples.get(point.label, {}).items():
        mean, low, high = interval(sample, study.spec.confidence)
        yield {
            "point": point.label,
            "settings": json.dumps(point.settings, sort_keys=True, ensure_ascii=False),
            "metric": metric,
            "unit": study.engine.unit_of(metric),
            "replications": len(sample.observed),
            "mean": mean,
            "low": low,
            "high": high,
        }


def _quantile_rows(study: CheckedSpec, point: Point, samples: Samples) -> Iterable[Row]:
    for metric, sample in samples.get(point.label, {}).items():
        observed = sample.observed
        for q in study.spec.quantiles:
            value, low, high = quantile(observed, q, study.spec.confidence)
            yield {
                "point": point.label,
                "metric": metric,
                "unit": study.engine.unit_of(metric),
                "quantile": q,
                "replications": len(observed),
                "value": value,
                "low": low,
                "high": high,
            }


def _comparisons(study: CheckedSpec, design: Sequence[Point], samples: Samples) -> Iterable[Row]:
    for point in design:
        other = baseline(study.spec, list(design), point)
        if other is not None and point.label in samples and other.label in samples:
            for metric in study.measured:
                yield _comparison(
                    study, point.label, other.label, metric, lambda label, name: samples[label][name]
                )


def _comparison(
    study: CheckedSpec, point: str, against: str, metric: str, sample: Callable[[str, str], MetricSample]
) -> Row:
    row = compared(sample(point, metric), sample(against, metric), study.spec.confidence)
    unit = study.engine.unit_of(metric)
    return {
        "point": point,
        "against": against,
        "metric": metric,
        "unit": unit,
        "a": row.a,
        "b": row.b,
        "difference": row.difference,
        "difference_unit": difference_unit(unit),
        **{name: getattr(row, name) for name in ("low", "high", *presentation.OF_PAIRS)},
    }
