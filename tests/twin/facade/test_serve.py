"""`ranksim serve`: what it says, its flags and variables, how it stops."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.clock import DAY, MINUTE, instant
from ranksim.twin.facade.cli import _go_on, _tell_clock_ahead
from ranksim.twin.facade.twin import Twin

get = partial(httpx.get, timeout=600)
post = partial(httpx.post, timeout=600)

START = "2026-03-04T10:00:00Z"


class Serving:
    """A running `ranksim serve`, and what it announced."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.said: dict[str, Any] = json.loads(process.stdout.readline())
        self.base: str = self.said["base_url"]
        self.auth = {"authorization": f"Bearer {self.said['key']}"}

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; give the exit code and what it logged."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=600)
        return self.process.returncode, log


@contextmanager
def serving(*flags: str, **variables: str) -> Iterator[Serving]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ranksim", "serve", "--port", "0", "--json", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_it_says_where_it_serves_and_does() -> None:
    with serving("--clock", "manual", "--start", START, "--seed", "5") as one:
        said = one.said
        assert (said["clock"], said["now"]) == ("manual", START)
        assert get(said["rest"] + "/account", headers=one.auth).json()["data"]["plan"] == "pro"
        sandbox = {"authorization": f"Bearer {said['sandbox_key']}"}
        assert get(said["sandbox_rest"] + "/account", headers=sandbox).status_code == 200
        for url in (said["graphql"], said["sandbox_graphql"]):
            assert post(url, json={"query": "{ __typename }"}).status_code == 401
        assert get(said["docs"]).status_code == 200
        assert get(said["control"] + "/clock").status_code == 401
        token = {"authorization": f"Bearer {said['control_token']}"}
        assert get(said["control"] + "/clock", headers=token).status_code == 200
        with httpx.stream("GET", said["events"], timeout=600) as events:
            assert events.status_code == 200
        assert get(one.base + "/readyz").status_code == 200
        code, log = one.stop()
        assert code == 0
        assert "Traceback" not in log


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for what a process has loaded")
def test_nobody_waits_for_what_is_read_late_elsewhere() -> None:
    """The first who asked for positions, and everybody beside, waited 150 ms for NumPy."""
    with serving() as one:
        loaded, deadline = Path(f"/proc/{one.process.pid}/maps"), time.monotonic() + 60
        while "numpy" not in loaded.read_text(encoding="utf-8"):
            assert get(one.base + "/livez").status_code == 200  # meanwhile
            assert time.monotonic() < deadline


@pytest.mark.slow
def test_flags_are_environment_variables_and_logs_can_be_json() -> None:
    variables = {
        "RANKSIM_SERVE_LOG": "json",
        "RANKSIM_SERVE_PLAN": "free",
        "RANKSIM_SERVE_DOCS": "0",
    }
    with serving(**variables) as one:
        assert one.said["docs"] == ""
        response = get(one.base + "/v1/account", headers=one.auth)
        assert response.json()["data"]["plan"] == "free"
        assert one.process.stdout is not None
        line = json.loads(one.process.stdout.readline())
        assert (line["path"], line["status"], line["operations"]) == ("/v1/account", 200, ["account.get"])
        assert one.stop(signal.SIGINT)[0] == 0


@pytest.mark.slow
@pytest.mark.fact("U84", "U100")
@pytest.mark.parametrize(
    ("flags", "variables", "statuses"),
    [
        ([], {}, (422, 422)),
        (["--no-strict-query"], {}, (200, 422)),
        (["--no-strict-body"], {}, (422, 201)),
        ([], {"RANKSIM_STRICT_QUERY": "0"}, (200, 422)),
        ([], {"RANKSIM_SERVE_STRICT_QUERY": "0", "RANKSIM_SERVE_STRICT_BODY": "0"}, (200, 201)),
        ([], {"RANKSIM_STRICT_BODY": "0"}, (422, 201)),
    ],
)
def test_unknown_parameters_and_fields_are_refused_unless_it_is_told_to_ignore_them(
    flags: list[str], variables: dict[str, str], statuses: tuple[int, int]
) -> None:
    with serving(*flags, **variables) as one:
        asked = get(one.base + "/v1/domains?hots=a", headers=one.auth).status_code
        body = {"host": "a.example", "lable": "x"}
        made = httpx.post(one.base + "/v1/domains", json=body, headers=one.auth, trust_env=False).status_code
    assert (asked, made) == statuses


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stop_that_was_asked_for_is_no_failure(number: signal.Signals) -> None:
    with serving("--clock", "manual") as one:
        code, log = one.stop(number)
    assert (code, log) == (0, "")


@pytest.mark.slow
def test_a_request_under_way_is_answered_before_it_stops() -> None:
    with serving() as one:
        body = b'{"host": "a.example"}'
        with socket.create_connection(("127.0.0.1", httpx.URL(one.base).port)) as connection:
            heading = (
                f"POST /v1/domains HTTP/1.1\r\nHost: x\r\nAuthorization: {one.auth['authorization']}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
                "\r\n"
            )
            connection.sendall(heading.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it is being read
            one.process.send_signal(signal.SIGTERM)
            connection.sendall(body)
            assert connection.recv(100).startswith(b"HTTP/1.1 201")
        assert one.process.wait(600) == 0


@pytest.mark.slow
def test_a_request_that_a_fault_holds_back_is_dropped_at_once_without_a_word() -> None:
    with serving() as one:
        faults, auth = (
            f"{one.said['control']}/faults",
            {"authorization": f"Bearer {one.said['control_token']}"},
        )
        post(faults, json={"operation": "account.get", "latency": "1h"}, headers=auth).raise_for_status()
        with socket.create_connection(("127.0.0.1", httpx.URL(one.base).port)) as connection:
            heading = (
                f"GET /v1/account HTTP/1.1\r\nHost: x\r\nAuthorization: {one.auth['authorization']}\r\n\r\n"
            )
            connection.sendall(heading.encode())
            while not get(faults, headers=auth).json()["data"][0]["seen"]:
                pass
            code, log = one.stop()
            assert connection.recv(100) == b""
    assert (code, log) == (0, "")


@pytest.mark.slow
def test_beyond_loopback_the_control_api_wants_a_token() -> None:
    with serving("--host", "0.0.0.0") as one:
        control = f"http://127.0.0.1:{httpx.URL(one.base).port}/_ranksim/clock"
        assert get(control).status_code == 401
        token = {"authorization": f"Bearer {one.said['control_token']}"}
        assert get(control, headers=token).status_code == 200


@pytest.mark.slow
def test_the_token_can_be_fixed_or_left_out_and_names_added() -> None:
    flags = ("--control-host", "twin.test", "--control-host", "other.test")
    with serving(*flags, RANKSIM_SERVE_CONTROL_TOKEN="fixed") as one:
        assert one.said["control_token"] == "fixed"
        sent = {"authorization": "Bearer fixed", "host": "other.test"}
        assert get(one.said["control"] + "/clock", headers=sent).status_code == 200
        sent["host"] = "evil.example"
        assert get(one.said["control"] + "/clock", headers=sent).status_code == 403
    with serving("--no-control-token") as one:
        assert one.said["control_token"] == ""
        assert get(one.said["control"] + "/clock").status_code == 200
        assert get(one.said["control"] + "/clock", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--no-control-token", "--control-token", "x"], "without --control-token"),
        (["--no-control-token", "--host", "0.0.0.0"], "at a loopback address"),
        (["--any-receiver", "--public-receivers-only"], "without --public-receivers-only"),
    ],
)
def test_flags_of_access_that_contradict_each_other_are_refused(flags: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", *flags])
    assert result.exit_code != 0
    assert says in str(result.exception) + result.output


@pytest.mark.slow
def test_what_is_kept_in_a_file_is_there_after_a_kill(tmp_path: Path) -> None:
    flags = ("--state", str(tmp_path / "state.db"), "--clock", "manual")
    with serving(*flags) as one:
        made = post(one.base + "/v1/domains", json={"host": "a.example"}, headers=one.auth).json()
        one.stop(signal.SIGKILL)
    with serving(*flags) as one:
        assert get(one.base + "/v1/domains", headers=one.auth).json()["data"] == [made["data"]]


@pytest.mark.slow
def test_a_world_that_is_kept_says_which_flags_count_for_nothing(tmp_path: Path) -> None:
    flags = ("--state", str(tmp_path / "state.db"), "--clock", "manual")
    with serving(*flags, "--seed", "3", "--start", START) as one:
        assert one.said["now"] == START
        assert "counts" not in one.stop()[1]
    with serving(*flags, "--start", START, "--plan", "pro") as one:
        assert one.stop() == (0, "")
    with serving(*flags, "--start", "2030-01-01T00:00:00Z", RANKSIM_SERVE_SEED="4") as one:
        assert (one.said["now"], one.said["clock"]) == (START, "manual")
        log = one.stop()[1]
    assert "state.db: goes on as it was kept; --seed, --start count for a new file alone\n" in log


@pytest.mark.parametrize(
    ("clock", "ahead", "told"),
    [
        (
            "real",
            2 * DAY,
            "state.db: its clock is at 2026-03-06T10:00:00Z, 2d ahead of this machine's; it goes",
        ),
        ("real", MINUTE, ""),
        ("real", -DAY, ""),
        ("manual", 2 * DAY, ""),
    ],
)
def test_a_kept_clock_that_is_ahead_is_told(
    clock: str, ahead: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = instant(START)
    twin = Twin(clock=clock, start=now + ahead, read_wall=lambda: now)
    _tell_clock_ahead(twin, tmp_path / "state.db")
    said = capsys.readouterr().err
    assert told in said
    assert bool(told) == bool(said)


def test_a_new_world_in_an_empty_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be one that lost all; where there is none a new world is what was asked for."""
    path = tmp_path / "state.db"
    ctx = typer.Context(typer.main.get_command(app))

    def told() -> str:
        _go_on(Twin(clock="manual"), path, ctx, False).close()
        return capsys.readouterr().err

    assert told() == ""
    path.write_bytes(b"")
    assert told() == f"ranksim: {path}: is empty, so a new world begins in it\n"
    assert told() == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--clock", "fast"], "clock: expected real, manual"),
        (["--start", "yesterday"], "--start: expected an instant"),
        (["--traffic-clock", "none"], "traffic clock: expected one of same, wall"),
        (["--signature-clock", "none"], "signature clock: expected one of virtual, wall"),
        (["--plan", "gold"], "plan: expected one of"),
        (["--policy", "none.yaml"], "none.yaml"),
        (["--sunset", START], "together with --deprecated-since"),
        (["--deprecated-since", START], "together with --deprecated-since"),
        (["--deprecated-since", START, "--sunset", "2026-01-01T00:00:00Z"], "not earlier"),
        (["--settle-timeout", "nan"], "--settle-timeout: expected seconds"),
        (["--log", "xml"], "expected one of lines, json, none"),
        (["--ca-file", "none.pem"], "none.pem: cannot be read (No such file"),
        (["--ca-file", __file__], "expected certificates in PEM, found none that can be read"),
        (["--host", "192.0.2.1"], "cannot listen there (Cannot assign requested address); try an address of"),
        (["--host", "no-such-host.invalid"], "no address to listen at"),
    ],
)
def test_a_wrong_flag_is_told_in_one_line(flags: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", *flags])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_told_and_leaves_no_state(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["--port", str(taken.getsockname()[1]), "--state", str(tmp_path / "state.db")]
        result = CliRunner().invoke(app, ["serve", *words])
    assert result.exit_code == 2
    assert "cannot listen there" in result.stderr
    assert not list(tmp_path.iterdir())


def _options_of(*words: str) -> list[str]:
    """The options that a help lists; --help-all is one of the whole command line alone."""
    command = [sys.executable, "-m", "ranksim", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in printed.splitlines() if line.startswith("  --")]


@pytest.mark.slow
def test_help_shows_ten_options_at_most_and_help_all_the_rest() -> None:
    few, every = (_options_of("serve", flag) for flag in ("--help", "--help-all"))
    assert len([name for name in few if name != "--help-all"]) <= 10
    assert {*few} < {*every}
    assert {"--max-body", "--control-token", "--signature-clock"} <= {*every} - {*few}


@pytest.mark.slow
def test_the_banner_is_the_page_two_keys_and_a_first_call_that_works(tmp_path: Path) -> None:
    state = tmp_path / "world.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "ranksim", "serve", "--port", "0", "--host", "0.0.0.0", "--control-token", "t",
         "--clock", "manual", "--start", START, "--state", str(state), "--log", "json"],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        banner = [process.stdout.readline() for _ in range(9)]
        names = [line.split("  ")[1] for line in banner[1:6]]
        assert names == ["page", "key", "sandbox key", "clock", "state"]
        page, first = banner[1].split()[-1], shlex.split(banner[7])
        assert (page[:17], page[-8:]) == ("http://127.0.0.1:", "?token=t")
        assert banner[5].split("  ")[-1].strip() == f"{state}, 0 domains"
        curl, flag, header, url = first
        assert (curl, flag) == ("curl", "-H")
        name, _, value = header.partition(": ")
        assert get(url, headers={name: value}).status_code == 200
        call = json.loads(process.stdout.readline())
        assert (call["what"], call["path"], call["status"]) == ("call", "/v1/account", 200)
    finally:
        process.kill()
        process.communicate()


def test_help_is_there() -> None:
    result = CliRunner().invoke(app, ["serve", "--help"])
    assert result.exit_code == 0
    assert "--clock real|manual|scaled:N" in result.stdout
