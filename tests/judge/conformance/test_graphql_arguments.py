"""Arguments of GraphQL requests, and that what is asked for over GraphQL is judged as over REST."""

from __future__ import annotations

from typing import Any

import pytest
from tests.judge.conformance.test_graphql import mutation
from tests.kit.traces import Entry, call, found, judged

from ranksim.judge.conformance.calls import access, jobs
from ranksim.judge.conformance.history.graphql import arguments
from ranksim.judge.conformance.spending import spending
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.profiles.graphql import DRY_RUN, START


@pytest.mark.parametrize(
    ("query", "variables", "expected"),
    [
        (START, {"kind": "CRAWL", "domain": "d"}, {"input": {"kind": "CRAWL", "domainId": "d"}}),
        (DRY_RUN, {"kind": "CRAWL"}, {"input": {"kind": "CRAWL", "dryRun": True}}),
        (
            "mutation M($i: In = {a: 1}) { x: f(input: $i, n: -1.5) { id } }",
            {"i": {"b": 2}},
            {"input": {"b": 2}, "n": -1.5},
        ),
        ('{ f(a: ["x\\"y", E, null, true], b: []) # (no', {}, {"a": ['x"y', "E", None, True], "b": []}),
        ("query { f { id } }", {}, {}),
        ("query { f(a: $gone) { id } }", {}, {}),
        ('mutation { f(a: """b""") }', {}, {}),
        ("mutation { f(a: ", {}, {}),
        ("{ f(a: " + "[" * 5000 + ")", {}, {}),
        ("", {}, {}),
        (None, 3, {}),
    ],
)
def test_arguments_are_read_or_left_out(query: Any, variables: Any, expected: Any) -> None:
    assert arguments(query, variables) == expected


def start(
    sent: float, kind: str, shown: str, domain: str = "dom_1", *, id: str = "job_1", **more: Any
) -> Entry:
    job = {"id": id, "kind": shown, "status": "QUEUED", "domainId": domain}
    reply = more.pop("reply", {"data": {"createJob": {"job": job}}})
    made = mutation("jobs.create", sent, "", reply)
    body = made.model_copy(update={"body": json_of(START, kind=kind, domain=domain)})
    return body.model_copy(update=more)


def json_of(query: str, **variables: Any) -> str:
    import json

    return json.dumps({"query": query, "variables": variables})


@pytest.mark.fact("S14", "S34", "U83")
@pytest.mark.parametrize(("shown", "expected"), [("CRAWL", "held"), ("crawl", "held"), ("AI_SCAN", "broken")])
def test_the_kind_of_a_job(shown: str, expected: str) -> None:
    assert found(judged(jobs, [start(0, "CRAWL", shown)]), jobs.KINDS) == expected


FORBIDDEN = {"errors": [{"extensions": {"code": "forbidden"}}]}


@pytest.mark.fact("S70", "U83")
@pytest.mark.parametrize(
    ("domain", "more", "expected"),
    [
        ("dom_1", {}, "nothing"),
        ("dom_2", {}, "broken"),
        ("dom_2", {"reply": FORBIDDEN}, "held"),
    ],
)
def test_what_a_scoped_key_starts_elsewhere(domain: str, more: dict[str, Any], expected: str) -> None:
    entry = start(0, "CRAWL", "CRAWL", domain, api_key="scoped", **more)
    known = call("domains.get", -2, -1, {"id": "dom_2"}, path={"id": "dom_2"})
    assert found(judged(access, [known, entry]), access.WRITES) == expected
    assert found(judged(access, [entry]), access.WRITES) == "nothing"  # it may be its own by another id


def crawls(gap: float) -> Tally:
    """Start two crawls over GraphQL where a crawl cools for 100 s, and see both done."""
    cooling = {"capabilities": [], "dimensions": {}, "cooldown_seconds": {"crawl": 100}}
    made = {"id": "dom_1", "host": "a.example"}
    entries: list[Entry] = [
        call("account.entitlements", -5, -4, cooling),
        call("domains.create", -3, -2, made, status=201, body={"host": "a.example"}),
    ]
    for at, id in ((0.0, "job_1"), (gap, "job_2")):
        job = {"id": id, "kind": "crawl", "status": "done", "domain_id": "dom_1", "error_detail": None}
        path = {"kind": "crawl", "id": id}
        entries += [start(at, "CRAWL", "CRAWL", id=id), call("jobs.get", at + 5, at + 6, job, path=path)]
    return judged(spending, entries)


@pytest.mark.fact("S53", "S65", "U83")
@pytest.mark.parametrize(("gap", "expected"), [(40, "broken"), (120, "held")])
def test_cooldowns(gap: float, expected: str) -> None:
    assert found(crawls(gap), "cooldown.enforced") == expected
