"""The kernel: some accounts' requests are drawn, then put before the rules and counted, account by account.

What is drawn depends on no decision, so several sides, the same customers under other terms, read the same
tape. Interpreted over slotted rows and lists, or compiled over record arrays (`fleet.compiled`): the same
functions. Memory grows with the accounts, and by a tape that the busiest of them fits on.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND
from ranksim.core.rules import windows
from ranksim.core.rules.admission import GRANTED, JOINED
from ranksim.planner.fleet import judging, requests
from ranksim.planner.fleet.judging import AccountRows
from ranksim.planner.fleet.rows import (
    ACTIVITIES,
    LIFTED,
    LIMITED,
    REMOVE,
    ActivityRate,
    Allowance,
    DomainRow,
    LoggedRequest,
    Month,
    OperationRow,
    RequestRow,
    RunCooldown,
)

SPENDS = len(ACTIVITIES) - 3
"""The activities below this number spend."""


class KernelInputs(NamedTuple):
    """What the kernel reads of some consecutive accounts and of `offers.Offers`; it changes `domains` alone.

    `customers` has shape (n,), `first_domains` (n,) tells where the domains of each begin in `domains`, and
    `odds` (n, activities) the chance of each activity or an earlier one, in 2**53. Per segment: `segments`
    (s,), `habits` (s, activities), `reactions` (s, outcomes), `hours` (s, 168) the weights of the week's
    hours; `levels` (days,) is the growth.
    """

    customers: Any
    first_domains: Any
    domains: Any
    odds: Any
    segments: Any
    habits: Any
    reactions: Any
    hours: Any
    levels: Any
    offers: Any
    operations: Any
    meters: Any
    windows: Any
    terms: Any
    ways: Any
    durations: Any


class KernelState(NamedTuple):
    """What the kernel works with on one account: scratch, made fit by `prepare`.

    `windows` and `rings` per rate class, `cooldowns` per domain and operation, `backlog` requests in mind;
    `ask`, `request` and `queue` have one row.
    """

    windows: Any
    rings: Any
    cooldowns: Any
    backlog: Any
    ask: Any
    request: Any
    queue: Any


class Tape(NamedTuple):
    """The requests of consecutive accounts in order: those of the k-th are [begins[k], begins[k + 1])."""

    requests: Any
    begins: Any


class Ledger(NamedTuple):
    """What comes out, a row an account: totals, calls by activity and outcome, months, blocks, meters, books.

    `log` takes the first requests that are made, for who wants to see them.
    """

    tallies: Any
    counts: Any
    months: Any
    blocks: Any
    meters: Any
    books: Any
    log: Any


def draw(
    first: int,
    last: int,
    start: int,
    seed: int,
    given: KernelInputs,
    paces: Sequence[ActivityRate],
    tape: Tape,
) -> int:
    """Draw the requests of the accounts in rows [first, last), or of as many as the tape has room for.

    `start` is the instant the run begins, `paces` one row of scratch. Gives the row that it came to.
    """
    pace, used = paces[0], 0
    tape.begins[0] = 0
    for row in range(first, last):
        customer = given.customers[row]
        streams = requests.streams_of(seed, customer.number)
        pattern = requests.TrafficPattern(start, given.hours[customer.segment], given.levels)
        odds, habits = given.odds[row], given.habits[customer.segment]
        pace.ends = DISTANT_PAST
        pace.steady = given.segments[customer.segment].steady
        number = 0
        at = requests.arrival(number, customer.joins, pace, pattern, customer, streams)
        while at < customer.leaves:
            if used == len(tape.requests):
                return row
            requests.make(tape.requests[used], number, at, customer, odds, habits, streams)
            used += 1
            number += 1
            at = requests.arrival(number, at, pace, pattern, customer, streams)
        tape.begins[row - first + 1] = used
    return last


def run(
    rows: Sequence[int], first: int, short: int, seed: int, given: KernelInputs, state: KernelState,
    tape: Tape, ledger: Ledger,
) -> None:  # fmt: skip
    """Serve the accounts in some rows, whose requests are on a tape that begins with those of row `first`.

    `short` serves each until it is clear that its plan is not enough, if ever.
    """
    logged = 0
    for index in range(len(rows)):
        row = rows[index]
        prepare(row, given, state, ledger)
        if not short or ledger.tallies[row].slots_wanted <= ledger.books[row].slot_limit:
            begins, ends = tape.begins[row - first], tape.begins[row - first + 1]
            logged = serve(row, begins, ends, short, seed, given, state, tape, ledger, logged)


def prepare(row: int, given: KernelInputs, state: KernelState, ledger: Ledger) -> None:
    """Make scratch fit for an account: full windows, no cooldown, nothing in mind; and open its months."""
    customer = given.customers[row]
    for rate_class in range(len(state.windows)):
        window, model = state.windows[rate_class], given.windows[rate_class]
        window.kind = model.kind
        window.limit = model.limit
        window.length = model.length
        window.counts_refused = model.counts_refused
        windows.start(window)
    operations = given.operations[customer.offer]
    for index in range(customer.domains * SPENDS):
        cooldown = state.cooldowns[index]
        cooldown.length = operations[index % SPENDS].cooldown
        cooldown.since = DISTANT_PAST
        cooldown.finish = DISTANT_PAST
    state.queue[0].count = 0
    state.queue[0].due = DISTANT_FUTURE
    judging.open_months(ledger.months[row], customer)
    tally = ledger.tallies[row]
    tally.slots_wanted = customer.slots_wanted
    judging.note_slots(ledger.books[row].active, tally, ledger.months[row][0])


def serve(
    row: int, index: int, ends: int, short: int, seed: int, given: KernelInputs, state: KernelState,
    tape: Tape, ledger: Ledger, logged: int,
) -> int:  # fmt: skip
    """Serve one account: its requests in [index, ends) in order of time, refused ones again where it insists.

    Arrays are unpacked here and looked up in here: handing them on would count references at every request.
    """
    customer, request = given.customers[row], state.request[0]
    account = AccountRows(
        customer, given.segments[customer.segment], given.offers[customer.offer], ledger.books[row],
        ledger.tallies[row], given.terms[0], given.ways[0], state.ask[0], request,
        requests.streams_of(seed, customer.number),
    )  # fmt: skip
    first_domain, domains, durations = given.first_domains[row], given.domains, given.durations
    reactions, operations = given.reactions[customer.segment], given.operations[customer.offer]
    limits, rings, cooldowns, backlog = state.windows, state.rings, state.cooldowns, state.backlog
    queue, log, drawn = state.queue[0], ledger.log, tape.requests
    counts, months = ledger.counts[row], ledger.months[row]
    blocks, meters = ledger.blocks[row], ledger.meters[row]
    number = 0
    fresh = drawn[index].at if index < ends else DISTANT_FUTURE
    while min(fresh, queue.due) < customer.leaves:
        if queue.due <= fresh:
            requests.resume(backlog, queue, request)
        else:
            requests.take_up(request, number, drawn[index])
            number += 1
            index += 1
            fresh = drawn[index].at if index < ends else DISTANT_FUTURE
        month = judging.month_of(request.at, months, account.tally)
        operation = operations[request.activity]
        domain = domains[first_domain + request.domain]
        wait = judging.charge(request.at, operation.rate_class, limits, rings, account.ways)
        if wait > 0:
            limit(request, wait)
        elif request.activity < SPENDS:
            place = request.domain if account.ways.cooldown_by_domain else 0
            cooldown = cooldowns[place * SPENDS + request.activity]
            buy(account, operation, domain, meters[operation.meter], cooldown, durations, month)
        else:
            pass_through(account, domain)
        judging.count(account, month, counts)
        if request.outcome != GRANTED and request.outcome != JOINED:
            judging.note_block(account, blocks, months)
            if short and request.outcome in LIFTED:
                return logged
            due = requests.comes_back(request, reactions[request.outcome], account.streams)
            if due < customer.leaves and queue.count < account.segment.backlog:
                requests.keep(backlog, queue, request, due)
            else:
                account.tally.given_up += 1
        if logged < len(log):
            log_request(request, customer.number, log[logged])
            logged += 1
    return logged


def limit(request: RequestRow, wait: int) -> None:
    """Refuse a request by the rate limit, until the instant that Retry-After tells (S100, U6)."""
    request.outcome = LIMITED
    request.until = request.at + max(1, -(-wait // SECOND)) * SECOND


def pass_through(account: AccountRows, domain: DomainRow) -> None:
    """Let a request pass that spends nothing: a read, a write, or keywords that go."""
    account.request.outcome = GRANTED
    account.request.until = account.request.at
    if account.request.activity == REMOVE:
        judging.remove(account.request, domain, account.books)


def buy(
    account: AccountRows,
    operation: OperationRow,
    domain: DomainRow,
    meter: Allowance,
    cooldown: RunCooldown,
    durations: Sequence[Sequence[int]],
    month: Month,
) -> None:
    """Put a spending request before the six checks, and note what it wished for and got."""
    request = account.request
    judging.ask_for(account, operation, domain)
    judging.note_wish(account, meter)
    request.outcome = judging.spend(account, operation, domain, meter, cooldown, durations)
    request.until = request.at
    if request.outcome == GRANTED:
        judging.count_spend(account, meter, month)
    elif request.outcome != JOINED:
        request.until = judging.refused_until(account, meter, cooldown)


def log_request(request: RequestRow, number: int, entry: LoggedRequest) -> None:
    """Write a request into the log."""
    entry.account = number
    entry.at = request.at
    entry.number = request.number
    entry.tries = request.tries
    entry.activity = request.activity
    entry.domain = request.domain
    entry.size = request.size
    entry.outcome = request.outcome
    entry.until = request.until
