"""Cooldowns: a job is asked for again shortly before its cooldown ends, and right after, by what is stated.

When to ask is taken from the account's entitlements, else from the wait that a refusal states; how near to
the end, from how long calls take and from what judges allow for whole seconds. Of a cooldown so short that a
fifth of it is less than that, the same is tried on further domains, begun at other places in a second. A
cooldown that lasts longer than `LONGEST` is not waited for.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from ranksim.core.callers.requests import create, job_body
from ranksim.core.callers.retry import bounded_wait, is_limited, politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Spawn, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import Chance, User, has_ended, id_of
from ranksim.judge.profiles.profile import Needs, Profile

KINDS = ("rank_run", "crawl", "site_optimization")
"""What cools (S52-S54)."""

LONGEST = 5 * MINUTE
"""On our clock: a longer cooldown is not waited for."""

HIDDEN = SECOND
"""What whole seconds may hide of a cooldown, of business time: judges take nothing shorter for too early."""

MARGIN = 50 * MILLISECOND
"""Between a probe and the instant that it must not pass, beside what a call takes."""

SOON = (17, 20)
"""Where in a short cooldown it is tried on further domains: a fifth that is missing shows there."""

PLACES = 3
"""Places in a second at which short cooldowns begin: no count in whole seconds hides a half from all."""

REST = 20 * SECOND
"""Between two laps or tries, so that all users together stay below the limit of expensive calls (S104)."""

APART = 12 * SECOND
"""Between two of these places, so that those of two kinds leave room in the limit of expensive calls."""

TRIES = 4
"""Domains at most on which a kind is tried until one can tell."""

ROOM = 8
"""Calls that the rate limit must still admit after the first of a try, for the others and those beside it."""

AFTER = 4
"""Probes after the end at most."""


def cooldowns(me: User) -> Program:
    """Try the user's share of the kinds, again and again, each time on new domains."""
    assigned, turn = KINDS[me.number :: me.users], 0
    while assigned:
        for kind in assigned:
            yield from _cooled(me, kind, turn)
        turn += 1
        yield Lap()
        yield Pause(REST)


def _cooled(me: User, kind: str, turn: int) -> Program:
    """Try a kind on a new domain, on another where that could not tell, and a short cooldown on further ones.

    Nothing is told where the job failed, which may end its cooldown, or where the rate limit refused calls.
    """
    target, length, is_stated = me.reach.target, me.reach.cooldown(kind), False
    if length == 0 or (length is not None and length // target.time_scale > LONGEST):
        return
    for number in range(TRIES):
        if is_stated:
            break
        yield Pause(REST // target.traffic_scale if number else 0)
        length, is_stated = yield from _asked_again(me, kind, (turn, number), length)
    if length is not None and is_short(length):
        yield from _at_places(me, kind, turn, length)


def _asked_again(
    me: User, kind: str, turn: tuple[int, int], length: Micros | None
) -> Generator[Any, Any, tuple[Micros | None, bool]]:
    """Start a job, see it end, and ask again: at any time, shortly before the cooldown ends, and after.

    One that ends before its job does is asked for as soon as that is over: it may begin only then (U46).
    Return how long it is, which a refusal tells where nothing else does, and whether the answers can tell.
    """
    scale, parts = me.reach.target.time_scale, ("cooled", kind, *turn)
    domain, once = (yield from me.domain(*parts)), me.named(*parts)
    send = create("jobs", me.key, job_body(kind, domain or "none"), once)
    first: Received = yield from politely(send)
    if not id_of(first) or (yield from _crowded(me.reach, first)):
        return length, False
    for again in range(2 if kind == "rank_run" else 1):  # which joins a rank run alone, and always (S52)
        yield replace(send, idempotency_key=f"{once}-at-once-{again}")
    every = 5 * SECOND if length is None else max(HIDDEN // 2, min(5 * SECOND, length // 8))
    done = yield from _seen_over(me, kind, id_of(first), first.sent + MINUTE // scale, every)
    if length is None:
        refused: Received = yield replace(send, idempotency_key=f"{once}-refused")
        if refused.code != "cooldown_active":
            return None, refused.ok
        length = (refused.received - first.sent) * scale + bounded_wait(refused)
    trip = first.received - first.sent
    before = first.sent + (length - HIDDEN) // scale - 2 * trip - MARGIN
    draw = replace(me, number=0).chance(f"cooldowns {kind} {turn}")
    # A rank run is joined while it runs, which hides what cools then.
    is_stated = yield from _before(send, before, draw, hidden=kind == "rank_run")
    if is_stated is None:
        yield from politely(Send("jobs.get", me.key, path={"kind": kind, "id": id_of(first)}))
        return length, done
    answered = yield from _after(send, first.received + length // scale, scale)
    return length, done and is_stated and answered


def _before(send: Send, before: Micros, draw: Chance, *, hidden: bool) -> Generator[Any, Any, bool | None]:
    """Ask at any time before an instant, and at it; tell if the cooldown was seen, None if a job began.

    Where the instant has passed, nothing needs to be seen, unless what cools then is `hidden`.
    """
    now: Micros = yield Pause(0)
    is_stated = before <= now and not hidden
    for instant in (now + draw.randrange(max(1, before - now)), before):
        if instant <= now or before - now > LONGEST:
            continue
        yield Until(instant)
        answer: Received = yield replace(send, idempotency_key=f"{send.idempotency_key}-{instant}")
        if answer.ok:
            return None
        is_stated = is_stated or answer.code == "cooldown_active"
        now = answer.received
    return is_stated


def _crowded(reach: Reach, answer: Received) -> Generator[Any, Any, bool]:
    """Wait out a rate window that few more calls fit into; tell if it was so, by what a reply says."""
    left = answer.header("ratelimit-remaining")
    if not left.isascii() or not left.isdigit() or int(left) >= ROOM:
        return False
    yield Pause(MINUTE // reach.target.traffic_scale)
    return True


def is_short(length: Micros) -> bool:
    """Return whether whole seconds, and what calls take, may hide a fifth of a cooldown (business µs)."""
    return 2 * SECOND <= length <= 8 * HIDDEN


def _at_places(me: User, kind: str, turn: int, length: Micros) -> Program:
    """Begin short cooldowns at several places in a second of business time, and ask again late in each.

    Where a job failed, which may end its cooldown, or a call was put off, the place is tried once more.
    """
    places = [*range(PLACES)]
    for number in range(2 * PLACES):
        if not places:
            return
        if (yield from _at_place(me, kind, (turn, number), length, places[0])):
            places.pop(0)
        yield Pause(APART // me.reach.target.traffic_scale)


def _at_place(
    me: User, kind: str, turn: tuple[int, int], length: Micros, place: int
) -> Generator[Any, Any, bool]:
    """Begin a short cooldown at a place in a second, and ask again; return whether that can tell."""
    scale, parts = me.reach.target.time_scale, ("cooled-at", kind, *turn)
    domain, once = (yield from me.domain(*parts)), me.named(*parts)
    send = create("jobs", me.key, job_body(kind, domain or "none"), once)
    now: Micros = yield Pause(0)
    second = SECOND // scale
    yield Until((now // second + 1) * second + place * second // PLACES)
    first: Received = yield send
    if not id_of(first) or (yield from _crowded(me.reach, first)):
        yield Pause(bounded_wait(first) // me.reach.target.traffic_scale if is_limited(first) else 0)
        return False
    soon = first.sent + length * SOON[0] // SOON[1] // scale
    done = yield from _seen_over(me, kind, id_of(first), soon - SECOND // 2 // scale)
    yield Until(soon)
    again: Received = yield replace(send, idempotency_key=f"{once}-soon")
    if id_of(again):  # too soon, unless the first had failed
        yield from politely(Send("jobs.get", me.key, path={"kind": kind, "id": id_of(first)}))
        yield from _seen_over(me, kind, id_of(again), again.received + 10 * SECOND // scale)
    return done and (again.ok or again.code == "cooldown_active")


def _seen_over(
    me: User, kind: str, job: str, until: Micros, every: Micros = HIDDEN // 2
) -> Generator[Any, Any, bool]:
    """Poll a job `every` so much business time until it is over, or an instant; tell if it failed not."""
    now: Micros = yield Pause(0)
    while now < until:
        answer = yield from politely(Send("jobs.get", me.key, path={"kind": kind, "id": job}))
        if has_ended(answer.data) or not answer.ok:
            job_shown = answer.data if isinstance(answer.data, dict) else {}
            return answer.ok and not job_shown.get("error_detail")
        now = yield Pause(every // me.reach.target.time_scale)
    return True


def _after(send: Send, over: Micros, scale: int) -> Generator[Any, Any, bool]:
    """Ask once the cooldown is over, once more when whole seconds hide nothing of that, then as it is told.

    The first time two ask at once, of which one is granted. Tell if any was answered.
    """
    yield Until(over + MARGIN)
    is_stated, twin = False, list[Received]()
    yield Spawn(_twin(replace(send, idempotency_key=f"{send.idempotency_key}-over-beside"), twin))
    for number in range(AFTER):
        answer: Received = yield replace(send, idempotency_key=f"{send.idempotency_key}-over-{number}")
        if answer.code == "cooldown_active":
            wait = HIDDEN // scale if not is_stated else bounded_wait(answer) // scale
            is_stated = True
            yield Pause(min(wait, LONGEST) + 4 * MARGIN)
            if any(answered.ok for answered in twin):
                return True
        elif answer.status == 429:
            yield Pause(bounded_wait(answer))
        elif answer.status:
            yield from _look(send, answer)
            return is_stated or answer.ok
    return is_stated


def _twin(send: Send, answers: list[Received]) -> Program:
    """Send, note the answer, and look at the job."""
    answers.append((yield send))
    yield from _look(send, answers[-1])


def _look(send: Send, answer: Received) -> Program:
    """Look at what was begun, once all that met it is answered: had it failed, both were in order."""
    if id_of(answer):
        yield Pause(answer.received - answer.sent + MARGIN)
        path = {"kind": str((send.body or {})["kind"]), "id": id_of(answer)}
        yield from politely(Send("jobs.get", send.key, path=path))


def _needs(reach: Reach, users: int) -> Needs:
    scale = reach.target.time_scale
    lengths = [reach.cooldown(kind) or 0 for kind in KINDS]
    waited = [length // scale for length in lengths if length // scale <= LONGEST]
    short = [length for length in lengths if is_short(length)]
    each = max([30 * SECOND // scale + 5 * SECOND, *waited])
    places = PLACES * (15 * SECOND // scale + APART // reach.target.traffic_scale) if short else 0
    return Needs(
        -(-len(KINDS) // users) * (each + 5 * SECOND + places),
        jobs=3 * TRIES * len(KINDS) + 4 * PLACES * len(short),
        expensive=6 * len(KINDS) + 3 * PLACES * len(short),
    )


COOLDOWNS = Profile(
    name="cooldowns",
    aim="Jobs asked for again shortly before their stated cooldowns end, and right after.",
    rules=("cooldown.",),
    users=3,
    duration=3 * MINUTE,
    plays=cooldowns,
    needs=_needs,
)
