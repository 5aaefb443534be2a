"""What a request is charged in rate windows before it is answered, its 401 or its 429 (S4, U8-U11, U86).

A call over REST with a usable key that costs one unit of one class is the service's own straight way; all
else comes here.
"""

from collections.abc import Collection, Sequence

from ranksim.core.contract.facts import RateClass
from ranksim.core.rules.access import resolve
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.charging import charged_class, needs_key, nominal_class
from ranksim.core.service.context import Context
from ranksim.core.service.errors import problem
from ranksim.core.service.rate_limits import (
    caller_has_room,
    charge_caller,
    charge_key,
    key_has_room,
    rates_waived,
    show_only,
)
from ranksim.core.service.state import Key
from ranksim.core.service.window_table import charge_table


def charge_request(
    ctx: Context, calls: Sequence[Call], key: Key | None, now: int, headers: dict[str, str]
) -> Reply | None:
    """Charge the calls of a request at `now` (µs), and write its headers: return its 401 or 429, or None.

    It needs no key or has none that is usable, is of GraphQL, a dry run in a class of its own (U10), counted
    by a table of windows, or limits are waived.
    """
    keyless = not any(map(needs_key, calls))
    if ctx.policy.windows and (keyless or key is not None):
        return charge_table(ctx, calls, None if keyless else key, now, headers)
    if keyless:
        return charge_caller(ctx, calls[0].caller, RateClass.READ, now, headers)
    if key is None:
        return _refuse_access(ctx, calls, now, headers)
    return _charge_classes(ctx, calls, key, now, headers)


def has_room(ctx: Context, call: Call, classes: Collection[RateClass], now: int) -> bool:
    """Return whether a request is neither refused for access nor, in each of `classes`, for traffic."""
    if not needs_key(call):
        return caller_has_room(ctx, call.caller, now)
    key = resolve(ctx.state.keys, call.key, call.environment)
    return key is not None and key_has_room(ctx, key, classes, now, graphql=call.surface == "graphql")


def _refuse_access(ctx: Context, calls: Sequence[Call], now: int, headers: dict[str, str]) -> Reply:
    """Answer 401, or 429 where too many such requests come (U9, U86, U87).

    Where the limiter comes first it knows tokens, not keys: it counts a bad one like any other, in the
    class of the request, and cannot tell whether it is valid elsewhere (E48).
    """
    first = calls[0]
    caller, rate_class = first.caller, RateClass.READ
    if ctx.policy.assumptions.limiter_order == "limiter_first" and first.key:
        rate_class = max(nominal_class(ctx.policy, call) for call in calls)
        caller = f"{first.environment} {first.key} {rate_class.label}"
    if ctx.policy.windows:
        limited = charge_table(ctx, calls, None, now, headers)
    else:
        limited = charge_caller(ctx, caller, rate_class, now, headers)
    if limited is not None:
        return limited
    headers["WWW-Authenticate"] = "Bearer"
    return problem(ctx.policy, "unauthorized", "The request carries no valid API key.")


def _charge_classes(
    ctx: Context, calls: Sequence[Call], key: Key, now: int, headers: dict[str, str]
) -> Reply | None:
    """Charge a key for a request, over GraphQL as a whole or field by field (S4, U11)."""
    classes = () if rates_waived(ctx) else (charged_class(ctx.policy, call) for call in calls)
    charged = [rate_class for rate_class in classes if rate_class is not None]
    graphql = calls[0].surface == "graphql"
    if not charged:
        show_only(ctx, key, nominal_class(ctx.policy, calls[0]), now, headers, graphql=graphql)
        return None
    if len(charged) > 1 and (not graphql or ctx.policy.assumptions.graphql_cost != "field"):
        charged = [max(charged)]
    return charge_key(ctx, key, charged, now, headers, graphql=graphql)
