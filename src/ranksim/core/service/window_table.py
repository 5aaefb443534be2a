"""Rate limits by a table: which windows of the policy count a request, and for whom (S4, S105, U8, U11).

The three classes are one such table (`data/windows/rank-tracking.yaml`); what they leave open (U3, U10) a
table states.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ranksim.core.contract.facts import RATE_LABELS
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import Weigher, WindowEntry
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.core.service.administration import new_row
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.context import Context
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.rate_limits import Charge, charge_all, rates_waived, write_standing
from ranksim.core.service.state import Key, State


def charge_table(
    ctx: Context, calls: Sequence[Call], key: Key | None, now: int, headers: dict[str, str]
) -> Reply | None:
    """Charge a request in each window of the policy's table that counts it, or answer 429 and charge nothing.

    A request over GraphQL counts as its calls do over REST, the heaviest alone where it is charged as one
    (U11). Without a usable key it is a read, counted by its address (U8, U87). The headers are those of the
    window with the least room, and none where no window counts it.
    """
    charges = []
    for entry in ctx.policy.windows:
        weights = _weights(entry, calls, counted=key is not None)
        weight = sum(weights) if ctx.policy.assumptions.graphql_cost == "field" else max(weights, default=0)
        if weight:
            charges.append(Charge(entry.name, *_window_of(ctx, entry, calls[0], key), weight))
    if rates_waived(ctx):
        return None
    refused = charge_all(ctx, charges, now, headers)
    if refused is None and charges:
        standing = [windows.standing(now, charge.window, charge.ring) for charge in charges]
        nearest = min(range(len(charges)), key=lambda place: standing[place])
        write_standing(ctx, charges[nearest].window, *standing[nearest], now, headers)
        ctx.wait = max(windows.turn_after(charge.window) for charge in charges)
    return refused


def key_windows(policy: Policy, state: State, key: Key) -> Iterator[tuple[str, Window, list[int]]]:
    """Yield each window of a key by its name: those of the classes, or those of the policy's table."""
    if not policy.windows:
        names = [label + surface for surface in ("", " (GraphQL)") for label in RATE_LABELS]
        yield from zip(names, key.windows, key.rings, strict=False)  # GraphQL may have none of its own (U11)
    for entry in policy.windows:
        if entry.per == "key":
            place = f"{entry.name} {key.environment} {key.token}"
            window, ring = new_row(policy, entry)
            yield entry.name, state.callers.get(place, window), state.caller_rings.get(place, ring)


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
    weigh = Weigher(entry.weigh)
    matching = [call for call in calls if entry.matches(*_request_line(call))]
    return [weigh.of_json(call.body) if entry.weigh else 1 for call in matching]


def _request_line(call: Call) -> tuple[str, str]:
    """Return the method and path of a call, as over REST; the path is "" where it is none of the API's."""
    operation = OPERATIONS.get(call.operation)
    if operation is None:
        return call.method, ""
    return operation.method, "/v1/" + operation.path.format_map(defaultdict(str, call.path))


def _window_of(ctx: Context, entry: WindowEntry, call: Call, key: Key | None) -> tuple[Window, list[int]]:
    """Return the window of whoever a request is counted for, untouched where it is the first."""
    who = call.caller if key is None else key.token
    if entry.per != "key":
        who = {"client": call.caller, "path": _request_line(call)[1], "all": ""}[entry.per]
    place = f"{entry.name} {call.environment} {who}"
    if place not in ctx.state.callers:
        ctx.state.callers[place], ctx.state.caller_rings[place] = new_row(ctx.policy, entry)
    return ctx.state.callers[place], ctx.state.caller_rings[place]
