"""How customers answer to prices and refusals: declared, since neither a run nor a recording tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranksim.core.errors import BadInput
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import LIFTED, Integers
from ranksim.report import units

Amounts = NDArray[np.float64]
Charged = Integers | Amounts | int
"""µUSD by customer, or of one."""


MOST_ELASTIC = 10
"""At a tenth more, at most all leave."""


UNDER_SOME = "under some of the catalogues"
"""Where customers would pay who pay nothing under the catalogue as it is."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Which shares of the customers leave; neither buys another plan.

    `price`: the share that would leave if their bill doubled, in proportion where it rises by less, and that
    comes where it falls; a bill of nothing does not rise. `refused`: the share that leaves of those who meet
    a kind of refusal that they never met before. A search varies both over their ranges. Raises BadInput
    unless `price`, which is an elasticity, is from 0 to 10 and `refused` a share.
    """

    price: float = 0.0
    refused: float = 0.0
    price_range: tuple[float, float] = (0.0, 1.0)
    refused_range: tuple[float, float] = (0.0, 0.5)

    def __post_init__(self) -> None:
        """Raise BadInput unless both are in their range."""
        expected = f"price: expected a ratio from 0 to {MOST_ELASTIC}, such as 0.4 for 40 %"
        if not isinstance(self.price, int | float) or not 0 <= self.price <= MOST_ELASTIC:
            raise BadInput(f"{expected}, found {self.price!r}")
        if not isinstance(self.refused, int | float) or not 0 <= self.refused <= 1:
            raise BadInput(f"refused: expected a share between 0 and 1, found {self.refused!r}")

    @property
    def sentence(self) -> str:
        """What is told of it beside every answer about many customers that it changes."""
        return self._assumed(" (and as many come where it falls)" if self.price else "")

    @property
    def sentence_of_one(self) -> str:
        """The same beside an answer about one account, which stays or leaves."""
        return self._assumed("")

    def _assumed(self, coming: str) -> str:
        if not (self.price or self.refused):
            return "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal."
        dearer = f"{self.price * 10:.3g} %" if self.price else "none"
        refused = units.percent(self.refused) if self.refused else "none"
        return (
            f"Assumed, not measured: of customers whose bill rises by a tenth {dearer} leave{coming}, "
            f"and {refused} of those refused in a way that they never were; nobody buys another plan."
        )

    def unmoved_notes(self, free: int, of: int, under: str) -> tuple[str, ...]:
        """Say how many customers no price drives away, as they paid nothing and now pay `under` something."""
        if not (self.price and free):
            return ()
        return (
            f"{units.count(free)} of {units.many(of, 'customer')} paid nothing before, and would pay {under}"
            ": that is a rise by no ratio, so none of them is taken to leave because of it.",
        )

    def stay(self, revenue: Charged, before: Charged, newly_refused: NDArray[np.bool_] | bool) -> Amounts:
        """Return the share of each customer that stays, above 1 where customers come.

        `revenue` is what they pay, `before` what they paid.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.where(np.greater(before, 0), np.divide(revenue, before) - 1.0, 0.0)
        refused = np.where(newly_refused, self.refused, 0.0)
        share: Amounts = np.maximum(0.0, 1.0 - self.price * rise) * (1.0 - refused)
        return share


def free_before(revenue: Charged, before: Charged) -> int:
    """Return how many customers paid nothing `before` and pay now (µUSD)."""
    return int(np.count_nonzero(np.equal(before, 0) & np.greater(revenue, 0)))


def demand_of(demand: Demand | None, unpriced: Sequence[str] = ()) -> Demand:
    """Return what is declared, which is by default that nobody leaves.

    Raises BadInput where a price drives customers away and is not known, as `unpriced` says.
    """
    if demand is not None and demand.price and unpriced:
        raise BadInput(f"--leave-price: {' and '.join(unpriced)}, so no bill is known to rise")
    return demand or Demand()


def newly_blocked(result: FleetResult, before: FleetResult) -> NDArray[np.bool_]:
    """Return which customers meet a refusal that plans lift of a kind that they never met `before`."""
    refused, was = (run.counts.sum(axis=1)[:, list(LIFTED)] > 0 for run in (result, before))
    newly: NDArray[np.bool_] = (refused & ~was).any(axis=1)
    return newly
