"""Simulate a fleet: make its accounts, serve them part by part, and hand out what came of it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput, check_integer
from ranksim.core.extras import missing
from ranksim.core.rules.books import Ask, Books, Window
from ranksim.core.rules.windows import SLIDING_LOG
from ranksim.planner.fleet import compiled as compiler
from ranksim.planner.fleet import kernel
from ranksim.planner.fleet import rows as schema
from ranksim.planner.fleet.bounds import check_bounds
from ranksim.planner.fleet.customers import customers_of
from ranksim.planner.fleet.kernel import SPENDS, KernelInputs, KernelState, Ledger, Tape
from ranksim.planner.fleet.offers import offers_of
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import ACTIVITIES, OUTCOMES, Integers, Records, blank, to_records, to_rows
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
    seed, threads = check_integer("seed", seed), check_integer("threads", threads, 1)
    chunk, log = check_integer("chunk", chunk, 1), check_integer("log", log, 0)
    first, last = (0, population.accounts) if accounts is None else accounts
    if not 0 <= first < last <= population.accounts:
        raise BadInput(f"accounts: expected a part of 0 to {population.accounts}, found {first} to {last}")
    engine = kernel_machine(compiled)
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
    engine = kernel_machine(compiled)
    runs = [_opened(side, seed, 0, side.population.accounts) for side in sides]
    if not all(are_same_customers(runs[0].given, run.given) for run in runs[1:]):
        raise BadInput("sides: expected populations that differ in nothing but plans and add-ons")
    _serve(runs, engine, seed, threads, CHUNK)
    return [_result(run, engine, seed) for run in runs]


def simulate_again(
    result: FleetResult, rows: Integers, more: Integers, *, threads: int = 1, compiled: bool | None = None
) -> FleetResult:
    """Let some accounts of a run make their calls again with larger quotas, each until a plan falls short.

    `rows` are the places of the accounts in the run, `more` how much larger each metered quota is, shape
    (rows, metered). Of each account the first refusal that a plan can lift is told, and whether there is one.
    """
    numbers = result.customers["number"]
    side = FleetSide(result.population, result.policy, short=True)
    run = _opened(side, result.seed, int(numbers[0]), int(numbers[-1]) + 1)
    given = _part(run.given, rows)
    run = SideRun(side, run.offers, given, ledger_of(given, result.population.length))
    limits = run.ledger.meters["limit"][:, :-1]
    limits += np.where(limits < 0, 0, more)  # below 0 there is no limit
    engine = kernel_machine(compiled)
    _serve([run], engine, result.seed, threads, CHUNK)
    return _result(run, engine, result.seed)


def _opened(side: FleetSide, seed: int, first: int, last: int, log: int = 0) -> SideRun:
    """Make the accounts [first, last) of a side, nobody served yet. Raises BadInput."""
    check_bounds(side.population, side.policy)
    offers = offers_of(side.population, side.policy)
    given = customers_of(side.population, side.policy, offers, seed, first, last)
    return SideRun(side, offers, given, ledger_of(given, side.population.length, log))


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
        metered=run.offers.metrics,
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


def ledger_of(given: KernelInputs, length: int, log: int = 0) -> Ledger:
    """Return the ledger of accounts that are opened for `length` µs, with room in its log.

    It has their plans' limits and what their portfolios take; nothing is used.
    """
    customers, offers = given.customers, given.offers[given.customers["offer"]]
    accounts, meters = len(customers), blank((len(customers), given.meters.shape[1]), schema.Allowance)
    for name in ("limit", "period"):
        meters[name] = given.meters[name][customers["offer"]]
    books = blank(accounts, Books)
    for name in ("capabilities", "ceiling", "slot_limit"):
        books[name] = offers[name]
    for name in ("healthy", "anchor"):
        books[name] = customers[name]
    owner = np.repeat(np.arange(accounts), customers["domains"])
    np.add.at(books["active"], owner, given.domains["keywords"] * given.domains["tuples"])
    entries = blank(log, schema.LoggedRequest)
    entries["tries"] = 0
    return Ledger(
        tallies=blank(accounts, schema.AccountTally),
        counts=np.zeros((accounts, len(ACTIVITIES) * len(OUTCOMES)), dtype=np.int64),
        months=blank((accounts, length // SHORTEST_MONTH + 2), schema.Month),
        blocks=blank((accounts, len(OUTCOMES)), schema.BlockedSpan),
        meters=meters,
        books=books,
        log=entries,
    )


# What serves parts of a fleet: the kernel compiled over records, or interpreted over slotted rows

ROOM = 1 << 16
"""Requests that a tape has room for at first: so few that they stay in the cache between sides."""


def kernel_machine(compiled: bool | None) -> str:
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


class Compiled:
    """Serves parts of the accounts by the compiled kernel; each thread has one of its own."""

    def __init__(self, runs: Sequence[SideRun], seed: int) -> None:
        self.runs, self.seed = runs, seed
        self.states = [scratch_for(run.given) for run in runs]
        self.paces = blank(1, schema.ActivityRate)
        self.tape = Tape(blank(ROOM, schema.DrawnRequest), np.zeros(1, dtype=np.int64))

    def draw(self, first: int, last: int) -> int:
        """Draw the requests of the accounts in rows [first, last), or of the first of them; give how far."""
        draw, run = compiler.compiled(kernel.draw), self.runs[0]
        self.tape = self.tape._replace(begins=np.zeros(last - first + 1, dtype=np.int64))
        while True:
            came: int = draw(first, last, run.start, self.seed, run.given, self.paces, self.tape)
            if first < came or first == last:
                return came
            # One account alone has more.
            self.tape = self.tape._replace(requests=blank(2 * len(self.tape.requests), schema.DrawnRequest))

    def serve(self, side: int, rows: Integers, first: int) -> None:
        """Serve some accounts on a side; the requests drawn are those of the accounts from row `first` on."""
        run = self.runs[side]
        compiler.compiled(kernel.run)(
            rows, first, run.short, self.seed, run.given, self.states[side], self.tape, run.unwritten()
        )


class Interpreted:
    """Serves parts of the accounts by the kernel as it is written."""

    def __init__(self, runs: Sequence[SideRun], seed: int) -> None:
        self.runs, self.seed = runs, seed
        self.tape = Tape([], [])

    def draw(self, first: int, last: int) -> int:
        """Draw the requests of the accounts in rows [first, last); give `last`."""
        run = self.runs[0]
        room = 32 + run.expected(first, last) // 2
        given, paces = to_lists(_part(run.given, np.arange(first, last))), [schema.ActivityRate()]
        came = -1
        while came < last - first:
            room *= 2
            self.tape = Tape([schema.DrawnRequest() for _ in range(room)], [0] * (last - first + 1))
            came = kernel.draw(0, last - first, run.start, self.seed, given, paces, self.tape)
        return last

    def serve(self, side: int, rows: Integers, first: int) -> None:
        """Serve some accounts on a side; the requests drawn are those of the accounts from row `first` on."""
        if not len(rows):
            return
        run, last = self.runs[side], first + len(self.tape.begins) - 1
        given, ledger = _part(run.given, np.arange(first, last)), run.unwritten()
        records = ledger._replace(
            **{name: array[first:last] for name, array in ledger._asdict().items() if name != "log"}
        )
        written = to_lists(records)
        kernel.run(
            (rows - first).tolist(), 0, run.short, self.seed, to_lists(given), to_lists(scratch_for(given)),
            self.tape, written,
        )  # fmt: skip
        for array, rows_of_array in zip(records, written, strict=True):
            array[...] = to_arrays(rows_of_array)


def _part(given: KernelInputs, rows: Integers) -> KernelInputs:
    """What is given of the accounts in some rows alone."""
    customers = given.customers[rows]
    counts = customers["domains"]
    firsts = np.cumsum(counts) - counts
    places = np.arange(int(counts.sum())) + np.repeat(given.first_domains[rows] - firsts, counts)
    return given._replace(
        customers=customers, first_domains=firsts, domains=given.domains[places], odds=given.odds[rows]
    )


def scratch_for(given: KernelInputs) -> KernelState:
    """Room to serve any of the accounts given."""
    domains = int(given.customers["domains"].max())
    return KernelState(
        windows=blank(len(given.windows), Window),
        rings=np.zeros((len(given.windows), ring_of(given.windows)), dtype=np.int64),
        cooldowns=blank(domains * SPENDS, schema.RunCooldown),
        backlog=blank(int(given.segments["backlog"].max()) + 1, schema.RequestRow),
        ask=blank(1, Ask),
        request=blank(1, schema.RequestRow),
        queue=blank(1, schema.Queue),
    )


def ring_of(windows: Records) -> int:
    """Return how many instants each rate window keeps: its limit, if it is a sliding log."""
    return int(windows["limit"].max()) if windows["kind"][0] == SLIDING_LOG else 1


def to_lists(arrays: Any) -> Any:
    """Return the arrays of a named tuple as lists of slotted rows, or of integers."""
    return type(arrays)(*(to_rows(array) if array.dtype.names else array.tolist() for array in arrays))


def to_arrays(rows: Any) -> Any:
    """Return lists of slotted rows as records again, as deep as they are; integers stay lists."""
    if not rows or isinstance(rows[0], int):
        return rows
    if isinstance(rows[0], list):
        return np.stack([to_arrays(inner) for inner in rows])
    return to_records(rows, type(rows[0]))
