"""Idempotent retries: lost responses, twins at one instant, other bodies, refusals, and two API keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ranksim.core.callers.requests import (
    briefs_body,
    create,
    domain_body,
    job_body,
    keywords_body,
    named_body,
)
from ranksim.core.callers.retry import bounded_wait
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import Chance, User, another_body, next_meeting
from ranksim.judge.profiles.profile import Needs, Profile, most_by_chance

CASES = ("lost", "mismatch", "dry_then_real", "permuted", "refused", "two_keys", "test_event")

TWINS_EVERY = 15 * SECOND
"""Between two instants at which neighbours send the same POST."""

LONGEST_COOLDOWN = 90 * SECOND
"""A refusal is replayed after its cooldown only if that is shorter."""


RETENTION = Facts().idempotency_retention
"""A POST is repeated before and after it, where the run lasts that long (S111)."""


@dataclass(frozen=True, slots=True)
class Retrier:
    """One user, and what is theirs."""

    me: User
    draw: Chance
    domain: str
    listed: str
    endpoint: str

    def post(self, turn: int) -> Send:
        """Choose a POST: mostly what costs nothing."""
        me, key, parts = self.me, self.me.key, ("retry", self.me.number, turn)
        once, dice = me.named(*parts), self.draw.randrange(12)
        if dice == 0 and self.domain:
            return create("jobs", key, job_body(self.draw.choice(("ai_scan", "crawl")), self.domain), once)
        if dice == 1 and self.domain:
            return create("keyword_briefs", key, briefs_body(self.domain, me.words(*parts)), once)
        if dice < 6 and self.listed:
            return create("keywords", key, keywords_body(self.listed, me.words(*parts, count=2)), once)
        if dice < 9 and self.domain:
            return create("labels", key, named_body(self.domain, once), once)
        return create("domains", key, domain_body(f"{once}.example.com"), once)


def retry(me: User) -> Program:
    """Go through the cases again and again, each with new Idempotency-Keys; in between, be twins."""
    domain, listed = yield from me.domain_with_list("retry", me.number)
    endpoint = (yield from me.endpoint("200")) if me.number == 0 else ""
    retrier = Retrier(me, me.chance("retry"), domain, listed, endpoint)
    pace = max(me.users, 2) * 2 * SECOND  # all users together stay below the limit of writes
    began = yield Pause(0)
    aged = [began + tenths * RETENTION // (10 * me.reach.target.time_scale) for tenths in (0, 9, 11)]
    meeting = yield from next_meeting(TWINS_EVERY)
    turn = me.number
    while True:
        now = yield Pause(0)
        if aged and now >= aged[0]:  # the POST that is repeated around the retention
            aged.pop(0)
            body, once = domain_body(me.host("old", me.number)), me.named("old", me.number)
            yield from _again(create("domains", me.key, body, once), 1)
        if now > meeting - SECOND:
            if now <= meeting:
                yield from _twins(me, meeting)
            meeting = yield from next_meeting(TWINS_EVERY)
        yield from _case(retrier, turn)
        turn += 1
        if (turn - me.number) % len(CASES) == 0:
            yield Lap()
        now = yield Pause(0)
        rest = pace // 2 + retrier.draw.randrange(pace)
        yield Until(min(now + rest, max(now + SECOND, meeting - SECOND // 2)))


def _case(retrier: Retrier, turn: int) -> Program:
    """Do the case whose turn it is, with a POST chosen by chance."""
    case, send = CASES[turn % len(CASES)], retrier.post(turn)
    if case == "test_event" and retrier.endpoint:
        test = Send("webhooks.test", retrier.me.key, path={"id": retrier.endpoint})
        yield from _again(replace(test, idempotency_key=send.idempotency_key), 2)
    elif case == "two_keys":
        yield from _two_keys(retrier.me.reach, send)
    elif case == "refused" and retrier.domain:
        yield from _refused(retrier.me.reach, retrier.domain, send)
    else:
        yield from _plain(case, send, retrier.draw)


def _plain(case: str, send: Send, draw: Chance) -> Program:
    body = send.body or {}
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
        yield replace(send, body=another_body(body))
        yield from _again(send, 1)


def _again(send: Send, times: int) -> Program:
    """Send a few times, waiting out what is in flight or put off."""
    for _ in range(times):
        answer: Received = yield send
        if answer.status == 429:
            yield Pause(bounded_wait(answer))
        elif answer.status == 409:
            yield Pause(200 * MILLISECOND)


def _twins(me: User, instant: Micros) -> Program:
    """Send the same POST at the same instant as a neighbour does; alone, right behind a lost one."""
    user, alone = me.number, (me.number ^ 1) >= me.users
    once = me.named("twins", user if alone else min(user, user ^ 1), instant // SECOND)
    send = create("domains", me.key, domain_body(f"{once}.example.com"), once)
    yield Until(instant)
    if alone:
        yield replace(send, lose=True)
    yield from _again(send, 2)


def _two_keys(reach: Reach, send: Send) -> Program:
    """Use one Idempotency-Key with two API keys of one account, and of another (U27)."""
    yield send
    for other in (*reach.of("second"), *reach.of("other_account"))[:2]:
        body = domain_body(f"{send.idempotency_key}.example.com")
        yield create("domains", other.name, body, send.idempotency_key)
    yield from _again(send, 1)


def _refused(reach: Reach, domain: str, send: Send) -> Program:
    """Have a crawl refused by its cooldown; repeat that at once, and after the cooldown (E3)."""
    body = job_body("crawl", domain)
    yield create("jobs", send.key, body, f"{send.idempotency_key}-first")
    refused = create("jobs", send.key, body, f"{send.idempotency_key}-second")
    answer: Received = yield refused
    yield refused
    wait = bounded_wait(answer) // reach.target.time_scale
    if answer.code == "cooldown_active" and wait <= LONGEST_COOLDOWN:
        yield Pause(wait + SECOND)
        yield refused


def _needs(reach: Reach, users: int) -> Needs:
    calls = users * len(CASES)
    cooled = (reach.cooldown("crawl") or 0) // reach.target.time_scale
    return Needs(
        len(CASES) * max(users, 2) * 2 * SECOND + 10 * SECOND + min(cooled, LONGEST_COOLDOWN),
        3 * users + most_by_chance(calls, 9),
        2 * most_by_chance(calls, 9),
        expensive=calls,
    )


RETRY = Profile(
    name="retry",
    aim="Idempotent retries with lost responses: work once, the same reply, mismatches, twins in flight.",
    rules=("idempotency.",),
    users=6,
    duration=3 * MINUTE,
    plays=retry,
    needs=_needs,
)
