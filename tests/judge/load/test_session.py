"""Calls over real sockets: what is known of a call's effect, and what goes over the wire and how often."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.runs import TOKEN, Act, Recording, Scripted, answer_and_close, close, raw, reply, reset, until

from ranksim.core.callers.http import effect_of
from ranksim.core.callers.steps import Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.errors import BadInput
from ranksim.judge.load.recorder import AnchoredClock
from ranksim.judge.load.session import CallOutcome, refused

if TYPE_CHECKING:
    import trustme

READ = Send("domains.list", query={"limit": "2"})
WRITE = Send("domains.create", body={"host": "bücher.example"}, idempotency_key="k1", request_id="r1")


def test_a_call_is_written_down_before_the_deployment_sees_it_and_again_after(
    server: Scripted, recording: Recording
) -> None:
    during: list[int] = []
    server.seen = lambda: during.append(len(recording.lines()))
    server.acts = [reply(201, {"data": {"id": "dom_1"}}, X_Request_Id="r1")]

    outcome = recording.session().perform(WRITE)

    assert during == [1]
    assert outcome.received.data == {"id": "dom_1"}
    assert outcome.received.headers["x-request-id"] == "r1"
    [call] = recording.calls()
    assert call["sent"] == outcome.received.sent <= call["received"] == outcome.received.received
    assert {
        name: call[name] for name in ("method", "path", "status", "effect", "error", "api_key", "body")
    } == {
        "method": "POST",
        "path": "/v1/domains",
        "status": 201,
        "effect": "yes",
        "error": None,
        "api_key": "main",
        "body": '{"host":"bücher.example"}',
    }
    assert call["request_headers"]["Idempotency-Key"] == "k1"
    assert TOKEN not in recording.path.read_text(encoding="utf-8")
    [request] = server.requests
    assert f"Authorization: Bearer {TOKEN}".encode() in request
    assert request.endswith('{"host":"bücher.example"}'.encode())


@pytest.mark.parametrize(
    ("act", "error", "effect"),
    [
        (close, "connection closed without a reply", "unknown"),
        (reset, "connection reset", "unknown"),
        (raw(b"HTTP/1.1 201 X\r\nContent-Length: 50\r\n\r\n{"), "reply cut short", "unknown"),
        (raw(b"SSH-2.0-x\r\n"), "BadStatusLine: SSH-2.0-x", "unknown"),
        ("hang", "timeout", "unknown"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("send", [READ, WRITE], ids=["GET", "POST"])
def test_a_call_without_a_whole_reply_may_have_had_its_effect_and_is_sent_once(
    server: Scripted, recording: Recording, send: Send, act: Act | str, error: str, effect: str
) -> None:
    server.acts = [server.hang if act == "hang" else act]

    outcome = recording.session(timeout=0.3 if act == "hang" else 60).perform(send)

    assert (outcome.received.status, outcome.error) == (0, error)
    [call] = recording.calls()
    assert (call["status"], call["received"], call["error"], call["effect"]) == (None, None, error, effect)
    until(lambda: server.requests)  # one that is not answered may be read later than it is given up
    assert len(server.requests) == 1


def drip(head: bytes, piece: bytes) -> Act:
    """Answer with a head, and then with one piece after the other as long as somebody listens."""

    def act(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            PAUSE.wait(0.02)

    return act


PAUSE = threading.Event()


@pytest.mark.parametrize(
    "act",
    [
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
        drip(b"HTTP/1.1 200 OK\r\nX-", b"a"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "head", "interim replies"],
)
def test_a_call_has_one_deadline_however_often_something_comes(
    server: Scripted, recording: Recording, act: Act
) -> None:
    server.acts = [act]

    outcome = recording.session(timeout=0.3).perform(WRITE)

    assert (outcome.received.status, outcome.error) == (0, "timeout")
    assert [(call["status"], call["effect"]) for call in recording.calls()] == [(None, "unknown")]
    assert 300_000 <= outcome.received.received - outcome.received.sent < 60_000_000


def test_interim_replies_count_as_part_of_the_reply(
    server: Scripted, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranksim.judge.load.session.LARGEST_REPLY", 10_000)
    server.acts = [raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 500), reply()]
    session = recording.session()

    assert session.perform(READ).error == "HTTPException: a reply of more than 10000 bytes"
    assert session.perform(READ).received.ok


def test_after_its_last_instant_a_session_sends_nothing(server: Scripted, recording: Recording) -> None:
    session = recording.session()
    session.until = recording.recorder.clock.now()

    assert session.perform(WRITE).error == "not sent: timeout"
    assert server.requests == []
    assert [call["effect"] for call in recording.calls()] == ["none"]


def test_a_refused_connection_had_no_effect(recording: Recording, server: Scripted) -> None:
    server.stop()

    outcome = recording.session().perform(WRITE)

    assert outcome.error == "not sent: connection refused"
    assert [(call["effect"], call["received"]) for call in recording.calls()] == [("none", None)]
    server._socket = __import__("socket").create_server(("127.0.0.1", 0))  # for the fixture to close


def test_what_cannot_be_put_into_a_request_had_no_effect(server: Scripted, recording: Recording) -> None:
    session = recording.session()

    outcome = session.perform(Send("domains.create", body={}, idempotency_key="a\nb"))

    assert outcome.error.startswith("not sent: ")
    assert [call["effect"] for call in recording.calls()] == ["none"]
    assert session.perform(READ).received.ok
    assert len(server.requests) == 1


@pytest.mark.parametrize("send", [READ, WRITE], ids=["GET", "POST"])
def test_a_kept_connection_that_breaks_under_a_call_loses_the_call_and_nothing_is_sent_twice(
    server: Scripted, recording: Recording, send: Send
) -> None:
    server.acts = [reply(), close, reply()]
    session = recording.session()

    statuses = [session.perform(send).received.status for _ in range(3)]

    assert statuses == [200, 0, 200]
    assert len(server.requests) == 3


def test_a_kept_connection_that_was_closed_meanwhile_is_not_used(
    server: Scripted, recording: Recording
) -> None:
    server.acts = [answer_and_close]
    session = recording.session()

    for _ in range(3):
        assert session.perform(READ).received.ok
        server.closed.acquire()

    assert len(server.requests) == 3


def test_a_lost_call_goes_out_as_a_whole_and_nobody_listens(server: Scripted, recording: Recording) -> None:
    body = {"host": "x" * 300_000}

    outcome = recording.session().perform(Send("domains.create", body=body, lose=True, idempotency_key="k"))

    assert (outcome.received.status, outcome.error) == (0, "lost on purpose")
    server.closed.acquire()
    [request] = server.requests
    assert request.endswith(b'{"host":"' + b"x" * 300_000 + b'"}')
    [call] = recording.calls()
    assert (call["status"], call["effect"]) == (None, "unknown")


def test_redirects_are_not_followed(server: Scripted, recording: Recording) -> None:
    server.acts = [reply(307, Location=f"{server.url}/elsewhere")]

    outcome = recording.session().perform(READ)

    assert outcome.received.status == 307
    assert not refused(outcome)
    assert len(server.requests) == 1


def test_addresses(server: Scripted, recording: Recording) -> None:
    recording.target = Target.model_validate(
        {
            "environments": {"production": f"{server.url}/v1", "sandbox": f"{server.url}/sandbox/"},
            "graphql": {"production": f"{server.url}/q?x=1"},
            "keys": {
                "main": {"token": TOKEN},
                "test": {"token": "rk_test_x", "environment": "sandbox", "account": "acc_2"},
            },
        }
    )
    session = recording.session()
    sends = [
        READ,
        Send("keywords.get", path={"id": "a/b c"}),
        Send("account.get", "test"),
        Send("account.get", "test", environment="production"),
        Send("webhook_events.list", key=""),
        Send("account.get", "unknown"),
        Send("account.get", body={"query": "query { account { id } }"}, surface="graphql"),
        Send("account.get", "test", body={"query": "{ account { id } }"}, surface="graphql"),
    ]
    for send in sends:
        session.perform(send)

    lines = [request.split(b"\r\n")[0].decode() for request in server.requests]
    assert lines == [
        "GET /v1/domains?limit=2 HTTP/1.1",
        "GET /v1/keywords/a%2Fb%20c HTTP/1.1",
        "GET /sandbox/v1/account HTTP/1.1",
        "GET /v1/account HTTP/1.1",
        "GET /v1/webhook-events HTTP/1.1",
        "GET /v1/account HTTP/1.1",
        "POST /q?x=1 HTTP/1.1",
        "POST /sandbox/graphql HTTP/1.1",
    ]
    told = [
        (call["environment"], call["api_key"], call["account"], call["path"]) for call in recording.calls()
    ]
    assert told[2:6] == [
        ("sandbox", "test", "acc_2", "/v1/account"),
        ("production", "test", "acc_2", "/v1/account"),
        ("production", None, "", "/v1/webhook-events"),
        ("production", "unknown", "", "/v1/account"),
    ]
    assert told[7] == ("sandbox", "test", "acc_2", "/graphql")
    assert b"Authorization" not in server.requests[4]
    with pytest.raises(BadInput, match="no environment 'staging'"):
        session.perform(Send("account.get", environment="staging"))


def test_headers_that_come_twice_are_joined(server: Scripted, recording: Recording) -> None:
    server.acts = [
        raw(b"HTTP/1.1 200 OK\r\nLink: a\r\nLink: b\r\nSet-Cookie: s=1\r\nContent-Length: 2\r\n\r\n{}")
    ]

    outcome = recording.session().perform(READ)

    assert outcome.received.headers["link"] == "a, b"
    assert "Set-Cookie" not in recording.calls()[0]["response_headers"]


MUTATION = {"query": "mutation { x }"}


@pytest.mark.parametrize(
    ("send", "method", "status", "body", "effect"),
    [
        (READ, "GET", 200, {}, "none"),
        (WRITE, "POST", 201, {}, "yes"),
        (WRITE, "POST", 409, {}, "none"),
        (WRITE, "POST", 500, {}, "unknown"),
        (Send("jobs.create", body={"dry_run": True}), "POST", 200, {}, "none"),
        (Send("x", surface="graphql", body={"query": "{ x }"}), "POST", 200, {}, "none"),
        (Send("x", surface="graphql", body=MUTATION), "POST", 200, {"data": {}}, "yes"),
        (Send("x", surface="graphql", body=MUTATION), "POST", 200, {"errors": [1]}, "unknown"),
    ],
)
def test_effect(send: Send, method: str, status: int, body: object, effect: str) -> None:
    assert effect_of(send, method, status, body) == effect


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, {"code": "rate_limited"}, True),
        (404, {}, True),
        (404, None, False),
        (500, {}, False),
        (200, {}, False),
    ],
)
def test_refusals(status: int, body: object, expected: bool) -> None:
    assert refused(CallOutcome(Received(status, body, {}, 0, 0))) is expected


# TLS


@pytest.fixture
def authority() -> trustme.CA:
    import trustme

    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> Iterator[Scripted]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    made = Scripted(context)
    yield made
    made.stop()


@pytest.fixture
def secure(tmp_path: Path, tls: Scripted) -> Iterator[Recording]:
    made = Recording(tmp_path / "tls.jsonl", tls.url)
    yield made
    made.close()


def test_a_certificate_of_an_unknown_authority_is_refused_before_anything_is_sent(
    tls: Scripted, secure: Recording
) -> None:
    outcome = secure.session().perform(WRITE)

    assert "CERTIFICATE_VERIFY_FAILED" in outcome.error
    assert [call["effect"] for call in secure.calls()] == ["none"]
    assert tls.requests == []


def test_a_certificate_of_a_known_authority_is_accepted(
    tls: Scripted, secure: Recording, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    assert secure.session().perform(READ).received.ok
    assert len(tls.requests) == 1


def test_the_clock_never_goes_back_and_is_near_wall_time(walls: Callable[[], int]) -> None:
    clock = AnchoredClock.here()
    readings = [clock.now() for _ in range(1000)]
    assert readings == sorted(readings)
    before, now, after = walls(), clock.now(), walls()
    assert before - 1_000_000 < now < after + 1_000_000


@pytest.fixture
def walls() -> Callable[[], int]:
    import time

    return lambda: time.time_ns() // 1000


def test_connections_beyond_a_thousand_are_kept_too(
    server: Scripted, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranksim.judge.load.session.MOST_SELECTED", 0)
    server.acts = [reply(), answer_and_close]
    session = recording.session()
    opened: list[object] = []
    for _ in range(3):
        assert session.perform(READ).received.ok
        [connection] = session._connections.values()
        opened.append(connection)
        if len(opened) > 1:
            server.closed.acquire()
    assert [one is opened[0] for one in opened] == [True, True, False]
