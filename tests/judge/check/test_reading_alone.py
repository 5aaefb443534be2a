"""A check that reads alone, over sockets: what the deployment was sent, and how much of it in any window."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.clock import MINUTE, instant
from ranksim.testing import Server

SCALE = 60
"""How fast time runs there: a rate window takes a second."""


@pytest.mark.slow
def test_it_sends_reads_alone_and_few_of_them(tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    with Server(clock=f"scaled:{SCALE}", start=None) as server:
        with server.client() as client:
            for number in range(9):
                client.post("/v1/domains", json={"host": f"d{number}.example.com"})
            before = client.get("/v1/domains").json()
        keys = {"main": {"token": server.key}, "test": {"token": server.sandbox_key}}
        keys["test"] |= {"environment": "sandbox", "purpose": "other_environment"}
        urls = {name: server.base_url(name) for name in ("production", "sandbox")}
        scales = {"time_scale": SCALE, "traffic_scale": SCALE}
        given = {"environments": urls, "keys": keys, **scales, "read_only": True, "limit_share": "1 %"}
        target.write_text(json.dumps(given), encoding="utf-8")
        journal = server.twin.requests
        assert journal is not None
        journal.clear()
        found = rs.check.check(target=target, length="45s", out=tmp_path / "out")
        calls = [entry.shown() for entry in journal]
        with server.client() as client:
            after = client.get("/v1/domains").json()

    assert before == after
    assert found.deviating == ()
    assert {str(found.finding(name).verdict) for name in ("paging.limit", "access.key", "header.json")} == {
        "conforms"
    }
    assert {call["status"] for call in calls} <= {200, 400, 401, 403, 404}
    sent = {(call["method"], call["surface"]) for call in calls}
    assert sent == {("GET", "rest"), ("POST", "graphql")}
    for call in calls:
        if call["surface"] == "graphql":
            assert call["body"]["query"].startswith("query")
    by_key = defaultdict[str, list[int]](list)
    for call in calls:
        by_key[call["key"] if call["key"] in (server.key, server.sandbox_key) else ""].append(
            instant(call["at"])
        )
    assert set(by_key) == {server.key, server.sandbox_key, ""}
    for key, instants in by_key.items():
        most = max(sum(first <= other < first + MINUTE for other in instants) for first in instants)
        assert 1 <= most <= 6, key  # of 600
        assert len(instants) > 12  # more than fits into two windows


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--limit-share", "5%"), "--limit-share: expected --read-only beside it"),
        (
            ("--read-only", "--limit-share", "60%"),
            "--limit-share: expected such as 10%, from 1% to 50%, found",
        ),
        (("--read-only", "--model"), "--model: reads faster than --read-only does"),
    ],
)
def test_bad_input(words: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["check", "--host", "localhost:1", "--key", "k", *words])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize("command", [("check", "load"), ("capacity", "load", "p95 < 1s"), ("check", "tidy")])
def test_nothing_else_takes_a_target_that_is_to_be_read_alone(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"environments": {"production": "http://127.0.0.1:1"}, "keys": {"main": {"token": "k"}}}
    Path("target.json").write_text(json.dumps({**given, "read_only": True}), encoding="utf-8")
    result = CliRunner().invoke(app, [*command, "--target", "target.json"])
    assert result.exit_code == 2, result.output
    assert "target: read_only: only `ranksim check` reads alone" in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["target.json"]
