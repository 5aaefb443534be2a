"""Metrics as Python and notebooks show them: an estimate in its unit, and two results metric by metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ranksim.core.extras import imported
from ranksim.inference.estimate import Estimate
from ranksim.report import units
from ranksim.report.frames import with_number_ends, with_units_of_rows
from ranksim.report.tables import Row, View, fragment

if TYPE_CHECKING:
    import pandas as pd


class MetricEstimate(Estimate):
    """An estimate that shows itself in its `unit`; `mean`, `low` and `high` are numbers, µs or µUSD."""

    unit: str = ""

    def __new__(
        cls, mean: float | None, low: float | None, high: float | None, unit: str = ""
    ) -> MetricEstimate:
        """Make the estimate of a metric; `unit` is a key of `units.FORMATS`."""
        made = super().__new__(cls, mean, low, high)
        made.unit = unit
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.unit)

    def __repr__(self) -> str:
        return units.write(self.unit, *self)


class MetricComparison(Sequence[Row]):
    """Two results compared metric by metric: a sequence of rows, first minus second, as plain numbers.

    Shown, and in `frame`, are first those metrics whose mean differs. Durations of rows are µs, money µUSD.
    """

    def __init__(self, first: str, second: str, rows: Iterable[Row]) -> None:
        self.first = first
        self.second = second
        self.rows = tuple(rows)

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
        return f"<Comparison of {self.first} with {self.second}: {self._counts()}>"

    def _repr_html_(self) -> str:
        title = f"{self.first} (first) compared with {self.second} (second)"
        return fragment(title, [f"{self._counts().capitalize()}."], [self._view()] if self.changed else [])

    def _counts(self) -> str:
        return f"{units.many(len(self.changed), 'metric')} of {units.count(len(self.rows))} changed"

    def _view(self) -> View:
        rows = [
            (
                row["metric"],
                units.write(row["unit"], row["first"]),
                units.write(row["unit"], row["second"]),
                units.write(row["difference_unit"], row["difference"], row["low"], row["high"]),
            )
            for row in self.changed
        ]
        return View("What changed", ("metric", "first", "second", "difference"), 1, tuple(rows))

    def frame(self, integers: bool = False) -> pd.DataFrame:
        """Return all rows as a pandas frame, those that changed first.

        Instants are UTC datetimes, durations timedeltas, and money is in dollars; with `integers` they stay
        µs and µUSD. Raises BadInput without pandas.
        """
        pandas = imported("pandas", "frames need pandas", "plots")
        rows = sorted(self.rows, key=lambda row: not row["difference"])
        frame: pd.DataFrame = pandas.DataFrame(rows)
        if rows and not integers:
            frame = with_units_of_rows(frame, ["first", "second"])
            frame = with_units_of_rows(frame, ["difference", "low", "high"], "difference_unit")
        return with_number_ends(frame)
