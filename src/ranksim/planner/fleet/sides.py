"""The same customers under several terms: whom nothing that differs could have concerned is served once.

A run under terms that are harder here and softer there is the run under the others as long as no limit that
differs was met, or would have been. What says so is in `_are_served_alike`; each of its lines is a condition
under which every request is decided alike, by induction over the account's requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksim.core.contract.facts import Decision, Spend
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.admission import WOULD_EXCEED
from ranksim.planner.fleet.kernel import KernelInputs, Ledger
from ranksim.planner.fleet.offers import Offers
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import ACTIVITIES, LIFTED, OUTCOMES, Integers

Flags = NDArray[np.bool_]


class FleetSide(NamedTuple):
    """A population under a policy. A `short` one serves each account until it meets what a plan can lift."""

    population: Population
    policy: Policy
    short: bool = False


@dataclass(slots=True, eq=False)
class SideRun:
    """A side, its accounts and what came of them; `before` are sides that are served first."""

    side: FleetSide
    offers: Offers
    given: KernelInputs
    ledger: Ledger
    before: Sequence[ServedBefore] = ()

    @property
    def start(self) -> int:
        """When the run begins."""
        return self.side.population.start

    @property
    def short(self) -> int:
        """Whether accounts are served until it is clear that their plan is not enough, 0 or 1."""
        return int(self.side.short)

    def expected(self, first: int, last: int) -> int:
        """About how many requests the accounts in rows [first, last) make."""
        customers = self.given.customers[first:last]
        return int(((customers["leaves"] - customers["joins"]) // np.maximum(customers["gap"], 1)).sum())

    def unwritten(self) -> Ledger:
        """The ledger, with what of its log is not written yet."""
        return self.ledger._replace(log=self.ledger.log[np.count_nonzero(self.ledger.log["tries"]) :])

    def look_back(self, before: Sequence[SideRun]) -> None:
        """Take note of the sides that are served first, before anything is served."""
        self.before = [_served_before(self, other) for other in before if _are_judged_alike(self, other)]

    def take_over(self, first: int, last: int) -> Integers:
        """Copy what came of accounts in rows [first, last) that are served alike before; give the others."""
        rows = np.arange(first, last, dtype=np.int64)
        for other in self.before:
            some = other.may_be_alike[rows]
            if some.any():
                candidates = rows[some]
                taken = candidates[_are_served_alike(self, other, candidates)]
                _copy(self, other.run, taken)
                rows = np.setdiff1d(rows, taken, assume_unique=True)
        return rows


class ServedBefore(NamedTuple):
    """A side that was served before another one, with what of theirs is the same whatever comes.

    `may_be_alike` by account: it begins with the same domains, and its segment's activities may all be
    served alike. `operations` by offer of the one, of the other, and activity: it costs, waits for and takes
    the same.
    """

    run: SideRun
    may_be_alike: Flags
    operations: Flags


def are_same_customers(given: KernelInputs, other: KernelInputs) -> bool:
    """Whether two sides have the same customers with the same requests."""
    kept = [name for name in given.customers.dtype.names if name not in ("offer", "slots_wanted")]
    return (
        len(given.customers) == len(other.customers)
        and bool((given.customers[kept] == other.customers[kept]).all())
        and all(
            np.array_equal(getattr(given, name), getattr(other, name))
            for name in ("odds", "segments", "habits", "reactions", "hours", "levels")
        )
    )


def _are_judged_alike(run: SideRun, other: SideRun) -> bool:
    """Whether what is not of a plan is the same: windows, assumptions, durations, names of metrics."""
    return run.offers.metrics == other.offers.metrics and all(
        np.array_equal(getattr(run.given, name), getattr(other.given, name))
        for name in ("windows", "terms", "ways", "durations")
    )


def _same_portfolios(given: KernelInputs, other: KernelInputs) -> Flags:
    if not np.array_equal(given.customers["domains"], other.customers["domains"]):
        return np.zeros(len(given.customers), dtype=np.bool_)
    owner = np.repeat(np.arange(len(given.customers)), given.customers["domains"])
    differing = np.bincount(owner, weights=given.domains != other.domains, minlength=len(given.customers))
    same: Flags = (differing == 0) & (given.customers["slots_wanted"] == other.customers["slots_wanted"])
    return same


def _served_before(run: SideRun, other: SideRun) -> ServedBefore:
    operations = _same_operations(run, other)
    own, theirs = run.given.customers["offer"], other.given.customers["offer"]
    # What an account never calls may differ.
    does = np.diff(run.given.odds, axis=1, prepend=0) > 0
    may = (operations[own, theirs] | ~does).all(axis=1)
    return ServedBefore(other, may & _same_portfolios(run.given, other.given), operations)


def _same_operations(first: SideRun, other: SideRun) -> Flags:
    tables = []
    for run in (first, other):
        operations, offers = run.given.operations.copy(), run.given.offers
        lacks = operations["capability"] & ~offers["capabilities"][:, None]
        operations["capability"] = lacks != 0  # which bit a capability is differs by catalogue
        tables.append(operations)
    same: Flags = tables[0][:, None] == tables[1][None]
    for name in ("pairings", "places"):
        wide = first.given.offers[name][:, None] == other.given.offers[name][None]
        same[:, :, Spend.SCANS] &= wide
    return same


def _copy(run: SideRun, other: SideRun, rows: Integers) -> None:
    """Let accounts have come to what they came to on another side; their limits are their own."""
    for name, array in run.ledger._asdict().items():
        if name != "log":
            array[rows] = getattr(other.ledger, name)[rows]
    own = run.given.customers["offer"][rows]
    run.ledger.meters["limit"][rows] = run.given.meters["limit"][own]
    for name in ("ceiling", "slot_limit", "capabilities"):
        run.ledger.books[name][rows] = run.given.offers[name][own]


def _are_served_alike(run: SideRun, before: ServedBefore, rows: Integers) -> Flags:
    """Which accounts come to the same on a side as they did on one that was served before.

    Those who begin with the same domains; of whose calls every kind costs, waits for and takes the same; and
    of whose limits each is the same, or never refused anything and would not here.
    """
    other, ways = before.run, run.given.ways[0]
    own, theirs = run.given.customers["offer"][rows], other.given.customers["offer"][rows]
    counts = other.ledger.counts[rows].reshape(len(rows), len(ACTIVITIES), len(OUTCOMES))
    called, met = counts.any(axis=2), counts.sum(axis=1)
    alike: Flags = (before.operations[own, theirs] | ~called).all(axis=1)

    ceiling, was = run.given.offers["ceiling"][own], other.given.offers["ceiling"][theirs]
    # A lower one that the spend never reached refuses nothing, unless it counts what an ask would cost.
    spent = other.ledger.months["spend"][rows].max(axis=1)
    low = (spent < ceiling) if run.given.terms[0]["cost_gate"] != WOULD_EXCEED else np.False_
    alike &= (ceiling == was) | (met[:, Decision.COST_CAP_REACHED] == 0) & ((ceiling > was) | low)

    slots, had = run.given.offers["slot_limit"][own], other.given.offers["slot_limit"][theirs]
    free = (met[:, Decision.SLOT_LIMIT_EXCEEDED] == 0) & (not ways["partial_slots"])
    alike &= (slots == had) | free & (slots > had)

    meters, knew = run.given.meters[own], other.given.meters[theirs]
    limit, allowed = meters["limit"], knew["limit"]
    # A smaller one that was never used up refuses nothing that passed; what passed it and was stopped by a
    # later check was asked for, too.
    later = (Decision.SLOT_LIMIT_EXCEEDED, Decision.COOLDOWN_ACTIVE, Decision.JOINED)
    small = (other.ledger.meters["peak"][rows] <= limit) & ~met[:, later].any(axis=1)[:, None]
    free = (met[:, Decision.QUOTA_EXHAUSTED] == 0) & (not ways["partial_quota"])
    kept = free[:, None] & (limit >= 0) & (allowed >= 0) & ((limit > allowed) | small)
    alike &= ((meters["period"] == knew["period"]) & ((limit == allowed) | kept)).all(axis=1)

    if other.short:  # whoever met what a plan can lift was not served to the end
        wanted, room = other.ledger.tallies["slots_wanted"][rows], other.ledger.books["slot_limit"][rows]
        alike &= ~met[:, LIFTED].any(axis=1) & (wanted <= room)
    return alike
