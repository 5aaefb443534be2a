"""One request before the rules: the rate window, then the ask, the six checks, and what a grant changes.

The rules are those of `core.rules`, called as they are. Work costs what was estimated, settled as it is
accepted, and no job fails; every account has one API key. Interpreted and compiled alike.
"""

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from ranksim.core.clock import SECOND, month_end, week_end
from ranksim.core.contract.facts import RateClass, Spend
from ranksim.core.rules import admission, windows
from ranksim.core.rules.admission import (
    COOLDOWN_ACTIVE,
    COST_CAP_REACHED,
    ENTITLEMENT_REQUIRED,
    GRANTED,
    JOB_KINDS,
    QUOTA_EXHAUSTED,
    SLOT_LIMIT_EXCEEDED,
    WEEK,
    WOULD_EXCEED,
)
from ranksim.core.rules.books import Ask, Books, Terms, Window
from ranksim.planner.fleet.requests import Streams, drawn_below
from ranksim.planner.fleet.rows import (
    AccountTally,
    Allowance,
    CustomerRow,
    DomainRow,
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
        ask.estimate = domain.keywords * domain.tuples * operation.unit_cost
        ask.running = 1 if request.at < domain.run_ends else 0
    elif ask.spend < JOB_KINDS:
        size = domain.questions if ask.spend == AI_SCAN else domain.pages
        ask.estimate = min(size, operation.cap) * operation.unit_cost
        if size > operation.cap and account.ways.cap_refuses:
            ask.beyond = ENTITLEMENT_REQUIRED
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
    if decision != GRANTED:
        return decision
    admission.book(now, ask, books, meter, cooldown, terms)
    admission.settle(books, books.month_ends, ask.estimate, ask.estimate, terms)
    if ask.spend < JOB_KINDS:
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
    if refusal == COOLDOWN_ACTIVE:
        return now + -(-(cooldown.since + cooldown.length - now) // SECOND) * SECOND
    if refusal == QUOTA_EXHAUSTED and ask.units <= meter.limit:
        if meter.period == WEEK:
            return week_end(now, terms.week_offset)
        return month_end(books.anchor, now)
    fits = terms.cost_gate != WOULD_EXCEED or ask.estimate <= books.ceiling
    if refusal == COST_CAP_REACHED and books.ceiling > 0 and fits:
        return month_end(books.anchor, now)
    room = books.slot_limit - books.active
    if refusal == SLOT_LIMIT_EXCEEDED and ask.beyond == 0 and ask.slots - ask.revived <= room:
        return month_end(books.anchor, now)
    return account.customer.leaves
