"""`ranksim check load`: what it says, what it refuses, how it stops."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.kit.runs import Start, assert_no_secret, by_users, until
from typer.testing import CliRunner

from ranksim.bridges.load_cli import before
from ranksim.cli import app
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.deployment.budget import HELD_BACK
from ranksim.judge.deployment.cleanup import TIDIED
from ranksim.judge.load.consumption import AccountSpent, UsedUp
from ranksim.judge.load.summary import CUT, Summary
from ranksim.judge.profiles import profile
from ranksim.testing import Server

COMMAND = ("ranksim", "check", "load", "--host")


@pytest.mark.slow
def test_a_load_is_recorded_summarised_and_stopped_by_ctrl_c(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start(
        *COMMAND, deployment.url, "--users", "3", "--duration", "10m", "--out", str(out), "--processes", "2",
        "--dry-run-only", "--gzip", "--seed", "7", "--shared",
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    until(lambda: by_users(out) >= 30)
    run.process.send_signal(signal.SIGINT)

    assert run.wait() == 0, run.said()
    trace = Trace.read(out / "trace.jsonl.gz")
    assert not trace.header.exclusive
    assert {path.name for path in out.iterdir()} == {"trace.jsonl.gz", "locust.log"}
    spending = [
        one for one in trace.exchanges if one.operations == ("jobs.create",) and one.surface == "rest"
    ]
    assert all(json.loads(one.body)["dry_run"] for one in spending)
    assert all(one.status is not None for one in trace.exchanges), "calls in flight were waited for"
    said = run.said()
    for part in (
        " calls in ", "Calls by operation", f"trace: {out}/trace.jsonl.gz",
        f"next: ranksim compare {out}/trace.jsonl.gz",
    ):  # fmt: skip
        assert part in said
    assert_no_secret(tmp_path, deployment.key)


@pytest.mark.slow
def test_nothing_is_left_of_a_load_that_could_not_begin(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    run = start(*COMMAND, deployment.url, "--out", str(tmp_path / "out"), RANKSIM_KEY="rk_live_nobody")

    assert run.wait() == 2
    check = "check the address, which is without the /v1, and the keys"
    said = f"ranksim: no key of the target works (main: 401: the key is refused); {check}\n"
    assert run.said().endswith(said)
    assert not (tmp_path / "out").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_a_killed_locust_recorded_becomes_a_trace(
    start: Start, deployment: Server, tmp_path: Path, processes: str
) -> None:
    out, before = tmp_path / "out", domains(deployment)
    run = start(
        *COMMAND, deployment.url, "--users", "3", "--duration", "10m", "--out", str(out),
        "--processes", processes,
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    until(lambda: by_users(out) >= 15)
    assert domains(deployment) > before
    os.kill(child_of(run.process.pid), signal.SIGKILL)

    assert run.wait() == 0, run.said()
    trace = Trace.read(out / "trace.jsonl")
    assert len(trace.exchanges) >= 15
    assert "processes ended before they were done" in {note.text for note in trace.notes}
    assert not list(out.glob(".parts-*"))
    assert domains(deployment) == before  # who survived has removed what was created
    [tidied] = [note for note in trace.notes if note.text == TIDIED]
    assert tidied.model_dump()["left"] == []
    assert "created, and not removed" not in run.said()


@pytest.mark.heavy
def test_locust_stops_when_ranksim_is_killed(start: Start, deployment: Server, tmp_path: Path) -> None:
    out, before = tmp_path / "out", domains(deployment)
    run = start(
        *COMMAND, deployment.url, "--users", "3", "--duration", "10m", "--out", str(out), "--processes", "2",
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    until(lambda: by_users(out) >= 5)
    run.kill()

    until(lambda: (out / "trace.jsonl").exists())
    until(lambda: not list(out.glob(".parts-*")))
    assert domains(deployment) == before


def domains(server: Server) -> set[str]:
    with server.client() as client:
        return {one["id"] for one in client.get("/v1/domains").json()["data"]}


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])


HOST = ("--host", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        ((), {}, "no deployment is named: give --host and a key, or --target FILE"),
        (HOST, {}, "no API key: set RANKSIM_KEY to one, or give --target FILE with keys"),
        (("--host", "api.example.com"), {"RANKSIM_KEY": "k"}, "ranksim: --host: expected a URL such as"),
        (HOST, {"RANKSIM_KEY": "rk_live\r"}, "ranksim: RANKSIM_KEY: expected an API key"),
        (HOST, {"RANKSIM_KEY": "ключ"}, "ranksim: RANKSIM_KEY: expected an API key"),
        ((*HOST, "--profile", "chaos"), {"RANKSIM_KEY": "k"}, "expected one of everyday, breadth, burst"),
        ((*HOST, "--duration", "soon"), {"RANKSIM_KEY": "k"}, "--duration: "),
        ((*HOST, "--duration", "0s"), {"RANKSIM_KEY": "k"}, "--duration: expected a length such as 90s"),
        ((*HOST, "--spend-cap", "five"), {"RANKSIM_KEY": "k"}, "--spend-cap: "),
        (("--target", "none.yaml"), {}, "none.yaml"),
        ((*HOST, "--target", "none.yaml"), {"RANKSIM_KEY": "k"}, "expected either --host and --key"),
        ((), {"RANKSIM_CHECK_LOAD_HOST": "http://127.0.0.1:1"}, "no API key"),
        ((*HOST, "--out", "full"), {"RANKSIM_KEY": "k"}, "full: holds a trace already"),
        ((*HOST, "--out", "file"), {"RANKSIM_KEY": "k"}, "file"),
    ],
)  # fmt: skip
def test_bad_input(
    words: tuple[str, ...],
    variables: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "trace.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.delenv("RANKSIM_KEY", raising=False)

    result = CliRunner().invoke(app, ["check", "load", *words], env=variables)

    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert len(list(tmp_path.iterdir())) == 2


def test_profiles_are_listed() -> None:
    few = CliRunner().invoke(app, ["check", "load", "--profiles"]).output
    assert [
        name for name in ("everyday", "burst", "race", "retry", "webhooks", "soak") if name not in few
    ] == []
    assert "ladder" not in few
    result = CliRunner().invoke(app, ["check", "load", "--all-profiles"])
    assert result.exit_code == 0
    rows = [line.split("  ") for line in result.output.splitlines()]
    shown = {cells[0]: [cell.strip() for cell in cells if cell][1:] for cells in rows}
    assert shown["race"][1:] == ["72 jobs, 2,160 keyword briefs, 2,160 slots", "4m", "2m24s"]
    assert shown["windows"][1:] == ["nothing", "11m", "10m"]
    assert shown["webhooks-long"][1] == "1 job"


def test_what_a_run_may_use_up_is_said_before_it_begins() -> None:
    target = Target.simple("http://127.0.0.1:9", "rk_1")
    capped = target.model_copy(update={"spend_cap": 2_000_000})
    careful = target.model_copy(update={"dry_run_only": True})
    assert before(profile("webhooks"), capped, 4, 4 * MINUTE) == (
        "webhooks: runs 4m, goes through once in about 3m29s, uses up at most 32 jobs, "
        "and stops spending at 2.00 USD"
    )
    assert before(profile("webhooks"), careful, 4, 4 * MINUTE).endswith("3m29s, sends dry runs only")


def reading(operation: str, client: str, data: object, key: str = "main") -> dict[str, object]:
    """A reading of usage or of slots, as a trace has it."""
    return {
        "kind": "exchange",
        "client": client,
        "api_key": key,
        "operations": [operation],
        "status": 200,
        "sent": 0,
        "received": 1,
        "planned": None,
        "response": json.dumps({"data": data}),
    }


def usage(spent: str, used: int, resets_at: str = "2026-04-01") -> dict[str, object]:
    metric = {"metric": "briefs", "used": used, "resets_at": resets_at}
    return {"cost": {"spent": spent, "resets_at": resets_at}, "metrics": [metric]}


def test_a_summary_says_what_was_used_up_and_which_programs_were_cut(tmp_path: Path) -> None:
    lines = [
        {"ranksim_trace": 1, "keys": {"main": {"account": "acct_1"}, "second": {"account": "acct_1"}}},
        reading("account.usage", "before", usage("1.25", 3)),
        reading("slots.get", "before", {"used": 7}),
        reading("account.usage", "race-0", usage("1.50", 9), "second"),
        {"kind": "note", "text": CUT, "client": "race-1"},
        {"kind": "note", "text": CUT, "client": "race-0"},
        reading("account.usage", "after", usage("1.77", 50)),
        reading("slots.get", "after", {"used": 19}, "second"),
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    summary = Summary.of(path)
    assert summary.left is None  # it does not say
    said = summary.lines()
    assert said[3:5] == [
        "used up of acct_1: 0.52 USD, 47 briefs, 12 slots, of which those removed stay held to the month's "
        "end",
        "2 programs were stopped before having been once through (race-0, race-1); "
        "a longer --duration shows more",
    ]


@pytest.mark.fact("S1")
def test_accounts_of_two_environments_with_one_id_are_told_apart() -> None:
    used = UsedUp()
    known = {name: {"account": "acct_1", "environment": name} for name in ("production", "sandbox")}
    used.header({"keys": {**known, "other": {"account": "acct_2", "environment": "sandbox"}}})
    for key, spent in (("production", "7.00"), ("sandbox", "1.00"), ("production", "7.50"), ("other", "0")):
        used.exchange(reading("account.usage", "before", usage(spent, 1), key))
    assert used.lines() == ["used up of acct_1 in production: 0.50 USD"]
    assert list(used.accounts) == ["acct_1 in production", "acct_1 in sandbox", "acct_2"]


def test_a_period_that_begins_anew_within_a_run_counts_from_nothing(tmp_path: Path) -> None:
    used = UsedUp()
    used.reading("a", "account.usage", usage("9.00", 40), 1)
    used.reading("a", "account.usage", usage("9.50", 41), 2)
    used.reading("a", "account.usage", usage("0.25", 2, "2026-05-01"), 3)
    used.reading("b", "account.usage", {"cost": "none", "metrics": 5}, 4)
    assert (used.spent(), used.lines()) == (750_000, ["used up of a: 0.75 USD, 3 briefs"])
    assert UsedUp().lines() == []


def test_a_period_that_moves_along_with_time_does_not_begin_anew() -> None:
    used = UsedUp()
    used.reading("a", "account.usage", usage("113.00", 40, "2026-05-01T10:00"), 1)
    used.reading("a", "account.usage", usage("113.25", 40, "2026-05-01T10:01"), 2)
    assert used.spent() == 250_000


def may_spend(sent: int, key: str = "main", **more: object) -> dict[str, object]:
    usual = {"kind": "exchange", "api_key": key, "operations": ["jobs.create"], "effect": "yes"}
    return usual | {"sent": sent, "received": sent + 5, "status": 202, "response": "{}"} | more


def test_money_is_told_by_account_with_its_height_and_what_could_not_be_read() -> None:
    keys = {name: {"account": f"acct_{name}"} for name in ("main", "shut", "cut", "idle", "dry")}
    used = UsedUp.of(
        [
            {"ranksim_trace": 1, "keys": keys},
            reading("account.usage", "explore", usage("7.00", 0)),
            may_spend(10),
            reading("account.usage", "race-0", usage("13.70", 0)) | {"sent": 20},
            reading("account.usage", "after", usage("11.75", 0)) | {"sent": 30},
            reading("account.usage", "before", {}, "shut") | {"status": 405},
            may_spend(10, "shut", effect="unknown", status=None, received=None),
            reading("account.usage", "before", usage("1.00", 0), "cut"),
            may_spend(10, "cut"),
            reading("account.usage", "before", {}, "idle") | {"status": 405},
            may_spend(10, "dry", effect="none"),
        ]
    )
    assert used.by_account() == [
        AccountSpent("acct_cut", 0, 0, "its usage was not read after its last call that can spend"),
        AccountSpent("acct_main", 4_750_000, 6_700_000),
        AccountSpent("acct_shut", 0, 0, "its usage was not read (405)"),
    ]


def test_what_a_load_left_is_listed(tmp_path: Path) -> None:
    left = {"kind": "domains", "key": "main", "why": "405", "ids": ["dom_1", "dom_2"]}
    path = tmp_path / "trace.jsonl"
    lines = [{"ranksim_trace": 1}, {"kind": "note", "text": TIDIED, "left": [left]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    said = Summary.of(path).lines()
    at = said.index("created, and not removed:")
    assert said[at + 1] == "  2 domains with the key main: 405 (dom_1, dom_2)"


GRAPHQL_REFUSAL = '{"errors":[{"message":"slower","extensions":{"code":"rate_limited"}}]}'


def test_a_summary_counts_the_users_calls_from_sending_and_from_planning(tmp_path: Path) -> None:
    def call(sent: int, received: int | None, planned: int | None, **more: object) -> dict[str, object]:
        usual = {"kind": "exchange", "client": "soak-0", "status": 200, "error": None, "response": ""}
        usual |= {"operations": ["domains.list"], "api_key": "main"}
        return usual | {"sent": sent, "received": received, "planned": planned} | more

    lines = [
        {"ranksim_trace": 1},
        call(0, 10_000, None, client="explore"),
        call(1_000_000, 1_010_000, 900_000),
        call(1_500_000, 1_520_000, 1_500_000, status=429, response='{"code":"rate_limited"}'),
        call(1_600_000, 1_620_000, None, status=429, response=GRAPHQL_REFUSAL),
        call(2_000_000, None, None, status=None, error="timeout"),
        call(2_500_000, 3_000_000, None, status=404, response="<html>"),
        {"kind": "delivery"},
        {"kind": "note", "text": "hello"},
        {"kind": "note", "text": HELD_BACK, "calls": 2},
        {"kind": "note", "text": HELD_BACK, "calls": 3},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    summary = Summary.of(path)
    assert summary.lines() == [
        "5 calls in 2s, 2.5 a second, 1 key",
        "         2  429 rate_limited",
        "         1  200",
        "         1  no reply: timeout",
        "         1  404 without a problem document",
        "5 calls were held back, to spend no more than is allowed",
        "1 call before and after the load, 1 webhook delivery",
        "rate limits turned 40 % of the calls away: they bound this load, and not only the deployment; a "
        "target file with more keys loads more",
    ]
    assert summary.latencies().rows == (
        ("domains.list", "5", "110ms", "500ms", "500ms", "500ms", "500ms", "40 %", "40 %", "0 %"),
    )
    [row, _] = summary.rows()
    assert (row["operation"], row["p50"], row["errors"], row["rate"]) == ("all", 110_000, 0.4, 2.5)


@pytest.mark.parametrize(
    ("host", "words", "loads"),
    [
        ("https://api.example.com", (), False),
        ("https://api.example.com", ("--yes",), True),
        ("http://127.0.0.1:1", (), True),
    ],
)
def test_beyond_this_machine_it_asks_before_it_makes_what_cannot_be_removed(
    host: str, words: tuple[str, ...], loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[object] = []

    def run_load(*given: object, **options: object) -> Path:
        ran.append(options)
        raise BadInput("that will do")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ranksim.judge.load.leaked_resources.kept_by", lambda target: {"domains.delete": "405 no"}
    )
    monkeypatch.setattr("ranksim.judge.load.loading.run_load", run_load)
    result = CliRunner().invoke(app, ["check", "load", "--host", host, "--key", "k", *words])
    said = " ".join(result.output.split())
    assert (
        "cannot be removed again there: domains (405 no); what is made of them stays, with its mark" in said
    )
    assert bool(ran) == loads
    assert result.exit_code == 2
    assert ("that will do" if loads else "--yes: expected beyond this machine where something") in said
