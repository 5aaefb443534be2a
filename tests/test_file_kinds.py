"""A file of the wrong kind is recognised in every direction; a word that is nearly right gets a hint."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.contract.file_kinds import USES
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.load.options import read_target
from ranksim.planner.fleet.population import Population
from ranksim.planner.pricing.back_test import read_accounts
from ranksim.planner.pricing.catalogues import read_catalogue
from ranksim.planner.pricing.recording import read_recording, read_rules
from ranksim.planner.study.study import Study
from ranksim.twin.sim.scenario import Scenario

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

FILES: dict[str, Path | str] = {
    "scenario": ROOT / "scenarios" / "quickstart.yaml",
    "study": EXAMPLES / "studies" / "workers.yaml",
    "population": EXAMPLES / "pricing" / "population.yaml",
    "catalogue": ROOT / "src" / "ranksim" / "data" / "catalogues" / "illustrative.yaml",
    "policy": "assumptions: {window: gcra}\n",
    "target": "environments: {production: 'http://127.0.0.1:1'}\nkeys: {main: {token: abc}}\n",
    "map": EXAMPLES / "pricing" / "rules.yaml",
    "accounts": EXAMPLES / "pricing" / "accounts.yaml",
    "trace": EXAMPLES / "pricing" / "trace.jsonl",
    "result": '{"kind": "run", "version": 1, "scenario": "quickstart", "tables": {"calls": []}}\n',
}

READERS: dict[str, tuple[Callable[[Path], Any], ...]] = {
    "scenario": (Scenario.load,),
    "study": (Study.load,),
    "population": (Population.load,),
    "catalogue": (read_catalogue,),
    "policy": (Policy.load,),
    "target": (read_target,),
    "map": (read_rules,),
    "accounts": (read_accounts,),
    "trace": (Trace.read, read_recording),
}


def file_of(kind: str, tmp_path: Path) -> Path:
    given = FILES[kind]
    if isinstance(given, Path):
        return given
    path = tmp_path / f"{kind}.yaml"
    path.write_text(given, encoding="utf-8")
    return path


@pytest.mark.parametrize("expected", READERS)
@pytest.mark.parametrize("kind", FILES)
def test_each_reader_recognises_each_other_kind(kind: str, expected: str, tmp_path: Path) -> None:
    path = file_of(kind, tmp_path)
    for read in READERS[expected]:
        if kind == expected or (expected, kind) == ("accounts", "scenario"):  # which has accounts
            read(path)
            continue
        with pytest.raises(BadInput) as refused:
            read(path)
        assert USES[kind] in str(refused.value)
        assert str(refused.value).startswith(str(path))


def test_json_that_a_command_printed_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{\n  "kind": "run",\n  "version": 1,\n  "tables": {}\n}\n', encoding="utf-8")
    for read in READERS["trace"]:
        with pytest.raises(BadInput, match=r"run.json:1: is a result as JSON; .* expected here: a trace"):
            read(path)


def test_a_catalogue_of_the_command_line_is_recognised_too(tmp_path: Path) -> None:
    for kind in ("trace", "scenario"):
        result = CliRunner().invoke(app, ["explain", "plans", "--catalogue", str(file_of(kind, tmp_path))])
        assert result.exit_code == 2
        assert USES[kind] in result.stderr


def test_every_kind_is_tried() -> None:
    assert set(USES) - set(FILES) == {"columns"}


@pytest.mark.parametrize(
    ("command", "near"),
    [
        ("capacity portfolio --plan agncy", "'agency'"),
        ("capacity portfolio --plan agency --grow keyword", "'keywords'"),
        ("capacity slots --keywords 9 --adds 2 --law poison", "'poisson'"),
        ("capacity outage --length 1h --every 5m --failure dwn", "'down'"),
        ("capacity workers --jobs rank_rn=3", "'rank_run'"),
        ("capacity fit --add-on brief_pak=1", "'brief_pack'"),
        ("plans --catalogue illustrativ", "'illustrative'"),
        ("price break-even --population examples/pricing/population.yaml --plan pr", "'pro'"),
        ("price back-test examples/pricing/trace.jsonl --plan starte", "'starter'"),
        ("why scenarios/quickstart.yaml refusals.cooldown_activ", "'refusals.cooldown_active'"),
        ("serve --plan agncy", "'agency'"),
        ("load --profile everydy --host http://127.0.0.1:1", "'everyday'"),
        ("compare examples/pricing/trace.jsonl --require rates", "'rate'"),
        ("schema scenari", "'scenario'"),
    ],
)
def test_a_word_nearly_right_gets_a_hint(command: str, near: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(command))
    assert (result.exit_code, f"did you mean {near}" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("kind: schedul", "'schedule'"),
        ("job: rank_rn", "'rank_run'"),
        ("on_limit: obay", "'obey'"),
    ],
)
def test_a_value_of_a_file_too(changed: str, near: str) -> None:
    fields = {"kind": "schedule", "job": "rank_run", "on_limit": "obey"}
    name, _, value = changed.partition(": ")
    client = ", ".join(f"{field}: {given}" for field, given in (fields | {name: value}).items())
    head = "start: 2026-03-01\nlength: 1d\naccounts: {a: {plan: pro}}\n"
    text = f"{head}clients: {{c: {{account: a, {client}}}}}\n"
    with pytest.raises(BadInput, match=f"found '{value}'; did you mean {near}"):
        Scenario.parse(text)


def test_a_scenario_without_a_length_lacks_it(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text("start: 2026-03-01\naccounts: {a: {plan: pro}}\n")
    with pytest.raises(BadInput, match="length: is missing; add it"):
        Scenario.load(path)


def test_an_assumption_is_found_by_a_word() -> None:
    result = CliRunner().invoke(app, ["explain", "assumptions", "window"])
    assert (result.exit_code, result.stdout.startswith("U1 ")) == (0, True)
    none = CliRunner().invoke(app, ["explain", "assumptions", "S105"])
    assert (none.exit_code, "they are U1 to U" in none.stderr) == (2, True)
