"""What a fleet run gave: records per account and per month, rows per plan, quantiles, frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DISTANT_PAST, HOUR
from ranksim.core.contract.facts import Decision
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, one_among
from ranksim.core.extras import imported, install_line
from ranksim.core.money import MICRO_USD
from ranksim.planner.fleet.offers import Sold
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import ACTIVITIES, HEALING, LIFTED, OUTCOMES, REFUSED, Integers, Records
from ranksim.report.answer import printed
from ranksim.report.table_spec import views_of
from ranksim.report.tables import View, fragment
from ranksim.report.units import many, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NEVER_HAPPENED = -1
"""Stands for an instant that never came."""

CODES = tuple(OUTCOMES[outcome] for outcome in REFUSED)
"""The codes of the refusals, in the order in which a call meets them."""

QUANTITIES = {
    **dict.fromkeys(("joins", "leaves", "first_blocked", "begins", "ends", "t", "at"), "instant"),
    **dict.fromkeys(("blocked", *(f"blocked_{code}" for code in CODES)), "duration"),
    **dict.fromkeys(("spend", "spend_peak", "ceiling"), "money"),
}
"""What the columns of frames are that are instants, durations or money."""

PLAN_COLUMNS = {
    "plan": "text",
    **dict.fromkeys(
        ("accounts", "calls", "admitted", "hit_any", *(f"hit_{code}" for code in CODES)), "count"
    ),
    "blocked": "duration",
    "spend": "money",
}
"""What people are shown of each plan: calls, accounts that met each refusal, how long they were blocked."""

MONTH_COLUMNS = ("calls", "admitted", "refused", "limited", "spend", "slots_peak", "blocked")

Row = dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class FleetResult:
    """One run of a fleet: arrays with a row an account, in the order of the accounts' numbers.

    `engine` is "compiled" or "interpreted". `counts` has shape (accounts, activities, outcomes); `months`
    (accounts, months), `blocks` (accounts, outcomes; row 0 for all refusals that depend on use), `meters`
    (accounts, metered). `log` holds the first requests where they were asked for.
    """

    population: Population
    policy: Policy
    seed: int
    engine: str
    sold: tuple[Sold, ...]
    metered: tuple[str, ...]
    customers: Records
    tallies: Records
    counts: Integers
    months: Records
    blocks: Records
    meters: Records
    books: Records
    log: Records

    def __repr__(self) -> str:
        return f"<FleetResult of {self.population.name!r}: {len(self.customers):,} accounts, {self.engine}>"

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for who reads the result."""
        if self.engine == "compiled":
            return ()
        numba = f"with Numba ({install_line('fleet')}) the result is the same"
        return (f"engine: interpreted, and so slower; {numba}",)

    @classmethod
    def joined(cls, parts: Sequence[FleetResult]) -> FleetResult:
        """Join the results of consecutive parts of one population. Raises BadInput when they do not fit."""
        if not parts:
            raise BadInput("joined: expected at least one part")
        first = parts[0]
        for before, after in pairwise(parts):
            apart = before.customers["number"][-1] + 1 != after.customers["number"][0]
            same = (after.population, after.policy, after.seed) == (
                first.population,
                first.policy,
                first.seed,
            )
            if apart or not same:
                raise BadInput("joined: expected consecutive accounts of one run; run the parts anew")
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS
        }
        return replace(first, **arrays)

    def fingerprint(self) -> str:
        """A digest of all that was counted: equal for runs that gave the same."""
        digest = blake2b(digest_size=16)
        for name in ARRAYS[:-1]:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()

    # Per account

    @cached_property
    def plan_names(self) -> NDArray[np.str_]:
        """The plan of each account, shape (accounts,)."""
        return np.asarray(np.array([plan for plan, _ in self.sold])[self.customers["offer"]])

    @cached_property
    def refusals(self) -> Integers:
        """Calls refused, shape (accounts, codes), columns as in `CODES`."""
        return np.asarray(self.counts.sum(axis=1)[:, list(REFUSED)])

    @cached_property
    def accounts(self) -> Records:
        """One record an account; every column is explained in docs/fleet.md."""
        return _to_records(dict(self._columns()))

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        customers, tallies, books = self.customers, self.tallies, self.books
        outcomes = self.counts.sum(axis=1)
        yield "account", customers["number"]
        yield "segment", np.array(list(self.population.segments))[customers["segment"]]
        yield "plan", self.plan_names
        yield "joins", customers["joins"]
        yield "leaves", customers["leaves"]
        for name in ("requests", "calls"):
            yield name, tallies[name]
        yield "admitted", outcomes[:, Decision.GRANTED] + outcomes[:, Decision.JOINED]
        for index, code in enumerate(CODES):
            yield code, self.refusals[:, index]
        yield "given_up", tallies["given_up"]
        upgradable = outcomes[:, LIFTED].sum(axis=1)
        yield "upgradable", upgradable
        yield "enough", (upgradable == 0) & (tallies["slots_wanted"] <= books["slot_limit"])
        yield from self._blocked_columns()
        yield "spend", tallies["spend"]
        yield "spend_peak", self.months["spend"].max(axis=1)
        yield "ceiling", books["ceiling"]
        yield "slots_peak", tallies["slots_peak"]
        yield "slots_wanted", tallies["slots_wanted"]
        yield "slot_limit", books["slot_limit"]
        yield from self._meter_columns()

    def _blocked_columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        first = self.blocks["first"][:, list(HEALING)]
        first = np.where(first == DISTANT_PAST, np.iinfo(np.int64).max, first).min(axis=1)
        yield "first_blocked", np.where(first == np.iinfo(np.int64).max, NEVER_HAPPENED, first)
        yield "blocked", self.blocks["total"][:, 0]
        for code, outcome in zip(CODES, REFUSED, strict=True):
            yield f"blocked_{code}", self.blocks["total"][:, outcome]

    def _meter_columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for index, metric in enumerate(self.metered):
            meter = self.meters[:, index]
            yield f"{metric}_peak", meter["peak"]
            yield f"{metric}_wanted", meter["wanted_peak"]
            yield f"{metric}_limit", meter["limit"]
        for name in self.policy.catalogue.add_ons:
            yield f"{name}_needed", self.add_ons_needed(name)

    def add_ons_needed(self, name: str) -> Integers:
        """How many more of an add-on would have covered all that was asked for, shape (accounts,)."""
        add_on = self.policy.catalogue.add_ons[name]
        if add_on.metric not in self.metered:
            return np.zeros(len(self.customers), dtype=np.int64)
        meter = self.meters[:, self.metered.index(add_on.metric)]
        missing = np.where(meter["limit"] < 0, 0, meter["wanted_peak"] - meter["limit"])
        return np.asarray(np.maximum(-(-missing // add_on.amount), 0))

    def quantiles(
        self, column: str, shares: Sequence[float] = (0.5, 0.9, 0.95, 0.99), plan: str | None = None
    ) -> dict[float, float]:
        """Quantiles over accounts of a column of `accounts`, of one plan or of all. Raises BadInput."""
        accounts = self.accounts
        numbers = [name for name in accounts.dtype.names or () if accounts[name].dtype.kind != "U"]
        if column not in numbers:
            raise BadInput(f"quantiles: no numbers in {column!r}; expected one of {', '.join(numbers)}")
        values = self.accounts[column][self._on(plan)]
        if not len(values):
            return dict.fromkeys(shares, float("nan"))
        return dict(zip(shares, np.quantile(values.astype(np.float64), shares).tolist(), strict=True))

    def _on(self, plan: str | None) -> NDArray[np.bool_]:
        if plan is None:
            return np.ones(len(self.customers), dtype=np.bool_)
        return np.asarray(self.plan_names == plan)

    # Per month

    @cached_property
    def by_month(self) -> Records:
        """One record an account and billing month that it was served in, from `begins` to `ends`."""
        ends = self.months["ends"]
        joins, leaves = self.customers["joins"][:, None], self.customers["leaves"][:, None]
        begins = np.concatenate([joins, ends[:, :-1]], axis=1)
        served = begins < leaves
        which, month = np.nonzero(served)
        columns = {"account": self.customers["number"][which], "plan": self.plan_names[which], "month": month}
        columns |= {"begins": begins[served], "ends": np.minimum(ends, leaves)[served]}
        return _to_records(columns | {name: self.months[name][served] for name in MONTH_COLUMNS})

    # Per plan and operation

    def plans(self) -> list[Row]:
        """One row a plan, and one for all: what its accounts did, were refused, cost."""
        names = [name for name in dict.fromkeys(plan for plan, _ in self.sold) if self._on(name).any()]
        of_plans = [self._plan_row(name, self._on(name)) for name in names]
        return [*of_plans, self._plan_row("all", self._on(None))]

    def _plan_row(self, name: str, members: NDArray[np.bool_]) -> Row:
        accounts = self.accounts[members]
        row: Row = {"plan": name, "accounts": len(accounts)}
        for column in ("requests", "calls", "admitted", "given_up", *CODES):
            row[column] = int(accounts[column].sum())
        for code in CODES:
            row[f"hit_{code}"] = int((accounts[code] > 0).sum())
        row["hit_any"] = int((self.refusals[members].sum(axis=1) > 0).sum())
        row["blocked"] = int(accounts["blocked"].sum())
        row["spend"] = int(accounts["spend"].sum())
        for add_on in self.policy.catalogue.add_ons:
            row[f"{add_on}_needed"] = int(accounts[f"{add_on}_needed"].sum())
        return row

    def operations(self) -> list[Row]:
        """One row a plan and activity that was called: calls by outcome."""
        rows = []
        for plan in dict.fromkeys(plan for plan, _ in self.sold):
            counts = self.counts[self._on(plan)].sum(axis=0)
            for activity, numbers in zip(ACTIVITIES, counts.tolist(), strict=True):
                if sum(numbers):
                    row = {"plan": plan, "operation": activity, "calls": sum(numbers)}
                    rows.append(row | dict(zip(OUTCOMES, numbers, strict=True)))
        return rows

    def readable_plans(self) -> list[Row]:
        """The rows of `plans` in what people read: shares, hours a customer, dollars."""
        rows = []
        for row in self.plans():
            calls, accounts = max(row["calls"], 1), max(row["accounts"], 1)
            refused = sum(row[code] for code in CODES)
            readable: Row = {name: row[name] for name in ("plan", "accounts", "calls")}
            readable["refused_share"] = refused / calls
            readable |= {f"hit_{code}_share": row[f"hit_{code}"] / accounts for code in CODES}
            readable["blocked_hours"] = row["blocked"] / HOUR / accounts
            readable["spend_usd"] = row["spend"] / MICRO_USD
            rows.append(readable)
        return rows

    def scalars(self) -> dict[str, float]:
        """Numbers by name, for studies: of all accounts, and of each plan with `plans.PLAN.` before it.

        `calls.total`, `refusals.total`, `refusals.share` and `refusals.CODE` count calls; `hit.CODE` and
        `hit.any` are shares of accounts; `blocked.mean` is µs an account; `spend.total` µUSD,
        `spend.mean` µUSD an account.
        """
        scalars: dict[str, float] = {}
        for row in self.plans():
            prefix = "" if row["plan"] == "all" else f"plans.{row['plan']}."
            scalars |= {prefix + name: value for name, value in _scalars(row).items()}
        return scalars

    @property
    def tables(self) -> dict[str, Records | list[Row]]:
        """By name what `frame` has: records, or rows, with µs and µUSD."""
        return {
            "accounts": self.accounts,
            "months": self.by_month,
            "plans": self.plans(),
            "operations": self.operations(),
            "log": self.log,
        }

    @property
    def sentence(self) -> str:
        """How many accounts were refused something, and for what most of them."""
        totals, accounts = self.plans()[-1], len(self.customers)
        hit = {code: totals[f"hit_{code}"] for code in CODES}
        if not any(hit.values()):
            return f"None of {many(accounts, 'account')} was refused anything"
        most = max(hit, key=hit.__getitem__)
        refused, of_most = percent(totals["hit_any"] / accounts), percent(hit[most] / accounts)
        return f"{refused} of {many(accounts, 'account')} were refused something; {of_most} met {most}"

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots."""
        return ("refused",)

    def plot(self, name: str = "refused", ax: Axes | None = None) -> Axes:
        """Draw for each plan the share of accounts that met each refusal. Raises BadInput."""
        if name not in self.plots:
            raise BadInput(f"plot: expected {one_among(self.plots, name)}")
        from ranksim.report.figure import COLOURS, finish, new_figure

        ax = new_figure().subplots() if ax is None else ax
        rows = self.plans()[:-1]
        codes = [code for code in CODES if any(row[f"hit_{code}"] for row in rows)] or list(CODES)
        high = 0.8 / len(rows)
        for at, row in enumerate(rows):
            shares = [100 * row[f"hit_{code}"] / row["accounts"] for code in codes]
            places = [place + (at - (len(rows) - 1) / 2) * high for place in range(len(codes))]
            ax.barh(places, shares, high, color=COLOURS[at % len(COLOURS)], label=row["plan"])
        ax.set_yticks(range(len(codes)), codes)
        ax.invert_yaxis()
        ax.legend(frameon=False, fontsize=8)
        return finish(ax, self.sentence, "accounts that met it, %", grid="x")

    def page(self, plots: bool = True) -> str:
        """Return an HTML page: a row a plan, and the figure unless without `plots`.

        Raises BadInput without matplotlib.
        """
        from ranksim.report.figure import as_svgs
        from ranksim.report.page import tables_page

        drawn = as_svgs(self.plots if plots else (), self.plot)
        return tables_page(self._title, [f"{self.sentence}.", *self.notes], self._views(), drawn)

    def summary(self) -> str:
        """Return as text how many were refused something, and a row a plan."""
        return printed(f"{self.sentence}.", self.notes, self._views())

    def _repr_html_(self) -> str:
        return fragment(self._title, [f"{self.sentence}.", *self.notes], self._views())

    @property
    def _title(self) -> str:
        return f"Fleet {self.population.name}"

    def _views(self) -> list[View]:
        rows = self.plans()
        columns = {name: of for name, of in PLAN_COLUMNS.items() if name == "plan" or rows[-1][name]}
        return views_of("By plan", rows, columns)

    def frame(self, name: str = "accounts", integers: bool = False) -> pd.DataFrame:
        """A pandas frame of "accounts", "months", "plans", "operations" or "log", with units.

        Instants are UTC datetimes (none for what never came), durations timedeltas, and money is in dollars.
        With `integers` times stay µs and money µUSD. Raises BadInput.
        """
        from ranksim.report.frames import with_units

        pandas = imported("pandas", "frames need pandas", "plots")
        if name not in (tables := self.tables):
            raise BadInput(f"frame: expected {one_among(tables, name)}")
        frame: pd.DataFrame = pandas.DataFrame(tables[name])
        if integers:
            return frame
        if "first_blocked" in frame:
            frame["first_blocked"] = frame["first_blocked"].where(frame["first_blocked"] != NEVER_HAPPENED)
        return with_units(frame, {name: QUANTITIES[name] for name in frame if name in QUANTITIES})


ARRAYS = tuple(
    field.name
    for field in fields(FleetResult)
    if field.name not in ("population", "policy", "seed", "engine", "sold", "metered")
)
"""The fields of a result that hold a row an account, and its log."""


def _to_records(columns: Mapping[str, NDArray[Any]]) -> Records:
    """Return columns of one length as records."""
    made = np.empty(len(columns["account"]), dtype=[(name, array.dtype) for name, array in columns.items()])
    for name, array in columns.items():
        made[name] = array
    return made


def _scalars(row: Row) -> dict[str, float]:
    accounts = max(row["accounts"], 1)
    refused = sum(row[code] for code in CODES)
    scalars = {
        "accounts.total": row["accounts"],
        "calls.total": row["calls"],
        "refusals.total": refused,
        "refusals.share": refused / max(row["calls"], 1),
        "given_up.total": row["given_up"],
        "hit.any": row["hit_any"] / accounts,
        "blocked.mean": row["blocked"] / accounts,
        "spend.total": row["spend"],
        "spend.mean": row["spend"] / accounts,
    }
    scalars |= {f"refusals.{code}": row[code] for code in CODES}
    scalars |= {f"hit.{code}": row[f"hit_{code}"] / accounts for code in CODES}
    return scalars
