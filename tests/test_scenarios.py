"""The scenarios that ship: each shows the facts it names, and what their comments say of other assumptions.

The plugin runs every scenario against its expectations and its expected digest; here they are held against
the specification.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ranksim as rs
from ranksim.twin.sim.expectations import judge_expectations

FOLDER = Path(__file__).parents[1] / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def scenario(name: str) -> rs.Scenario:
    return rs.Scenario.load(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("receiver-down-3h", marks=pytest.mark.fact("S90", "S91", "U69", "E22")),
        pytest.param("receiver-down-9h", marks=pytest.mark.fact("S90", "S91", "S92", "U66", "E22", "E27")),
        pytest.param("slow-receiver-9.9s", marks=pytest.mark.fact("S88")),
        pytest.param("slow-receiver-10.1s", marks=pytest.mark.fact("S88", "S91", "S93", "E24")),
        pytest.param(
            "month-end-holds",
            marks=pytest.mark.fact("S26", "S27", "U51", "U62", "U63", "U102", "E16", "E17", "E18", "E20"),
        ),
        pytest.param(
            "monday-reset", marks=pytest.mark.fact("S108", "S109", "S110", "U50", "U52", "U53", "U54", "E21")
        ),
        pytest.param("two-keys-one-quota", marks=pytest.mark.fact("S104", "E14", "E37")),
        pytest.param(
            "ceiling-concurrent-jobs", marks=pytest.mark.fact("S62", "S67", "U48", "U49", "U90", "E15")
        ),
        pytest.param("retry-storm-obey", marks=pytest.mark.fact("S100", "S103")),
        pytest.param("lossy-network", marks=pytest.mark.fact("S47")),
        pytest.param("past-due-account", marks=pytest.mark.fact("S61", "U57", "E13")),
        pytest.param("changes-in-march", marks=pytest.mark.fact("S63", "S88", "S91", "S108")),
        pytest.param("agency-month", marks=pytest.mark.fact("S23", "S24", "S26", "E17")),
    ],
)
def test_a_scenario_shows_what_the_specification_says(name: str) -> None:
    shown = scenario(name)
    findings = judge_expectations(shown.expect, rs.run(shown))
    assert findings
    assert [finding.text for finding in findings if not finding.passed] == []


SHORTENED = {"real-arrivals-month": "12h"}
"""Scenarios whose traces take minutes, and for how long theirs are judged here."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_trace_of_a_scenario_conforms(name: str, tmp_path: Path) -> None:
    shown = scenario(name)
    if name in SHORTENED:
        shown = shown.replace(length=SHORTENED[name])
    rs.run(shown, replications=1, trace=tmp_path / "trace.jsonl")
    judgement = rs.compare(tmp_path / "trace.jsonl")
    assert [(found.rule.name, found.evidence[0].says) for found in judgement.deviating] == []


@pytest.mark.fact("U49", "E15")
def test_without_reservations_every_job_of_a_round_passes_the_ceiling() -> None:
    result = rs.run(scenario("ceiling-concurrent-jobs").replace(assumptions={"cost_timing": "completion"}))
    assert result.metric("spend.acme.max").mean == 91_776_000
    assert result.metric("jobs.rank_run.done").mean == 480


@pytest.mark.slow
@pytest.mark.fact("U4")
def test_a_client_that_ignores_retry_after_locks_itself_out_where_refused_calls_count() -> None:
    storm = scenario("retry-storm-ignore")
    counting = {"window": "sliding_log", "refused_calls_count": True}
    result = rs.run(storm.replace(assumptions=counting, length="5m"))
    assert result.metric("clients.importer.ok").mean == 120


@pytest.mark.slow
def test_a_storm_that_obeys_is_refused_far_less_for_the_same_calls() -> None:
    obeying, ignoring = rs.run(scenario("retry-storm-obey")), rs.run(scenario("retry-storm-ignore"))
    assert obeying.metric("clients.importer.ok") == ignoring.metric("clients.importer.ok")
    refused = [result.metric("clients.importer.limited").mean or 0 for result in (obeying, ignoring)]
    assert refused[1] > 39 * refused[0]


@pytest.mark.slow
def test_the_quickstart_leaves_the_same_trace_twice(tmp_path: Path) -> None:
    for name in ("first", "second"):
        rs.run(scenario("quickstart"), trace=tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_is_documented_and_has_an_expected_output(name: str) -> None:
    shown = scenario(name)
    assert shown.title
    assert shown.description
    assert shown.expect
    assert (FOLDER / "expected" / f"{name}.json").is_file()
    rows = re.findall(
        r"^\| \[`([\w.-]+)\.yaml`\]", (FOLDER / "README.md").read_text("utf-8"), flags=re.MULTILINE
    )
    assert rows.count(name) == 1


def test_every_expected_output_belongs_to_a_scenario() -> None:
    assert sorted(path.stem for path in (FOLDER / "expected").glob("*.json")) == NAMES
