"""The kernel: one account after the other, each request made, judged and counted at once.

Interpreted over slotted rows and lists, or compiled over record arrays (`fleet.compiled`): the same
functions. Memory grows with the accounts, not with their requests.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ranksim.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND
from ranksim.fleet.judging import AccountRows, ask_for, charge, refused_until, remove, spend
from ranksim.fleet.requests import (
    Course,
    arrival,
    comes_back,
    keep,
    make,
    resume,
    streams_of,
)
from ranksim.fleet.rows import (
    ACTIVITIES,
    LIMITED,
    REMOVE,
    Allowance,
    DomainRow,
    LoggedRequest,
    Month,
    OperationRow,
    RequestRow,
    RunCooldown,
)
from ranksim.fleet.tallying import (
    count,
    count_spend,
    month_of,
    note_block,
    note_slots,
    note_wish,
    open_months,
)
from ranksim.rules import windows
from ranksim.rules.admission import GRANTED, JOINED

SPENDS = len(ACTIVITIES) - 3
"""The activities below this number spend."""


class Given(NamedTuple):
    """What the kernel reads, of `customers.Customers` and `offers.Offers`; of it, it changes `domains`."""

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


class Desk(NamedTuple):
    """What the kernel works with on one account: scratch, made fit by `prepare`.

    `windows` and `rings` per rate class, `cooldowns` per domain and operation, `backlog` requests in mind;
    `pace`, `ask`, `request` and `queue` have one row.
    """

    windows: Any
    rings: Any
    cooldowns: Any
    backlog: Any
    pace: Any
    ask: Any
    request: Any
    queue: Any


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


def run(first: int, last: int, start: int, seed: int, given: Given, desk: Desk, ledger: Ledger) -> None:
    """Serve the accounts in rows [first, last) of what is given; `start` is the instant the run begins."""
    logged = 0
    for row in range(first, last):
        prepare(row, given, desk, ledger)
        logged = serve(row, start, seed, given, desk, ledger, logged)


def prepare(row: int, given: Given, desk: Desk, ledger: Ledger) -> None:
    """Open the account: full windows, no cooldown, nothing in mind, its plan's limits, its portfolio."""
    customer = given.customers[row]
    offer = given.offers[customer.offer]
    for rate_class in range(len(desk.windows)):
        window, model = desk.windows[rate_class], given.windows[rate_class]
        window.kind = model.kind
        window.limit = model.limit
        window.length = model.length
        window.counts_refused = model.counts_refused
        windows.start(window)
    operations = given.operations[customer.offer]
    for index in range(customer.domains * SPENDS):
        cooldown = desk.cooldowns[index]
        cooldown.length = operations[index % SPENDS].cooldown
        cooldown.since = DISTANT_PAST
        cooldown.finish = DISTANT_PAST
    desk.pace[0].ends = DISTANT_PAST
    desk.pace[0].steady = given.segments[customer.segment].steady
    desk.queue[0].count = 0
    desk.queue[0].due = DISTANT_FUTURE
    meters = ledger.meters[row]
    for index in range(len(meters)):
        meters[index].limit = given.meters[customer.offer][index].limit
        meters[index].period = given.meters[customer.offer][index].period
    books = ledger.books[row]
    books.capabilities = offer.capabilities
    books.healthy = customer.healthy
    books.ceiling = offer.ceiling
    books.anchor = customer.anchor
    books.slot_limit = offer.slot_limit
    first = given.first_domains[row]
    for index in range(first, first + customer.domains):
        books.active += given.domains[index].keywords * given.domains[index].tuples
    open_months(ledger.months[row], customer)
    tally = ledger.tallies[row]
    tally.slots_wanted = customer.slots_wanted
    note_slots(books.active, tally, ledger.months[row][0])


def serve(row: int, start: int, seed: int, given: Given, desk: Desk, ledger: Ledger, logged: int) -> int:
    """Serve one account to its end: its requests in order of time, refused ones again where it insists.

    Arrays are unpacked here and looked up in here: handing them on would count references at every request.
    """
    customer, request = given.customers[row], desk.request[0]
    streams = streams_of(seed, customer.number)
    account = AccountRows(
        customer,
        given.segments[customer.segment],
        given.offers[customer.offer],
        ledger.books[row],
        ledger.tallies[row],
        given.terms[0],
        given.ways[0],
        desk.ask[0],
        request,
        streams,
    )
    first_domain, domains, durations = given.first_domains[row], given.domains, given.durations
    course, pace = Course(start, given.hours[customer.segment], given.levels), desk.pace[0]
    odds, habits = given.odds[row], given.habits[customer.segment]
    reactions, operations = given.reactions[customer.segment], given.operations[customer.offer]
    limits, rings, cooldowns, backlog = desk.windows, desk.rings, desk.cooldowns, desk.backlog
    queue, log = desk.queue[0], ledger.log
    counts, months, blocks, meters = (
        ledger.counts[row],
        ledger.months[row],
        ledger.blocks[row],
        ledger.meters[row],
    )
    number = 0
    fresh = arrival(number, customer.joins, pace, course, customer, streams)
    while min(fresh, queue.due) < customer.leaves:
        if queue.due <= fresh:
            resume(backlog, queue, request)
        else:
            make(request, number, fresh, customer, odds, habits, streams)
            number += 1
            fresh = arrival(number, fresh, pace, course, customer, streams)
        month = month_of(request.at, months, account.tally)
        operation = operations[request.activity]
        domain = domains[first_domain + request.domain]
        wait = charge(request.at, operation.rate_class, limits, rings, account.ways)
        if wait > 0:
            limit(request, wait)
        elif request.activity < SPENDS:
            place = request.domain if account.ways.cooldown_by_domain else 0
            cooldown = cooldowns[place * SPENDS + request.activity]
            buy(account, operation, domain, meters[operation.meter], cooldown, durations, month)
        else:
            pass_through(account, domain)
        count(account, month, counts)
        if request.outcome != GRANTED and request.outcome != JOINED:
            note_block(account, blocks, months)
            due = comes_back(request, reactions[request.outcome], streams)
            if due < customer.leaves and queue.count < account.segment.backlog:
                keep(backlog, queue, request, due)
            else:
                account.tally.given_up += 1
        if logged < len(log):
            write(request, customer.number, log[logged])
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
        remove(account.request, domain, account.books)


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
    ask_for(account, operation, domain)
    note_wish(account, meter)
    request.outcome = spend(account, operation, domain, meter, cooldown, durations)
    request.until = request.at
    if request.outcome == GRANTED:
        count_spend(account, meter, month)
    elif request.outcome != JOINED:
        request.until = refused_until(account, meter, cooldown)


def write(request: RequestRow, number: int, entry: LoggedRequest) -> None:
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
