"""Requests that create a resource, and their bodies, a function for each (U108)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ranksim.core.callers.steps import Send
from ranksim.core.service.calls import Body

GOOGLE_DESKTOP = ({"engine": "google", "device": "desktop"},)
GERMANY = ({"country": "DE"},)


def create(noun: str, key: str, body: Body, once: str | None = None) -> Send:
    """Return the call that creates a resource; `once` is its Idempotency-Key."""
    return Send(f"{noun}.create", key, body=body, idempotency_key=once)


def domain_body(host: str) -> Body:
    """Return the body that creates a domain."""
    return {"host": host}


def named_body(domain: str, name: str) -> Body:
    """Return the body that creates a keyword list or a label."""
    return {"domain_id": domain, "name": name}


def competitor_body(domain: str, host: str) -> Body:
    """Return the body that creates a competitor."""
    return {"domain_id": domain, "host": host}


def keywords_body(listed: str, keywords: Sequence[str]) -> Body:
    """Return the body that adds keywords to a list."""
    return {"list_id": listed, "keywords": list(keywords)}


def scan_body(
    domain: str,
    lists: Sequence[str],
    name: str,
    engine_devices: Sequence[Mapping[str, str] | str] = GOOGLE_DESKTOP,
    geographies: Sequence[Mapping[str, str]] = GERMANY,
) -> Body:
    """Return the body that creates a scan; a pairing is an object or text such as "google/mobile"."""
    return {
        "domain_id": domain,
        "name": name,
        "list_ids": list(lists),
        "engine_devices": [pair if isinstance(pair, str) else dict(pair) for pair in engine_devices],
        "geographies": [dict(place) for place in geographies],
    }


def job_body(kind: str, domain: str, *, dry_run: bool = False) -> Body:
    """Return the body that starts a job, or asks whether it would be started."""
    body = {"kind": kind, "domain_id": domain}
    return {**body, "dry_run": True} if dry_run else body


def briefs_body(domain: str, keywords: Sequence[str]) -> Body:
    """Return the body that refreshes keyword briefs."""
    return {"domain_id": domain, "keywords": list(keywords)}


def webhook_body(url: str, event_types: Sequence[str] = (), domain: str | None = None) -> Body:
    """Return the body that creates a webhook endpoint, for a whole account unless bound to a domain."""
    return {"url": url, "event_types": list(event_types), "domain_id": domain}
