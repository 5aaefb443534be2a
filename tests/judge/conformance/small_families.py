"""Families of small histories beside those of `test_brute_force`: slots, cost, paging, access, webhooks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, product
from typing import Any, Final, TypeAlias

from tests.judge.conformance.placing import Family, Limits, Op, words
from tests.kit import spending, traces

from ranksim.core.clock import SECOND
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.calls import access, pagination
from ranksim.judge.conformance.webhooks import auto_disable, failure_runs

Words: TypeAlias = tuple[Any, ...]
"""What is asked, or told."""


def at(op: Op) -> tuple[float, dict[str, Any]]:
    """When a call is sent, in seconds, and how long it takes."""
    took = ((op.received or op.sent + 10) - op.sent) / SECOND
    return op.sent / SECOND, {"took": took, "lost": op.received is None}


# Slots: what is added counts, and what is removed stays counted

ROOM: Final = 7
POOL: Final = frozenset(range(1, 5))


def slots_ask(rng: random.Random) -> Words:
    return rng.choice((("read",), ("read",), ("add",), ("remove", rng.choice(sorted(POOL)))))


def slots_answer(
    state: Any, asks: tuple[Any, ...], at: int, rng: random.Random
) -> tuple[Any, tuple[Any, ...]]:
    """State: which of the words that were there are left, how many were added, how many are held."""
    left, added, held = state
    used = len(left) + added + held
    if asks[0] == "read":
        return state, ("used", len(left) + added, held)
    if asks[0] == "add":
        return (state, ("refused", used)) if used >= ROOM else ((left, added + 1, held), ("granted",))
    if asks[1] not in left:
        return state, ("absent",)
    return (left - {asks[1]}, added, held + 1), ("gone",)


def slots_spoil(rng: random.Random, op: Op) -> Words:
    if op.asks[0] == "read":
        return "used", rng.randint(1, ROOM), rng.randint(0, 3)
    if op.asks[0] == "add":
        return rng.choice((("granted",), ("refused", rng.randint(4, ROOM + 1))))
    return op.told


def slots_apply(state: Any, op: Op, number: int, last: int) -> Iterator[tuple[Any, Limits]]:
    """State: as above, and whether the limit is the one that is stated.

    What the specification leaves to a deployment: the plan may have been changed after the last reading.
    """
    *slots, stated = state
    left, added, held = slots
    after, reply = slots_answer(tuple(slots), op.asks, 0, random.Random(0))
    if op.received is None or (reply == op.told and (stated or op.told[0] not in ("used", "refused"))):
        yield (*after, stated), ()
    if op.asks[0] == "add" and (op.received is None or op.told == ("granted",)):
        yield (left, added + 1, held, False), ()


def slots_verdicts(ops: list[Op]) -> dict[str, str]:
    d, fresh = spending, count(1)
    pool = d.words(-6, *(f"w{number}" for number in sorted(POOL)), added=len(POOL))
    ids = dict(zip(sorted(POOL), d.created_ids(pool), strict=True))
    calls = [d.domain(-9), d.listed(-8), d.scan(-7, id="s"), pool, d.slots(-5, len(POOL), limit=ROOM)]
    for op in ops:
        sent, how = at(op)
        if op.asks[0] == "read":
            active, held = op.told[1:] or (0, 0)
            calls.append(d.slots(sent, active, held, limit=ROOM, **how))
        elif op.asks[0] == "add":
            refused = d.full(op.told[1], 1, ROOM, held=None) if op.told[:1] == ("refused",) else {}
            calls.append(d.words(sent, f"fresh {next(fresh)}", **how, **refused))
        else:
            absent = {"code": "not_found", "status": 404} if op.told == ("absent",) else {"status": 204}
            calls.append(d.call(sent, "keywords.delete", path={"id": ids[op.asks[1]]}, **how, **absent))
    return words(d.judged(calls, traces.policy_of(narrowing="held", re_add="consumes_hold")), "slots.")


# Cost: each job reserves 3, and settles at 3 at some time; at 9 no other is begun

PRICE: Final = 3
CEILING: Final = 9


def cost_ask(rng: random.Random) -> Words:
    return ("read",) if rng.random() < 0.5 else ("run",)


def cost_answer(
    state: Any, asks: tuple[Any, ...], at: int, rng: random.Random
) -> tuple[Any, tuple[Any, ...]]:
    """State: how much is settled, and how many jobs run."""
    settled, running = state
    ended = rng.randint(0, running)
    settled, running = settled + PRICE * ended, running - ended
    spent = settled + PRICE * running
    if asks[0] == "read":
        return (settled, running), ("cost", settled, PRICE * running)
    if spent >= CEILING:
        return (settled, running), ("refused", spent)
    return (settled, running + 1), ("granted",)


def cost_spoil(rng: random.Random, op: Op) -> Words:
    if op.asks[0] == "read":
        return "cost", rng.randrange(0, CEILING + 4, PRICE), rng.randrange(0, CEILING + 4, PRICE)
    return rng.choice((("granted",), ("refused", rng.randrange(0, CEILING + 4, PRICE))))


RICHEST: Final = 24


def cost_apply(state: Any, op: Op, number: int, last: int) -> Iterator[tuple[Any, Limits]]:
    """State: what is settled and reserved, and whether the ceiling is the one that is stated.

    What the specification leaves to a deployment: what a job reserves and what it comes to, also as it goes,
    is anything; and what scans commit settles by itself. The plan may have been changed after the last
    reading.
    """
    settled, reserved, stated = state
    if op.received is None and op.asks[0] == "read":
        yield state, ()
        return
    for had, holds in product(range(settled, RICHEST + 1, PRICE), range(0, reserved + 1, PRICE)):
        if op.received is None or op.told[0] == "granted":
            changes = [False] if not stated else [True, False] if had + holds < CEILING else [False]
            for kept in changes:
                for more in range(holds, RICHEST + 1, PRICE):
                    yield (had, more, kept), ()
        elif stated and op.told in (("cost", had, holds), ("refused", had + holds)):
            full = op.told[0] == "cost" or had + holds >= CEILING
            yield from [((had, holds, stated), ())] if full else []


def _usd(amount: int) -> str:
    return f"{amount}.000000"


def cost_verdicts(ops: list[Op]) -> dict[str, str]:
    d, ids, ceiling = spending, count(1), _usd(CEILING)
    calls = [d.domain(-9), d.cost(-5, _usd(0), _usd(0), spent=_usd(0), ceiling=ceiling)]
    for op in ops:
        sent, how = at(op)
        if op.asks[0] == "read":
            amounts = op.told[1:] or (0, 0)
            spent = _usd(sum(amounts))
            calls.append(d.cost(sent, *map(_usd, amounts), spent=spent, ceiling=ceiling, **how))
        else:
            refused = d.capped(_usd(op.told[1]), ceiling) if op.told[:1] == ("refused",) else {}
            calls.append(d.job(sent, "ai_scan", id=f"j{next(ids)}", **how, **refused))
    pinned = traces.policy_of(
        cost_gate="at_ceiling", cost_timing="reserve", spent_counts="settled_and_reserved"
    )
    return words(d.judged(calls, pinned), "cost.", "guards.ceiling")


# Paging: a list shows what is there, whoever made it, and what was deleted does not come back

THERE: Final = frozenset("abc")
NEW: Final = "de"


def list_ask(rng: random.Random) -> Words:
    if rng.random() < 0.6:
        return ("list",)
    return ("make",) if rng.random() < 0.2 else ("remove", rng.choice("abcd"))


def list_answer(
    state: Any, asks: tuple[Any, ...], at: int, rng: random.Random
) -> tuple[Any, tuple[Any, ...]]:
    """State: what is there, and what ever was."""
    there, ever = state
    if asks[0] == "list":
        return state, ("shows", "".join(sorted(there)))
    if asks[0] == "make":
        made = next((one for one in NEW if one not in ever), "")
        return (there | {*made}, ever | {*made}), ("made", made)
    return (there - {asks[1]}, ever), ("gone",) if asks[1] in there else ("absent",)


def list_spoil(rng: random.Random, op: Op) -> Words:
    if op.asks[0] == "list":
        return "shows", "".join(one for one in "abcd" if rng.random() < 0.6)
    return rng.choice((("gone",), ("absent",))) if op.asks[0] == "remove" else op.told


def list_apply(state: Any, op: Op, number: int, last: int) -> Iterator[tuple[Any, Limits]]:
    """Judged leniently: a DELETE of nothing may succeed, and a creation may be told of when all is over."""
    (there, ever), lost = state, op.received is None
    if op.asks[0] == "list":
        listing = {*op.told[1]} if op.told else there
        if there <= listing and not (listing - there) & ever:
            yield (there | listing, ever | listing), ()
    elif op.asks[0] == "make":
        made = {*op.told[1]} if op.told else frozenset()
        yield (there | (made - ever), ever | made), ()
        yield (there, ever | made), ()
    elif lost or op.told == ("gone",):
        yield (there - {op.asks[1]}, ever if lost else ever | {op.asks[1]}), ()
    elif op.asks[1] not in there:
        yield state, ()


def list_verdicts(ops: list[Op]) -> dict[str, str]:
    entries = [traces.call("domains.list", -5, -4, [{"id": one} for one in "abc"])]
    for op in ops:
        sent, received = op.sent / SECOND, None if op.received is None else op.received / SECOND
        if op.asks[0] == "list":
            listing = [{"id": one} for one in (op.told[1] if op.told else "")]
            entries.append(traces.call("domains.list", sent, received, listing))
        elif op.asks[0] == "make":
            made = {"id": op.told[1]} if op.told and op.told[1] else None
            entries.append(traces.call("domains.create", sent, received, made, status=201))
        else:
            how: dict[str, Any] = {"code": "not_found", "status": 404} if op.told == ("absent",) else {}
            how = how or {"status": 204, "reply": ""}
            entries.append(traces.call("domains.delete", sent, received, path={"id": op.asks[1]}, **how))
    return words(traces.judged(pagination, entries), "paging.")


# Access: a key works from its issue until it is withdrawn, for its scope; what is no key of the target never

NOT_ISSUED, ISSUED, WITHDRAWN = range(3)


def access_ask(rng: random.Random) -> Words:
    if rng.random() < 0.3:
        return "scoped", rng.choice(("dom_1", "dom_2"))
    return rng.choice(("main", "main", None, "unknown")), rng.choice(("domains.list", "labels.create"))


def access_answer(
    state: Any, asks: tuple[Any, ...], at: int, rng: random.Random
) -> tuple[Any, tuple[Any, ...]]:
    """State: whether the key is issued; it may be from the start, or late, and withdrawn early."""
    if asks[0] != "main":
        return state, ("done",) if asks == ("scoped", "dom_1") else ("refused",)
    if state < WITHDRAWN and rng.random() < 0.1:
        state += 1
    return state, ("done",) if state == ISSUED else ("refused",)


def access_spoil(rng: random.Random, op: Op) -> Words:
    return rng.choice((("done",), ("refused",)))


def access_apply(state: Any, op: Op, number: int, last: int) -> Iterator[tuple[Any, Limits]]:
    """Judged leniently: nobody sees a key issued or withdrawn (S72), so it may be at any time, each once.

    A scoped key may not find what is its own: a DELETE that nobody saw explains it.
    """
    if op.asks[0] == "scoped":
        if op.received is None or op.told == ("refused",) or op.asks[1] == "dom_1":
            yield state, ()
        return
    for after in range(state, WITHDRAWN + 1):
        done = op.asks[0] == "main" and after == ISSUED
        if op.received is None or op.told == (("done",) if done else ("refused",)):
            yield after, ()


def access_verdicts(ops: list[Op]) -> dict[str, str]:
    two = [{"id": "dom_1"}, {"id": "dom_2"}]
    entries = [traces.call("domains.list", -5, -4, two, key="second")]
    for op in ops:
        key, operation = op.asks
        sent, received = op.sent / SECOND, None if op.received is None else op.received / SECOND
        how: dict[str, Any] = {"code": "unauthorized", "status": 401} if op.told == ("refused",) else {}
        if key == "scoped":
            how |= {"path": {"id": operation}, "data": {"id": operation}}
            how |= {"code": "not_found", "status": 404} if op.told == ("refused",) else {}
            operation = "domains.get"
        else:
            how["data"] = [] if operation == "domains.list" else {"id": "l"}
        entries.append(traces.call(operation, sent, received, key=key, **how))
    return words(traces.judged(access, entries), "access.")


# Webhooks: three failures in a row disable an endpoint, which gets no attempt until it is enabled again
#
# What the specification leaves to a deployment explains, too: an attempt that was made SETTLING before it
# came, an outcome that was noted NOTED after the answer, a reading that shows what was SHOWING before, what
# becomes of the count while it is disabled or by a PATCH that enables what is enabled, and anything at all
# after another PATCH.

IN_A_ROW: Final = 3
READINGS: Final = tuple(product(("attempt", "event"), ("zero", "kept")))


def hook_ask(rng: random.Random) -> Words:
    """Ask for a look, a PATCH or an attempt: its status (0: silence), its number, whether that is listed."""
    kind = rng.choices(("look", "attempt", "enable", "change"), (30, 60, 9, 1))[0]
    if kind != "attempt":
        return (kind,)
    return kind, rng.choices((500, 200, 0), (6, 2, 1))[0], rng.choice((1, 1, 6)), rng.random() < 0.8


def hook_answer(
    state: Any, asks: tuple[Any, ...], at: int, rng: random.Random
) -> tuple[Any, tuple[Any, ...]]:
    """State: what counts and what a PATCH leaves of the count, whether it is enabled, failures in a row."""
    if asks[0] == "look":
        return state, ("enabled" if state[2] else "disabled",)
    if asks[0] == "attempt":
        effect = "ended", asks[1] == 200, asks[2] == 6
        return rng.choice(list(hook_after(state, effect))), ("answered",)
    return next(iter(hook_after(state, asks))), ("enabled",)


def hook_spoil(rng: random.Random, op: Op) -> Words:
    return rng.choice((("enabled",), ("disabled",))) if op.asks[0] == "look" else op.told


def hook_after(state: Any, effect: Words) -> Iterator[Any]:
    """Yield the states that may follow."""
    counted, on_enable, enabled, failed = state
    if effect[0] == "change":
        yield (*state[:2], None, 0)
    elif effect[0] == "enable":
        if enabled or on_enable == "zero":
            yield counted, on_enable, True, 0
        if enabled or on_enable == "kept":
            yield counted, on_enable, True, failed
    elif effect[0] == "ended":
        _, acknowledged, last = effect
        if not enabled:
            yield state
        if acknowledged is not False:
            yield counted, on_enable, enabled, 0
        if not acknowledged:
            failed = min(IN_A_ROW, failed + (last or counted == "attempt"))
            yield counted, on_enable, enabled and failed < IN_A_ROW, failed


def hook_apply(state: Any, op: Op, number: int, last: int) -> Iterator[tuple[Any, Limits]]:
    if state[2] is None:
        yield state, ()
    elif op.asks[0] == "made":
        if state[2] or op.received is None:
            yield state, ()
    elif op.asks[0] == "look":
        if op.received is None or op.told == (("enabled",) if state[2] else ("disabled",)):
            yield state, ()
    else:
        yield from ((after, ()) for after in hook_after(state, op.asks))


def answered(op: Op) -> int:
    """When an attempt was answered: before its caller went on, and well within the sender's patience."""
    assert op.received is not None
    return max(op.sent + SECOND // 100, min(op.received - SECOND, op.sent + 4 * SECOND))


def hook_effects(ops: list[Op]) -> list[Op]:
    """An attempt was made and has ended; one without an answer never came, and failed at any time."""
    effects = []
    for op in ops:
        if op.asks[0] == "look":
            effects.append(replace(op, sent=op.sent - auto_disable.SHOWING))
        elif op.asks[0] != "attempt":
            effects.append(op)
        elif op.received is None:
            effects.append(Op(-10 * SECOND, None, ("ended", False, True)))
        else:
            _, status, number, listed = op.asks
            acknowledged = (True if listed else None) if status == 200 else False
            by = answered(op) if status else op.sent + Facts().webhook_timeout
            patience = 0 if listed and status else Facts().webhook_timeout
            by = max(by, op.sent + patience) + failure_runs.NOTED
            effects.append(Op(op.sent - auto_disable.SETTLING, op.sent, ("made",)))
            effects.append(Op(op.sent, by, ("ended", acknowledged, number == 6)))
    return sorted(effects, key=lambda effect: effect.sent)


def hook_entries(ops: list[Op]) -> Iterator[traces.Entry]:
    """Yield what a run shows of a history: the endpoint, what came to it, and the list of it at the end."""
    yield traces.created()
    listing = []
    for index, op in enumerate(ops):
        received = None if op.received is None else op.received / SECOND
        whom: dict[str, Any] = {"path": {"id": "whk_1"}}
        if op.asks[0] == "attempt":
            _, status, number, listed = op.asks
            name, status_noted = f"evt_{index}", status if listed and received else 0
            listing.append(traces.attempt(name, number, status_noted or None))
            if not status_noted:
                listing[-1]["duration_ms"] = 10_000
            if received is not None:
                end = answered(op) / SECOND if status else None
                yield traces.hook(op.sent / SECOND, end, event=name, attempt=number, status=status or None)
            continue
        if op.asks[0] == "look":
            operation = "webhooks.get"
            reply = traces.an_endpoint(enabled=op.told == ("enabled",))
        else:
            operation, reply = "webhooks.update", traces.an_endpoint()
            whom["body"] = {"enabled": True} if op.asks[0] == "enable" else {"url": "https://r.example/"}
        yield traces.call(operation, op.sent / SECOND, received, reply, **whom)
    yield traces.listed(max((op.received or op.sent) for op in ops) / SECOND + 60, *listing)


def hook_verdicts(ops: list[Op], **pinned: Any) -> dict[str, str]:
    facts = Facts.model_validate({"webhook_disable_after": IN_A_ROW})
    policy = traces.policy_of(**pinned).replace(facts=facts.model_dump())
    return words(traces.judged(auto_disable, hook_entries(ops), policy), "webhook.")


def hooks_family(*readings: tuple[str, str]) -> Family:
    """Attempts at one endpoint, under one reading of what is open, or under any."""
    pinned = (
        {} if len(readings) > 1 else dict(zip(("failure_counted", "count_on_enable"), *readings, strict=True))
    )
    return Family(
        8 * SECOND,
        tuple((*reading, True, 0) for reading in readings),
        hook_ask,
        hook_answer,
        hook_spoil,
        hook_apply,
        lambda ops: hook_verdicts(ops, **pinned),
        effects=hook_effects,
    )


FAMILIES: Final = {
    "slots": Family(
        SECOND, ((POOL, 0, 0),), slots_ask, slots_answer, slots_spoil, slots_apply, slots_verdicts
    ),
    "cost": Family(SECOND, ((0, 0),), cost_ask, cost_answer, cost_spoil, cost_apply, cost_verdicts),
    "paging": Family(SECOND, ((THERE, THERE),), list_ask, list_answer, list_spoil, list_apply, list_verdicts),
    "access": Family(
        SECOND, (NOT_ISSUED, ISSUED), access_ask, access_answer, access_spoil, access_apply, access_verdicts
    ),
    "webhooks": hooks_family(("attempt", "zero")),
    "webhooks, kept": hooks_family(("attempt", "kept")),
    "webhooks, by event": hooks_family(("event", "zero")),
    "webhooks, any": hooks_family(*READINGS),
}
