"""The requests of one customer, one after the other, each a function of (seed, customer, its number).

Functions over integers and attributes, interpreted and compiled alike; `drawn` and `stream` alone have a
second body for the compiler (`fleet.compiled`). The only floats are the logarithms of exponential gaps.
"""

import math
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from ranksim.core import draws
from ranksim.core.clock import DAY, DISTANT_FUTURE, HOUR
from ranksim.core.draws import Purpose
from ranksim.planner.fleet.rows import (
    ActivityRate,
    CustomerRow,
    DrawnRequest,
    Queue,
    Reaction,
    RequestRow,
    RequestSize,
)

WEEK_HOURS = 168
MONDAY = 72
"""The hour of the week, counted from Monday, at which the epoch began, a Thursday."""

AVERAGE = 1_000
"""The weight of an average hour of the week, and of growth at the start."""

SHARE = 1.0 / (1 << 53)
LONGEST_GAP = 2**62
"""The cap of a gap, in µs times AVERAGE: 146 years."""

ARRIVAL = int(Purpose.ARRIVAL)
CHOICE = int(Purpose.CHOICE)
SIZE = int(Purpose.SIZE)
PHASE = int(Purpose.PHASE)
JOB_DURATION = int(Purpose.JOB_DURATION)
FEEDBACK = int(Purpose.FEEDBACK)
BACKOFF = int(Purpose.BACKOFF)

Stream = tuple[int, int]
"""Start and odd step of a stream of draws."""


class Streams(NamedTuple):
    """The streams of one customer's draws: what it does by number of request, what it does after refusals."""

    arrival: Stream
    choice: Stream
    domain: Stream
    size: Stream
    duration: Stream
    feedback: Stream
    backoff: Stream


class TrafficPattern(NamedTuple):
    """How the pace of a segment runs: from `start`, by hours of the week and by days of the run."""

    start: int
    hours: Sequence[int]
    levels: Sequence[int]


def stream(seed: int, entity: int, purpose: int) -> Stream:
    """Return a stream of draws: the same as `draws.stream`, which the compiler cannot read."""
    return draws.stream(seed, entity, purpose)


def draw_number(source: Stream, index: int) -> int:
    """Draw the number at an index of a stream, in [0, 2**53): the upper bits of `draws.bits`."""
    return draws._mix(source[0] + (index + 1) * source[1] & 0xFFFF_FFFF_FFFF_FFFF) >> 11


def drawn_below(n: int, source: Stream, index: int) -> int:
    """Draw a number in [0, n), for 0 < n < 2**31."""
    return (draw_number(source, index) >> 21) * n >> 32


def streams_of(seed: int, number: int) -> Streams:
    """Return the streams of a customer."""
    return Streams(
        stream(seed, number, ARRIVAL),
        stream(seed, number, CHOICE),
        stream(seed, number, PHASE),
        stream(seed, number, SIZE),
        stream(seed, number, JOB_DURATION),
        stream(seed, number, FEEDBACK),
        stream(seed, number, BACKOFF),
    )


def arrival(
    number: int,
    since: int,
    pace: ActivityRate,
    pattern: TrafficPattern,
    customer: CustomerRow,
    streams: Streams,
) -> int:
    """Return the instant of request `number`, the one before being at `since`; DISTANT_FUTURE if none comes.

    Time passes at the pace of the hour, so that the gap is that of an even customer stretched where the
    customer is slow. A steady one comes first within a gap, by a draw.
    """
    if customer.gap == 0:
        return DISTANT_FUTURE
    left = _gap(number, pace, customer, streams)
    now = since
    while now < customer.leaves:
        if now >= pace.ends:
            turn_hour(now, pace, pattern, customer)
        if pace.weight * (pace.ends - now) > left:
            return now + left // pace.weight
        left -= pace.weight * (pace.ends - now)
        now = pace.ends
    return DISTANT_FUTURE


def turn_hour(now: int, pace: ActivityRate, pattern: TrafficPattern, customer: CustomerRow) -> None:
    """Set the pace of the hour of the customer's week that holds `now`, and of the day's growth."""
    local = now + customer.zone
    hour = pattern.hours[(local // HOUR + MONDAY) % WEEK_HOURS]
    pace.ends = now + HOUR - local % HOUR
    pace.weight = hour * pattern.levels[(now - pattern.start) // DAY] // AVERAGE


def _gap(number: int, pace: ActivityRate, customer: CustomerRow, streams: Streams) -> int:
    """The gap before a request at average pace, in µs times AVERAGE; at most LONGEST_GAP."""
    gaps = 1.0
    if not pace.steady or number == 0:
        share = (draw_number(streams.arrival, number) | 1) * SHARE
        gaps = share if pace.steady else -math.log(share)
    return int(min(gaps * customer.gap * AVERAGE, float(LONGEST_GAP)))


def make(
    request: DrawnRequest,
    number: int,
    at: int,
    customer: CustomerRow,
    odds: Sequence[int],
    habits: Sequence[RequestSize],
    streams: Streams,
) -> None:
    """Draw request `number`: its activity by the customer's odds, its domain and its size."""
    luck = draw_number(streams.choice, number)
    activity = 0
    while luck >= odds[activity]:
        activity += 1
    habit = habits[activity]
    request.at = at
    request.activity = activity
    request.domain = drawn_below(customer.domains, streams.domain, number)
    request.size = habit.least
    if habit.most > habit.least:
        request.size += drawn_below(habit.most - habit.least + 1, streams.size, number)


def take_up(request: RequestRow, number: int, made: DrawnRequest) -> None:
    """Make a first try of what was drawn, the account's request `number`."""
    request.at = made.at
    request.number = number
    request.tries = 1
    request.activity = made.activity
    request.domain = made.domain
    request.size = made.size


# After a refusal


def comes_back(request: RequestRow, reaction: Reaction, streams: Streams) -> int:
    """Return when a refused request is made again, or DISTANT_FUTURE.

    Whether, and how long a customer backs off, is drawn by number and try, so that it moves no other draw.
    """
    address = request.number << 8 | request.tries
    if request.tries >= reaction.tries or draw_number(streams.feedback, address) >= reaction.chance:
        return DISTANT_FUTURE
    if reaction.backs_off == 0:
        return request.until
    ceiling, doublings = reaction.most, min(request.tries - 1, 62)
    if reaction.first <= ceiling >> doublings:  # so that no product passes 64 bits
        ceiling = reaction.first << doublings
    return request.at + 1 + int(draw_number(streams.backoff, address) * SHARE * ceiling)


def keep(backlog: MutableSequence[RequestRow], queue: Queue, request: RequestRow, due: int) -> None:
    """Keep a refused request in mind until it is due."""
    entry = backlog[queue.count]
    _copy(request, entry)
    entry.at = due
    entry.tries = request.tries + 1
    queue.count += 1
    _find_first(backlog, queue)


def resume(backlog: MutableSequence[RequestRow], queue: Queue, request: RequestRow) -> None:
    """Pop the request that is due first."""
    _copy(backlog[queue.first], request)
    queue.count -= 1
    if queue.first < queue.count:
        _copy(backlog[queue.count], backlog[queue.first])
    _find_first(backlog, queue)


def _find_first(backlog: MutableSequence[RequestRow], queue: Queue) -> None:
    """The earliest, and of the same instant the one first made."""
    queue.due = DISTANT_FUTURE
    for index in range(queue.count):
        entry = backlog[index]
        if entry.at < queue.due or (entry.at == queue.due and entry.number < backlog[queue.first].number):
            queue.first = index
            queue.due = entry.at


def _copy(source: RequestRow, target: RequestRow) -> None:
    target.at = source.at
    target.number = source.number
    target.tries = source.tries
    target.activity = source.activity
    target.domain = source.domain
    target.size = source.size
