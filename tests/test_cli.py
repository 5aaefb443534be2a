"""The command line: what it prints where, its exit codes, and that it never leaves anything half-written."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ranksim
from ranksim import cli
from ranksim.__main__ import main
from ranksim.core import files
from ranksim.report import command_line, figure, frames

SMALL = """\
# Six hours of one pipeline.
scenario: 1
name: small
title: A small world
start: 2026-03-01T00:00:00Z
length: 6h
accounts:
  acme:
    plan: starter
    portfolio: {keywords: 20}
pools:
  rank_run: 1
clients:
  ci:
    kind: caller
    account: acme
    every: 20m
    mix: {jobs.create: 1, keywords.list: 3}
receivers:
  ops:
    account: acme
expect:
  - calls.total == 18
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


class Told:
    """What a command said: exit code, stdout, stderr."""

    def __init__(self, *words: str | Path, **environment: str) -> None:
        result = CliRunner().invoke(cli.app, [str(word) for word in words], env=environment)
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        self.error = result.exception


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    path = tmp_path / "failing.yaml"
    path.write_text(SMALL.replace("calls.total == 18", "calls.total <= 10"))
    return path


ROOT = Path(__file__).parents[1]


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "ranksim", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKSIM_", "COLUMNS"))}
    return {**kept, "PYTHONPATH": path, **more}


def process(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, env=environment(**more), check=False
    )


# What nobody expected


def test_a_fault_of_ranksim_has_an_exit_code_of_its_own_and_a_sentence_that_says_where_it_goes(
    tmp_path: Path,
) -> None:
    broken = (
        "import sys\n"
        "from ranksim import cli\n"
        "from ranksim.report import plans\n"
        "def sentence(_): raise OverflowError('int too\\nlarge')\n"
        "plans.sentence = sentence\n"
        "sys.argv = ['ranksim', 'explain', 'plans']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", broken],
        capture_output=True, text=True, env=environment(TMPDIR=str(tmp_path)), check=False,
    )  # fmt: skip
    assert done.returncode == 70
    [line] = done.stderr.splitlines()
    assert "a fault of ranksim" in line
    assert "OverflowError: int too large" in line
    [kept] = tmp_path.glob("ranksim-fault-*.txt")
    assert str(kept) in line
    assert "Traceback (most recent call last)" in kept.read_text()


@pytest.mark.slow
def test_a_link_to_itself_is_bad_input(tmp_path: Path) -> None:
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    for words in (
        ("compare", loop),
        ("trace", "calibrate", loop),
        ("run", loop),
        ("trace", "show", loop, "1"),
    ):
        done = process(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words
        assert "loop.jsonl" in done.stderr


# Help and completion


@pytest.mark.slow
def test_help_tells_environment_variables_only_when_asked() -> None:
    for words in (("run",), ("capacity", "fit"), ()):
        short, long = process(*words, "--help"), process(*words, "--help-all")
        assert (short.returncode, long.returncode) == (0, 0)
        assert "env var" not in short.stdout
        assert "--help-all" in short.stdout
    assert "RANKSIM_RUN_SEED" in process("run", "--help-all").stdout


@pytest.mark.parametrize(
    ("shell", "asked"),
    [("bash", {}), ("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})],
)
@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("capacity f", "fit"),
        ("explain schema pol", "policy"),
        ("check load --profile everyd", "everyday"),
        ("capacity portfolio --plan age", "agency"),
        ("explain plans star", "starter"),
        ("explain S10", "S105"),
        ("why x.yaml refusals.quo", "refusals.quota_exhausted"),
        (f"why {ROOT}/scenarios/quickstart.yaml slots.acme.u", "slots.acme.used"),
    ],
)
def test_a_shell_completes_words(shell: str, asked: dict[str, str], words: str, whole: str) -> None:
    line = f"ranksim {words}"
    if shell == "bash":
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    else:
        asked = {"_TYPER_COMPLETE_ARGS": line, **asked}
    code = "import sys; sys.argv = ['ranksim']; from ranksim.__main__ import main; main()"
    there = environment(**asked, _RANKSIM_COMPLETE=f"complete_{shell}")
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=there, check=False
    )
    assert re.search(rf"\b{whole}\b", told.stdout), told
    assert "outage" not in told.stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("capacity", "portfolio", "--vary", "keywords"), "--grow"),
        (("run", "x.yaml", "--replication", "2"), "--replications"),
        (("run", "x.yaml", "--sede", "2"), "--seed"),
    ],
)
def test_an_unknown_option_gets_the_one_that_was_meant(words: tuple[str, ...], hint: str) -> None:
    done = process(*words)
    assert done.returncode == 2
    assert hint in done.stderr


def test_options_that_share_their_first_letters_alone_are_not_named() -> None:
    assert "ossible" not in process("capacity", "fit", "--plan", "pro").stderr


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("clients: {x: {kind: caller, account: a, mix: {labels.creat: 1}, every: 5m}}", "'labels.create'"),
        ("clients: {x: {kind: poller, account: a, operation: account.usge, every: 5m}}", "'account.usage'"),
        ("receivers: {x: {account: a, latency: {lognormale: {median: 1s, sigma: 1}}}}", "'lognormal'"),
    ],
)
def test_a_word_of_a_scenario_gets_the_one_that_was_meant(given: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    head = "scenario: 1\nstart: 2026-03-02T00:00:00Z\nlength: 1d\naccounts: {a: {plan: pro}}\n"
    path.write_text(head + given + "\n", encoding="utf-8")
    told = Told("run", path)
    assert (told.code, told.out) == (2, "")
    assert f"did you mean {hint}" in told.err


def test_an_assumption_gets_the_one_that_was_meant() -> None:
    assert "did you mean 'window'?" in Told("explain", "assumptions", "windw").err


# The plans


def test_plans_lists_a_catalogue(tmp_path: Path) -> None:
    told = Told("explain", "plans", COLUMNS="120")
    assert told.code == 0
    assert told.out.startswith("The catalogue illustrative (illustrative; not the service's real prices)")
    assert re.search(r"price a month +0.00 USD +29.00 USD +129.00 USD +2,990.00 USD", told.out)
    assert re.search(r"brief_pack +keyword_brief_refreshes +50 +15.00 USD", told.out)
    plain = json.loads(Told("explain", "plans", "--json").out)
    assert {plan["name"]: plan["cost_ceiling"] for plan in plain["tables"]["plans"]}["pro"] == "90 USD"
    own = tmp_path / "mine.yaml"
    own.write_text((Path(ranksim.__file__).parent / "data/catalogues/illustrative.yaml").read_text("utf-8"))
    assert Told("explain", "plans", "--catalogue", own).code == 0


def test_plans_shows_those_that_are_named() -> None:
    plain = json.loads(Told("explain", "plans", "pro", "agency", "--json").out)
    assert [plan["name"] for plan in plain["tables"]["plans"]] == ["pro", "agency"]
    told = Told("explain", "plans", "agencyy")
    assert (told.code, told.out) == (2, "")
    assert "no plan 'agencyy'; expected one of free, starter, pro, agency; did you mean 'agency'?" in told.err


def test_plans_knows_no_other_catalogue() -> None:
    told = Told("explain", "plans", "--catalogue", "gold")
    assert (told.code, told.out) == (2, "")
    assert "--catalogue: expected one of illustrative, illustrative-metered" in told.err


def test_a_catalogue_that_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalogue.yaml"
    assert Told("explain", "plans", "--out", path).code == 0
    assert ranksim.Policy.load(_policy_with(path)).catalogue == ranksim.Policy().catalogue
    assert Told("explain", "plans", "starter", "--out", path).code == 0
    assert list(ranksim.Policy.load(_policy_with(path)).catalogue.plans) == ["starter"]
    told = Told("explain", "plans", "--catalogue", path, "--out", path)
    assert (told.code, told.out) == (2, "")
    assert "is read by this command, and would be lost" in told.err


def _policy_with(catalogue: Path) -> Path:
    policy = catalogue.with_name("policy.yaml")
    policy.write_text(f"catalogue: {catalogue.name}\n")
    return policy


# The summary


def test_run_prints_a_summary(scenario: Path) -> None:
    told = Told("run", scenario)
    assert told.code == 0
    assert told.err == ""
    lines = told.out.splitlines()
    assert lines[:5] == [
        "A small world",
        "6h from 2026-03-01T00:00:00Z, 1 account (acme on starter), 1 replication, seed 1, policy default",
        "",
        "The expectation holds.",
        "  holds  calls.total is 18, as expected exactly 18",
    ]
    for title in (
        "Calls",
        "Slots, allowances and provider cost",
        "Jobs",
        "Waits for a worker",
        "Webhook endpoints",
    ):
        assert title in lines


def test_a_failed_expectation_says_which_and_by_how_much_and_exits_with_1(failing: Path) -> None:
    told = Told("run", failing)
    assert told.code == 1
    assert "1 of 1 expectation failed." in told.out
    assert told.err == "ranksim: expectation failed: calls.total is 18, expected at most 10: 8 above\n"


def test_flags_stand_in_for_the_scenario(scenario: Path) -> None:
    told = Told("run", scenario, "--seed", "7", "--replications", "3")
    assert "1 account (acme on starter), 3 replications, seed 7" in told.out
    assert "with 95 % intervals" in told.out


def test_policy_stands_in_for_that_of_the_scenario(scenario: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("facts: {rates: {read: 1, write: 1, expensive: 1}}\n")
    invoked = Told("run", scenario, "--policy", policy, "--out", tmp_path / "out", "--no-plots", "--no-trace")
    assert (invoked.code, invoked.err) == (0, "")
    assert f"--policy {policy}" in (tmp_path / "out" / "page.html").read_text()
    saved = json.loads((tmp_path / "out" / "scenario.json").read_text())
    assert saved["policy"]["facts"]["rates"]["read"] == 1
    invoked = Told("run", scenario, "--policy", tmp_path / "none.yaml")
    assert (invoked.code, invoked.out) == (2, "")
    assert invoked.err.startswith(f"ranksim: {tmp_path / 'none.yaml'}: no such file")
    shipped = Path(ranksim.__file__).parent / "data" / "catalogues" / "illustrative.json"
    catalogue = json.loads(shipped.read_text())
    del catalogue["plans"]["starter"]
    policy.write_text(json.dumps({"catalogue": catalogue}))
    invoked = Told("run", scenario, "--policy", policy)
    assert invoked.err.startswith(f"ranksim: --policy {policy}: ")
    assert "no plan 'starter'" in invoked.err


def test_set_gives_parameters_other_values(scenario: Path, tmp_path: Path) -> None:
    of = ["--set", "scenario.length=12h", "--set", "scenario.clients.ci.every=10m"]
    of += [
        "--set",
        "scenario.expect=[calls.total == 72]",
        "--set",
        "policy.catalogue.plans.starter.price=9 USD",
    ]
    told = Told("run", scenario, *of, "--out", tmp_path / "out", "--no-plots", "--no-trace")
    assert (told.code, told.err) == (0, "")
    assert "12h from 2026-03-01" in told.out
    assert "9.00 USD invoice of the last month" in told.out
    assert "--set scenario.length=12h" in (tmp_path / "out" / "page.html").read_text()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scenario.length", "--set: expected PATH=VALUE such as scenario.length=7d, found 'scenario.length'"),
        (
            "scenario.lenght=1d",
            "--set scenario.lenght: no parameter 'scenario.lenght': scenario has no 'lenght'",
        ),
        (
            "scenario.length=3600",
            "--set scenario.length: write a duration such as '1h30m' or '250ms', found 3600",
        ),
        ("scenario.length=soon", "--set: length: 'soon' is not a duration, such as 90s"),
        ("scenario.plan=gold", "--set: accounts.acme.plan: no plan 'gold'"),
        ("scenario.clients=[", "--set scenario.clients:1: not valid YAML"),
        ("policy.assumptions.window=leaky", "--set: assumptions.window: expected one of first_hit"),
    ],
)
def test_what_set_cannot_give_is_refused(scenario: Path, setting: str, message: str) -> None:
    told = Told("run", scenario, "--set", setting)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"ranksim: {message}")


def test_set_gives_a_parameter_one_value(scenario: Path) -> None:
    told = Told("run", scenario, "--set", "scenario.length=1h", "--set", "scenario.length=2h")
    assert "--set: scenario.length is given twice; give one value" in told.err


def test_every_flag_has_an_environment_variable(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = Told(
        "run", scenario,
        RANKSIM_RUN_SEED="7", RANKSIM_RUN_REPLICATIONS="2", RANKSIM_RUN_WORKERS="1", RANKSIM_RUN_OUT=str(out),
        RANKSIM_RUN_JSON="true", RANKSIM_RUN_PLOTS="false", RANKSIM_RUN_KEEP_TRACE="false",
        RANKSIM_RUN_TRACE=str(tmp_path / "trace.jsonl"),
    )  # fmt: skip
    assert told.code == 0
    result = json.loads(told.out)
    assert (result["seed"], len(result["replications"])) == (7, 2)
    assert sorted(path.name for path in out.iterdir()) == [
        "page.html",
        "result.json",
        "scenario.json",
        "tables",
    ]
    assert (tmp_path / "trace.jsonl").exists()


@pytest.mark.parametrize("name", ["run", "assumptions"])
def test_help_names_every_environment_variable(name: str) -> None:
    text = " ".join(Told(name, "--help").out.split())
    options = set(re.findall(r" --([a-z-]+)", text)) - {"help", "no-plots", "no-trace", "out", "replications"}
    for option in options:
        assert f"RANKSIM_{name.upper()}_{option.upper().replace('-', '_')}" in text, option
    assert "Example" in text


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["60", "80"])
def test_in_a_pipe_the_summary_has_no_colours_and_fits(scenario: Path, columns: str) -> None:
    told = process("run", scenario, "--replications", "2", COLUMNS=columns)
    assert told.returncode == 0
    assert "\x1b" not in told.stdout
    assert told.stderr == ""
    assert max(map(len, told.stdout.splitlines())) <= int(columns)
    assert all(line == line.rstrip() for line in told.stdout.splitlines())


@pytest.mark.slow
def test_a_terminal_that_cannot_show_a_sign_gets_another(scenario: Path) -> None:
    told = process("run", scenario, "--replications", "2", PYTHONIOENCODING="ascii")
    assert told.returncode == 0
    assert "?" in told.stdout


# JSON, files and traces


@pytest.mark.slow
def test_json_is_the_result_alone_and_the_same_each_time(scenario: Path) -> None:
    first, second = Told("run", scenario, "--json"), Told("run", scenario, "--json", "--seed", "1")
    assert first.out == second.out
    assert first.out == ranksim.run(ranksim.Scenario.load(scenario)).to_json()


def test_json_says_on_stderr_what_failed(failing: Path) -> None:
    told = Told("run", failing, "--json")
    assert told.code == 1
    assert json.loads(told.out)["scenario"] == "small"
    assert "expected at most 10: 8 above" in told.err


@pytest.mark.slow
def test_out_holds_everything(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    told = Told("run", scenario, "--out", out)
    assert told.code == 0
    assert told.out.endswith(f"\n\nWritten to {out}\n")
    assert {path.name for path in out.iterdir()} == files.RESULTS.names
    assert (out / "result.json").read_text() == Told("run", scenario, "--json").out
    assert (out / "tables" / "calls.parquet").exists()
    assert (out / "plots" / "slots.png").exists()
    page = (out / "page.html").read_text()
    assert "A small world" in page
    assert f"ranksim run {scenario} --seed 1 --replications 1" in page
    header, *exchanges = (out / "trace.jsonl").read_text().splitlines()
    assert list(json.loads(header)["keys"]) == ["acme/main"]
    assert json.loads(exchanges[0])["api_key"] == "acme/main"


@pytest.mark.slow
def test_out_replaces_the_results_of_an_earlier_run(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert Told("run", scenario, "--out", out).code == 0
    assert Told("run", scenario, "--out", out, "--no-plots", "--no-trace").code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "page.html",
        "result.json",
        "scenario.json",
        "tables",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "small.yaml"]


@pytest.mark.slow
def test_trace_goes_where_it_is_told(scenario: Path, tmp_path: Path) -> None:
    told = Told("run", scenario, "--trace", tmp_path / "t.jsonl.gz", "--out", tmp_path / "out")
    assert told.code == 0
    assert not (tmp_path / "out" / "trace.jsonl").exists()
    assert len(ranksim.Trace.read(tmp_path / "t.jsonl.gz").exchanges) == 18


@pytest.mark.slow
def test_results_are_written_even_when_an_expectation_fails(failing: Path, tmp_path: Path) -> None:
    assert Told("run", failing, "--out", tmp_path / "out").code == 1
    assert (tmp_path / "out" / "page.html").exists()


def test_tables_are_csv_without_pyarrow_and_it_is_said(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    told = Told("run", scenario, "--out", tmp_path / "out", "--no-plots")
    assert "since Parquet needs pyarrow: pip install matplotlib pandas pyarrow (in a checkout" in told.out
    assert (tmp_path / "out" / "tables" / "calls.csv").exists()


def test_out_without_matplotlib_says_so_before_it_runs(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    told = Told("run", scenario, "--out", tmp_path / "out")
    assert told.code == 2
    assert told.err == (
        "ranksim: plots need matplotlib, which is not installed; pip install matplotlib pandas pyarrow "
        "(in a checkout: pip install -c constraints.txt '.[plots]'), or give --no-plots\n"
    )
    assert not (tmp_path / "out").exists()
    assert Told("run", scenario, "--out", tmp_path / "out", "--no-plots").code == 0


@pytest.mark.slow
def test_a_summary_needs_no_extra(scenario: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = ['run', sys.argv[1]]\n"
        "for name in ('matplotlib', 'pandas', 'pyarrow', 'scipy'): sys.modules[name] = None\n"
        "from ranksim.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(scenario)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Arrivals

REPLAYING = SMALL.replace("    kind: caller", "    kind: arrivals").replace(
    "    every: 20m\n    mix: {jobs.create: 1, keywords.list: 3}\n", "    source: {trace: missing.jsonl}\n"
)


def test_arrivals_replay_a_trace(scenario: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    assert Told("run", scenario, "--trace", trace).code == 0
    replaying = tmp_path / "replaying.yaml"
    replaying.write_text(REPLAYING)
    told = Told("run", replaying, "--arrivals", trace)
    assert (told.code, told.err) == (0, "")
    assert "calls.total is 18, as expected exactly 18" in told.out


@pytest.mark.parametrize(
    ("text", "trace", "message"),
    [
        (
            SMALL,
            "",
            "--arrivals: small has 0 clients of kind arrivals; expected one, which takes the place of its",
        ),
        (REPLAYING, "", "trace.jsonl: is empty; expected a trace, whose first line is its header"),
        (REPLAYING, "x\n", "trace.jsonl:1: expected one JSON object on a line, found 'x'"),
    ],
)
def test_arrivals_that_cannot_be_replayed(tmp_path: Path, text: str, trace: str, message: str) -> None:
    (tmp_path / "small.yaml").write_text(text)
    (tmp_path / "trace.jsonl").write_text(trace)
    told = Told("run", tmp_path / "small.yaml", "--arrivals", tmp_path / "trace.jsonl")
    assert told.code == 2
    assert message in told.err


# Bad input


def bad(folder: Path) -> Iterator[tuple[list[str | Path], str]]:
    scenario = folder / "small.yaml"
    broken = folder / "broken.yaml"
    broken.write_text(SMALL.replace("plan: starter", "plan: startr"))
    (folder / "foreign").mkdir()
    (folder / "foreign" / "thesis.tex").touch()
    yield ["run", folder / "no.yaml"], f"{folder}/no.yaml: no such file"
    yield ["run", folder], f"{folder}: cannot be read"
    yield ["run", broken], f"{broken}:9: accounts.acme.plan: "
    yield (
        ["run", scenario, "--out", folder / "foreign"],
        f"{folder}/foreign: is not empty and holds no results",
    )
    yield ["run", scenario, "--out", scenario], f"{scenario}: is a file; give the path of a directory"
    yield ["run", scenario, "--trace", folder], f"{folder}: is a directory; give the path of a file"
    results = folder / "results"
    inside = results / "t.jsonl"
    yield ["run", scenario, "--out", results, "--trace", inside], f"{inside}: lies in {results}, which is"
    yield ["run", scenario, "--trace", scenario], f"{scenario}: is read by this command, and would be lost"
    yield ["run", scenario, "--out", scenario / "x"], f"{scenario}/x: {scenario} is a file, not a directory"
    yield ["explain", "assumptions", "U113"], "U113: no such assumption; they are U1 to U112"
    yield ["explain", "assumptions", "--policy", folder / "no.yaml"], f"{folder}/no.yaml: no such file"


@pytest.mark.slow
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(scenario: Path) -> None:
    for words, message in bad(scenario.parent):
        before = sorted(scenario.parent.rglob("*"))
        told = Told(*words)
        assert told.code == 2, words
        assert told.out == ""
        assert told.err.startswith(f"ranksim: {message}")
        assert told.err.count("\n") == 1
        assert sorted(scenario.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "Missing argument"),
        (["run", "x.yaml", "--sed", "1"], "No such option: --sed"),
        (["run", "x.yaml", "--seed", "one"], "--seed"),
        (["run", "x.yaml", "--workers", "0"], "--workers"),
        (["run", "x.yaml", "--replications", "0"], "--replications"),
        (["simulate"], "No such command 'simulate'"),
    ],
)
def test_wrong_usage_is_exit_code_2(words: list[str], message: str) -> None:
    told = Told(*words)
    assert told.code == 2
    assert message in told.err
    assert "Traceback" not in told.err


def test_a_bug_is_not_passed_off_as_bad_input(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cli, "_scenario", broken)
    told = Told("run", scenario)
    assert told.code == 1
    assert isinstance(told.error, ZeroDivisionError)


# Processes


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_quietly_and_leaves_nothing(
    number: signal.Signals, workers: str, scenario: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.yaml"
    long.write_text(SMALL.replace("length: 6h", "length: 2000d").replace("every: 20m", "every: 1m"))
    out = tmp_path / "out"
    running = subprocess.Popen(
        command("run", long, "--out", out, "--workers", workers, "--replications", "4"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        while not list(tmp_path.glob(".out.*/.trace.jsonl.*")):  # the run has begun to write
            assert running.poll() is None
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=600)
    finally:
        running.kill()
    assert (running.returncode, stdout, stderr) == (130, "", "ranksim: interrupted; nothing was written\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.yaml", "small.yaml"]


@pytest.mark.parametrize(
    "words", [["explain", "assumptions"], ["explain", "assumptions", "--json"], ["--version"]]
)
def test_a_reader_that_goes_away_gets_no_traceback(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(*words), stdout=writing, stderr=subprocess.PIPE, text=True, env=environment(), check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(("closed", "out", "err"), [(0, True, False), (1, False, False), (2, True, False)])
def test_a_closed_stream_is_as_the_null_device(closed: int, out: bool, err: bool) -> None:
    words = f"exec {shlex.join(command('explain', 'assumptions', 'U1'))} {closed}>&-"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, bool(done.stdout), bool(done.stderr)) == (0, out, err)


def test_what_is_wrong_is_not_said_on_stdout_where_stderr_is_closed() -> None:
    words = f"exec {shlex.join(command('explain', 'assumptions', 'U9999'))} 2>&-"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_next_to_nothing_is_loaded_before_an_interrupt_can_be_caught() -> None:
    """The package itself loads outside of any `try` of ours."""
    source = str(Path(ranksim.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {source!r}); import ranksim; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ranksim" in loaded
    assert loaded.isdisjoint({"typing", "re", "collections", "enum"})


def test_an_interrupt_where_nothing_can_be_raised_is_not_lost(tmp_path: Path) -> None:
    """A finalizer cannot raise: Python would print the interrupt and go on."""
    program = tmp_path / "deaf.py"
    program.write_text(
        "import signal, threading\n"
        "from ranksim.report.command_line import new_app, run_app, spoken\n"
        "class Deaf:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "app = new_app()\n"
        "@app.command()\n"
        "def wait():\n"
        "    with spoken():\n"
        "        Deaf()\n"
        "        threading.Event().wait()\n"
        "run_app(app)\n"
    )
    words = [sys.executable, str(program), "wait"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "ranksim: interrupted; nothing was written\n")


def test_an_interrupt_before_a_command_begins_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(command: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "tell_variables_when_asked", interrupted)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "ranksim: interrupted; nothing was written\n"


def test_an_interrupt_while_the_command_line_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "ranksim.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "ranksim.cli")
    monkeypatch.delattr(ranksim, "cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "ranksim: interrupted; nothing was written\n"


def test_serve_reads_no_other_command_and_no_client() -> None:
    code = (
        "import sys; sys.argv[1:] = ['serve', '--help']\n"
        "from ranksim.__main__ import main\n"
        "late = {'ranksim.cli', 'ranksim.bridges.check_cli', 'httpcore', 'uvicorn'}\n"
        "late |= {'ranksim.twin.facade.http_sender'}\n"
        "try: main()\n"
        "except SystemExit: print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.startswith("Usage: -c serve [OPTIONS]")
    assert done.stdout.endswith("[]\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_said() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("explain", "assumptions"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("ranksim: cannot be written or read (No space left on device)")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pty") is None, reason="there are no terminals here")
def test_on_a_terminal_there_are_colours_and_a_bar(scenario: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        command("run", scenario), stdout=theirs, stderr=theirs, env=environment(TERM="xterm", COLUMNS="80")
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # the other end of a terminal closed
        pass
    os.close(ours)
    assert done.wait() == 0
    assert b"simulating" in shown
    assert b"\x1b[32mThe expectation holds." in shown


def test_version_and_help() -> None:
    assert Told("--version").out == f"ranksim {ranksim.__version__}\n"
    assert process("--version").stdout == f"ranksim {ranksim.__version__}\n"
    text = Told("--help").out
    assert "ranksim run scenarios/quickstart.yaml" in text
    assert "assumptions" in text
    assert Told("-h").out == text


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv[1:] = ['run', '--help']\n"
        "from ranksim.cli import main\n"
        "heavy = {'numpy', 'simpy', 'matplotlib', 'ranksim.core.contract'}\n"
        "try: main()\n"
        "except SystemExit: print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


# Assumptions


def test_assumptions_lists_all_of_them() -> None:
    told = Told("explain", "assumptions")
    assert told.code == 0
    assert [f"U{n}" for n in range(1, 113)] == re.findall(r"^(U\d+) ", told.out, re.MULTILINE)


def test_assumptions_shows_the_values_of_a_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("assumptions: {window: gcra}\n")
    told = Told("explain", "assumptions", "U1", "U2", "--policy", policy)
    assert "changed to  assumptions.window = gcra" in told.out
    rows = json.loads(Told("explain", "assumptions", "U1", "--json", "--policy", policy).out)["tables"][
        "assumptions"
    ]
    assert [(row["number"], row["changed"], row["values"]) for row in rows] == [
        ("U1", True, {"assumptions.window": "gcra"})
    ]


@pytest.mark.parametrize("name", cli.FORMER)
def test_a_former_name_is_a_command_that_says_its_present_one(name: str) -> None:
    present = cli.FORMER[name]
    listed = CliRunner().invoke(cli.app, ["--help"]).stdout
    assert f"\n  {name} " not in listed
    former, now = (
        CliRunner().invoke(cli.app, [*words.split(), "--help"]).stdout.partition("Options:")[0]
        for words in (name, present)
    )
    assert former.partition("\n\n")[2] == now.partition("\n\n")[2] != ""
    if name == "plans":
        told = Told("plans", "pro")
        assert told.out == Told("explain", "plans", "pro").out
        assert "`ranksim plans` is `ranksim explain plans` now" in told.err


def test_there_are_few_commands() -> None:
    listed = CliRunner().invoke(cli.app, ["--help"]).stdout.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines() if line] == list(cli.ORDER)


def test_options_of_a_command_come_after_it() -> None:
    told = Told("check", "--time", "2m", "tidy", "x")
    assert (told.code, told.err) == (2, "ranksim: --time: expected after 'tidy', if it takes it\n")
