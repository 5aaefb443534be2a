"""What is counted while an account is served. Interpreted and compiled alike."""

from collections.abc import MutableSequence, Sequence

from ranksim.core.clock import DISTANT_PAST, month_end, week_end
from ranksim.core.rules import admission
from ranksim.core.rules.admission import (
    ENTITLEMENT_REQUIRED,
    GRANTED,
    JOIN_NEVER,
    JOINED,
    SUBSCRIPTION_INACTIVE,
    WEEK,
)
from ranksim.planner.fleet.judging import AccountRows
from ranksim.planner.fleet.rows import (
    LIMITED,
    OUTCOMES,
    AccountTally,
    Allowance,
    BlockedSpan,
    CustomerRow,
    Month,
)

KINDS = len(OUTCOMES)
ANY = GRANTED
"""The row of `BlockedSpan` that stands for all refusals that depend on use."""


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
    elif request.outcome == GRANTED or request.outcome == JOINED:
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
    if account.request.tries > 1 or (ask.running and terms.join != JOIN_NEVER):
        return
    if ask.units > 0:
        if now >= meter.wanted_ends:
            meter.wanted = 0
            meter.wanted_ends = (
                week_end(now, terms.week_offset) if meter.period == WEEK else month_end(books.anchor, now)
            )
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
    if request.outcome == ENTITLEMENT_REQUIRED or request.outcome == SUBSCRIPTION_INACTIVE:
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
