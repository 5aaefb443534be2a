"""Measured beside predicted: refusals, waits, delays and latencies against a simulated world's result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.traces import history_of, read_line

import ranksim as rs
from ranksim.core.clock import HOUR, SECOND, iso
from ranksim.core.errors import BadInput
from ranksim.judge.conformance.history.history import Offset
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report import model_fit
from ranksim.judge.conformance.report.model_fit import (
    Compared,
    against,
    delivery_delays,
    job_waits,
    read_result,
)
from ranksim.twin.sim.runner import run

TABLES: dict[str, list[dict[str, Any]]] = {"calls": [], "refusals": [], "jobs": [], "delays": []}


def exchange(number: int, /, **changes: object) -> str:
    """Give a line of a trace: a read that took 10 ms."""
    return read_line(number, number * SECOND, 10_000, **changes)


def refusal(number: int, code: str, status: int) -> str:
    """Give an exchange that was refused."""
    return exchange(number, status=status, response=json.dumps({"code": code, "meta": {}}))


def by_name(rows: list[Compared]) -> dict[str, Compared]:
    """Find rows by their name."""
    return {row.name: row for row in rows}


# Shares


def refusals(
    measured_refused: int, predicted_refused: float, low: float | None, high: float | None
) -> Compared:
    """Compare 1,000 calls, some of them 429, with a prediction for 1,000 calls."""
    lines = [refusal(n, "rate_limited", 429) if n < measured_refused else exchange(n) for n in range(1000)]
    row = {"code": "rate_limited", "count": predicted_refused, "low": low, "high": high}
    tables = TABLES | {"calls": [{"count": 1000.0}], "refusals": [row]}
    return by_name(against(history_of(*lines), {"tables": tables}))["calls refused rate_limited"]


@pytest.mark.parametrize(
    ("seen", "predicted", "low", "high", "says"),
    [
        (5, 5, None, None, "within"),
        (0, 0, None, None, "within"),
        (200, 50, 40, 60, "left"),
        (50, 200, 190, 210, "left"),
        (60, 50, 20, 80, "open"),
    ],
)
def test_shares_of_refusals_lie_within_the_margin(
    seen: int, predicted: float, low: float | None, high: float | None, says: str
) -> None:
    assert refusals(seen, predicted, low, high).says == says


def test_a_code_that_only_one_side_knows_is_compared() -> None:
    rows = by_name(
        against(history_of(refusal(0, "teapot", 418)), {"tables": TABLES | {"calls": [{"count": 1.0}]}})
    )
    assert rows["calls refused teapot"].predicted == 0


# Waits


def told(number: int, job: str, state: str, sent: int) -> str:
    """Give the creation of a job (number 0) or a poll of it, 10 ms long."""
    made = {"path": "/v1/jobs", "method": "POST", "status": 202} if number == 0 else {}
    asked = {"path": f"/v1/jobs/rank_run/{job}"} | made
    asked |= {"request_headers": {}, "body": "{}"}
    body = json.dumps({"data": {"id": job, "kind": "rank_run", "status": state}})
    return exchange(number, id=f"{job}/{number}", sent=sent, received=sent + 10_000, response=body, **asked)


def test_a_wait_lies_between_the_last_poll_in_the_queue_and_the_first_after_it() -> None:
    polls = (("queued", 0), ("queued", 5 * SECOND), ("running", 9 * SECOND))
    lines = [told(number, "job_1", state, sent) for number, (state, sent) in enumerate(polls)]
    assert job_waits(history_of(*lines)) == {"rank_run": [(5 * SECOND - 10_000, 9 * SECOND + 10_000)]}


def test_a_job_that_was_not_seen_to_start_has_no_wait() -> None:
    lines = (told(0, "job_1", "queued", 0), told(1, "job_1", "queued", 5 * SECOND))
    assert job_waits(history_of(*lines)) == {}


def waits(model: float) -> Compared:
    """Compare 40 jobs that waited 8 s with a predicted median, µs."""
    polls = (("queued", 0), ("queued", 8 * SECOND), ("running", 8 * SECOND))
    lines = [
        told(number, f"job_{n}", state, n * HOUR + after)
        for n in range(40)
        for number, (state, after) in enumerate(polls)
    ]
    row = {"kind": "rank_run", "wait_p50": model, "wait_p95": None, "wait_p99": None}
    found = against(history_of(*lines), {"tables": TABLES | {"jobs": [row]}})
    return by_name(found)["rank_run wait, 50 %"]


@pytest.mark.parametrize(
    ("model", "says"),
    [(8 * SECOND, "within"), (9 * SECOND, "within"), (20 * SECOND, "left"), (1 * SECOND, "left")],
)
def test_waits_lie_within_a_fifth(model: float, says: str) -> None:
    row = waits(model)
    assert row.says == says
    assert row.margin == max(model_fit.LEAST_MARGIN, 0.2 * model)


# Delays and latencies


def test_a_delay_is_known_as_well_as_the_clock_is() -> None:
    made = 100 * SECOND
    body = json.dumps({"created_at": iso(made)})
    came = {"kind": "delivery", "received": made + 3 * SECOND, "answered": made + 3 * SECOND}
    found = history_of(json.dumps(came | {"endpoint": "e", "body": body, "status": 200}))
    assert delivery_delays(found) == []
    found.run.offset = Offset(-SECOND // 2, SECOND, 1)
    assert delivery_delays(found) == [(3 * SECOND - SECOND // 2, 4 * SECOND)]
    row = by_name(against(found, {"tables": TABLES}))["webhook delay, 50 %"]
    assert (row.measured, row.predicted, row.says) == (3.25 * SECOND, None, "not predicted")


def test_latency_from_the_plan_shows_what_latency_from_sending_hides() -> None:
    lines = [exchange(n, planned=n * SECOND - 400_000) for n in range(1, 101)]
    rows = by_name(against(history_of(*lines), {"tables": TABLES}))
    assert rows["latency from sending, 50 %"].measured == 10_000
    assert rows["latency from planned sending, 50 %"].measured == 410_000
    assert rows["latency from sending, 50 %"].says == "the model answers at once"


def test_the_bootstrap_interval_holds_the_quantile_and_is_the_same_each_time() -> None:
    values = np.random.default_rng(7).lognormal(size=500)
    low, high = model_fit._bootstrap(values, 0.95)
    assert low < np.quantile(values, 0.95) < high
    assert (low, high) == model_fit._bootstrap(values, 0.95)


# Results


@pytest.mark.slow
def test_a_simulated_run_agrees_with_itself(tmp_path: Path) -> None:
    scenario = rs.Scenario.load(Path(__file__).parents[3] / "scenarios/quickstart.yaml")
    from ranksim.core.trace_writer import TraceWriter

    with TraceWriter(tmp_path / "trace.jsonl", started=scenario.start) as writer:
        result = run(scenario, trace=writer)
    (tmp_path / "result.json").write_text(result.to_json(), encoding="utf-8")
    rows = against(read_history(tmp_path / "trace.jsonl"), read_result(tmp_path))
    shares = [row for row in rows if row.quantity == "share"]
    assert [row.measured for row in shares] == pytest.approx([row.predicted for row in shares])
    assert {row.says for row in shares} <= {"within", "open"}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"kind": "study", "version": 1, "tables": {}}', '{"kind": "run", "version": 1}']
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"result\.json"):
        read_result(tmp_path)


def test_a_missing_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_result(tmp_path / "nothing")
