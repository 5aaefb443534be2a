"""What calls cost that spend: what is known of it, by what a run saw, and of which calls it is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ranksim.core.callers.steps import Received, Send
from ranksim.core.money import MICRO_USD
from ranksim.core.service.operations import OPERATIONS

HEADROOM = 2
"""How many times as much as was seen of its like a call is taken to cost at most, beside other calls."""

ELSEWHERE = 5
"""How many times as much as its kind did on other domains a job is taken to cost at most: pages differ."""

UNSEEN: Mapping[str, int] = {
    "keywords.create": 0,
    "scans.create": 0,
    "keyword_briefs.create": 50_000,
    "rank_run": 50_000,
}
"""What a call is taken to cost at most (µUSD), each keyword of briefs, while nobody saw what its kind costs:
keywords and scans nothing (S57, S58), little what programs ask few keywords of; any other `UNSEEN_JOB`."""

UNSEEN_JOB = 1_000_000

LARGE_JOB = 10_000_000
"""What a job is taken to cost at most (µUSD) on a domain that the run did not make, while none of its kind
was seen there: nobody says how many pages such a domain has, or how many questions are asked of it."""

GROWING = frozenset({"scans.create", "scans.update", "keywords.create"})
"""What gives the jobs of a domain more to do."""


class Priced(NamedTuple):
    """What calls are alike in that cost the same: the kind of job, "" for none, and its domain."""

    operation: str
    kind: str
    domain: str


@dataclass(slots=True)
class Prices:
    """The most that a unit of each kind was seen to cost (µUSD), and what jobs may cost more for since."""

    failing_domain: str = ""
    """A domain whose jobs fail, as the target says: they are taken for small ones."""
    seen: dict[Priced, int] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)
    """Domains that the run made."""
    _domains: dict[str, str] = field(default_factory=dict)
    """The domain of each list that the run made, and of each scan."""
    _grown: set[Priced] = field(default_factory=set)
    """Jobs whose domain has got more to do since it was seen what they cost."""

    def note(self, send: Send, data: Any) -> None:
        """Take in what was made, which jobs may cost more for."""
        made = str(data.get("id")) if isinstance(data, Mapping) else ""
        match send.operation:
            case "domains.create":
                self._made.add(made)
            case "keyword_lists.create" | "scans.create":
                self._domains[made] = str(fields_of(send).get("domain_id"))
        if send.operation in GROWING:
            fields = fields_of(send)
            place = str(fields.get("list_id") or send.path.get("id") or made)
            domain = self._domains.get(place, "")
            self._grown |= {like for like in self.seen if like.kind and domain in ("", like.domain)}

    def look_again(self, likes: set[Priced]) -> None:
        """Note that a reading shows what calls cost, whatever was added before."""
        self._grown -= likes

    def is_like_seen(self, like: Priced) -> bool:
        """Return whether it was seen what jobs of the same kind cost, there or on another domain."""
        return any(other[:2] == like[:2] for other in self.seen)

    def most(self, like: Priced, units: int) -> int:
        """Return what a call is taken to cost at most (µUSD)."""
        price = self.seen.get(like)
        if price is not None and like not in self._grown:
            return price * units
        small = like.domain in self._made or like.domain == (self.failing_domain or None)
        if price is None and like.operation == "jobs.create" and not small:
            return LARGE_JOB
        same = price or max(
            (amount for other, amount in self.seen.items() if other[:2] == like[:2]), default=0
        )
        if same:
            return min(ELSEWHERE * same, max(UNSEEN_JOB, HEADROOM * same)) * units
        return UNSEEN.get(like.kind or like.operation, UNSEEN_JOB) * units


def like_of(send: Send) -> Priced:
    """Return what a spending call is like in price; a job that does not name its kind may be any."""
    if send.operation != "jobs.create":
        return Priced(send.operation, "", "")
    body = fields_of(send)
    return Priced(send.operation, str(body.get("kind", "any")), str(body.get("domain_id", "")))


def priced_units(send: Send) -> int:
    """Return how many times what is priced a call asks for: keywords of briefs."""
    body = fields_of(send)
    lists = [body.get(name) for name in ("keyword_ids", "keywords")]
    counts = [len(items) for items in lists if isinstance(items, list)]
    return max(1, *counts) if counts and send.operation == "keyword_briefs.create" else 1


def fields_of(send: Send) -> Mapping[str, Any]:
    """Return the fields of a call under the names that REST has for them, as far as it shows any."""
    body: Any = send.body
    if send.raw is not None:
        try:
            body = json.loads(send.raw)
        except (ValueError, RecursionError):
            return {}
    elif send.surface == "graphql" and body is not None:
        variables = body.get("variables") or {}
        given = variables.get("input")
        variables = {**variables, **(given if isinstance(given, Mapping) else {})}
        body = {**variables, "kind": str(variables.get("kind", "any")).lower()}
        body["domain_id"] = variables.get("domain", "")
    return body if isinstance(body, Mapping) else {}


def started_job(like: Priced, received: Received) -> tuple[str, str] | None:
    """Return kind and id of the job that a call started, None where it did not or does not say."""
    job = received.data
    if like.operation != "jobs.create" or not received.ok or not isinstance(job, Mapping):
        return None
    return (str(job["kind"]), str(job["id"])) if "kind" in job and "id" in job else None


def spends(send: Send) -> bool:
    """Return whether a call can spend or commit spend: one of the seven, and no dry run (S51)."""
    operation = OPERATIONS.get(send.operation)
    if operation is None or not operation.spends:
        return False
    if send.body is None or send.raw is not None:
        return True
    if send.surface != "rest":
        return "dryRun: true" not in str(send.body.get("query"))
    return send.body.get("dry_run") is not True


def writes(send: Send) -> bool:
    """Return whether a call is for an operation that changes something, a dry run of it as well."""
    operation = OPERATIONS.get(send.operation)
    return operation is not None and operation.method != "GET" and send.surface != "preflight"


def without_effect(send: Send) -> Send | None:
    """Return what may be sent in place of a call where nothing may change: reading, dry runs, or nothing."""
    if not writes(send):
        return send
    if not OPERATIONS[send.operation].spends:
        return None
    if not spends(send):
        return send
    if send.body is None or send.raw is not None or send.surface != "rest":
        return None
    return replace(send, body={**send.body, "dry_run": True})


def spent_amount(cost: Mapping[str, Any]) -> int | None:
    """Read µUSD spent from the cost in account usage, text or a number; None where it does not say."""
    if "spent" in cost:
        return micros_of(cost["spent"])
    parts = [micros_of(cost[name]) for name in ("settled", "reserved") if name in cost]
    stated = [part for part in parts if part is not None]
    return sum(stated) if stated else None


def micros_of(amount: Any) -> int | None:
    """Read an amount of dollars, text or a number, as µUSD; None where it is none."""
    try:
        return int(Decimal(str(amount)) * MICRO_USD)
    except (ArithmeticError, ValueError):
        return None
