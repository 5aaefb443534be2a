"""Text that others wrote: what a terminal obeys never reaches one, whatever prints it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from ranksim import cli
from ranksim.bridges.twin_files import write_twin
from ranksim.core.contract.policy import Policy, shipped_catalogue
from ranksim.core.contract.yamlfile import load_yaml, write_yaml
from ranksim.core.errors import BadInput
from ranksim.core.printable import LINES, printable
from ranksim.judge.mirror.world import MirroredWorld
from ranksim.report.terminal import print_out, rendered, say
from ranksim.twin.sim.scenario import Scenario, client_functions

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

HOSTILE = "\x1b]0;mine\x07\x1b[2J\x1b[8m\x9b1m\u202e\u2028\r\b\ud800\U000e0041"
"""A window's title, a cleared screen, concealed text, C1, bidi, a line of its own, half an emoji, a tag."""

OUTSIDE = HOSTILE.replace("\ud800", "")
"""What may stand in a line of a trace; a reply's text is quoted once more, and may hold the half, too."""


@given(st.text(st.characters(codec=None)))
def test_what_is_printable_stays_and_all_else_is_escaped_as_json_does(text: str) -> None:
    shown = printable(text)
    assert all(one.isprintable() or category(one) == "Zs" for one in shown)
    assert shown == "".join(one if one.isprintable() else printable(one) for one in text)
    for one in text:
        if printable(one) != one:
            assert json.loads(f'"{printable(one)}"') == one


def test_what_is_printed_obeys_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(f"a{HOSTILE}", style="bold"))
    print_out(rendered([table, Text(HOSTILE), HOSTILE]), f"{HOSTILE}\n")
    say(f"{HOSTILE}\n{HOSTILE}")
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert printable(text, LINES) == text
        assert "\\u001b[2J" in text


def test_colours_of_ours_stay_and_those_of_others_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_out(rendered([Text(f"a{HOSTILE}", style="bold red")]))
    out = capsys.readouterr().out
    assert re.findall(r"\x1b\[[0-9;]*m", out)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert printable(bare, LINES) == bare
    assert "\\u001b[8m" in bare


def hostile_trace(path: Path) -> Path:
    """A trace in which all that a deployment says is hostile: two keyed starts of one job that differ."""
    header = {"ranksim_trace": 1, "started": 0, "targets": {"t": "http://127.0.0.1"}, "exclusive": True}
    header["keys"] = {"k": {"account": f"acc{OUTSIDE}"}}
    lines: list[dict[str, object]] = [header]
    for number in range(2):
        lines.append(
            {
                "kind": "exchange", "id": f"{number}{OUTSIDE}", "target": "t", "api_key": "k",
                "sent": 10 + number * 100, "received": 20 + number * 100, "operations": ["labels.create"],
                "method": "POST", "path": "/v1/labels", "status": 201,
                "request_headers": {"Idempotency-Key": "one"}, "body": '{"name": "a"}',
                "response_headers": {"X-Request-Id": OUTSIDE, "Content-Type": f"text/{OUTSIDE}"},
                "response": json.dumps({"data": {"id": f"lbl_{number}{HOSTILE}", "name": HOSTILE}}),
            }
        )  # fmt: skip
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["compare"],
        ["compare", "--json"],
        ["trace", "calibrate"],
        ["trace", "calibrate", "--json"],
        ["trace", "show"],
    ],
    ids=" ".join,
)
def test_no_command_prints_what_a_trace_says_raw(words: list[str], tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path / "t.jsonl")
    ids = [f"0{OUTSIDE}"] if words == ["trace", "show"] else []
    done = CliRunner().invoke(cli.app, [*words, str(trace), *ids])
    assert done.exit_code in (0, 1), done.output
    assert done.stdout
    for text in (done.stdout, done.stderr):
        assert printable(text, LINES) == text


def test_a_page_and_junit_take_any_text(tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path / "t.jsonl")
    outs = [tmp_path / name for name in ("p.html", "j.xml", "policy.yaml")]
    compared = ["compare", str(trace), "--html", str(outs[0]), "--junit", str(outs[1])]
    assert CliRunner().invoke(cli.app, compared).exit_code == 1
    assert (
        CliRunner().invoke(cli.app, ["trace", "calibrate", str(trace), "--out", str(outs[2])]).exit_code == 0
    )
    for out in outs:
        text = out.read_text("utf-8")
        assert printable(text, LINES) == text


ALLOWED = {
    "report/terminal.py", "__main__.py", "report/command_line.py", "twin/facade/terminal.py",
    "data/project/tests/test_client.py",
}  # fmt: skip
"""Modules that write to a stream themselves: the one place, what runs before it, lines escaped one by one."""


def writes_raw(tree: ast.AST) -> list[int]:
    """Lines that print or write to a standard stream what does not go through `printable` first."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        to = ast.unparse(node.func)
        raw = to in ("print", "sys.stdout.write", "sys.stderr.write")
        escaped = any(
            isinstance(inner, ast.Name) and inner.id == "printable"
            for arg in node.args
            for inner in ast.walk(arg)
        )
        machine = any(
            keyword.arg == "file" and "out" in ast.unparse(keyword.value) for keyword in node.keywords
        )
        if raw and not escaped and not machine:
            lines.append(node.lineno)
    return lines


def test_nothing_else_writes_to_a_terminal() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := writes_raw(ast.parse(path.read_text("utf-8"))))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}


# What is written into YAML


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DATA = st.recursive(TEXT, lambda one: st.lists(one) | st.dictionaries(TEXT, one), max_leaves=5)


@given(DATA, st.lists(st.text(st.characters(codec=None))))
def test_yaml_reads_back_as_it_was_whatever_its_comments_say(data: Any, lines: list[str]) -> None:
    document = {"data": data}
    assert load_yaml(write_yaml(document, lines, lines, width=1000), "here").data == document
    assert load_yaml(write_yaml(document, lines, lines), "here").data == document


BREAKS = ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c"]
EVIL = 'clients: {evil: {kind: python, function: "this:d"}}'


@pytest.mark.parametrize("end", BREAKS, ids=ascii)
def test_a_deployment_plants_nothing_in_its_twin(end: str, tmp_path: Path) -> None:
    """A capability that ended a comment's line made a client of its own, whose module was imported."""
    catalogue = shipped_catalogue("illustrative").model_dump(mode="json") | {"name": "mirror"}
    scenario = {"scenario": 1, "name": "twin", "start": "2026-03-02T09:00:00Z", "length": "1h"}
    scenario["accounts"] = {"a": {"plan": "pro"}}
    twin = MirroredWorld(
        catalogue, scenario, [f"acc{end}{EVIL}{end}#", f"{end}facts: {{webhook_timeout: 1s}}"]
    )
    write_twin(twin, tmp_path / "twin")
    read = Scenario.load(tmp_path / "twin" / "world.yaml")
    assert (read.clients, client_functions(read)) == ({}, [])


@pytest.mark.parametrize("end", BREAKS, ids=ascii)
def test_a_deployment_plants_nothing_in_the_policy_it_is_judged_by(end: str, tmp_path: Path) -> None:
    trace, policy = tmp_path / "t.jsonl", tmp_path / "policy.yaml"
    planted = f"{end}facts:\n  webhook_timeout: 1s{end}#"
    header = {"ranksim_trace": 1, "started": 0, "targets": {"t": "http://127.0.0.1"}, "exclusive": True}
    header["keys"] = {"k": {"account": f"acc{planted}"}}
    refused = {"code": "cooldown_active", "available_at": "1970-01-01T00:01:00Z", "meta": {}}
    lines: list[dict[str, object]] = [header]
    for number, (status, reply) in enumerate([(202, {"data": {"id": "job_1"}}), (409, refused)]):
        lines.append(
            {
                "kind": "exchange", "id": f"{number}{planted}", "target": "t", "api_key": "k",
                "sent": 10 + number, "received": 10 + number, "operations": ["jobs.create"],
                "method": "POST", "path": "/v1/jobs", "body": '{"kind": "crawl", "domain_id": "dom_1"}',
                "status": status, "response": json.dumps(reply),
            }
        )  # fmt: skip
    trace.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = CliRunner().invoke(cli.app, ["trace", "calibrate", str(trace), "--out", str(policy)])
    assert done.exit_code == 0, done.output
    assert Policy.load(policy).facts == Policy().facts


@pytest.mark.parametrize("command", ["run", "why", "study"])
def test_code_that_a_file_names_is_told_before_it_is_imported(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a study keeps what is finished
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "scenario: 1\nname: s\nstart: 2026-03-02T09:00:00Z\nlength: 1h\naccounts: {a: {plan: pro}}\n"
        "clients: {c: {kind: python, function: 'no_such_module:main', account: a}}\n"
    )
    words = [command, str(scenario), *(["calls.total > 1"] if command == "why" else [])]
    if command == "study":
        (tmp_path / "study.yaml").write_text(
            "study: 1\nscenario: s.yaml\nmeasure: [calls.total]\n"
            "variants: {one: {}, two: {scenario.length: 2h}}\n"
        )
        words[1] = str(tmp_path / "study.yaml")
    done = CliRunner().invoke(cli.app, words)
    first, *_ = done.stderr.splitlines()
    assert first == f"ranksim: {words[1]}: runs Python code that it names: no_such_module:main"


def test_aliases_that_repeat_without_end_are_refused() -> None:
    """A file of 700 bytes would say a billion things."""
    levels = "".join(f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]\n" for at in range(1, 10))
    with pytest.raises(BadInput, match=r"aliases repeat more than 100,000 values"):
        load_yaml(f"l0: &l0 [1, 2, 3]\n{levels}", "here")
    few = load_yaml("a: &a [1, 2]\nb: [*a, *a, *a]\n", "here")
    assert few.data == {"a": [1, 2], "b": [[1, 2]] * 3}
