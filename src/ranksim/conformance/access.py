"""Judge access: keys, environments and domain scope (S3, S39, S68, S70, S71)."""

from __future__ import annotations

from collections.abc import Mapping

from ranksim.conformance.history import History, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally
from ranksim.trace import TraceKey

KEY = "access.key"
PUBLIC = "access.public"
ACCEPTED = "access.accepted"
ENVIRONMENT = "access.environment"
SCOPE = "access.scope"
ENDPOINTS = "access.scoped_endpoints"

RULES = (
    Rule(KEY, "Everything but GET /v1/webhook-events needs a valid key", (68,), (12,), "scope"),
    Rule(PUBLIC, "GET /v1/webhook-events needs no key", (39,), (), "scope"),
    Rule(ACCEPTED, "A key that is valid is accepted in its environment", (1, 3), (), "everyday"),
    Rule(
        ENVIRONMENT,
        "A key works only in its own environment",
        (3,),
        (12,),
        "scope, with a second environment",
    ),
    Rule(SCOPE, "A domain-scoped key reads only its domain", (70,), (13, 15, 97), "scope, with a scoped key"),
    Rule(
        ENDPOINTS,
        "A domain-scoped key creates endpoints for its domain only",
        (71,),
        (14,),
        "scope, with a scoped key",
    ),
)

UNKNOWN_KEY = "unknown"
"""The name under which a recorder puts a key that is no key of the target."""


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every exchange that was answered; one exchange is enough to break each of these rules.

    They speak of one call alone, so concurrency does not matter, nor does a lost reply.
    """
    accepted = {seen.key for seen in history.seen if seen.ok and seen.key}
    domains = _domains(history)
    for seen in history.seen:
        if seen.lost or seen.code == "rate_limited" or seen.method == "OPTIONS":
            continue
        _judge_key(seen, history.header.keys, accepted, options, tally)
        known = history.header.keys.get(seen.key)
        if known is not None and known.domain_id is not None and seen.environment == known.environment:
            _judge_scope(seen, known.domain_id, domains, tally)


def _judge_key(
    seen: Seen, keys: Mapping[str, TraceKey], accepted: set[str], options: Options, tally: Tally
) -> None:
    known = keys.get(seen.key)
    public = seen.operation == "webhook_events.list"
    if public and known is None and seen.status in (404, 405):
        tally.open(PUBLIC, "the deployment has no GET /v1/webhook-events")
    elif public and known is None:
        _check(PUBLIC, seen.ok, f"{seen.id} read the event types without a key: {seen.status}", seen, tally)
    elif public:
        return
    elif known is None:
        _check(KEY, not seen.ok, f"{seen.id} had no valid key and was answered {seen.status}", seen, tally)
        _status(seen, options, tally)
    elif seen.environment != known.environment:
        says = f"key {seen.key} belongs to {known.environment} and worked in {seen.environment}"
        _check(ENVIRONMENT, not seen.ok, says, seen, tally)
        _status(seen, options, tally)
    elif seen.key in accepted:
        says = f"key {seen.key}, accepted elsewhere in the run, was answered {seen.status} {seen.code}"
        _check(ACCEPTED, seen.code != "unauthorized", says, seen, tally)


def _status(seen: Seen, options: Options, tally: Tally) -> None:
    """The status of a missing or unknown key is assumed (U12); what matters is that it is refused."""
    wanted = options.default_status("unauthorized")
    if seen.ok or seen.status == wanted:
        return
    evidence = Evidence(f"{seen.id} was answered {seen.status}", (seen.id,), at=seen.sent)
    if options.status("unauthorized") is None:
        tally.differs(12, wanted, seen.status, evidence)
    else:
        tally.broke(KEY, evidence)


def _domains(history: History) -> dict[str, str]:
    """Which domain things belong to, as creations and unscoped lists told: id → domain id."""
    owners: dict[str, str] = {}
    for seen in history.seen:
        if not seen.ok or history.key(seen.key).domain_id is not None:
            continue
        made = [seen.data] if isinstance(seen.data, dict) else (seen.items or [])
        for thing in made:
            if isinstance(thing, dict) and isinstance(thing.get("id"), str):
                owner = thing["id"] if seen.operation.startswith("domains.") else thing.get("domain_id")
                if isinstance(owner, str):
                    owners[thing["id"]] = owner
    return owners


def _judge_scope(seen: Seen, domain: str, domains: Mapping[str, str], tally: Tally) -> None:
    if seen.operation == "webhooks.create" and isinstance(seen.body, dict):
        bound = seen.body.get("domain_id")
        if bound != domain:
            wanted = "the whole account" if bound is None else f"domain {bound}"
            says = f"key {seen.key}, scoped to {domain}, created an endpoint for {wanted}"
            _check(ENDPOINTS, not seen.ok, says, seen, tally)
        elif seen.ok:
            tally.held(ENDPOINTS)
        return
    target = seen.parameters.get("id")
    if target is not None and domains.get(target, domain) != domain:
        says = f"key {seen.key}, scoped to {domain}, was shown {target}, which belongs to {domains[target]}"
        _check(SCOPE, not seen.ok, says, seen, tally)
    elif seen.ok and isinstance(seen.items, list):
        foreign = [item for item in seen.items if _owner(item, seen.operation) not in (None, domain)]
        says = f"key {seen.key}, scoped to {domain}, was listed {len(foreign)} things of other domains"
        _check(SCOPE, not foreign, says, seen, tally)


def _owner(item: object, operation: str) -> object:
    if not isinstance(item, dict):
        return None
    return item.get("id") if operation == "domains.list" else item.get("domain_id")


def _check(rule: str, holds: bool, says: str, seen: Seen, tally: Tally) -> None:
    tally.check(rule, holds, Evidence(says, (seen.id,), about=f"key {seen.key or 'none'}", at=seen.sent))
