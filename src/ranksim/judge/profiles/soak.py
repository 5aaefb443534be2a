"""Soak: calls at a constant rate, so that a slow deployment cannot hide its delay."""

from __future__ import annotations

from typing import Any

from ranksim.core.callers.requests import job_body
from ranksim.core.callers.steps import Lap, Pause, Program, Send, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.chance import chance
from ranksim.judge.profiles.everyday import READS
from ranksim.judge.profiles.making import a_domain, to_change
from ranksim.judge.profiles.profile import Needs, Profile

EVERY = 150 * MILLISECOND
"""Between two calls of all users together: 400 a minute, below the limit of reads (S102)."""


TURNS = 60
"""Calls of a user after which each kind of call was sent."""


def soak(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Send each call when it is planned, or at once when that has passed; most of them read."""
    if not reach.main:
        return
    draw = chance("soak", seed, user)
    domain = yield from a_domain(reach, seed, "soak", user)
    reads = [name for name in READS if reach.can(name)] or ["domains.list"]
    now = yield Pause(0)
    every = users * EVERY
    planned = -(-(now + SECOND) // every) * every + user * EVERY
    turn = 0
    while True:
        yield Until(planned)
        number = turn * users + user
        if domain and number % 8 == 0:
            body: dict[str, Any] = {"label": f"soak {number}"}
            path = {"id": to_change(reach, domain)}
            yield Send("domains.update", reach.main, path=path, body=body, planned=planned)
        elif domain and number % 60 == 1:
            body = job_body("ai_scan", domain, dry_run=True)
            yield Send("jobs.create", reach.main, body=body, planned=planned)
        else:
            yield Send(draw.choice(reads), reach.main, planned=planned)
        planned += every
        turn += 1
        if turn % TURNS == 0:
            yield Lap()


SOAK = Profile(
    name="soak",
    aim="A constant arrival rate below every limit: latency from the planned instant, and nothing refused.",
    rules=("rate.headers", "rate.remaining", "header."),
    users=10,
    duration=10 * MINUTE,
    program=soak,
    needs=lambda reach, users: Needs(TURNS * users * EVERY),
)
