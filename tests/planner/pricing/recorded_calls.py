"""Recorded calls that nobody recorded: accounts that do a little of everything, near every limit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec, ScanSpec
from ranksim.core.clock import DAY, MINUTE, SECOND, instant
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.rows import READ, REMOVE, WRITE, CallRow, Records, to_records
from ranksim.planner.pricing.columns import ColumnAccount, Columns

START = instant("2026-08-03T00:00:00Z")
SPENDS = [int(spend) for spend in Spend]

PLANS: dict[str, Any] = {
    "starter": {
        "slot_limit": 90,
        "cost_ceiling": "3 USD",
        "page_cap": 40,
        "capabilities": ["rank_tracking", "site_crawl", "keyword_briefs", "ai_visibility"],
        "call_cap": 30,
    },
    "pro": {"slot_limit": 400, "cost_ceiling": "9 USD", "page_cap": 90},
}
RATES = {"read": 4, "write": 3, "expensive": 2}


def policy_of(assumptions: dict[str, Any]) -> Policy:
    """A policy whose limits are so low that all of them are met."""
    return Policy().replace(
        facts={"rates": RATES, "rate_window": "2m"}, catalogue={"plans": PLANS}, assumptions=assumptions
    )


class Caller:
    """One account: makes a row after the other, and remembers what its calls made."""

    def __init__(self, row: int, random: Random, things: list[int], spec: AccountSpec) -> None:
        self.row, self.random, self.things, self.spec = row, random, things, spec
        portfolio = spec.portfolio or PortfolioSpec()
        self.owned = len(portfolio.hosts("")) if isinstance(portfolio.domains, tuple) else portfolio.domains
        self.kept = [portfolio.keywords] * self.owned
        self.made: dict[int, tuple[str, int]] = {}
        self.hosts: list[str] = []
        self.added: list[list[int]] = []
        self.at = START + random.randrange(DAY)
        self.calls = 0
        self.ready: dict[int, tuple[int, int]] = {}

    def new_thing(self, resource: str, detail: int) -> int:
        self.things[0] += 1
        number = self.things[0] - 1
        self.made[number] = (resource, detail)
        return number

    def row_of(self) -> list[CallRow]:
        random = self.random
        # Bursts, so that windows fill up; and gaps, so that months turn.
        self.at += random.choice([0, 1, SECOND, 20 * SECOND, 2 * MINUTE, MINUTE, 40 * MINUTE, DAY // 3])
        call = CallRow(account=self.row, at=self.at, recorded=-1)
        call.key = -1 if random.random() < 0.02 else self.row * 2 + random.randrange(2)
        call.domain = random.randrange(self.owned)
        kind = random.random()
        if kind < 0.25:
            call.activity = READ
            left = {thing for thing, _, _ in self.added}
            there = [n for n, (what, _) in self.made.items() if what != "keywords" or n in left]
            if there and random.random() < 0.5:
                call.needs = random.choice(there)
        elif kind < 0.35:
            call.activity = WRITE
            if random.random() < 0.3:
                call.makes = self.new_thing("labels", 0)
        elif kind < 0.45:
            call.activity, call.size = REMOVE, 1
            if self.added and random.random() < 0.6:
                thing, call.domain, left = random.choice(self.added)
                self.added = [one if one[0] != thing else [thing, one[1], left - 1] for one in self.added]
                self.added = [one for one in self.added if one[2]]
                call.needs = thing
            elif self.kept[call.domain]:
                self.kept[call.domain] -= 1
            else:
                call.activity, call.size = WRITE, 0
        elif kind < 0.455 and len(self.hosts) < 2:
            return self.new_domain()
        else:
            self.spend(call)
        return [call]

    def spend(self, call: CallRow) -> None:
        random = self.random
        call.activity = random.choice(SPENDS)
        if self.ready and random.random() < 0.3 and call.activity != Spend.AI_SCAN:
            call.domain = random.choice(list(self.ready))
            in_list = call.activity in (Spend.KEYWORDS, Spend.SCANS)
            call.needs = self.ready[call.domain][1 if in_list else 0]
        mood = random.random()
        call.idle = 1 if mood < 0.05 else 2 if mood < 0.08 else 0
        if call.activity == Spend.KEYWORD_BRIEFS:
            call.size = random.randrange(1, 5)
        elif call.activity == Spend.KEYWORDS:
            # Words that are there already are the portfolio's.
            call.size = random.randrange(0 if call.domain < self.owned and self.kept[call.domain] else 1, 30)
            if call.size and not call.idle and random.random() < 0.5:
                call.makes = self.new_thing("keywords", call.domain)
                self.added.append([call.makes, call.domain, call.size])
        elif call.activity == Spend.SCANS:
            call.pairings, call.places = random.randrange(1, 4), random.randrange(1, 3)
        elif not call.idle and random.random() < 0.5:
            call.makes = self.new_thing("jobs", call.activity)
        if call.activity == Spend.RANK_RUN:  # no draw, so that all else stays as it is
            call.lasts = (-1, 0, 20 * MINUTE, DAY)[self.at // SECOND % 4]
        elif (
            call.activity < Spend.KEYWORD_BRIEFS
        ):  # of several under way the last to begin is the last to end
            call.lasts = 20 * MINUTE

    def new_domain(self) -> list[CallRow]:
        """A domain, and a list in it."""
        domain = self.owned + len(self.hosts)
        self.hosts.append(f"fresh{domain}.{self.row}.example")
        first = CallRow(account=self.row, at=self.at, key=self.row * 2, activity=WRITE, domain=domain)
        first.recorded, first.makes = -1, self.new_thing("domains", domain)
        second = CallRow(account=self.row, at=self.at, key=self.row * 2, activity=WRITE, domain=domain)
        second.recorded, second.needs, second.makes = -1, first.makes, self.new_thing("keyword_lists", domain)
        self.ready[domain] = first.makes, second.makes
        return [first, second]

    def account(self) -> ColumnAccount:
        return ColumnAccount(f"a{self.row}", self.spec, self.calls, self.row, tuple(self.hosts), self.made)


def generated(accounts: int, calls: int, seed: int, chunk: int = 1 << 14) -> Columns:
    """So many calls of so many accounts, the accounts one after the other in each chunk."""
    random, things = Random(seed), [0]
    callers = [Caller(row, random, things, _spec(random)) for row in range(accounts)]
    chunks: list[Records] = []
    made = 0
    while made < calls:
        rows: list[CallRow] = []
        for caller in callers:
            mine: list[CallRow] = []
            while len(mine) < max(1, min(chunk, calls - made) // accounts):
                mine += caller.row_of()
            caller.calls += len(mine)
            rows += mine
        made += len(rows)
        chunks.append(to_records(rows, CallRow))
    return Columns(
        where=f"seed {seed}",
        accounts=tuple(caller.account() for caller in callers),
        keys=accounts * 2,
        things=things[0],
        start=START,
        end=max(caller.at for caller in callers) + 1,
        calls=made,
        left_out={},
        chunks=lambda: (chunk.copy() for chunk in chunks),
    )


def _spec(random: Random) -> AccountSpec:
    devices = ("google/desktop", "bing/mobile")[: 1 if random.random() < 0.7 else 2]
    return AccountSpec(
        plan=random.choice(["starter", "pro"]),
        status="past_due" if random.random() < 0.1 else "active",
        anchor=START - random.randrange(60) * DAY + 7 * SECOND,
        add_ons={"brief_pack": random.randrange(2)},
        portfolio=PortfolioSpec(
            domains=random.randrange(1, 4), lists=random.randrange(1, 3), keywords=random.randrange(0, 40),
            scans=(ScanSpec(engine_devices=devices),), labels=random.randrange(2),
        ),
    )  # fmt: skip


def outcomes_of(rows: Records) -> dict[int, int]:
    """How often each outcome came."""
    values, counts = np.unique(rows["outcome"], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
