"""Rules that a client sees in few calls: scoped writes, the default page, stale updates, rare headers."""

from typing import Any

import pytest
from tests.kit.traces import Entry, attempt, call, created, found, hook, judged, listed

from ranksim.judge.conformance.calls import (
    access,
    pages,
    pagination,
    responses,
    schema_checks,
    updates,
)
from ranksim.judge.conformance.webhooks import retries

REFUSED: dict[str, Any] = {"code": "forbidden", "status": 403}


def make(domain: str, made: Any, operation: str = "keyword_lists.create", **more: Any) -> Entry:
    """Make something for a domain with a key that is bound to dom_1."""
    body = {"domain_id": domain, **more.pop("body", {})}
    return call(operation, 0, 1, made, key="scoped", body=body, status=more.pop("status", 201), **more)


def page(sent: float, count: int, limit: int | None = None, more: str | None = "c") -> Entry:
    query = {} if limit is None else {"limit": str(limit)}
    items = [{"id": f"dom_{number}"} for number in range(count)]
    return call("domains.list", sent, sent + 0.1, items, query=query, more=more)


def patch(sent: float, status: int = 200) -> Entry:
    code = "" if status == 200 else "stale"
    return call(
        "labels.update",
        sent,
        sent + 1,
        {"id": "l"},
        path={"id": "l"},
        body={"name": "n"},
        status=status,
        code=code,
    )


def rare(headers: dict[str, str]) -> Entry:
    return call("domains.list", 0, 1, [], headers=headers)


def crossing(allowed: dict[str, str], status: int = 204, **asked: str) -> Entry:
    """Ask from another origin: by a preflight, unless `asked` says nothing of a method."""
    made = call("domains.list", 0, 1, [], headers=allowed, status=status)
    method = "OPTIONS" if asked else "GET"
    names = {name.replace("_", "-"): value for name, value in asked.items()}
    return made.model_copy(
        update={"method": method, "request_headers": {"Origin": "https://a.example", **names}}
    )


ASKED = {"Access_Control_Request_Method": "GET", "Access_Control_Request_Headers": "authorization"}
ALL = {"Access-Control-Allow-Origin": "*"}
NAMED = {"Access-Control-Allow-Headers": "Authorization, Content-Type"}

TABLE: dict[str, tuple[Any, str, list[Entry], str]] = {
    "a list elsewhere": (access, access.WRITES, [make("dom_2", {"id": "l", "domain_id": "dom_2"})], "broken"),
    "a list elsewhere, refused": (access, access.WRITES, [make("dom_2", None, **REFUSED)], "held"),
    "a list put on its own domain": (
        access,
        access.WRITES,
        [make("dom_2", {"id": "l", "domain_id": "dom_1"})],
        "held",
    ),
    "a list whose reply tells no domain": (access, access.WRITES, [make("dom_2", {"id": "l"})], "nothing"),
    "a list on its domain": (
        access,
        access.WRITES,
        [make("dom_1", {"id": "l", "domain_id": "dom_1"})],
        "nothing",
    ),
    "a job elsewhere": (
        access,
        access.WRITES,
        [make("dom_2", {"id": "j", "domain_id": "dom_2"}, "jobs.create", body={"kind": "crawl"}, status=202)],
        "broken",
    ),
    "a default page of 50": (pagination, pages.DEFAULT, [page(0, 50)], "held"),
    "two default pages of 20, and one of 40": (
        pagination,
        pages.DEFAULT,
        [page(0, 20), page(1, 20), page(2, 40, 40)],
        "broken",
    ),
    "one default page of 20, and one of 40": (
        pagination,
        pages.DEFAULT,
        [page(0, 20), page(2, 40, 40)],
        "nothing",
    ),
    "default pages of 20 and 30": (
        pagination,
        pages.DEFAULT,
        [page(0, 20), page(1, 30), page(1, 20), page(2, 40, 40)],
        "nothing",
    ),
    "pages that are shorter than asked for": (
        pagination,
        pages.DEFAULT,
        [page(0, 20), page(1, 20), page(2, 40, 40), page(3, 30, 45)],
        "nothing",
    ),
    "last pages of 20": (
        pagination,
        pages.DEFAULT,
        [page(0, 20, more=None), page(1, 20, more=None), page(2, 40, 40)],
        "nothing",
    ),
    "one PATCH": (updates, updates.UNCONDITIONAL, [patch(0)], "nothing"),
    "a PATCH over another": (updates, updates.UNCONDITIONAL, [patch(0), patch(2)], "held"),
    "a stale PATCH refused": (updates, updates.UNCONDITIONAL, [patch(0), patch(2, 412)], "broken"),
    "no word of the end": (schema_checks, responses.DEPRECATION, [rare({})], "nothing"),
    "a sunset alone": (schema_checks, responses.DEPRECATION, [rare({"Sunset": "soon"})], "broken"),
    "both words of the end": (
        schema_checks,
        responses.DEPRECATION,
        [rare({"Sunset": "soon", "Deprecation": "@1767225600"})],
        "differs 81",
    ),
    "a read from elsewhere": (schema_checks, responses.CORS, [crossing(ALL, 200)], "held"),
    "a read from elsewhere, not allowed": (
        schema_checks,
        responses.CORS,
        [crossing({}, 200)],
        "broken",
    ),
    "a preflight": (schema_checks, responses.CORS, [crossing(ALL | NAMED, **ASKED)], "held"),
    "a preflight without headers": (schema_checks, responses.CORS, [crossing(ALL, **ASKED)], "broken"),
    "a preflight that wants a key": (
        schema_checks,
        responses.CORS,
        [crossing(ALL | NAMED, 401, **ASKED)],
        "broken",
    ),
    "a preflight put off": (schema_checks, responses.CORS, [crossing({}, 429, **ASKED)], "nothing"),
}


@pytest.mark.fact("S43", "S49", "S50", "S70", "S73", "S114")
@pytest.mark.parametrize(("judge", "rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_further_rules(judge: Any, rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(judge, entries), rule) == expected


@pytest.mark.fact("U40", "U104")
@pytest.mark.parametrize(
    ("entry", "number"),
    [
        (call("jobs.create", 0, 1, {"id": "j"}, body={"kind": "crawl"}, status=200), {40}),
        (call("jobs.create", 0, 1, {"id": "j"}, body={"kind": "rank_run"}, status=200), set()),
        (call("labels.create", 0, 1, {"id": "l"}, status=200), {104}),
        (call("labels.create", 0, 1, {"id": "l"}, status=201), set()),
        (call("labels.get", 0, 1, code="not_found", status=410, path={"id": "l"}), {24}),
        (call("labels.create", 0, 1, code="idempotency_mismatch", status=409), {17}),
    ],
)
def test_another_status_than_the_assumed_differs(entry: Entry, number: set[int]) -> None:
    assert {one.number for one in judged(schema_checks, [entry]).differences} - {43} == number


# Cases: what a walk can show


def keywords(sent: float, numbers: list[int], cursor: str = "", more: str | None = None) -> Entry:
    query = {"cursor": cursor} if cursor else {}
    items = [{"id": f"kw_{number}"} for number in numbers]
    return call("keywords.list", sent, sent + 0.1, items, query=query, more=more)


def gone(sent: float, number: int) -> Entry:
    return call("keywords.delete", sent, sent + 0.1, None, path={"id": f"kw_{number}"}, status=204, reply="")


BEFORE, AFTER = keywords(-2, [1, 2, 3, 4]), keywords(20, [1, 2, 3, 4])


@pytest.mark.fact("S46")
@pytest.mark.parametrize(
    ("entries", "cases"),
    [
        ([BEFORE, keywords(0, [1, 2, 3, 4]), AFTER], set()),
        ([BEFORE, keywords(0, [1, 2], more="c"), keywords(9, [3, 4], "c"), AFTER], {"keywords.list"}),
        (
            [BEFORE, keywords(0, [1, 2], more="c"), gone(4, 1), keywords(9, [3, 4], "c"), AFTER],
            {"keywords.list", "keywords.list, while items go"},
        ),
        (
            [BEFORE, keywords(0, [1, 2], more="c"), gone(4, 3), keywords(9, [4], "c"), AFTER],
            {"keywords.list"},
        ),
        (
            [BEFORE, keywords(0, [1, 2], more="c"), gone(8.95, 1), keywords(9, [3, 4], "c"), AFTER],
            {"keywords.list"},
        ),
    ],
    ids=[
        "one page",
        "two pages",
        "a deletion between",
        "a deletion ahead",
        "a deletion beside the next page",
    ],
)
def test_a_walk_shows_no_more_than_was_deleted_in_it(entries: list[Entry], cases: set[str]) -> None:
    tally = judged(pagination, entries)
    [finding] = [one for one in tally.findings() if one.rule.name == pages.COMPLETE]
    assert {case.name for case in finding.cases if case.exercised} == cases


# What is remembered is of an environment and an account


def test_a_list_of_another_environment_tells_nothing_of_a_retry() -> None:
    """Both know the account by one name; 170 deliveries on one page go back to the failed attempt."""
    older = [hook(-900 + number, event=f"evt_{number}0") for number in range(170)]
    shown = [attempt(f"evt_{number}0") for number in reversed(range(170))]
    here = call("webhook_deliveries.list", 400, 401, [attempt(status=302), *shown])
    there = call("webhook_deliveries.list", 500, 501, [], environment="sandbox")
    entries = [
        created(sent=-1000),
        *older,
        hook(0, status=302),
        here,
        there,
        call("domains.list", 502, 503, []),
    ]
    assert found(judged(retries, entries), retries.RETRIED) == "broken"
    assert found(judged(retries, [*entries, listed(600, *shown)]), retries.RETRIED) == "open"


def test_a_thing_of_another_environment_belongs_to_nobody_here() -> None:
    """A copy of what production has goes by the same ids, and may belong to another domain there."""
    told = call("labels.get", 0, 1, {"id": "lab_1", "domain_id": "dom_2"}, path={"id": "lab_1"}, key="test")
    read = call("labels.get", 2, 3, {"id": "lab_1"}, path={"id": "lab_1"}, key="scoped")
    assert found(judged(access, [told, read]), access.SCOPE) == "nothing"
