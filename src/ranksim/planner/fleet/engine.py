"""Simulate a fleet: make its accounts, serve them part by part, and hand out what came of it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput, whole
from ranksim.core.rules.books import Books
from ranksim.planner.fleet.bounds import check_bounds
from ranksim.planner.fleet.customers import customers_of
from ranksim.planner.fleet.kernel import KernelInputs, Ledger
from ranksim.planner.fleet.machines import Compiled, Interpreted, machine
from ranksim.planner.fleet.offers import offers_of
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import (
    ACTIVITIES,
    OUTCOMES,
    AccountTally,
    Allowance,
    BlockedSpan,
    LoggedRequest,
    Month,
    blank,
)
from ranksim.planner.fleet.sides import FleetSide, SideRun, are_same_customers

CHUNK = 256
"""Accounts that are served in one go: few, so that threads end together."""

SHORTEST_MONTH = 28 * DAY


CONSULTED = tuple(
    f"assumptions.{name}"
    for name in (
        *("cap", "ceiling_stops_tracking", "checks_apply", "cooldown_from", "cooldown_scope", "cost_gate"),
        *("cost_timing", "dimension_refusal", "expensive_debits_write", "join", "month", "over_slots"),
        *("quota_grant", "refused_calls_count", "spent_counts", "tracking_class", "week_offset", "window"),
    )
)
"""The fields of a policy's assumptions that a fleet reads: what its numbers rest on."""


def simulate_fleet(
    population: Population | str | Path,
    policy: Policy | str | Path | None = None,
    seed: int = 0,
    *,
    threads: int = 1,
    compiled: bool | None = None,
    chunk: int = CHUNK,
    accounts: tuple[int, int] | None = None,
    log: int = 0,
) -> FleetResult:
    """Let every account of a population call a service under a policy, and count what it gets.

    The result depends on population, policy and seed alone: not on `threads`, on `chunk` (accounts served
    in one go), on `compiled`, or on where `accounts` (first, last) cut the population to be joined again
    with `FleetResult.joined`. `compiled` None compiles where Numba is installed; True insists on it.
    `log` keeps that many of the first requests. Population and policy may be given as files. Raises
    BadInput.
    """
    population, policy = population_of(population), policy_of(policy)
    whole("threads", threads, 1)
    whole("chunk", chunk, 1)
    whole("log", log, 0)
    first, last = (0, population.accounts) if accounts is None else accounts
    if not 0 <= first < last <= population.accounts:
        raise BadInput(f"accounts: expected a part of 0 to {population.accounts}, found {first} to {last}")
    engine = machine(compiled)
    run = _opened(FleetSide(population, policy), seed, first, last, log)
    _serve([run], engine, seed, 1 if log else threads, chunk)
    return _result(run, engine, seed)


def simulate_sides(
    sides: Sequence[FleetSide], seed: int = 0, *, threads: int = 1, compiled: bool | None = None
) -> list[FleetResult]:
    """Let the same customers call under several sides: the results of `simulate_fleet`, one a side.

    Every request is drawn once, and whom nothing that differs concerns is served once. Of a `short` side only
    the column `enough` is told. Raises BadInput for populations that differ in more than plans.
    """
    if threads < 1:
        raise BadInput("threads: expected at least 1")
    engine = machine(compiled)
    runs = [_opened(side, seed, 0, side.population.accounts) for side in sides]
    if not all(are_same_customers(runs[0].given, run.given) for run in runs[1:]):
        raise BadInput("sides: expected populations that differ in nothing but plans and add-ons")
    _serve(runs, engine, seed, threads, CHUNK)
    return [_result(run, engine, seed) for run in runs]


def _opened(side: FleetSide, seed: int, first: int, last: int, log: int = 0) -> SideRun:
    """Make the accounts [first, last) of a side, nobody served yet. Raises BadInput."""
    check_bounds(side.population, side.policy)
    offers = offers_of(side.population, side.policy)
    customers = customers_of(side.population, side.policy, offers, seed, first, last)
    ledger = ledger_of(last - first, side.population.length, len(offers.metrics), log)
    return SideRun(side, offers, KernelInputs(*customers, *offers[2:]), ledger)


def _serve(runs: Sequence[SideRun], engine: str, seed: int, threads: int, chunk: int) -> None:
    """Serve all accounts on every side, so many in one go."""
    accounts = len(runs[0].ledger.tallies)
    for index, run in enumerate(runs):
        run.look_back(runs[:index])
    parts = [(first, min(first + chunk, accounts)) for first in range(0, accounts, chunk)]

    def serve(left: Iterator[tuple[int, int]]) -> None:
        worker = (Compiled if engine == "compiled" else Interpreted)(runs, signed(seed))
        for first, last in left:
            while True:
                came = worker.draw(first, last)
                for index, run in enumerate(runs):
                    worker.serve(index, run.take_over(first, came), first)
                first = came
                if first == last:
                    break

    if threads == 1:
        serve(iter(parts))
        return
    if engine == "compiled":
        serve(iter([(0, 0)]))  # a part of nobody compiles; the others find it done
    parts.sort(key=lambda part: -runs[0].expected(*part))  # the largest first, so that threads end together
    shared = iter(parts)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(serve, [shared] * threads))


def _result(run: SideRun, engine: str, seed: int) -> FleetResult:
    ledger = run.ledger
    return FleetResult(
        population=run.side.population,
        policy=run.side.policy,
        seed=seed,
        engine=engine,
        sold=run.offers.sold,
        metrics=run.offers.metrics,
        customers=run.given.customers,
        tallies=ledger.tallies,
        counts=ledger.counts.reshape(-1, len(ACTIVITIES), len(OUTCOMES)),
        months=ledger.months,
        blocks=ledger.blocks,
        meters=ledger.meters[:, :-1],
        books=ledger.books,
        log=ledger.log[ledger.log["tries"] > 0],
    )


def signed(seed: int) -> int:
    """Return a seed as the kernel takes it, a signed integer of 64 bits."""
    return (seed + 2**63) % 2**64 - 2**63


def ledger_of(accounts: int, length: int, metrics: int, log: int) -> Ledger:
    """Return an empty ledger: of so many accounts and metrics, for `length` µs, with room in its log."""
    entries = blank(log, LoggedRequest)
    entries["tries"] = 0
    return Ledger(
        tallies=blank(accounts, AccountTally),
        counts=np.zeros((accounts, len(ACTIVITIES) * len(OUTCOMES)), dtype=np.int64),
        months=blank((accounts, length // SHORTEST_MONTH + 2), Month),
        blocks=blank((accounts, len(OUTCOMES)), BlockedSpan),
        meters=blank((accounts, metrics + 1), Allowance),
        books=blank(accounts, Books),
        log=entries,
    )
