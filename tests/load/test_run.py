"""Opening a run: what keeps it from being recorded is told in one sentence."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from ranksim.callers.target import Target
from ranksim.clock import SECOND
from ranksim.errors import BadInput
from ranksim.load.recorder import AnchoredClock
from ranksim.load.run import LoadRun, Part, RunSettings, Shared
from ranksim.receiver.receiver import Receiver

from .conftest import Scripted


def test_a_directory_that_cannot_be_made_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.symlink_to(tmp_path / "gone" / "away")
    with pytest.raises(BadInput, match=r"out/\.parts-.*: cannot be written \(.*\); give another --out"):
        LoadRun(Target.simple("http://127.0.0.1:1", "rk_1"), RunSettings(out))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1:1", "connection refused"), ("no-such-host.invalid", "host not found")]
)
def test_why_nothing_was_answered_is_told(host: str, why: str, tmp_path: Path) -> None:
    told = rf"no key of the target works \(main: nothing was answered: {why}\); check the address"
    with pytest.raises(BadInput, match=told):
        LoadRun(Target.simple(f"http://{host}", "rk_1"), RunSettings(tmp_path / "out"))
    assert not list(tmp_path.iterdir())


def test_every_process_of_a_run_has_the_receivers_token(tmp_path: Path) -> None:
    with Receiver(token="rt_open") as receiver:
        target = Target.model_validate(
            {
                "environments": {"production": "http://127.0.0.1:1"},
                "keys": {"main": {"token": "rk_1"}},
                "receiver": receiver.url,
                "receiver_token": "rt_open",
            }
        )
        with pytest.raises(BadInput, match="no key of the target works"):  # its receiver does
            LoadRun(target, RunSettings(tmp_path / "out"))
        with pytest.raises(BadInput, match="expected `ranksim receive` to answer there"):
            LoadRun(target.model_copy(update={"receiver_token": "rt_wrong"}), RunSettings(tmp_path / "out"))
        shared = Shared("run", str(tmp_path), AnchoredClock.here(), "00", 1, 1, 1, 1, receiver.url, {})
        part = Part(shared, target, "w1")
        assert part.receiver is not None
        assert part.receiver.listen("200")
        part.recorder.note("said", text_of_another="it was rt_open")
        part.close()
    assert "rt_open" not in part.recorder.path.read_text(encoding="utf-8")


def slowly(connection: socket.socket) -> None:
    """Answer a byte every twentieth of a second, as long as somebody listens."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        threading.Event().wait(0.05)


def test_a_deployment_that_never_ends_an_answer_is_given_up_in_the_time_for_reading(
    server: Scripted, tmp_path: Path
) -> None:
    server.acts = [slowly]
    settings = RunSettings(tmp_path / "out", opening=SECOND // 2)
    with pytest.raises(BadInput, match="the deployment could not be read within 500ms"):
        LoadRun(Target.simple(server.url, "rk_1"), settings)
    assert not list(tmp_path.iterdir())
