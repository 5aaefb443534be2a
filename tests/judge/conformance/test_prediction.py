"""Measured beside predicted of a model: latency with and without load, jobs, shares of refusals."""

from __future__ import annotations

import json
from dataclasses import asdict
from random import Random

import pytest
from tests.kit.traces import history_of, read_line

from ranksim.core.clock import HOUR, MILLISECOND, SECOND, Micros, iso
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.report.model_fit import Compared
from ranksim.judge.conformance.report.prediction import against_prediction, latencies
from ranksim.judge.report.judgement import model_sentence, notable


def run(seed: int, calm: Micros, loaded: Micros, count: int = 100) -> History:
    """Give a run of calls one by one, and of as many two by two, that take about so long."""
    draw, lines = Random(seed), []
    for n in range(count):
        lines.append(read_line(n, n * SECOND, round(calm * draw.lognormvariate(0, 0.3))))
        for beside in (1, 2):
            took = round(loaded * draw.lognormvariate(0, 0.3))
            lines.append(read_line(beside * 1000 + n, HOUR + n * SECOND, took))
    return history_of(*lines)


def by_name(rows: list[Compared]) -> dict[str, str]:
    """Return what is said, by the name of the row."""
    return {row.name: row.says.partition(":")[0] for row in rows}


ALONE, LOADED = "latency, no other call in flight", "latency under load"


def test_a_call_is_under_load_while_another_is_in_flight() -> None:
    spans = [(0, 10), (10, 10), (30, 20), (40, 5), (60, 1)]
    lines = [read_line(n, sent, took) for n, (sent, took) in enumerate(spans)]
    lines.append(read_line(9, 100, 5, status=429))  # a rate limit refuses at once
    lines.append(read_line(8, 200, 5, received=None, status=None))
    found = latencies(history_of(*lines))
    assert dict(found.calm) == {"slots.get 200": [(0, 10), (10, 10), (60, 1)]}
    assert dict(found.loaded) == {"slots.get 200": [(30, 20), (40, 5)]}


@pytest.mark.parametrize(("loaded", "says"), [(10, "within"), (20, "left"), (11, "within"), (12, "open")])
def test_a_run_shows_what_load_adds_and_cannot_tell_that_all_is_slow(loaded: int, says: str) -> None:
    rows = by_name(against_prediction(run(1, 10 * MILLISECOND, loaded * MILLISECOND), []))
    assert rows == {ALONE: "could not know", LOADED: says, f"{LOADED}: slots.get 200": says}


def test_a_deployment_twice_as_slow_is_seen_beside_an_earlier_run() -> None:
    earlier = run(1, 10 * MILLISECOND, 30 * MILLISECOND)
    same = by_name(against_prediction(run(2, 10 * MILLISECOND, 30 * MILLISECOND), [], earlier))
    twice = by_name(against_prediction(run(2, 20 * MILLISECOND, 60 * MILLISECOND), [], earlier))
    assert set(same.values()) == {"within"}
    assert set(twice.values()) == {"left"}
    assert {ALONE, LOADED} <= set(twice)


def test_a_few_calls_leave_it_open() -> None:
    few = run(2, 20 * MILLISECOND, 60 * MILLISECOND, count=4)
    rows = against_prediction(few, [], run(1, 10 * MILLISECOND, 30 * MILLISECOND, count=4))
    assert by_name(rows) == {ALONE: "open", LOADED: "open"}


def test_what_was_never_called_without_load_predicts_nothing() -> None:
    lines = [read_line(n, n // 2 * SECOND, 10_000) for n in range(100)]
    assert by_name(against_prediction(history_of(*lines), [])) == {
        ALONE: "could not know",
        LOADED: "could not know",
    }


# Jobs


def job(number: int, until: Micros, **state: str) -> list[str]:
    """Give the creation of a job, and a poll at the end of so many µs that shows a `state`."""
    began, name = number * HOUR, f"job_{number}"
    told = {"id": name, "kind": "crawl", "status": "queued", "created_at": iso(began)}
    replies = [json.dumps({"data": told | change}) for change in ({}, state)]
    post = {"method": "POST", "path": "/v1/jobs", "status": 202, "request_headers": {}, "body": "{}"}
    return [
        read_line(2 * number, began, 1_000, response=replies[0], **post),
        read_line(2 * number + 1, began + until, 1_000, path=f"/v1/jobs/crawl/{name}", response=replies[1]),
    ]


def done(number: int, took: Micros) -> list[str]:
    """Give a job that was done after so long."""
    return job(number, HOUR // 2, status="done", finished_at=iso(number * HOUR + took))


def jobs(seed: int, median: Micros, count: int = 30) -> History:
    """Give a run of jobs that take about so long."""
    draw = Random(seed)
    lengths = [round(median / SECOND * draw.lognormvariate(0, 0.4)) * SECOND for _ in range(count)]
    return history_of(*(line for number, took in enumerate(lengths, 1) for line in done(number, took)))


@pytest.mark.parametrize(("median", "says"), [(60, {"within", "open"}), (120, {"left"})])
def test_jobs_that_take_twice_as_long_are_seen(median: int, says: set[str]) -> None:
    rows = by_name(against_prediction(jobs(2, median * SECOND), [], jobs(1, 60 * SECOND)))
    assert {rows["jobs take"], rows["jobs take: crawl"]} <= says
    alone = by_name(against_prediction(jobs(2, median * SECOND), []))
    assert alone["jobs take"] == "could not know"


def test_a_wait_in_a_queue_is_in_excess_of_a_twin_that_has_none() -> None:
    twins = [jobs(seed, 60 * SECOND) for seed in (1, 2)]
    lines = [line for number in range(20) for line in job(number, 2 * HOUR, status="running")]
    assert by_name(against_prediction(history_of(*lines), twins))["jobs wait"] == "left"
    assert by_name(against_prediction(jobs(3, 60 * SECOND), twins))["jobs wait"] == "within"


# Refusals


def refused(count: int, code: str = "cooldown_active", status: int = 409) -> History:
    """Give a run of a thousand calls, so many of which are refused."""
    why = {"status": status, "response": json.dumps({"code": code, "meta": {}})}
    return history_of(*(read_line(n, n * SECOND, 1_000, **(why if n < count else {})) for n in range(1000)))


@pytest.mark.parametrize(
    ("count", "says"), [(50, "within"), (40, "within"), (0, "left"), (90, "left"), (500, "left")]
)
def test_a_share_of_refusals_lies_where_those_of_the_twin_do(count: int, says: str) -> None:
    twins = [refused(n) for n in (48, 50, 52, 49, 51)]
    assert by_name(against_prediction(refused(count), twins))["calls refused cooldown_active"] == says


@pytest.mark.parametrize(
    ("status", "other", "row"),
    [(409, 409, "409"), (400, 422, "400 or 422"), (403, 404, "403 or 404"), (402, 402, "402")],
)
def test_what_is_not_stated_may_have_another_name_and_status(status: int, other: int, row: str) -> None:
    twins = [refused(n, "not_a_name_of_theirs", status) for n in (48, 50, 52)]
    rows = by_name(against_prediction(refused(50, "no_name_of_ours", other), twins))
    assert rows[f"calls refused {row}"] == "within"


def test_calls_without_a_key_that_works_are_no_share_of_all() -> None:
    """A check sends so many, whatever becomes of its tasks: an equal deployment would have left it."""
    twins = [refused(n, "unauthorized", 401) for n in (48, 50, 52)]
    assert not [
        name
        for name in by_name(against_prediction(refused(500, "unauthorized", 401), twins))
        if "401" in name
    ]


def test_one_run_of_the_twin_does_not_tell_how_far_runs_differ() -> None:
    rows = by_name(against_prediction(refused(500), [refused(50)]))
    assert rows["calls refused cooldown_active"] == "open"


def test_what_no_deployment_shows_cannot_be_known() -> None:
    twins = [refused(n, "cost_cap_reached") for n in (48, 50)]
    rows = against_prediction(refused(500, "cost_cap_reached"), twins)
    assert by_name(rows)["calls refused cost_cap_reached"] == "could not know"


def test_what_left_is_told_once_and_shown_first_hand() -> None:
    twice = run(2, 20 * MILLISECOND, 20 * MILLISECOND)
    found = against_prediction(twice, [refused(50)], run(1, 10 * MILLISECOND, 20 * MILLISECOND))
    rows = [asdict(row) for row in found]
    assert model_sentence(rows) == f"Left the prediction: {ALONE}; 2 within, 1 open or not known"
    assert model_sentence(rows[2:]) == "Nothing left the prediction; 2 within, 1 open or not known"
    assert [row["name"] for row in notable(rows)] == [ALONE, f"{ALONE}: slots.get 200", LOADED]
