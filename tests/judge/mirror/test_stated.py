"""A twin of calls among which no account is read: its plan is stated, its domains are as calls name them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim import cli
from ranksim.core.callers.portfolio import host_label
from ranksim.core.clock import DAY, SECOND, instant, iso
from ranksim.core.contract.located import Located
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.mirror.jobs import schedules
from ranksim.judge.mirror.recorded import read_recorded
from ranksim.judge.mirror.stated import stated_account

PRO = stated_account("pro", Policy().catalogue)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    """The calls of three days of an account that runs its ranks each night, and reads by day."""
    path = tmp_path_factory.mktemp("stated") / "trace.jsonl"
    data = {
        "name": "seen", "start": "2026-03-02T00:00:00Z", "length": "4d",
        "accounts": {"acme": {"plan": "agency", "keys": ["main"], "portfolio": {"domains": 5}}},
        "clients": {
            "nightly": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "day"},
            "reads": {
                "kind": "caller", "account": "acme", "arrivals": "poisson", "every": "15m",
                "mix": {"domains.list": 1, "keyword_lists.list": 1, "jobs.list": 1},
            },
        },
    }  # fmt: skip
    rs.run(rs.Scenario.read(Located("seen", data, {})), trace=path)
    return Trace.read(path).exchanges


def ask(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def as_log(calls: Iterable[Exchange], path: Path) -> Path:
    """Write calls as an access log."""
    lines = (
        f"10.0.0.1 - - [{datetime.fromtimestamp(call.sent // 1_000_000, UTC):%d/%b/%Y:%H:%M:%S +0000}] "
        f'"{call.method} {call.path} HTTP/1.1" {call.status} 512 "-" "erp/1"'
        for call in calls
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def as_table(calls: Iterable[Exchange], path: Path) -> Path:
    """Write calls as CSV, with bodies of requests alone."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("time", "account", "method", "path", "status", "body"))
        writer.writerows(
            (call.sent, "acme", call.method, call.path, call.status, call.body) for call in calls
        )
    return path


def nights(path: Path, reply: str | None, *, days: int = 5) -> Path:
    """Write a trace of rank runs of three domains, each at 02:00, and of a brief; "%d" of replies counts."""
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}}
    lines: list[object] = [header]
    for number in range(3 * days):
        at = instant("2026-03-02T02:00:00Z") + number // 3 * DAY
        body = {"kind": "rank_run", "domain_id": f"dom_{number % 3}"}
        lines.append(
            {
                "kind": "exchange", "id": str(number), "sent": at, "received": at + SECOND // 2,
                "operations": [], "method": "POST", "path": "/v1/jobs", "status": 202, "api_key": "main",
                "body": json.dumps(body), "response": reply and reply.replace("%d", str(number)),
            }
        )  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "",
        '{"data": {"status": "queued"}}',
        '{"data": {"id": "job_%d"}}',
        '{"data": {"id": "job_%d", "created_at": null, "domain_id": null}}',
        '{"data": {"id": "job_%d", "kind": "rank_run", "status": "queued"}}',
    ],
)
def test_what_a_reply_does_not_tell_of_a_job_is_as_its_call_has_it(reply: str | None, tmp_path: Path) -> None:
    """Kind and domain are the request's, and a job without a time was requested when that was answered."""
    [account] = read_recorded(nights(tmp_path / "trace.jsonl", reply), PRO).reading.accounts
    jobs = account.lists["jobs.list"]
    assert len(jobs) == 15
    assert {job["domain_id"] for job in jobs} == {"dom_0", "dom_1", "dom_2"}
    assert min(job["created_at"] for job in jobs) == "2026-03-02T02:00:00.500000Z"
    hosts = {f"dom_{number}": f"{number}.example" for number in range(3)}
    [(name, client)] = schedules(jobs, "acme", hosts)
    assert (name, client["every"], client["at"], client["domains"]) == (
        "acme-rank_run",
        "day",
        "02:00",
        "all",
    )


def test_a_job_keeps_the_time_of_its_request_when_it_is_read_later(tmp_path: Path) -> None:
    trace = nights(tmp_path / "trace.jsonl", '{"data": {"id": "job_%d"}}', days=1)
    at = instant("2026-03-02T03:00:00Z")
    poll = {
        "kind": "exchange", "id": "poll", "sent": at, "received": at, "operations": [], "method": "GET",
        "path": "/v1/jobs/rank_run/job_0", "status": 200, "api_key": "main",
        "response": '{"data": {"id": "job_0", "status": "done", "created_at": null}}',
    }  # fmt: skip
    with trace.open("a", encoding="utf-8") as file:
        file.write(json.dumps(poll) + "\n")
    [account] = read_recorded(trace, PRO).reading.accounts
    [job] = [job for job in account.lists["jobs.list"] if job.get("status") == "done"]
    assert (job["created_at"], job["kind"]) == ("2026-03-02T02:00:00.500000Z", "rank_run")


def test_a_twin_starts_after_the_last_call_whose_occasion_it_does_not_repeat(tmp_path: Path) -> None:
    """All calls of the last night came at the instant in which the trace ends, a full second."""
    trace, out = nights(tmp_path / "trace.jsonl", None), tmp_path / "twin"
    text = trace.read_text(encoding="utf-8")
    trace.write_text(text.replace("500000,", "000000,"), encoding="utf-8")
    ask("mirror", "--trace", trace, "--plan", "pro", "--out", out)
    world = rs.Scenario.load(out / "world.yaml")
    assert iso(world.start) == "2026-03-06T02:00:01Z"
    calls = rs.run(world).replications[0].calls
    assert [(row["operation"], row["status"], row["count"]) for row in calls] == [("jobs.create", 202, 3)]


@pytest.mark.slow
def test_an_access_log_makes_a_twin_that_can_be_run_fitted_and_priced(
    calls: list[Exchange], tmp_path: Path
) -> None:
    """No file is edited between; every answer says what was stated."""
    log, trace, out = as_log(calls, tmp_path / "access.log"), tmp_path / "trace.jsonl", tmp_path / "twin"
    ask("trace", "import", log, "--by-client", "--out", trace)
    refused = ask("mirror", "--trace", trace, "--out", out, code=2)
    assert "state the plan of its accounts, such as --plan agency" in refused
    words = ("--plan", "agency", "--domains", 5, "--keywords", 20)
    answer = ask("mirror", "--trace", trace, *words, "--out", out)
    made_up = (
        "that account is on plan agency, and its terms; what account has used before; what account tracks "
        "where no call shows it: 5 domains, of which calls name 0, with 20 keywords and one scan of "
        "google/desktop in US each; no endpoints; that jobs of account whose kind was not recorded are rank "
        "runs"
    )
    assert f"account: not shown, and so stated or assumed: {made_up}" in answer
    world = rs.Scenario.load(out / "world.yaml")
    [account] = world.accounts.values()
    assert (account.plan, account.slots()) == ("agency", 100)
    starts = sum(call.path == "/v1/jobs" and call.method == "POST" for call in calls)
    assert starts == 20
    assert f"account-rank_run: as often as {starts} calls were" in answer
    mix = world.clients["key-1-calls"].model_dump()["mix"]
    assert set(mix) == {"domains.list", "keyword_lists.list", "jobs.list"}
    for question in (
        ("run", out / "world.yaml"),
        ("capacity", "fit", "--scenario", out / "world.yaml"),
        ("price", "compare", "--scenario", out / "world.yaml", "--b", "illustrative", "--replications", 2),
    ):
        answer = ask(*question)
        assert "that account is on plan agency, and its terms" in answer, question


@pytest.mark.slow
def test_a_table_with_bodies_names_its_domains_and_when_jobs_are_started(
    calls: list[Exchange], tmp_path: Path
) -> None:
    table, trace, out = as_table(calls, tmp_path / "calls.csv"), tmp_path / "trace.jsonl", tmp_path / "twin"
    ask("trace", "import", table, "--out", trace, "--longest", "1s")
    answer = ask("mirror", "--trace", trace, "--plan", "agency", "--out", out)
    assert "5 domains, of which calls name 5, with 50 keywords and one scan" in answer
    assert "kind was not recorded" not in answer
    world = rs.Scenario.load(out / "world.yaml")
    [account] = world.accounts.values()
    ids = {json.loads(call.body or "{}")["domain_id"] for call in calls if call.method == "POST"}
    assert set(account.hosts("acme")) == {f"{host_label(each)}.example" for each in ids}
    assert list(world.accounts) == ["acme"]
    assert world.clients["acme-rank_run"].model_dump()["kind"] == "schedule"
    assert "Made up" in ask("run", out / "world.yaml")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--plan", "agncy"), "--plan: expected one of free, starter, pro, agency, found 'agncy'"),
        (("--domains", 5), "--domains and --keywords: expected --plan, too"),
        (("--plan", "pro", "--host", "http://127.0.0.1:1"), "--plan: expected --trace, and no host"),
        (("--plan", "pro", "--catalogue", "none"), "--catalogue: expected one of illustrative"),
    ],
)
def test_what_cannot_be_stated_is_refused(words: tuple[object, ...], why: str, tmp_path: Path) -> None:
    trace = Path(__file__).parents[3] / "examples" / "pricing" / "trace.jsonl"
    assert why in ask("mirror", "--trace", trace, *words, "--out", tmp_path / "twin", code=2)
    assert not (tmp_path / "twin").exists()


def test_calls_without_keys_and_accounts_that_are_shown_need_no_plan(
    calls: list[Exchange], tmp_path: Path
) -> None:
    log, trace = as_log(calls[:3], tmp_path / "access.log"), tmp_path / "trace.jsonl"
    ask("trace", "import", log, "--out", trace)
    keyless = ask("mirror", "--trace", trace, "--plan", "pro", "--out", tmp_path / "twin", code=2)
    assert "expected calls with a key that the header declares, found none" in keyless
    account = {"data": {"id": "acct_1", "name": "acme", "plan": "pro"}}
    header = {"ranksim_trace": 1, "keys": {"main": {}}}
    read = {
        "kind": "exchange", "id": "1", "sent": 1_000_000, "received": 1_000_001, "operations": [],
        "method": "GET", "path": "/v1/account", "status": 200, "api_key": "main",
        "response": json.dumps(account),
    }  # fmt: skip
    trace.write_text(json.dumps(header) + "\n" + json.dumps(read) + "\n", encoding="utf-8")
    assert not read_recorded(trace).reading.accounts[0].assumed
    needless = ask("mirror", "--trace", trace, "--plan", "pro", "--out", tmp_path / "twin", code=2)
    assert "--plan: the trace shows the plan of each account in it" in needless
