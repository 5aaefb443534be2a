"""The six checks and their booking: the one admission code of every driver.

Functions over integers and attributes only. The same function objects run interpreted on the slotted rows of
`rules.books` and, compiled by Numba, on NumPy records. Deciding and booking are two steps: a dry run is
the first without the second, and a refusal changes nothing.
"""

from ranksim.core.clock import month_end, week_end
from ranksim.core.contract.facts import Decision
from ranksim.core.rules.books import Ask, Books, Cooldown, Meter, Terms

# The members of `Decision` as plain integers, which Numba freezes into what it compiles.
GRANTED = Decision.GRANTED.value
ENTITLEMENT_REQUIRED = Decision.ENTITLEMENT_REQUIRED.value
SUBSCRIPTION_INACTIVE = Decision.SUBSCRIPTION_INACTIVE.value
COST_CAP_REACHED = Decision.COST_CAP_REACHED.value
QUOTA_EXHAUSTED = Decision.QUOTA_EXHAUSTED.value
SLOT_LIMIT_EXCEEDED = Decision.SLOT_LIMIT_EXCEEDED.value
COOLDOWN_ACTIVE = Decision.COOLDOWN_ACTIVE.value
JOINED = Decision.JOINED.value

JOIN_AFTER_HEALTH = 0
JOIN_BEFORE_CHECKS = 1
JOIN_AFTER_CHECKS = 2
JOIN_NEVER = 3

AT_CEILING = 0
WOULD_EXCEED = 1

RESERVE = 0
AT_ACCEPTANCE = 1
AT_COMPLETION = 2

MONTH = 0
WEEK = 1

JOB_KINDS = 4
"""Spends below this number are jobs (`contract.facts.Spend`); the others finish as they are accepted."""


def applies(check: int, ask: Ask) -> bool:
    """Return whether a check (1 to 6) applies to this ask (U58)."""
    return (ask.checks >> check) & 1 == 1


def used_at(now: int, meter: Meter) -> int:
    """Units of a metered allowance used in the period that holds `now`."""
    return 0 if now >= meter.ends else meter.used


def settled_at(now: int, books: Books) -> int:
    """Provider cost settled in the billing month that holds `now`, µUSD."""
    return 0 if now >= books.month_ends else books.settled


def reserved_at(now: int, books: Books) -> int:
    """Provider cost reserved for unfinished work of the billing month that holds `now`, µUSD."""
    return 0 if now >= books.month_ends else books.reserved


def spent_at(now: int, books: Books, terms: Terms) -> int:
    """Provider cost that counts against the ceiling, µUSD (U96)."""
    if terms.spent_counts_reserved:
        return settled_at(now, books) + reserved_at(now, books)
    return settled_at(now, books)


def held_at(now: int, books: Books) -> int:
    """Slots held by what was removed in the billing month that holds `now` (S26, S27, E17)."""
    return 0 if now >= books.month_ends else books.held


def lacks_capability(ask: Ask, books: Books) -> bool:
    """Check 1 (S60): the plan includes the feature, and its dimensions unless check 5 minds them (U59)."""
    if not applies(ENTITLEMENT_REQUIRED, ask):
        return False
    if ask.capability & ~books.capabilities:
        return True
    return ask.beyond == ENTITLEMENT_REQUIRED


def is_inactive(ask: Ask, books: Books) -> bool:
    """Check 2 (S61): a past-due account cannot spend."""
    return applies(SUBSCRIPTION_INACTIVE, ask) and books.healthy == 0


def over_ceiling(now: int, ask: Ask, books: Books, terms: Terms) -> bool:
    """Check 3 (S62, U48): the month's provider spend has reached the plan's ceiling."""
    if not applies(COST_CAP_REACHED, ask):
        return False
    spent = spent_at(now, books, terms)
    if spent >= books.ceiling:
        return True
    return terms.cost_gate == WOULD_EXCEED and spent + ask.estimate > books.ceiling


def over_quota(now: int, ask: Ask, meter: Meter) -> bool:
    """Check 4 (S63): the units asked for do not fit what is left of the allowance."""
    if not applies(QUOTA_EXHAUSTED, ask) or meter.limit < 0:
        return False
    return ask.units > 0 and used_at(now, meter) + ask.units > meter.limit


def over_slots(now: int, ask: Ask, books: Books) -> bool:
    """Check 5 (S64): what would be tracked, holds counted, does not fit the plan's slots."""
    if not applies(SLOT_LIMIT_EXCEEDED, ask):
        return False
    if ask.beyond == SLOT_LIMIT_EXCEEDED:
        return True
    added = ask.slots - ask.revived
    return added > 0 and books.active + held_at(now, books) + added > books.slot_limit


def is_cooling(now: int, ask: Ask, cooldown: Cooldown) -> bool:
    """Check 6 (S65, U46): the same thing ran too short a time ago. Half open: free at `since + length`."""
    return applies(COOLDOWN_ACTIVE, ask) and now < cooldown.since + cooldown.length


def decide(now: int, ask: Ask, books: Books, meter: Meter, cooldown: Cooldown, terms: Terms) -> int:
    """Return what becomes of an ask: GRANTED, JOINED, or the first check that refuses (S59).

    Changes nothing. The join of a running rank run stands where U45 puts it.
    """
    if ask.running and terms.join == JOIN_BEFORE_CHECKS:
        return JOINED
    if lacks_capability(ask, books):
        return ENTITLEMENT_REQUIRED
    if is_inactive(ask, books):
        return SUBSCRIPTION_INACTIVE
    if ask.running and terms.join == JOIN_AFTER_HEALTH:
        return JOINED
    if over_ceiling(now, ask, books, terms):
        return COST_CAP_REACHED
    if over_quota(now, ask, meter):
        return QUOTA_EXHAUSTED
    if over_slots(now, ask, books):
        return SLOT_LIMIT_EXCEEDED
    if is_cooling(now, ask, cooldown):
        return COOLDOWN_ACTIVE
    if ask.running and terms.join == JOIN_AFTER_CHECKS:
        return JOINED
    return GRANTED


def turn_month(now: int, books: Books) -> None:
    """Open the billing month that holds `now`: nothing spent, nothing reserved, no holds (S26, U51)."""
    books.settled = 0
    books.reserved = 0
    books.held = 0
    books.month_ends = month_end(books.anchor, now)


def turn_meter(now: int, meter: Meter, books: Books, terms: Terms) -> None:
    """Open the allowance period that holds `now` (S108, S110, U52)."""
    meter.used = 0
    if meter.period == WEEK:
        meter.ends = week_end(now, terms.week_offset)
    else:
        meter.ends = month_end(books.anchor, now)


def book(now: int, ask: Ask, books: Books, meter: Meter, cooldown: Cooldown, terms: Terms) -> None:
    """Book a granted ask: cost, quota, slots and cooldown, all at the instant of acceptance (U49, U50)."""
    if now >= books.month_ends:
        turn_month(now, books)
    if meter.limit >= 0 and now >= meter.ends:
        turn_meter(now, meter, books, terms)
    if terms.cost_timing == RESERVE:
        books.reserved += ask.estimate
    elif terms.cost_timing == AT_ACCEPTANCE:
        books.settled += ask.estimate
    if meter.limit >= 0:
        meter.used += ask.units
    books.active += ask.slots
    books.held -= ask.revived
    if terms.cooldown_from_finish == 0 or ask.spend >= JOB_KINDS:
        cooldown.since = now


def admit(now: int, ask: Ask, books: Books, meter: Meter, cooldown: Cooldown, terms: Terms) -> int:
    """Decide, and book what is granted unless it is a dry run (S66). Returns the decision."""
    decision = decide(now, ask, books, meter, cooldown, terms)
    if decision == GRANTED and ask.dry_run == 0:
        book(now, ask, books, meter, cooldown, terms)
    return decision


def settle(books: Books, month_ends: int, estimate: int, actual: int, terms: Terms) -> None:
    """Settle finished work: its reservation becomes its actual cost; 0 releases it (U49).

    `month_ends` is the end of the month of acceptance: work that outlives its month changes that month
    only, which is over (E16).
    """
    if books.month_ends != month_ends:
        return
    if terms.cost_timing == RESERVE:
        books.reserved -= estimate
        books.settled += actual
    elif terms.cost_timing == AT_COMPLETION:
        books.settled += actual


def refund(meter: Meter, ends: int, units: int) -> None:
    """Refund units taken in the period that ended at `ends`, if it is still the meter's period (U50)."""
    if meter.ends == ends and meter.limit >= 0:
        meter.used -= units


def hold(now: int, books: Books, slots: int) -> None:
    """Turn active slots into held ones until the end of the billing month (S26, S27)."""
    if now >= books.month_ends:
        turn_month(now, books)
    books.active -= slots
    books.held += slots
