"""One replication of customers under a catalogue tallied, and rows of paired differences of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ranksim.core.errors import BadInput
from ranksim.inference.differences import PairedDifference, compared
from ranksim.inference.gains import estimate_gain
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.paired_shares import paired_difference
from ranksim.inference.precision import FIRST_STAGE, is_precise
from ranksim.inference.quantiles import quantile
from ranksim.inference.shares import chance
from ranksim.planner.fleet.results import CODES, FleetResult
from ranksim.planner.fleet.rows import Integers
from ranksim.planner.pricing.bills import bills
from ranksim.planner.pricing.catalogues import ComparedSides
from ranksim.planner.pricing.demand import Amounts
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.report.table_spec import HEADINGS, Row, TableSpec
from ranksim.twin.sim.runner import replication_seed

FEWEST = 2
"""Replications without which there is no interval."""

MOST = 1_000
"""Replications at which a comparison ends, however well it knows."""

ALL = "all"
"""The name of the rows that are about everybody."""

DIFFERENCES = TableSpec(
    others={"a": "", "b": "", "difference": ""},
    keys=("plan", "metric"),
    metrics=("a", "b", "difference"),
)
"""The rows of a comparison, each in the unit of its own."""

Run = TypeVar("Run")
"""What came of one replication under one catalogue."""

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""The percentiles of customers by margin that are given."""

MONEY = ("revenue", "plan_prices", "add_ons", "cost", "margin")

LIMITS = tuple(f"hit_{code}" for code in CODES)

METRICS: dict[str, str] = {
    "customers": "count",
    **dict.fromkeys(MONEY, "money"),
    "negative": "share",
    "blocked": "duration",
    "hit_any": "share",
    **dict.fromkeys(LIMITS, "share"),
    "wants_more": "share",
}
"""Metric to its unit. Customers, and their money in the run, are of those who stay; `blocked` is the mean of
a customer; shares are of customers: `negative` whose margin is below 0, `hit_CODE` who met that refusal,
`wants_more` for whom the plan was not enough."""

WORDS = {**HEADINGS, "revenue": "revenue (by the day)"}
"""Metrics whose name alone does not say what they are: plans and add-ons are paid by the day, as none is
invoiced."""

PRICED = ("revenue", "plan_prices", "add_ons", "margin", "negative")
"""The metrics of which nothing is known where a price is not."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One replication under one catalogue: `plans`, `hits` and `margin` by customer, `means` by plan.

    `hits` says by metric which customers hit; `means` has the metrics that are no shares, of the plans that
    somebody is on.
    """

    plans: NDArray[np.str_]
    hits: dict[str, NDArray[np.bool_]]
    margin: Integers
    means: dict[tuple[str, str], float]
    engine: str

    def on(self, plan: str) -> NDArray[np.bool_]:
        """Which customers are on a plan, or all."""
        return np.full(len(self.plans), True) if plan == ALL else self.plans == plan


Runs = Sequence[tuple[Served, Served]]
"""Replications under A and under B."""


def tally_run(result: FleetResult, staying: Amounts | None = None) -> Served:
    """Tally one run: the metrics of `METRICS`, and the margins.

    Customers and their money count by the share of each that is `staying`, all else as if all stayed.
    """
    billed, accounts = bills(result), result.accounts
    each = np.ones(len(billed.plans))
    staying = each if staying is None else staying
    hits = {
        "negative": billed.margin < 0,
        "hit_any": result.refusals.sum(axis=1) > 0,
        **{f"hit_{code}": accounts[code] > 0 for code in CODES},
        "wants_more": ~accounts["enough"],
    }
    means: dict[tuple[str, str], float] = {}
    for name in (*dict.fromkeys(plan for plan, _ in result.sold), ALL):
        members = billed.of(None if name == ALL else name)
        if not members.any():
            continue
        totals = (each, billed.revenue, billed.prices, billed.add_ons, billed.cost, billed.margin)
        for metric, values in zip(("customers", *MONEY), totals, strict=True):
            means[name, metric] = float((values * staying)[members].sum())
        means[name, "blocked"] = float(accounts["blocked"][members].mean())
    return Served(billed.plans, hits, billed.margin, means, result.engine)


def metric_row(plan: str, metric: str, runs: Runs, level: float, unchanged: bool) -> Row:
    """One metric of one plan under A and under B; `unchanged`: nothing that B changes concerns it."""
    row: Row = {"plan": plan, "metric": metric, "unit": METRICS[metric]}
    if METRICS[metric] == "share":
        return row | _share(plan, metric, runs, level, unchanged)
    nobody = None if metric == "blocked" else 0.0
    first, second = ([run[side].means.get((plan, metric), nobody) for run in runs] for side in (0, 1))
    pairs = compared(MetricSample("mean", second), MetricSample("mean", first), level)
    return row | paired_row(pairs, METRICS[metric], unchanged)


def _share(plan: str, metric: str, runs: Runs, level: float, unchanged: bool) -> Row:
    """A share of the customers of all replications, each of whom is served under A and under B."""
    pairs = [(a.hits[metric][a.on(plan)], b.hits[metric][b.on(plan)]) for a, b in runs]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    gained, lost = int((second & ~first).sum()), int((first & ~second).sum())
    difference, low, high = paired_difference(gained, lost, len(first), level)
    if unchanged and not gained and not lost:
        low = high = difference  # not by luck: no request is decided by anything that differs
    row: Row = {}
    for name, hits in (("a", first), ("b", second)):
        row |= with_ends(name, chance(int(hits.sum()), len(hits), level))
    some = [(float(a.mean()), float(b.mean())) for a, b in pairs if len(a)]
    won = estimate_gain([b for _, b in some], [a for a, _ in some], level)
    row |= {"difference": difference, "difference_unit": "share", "low": low, "high": high}
    return row | with_ends("gain", won) | {"of": len(first), "base": "customers"}


def newly_refused_by(runs: Runs) -> dict[str, float]:
    """Return by limit which share of the customers of all replications meets it under B, and not under A."""
    return {
        limit: float(np.concatenate([b.hits[limit] & ~a.hits[limit] for a, b in runs]).mean())
        for limit in LIMITS
    }


def most_changed(
    rows: Iterable[Mapping[str, Any]], raised: Mapping[str, float], least: float
) -> Mapping[str, Any] | None:
    """Return the row of the refusal that B brings most, else of that which it takes away most.

    `raised` says by metric how much B brings; of equals it is the first. None where nothing changes by the
    `least` that counts.
    """
    rows = list(rows)
    brought = max(rows, key=lambda row: raised[row["metric"]], default=None)
    if brought is None or raised[brought["metric"]] >= least:
        return brought
    relieved = min(rows, key=lambda row: float(row["difference"]))
    return relieved if relieved["difference"] <= -least else None


def margin_rows(plans: Sequence[str], runs: Runs, level: float) -> list[Row]:
    """Return the margin of a customer by plan and percentile, under A and under B.

    Customers of all replications are taken together: they have nothing to do with each other.
    """
    rows = []
    for plan in plans:
        of_sides = [np.concatenate([run[side].margin[run[side].on(plan)] for run in runs]) for side in (0, 1)]
        margins = [np.sort(of_side).tolist() for of_side in of_sides]
        for percentile in PERCENTILES:
            row: Row = {"plan": plan, "percentile": f"p{percentile}"}
            for values, column in zip(margins, "ab", strict=True):
                row |= with_ends(column, quantile(values, percentile / 100, level))
            rows.append(row | {"of": len(margins[0]), "base": "customers"})
    return rows


def with_ends(column: str, estimate: Sequence[float | None]) -> Row:
    """Return the columns of an estimate: its mean, and the ends of its interval."""
    return dict(zip((column, f"{column}_low", f"{column}_high"), estimate, strict=True))


# Of any two sides


def check_replications(replications: int, precision: float | None = None) -> None:
    """Raise BadInput unless replications suffice for an interval, and a `precision` is a share."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip
    if precision is not None and not 0 < precision < 1:
        raise BadInput(f"precision: expected a share between 0 and 1, found {precision}")


def paired_runs(
    serve: Callable[[int], tuple[Run, Run]],
    margin: Callable[[tuple[Run, Run]], float],
    sides: ComparedSides,
    *,
    replications: int,
    precision: float | None,
    seed: int,
    level: float,
    progress: Tell | None,
) -> list[tuple[Run, Run]]:
    """Serve replications under both sides, each by its own seed, until there are enough of them.

    `margin` tells by how much that of B is larger in a replication, µUSD.
    """
    runs: list[tuple[Run, Run]] = []
    margins: list[float] = []
    with noted("comparing", progress) as tell:
        while len(runs) < replications or not is_enough(margins, precision, level):
            runs.append(serve(replication_seed(seed, len(runs))))
            margins.append(margin(runs[-1]))
            so_far = units.write("money", *interval(MetricSample("mean", margins), level))
            share = None if precision else len(runs) / replications
            changed = "" if sides.unpriced else f", the margin changes by {so_far}"
            tell(share, f"{units.many(len(runs), 'replication')}{changed}")
    return runs


def is_enough(margins: Sequence[float], precision: float | None, level: float) -> bool:
    """Whether the margin's difference is known as well as was asked for, or cannot come to be."""
    if precision is None or len(margins) >= MOST:
        return True
    # What is the same under both is so however long one looks.
    sample = MetricSample("mean", margins)
    return is_precise(sample, precision, level) or (len(margins) >= FIRST_STAGE and not any(margins))


def paired_row(pairs: PairedDifference, unit: str, unchanged: bool) -> Row:
    """Return the columns of a row that tell a paired difference of two sides, of a unit.

    Where nothing that B changes concerns it, no difference is none for certain.
    """
    if unchanged and pairs.difference == 0:
        pairs = pairs._replace(low=0.0, high=0.0)
    row: Row = {"a": pairs.a, "b": pairs.b, "difference": pairs.difference, "difference_unit": unit}
    row |= {"low": pairs.low, "high": pairs.high}
    row |= with_ends("gain", (pairs.gain, pairs.gain_low, pairs.gain_high))
    return row | {"of": pairs.pairs, "base": "replications"}


def readable(row: Row) -> Row:
    """Return a row for people: its metric in words, and the interval of its difference."""
    return row | {
        "metric": WORDS.get(row["metric"], row["metric"].replace("_", " ")),
        "difference_low": row["low"],
        "difference_high": row["high"],
    }
