"""The directory of a load or a check under way, read anew while it grows."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim.bridges import growing
from ranksim.bridges import view_cli as cli
from ranksim.bridges.growing import GrowingRun
from ranksim.cli import app
from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput

START = 1_772_618_400 * SECOND

HEADER = json.dumps({"ranksim_trace": 1, "started": START})


def line(number: int) -> str:
    at = START + number * SECOND
    sent = {
        "kind": "exchange", "id": str(number), "sent": at, "operations": ["jobs.list"], "method": "GET",
        "path": "/v1/jobs", "query": {}, "request_headers": {}, "body": "", "api_key": None, "target": "",
        "environment": "production", "surface": "rest", "clock_host": "h",
    }  # fmt: skip
    end = {
        "ended": str(number), "received": at + 500, "status": 200, "response_headers": {}, "response": "{}",
        "effect": "none", "error": None,
    }  # fmt: skip
    return f"{json.dumps(sent)}\n{json.dumps(end)}\n"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    made = tmp_path / ".parts-1"
    made.mkdir()
    (made / "header.json").write_text(HEADER)
    (made / "part-1.jsonl").write_text(line(0) + line(1))
    return made


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at every look, however long the last reading took."""
    monkeypatch.setattr(growing, "RARELY", 0)


def test_what_comes_is_shown_and_what_is_not_sure_yet_is_left_out(tmp_path: Path, parts: Path) -> None:
    now = START + 2 * SECOND
    run = GrowingRun(tmp_path, lambda: now)
    told = run.overview()["recording"]
    assert (told["calls"], told["grows"], told["name"]) == (2, True, tmp_path.name)
    with (parts / "part-1.jsonl").open("a") as part:
        part.write(line(2) + line(3))
    assert run.overview()["recording"]["calls"] == 2  # the last second is not settled yet
    now = START + 9 * SECOND
    assert run.overview()["recording"]["calls"] == 4
    assert run.until(START + 2 * SECOND)["count"] == 3
    found = run.exchange(4)
    assert found is not None
    assert found["path"] == "/v1/jobs"


def test_the_trace_takes_its_place_once_the_run_has_ended(tmp_path: Path, parts: Path) -> None:
    run = GrowingRun(tmp_path, lambda: START + 9 * SECOND)
    for path in parts.iterdir():
        path.unlink()
    parts.rmdir()
    assert run.overview()["recording"]["calls"] == 2  # between the two there is what was read
    entry = json.loads(line(0).splitlines()[0]) | {"received": START + 500, "status": 200}
    (tmp_path / "trace.jsonl").write_text(f"{HEADER}\n{json.dumps(entry)}\n")
    told = run.overview()["recording"]
    assert (told["calls"], told["grows"]) == (1, False)


def test_a_directory_without_a_recording_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(cli, "sleep", slept.append)
    with pytest.raises(
        BadInput, match=r"holds no recording yet; expected what --out of `ranksim check load`"
    ):
        GrowingRun(tmp_path, lambda: START)
    said = CliRunner().invoke(app, ["view", str(tmp_path)])
    assert (said.exit_code, "holds no recording yet" in said.stderr) == (2, True)
    assert sum(slept) == cli.WAITS
    assert said.stderr.count("nothing is recorded there yet; waiting for 30 s") == 1


def test_a_recording_that_begins_soon_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = tmp_path / "results"

    def begins(_: float) -> None:
        new.mkdir()
        entry = json.loads(line(0).splitlines()[0]) | {"received": START + 500, "status": 200}
        (new / "trace.jsonl").write_text(f"{HEADER}\n{json.dumps(entry)}\n")

    monkeypatch.setattr(cli, "sleep", begins)
    assert isinstance(cli._recording(new, None), GrowingRun)


def test_a_seed_is_for_what_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(HEADER)
    said = CliRunner().invoke(app, ["view", str(tmp_path / "trace.jsonl"), "--seed", "3"])
    assert (said.exit_code, "which alone is simulated" in said.stderr) == (2, True)
