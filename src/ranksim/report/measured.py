"""Metrics as Python and notebooks show them: an estimate in its unit, and two results metric by metric."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from ranksim.core.errors import BadInput
from ranksim.core.extras import imported
from ranksim.inference.estimate import Estimate
from ranksim.report import units
from ranksim.report.answer import printed
from ranksim.report.document import COMPARISON, as_text, document
from ranksim.report.frames import (
    as_number,
    in_unit,
    named_by_unit,
    rows_named,
    typed_without_rows,
    with_number_ends,
    with_units_of_rows,
)
from ranksim.report.tables import Row, View, fragment

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MOST_DRAWN = 12
"""Changes of a comparison that a figure shows."""

MOST_NAMED = 1
"""Metrics that a table names beside one that says the same."""


class MetricEstimate(Estimate):
    """An estimate that shows itself in its `unit`, as `value` and `interval` are; fields are µs or µUSD."""

    unit: str = ""
    name: str = ""

    def __new__(
        cls, mean: float | None, low: float | None, high: float | None, unit: str = "", name: str = ""
    ) -> MetricEstimate:
        """Make the estimate of a metric of some `name`; `unit` is a key of `units.FORMATS`."""
        made = super().__new__(cls, mean, low, high)
        made.unit, made.name = unit, name
        return made

    @property
    def value(self) -> Any:
        """The mean as frames have it: a Timedelta, a UTC Timestamp, dollars, or a number."""
        return in_unit(self.unit, self.mean)

    @property
    def interval(self) -> tuple[Any, Any]:
        """Both ends of the interval as `value` has the mean; None where they are unknown."""
        return in_unit(self.unit, self.low), in_unit(self.unit, self.high)

    def __float__(self) -> float:
        """The mean as a number: seconds, dollars, a share of 1, a count; an instant in seconds of the epoch.

        Raises BadInput where nothing was observed.
        """
        number = as_number(self.unit, self.mean)
        if number is None:
            raise BadInput(f"{self.name}: nothing was observed, so there is no number; `value` is None")
        return number

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.unit, self.name)

    def __repr__(self) -> str:
        return units.write(self.unit, *self)


OF_METRIC, OF_DIFFERENCE = ("a", "b"), ("difference", "low", "high")
"""Columns of a comparison in the `unit`, and in the `difference_unit`, of their row."""

COLUMNS = (
    *("metric", "unit", "difference_unit", *OF_METRIC, *OF_DIFFERENCE),
    *("gain", "gain_low", "gain_high", "pairs", "agreeing", "sure"),
)
"""Of a comparison of no metrics; that of points of a study has others, too."""


class MetricComparison(Sequence[Row]):
    """Two results compared metric by metric: a sequence of rows, B minus A, as plain numbers.

    Shown, and in `frame`, are first those metrics whose mean differs, of these the `goals`, what is sure, and
    what changed most. Where several say the same one is shown, and the others are named: those whose means
    and differences are the same, and shares that fall to 0 with what they are shares of. Durations of rows
    are µs, money µUSD.
    `differing` says what tells two of one name apart. `changes` are metrics' changes as shares of A, with
    their intervals, for the figure. `goals` are the metrics that are expected or sought.
    """

    def __init__(
        self,
        a: str,
        b: str,
        rows: Iterable[Row],
        remarks: Iterable[str] = (),
        differing: str = "",
        changes: Mapping[str, Estimate] = MappingProxyType({}),
        goals: Collection[str] = (),
    ) -> None:
        self.a = a
        self.b = b
        self.rows = tuple(rows)
        self.remarks = tuple(remarks)
        self._differing = differing
        self._changes = changes
        self._goals = frozenset(goals)

    @property
    def tables(self) -> dict[str, list[Row]]:
        """All rows as `differences`: what changed first, in the order of `_place`."""
        return {"differences": sorted(self.rows, key=self._place)}

    @property
    def notes(self) -> tuple[str, ...]:
        """How many metrics changed, by the same in all pairs or perhaps by chance; how they were compared."""
        return f"{self._counts().capitalize()}.", *self.remarks

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots; none where nothing that can be drawn changed."""
        return ("changed",) if self._drawable() else ()

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows of metrics whose mean differs."""
        return tuple(row for row in self.rows if row["difference"])

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Comparison of {self.b} with {self.a}: {self._counts()}>"

    def _repr_html_(self) -> str:
        return fragment(self._title(), self.notes, self._views())

    def _counts(self) -> str:
        counts = {
            "by the same in all pairs": sum(map(_is_same, self.changed)),
            "perhaps by chance": _unsure(self.changed),
        }
        parts = [f"{units.count(number)} of them {how}" for how, number in counts.items() if number]
        changed = f"{units.many(len(self.changed), 'metric')} of {units.count(len(self.rows))} changed"
        return ", ".join((changed, *parts))

    def page(self, plots: bool = True) -> str:
        """Return an HTML page: what changed, drawn unless without `plots`, and how much perhaps by chance.

        Raises BadInput without matplotlib.
        """
        from ranksim.report.figure import as_svgs
        from ranksim.report.page import tables_page

        drawn = as_svgs(self.plots if plots else (), self.plot)
        return tables_page(self._title(), self.notes, self._views(), drawn)

    def to_json(self) -> str:
        """Return the comparison as JSON text, of the kind `comparison`: all rows as `differences`."""
        plain = document(
            COMPARISON, self._title(), answer=self.notes[0], notes=self.remarks, tables=self.tables
        )
        return as_text(plain)

    def summary(self) -> str:
        """Return as text what changed."""
        return printed(self._title(), self.notes, self._views())

    def _title(self) -> str:
        differing = f": {self._differing}" if self._differing and self.a == self.b else ""
        return f"{self.a} (A) against {self.b} (B){differing}"

    def _views(self) -> list[View]:
        rows = [
            (
                f"{row['metric']}{_as_others(others)}",
                *units.two_sides(row["unit"], row["a"], row["b"], row["difference"]),
                difference_text(row),
            )
            for row, *others in self._facts(self.changed)
        ]
        view = View("What changed", ("metric", "A", "B", "difference"), 1, tuple(rows))
        return [view] if rows else []

    def plot(self, name: str = "changed", ax: Axes | None = None) -> Axes:
        """Draw what changed most, by how many percent, with intervals: first goals, then what is sure.

        What is not is hollow. Instants, and what there was none of before, have no percentage: the title
        counts what is not drawn. Raises BadInput where nothing else changed, for another name, or without
        matplotlib.
        """
        if name != "changed":
            raise BadInput(f"plot: expected changed, found {name!r}")
        facts = self._drawable()
        if not facts:
            raise BadInput(f"plot: no metric of {self.a!r} changed by a percentage; `frame()` has all")
        from ranksim.report.figure import BLUE, new_figure, plain_axes, separated, title_above_names

        ax = new_figure().subplots() if ax is None else ax
        rows = [row for row, *_ in facts]
        for place, row in enumerate(reversed(rows)):
            width, inside = (2, BLUE) if row["sure"] else (1, "white")
            ax.plot(self._ends(row), [place, place], color=BLUE, linewidth=width)
            at = 100 * row["difference"] / row["a"]
            ax.plot(at, place, "o", color=BLUE, markerfacecolor=inside, markersize=5)
        names = [
            row["metric"] + f" (as {units.many(len(others), 'other')})" * bool(others)
            for row, *others in facts
        ]
        ax.set_yticks(range(len(rows)), names[::-1])
        ax.axvline(0, color="0.6", linewidth=0.8)
        ax.set_xlabel("change, %" + "; hollow: not sure" * bool(_unsure(rows)))
        title_above_names(ax, f"{self._counts().capitalize()}{self._not_drawn(chain(*facts))}")
        plain_axes(ax, "x")
        separated(ax.xaxis)
        return ax

    def _ends(self, row: Row) -> list[float]:
        """The ends of the interval of a change in per cent, on the side of 0 of the difference's."""
        change = self._changes.get(row["metric"])
        if change is None or change.low is None or change.high is None:
            return [100 * row["difference"] / row["a"]] * 2
        least = -math.inf if row["unit"] == "money" else -1.0  # a margin may be a loss
        most = math.inf
        if row["a"] > 0 and row["low"] is not None:
            least = max(least, 0.0 if row["low"] > 0 else -math.inf)
            most = 0.0 if row["high"] < 0 else math.inf
        return [100 * min(max(least, end), most) for end in (change.low, change.high)]

    def _not_drawn(self, drawable: Iterable[Row]) -> str:
        """Say of how many metrics that changed a figure shows nothing."""
        drawn = list(drawable)
        could = [row for row in self.changed if _has_percentage(row)]
        without, unsure = len(self.changed) - len(could), _unsure(could) - _unsure(drawn)
        less = len(could) - len(drawn) - unsure
        counts = {"that changed less": less, "of the unsure": unsure, "without a percentage": without}
        parts = [f"{units.count(number)} {which}" for which, number in counts.items() if number]
        return f"; {' and '.join(parts)} not drawn" if parts else ""

    def _drawable(self) -> list[list[Row]]:
        """What a figure shows, as `_facts`."""
        return self._facts(filter(_has_percentage, self.changed))[:MOST_DRAWN]

    def _facts(self, rows: Iterable[Row]) -> list[list[Row]]:
        """Return rows in their order, those that say the same together."""
        placed = sorted(rows, key=self._place)
        named = {row["metric"]: row for row in placed}
        facts: dict[Any, list[Row]] = {}
        for row in placed:
            total = named.get(row["metric"].removesuffix(".share") + ".total", row)
            never = any(row[side] == total[side] == 0 for side in OF_METRIC)
            facts.setdefault(_numbers(total if never else row), []).append(row)
        return list(facts.values())

    def _place(self, row: Row) -> tuple[bool, bool, bool, float, bool, int]:
        """Where a row stands: first what changed, goals, what is sure, what changed most, and counts."""
        instant, name = row["unit"] == "instant", row["metric"]
        change = 0.0 if instant else abs(row["difference"] / row["a"]) if row["a"] else math.inf
        return (
            not row["difference"],
            name not in self._goals,
            not row["sure"],
            -change,
            row["unit"] == "share",
            name.count("."),
        )

    def frame(self, name: str = "differences", integers: bool = False) -> pd.DataFrame:
        """Return all rows as a pandas frame, what changed first; `differences.UNIT` has those of one unit.

        Instants are UTC datetimes, durations timedeltas, and money is in dollars; with `integers` they stay
        µs and µUSD. Those of one unit name it: `a_usd`; with `integers` `a_uusd` and `a_us`. Raises BadInput
        for another name, or without pandas.
        """
        pandas = imported("pandas", "frames need pandas", "plots")
        rows = rows_named(self.tables, name)
        frame: pd.DataFrame = typed_without_rows(
            pandas.DataFrame(rows, columns=None if rows else COLUMNS), {"sure": "flag"}
        )
        if not integers:
            frame = with_units_of_rows(frame, OF_METRIC)
            frame = with_units_of_rows(frame, OF_DIFFERENCE, "difference_unit")
        return named_by_unit(with_number_ends(frame), name, (*OF_METRIC, *OF_DIFFERENCE), integers)


def difference_text(row: Row) -> str:
    """Say a difference of pairs: with its interval, and that all of several pairs agree, where they do."""
    written = units.write(units.difference_of(row["unit"]), row["difference"], row["low"], row["high"])
    pairs = units.count(row["pairs"])
    if _is_same(row):
        return f"{written}, the same in all {pairs} pairs"
    return f"{written}, in {pairs} of {pairs} pairs" if 1 < row["pairs"] == row["agreeing"] else written


def _is_same(row: Row) -> bool:
    """Whether a change is the same in all of several pairs, of which only such have no interval."""
    return row["pairs"] > 1 and row["low"] is None


def _unsure(rows: Iterable[Row]) -> int:
    """How many of some changes are perhaps by chance."""
    return sum(not row["sure"] for row in rows)


def _has_percentage(row: Row) -> bool:
    """Whether a change can be told in per cent of what was before."""
    return bool(row["a"]) and row["unit"] != "instant"


def _numbers(row: Row) -> tuple[Any, ...]:
    """What a row says: rows of the same numbers say the same of the same."""
    return tuple(row[column] for column in ("unit", *OF_METRIC, *OF_DIFFERENCE))


def _as_others(rows: Sequence[Row]) -> str:
    """Name the first rows of several that say the same as one before them."""
    return f", as {units.first_of([row['metric'] for row in rows], MOST_NAMED)}" if rows else ""
