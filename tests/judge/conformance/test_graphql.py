"""Calls over GraphQL are judged no further than they can be read: documents and payloads differ (U83)."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_trace, call, error, found, judged

from ranksim.core.trace import Exchange
from ranksim.judge.conformance.calls import access, idempotency, responses, schema_checks, updates
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history

DOMAIN = {"id": "dom_1", "host": "a.example", "label": "old"}


def mutation(
    operation: str, sent: float, text: str, reply: Any = None, *, once: str | None = None, **variables: Any
) -> Exchange:
    body = {"query": f"mutation {{ {text} }}", "variables": variables}
    said = {"data": {"x": {"id": "dom_1"}}} if reply is None else reply
    made = call("jobs.create", sent, sent + 1, surface="graphql", body=body, reply=said, once=once)
    return made.model_copy(update={"path": "/graphql", "operations": (operation,) if operation else ()})


def history(*entries: Entry) -> History:
    return read_history(a_trace(entries))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"data": None, "errors": [{"message": "no"}]}, "graphql"),
        ({"errors": [{"message": "no", "extensions": {"classification": "X"}}]}, "graphql"),
        ({"errors": [{"message": "no", "extensions": {"code": "rate_limited"}}]}, "rate_limited"),
        ({"data": {"x": {"id": "dom_1"}}}, ""),
    ],
)
def test_an_error_is_no_success_whatever_it_tells(reply: Any, code: str) -> None:
    [seen] = history(mutation("domains.update", 0, "x", reply)).seen
    assert (seen.code, seen.ok) == (code, not code)


@pytest.mark.parametrize(
    ("text", "variables", "dry"),
    [
        ("createJob(input: {dryRun: true})", {}, True),
        ("createJob(input: {dryRun: false})", {}, False),
        ("createJob(input: $input)", {"input": {"dryRun": True}}, True),
        ("createJob(input: {dryRun: $dryRun})", {"dryRun": True}, True),
        ("createJob(input: {dryRun: $dryRun})", {"dryRun": False}, False),
    ],
)
def test_dry_runs(text: str, variables: dict[str, Any], dry: bool) -> None:
    [seen] = history(mutation("jobs.create", 0, text, **variables)).seen
    assert seen.dry_run == dry


@pytest.mark.parametrize(
    ("operation", "exclusive"),
    [("domains.update", True), ("jobs.create", True), ("webhooks.update", False), ("", False)],
)
def test_a_mutation_that_nobody_follows_may_have_changed_anything(operation: str, exclusive: bool) -> None:
    run = history(mutation(operation, 0, 'changeIt(id: "dom_1")', host="b.example")).run
    assert run.exclusive == exclusive
    assert ("dom_1" in run.mutated) == (operation != "jobs.create")


def renamed(*between: Entry) -> list[Entry]:
    path = {"id": "dom_1"}
    told = {**DOMAIN, "label": "new"}
    return [
        call("domains.get", 0, 1, DOMAIN, path=path),
        call("domains.update", 2, 3, told, body={"label": "new"}, path=path),
        *between,
        call("domains.get", 8, 9, {**DOMAIN, "label": "other"}, path=path),
    ]


def test_what_a_mutation_changes_too() -> None:
    other = mutation("domains.update", 5, "renameIt(id: $id)", id="dom_1", label="other")
    assert found(judged(updates, renamed()), updates.PATCHED) == "broken"
    assert found(judged(updates, renamed(other)), updates.PATCHED) == "open"


@pytest.mark.parametrize(
    ("name", "expected"), [("", "broken"), ("kw_1", "nothing"), ("S1c6a3dfMQ==", "nothing")]
)
def test_what_a_mutation_may_have_moved(name: str, expected: str) -> None:
    """A keyword may be of another domain since, by whatever id the mutation names it."""
    path = {"id": "kw_1"}
    moved = [mutation("keywords.update", 2, "move(id: $id)", id=name)] if name else []
    entries: list[Entry] = [
        call("keywords.get", 0, 1, {"id": "kw_1", "domain_id": "dom_2"}, path=path),
        *moved,
        call("keywords.get", 4, 5, {"id": "kw_1"}, path=path, key="scoped"),
    ]
    assert found(judged(access, entries), access.SCOPE) == expected


def test_a_scoped_key_may_create_an_endpoint_by_a_mutation() -> None:
    reply = {"data": {"createWebhook": {"webhook": {"id": "whk_1", "domainId": "dom_1"}}}}
    scoped = mutation("webhooks.create", 0, "createWebhook(input: $input)", reply)
    scoped = scoped.model_copy(update={"api_key": "scoped"})
    assert found(judged(access, [scoped]), access.ENDPOINTS) == "nothing"


def run(status: str, job: str = "job_1") -> dict[str, Any]:
    return {"data": {"createJob": {"job": {"id": job, "status": status}}}}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (run("QUEUED"), run("QUEUED"), "held"),
        (run("QUEUED"), run("RUNNING"), "open"),
        (run("QUEUED"), run("QUEUED", "job_2"), "differs 33"),
        (run("QUEUED"), {"errors": [{"extensions": {"code": "quota_exhausted"}}]}, "nothing"),
    ],
)
def test_whether_mutations_heed_the_key_is_not_stated(first: Any, second: Any, expected: str) -> None:
    entries = [
        mutation("jobs.create", n * 2, "createJob", reply, once="k")
        for n, reply in enumerate((first, second))
    ]
    assert found(judged(idempotency, entries), idempotency.REPLAY) == expected


def test_another_mutation_under_the_same_key() -> None:
    entries = [
        mutation("domains.update", 2 * n, "renameIt(id: $id)", id="dom_1", label=f"label {n}", once="k")
        for n in range(2)
    ]
    assert found(judged(idempotency, entries), idempotency.MISMATCH) == "differs 33"
    late = mutation("domains.update", 90_000, "renameIt(id: $id)", id="dom_1", label="label 0", once="k")
    assert found(judged(idempotency, [entries[0], late]), idempotency.RETENTION) == "nothing"


NO_SUCH_PATH = error("not_found", 404)
LIMITS = {"RateLimit-Limit": "120", "RateLimit-Remaining": "119", "RateLimit-Reset": "60"}


@pytest.mark.fact("U83", "U87")
@pytest.mark.parametrize(
    ("status", "reply", "headers"),
    [
        (404, NO_SUCH_PATH, LIMITS),
        (405, error("method_not_allowed", 405), LIMITS),
        (404, "<h1>Not Found</h1>", {}),
        (403, {"message": "Missing Authentication Token"}, {}),
        (200, "<html>Welcome</html>", {}),
    ],
)
def test_nobody_promised_graphql_where_a_recorder_looked_for_it(
    status: int, reply: Any, headers: dict[str, str]
) -> None:
    query = {"query": "query { domains(first: 1) { hasMore } }"}
    asked = call(
        "domains.list", 0, 1, surface="graphql", status=status, reply=reply, body=query, headers=headers
    )
    told = asked.response_headers if headers else {"Content-Type": "text/html"}
    asked = asked.model_copy(update={"path": "/graphql", "method": "POST", "response_headers": told})
    judgement = compare(a_trace([asked]))
    assert not [(one.rule.name, one.evidence) for one in judgement.deviating]


@pytest.mark.fact("U83")
@pytest.mark.parametrize(
    ("extensions", "numbers"),
    [
        (error("cooldown_active", 409), set()),
        (
            {"requestId" if name == "request_id" else name: value for name, value in error("x", 409).items()},
            set(),
        ),
        ({"code": "cooldown_active"}, {83}),
        (None, {83}),
    ],
    ids=["whole", "in the names of GraphQL", "a code alone", "none"],
)
def test_an_error_carries_the_error_body(extensions: Any, numbers: set[int]) -> None:
    reply = {"data": None, "errors": [{"message": "no", "extensions": extensions}]}
    tally = judged(schema_checks, [mutation("jobs.create", 0, "createJob", reply)])
    assert {one.number for one in tally.differences} == numbers
    assert found(tally, responses.ERROR) in ("nothing", "differs 83")
