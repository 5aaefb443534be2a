"""Judge access: keys, environments and domain scope (S3, S39, S68, S70, S71)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import TypeAlias

from ranksim.clock import DISTANT_FUTURE, Micros
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Evidence, Rule, Tally
from ranksim.trace import UNKNOWN_KEY, TraceKey

KEY = "access.key"
PUBLIC = "access.public"
ACCEPTED = "access.accepted"
ENVIRONMENT = "access.environment"
SCOPE = "access.scope"
ENDPOINTS = "access.scoped_endpoints"

RULES = (
    Rule(KEY, "Everything but GET /v1/webhook-events needs a valid key", (68,), (12,), "scope"),
    Rule(PUBLIC, "GET /v1/webhook-events needs no key", (39,), (), "scope"),
    Rule(ACCEPTED, "A key that is valid is accepted in its environment", (1, 3), (12,), "everyday"),
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

NO_KEYS = ("", UNKNOWN_KEY)
"""The names under which a recorder puts no key, and one that is no key of the target."""


Thing: TypeAlias = tuple[str, str]
"""The noun of the operations on a thing and its name: an id may be a number that each noun counts."""


@dataclass(frozen=True, slots=True)
class ScopedCall:
    """What an answered call of a key scoped to `domain` asked for, and how many foreign things it was listed.

    `foreign` is None where no list was shown.
    """

    id: str
    sent: Micros
    key: str
    domain: str
    target: Thing
    ok: bool
    foreign: int | None


@dataclass
class AccessJudge:
    """Judges every exchange that was answered; a trace that declares no keys tells nothing of them.

    But for `access.accepted` one exchange is enough to break these rules: they speak of one call alone, so
    concurrency does not matter, nor does a lost reply. What waits for the end are refusals of keys that may
    be accepted again, and the calls of scoped keys, as a thing's domain may be told late.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    pending: list[Observation] = field(default_factory=list)
    accepted: dict[str, tuple[Micros, Micros]] = field(default_factory=dict)
    """When each key was surely valid first (a success came) and last (a success was sent).

    Between the two it was valid throughout: a key that was withdrawn does not come back.
    """
    refused: list[Observation] = field(default_factory=list)
    """Calls with keys of their environment that were told to have none."""
    scoped: list[ScopedCall] = field(default_factory=list)
    """Answered calls of scoped keys."""
    asked: set[Thing] = field(default_factory=set)
    """What scoped keys asked for."""
    moved: set[Thing] = field(default_factory=set)
    """Endpoints that were changed, which may have another domain since."""
    owners: dict[Thing, str] = field(default_factory=dict)
    """Which domain things belong to, as creations and unscoped lists told."""

    def wants(self, like: Observation) -> bool:
        """All calls: each success shows its key to be valid."""
        return True

    def see(self, seen: Observation) -> None:
        """Keep it until the next settling."""
        self.pending.append(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """No rule here speaks of webhooks."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each call by itself; what later calls may explain waits for the end."""
        keys = run.header.keys
        some_scoped = any(key.domain_id is not None for key in keys.values())
        for seen in self.pending if keys else ():
            known = keys.get(seen.key)
            if seen.ok and seen.operation != "webhook_events.list":
                first, last = self.accepted.get(seen.key, (DISTANT_FUTURE, -1))
                self.accepted[seen.key] = (min(first, seen.received), max(last, seen.sent))
            if some_scoped:
                self._learn(seen, known)
            if _counts(seen):
                self._judge(seen, known)
        self.pending.clear()
        if watermark == DISTANT_FUTURE and keys:
            self._finish(run)

    def _learn(self, seen: Observation, known: TraceKey | None) -> None:
        """Learn what scoped keys ask for, and which domain it belongs to."""
        if seen.operation == "webhooks.update":
            self.moved.add(_thing(seen, seen.parameters))
        if known is not None and known.domain_id is not None:
            if seen.parameters:
                self.asked.add(_thing(seen, seen.parameters))
        elif seen.ok:
            for thing in [seen.data] if isinstance(seen.data, dict) else (seen.items or []):
                if isinstance(thing, dict) and isinstance(thing.get("id"), str):
                    owner = thing["id"] if seen.operation.startswith("domains.") else thing.get("domain_id")
                    if isinstance(owner, str):
                        self.owners[_thing(seen, thing)] = owner

    def _judge(self, seen: Observation, known: TraceKey | None) -> None:
        if known is None:
            if seen.key in NO_KEYS:
                _judge_stranger(seen, self.options, self.tally)
        elif seen.environment != known.environment:
            if seen.operation != "webhook_events.list":
                says = f"key {seen.key} belongs to {known.environment} and worked in {seen.environment}"
                _check(ENVIRONMENT, not seen.ok, says, seen, self.tally)
                _status(seen, self.options, self.tally)
        else:
            if seen.operation == "webhook_events.list":
                pass
            elif seen.ok:
                self.tally.held(ACCEPTED)
            elif seen.status == 401 or seen.code == "unauthorized":
                self.refused.append(seen)
            if known.domain_id is not None:
                if seen.operation == "webhooks.create" and seen.surface == "rest":
                    _judge_creation(seen, known.domain_id, self.tally)
                else:
                    self.scoped.append(_scoped_call(seen, known.domain_id))

    def _finish(self, run: ObservedRun) -> None:
        for seen in self.refused:
            first, last = self.accepted.get(seen.key, (DISTANT_FUTURE, -1))
            if first < seen.sent and seen.received < last:
                says = f"key {seen.key}, accepted before and after, was answered {seen.status} {seen.code}"
                _check(ACCEPTED, False, says, seen, self.tally)
            else:
                self.tally.open(ACCEPTED, "the key was refused, and not accepted both before and after")
        # what was told of two domains, as an endpoint that was moved, is left out
        asked = {thing for thing in self.asked - self.moved if thing[1] not in run.mutated}
        domains = {thing: owner for thing, owner in self.owners.items() if thing in asked}
        for call in self.scoped:
            _judge_scope(call, domains, self.tally)
        self.refused.clear()
        self.scoped.clear()


def _counts(seen: Observation) -> bool:
    """Return whether a call was answered and says something of access."""
    return not (
        seen.lost
        or seen.status == 429
        or seen.surface == "app"
        or seen.method == "OPTIONS"
        or not (seen.operation or seen.operations)
    )


def _judge_stranger(seen: Observation, options: Options, tally: Tally) -> None:
    """Without a valid key nothing is answered but the event types."""
    if seen.operation != "webhook_events.list":
        _check(KEY, not seen.ok, f"{seen.id} had no valid key and was answered {seen.status}", seen, tally)
        _status(seen, options, tally)
    elif seen.ok:
        tally.held(PUBLIC)
    elif seen.status in (401, 403) and not seen.key:
        _check(PUBLIC, False, f"{seen.id} read the event types without a key: {seen.status}", seen, tally)
    else:
        tally.open(PUBLIC, "the deployment has no GET /v1/webhook-events, or a key was sent along")


def _status(seen: Observation, options: Options, tally: Tally) -> None:
    """The status of a missing or unknown key is assumed (U12); what matters is that it is refused."""
    wanted = options.default_status("unauthorized")
    if seen.ok or seen.status == wanted or seen.status >= 500:
        return
    evidence = Evidence(f"{seen.id} was answered {seen.status}", (seen.id,), at=seen.sent)
    if options.status("unauthorized") is None:
        tally.differs(12, wanted, seen.status, evidence)
    else:
        tally.broke(KEY, evidence)


# Domain scope


def _thing(seen: Observation, named: Mapping[str, Json]) -> Thing:
    """Name a thing by what a path names, or by what a reply shows of it."""
    return _noun(seen), job_name(named) if "kind" in named else str(named.get("id"))


def _noun(seen: Observation) -> str:
    return intern(seen.operation.partition(".")[0])


def _scoped_call(seen: Observation, domain: str) -> ScopedCall:
    foreign = None
    if seen.ok and isinstance(seen.items, list):
        foreign = sum(_owner(item, seen.operation) not in (None, domain) for item in seen.items)
    target = _thing(seen, seen.parameters)
    return ScopedCall(seen.id, seen.sent, seen.key, domain, target, seen.ok, foreign)


def _judge_scope(call: ScopedCall, domains: Mapping[Thing, str], tally: Tally) -> None:
    domain, target = call.domain, call.target
    if domains.get(target, domain) != domain:
        says = (
            f"key {call.key}, scoped to {domain}, was shown {target[1]}, which belongs to {domains[target]}"
        )
        _check(SCOPE, not call.ok, says, call, tally)
    elif call.foreign is not None:
        says = f"key {call.key}, scoped to {domain}, was listed {call.foreign} things of other domains"
        _check(SCOPE, call.foreign == 0, says, call, tally)


def _judge_creation(seen: Observation, domain: str, tally: Tally) -> None:
    """An endpoint that was created is for the key's domain, as its reply shows or, failing that, as asked."""
    asked = seen.body.get("domain_id") if isinstance(seen.body, dict) else None
    made = seen.data.get("domain_id", asked) if seen.ok and isinstance(seen.data, dict) else asked
    if seen.ok and made != domain:
        wanted = "the whole account" if made is None else f"domain {made}"
        says = f"key {seen.key}, scoped to {domain}, created an endpoint for {wanted}"
        _check(ENDPOINTS, False, says, seen, tally)
    elif seen.ok or (asked != domain and 400 <= seen.status <= 499):
        tally.held(ENDPOINTS)


def _owner(item: object, operation: str) -> object:
    if not isinstance(item, dict):
        return None
    return item.get("id") if operation == "domains.list" else item.get("domain_id")


def _check(rule: str, holds: bool, says: str, seen: Observation | ScopedCall, tally: Tally) -> None:
    if holds:
        tally.held(rule)
    else:
        about = f"key {seen.key or 'none'}"
        tally.broke(rule, Evidence(says, (seen.id,), about=about, at=seen.sent))
