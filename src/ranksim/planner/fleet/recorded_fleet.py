"""Accounts whose calls were recorded, served under a policy chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import windows
from ranksim.core.rules.books import Ask, Window
from ranksim.planner.fleet import compiled as compiler
from ranksim.planner.fleet import recorded
from ranksim.planner.fleet import rows as schema
from ranksim.planner.fleet.bounds import check_policy
from ranksim.planner.fleet.engine import kernel_machine, ledger_of, ring_of, signed, to_arrays, to_lists
from ranksim.planner.fleet.judging import open_months
from ranksim.planner.fleet.kernel import SPENDS, KernelInputs, Ledger
from ranksim.planner.fleet.offers import Offers, Sold, offers_for
from ranksim.planner.fleet.recorded import ServingState
from ranksim.planner.fleet.rows import Integers, Records, blank, to_records, to_rows


@dataclass(frozen=True, slots=True)
class RecordedAccounts:
    """The accounts of a recording that lasts from `start` to `end`, as records of integers.

    `customers` names the plan of each by its place in `sold`, and `first_domains` where its domains begin in
    `domains`. `keys` counts the API keys of all, `things` what calls make and others need.
    """

    sold: tuple[Sold, ...]
    customers: Records
    first_domains: Integers
    domains: Records
    keys: int
    things: int
    start: int
    end: int


class RecordedFleet:
    """Serves recorded calls, chunk after chunk, and counts what each account gets.

    The result depends on accounts, policy, seed and calls alone, not on how these are cut into chunks.
    `compiled` is as in `simulate_fleet`. Raises BadInput for numbers that could pass 64 bits.
    """

    def __init__(
        self, accounts: RecordedAccounts, policy: Policy, seed: int = 0, *, compiled: bool | None = None
    ) -> None:
        self.accounts = accounts
        self.policy = policy
        self.engine = kernel_machine(compiled)
        check_policy(policy)
        self._seed = signed(seed)
        offers = offers_for(accounts.sold, policy)
        given = _given(accounts, offers)
        ledger = ledger_of(given, accounts.end - accounts.start)
        _open_months(ledger, given.customers)
        state = _fresh_state(accounts, given, policy.assumptions)
        if self.engine == "interpreted":
            given, ledger, state = to_lists(given), to_lists(ledger), to_lists(state)
        self._given, self._ledger, self._state = given, ledger, state

    def serve(self, calls: Records) -> None:
        """Serve a chunk, and fill in the outcome and amount of each call.

        The calls of an account stand in order of time, within a chunk and from one to the next.
        """
        if self.engine == "compiled":
            run = compiler.compiled(recorded.run)
            run(0, len(calls), self._seed, calls, self._given, self._state, self._ledger)
            return
        rows = to_rows(calls)
        recorded.run(0, len(rows), self._seed, rows, self._given, self._state, self._ledger)
        calls["outcome"] = [row.outcome for row in rows]
        calls["amount"] = [row.amount for row in rows]

    @property
    def ledger(self) -> Ledger:
        """What was counted so far, as records: a row an account."""
        if self.engine == "compiled":
            return self._ledger
        return Ledger(*(np.asarray(to_arrays(rows)) for rows in self._ledger))


def _given(accounts: RecordedAccounts, offers: Offers) -> KernelInputs:
    """The accounts as those of a population that draws nothing."""
    nothing = np.zeros((1, 1), dtype=np.int64)
    return KernelInputs(
        accounts.customers,
        accounts.first_domains,
        accounts.domains.copy(),
        nothing,
        blank(1, schema.SegmentRow),
        blank((1, 1), schema.RequestSize),
        blank((1, 1), schema.Reaction),
        nothing,
        nothing,
        *offers[2:],
    )


def _open_months(ledger: Ledger, customers: Records) -> None:
    # Most begin together, so that months are the same where anchors are.
    _, alike, place = np.unique(customers[["anchor", "joins"]], return_index=True, return_inverse=True)
    ends = []
    for customer in to_rows(customers[alike]):
        months = to_rows(ledger.months[0])
        open_months(months, customer)
        ends.append([month.ends for month in months])
    ledger.months["ends"] = np.array(ends, dtype=np.int64)[place.reshape(-1)]


def _fresh_state(accounts: RecordedAccounts, given: KernelInputs, after: Assumptions) -> ServingState:
    clears = int(after.cooldown_after_failure == "clear")
    fresh = to_rows(given.windows)
    for window in fresh:
        windows.start(window)
    keys = max(accounts.keys, 1)
    limits = np.empty((keys, len(fresh)), dtype=given.windows.dtype)
    limits[...] = to_records(fresh, Window)
    owner = np.repeat(np.arange(len(given.customers)), given.customers["domains"])
    cooldowns = blank((len(given.domains), SPENDS), schema.RunCooldown)
    cooldowns["length"] = given.operations["cooldown"][given.customers["offer"][owner], :SPENDS]
    return ServingState(
        windows=limits,
        rings=np.zeros((keys, len(fresh), ring_of(given.windows)), dtype=np.int64),
        cooldowns=cooldowns.reshape(-1),
        failing=blank(cooldowns.size, schema.FailingJob),
        failure=to_records([schema.FailureTerms(int(after.failed_run_arms), clears)], schema.FailureTerms),
        made=np.zeros(max(accounts.things, 1), dtype=np.int8),
        segment=blank(1, schema.SegmentRow),
        ask=blank(1, Ask),
        request=blank(1, schema.RequestRow),
    )
