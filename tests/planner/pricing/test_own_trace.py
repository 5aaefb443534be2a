"""A back-test of the trace of a run: what it costs, and what each call is answered, is what it was there."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.contract.located import Located
from ranksim.planner.pricing.back_test import BackTest, back_test
from ranksim.planner.pricing.column_back_test import back_test_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import Recording, read_recording

ROOT = Path(__file__).parents[3]


def drawn(number: int, **more: Any) -> rs.Scenario:
    """A scenario of a fortnight with jobs of every kind, drawn by its number."""
    random = Random(number)
    kinds = random.sample(["rank_run", "crawl", "site_optimization", "ai_scan"], k=random.randint(2, 4))
    clients = {
        kind: {
            "kind": "schedule",
            "account": "acme",
            "job": kind,
            "every": random.choice(["8h", "12h", "day"]),
            "at": random.choice(["01:00", "06:30"]),
        }
        for kind in kinds
    }
    places = random.randint(1, 2)
    portfolio = {
        "domains": random.randint(1, 9),
        "keywords": random.choice([3, 20]),
        "scans": [{"engine_devices": ["google/desktop"], "geographies": ["US", "DE"][:places]}],
    }
    plan = random.choice(["pro", "agency"])
    data = {
        "name": "drawn",
        "start": "2026-03-01T00:00:00Z",
        "length": "14d",
        "seed": number,
        "accounts": {"acme": {"plan": plan, "portfolio": portfolio}},
        "clients": clients,
    }
    return rs.Scenario.read(Located("drawn", data | more, {}))


def run_of(scenario: rs.Scenario, folder: Path) -> tuple[int, Path]:
    """Run a scenario, and return what it cost (µUSD), and its trace."""
    path = folder / "trace.jsonl"
    run = rs.run(scenario, trace=path)
    return round(run.metric("spend.acme.max").mean), path


def own_test(scenario: rs.Scenario, recording: Recording) -> BackTest:
    sides = [Side(scenario.policy.catalogue)]
    return back_test(recording, sides, accounts=dict(scenario.accounts), policy=scenario.policy, seed=77)


@pytest.mark.parametrize("number", range(8))
def test_a_runs_own_trace_costs_what_the_run_did(number: int, tmp_path: Path) -> None:
    scenario = drawn(number)
    cost, path = run_of(scenario, tmp_path)
    recording = read_recording(path)
    tested = own_test(scenario, recording)
    assert cost > 0
    assert tested.total("cost", "A") == cost
    assert [row["a"] for row in tested.calls] == [row["recorded"] for row in tested.calls]
    assert not any("drawn" in note or "assumed on" in note for note in tested.notes)
    columns = columns_of(recording, accounts=dict(scenario.accounts))
    sides = [Side(scenario.policy.catalogue)]
    fast = back_test_columns(columns, sides, policy=scenario.policy, seed=77, compiled=False)
    assert int(fast.served[0].cost.sum()) == cost
    assert fast.served[0].audit.unequal == 0
    assert not any("drawn" in note or "assumed on" in note for note in fast.notes)
