"""The kernel for recorded calls: each put before the same rules as drawn ones, in the order of its account.

Interpreted over slotted rows and lists, or compiled over record arrays (`fleet.compiled`). What an account
has used stays in its rows from one chunk of calls to the next, so memory grows with accounts, not with calls.
"""

from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

from ranksim.core.clock import DISTANT_PAST
from ranksim.core.rules.admission import GRANTED, JOINED, settle
from ranksim.planner.fleet.judging import RANK_RUN, AccountRows, charge, count, month_of
from ranksim.planner.fleet.kernel import SPENDS, KernelInputs, Ledger, buy, limit, pass_through
from ranksim.planner.fleet.requests import streams_of
from ranksim.planner.fleet.rows import (
    FAULTY,
    NOT_FOUND,
    AccountTally,
    CallRow,
    DomainRow,
    FailingJob,
    FailureTerms,
    Month,
    RequestRow,
    RunCooldown,
    SegmentRow,
)


class ServingState(NamedTuple):
    """What is held of all accounts beside the ledger, and scratch rows for the call at hand.

    `windows` and `rings` per API key and rate class, `cooldowns` and `failing` per domain and spending
    operation, `made` per thing that calls make and others need; `failure`, `segment`, `ask` and `request`
    have one row.
    """

    windows: Any
    rings: Any
    cooldowns: Any
    failing: Any
    failure: Any
    made: Any
    segment: Any
    ask: Any
    request: Any


def run(
    first: int, last: int, seed: int, calls: Sequence[CallRow], given: KernelInputs, state: ServingState,
    ledger: Ledger,
) -> None:  # fmt: skip
    """Serve the calls in rows [first, last); those of one account stand in order of time."""
    index = first
    while index < last:
        index = serve(index, last, seed, calls, given, state, ledger)


def serve(
    index: int, last: int, seed: int, calls: Sequence[CallRow], given: KernelInputs, state: ServingState,
    ledger: Ledger,
) -> int:  # fmt: skip
    """Serve the calls of one account that stand together; give the row at which another's begin."""
    row = calls[index].account
    customer, request, segment = given.customers[row], state.request[0], state.segment[0]
    account = AccountRows(
        customer, segment, given.offers[customer.offer], ledger.books[row], ledger.tallies[row],
        given.terms[0], given.ways[0], state.ask[0], request, streams_of(seed, customer.number),
    )  # fmt: skip
    first_domain, domains, durations = given.first_domains[row], given.domains, given.durations
    operations, cooldowns, made = given.operations[customer.offer], state.cooldowns, state.made
    limits, rings, failure = state.windows, state.rings, state.failure[0]
    counts, months, meters = ledger.counts[row], ledger.months[row], ledger.meters[row]
    while index < last and calls[index].account == row:
        call = calls[index]
        take_up(call, account.tally.calls, request, segment)
        month = month_of(request.at, months, account.tally)
        operation = operations[request.activity]
        place = first_domain + request.domain
        wait = 0
        if call.key >= 0:
            wait = charge(request.at, operation.rate_class, limits[call.key], rings[call.key], account.ways)
        if wait > 0:
            limit(request, wait)
        elif call.needs >= 0 and made[call.needs] == 0:
            request.outcome = NOT_FOUND
        elif call.idle:
            request.outcome = GRANTED if call.idle == 1 else FAULTY
        elif request.activity < SPENDS:
            cooling = place if account.ways.cooldown_by_domain else first_domain
            cooldown = cooldowns[cooling * SPENDS + request.activity]
            failing = state.failing[cooling * SPENDS + request.activity]
            let_fail(request.at, cooldown, failing, failure)
            meter = meters[operation.meter]
            began, pending = cooldown.since, cooldown.finish
            buy(account, operation, domains[place], meter, cooldown, durations, month)
            if request.outcome == GRANTED:
                call.amount = account.ask.estimate
                if call.estimated > 0:
                    cost_as_recorded(call, account, month)
                if call.lasts >= 0:
                    end_as_recorded(call, domains[place], cooldown, account, pending)
                    if call.fails and not failure.arms:
                        cooldown.finish = pending
                        failing.at, failing.since, failing.before = call.at + call.lasts, call.at, began
        else:
            pass_through(account, domains[place])
        note(call, account, month, counts, made)
        index += 1
    return index


def take_up(call: CallRow, number: int, request: RequestRow, segment: SegmentRow) -> None:
    """Make a request of a recorded call, the account's next by number."""
    request.at = call.at
    request.number = number
    request.tries = 1
    request.activity = call.activity
    request.domain = call.domain
    request.size = request.wanted = call.size
    segment.pairings = call.pairings
    segment.places = call.places
    call.amount = 0


def let_fail(now: int, cooldown: RunCooldown, failing: FailingJob, failure: FailureTerms) -> None:
    """Take back the cooldown of a job that has failed by now (U46, U91)."""
    if failing.since == DISTANT_PAST or failing.at > now:
        return
    if failure.clears:
        cooldown.since = DISTANT_PAST
    elif cooldown.since == failing.since:
        cooldown.since = failing.before
    failing.since = DISTANT_PAST


def end_as_recorded(
    call: CallRow, domain: DomainRow, cooldown: RunCooldown, account: AccountRows, pending: int
) -> None:
    """Let a job that was granted end when it did, in place of what was drawn.

    Its cooldown begins with it, or when a job before it ends, at a `pending` instant (µs), if that is later:
    the end of one that ends before another which began earlier begins none.
    """
    if call.activity == RANK_RUN:
        domain.run_ends = call.at + call.lasts
    if account.terms.cooldown_from_finish:
        cooldown.finish = max(pending, call.at + call.lasts)


def cost_as_recorded(call: CallRow, account: AccountRows, month: Month) -> None:
    """Let a job that was granted cost, in place of its estimate, what it did in proportion to that."""
    call.amount = in_proportion(account.ask.estimate, call.costs, call.estimated)
    more = call.amount - account.ask.estimate
    settle(account.books, account.books.month_ends, 0, more, account.terms)
    account.tally.spend += more
    month.spend += more


def in_proportion(estimate: int, cost: int, estimated: int) -> int:
    """Return what a job of an estimate costs, where one that was `estimated` at so much did `cost` (µUSD)."""
    return (2 * estimate * cost + estimated) // (2 * estimated)


def note(
    call: CallRow,
    account: AccountRows,
    month: Month,
    counts: MutableSequence[int],
    made: MutableSequence[int],
) -> None:
    """Note what became of a call, and whether it made what later ones need."""
    call.outcome = account.request.outcome
    if call.makes >= 0:
        made[call.makes] = 1 if call.outcome == GRANTED or call.outcome == JOINED else 0
    if call.outcome == NOT_FOUND or call.outcome == FAULTY:
        lose(account.tally, month)
    else:
        count(account, month, counts)


def lose(tally: AccountTally, month: Month) -> None:
    """Count a call that found nothing."""
    tally.calls += 1
    month.calls += 1
    month.refused += 1
