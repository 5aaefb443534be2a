"""Is what the kernel counts what the service answers? Calls of columns are made again, one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ranksim.core import draws
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.policy import Policy
from ranksim.core.draws import Purpose
from ranksim.core.rules.admission import GRANTED, JOINED
from ranksim.planner.fleet.offers import Sold
from ranksim.planner.fleet.rows import FAULTY, NOT_FOUND, READ, REMOVE, WRITE, Records
from ranksim.planner.pricing.columns import OUTCOME_OF, ColumnAccount, Columns
from ranksim.planner.pricing.job_endings import JobEnding
from ranksim.planner.pricing.recording import RecordedCall, Recording
from ranksim.planner.pricing.replay import ReplayedService, ReplayOutcome
from ranksim.report import units

ONE_IN = 1_000
"""One call in so many is audited."""

LEAST = 1_000
"""The fewest calls that are audited, where there are so many."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Calls made again, of how many accounts, how many came out otherwise, and the first of these."""

    calls: int
    accounts: int
    unequal: int
    first: str = ""

    @property
    def text(self) -> str:
        """The audit in a sentence."""
        if not self.calls:
            return "no call could be made again: each account has some that columns cannot follow."
        calls, accounts = units.many(self.calls, "call"), units.many(self.accounts, "account")
        return f"{calls} of {accounts} made again at a service one by one: " + (
            f"{self.unequal:,} came out otherwise, first {self.first}." if self.unequal else "all equal."
        )


def sample(columns: Columns, seed: int, budget: int | None = None) -> list[int]:
    """Draw accounts whose calls are audited: until one call in a thousand is reached.

    Only accounts whose every call the kernel can follow are drawn.
    """
    most = max(LEAST, -(-columns.calls // ONE_IN)) if budget is None else budget
    plain = [row for row, account in enumerate(columns.accounts) if not account.unmodelled and account.calls]
    plain.sort(key=lambda row: draws.bits(seed, draws.entity("audit"), row, Purpose.CHOICE))
    chosen, calls = [], 0
    for row in plain:
        if calls >= most:
            break
        chosen.append(row)
        calls += columns.accounts[row].calls
    return chosen


def audit(columns: Columns, served: Records, sold: Sequence[Sold], policy: Policy, seed: int) -> Audit:
    """Make the calls of some accounts again, in order of time, and compare with what the kernel gave them.

    `served` are all their calls with their outcomes; `sold` is what every account of the columns is sold.
    """
    ordered = served[np.argsort(served["at"], kind="stable")]
    if not len(ordered):
        return Audit(0, 0, 0)
    recording = recording_of(columns, ordered)
    specs = {
        columns.accounts[row].name: columns.accounts[row].spec.model_copy(update={"plan": sold[row][0]})
        for row in np.unique(ordered["account"]).tolist()
    }
    replay = ReplayedService(recording, specs, policy, seed, columns.start)
    unequal, first = 0, ""
    for call, row in zip(recording.calls, ordered, strict=True):
        outcome = replay.call(call)
        expected = int(row["outcome"])
        ended = None if call.ending is None else call.ending.cost_of(outcome.cost)
        if ended is not None:
            outcome = replace(outcome, cost=ended)
        if not is_alike(outcome, expected, int(row["amount"])):
            unequal += 1
            first = first or f"{call.operation} of {call.account} at {call.at}: {expected}, {outcome}"
    return Audit(len(ordered), len(specs), unequal, first)


def is_alike(outcome: ReplayOutcome, expected: int, amount: int) -> bool:
    """Return whether a service's outcome is the kernel's, with the same cost (µUSD)."""
    if outcome.status < 400:
        return expected in (GRANTED, JOINED) and outcome.cost == amount
    if outcome.code in OUTCOME_OF:
        return expected == OUTCOME_OF[outcome.code]
    return expected in (NOT_FOUND, FAULTY)


def recording_of(columns: Columns, rows: Records) -> Recording:
    """Return calls of columns as a recording that can be made again, in the order of the rows."""
    made = Recording(columns.where)
    makers = {row: _Maker(columns.accounts[row]) for row in np.unique(rows["account"]).tolist()}
    names = rows.dtype.names or ()
    for number, values in enumerate(rows.tolist()):
        row = dict(zip(names, values, strict=True))
        made.calls.append(makers[row["account"]].call(number, row))
    made.numbers = {maker.account.name: maker.account.number for maker in makers.values()}
    for row, maker in makers.items():
        for resource, ids in maker.before.items():
            made.before[columns.accounts[row].name, resource] = ids
    return made


Request = tuple[str, dict[str, str], dict[str, Any] | None]
"""Operation, path and body of a call."""

NOTHING = {"id": "nothing"}
"""The path to what is not there."""


class _Maker:
    """Makes the calls of one account: bodies and paths of what columns tell."""

    def __init__(self, account: ColumnAccount) -> None:
        self.account = account
        portfolio = account.portfolio
        self.owned = range(len(portfolio.hosts(account.name)))
        self.lists_each = portfolio.lists
        self.words = 0
        # Keywords to remove: those of the portfolio by domain, and those that a call made by its thing.
        self.kept = {
            domain: [f"k{domain * portfolio.keywords + n:09}" for n in range(portfolio.keywords)]
            for domain in self.owned
        }
        self.added: defaultdict[int, list[str]] = defaultdict(list)
        self.before = {
            "domains": [f"d{domain:09}" for domain in self.owned],
            "keyword_lists": [id_ for domain in self.owned for id_ in self._lists_of(domain)],
            "keywords": [id_ for ids in self.kept.values() for id_ in ids],
        }
        """The ids of what the portfolio holds, ascending."""
        self.domains = dict(enumerate(self.before["domains"]))
        self.lists = {domain: self._lists_of(domain)[0] for domain in self.owned}
        for thing, (resource, domain) in account.things.items():
            if resource in ("domains", "keyword_lists"):
                (self.domains if resource == "domains" else self.lists)[domain] = f"t{thing}"

    def _lists_of(self, domain: int) -> list[str]:
        return [f"l{domain * self.lists_each + n:09}" for n in range(self.lists_each)]

    def call(self, number: int, row: Mapping[str, int]) -> RecordedCall:
        """Make the call of a row."""
        operation, path, body = self._request(row)
        made: tuple[tuple[str, str], ...] = ()
        if row["makes"] >= 0:
            made = ((f"t{row['makes']}", ""),)
            if operation == "keywords.create" and body:
                made = tuple((f"t{row['makes']}-{word}", str(word)) for word in body["keywords"])
                self.added[row["makes"]] += [keyword for keyword, _ in made]
        key = None if row["key"] < 0 else str(row["key"])
        units = row["size"] - 1 if operation == "jobs.create" and row["size"] else None
        ending = None
        if row["lasts"] >= 0:
            at = row["at"] + row["lasts"]
            ending = JobEnding(at, row["fails"] == 1, row["costs"], row["estimated"])
        return RecordedCall(
            id=str(number), at=row["at"], account=self.account.name, operation=operation, status=None,
            key=key, surface="app" if key is None else "rest", path=path, body=body, made=made, units=units,
            ending=ending,
        )  # fmt: skip

    def _request(self, row: Mapping[str, int]) -> Request:
        activity = row["activity"]
        resource, detail = self.account.things.get(row["needs"], ("", 0))
        if row["idle"] == 2 and activity >= READ:
            return ("domains.get" if activity == READ else "domains.delete"), NOTHING, None
        if activity == READ:
            return self._read(row["needs"], resource, detail)
        if activity == REMOVE:
            pool = self.added[row["needs"]] if row["needs"] >= 0 else self.kept[row["domain"]]
            return "keywords.delete", {"id": pool.pop()} if pool else NOTHING, None
        if activity == WRITE:
            return self._write(row, resource)
        spend = Spend(activity)
        body = self._spend(row, spend)
        if row["idle"] == 2:
            body = {}
        elif row["idle"] == 1:
            body["dry_run"] = True
        return f"{spend.label if spend >= Spend.KEYWORD_BRIEFS else 'jobs'}.create", {}, body

    def _spend(self, row: Mapping[str, int], spend: Spend) -> dict[str, Any]:
        domain = {"domain_id": self.domains.get(row["domain"], "")}
        if spend == Spend.KEYWORD_BRIEFS:
            return domain | {"keywords": [f"brief {n}" for n in range(row["size"])]}
        if spend == Spend.KEYWORDS:
            self.words += row["size"]
            words = [f"added {n}" for n in range(self.words - row["size"], self.words)]
            # What is in the list already asks for nothing.
            return {"list_id": self.lists[row["domain"]], "keywords": words or ["keyword 1"]}
        if spend == Spend.SCANS:
            owned = row["domain"] in self.owned
            return domain | {
                "list_ids": self._lists_of(row["domain"]) if owned else [self.lists[row["domain"]]],
                "engine_devices": [f"engine{n}/desktop" for n in range(row["pairings"])],
                "geographies": [{"country": "US", "location_id": str(n)} for n in range(row["places"])],
            }
        return {"kind": spend.label} | domain

    def _read(self, needs: int, resource: str, detail: int) -> Request:
        if needs < 0 or not resource:
            return "account.get", {}, None
        path = {"id": f"t{needs}"}
        if resource == "jobs":
            path = {"kind": Spend(detail).label} | path
        elif resource == "keywords":
            path = {"id": self.added[needs][-1]} if self.added[needs] else NOTHING
        return f"{resource}.get", path, None

    def _write(self, row: Mapping[str, int], resource: str) -> Request:
        made, domain = self.account.things.get(row["makes"], ("", 0))
        if made == "domains":
            return "domains.create", {}, {"host": self.account.hosts[domain]}
        if made == "keyword_lists":
            return "keyword_lists.create", {}, {"domain_id": self.domains[domain], "name": "made"}
        if row["makes"] >= 0:
            return "labels.create", {}, {"domain_id": self.domains[0], "name": f"label {row['makes']}"}
        if row["needs"] >= 0 and resource in ("domains", "keyword_lists", "labels"):
            field = "label" if resource == "domains" else "name"
            return f"{resource}.update", {"id": f"t{row['needs']}"}, {field: "changed"}
        return "domains.update", {"id": self.domains[0]}, {"label": "changed"}
