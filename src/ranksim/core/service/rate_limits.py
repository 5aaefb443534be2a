"""Rate limits: which window a call is charged to, and the headers every response carries (S102-S107, U1-U11).

The windows are those of the three classes, or those of the policy's own table.

Only this module reads the traffic clock, which is `now` unless a driver splits the two.
"""

from collections.abc import Collection, MutableSequence, Sequence

from ranksim.core.clock import SECOND, format_duration, http_date, whole_seconds
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import RateClass
from ranksim.core.rules import windows
from ranksim.core.rules.books import Charge, Window
from ranksim.core.service.administration import new_window
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context
from ranksim.core.service.errors import problem
from ranksim.core.service.state import Key

GRAPHQL_WINDOWS = 3
"""Where a key's windows for GraphQL begin, when they are apart (U11)."""


def charge_window(
    ctx: Context,
    window: Window,
    ring: MutableSequence[int],
    name: str,
    now: int,
    headers: dict[str, str],
) -> Reply | None:
    """Charge a window one unit, or answer 429; a full window may count the refused request (U4)."""
    if not windows.take(now, window, ring):
        wait = windows.retry_after(now, window, ring)
        return _refuse(ctx, window, ring, name, now, wait, headers)
    left, reset = windows.standing(now, window, ring)
    write_standing(ctx, window, left, reset, now, headers)
    return None


def charge_key(
    ctx: Context,
    key: Key,
    classes: Sequence[RateClass],
    now: int,
    headers: dict[str, str],
    *,
    graphql: bool = False,
) -> Reply | None:
    """Charge a request one unit of each of `classes`, or answer 429 and charge nothing (U4).

    A unit of the expensive class is a unit of the write class too where the policy says so (U3). The headers
    tell of the dearest class, or of the one without room.
    """
    first = _first_window(ctx, graphql)
    counts = [classes.count(rate_class) for rate_class in RateClass]
    if ctx.policy.assumptions.expensive_debits_write:
        counts[RateClass.WRITE] += counts[RateClass.EXPENSIVE]
    charged = [
        Charge(each.label, key.windows[first + each], key.rings[first + each], counts[each])
        for each in reversed(RateClass)
        if counts[each]
    ]
    refused = charge_all(ctx, charged, now, headers)
    if refused is None:
        write_standing(ctx, charged[0].window, *windows.standing(now, *charged[0][1:3]), now, headers)
    return refused


def charge_all(ctx: Context, charges: Sequence[Charge], now: int, headers: dict[str, str]) -> Reply | None:
    """Charge several windows, or answer 429 where one has no room, and charge none (U4)."""
    for name, window, ring, count in charges:
        room, wait = windows.standing(now, window, ring)
        if not room:
            return charge_window(ctx, window, ring, name, now, headers)
        if room < count:
            return _refuse(ctx, window, ring, name, now, wait, headers)
    for _, window, ring, count in charges:
        for _ in range(count):
            windows.take(now, window, ring)
    return None


def charge_caller(
    ctx: Context, caller: str, rate_class: RateClass, now: int, headers: dict[str, str]
) -> Reply | None:
    """Charge a request without a usable key to the window of its caller (U8, U9, U87)."""
    if caller not in ctx.state.callers:
        ctx.state.callers[caller], ctx.state.caller_rings[caller] = new_window(ctx, rate_class)
    window, ring = ctx.state.callers[caller], ctx.state.caller_rings[caller]
    if rates_waived(ctx):
        write_standing(ctx, window, *windows.standing(now, window, ring), now, headers)
        return None
    return charge_window(ctx, window, ring, rate_class.label, now, headers)


def key_has_room(
    ctx: Context, key: Key, classes: Collection[RateClass], now: int, *, graphql: bool = False
) -> bool:
    """Return whether a window of a key has room, of those of some classes; nothing is charged."""
    first = _first_window(ctx, graphql)
    return rates_waived(ctx) or any(
        windows.remaining(now, key.windows[first + rate_class], key.rings[first + rate_class])
        for rate_class in classes
    )


def caller_has_room(ctx: Context, caller: str, now: int) -> bool:
    """Return whether the window of a caller without a key has room; nothing is charged."""
    if rates_waived(ctx) or caller not in ctx.state.callers:
        return True
    return windows.remaining(now, ctx.state.callers[caller], ctx.state.caller_rings[caller]) > 0


def rates_waived(ctx: Context) -> bool:
    """Return whether rate limits are switched off: nothing is counted, and headers stay as they are."""
    return ctx.state.waived & 1 == 1


def show_only(
    ctx: Context, key: Key, rate_class: RateClass, now: int, headers: dict[str, str], *, graphql: bool = False
) -> None:
    """Write a window's headers without charging it (U10)."""
    which = _first_window(ctx, graphql) + rate_class
    window, ring = key.windows[which], key.rings[which]
    write_standing(ctx, window, *windows.standing(now, window, ring), now, headers)


def _first_window(ctx: Context, graphql: bool) -> int:
    """Return where the windows of a key begin that a surface is charged to (U11)."""
    return GRAPHQL_WINDOWS if graphql and ctx.policy.assumptions.graphql_cost == "separate" else 0


def _refuse(
    ctx: Context,
    window: Window,
    ring: MutableSequence[int],
    name: str,
    now: int,
    wait: int,
    headers: dict[str, str],
) -> Reply:
    """Answer 429: come again after `wait` µs (S100, U7)."""
    assumptions = ctx.policy.assumptions
    wait = max(wait, 1)
    write_standing(ctx, window, windows.remaining(now, window, ring), wait, now, headers)
    length = whole_seconds(window.length)
    within = f"{length} s" if length * SECOND == window.length else format_duration(window.length)
    headers["Retry-After"] = format_retry_after(assumptions, now, wait)
    reply = problem(
        ctx.policy,
        "rate_limited",
        f"More than {window.limit} {name} requests in {within}.",
        {
            "class": name,
            "limit": window.limit,
            "window_seconds": length,
            "retry_after": whole_seconds(wait),
        },
    )
    reply.outcome, reply.rate_class = "limited", name
    return reply


def write_standing(
    ctx: Context, window: Window, left: int, reset: int, now: int, headers: dict[str, str]
) -> None:
    """Write the headers of a window: its limit, how many are left, and in how many µs it resets (S105)."""
    if ctx.resets_by_the_clock:
        reset += now
    headers["RateLimit-Limit"] = str(window.limit)
    headers["RateLimit-Remaining"] = str(left)
    headers["RateLimit-Reset"] = str(-(-reset // SECOND))


def format_retry_after(assumptions: Assumptions, now: int, wait: int) -> str:
    """Write a Retry-After: seconds, at least 1, or an HTTP-date (U6)."""
    if assumptions.retry_after_format == "http_date":
        return http_date(now + wait)
    return str(max(1, whole_seconds(wait)))
