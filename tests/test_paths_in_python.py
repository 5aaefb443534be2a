"""Python takes the paths and names that the command line takes, and answers as from what stands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.outage import Outage
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.slots import Churn
from ranksim.planner.capacity.sync import Sync

ROOT = Path(__file__).parents[1]
PRICING = ROOT / "examples" / "pricing"
TIGHTER, TRACE, ACCOUNTS = (str(PRICING / name) for name in ("tighter.yaml", "trace.jsonl", "accounts.yaml"))
SCENARIO = str(ROOT / "scenarios" / "quickstart.yaml")
CUSTOMERS = """\
accounts: 20
start: 2026-03-02T00:00:00Z
length: 1d
segments:
  agencies: {plans: {pro: 1}, portfolio: {domains: 2, keywords: 10}, usage: {rank_run: 1}}
"""
GRID = {"plans.pro.price": ["99 USD"]}
FEW: dict[str, Any] = {"replications": 2, "compiled": False}

capacity, price = rs.capacity, rs.price


def test_columns_are_made_kept_and_tried_by_paths(tmp_path: Path, policy: str) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")
    file, names = (str(tmp_path / name) for name in ("calls.parquet", "names.csv"))
    price.save_columns(price.columns_of(TRACE, accounts=ACCOUNTS), file, names=names)
    made = price.read_columns(file, names)
    assert [account.name for account in made.accounts] == ["acme"]
    tried = [
        price.back_test_columns(columns, [price.Side(TIGHTER)], policy=policy, compiled=False)
        for columns in (file, made)
    ]
    assert tried[0].served[0].cost.sum() == tried[1].served[0].cost.sum() > 0
    with pytest.raises(BadInput, match=r"give it to ranksim price back-test, or rs.price.back_test_columns"):
        price.back_test(file, [price.Side(TIGHTER)])


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text("assumptions: {window: clock}\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def population(tmp_path: Path) -> str:
    path = tmp_path / "population.yaml"
    path.write_text(CUSTOMERS, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "asked",
    [
        lambda who, now, b, policy: price.compare(who, now, b, policy=policy, **FEW).tables,
        lambda who, now, _, policy: price.break_even(who, now, policy=policy, step=40_000_000, **FEW).tables,
        lambda who, now, _, policy: price.pareto(who, now, GRID, policy=policy, **FEW).tables,
        lambda _, now, b, policy: price.changed(b, {"plans.pro.price": "99 USD"}),
    ],
    ids=["compare", "break_even", "pareto", "changed"],
)
def test_prices_are_asked_by_paths_and_names(asked: Callable[..., Any], population: str, policy: str) -> None:
    read = rs.Population.load(population), rs.Policy().catalogue, price.read_catalogue(TIGHTER)
    assert asked(population, "illustrative", TIGHTER, policy) == asked(*read, rs.Policy.load(policy))


def test_a_recording_is_replayed_by_its_path(policy: str) -> None:
    sides = [price.Side(TIGHTER), price.Side("illustrative")]
    by_path = price.back_test(TRACE, sides, accounts=ACCOUNTS, policy=policy)
    sides = [price.Side(price.read_catalogue(TIGHTER)), price.Side(rs.Policy().catalogue)]
    known, under = price.read_accounts(ACCOUNTS), rs.Policy.load(policy)
    read = price.back_test(price.read_recording(TRACE), sides, accounts=known, policy=under)
    assert by_path.tables == read.tables


@pytest.mark.parametrize(
    "asked",
    [
        lambda policy: capacity.fit(domains=3, keywords=10, policy=policy).sentence,
        lambda policy: capacity.largest(Portfolio(domains=3), "pro", policy).sentence,
        lambda policy: capacity.sync_time(Sync(keywords=1000), policy).sentence,
        lambda policy: capacity.outage_cost(Outage(length="3h", every="5m"), policy).sentence,
        lambda policy: capacity.disabled_after(3, policy),
        lambda policy: capacity.peaks_of({"rank_run": 3}, policy, "1h"),
        lambda policy: capacity.scenario_outage(SCENARIO, "1h", policy=policy).sentence,
        lambda policy: (
            capacity.simulate_slot_use(
                Churn(keywords=100, adds=5), 300, policy=policy, replications=2
            ).sentence
        ),
    ],
    ids=["fit", "largest", "sync_time", "outage_cost", "disabled_after", "peaks_of", "scenario", "slot_use"],
)
def test_capacity_is_asked_under_the_policy_of_a_file(asked: Callable[[Any], Any], policy: str) -> None:
    assert asked(policy) == asked(Path(policy)) == asked(rs.Policy.load(policy))


@pytest.mark.slow
def test_the_largest_portfolio_is_that_of_a_scenario_of_its_account_on_its_plan() -> None:
    scenario = rs.Scenario.load(SCENARIO)
    asked = capacity.largest(SCENARIO, grow="domains")
    (account,) = scenario.accounts
    named = capacity.largest(scenario, scenario.accounts[account].plan, account=account, grow="domains")
    of_workload = capacity.largest(
        capacity.workload_of(SCENARIO), asked.plan, scenario.policy, grow="domains"
    )
    assert asked.sentence == named.sentence == of_workload.sentence
    with pytest.raises(BadInput, match="account: only a scenario has accounts"):
        capacity.largest(Portfolio(), "pro", account=account)


@pytest.mark.parametrize(
    "asked",
    [
        lambda policy: rs.compare(TRACE, policy).sentence,
        lambda policy: rs.calibrate(TRACE, policy).dump(),
        lambda policy: rs.Study.of(SCENARIO, policy, name="one", change={"scenario.length": "8d"}).spec,
    ],
    ids=["compare", "calibrate", "Study.of"],
)
def test_a_trace_is_judged_and_a_study_made_under_the_policy_of_a_file(
    asked: Callable[[Any], Any], policy: str
) -> None:
    assert asked(policy) == asked(Path(policy)) == asked(rs.Policy.load(policy))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: rs.Scenario.load(3), "scenario: expected the path of a file, found 3"),
        (lambda: rs.Scenario.parse(3), "scenario: expected YAML text; `load` reads"),
        (lambda: rs.Policy.load(3), "policy: expected the path of a file, found 3"),
        (lambda: rs.compare(TRACE, 3), "policy: expected the path of a file, found 3"),
        (lambda: rs.limits(TRACE, 20), "limits: expected a limit such as '20/2s', found 20"),
        (lambda: rs.capacity.fit(3), "fit: expected a portfolio, a scenario or its file, found 3"),
        (lambda: rs.Study.of(3), "study: expected a scenario, the path of one, or a population, found 3"),
    ],
    ids=["Scenario.load", "Scenario.parse", "Policy.load", "compare", "limits", "fit", "Study.of"],
)
def test_a_value_of_a_wrong_kind_is_refused_in_a_sentence(asked: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        asked()


@pytest.mark.slow
def test_the_workload_of_a_scenario_is_asked_by_its_path() -> None:
    assert capacity.workload_of(SCENARIO) == capacity.workload_of(rs.Scenario.load(SCENARIO))


def test_a_name_that_is_nothing_is_said_so(population: str) -> None:
    with pytest.raises(BadInput, match="ilustrative: no such catalogue; give a YAML file, or one of"):
        price.compare(population, "ilustrative", TIGHTER)
