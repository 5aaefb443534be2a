"""Rate limits by a table: which windows of the policy count a request, and for whom (S4, S105, U8, U11).

The three classes are one such table (`data/windows/rank-tracking.yaml`); what they leave open (U3, U10) a
table states.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ranksim.core.contract.facts import RATE_LABELS
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import NONE, Weigher, WindowEntry, who_states
from ranksim.core.rules import windows
from ranksim.core.rules.books import Charge, Window
from ranksim.core.service.administration import new_row
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.context import Context
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.rate_limits import GRAPHQL_WINDOWS, charge_all, rates_waived, write_standing
from ranksim.core.service.state import Key, State

GRAPHQL = " (GraphQL)"
"""What the name of a key's window ends with that counts GraphQL apart (U11)."""


def charge_table(
    ctx: Context, calls: Sequence[Call], key: Key | None, now: int, headers: dict[str, str]
) -> Reply | None:
    """Charge a request in each window of the policy's table that counts it, or answer 429 and charge nothing.

    A request over GraphQL counts as its calls do over REST, the heaviest alone where it is charged as one
    (U11). Without a usable key it is a read, counted by its address (U8, U87). The headers are those of the
    window with the least room, and none where no window counts it. What a reply weighs is charged by
    `charge_replies`; until then the request takes 1.
    """
    charges = []
    for entry in ctx.policy.windows:
        weights = _weights(entry, calls, counted=key is not None)
        weight = _together(ctx, weights)
        if weight:
            charges.append(Charge(entry.name, *_window_of(ctx, entry, calls[0], key), weight))
    if rates_waived(ctx):
        return None
    refused = charge_all(ctx, charges, now, headers)
    if refused is None and charges:
        _write_nearest(ctx, charges, now, headers)
        ctx.wait = max(windows.turn_after(charge.window) for charge in charges)
        ctx.charged = charges
    return refused


def charge_replies(
    ctx: Context, calls: Sequence[Call], replies: Sequence[Reply], now: int, headers: dict[str, str]
) -> None:
    """Charge what the replies to an admitted request weigh beyond what it took, room or not."""
    charges, ctx.charged = ctx.charged, ()
    by_name = {entry.name: entry for entry in ctx.policy.windows if entry.weighs_replies}
    later = [charge for charge in charges if charge.name in by_name]
    for charge in later:
        entry = by_name[charge.name]
        weigh = Weigher(entry.weigh)
        weights = [
            weigh.of_parsed({}, None, {**headers, **reply.headers}, reply.body)
            for call, reply in zip(calls, replies, strict=True)
            if entry.matches(*_request_line(call), call.headers or NONE)
        ]
        windows.overdraw(now, charge.window, charge.ring, max(0, _together(ctx, weights) - charge.units))
    if later:
        _write_nearest(ctx, charges, now, headers)


def _together(ctx: Context, weights: Sequence[int]) -> int:
    """Return what the calls of a request take: the sum, or the heaviest alone (U11)."""
    return sum(weights) if ctx.policy.assumptions.graphql_cost == "field" else max(weights, default=0)


def _write_nearest(ctx: Context, charges: Sequence[Charge], now: int, headers: dict[str, str]) -> None:
    """Write the headers of the window with the least room."""
    standing = [windows.standing(now, charge.window, charge.ring) for charge in charges]
    nearest = min(range(len(charges)), key=lambda place: standing[place])
    write_standing(ctx, charges[nearest].window, *standing[nearest], now, headers)


def key_windows(policy: Policy, state: State, key: Key) -> Iterator[tuple[str, Window, list[int]]]:
    """Yield each window of a key by its name: those of the classes, or those of the policy's table."""
    if not policy.windows:
        names = [label + surface for surface in ("", GRAPHQL) for label in RATE_LABELS]
        yield from zip(names, key.windows, key.rings, strict=False)  # GraphQL may have none of its own (U11)
    for entry in policy.windows:
        if entry.per == "key":
            place = f"{entry.name} {key.environment} {key.token}"
            window, ring = new_row(policy, entry)
            yield entry.name, state.callers.get(place, window), state.caller_rings.get(place, ring)


def key_window(ctx: Context, key: Key, name: str, *, graphql: bool) -> tuple[Window, list[int]]:
    """Return a window of a key to be counted in: of the class or, of a table, of the entry with that name."""
    if not ctx.policy.windows:
        place = (RATE_LABELS.index(name) + GRAPHQL_WINDOWS * graphql) % len(key.windows)
        return key.windows[place], key.rings[place]
    entry = next(entry for entry in ctx.policy.windows if entry.name == name)
    return _window_of(ctx, entry, Call("", environment=key.environment), key)


def key_window_names(policy: Policy) -> tuple[str, ...]:
    """Return the names of the windows that count for each key."""
    return tuple(entry.name for entry in policy.windows if entry.per == "key") or RATE_LABELS


def window_by_operation(policy: Policy) -> dict[str, str]:
    """Return by operation the name of the window that counts it: of a table the first that counts keys."""
    if not policy.windows:
        return {name: operation.rate_class(policy).label for name, operation in OPERATIONS.items()}
    lines = {name: (operation.method, f"/v1/{operation.path}") for name, operation in OPERATIONS.items()}
    entries = [entry for entry in policy.windows if entry.per == "key"]
    return {
        name: next((entry.name for entry in entries if entry.matches(*line)), "")
        for name, line in lines.items()
    }


def _weights(entry: WindowEntry, calls: Sequence[Call], *, counted: bool) -> list[int]:
    """Return what each of the calls that a window counts takes of it."""
    if not counted:
        return [1] if entry.matches("GET", "") else []
    weigh = Weigher("" if entry.weighs_replies else entry.weigh)
    matching = [call for call in calls if entry.matches(*_request_line(call), call.headers or NONE)]
    return [weigh.of_parsed(call.headers or {}, call.body, {}, None) for call in matching]


def _request_line(call: Call) -> tuple[str, str]:
    """Return the method and path of a call, as over REST; the path is "" where it is none of the API's."""
    operation = OPERATIONS.get(call.operation)
    if operation is None:
        return call.method, ""
    return operation.method, "/v1/" + operation.path.format_map(defaultdict(str, call.path))


def _window_of(ctx: Context, entry: WindowEntry, call: Call, key: Key | None) -> tuple[Window, list[int]]:
    """Return the window of whoever a request is counted for, untouched where it is the first."""
    who = call.caller if key is None else key.token
    if ":" in entry.per:
        who = who_states(entry.per, call.headers or NONE, call.body)
    elif entry.per != "key":
        who = {"client": call.caller, "path": _request_line(call)[1], "all": ""}[entry.per]
    place = f"{entry.name} {call.environment} {who}"
    if place not in ctx.state.callers:
        ctx.state.callers[place], ctx.state.caller_rings[place] = new_row(ctx.policy, entry)
    return ctx.state.callers[place], ctx.state.caller_rings[place]
