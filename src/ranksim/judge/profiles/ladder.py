"""The guard ladder: every spending operation, dry and real, one failing check at a time, then pairs.

Which checks fail together depends on the keys: an account past due that has used everything up shows check 2
before all others, an account near its limits shows 4, 5 and 6 in all pairs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ranksim.core.callers.requests import briefs_body, job_body, keywords_body
from ranksim.core.callers.retry import parse_retry_after, politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Spawn
from ranksim.core.clock import MINUTE, SECOND
from ranksim.judge.deployment.discovery import GRAPHQL, KeyReach, Reach
from ranksim.judge.profiles import cost_cap, precedence
from ranksim.judge.profiles.fixtures import WIDE, User, failing_domain, id_of, ids_of_keywords, one_call
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.precedence import KINDS, LAST, Rung, at_a_pace, at_once, dry, promptly, read_used
from ranksim.judge.profiles.profile import Claim, Needs, Profile

LEFT_OVER = 3
"""Units of an allowance that are used up where so few are left."""

SOON = 10 * SECOND
"""The longest cooldown, by what a refusal says of it, that a ladder waits for (business time)."""

FAILS = 10
"""Seconds that a job takes until it has failed, about (business time)."""

FOREVER = ("entitlement_required", "subscription_inactive")
"""What no second try is granted."""


def ladder(me: User, *, up: bool = True) -> Program:
    """Climb with the user's share of the keys, again and again, `up` to the ceiling where it is steep."""
    rungs = yield from precedence.begin(me, precedence.climbers(me.reach))
    while rungs:
        for rung in rungs:
            yield from _climb(rung)
            if up and cost_cap.steep(me.reach, rung.key):
                yield from cost_cap.to_the_ceiling(rung)
        yield Lap()
        yield Pause(10 * SECOND)


def _climb(rung: Rung) -> Program:
    for send in precedence.one_by_one(rung):
        yield from _both(rung, send)
    for send in precedence.too_much(rung):
        yield from _both(rung, send, again=False)
    yield from _pairs(rung)
    yield from _widen(rung)
    yield from _failures(rung)
    yield from precedence.read_on(rung)


def _both(rung: Rung, send: Send, *, again: bool = True) -> Program:
    """Try by dry run, twice for real, then by dry run again, with readings of what is used in between.

    What cools is asked for again at once. A job that was begun is looked at, which shows whether it ran when
    it was asked for again. What is refused whatever was done before needs no second try, and the last briefs
    that cool are kept for `_pairs`. An account near its limits is asked twice at once for what cools or takes
    slots. Jobs are asked for over GraphQL, too (S4, E38).
    """
    spend, near = precedence.spend_of(send), rung.key.purpose == "near_limit"
    cools = bool(rung.key.cooldown(spend))
    again = again and not (spend == "keyword_briefs" and near and cools)
    yield from read_used(rung.key)
    yield from at_a_pace(rung, dry(send))
    yield from read_used(rung.key)
    if again and near and (spend == "scans" or cools):
        yield Spawn(one_call(rung.anew(send)))
    asking = promptly if again and cools else partial(at_a_pace, rung)
    answer: Received = yield from asking(rung.anew(send))
    yield from read_used(rung.key)
    again = again and answer.code not in FOREVER
    begun = id_of(answer) if again and send.operation == "jobs.create" else ""
    if again:
        answer = yield from at_a_pace(rung, rung.anew(send))
        yield from _look(rung, spend, begun)
        yield from read_used(rung.key)
    yield from _over_graphql(rung, send)
    yield from at_a_pace(rung, dry(send))
    if answer.code == "cooldown_active":
        yield from _cooled(rung, send)
        yield from _look(rung, spend, begun)


def _cooled(rung: Rung, send: Send) -> Program:
    """Ask once more for what cools, which shows whether the last dry run was right, and when that is over.

    That is waited for where it is soon.
    """
    answer = yield from at_a_pace(rung, rung.anew(send))
    wait = parse_retry_after(answer)
    if answer.code == "cooldown_active" and wait is not None and wait <= SOON:
        yield Pause(wait // rung.me.reach.target.time_scale)
        yield from at_a_pace(rung, rung.anew(send))


def _over_graphql(rung: Rung, send: Send) -> Program:
    """Ask over GraphQL for what was asked for over REST, where there are both, and read what is used.

    Keys that climb last show nothing there that others do not.
    """
    over = over_graphql(send) if rung.me.reach.can(GRAPHQL) and rung.key.purpose not in LAST else None
    if over is not None:
        yield from at_a_pace(rung, rung.anew(over))
        yield from read_used(rung.key)


def _look(rung: Rung, kind: str, job: str) -> Program:
    """Look at a job, if there is one."""
    if job:
        yield from politely(Send("jobs.get", rung.key.name, path={"kind": kind, "id": job}))


def _widen(rung: Rung) -> Program:
    """Widen our scan by PATCH beyond the slots or the dimensions, and pause it (E19, U95)."""
    yield from politely(Send("scans.list", rung.key.name, query={"domain_id": rung.domain}))
    path = {"id": rung.scan or "none"}
    many = [{"country": f"{a}{b}"} for a in "ABCDE" for b in "ABCDEFGH"]
    for body in ({"geographies": WIDE[1]}, {"geographies": many}, {"active": False}, {"active": True}):
        yield from politely(Send("scans.update", rung.key.name, path=path, body=body))
        yield from read_used(rung.key)


def _failures(rung: Rung) -> Program:
    """Start jobs where they fail, and read what one that failed has cost; then ask again, which may cool.

    What a job had reserved, and whether a failed one begins a cooldown, shows nowhere else (U46, U49).
    """
    domain = failing_domain(rung.me.reach, rung.key.name)
    for kind in KINDS if domain else ():
        for _ in range(2):
            job = id_of((yield from at_a_pace(rung, rung.anew(rung.create("jobs", job_body(kind, domain))))))
            yield from read_used(rung.key)
            if job:
                yield from rung.me.wait_for_job(kind, job, key=rung.key.name)
                yield from read_used(rung.key)


def _pairs(rung: Rung) -> Program:
    """Ask for too much of what cools: checks 4, 5 and 6 together, and 5 and 6 where few slots are free.

    A word of a list that nothing tracks begins the cooldown, where keywords have one, and takes no slot.
    """
    plain = ""
    if rung.key.purpose != "past_due":
        parts = ("ladder-plain", rung.me.number, rung.new())
        plain = yield from rung.me.keyword_list(rung.domain, *parts, key=rung.key.name)
    yield from _breath(rung, "keywords")

    def added(listed: str, words: list[str]) -> Send:
        return rung.create("keywords", keywords_body(listed, words))

    answer = yield from politely(rung.anew(added(plain or rung.listed, rung.words())))
    free = yield from _few_free(rung)
    sends = [added(rung.listed, rung.words(rung.too_many() + 500))]
    sends += [] if free is None else [added(rung.listed, rung.words(free + 1))]
    sends += [added(plain or rung.listed, rung.words()), added(rung.listed, rung.first())]
    yield from at_once(rung, *sends)
    if free:
        yield from _for_the_last(rung, *(added(rung.listed, rung.words(free)) for _ in range(2)))
    for keyword in ids_of_keywords(answer)[:1]:
        yield from politely(Send("keywords.delete", rung.key.name, path={"id": keyword}))
    rest = yield from _rest_of_briefs(rung)
    yield from _breath(rung, "keyword_briefs")

    def refreshed(count: int) -> Send:
        return rung.create("keyword_briefs", briefs_body(rung.domain, rung.words(count)))

    sends = [refreshed(count) for count in (1, 1, 500)]
    if rest:
        yield from _for_the_last(rung, *(refreshed(rest) for _ in range(2)))
    else:
        yield from politely(rung.anew(sends[0]))
    yield from at_once(rung, *sends[1:])
    yield from _rank_runs_used_up(rung)


def _breath(rung: Rung, spend: str) -> Program:
    """Wait until a few expensive calls can follow each other at once, where an operation cools."""
    if rung.key.cooldown(spend):
        yield Pause(precedence.BREATH // rung.me.reach.target.traffic_scale)


def _for_the_last(rung: Rung, *sends: Send) -> Program:
    """Ask twice at once for all that is left, of which one is granted; and read what is used around it."""
    first, second = map(rung.anew, sends)
    yield from read_used(rung.key)
    yield Spawn(one_call(first))
    yield second
    yield Pause(SECOND)
    yield from read_used(rung.key)


def _few_free(rung: Rung) -> Generator[Any, Any, int | None]:
    """Return how many slots are free where they are few: one word more exceeds them, and hardly a quota."""
    if rung.key.purpose == "past_due" or "slots.get" in rung.key.lacks:
        return None
    answer: Received = yield from politely(Send("slots.get", rung.key.name))
    free = answer.data.get("available") if isinstance(answer.data, Mapping) else None
    return free if isinstance(free, int) and 0 <= free < precedence.ROOMY else None


def _rest_of_briefs(rung: Rung) -> Generator[Any, Any, int]:
    """Return how many briefs are left where they are few; else, and to an account past due, 0."""
    left = (yield from read_used(rung.key)).left("brief")
    lasting = rung.key.purpose == "past_due" or left is None or left > LEFT_OVER
    return 0 if lasting or left is None else max(0, left)


def _rank_runs_used_up(rung: Rung) -> Program:
    """Use up what is left of an allowance of rank runs, if there is one, and ask again for the last."""
    if rung.key.purpose != "near_limit" or not rung.key.cooldown("rank_run"):
        return
    last: Send | None = None
    for _ in range(LEFT_OVER):
        where = yield from rung.me.domain("ladder", rung.me.number, rung.new(), key=rung.key.name)
        send = rung.create("jobs", job_body("rank_run", where or rung.domain))
        answer: Received = yield from politely(rung.anew(send))
        if id_of(answer):
            last, run = send, id_of(answer)
        elif answer.code == "quota_exhausted" and last is not None:
            yield from rung.me.wait_for_job("rank_run", run, 60, rung.key.name, SECOND)
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
        60 * len(climbing),
    )


def _needs(reach: Reach, users: int) -> Needs:
    return needs_of(reach, precedence.climbers(reach), users)


def _all_needs(reach: Reach, users: int) -> Needs:
    rungs, up = _needs(reach, users), cost_cap.needs(reach, users)
    return replace(rungs, length=rungs.length + up.length, jobs=rungs.jobs + up.jobs)


LADDER = Profile(
    name="ladder",
    aim="The six checks in order: each alone, then pairs, by dry run and for real, and what they consume.",
    rules=("guards.", "dry_run.", "quota.", "slots.", "cost.", "cooldown.", "error."),
    users=5,
    duration=6 * MINUTE,
    plays=ladder,
    needs=_all_needs,
    claim=Claim(briefs=2, slots=3),
)

RUNGS = replace(
    LADDER,
    name="rungs",
    aim="The ladder, as far as no account comes to its cost ceiling.",
    duration=3 * MINUTE,
    plays=partial(ladder, up=False),
    needs=_needs,
)
