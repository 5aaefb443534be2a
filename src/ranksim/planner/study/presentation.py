"""The tables of a study, declared, and as people read them; the sentence that answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ranksim.core.contract.policy import Policy
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.spec import CheckedSpec
from ranksim.planner.study.words import goal_words, metric_words, parameter_words
from ranksim.report import units
from ranksim.report.assumptions import Basis, basis_of
from ranksim.report.measured import difference_text
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View

LOW_CHANGES = ("low_change", "low_change_low", "low_change_high")
HIGH_CHANGES = ("high_change", "high_change_low", "high_change_high")

OF_PAIRS = ("gain", "gain_low", "gain_high", "pairs", "agreeing", "sure")
"""What `differences` tell of pairs."""

TABLES: Mapping[str, TableSpec] = MappingProxyType(
    {
        "points": TableSpec(
            others=dict.fromkeys(("mean", "low", "high"), ""),
            columns=("point", "settings", "metric", "unit", "replications", "mean", "low", "high"),
        ),
        "quantiles": TableSpec(
            {"point": "text", "metric": "text", "quantile": "share", "value": "", "interval": "span"},
            columns=("point", "metric", "unit", "quantile", "replications", "value", "low", "high"),
            title="Quantiles over replications",
        ),
        "differences": TableSpec(
            {"point": "text", "against": "text", "metric": "text", "difference": "", "gain": "gain"},
            others={"a": "", "b": "", "sure": "flag"},
            headings={"gain": "variance reduction"},
            title="Comparisons",
            main="difference",
            columns=(
                *("point", "against", "metric", "unit", "a", "b"),
                *("difference", "difference_unit", "low", "high", *OF_PAIRS),
            ),
        ),
        "effects": TableSpec(
            {**dict.fromkeys(("metric", "parameter", "value"), "text"), "mean": "", "most_apart": "value"},
            others=dict.fromkeys(("low", "high", "swing", "swing_low", "swing_high"), ""),
            headings={"most_apart": "swing"},
            title="Main effects",
            main="mean",
            columns=(
                *("metric", "unit", "parameter", "value", "points", "replications", "mean", "low", "high"),
                *("swing", "swing_low", "swing_high"),
            ),
        ),
        "goals": TableSpec(
            dict.fromkeys(("point", "answer", "status", "text"), "text"),
            headings={"text": "why"},
            columns=("point", "parameter", "status", "answer", "text"),
        ),
        "candidates": TableSpec(
            {"point": "text", "value": "text", "runs": "number", "mean": "", "decision": "word"},
            title="Values tried",
            main="mean",
            columns=("point", "value", "replications", "mean", "low", "high", "decision", "would_take"),
        ),
        "tornado": TableSpec(
            {"metric": "text", "parameter": "text", "at_low": "change", "at_high": "change", "base": ""},
            others=dict.fromkeys(("swing", *LOW_CHANGES, *HIGH_CHANGES), ""),
            title="Sensitivity, one at a time",
            columns=(
                *("metric", "unit", "parameter", "base", "swing", "low_value", *LOW_CHANGES),
                *("high_value", *HIGH_CHANGES),
            ),
        ),
        "sobol": TableSpec(
            {"metric": "text", "parameter": "text", "alone": "index", "in_all": "index"},
            title="Sensitivity, Sobol's indices",
            columns=(
                *("metric", "parameter", "first", "first_low", "first_high"),
                *("total", "total_low", "total_high"),
            ),
        ),
        "failures": TableSpec(
            dict.fromkeys(("point", "replication", "reason"), "text"),
            others={"replication": "count"},
            headings={"reason": "why"},
            title="Failed",
            columns=("point", "replication", "reason"),
        ),
    }
)
"""The tables of a result. `low` and `high` are the ends of intervals; a quantile's may be None where there
are too few replications, and an index's where the parameter changes nothing. Durations are µs, money µUSD;
shares are fractions of 1, and so are their differences. In `differences` B is the `point`, A what it is held
`against`; `a` and `b` are their means, and the `difference` is b − a."""

EFFECTS = (
    "The mean over all combinations of the other parameters, paired by seed; the swing is the difference of "
    "the two values of a parameter that lie farthest apart."
)

COMPARED = (
    "On common random numbers. So many times more runs on independent ones would give the same interval; "
    "– where the difference does not vary."
)


def study_scope(study: CheckedSpec, points: int) -> str:
    """Return in words how many points a study has, its seed, its confidence and its engine."""
    spec = study.spec
    parts = [units.many(points, "point")] if points else []
    parts += [f"seed {spec.seed}", f"{units.level(spec.confidence)} intervals"]
    return f"{', '.join(parts)}; on {study.engine.name}"


def basis(study: CheckedSpec, command: str = "") -> Basis:
    """Return what a study asks, and the command that asks it again.

    A run of a study's scenario tells which assumptions its worlds rest on.
    """
    question = study.spec.description or _question(study)
    if isinstance(policy := study.engine.roots().get("policy"), Policy):
        return basis_of(question, policy, study.engine.consulted(study.spec.seed), command)
    return Basis(question, command=command)


def _question(study: CheckedSpec) -> str:
    """Return the question of a study in a sentence, where its file does not say it."""
    spec, metrics = study.spec, " and ".join(study.measured)
    if spec.goal is not None:
        return f"Which is the {spec.goal.sought}?"
    if spec.sensitivity is not None:
        return f"How much does {metrics} depend on {' and '.join(spec.sensitivity.parameters)}?"
    if spec.factors:
        return f"What is {metrics} for each {' and '.join(spec.factors)}?"
    return f"What is {metrics} for each of {', '.join(spec.variants)}?" if spec.variants else ""


def answering(study: CheckedSpec, tables: Tables) -> str:
    """Return the name of the table that answers, as `study_sentence` says it.

    Main effects do where they are averages, unless a baseline is named to compare with.
    """
    if tables["goals"]:
        return "goals"
    if has_averages(tables) and not study.spec.baseline:
        return "effects"
    return next((name for name in ("differences", "tornado") if tables[name]), "points")


def has_averages(tables: Tables) -> bool:
    """Return whether effects of several parameters are averages: else comparisons and points show them."""
    effects = tables["effects"]
    return len({row["parameter"] for row in effects}) > 1 and any(row["points"] > 1 for row in effects)


def study_sentence(study: CheckedSpec, tables: Tables) -> str:
    """Return what a study found, in a sentence."""
    spec = study.spec
    if spec.goal is not None and (goals := tables["goals"]):
        sought = goal_words(spec.goal, MetricCondition.parse(spec.goal.such_that, study.engine))
        if all(row["answer"] is None for row in goals):
            return f"The {sought} was not found: {goals[0]['text']}."
        several = len(goals) > 1
        answers = (f"{row['point']}: " * several + units.text(row["answer"]) for row in goals)
        return f"The {sought} is {'; '.join(answers)}."
    answer = answering(study, tables)
    if answer == "effects":
        rows = [row for row in tables["effects"] if row["metric"] == tables["effects"][0]["metric"]]
        what, moved = parameter_words(rows[0]["parameter"]), metric_words(rows[0]["metric"])
        words = effect_words(rows, f"of all, the {what}", f"the {moved}")
        return f"{words[0].upper()}{words[1:]}."
    if answer == "differences":
        rows = tables["differences"]
        of_first = [row for row in rows if row["metric"] == rows[0]["metric"]]
        return _of_comparison(max(of_first, key=lambda row: abs(row["difference"] or 0)))
    if answer == "tornado":
        most = max(tables["tornado"], key=lambda row: row["swing"] or 0)
        ends = " and ".join(most[f"{end}_value"] for end in ("low", "high"))
        swing = units.write(units.difference_of(most["unit"]), most["swing"])
        what, moved = parameter_words(most["parameter"]), metric_words(most["metric"])
        return f"Of all, the {what} moves the {moved} most: by {swing} between {ends}."
    return _of_points([row for row in tables["points"] if row["mean"] is not None])


def effect_words(rows: Sequence[Row], parameter: str, metric: str) -> str:
    """Say that a parameter moves a metric most, both in words, of the main effects on that metric."""
    most = rows[0]["swing"], rows[0]["swing_low"]
    if not most[0]:
        return f"no parameter moves {metric}"
    if most[1] is not None and most[1] <= 0:
        return f"it is not sure that any parameter moves {metric}"
    means = [row for row in rows if row["parameter"] == rows[0]["parameter"] and row["mean"] is not None]
    ends = {row["mean"] for row in (min(means, key=_mean), max(means, key=_mean))}
    first, *_, last = (row for row in means if row["mean"] in ends)
    span = (f"{units.write(row['unit'], row['mean'])} at {row['value']}" for row in (first, last))
    return f"{parameter} moves {metric} most: {' to '.join(span)}"


def _mean(row: Row) -> float:
    return float(row["mean"])


def _of_comparison(row: Row) -> str:
    a, b = units.two_sides(row["unit"], row["a"], row["b"], row["difference"])
    return (
        f"The {metric_words(row['metric'])}: {b} at {row['point']} and {a} at {row['against']}, a "
        f"difference of {difference_text(row)}."
    )


def _of_points(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing was observed."
    metric = [row for row in rows if row["metric"] == rows[0]["metric"]]
    ends = min(metric, key=lambda row: row["mean"]), max(metric, key=lambda row: row["mean"])
    low, high = (units.write(row["unit"], row["mean"], row["low"], row["high"]) for row in ends)
    words = metric_words(rows[0]["metric"])
    if len(metric) == 1:
        return f"The {words}: {low}."
    return f"The {words}: between {low} ({ends[0]['point']}) and {high} ({ends[1]['point']})."


def study_views(study: CheckedSpec, tables: Tables) -> list[View]:
    """Return the tables that have rows, in the order in which they are read; the first leads a page."""
    made = [
        *_goals(study, tables["goals"]),
        *_candidates(study, tables["candidates"]),
        *_points(tables["points"]),
        *(_view("effects", map(_effect, tables["effects"]), EFFECTS) if has_averages(tables) else ()),
        *_view("quantiles", map(_quantile, tables["quantiles"])),
        *_view("differences", map(_difference, tables["differences"]), COMPARED),
        *_view("tornado", map(_changes, tables["tornado"])),
        *_view("sobol", map(_indices, tables["sobol"])),
        *_view("failures", tables["failures"]),
    ]
    return [replace(view, leads=not at) for at, view in enumerate(made)]


def _view(name: str, rows: Iterable[Row], note: str = "") -> list[View]:
    return TABLES[name].view(TABLES[name].title, list(rows), note)


def _goals(study: CheckedSpec, rows: Sequence[Row]) -> list[View]:
    spec = study.spec
    if spec.goal is None:
        return []
    sought = goal_words(spec.goal, MetricCondition.parse(spec.goal.such_that, study.engine))
    title = sought[0].upper() + sought[1:]
    note = (
        f"Right with {units.level(spec.confidence)} confidence in all, if the condition only gets easier "
        "along the range."
    )
    return TABLES["goals"].view(title, rows, note)


def _candidates(study: CheckedSpec, rows: Sequence[Row]) -> list[View]:
    if study.spec.goal is None:
        return []
    condition = MetricCondition.parse(study.spec.goal.such_that, study.engine)
    name, unit = condition.decides
    table = TABLES["candidates"]._replace(headings={"mean": name, "decision": study.spec.goal.such_that})
    cells = [{**row, "unit": unit, "runs": str(row["replications"])} for row in rows]
    return table.view(table.title, cells)


def _points(rows: Sequence[Row]) -> list[View]:
    """A row for each point, a column for each metric."""
    metrics = dict.fromkeys(row["metric"] for row in rows)
    points: dict[str, Row] = {}
    for row in rows:
        point = points.setdefault(row["point"], {"point": row["point"], "runs": 0, **metrics})
        point["runs"] = max(row["replications"], point["runs"])
        point[row["metric"]] = units.write(row["unit"], row["mean"], row["low"], row["high"])
    cells = tuple(tuple(map(units.text, point.values())) for point in points.values())
    return [View("Points", ("point", "runs", *metrics), 1, cells)] if cells else []


def _quantile(row: Row) -> Row:
    ends = [units.write(row["unit"], row[end]) for end in ("low", "high")]
    open_ended = row["low"] is None and row["high"] is None
    return {**row, "interval": None if open_ended else " to ".join(ends)}


def _difference(row: Row) -> Row:
    gain = units.gain(row["gain"], row["gain_low"], row["gain_high"])
    return {**row, "unit": units.difference_of(row["unit"]), "gain": gain}


def _effect(row: Row) -> Row:
    ends = row["swing_low"], row["swing_high"]
    return {**row, "most_apart": units.write(units.difference_of(row["unit"]), row["swing"], *ends)}


def _changes(row: Row) -> Row:
    ends = {f"at_{end}": f"{row[f'{end}_value']}: {_signed(row, f'{end}_change')}" for end in ("low", "high")}
    return row | ends


def _signed(row: Row, column: str) -> str:
    value = row[column]
    sign = "+" if value is not None and value > 0 else ""
    ends = row[f"{column}_low"], row[f"{column}_high"]
    return sign + units.write(units.difference_of(row["unit"]), value, *ends)


def _indices(row: Row) -> Row:
    """Write both indices with their intervals, where they have one."""
    texts = {}
    for name, column in (("alone", "first"), ("in_all", "total")):
        value, low, high = (row[f"{column}{end}"] for end in ("", "_low", "_high"))
        span = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
        texts[name] = f"{value:.2f}{span}"
    return row | texts
