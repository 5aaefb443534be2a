"""Webhooks: endpoints whose receivers answer by script, job events and test events, retries, auto-disable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ranksim.core.callers.manners import pages, politely
from ranksim.core.callers.requests import job_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.chance import chance
from ranksim.judge.profiles.making import (
    Making,
    a_domain,
    an_endpoint,
    failing_domain,
    id_of,
    named,
    wait_for_job,
)
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

KINDS = ("ai_scan", "crawl", "rank_run", "site_optimization")

TURNS = 4
"""Jobs of a user after which a failure and a success are likely, and each kind came once."""

LOOKS = 20 * SECOND
"""Between two readings of what became of jobs and attempts."""

LONG = (("500", 3), ("500,500,500,200", 2), ("timeout", 1), ("503", 7), ("500,500,500,500,500,200", 1))
"""Endpoints of the long run: script, and how many test events each gets; three never disable it (E22)."""


def webhooks(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Let one user make endpoints and watch them, one count failures, the others start jobs."""
    if not reach.main:
        return
    domain = yield from a_domain(reach, seed, "hooks", user)
    other = yield from a_domain(reach, seed, "hooks", user, "other")
    if user == 0:
        yield from _endpoints(reach, seed, domain)
    if user == 1 or users == 1:
        yield from twenty(reach, reach.main, seed)
    if user > 1:
        yield from _endpoint(reach, "500,200", domain, ())
    draw, failing = chance("webhooks", seed, user), failing_domain(reach, reach.main)
    turn = 0
    while True:
        turn += 1
        where = domain if draw.randrange(3) else other
        if failing and turn % 2 == 0:
            where = failing
        yield from _job(reach, seed, user, turn, where, KINDS[(user + turn) % len(KINDS)])
        if user == 0:
            yield from pages(Send("webhook_deliveries.list", reach.main))
            yield Send("webhooks.list", reach.main)
        if turn % TURNS == 0:
            yield Lap()
        yield Pause(users * 4 * SECOND)


def endpoints(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Let one user make endpoints and watch them, and one count failures; others start jobs meanwhile."""
    if not reach.main:
        return
    if user == 0:
        domain = yield from a_domain(reach, seed, "endpoints")
        yield from _endpoints(reach, seed, domain)
    if user == min(1, users - 1):
        yield from twenty(reach, reach.main, seed)
    while True:
        began: Micros = yield Pause(0)
        now = began
        while now < began + DELAYS[0] // reach.target.time_scale:
            if user == 0:
                for operation in ("webhook_deliveries.list", "webhooks.list", "jobs.list"):
                    yield from pages(Send(operation, reach.main))
            now = yield Pause(LOOKS)
        yield Lap()


def _endpoints(reach: Reach, seed: int, domain: str) -> Program:
    """Make the endpoints of the short run and test each; change one, disable one, remove one."""
    made: list[str] = []
    for script, bound, types in SHORT:
        made.append((yield from _endpoint(reach, script, domain if bound else None, types)))
    for endpoint in filter(None, made):
        yield from _tests(reach, [endpoint], 1)
    last = [endpoint for endpoint in made if endpoint]
    if len(last) < 3:
        return
    path = {"id": last[0]}
    yield from politely(Send("webhooks.update", reach.main, path=path, body={"event_types": list(FAILED)}))
    yield from _tests(reach, last[:1], 1)
    yield from politely(Send("webhooks.update", reach.main, path=path, body={"event_types": []}))
    extra = yield from _endpoint(reach, "500", None, ())
    if extra:
        yield from _tests(reach, [extra], 1)
        for enabled in (False, True):
            body = {"enabled": enabled}
            yield from politely(Send("webhooks.update", reach.main, path={"id": extra}, body=body))
            yield from _tests(reach, [extra], 1)
        yield from politely(Send("webhooks.delete", reach.main, path={"id": extra}))
    for key in reach.of("scoped", "other_account"):
        if key.domain_id is None or key.domain_id in reach.target.usable_domains:
            yield from an_endpoint(reach, "200", domain=key.domain_id, key=key.name)


def _endpoint(reach: Reach, script: str, domain: str | None, types: Sequence[str], key: str = "") -> Making:
    made: str = yield from an_endpoint(reach, script, domain=domain or None, types=types, key=key)
    return made


def _tests(reach: Reach, endpoints: Sequence[str], count: int, key: str = "") -> Program:
    """Send so many test events to each endpoint; those whose replies get lost are not sent twice."""
    now: Micros = yield Pause(0)
    for number in range(count):
        for endpoint in endpoints:
            once = f"test-{endpoint}-{now}-{number}"
            path = {"id": endpoint}
            yield from politely(Send("webhooks.test", key or reach.main, path=path, idempotency_key=once))


def twenty(reach: Reach, key: str, seed: int) -> Program:
    """Fail as often as disables an endpoint, once less, and once less again after a success (S91, S92).

    Both endpoints are bound to a domain without jobs. That of the script "500,200" fails every first attempt,
    and its retries succeed: they set the count to zero, so that as many failures later it is still enabled.
    The one that was disabled is enabled again and fails once, which tells what it counts from (U70). One that
    is still enabled is left alone: its retries may disable it yet, or show that nothing does.
    """
    quiet = yield from a_domain(reach, seed, "twenty", key=key)
    always = yield from _endpoint(reach, "500", quiet, FAILED, key)
    mixed = yield from _endpoint(reach, "500,200", quiet, FAILED, key)
    if not always or not mixed:
        return
    retried = DELAYS[0] // reach.target.time_scale + 5 * SECOND
    yield from _tests(reach, [always, mixed], DISABLED_AFTER - 1, key)
    yield Pause(2 * SECOND)
    yield from _look(reach, [always, mixed], key)
    yield from _tests(reach, [always], 1, key)
    yield Pause(WELL_AFTER)
    looked: Received = yield from politely(Send("webhooks.get", key, path={"id": always}))
    yield from _tests(reach, [always], 1, key)
    if not _is_enabled(looked):
        yield from politely(Send("webhooks.update", key, path={"id": always}, body={"enabled": True}))
        yield from _tests(reach, [always], 1, key)
    yield Pause(WELL_AFTER)
    yield from _look(reach, [always], key)
    yield Pause(max(SECOND, retried - WELL_AFTER))
    yield from _look(reach, [mixed], key)
    yield from _tests(reach, [mixed], DISABLED_AFTER - 1, key)
    yield Pause(2 * SECOND)
    yield from _look(reach, [always, mixed], key)
    yield from pages(Send("webhook_deliveries.list", key))


def _is_enabled(answer: Received) -> bool:
    """Return whether an endpoint was read, and is enabled."""
    data = answer.data
    return answer.ok and isinstance(data, Mapping) and data.get("enabled") is True


def _look(reach: Reach, endpoints: Sequence[str], key: str = "") -> Program:
    for endpoint in endpoints:
        yield from politely(Send("webhooks.get", key or reach.main, path={"id": endpoint}))


def _job(reach: Reach, seed: int, user: int, turn: int, domain: str, kind: str) -> Program:
    """Start a job on a domain and poll it to its end."""
    if not domain:
        return
    body = job_body(kind, domain)
    once = named(seed, "hooks", user, turn)
    answer: Received = yield from politely(Send("jobs.create", reach.main, body=body, idempotency_key=once))
    if id_of(answer):
        yield from wait_for_job(reach, kind, id_of(answer), 12)
        yield Pause(500 * MILLISECOND)


def webhooks_long(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Let failing endpoints go through all their attempts, and look at them now and then."""
    if not reach.main or user:
        return
    domain = yield from a_domain(reach, seed, "hooks-long")
    made: list[str] = []
    for script, tests in LONG:
        endpoint = yield from _endpoint(reach, script, None, FAILED)
        made.append(endpoint)
        yield from _tests(reach, [endpoint] if endpoint else [], tests)
    yield from _endpoint(reach, "500", domain or None, ())
    yield from _job(reach, seed, user, 0, domain, "ai_scan")
    yield from twenty(reach, reach.main, seed)
    began: Micros = yield Pause(0)
    now = began
    while now < began + _lasts_long(reach):
        now = yield Pause(max(SECOND, 20 * MINUTE // reach.target.time_scale))
        yield from _look(reach, [endpoint for endpoint in made if endpoint])
        yield from pages(Send("webhook_deliveries.list", reach.main))


def _lasts_long(reach: Reach) -> Micros:
    """How long all attempts of a delivery take, until its endpoint and the lists of them tell of it."""
    scale = reach.target.time_scale
    return sum(DELAYS) * 11 // 10 // scale + max(10 * MINUTE // scale, WELL_MISSED)


def _needs(reach: Reach, users: int) -> Needs:
    jobs = TURNS * (users * 4 * SECOND + 10 * SECOND)
    return Needs(DELAYS[0] // reach.target.time_scale + 45 * SECOND + jobs, TURNS * users)


ENDPOINTS = Profile(
    name="endpoints",
    aim="Webhook attempts without a job of its own: tests, their retries, the count of 20; spends nothing.",
    rules=("webhook.",),
    users=2,
    duration=4 * MINUTE,
    program=endpoints,
    needs=lambda reach, users: Needs(2 * DELAYS[0] // reach.target.time_scale + 80 * SECOND),
)

WEBHOOKS = Profile(
    name="webhooks",
    aim="Webhook attempts within the run: signature, body, types, scope, first retries, the count of 20.",
    rules=("webhook.",),
    users=4,
    duration=4 * MINUTE,
    program=webhooks,
    needs=_needs,
)

WEBHOOKS_LONG = Profile(
    name="webhooks-long",
    aim="All six attempts and their delays, and auto-disable: for a night, or a deployment with scaled time.",
    rules=("webhook.",),
    users=1,
    duration=10 * HOUR,
    program=webhooks_long,
    needs=lambda reach, users: Needs(_lasts_long(reach) + 2 * MINUTE, jobs=1),
    ends=True,
)
