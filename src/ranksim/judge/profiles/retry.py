"""Idempotent retries: lost responses, twins at one instant, other bodies, refusals, and two API keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ranksim.core.callers.manners import bounded_wait
from ranksim.core.callers.requests import briefs_body, domain_body, job_body, keywords_body, label_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.chance import Chance, chance
from ranksim.judge.profiles.cooldowns import stated
from ranksim.judge.profiles.making import (
    a_domain,
    a_host,
    a_list,
    an_endpoint,
    named,
    next_meeting,
    words,
)
from ranksim.judge.profiles.profile import Needs, Profile, drawn

CASES = ("lost", "mismatch", "dry_then_real", "permuted", "refused", "two_keys", "test_event")

TWINS_EVERY = 15 * SECOND
"""Between two instants at which neighbours send the same POST."""

LONGEST_COOLDOWN = 90 * SECOND
"""A refusal is replayed after its cooldown only if that is shorter."""


RETENTION = Facts().idempotency_retention
"""A POST is repeated before and after it, where the run lasts that long (S111)."""


@dataclass(frozen=True, slots=True)
class Retrier:
    """One user: what is theirs, and how many there are."""

    reach: Reach
    draw: Chance
    user: int
    users: int
    seed: int
    domain: str
    listed: str
    endpoint: str

    @property
    def pace(self) -> Micros:
        """Between two cases, so that all users together stay below the limit of writes."""
        return max(self.users, 2) * 2 * SECOND


def retry(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Go through the cases again and again, each with new Idempotency-Keys; in between, be twins."""
    if not reach.main:
        return
    domain = yield from a_domain(reach, seed, "retry", user)
    listed = (yield from a_list(reach, seed, domain, "retry", user)) if domain else ""
    endpoint = (yield from an_endpoint(reach, "200")) if user == 0 else ""
    me = Retrier(reach, chance("retry", seed, user), user, users, seed, domain, listed, endpoint)
    began = yield Pause(0)
    aged = [began + tenths * RETENTION // (10 * reach.target.time_scale) for tenths in (0, 9, 11)]
    meeting = yield from next_meeting(TWINS_EVERY)
    turn = user
    while True:
        now = yield Pause(0)
        if aged and now >= aged[0]:
            aged.pop(0)
            yield from _old(me)
        if now > meeting - SECOND:
            if now <= meeting:
                yield from _twins(me, meeting)
            meeting = yield from next_meeting(TWINS_EVERY)
        yield from _case(me, turn)
        turn += 1
        if (turn - user) % len(CASES) == 0:
            yield Lap()
        now = yield Pause(0)
        rest = me.pace // 2 + me.draw.randrange(me.pace)
        yield Until(min(now + rest, max(now + SECOND, meeting - SECOND // 2)))


def _old(me: Retrier) -> Program:
    """Send the POST that is repeated around the retention."""
    body = domain_body(a_host(me.seed, "old", me.user))
    once = named(me.seed, "old", me.user)
    yield from _again(Send("domains.create", me.reach.main, body=body, idempotency_key=once), 1)


def _case(me: Retrier, turn: int) -> Program:
    """Do the case whose turn it is, with a POST chosen by chance."""
    case = CASES[turn % len(CASES)]
    send = _post(me, turn)
    if case == "test_event" and me.endpoint:
        test = Send("webhooks.test", me.reach.main, path={"id": me.endpoint})
        yield from _again(replace(test, idempotency_key=send.idempotency_key), 2)
    elif case == "two_keys":
        yield from _two_keys(me.reach, send)
    elif case == "refused" and me.domain:
        yield from _refused(me.reach, me.domain, send)
    else:
        yield from _plain(case, send, me.draw)


def _post(me: Retrier, turn: int) -> Send:
    """Choose a POST: mostly what costs nothing."""
    reach, draw, seed, user, domain, listed = me.reach, me.draw, me.seed, me.user, me.domain, me.listed
    once, key = named(seed, "retry", user, turn), reach.main
    dice = draw.randrange(12)
    if dice == 0 and domain:
        body = job_body(draw.choice(("ai_scan", "crawl")), domain)
        return Send("jobs.create", key, body=body, idempotency_key=once)
    if dice == 1 and domain:
        body = briefs_body(domain, words(seed, "retry", user, turn))
        return Send("keyword_briefs.create", key, body=body, idempotency_key=once)
    if dice < 6 and listed:
        body = keywords_body(listed, words(seed, "retry", user, turn, count=2))
        return Send("keywords.create", key, body=body, idempotency_key=once)
    if dice < 9 and domain:
        body = label_body(domain, once)
        return Send("labels.create", key, body=body, idempotency_key=once)
    return Send("domains.create", key, body=domain_body(f"{once}.example.com"), idempotency_key=once)


def _plain(case: str, send: Send, draw: Chance) -> Program:
    body: Mapping[str, Any] = send.body or {}
    if case == "lost":
        yield replace(send, lose=True)
        yield Pause(draw.randrange(300) * MILLISECOND)
        yield from _again(send, 3)
    elif case == "dry_then_real" and send.operation.startswith(("jobs", "keyword")):
        yield replace(send, body={**body, "dry_run": True})
        yield send
        yield replace(send, idempotency_key=f"{send.idempotency_key}-real")
    elif case == "permuted":
        yield send
        backwards = json.dumps(dict(reversed(list(body.items()))), indent=1).encode()
        yield replace(send, body=None, raw=backwards)
    else:
        yield send
        yield replace(send, body=_another(body))
        yield from _again(send, 1)


def _another(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body that asks for something else."""
    name = next((name for name in ("host", "name", "keywords", "kind") if name in body), "label")
    value = body.get(name)
    if name == "keywords":
        return {**body, name: [*(value or []), "one more"]}
    if name == "kind":
        return {**body, name: "crawl" if value != "crawl" else "ai_scan"}
    return {**body, name: f"other-{value}"}


def _again(send: Send, times: int) -> Program:
    """Send a few times, waiting out what is in flight or put off."""
    for _ in range(times):
        answer: Received = yield send
        if answer.status == 429:
            yield Pause(bounded_wait(answer))
        elif answer.status == 409:
            yield Pause(200 * MILLISECOND)


def _twins(me: Retrier, instant: Micros) -> Program:
    """Send the same POST at the same instant as a neighbour does; alone, right behind a lost one."""
    user, alone = me.user, (me.user ^ 1) >= me.users
    pair = user if alone else min(user, user ^ 1)
    once = named(me.seed, "twins", pair, instant // SECOND)
    body = domain_body(f"{once}.example.com")
    send = Send("domains.create", me.reach.main, body=body, idempotency_key=once)
    yield Until(instant)
    if alone:
        yield replace(send, lose=True)
    yield from _again(send, 2)


def _two_keys(reach: Reach, send: Send) -> Program:
    """Use one Idempotency-Key with two API keys of one account, and of another (U27)."""
    yield send
    for other in (*reach.of("second"), *reach.of("other_account"))[:2]:
        body = domain_body(f"{send.idempotency_key}.example.com")
        yield Send("domains.create", other.name, body=body, idempotency_key=send.idempotency_key)
    yield from _again(send, 1)


def _refused(reach: Reach, domain: str, send: Send) -> Program:
    """Have a crawl refused by its cooldown; repeat that at once, and after the cooldown (E3)."""
    body = job_body("crawl", domain)
    yield Send("jobs.create", send.key, body=body, idempotency_key=f"{send.idempotency_key}-first")
    refused = Send("jobs.create", send.key, body=body, idempotency_key=f"{send.idempotency_key}-second")
    answer: Received = yield refused
    yield refused
    wait = bounded_wait(answer) // reach.target.time_scale
    if answer.code == "cooldown_active" and wait <= LONGEST_COOLDOWN:
        yield Pause(wait + SECOND)
        yield refused


def _needs(reach: Reach, users: int) -> Needs:
    calls = users * len(CASES)
    cooled = (stated(reach, "crawl") or 0) // reach.target.time_scale if reach.main else 0
    return Needs(
        len(CASES) * max(users, 2) * 2 * SECOND + 10 * SECOND + min(cooled, LONGEST_COOLDOWN),
        3 * users + drawn(calls, 9),
        2 * drawn(calls, 9),
    )


RETRY = Profile(
    name="retry",
    aim="Idempotent retries with lost responses: work once, the same reply, mismatches, twins in flight.",
    rules=("idempotency.",),
    users=6,
    duration=3 * MINUTE,
    program=retry,
    needs=_needs,
)
