"""How much metrics depend on parameters: one at a time for a tornado, or all at once by Sobol's indices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ranksim.core.extras import imported
from ranksim.inference.differences import compared
from ranksim.inference.kinds import interval
from ranksim.planner.study.design import Point, point, short_names, written
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.scale import Scale
from ranksim.planner.study.spec import CheckedSpec, Sensitivity
from ranksim.report.table_spec import Row, Tables


def points(study: CheckedSpec) -> list[Point]:
    """Return the points that a sensitivity needs. Raises BadInput when SciPy is missing."""
    sensitivity = study.spec.sensitivity
    if sensitivity is None:
        return []
    made = _tornado_points if sensitivity.method == "tornado" else _sobol_points
    made_points = made(study, sensitivity)
    if all(made_point.problem for made_point in made_points):
        first = next(iter(sensitivity.parameters))
        raise study.located.error(made_points[0].problem, "sensitivity", "parameters", first)
    return made_points


def rows(study: CheckedSpec, moved: Sequence[Point], runs: Runs, counts: dict[str, int]) -> Tables:
    """Return the tables `tornado` and `sobol`, of which one has rows."""
    sensitivity = study.spec.sensitivity
    tables: Tables = {"tornado": [], "sobol": []}
    if sensitivity is not None:
        made = _tornado_rows if sensitivity.method == "tornado" else _sobol_rows
        tables[sensitivity.method] = made(study, sensitivity, moved, runs, counts)
    return tables


# One at a time


def _tornado_points(study: CheckedSpec, sensitivity: Sensitivity) -> list[Point]:
    names = short_names(list(sensitivity.parameters))
    moved = [point(study, {}, "base")]
    for path, ends in sensitivity.parameters.items():
        moved += [point(study, {path: end}, f"{names[path]}={written(end)}") for end in ends]
    return moved


def _tornado_rows(
    study: CheckedSpec, sensitivity: Sensitivity, moved: Sequence[Point], runs: Runs, counts: dict[str, int]
) -> list[Row]:
    """Rows of what each parameter does to each metric, the greatest swing first."""
    base, *ends = moved
    table = []
    for metric in study.measured:
        about = []
        for index, (path, (low, high)) in enumerate(sensitivity.parameters.items()):
            changes = [
                compared(
                    runs.sample(end, metric, counts[end.key]),
                    runs.sample(base, metric, counts[base.key]),
                    study.spec.confidence,
                )
                for end in ends[2 * index : 2 * index + 2]
            ]
            differences = [change.difference for change in changes]
            row: Row = {"metric": metric, "unit": study.engine.unit_of(metric), "parameter": path}
            row |= {"base": changes[0].a}
            for name, value, change in zip(("low", "high"), (low, high), changes, strict=True):
                row |= {f"{name}_value": written(value), f"{name}_change": change.difference}
                row |= {f"{name}_change_low": change.low, f"{name}_change_high": change.high}
            swings = [0.0, *(difference for difference in differences if difference is not None)]
            about.append(row | {"swing": max(swings) - min(swings)})
        table += sorted(about, key=lambda row: -row["swing"])
    return table


# All at once


def _sobol_points(study: CheckedSpec, sensitivity: Sensitivity) -> list[Point]:
    """The points of A, of B, and of A with one column from B, in this order."""
    qmc = imported("scipy.stats.qmc", "Sobol's indices need SciPy", "study")
    size = len(sensitivity.parameters)
    sample = qmc.Sobol(2 * size, scramble=True, rng=study.spec.seed).random(sensitivity.samples).tolist()
    scales = [Scale.between(low, high) for low, high in sensitivity.parameters.values()]
    first, second = [row[:size] for row in sample], [row[size:] for row in sample]
    mixed = [
        [b if index == column else a for index, (a, b) in enumerate(zip(base, other, strict=True))]
        for column in range(size)
        for base, other in zip(first, second, strict=True)
    ]
    moved = []
    for number, shares in enumerate((*first, *second, *mixed)):
        values = [scale.at(share) for scale, share in zip(scales, shares, strict=True)]
        settings = dict(zip(sensitivity.parameters, values, strict=True))
        moved.append(point(study, settings, f"sample {number}"))
    return moved


def _sobol_rows(
    study: CheckedSpec, sensitivity: Sensitivity, moved: Sequence[Point], runs: Runs, counts: dict[str, int]
) -> list[Row]:
    import numpy

    stats = imported("scipy.stats", "Sobol's indices need SciPy", "study")
    size, samples = len(sensitivity.parameters), sensitivity.samples
    table: list[Row] = []
    for metric in study.measured:
        means = []
        for moved_point in moved:
            mean = interval(runs.sample(moved_point, metric, counts[moved_point.key])).mean
            means.append(float("nan") if mean is None else mean)
        array = numpy.array(means, dtype=float)
        if not numpy.isfinite(array).all() or not array.var():
            continue  # a failed sample leaves a hole, and what never varies has no variance to share out
        given = {
            "f_A": array[:samples].reshape(1, samples),
            "f_B": array[samples : 2 * samples].reshape(1, samples),
            "f_AB": array[2 * samples :].reshape(size, 1, samples),
        }
        indices = stats.sobol_indices(func=given, n=samples, rng=study.spec.seed)
        # What a parameter does not move at all has no spread, and so no interval.
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            spread = indices.bootstrap(confidence_level=study.spec.confidence)
        for index, path in enumerate(sensitivity.parameters):
            row: Row = {"metric": metric, "parameter": path}
            for name in ("first_order", "total_order"):
                ends = getattr(spread, name).confidence_interval
                short = name.partition("_")[0]
                row |= {short: float(numpy.ravel(getattr(indices, name))[index])}
                for end in ("low", "high"):
                    edge = float(numpy.ravel(getattr(ends, end))[index])
                    row |= {f"{short}_{end}": edge if math.isfinite(edge) else None}
            table.append(row)
    return table
