"""Calls that clients give up, as the rate limit refuses the last of their tries."""

from __future__ import annotations

import json

import pytest

import ranksim as rs
from ranksim.report.heading import answer_of, run_overview
from ranksim.twin.sim.result_heading import heading_of
from ranksim.twin.sim.why.answer import narrowed
from ranksim.twin.sim.why.futures import Question


def night(domains: int, days: int = 1, client: str = "", more: str = "") -> rs.Scenario:
    return rs.Scenario.parse(
        f"""
scenario: 1
start: 2027-01-01T00:00:00Z
length: {days}d
accounts: {{us: {{plan: agency, portfolio: {{domains: {domains}, keywords: 100}}}}}}
clients:
  nightly: {{kind: schedule, account: us, job: rank_run, domains: all, every: day, at: "02:00"{client}}}
{more}"""
    )


GAVE_UP = "Too early for a rate limit: 225 calls; nightly gave up 5 of jobs.create after 5 tries."


def test_starts_that_come_too_often_are_given_up_after_the_fifth_try() -> None:
    """A minute lets 20 in, so five tries let in 100 of 105, on each of five nights."""
    result = rs.run(night(105, days=5))
    assert result.metric("clients.nightly.given_up").mean == 25
    assert result.metric("calls.given_up").mean == 25
    assert result.metric("jobs.rank_run.done").mean == 500
    (row,) = result.tables["given_up"]
    assert list(row.values()) == ["nightly", "jobs.create", 5, 25, None, None]


def test_of_what_comes_in_by_the_last_try_nothing_is_given_up() -> None:
    result = rs.run(night(100))
    assert result.metric("clients.nightly.given_up").mean == 0
    assert result.metric("clients.nightly.limited").mean == 200
    assert "gave up" not in run_overview(result.tables)
    assert "given_up" not in result.replications[0].to_plain()


@pytest.mark.parametrize(
    "client",
    [
        ", on_limit: ignore",
        ", on_limit: backoff",
        ", max_tries: 1",
        ", max_tries: 1, surface: graphql",
        ", max_tries: 1, network: {before: 10ms, after: 10ms}",
    ],
)
def test_whoever_comes_again_too_soon_or_never_gives_up(client: str) -> None:
    """Within a minute 20 of 25 are let in."""
    assert rs.run(night(25, client=client)).metric("clients.nightly.given_up").mean == 5


def test_the_answer_says_who_gave_up_unless_an_expectation_does() -> None:
    result = rs.run(night(105))
    assert GAVE_UP in run_overview(result.tables)
    for metric, tells in (("jobs.rank_run.done", True), ("clients.nightly.given_up", False)):
        scenario = night(105, more=f"expect: ['{metric} >= 1']")
        expecting = rs.run(scenario)
        answer = answer_of(heading_of(scenario, expecting), expecting.tables)
        assert (GAVE_UP in answer) is tells
        assert ("5 calls of nightly were given up as rate limited" in answer) is not tells


def test_those_who_gave_up_most_are_named_first_and_only_some() -> None:
    ends = {"low": None, "high": None}
    rows = [
        {"client": name, "operation": "slots.get", "tries": tries, "count": count, **ends}
        for name, tries, count in (("a", 1, 1), ("b", 2, 9), ("c", 2, 8), ("d", 2, 7), ("e", 2, 6))
    ]
    assert run_overview({"given_up": rows[:2]}) == (
        "b gave up 9 of slots.get after 2 tries; a gave up 1 of slots.get after 1 try."
    )
    assert run_overview({"given_up": rows}).endswith("; others gave up 1 call.")


def test_what_is_given_up_in_the_warm_up_is_not_counted() -> None:
    scenario = night(105, days=2).replace(warm_up="1d")
    assert rs.run(scenario).metric("clients.nightly.given_up").mean == 5


def test_a_result_that_was_saved_before_it_was_counted_has_none() -> None:
    plain = json.loads(rs.run(night(105)).to_json())
    for replication in plain["replications"]:
        assert replication.pop("given_up")
    read = rs.Result.from_json(json.dumps(plain))
    assert read.metric("clients.nightly.given_up").mean == 0
    assert read.tables["given_up"] == []


def test_why_asks_for_it_of_clients_that_only_read_too() -> None:
    scenario = night(25, more="  polls: {kind: poller, account: us, operation: slots.get, every: 1s}\n")
    assert "polls" in narrowed(scenario, Question.parse("clients.polls.given_up"), "us").clients
