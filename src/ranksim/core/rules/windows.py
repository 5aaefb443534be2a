"""Rate windows: eight ways to count the calls of one API key in one rate class (S102-S104, U1).

Which one the service uses is not stated, so it is data: `kind` in the window's row. Each has its own promise:

- FIRST_HIT: a window opens at the first admitted call and lasts `length`; up to `limit` calls in it.
- CLOCK: windows stand at multiples of `length` since the epoch; up to `limit` calls in each.
- SLIDING_LOG: up to `limit` calls in any (now - length, now]; a call exactly `length` old has left.
- SLIDING_COUNTER: the calls of this clock window, and those of the one before weighed by the part of it that
  a window ending now would still cover (rounded down), come to at most `limit`.
- GCRA: a bucket of `limit` tokens that refills evenly in `length`; a call takes one token.
- ROTATING: like SLIDING_COUNTER, but a window follows the one before it, and after two lengths without a new
  one it begins with the next call (HAProxy).
- QUEUE: like GCRA, but an admitted call waits until the tokens before its own are refilled (nginx without
  `nodelay`): `turn_after` says how long.
- CONCURRENCY: up to `limit` calls at once, each of which is under way for `length`: a log of what came in
  the last `length`, whose replies wait until they leave it, and into which no refused call comes.

ROTATING, QUEUE and CONCURRENCY are no options of U1: a table of windows may name them.

A row `w` is a `books.Window` (or a record of the same fields), prepared by `start`; `limit` and `length` (µs)
are at least 1. `ring` is a list or array of `limit` integers for SLIDING_LOG and CONCURRENCY; the others do
not look at it. `now` must not go backwards between calls on one row.

`counts_refused` (the other side of U4) lets a refused call count too. FIRST_HIT: the window lasts `length`
from the refused call. CLOCK: no effect, the window is full anyway. SLIDING_LOG: it enters the log.
SLIDING_COUNTER: it adds to this window's count, and so weighs on the next. GCRA: it takes a token that the
bucket does not have.

Integers and attributes only: the same functions run interpreted on slotted rows and lists, and compiled on
NumPy records and int64 arrays.
"""

from collections import Counter
from collections.abc import MutableSequence, Sequence

from ranksim.core.clock import DISTANT_PAST
from ranksim.core.rules.books import Window

FIRST_HIT = 0
CLOCK = 1
SLIDING_LOG = 2
SLIDING_COUNTER = 3
GCRA = 4
ROTATING = 5
QUEUE = 6
CONCURRENCY = 7
NAMES = ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")
"""The options of U1, each at the place of its kind."""
KINDS = (*NAMES, "rotating", "queue", "concurrency")
"""What each kind is called."""


def start(w: Window) -> None:
    """Restore the full allowance of a row: sets opened, count, previous, level and head, keeps the rest."""
    w.opened = DISTANT_PAST
    w.count = 0
    w.previous = 0
    w.level = w.limit * w.length
    w.head = 0


def take(now: int, w: Window, ring: MutableSequence[int]) -> int:
    """Decide one call at `now` (µs) and count it: 1 when it is admitted, 0 when it is refused (U1, U4)."""
    if w.kind > CLOCK:
        return _take_sliding(now, w, ring)
    # FIRST_HIT and CLOCK: `opened` is the start of the window of `count`.
    if now >= w.opened + w.length:
        w.opened = now if w.kind == FIRST_HIT else now - now % w.length
        w.count = 0
    if w.count < w.limit:
        w.count += 1
        return 1
    if w.counts_refused and w.kind == FIRST_HIT:
        w.opened = now
    return 0


def _take_sliding(now: int, w: Window, ring: MutableSequence[int]) -> int:
    if w.kind == SLIDING_LOG or w.kind == CONCURRENCY:
        return _take_log(now, w, ring)
    if w.kind == GCRA or w.kind == QUEUE:
        return _take_bucket(now, w)
    return _take_counter(now, w)


def count_calls(at: int, w: Window, ring: MutableSequence[int], calls: int) -> None:
    """Count calls that were made at an instant (µs), whether or not they would be admitted."""
    w.counts_refused, restored = 1, w.counts_refused
    for _ in range(calls):
        take(at, w, ring)
    w.counts_refused = restored


def overdraw(now: int, w: Window, ring: MutableSequence[int], units: int) -> None:
    """Count what a call that was admitted at `now` (µs) takes besides, whether or not there is room.

    A fixed window is full then; what another lacks must come back before a call is admitted.
    """
    if w.kind <= CLOCK:
        w.count = min(w.limit, w.count + units)
    else:
        count_calls(now, w, ring, units)


def counted_calls(now: int, w: Window, ring: MutableSequence[int]) -> dict[int, int]:
    """Return the calls of an untouched row that would stand as this one does at `now`, by instant (µs)."""
    if standing(now, w, ring) == (w.limit, 0):
        return {}
    if w.kind == SLIDING_LOG or w.kind == CONCURRENCY:
        oldest = w.head - _live(now, w, ring)
        return Counter(ring[entry % w.limit] for entry in range(oldest, w.head))
    if w.kind == SLIDING_COUNTER or w.kind == ROTATING:
        return {at: n for at, n in ((w.opened - w.length, w.previous), (w.opened, w.count)) if n}
    if w.kind == GCRA or w.kind == QUEUE:
        missing = w.limit * w.length - w.level
        calls = -(-missing // w.length)
        return {w.opened - (calls * w.length - missing) // w.limit: calls}
    return {w.opened: w.count}


def remaining(now: int, w: Window, ring: MutableSequence[int]) -> int:
    """How many calls made at `now` would be admitted (RateLimit-Remaining, S105)."""
    return standing(now, w, ring)[0]


def reset_after(now: int, w: Window, ring: MutableSequence[int]) -> int:
    """How long until the allowance resets, in µs, as an admitted reply tells it (S105, U88); 0 if unused.

    FIRST_HIT and CLOCK: the window's end. SLIDING_LOG: its oldest call leaves. SLIDING_COUNTER: the clock
    window's end. GCRA: the bucket is full. With `full_reset` it is, for every kind, the time until
    `remaining` is `limit` again if no call follows. A refused reply tells `retry_after` instead.
    """
    return standing(now, w, ring)[1]


def standing(now: int, w: Window, ring: MutableSequence[int]) -> tuple[int, int]:
    """What an admitted reply tells: `remaining` and `reset_after`, whose work is mostly the same."""
    if w.kind <= CLOCK:
        left = w.opened + w.length - now
        if left <= 0:
            return w.limit, 0
        return w.limit - w.count, left if w.count > 0 else 0
    if w.kind == SLIDING_COUNTER or w.kind == ROTATING:
        return _standing_counter(now, w)
    if w.kind == GCRA or w.kind == QUEUE:
        level = _level(now, w)
        return max(0, level // w.length), _refill(w.limit * w.length - level, w.limit)
    live = _live(now, w, ring)
    if live == 0:
        return w.limit, 0
    entry = w.head - 1 if w.full_reset else w.head - live
    return w.limit - live, ring[entry % w.limit] + w.length - now


def retry_after(now: int, w: Window, ring: MutableSequence[int]) -> int:
    """How long until a call would be admitted if none comes before it, in µs; 0 when now (S100, U6).

    Exact: a call that much later is admitted, and a call one microsecond sooner is refused.
    """
    if w.kind == SLIDING_LOG or w.kind == CONCURRENCY:
        # A full ring holds its oldest call at the head.
        return max(0, ring[w.head] + w.length - now) if w.count == w.limit else 0
    if w.kind == SLIDING_COUNTER or w.kind == ROTATING:
        count, previous, elapsed = _counts(now, w)
        if count < w.limit:
            return max(0, _fades(w.limit - count, previous, w.length) - elapsed)
        return w.length - elapsed + _fades(w.limit, count, w.length)
    if w.kind == GCRA or w.kind == QUEUE:
        return max(0, _refill(w.length - _level(now, w), w.limit))
    return w.opened + w.length - now if now < w.opened + w.length and w.count >= w.limit else 0


def turn_after(w: Window) -> int:
    """How long (µs) the reply to the call admitted last waits.

    In a QUEUE until what those before it took is back, under CONCURRENCY for as long as the call takes.
    """
    if w.kind == QUEUE:
        return _refill((w.limit - 1) * w.length - w.level, w.limit)
    return w.length if w.kind == CONCURRENCY else 0


def set_limit(now: int, w: Window, ring: Sequence[int], limit: int) -> list[int]:
    """Give a row another limit from `now` on, and return its ring; what it counted stays counted."""
    newest: list[int] = []
    if w.kind == GCRA or w.kind == QUEUE:
        w.opened, w.level = now, _level(now, w) + (limit - w.limit) * w.length
    elif w.kind == SLIDING_LOG or w.kind == CONCURRENCY:
        newest = [ring[(w.head - age) % w.limit] for age in range(min(w.count, limit), 0, -1)]
        w.count, w.head = len(newest), len(newest) % limit
    else:
        w.count = min(w.count, limit) if w.kind <= CLOCK else w.count
    w.limit = limit
    return newest + [0] * (limit - len(newest)) if w.kind == SLIDING_LOG or w.kind == CONCURRENCY else []


# SLIDING_LOG, CONCURRENCY: `ring` holds the newest `count` calls, and the next is written at `head`


def _take_log(now: int, w: Window, ring: MutableSequence[int]) -> int:
    admitted = 1 if w.count < w.limit or ring[w.head] <= now - w.length else 0
    if admitted or (w.counts_refused and w.kind == SLIDING_LOG):
        ring[w.head] = now
        w.head = (w.head + 1) % w.limit
        w.count = min(w.count + 1, w.limit)
    return admitted


def _live(now: int, w: Window, ring: MutableSequence[int]) -> int:
    """How many calls of the ring lie in (now - length, now], by bisection from the oldest."""
    oldest = w.head - w.count
    expired, end = 0, w.count
    while expired < end:
        middle = (expired + end) // 2
        if ring[(oldest + middle) % w.limit] <= now - w.length:
            expired = middle + 1
        else:
            end = middle
    return w.count - expired


# SLIDING_COUNTER, ROTATING: `opened` is the start of the window of `count`; `previous` is of the one before


def _take_counter(now: int, w: Window) -> int:
    count, previous, elapsed = _counts(now, w)
    admitted = 1 if _weight(elapsed, previous, w.length) + count + 1 <= w.limit else 0
    if admitted or w.counts_refused:
        count += 1
    elif w.kind == SLIDING_COUNTER:
        return admitted
    w.opened, w.count, w.previous = now - elapsed, count, previous  # a refused call, too, begins a window
    return admitted


def _counts(now: int, w: Window) -> tuple[int, int, int]:
    """The calls counted in the window of `now` and in the one before it, and for how long it has run."""
    age, elapsed = now - w.opened, now % w.length
    if w.kind == ROTATING:
        elapsed = age % w.length if age < 2 * w.length else 0
    if age == elapsed:
        return w.count, w.previous, elapsed
    if age == elapsed + w.length:
        return 0, w.count, elapsed
    return 0, 0, elapsed


def _standing_counter(now: int, w: Window) -> tuple[int, int]:
    count, previous, elapsed = _counts(now, w)
    weight = _weight(elapsed, previous, w.length)
    left = max(0, w.limit - count - weight)
    if count + weight == 0:
        return left, 0
    if not w.full_reset:
        return left, w.length - elapsed
    if count == 0:
        return left, _fades(1, previous, w.length) - elapsed
    return left, w.length - elapsed + _fades(1, count, w.length)


def _weight(elapsed: int, previous: int, length: int) -> int:
    return previous * (length - elapsed) // length


def _fades(below: int, previous: int, length: int) -> int:
    """How far into a window, in [0, length], the weight of the one before it falls under `below` (>= 1)."""
    if previous < below:
        return 0
    return length - (below * length - 1) // previous


# GCRA: `level` is what the bucket held at `opened`, in tokens times `length`, so that a µs refills `limit`


def _take_bucket(now: int, w: Window) -> int:
    level = _level(now, w)
    admitted = 1 if level >= w.length else 0
    w.opened = now
    w.level = level - w.length if admitted or w.counts_refused else level
    return admitted


def _level(now: int, w: Window) -> int:
    full = w.limit * w.length
    # Compared as times, because the product of a long absence and the limit could overflow when compiled.
    if now - w.opened >= _refill(full - w.level, w.limit):
        return full
    return w.level + (now - w.opened) * w.limit


def _refill(missing: int, limit: int) -> int:
    """The µs that refill what is missing, rounded up."""
    return -(-missing // limit)
