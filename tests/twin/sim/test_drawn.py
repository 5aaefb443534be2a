"""What is drawn in a world: where nothing is, replications are alike, and no number has an interval."""

from __future__ import annotations

from typing import Any

import pytest

import ranksim as rs
from ranksim.twin.sim.drawn import is_drawn
from ranksim.twin.sim.world import World

RUNS = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "day"}
NIGHTLY: dict[str, Any] = {
    "start": "2026-03-01T00:00:00Z",
    "length": "2d",
    "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 31, "keywords": 3}}},
    "clients": {"nightly": RUNS},
    "pools": {"rank_run": {"capacity": 3, "duration": "2m", "failure_rate": 0}},
}
RECEIVER = {"account": "acme", "latency": "200ms"}


def world(**changes: Any) -> rs.Scenario:
    return rs.Scenario.model_validate({"name": "nightly", **NIGHTLY, **changes})


UNDRAWN = {
    "nightly": {},
    "spread": {"clients": {"nightly": RUNS | {"spread": "1h", "dry_run_first": True}}},
    "polled": {
        "clients": NIGHTLY["clients"]
        | {"reads": {"kind": "poller", "account": "acme", "operation": "jobs.list", "every": "1m"}}
    },
    "told": {"receivers": {"erp": RECEIVER}},
    "growing": {
        "timeline": (
            {"at": "1d", "do": "add_keywords", "account": "acme", "count": 500},
            {"at": "1d", "do": "resize_pool", "pool": "rank_run", "capacity": 1},
        )
    },
}
DRAWN = {
    "durations": {"pools": {"rank_run": {"capacity": 3, "duration": {"exponential": {"mean": "2m"}}}}},
    "failures": {"pools": {"rank_run": {"capacity": 3, "duration": "2m", "failure_rate": 0.1}}},
    "costs": {"pools": {"rank_run": {"capacity": 3, "duration": "2m", "cost_factor": {"low": 0, "high": 1}}}},
    "sites": {"clients": {"nightly": RUNS | {"job": "crawl"}}},
    "starts": {
        "clients": {"nightly": RUNS | {"spread": "1h", "spread_by": "draws"}},
    },
    "backoff": {"clients": {"nightly": RUNS | {"on_limit": "backoff"}}},
    "retries": {"receivers": {"erp": RECEIVER | {"outages": ({"from": "0s", "for": "1h"},)}}},
    "a network": {"network": {}},
}


class OtherWorld(World):
    """A world that nothing is known of: each replication is simulated."""


def test_two_replications_are_simulated_where_nothing_is_drawn() -> None:
    messages: list[str] = []
    result = rs.run(world(), replications=50, progress=lambda share, text: messages.append(text))
    assert len(result.replications) == 50
    assert messages[-1] == "2 of 2 done"


def test_a_result_of_which_nothing_is_drawn_says_so_in_place_of_intervals() -> None:
    heading = rs.run(world(), replications=20).heading
    assert heading.averaged == "Nothing is drawn in this world: all 20 replications are the same."


@pytest.mark.parametrize("name", UNDRAWN)
def test_where_nothing_is_drawn_replications_are_alike_and_nothing_has_an_interval(name: str) -> None:
    scenario = world(**UNDRAWN[name])
    assert not is_drawn(scenario, "")
    result = rs.run(scenario, replications=3)
    first, *others = (one.to_plain() | {"seed": 0} for one in result.replications)
    assert others == [first, first]
    simulated = rs.run(scenario, replications=3, world=OtherWorld)
    assert [one.to_plain() for one in simulated.replications] == [
        one.to_plain() for one in result.replications
    ]
    assert [one for one in result.metrics if result.metric(one).low is not None] == []
    assert "±" not in result.summary()
    assert rs.Result.from_json(result.to_json()).metric("calls.total") == result.metric("calls.total")


@pytest.mark.parametrize("name", DRAWN)
def test_what_may_be_drawn_is_known(name: str) -> None:
    scenario = world(**DRAWN[name])
    assert is_drawn(scenario, "calls.total")
    assert not is_drawn(scenario, "slots.acme.used")


def test_slots_that_no_client_changes_have_no_interval_where_jobs_do() -> None:
    result = rs.run(world(**DRAWN["durations"]), replications=3)
    assert result.metric("jobs.rank_run.wait.mean").low is not None
    assert result.metric("slots.acme.max_used") == (93.0, None, None)
    (slots,) = [row for row in result.tables["levels"] if row["resource"] == "slots"]
    assert (slots["highest"], slots["highest_low"]) == (93.0, None)
    assert {(row["low"], row["high"]) for row in result.tables["slots"]} == {(None, None)}


@pytest.mark.parametrize(
    ("operation", "drawn"), [("keywords.list", False), ("keywords.create", True), ("jobs.list", False)]
)
def test_slots_are_not_drawn_where_clients_only_read(operation: str, drawn: bool) -> None:
    app = {"kind": "caller", "account": "acme", "mix": {operation: 1}, "every": "1h"}
    assert is_drawn(world(clients={"nightly": RUNS, "app": app}), "slots.acme.used") is drawn


def test_what_the_input_states_is_sure_of_one_replication_and_of_several() -> None:
    drawn = world(pools={"rank_run": {"capacity": 3, "duration": {"exponential": {"mean": "5m"}}}})
    for replications, names in (
        (1, ["invoice.acme.total"]),
        (3, ["invoice.acme.total", "jobs.rank_run.done"]),
    ):
        before, after = (
            rs.run(each, replications=replications) for each in (drawn, drawn.replace(plan="pro"))
        )
        (invoice, *_) = compared = after.compare(before, names)
        assert (invoice["difference"] < 0, invoice["pairs"], invoice["sure"]) == (True, 1, True)
        assert compared.notes[0] == f"1 metric of {len(names)} changed."
        assert " pairs" not in compared.summary()
        assert "invoice." in before.fixed


@pytest.mark.slow
def test_one_replication_is_precise_where_nothing_is_drawn() -> None:
    precise = {"precision": {"of": "jobs.rank_run.wait.mean", "relative": 0.5}}
    assert len(rs.run(world(**precise)).replications) == 1
    assert len(rs.run(world(**precise, **DRAWN["durations"])).replications) == 30


def test_a_goal_takes_one_replication_of_each_value_where_nothing_is_drawn() -> None:
    """20 of 31 start at once, 5 every 2 minutes; the others come a minute later, and one of them waits 11."""
    study = rs.Study.of(
        world(),
        goal={
            "smallest": "scenario.pools.rank_run.capacity",
            "between": [1, 16],
            "such_that": "jobs.rank_run.wait.within.10m >= 95%",
        },
        measure=[],
    )
    result = study.run()
    (goal,) = result.tables["goals"]
    assert (goal["status"], goal["answer"]) == ("found", 5)
    assert {row["replications"] for row in result.tables["candidates"]} == {1}


def test_quantiles_of_a_world_that_repeats_itself_are_those_of_its_waits() -> None:
    """Eight runs of 4 minutes for three workers, each night: they wait 0, 0, 0, 4, 4, 4, 8 and 8 minutes."""
    scenario = rs.Scenario.parse("""\
start: 2026-03-02T00:00:00Z
length: 28d
accounts: {acme: {plan: pro, portfolio: {domains: 8, keywords: 50}}}
clients:
  night: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}
pools: {rank_run: {capacity: 3, duration: 4m}}
expect:
  - jobs.rank_run.wait.p50 == 4m
  - jobs.rank_run.wait.p95 == 8m
  - jobs.rank_run.wait.within.7m59.9s == 75%
""")
    assert [verdict.text for verdict in rs.run(scenario).expectations if not verdict.holds] == []
