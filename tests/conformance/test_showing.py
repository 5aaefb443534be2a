"""`ranksim trace show`: an exchange whole, as a curl line, and what is stated around it."""

from pathlib import Path

from tests.conformance import dealing
from typer.testing import CliRunner

from ranksim import cli
from ranksim.trace import Header, Trace


def test_an_exchange_is_shown_whole_between_what_others_state(tmp_path: Path) -> None:
    middle = dealing.briefs(10, headers={"RateLimit-Limit": "20", "RateLimit-Remaining": "4"})
    trace = Trace(Header(), [dealing.usage(0, used=2), middle, dealing.usage(20, used=3)])
    trace.write(tmp_path / "trace.jsonl")
    told = CliRunner().invoke(cli.app, ["trace", "show", str(tmp_path / "trace.jsonl"), f"2/{middle.id}"])
    assert told.exit_code == 0, told.output
    assert "curl -i -X POST" in told.stdout
    assert "Bearer $RANKSIM_KEY" in told.stdout
    assert "before: 2 of 10 used" in told.stdout
    assert "after: 3 of 10 used" in told.stdout
    assert "it says: 4 left" in told.stdout
    told = CliRunner().invoke(cli.app, ["trace", "show", str(tmp_path / "trace.jsonl"), "nothing"])
    assert (told.exit_code, "no exchange is called" in told.stderr) == (2, True)
