"""`ranksim check tidy`: what earlier runs created goes by its marks, over real sockets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.testing import Server


def tidy(*words: str) -> Any:
    return CliRunner().invoke(app, ["check", "tidy", *words], env={"COLUMNS": "200"})


def made(server: Server, *hosts: str) -> dict[str, str]:
    """Make domains; return their ids by host."""
    with server.client() as client:
        answers = {host: client.post("/v1/domains", json={"host": host}).json() for host in hosts}
    return {host: answer["data"]["id"] for host, answer in answers.items()}


def hosts(server: Server) -> set[str]:
    with server.client() as client:
        return {one["host"] for one in client.get("/v1/domains").json()["data"]}


def trace(directory: Path, *hosts: str) -> None:
    directory.mkdir()
    lines: list[dict[str, Any]] = [{"ranksim_trace": 1}]
    for host in hosts:
        body = json.dumps({"host": host})
        lines.append({"kind": "exchange", "operations": ["domains.create"], "body": body, "status": 201})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "trace.jsonl").write_text(text, encoding="utf-8")


A, B, OURS = "ranksim-a-walk-1.example.com", "ranksim-b-walk-1.example.com", "ours.example.com"


def test_marks_are_listed_and_what_carries_one_is_removed(deployment: Server) -> None:
    made(deployment, A, B, OURS)
    where = ("--host", deployment.url, "--key", deployment.key)
    assert tidy(*where).output.splitlines() == ["ranksim-a: 1 thing", "ranksim-b: 1 thing"]
    listed = tidy(*where, "--mark", "ranksim-a", "--list")
    assert "1 domain with the key main" in listed.output
    assert hosts(deployment) == {A, B, OURS}
    done = tidy(*where, "--mark", "ranksim-a")
    assert (done.exit_code, done.output) == (0, "nothing is left\n")
    assert hosts(deployment) == {B, OURS}


def test_a_directory_tells_the_marks_of_its_run(deployment: Server, tmp_path: Path) -> None:
    made(deployment, A, B, OURS)
    trace(tmp_path / "out", A)
    done = tidy(str(tmp_path / "out"), "--host", deployment.url, "--key", deployment.key)
    assert done.exit_code == 0, done.output
    assert hosts(deployment) == {B, OURS}


def test_what_cannot_be_removed_is_listed_by_kind_and_exits_with_one(deployment: Server) -> None:
    made(deployment, *(f"ranksim-a-{number}.example.com" for number in range(5)))
    deployment.faults.add("domains.delete", error_rate=1)
    done = tidy("--host", deployment.url, "--key", deployment.key, "--mark", "ranksim-a")
    assert done.exit_code == 1
    assert "5 domains with the key main: 500" in done.output
    assert len(hosts(deployment)) == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mark", "ours"), "--mark: expected a mark such as ranksim-9a313c9f, found 'ours'"),
        (("gone",), "gone: expected a directory with the trace of a check or a load"),
        ((), "no deployment is named"),
    ],
)
def test_bad_input(
    words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RANKSIM_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    result = tidy(*words)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.output.split())
