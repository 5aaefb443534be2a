"""`ranksim capacity …`: what it prints, in words and as JSON, its flags' variables, and how it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.report import progress

COMMANDS = {
    "slots": "--keywords 100 --adds 2 --limit 130 --law fixed --days 20",
    "sync": "--keywords 30000 --batch 100",
    "workers": "--jobs crawl=10 --jobs rank_run=30 --over 30m --profile 1,2 --replications 2",
    "outage": "--length 1h --every 5m --law regular --replications 10",
    "fit": "--domains 30 --keywords 300 --pairings 4 --run-every 1d --growth 2 --spread 5m",
    "portfolio": "--plan agency --pairings 4 --geographies 3",
}

SENTENCES = {
    "slots": "30 fresh words fit; by day 20 an addition has been refused with a chance of 100 %.",
    "sync": "300 requests take 1m30s without refusals under gcra: call while RateLimit",
    "workers": "Workers so that 95 % start within 5m: ",
    "outage": "Of 12 events in 1h, 12 are lost and 0 come late; the endpoint is disabled",
    "fit": "The plan agency fits, for 2,990.00 USD a month; the work costs the provider 446.40 USD. At",
    "portfolio": "The plan agency carries 13,333 keywords; what binds first: keyword slots",
}


def invoke(*words: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["capacity", *words], env=environment)
    return result.exit_code, result.stdout, result.stderr


def policy_file(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text("assumptions: {window: gcra}\n", encoding="utf-8")
    return str(path)


def test_each_month_of_a_growth_is_as_in_python(tmp_path: Path) -> None:
    """Two domains join on 1 April 2026 whose ranks run on Fridays: four in April, June, August and so on."""
    account = {"plan": "pro", "portfolio": {"domains": ["old.example"], "keywords": 10}}
    runs = {"kind": "schedule", "account": "us", "job": "rank_run", "every": "week", "weekday": "friday"}
    joins = {"at": "2026-04-01T00:00:00Z", "do": "add_domains", "account": "us", "domains": 2}
    world = {"scenario": 1, "start": "2026-03-01T00:00:00Z", "length": "60d", "accounts": {"us": account}}
    file = tmp_path / "fridays.json"
    file.write_text(json.dumps(world | {"clients": {"runs": runs}, "timeline": [joins]}))
    growth = ",".join(["1"] * 12)
    code, out, _ = invoke("fit", "--scenario", str(file), "--growth", growth, "--json")
    assert code == 0
    months = [row for row in json.loads(out)["tables"]["months"] if row["plan"] == "pro"]
    fridays = [4, 4, 5, 4, 5, 4, 4, 5, 4, 4, 5, 4]  # of March 2026 and on
    domains = [1] + [3] * 11
    cost = [4_000 * times * each for times, each in zip(fridays, domains, strict=True)]
    assert [row["provider_cost_uusd"] for row in months] == cost
    python = rs.capacity.fit(file, growth=growth)
    assert [month.sizes["pro"].cost for month in python.months] == cost


@pytest.mark.parametrize("name", COMMANDS)
def test_it_answers_in_json(name: str, tmp_path: Path) -> None:
    code, out, err = invoke(name, *COMMANDS[name].split(), "--json", "--policy", policy_file(tmp_path))
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["answer"].startswith(SENTENCES[name])
    assert answer["tables"]["answer"]


@pytest.mark.parametrize("name", COMMANDS)
def test_it_answers_with_a_table(name: str, tmp_path: Path) -> None:
    code, out, err = invoke(name, *COMMANDS[name].split(), "--policy", policy_file(tmp_path), COLUMNS="200")
    assert (code, err) == (0, "")
    assert out.startswith(SENTENCES[name])
    assert "───" in out


@pytest.mark.parametrize("name", ["slots", "outage"])
def test_it_simulates_beside_it_when_asked(name: str) -> None:
    _, out, _ = invoke(name, *COMMANDS[name].split(), "--replications", "3", "--json")
    row = json.loads(out)["tables"]["answer"][0]
    assert row.get("observed_used") or row["simulated"]


def test_every_flag_has_a_variable() -> None:
    variables = {"RANKSIM_CAPACITY_SYNC_KEYWORDS": "240", "RANKSIM_CAPACITY_SYNC_JSON": "1"}
    _, out, _ = invoke("sync", "--batch", "2", **variables)
    assert json.loads(out)["answer"].startswith("120 requests")
    for name in COMMANDS:
        _, out, _ = invoke(name, "--help")
        text = "".join(out.split())
        flags = [
            word for word in out.split() if word.startswith("--") and not word.startswith(("--help", "--no-"))
        ]
        for flag in {flag.strip(",.;") for flag in flags if flag.strip("-").replace("-", "").isalpha()}:
            variable = f"RANKSIM_CAPACITY_{name}_{flag[2:]}".upper().replace("-", "_")
            assert variable in text, flag


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("slots --keywords 1 --adds 1 --plan gold", "plan: no plan 'gold'; expected one of free, starter"),
        ("slots --keywords 1 --adds 1 --start soon", "--start: 'soon' is not an ISO 8601 instant"),
        ("slots --keywords 1 --adds 1 --law even", "law: expected one of poisson, fixed, found even"),
        ("slots --keywords 1 --adds nan", "adds: expected words a day, from 0 to 100000, found nan"),
        ("sync --keywords 10 --latency fast", "--latency: 'fast' is not a duration"),
        ("workers --jobs crawl", "--jobs: expected NAME=COUNT such as crawl=40, found 'crawl'"),
        ("workers --jobs dance=3", "--jobs: no kind 'dance'; expected one of rank_run, crawl"),
        ("workers --jobs crawl=3 --profile 1,x", "--profile: expected weights such as 1,3,2,1, found '1,x'"),
        ("workers --jobs crawl=3 --jobs crawl=4", "--jobs: crawl is given twice; give one number of each"),
        ("outage --length 7d --every 1s", "replications: expected at most 1,000,000 events in all simulated"),
        ("slots --keywords 1 --adds 1 --limit -1", "limit: expected 0 or more, found -1"),
        ("outage --length 0s --every 1h", "length: expected a duration above 0, found 0"),
        ("outage --length 1h --every 1h --replications -1", "replications: expected at least 1, found -1"),
        ("portfolio --plan pro --grow cats", "grow: expected one of keywords, domains, found cats"),
        ("portfolio --plan pro --add-on x", "--add-on: expected NAME=COUNT such as crawl=40, found 'x'"),
        ("sync --keywords 1 --policy missing.yaml", "missing.yaml: "),
    ],
)
def test_bad_input_is_one_sentence(words: str, message: str) -> None:
    code, out, err = invoke(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"ranksim: {message}")
    assert err.count("\n") == 1


def test_it_is_listed_and_loads_nothing_heavy() -> None:
    path = [entry for entry in sys.path if entry]
    code = (
        f"import sys; sys.path[:0] = {path!r}; import ranksim.cli, ranksim.report.answer; "
        "print(*sorted({'numpy', 'scipy', 'simpy', 'matplotlib', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    _, out, _ = invoke("--help")
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_writes_a_page_with_its_figures(name: str, tmp_path: Path) -> None:
    out = tmp_path / "answer"
    code, output, _ = invoke(name, *COMMANDS[name].split(), "--out", str(out))
    assert (code, output.rstrip().endswith(f"Written to {out}")) == (0, True)
    page = (out / "page.html").read_text(encoding="utf-8")
    plots = list((out / "plots").glob("*.png"))
    assert (SENTENCES[name][:8] in page, page.count("<figure>") == len(plots) > 0) == (True, True)
    assert f"<h2>Run it again</h2><pre>ranksim capacity {name} --" in page.replace("\n", "")
    assert json.loads((out / "result.json").read_text(encoding="utf-8"))["tables"]


def test_a_scenario_is_answered_as_flags_are(tmp_path: Path) -> None:
    world = tmp_path / "world.yaml"
    world.write_text(
        "start: 2026-03-01\nlength: 1d\naccounts: {acme: {plan: agency, portfolio: {domains: 30, "
        "keywords: 300, scans: [{engine_devices: [a/b, a/c, a/d, a/e]}]}}}\n",
        encoding="utf-8",
    )
    _, by_flags, _ = invoke("fit", *COMMANDS["fit"].split(), "--json")
    _, by_scenario, _ = invoke("fit", "--scenario", str(world), "--spread", "5m", "--json")
    tables = [json.loads(said)["tables"] for said in (by_scenario, by_flags)]
    read = [{row["assumption"] for row in by_name.pop("readings")} for by_name in tables]
    assert tables[0] == tables[1]
    assert read[0] == read[1] | {"U45", "U51"}  # a scenario has months of its own, and jobs that are joined
    assert any("No client of the scenario runs ranks" in note for note in json.loads(by_scenario)["notes"])
    code, _, err = invoke("fit", "--scenario", str(world), "--domains", "3")
    assert (code, "domains: the scenario says what is tracked" in err) == (2, True)
    code, _, err = invoke("fit", "--account", "acme")
    assert (code, "--account: only a scenario has accounts" in err) == (2, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_set_is_as_if_the_policy_said_so(name: str, tmp_path: Path) -> None:
    by_file = invoke(name, *COMMANDS[name].split(), "--json", "--policy", policy_file(tmp_path))
    assert (
        invoke(name, *COMMANDS[name].split(), "--json", "--set", "policy.assumptions.window=gcra") == by_file
    )


def test_set_reaches_a_scenario_its_policy_and_the_catalogue_asked_about() -> None:
    fewer = [
        "--scenario",
        "scenarios/agency-month.yaml",
        "--set",
        "scenario.accounts.agency.portfolio.domains=2",
    ]
    for plan, more in (("agency", []), ("team", ["--catalogue", "illustrative-metered"])):
        price = f"policy.catalogue.plans.{plan}.price=1 USD"
        code, out, err = invoke("fit", *fewer, *more, "--set", price, "--json")
        answer = json.loads(out)
        assert (code, err) == (0, "")
        assert answer["metrics"][f"{plan}.plan_price"]["value"] == 1_000_000
        assert " 2 domains" in " ".join(answer["notes"])
    assert invoke("sync", "--keywords", "9", "--set", "scenario.length=1d")[2].startswith(
        "ranksim: --set scenario.length: no parameter 'scenario.length': no input 'scenario'"
    )


def test_it_shows_how_far_it_is_with_what_it_simulates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "start: 2026-03-01T00:00:00Z\n"
        "length: 31d\n"
        "accounts: {acme: {plan: agency, portfolio: {domains: 1, keywords: 1}}}\n"
        "timeline: [{do: add_domains, at: 3d, account: acme, domains: 1}]\n",
        encoding="utf-8",
    )
    code, _, err = invoke("fit", "--scenario", str(scenario), "--json")
    lines = re.findall(r"ranksim: simulating: ([\d.]+) %, about", err)
    assert code == 0
    assert len(lines) == 2 * 153  # after each day of two worlds of 153 days: a month and four more
    assert [*map(float, lines)] == sorted(map(float, lines))
    assert float(lines[-1]) > 99
