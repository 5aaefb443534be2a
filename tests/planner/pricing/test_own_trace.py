"""A back-test of the trace of a run: what it costs, and what each call is answered, is what it was there."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from exchanges import NOON, call, recorded

import ranksim as rs
from ranksim.core.clock import SECOND, iso
from ranksim.core.contract.located import Located
from ranksim.core.contract.policy import Policy
from ranksim.core.trace_writer import TraceWriter
from ranksim.planner.pricing.back_test import BackTest, back_test
from ranksim.planner.pricing.column_back_test import back_test_columns
from ranksim.planner.pricing.columns import save_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.job_endings import JobEnding
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


def test_calls_that_a_network_lost_are_not_replayed(tmp_path: Path) -> None:
    """Requests that never arrive cost nothing; those whose reply is lost do, and are told from them."""
    lossy = {"lost_requests": 0.3, "lost_replies": 0.3}
    client = {"kind": "caller", "account": "acme", "mix": {"keyword_briefs.create": 1}, "every": "2h"}
    accounts = {"acme": {"plan": "agency", "portfolio": {"domains": 1}}}
    scenario = drawn(3).replace(accounts=accounts, clients={"briefs": client | {"network": lossy}})
    cost, path = run_of(scenario, tmp_path)
    tested = own_test(scenario, read_recording(path))
    (lost,) = tested.left_out.values()
    assert lost > 20
    assert sum(row["recorded"] is None for row in tested.calls) > 20
    assert tested.total("cost", "A") == cost


@pytest.mark.parametrize("number", range(3))
def test_jobs_whose_start_nobody_saw_answered_end_as_they_did(number: int, tmp_path: Path) -> None:
    """A run each half hour, and a cooldown of one from the end of the last: one that ends otherwise shows."""
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "30m"}
    runs["network"] = {
        "lost_requests": 0.02,
        "lost_replies": 0.05,
        "before": {"uniform": {"low": "5ms", "high": "9s"}},
    }
    scenario = eventful(number).replace(length="7d", clients={"runs": runs})
    cost, path = run_of(scenario, tmp_path)
    tested = own_test(scenario, read_recording(path))
    recorded = [row for row in tested.calls if row["recorded"] is not None]
    assert len(tested.calls) - len(recorded) > 10
    assert [row["a"] for row in recorded] == [row["recorded"] for row in recorded]
    assert tested.total("cost", "A") == cost


@pytest.mark.fact("U51")
def test_months_begin_with_the_run_and_not_with_its_first_call(tmp_path: Path) -> None:
    """A run of 0.04 USD each morning from 6:00 on 2 September: 25 are 1 USD, and October begins at 0:00."""
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "at": "06:00", "starts": "8h"}
    ceiling = {"policy.catalogue.plans.starter.cost_ceiling": "1 USD"}
    account = {"plan": "starter", "portfolio": {"domains": 1, "keywords": 100}}
    data = {"start": "2026-09-01T00:00:00Z", "length": "45d", "accounts": {"acme": account}}
    scenario = rs.Scenario.model_validate(data | {"clients": {"runs": runs}}).changed(ceiling)
    _, path = run_of(scenario, tmp_path)
    recording = read_recording(path)
    assert iso(recording.calls[0].at) == "2026-09-02T06:00:00Z"
    tested = own_test(scenario, recording)
    assert [row["a"] for row in tested.calls] == [row["recorded"] for row in tested.calls]
    assert {row["recorded_code"] for row in tested.calls} == {"", "cost_cap_reached"}
    columns = columns_of(recording, accounts=dict(scenario.accounts))
    assert columns.start == scenario.start


def test_what_accounts_used_when_a_run_began_counts(tmp_path: Path) -> None:
    """Of the month 86 of 90 USD are used, and a domain was crawled six hours before."""
    used = {"metrics": {"keyword_brief_refreshes": 45}, "spent": "86 USD"}
    cooling = {"domain": "site1.acme.example", "spend": "crawl", "since": "2026-03-04T00:00:00Z"}
    briefs = {"kind": "caller", "account": "acme", "mix": {"keyword_briefs.create": 1}, "every": "12h"}
    crawls = {"kind": "schedule", "account": "acme", "job": "crawl", "every": "12h", "at": "08:00"}
    scenario = drawn(3).replace(
        start="2026-03-04T06:00:00Z",
        clients={"briefs": briefs, "crawls": crawls},
        accounts={"acme": {"plan": "pro", "used": used | {"cooldowns": [cooling]}}},
    )
    cost, path = run_of(scenario, tmp_path)
    tested = own_test(scenario, read_recording(path))
    assert [row["a"] for row in tested.calls] == [row["recorded"] for row in tested.calls]
    assert tested.total("cost", "A") == cost - 86_000_000
    codes = {row["recorded_code"] for row in tested.calls}
    assert codes >= {"cost_cap_reached", "cooldown_active"}


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


def eventful(number: int) -> rs.Scenario:
    """A drawn scenario whose few workers take long, fail, and cost more or less than was estimated."""
    random = Random(number)
    pools = {
        kind: {
            "capacity": random.randint(1, 3),
            "duration": {"lognormal": {"median": random.choice(["5m", "3h", "9h"]), "sigma": 1.0}},
            "failure_rate": random.choice([0.0, 0.3]),
            "cost_factor": {"low": 0.5, "high": 2},
        }
        for kind in ("rank_run", "crawl", "site_optimization", "ai_scan")
    }
    return drawn(number, pools=pools)


@pytest.mark.parametrize("number", range(8))
def test_jobs_end_as_they_did_in_the_run(number: int, tmp_path: Path) -> None:
    scenario, path = eventful(number), tmp_path / "trace.jsonl"
    with TraceWriter(path, started=scenario.start) as trace:
        world = rs.World(scenario, trace=trace)
        world.run()
    jobs = world.service.state.jobs.values()
    tested = own_test(scenario, read_recording(path))
    assert [row["a"] for row in tested.calls] == [row["recorded"] for row in tested.calls]
    ended = [job for job in jobs if job.finished_at is not None]
    assert any(job.cost != job.estimate for job in ended)
    under_way = [job for job in jobs if job.finished_at is None]
    cost = sum(job.cost for job in ended) + sum(job.estimate for job in under_way)
    assert tested.total("cost", "A") == cost


@pytest.mark.parametrize("number", range(8))
def test_jobs_end_in_columns_as_they_did_in_the_run(number: int, tmp_path: Path) -> None:
    """Ranks are asked for more often than few workers run them, so that starts join what is under way."""
    slow = {"capacity": 1 + number % 3, "duration": {"lognormal": {"median": "3h", "sigma": 1}}}
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "45m", "max_tries": 1}
    scenario = drawn(number, pools={"rank_run": slow | {"failure_rate": 0}})
    scenario = scenario.replace(clients={"runs": runs})
    cost, path = run_of(scenario, tmp_path)
    save_columns(columns_of(path, accounts=dict(scenario.accounts)), tmp_path / "calls.parquet", "salt")
    sides = [Side(scenario.policy.catalogue)]
    fast = back_test_columns(tmp_path / "calls.parquet", sides, policy=scenario.policy, compiled=False)
    assert fast.unlike == []
    assert (int(fast.refused_anew.sum()), fast.admitted_anew) == (0, 0)
    assert int(fast.served[0].cost.sum()) == cost
    assert fast.served[0].audit.unequal == 0


READINGS: list[dict[str, Any]] = [
    {},
    {"cooldown_after_failure": "clear"},
    {"failed_run_arms": True},
    {"cooldown_scope": "account"},
    {"cooldown_from": "finish"},
    {"cooldown_from": "finish", "cooldown_after_failure": "clear"},
]


@pytest.mark.parametrize("assumptions", READINGS, ids=str)
def test_cooldowns_of_jobs_that_failed_are_in_columns_what_they_were(
    assumptions: dict[str, Any], tmp_path: Path
) -> None:
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "20m", "max_tries": 1}
    pool = {"capacity": "unlimited", "duration": "5m", "failure_rate": 0.3}
    scenario = drawn(3, pools={"rank_run": pool}).replace(
        clients={"runs": runs}, policy=Policy().replace(assumptions=assumptions)
    )
    cost, path = run_of(scenario, tmp_path)
    columns = columns_of(path, accounts=dict(scenario.accounts))
    sides = [Side(scenario.policy.catalogue)]
    fast = back_test_columns(columns, sides, policy=scenario.policy, compiled=False)
    assert fast.unlike == []
    assert {row["code"] for row in fast.refusals} == {"cooldown_active"}
    assert int(fast.served[0].cost.sum()) == cost


def test_jobs_that_failed_cost_nothing_in_columns_either(tmp_path: Path) -> None:
    scenario = drawn(3, pools={"crawl": {"capacity": "unlimited", "failure_rate": 0.5}})
    path = tmp_path / "trace.jsonl"
    with TraceWriter(path, started=scenario.start) as trace:
        world = rs.World(scenario, trace=trace)
        world.run()
    jobs = world.service.state.jobs.values()
    columns = columns_of(path, accounts=dict(scenario.accounts))
    sides = [Side(scenario.policy.catalogue)]
    fast = back_test_columns(columns, sides, policy=scenario.policy, compiled=False)
    failed = sum(job.status == "failed" for job in jobs)
    assert columns.unmodelled["jobs that failed when recorded"] == failed > 0
    assert int(fast.served[0].cost.sum()) == sum(job.cost for job in jobs)


@pytest.mark.parametrize("compiled", [False, None])
def test_jobs_that_cost_something_else_than_was_estimated_do_so_in_columns(
    compiled: bool | None, tmp_path: Path
) -> None:
    pool = {"capacity": "unlimited", "failure_rate": 0, "cost_factor": {"low": 0.5, "high": 2}}
    pools = dict.fromkeys(("rank_run", "crawl", "site_optimization", "ai_scan"), pool)
    scenario = drawn(3, pools=pools)
    cost, path = run_of(scenario, tmp_path)
    calls = own_test(scenario, read_recording(path))
    save_columns(columns_of(path, accounts=dict(scenario.accounts)), tmp_path / "calls.parquet", "salt")
    sides = [Side(scenario.policy.catalogue)]
    fast = back_test_columns(tmp_path / "calls.parquet", sides, policy=scenario.policy, compiled=compiled)
    assert int(fast.served[0].cost.sum()) == calls.total("cost", "A") == cost
    assert fast.columns.unmodelled["jobs that reserved something else than they cost"] > 0
    assert fast.served[0].audit.unequal == 0


def test_reads_and_deliveries_tell_how_jobs_ended(tmp_path: Path) -> None:
    began = {"created_at": iso(NOON)}
    view = {"status": "failed", "finished_at": iso(NOON + 90 * SECOND)} | began
    done = {"status": "done", "finished_at": iso(NOON + 30 * SECOND)} | began
    made = [
        call(n, "POST", "/v1/jobs", {"kind": "crawl", "domain_id": f"dom_{n}"}, status=202,
             response=json.dumps({"data": {"id": f"job_{n}"} | began}))
        for n in range(4)
    ]  # fmt: skip
    reads = [
        call(200, "GET", "/v1/jobs/crawl/job_0", response=json.dumps({"data": {"id": "job_0"} | view})),
        call(
            201, "GET", "/v1/jobs", response=json.dumps({"data": [{"id": "job_1"} | done, {"id": "job_3"}]})
        ),
    ]
    event = {"data": {"job": {"id": "job_2", "status": "failed", "finished_at": "soon"} | view}}
    delivery = {"kind": "delivery", "received": NOON, "endpoint": "whk_1", "body": json.dumps(event)}
    odd = {"kind": "note", "text": "how a job ended", "job": "job_3", "finished_at": "soon", "cost": "much"}
    recording = recorded(tmp_path, *made, *reads, delivery, {"kind": "note", "text": "x", "job": 7}, odd)
    endings = [one.ending for one in recording.calls[:4]]
    assert endings == [
        JobEnding(NOON + 90 * SECOND, failed=True),
        JobEnding(NOON + 30 * SECOND, failed=False),
        JobEnding(NOON + 90 * SECOND, failed=True),
        JobEnding(None, failed=False),
    ]
    tested = back_test(recording, [Side(Policy().catalogue, "pro")])
    assert [row["a_cost"] > 0 for row in tested.calls[:4]] == [False, True, False, True]
    assert [JobEnding(0, False, 30, 20).cost_of(n) for n in (20, 7)] == [30, 11]
