"""Simulate a fleet: make its accounts, run the kernel over them in chunks, and hand out what came of it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ranksim.clock import DAY
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.extras import missing
from ranksim.fleet import compiled as compiler
from ranksim.fleet import kernel
from ranksim.fleet.bounds import check_bounds
from ranksim.fleet.customers import Customers, customers_of
from ranksim.fleet.kernel import SPENDS, Desk, Given, Ledger
from ranksim.fleet.offers import Offers, offers_of
from ranksim.fleet.population import Population
from ranksim.fleet.results import FleetResult
from ranksim.fleet.rows import (
    ACTIVITIES,
    OUTCOMES,
    AccountTally,
    ActivityRate,
    Allowance,
    BlockedSpan,
    CallRow,
    CustomerRow,
    DomainRow,
    Habit,
    LoggedRequest,
    Month,
    Offer,
    OperationRow,
    Queue,
    Reaction,
    Records,
    RequestRow,
    RunCooldown,
    SegmentRow,
    ServiceTerms,
    blank,
    to_records,
    to_rows,
)
from ranksim.rules.books import Ask, Books, Terms, Window
from ranksim.rules.windows import SLIDING_LOG

CHUNK = 256
"""Accounts that are served in one go: few, so that threads end together."""

SHORTEST_MONTH = 28 * DAY

ROWS: dict[str, type] = {
    "customers": CustomerRow,
    "calls": CallRow,
    "segment": SegmentRow,
    "domains": DomainRow,
    "segments": SegmentRow,
    "habits": Habit,
    "reactions": Reaction,
    "offers": Offer,
    "operations": OperationRow,
    "meters": Allowance,
    "windows": Window,
    "terms": Terms,
    "ways": ServiceTerms,
    "tallies": AccountTally,
    "months": Month,
    "blocks": BlockedSpan,
    "books": Books,
    "log": LoggedRequest,
    "cooldowns": RunCooldown,
    "backlog": RequestRow,
    "pace": ActivityRate,
    "ask": Ask,
    "request": RequestRow,
    "queue": Queue,
}
"""The row class of each record array of the kernel; the other arrays hold integers."""


def simulate_fleet(
    population: Population,
    policy: Policy | None = None,
    seed: int = 0,
    *,
    threads: int = 1,
    compiled: bool | None = None,
    chunk: int = CHUNK,
    accounts: tuple[int, int] | None = None,
    log: int = 0,
) -> FleetResult:
    """Let every account of a population call a service under a policy, and count what it gets.

    The result depends on population, policy and seed alone: not on `threads`, on `chunk` (accounts served in
    one go), on `compiled`, or on where `accounts` (first, last) cut the population to be joined again with
    `FleetResult.joined`. `compiled` None compiles where Numba is installed; True insists on it. `log` keeps
    that many of the first requests. Raises BadInput.
    """
    policy = Policy() if policy is None else policy
    first, last = (0, population.accounts) if accounts is None else accounts
    if not 0 <= first < last <= population.accounts:
        raise BadInput(f"accounts: expected a part of 0 to {population.accounts}, found {first} to {last}")
    if threads < 1 or chunk < 1 or log < 0:
        raise BadInput("threads and chunk: expected at least 1 each, and a log of at least 0")
    engine = machine(compiled)
    check_bounds(population, policy)
    offers = offers_of(population, policy)
    customers = customers_of(population, policy, offers, seed, first, last)
    given = given_of(customers, offers)
    ledger = ledger_of(last - first, population.length, len(offers.metrics), log)
    number = signed(seed)
    parts = [(a, min(a + chunk, last - first)) for a in range(0, last - first, chunk)]

    def serve(part: tuple[int, int]) -> None:
        free = ledger._replace(log=ledger.log[np.count_nonzero(ledger.log["tries"]) :])
        if engine == "compiled":
            compiler.compiled(kernel.run)(*part, population.start, number, given, _desk(given), free)
        else:
            _interpret(part, population.start, number, given, free)

    if threads > 1 and log == 0:
        if engine == "compiled":
            serve((0, 0))  # a part of nobody compiles; the others find it done
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(serve, parts))
    else:
        for part in parts:
            serve(part)
    return FleetResult(
        population=population,
        policy=policy,
        seed=seed,
        engine=engine,
        sold=offers.sold,
        metrics=offers.metrics,
        customers=customers.customers,
        tallies=ledger.tallies,
        counts=ledger.counts.reshape(-1, len(ACTIVITIES), len(OUTCOMES)),
        months=ledger.months,
        blocks=ledger.blocks,
        meters=ledger.meters[:, :-1],
        books=ledger.books,
        log=ledger.log[ledger.log["tries"] > 0],
    )


def machine(compiled: bool | None) -> str:
    """Return what runs the kernel, "compiled" or "interpreted"; None compiles where Numba is installed.

    Raises BadInput where compiling is insisted on and Numba is missing.
    """
    if compiled is False:
        return "interpreted"
    if compiler.available():
        return "compiled"
    if compiled:
        raise missing("compiled fleets need Numba", "fleet")
    return "interpreted"


def signed(seed: int) -> int:
    """Return a seed as the kernel takes it, a signed integer of 64 bits."""
    return (seed + 2**63) % 2**64 - 2**63


def given_of(customers: Customers, offers: Offers) -> Given:
    """Return what the kernel reads: accounts, and what they are sold."""
    return Given(
        customers=customers.customers,
        first_domains=customers.first_domains,
        domains=customers.domains,
        odds=customers.odds,
        segments=customers.segments,
        habits=customers.habits,
        reactions=customers.reactions,
        hours=customers.hours,
        levels=customers.levels,
        offers=offers.offers,
        operations=offers.operations,
        meters=offers.meters,
        windows=offers.windows,
        terms=offers.terms,
        ways=offers.ways,
        durations=offers.durations,
    )


def _desk(given: Given) -> Desk:
    """Room to serve any of the accounts given."""
    domains = int(given.customers["domains"].max())
    return Desk(
        windows=blank(len(given.windows), Window),
        rings=np.zeros((len(given.windows), ring_of(given.windows)), dtype=np.int64),
        cooldowns=blank(domains * SPENDS, RunCooldown),
        backlog=blank(int(given.segments["backlog"].max()) + 1, RequestRow),
        pace=blank(1, ActivityRate),
        ask=blank(1, Ask),
        request=blank(1, RequestRow),
        queue=blank(1, Queue),
    )


def ring_of(windows: Records) -> int:
    """Return how many instants each rate window keeps: its limit, if it is a sliding log."""
    return int(windows["limit"].max()) if windows["kind"][0] == SLIDING_LOG else 1


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


def _interpret(part: tuple[int, int], start: int, seed: int, given: Given, ledger: Ledger) -> None:
    """Run the kernel on slotted rows and lists, and write what came out into the records."""
    first, last = part
    customers, firsts = given.customers[first:last], given.first_domains[first:last]
    mine = given._replace(
        customers=customers,
        first_domains=firsts - firsts[0],
        domains=given.domains[firsts[0] : firsts[-1] + customers["domains"][-1]],
        odds=given.odds[first:last],
    )
    records = ledger._replace(
        **{name: array[first:last] for name, array in ledger._asdict().items() if name != "log"}
    )
    rows = loose(records)
    kernel.run(0, last - first, start, seed, loose(mine), loose(_desk(mine)), rows)
    for name, array in records._asdict().items():
        array[...] = firm(getattr(rows, name), ROWS.get(name))


def loose(arrays: Any) -> Any:
    """Return the arrays of a named tuple as lists of slotted rows, or of integers."""
    return arrays._replace(
        **{
            name: to_rows(array, ROWS[name]) if array.dtype.names else array.tolist()
            for name, array in arrays._asdict().items()
        }
    )


def firm(rows: Any, row: type | None) -> Any:
    """Return lists of slotted rows as records again, as deep as they are."""
    if row is None or not rows:
        return rows
    if isinstance(rows[0], list):
        return np.stack([firm(inner, row) for inner in rows])
    return to_records(rows, row)
