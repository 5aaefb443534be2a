"""From an HTTP request to a call: paths, headers, query, body and their faults; from a reply to bytes."""

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import to_json

from ranksim.core.service.calls import Fault, Reply
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.twin.facade.http.requests import (
    HttpRequest,
    has_more_values,
    json_bytes,
    json_writer,
    match_path,
    payload_of,
    read_request,
    write_headers,
)
from ranksim.twin.facade.http.strictness import query_parameters
from ranksim.twin.serving.asgi import Gone

MOST = 1000

JSON = {"content-type": "application/json"}


def ask(
    method: str = "POST",
    path: str = "domains",
    body: bytes | list[bytes] = b"",
    headers: dict[str, str] | None = None,
    query: str = "",
    strict_query: bool = True,
    strict_body: bool = False,
    gone: bool = False,
) -> HttpRequest:
    """Read a request that arrives in these parts."""
    parts = [body] if isinstance(body, bytes) else body
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) or gone}
        for number, part in enumerate(parts, 1)
    ]
    messages.append({"type": "http.disconnect"})
    scope = {
        "method": method,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items()],
        "query_string": query.encode("latin-1"),
        "client": ("10.0.0.7", 4711),
    }

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    strictness = {"strict_query": strict_query, "strict_body": strict_body}
    return asyncio.run(read_request(scope, receive, path, "sandbox", most=MOST, **strictness))


# Paths


@pytest.mark.fact("S112", "U107")
@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_every_operation_is_found_by_its_path(operation: Any) -> None:
    methods, values = match_path(operation.path.replace("{kind}", "crawl").replace("{id}", "x_1"))
    assert methods[operation.method] == operation.name
    assert len(values) == operation.path.count("{")


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("domains/dom_1", {"id": "dom_1"}),
        ("domains/a%2Fb", {"id": "a/b"}),
        ("domains/%C3%A4", {"id": "ä"}),
        ("jobs/crawl/job_1", {"kind": "crawl", "id": "job_1"}),
        ("jobs/crawl/test", {"kind": "crawl", "id": "test"}),
        ("analyses/an_1/findings", {"id": "an_1"}),
        ("webhooks/*", {"id": "*"}),
        ("jobs/crawl/*", {"kind": "crawl", "id": "*"}),
    ],
)
def test_parameters_are_read_from_paths(path: str, values: dict[str, str]) -> None:
    methods, found = match_path(path)
    assert found == values
    assert methods


@pytest.mark.parametrize(
    "path",
    ["", "/", "domain", "domains/", "domains//", "/domains", "domains/a/b", "domains/*/*", "jobs/crawl", "*",
     "jobs//x", "positions/history/x", "a/b/c/d", "domains/%FF", "analyses/x/findings/y", "webhooks//test"],
)  # fmt: skip
def test_there_is_nothing_at_other_paths(path: str) -> None:
    assert match_path(path) == ({}, {})


# Headers


@pytest.mark.fact("S68")
@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("Bearer rk_live_1", "rk_live_1"),
        ("bearer rk_live_1", "rk_live_1"),
        ("Bearer  rk_live_1 ", "rk_live_1"),
        ("Basic rk_live_1", None),
        ("rk_live_1", None),
        ("Bearer", ""),
    ],
)
def test_the_key_is_the_bearer_token(sent: str, key: str | None) -> None:
    assert ask("GET", headers={"authorization": sent}).call.key == key


@pytest.mark.fact("S69")
def test_cookies_are_never_looked_at() -> None:
    call = ask("GET", headers={"cookie": "key=rk_live_1; authorization=rk_live_1"}).call
    assert call.key is None


def test_what_a_call_is_told() -> None:
    call = ask(
        "POST", "domains", b'{"host":"a.example"}', JSON | {"idempotency-key": '"k"', "x-request-id": "r-1"}
    ).call
    assert (call.operation, call.environment, call.method) == ("domains.create", "sandbox", "POST")
    assert (call.idempotency_key, call.request_id, call.caller) == ('"k"', "r-1", "10.0.0.7")
    assert (call.body, call.raw) == ({"host": "a.example"}, b'{"host":"a.example"}')
    assert (call.fault, call.surface) == (None, "rest")


def test_head_asks_what_get_asks() -> None:
    assert ask("HEAD").call.operation == "domains.list"


# Faults


@pytest.mark.fact("U24", "U86")
@pytest.mark.parametrize(
    ("request_", "fault", "detail"),
    [
        ({"path": "nothing", "body": b"x" * 5000}, "not_found", ""),
        ({"method": "PUT", "body": b"x" * 5000}, "method_not_allowed", ""),
        ({"body": b"x" * 1001}, "payload_too_large", "larger than 1000 bytes"),
        ({"body": [b"x" * 600, b"x" * 600]}, "payload_too_large", "larger than 1000 bytes"),
        ({"body": b"x" * 1001, "headers": {"content-length": "1001"}}, "payload_too_large", "1000 bytes"),
        ({"body": b"{}"}, "unsupported_media_type", ""),
        ({"body": b"{}", "headers": {"content-type": "text/plain"}}, "unsupported_media_type", ""),
        ({"body": b"{}", "headers": {"content-type": "application/json; charset=latin-1"}},
         "unsupported_media_type", ""),
        ({"body": b"{}", "headers": JSON | {"content-encoding": "br"}}, "unsupported_media_type",
         "compressed"),
        ({"body": b"{", "headers": JSON}, "invalid_request", "not JSON in UTF-8: EOF while parsing"),
        ({"body": b" ", "headers": JSON}, "invalid_request", "not JSON"),
        ({"body": b'{"a": "\xff"}', "headers": JSON}, "invalid_request", "invalid unicode"),
        ({"body": b'{"a": "\\ud800"}', "headers": JSON}, "invalid_request", "hex escape"),
        ({"body": b'{"a": NaN}', "headers": JSON}, "invalid_request", "not JSON"),
        ({"body": b'{"a":' + b"1" * 900 + b"e}", "headers": JSON}, "invalid_request", "not JSON"),
        ({"body": b'{"a": 1e400}', "headers": JSON}, "invalid_request", "a number is too large"),
        ({"body": b'{"a": [{"b": -1E+0999}]}', "headers": JSON}, "invalid_request", "a number is too large"),
        ({"body": b'{"a": ' + b"9" * 310 + b".5}", "headers": JSON}, "invalid_request", "too large"),
        ({"body": b"[" * 500 + b"]" * 500, "headers": JSON}, "invalid_request", "recursion limit"),
        ({"body": b"\xef\xbb\xbf{}", "headers": JSON}, "invalid_request", "not JSON"),
        ({"body": "{}".encode("utf-16"), "headers": JSON}, "invalid_request", "not JSON"),
        ({"body": b"[]", "headers": JSON}, "invalid_request", ""),
        ({"body": b"null", "headers": JSON}, "invalid_request", ""),
        ({"method": "GET", "query": "a=%ff"}, "invalid_request", "UTF-8"),
        ({"method": "GET", "query": "a=\xff"}, "invalid_request", "UTF-8"),
        ({"method": "GET", "query": "limit=1&limit=2"}, "invalid_request", "'limit' more than once"),
        ({"method": "GET", "query": "&".join(f"a{n}=1" for n in range(101))}, "invalid_request", "100"),
    ],
)  # fmt: skip
def test_a_fault_of_form_is_noted_with_what_is_wrong(
    request_: dict[str, Any], fault: str, detail: str
) -> None:
    asked = ask(**request_)
    found = asked.call.fault
    assert found is not None
    assert found.code == fault
    assert detail in found.detail
    assert bool(found.detail) is bool(detail)


@pytest.mark.fact("U100")
def test_unknown_query_parameters_are_ignored_if_that_is_wanted() -> None:
    asked = ask("GET", query="limit=5&size=&q=%C3%A4+b", strict_query=False)
    assert (asked.call.fault, asked.call.query) == (None, {"limit": "5", "size": "", "q": "ä b"})


@pytest.mark.fact("U100", "U24")
@pytest.mark.parametrize(
    ("method", "path", "query", "unknown", "takes"),
    [
        ("GET", "keywords", "limit=5&cursor=x&list_id=l&label_id=l&keyword=k&domain_id=d", "", ""),
        (
            "HEAD",
            "jobs",
            "kind=crawl&state=done&type=x",
            "state type",
            "limit, cursor, domain_id, kind, status",
        ),
        ("GET", "webhook-events", "limit=5&cursor=", "", ""),
        ("GET", "slots", "_=1718", "_", "none"),
        ("POST", "domains", "dry_run=1", "dry_run", "none"),
        ("PATCH", "domains/x", "id=x", "id", "none"),
        ("DELETE", "domains/x", "force=", "force", "none"),
        ("OPTIONS", "domains", "x=1", "", ""),
        ("PUT", "domains", "x=1", "", ""),
    ],
)
def test_unknown_query_parameters_are_refused(
    method: str, path: str, query: str, unknown: str, takes: str
) -> None:
    asked = ask(method, path, query=query)
    found = asked.call.fault or Fault("")
    assert [error["field"] for error in found.errors] == unknown.split()
    assert {error["expected"] for error in found.errors} <= {f"a parameter among: {takes}"}
    assert (found.code == "validation_failed") == bool(unknown)
    if unknown:
        first = unknown.split()[0]
        assert found.detail.startswith(f"The query parameter {first!r} is unknown; ")
        assert f" takes: {takes}. " in found.detail
        assert "U100" in found.detail
        assert "--no-strict-query" in found.detail


GOOGLE = {"engine": "google", "device": "desktop"}


@pytest.mark.fact("U84")
@pytest.mark.parametrize(
    ("method", "path", "body", "unknown", "said"),
    [
        ("POST", "jobs", {"kind": "crawl", "domain_id": "d", "dryRun": True}, ["dryRun"],
         "The field 'dryRun' is unknown; did you mean 'dry_run'? jobs.create takes: kind, domain_id, "
         "dry_run. The service is assumed to ignore it (U84); --no-strict-body, or strict_body=False in a "
         "test, does so too."),
        ("POST", "jobs", {"kind": "crawl", "domain_id": "d", "dry_run": True}, [], ""),
        ("PATCH", "domains/x", {"lable": "x", "zzz": 1}, ["lable", "zzz"],
         "The field 'lable' is unknown; did you mean 'label'? domains.update takes: path, label. "),
        ("POST", "webhooks", {"events": [], "url": 1}, ["events"],
         "The field 'events' is unknown; did you mean 'event_types'? webhooks.create takes: url, "),
        ("POST", "scans", {"engine_devices": ["google/desktop", GOOGLE | {"devise": 1}, 5],
                           "geographies": [{"country": "DE"}, {"city": 1}], "list_ids": ["a"]},
         ["engine_devices.1.devise", "geographies.1.city"],
         "The field 'engine_devices.1.devise' is unknown; did you mean 'device'? scans.create takes: engine, "
         "device. "),
        ("POST", "webhooks/x/test", {"event_type": "job.failed"}, ["event_type"],
         "The field 'event_type' is unknown; webhooks.test takes: none. "),
        ("POST", "webhooks/x/test", {}, [], ""),
        ("PUT", "domains", {"x": 1}, [], ""),
    ],
)  # fmt: skip
def test_unknown_fields_of_bodies_are_refused(
    method: str, path: str, body: dict[str, Any], unknown: list[str], said: str
) -> None:
    fault = ask(method, path, json.dumps(body).encode(), JSON, strict_body=True).call.fault or Fault("")
    assert [error["field"] for error in fault.errors] == unknown
    assert (fault.code == "validation_failed") == bool(unknown)
    assert fault.detail.startswith(said)
    ignored = ask(method, path, json.dumps(body).encode(), JSON).call.fault
    assert ignored is None or ignored.code == "method_not_allowed"


def test_of_many_unknown_fields_as_many_are_named_as_of_any_errors() -> None:
    body = dict.fromkeys((f"field{number}" for number in range(60)), 1)
    fault = ask("POST", "labels", json.dumps(body).encode(), JSON, strict_body=True).call.fault
    assert fault is not None
    assert len(fault.errors) == 20


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_the_query_parameters_of_every_operation_are_known(operation: str) -> None:
    assert set(query_parameters(operation)) & {"limit", "cursor"} in (set(), {"limit", "cursor"})


@pytest.mark.parametrize(
    "headers",
    [JSON, {"content-type": "APPLICATION/JSON"}, {"content-type": 'application/json; charset="UTF-8"'},
     JSON | {"content-encoding": "identity"}, JSON | {"content-length": "nonsense"}],
)  # fmt: skip
def test_a_json_body_is_read_whole(headers: dict[str, str]) -> None:
    asked = ask(body=[b'{"ho', b"", b'st":', b'"a.example"}'], headers=headers)
    assert (asked.call.fault, asked.call.body) == (None, {"host": "a.example"})


def test_a_body_of_exactly_the_limit_is_read() -> None:
    body = b'{"a":"' + b"x" * (MOST - 8) + b'"}'
    assert ask(body=body, headers=JSON).call.fault is None
    assert ask(body=[body[:500], body[500:]], headers=JSON).call.fault is None


@pytest.mark.fact("S41")
@pytest.mark.parametrize("number", [b"1e308", b"-1.7E+0308", b"1e-400", b"9" * 300 + b".0", b"9" * 400])
def test_numbers_that_a_double_or_an_integer_holds_are_read(number: bytes) -> None:
    asked = ask(body=b'{"a": [' + number + b"]}", headers=JSON)
    assert asked.call.fault is None
    assert asked.call.body is not None


def test_no_body_is_no_fault() -> None:
    asked = ask(path="webhooks/whk_1/test")
    assert (asked.call.fault, asked.call.body, asked.call.raw) == (None, None, None)


def test_reads_do_not_wait_for_a_body() -> None:
    assert ask("GET", body=b"x" * 5000, gone=True).call.fault is None


def test_a_client_that_goes_away_is_no_request() -> None:
    with pytest.raises(Gone):
        ask(body=[b"{"], headers=JSON, gone=True)


@pytest.mark.parametrize(
    ("size", "declared", "close"), [(3000, True, False), (3000, False, True), (9000, True, True)]
)
def test_the_rest_of_a_large_body_is_read_if_there_is_not_too_much(
    size: int, declared: bool, close: bool
) -> None:
    headers = {"content-length": str(size)} if declared else {}
    asked = ask(body=[b"x" * 1500] * (size // 1500), headers=headers)
    assert (asked.call.fault.code, asked.close) == ("payload_too_large", close)


@pytest.mark.parametrize(
    ("path", "allow"),
    [("domains", "GET, HEAD, OPTIONS, POST"), ("domains/x", "DELETE, GET, HEAD, OPTIONS, PATCH"),
     ("webhooks/x/test", "OPTIONS, POST"), ("nothing", "")],
)  # fmt: skip
def test_what_a_path_allows(path: str, allow: str) -> None:
    assert ask("PUT", path).allow == ask("OPTIONS", path).allow == allow


# Replies


def test_a_reply_is_compact_json_in_utf8() -> None:
    assert payload_of(Reply(200, {"data": ["ä", None, 1]})) == '{"data":["ä",null,1]}'.encode()
    assert payload_of(Reply(204, None)) == b""


@pytest.mark.fact("S73", "U80")
def test_headers_of_a_reply() -> None:
    headers = dict(write_headers({"X-Request-Id": "r"}, 5, ((b"allow", b"GET"),)))
    assert headers[b"x-request-id"] == b"r"
    assert (headers[b"content-type"], headers[b"content-length"]) == (b"application/json", b"5")
    assert headers[b"access-control-allow-origin"] == b"*"
    assert b"RateLimit-Remaining" in headers[b"access-control-expose-headers"]
    assert headers[b"allow"] == b"GET"
    problem = dict(write_headers({"Content-Type": "application/problem+json"}, 5))
    assert problem[b"content-type"] == b"application/problem+json"
    assert b"content-type" not in dict(write_headers({}, None))


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(PLAIN)
@example({"many": 2**64, "few": -(2**63) - 1})
@example(["\x7f\u2028\x00<", 1e16, 1e-7, 5e-324, -0.0, 12.5])
def test_json_is_written_to_the_same_bytes_with_and_without_the_fast_writer(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "orjson", None)
        slow = json_writer()
    assert slow is to_json
    assert json_bytes(value) == slow(value)


def values_in(body: Any) -> int:
    parts = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return 1 + sum(map(values_in, parts))


@pytest.mark.parametrize(
    "body",
    [
        list(range(200)),
        [[[]]] * 70,
        {f"k{number}": [{}, "a,b"] for number in range(70)},
        {'a,[{\\"': ',[{\\"\\\\' * 50, "b": ["\\\\", '"', '\\"', '",', '[","]'] * 40},
        [",,,,[[[{{{" * 50] * 3,
    ],
)
def test_the_values_of_a_body_are_counted_without_what_stands_in_texts(body: Any) -> None:
    raw = json.dumps(body).encode()
    count = values_in(body)
    empty = raw.count(b"[]") + raw.count(b"{}")  # counted as if something stood in them
    assert has_more_values(raw, count - 1)
    assert not has_more_values(raw, count + empty)
