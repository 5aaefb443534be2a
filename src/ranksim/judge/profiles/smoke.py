"""What matters first, in half a minute; and in the end, the last units of an account, asked for at once.

Three users meet: two of them send each call under one Idempotency-Key, as twins, the third under another.
So each meeting shows whether work with a key is done once, and whether a cooldown or what is left admits one.
"""

from __future__ import annotations

from dataclasses import replace

from ranksim.core.callers.requests import briefs_body, create, job_body, keywords_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Pause, Program, Received, Send, Spawn
from ranksim.core.clock import SECOND
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.fixtures import User, another_body, bodies, id_of, meet, one_call
from ranksim.judge.profiles.precedence import read_used
from ranksim.judge.profiles.profile import Claim, Needs, Profile

MEETING = 2 * SECOND
"""Between two instants at which all send the same."""

NOUNS = tuple(bodies("", "", "", ""))
"""What is made by a POST, one kind a meeting."""

THIRD = 2
"""The number of the user who sends under a key of its own."""

USERS = 3

MOST_UNITS = 60
"""The last units of what an account has are asked for where there are no more of them."""


def smoke(me: User) -> Program:
    """Make one of each kind at once, and two jobs beside each other; have a webhook come, and again."""
    if me.number > THIRD:
        return
    domain, listed = yield from me.domain_with_list("smoke")
    if not listed:
        return
    if me.number == 0:
        yield Spawn(_signed(me))
    scans: list[str] = []
    for _ in NOUNS:
        instant = yield from meet(MEETING, MEETING // 4)
        noun = NOUNS[instant // MEETING % len(NOUNS)]  # by the instant, lest one is behind the other
        if me.number != THIRD or noun in _raced(me):
            parts = ("smoke", noun, instant)
            text, host, words = me.named(*parts), me.host(*parts), me.words(*parts)
            body = bodies(domain, listed, text, host, words, "crawl")[noun]
            send = create(noun, me.key, body, _once(me, noun, instant))
            answer: Received = yield send
            yield Pause(MEETING // 4)
            if me.number == 0:
                yield send
                scans += [id_of(answer)] if noun == "scans" else []
            elif me.number == 1:
                yield replace(send, body=another_body(body))
    for scan in filter(None, scans):  # of which a plan may have few
        yield from politely(Send("scans.delete", me.key, path={"id": scan}))
    yield from _cooled(me)


def _cooled(me: User) -> Program:
    """Ask at once for a job that cools, where none was before: twins, and one beside them.

    By now it is known what such a job costs, so that a spend cap admits both at a time.
    """
    domain = yield from me.domain("smoke", "raced")
    instant = yield from meet(2 * MEETING, MEETING // 4)
    yield create("jobs", me.key, job_body("crawl", domain or "none"), _once(me, "raced", instant))


def _raced(me: User) -> set[str]:
    """Return what admits one of two at once: the last unit of what an account has."""
    key = me.reach.keys[me.key]
    left = {"keyword_briefs": key.left("brief"), "keywords": key.room()}
    return {noun for noun, amount in left.items() if amount == 1}


def _signed(me: User) -> Program:
    """Have a test event, asked for twice at once, come to a receiver that fails once: signed, and again."""
    endpoint = yield from me.endpoint("500,200", types=("job.failed",))
    if endpoint:
        once = me.named("smoke-test")
        test = Send("webhooks.test", me.key, path={"id": endpoint}, idempotency_key=once)
        yield Spawn(one_call(test))
        yield test


def _once(me: User, *parts: object) -> str:
    """Return an Idempotency-Key that the first two users share and the third does not."""
    return me.named("smoke", *parts, "alone" if me.number == THIRD else "twin")


def exhaust(me: User) -> Program:
    """Ask at once for all slots and for all briefs that are left, where they are few, then for one more."""
    if me.number > THIRD:
        return
    for key in _scarce(me.reach):
        yield from _last_of(me, key)


def _scarce(reach: Reach) -> list[KeyReach]:
    """Return the keys near their limits, and the main one."""
    return [*reach.of("near_limit"), reach.keys[reach.main]]


def _last_of(me: User, key: KeyReach) -> Program:
    domain, listed = yield from me.domain_with_list("last", key=key.name)
    scan = (yield from me.scan(domain, [listed], me.named("last"), key=key.name)) if listed else ""
    for noun in ("keywords", "keyword_briefs") if scan else ():
        yield from meet(MEETING, MEETING // 4)
        now = yield from read_used(key)
        left = now.room() if noun == "keywords" else now.left("brief")
        yield from meet(MEETING, MEETING // 4)
        if left is None or not 0 < left <= MOST_UNITS:
            continue
        words = me.words("last", noun, "third" if me.number == THIRD else "", count=left)
        body = keywords_body(listed, words) if noun == "keywords" else briefs_body(domain, words)
        yield create(noun, key.name, body, _once(me, "last", noun))
        yield from meet(MEETING)
        if me.number == 0:
            more = me.words("last", noun, "more")
            body = keywords_body(listed, more) if noun == "keywords" else briefs_body(domain, more)
            yield from politely(create(noun, key.name, body, me.named("last", noun, "more")))
            if noun == "keywords":  # a scan of a list that has words takes slots, too
                yield from me.scan(domain, [listed], me.named("last", "more"), key=key.name)
            else:
                yield from politely(Send("keyword_briefs.list", key.name))
            yield from read_used(key)


def _needs_last(reach: Reach, users: int) -> Needs:
    keys = _scarce(reach) if reach.main else []
    few = [left for key in keys for left in (key.left("brief"), key.room())]
    return Needs(
        len(keys) * 12 * SECOND,
        briefs=len(keys) + sum(left for left in few[::2] if left is not None and left <= MOST_UNITS),
        slots=sum(left for left in few[1::2] if left is not None and left <= MOST_UNITS),
    )


SMOKE = Profile(
    name="smoke",
    aim="What matters first: work with a key done once, a cooldown raced for, a signed webhook.",
    rules=(
        *("idempotency.once", "idempotency.in_flight", "idempotency.replay", "idempotency.mismatch"),
        *("cooldown.enforced", "webhook.signature", "webhook.fresh", "webhook.headers", "webhook.body"),
        *("webhook.event", "webhook.test", "webhook.attempts", "webhook.retried"),
    ),
    users=USERS,
    duration=30 * SECOND,
    plays=smoke,
    needs=lambda reach, users: Needs(
        len(NOUNS) * MEETING + 8 * SECOND, jobs=5, briefs=3, slots=2, expensive=19
    ),
    ends=True,
    claim=Claim(briefs=1, slots=1),
)

LAST = Profile(
    name="last",
    aim="The last slots and briefs of an account, asked for by several at once, and one more.",
    rules=("quota.limit", "quota.refused", "slots.limit", "slots.refused", "guards.quota", "guards.slots"),
    users=USERS,
    duration=30 * SECOND,
    plays=exhaust,
    needs=_needs_last,
    ends=True,
    claim=Claim(briefs=1, slots=1),
)
