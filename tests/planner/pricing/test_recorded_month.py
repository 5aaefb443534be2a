"""The shipped month of recorded traffic, as columns and made again at a service: every call comes out alike.

1.9 million calls take half an hour at the service; `RANKSIM_MONTH_DAYS=2` ends after two days. After every
day what the service came to is kept under a digest of the sources in `.cache/month` (or the folder that
RANKSIM_MONTH_CACHE names), from where a run that was interrupted goes on.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ranksim as rs
from ranksim.core.clock import DAY, SECOND
from ranksim.core.records import read_rates
from ranksim.core.rulebook import RULEBOOK, rulebook_digest
from ranksim.core.service.operations import OPERATIONS
from ranksim.planner.fleet.recorded_fleet import RecordedFleet
from ranksim.planner.fleet.rows import Records
from ranksim.planner.pricing.audit import is_alike
from ranksim.planner.pricing.catalogues import selling
from ranksim.planner.pricing.columns import accounts_for
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recording import RecordedCall, Recording
from ranksim.planner.pricing.replay import ReplayedService

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "scenarios"
CACHE = Path(os.environ.get("RANKSIM_MONTH_CACHE", ROOT / ".cache" / "month"))
SOURCES = (*RULEBOOK, "planner/fleet", "planner/pricing")
UNKEPT = ("recording", "calls")
"""What of a replay is the recording, which is made anew."""

KEYS = (("studio", "reports"), ("studio", "sync"), ("shop", "site"), ("club", "site"))
MIX = {
    "positions.list": 40, "keywords.list": 15, "account.usage": 10, "positions.history": 5, "jobs.list": 8,
    "slots.get": 5, "domains.list": 5, "webhook_deliveries.list": 2, "keywords.update": 6,
    "keywords.create": 0.2, "keyword_briefs.create": 0.3, "jobs.create": 3.5,
}  # fmt: skip
PAGED = {"positions.list": {"limit": "10"}, "keywords.list": {"limit": "10"}, "jobs.list": {"limit": "10"},
         "positions.history": {"limit": "10"}}  # fmt: skip


def calls_of(
    scenario: rs.Scenario, seconds: int, owned: dict[str, tuple[int, int]]
) -> Iterator[RecordedCall]:
    """A call for each recorded request, by one of the keys, of one of the operations, each by a draw."""
    random = Random(1995)
    names, weights = list(MIX), list(MIX.values())
    second = number = 0
    for counts in read_rates(SCENARIOS / "data" / "nasa-july-1995-per-second.txt.xz"):
        for count in counts.tolist():
            second += 1
            if second > seconds:
                return
            for at in sorted(random.randrange(SECOND) for _ in range(count)):
                number += 1
                account, key = random.choice(KEYS)
                operation = random.choices(names, weights)[0]
                domains, keywords = owned[account]
                domain = f"dom_{random.randrange(domains):03}"
                path = {"id": f"kw_{random.randrange(domains * keywords):06}"}
                bodies = {
                    "jobs.create": {"kind": "rank_run", "domain_id": domain},
                    "keyword_briefs.create": {"domain_id": domain, "keywords": [f"word {number}"]},
                    "keywords.create": {"list_id": f"list_{domain[4:]}", "keywords": [f"word {number}"]},
                    "keywords.update": {"label_ids": []},
                }
                yield RecordedCall(
                    id=str(number),
                    at=scenario.start + (second - 1) * SECOND + at,
                    account=account,
                    operation=operation,
                    status=None,
                    key=key,
                    path=path if "{id}" in OPERATIONS[operation].path else {},
                    query=PAGED.get(operation, {}),
                    body=bodies.get(operation),
                )


def unlike_calls(replay: ReplayedService, calls: Sequence[RecordedCall], rows: Records, file: Path) -> int:
    """Make calls at a service, count those that come out otherwise than rows say, and keep it."""
    done = unlike = 0
    if file.exists():
        done, unlike, kept = pickle.loads(file.read_bytes())
        vars(replay).update(kept)
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    while done < len(calls):
        ends = calls[done].at // DAY * DAY + DAY
        while done < len(calls) and calls[done].at < ends:
            got, row = replay.call(calls[done]), rows[done]
            unlike += not is_alike(got, int(row["outcome"]), int(row["amount"]))
            done += 1
        kept = {name: value for name, value in vars(replay).items() if name not in UNKEPT}
        file.with_suffix(".new").write_bytes(pickle.dumps((done, unlike, kept)))
        file.with_suffix(".new").replace(file)
        print(f"{done:,} calls, {unlike} unlike")
    return unlike


@pytest.mark.heavy
def test_the_shipped_month_comes_out_as_at_a_service() -> None:
    scenario = rs.Scenario.load(SCENARIOS / "real-arrivals-month.yaml")
    days = int(os.environ.get("RANKSIM_MONTH_DAYS", "28"))
    owned = {}
    recording = Recording("the shipped month")
    for name, spec in scenario.accounts.items():
        assert spec.portfolio is not None
        count, keywords = len(spec.hosts(name)), spec.portfolio.keywords
        owned[name] = count, keywords
        recording.before[name, "domains"] = [f"dom_{n:03}" for n in range(count)]
        recording.before[name, "keyword_lists"] = [f"list_{n:03}" for n in range(count)]
        recording.before[name, "keywords"] = [f"kw_{n:06}" for n in range(count * keywords)]
    recording.calls = list(calls_of(scenario, days * 86_400, owned))
    accounts = dict(scenario.accounts)
    policy = selling(scenario.policy, scenario.policy.catalogue)
    columns = columns_of(recording, accounts=accounts)
    assert (columns.left_out, [one.unmodelled for one in columns.accounts]) == ({}, [{}] * 3)
    sold = [(one.spec.plan, ()) for one in columns.accounts]
    fleet = RecordedFleet(accounts_for(columns, sold, policy, 1), policy, 1)
    chunks = list(columns.chunks())
    for chunk in chunks:
        fleet.serve(chunk)
    rows = np.concatenate(chunks)
    rows = rows[np.argsort(rows["at"], kind="stable")]
    specs = {name: accounts[name] for name in recording.accounts}
    replay = ReplayedService(recording, specs, policy, 1)
    assert unlike_calls(replay, recording.calls, rows, CACHE / f"{rulebook_digest(SOURCES)[:24]}.pickle") == 0
    assert len(np.unique(rows["outcome"])) >= 4
    if days == 28:
        assert len(rows) == 1_909_434
