"""What the answers share: tables for a terminal, intervals of shares, plans, checks of what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ranksim.contract.plans import Plan
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.extras import imported
from ranksim.report import units
from ranksim.report.tables import View
from ranksim.sim.intervals import LEVEL, Estimate

Row = dict[str, Any]

WITHOUT_END = 10**15
"""A ceiling (µUSD) or a number of slots that nobody reaches."""


def view(title: str, rows: Sequence[Row], columns: Mapping[str, str], note: str = "") -> View:
    """Give rows as a table: `columns` maps a column to its quantity (a key of `units.FORMATS`) or "text".

    Columns of text come first. A column whose name is followed by `_low` and `_high` shows its interval.
    """
    words = sum(quantity == "text" for quantity in columns.values())
    cells = tuple(tuple(_cell(row, column, quantity) for column, quantity in columns.items()) for row in rows)
    return View(title, tuple(column.replace("_", " ") for column in columns), words, cells, note)


def _cell(row: Row, column: str, quantity: str) -> str:
    text = units.write(quantity, row[column])
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if low is None or high is None:
        return text
    return f"{text} ({units.write(quantity, low)} to {units.write(quantity, high)})"


def stats() -> Any:
    """Give `scipy.stats`. Raises BadInput when it is not installed."""
    return imported("scipy.stats", "confidence needs SciPy", "study")


def share(hits: int, trials: int, level: float = LEVEL) -> Estimate:
    """Give a share and its Wilson interval (E. B. Wilson, JASA 22, 1927), through scipy."""
    interval = stats().binomtest(hits, trials).proportion_ci(level, method="wilson")
    return Estimate(hits / trials, float(interval.low), float(interval.high))


def plan_named(policy: Policy, name: str) -> Plan:
    """Give a plan of a policy's catalogue. Raises BadInput when there is none of that name."""
    plans = policy.catalogue.plans
    if name not in plans:
        raise BadInput(f"plan: no plan {name!r}; expected one of {', '.join(plans)}")
    return plans[name]


def only_plan(policy: Policy, **changes: Any) -> Policy:
    """Give a policy whose one plan, "capacity", refuses nothing but what `changes` (fields of `Plan`) say."""
    catalogue = policy.catalogue
    roomy: dict[str, Any] = {
        "name": "capacity",
        "capabilities": tuple(sorted(set(catalogue.capability_of.values()))),
        "quotas": {},
        "cooldowns": {},
        "cost_ceiling": WITHOUT_END,
        "slot_limit": WITHOUT_END,
    }
    plan = next(iter(catalogue.plans.values())).model_copy(update=roomy | changes)
    alone = catalogue.model_copy(update={"plans": {"capacity": plan}, "add_ons": {}})
    return policy.model_copy(update={"catalogue": alone})


def expect(holds: bool, what: str, expected: str, found: object) -> None:
    """Raise BadInput, naming what was expected, unless a condition on the input holds."""
    if not holds:
        raise BadInput(f"{what}: expected {expected}, found {found}")
