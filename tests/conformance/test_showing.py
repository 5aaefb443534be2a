"""`ranksim trace show`: an exchange whole, as a curl line, and what is stated around it."""

import re
from pathlib import Path

from tests.conformance import dealing
from typer.testing import CliRunner

from ranksim import cli
from ranksim.conformance.history.trace_reader import read
from ranksim.conformance.standing import standing
from ranksim.trace import Exchange, Header, Trace, TraceKey


def test_an_exchange_is_shown_whole_between_what_others_state(tmp_path: Path) -> None:
    middle = dealing.briefs(10, headers={"RateLimit-Limit": "20", "RateLimit-Remaining": "4"})
    trace = Trace(Header(), [dealing.usage(0, used=2), middle, dealing.usage(20, used=3)])
    trace.write(tmp_path / "trace.jsonl")
    told = CliRunner().invoke(cli.app, ["trace", "show", str(tmp_path / "trace.jsonl"), f"2/{middle.id}"])
    assert told.exit_code == 0, told.output
    assert "curl -i -X POST" in told.stdout
    assert "Bearer $RANKSIM_KEY" in told.stdout
    assert "keyword_brief_refreshes of account main, limit 10, used:" in told.stdout
    assert "it says: 4 left" in told.stdout
    told = CliRunner().invoke(cli.app, ["trace", "show", str(tmp_path / "trace.jsonl"), "nothing"])
    assert (told.exit_code, "no exchange is called" in told.stderr) == (2, True)


def around(*calls: Exchange, of: int, exclusive: bool = True) -> str:
    """Tell what stood around one of these calls, with its name for its number."""
    trace = Trace(Header(keys={"main": TraceKey(account="acme")}, exclusive=exclusive), list(calls))
    history = read(trace)
    [seen] = history.named({calls[of].id})
    text = "\n".join(standing(history, seen))
    for number, one in reversed(list(enumerate(calls))):
        text = re.sub(rf"\b{one.id}\b", f"#{number}", text)
    return text


def test_a_meter_lies_between_readings_and_what_was_admitted() -> None:
    d = dealing
    calls = [d.usage(0, 2), d.briefs(1), d.briefs(2, lost=True), d.briefs(3), d.usage(4, 5)]
    text = around(*calls, of=3)
    assert "before: at least 3 (#0, #1), at most 4 (" in text
    assert "after: at least 4 (#0, #1, #3), at most 5 (" in text
    assert "before: nothing in the trace bounds it" in around(*calls, of=3, exclusive=False)


def test_a_window_holds_what_was_admitted_and_perhaps_what_was_lost() -> None:
    headers = {"RateLimit-Limit": "20", "RateLimit-Remaining": "4", "RateLimit-Reset": "9"}
    calls = [dealing.briefs(at, headers=headers, lost=at == 70) for at in (0, 50, 70, 80)]
    text = around(*calls, of=3)
    assert "before: at least 1 (#1 to #1), at most 2 (#1 to #2)" in text
    assert "after: one more (#3); it says that 4 are left" in text


def test_a_cooldown_runs_from_what_began_it() -> None:
    d = dealing
    calls = [d.entitled(0, crawl=100), d.domain(1), d.job(2), d.job(50, **d.cooling(52))]
    text = around(*calls, of=3)
    assert "cooldown of crawl on d1, 1m40s (#0), per domain, from acceptance" in text
    assert "before: until 2026-03-04T12:01:42Z to 2026-03-04T12:01:42.1" in text
    assert ", by #2, unless that run had failed" in text
    assert "after: the same, as it was refused" in text
    assert "before: not cooling by any call of the trace" in around(*calls, of=2)
