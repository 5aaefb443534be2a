"""Judge tenants: what belongs to one account is not shown to another (S5; OWASP API1, broken object level
authorization).

An id proves nothing: each account may count its own. So what a key is shown counts as another account's only
where it agrees with what that account was shown, in its id, when it was created and what it is about.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

TENANT = "access.tenant"

NOUNS = ("domains", "keyword_lists", "keywords", "labels", "competitors", "scans", "jobs", "webhooks")
"""The nouns of things that an account has, and that have ids."""

LISTED = ("scans", "jobs", "webhooks")
"""Those whose lists are kept whole (`KEEPS_ITEMS`): of others ids alone are."""

ABOUT = ("host", "name", "keyword", "url", "domain_id")
"""Fields that tell what a thing is about; of two accounts' things at least one of these differs."""

REFUSED = (403, 404)
"""Statuses by which another account's thing is refused."""

RULES = declare(
    Rule(
        TENANT,
        "A key is shown nothing of another account",
        (5,),
        ways=(
            Breach(5, "a key reads {} of another account", "{}", NOUNS),
            Breach(5, "a key is listed {} of another account", "{} listed", LISTED),
        ),
        needs=(Requirement.OTHER_ACCOUNT,),
    ),
    exercise="scope, with a key of another account",
    looks_at=("data.id", "data.created_at"),
)

Identity: TypeAlias = tuple[str, ...]
"""When a thing was created, and what it is about."""


@dataclass(frozen=True, slots=True)
class FirstReading:
    """What an account was first shown of a thing, by which exchange."""

    account: str
    identity: Identity
    id: str
    sent: Micros


@dataclass
class TenantJudge(Judge):
    """Judges each answered call by itself: whose a thing is, an earlier reply told.

    A thing that two accounts were shown counts for the first: should that be the stranger, the owner's own
    reading is named in its place, and the deviation is as real. Without two accounts nothing is judged, nor
    of keys whose account is not known.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    pending: list[Observation] = field(default_factory=list)
    owned: dict[tuple[str, str, str], FirstReading] = field(default_factory=dict)
    """By environment, noun and id, what the first account was shown."""
    owners: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By environment and noun, the accounts that have any."""

    def wants(self, like: Observation) -> bool:
        """Return whether a call is about things that accounts have."""
        noun = like.operation.partition(".")[0]
        return noun in NOUNS and not like.lost and like.surface == "rest"

    def see(self, seen: Observation) -> None:
        """Keep a call until the next settling."""
        self.pending.append(seen)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge what was shown so far; a trace of one account shows nothing."""
        keys = run.header.keys
        if len({(key.environment, key.account) for key in keys.values() if key.account}) > 1:
            for seen in self.pending:
                declared = keys.get(seen.key)
                if declared is not None and declared.account and declared.environment == seen.environment:
                    self._judge(seen, declared.account)
        self.pending.clear()

    def _judge(self, seen: Observation, account: str) -> None:
        noun = seen.operation.partition(".")[0]
        wanted = self.owned.get((seen.environment, noun, str(seen.parameters.get("id"))))
        if wanted is not None and wanted.account != account and seen.status in REFUSED:
            self.tally.held(TENANT, case=noun, by=(seen.id,))
        if not seen.ok:
            return
        listed = seen.operation.endswith(".list")
        foreign = 0
        for thing in _things(seen):
            identity = _identity(thing)
            if identity is None:
                continue
            place = seen.environment, noun, str(thing["id"])
            owner = self.owned.setdefault(place, FirstReading(account, identity, seen.id, seen.sent))
            self.owners[place[:2]].add(owner.account)
            if owner.account != account and owner.identity == identity:
                foreign += 1
                says = f"key {seen.key} of {account} was shown {place[-1]}, which belongs to {owner.account}"
                case = f"{noun} listed" if listed else noun
                evidence = evidence_of(says, owner, seen, about=f"{seen.key}, {noun}")
                self.tally.check(TENANT, False, evidence, case=case)
        if listed and not foreign and self.owners[seen.environment, noun] - {account}:
            self.tally.held(TENANT, case=f"{noun} listed", by=(seen.id,))


def _things(seen: Observation) -> Iterator[Mapping[str, Json]]:
    """Yield the things of a reply that have an id."""
    things = seen.items if isinstance(seen.items, list) else [seen.data]
    return (thing for thing in things if isinstance(thing, dict) and thing.get("id") is not None)


def _identity(thing: Mapping[str, Json]) -> Identity | None:
    """Return what tells a thing from those of others; None where that is too little."""
    created, about = thing.get("created_at"), [str(thing.get(name)) for name in ABOUT]
    tells = any(thing.get(name) for name in ABOUT)
    return (str(created), *about) if created and tells else None
