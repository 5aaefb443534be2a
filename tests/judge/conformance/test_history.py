"""What is kept of a trace: calls with what their replies said, attempts by endpoint, clocks."""

import json
from typing import Any

import pytest
from tests.kit.traces import START, Entry, a_trace, at, call, created, hook

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND
from ranksim.core.errors import BadInput
from ranksim.core.records import parsed
from ranksim.core.trace import Exchange, Note
from ranksim.judge.conformance.history.exchange_reader import parse_http_date, route
from ranksim.judge.conformance.history.history import History, Offset
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.trace_reader import read_history


def history(*entries: Entry) -> History:
    return read_history(a_trace(entries))


def only(*entries: Entry) -> Observation:
    [seen] = history(*entries).seen
    return seen


@pytest.mark.parametrize(
    ("method", "path", "operation", "parameters"),
    [
        ("GET", "/v1/domains", "domains.list", {}),
        ("GET", "/api/v1/domains/dom_1", "domains.get", {"id": "dom_1"}),
        ("GET", "/v1/jobs/crawl/job_1", "jobs.get", {"kind": "crawl", "id": "job_1"}),
        ("POST", "/v1/webhooks/whk_1/test/", "webhooks.test", {"id": "whk_1"}),
        ("GET", "/v1/domains?limit=1", "domains.list", {}),
        ("POST", "/v1/slots", "", {}),
        ("GET", "/v2/domains", "", {}),
    ],
)
def test_routes(method: str, path: str, operation: str, parameters: dict[str, str]) -> None:
    assert route(method, path) == (operation, parameters)


def test_a_reply() -> None:
    headers = {
        "ratelimit-limit": "600",
        "RateLimit-Remaining": "599",
        "RateLimit-Reset": "soon",
        "Retry-After": "7",
    }
    seen = only(call("domains.list", 0, 1, [{"id": "dom_1"}], more="c1", headers=headers))
    assert (seen.sent, seen.received, seen.status, seen.ok, seen.lost) == (at(0), at(1), 200, True, False)
    assert (seen.data, seen.has_more, seen.next_cursor, seen.items) == (("dom_1",), True, "c1", None)
    assert (seen.limit, seen.remaining, seen.reset, seen.retry_after) == (600, 599, None, 7)
    assert (seen.key, seen.account) == ("main", "alpha")


def test_a_refusal() -> None:
    seen = only(
        call("jobs.create", 0, 1, code="cooldown_active", meta={"retry_after": 9}, body={"kind": "crawl"})
    )
    assert (seen.code, seen.ok, seen.meta, seen.body) == (
        "cooldown_active",
        False,
        {"retry_after": 9},
        {"kind": "crawl"},
    )


@pytest.mark.parametrize(("effect", "happened"), [("unknown", None), ("none", False)])
def test_a_lost_reply(effect: str, happened: bool | None) -> None:
    seen = only(call("jobs.create", 0, None, effect=effect))
    assert (seen.received, seen.status, seen.lost, seen.happened) == (DISTANT_FUTURE, 0, True, happened)


def graphql(reply: Any, operations: tuple[str, ...] = ("domains.get",)) -> Exchange:
    made = call("domains.get", 0, 1, path={"id": "x"}, reply=reply, surface="graphql")
    return made.model_copy(update={"operations": operations, "method": "POST", "path": "/graphql"})


def test_a_graphql_call_of_one_field_reads_like_its_twin() -> None:
    seen = only(graphql({"data": {"domain": {"id": "dom_1"}}}))
    assert (seen.operation, seen.data, seen.ok) == ("domains.get", {"id": "dom_1"}, True)
    refused = only(graphql({"data": None, "errors": [{"extensions": {"code": "not_found", "meta": {}}}]}))
    assert (refused.code, refused.ok) == ("not_found", False)
    assert only(graphql({"data": {}}, ("domains.get", "slots.get"))).operation == ""


@pytest.mark.fact("E5")
def test_digests_of_a_post_under_a_key() -> None:
    def posted(raw: str, request_id: str, key: str | None = "k") -> Observation:
        reply = {"data": {"id": "dom_1"}, "request_id": request_id}
        return only(call("domains.create", 0, 1, raw=raw, once=key, reply=reply))

    one, two = posted('{"a":1,"b":2}', "r1"), posted('{"b": 2, "a": 1}', "r2")
    assert (one.fingerprint, one.answer) == (two.fingerprint, two.answer)
    assert one.wording != two.wording
    assert posted('{"a":1}', "r1").fingerprint != one.fingerprint
    assert posted("{}", "r1", None).fingerprint == b""


def test_the_raw_reply_is_shown_while_reading_and_dropped_then() -> None:
    shown: list[Any] = []
    trace = a_trace([call("domains.list", 0, 1, [])])
    [seen] = read_history(
        trace, lambda exchange, seen, reply: shown.append((exchange.id, reply["data"]))
    ).seen
    assert shown == [("x1", [])]
    assert seen.data == ()


def test_calls_come_in_order_of_sending_and_attempts_in_order_of_arrival() -> None:
    found = history(call("domains.list", 5, 6, []), hook(9), call("domains.list", 1, 9, []), hook(2))
    assert [seen.id for seen in found.seen] == ["x2", "x1"]
    assert [arrived.received for arrived in found.arrived] == [at(2), at(9)]


LOST = call("webhooks.create", -9, None, body={"url": "https://r.example/hooks/1"}, once="k")
SAME = call(
    "webhooks.create",
    -8,
    -7,
    {"id": "whk_1", "url": "https://r.example/hooks/1"},
    body={"url": "https://r.example/hooks/1"},
    once="k",
)


@pytest.mark.fact("E28")
@pytest.mark.parametrize(
    ("entries", "endpoint"),
    [
        ([], "/hooks/1"),
        ([created()], "whk_1"),
        ([call("webhooks.list", 0, 1, [{"id": "whk_7", "url": "http://r.example/hooks/1"}])], "whk_7"),
        ([created(), created(2, url="https://r.example/hooks/1")], "/hooks/1"),
        ([LOST], "/hooks/1"),
        ([created(), LOST], "/hooks/1"),
        ([LOST, SAME], "whk_1"),
    ],
)
def test_whose_path_it_is(entries: list[Entry], endpoint: str) -> None:
    assert history(*entries, hook(0)).arrived[0].endpoint == endpoint


@pytest.mark.parametrize(
    ("exchanges", "low", "high"),
    [
        ([(0, 0.5)], -500_000, 2_000_000),
        ([(0, 0.5), (0.9, 0.95)], -500_000, 1_100_000),
        ([], DISTANT_PAST, DISTANT_FUTURE),
    ],
)
def test_the_offset_narrows(exchanges: list[tuple[float, float]], low: int, high: int) -> None:
    found = history(*(call("domains.list", sent, received, []) for sent, received in exchanges)).run.offset
    assert (found.low, found.high, found.bounded) == (low, high, bool(exchanges))


def test_a_date_that_is_kept_for_up_to_a_second_contradicts_no_other() -> None:
    """A server that makes its Date header once a second may be late with it: Node is, by 30 to 50 ms."""
    second = START // SECOND
    fresh = Offset().of(at(2), at(2.001), second + 2)
    assert fresh.of(at(1.033), at(1.036), second).bounded
    assert fresh.of(at(1.95), at(1.96), second).bounded
    assert not fresh.of(at(2.01), at(2.02), second).bounded


def test_clocks_that_drift_are_not_known() -> None:
    offset = Offset().of(at(0), at(1), START // SECOND).of(at(10), at(11), START // SECOND)
    assert not offset.bounded


def test_the_pace() -> None:
    def note(seconds: int, rate: int) -> Note:
        return Note.model_validate({"t": at(seconds), "business": START, "rate": rate})

    assert (history().run.rate, history(note(0, 60)).run.rate, history(note(0, 60), note(9, 1)).run.rate) == (
        1,
        60,
        0,
    )
    assert history(note(0, 60)).run.traffic_rate == 1


def test_the_pace_is_not_known_where_a_note_comes_late_and_business_time_need_not_be_told() -> None:
    late = Note.model_validate({"t": at(5), "rate": 60, "traffic_rate": 2})
    sent = call("domains.list", 4, 4, [])
    assert (history(late).run.rate, history(late).run.traffic_rate) == (60, 2)
    assert (history(late, sent).run.rate, history(late, sent).run.traffic_rate) == (0, 0)
    assert history(Note.model_validate({"t": at(0), "text": "what was counted"})).run.paces == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("{", None), ('{"a": 1}', {"a": 1}), ('"\\ud800"', "?"), ("12", 12)],
)
def test_parsing(text: str, value: Any) -> None:
    assert parsed(text) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777),
        ("Sun, 06 Nov 1994 08:49:37", None),  # of no zone, which is not that of this machine
        ("", None),
        ("yesterday", None),
    ],
)
def test_dates(text: str, seconds: int | None) -> None:
    assert parse_http_date(text) == seconds


def test_a_broken_line_is_named() -> None:
    header = json.dumps(a_trace([]).header.model_dump())
    with pytest.raises(BadInput, match="trace:2"):
        read_history([header, "{"])


def test_an_answer_whose_status_was_recorded_as_0_is_read() -> None:
    seen = only(call("account.get", 0, 1, {"id": "acct_1"}, status=0))
    assert (seen.happened, seen.data) == (True, {"id": "acct_1"})
