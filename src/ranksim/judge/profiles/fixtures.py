"""What programs share: a user who makes domains, lists, scans and endpoints, and meets."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, TypeAlias

from ranksim.core.callers.requests import (
    GERMANY,
    GOOGLE_DESKTOP,
    briefs_body,
    competitor_body,
    create,
    domain_body,
    job_body,
    keywords_body,
    named_body,
    scan_body,
    webhook_body,
)
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Listen, Pause, Program, Received, Send, Until
from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.views import created_by
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.cleanup import mark
from ranksim.judge.deployment.discovery import Reach

Making = Generator[Any, Any, str]
"""Makes something, and returns its id, or "" where that was refused."""

Chance: TypeAlias = Random
"""A generator of one's own: the same seed gives the same choices, whoever else draws."""

Shape: TypeAlias = tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]
"""Pairings of engine and device of a scan, and its geographies."""

NARROW: Shape = (GOOGLE_DESKTOP, GERMANY)
"""One of each."""

WIDE: Shape = (
    [{"engine": "google", "device": device} for device in ("desktop", "mobile")],
    [{"country": country} for country in ("DE", "AT")],
)
"""Two of each (S25)."""


@dataclass(frozen=True, slots=True)
class User:
    """A user who plays a profile: what can be exercised, the user's number, from 0, of `users`, and the seed.

    All users share so many `keys`. Names, hosts, keywords and Idempotency-Keys carry the mark of the run
    and the `parts` that differ.
    """

    reach: Reach
    number: int
    users: int
    seed: int
    keys: int = 1

    @property
    def key(self) -> str:
        """The key that is used unless another is named."""
        return self.reach.main

    def named(self, *parts: object) -> str:
        """Write a name or Idempotency-Key."""
        return "-".join([mark(self.seed + self.reach.run), *map(str, parts)])

    def host(self, *parts: object) -> str:
        """Write a host name."""
        return f"{self.named(*parts).replace('_', '-')}.example.com"

    def words(self, *parts: object, count: int = 1, first: int = 0) -> list[str]:
        """Write keywords that nobody else has."""
        stem = " ".join([mark(self.seed + self.reach.run), *map(str, parts)])
        return [f"{stem} {index}" for index in range(first, first + count)]

    def chance(self, profile: str) -> Chance:
        """Return the generator of this user's choices, which nobody else draws from."""
        return Random(f"{profile}/{self.seed}/{self.number}")

    def domain(self, *parts: object, key: str = "") -> Making:
        """Make a domain; where that is refused, give one that may be used (`used_domain`), or ""."""
        key = key or self.key
        body, once = domain_body(self.host(*parts)), self.named("domain", *parts, key)
        made = yield from send_creation(create("domains", key, body, once))
        return made or used_domain(self.reach, key)

    def keyword_list(self, domain: str, *parts: object, key: str = "") -> Making:
        """Make a keyword list of a domain."""
        key, name = key or self.key, self.named(*parts)
        return send_creation(create("keyword_lists", key, named_body(domain, name), f"{name}-list-{key}"))

    def domain_with_list(self, *parts: object, key: str = "") -> Generator[Any, Any, tuple[str, str]]:
        """Make a domain, and a keyword list of it where there is one; "" for what was refused."""
        domain = yield from self.domain(*parts, key=key)
        listed = (yield from self.keyword_list(domain, *parts, key=key)) if domain else ""
        return domain, listed

    def scan(
        self, domain: str, lists: Sequence[str], name: str, shape: Shape = NARROW, key: str = ""
    ) -> Making:
        """Make a scan of lists."""
        key, body = key or self.key, scan_body(domain, lists, name, *shape)
        return send_creation(create("scans", key, body, f"{name}-scan-{key}"))

    def endpoint(
        self, script: str, *, domain: str | None = None, types: Sequence[str] = (), key: str = ""
    ) -> Making:
        """Listen by a script, and make a webhook endpoint there; "" where nobody can be reached."""
        url = yield Listen(script)
        if not url:
            return ""
        once = f"endpoint-{sha256(url.encode()).hexdigest()[:24]}"
        return (
            yield from send_creation(
                create("webhooks", key or self.key, webhook_body(url, types, domain), once)
            )
        )

    def to_change(self, domain: str) -> str:
        """Return a domain that the run made; of one that may only be used, or of none, an id nobody has."""
        return "none" if domain in self.reach.target.usable_domains else domain or "none"

    def wait_for_job(
        self, kind: str, job: str, most: int = 20, key: str = "", every: Micros = 5 * SECOND
    ) -> Program:
        """Poll a job until it has finished, at most so often."""
        step = max(SECOND // 4, every // self.reach.target.time_scale)
        for _ in range(most):
            answer = yield from politely(Send("jobs.get", key or self.key, path={"kind": kind, "id": job}))
            status = str(answer.data.get("status", "")) if isinstance(answer.data, Mapping) else ""
            if not status or has_ended(answer.data):
                break
            yield Pause(step)


def bodies(
    domain: str, listed: str, name: str, host: str, keywords: Sequence[str] = (), kind: str = "ai_scan"
) -> dict[str, Body]:
    """Return the body that makes one of each kind of resource, by its noun."""
    return {
        "domains": domain_body(host),
        "keyword_lists": named_body(domain, name),
        "keywords": keywords_body(listed, keywords),
        "labels": named_body(domain, name),
        "competitors": competitor_body(domain, host),
        "scans": scan_body(domain, [listed], name),
        "jobs": job_body(kind, domain),
        "keyword_briefs": briefs_body(domain, keywords),
        "webhooks": webhook_body(f"https://receiver.example.com/{name}", ["job.failed"], domain),
    }


def another_body(body: Body) -> dict[str, Any]:
    """Return a body that asks for something else."""
    name = next((name for name in ("host", "name", "keywords", "kind", "url") if name in body), "label")
    value = body.get(name)
    if name == "keywords":
        return {**body, name: [*(value or []), "one more"]}
    if name == "kind":
        return {**body, name: "crawl" if value != "crawl" else "ai_scan"}
    return {**body, name: f"{value}-other" if name == "url" else f"other-{value}"}


def one_call(send: Send) -> Program:
    """Send once: a program to spawn beside others."""
    yield send


def send_creation(send: Send) -> Making:
    """Send a creation, politely."""
    return id_of((yield from politely(send)))


def id_of(answer: Received) -> str:
    """Return the id of what was made, or ""."""
    data = answer.data
    return str(data.get("id", "")) if answer.ok and isinstance(data, Mapping) else ""


def ids_of_keywords(answer: Received) -> list[str]:
    """Return the ids of the keywords that were added, none where that was refused."""
    created = created_by(answer.data) if answer.ok else None
    return [str(thing["id"]) for thing in created or () if isinstance(thing, dict) and "id" in thing]


def used_domain(reach: Reach, key: str) -> str:
    """Return a domain that was there before, that the target says may be used and a key can see, or ""."""
    return next((domain for domain in reach.target.use_domains if domain in _seen(reach, key)), "")


def failing_domain(reach: Reach, key: str) -> str:
    """Return the domain whose jobs fail, where the target names one that a key can see, else ""."""
    failing = reach.target.failing_domain or ""
    return failing if failing in _seen(reach, key) else ""


def _seen(reach: Reach, key: str) -> tuple[str | None, ...]:
    """Return the domains that a key was seen to reach."""
    near = reach.keys.get(key)
    return () if near is None else (near.domain_id, *near.ids("domains.list"))


def next_meeting(every: Micros) -> Generator[Any, Any, Micros]:
    """Return the next instant that is a multiple of `every`, after now."""
    now: Micros = yield Pause(0)
    return (now // every + 1) * every


def meet(every: Micros, ahead: Micros = 0) -> Generator[Any, Any, Micros]:
    """Wait for the next instant that is a multiple of `every`, at least `ahead` from now; return it."""
    now: Micros = yield Pause(0)
    instant = -(-(now + ahead) // every) * every
    yield Until(instant)
    return instant


def has_ended(item: Any) -> bool:
    """Return whether what is shown is a job that has ended, however its states are called (U39)."""
    job = item if isinstance(item, Mapping) else {}
    return job.get("status") in ("done", "failed") or bool(job.get("finished_at") or job.get("error_detail"))
