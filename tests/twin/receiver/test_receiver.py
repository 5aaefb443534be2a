"""The recording receiver: scripts by attempt and path, signatures, what it lists, HTTP, the command."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest

from ranksim.core import trace
from ranksim.core.clock import SECOND, instant
from ranksim.core.errors import BadInput
from ranksim.core.rules import webhooks
from ranksim.twin.receiver.receiver import LARGEST_BODY, Receiver

get = partial(httpx.get, timeout=600)
post = partial(httpx.post, timeout=600)

NOW = instant("2026-03-01T00:00:00Z")
SECRET = "whsec_abc"
BODY = '{"id":"evt_1","type":"job.failed","data":{"job":{"error_detail":"Ärger"}}}'.encode()


def sent(number: int = 1, event: str = "evt_1", secret: str = SECRET, at: int = NOW) -> dict[str, str]:
    """The headers of an attempt, as the service writes them."""
    return webhooks.headers(secret, at // SECOND, BODY, event, "job.failed", number)


def come(receiver: Receiver, headers: dict[str, str], path: str = "/hooks", body: bytes = BODY) -> Any:
    """Let a request come without HTTP."""
    lower = {name.lower(): text for name, text in headers.items()}
    return receiver.accept("POST", path, "", lower, body)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(clock=lambda: NOW) as receiver:
        yield receiver


@pytest.fixture
def client(receiver: Receiver) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=receiver.url, headers=bearer(receiver.token), timeout=600, trust_env=False
    ) as client:
        yield client


# Scripts


@pytest.mark.fact("S81")
def test_the_script_counts_by_the_attempt_of_each_event() -> None:
    receiver = Receiver(500, 503, 200, clock=lambda: NOW)
    order = [("evt_1", 1), ("evt_2", 1), ("evt_1", 2), ("evt_1", 3), ("evt_2", 2), ("evt_1", 4)]
    answers = [come(receiver, sent(number, event)).step.status for event, number in order]
    assert answers == [500, 500, 503, 200, 503, 200]


def test_an_attempt_number_that_is_none_is_no_number() -> None:
    for text in ("9" * 5_000, "-1", "1.5", "\u0663"):
        came = Receiver().accept("POST", "/hooks", "", {"service-delivery-attempt": text}, b"")
        assert (came.attempt, came.step.status) == (0, 200)


def test_a_request_without_an_attempt_number_counts_at_its_path() -> None:
    receiver = Receiver(500, 200, clock=lambda: NOW)
    paths = ["/a", "/b", "/a", "/a"]
    assert [come(receiver, {}, path).step.status for path in paths] == [500, 500, 200, 200]


def test_a_path_may_have_a_script_of_its_own() -> None:
    receiver = Receiver(204, clock=lambda: NOW)
    receiver.script(500, "302:/there", path="/moved")
    assert [str(come(receiver, sent(2), path).step) for path in ("/moved", "/other")] == ["302:/there", "204"]


@pytest.mark.parametrize("path", ["hooks", "", None, 5])
def test_a_path_begins_with_a_slash(path: Any) -> None:
    with pytest.raises(BadInput, match=r"^path: expected"):
        Receiver().script(200, path=path)


# Signatures


@pytest.mark.fact("S84", "S85", "S86", "E34", "U77")
@pytest.mark.parametrize(
    ("at", "valid"), [(0, True), (-300, True), (300, True), (-301, False), (301, False), (-3600, False)]
)
def test_a_signature_must_be_recent(at: int, valid: bool) -> None:
    receiver = Receiver(secret=SECRET, clock=lambda: NOW)
    came = come(receiver, sent(at=NOW + at * SECOND))
    assert came.valid is valid
    assert came.problem == ("" if valid else f"signed {abs(at)} s from now, tolerance 300 s")
    assert come(Receiver(secret=SECRET, clock=lambda: NOW, tolerance=None), dict(came.headers)).valid


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({}, BODY, "no Service-Signature"),
        ({"Service-Signature": "v1=ab"}, BODY, "the Service-Signature is not t=<seconds>,v1=<digest>"),
        (sent(secret="whsec_other"), BODY, "none of the usual mistakes gives this digest"),
        (sent(), BODY + b".", "none of the usual mistakes gives this digest"),
    ],
    ids=["none", "form", "secret", "body"],
)
def test_a_wrong_signature_says_what_is_wrong(headers: dict[str, str], body: bytes, problem: str) -> None:
    came = come(Receiver(secret=SECRET, clock=lambda: NOW), headers, body=body)
    assert (came.valid, came.problem, came.step.status) == (False, problem, 200)


def test_what_is_wrong_is_sought_among_what_came_and_other_secrets() -> None:
    receiver = Receiver(secret=SECRET, clock=lambda: NOW)
    receiver.trust("whsec_other", "/elsewhere")
    assert come(receiver, sent(secret="whsec_other")).problem.endswith("with the secret of another endpoint")
    old, new = sent(at=NOW - 60 * SECOND), sent(2)
    stale = new["Service-Signature"].partition(",")[0] + "," + old["Service-Signature"].partition(",")[2]
    assert not come(receiver, new | {"Service-Signature": stale}).problem.startswith("it is")
    come(receiver, old)
    came = come(receiver, new | {"Service-Signature": stale})
    assert came.problem.endswith("with the t of an attempt before it")
    assert trace.DeliveryAttempt.model_validate(came.to_dict()).problem == came.problem


def test_without_a_secret_there_is_no_verdict() -> None:
    assert come(Receiver(clock=lambda: NOW), sent()).valid is None


@pytest.mark.fact("E28")
def test_two_endpoints_may_share_a_url_each_with_its_secret() -> None:
    receiver = Receiver(clock=lambda: NOW)
    receiver.trust("whsec_one", "/hooks")
    receiver.trust("whsec_two", "/hooks")
    receiver.trust("whsec_three", "/other")
    verdicts = [come(receiver, sent(secret=f"whsec_{name}")).valid for name in ("one", "two", "three")]
    assert verdicts == [True, True, False]


def test_a_strict_receiver_refuses_what_does_not_verify() -> None:
    receiver = Receiver(503, secret=SECRET, clock=lambda: NOW, strict=True)
    statuses = [come(receiver, sent(secret=secret)).step.status for secret in (SECRET, "whsec_other")]
    assert statuses == [503, 400]


# Over HTTP


def test_what_came_is_recorded_byte_for_byte(receiver: Receiver, client: httpx.Client) -> None:
    import stripe

    receiver.trust(SECRET)
    answer = client.post("/hooks/a?b=c&d", content=BODY, headers=sent(3))
    assert answer.status_code == 200
    (came,) = receiver.wait(1, 600)
    assert (came.number, came.method, came.path, came.query) == (1, "POST", "/hooks/a", "b=c&d")
    assert (came.event_id, came.event_type, came.attempt) == ("evt_1", "job.failed", 3)
    assert (came.body, came.valid, came.status) == (BODY, True, 200)
    assert came.json()["data"]["job"]["error_detail"] == "Ärger"
    assert (came.received, came.answered, came.signed_at) == (NOW, NOW, NOW // SECOND)
    stripe.WebhookSignature.verify_header(came.body.decode(), came.signature, SECRET)


def test_answers_follow_the_script(receiver: Receiver, client: httpx.Client) -> None:
    receiver.script(500, "302:/elsewhere", 204, "200+10ms")
    answers = [client.post("/hooks", content=BODY, headers=sent(number)) for number in (1, 2, 3, 4)]
    assert [answer.status_code for answer in answers] == [500, 302, 204, 200]
    assert [answer.headers.get("location") for answer in answers] == [None, "/elsewhere", None, None]
    assert [came.status for came in receiver.wait(4, 600)] == [500, 302, 204, 200]


def test_who_is_never_answered_gives_up(receiver: Receiver) -> None:
    receiver.script("timeout", "200+1h")
    arrived = threading.Semaphore(0)
    receiver.came = lambda came: arrived.release()
    for number in (1, 2):
        connection = http.client.HTTPConnection(httpx.URL(receiver.url).netloc.decode(), timeout=600)
        connection.request("POST", "/hooks", BODY, sent(number))
        assert arrived.acquire(timeout=600)
        connection.close()
    assert [came.status for came in receiver.wait(2, 600)] == [None, None]


def test_a_large_body_is_refused(receiver: Receiver, client: httpx.Client) -> None:
    assert client.post("/hooks", content=b"x" * (LARGEST_BODY + 1)).status_code == 413
    assert client.post("/hooks", content=b"x" * LARGEST_BODY).status_code == 200
    assert [len(came.body) for came in receiver.requests] == [LARGEST_BODY]


def test_only_the_latest_are_kept() -> None:
    receiver = Receiver(clock=lambda: NOW, keep=2)
    for number in (1, 2, 3):
        come(receiver, sent(number))
    assert [came.number for came in receiver.requests] == [2, 3]


def test_waiting_in_vain_says_what_came(receiver: Receiver) -> None:
    with pytest.raises(TimeoutError, match=r"^expected 1 requests in 0 s, came: none$"):
        receiver.wait(1, 0)
    receiver.answered(come(receiver, sent(2)), 200)
    with pytest.raises(TimeoutError, match=r"came: /hooks attempt 2$"):
        receiver.wait(2, 0)


def test_it_stops_while_a_sender_waits_and_can_start_again() -> None:
    with Receiver("timeout") as receiver, httpx.Client(trust_env=False) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(receiver.url, content=BODY, timeout=0.05)
        first = receiver.url
    with pytest.raises(httpx.ConnectError):
        get(first, trust_env=False)
    with receiver:
        assert get(f"{receiver.url}/_receiver", trust_env=False).status_code == 401  # there is somebody
    receiver.stop()


def test_many_listen_side_by_side() -> None:
    receivers = [Receiver(200 + number).start() for number in range(5)]
    codes = [get(receiver.url, trust_env=False).status_code for receiver in receivers]
    for receiver in receivers:
        receiver.stop()
    assert codes == [200, 201, 202, 203, 204]


def test_a_taken_port_is_refused(receiver: Receiver) -> None:
    port = int(receiver.url.rpartition(":")[2])
    with pytest.raises(BadInput, match=rf"^127.0.0.1:{port}: cannot listen there"):
        Receiver().start(port=port)


# Control


def test_what_came_is_listed_and_forgotten(receiver: Receiver, client: httpx.Client) -> None:
    client.post("/a", content=BODY, headers=sent(1))
    client.post("/b", content=BODY, headers=sent(1, "evt_2"))
    client.post("/a", content=BODY, headers=sent(2))

    def numbers(**filters: str) -> list[int]:
        answer = client.get("/_receiver/requests", params=filters).json()
        assert answer["count"] == len(answer["requests"])
        return [one["number"] for one in answer["requests"]]

    assert numbers() == [1, 2, 3]
    assert numbers(path="/a") == [1, 3]
    assert numbers(event="evt_2") == [2]
    assert numbers(attempt="1", path="/a") == [1]
    assert numbers(type="job.completed") == []
    assert client.delete("/_receiver/requests").json() == {"count": 0, "requests": []}
    assert numbers() == []


def test_a_listed_request_is_a_delivery_of_a_trace(receiver: Receiver, client: httpx.Client) -> None:
    receiver.trust(SECRET)
    client.post("/hooks", content=BODY, headers=sent(2))
    (one,) = client.get("/_receiver/requests").json()["requests"]
    _, delivery = trace.entries([json.dumps({"ranksim_trace": 1, "started": NOW}), json.dumps(one)])
    assert isinstance(delivery, trace.DeliveryAttempt)
    assert (delivery.received, delivery.endpoint, delivery.status) == (NOW, "/hooks", 200)
    assert (delivery.signature.valid, delivery.signature.t) == (True, NOW // SECOND)
    assert delivery.body == BODY.decode()


def test_scripts_and_secrets_are_set_over_http(receiver: Receiver, client: httpx.Client) -> None:
    both = {"*": ["200"], "/hooks": ["500", "302:/x", "200+2s"]}
    asked = client.put("/_receiver/scripts", json={"path": "/hooks", "script": [500, "302:/x", "200+2s"]})
    assert asked.json() == both == client.get("/_receiver/scripts").json()
    assert client.put("/_receiver/scripts", json={"script": 204}).json()["*"] == ["204"]
    assert client.post("/_receiver/secrets", json={"secret": SECRET}).json() == {"secrets": {"*": 1}}
    assert client.post("/hooks", content=BODY, headers=sent()).status_code == 500
    assert receiver.wait(1, 600)[0].valid


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error"),
    [
        ("GET", "/requests?attempt=one", "", 400, "attempt: expected a number"),
        ("GET", "/requests?attempt=" + "9" * 5_000, "", 400, "attempt: expected a number"),
        ("GET", "/requests?where=x", "", 400, "where: no such filter"),
        ("PUT", "/scripts", '{"script": []}', 400, "script: expected at least one step"),
        ("PUT", "/scripts", '{"script": [9]}', 400, "script: expected a status"),
        ("PUT", "/scripts", "{}", 400, "script: expected a status"),
        ("PUT", "/scripts", "[" * 100_000, 400, "body: expected a JSON object with path and script"),
        ("PUT", "/scripts", '{"steps": [200]}', 400, "body: expected a JSON object with path and script"),
        ("PUT", "/scripts", '{"script": 200, "path": 1}', 400, "path: expected one such as /hooks"),
        ("POST", "/secrets", '{"secret": 5}', 400, "secret: expected text"),
        ("POST", "/nothing", "", 404, "nothing there"),
    ],
)
def test_wrong_control_is_refused(
    client: httpx.Client, method: str, path: str, body: str, status: int, error: str
) -> None:
    answer = client.request(method, f"/_receiver{path}", content=body)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(error)


def test_a_request_whose_sender_hangs_up_within_its_body_did_not_come() -> None:
    receiver = Receiver()
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": BODY[:5], "more_body": True}]

    async def receive() -> dict[str, Any]:
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "path": "/hooks", "query_string": b"", "headers": []}
    asyncio.run(receiver(scope, receive, send))
    assert receiver.requests == []


ASKS = [("GET", ""), ("GET", "/requests"), ("DELETE", "/requests"), ("PUT", "/scripts"), ("POST", "/secrets")]


@pytest.mark.parametrize(("method", "path"), ASKS)
@pytest.mark.parametrize("sent_token", ["", "Bearer", "Bearer other", "Basic open", "open", "Bearer öpen"])
def test_a_token_is_asked_for_where_there_is_one(method: str, path: str, sent_token: str) -> None:
    with (
        Receiver(token="open") as receiver,
        httpx.Client(base_url=receiver.url, timeout=600, trust_env=False) as client,
    ):
        headers = {b"authorization": sent_token.encode()} if sent_token else None
        answer = client.request(method, f"/_receiver{path}", headers=headers, json={})
        assert answer.status_code == 401
        assert answer.json()["error"] == "Send the control token as a bearer token."
        assert client.post("/hooks", content=BODY).status_code == 200  # nobody who delivers needs it
        came = client.get("/_receiver/requests", headers={"authorization": "Bearer open"})
        assert (came.status_code, came.json()["count"]) == (200, 1)


def test_unless_told_otherwise_control_belongs_to_who_started_it(client: httpx.Client) -> None:
    """One token for each receiver; it may stand in an address that is read, in none that changes anything."""
    with Receiver() as other, Receiver(token="") as open_to_all:
        assert client.get("/_receiver/requests").status_code == 200
        assert client.get(f"{other.url}/_receiver/requests").status_code == 401
        listed = get(f"{other.url}/_receiver/requests?path=/x&token={other.token}", trust_env=False)
        assert listed.json() == {"count": 0, "requests": []}
        deleting = f"{other.url}/_receiver/requests?token={other.token}"
        assert httpx.delete(deleting, trust_env=False, timeout=600).status_code == 401
        assert get(f"{open_to_all.url}/_receiver", trust_env=False).status_code == 200


def test_control_is_served_under_own_names_alone_and_to_no_webhook() -> None:
    """A browser that was told that evil.example is this machine sends that name (DNS rebinding)."""
    with (
        Receiver(token="", control_names=["Tunnel.example"]) as receiver,
        httpx.Client(base_url=receiver.url, timeout=600, trust_env=False) as client,
    ):
        for host, status in (
            ("evil.example", 403),
            ("evil.example:80", 403),
            ("[", 403),
            ("localhost:1", 200),
            ("[::1]", 200),
            ("tunnel.example", 200),
        ):
            assert client.get("/_receiver", headers={"host": host}).status_code == status, host
        answer = client.get("/_receiver", headers={"host": "evil.example"})
        assert "not served under the name 'evil.example'; --control-host NAME" in answer.json()["error"]
        assert client.post("/hooks", headers={"host": "evil.example"}).status_code == 200
        ours = {"user-agent": "ranksim-webhooks/1"}
        assert client.post("/_receiver/secrets", json={"secret": "x"}, headers=ours).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://["])
def test_no_page_of_another_origin_may_control(receiver: Receiver, client: httpx.Client, origin: str) -> None:
    said = {"secret": "theirs"}
    answer = client.post("/_receiver/secrets", json=said, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"].startswith("The control API is not for pages of another origin")
    assert client.post("/_receiver/secrets", json=said, headers={"origin": receiver.url}).status_code == 201


# The command


def command(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ranksim", "serve", "receive", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_what_comes_and_stops_well(number: int) -> None:
    words = ["--port", "0", "--secret", SECRET, "--tolerance", "-1"]
    with command(*words, RANKSIM_SERVE_RECEIVE_SCRIPT="/hooks=500,204 418") as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[3]
        codes = [
            post(url + path, content=BODY, headers=sent(attempt), trust_env=False).status_code
            for path, attempt in (("/hooks", 1), ("/hooks", 2), ("/x", 1))
        ]
        process.send_signal(number)
        out, err = process.communicate()
    assert codes == [500, 204, 418]
    assert [line.partition(" ")[2] for line in out.splitlines()] == [
        "POST /hooks job.failed evt_1 attempt 1, signature valid: 500",
        "POST /hooks job.failed evt_1 attempt 2, signature valid: 204",
        "POST /x job.failed evt_1 attempt 1, signature valid: 418",
    ]
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], True),  # one is made up
        (["--host", "0.0.0.0"], True),
        (["--host", "0.0.0.0", "--control-token", "open"], True),
        (["--control-token", "open", "--control-host", "Tunnel.Example"], True),
        (["--no-control-token"], False),
    ],
)
def test_the_command_prints_the_token_that_its_control_wants(words: list[str], wanted: bool) -> None:
    with command("--port", "0", *words) as process:
        assert process.stderr is not None
        said = process.stderr.readline().split()
        control = f"http://127.0.0.1:{httpx.URL(said[7]).port}/_receiver"
        token = said[said.index("token") + 1] if "token" in said else "none"
        codes = [
            get(control, headers=headers, trust_env=False).status_code
            for headers in ({}, bearer(token), bearer(token) | {"host": "tunnel.example"})
        ]
        process.terminate()
        process.communicate()
    assert codes == [401 if wanted else 200, 200, 200 if "--control-host" in words else 403]
    assert (token == "open") == ("open" in words)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--script", "/hooks=fine"], "script: expected a status such as"),
        (["--script", "500", "--script", "200"], "--script: found '500' and '200' for all paths"),
        (["--script", "/a=500", "--script", "/a=200"], "--script: found '500' and '200' for /a"),
        (["--secret", "/hooks="], "--secret: expected SECRET or /PATH=SECRET"),
        (["--no-control-token", "--host", "0.0.0.0"], "--no-control-token: expected without --control-token"),
        (["--no-control-token", "--control-token", "x"], "--no-control-token: expected without"),
        (["--host", "192.0.2.1", "--port", "0"], "192.0.2.1:0: cannot listen there"),
    ],
)
def test_the_command_refuses_bad_input(words: list[str], error: str) -> None:
    with command(*words) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"ranksim: {error}")
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_what_cannot_be_written_down_is_not_taken_and_ends_the_command() -> None:
    with command("--port", "0", "--log", "/dev/full") as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[3]
        with suppress(httpx.TransportError):  # it may be gone before it has answered
            assert post(url, content=BODY, trust_env=False).status_code == 500
        _, err = process.communicate()
    assert process.returncode == 2
    assert err.startswith("ranksim: cannot be written or read (No space left on device)")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_it_ends_when_nobody_reads_on() -> None:
    with command("--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stderr.readline().split()[3]
        process.stdout.close()
        with suppress(httpx.TransportError):
            post(url, content=BODY, trust_env=False)
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")
