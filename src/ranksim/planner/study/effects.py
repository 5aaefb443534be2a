"""Main effects of a design: per parameter and value, the mean of each metric over the other parameters.

Only combinations of the other parameters count that were observed at every value of one, so that its values
are compared at the same others: of a grid that is all of it but what failed, of a list what differs in that
parameter alone. Replication i has the same random numbers at all points; its mean over them is one
observation, and of these is the interval (D. C. Montgomery, "Design and Analysis of Experiments", ch. 5).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ranksim.inference.differences import compared
from ranksim.inference.kinds import MetricSample, interval
from ranksim.planner.study.design import Point, written
from ranksim.planner.study.spec import CheckedSpec
from ranksim.planner.study.values import base_values, comparable
from ranksim.report.table_spec import Row

VARIANT = "variant"
"""What the parameter is called whose values are the variants, where each sets several things at once."""

Levels = dict[str, list[str]]
"""Value of a parameter → the labels of the points that have it, in the same order of the others."""


def effect_rows(
    study: CheckedSpec, design: Sequence[Point], samples: Mapping[str, Mapping[str, MetricSample]]
) -> list[Row]:
    """Return the rows of main effects: metric by metric, the parameter that moves it most first."""
    levels = _levels(study, [point for point in design if point.label in samples])
    rows: list[Row] = []
    for metric in study.measured:
        effects = [_of_parameter(study, metric, parameter, of, samples) for parameter, of in levels.items()]
        for effect in sorted(effects, key=lambda of: -(of[0]["swing"] or 0)):
            rows += effect
    return rows


def _levels(study: CheckedSpec, design: Sequence[Point]) -> dict[str, Levels]:
    """Return the parameters of a design that have effects, with their values."""
    spec = study.spec
    factors = list(spec.factors or ())
    of_variants = [path for settings in (spec.variants or {}).values() for path in settings]
    paths = list(dict.fromkeys((*of_variants, *factors)))
    base = base_values(paths, study.engine.roots())
    places = {point.label: {path: point.settings.get(path, base[path]) for path in paths} for point in design}
    levels = {path: _matched(places, path) for path in paths}
    if not any(levels[path] for path in of_variants if path not in factors):
        named = {
            point.label: {VARIANT: point.variant, **{path: places[point.label][path] for path in factors}}
            for point in design
        }
        levels = {VARIANT: _matched(named, VARIANT), **levels}
    return {parameter: of for parameter, of in levels.items() if of}


def _matched(places: Mapping[str, Mapping[str, Any]], parameter: str) -> Levels:
    """Return the points at each value of a parameter whose others occur with all its values, if any do."""
    values: dict[str, Any] = {}
    for place in places.values():
        values.setdefault(comparable(place[parameter]), place[parameter])
    others: dict[str, dict[str, str]] = {}
    for label, place in places.items():
        rest = json.dumps([(path, comparable(value)) for path, value in place.items() if path != parameter])
        others.setdefault(rest, {})[comparable(place[parameter])] = label
    complete = [at for at in others.values() if len(at) == len(values)]
    if len(values) < 2 or not complete:
        return {}
    return {written(value): [at[key] for at in complete] for key, value in values.items()}


def _of_parameter(
    study: CheckedSpec,
    metric: str,
    parameter: str,
    levels: Levels,
    samples: Mapping[str, Mapping[str, MetricSample]],
) -> list[Row]:
    """Return a row for each value of a parameter, and in each how far their means lie apart."""
    level = study.spec.confidence
    means = {value: mean_over([samples[at][metric] for at in labels]) for value, labels in levels.items()}
    estimates = {value: interval(sample, level) for value, sample in means.items()}
    sizes = {value: estimate.mean for value, estimate in estimates.items() if estimate.mean is not None}
    swing: Row = dict.fromkeys(("swing", "swing_low", "swing_high"))
    if sizes:
        most, least = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        apart = compared(means[most], means[least], level)
        swing = {"swing": apart.difference, "swing_low": apart.low, "swing_high": apart.high}
    unit = study.engine.unit_of(metric)
    return [
        {
            "metric": metric,
            "unit": unit,
            "parameter": parameter,
            "value": value,
            "points": len(levels[value]),
            "replications": len(means[value].observed),
            **estimate._asdict(),
            **swing,
        }
        for value, estimate in estimates.items()
    ]


def mean_over(samples: Sequence[MetricSample]) -> MetricSample:
    """Return the mean of a metric over several points, replication by replication.

    A replication that one of the points has no value of has none. Of a share each point counts alike, and
    its trials are as many as points have on average: as points share random numbers, what all of them show
    together may tell no more than one does.
    """
    mean = samples[0]._replace(drawn=any(sample.drawn for sample in samples))
    rounds = list(zip(*(sample.values for sample in samples), strict=False))
    trials = [sample.trials for sample in samples if sample.trials is not None]
    if len(trials) < len(samples):
        return mean._replace(values=[None if None in values else fmean(values) for values in rounds])
    of_rounds = list(zip(*trials, strict=False))
    complete = [i for i, values in enumerate(rounds) if None not in values and all(of_rounds[i])]
    totals = [math.fsum(of_rounds[i][at] for i in complete) for at in range(len(samples))]
    weights = [fmean(totals) / total / len(totals) for total in totals if total]
    shares: list[float | None] = [None] * len(rounds)
    sizes: list[float | None] = [None] * len(rounds)
    for i in complete:
        weighed = [weight * of for weight, of in zip(weights, of_rounds[i], strict=True)]
        hits = (share * of for share, of in zip(rounds[i], weighed, strict=True) if share is not None)
        sizes[i] = size = math.fsum(weighed)
        shares[i] = math.fsum(hits) / size
    return mean._replace(values=shares, trials=sizes)
