"""The kernel: one account after the other, each request made, judged and counted at once.

Interpreted over slotted rows and lists, or compiled over record arrays (`fleet.compiled`): the same
functions. Memory grows with the accounts, not with their requests.
"""

from typing import Any, NamedTuple

from ranksim.fleet.judging import ask_for, charge, limited_until, refused_until, remove, spend
from ranksim.fleet.requests import FOREVER, arrival, comes_back, keep, make, resume, streams_of
from ranksim.fleet.rows import ACTIVITIES, LIMITED, REMOVE
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
from ranksim.rules.books import NEVER

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
    `ask`, `request` and `queue` have one row.
    """

    windows: Any
    rings: Any
    cooldowns: Any
    backlog: Any
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
        cooldown.since = NEVER
        cooldown.finish = NEVER
    desk.queue[0].count = 0
    desk.queue[0].due = FOREVER
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
    """Serve one account to its end: its requests in order of time, refused ones again where it insists."""
    customer, first_domain, odds = given.customers[row], given.first_domains[row], given.odds[row]
    segment, offer = given.segments[customer.segment], given.offers[customer.offer]
    hours, levels, habits = given.hours[customer.segment], given.levels, given.habits[customer.segment]
    reactions, operations = given.reactions[customer.segment], given.operations[customer.offer]
    terms, ways, durations, domains = given.terms[0], given.ways[0], given.durations, given.domains
    limits, rings, cooldowns, backlog = desk.windows, desk.rings, desk.cooldowns, desk.backlog
    ask, request, queue = desk.ask[0], desk.request[0], desk.queue[0]
    tally, counts, months, blocks = (
        ledger.tallies[row],
        ledger.counts[row],
        ledger.months[row],
        ledger.blocks[row],
    )
    meters, books, log = ledger.meters[row], ledger.books[row], ledger.log
    streams = streams_of(seed, customer.number)
    number = 0
    fresh = arrival(number, customer.joins, start, customer, segment, hours, levels, streams)
    while min(fresh, queue.due) < customer.leaves:
        if queue.due <= fresh:
            resume(backlog, queue, request)
        else:
            make(request, number, fresh, customer, odds, habits, streams)
            number += 1
            fresh = arrival(number, fresh, start, customer, segment, hours, levels, streams)
        now = request.at
        month = month_of(now, months, tally)
        operation = operations[request.activity]
        wait = charge(now, operation.rate_class, limits, rings, ways)
        request.outcome = GRANTED
        request.until = now
        if wait > 0:
            request.outcome = LIMITED
            request.until = limited_until(request, wait)
        elif request.activity == REMOVE:
            remove(request, domains[first_domain + request.domain], books)
        elif request.activity < SPENDS:
            domain = domains[first_domain + request.domain]
            meter = meters[operation.meter]
            place = request.domain if ways.cooldown_by_domain else 0
            cooldown = cooldowns[place * SPENDS + operation.spend]
            ask_for(request, operation, domain, segment, offer, ways, ask)
            if request.tries == 1:
                note_wish(now, ask, books, meter, terms, tally)
            request.outcome = spend(
                request,
                operation,
                domain,
                segment,
                books,
                meter,
                cooldown,
                terms,
                ways,
                ask,
                durations,
                streams,
            )
            if request.outcome == GRANTED:
                count_spend(now, ask, books, meter, tally, month)
            elif request.outcome != JOINED:
                request.until = refused_until(request, ask, customer, books, meter, cooldown, terms)
        count(request, tally, month, counts)
        if request.outcome != GRANTED and request.outcome != JOINED:
            note_block(request, customer, blocks, months, tally)
            due = comes_back(request, reactions[request.outcome], streams)
            if due < customer.leaves and queue.count < segment.backlog:
                keep(backlog, queue, request, due)
            else:
                tally.given_up += 1
        if logged < len(log):
            write(request, customer.number, log[logged])
            logged += 1
    return logged


def write(request: Any, number: int, entry: Any) -> None:
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
