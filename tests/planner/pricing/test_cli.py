"""`ranksim price …`: what it prints and writes, its flags' variables, and how it refuses."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.errors import BadInput
from ranksim.planner.pricing.cli import ASKED
from ranksim.planner.pricing.columns import account_number, read_columns, read_names

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "pricing"
CUSTOMERS = f"--population {EXAMPLES / 'population.yaml'} --replications 2"

COMMANDS = {
    "compare": f"--b {EXAMPLES / 'tighter.yaml'} {CUSTOMERS}",
    "break-even": f"--plan starter {CUSTOMERS}",
    "pareto": f"--vary 'plans.pro.cost_ceiling=20 USD,90 USD' {CUSTOMERS}",
    "back-test": f"{EXAMPLES / 'trace.jsonl'} --plan starter --plan pro",
}

SENTENCES = {
    "compare": "B differs from A in 5 values: plan free, plan starter, plan pro. Of 400 customers ",
    "break-even": "starter breaks even at ",
    "pareto": "2 of 2 choices are not beaten: from ",
    "back-test": "Of 16 calls replayed, 0 are newly refused and 4 newly admitted under B, compared with A; ",
}

WRITTEN = {
    "compare": {"margin.png", "limits.png", "percentiles.png"},
    "break-even": {"prices.png"},  # of one plan the ceiling is one dot
    "pareto": {"frontier.png"},
    "back-test": {"margins.png", "outcomes.png"},
}


def told(*words: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["price", *words], env=environment)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_it_answers_and_writes(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, err = told(name, *shlex.split(COMMANDS[name]), "--out", str(out), COLUMNS="250")
    assert (code, err) == (0, "")
    assert text.startswith(SENTENCES[name])
    assert text.endswith(f"\nWritten to {out}\n")
    assert {path.name for path in (out / "plots").iterdir()} == WRITTEN[name]
    result = json.loads((out / "result.json").read_text("utf-8"))
    filled = {table for table, rows in result["tables"].items() if rows}
    assert {path.stem for path in (out / "tables").iterdir()} == filled
    page = (out / "page.html").read_text("utf-8")
    assert page.count("<figure>") == len(WRITTEN[name])
    assert f"<pre>ranksim price {name} " in page
    assert f"--out {out}" not in page
    assert page.index("</h1>") < page.index("?") < page.index('<p class="answer">')
    assert ("Assumptions that the result rests on" in page) == (name != "back-test")
    assert SENTENCES[name].rstrip() in page
    if name == "compare":  # what differs comes before what it causes
        assert page.index("What B changes") < page.index("<svg role=")
    # The same directory takes the next result.
    code, text, err = told(name, *shlex.split(COMMANDS[name]), "--out", str(out), "--no-plots", "--json")
    assert (code, err, (out / "plots").exists()) == (0, "", False)
    assert json.loads(text) == result


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_that_cannot_be_written_to_is_told_before_anything_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranksim.planner.pricing.cli.show_progress", None)
    code, text, err = told(name, *shlex.split(COMMANDS[name]), "--out", "/proc/results")
    assert (code, text) == (2, "")
    assert err.startswith("ranksim: /proc/results: cannot be written (")


def test_calls_do_not_lie_in_the_directory_that_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = shlex.split(COMMANDS["back-test"])
    code, text, err = told("back-test", *words, "--out", str(out), "--csv", str(out / "calls.csv"))
    assert (code, text) == (2, "")
    assert f"{out / 'calls.csv'}: lies in {out}, which is replaced as a whole" in err
    assert not out.exists()


def test_every_flag_has_a_variable() -> None:
    variables = {"RANKSIM_PRICE_BACK_TEST_PLAN": "pro", "RANKSIM_PRICE_BACK_TEST_JSON": "1"}
    _, out, _ = told("back-test", str(EXAMPLES / "trace.jsonl"), **variables)
    assert " A: pro of illustrative. " in json.loads(out)["notes"][0]


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_and_their_variables_have_one_name(name: str) -> None:
    _, text, _ = told(name, "--help", COLUMNS="250")
    flags = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    prefix = f"RANKSIM_PRICE_{name}_"
    assert all(flag == flag.lower() for flag in flags)
    assert all(f"{prefix}{flag[2:]}".upper().replace("-", "_") in text for flag in flags)


@pytest.mark.parametrize(
    "words",
    [
        f"break-even --catalogue gone {CUSTOMERS}",
        f"pareto --vary plans.pro.price=1USD --catalogue gone {CUSTOMERS}",
        f"back-test {EXAMPLES / 'trace.jsonl'} --plan pro --catalogue illustrative --catalogue gone",
    ],
)
def test_a_catalogue_can_be_named(words: str) -> None:
    assert "gone: no such catalogue" in told(*words.split())[2]


def test_calls_are_written_as_csv(tmp_path: Path) -> None:
    told("back-test", *COMMANDS["back-test"].split(), "--csv", str(tmp_path / "calls.csv"))
    lines = (tmp_path / "calls.csv").read_text("utf-8").splitlines()
    assert len(lines) == 17
    assert lines[0].startswith(
        "id,at,account,operation,recorded,recorded_code,a,a_code,a_cost_uusd,b,b_code,b_cost_uusd"
    )


def test_with_accounts_a_is_what_they_are_on() -> None:
    words = [
        str(EXAMPLES / "trace.jsonl"),
        "--accounts",
        str(EXAMPLES / "accounts.yaml"),
        "--plan",
        "starter",
    ]
    _, out, _ = told("back-test", *words, "--json")
    assert json.loads(out)["notes"][0].endswith("A: own plans of illustrative. B: starter of illustrative.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare --b gone.yaml " + CUSTOMERS, "gone.yaml: no such catalogue; give a YAML file, or one of"),
        ("compare --b illustrative --population gone.yaml", "gone.yaml: no such file"),
        (
            f"compare --b illustrative-metered {CUSTOMERS}",
            "B has no plan 'starter'; expected one of free, team",
        ),
        (f"compare --b illustrative --move starter {CUSTOMERS}", "--move: expected PLAN=PLAN such as"),
        (f"compare --b illustrative --move starter=gold {CUSTOMERS}", "move: B has no plan 'gold'"),
        (f"compare --b {EXAMPLES / 'population.yaml'} {CUSTOMERS}", "population.yaml:"),
        (f"break-even --risk 200% {CUSTOMERS}", "break-even: expected a risk and a level between 0 and 1"),
        (f"compare --b illustrative --leave-price 11 {CUSTOMERS}", "--leave-price: expected a ratio from 0"),
        (f"break-even --plan gold {CUSTOMERS}", "plan: no customer is on 'gold'"),
        (f"compare --b illustrative --move pro=pro --move pro=free {CUSTOMERS}", "--move: pro is given"),
        (
            f"pareto --vary plans.pro.price=1USD --vary plans.pro.price=2USD {CUSTOMERS}",
            "--vary: plans.pro.price is given twice",
        ),
        ("back-test trace.jsonl --plan pro --keywords 999999999", "keywords: expected 0 to 100000, found"),
        (f"back-test copy.jsonl --plan pro --csv {EXAMPLES}/./copy.jsonl", "is read by this command"),
        (f"pareto --vary plans.pro.price {CUSTOMERS}", "--vary: expected PATH=VALUE,VALUE"),
        (f"pareto --vary plans.pro.prize=1USD {CUSTOMERS}", "did you mean 'price'?"),
        (f"back-test {EXAMPLES / 'trace.jsonl'}", "nobody says which plan 'acme' is on"),
        (f"back-test {EXAMPLES / 'trace.jsonl'} --plan gold", "has no plan 'gold'"),
        (
            f"back-test access.log --map rules.yaml --accounts {EXAMPLES / 'accounts.yaml'} --plan pro",
            "is on, and with accounts a single plan is B's; name it among the accounts, or give two plans",
        ),
        ("back-test gone.jsonl --plan pro", "gone.jsonl: no such file"),
        (f"back-test {EXAMPLES / 'trace.jsonl'} --plan a --plan b --plan c", "at most two plans"),
        (f"back-test {EXAMPLES / 'trace.jsonl'} --plan pro --out {ROOT}", "holds no results of ranksim"),
    ],
)
def test_it_refuses_in_a_sentence(words: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    code, out, err = told(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith("ranksim: ")
    assert message in err
    assert "Traceback" not in err


def test_a_recording_becomes_columns(tmp_path: Path) -> None:
    out, names = tmp_path / "calls.parquet", tmp_path / "names.csv"
    words = [
        "price",
        "import",
        str(EXAMPLES / "trace.jsonl"),
        "--columns",
        str(out),
        "--names",
        str(names),
        "--salt",
        "s",
    ]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("16 calls of 1 account, from 2026-09-02T")
    assert result.stdout.endswith(f"\nWritten to {out}\n")
    number = str(account_number("acme", "s"))
    assert names.read_text() == f"number,name\n{number},acme\n"
    assert [one.name for one in read_columns(out).accounts] == [number]
    assert [one.name for one in read_columns(out, read_names(names)).accounts] == ["acme"]


def test_an_import_tells_the_span_and_calls_far_from_the_others(tmp_path: Path) -> None:
    rows = [f"2026-09-0{day}T00:00:00Z,acme,GET,/v1/domains" for day in range(1, 5)]
    for first, note in (
        ("2026-08-31T00:00:00Z", ""),
        ("1970-01-01T00:00:00Z", "Note: 1 call lies more than"),
    ):
        text = "\n".join(["time,account,method,path", f"{first},acme,GET,/v1/domains", *rows])
        (tmp_path / "calls.csv").write_text(text + "\n")
        words = ["price", "import", str(tmp_path / "calls.csv"), "--out", str(tmp_path / "calls.parquet")]
        result = CliRunner().invoke(app, words)
        assert f"5 calls of 1 account, from {first} to 2026-09-04T00:00:00Z.\n{note}" in result.stdout
        assert ("Note:" in result.stdout) == bool(note)


@pytest.mark.slow
def test_columns_are_tried_under_other_plans(tmp_path: Path) -> None:
    out, names, sent = (tmp_path / name for name in ("calls.parquet", "names.csv", "customers.csv"))
    words = ["price", "import", str(EXAMPLES / "trace.jsonl"), "--columns", str(out), "--names", str(names)]
    assert CliRunner().invoke(app, words).exit_code == 0
    given = [str(out), "--names", str(names), "--plan", "starter", "--plan", "pro", "--csv", str(sent)]
    code, text, err = told("back-test", *given, "--out", str(tmp_path / "out"), COLUMNS="300")
    assert (code, err) == (0, "")
    assert text.startswith(
        "Of 16 calls of 1 customer, 0 are newly refused and 3 newly admitted under B, compared with A; "
    )
    assert "Audit of A and B: 16 calls of 1 account made again at a service one by one: all equal." in text
    assert "acme" in text
    assert sent.read_text("utf-8").count("\nA,acme,starter,16,") == 1
    assert (tmp_path / "out" / "tables" / "days.parquet").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--accounts", str(EXAMPLES / "accounts.yaml"), "--plan", "pro"],
            "--accounts, --map and --skip-bad",
        ),
        (["--skip-bad", "--plan", "pro"], "--accounts, --map and --skip-bad are for ranksim price import"),
        ([], "is on; give --plan, or state it in --accounts and import again"),
    ],
)
def test_columns_with_what_does_not_fit(words: list[str], sentence: str, tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    assert CliRunner().invoke(
        app, ["price", "import", str(EXAMPLES / "trace.jsonl"), "--out", str(out)]
    ).exit_code == 0  # fmt: skip
    code, _, err = told("back-test", str(out), *words)
    assert (code, sentence in err) == (2, True), err


def test_names_go_with_columns() -> None:
    trace = str(EXAMPLES / "trace.jsonl")
    code, _, err = told("back-test", trace, "--plan", "pro", "--names", str(EXAMPLES / "rules.yaml"))
    assert (code, "--names goes with columns" in err) == (2, True)


def imported(tmp_path: Path, *customers: str) -> tuple[str, str]:
    """A file of columns of these customers, a call each, and one of their names."""
    rows = [f"2026-09-01T00:00:00Z,{name},GET,/v1/domains" for name in customers]
    (calls := tmp_path / "calls.csv").write_text("\n".join(["time,account,method,path", *rows, ""]))
    out, names = str(tmp_path / "calls.parquet"), str(tmp_path / "names.csv")
    words = ["price", "import", str(calls), "--out", out, "--names", names, "--salt", "s"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return out, names


@pytest.mark.parametrize("command", ["back-test", "search"])
def test_names_of_another_import_are_refused_and_missing_ones_counted(command: str, tmp_path: Path) -> None:
    out, names = imported(tmp_path, "acme", "beta", "gamma")
    words = [command, out, "--plan", "starter", "--names", names]
    words += ["--vary", "plans.starter.price=29 USD"] if command == "search" else []
    code, text, _ = told(*words, COLUMNS="300")
    assert (code, "no name of" in text, "acme, beta, gamma" in text) == (0, False, True)
    lines = Path(names).read_text().splitlines(keepends=True)
    Path(names).write_text("".join(lines[:2]))
    code, text, _ = told(*words, COLUMNS="300")
    assert (code, f"\n{names} has no name of 2 of 3 accounts.\n" in text) == (0, True)
    Path(names).write_text("".join([lines[0], "1,acme\n"]))
    code, text, err = told(*words, COLUMNS="300")
    expected = f"ranksim: {names}: expected names of the accounts of {out}, and has none of these; give"
    assert (code, text, err.count("\n"), err.startswith(expected)) == (2, "", 1, True)


@pytest.mark.parametrize("columned", [False, True])
def test_a_back_test_says_who_leaves(columned: bool, tmp_path: Path) -> None:
    out, _ = imported(tmp_path, "acme", "beta")
    of = out if columned else str(tmp_path / "calls.csv")
    words = ["back-test", of, "--plan", "starter", "--leave-price", "20%"]
    # From 29 to 129 USD a bill rises by 100 / 29: 1 - 0.2 * 3.448 = 0.3103 of each of the two stay.
    code, text, _ = told(*words, "--plan", "pro", COLUMNS="300")
    note = (
        "So 0.6207 of 2 customers stay or come under B, which then bills 80.07 USD at a margin of 80.07 USD"
    )
    assert (code, note in text, "by a tenth 2 % leave" in text) == (0, True, True)
    assert "USD, if all stay." in text
    code, text, err = told(*words, COLUMNS="300")
    assert (code, text, err.startswith("ranksim: --leave-price: of A alone no bill rises")) == (2, "", True)


def test_an_import_tells_whom_the_accounts_lack(tmp_path: Path) -> None:
    imported(tmp_path, "acme", *(f"c{n}" for n in range(7)))
    words = ["price", "import", str(tmp_path / "calls.csv"), "--out", str(tmp_path / "other.parquet")]
    accounts = EXAMPLES / "accounts.yaml"
    text = CliRunner().invoke(app, [*words, "--accounts", str(accounts)]).stdout
    assert f"\nNote: {accounts} lacks 7 customers of the recording, of whom " in text
    assert " but what their calls name: c0, c1, c2, c3, c4, …\n" in text
    assert "lacks" not in CliRunner().invoke(app, words).stdout


def test_a_salt_that_nobody_gives_is_drawn(tmp_path: Path) -> None:
    for out in ("a", "b"):
        words = ["price", "import", str(EXAMPLES / "trace.jsonl"), "--columns", str(tmp_path / out)]
        assert CliRunner().invoke(app, words).exit_code == 0
    first, second = (read_columns(tmp_path / out).accounts[0].name for out in ("a", "b"))
    assert first != second


def test_names_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("acme\n")
    with pytest.raises(BadInput, match="expected lines of number,name"):
        read_names(tmp_path / "names.csv")


FEW = [*shlex.split(COMMANDS["compare"]), "--set", "population.accounts=40"]
TITLES = (
    "What B changes",
    "Money",
    "Customers refused",
    "Blocked",
    "Margin of",
    "What would have been enough",
)


def titles(text: str) -> list[str]:
    return [title for title in TITLES if f"\n{title}" in text]


@pytest.mark.slow
def test_tables_are_shown_on_request(tmp_path: Path) -> None:
    code, text, _ = told("compare", *FEW, "--out", str(tmp_path / "out"))
    assert (code, titles(text)) == (0, [*TITLES[:3]])
    more = "margins, needs, more of differences; --tables NAME shows one, --tables all shows all."
    assert f" Further tables: {more} " in " ".join(text.split())
    page = (tmp_path / "out" / "page.html").read_text("utf-8")
    folded = re.findall(r"<summary><h3>(.*?)</h3>", page)
    assert folded == ["Blocked", "Margin of a customer, by percentile", "What would have been enough"]
    assert page.index("<h3>Customers refused</h3>") < page.index("<details>")
    code, text, _ = told("compare", *FEW, "--tables", "all")
    assert (code, titles(text), "Further tables" in text) == (0, [*TITLES], False)
    code, text, _ = told("compare", *FEW, "--tables", "needs", "--tables", "margins")
    assert (code, titles(text)) == (0, [*TITLES[4:]])


def test_a_table_that_no_answer_has_is_refused_at_once() -> None:
    code, text, err = told("back-test", "not there", "--tables", "invoice", COLUMNS="300")
    names = "terms, invoices, refusals, changes, unlike, calls, censored, customers, days"
    expected = f"expected all or one of {names}, found 'invoice'; did you mean 'invoices'?"
    assert (code, text, err) == (2, "", f"ranksim: --tables: {expected}\n")


def test_the_answer_to_a_question_is_not_lost_where_it_lacks_a_table(tmp_path: Path) -> None:
    words = ["back-test", str(EXAMPLES / "trace.jsonl"), "--plan", "pro", "--tables", "censored"]
    code, text, err = told(*words, COLUMNS="300")
    assert (code, text.startswith("Of 16 calls replayed"), err) == (0, True, "")
    assert text.endswith("\n\nNo rows to show: censored; this answer has invoices, calls.\n")
    code, text, _ = told(*words[:-1], "calls", COLUMNS="300")
    assert ("\nCalls\n" in text, text.count("jobs.create")) == (True, 2)  # also where none of them changes


@pytest.mark.parametrize("command", ASKED)
def test_every_table_that_is_printed_can_be_named(command: str) -> None:
    made = {
        "compare": ("compare", "own_account"), "break-even": ("break_even",), "pareto": ("pareto",),
        "back-test": ("back_test", "column_back_test", "recorded_sides"), "search": ("search",),
    }  # fmt: skip
    sources = [(ROOT / f"src/ranksim/planner/pricing/{name}.py").read_text("utf-8") for name in made[command]]
    printed = {name for text in sources for name in re.findall(r'(?:of_table|terms_view)\(\s*"(\w+)"', text)}
    assert printed == set(ASKED[command][2].split())


PRICE = "policy.catalogue.plans.pro.price"


def answered(name: str, *words: str) -> dict[str, Any]:
    code, out, err = told(name, *words, "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_b_is_a_with_what_is_set(tmp_path: Path) -> None:
    few = ["--population", str(EXAMPLES / "population.yaml"), "--replications", "2"]
    few += ["--set", "population.accounts=40"]
    now = rs.Policy().catalogue
    (tmp_path / "dearer.yaml").write_text(
        json.dumps(rs.price.changed(now, {"plans.pro.price": "149 USD"}).model_dump(mode="json"))
    )
    by_file = answered("compare", *few, "--b", str(tmp_path / "dearer.yaml"))
    by_flag = answered("compare", *few, "--set", f"{PRICE}=149 USD")
    assert by_flag["tables"] == by_file["tables"]
    assert "Of 40 customers" in by_flag["answer"]
    assert "B: illustrative with pro.price 149 USD." in by_flag["notes"][1]
    cheaper = answered("compare", *few, "--b", str(tmp_path / "dearer.yaml"), "--set", f"{PRICE}=130 USD")
    assert [row["b"] for row in cheaper["tables"]["changes"]] == ["130 USD"]


def test_demand_is_declared_as_for_a_search() -> None:
    few = ["--population", str(EXAMPLES / "population.yaml"), "--replications", "2"]
    few += ["--set", "population.accounts=40", "--leave-price", "50%"]
    compared = answered("compare", *few, "--set", f"{PRICE}=193.50 USD")
    assert compared["notes"][0].startswith(
        "Assumed, not measured: of customers whose bill rises by a tenth 5 %"
    )
    customers = {name: compared["metrics"][f"pro.customers.{name}"]["value"] for name in "ab"}
    assert 0.75 * customers["a"] < customers["b"] < 0.8 * customers["a"]  # add-ons cost what they did
    tried = answered("pareto", *few, "--vary", "plans.pro.price=193.50 USD")
    assert tried["notes"][0] == compared["notes"][0]
    code, out, err = told("compare", *few, "--b", "illustrative", "--leave-refused", "2")
    assert (code, out, err) == (
        2,
        "",
        "ranksim: --leave-refused: expected a share between 0 and 1, found 2.0\n",
    )


def test_set_changes_the_catalogue_of_the_other_questions() -> None:
    given = ["back-test", str(EXAMPLES / "trace.jsonl"), "--plan", "pro"]
    free = answered(*given, "--set", f"{PRICE}=0 USD")
    assert free["tables"] != answered(*given)["tables"]
    assert free["tables"] == answered(*given, "--set", "plans.pro.price=0 USD")["tables"]
    assert "A: pro of illustrative. B: pro of illustrative with pro.price 0 USD." in free["notes"][0]
    assert free["notes"][1].startswith("Nobody is assumed to leave")
    assert [(row["a"], row["b"]) for row in free["tables"]["terms"]] == [("129 USD", "0 USD")]
    assert (free["metrics"]["A.revenue"]["value"] > 0, free["metrics"]["B.revenue"]["value"]) == (True, 0)
    assert free["tables"] == answered(*given, "--plan", "pro", "--set", "plans.pro.price=0 USD")["tables"]


def test_an_account_of_a_scenario_is_compared_as_set() -> None:
    scenario = ["--scenario", str(ROOT / "scenarios" / "agency-month.yaml"), "--replications", "2"]
    of = ["--set", "scenario.accounts.agency.portfolio.domains=1", "--set", "policy.assumptions.cap=refuse"]
    answer = answered("compare", *scenario, *of, "--set", "policy.catalogue.plans.agency.price=1 USD")
    assert answer["tables"]["changes"] == [
        {"path": "plans.agency.price", "part": "plans", "name": "agency", "a": "2990 USD", "b": "1 USD",
         "commercial": True}
    ]  # fmt: skip


def test_prices_that_are_tried_have_their_unit() -> None:
    code, out, err = told(
        "pareto", "--population", str(EXAMPLES / "population.yaml"), "--vary", "plans.pro.price=99,129"
    )
    assert (code, out) == (2, "")
    assert err == "ranksim: --vary: plans.pro.price: write an amount such as '99 USD', found 99\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "compare --set plans.pro.prise=1",
            "--set plans.pro.prise: no parameter 'plans.pro.prise': plans.pro has",
        ),
        (
            "compare --set plans.pro.price=x",
            "--set plans.pro.price: write an amount such as '15 USD', found 'x'",
        ),
        ("pareto --vary plans.prp.price=3USD", "no parameter 'plans.prp.price': plans has no 'prp'"),
        (
            "pareto --vary policy.catalogue.plans.pro.price=x",
            "plans.pro.price: write an amount such as",
        ),
        ("pareto --vary plans.pro.page_cap=-1", "plans.pro.page_cap: expected at least 0, found -1"),
    ],
)
def test_paths_are_told_as_they_are_given(words: str, expected: str) -> None:
    code, out, err = told(*words.split(), "--population", str(EXAMPLES / "population.yaml"), COLUMNS="300")
    assert (code, out, err.startswith(f"ranksim: {expected}")) == (2, "", True), err


def test_a_comparison_wants_b_or_what_is_set() -> None:
    code, out, err = told("compare", "--population", str(EXAMPLES / "population.yaml"))
    assert (code, out) == (2, "")
    assert (
        err == "ranksim: --b: expected a catalogue, or what B changes of A, with --set policy.catalogue.…\n"
    )


@pytest.mark.parametrize("path", ["plan.pro.price", "policy.plans.pro.price", "pro.price"])
def test_a_wrong_path_is_answered_with_the_nearest(path: str) -> None:
    code, _, err = told("back-test", str(EXAMPLES / "trace.jsonl"), "--set", f"{path}=9 USD", COLUMNS="300")
    assert (code, "did you mean 'policy.catalogue.plans.pro.price'?" in err) == (2, True), err


@pytest.mark.parametrize(
    "of", [("compare", "--set", "plans.pro.price=1 USD"), ("pareto", "--vary", "plans.pro.price=1 USD,2 USD")]
)
def test_an_account_of_a_scenario_is_drawn_by_the_seed_of_its_file(
    of: tuple[str, ...], tmp_path: Path
) -> None:
    lines = "scenario: 1\nname: s\nstart: 2026-09-01T00:00:00Z\nlength: 1d\nseed: 3\n"
    lines += "accounts: {one: {plan: pro, portfolio: {keywords: 3}}}\n"
    lines += 'clients: {b: {account: one, kind: brief_refresher, every: day, at: "06:00", keywords: 2}}\n'
    (scenario := tmp_path / "s.yaml").write_text(lines)
    question = (*of, "--scenario", str(scenario), "--replications", "2")
    assert "seed 3" in str(answered(*question)["notes"])
    assert "seed 1" in str(answered(*question, "--seed", "1")["notes"])
