"""A year of recorded calls, and a search over a hundred catalogues: CPU time, and memory that does not grow.

The calls are made chunk by chunk, which is not counted: a million a day of ten thousand accounts, of which
eight in ten read. `RANKSIM_YEAR=1` serves the 365 million of a year; without it, those of three days.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import DAY
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.recorded_fleet import RecordedFleet
from ranksim.planner.fleet.rows import READ, REMOVE, WRITE, CallRow, Records, blank
from ranksim.planner.pricing.column_back_test import back_test_columns
from ranksim.planner.pricing.columns import ColumnAccount, Columns, accounts_for
from ranksim.planner.pricing.pareto import changed
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.search import search

START = 20_514 * DAY
ACCOUNTS = 10_000
A_DAY = 1_000_000
ODDS = {READ: 0.8, WRITE: 0.09, REMOVE: 0.01, Spend.RANK_RUN: 0.04, Spend.CRAWL: 0.01, Spend.KEYWORDS: 0.01,
        Spend.KEYWORD_BRIEFS: 0.04}  # fmt: skip


def made(days: int, accounts: int = ACCOUNTS, a_day: int = A_DAY) -> Columns:
    """Columns of so many days, a chunk a day, which is the same one but for its date."""
    spec = AccountSpec(plan="pro", anchor=START, portfolio=PortfolioSpec(domains=2, keywords=50))
    many = tuple(ColumnAccount(f"a{n}", spec, days * a_day // accounts, n) for n in range(accounts))

    def chunks() -> Iterator[Records]:
        random = np.random.default_rng(1)
        calls = blank(a_day, CallRow)
        calls["account"] = np.sort(random.integers(0, accounts, a_day))
        calls["key"] = calls["account"]
        calls["at"] = START + _by_account(calls["account"], random)
        calls["activity"] = random.choice(list(map(int, ODDS)), a_day, p=list(ODDS.values()))
        calls["domain"] = random.integers(0, 2, a_day)
        calls["size"] = 1
        for _ in range(days):
            yield calls
            calls["at"] += DAY

    return Columns(
        "made", many, keys=accounts, things=0, start=START, end=START + days * DAY, calls=days * a_day,
        left_out={}, chunks=chunks,
    )  # fmt: skip


def _by_account(accounts: Any, random: Any) -> Any:
    """Instants of a day, in order within each account."""
    at = random.integers(0, DAY, len(accounts))
    return at[np.lexsort((at, accounts))]


def fleet_of(columns: Columns, window: str) -> RecordedFleet:
    policy = Policy().replace(assumptions={"window": window})
    sold = [(account.spec.plan, ()) for account in columns.accounts]
    return RecordedFleet(accounts_for(columns, sold, policy, 1), policy, 1, compiled=True)


YEAR = """
import json, re, sys
sys.path.insert(0, "benchmarks")
from pathlib import Path
from time import process_time
from test_recorded import fleet_of, made
columns = made(int(sys.argv[1]))
fleet = fleet_of(columns, "first_hit")
took = 0.0
for chunk in columns.chunks():
    begun = process_time()
    fleet.serve(chunk)
    took += process_time() - begun
counts = fleet.ledger.counts.reshape(-1, 9)
status = Path("/proc/self/status").read_text()
print(json.dumps({
    "calls": columns.calls,
    "cpu_seconds": round(took, 1),
    "refused": int(counts[:, 1:7].sum() + counts[:, 8].sum()),
    "peak_mb": round(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024),
}))
"""


def test_a_year(benchmark: Any) -> None:
    """A fresh process serves 365 million calls, or three million: CPU seconds of the kernel, peak memory."""
    days = 365 if os.environ.get("RANKSIM_YEAR") else 3
    environment = os.environ | {"PYTHONPATH": "src"}
    command = [sys.executable, "-c", YEAR, str(days)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    benchmark.pedantic(lambda: None, rounds=1, iterations=1)
    benchmark.extra_info.update(json.loads(printed))


def test_the_whole_back_test(benchmark: Any) -> None:
    """Calls a second of `back_test_columns`, tallies by day and customer included, without the audit."""
    columns, side = made(3), Side(Policy().catalogue, "starter")
    back_test_columns(made(1, 10, 100), [side], audited=False)
    begun = process_time()
    found = back_test_columns(columns, [side], audited=False)
    took = process_time() - begun
    benchmark.pedantic(lambda: None, rounds=1, iterations=1)
    benchmark.extra_info["millions_a_second_with_making"] = round(columns.calls / took / 1e6, 2)
    benchmark.extra_info["refused"] = int(found.served[0].refused.sum())


def test_a_hundred_catalogues(benchmark: Any) -> None:
    """A search over ten quotas by ten ceilings: a year of calls of 10,000 customers, or 3 days of 1,000."""
    long = bool(os.environ.get("RANKSIM_YEAR"))
    columns = made(365) if long else made(3, 1_000, 100_000)
    free = {f"plans.pro.cooldowns.{kind}": "0s" for kind in ("rank_run", "crawl")}
    grid = {
        "plans.pro.quotas.keyword_brief_refreshes.limit": [50 + 10 * n for n in range(10)],
        "plans.pro.cost_ceiling": [f"{15 + 15 * n} USD" for n in range(10)],
    }
    begun = process_time()
    found = search(columns, changed(Policy().catalogue, free), grid, first=300 if long else 30)
    took = process_time() - begun
    benchmark.pedantic(lambda: None, rounds=1, iterations=1)
    benchmark.extra_info["cpu_seconds"] = round(took, 1)
    benchmark.extra_info["recorded_calls"] = columns.calls
    benchmark.extra_info["served_calls"] = found.served
    benchmark.extra_info["best"] = None if found.best is None else found.best["point"]
    assert len(found.candidates) == 100
