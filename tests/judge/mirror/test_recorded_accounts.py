"""A twin of what a trace shows: accounts without a host, calls as they came, and what nobody observed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim import cli
from ranksim.core.clock import DAY, SECOND, Micros
from ranksim.core.contract.located import Located
from ranksim.core.trace import DeliveryAttempt, Exchange, Trace
from ranksim.judge.mirror.recorded import read_recorded, with_recorded
from ranksim.judge.mirror.world import world_of

READS = (
    "account.get", "account.usage", "account.entitlements", "slots.get", "domains.list", "keyword_lists.list",
    "scans.list", "jobs.list", "webhooks.list", "webhook_deliveries.list",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of twenty days of an account that runs its ranks each night, and is looked at by day."""
    path = tmp_path_factory.mktemp("recorded") / "trace.jsonl"
    data = {
        "name": "seen", "start": "2026-03-02T00:00:00Z", "length": "20d",
        "accounts": {"acme": {"plan": "agency", "keys": ["main", "second"], "portfolio": {"domains": 5}}},
        "clients": {
            "nightly": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "day"},
            "reads": {
                "kind": "caller", "account": "acme", "key": "second", "arrivals": "poisson", "every": "30m",
                "mix": dict.fromkeys(READS, 1),
            },
            "briefs": {"kind": "brief_refresher", "account": "acme", "key": "main", "keywords": 3},
        },
        "pools": {
            "rank_run": {
                "capacity": "unlimited", "duration": {"lognormal": {"median": "7m", "sigma": 0.3}},
                "failure_rate": 0.2,
            }
        },
        "receivers": {"erp": {"account": "acme", "latency": "300ms"}},
    }  # fmt: skip
    rs.run(rs.Scenario.read(Located("seen", data, {})), trace=path)
    return path


def ask(*words: object) -> str:
    result = CliRunner().invoke(cli.app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_a_trace_alone_makes_a_twin_whose_answers_say_what_is_made_up(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "twin"
    said = ask("mirror", "--trace", recorded, "--out", out)
    assert "endpoint-1: fitted to 100 attempts: the median is answered in 300ms" in said
    assert re.search(r"rank_run: fitted to (9\d|100) jobs: the median ends ", said)
    world = rs.Scenario.load(out / "world.yaml")
    assert set(world.clients) == {"acme-rank_run", "acme-keyword_briefs", "acme/second-calls"}
    calls = world.clients["acme/second-calls"].model_dump()
    assert set(calls["mix"]) == set(READS)
    assert world.receivers["endpoint-1"].latency.durations == (300_000,)
    made_up = (
        "Made up, as nobody observed it: unit costs; how long jobs take and how often they fail (crawl, "
    )
    study = tmp_path / "study.yaml"
    study.write_text(f"study: 1\nscenario: {out}/world.yaml\nreplications: 2\nmeasure: [calls.total]\n")
    for question in (
        ("run", out / "world.yaml"),
        ("run", out / "world.yaml", "--json"),
        ("capacity", "fit", "--scenario", out / "world.yaml"),
        ("capacity", "workers", "--scenario", out / "world.yaml", "--within", "1h"),
        ("price", "compare", "--scenario", out / "world.yaml", "--b", "illustrative"),
        ("study", study, "--store", tmp_path / "kept.sqlite"),
    ):
        assert made_up in ask(*question), question
    page = tmp_path / "page"
    ask("run", out / "world.yaml", "--out", page)
    assert "Made up, as nobody observed it" in (page / "page.html").read_text()


def test_what_a_trace_shows_besides_joins_what_was_read(recorded: Path) -> None:
    read = read_recorded(recorded)
    [account] = read.reading.accounts
    assert set(account.keys) == {"acme/main", "acme/second"}
    fewer = {**account.lists, "jobs.list": account.lists["jobs.list"][:30]}
    listed = type(account)(account.name, account.environment, account.keys, account.singles, fewer)
    [both] = with_recorded(type(read.reading)((listed,), {}), read).accounts
    assert len(both.lists["jobs.list"]) == 100
    twin = world_of(read.reading, "there", read.now)
    assert set(twin.scenario["clients"]) == {"acme-rank_run", "acme-keyword_briefs"}


def test_calls_of_no_operation_are_counted_and_the_first_is_named(recorded: Path) -> None:
    trace = Trace.read(recorded)
    odd = {"operations": (), "path": "/v1/usage", "method": "GET"}
    changed = [
        each.model_copy(update=odd) if number in (3, 5) else each
        for number, each in enumerate(trace.exchanges)
    ]
    for exchanges, count in ((trace.exchanges, 0), (changed, 1)):
        read = read_recorded(replace(trace, exchanges=exchanges))
        notes = world_of(read.reading, "there", read.start, read).notes
        note = "calls of an unknown operation: 2, the first GET /v1/usage; no client of the twin makes them"
        assert notes.count(note) == count
        assert sum("unknown operation" in each for each in notes) == count


def test_keys_of_a_trace_call_beside_those_by_which_an_account_was_read(recorded: Path) -> None:
    """A target names its keys otherwise than a recorder does, so that clients of a trace were left out."""
    read = read_recorded(recorded)
    [account] = read.reading.accounts
    listed = replace(account, keys={"key": None})
    both = with_recorded(replace(read.reading, accounts=(listed,)), read)
    assert set(both.accounts[0].keys) == {"key", "acme/main", "acme/second"}
    twin = world_of(both, "there", read.now, read)
    assert twin.scenario["clients"]["acme/second-calls"]["key"] == "acme/second"


def test_calls_of_a_deployment_with_another_clock_come_by_its_dates(recorded: Path) -> None:
    """Twenty days that a recorder saw pass in minutes, months later: jobs and calls are of one clock."""
    trace = Trace.read(recorded)
    first = trace.exchanges[0].sent

    def seen(late: Micros, faster: int) -> list[Exchange]:
        return [
            each.model_copy(
                update={
                    "sent": first + late + (each.sent - first) // faster,
                    "received": first + late + (each.sent - first) // faster,
                    "response_headers": {
                        "date": format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)
                    },
                }
            )
            for each, at in ((each, each.sent // SECOND) for each in trace.exchanges)
        ]

    def client(exchanges: Sequence[Exchange]) -> dict[str, Any]:
        read = read_recorded(replace(trace, exchanges=exchanges))
        return world_of(read.reading, "there", read.start, read).scenario["clients"]["acme/second-calls"]

    own = client(trace.exchanges)
    for late, faster in ((0, 1), (270 * DAY, 1), (270 * DAY, 40_000)):
        assert client(seen(late, faster))["every"] == own["every"], (late, faster)


def test_webhooks_tell_of_jobs_that_ended_as_replies_do(recorded: Path) -> None:
    trace = Trace.read(recorded)
    unread = [
        each for each in trace.exchanges if not each.path.startswith("/v1/jobs") or each.method == "POST"
    ]

    def ended(deliveries: list[DeliveryAttempt]) -> int:
        [account] = read_recorded(replace(trace, exchanges=unread, deliveries=deliveries)).reading.accounts
        return sum(bool(job.get("finished_at")) for job in account.lists["jobs.list"])

    assert (ended([]), ended(trace.deliveries)) == (0, 100)


def test_a_twin_of_a_short_and_busy_trace_lasts_an_hour(recorded: Path) -> None:
    read = read_recorded(recorded)
    busy = [(read.began + n * 1_000, "domains.list") for n in range(100)]
    short = replace(read, calls={"acme/second": busy}, now=read.began + 100_000)
    twin = world_of(read.reading, "there", read.now, short)
    assert twin.scenario["length"] == "1h"
    [note] = [note for note in twin.notes if "it lasts 1h" in note]
    assert note.startswith("its clients make ")


def test_a_trace_without_an_account_is_refused_with_what_to_record(tmp_path: Path) -> None:
    trace = Path(__file__).parents[3] / "examples" / "pricing" / "trace.jsonl"
    result = CliRunner().invoke(cli.app, ["mirror", "--trace", str(trace), "--out", str(tmp_path / "twin")])
    assert result.exit_code == 2
    assert "--trace: expected a trace in which an account is read" in result.stderr
    assert not (tmp_path / "twin").exists()
