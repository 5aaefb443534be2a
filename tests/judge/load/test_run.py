"""Opening a run: what keeps it from being recorded is told in one sentence."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from tests.kit.runs import Act, Scripted, reply

from ranksim.core.callers.target import Target
from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.cleanup import marks_of
from ranksim.judge.load.leaked_resources import kept_by
from ranksim.judge.load.recorder import AnchoredClock
from ranksim.judge.load.run import LoadRun, Part, RunSettings, Shared, reach_from_message
from ranksim.judge.profiles.fixtures import User
from ranksim.twin.receiver.receiver import Receiver


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
        with pytest.raises(BadInput, match="expected `ranksim serve receive` to answer there"):
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


def asked(request: bytes) -> tuple[str, str]:
    """The method and path of a request."""
    method, path, _ = request.decode().split(" ", 2)
    return method, path


def without_deletes(server: Scripted) -> Act:
    """Answer as a deployment that removes no domains."""

    def act(connection: socket.socket) -> bool | None:
        method, path = asked(server.requests[-1])
        kept = method == "DELETE" and path.startswith("/v1/domains")
        return reply(405 if kept else 404 if method == "DELETE" else 200)(connection)

    return act


def test_what_cannot_be_removed_is_found_out_before_anything_is_made(
    server: Scripted, tmp_path: Path
) -> None:
    server.acts = [without_deletes(server)]
    target = Target.simple(server.url, "rk_1")
    run = LoadRun(target, RunSettings(tmp_path / "out"))
    assert run.reach.lacks["domains.delete"] == "405"
    assert not run.reach.lacks.keys() & {"scans.delete", "labels.delete"}
    run.abandon()
    assert kept_by(target) == {"domains.delete": "405"}
    methods = {method for method, path in map(asked, server.requests) if not path.endswith("/graphql")}
    assert methods == {"GET", "DELETE"}


def test_a_run_that_may_change_nothing_sends_nothing_but_reading(server: Scripted, tmp_path: Path) -> None:
    target = Target.simple(server.url, "rk_1").model_copy(update={"dry_run_only": True})
    run = LoadRun(target, RunSettings(tmp_path / "out"))
    run.finish()
    sent = {(method, path.partition("?")[0]) for method, path in map(asked, server.requests)}
    assert {path for method, path in sent if method != "GET"} == {"/graphql"}


def test_two_runs_with_one_seed_share_no_name_or_idempotency_key(server: Scripted, tmp_path: Path) -> None:
    """Else a deployment gives the second one the stored replies of the first (S47)."""
    names = set()
    for number in range(2):
        server.acts = [without_deletes(server)]
        target = Target.simple(server.url, "rk_1")
        run = LoadRun(target, RunSettings(tmp_path / f"out-{number}", seed=5))
        message = json.loads(json.dumps(run.shared.reach))
        run.abandon()
        names.add(User(reach_from_message(message, target), 0, 1, run.shared.seed).named("x"))
    assert len(names) == 2
    assert all(marks_of({"name": name}) for name in names)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_key_goes_to_no_other_host_whatever_a_deployment_or_the_environment_says(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    other = Scripted()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, other.url)
        monkeypatch.setenv(name.lower(), other.url)
    page = {"data": [{"id": f"{other.url}/x"}], "next_cursor": f"{other.url}/v1/domains?cursor=2"}
    server.acts = [
        reply(status, page, Location=f"{other.url}/v1/domains", Refresh=f"0; url={other.url}/"),
        reply(200, page, Location=f"//127.0.0.1:{other.port}/", Alt_Svc=f'h2="127.0.0.1:{other.port}"'),
    ] * 20
    server.acts.append(server.acts[0])
    try:
        LoadRun(Target.simple(server.url, "rk_1"), RunSettings(tmp_path / "out")).finish()
    finally:
        other.stop()
    assert len(server.requests) > 40
    assert other.requests == []
