"""The webhook receiver beside a run: its own process, scripted over HTTP, on the recorder's clock."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.kit.runs import Act, Scripted, close, lines_of, raw, reply, until

from ranksim.core.errors import BadInput
from ranksim.core.rules import webhooks
from ranksim.core.trace import SECRET_FIELDS, Trace
from ranksim.judge.load.merging import merge
from ranksim.judge.load.receiving import LocalReceiver, ReceiverClient, RemoteReceiver, ask_receiver
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.twin.receiver.receiver import STALL, WATCH, Receiver, watch_stalls

SECRET = "whsec_0123456789"


def post(url: str, body: bytes = b"{}", **headers: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=600)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", parts.path, body, sent)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[PartRecorder]:
    made = PartRecorder(tmp_path / "part-w1.jsonl", part="w1", clock=AnchoredClock.here(), salt=b"s")
    yield made
    made.close()


@pytest.fixture
def local(tmp_path: Path, recorder: PartRecorder) -> Iterator[LocalReceiver]:
    made = LocalReceiver(tmp_path, recorder.clock)
    yield made
    made.stop()


@pytest.mark.slow
def test_a_receiver_that_ended_by_itself_is_noticed(tmp_path: Path, recorder: PartRecorder) -> None:
    made = LocalReceiver(tmp_path, recorder.clock)
    made._process.kill()
    made._process.wait()
    assert not made.stop()


def created(url: str, endpoint: str = "end_1", name: str = "secret") -> str:
    return json.dumps({"data": {"id": endpoint, "url": url, name: SECRET}})


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SECRET_FIELDS))
def test_a_delivery_is_in_the_trace_with_its_endpoint_and_the_receivers_verdict(
    tmp_path: Path, recorder: PartRecorder, local: LocalReceiver, name: str
) -> None:
    client = ReceiverClient(local.url, "run", recorder, local.token)
    before = recorder.clock.now()
    url = client.listen("500,302:/elsewhere,200")
    client.observe(created(url, name=name))
    signed = webhooks.sign(SECRET, before // 1_000_000, b"{}")

    statuses = [
        post(url, Service_Signature=signed, Service_Delivery_Attempt=str(n), Service_Event_Id="e")
        for n in (1, 2, 3)
    ]
    statuses.append(post(url, Service_Signature="t=1,v1=00", Service_Event_Id="f"))
    local.stop()
    after = recorder.clock.now()
    recorder.close()
    (tmp_path / "header.json").write_text('{"ranksim_trace": 1}', encoding="utf-8")
    merge(tmp_path, tmp_path / "trace.jsonl")

    assert statuses == [500, 302, 200, 500]
    deliveries = Trace.read(tmp_path / "trace.jsonl").deliveries
    assert [(one.endpoint, one.status, one.signature.valid) for one in deliveries] == [
        ("end_1", 500, True),
        ("end_1", 302, True),
        ("end_1", 200, True),
        ("end_1", 500, False),
    ]
    for one in deliveries:
        assert one.answered is not None
        assert before <= one.received <= one.answered <= after, "one clock for both processes"
    for file in tmp_path.iterdir():
        assert SECRET not in file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_delivery_is_logged_before_it_is_answered(recorder: PartRecorder, local: LocalReceiver) -> None:
    url = urlsplit(ReceiverClient(local.url, "run", recorder, local.token).listen("timeout"))
    with closing(http.client.HTTPConnection(url.netloc, timeout=600)) as connection:
        connection.request("POST", url.path, b"{}")
        until(lambda: local.log.read_bytes().endswith(b"\n"))
        [first] = lines_of(local.log)
    assert (first["received"] > 0, first["answered"], first["status"]) == (True, None, None)


def test_it_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    program = f"""
import os, sys
from pathlib import Path
from ranksim.judge.load.receiving import LocalReceiver
from ranksim.judge.load.recorder import AnchoredClock
made = LocalReceiver(Path({str(tmp_path)!r}), AnchoredClock.here())
print(made._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        receiver = int(process.stdout.read())
    with pytest.raises(ProcessLookupError):
        _until_gone(receiver)


def _until_gone(pid: int) -> None:
    waited = threading.Event()
    for _ in range(15_000):
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            raise ProcessLookupError
        waited.wait(0.02)


def test_a_receiver_that_cannot_begin_says_why(tmp_path: Path, recorder: PartRecorder) -> None:
    (tmp_path / "receiver.jsonl").mkdir()
    with pytest.raises(BadInput, match=r"the webhook receiver did not begin: .*--log: .*receiver\.jsonl"):
        LocalReceiver(tmp_path, recorder.clock)


def test_a_receiver_elsewhere_is_put_on_our_clock(recorder: PartRecorder) -> None:
    hour = 3_600_000_000
    with Receiver(clock=lambda: recorder.clock.now() + hour) as receiver:
        remote = RemoteReceiver(receiver.url, recorder.clock, receiver.token)
        url = ReceiverClient(receiver.url, "run", recorder, receiver.token).listen("200")
        before = recorder.clock.now()
        post(url)
        post(receiver.url + "/of/others")
        after = recorder.clock.now()

        [came] = remote.fetch("run", recorder)

        low, high = remote.ahead
        assert low <= hour <= high
        assert before - (high - low) <= came["received"] <= came["answered"] <= after + (high - low)
    with pytest.raises(BadInput, match="expected `ranksim serve receive` to answer there"):
        RemoteReceiver(receiver.url, recorder.clock)


def test_a_receiver_elsewhere_is_sent_its_token(recorder: PartRecorder) -> None:
    with Receiver(token="open") as receiver:
        remote = RemoteReceiver(receiver.url, recorder.clock, "open")
        client = ReceiverClient(receiver.url, "run", recorder, "open")
        url = client.listen("418")
        client.observe(created(url))
        assert post(url) == 418
        [came] = remote.fetch("run", recorder)
        assert (came["status"], came["signature"]["valid"]) == (418, False)
        for token in (None, "closed"):
            with pytest.raises(
                BadInput, match=r"(?s)401 .*control token.*the target's receiver and receiver_token"
            ):
                RemoteReceiver(receiver.url, recorder.clock, token)


@pytest.mark.slow
def test_settings_for_other_receivers_are_not_for_ours(
    tmp_path: Path, recorder: PartRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKSIM_SERVE_RECEIVE_CONTROL_TOKEN", "open")
    monkeypatch.setenv("RANKSIM_SERVE_RECEIVE_SCRIPT", "500")
    local = LocalReceiver(tmp_path, recorder.clock)
    try:
        assert post(local.url) == 200
        assert ReceiverClient(local.url, "run", recorder, local.token).listen("200")
    finally:
        local.stop()


def test_what_a_receiver_elsewhere_no_longer_keeps_is_noted(recorder: PartRecorder) -> None:
    with Receiver(keep=2) as receiver:
        for number in range(3):
            post(f"{receiver.url}/run/w1/{number}")
        remote = RemoteReceiver(receiver.url, recorder.clock, receiver.token)
        assert len(remote.fetch("run", recorder)) == 2
        for number in range(2):
            post(f"{receiver.url}/run/w1/{number}")
        assert len(remote.fetch("run", recorder)) == 2
    notes = [line["text"] for line in lines_of(recorder.path) if line["kind"] == "note"]
    assert ["keeps the latest" in note for note in notes] == [False, False, True]


@pytest.mark.parametrize(
    "listed",
    [
        raw(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{"),
        close,
        reply(200, {"requests": [7]}),
        reply(200, [1]),
        reply(500),
    ],
)
def test_a_receiver_elsewhere_that_fails_at_the_end_is_bad_input(
    recorder: PartRecorder, server: Scripted, listed: Act
) -> None:
    clock = reply(200, {"now": recorder.clock.now()})
    server.acts = [clock, clock, listed]
    remote = RemoteReceiver(server.url, recorder.clock)
    with pytest.raises(BadInput, match="expected what came to `ranksim serve receive` there"):
        remote.fetch("run", recorder)


def test_without_a_receiver_there_is_no_url_and_a_note(recorder: PartRecorder) -> None:
    with Receiver() as receiver:
        gone = receiver.url
    client = ReceiverClient(gone, "run", recorder)
    assert client.listen("200") == ""
    client.observe(created(f"{gone}/run/w1/1"))
    assert [line["text"] for line in lines_of(recorder.path) if line["kind"] == "note"] == [
        "the webhook receiver could not be reached"
    ] * 2


def test_replies_that_tell_of_other_urls_are_left_alone(recorder: PartRecorder) -> None:
    with Receiver() as receiver:
        client = ReceiverClient(receiver.url, "run", recorder, receiver.token)
        client.observe(created("https://example.com/hook"))
        client.observe(created(f"{receiver.url}/otherrun/w1/1"))
        client.observe(json.dumps({"data": [{"id": "end_2", "url": f"{receiver.url}/run/w1/1"}]}))
        assert ask_receiver(receiver.url, "GET", "/scripts", token=receiver.token) == {"*": ["200"]}
    assert lines_of(recorder.path) == [{"kind": "endpoint", "path": "/run/w1/1", "endpoint": "end_2"}]


def test_a_secret_that_comes_between_a_delivery_and_its_answer_counts() -> None:
    receiver = Receiver()
    signed = webhooks.sign(SECRET, receiver.clock() // 1_000_000, b"{}")
    came = receiver.accept("POST", "/hook", "", {"service-signature": signed}, b"{}")
    assert came.valid is None
    receiver.trust(SECRET, "/hook")
    receiver.answered(came, 200)
    assert came.valid is True


def test_stalls_are_noticed() -> None:
    """A clock by which every other turn of the loop comes late."""
    late = [0, STALL + 5, STALL, STALL + 1]
    now = 0
    heard: list[tuple[int, int]] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        if not late:
            raise asyncio.CancelledError
        now += round(seconds * 1_000_000) + late.pop(0)

    def clock() -> int:
        return now

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch_stalls(clock, lambda t, length: heard.append((t, length)), sleep))
    assert heard == [(2 * WATCH + STALL + 5, STALL + 5), (4 * WATCH + 3 * STALL + 6, STALL + 1)]


def test_a_receiver_that_never_ends_its_answer_is_given_up(server: Scripted) -> None:
    def slowly(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            threading.Event().wait(0.02)

    server.acts = [slowly]
    with pytest.raises(TimeoutError):
        ask_receiver(server.url, "GET", "/clock", patience=0.3)
