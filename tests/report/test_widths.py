"""Tables lose nothing: every command that prints one, at 40 and 80 columns and in a pipe."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.bridges import load_cli
from ranksim.judge.conformance import cli as conformance_cli
from ranksim.report import answer, terminal, units
from ranksim.twin.sim import results

ROOT = Path(__file__).parents[2]
TRACE = str(ROOT / "notebooks/data/everyday.jsonl.gz")
POPULATION = ("--population", str(ROOT / "examples/pricing/population.yaml"), "--replications", "2")

WORLD = """
scenario: 1
start: 2026-03-01T00:00:00Z
length: 2h
accounts: {acme: {plan: pro, portfolio: {keywords: 10}}}
clients: {reader: {kind: caller, account: acme, mix: {jobs.create: 1}, every: 5m}}
receivers: {erp: {account: acme, latency: 1s}}
"""

STUDY = """
study: 1
scenario: world.yaml
factors: {scenario.clients.reader.every: [5m, 10m]}
measure: [refusals.total, jobs.rank_run.wait.mean]
replications: 3
"""

QUICK = {
    "run": ("run", "world.yaml", "--replications", "3"),
    "compare": ("compare", TRACE),
    "plans": ("plans",),
    "load": ("check", "load", "--profiles"),
    "explain": ("explain", "S105", "U34", "quota_exhausted"),
    "assumptions": ("assumptions", "U1", "U48"),
    "fit": ("capacity", "fit", "--domains", "30", "--keywords", "300", "--pairings", "4"),
    "slots": ("capacity", "slots", "--keywords", "1000", "--adds", "10", "--removals", "10"),
    "sync": ("capacity", "sync", "--keywords", "30000", "--others", "60"),
    "workers": ("capacity", "workers", "--jobs", "rank_run=600", "--replications", "0"),
    "outage": ("capacity", "outage", "--length", "3h", "--every", "45m", "--replications", "3"),
    "portfolio": ("capacity", "portfolio", "--plan", "agency", "--pairings", "4"),
    "back-test": ("price", "back-test", str(ROOT / "examples/pricing/trace.jsonl"),
                  "--plan", "starter", "--plan", "pro"),
}  # fmt: skip

SLOW = {
    "study": ("study", "study.yaml"),
    "why": ("why", "world.yaml", "refusals.cooldown_active"),
    "price compare": ("price", "compare", "--b", str(ROOT / "examples/pricing/tighter.yaml"), *POPULATION),
    "break-even": ("price", "break-even", *POPULATION),
    "pareto": ("price", "pareto", *POPULATION, "--vary", "plans.pro.cost_ceiling=20 USD,40 USD"),
}

TOLD = {"sync", "workers", "outage", "portfolio"}
"""Commands whose tables show each number of their JSON, but for ends of intervals, which have halves."""

PRINTING = (terminal, answer, results, cli, conformance_cli, load_cli)
"""The modules that render what is printed."""


@pytest.fixture
def widths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """What was rendered at 40 and 80 columns, and into a pipe (0)."""
    monkeypatch.chdir(tmp_path)
    Path("world.yaml").write_text(WORLD, encoding="utf-8")
    Path("study.yaml").write_text(STUDY, encoding="utf-8")
    shown: dict[int, list[str]] = {40: [], 80: [], 0: []}

    def at_all_widths(render: Any) -> Any:
        def rendered(given: Any) -> str:
            parts = given if isinstance(given, str) else list(given)
            for width, texts in shown.items():
                with pytest.MonkeyPatch.context() as patch:
                    if width:
                        patch.setenv("COLUMNS", str(width))
                    texts.append(render(parts))
            return shown[0][-1]

        return rendered

    for name in ("rendered", "wrapped"):
        real, wide = getattr(terminal, name), at_all_widths(getattr(terminal, name))
        for module in PRINTING:
            if getattr(module, name, None) is real:
                monkeypatch.setattr(module, name, wide)
    return shown


def check(name: str, words: tuple[str, ...], widths: dict[int, list[str]]) -> None:
    result = CliRunner().invoke(cli.app, list(words))
    assert result.exit_code in (0, 1), result.output
    piped = Counter("".join(widths.pop(0)).split())
    assert sum(piped.values()) > 20
    for width, texts in widths.items():
        narrow = Counter("".join(texts).split())
        lost = {
            word for word, often in piped.items()
            if narrow[word] < often and len(word) <= width and not set(word) <= {"─"}
        }  # fmt: skip
        assert not lost, (width, sorted(lost))
    if name in TOLD:
        document = json.loads(CliRunner().invoke(cli.app, [*words, "--json"]).stdout)
        shown = set(re.findall(r"[−]?[0-9][0-9,.]*", result.stdout))
        for table, rows in document["tables"].items():
            for row in rows:
                for column, value in row.items():
                    end = column.endswith(("_low", "_high")) or column in ("low", "high")
                    if isinstance(value, int | float) and not isinstance(value, bool) and not end:
                        assert any(number in shown for number in ways(value)), (table, column, value)


def ways(value: float) -> Iterator[str]:
    """The first number of each way in which a value may be written; dollars may be whole."""
    yield units.count(round(value / 1_000_000))
    for write in units.FORMATS.values():
        yield re.findall(r"[−]?[0-9][0-9,.]*", write(value))[0]


@pytest.mark.parametrize("name", QUICK)
def test_no_word_or_number_is_lost(name: str, widths: dict[int, list[str]]) -> None:
    check(name, QUICK[name], widths)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_no_word_or_number_of_simulations_is_lost(name: str, widths: dict[int, list[str]]) -> None:
    check(name, SLOW[name], widths)
