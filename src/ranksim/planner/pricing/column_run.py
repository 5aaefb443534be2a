"""Columns of recorded calls served under one side: what a back-test shows, and a search compares."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import billing_month
from ranksim.core.contract.facts import JobKind, Spend
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.admission import GRANTED, JOINED
from ranksim.planner.fleet.offers import Sold, price_of, sold_of
from ranksim.planner.fleet.recorded_fleet import RecordedFleet
from ranksim.planner.fleet.rows import (
    ACTIVITIES,
    FAULTY,
    NOT_FOUND,
    OUTCOMES,
    REFUSED,
    UNSTATED,
    Integers,
    Records,
)
from ranksim.planner.pricing.catalogues import check_customers, selling
from ranksim.planner.pricing.columns import Columns, accounts_for, resold
from ranksim.planner.pricing.recorded_sides import ENDLESS, NO_REASON, Side
from ranksim.report import units

KINDS = {OUTCOMES[outcome]: outcome for outcome in REFUSED} | {NO_REASON: UNSTATED}
"""The kinds of refusals by which calls are counted: codes and their outcomes; the last is recorded alone."""


class BilledMonths(NamedTuple):
    """Arrays with a row an account: calls, how many months are billed (`months`), and by billing month the
    calls made in it (`called`), when it begins and ends (µs) and what serving the account cost (`spend`,
    µUSD).
    """

    calls: Integers
    months: Integers
    called: Integers
    begins: Integers
    ends: Integers
    spend: Integers


class ColumnRun:
    """One side while the columns pass by, chunk after chunk; no job fails. Raises BadInput.

    `sold` is what each account is sold, `refused` its calls refused so far, by kind as in `KINDS`, and
    `again` those of them that were refused when recorded, nobody says why. `like` is a run of another side of
    the same policy and seed, whose accounts need not be made again.
    """

    def __init__(
        self,
        columns: Columns,
        side: Side,
        policy: Policy,
        seed: int,
        compiled: bool | None = None,
        like: ColumnRun | None = None,
    ) -> None:
        self.columns, self.side = columns, side
        self.sold = sold_under(columns, side)
        reliable = {"job_failure_rates": dict.fromkeys(map(str, JobKind), 0)}
        self.policy = selling(policy, side.sold().model_copy(update=reliable))
        if like is None:
            accounts = accounts_for(columns, self.sold, self.policy, seed)
        else:
            accounts = resold(like.fleet.accounts, self.sold)
        self.fleet: RecordedFleet = RecordedFleet(accounts, self.policy, seed, compiled=compiled)
        self.refused, self.again = refusals_of(columns), refusals_of(columns)

    def serve(self, chunk: Records) -> None:
        """Serve a chunk, fill in what its calls come to, and count those refused."""
        self.fleet.serve(chunk)
        tally(self.refused, chunk, "outcome")
        tally(self.again, chunk[chunk["recorded"] == UNSTATED], "outcome")

    def billed(self) -> BilledMonths:
        """Return what the accounts came to, once the columns have passed."""
        ledger = self.fleet.ledger
        ends, customers = ledger.months["ends"].astype(np.int64), self.fleet.accounts.customers
        joined = zip(customers["anchor"].tolist(), customers["joins"].tolist(), strict=True)
        first = [billing_month(anchor, joins)[0] for anchor, joins in joined]
        return BilledMonths(
            calls=ledger.tallies["calls"].astype(np.int64),
            months=1 + (ends < customers["leaves"][:, None]).sum(axis=1),
            called=ledger.months["calls"].astype(np.int64),
            begins=np.column_stack([np.array(first, dtype=np.int64), ends[:, :-1]]),
            ends=ends,
            spend=ledger.months["spend"].astype(np.int64),
        )

    def monthly(self, catalogue: Catalogue) -> Integers:
        """Return what each account pays for a billing month at the prices of a catalogue, µUSD."""
        accounts = self.fleet.accounts
        prices = np.array([price_of(catalogue, sold) for sold in accounts.sold], dtype=np.int64)
        monthly: Integers = prices[accounts.customers["offer"]]
        return monthly


def refusals_of(columns: Columns) -> Integers:
    """Return room to count the calls refused, by account and kind."""
    return np.zeros((len(columns.accounts), len(KINDS)), dtype=np.int64)


def tally(counts: Integers, chunk: Records, column: str) -> None:
    """Count refused calls by account and kind; `column` is "outcome", or "recorded" for those of then."""
    for k, outcome in enumerate(KINDS.values()):
        accounts = chunk["account"][chunk[column] == outcome]
        counts[:, k] += np.bincount(accounts, minlength=len(counts))


def unstated_jobs(columns: Columns, chunk: Records) -> Counter[str]:
    """Count the jobs of a chunk of which nobody says what they want, by kind, or when they ended.

    A rank run is of one where nobody describes its account.
    """
    jobs = chunk[chunk["activity"] < len(JobKind)]
    unknown = jobs[jobs["size"] == 0]
    described = np.array([bool(account.spec.plan) for account in columns.accounts])
    unknown = unknown[(unknown["activity"] != Spend.RANK_RUN) | ~described[unknown["account"]]]
    kinds, counts = np.unique(unknown["activity"], return_counts=True)
    endless = (jobs["recorded"] == GRANTED) & (jobs["idle"] == 0) & (jobs["lasts"] < 0)
    each = {Spend(k).label: n for k, n in zip(kinds.tolist(), counts.tolist(), strict=True)}
    return Counter(each | {ENDLESS: int(endless.sum())})


ALIKE = {JOINED: GRANTED, FAULTY: NOT_FOUND}
"""Outcomes that a recording does not tell from others."""

NAMES = (*OUTCOMES, "not_found", "not_found", NO_REASON)
"""Outcomes, the kernel's and those that are recorded alone, by number."""


def unlike_outcomes(chunk: Records, outcomes: Integers) -> Counter[tuple[str, str, str]]:
    """Count the calls of a chunk whose outcomes are not those recorded, by activity and both outcomes.

    A refusal whose reason was not recorded is like any other.
    """
    both = np.column_stack([chunk["activity"], chunk["recorded"], outcomes]).astype(np.int64)
    for outcome, like in ALIKE.items():
        both[:, 1:][both[:, 1:] == outcome] = like
    then, now = both[:, 1], both[:, 2]
    unlike = (then >= 0) & (then != now) & ~((then == UNSTATED) & np.isin(now, REFUSED))
    kinds, counts = np.unique(both[unlike], axis=0, return_counts=True)
    return Counter(
        {
            (ACTIVITIES[activity], NAMES[was], NAMES[becomes]): count
            for (activity, was, becomes), count in zip(kinds.tolist(), counts.tolist(), strict=True)
        }
    )


def newly_refused(refused: Integers, before: Integers) -> NDArray[np.bool_]:
    """Return which accounts meet a kind of refusal that they never met, of counts by account and kind."""
    newly: NDArray[np.bool_] = ((refused > 0) & (before == 0)).any(axis=1)
    return newly


def unstated_notes(then: Integers) -> tuple[str, ...]:
    """Say of how many calls refused `then`, by account and kind, nobody says why."""
    calls = int(then[:, -1].sum())
    note = (
        f"The reason of {units.many(calls, 'call')} refused when recorded was not recorded: to be refused "
        "there again counts as met before, whatever the reason."
    )
    return (note,) if calls else ()


def sold_under(columns: Columns, side: Side) -> tuple[Sold, ...]:
    """Return what each account is sold under a side. Raises BadInput for what is not on sale."""
    sold, catalogue = [], side.sold()
    for account in columns.accounts:
        unknown = (
            f"{columns.where}: nobody says which plan account {account.name} is on; give --plan, or "
            "state it in --accounts and import again"
        )
        place = f"{columns.where}: accounts.{account.name}.{{}}".format
        sold.append(sold_of(side.plan_of(account.spec, catalogue, unknown, place), account.spec.add_ons))
    check_customers("move", side.moves, (plan for plan, _ in sold))
    return tuple(sold)
