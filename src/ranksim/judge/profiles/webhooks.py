"""Webhooks: endpoints whose receivers answer by script, job events and test events, retries, auto-disable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ranksim.core.callers.requests import create, job_body
from ranksim.core.callers.retry import pages, politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import User, failing_domain, send_creation
from ranksim.judge.profiles.profile import Needs, Profile

COMPLETED, FAILED = ("job.completed",), ("job.failed",)

DISABLED_AFTER = Facts().webhook_disable_after

DELAYS = Facts().webhook_delays

WELL_MISSED = 3 * MINUTE
"""How long after an attempt was due, on our clock, judges take it for missing: the slow answers to those
before it, what delays may vary by, and their grace."""

WELL_AFTER = 20 * SECOND
"""How long after the last failure nobody can say that the deployment had not seen it yet."""

SHORT = (
    ("200", False, ()),
    ("200", False, COMPLETED),
    ("200", False, FAILED),
    ("200", True, ()),
    ("500,200", True, ()),
    ("302:/elsewhere,200", True, ()),
    ("200+12s,200", True, ()),
    ("200+9s", True, ()),
    ("timeout,204", True, ()),
    ("204", True, ()),
    ("410,200", True, ()),
    ("404,200", True, FAILED),  # as 410 alone may end a delivery (U71)
    ("201", True, COMPLETED),
    ("500", True, FAILED),  # three attempts within minutes, and six of them where time runs faster
    *((f"{status}:/elsewhere,200", True, FAILED) for status in (301, 303, 307, 308)),
)
"""Endpoints of the short run: script, whether bound to one domain, event types."""

SLOWEST = next(number for number, (script, *_) in enumerate(SHORT) if script == "200+9s")
"""The one that is tested once more: a sender that leaves before 10 s does so after the same time again."""

KINDS = ("ai_scan", "crawl", "rank_run", "site_optimization")

TURNS = 4
"""Jobs of a user after which a failure and a success are likely, and each kind came once."""

LOOKS = 20 * SECOND
"""Between two readings of what became of jobs and attempts."""

LONG = (("500", 3), ("500,500,500,200", 2), ("timeout", 1), ("503", 7), ("500,500,500,500,500,200", 1))
"""Endpoints of the long run: script, and how many test events each gets; three never disable it (E22)."""


def webhooks(me: User) -> Program:
    """Let one user make endpoints and watch them, one count failures, the others start jobs."""
    domain = yield from me.domain("hooks", me.number)
    other = yield from me.domain("hooks", me.number, "other")
    if me.number == 0:
        yield from _endpoints(me, domain)
    if me.number == 1 or me.users == 1:
        yield from twenty(me, me.key)
    if me.number > 1:
        yield from me.endpoint("500,200", domain=domain or None)
    draw, failing = me.chance("webhooks"), failing_domain(me.reach, me.key)
    turn = 0
    while True:
        turn += 1
        where = domain if draw.randrange(3) else other
        if failing and turn % 2 == 0:
            where = failing
        yield from _job(me, turn, where, KINDS[(me.number + turn) % len(KINDS)])
        if me.number == 0:
            yield from pages(Send("webhook_deliveries.list", me.key))
            yield Send("webhooks.list", me.key)
        if turn % TURNS == 0:
            yield Lap()
        yield Pause(me.users * 4 * SECOND)


def endpoints(me: User) -> Program:
    """Let one user make endpoints and watch them, and one count failures; others start jobs meanwhile."""
    if me.number == 0:
        domain = yield from me.domain("endpoints")
        yield from _endpoints(me, domain)
    if me.number == min(1, me.users - 1):
        yield from twenty(me, me.key)
    while True:
        began: Micros = yield Pause(0)
        now = began
        while now < began + DELAYS[0] // me.reach.target.time_scale:
            if me.number == 0:
                for operation in ("webhook_deliveries.list", "webhooks.list", "jobs.list"):
                    yield from pages(Send(operation, me.key))
            now = yield Pause(LOOKS)
        yield Lap()


def _endpoints(me: User, domain: str) -> Program:
    """Make the endpoints of the short run and test each; change one, disable one, remove one."""
    made: list[str] = []
    for script, bound, types in SHORT:
        made.append((yield from me.endpoint(script, domain=(domain or None) if bound else None, types=types)))
    made = [endpoint for endpoint in made if endpoint]
    for endpoint in made:
        yield from _tests(me, [endpoint], 1)
    yield Pause(2 * SECOND)
    yield from _tests(me, made[SLOWEST : SLOWEST + 1], 1)
    if len(made) < 3:
        return
    yield from _changed(me, made[0], {"event_types": list(FAILED)})
    yield from _tests(me, made[:1], 1)
    yield from _changed(me, made[0], {"event_types": []})
    extra = yield from me.endpoint("500")
    if extra:
        yield from _tests(me, [extra], 1)
        for enabled in (False, True):
            yield from _changed(me, extra, {"enabled": enabled})
            yield from _tests(me, [extra], 1)
        yield from politely(Send("webhooks.delete", me.key, path={"id": extra}))
    for key in me.reach.of("scoped", "other_account"):
        if key.domain_id is None or key.domain_id in me.reach.target.usable_domains:
            yield from me.endpoint("200", domain=key.domain_id, key=key.name)


def _changed(me: User, endpoint: str, body: Body, key: str = "") -> Program:
    yield from politely(Send("webhooks.update", key or me.key, path={"id": endpoint}, body=body))


def _tests(me: User, endpoints: Sequence[str], count: int, key: str = "") -> Program:
    """Send so many test events to each endpoint; those whose replies get lost are not sent twice."""
    now: Micros = yield Pause(0)
    for number in range(count):
        for endpoint in endpoints:
            once = f"test-{endpoint}-{now}-{number}"
            path = {"id": endpoint}
            yield from politely(Send("webhooks.test", key or me.key, path=path, idempotency_key=once))


def twenty(me: User, key: str) -> Program:
    """Fail as often as disables an endpoint, once less, and once less again after a success (S91, S92).

    Both endpoints are bound to a domain without jobs. That of the script "500,200" fails every first attempt,
    and its retries succeed: they set the count to zero, so that as many failures later it is still enabled.
    The one that was disabled is enabled again and fails once, which tells what it counts from (U70). One that
    is still enabled is left alone: its retries may disable it yet, or show that nothing does.
    """
    quiet = (yield from me.domain("twenty", key=key)) or None
    always = yield from me.endpoint("500", domain=quiet, types=FAILED, key=key)
    mixed = yield from me.endpoint("500,200", domain=quiet, types=FAILED, key=key)
    if not always or not mixed:
        return
    retried = DELAYS[0] // me.reach.target.time_scale + 5 * SECOND
    yield from _tests(me, [always, mixed], DISABLED_AFTER - 1, key)
    yield Pause(2 * SECOND)
    yield from _look(me, [always, mixed], key)
    yield from _tests(me, [always], 1, key)
    yield Pause(WELL_AFTER)
    looked: Received = yield from politely(Send("webhooks.get", key, path={"id": always}))
    yield from _tests(me, [always], 1, key)
    if not (looked.ok and isinstance(looked.data, Mapping) and looked.data.get("enabled") is True):
        yield from _changed(me, always, {"enabled": True}, key)
        yield from _tests(me, [always], 1, key)
    yield Pause(WELL_AFTER)
    yield from _look(me, [always], key)
    yield Pause(max(SECOND, retried - WELL_AFTER))
    yield from _look(me, [mixed], key)
    yield from _tests(me, [mixed], DISABLED_AFTER - 1, key)
    yield Pause(2 * SECOND)
    yield from _look(me, [always, mixed], key)
    yield from pages(Send("webhook_deliveries.list", key))


def _look(me: User, endpoints: Sequence[str], key: str = "") -> Program:
    for endpoint in endpoints:
        yield from politely(Send("webhooks.get", key or me.key, path={"id": endpoint}))


def _job(me: User, turn: int, domain: str, kind: str) -> Program:
    """Start a job on a domain and poll it to its end."""
    if not domain:
        return
    once = me.named("hooks", me.number, turn)
    job = yield from send_creation(create("jobs", me.key, job_body(kind, domain), once))
    if job:
        yield from me.wait_for_job(kind, job, 12)
        yield Pause(500 * MILLISECOND)


def webhooks_long(me: User) -> Program:
    """Let failing endpoints go through all their attempts, and look at them now and then."""
    if me.number:
        return
    domain = yield from me.domain("hooks-long")
    made: list[str] = []
    for script, tests in LONG:
        endpoint = yield from me.endpoint(script, types=FAILED)
        made += [endpoint] if endpoint else []
        yield from _tests(me, [endpoint] if endpoint else [], tests)
    yield from me.endpoint("500", domain=domain or None)
    yield from _job(me, 0, domain, "ai_scan")
    yield from twenty(me, me.key)
    began: Micros = yield Pause(0)
    now = began
    while now < began + _lasts_long(me.reach):
        now = yield Pause(max(SECOND, 20 * MINUTE // me.reach.target.time_scale))
        yield from _look(me, made)
        yield from pages(Send("webhook_deliveries.list", me.key))


def _lasts_long(reach: Reach) -> Micros:
    """How long all attempts of a delivery take, until its endpoint and the lists of them tell of it."""
    scale = reach.target.time_scale
    return sum(DELAYS) * 11 // 10 // scale + max(10 * MINUTE // scale, WELL_MISSED)


def _needs(reach: Reach, users: int) -> Needs:
    jobs = TURNS * (users * 4 * SECOND + 10 * SECOND)
    return Needs(
        DELAYS[0] // reach.target.time_scale + 45 * SECOND + jobs, TURNS * users, expensive=TURNS * users
    )


ENDPOINTS = Profile(
    name="endpoints",
    aim="Webhook attempts without a job of its own: tests, their retries, the count of 20; spends nothing.",
    rules=("webhook.",),
    users=2,
    duration=4 * MINUTE,
    plays=endpoints,
    needs=lambda reach, users: Needs(2 * DELAYS[0] // reach.target.time_scale + 80 * SECOND),
)

WEBHOOKS = Profile(
    name="webhooks",
    aim="Webhook attempts within the run: signature, body, types, scope, first retries, the count of 20.",
    rules=("webhook.",),
    users=4,
    duration=4 * MINUTE,
    plays=webhooks,
    needs=_needs,
)

WEBHOOKS_LONG = Profile(
    name="webhooks-long",
    aim="All six attempts and their delays, and auto-disable: for a night, or a deployment with scaled time.",
    rules=("webhook.",),
    users=1,
    duration=10 * HOUR,
    plays=webhooks_long,
    needs=lambda reach, users: Needs(_lasts_long(reach) + 2 * MINUTE, jobs=1),
    ends=True,
)
