"""One request before the rules: the rate window, the ask, the six checks, what a grant changes, what counts.

The rules are those of `core.rules`, called as they are. Work costs what was estimated, settled as it is
accepted, and no job fails; every account has one API key. Interpreted and compiled alike.
"""

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from ranksim.core.clock import DISTANT_PAST, SECOND, month_end, week_end
from ranksim.core.contract.facts import RateClass, Spend
from ranksim.core.rules import admission, windows
from ranksim.core.rules.books import Ask, Books, Terms, Window
from ranksim.planner.fleet.requests import Streams, drawn_below
from ranksim.planner.fleet.rows import (
    LIMITED,
    OUTCOMES,
    AccountTally,
    Allowance,
    BlockedSpan,
    CustomerRow,
    DomainRow,
    Month,
    Offer,
    OperationRow,
    RequestRow,
    RunCooldown,
    SegmentRow,
    ServiceTerms,
)

RANK_RUN = int(Spend.RANK_RUN)
AI_SCAN = int(Spend.AI_SCAN)
KEYWORD_BRIEFS = int(Spend.KEYWORD_BRIEFS)
KEYWORDS = int(Spend.KEYWORDS)
SCANS = int(Spend.SCANS)
WRITE_CLASS = int(RateClass.WRITE)
EXPENSIVE_CLASS = int(RateClass.EXPENSIVE)

KINDS = len(OUTCOMES)
ANY = admission.GRANTED
"""The row of `BlockedSpan` that stands for all refusals that depend on use."""


class AccountRows(NamedTuple):
    """The rows of the account at hand, and the request it makes."""

    customer: CustomerRow
    segment: SegmentRow
    offer: Offer
    books: Books
    tally: AccountTally
    terms: Terms
    ways: ServiceTerms
    ask: Ask
    request: RequestRow
    streams: Streams


# The rate limit


def charge(
    now: int,
    rate_class: int,
    limits: Sequence[Window],
    rings: Sequence[MutableSequence[int]],
    ways: ServiceTerms,
) -> int:
    """Charge the call to its class; give how long until it would be admitted (µs), 0 when it is (U3, U4)."""
    if ways.debits_write and rate_class == EXPENSIVE_CLASS:
        return _charge_both(now, limits, rings)
    window = limits[rate_class]
    if windows.take(now, window, rings[rate_class]):
        return 0
    return windows.retry_after(now, window, rings[rate_class])


def _charge_both(now: int, limits: Sequence[Window], rings: Sequence[MutableSequence[int]]) -> int:
    """An expensive call takes a unit of both classes or of none; one without room may count it (U4)."""
    for rate_class in (EXPENSIVE_CLASS, WRITE_CLASS):
        window = limits[rate_class]
        if windows.remaining(now, window, rings[rate_class]) < 1:
            windows.take(now, window, rings[rate_class])
            return windows.retry_after(now, window, rings[rate_class])
    for rate_class in (EXPENSIVE_CLASS, WRITE_CLASS):
        windows.take(now, limits[rate_class], rings[rate_class])
    return 0


# The ask


def ask_for(account: AccountRows, operation: OperationRow, domain: DomainRow) -> None:
    """Fill in what the request wants to spend (S52-S58)."""
    ask, request, segment, offer = account.ask, account.request, account.segment, account.offer
    ask.spend = operation.spend
    ask.checks = operation.checks
    ask.capability = operation.capability
    ask.beyond = 0
    ask.estimate = 0
    ask.slots = 0
    ask.running = 0
    ask.units = 1 if operation.meter >= 0 else 0
    if ask.spend == RANK_RUN:
        size = request.wanted - 1 if request.wanted > 0 else domain.keywords * domain.tuples
        ask.estimate = size * operation.unit_cost
        ask.running = 1 if request.at < domain.run_ends else 0
    elif ask.spend < admission.JOB_KINDS:
        size = domain.questions if ask.spend == AI_SCAN else domain.pages
        if request.wanted > 0:
            size = request.wanted - 1
        ask.estimate = min(size, operation.cap) * operation.unit_cost
        if size > operation.cap and account.ways.cap_refuses:
            ask.beyond = admission.ENTITLEMENT_REQUIRED
    elif ask.spend == SCANS:
        ask.slots = domain.keywords * segment.pairings * segment.places
        if segment.pairings > offer.pairings or segment.places > offer.places:
            ask.beyond = account.ways.dimension_check
    else:
        size_ask(request.size, operation, domain, ask)


def size_ask(size: int, operation: OperationRow, domain: DomainRow, ask: Ask) -> None:
    """Ask for so many keywords, or their briefs (S56, S57)."""
    if operation.meter >= 0:
        ask.units = size
    if ask.spend == KEYWORDS:
        ask.slots = size * domain.tuples
    else:
        ask.estimate = size * operation.unit_cost


def fitted(account: AccountRows, operation: OperationRow, domain: DomainRow, meter: Allowance) -> int:
    """Cut an ask for several keywords to what is left, where the policy grants parts (U50, U64)."""
    ask, books, ways = account.ask, account.books, account.ways
    now, size = account.request.at, account.request.size
    if ask.spend == KEYWORDS and ways.partial_slots and domain.tuples > 0:
        room = max(0, books.slot_limit - books.active - admission.held_at(now, books))
        if ask.slots > room and room >= domain.tuples:
            size = room // domain.tuples
    if ways.partial_quota and operation.meter >= 0 and meter.limit >= 0:
        left = meter.limit - admission.used_at(now, meter)
        if left > 0:
            size = min(size, left)
    if size < account.request.size:
        size_ask(size, operation, domain, ask)
    return size


def spend(
    account: AccountRows,
    operation: OperationRow,
    domain: DomainRow,
    meter: Allowance,
    cooldown: RunCooldown,
    durations: Sequence[Sequence[int]],
) -> int:
    """Decide an ask; book it and change the portfolio when it is granted. Gives the decision."""
    ask, books, terms, request = account.ask, account.books, account.terms, account.request
    now, size = request.at, request.size
    if ask.spend == KEYWORDS or ask.spend == KEYWORD_BRIEFS:
        size = fitted(account, operation, domain, meter)
    if cooldown.since < cooldown.finish <= now:
        cooldown.since = cooldown.finish
    decision = admission.decide(now, ask, books, meter, cooldown, terms)
    if decision != admission.GRANTED:
        return decision
    admission.book(now, ask, books, meter, cooldown, terms)
    admission.settle(books, books.month_ends, ask.estimate, ask.estimate, terms)
    if ask.spend < admission.JOB_KINDS:
        lasts = durations[ask.spend]
        finish = now + lasts[drawn_below(len(lasts), account.streams.duration, request.number)]
        if ask.spend == RANK_RUN:
            domain.run_ends = finish
        if terms.cooldown_from_finish:
            cooldown.finish = finish
    elif ask.spend == KEYWORDS:
        domain.keywords += size
    elif ask.spend == SCANS:
        domain.tuples += account.segment.pairings * account.segment.places
    return decision


def remove(request: RequestRow, domain: DomainRow, books: Books) -> None:
    """Remove keywords: what they occupied is held to the end of the billing month (S26)."""
    removed = min(request.size, domain.keywords)
    domain.keywords -= removed
    if removed > 0 and domain.tuples > 0:
        admission.hold(request.at, books, removed * domain.tuples)


# When a refusal ends


def refused_until(account: AccountRows, meter: Allowance, cooldown: RunCooldown) -> int:
    """The instant from which the limit, left alone, would let the same ask pass; `leaves` if it never would.

    The quota's or the month's end, the cooldown's end; slots come free with the month where holds take them.
    """
    ask, books, terms, now = account.ask, account.books, account.terms, account.request.at
    refusal = account.request.outcome
    if refusal == admission.COOLDOWN_ACTIVE:
        return now + -(-(cooldown.since + cooldown.length - now) // SECOND) * SECOND
    if refusal == admission.QUOTA_EXHAUSTED and ask.units <= meter.limit:
        if meter.period == admission.WEEK:
            return week_end(now, terms.week_offset)
        return month_end(books.anchor, now)
    fits = terms.cost_gate != admission.WOULD_EXCEED or ask.estimate <= books.ceiling
    if refusal == admission.COST_CAP_REACHED and books.ceiling > 0 and fits:
        return month_end(books.anchor, now)
    room = books.slot_limit - books.active
    if refusal == admission.SLOT_LIMIT_EXCEEDED and ask.beyond == 0 and ask.slots - ask.revived <= room:
        return month_end(books.anchor, now)
    return account.customer.leaves


# What is counted while an account is served


def open_months(months: Sequence[Month], customer: CustomerRow) -> None:
    """Write the ends of the account's billing months, the first being that of its first instant."""
    ends = customer.joins
    for month in months:
        ends = month_end(customer.anchor, ends)
        month.ends = ends


def month_of(now: int, months: Sequence[Month], tally: AccountTally) -> Month:
    """Return the billing month that holds `now`."""
    while now >= months[tally.month].ends:
        tally.month += 1
    return months[tally.month]


def count(account: AccountRows, month: Month, counts: MutableSequence[int]) -> None:
    """Count a call by what it was and what became of it."""
    request, tally = account.request, account.tally
    tally.calls += 1
    month.calls += 1
    if request.tries == 1:
        tally.requests += 1
    counts[request.activity * KINDS + request.outcome] += 1
    if request.outcome == LIMITED:
        month.limited += 1
    elif request.outcome == admission.GRANTED or request.outcome == admission.JOINED:
        month.admitted += 1
    else:
        month.refused += 1


def count_spend(account: AccountRows, meter: Allowance, month: Month) -> None:
    """Note what a granted ask cost and took."""
    ask, books, tally = account.ask, account.books, account.tally
    tally.spend += ask.estimate
    month.spend += ask.estimate
    meter.peak = max(meter.peak, meter.used)
    note_slots(books.active + admission.held_at(account.request.at, books), tally, month)


def note_slots(taken: int, tally: AccountTally, month: Month) -> None:
    """Note how many slots are taken, holds counted."""
    tally.slots_peak = max(tally.slots_peak, taken)
    tally.slots_wanted = max(tally.slots_wanted, taken)
    month.slots_peak = max(month.slots_peak, taken)


def note_wish(account: AccountRows, meter: Allowance) -> None:
    """Note what a first try asks for, whether it is granted or not; what is joined asks for nothing."""
    ask, books, terms, now = account.ask, account.books, account.terms, account.request.at
    if account.request.tries > 1 or (ask.running and terms.join != admission.JOIN_NEVER):
        return
    if ask.units > 0:
        if now >= meter.wanted_ends:
            meter.wanted = 0
            weekly = meter.period == admission.WEEK
            ends = week_end(now, terms.week_offset) if weekly else month_end(books.anchor, now)
            meter.wanted_ends = ends
        meter.wanted += ask.units
        meter.wanted_peak = max(meter.wanted_peak, meter.wanted)
    wanted = books.active + admission.held_at(now, books) + ask.slots
    account.tally.slots_wanted = max(account.tally.slots_wanted, wanted)


def note_block(account: AccountRows, blocks: Sequence[BlockedSpan], months: Sequence[Month]) -> None:
    """Note that an account is blocked from this refusal until it ends or the account leaves.

    Overlapping blocks of one kind count once, and so do blocks of all kinds that depend on use in row ANY.
    """
    request = account.request
    until = min(request.until, account.customer.leaves)
    extend(blocks[request.outcome], request.at, until)
    refusal = request.outcome
    if refusal == admission.ENTITLEMENT_REQUIRED or refusal == admission.SUBSCRIPTION_INACTIVE:
        return
    since = max(request.at, blocks[ANY].until)
    extend(blocks[ANY], request.at, until)
    index = account.tally.month
    while since < until:
        while since >= months[index].ends:
            index += 1
        edge = min(until, months[index].ends)
        months[index].blocked += edge - since
        since = edge


def extend(block: BlockedSpan, now: int, until: int) -> None:
    """Add [now, until) to a block, which began no later."""
    if block.first == DISTANT_PAST:
        block.first = now
    since = max(now, block.until)
    if until > since:
        block.total += until - since
        block.until = until
