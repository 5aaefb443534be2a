"""The result of a study: tables of points, comparisons, goals and sensitivities; frames, plots, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ranksim.core.errors import BadInput
from ranksim.core.extras import imported
from ranksim.inference.differences import compared
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.quantiles import quantile
from ranksim.planner.study import goal, sensitivity
from ranksim.planner.study import plots as drawing
from ranksim.planner.study.design import Point, baseline
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.spec import CheckedSpec
from ranksim.report import document
from ranksim.report.frames import with_number_ends, with_units_of_rows
from ranksim.report.heading import ExpectationVerdict
from ranksim.report.units import difference_of, many

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]

COLUMNS: dict[str, tuple[str, ...]] = {
    "points": ("point", "settings", "metric", "unit", "replications", "mean", "low", "high"),
    "quantiles": ("point", "metric", "unit", "quantile", "replications", "value", "low", "high"),
    "comparisons": (
        *("first", "second", "metric", "unit", "first_mean", "second_mean"),
        *("difference", "difference_unit", "low", "high", "gain", "gain_low", "gain_high", "pairs"),
    ),
    "goals": ("point", "parameter", "status", "answer", "text"),
    "candidates": ("point", "value", "replications", "mean", "low", "high", "decision", "would_take"),
    "tornado": (
        *("metric", "unit", "parameter", "base", "swing"),
        *("low_value", "low_change", "low_change_low", "low_change_high"),
        *("high_value", "high_change", "high_change_low", "high_change_high"),
    ),
    "sobol": ("metric", "parameter", "first", "first_low", "first_high", "total", "total_low", "total_high"),
    "failures": ("point", "replication", "reason"),
}
"""The tables of a result and their columns. `low` and `high` are the ends of intervals; a quantile's may be
None where there are too few replications, and an index's where the parameter changes nothing.
Durations are µs, money µUSD; shares are fractions of 1, and so are points, the unit of their differences."""


MEASURED = (
    *("mean", "value", "low", "high", "first_mean", "second_mean", "difference", "base", "swing"),
    *("low_change", "low_change_low", "low_change_high"),
    *("high_change", "high_change_low", "high_change_high"),
)
"""Columns in the unit of their row, where tables have one."""

Samples: TypeAlias = Mapping[str, Mapping[str, MetricSample]]
"""Label of a point → metric → what its replications gave."""


class Made(NamedTuple):
    """The tables of a study, and its metrics by point, replication by replication."""

    tables: Tables
    samples: Samples


class StudyResult:
    """What a study found. `tables` are plain rows by name; `COLUMNS` says which there are."""

    def __init__(self, study: CheckedSpec, made: Made) -> None:
        self.study = study
        self.tables = made.tables
        self._samples = made.samples

    def __repr__(self) -> str:
        metrics = len({row["metric"] for row in self.tables["points"]})
        about = [many(len(self.points), "point"), many(metrics, "metric")] if self.points else []
        about += [f"goal {row['status']}: {row['answer']}" for row in self.tables["goals"]]
        about += [many(len(self.failures), "failure")] if self.failures else []
        return f"<StudyResult of {self.study.spec.name!r}: {', '.join(about)}>"

    def _repr_html_(self) -> str:
        from ranksim.planner.study.shown import heading, views
        from ranksim.report.notebook import fragment

        title, *lines = heading(self)
        return fragment(title, lines, views(self))

    def summary(self) -> str:
        """Return what `ranksim study` prints."""
        from ranksim.planner.study.shown import heading, views
        from ranksim.report.answer import printed

        title, *lines = heading(self)
        return printed(title, lines, views(self))

    def page(self, plots: bool = True) -> str:
        """Return the HTML page that `ranksim study --out` writes. Raises BadInput without matplotlib."""
        from ranksim.planner.study.shown import page

        if not plots:
            return page(self, {})
        with TemporaryDirectory() as folder:
            return page(self, drawing.save_all(self.study, self.tables, Path(folder)))

    @property
    def points(self) -> list[str]:
        """The points of the design, by label."""
        return list(self._samples)

    @property
    def failures(self) -> Sequence[Row]:
        """What went wrong, a row for each replication that failed and each point that could not be built."""
        return self.tables["failures"]

    def table(self, name: str = "points") -> Sequence[Row]:
        """Return a table as rows. Raises BadInput when there is no such table."""
        if name not in COLUMNS:
            raise BadInput(f"no table {name!r}; expected one of {', '.join(COLUMNS)}")
        return self.tables[name]

    def to_frame(
        self, name: str = "points", metric: str | None = None, integers: bool = False
    ) -> pd.DataFrame:
        """Return a table as a pandas frame with units: of all metrics, or of one.

        Durations are timedeltas, money is in dollars; with `integers` they stay µs and µUSD. Raises BadInput
        when there is no such table, or no pandas.
        """
        rows = [row for row in self.table(name) if metric is None or row["metric"] == metric]
        pandas = imported("pandas", "frames need pandas", "plots")
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=list(COLUMNS[name]))
        if not integers:
            frame = with_units_of_rows(frame, [column for column in MEASURED if column in frame])
        return with_number_ends(frame)

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

    def compare(self, first: str, second: str, metrics: Iterable[str] | None = None) -> list[Row]:
        """Compare two points: rows of first minus second for each metric, as in the table `comparisons`.

        Raises BadInput for a point or metric that there is not.
        """
        names = self.study.measured if metrics is None else tuple(metrics)
        return [_comparison(self.study, first, second, name, self._sample) for name in names]

    def plot(self, name: str = "points", metric: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the table `points`, `comparisons`, `candidates`, `tornado` or `sobol` of one metric.

        The first metric unless said otherwise. Raises BadInput when there is nothing to draw, or no
        matplotlib.
        """
        return drawing.plot(self.study, self.tables, name, metric, ax)

    def to_json(self) -> str:
        """Write the result as JSON text, the same bytes for equal results."""
        spec = self.study.spec
        goals = self.tables["goals"]
        plain = document.document(
            "study",
            spec.title or spec.name,
            answer=" ".join(f"{row['text']}." for row in goals),
            metrics={
                f"{row['point']}: {row['metric']}": {
                    "unit": row["unit"], "value": row["mean"], "low": row["low"], "high": row["high"],
                }
                for row in self.tables["points"]
            },
            expectations=[ExpectationVerdict(row["status"] == "found", row["text"]) for row in goals],
            tables=self.tables,
            study=spec.name,
            seed=spec.seed,
            confidence=spec.confidence,
        )  # fmt: skip
        return document.as_text(plain)


def tables(
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
    made: dict[str, Sequence[Row]] = {
        "points": [row for point in design for row in _point_rows(study, point, samples)],
        "quantiles": [row for point in design for row in _quantile_rows(study, point, samples)],
        "comparisons": list(_comparisons(study, design, samples)),
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
    study: CheckedSpec, first: str, second: str, metric: str, sample: Callable[[str, str], MetricSample]
) -> Row:
    row = compared(sample(first, metric), sample(second, metric), study.spec.confidence)
    unit = study.engine.unit_of(metric)
    return {
        "first": first,
        "second": second,
        "metric": metric,
        "unit": unit,
        "first_mean": row.first,
        "second_mean": row.second,
        "difference": row.difference,
        "difference_unit": difference_of(unit),
        "low": row.low,
        "high": row.high,
        "gain": row.gain,
        "gain_low": row.gain_low,
        "gain_high": row.gain_high,
        "pairs": row.pairs,
    }
