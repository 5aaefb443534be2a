"""Judge access: keys, environments and domain scope (S3, S39, S68, S70, S71)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from sys import intern
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import JobKind
from ranksim.core.trace import UNKNOWN_KEY, TraceKey
from ranksim.judge.conformance.history.fields import sent_body, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, job_name
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

KEY = "access.key"
PUBLIC = "access.public"
ACCEPTED = "access.accepted"
ENVIRONMENT = "access.environment"
SCOPE = "access.scope"
ENDPOINTS = "access.scoped_endpoints"
WRITES = "access.scoped_writes"

SCOPED = (
    *("domains", "keyword_lists", "keywords", "labels", "competitors"),
    *("scans", "jobs", "webhooks", "keyword_briefs"),
)
"""The nouns of things that belong to a domain, of which an account has its own."""

SHOWN = tuple(noun for noun in SCOPED if noun != "keyword_briefs")
"""Those of which one can be read by its id."""

EVENT_TYPES_LIST = "webhook_events.list"
"""The operation that needs no key."""

LISTED_OVER = "listed over GraphQL"
"""The case of whatever is listed there."""

MADE = (
    *("keyword_lists.create", "labels.create", "competitors.create", "scans.create"),
    *(f"jobs.create, {kind}" for kind in JobKind),
)
"""What can be made for a domain, and shows it."""

RULES = declare(
    Rule(
        KEY,
        "Everything but GET /v1/webhook-events needs a valid key",
        (68,),
        (12,),
        exercise="scope",
        ways=(
            Breach(68, "a read works without a key", "no key, read"),
            Breach(68, "a write works without a key", "no key, write"),
            Breach(68, "a read works with an unknown key", "a wrong key, read"),
            Breach(68, "a write works with an unknown key", "a wrong key, write"),
        ),
        essential={
            "no key, .*": "nothing was called without a key",
            "a wrong key, .*": "nothing was called with an unknown key",
        },
    ),
    Rule(
        PUBLIC,
        "GET /v1/webhook-events needs no key",
        (39,),
        exercise="scope",
        ways=(Breach(39, "GET /v1/webhook-events wants a key"),),
        by_reading=True,
        refuses=".*",
    ),
    Rule(
        ACCEPTED,
        "A key that is valid is accepted in its environment",
        (1, 3),
        (12,),
        exercise="everyday",
        ways=(Breach(1, "a valid key is refused now and then", "{key}"),),
        by_reading=True,
        refuses=".*",
    ),
    Rule(
        ENVIRONMENT,
        "A key works only in its own environment",
        (3,),
        (12,),
        exercise="scope, with a second environment",
        ways=(
            Breach(3, "a production key works in sandbox", "a production key in sandbox"),
            Breach(3, "a sandbox key works in production", "a sandbox key in production"),
        ),
        needs=(Requirement.ENVIRONMENT,),
    ),
    Rule(
        SCOPE,
        "A domain-scoped key reads only its domain",
        (70,),
        (13, 15, 97),
        ways=(
            Breach(70, "a scoped key reads {} of another domain", "{}", SHOWN),
            Breach(70, "a scoped key is listed {} of another domain", "{} listed", SCOPED),
            Breach(70, "a scoped key is listed things of another domain over GraphQL", LISTED_OVER),
        ),
        needs=(Requirement.SCOPED_KEY, Requirement.SPENDING),
    ),
    Rule(
        ENDPOINTS,
        "A domain-scoped key creates endpoints for its domain only",
        (71,),
        (14,),
        cases=("its domain", "another domain", "the whole account"),
        ways=(
            Breach(71, "a scoped key creates an account-wide endpoint", "the whole account"),
            Breach(71, "a scoped key creates an endpoint of another domain", "another domain"),
        ),
        needs=(Requirement.SCOPED_KEY, Requirement.SPENDING),
    ),
    Rule(
        WRITES,
        "A domain-scoped key makes, starts and spends for its domain only",
        (70,),
        (13, 15),
        ways=(
            Breach(70, "a scoped key does {} for another domain", "{}", MADE[:4]),
            Breach(70, "a scoped key starts {} on another domain", "jobs.create, {}", tuple(JobKind)),
        ),
        needs=(Requirement.SCOPED_WRITER, Requirement.SPENDING),
    ),
    exercise="scope, with a scoped key",
    looks_at=(">Authorization", "data.id", "data.domain_id"),
)

NO_KEYS = ("", UNKNOWN_KEY)
"""The names under which a recorder puts no key, and one that is no key of the target."""

FURTHER = frozenset({402, 404, 405, 409, 413, 415, 422, *range(500, 600)})
"""Statuses that say nothing of the key: a call that works without one may get them, too (U86)."""

Thing: TypeAlias = tuple[str, str, str, str]
"""Environment, account, the noun of the operations on a thing and its name: an id may be a number that each
noun of each account counts."""


@dataclass(frozen=True, slots=True)
class ScopedCall:
    """What an answered call of a key scoped to `domain` asked for, and how many foreign things it was listed.

    `foreign` is None where no list was shown; `listed` is the case of such a list.
    """

    id: str
    sent: Micros
    key: str
    domain: str
    target: Thing
    ok: bool
    foreign: int | None
    listed: str


@dataclass
class AccessJudge(Judge):
    """Judges every exchange that was answered; a trace that declares no keys shows nothing of access.

    But for `access.accepted` one exchange is enough to break these rules: they speak of one call alone, so
    concurrency does not matter, nor does a lost reply. What waits for the end are refusals of keys that may
    be accepted again, and the calls of scoped keys, as a thing's domain may be shown late.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    pending: list[Observation] = field(default_factory=list)
    accepted: dict[tuple[str, str], tuple[Micros, Micros]] = field(default_factory=dict)
    """When, in each environment, each key was surely valid first (a success came) and last (one was sent).

    Between the two it was valid throughout: a key that was withdrawn does not come back.
    """
    refused: list[Observation] = field(default_factory=list)
    """Calls with keys of their environment that were refused as if they had none."""
    scoped: list[ScopedCall] = field(default_factory=list)
    """Answered calls of scoped keys."""
    targets: set[Thing] = field(default_factory=set)
    """What scoped keys asked for."""
    moved: set[Thing] = field(default_factory=set)
    """Endpoints that were changed, which may have another domain since."""
    owners: dict[Thing, str] = field(default_factory=dict)
    """Which domain things belong to, as creations and unscoped lists showed."""

    def see(self, seen: Observation) -> None:
        """Keep a call until the next settling."""
        self.pending.append(seen)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each call by itself; what later calls may explain waits for the end."""
        keys = run.header.keys
        some_scoped = any(key.domain_id is not None for key in keys.values())
        for seen in self.pending if keys else ():
            declared = keys.get(seen.key)
            if seen.ok and seen.operation != EVENT_TYPES_LIST:
                place = seen.environment, seen.key
                first, last = self.accepted.get(place, (DISTANT_FUTURE, -1))
                self.accepted[place] = (min(first, seen.received), max(last, seen.sent))
            if some_scoped:
                self._learn(seen, declared)
            if _counts(seen):
                self._judge(seen, declared)
        self.pending.clear()
        if watermark == DISTANT_FUTURE and keys:
            self.tally.expect(ACCEPTED, *keys)
            self._finish(run)

    def _learn(self, seen: Observation, declared: TraceKey | None) -> None:
        """Learn what scoped keys ask for, and which domain it belongs to."""
        if seen.operation == "webhooks.update":
            self.moved.add(_thing(seen, declared, seen.parameters))
        if declared is not None and declared.domain_id is not None:
            if seen.parameters:
                self.targets.add(_thing(seen, declared, seen.parameters))
            return
        for thing in _things_shown(seen) if seen.ok else ():
            if isinstance(thing, dict) and isinstance(thing.get("id"), str):
                owner = thing["id"] if seen.operation.startswith("domains.") else thing.get("domain_id")
                if owner is None:  # a keyword has the domain of its list
                    place = _thing(seen, declared, thing)[:2]
                    owner = self.owners.get((*place, "keyword_lists", str(thing.get("list_id"))))
                if isinstance(owner, str):
                    self.owners[_thing(seen, declared, thing)] = owner

    def _check(
        self, rule: str, holds: bool, says: str, seen: Observation | ScopedCall, case: str | None = ANY
    ) -> None:
        evidence = evidence_of(says, seen, about=f"key {seen.key or 'none'}")
        self.tally.check(rule, holds, evidence, case=case)

    def _judge(self, seen: Observation, declared: TraceKey | None) -> None:
        types = seen.operation == EVENT_TYPES_LIST
        if declared is None:
            if seen.key in NO_KEYS:
                (self._judge_event_types if types else self._judge_stranger)(seen)
        elif seen.environment != declared.environment:
            if not types:
                says = f"key {seen.key} belongs to {declared.environment} and worked in {seen.environment}"
                case = f"a {declared.environment} key in {seen.environment}"
                self._check(ENVIRONMENT, not seen.ok, says, seen, case)
                self._judge_status(seen)
        else:
            if seen.ok and not types:
                self.tally.held(ACCEPTED, case=seen.key, by=(seen.id,))
            elif not types and (seen.status == 401 or seen.code == "unauthorized"):
                self.refused.append(seen)
            if declared.domain_id is not None:
                if seen.operation == "webhooks.create" and seen.surface == "rest":
                    self._judge_creation(seen, declared.domain_id)
                else:
                    self.scoped.append(_scoped_call(seen, declared, declared.domain_id))
                    self._judge_making(seen, declared.domain_id)

    def _judge_stranger(self, seen: Observation) -> None:
        """Without a valid key nothing is answered but the event types."""
        if seen.ok or seen.status not in FURTHER:
            says = f"{seen.id} had no valid key and was answered {seen.status}"
            self._check(KEY, not seen.ok, says, seen, _unkeyed(seen))
        else:
            self.tally.held(KEY, case=None)
        self._judge_status(seen)

    def _judge_event_types(self, seen: Observation) -> None:
        if seen.ok:
            self.tally.held(PUBLIC, by=(seen.id,))
        elif seen.status in (401, 403) and not seen.key:
            says = f"{seen.id} read the event types without a key: {seen.status}"
            self._check(PUBLIC, False, says, seen)
        else:
            says = "the deployment has no GET /v1/webhook-events, or a key was sent along"
            self.tally.open(PUBLIC, says)

    def _judge_status(self, seen: Observation) -> None:
        """The status of a missing or unknown key is assumed (U12); what matters is that it is refused."""
        wanted = self.options.default_status("unauthorized")
        if not seen.ok and seen.status != wanted and seen.status < 500:
            evidence = evidence_of(f"{seen.id} was answered {seen.status}", seen)
            pinned, case = self.options.status("unauthorized") is not None, _unkeyed(seen)
            self.tally.breaks_or_differs(12, wanted, seen.status, evidence, KEY, case, pinned=pinned)

    def _finish(self, run: ObservedRun) -> None:
        for seen in self.refused:
            first, last = self.accepted.get((seen.environment, seen.key), (DISTANT_FUTURE, -1))
            if first < seen.sent and seen.received < last:
                says = f"key {seen.key}, accepted before and after, was answered {seen.status} {seen.code}"
                self._check(ACCEPTED, False, says, seen, seen.key)
            else:
                self.tally.open(ACCEPTED, "the key was refused, and not accepted both before and after")
        # a thing that was seen in two domains, as an endpoint that was moved, is left out
        targets = {thing for thing in self.targets - self.moved if not run.mutable(*thing[-2:])}
        domains = {thing: owner for thing, owner in self.owners.items() if thing in targets}
        spread: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for thing, owner in self.owners.items():
            spread[thing[:3]].add(owner)
        for call in self.scoped:
            self._judge_scope(call, domains, spread.get(call.target[:3], set()))
        self.refused.clear()
        self.scoped.clear()

    # Domain scope

    def _judge_scope(self, call: ScopedCall, domains: Mapping[Thing, str], spread: Set[str]) -> None:
        """`spread` are the domains that things of the noun were seen to belong to."""
        domain, target, scope = call.domain, call.target, f"key {call.key}, scoped to {call.domain}"
        if domains.get(target, domain) != domain:
            says = f"{scope}, was shown {target[-1]}, which belongs to {domains[target]}"
            self._check(SCOPE, not call.ok, says, call, target[2])
        elif call.foreign is not None:
            says = f"{scope}, was listed {call.foreign} things of other domains"
            others = bool(call.foreign) or bool(spread - {domain})
            self._check(SCOPE, call.foreign == 0, says, call, call.listed if others else None)

    def _judge_creation(self, seen: Observation, domain: str) -> None:
        """An endpoint that was created is for the key's domain, as its reply shows or else as asked."""
        requested = seen.body.get("domain_id") if isinstance(seen.body, dict) else None
        made = seen.data.get("domain_id", requested) if seen.ok and isinstance(seen.data, dict) else requested
        if seen.ok and made != domain:
            wanted = "the whole account" if made is None else f"domain {made}"
            says = f"key {seen.key}, scoped to {domain}, created an endpoint for {wanted}"
            self._check(ENDPOINTS, False, says, seen, _endpoint_case(made, domain))
        elif seen.ok or (requested != domain and 400 <= seen.status <= 499):
            self.tally.held(ENDPOINTS, case=_endpoint_case(requested, domain), by=(seen.id,))

    def _judge_making(self, seen: Observation, domain: str) -> None:
        """What a scoped key makes for another domain shows that domain to it (S70), as the reply says.

        Which field names the domain is assumed (U41, U108), so what the reply does not name proves nothing;
        over GraphQL what is none of the domains that REST showed may be its own by another id (U83).
        """
        body, graphql = sent_body(seen), seen.surface == "graphql"
        requested = body.get("domain_id")
        if seen.surface == "app" or seen.dry_run or not isinstance(requested, str) or requested == domain:
            return
        if graphql and requested not in self.owners.values():
            return
        case = seen.operation + (f", {body.get('kind')}" if seen.operation == "jobs.create" else "")
        made = thing_of(seen).get("domain_id") if seen.ok else None
        refused = seen.status in (403, 404) or (graphql and seen.code in ("forbidden", "not_found"))
        if case in MADE and (refused or isinstance(made, str)):
            says = f"key {seen.key}, scoped to {domain}, made something for domain {made}"
            self._check(WRITES, not seen.ok or made == domain, says, seen, case)


def _counts(seen: Observation) -> bool:
    """Return whether a call was answered and says something of access."""
    answered = not seen.lost and seen.status != 429
    named = bool(seen.operation or seen.operations)
    return answered and named and seen.surface != "app" and seen.method != "OPTIONS"


def _unkeyed(seen: Observation) -> str:
    """Return the case of a call without a key that is good there."""
    who, what = "a wrong key" if seen.key else "no key", "read" if seen.method == "GET" else "write"
    return f"{who}, {what}"


def _endpoint_case(domain: object, own: str) -> str:
    """Return the case of an endpoint that is made for a domain, None for the whole account."""
    if domain is None:
        return "the whole account"
    return "its domain" if domain == own else "another domain"


def _thing(seen: Observation, declared: TraceKey | None, named: Mapping[str, Json]) -> Thing:
    """Name a thing by what a path names, or by what a reply shows of it."""
    account = "" if declared is None else declared.account
    name = job_name(named) if "kind" in named else str(named.get("id"))
    return seen.environment, account, intern(seen.operation.partition(".")[0]), name


def _things_shown(seen: Observation) -> Sequence[Json]:
    """Return the things that a reply shows, or that several were made in one call."""
    if seen.operation == "domains.list" and seen.surface == "rest" and isinstance(seen.data, tuple):
        return [{"id": name} for name in seen.data]
    if not isinstance(seen.data, dict):
        return seen.items or () if seen.surface == "rest" else ()
    if seen.operation not in ("keywords.create", "keyword_briefs.create"):
        return [seen.data]
    return [thing for made in seen.data.values() if isinstance(made, list) for thing in made]


def _scoped_call(seen: Observation, declared: TraceKey, domain: str) -> ScopedCall:
    foreign = None
    if seen.ok and isinstance(seen.items, list):
        field_of_owner = "id" if seen.operation == "domains.list" else "domain_id"
        owners = [item.get(field_of_owner) if isinstance(item, dict) else None for item in seen.items]
        if seen.surface == "rest" or domain in owners:  # else GraphQL may call domains by other ids (U83)
            foreign = sum(owner not in (None, domain) for owner in owners)
    target = _thing(seen, declared, seen.parameters)
    listed = LISTED_OVER if seen.surface == "graphql" else f"{target[2]} listed"
    return ScopedCall(seen.id, seen.sent, seen.key, domain, target, seen.ok, foreign, listed)
