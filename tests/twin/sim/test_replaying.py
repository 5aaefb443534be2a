"""Recorded calls made again: what stands in the world for what they were about."""

from __future__ import annotations

import json
import re
from collections import Counter
from json import loads
from pathlib import Path
from typing import Any

import pytest

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.recordings import IdTranslation, Recorded, as_recorded
from ranksim.core.clock import MINUTE
from ranksim.core.trace import Exchange
from ranksim.judge.profiles import profile
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("recorded", "replied", "asked", "expected"),
    [
        ({"data": {"id": "a"}}, {"data": {"id": "1"}}, {"domain_id": "a", "n": [{"x": "a"}, 2]}, None),
        ({"data": [{"id": "b"}, {"id": "a"}]}, {"data": [{"id": "0"}, {"id": "1"}]}, "a", "1"),
        ({"data": [{"id": "a"}]}, {"data": [{"id": "known"}, {"id": "1"}]}, "a", "1"),
        ({"data": [{"id": "old"}, {"id": "a"}]}, {"data": [{"id": "1"}]}, "a", "1"),
        ({"data": {"created": [{"id": "a"}]}}, {"data": {"created": [{"id": "1"}]}}, "a", "1"),
        ({"next_cursor": "a"}, {"next_cursor": "1"}, {"cursor": "a"}, {"cursor": "1"}),
        ({"next_cursor": "a"}, {"next_cursor": None}, "a", "a"),
        ({"data": {"id": "a"}}, None, "a", "a"),
        (None, {"data": {"id": "1"}}, "a", "a"),
        ({"data": {"name": "a"}}, {"data": {"name": "1"}}, "a", "a"),
        ({"data": {"id": "old"}}, {"data": {"id": "1"}}, "old", "known"),
    ],
)
def test_ids(recorded: Any, replied: Any, asked: Any, expected: Any) -> None:
    ids = IdTranslation()
    ids.learn_replies({"id": "old"}, {"id": "known"})
    ids.learn_replies(recorded, replied)
    assert ids.translated(asked) == (
        {"domain_id": "1", "n": [{"x": "1"}, 2]} if expected is None else expected
    )


def test_a_recorded_call_is_about_the_twin() -> None:
    ids = IdTranslation()
    ids.learn_replies({"id": "job_9"}, {"id": "job_1"})
    row = Recorded(0, "main", "GET", "/api/v1/jobs/crawl/job_9", "jobs.get", {"after": "job_9"})
    request = as_recorded(row, ids)
    assert request is not None
    assert (request.path, request.query) == ({"kind": "crawl", "id": "job_1"}, {"after": "job_1"})


def test_calls_with_no_key_of_their_environment_are_refused_here_too(tmp_path: Path) -> None:
    keys: dict[str, object] = {"main": {}, "test": {"environment": "sandbox"}}
    lines: list[dict[str, object]] = [{"ranksim_trace": 1, "keys": keys}]
    for number, key in enumerate((None, "unknown", "test", "main")):
        lines.append(
            {
                "kind": "exchange",
                "id": f"x{number}",
                "sent": number * 1_000_000,
                "received": number * 1_000_000 + 1,
                "operations": ["domains.list"],
                "method": "GET",
                "path": "/v1/domains",
                "status": 200 if key == "main" else 401,
                "api_key": key,
            }
        )
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    world = Scenario.parse(
        "{scenario: 1, start: 2026-03-04T10:00:00Z, length: 1m, "
        "accounts: {acme: {plan: pro, keys: [main]}}, clients: {recorded: "
        f"{{kind: arrivals, account: acme, source: {{trace: {trace}}}}}}}}}"
    )
    result = run(world).tables
    assert {(row["code"], row["count"]) for row in result["refusals"]} == {("unauthorized", 3)}
    assert sum(row["count"] for row in result["calls"]) == 4


@pytest.mark.parametrize("body", ["{", "[]", '{"a": ' + "[" * 100_000])
def test_a_recorded_body_that_is_no_json_object_is_made_again_without(body: str) -> None:
    request = as_recorded(Recorded(0, "main", "POST", "/v1/jobs", "jobs.create", body=body), IdTranslation())
    assert request is not None
    assert request.body is None


@pytest.mark.parametrize("name", ["everyday", "walk", "retry"])
def test_a_recorded_run_is_answered_alike(name: str, tmp_path: Path) -> None:
    """The world of the manual: what a rehearsal got is what its calls, made again, get."""
    service, target = make_world(None, 5)
    trace = rehearse(profile(name), service, target, duration=MINUTE, seed=5)
    trace.write(tmp_path / "trace.jsonl")
    page = (ROOT / "docs" / "mirror.md").read_text(encoding="utf-8")
    [world] = re.findall(r"```yaml\n(# world.yaml.*?)```", page, re.DOTALL)
    scenario = Scenario.parse(world.replace("run/trace.jsonl", str(tmp_path / "trace.jsonl")))
    calls = loads(run(scenario, replications=1).to_json())["replications"][0]["calls"]
    told = Counter((operation_of(e), e.status) for e in trace.exchanges if e.status is not None)
    here: Counter[tuple[str, int]] = Counter()
    for row in calls:
        here[row["operation"], row["status"]] += row["count"]
    assert sum(count for (_, status), count in told.items() if status == 201) > 10
    otherwise = sum((here - told).values())
    assert otherwise <= 0.05 * told.total(), here - told


def operation_of(exchange: Exchange) -> str:
    return exchange.operations[0] if exchange.operations else ""
