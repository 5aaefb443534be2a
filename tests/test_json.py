"""What `--json` prints has one shape for every command, as `ranksim explain schema result` tells it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from ranksim import cli
from ranksim.schema import RESULTS, schema
from ranksim.testing import Server

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "notebooks/data/everyday.jsonl.gz"
POPULATION = "--population examples/pricing/population.yaml --replications 2"

QUICK = {
    "run": "scenarios/receiver-down-3h.yaml",
    "explain assumptions": "U1",
    "explain plans": "",
    "explain id": "S105 quota_exhausted",
    "capacity fit": "--domains 30",
    "capacity slots": "--keywords 100 --adds 2",
    "capacity sync": "--keywords 240",
    "capacity workers": "--jobs crawl=10 --over 30m --replications 2",
    "capacity outage": "--length 1h --every 5m --replications 0",
    "capacity portfolio": "--plan agency",
    "limits": f"{TRACE} --limit 600/60s",
    "price back-test": "examples/pricing/trace.jsonl --plan starter --plan pro",
}
SLOW = {
    "why": "scenarios/monday-reset.yaml refusals.quota_exhausted --futures 2",
    "compare": f"{TRACE} --require rate --require S102",
    "trace calibrate": f"{TRACE}",
    "study": "examples/studies/workers.yaml --replications 2 --store FOLDER/store",
    "price compare": f"--b examples/pricing/tighter.yaml {POPULATION}",
    "price break-even": POPULATION,
    "price pareto": f"{POPULATION} --vary plans.pro.quotas.keyword_brief_refreshes.limit=30,50",
    "check load": "--host SERVER --duration 2s --users 2 --out FOLDER/load --fail-on 'errors < 1'",
    "capacity load": "'errors < 1' --host SERVER --duration 2s --first 1 --most 2",
    "price search": "FOLDER/calls.parquet --plan pro --vary 'plans.pro.cost_ceiling=20 USD,90 USD'",
}
COMMANDS = [
    *QUICK.items(),
    *(pytest.param(name, words, marks=pytest.mark.slow) for name, words in SLOW.items()),
]
LINES = {"serve", "serve receive"}
"""Commands that tell in JSON what happens, a line each, and have no result."""


KINDS = {
    "explain id": "explain",
    "explain assumptions": "assumptions",
    "explain plans": "plans",
    "trace calibrate": "calibrate",
    "check load": "load",
}
"""What the results of some commands are called, by the names of these."""


def with_json(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that have --json, by their words."""
    if any("--json" in option.opts for option in command.params):
        yield " ".join(words)
    for name, below in getattr(command, "commands", {}).items():
        if below.hidden:  # a former name
            continue
        yield from with_json(below, (*words, name))


def test_every_command_with_json_is_tried_here_and_has_its_kind() -> None:
    found = set(with_json(typer.main.get_command(cli.app)))
    assert found == {*QUICK, *SLOW, *LINES}
    assert {KINDS.get(name, name) for name in (*QUICK, *SLOW)} == set(RESULTS)


@pytest.fixture
def deployment() -> Iterator[Callable[[], Server]]:
    """Starts a deployment where a command wants one."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Server(clock="real", start=None))


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_it_keeps_to_the_schema(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deployment: Callable[[], Server]
) -> None:
    monkeypatch.chdir(ROOT)
    if name == "price search":
        made = [
            "price",
            "import",
            "examples/pricing/trace.jsonl",
            "--columns",
            str(tmp_path / "calls.parquet"),
        ]
        assert CliRunner().invoke(cli.app, made).exit_code == 0
    words = words.replace("FOLDER", str(tmp_path))
    if "SERVER" in words:
        server = deployment()
        monkeypatch.setenv("RANKSIM_KEY", server.key)
        words = words.replace("SERVER", server.url)
    done = CliRunner().invoke(cli.app, shlex.split(f"{name} {words} --json"))
    assert done.exit_code in (0, 1), done.output
    found = json.loads(done.stdout)
    validator = Draft202012Validator(schema("result"))
    assert [error.message for error in validator.iter_errors(found)] == []
    assert (found["kind"], found["version"]) == (KINDS.get(name, name), 1)
    assert found["title"]
    assert any(found["tables"].values())


def test_a_metric_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli.app, ["run", "scenarios/quickstart.yaml", "--json"])
    found = json.loads(done.stdout)
    assert found["metrics"]["refusals.total"] == {"unit": "count", "value": 137, "low": None, "high": None}
    assert {"holds": True, "text": "refusals.rate_limited is 80, as expected exactly 80"} in found[
        "expectations"
    ]
    if jq := shutil.which("jq"):
        asked = '.metrics["refusals.total"].value'
        told = subprocess.run([jq, asked], input=done.stdout, capture_output=True, text=True, check=True)
        assert float(told.stdout) == 137


@pytest.mark.parametrize(("name", "words"), [*QUICK.items()])
def test_a_metric_and_a_flat_row_has_a_line_of_its_own(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    told = CliRunner().invoke(cli.app, [*shlex.split(f"{name} {words}"), "--json"]).stdout
    lines = [line.strip().removesuffix(",") for line in told.splitlines()]
    found = json.loads(told)
    for metric, number in found["metrics"].items():
        assert f"{json.dumps(metric)}: {json.dumps(number)}" in lines
    rows = [row for table in found["tables"].values() for row in table if len(table) > 5]
    flat = [row for row in rows if not any(isinstance(value, dict | list) for value in row.values())]
    assert all(json.dumps(row, ensure_ascii=False) in lines for row in flat)


PLANNED = {
    "explain plans": ("pro.price", "agency.slot_limit", "brief_pack.price", "crawl_page.cost"),
    "capacity fit": ("agency.price", "agency.provider_cost", "agency.factor", "free.keyword_slots.used"),
    "capacity slots": ("31.refused_by", "1.used_mean"),
    "capacity sync": ("first_hit.retry.time",),
    "capacity workers": ("crawl.by_formula",),
    "capacity outage": ("disabled.expected", "events.simulated"),
    "capacity portfolio": ("keyword_slots.allows",),
    "price back-test": ("A.revenue", "B.margin"),
    "price compare": ("all.margin.difference", "starter.revenue.a"),
    "price break-even": ("starter.even",),
    "price pareto": ("pro.quotas.keyword_brief_refreshes.limit_30.margin",),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PLANNED],
)
def test_a_planners_numbers_have_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = (QUICK | SLOW)[name]
    found = json.loads(CliRunner().invoke(cli.app, shlex.split(f"{name} {words} --json")).stdout)["metrics"]
    assert set(PLANNED[name]) <= set(found)
    assert {"money", "count", "share", "points", "duration"} >= {one["unit"] for one in found.values()}
    if name == "price back-test":
        assert (found["A.margin"]["value"], found["A.margin"]["unit"]) == (28_680_000, "money")
