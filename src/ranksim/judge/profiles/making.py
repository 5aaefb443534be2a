"""What programs share: making domains, lists, scans and endpoints, meeting, and names for all of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from ranksim.core.callers.manners import politely
from ranksim.core.callers.requests import (
    GERMANY,
    GOOGLE_DESKTOP,
    domain_body,
    list_body,
    scan_body,
    webhook_body,
)
from ranksim.core.callers.steps import Listen, Pause, Received, Send, Until
from ranksim.core.clock import SECOND, Micros
from ranksim.judge.deployment.cleanup import mark
from ranksim.judge.deployment.discovery import Reach

Making = Generator[Any, Any, str]
"""Makes something, and returns its id, or "" where that was refused."""


def named(seed: int, *parts: object) -> str:
    """Write a name, host or Idempotency-Key that carries the run's mark."""
    return "-".join([mark(seed), *map(str, parts)])


def a_host(seed: int, *parts: object) -> str:
    """Write a host name that carries the run's mark."""
    return f"{named(seed, *parts).replace('_', '-')}.example.com"


def id_of(answer: Received) -> str:
    """Return the id of what was made, or ""."""
    data = answer.data
    return str(data.get("id", "")) if answer.ok and isinstance(data, Mapping) else ""


def a_domain(reach: Reach, seed: int, *parts: object, key: str = "") -> Making:
    """Make a domain; where that is refused, give one that may be used (`used_domain`), or ""."""
    key = key or reach.main
    answer = yield from politely(
        Send(
            "domains.create",
            key,
            body=domain_body(a_host(seed, *parts)),
            idempotency_key=named(seed, "domain", *parts, key),
        )
    )
    return id_of(answer) or used_domain(reach, key)


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


def to_change(reach: Reach, domain: str) -> str:
    """Return a domain that the run made; of one that may only be used, or of none, an id that nobody has."""
    return "none" if domain in reach.target.usable_domains else domain or "none"


def a_list(reach: Reach, seed: int, domain: str, *parts: object, key: str = "") -> Making:
    """Make a keyword list of a domain."""
    key, name = key or reach.main, named(seed, *parts)
    body, once = list_body(domain, name), f"{name}-list-{key}"
    answer = yield from politely(Send("keyword_lists.create", key, body=body, idempotency_key=once))
    return id_of(answer)


def a_scan(
    reach: Reach,
    domain: str,
    lists: Sequence[str],
    name: str,
    *,
    key: str = "",
    engine_devices: Sequence[Mapping[str, str]] = GOOGLE_DESKTOP,
    geographies: Sequence[Mapping[str, str]] = GERMANY,
) -> Making:
    """Make a scan of lists."""
    body = scan_body(domain, lists, name, engine_devices, geographies)
    key = key or reach.main
    once = f"{name}-scan-{key}"
    answer = yield from politely(Send("scans.create", key, body=body, idempotency_key=once))
    return id_of(answer)


def an_endpoint(
    reach: Reach, script: str, *, domain: str | None = None, types: Sequence[str] = (), key: str = ""
) -> Making:
    """Listen by a script, and make a webhook endpoint there; "" where nobody can be reached."""
    url = yield Listen(script)
    if not url:
        return ""
    body = webhook_body(url, types, domain)
    once = f"endpoint-{sha256(url.encode()).hexdigest()[:24]}"
    answer = yield from politely(Send("webhooks.create", key or reach.main, body=body, idempotency_key=once))
    return id_of(answer)


def words(seed: int, *parts: object, count: int = 1, first: int = 0) -> list[str]:
    """Write keywords that nobody else has."""
    stem = " ".join([mark(seed), *map(str, parts)])
    return [f"{stem} {index}" for index in range(first, first + count)]


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


def over(answer: Received) -> bool:
    """Return whether a reply shows a job that has ended."""
    return has_ended(answer.data)


def has_ended(item: Any) -> bool:
    """Return whether what is shown is a job that has ended, however its states are called (U39)."""
    job = item if isinstance(item, Mapping) else {}
    return job.get("status") in ("done", "failed") or bool(job.get("finished_at") or job.get("error_detail"))


def wait_for_job(
    reach: Reach, kind: str, job: str, most: int = 20, key: str = "", every: Micros = 5 * SECOND
) -> Generator[Any, Any, str]:
    """Poll a job until it has finished, at most so often; return its last status."""
    status = ""
    step = max(SECOND // 4, every // reach.target.time_scale)
    for _ in range(most):
        answer = yield from politely(Send("jobs.get", key or reach.main, path={"kind": kind, "id": job}))
        status = str(answer.data.get("status", "")) if isinstance(answer.data, Mapping) else ""
        if not status or over(answer):
            break
        yield Pause(step)
    return status
