"""The journal of requests: what it keeps, what it finds, and how it explains a miss."""

import json
from typing import Any

import pytest

from ranksim.core.clock import instant
from ranksim.twin.facade.request_journal import (
    Expected,
    FieldDifference,
    RecordedExchange,
    RequestJournal,
    differences,
    join_headers,
)

START = instant("2026-03-04T10:00:00Z")


def exchange(**fields: Any) -> RecordedExchange:
    body = fields.pop("body", {"kind": "crawl", "domain_id": "dom_1"})
    usual: dict[str, Any] = {
        "at": START,
        "surface": "rest",
        "environment": "production",
        "method": "POST",
        "path": "/v1/jobs",
        "query": b"",
        "request_headers": join_headers([(b"authorization", b"Bearer rk_1"), (b"idempotency-key", b"once")]),
        "body": body if isinstance(body, bytes) else json.dumps(body).encode(),
        "operations": ("jobs.create",),
        "account": "acc_1",
        "status": 202,
        "response_headers": join_headers([(b"x-request-id", b"req_1")]),
        "response": b'{"data":{"id":"job_1"}}',
    }
    return RecordedExchange(**usual | fields)


def journal(*exchanges: RecordedExchange, **bounds: int) -> RequestJournal:
    kept = RequestJournal(**bounds)
    for one in exchanges:
        kept.record(one)
    return kept


def expected(**fields: Any) -> Expected:
    return Expected.model_validate(fields)


def numbers(kept: RequestJournal, **fields: Any) -> list[int]:
    return [entry.number for entry in kept.search(expected(**fields))]


# Comparing

SAME: list[dict[str, Any]] = [
    {},
    {"operation": "jobs.create"},
    {"operation": "jobs.*"},
    {"method": "POST", "path": "/v1/jobs", "status": 202},
    {"path": "/v1/*"},
    {"key": "rk_1", "account_id": "acc_1", "environment": "production", "surface": "rest"},
    {"headers": {"Idempotency-Key": "once"}},
    {"body": {"kind": "crawl"}},
    {"body": {"kind": "crawl", "domain_id": "dom_1"}},
]


@pytest.mark.parametrize("fields", SAME)
def test_what_is_as_expected_does_not_differ(fields: dict[str, Any]) -> None:
    (entry,) = journal(exchange())
    assert differences(expected(**fields), entry) == []


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"operation": "jobs.get"}, "jobs.create"),
        ({"method": "GET"}, "POST"),
        ({"path": "/v1/job"}, "/v1/jobs"),
        ({"status": 201}, 202),
        ({"key": "rk_2"}, "rk_1"),
        ({"account_id": "acc_2"}, "acc_1"),
        ({"environment": "sandbox"}, "production"),
        ({"surface": "graphql"}, "rest"),
        ({"body": [1]}, {"kind": "crawl", "domain_id": "dom_1"}),
        ({"body": "text"}, {"kind": "crawl", "domain_id": "dom_1"}),
    ],
)
def test_every_field_can_differ(fields: dict[str, Any], found: Any) -> None:
    (entry,) = journal(exchange())
    ((name, value),) = fields.items()
    assert differences(expected(**fields), entry) == [FieldDifference(name, value, found)]


@pytest.mark.parametrize(
    ("wanted", "body", "where"),
    [
        ({"a": 1}, {"a": 2}, [("body.a", 1, 2)]),
        ({"a": 1}, {}, [("body.a", 1, None)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("body.a.c", 2, 3)]),
        ({"a": {"b": 1}}, {"a": 1}, [("body.a", {"b": 1}, 1)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("body.a[1]", 2, 3)]),
        ({"a": [1, 2]}, {"a": [1]}, [("body.a", [1, 2], [1])]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, []),
        ({"a": True}, {"a": 1}, [("body.a", True, 1)]),
        ({"a": None}, {"a": None}, []),
        ({"a": None}, {}, [("body.a", None, None)]),
        ({"a": 1}, b"not JSON", [("body", {"a": 1}, "not JSON")]),
        ({"a": 1}, b"", [("body", {"a": 1}, None)]),
        ({"a": 1}, b"\xff", [("body", {"a": 1}, "\ufffd")]),
    ],
)
def test_bodies_are_compared_member_by_member(wanted: Any, body: Any, where: list[tuple[Any, ...]]) -> None:
    (entry,) = journal(exchange(body=body))
    assert differences(expected(body=wanted), entry) == [FieldDifference(*one) for one in where]


def test_query_and_headers_are_compared_one_by_one() -> None:
    (entry,) = journal(exchange(query=b"limit=5&cursor=a%20b", request_headers=b""))
    wanted = expected(query={"limit": "6", "cursor": "a b", "x": "1"}, headers={"X-A": "1"}, key="rk_1")
    assert differences(wanted, entry) == [
        FieldDifference("key", "rk_1", None),
        FieldDifference("query.limit", "6", "5"),
        FieldDifference("query.x", "1", None),
        FieldDifference("headers.x-a", "1", None),
    ]


def test_any_operation_of_a_graphql_request_counts() -> None:
    kept = journal(exchange(operations=("domains.list", "jobs.create"), surface="graphql"))
    assert numbers(kept, operation="domains.*") == numbers(kept, operation="jobs.create") == [1]


@pytest.mark.parametrize("sent", [b"Basic rk_1", b"rk_1", b""])
def test_a_key_is_a_bearer_token(sent: bytes) -> None:
    assert (
        numbers(journal(exchange(request_headers=join_headers([(b"authorization", sent)]))), key="rk_1") == []
    )


# Keeping


def test_the_oldest_are_forgotten_first() -> None:
    kept = journal(*(exchange(status=200 + n) for n in range(5)), kept=3)
    assert [entry.number for entry in kept] == [3, 4, 5]
    assert (len(kept), kept.last, kept.forgotten) == (3, 5, 2)
    assert kept.find(2) is None
    assert kept.find(6) is None
    found = kept.find(3)
    assert found is not None
    assert found.exchange.status == 202


def test_what_is_kept_is_bounded_in_bytes() -> None:
    kept = journal(*(exchange(body=b"x" * 100_000) for _ in range(50)), kept_bytes=1_000_000)
    assert 5 <= len(kept) <= 10
    kept.record(exchange(body=b"x" * 2_000_000))
    assert len(kept) == 0
    kept.record(exchange())
    assert [entry.number for entry in kept] == [52]


def test_clearing_begins_anew() -> None:
    kept = journal(exchange(), exchange())
    kept.clear()
    kept.record(exchange())
    assert [entry.number for entry in kept] == [1]
    assert kept.forgotten == 0


def test_an_exchange_is_shown_readably() -> None:
    (entry,) = journal(exchange(query=b"a=1", account="", body=b"not JSON"))
    assert entry.shown() == {
        "id": 1,
        "at": "2026-03-04T10:00:00Z",
        "surface": "rest",
        "environment": "production",
        "method": "POST",
        "path": "/v1/jobs",
        "query": {"a": "1"},
        "headers": {"authorization": "Bearer rk_1", "idempotency-key": "once"},
        "body": "not JSON",
        "operations": ["jobs.create"],
        "account_id": None,
        "key": "rk_1",
        "status": 202,
        "dropped": False,
        "response_headers": {"x-request-id": "req_1"},
        "response": {"data": {"id": "job_1"}},
    }


# Near misses


@pytest.mark.parametrize("body", ['{"a": NaN}', "[Infinity]", "[-Infinity]"])
def test_what_is_no_json_is_shown_as_text(body: str) -> None:
    (entry,) = journal(exchange(body=body.encode()))
    assert entry.shown()["body"] == body


def test_the_nearest_come_first_and_of_equals_the_latest() -> None:
    kept = journal(
        exchange(status=500, method="GET"),
        exchange(status=409),
        exchange(status=202),
        exchange(status=402),
        exchange(status=429, body={"kind": "rank_run"}),
    )
    misses = kept.near_misses(expected(method="POST", status=202, body={"kind": "crawl"}), most=3)
    assert [(miss.entry.number, [one.field for one in miss.differences]) for miss in misses] == [
        (4, ["status"]),
        (2, ["status"]),
        (5, ["status", "body.kind"]),
    ]
    assert (
        misses[0].text()
        == "request 4 (POST /v1/jobs, answered 402) differs in status: expected 202, found 402"
    )


@pytest.mark.parametrize(
    ("bounds", "verified", "wanted"),
    [
        ((), True, ""),
        ((2, 2), True, ""),
        ((2, None), True, ""),
        ((0, 2), True, ""),
        ((3,), False, "expected at least 3"),
        ((1, 1), False, "expected exactly 1"),
        ((0, 1), False, "expected 0 to 1"),
        ((0, 0), False, "expected exactly 0"),
    ],
)
def test_the_number_is_verified(bounds: tuple[int, ...], verified: bool, wanted: str) -> None:
    kept = journal(exchange(), exchange(), exchange(status=500))
    verdict = kept.verify(expected(status=202), *bounds)
    assert (verdict.verified, bool(verdict), verdict.count) == (verified, verified, 2)
    assert verdict.message.startswith(wanted)
    assert bool(verdict.near_misses) == (bounds == (3,))


def test_a_miss_is_explained_in_words() -> None:
    verdict = journal(exchange(), exchange(), kept=1).verify(expected(operation="jobs.get", key="rk_1"))
    assert verdict.message == (
        "expected at least 1 with operation 'jobs.get' and key 'rk_1', found 0 (the first 1 are forgotten)\n"
        "request 2 (POST /v1/jobs, answered 202) differs in "
        "operation: expected 'jobs.get', found 'jobs.create'"
    )


def test_nothing_came_near() -> None:
    verdict = RequestJournal().verify(expected())
    assert verdict.message == "expected at least 1 with anything, found 0"
