"""The guard ladder: every spending operation, dry and real, one failing check at a time, then pairs.

Which checks fail together depends on the keys: an account past due that has used everything up shows check 2
before all others, an account near its limits shows 4, 5 and 6 in all pairs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ranksim.core.callers.manners import parse_retry_after, politely
from ranksim.core.callers.requests import briefs_body, job_body, keywords_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Spawn
from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.views import created_by
from ranksim.judge.deployment.discovery import GRAPHQL, KeyReach, Reach
from ranksim.judge.profiles import ceiling
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.making import a_domain, a_list, failing_domain, id_of, wait_for_job
from ranksim.judge.profiles.profile import Needs, Profile
from ranksim.judge.profiles.rung import (
    KINDS,
    LAST,
    ROOMY,
    Rung,
    a_rung,
    at_a_pace,
    at_once,
    breath,
    climbers,
    dry,
    one_by_one,
    promptly,
    read_on,
    read_used,
    spend_of,
    too_much,
    watch,
)

LEFT_OVER = 3
"""Units of an allowance that are used up where so few are left to an account near its limits."""

SOON = 10 * SECOND
"""The longest cooldown, by what a refusal says of it, that a ladder waits for (business time)."""

FAILS = 10
"""Seconds that a job takes until it has failed, about (business time)."""

FOREVER = ("entitlement_required", "subscription_inactive")
"""What no second try is granted."""


def ladder(reach: Reach, user: int, users: int, seed: int, *, up: bool = True) -> Program:
    """Climb with the user's share of the keys, again and again, `up` to the ceiling where it is steep."""
    assigned = climbers(reach)[user::users]
    if not assigned:
        yield from watch(reach)
        return
    rungs = []
    for key in assigned:
        rungs.append((yield from a_rung(reach, key, seed, user)))
    while True:
        for rung in rungs:
            yield from _climb(reach, rung)
            if up and ceiling.steep(reach, rung.key):
                yield from ceiling.to_the_ceiling(reach, rung)
        yield Lap()
        yield Pause(10 * SECOND)


def _climb(reach: Reach, rung: Rung) -> Program:
    for send in one_by_one(rung):
        yield from _both(reach, rung, send)
    for send in too_much(rung):
        yield from _both(reach, rung, send, again=False)
    yield from _pairs(reach, rung)
    yield from _widen(reach, rung)
    yield from _failures(reach, rung)
    yield from read_on(rung)


def _both(reach: Reach, rung: Rung, send: Send, *, again: bool = True) -> Program:
    """Try by dry run, twice for real, then by dry run again, with readings of what is used in between.

    What cools is asked for again at once; then once more, which shows whether the last dry run was right, and
    when it says that this is over, where that is soon. A job that was begun is looked at, which shows whether
    it ran when it was asked for again. What is refused whatever was done before needs no second try, and the
    last briefs that cool are kept for `_pairs`. An account near its limits is asked twice at once for what
    cools or takes slots. Jobs are asked for over GraphQL, too (S4, E38).
    """
    spend = spend_of(send)
    kept = spend == "keyword_briefs" and rung.key.purpose == "near_limit" and rung.cools(spend)
    again = again and not kept
    yield from read_used(rung)
    yield from at_a_pace(reach, dry(send))
    yield from read_used(rung)
    if again and rung.key.purpose == "near_limit" and (spend == "scans" or rung.cools(spend)):
        yield Spawn(_alone(replace(send, idempotency_key=rung.once())))
    asking = promptly if again and rung.cools(spend) else partial(at_a_pace, reach)
    answer: Received = yield from asking(replace(send, idempotency_key=rung.once()))
    yield from read_used(rung)
    again = again and answer.code not in FOREVER
    begun = id_of(answer) if again and send.operation == "jobs.create" else ""
    if again:
        answer = yield from at_a_pace(reach, replace(send, idempotency_key=rung.once()))
        yield from _look(rung, spend, begun)
        yield from read_used(rung)
    yield from _over_graphql(reach, rung, send)
    yield from at_a_pace(reach, dry(send))
    if answer.code != "cooldown_active":
        return
    answer = yield from at_a_pace(reach, replace(send, idempotency_key=rung.once()))
    wait = parse_retry_after(answer)
    if answer.code == "cooldown_active" and wait is not None and wait <= SOON:
        yield Pause(wait // reach.target.time_scale)
        yield from at_a_pace(reach, replace(send, idempotency_key=rung.once()))
    yield from _look(rung, spend, begun)


def _over_graphql(reach: Reach, rung: Rung, send: Send) -> Program:
    """Ask over GraphQL for what was asked for over REST, where there are both, and read what is used.

    Keys that climb last show nothing there that others do not.
    """
    over = over_graphql(send) if reach.can(GRAPHQL) and rung.key.purpose not in LAST else None
    if over is not None:
        yield from at_a_pace(reach, replace(over, idempotency_key=rung.once()))
        yield from read_used(rung)


def _look(rung: Rung, kind: str, job: str) -> Program:
    """Look at a job, if there is one."""
    if job:
        yield from politely(Send("jobs.get", rung.key.name, path={"kind": kind, "id": job}))


def _widen(reach: Reach, rung: Rung) -> Program:
    """Widen our scan by PATCH beyond the slots or the dimensions, and pause it (E19, U95)."""
    yield from politely(Send("scans.list", rung.key.name, query={"domain_id": rung.domain}))
    path = {"id": rung.scan or "none"}
    places = [{"country": country} for country in ("DE", "AT")]
    many = [{"country": f"{a}{b}"} for a in "ABCDE" for b in "ABCDEFGH"]
    for body in ({"geographies": places}, {"geographies": many}, {"active": False}, {"active": True}):
        yield from politely(Send("scans.update", rung.key.name, path=path, body=body))
        yield from read_used(rung)


def _failures(reach: Reach, rung: Rung) -> Program:
    """Start jobs where they fail, and read what one that failed has cost; then ask again, which may cool.

    What a job had reserved, and whether a failed one begins a cooldown, shows nowhere else (U46, U49).
    """
    domain, key = failing_domain(reach, rung.key.name), rung.key.name
    for kind in KINDS if domain else ():
        send = Send("jobs.create", key, body=job_body(kind, domain))
        for _ in range(2):
            answer = yield from at_a_pace(reach, replace(send, idempotency_key=rung.once()))
            yield from read_used(rung)
            if id_of(answer):
                yield from wait_for_job(reach, kind, id_of(answer), key=key)
                yield from read_used(rung)


def _pairs(reach: Reach, rung: Rung) -> Program:
    """Ask for too much of what cools: checks 4, 5 and 6 together, and 5 and 6 where few slots are free.

    A word of a list that nothing tracks begins the cooldown, where keywords have one, and takes no slot.
    """
    key, plain = rung.key.name, ""
    if rung.key.purpose != "past_due":
        parts = ("ladder-plain", rung.user, rung.new())
        plain = yield from a_list(reach, rung.seed, rung.domain, *parts, key=key)
    yield from breath(reach, rung, "keywords")
    small = Send("keywords.create", key, body=keywords_body(plain or rung.listed, rung.words()))
    answer = yield from politely(replace(small, idempotency_key=rung.once()))
    free = yield from _few_free(rung)
    bodies = [keywords_body(rung.listed, rung.words(rung.too_many() + 500))]
    bodies += [] if free is None else [keywords_body(rung.listed, rung.words(free + 1))]
    bodies += [keywords_body(plain or rung.listed, rung.words()), keywords_body(rung.listed, rung.first())]
    yield from at_once(rung, *(Send("keywords.create", key, body=body) for body in bodies))
    if free:
        yield from _for_the_last(rung, *(keywords_body(rung.listed, rung.words(free)) for _ in range(2)))
    created = created_by(answer.data) if answer.ok else None
    for keyword in (created or ())[:1]:
        yield from politely(Send("keywords.delete", key, path={"id": str(keyword.get("id"))}))
    rest = yield from _rest_of_briefs(rung)
    yield from breath(reach, rung, "keyword_briefs")
    counts = (1, 1, 500)
    sends = [Send("keyword_briefs.create", key, body=briefs_body(rung.domain, rung.words(n))) for n in counts]
    if rest:
        yield from _for_the_last(rung, *(briefs_body(rung.domain, rung.words(rest)) for _ in range(2)))
    else:
        yield from politely(replace(sends[0], idempotency_key=rung.once()))
    yield from at_once(rung, *sends[1:])
    yield from _rank_runs_used_up(reach, rung)


def _for_the_last(rung: Rung, first: dict[str, Any], second: dict[str, Any]) -> Program:
    """Ask twice at once for all that is left, of which one is granted; and read what is used around it."""
    operation = "keywords.create" if "list_id" in first else "keyword_briefs.create"
    sends = [
        Send(operation, rung.key.name, body=body, idempotency_key=rung.once()) for body in (first, second)
    ]
    yield from read_used(rung)
    yield Spawn(_alone(sends[0]))
    yield sends[1]
    yield Pause(SECOND)
    yield from read_used(rung)


def _alone(send: Send) -> Program:
    yield send


def _few_free(rung: Rung) -> Generator[Any, Any, int | None]:
    """Return how many slots are free where they are few: one word more exceeds them, and hardly a quota."""
    if rung.key.purpose != "near_limit" or "slots.get" in rung.key.lacks:
        return None
    answer: Received = yield from politely(Send("slots.get", rung.key.name))
    free = answer.data.get("available") if isinstance(answer.data, Mapping) else None
    return free if isinstance(free, int) and 0 <= free < ROOMY else None


def _rest_of_briefs(rung: Rung) -> Generator[Any, Any, int]:
    """Return how many briefs are left to an account near its limits, where they are few; else 0."""
    usage = yield from read_used(rung)
    left = replace(rung.key, reads={"account.usage": usage}).left("brief")
    near = rung.key.purpose == "near_limit"
    return left if near and left is not None and 0 < left <= LEFT_OVER else 0


def _rank_runs_used_up(reach: Reach, rung: Rung) -> Program:
    """Use up what is left of an allowance of rank runs, if there is one, and ask again for the last."""
    if rung.key.purpose != "near_limit" or not rung.cools("rank_run"):
        return
    last: Send | None = None
    for _ in range(LEFT_OVER):
        where = yield from a_domain(reach, rung.seed, "ladder", rung.user, rung.new(), key=rung.key.name)
        send = Send("jobs.create", rung.key.name, body=job_body("rank_run", where or rung.domain))
        answer: Received = yield from politely(replace(send, idempotency_key=rung.once()))
        if id_of(answer):
            last, run = send, id_of(answer)
        elif answer.code == "quota_exhausted" and last is not None:
            yield from wait_for_job(reach, "rank_run", run, 60, rung.key.name, SECOND)
            yield from at_once(rung, last)
            return


def needs_of(reach: Reach, climbing: Sequence[KeyReach], users: int) -> Needs:
    """Return what it takes so many users to climb once with these keys, as far as no ceiling is reached."""
    length = max(2 * MINUTE * len(climbing) // max(1, users), 2 * MINUTE)
    most = [key.left("brief") for key in climbing]
    failing = 2 * len(KINDS) * sum(bool(failing_domain(reach, key.name)) for key in climbing)
    return Needs(
        length // reach.target.traffic_scale + (30 + FAILS * failing) * SECOND // reach.target.time_scale,
        12 * len(climbing) + failing,
        sum(503 if left is None else min(left, 503) for left in most),
        60 * len(climbing),
    )


def _all_needs(reach: Reach, users: int) -> Needs:
    rungs = needs_of(reach, climbers(reach), users)
    up = ceiling.needs_of(reach, ceiling.steep_ones(reach), users)
    return replace(rungs, length=rungs.length + up.length, jobs=rungs.jobs + up.jobs)


LADDER = Profile(
    name="ladder",
    aim="The six checks in order: each alone, then pairs, by dry run and for real, and what they consume.",
    rules=("guards.", "dry_run.", "quota.", "slots.", "cost.", "cooldown.", "error."),
    users=5,
    duration=6 * MINUTE,
    program=ladder,
    needs=_all_needs,
)

RUNGS = replace(
    LADDER,
    name="rungs",
    aim="The ladder, as far as no account comes to its cost ceiling.",
    duration=3 * MINUTE,
    program=partial(ladder, up=False),
    needs=lambda reach, users: needs_of(reach, climbers(reach), users),
)
