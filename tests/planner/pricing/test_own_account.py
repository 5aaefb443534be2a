"""One account of a scenario under two catalogues: its own domains, calendar and calls, as `run` has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.planner.capacity.drawn_scenarios import ACCOUNT, exported, scenarios, simulated

import ranksim as rs
from ranksim.core.contract.located import Located
from ranksim.core.errors import BadInput
from ranksim.core.money import MICRO_USD
from ranksim.planner.pricing.demand import Demand
from ranksim.planner.pricing.own_account import AccountComparison, compare_account
from ranksim.planner.pricing.pareto import changed, pareto_account

SHIPPED = rs.Policy().catalogue


def of_groups(*groups: dict[str, Any], clients: dict[str, Any], **changes: Any) -> rs.Scenario:
    """A scenario of 30 days of an account whose groups of domains differ."""
    data = {
        "name": "groups",
        "start": "2026-03-01T00:00:00Z",
        "length": "30d",
        "accounts": {"us": {"plan": "agency", "portfolio": groups[0], "further": list(groups[1:])}},
        "clients": {
            name: {"kind": "schedule", "account": "us", "job": "rank_run", **client}
            for name, client in clients.items()
        },
        **changes,
    }
    return rs.Scenario.read(Located("groups", data, {}))


def group(domains: int, keywords: int, pairings: int = 1, name: str = "site") -> dict[str, Any]:
    pairs = ["google/desktop", "google/mobile", "bing/desktop", "bing/mobile"][:pairings]
    hosts = [f"{name}{number}.example" for number in range(domains)]
    return {"domains": hosts, "keywords": keywords, "scans": [{"engine_devices": pairs}]}


def cost(answer: AccountComparison, side: str = "a") -> float:
    return float(answer.row("cost")[side]) / MICRO_USD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "dollars"),
    [
        (  # 48,000 slots twice a day, and 36,000 once, for 30 days at 0.0004 USD
            of_groups(
                group(1, 12_000, 4, "big"),
                group(30, 300, 4),
                clients={
                    "big": {"every": "12h", "at": "01:00", "domains": 1},
                    "all": {"every": "day", "at": "14:30"},
                },
            ),
            48_000 * 90 * 0.0004 + 36_000 * 30 * 0.0004,
        ),
        (  # only the five large ones are run
            of_groups(
                group(5, 1_200, 1, "large"),
                group(10, 10),
                clients={"large": {"every": "day", "at": "02:00", "domains": 5}},
            ),
            72.0,
        ),
    ],
    ids=["big client", "the large alone"],
)
def test_what_each_domain_costs_is_its_own(scenario: rs.Scenario, dollars: float) -> None:
    answer = compare_account(scenario, "illustrative", replications=2)
    assert cost(answer) == pytest.approx(dollars)
    assert not any(row["a"] for row in answer.differences if row["metric"] == "refused_cooldown_active")


@pytest.mark.slow
@settings(deadline=None)
@given(scenario=scenarios())
def test_an_account_whose_domains_differ_costs_what_its_run_costs(scenario: rs.Scenario) -> None:
    answer = compare_account(scenario, SHIPPED, replications=2, seed=1)
    run = simulated(scenario, replications=2)
    assert answer.own.scenario.length == scenario.length
    assert answer.row("cost")["a"] == run.metric(f"spend.{ACCOUNT}.max").mean
    assert answer.row("refused_rate_limited")["a"] == run.metric("refusals.rate_limited").mean
    assert answer.row("refused_cooldown_active")["b"] == run.metric("refusals.cooldown_active").mean


def test_an_exported_account_costs_what_the_account_itself_does() -> None:
    """Each domain is a site then."""
    clients = {"all": {"every": "12h", "at": "02:00"}}
    scenario = of_groups(group(2, 100, 2, "a"), group(1, 50, 1, "b"), clients=clients)
    assert exported(scenario).accounts["us"].sites
    answer, again = (
        compare_account(each, "illustrative", replications=2) for each in (scenario, exported(scenario))
    )
    assert cost(answer) == pytest.approx(450 * 60 * 0.0004)
    assert again.differences == answer.differences


SMALL = of_groups(group(2, 100), clients={"all": {"every": "day", "at": "02:00"}})


def test_money_is_revenue_less_what_the_work_costs() -> None:
    dearer = changed(SHIPPED, {"plans.agency.price": "3000 USD"})
    answer = compare_account(SMALL, dearer, replications=2)
    assert (answer.row("revenue")["a"], answer.row("revenue")["b"]) == (2_990 * MICRO_USD, 3_000 * MICRO_USD)
    assert cost(answer) == cost(answer, "b") == pytest.approx(2 * 100 * 30 * 0.0004)
    assert answer.row("margin")["difference"] == 10 * MICRO_USD
    assert answer.sentence == (
        "B differs from A in 1 value: plan agency. In 30d B earns 10.00 USD more margin than A (the same in "
        "every replication) from the account us, on agency; none of its calls is refused."
    )
    assert (
        "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal." in answer.notes
    )
    assert "customers" not in answer.sentence + " ".join(answer.notes)


def test_how_many_such_customers_stay_is_told_where_money_counts_by_it() -> None:
    """Of customers whose bill rises by a tenth a twentieth leave."""
    dearer = changed(SHIPPED, {"plans.agency.price": "3289 USD"})
    answer = compare_account(SMALL, dearer, replications=2, demand=Demand(price=0.5))
    assert answer.row("revenue")["b"] == pytest.approx(3_289 * MICRO_USD * answer.staying)
    assert answer.staying == pytest.approx(0.95)
    assert answer.notes[0].endswith("So 95 % stay, and money under B counts by that share.")
    assert "stay" not in compare_account(SMALL, dearer, replications=2).notes[0]


def test_a_limit_refuses_its_calls() -> None:
    tighter = changed(SHIPPED, {"plans.agency.cost_ceiling": "1 USD"})
    answer = compare_account(SMALL, tighter, replications=2)
    refused = answer.row("refused_cost_cap_reached")
    assert (refused["a"], refused["b"]) == (0, 60 - 25)  # 0.04 USD a run, of which 1 USD carries 25
    assert cost(answer, "b") == pytest.approx(1.0)
    assert answer.sentence.endswith("cost_cap_reached refuses 35 of its calls, under A 0.")
    assert {text.get_text() for text in answer.plot().texts} >= {"A 0", "B 35"}


def test_a_price_that_is_not_known_is_not_taken_for_nothing() -> None:
    unknown = SHIPPED.model_copy(
        update={
            "name": "mirror",
            "prices_known": False,
            "plans": {
                name: plan.model_copy(update={"price": 0}) for name, plan in SHIPPED.plans.items()
            },
        }
    )  # fmt: skip
    answer = compare_account(SMALL, SHIPPED, a=unknown, replications=2)
    assert "The margin is not known, since A does not know what agency costs" in answer.sentence
    assert "costs the provider 2.40 USD under A and 2.40 USD under B" in answer.sentence
    assert {row["metric"] for row in answer.differences if row["unit"] == "money"} == {"cost"}
    with pytest.raises(
        BadInput, match=r"catalogue: mirror does not know what agency costs a month; write it into"
    ):
        pareto_account(SMALL, {"plans.agency.slot_limit": [10, 20]}, catalogue=unknown)
    known = pareto_account(
        SMALL, {"plans.agency.price": ["99 USD", "100 USD"]}, catalogue=unknown, replications=2
    )
    assert [row["change"] for row in known.points] == [0, MICRO_USD]
    assert "difference to agency.price 99 USD, as the catalogue does not know its own price" in known.notes[1]


def test_plans_and_add_ons_are_paid_for_the_time_that_they_are_bought() -> None:
    timeline = [
        {"at": "10d", "do": "change_plan", "account": "us", "plan": "pro"},
        {"at": "20d", "do": "set_add_on", "account": "us", "add_on": "brief_pack", "count": 2},
    ]
    moving = of_groups(group(1, 10), clients={"all": {"every": "day", "at": "02:00"}}, timeline=timeline)
    answer = compare_account(moving, SHIPPED, replications=2)
    pack = SHIPPED.add_ons["brief_pack"].price
    assert answer.row("plan_prices")["a"] == pytest.approx((2_990 + 2 * 129) * MICRO_USD / 3, abs=1)
    assert answer.row("add_ons")["a"] == pytest.approx(2 * pack / 3, abs=1)


def test_prices_that_the_timeline_sets_hold_from_then_on_under_both() -> None:
    price = {"at": "10d", "do": "set", "path": "policy.catalogue.plans.agency.price", "value": "1490 USD"}
    cheaper = SHIPPED.unit_costs.model_copy(update={"rank_run_keyword": 200})
    answer = compare_account(
        SMALL.replace(timeline=[price]), SHIPPED.model_copy(update={"unit_costs": cheaper}), replications=2
    )
    revenue = (2_990 + 2 * 1_490) * MICRO_USD / 3
    assert [answer.row("revenue")[side] for side in "ab"] == pytest.approx([revenue] * 2, abs=1)
    assert f"holds under every catalogue: {price['path']}." in " ".join(answer.notes)


@pytest.mark.parametrize("path", ["plans.agency.price", "plans.agency"])
def test_a_timeline_that_sets_what_is_compared_is_refused(path: str) -> None:
    value = "1 USD" if path.endswith("price") else {"price": "1 USD"}
    action = {"at": "9d", "do": "set", "path": f"policy.catalogue.{path}", "value": value}
    scenario, refusal = (
        SMALL.replace(timeline=[action]),
        rf"sets policy.catalogue.{path}, in which.*ranksim run",
    )
    with pytest.raises(BadInput, match=refusal):
        compare_account(scenario, changed(SHIPPED, {"plans.agency.price": "99 USD"}), replications=2)
    with pytest.raises(BadInput, match=refusal):
        pareto_account(scenario, {"plans.agency.price": ["99 USD", "100 USD"]}, replications=2)


def test_a_shorter_scenario_is_gone_on_with_for_a_month() -> None:
    week = of_groups(group(2, 100), clients={"all": {"every": "day", "at": "02:00"}}, length="7d")
    answer = compare_account(week, SHIPPED, replications=2)
    assert cost(answer) == pytest.approx(2.4)
    assert "The scenario's 1w are gone on with to 30d, the month of prices." in answer.notes


def test_ranks_are_run_daily_where_nobody_says() -> None:
    answer = compare_account(of_groups(group(2, 100), clients={}), SHIPPED, replications=2)
    assert cost(answer) == pytest.approx(2.4)
    assert "No client of the scenario runs ranks: every domain is taken to be run every 1d." in answer.notes


def test_plans_of_other_accounts_need_not_be_sold() -> None:
    other = {"plan": "pro", "portfolio": {"domains": 1}}
    both = SMALL.replace(accounts={"us": SMALL.accounts["us"].model_dump(mode="json"), "them": other})
    agency = SHIPPED.model_copy(update={"plans": {"agency": SHIPPED.plans["agency"]}})
    answer = compare_account(both, agency, account="us", replications=2)
    assert cost(answer, "b") == pytest.approx(2.4)
    with pytest.raises(BadInput, match=r"accounts\.them: B has no plan 'pro'.*--move pro=PLAN"):
        compare_account(both, agency, account="them", replications=2)
    moved = compare_account(both, agency, account="them", moves={"pro": "agency"}, replications=2)
    assert moved.row("revenue")["b"] == 2_990 * MICRO_USD


def test_the_chance_that_it_stays_is_the_share_of_its_money() -> None:
    demand = Demand(price=0.5, refused=0.25)
    dearer = changed(SHIPPED, {"plans.agency.price": "3588 USD"})  # a fifth more
    answer = compare_account(SMALL, dearer, replications=2, demand=demand)
    work = 2 * 100 * 30 * 0.0004
    assert answer.row("revenue")["b"] == pytest.approx(3_588 * MICRO_USD * 0.9)
    assert answer.row("margin")["b"] == pytest.approx((3_588 - work) * MICRO_USD * 0.9)
    assert answer.row("granted")["difference"] == 0  # its calls are those of one who stays
    grid = {"plans.agency.cost_ceiling": ["1 USD", "100 USD"], "plans.agency.price": ["3588 USD"]}
    tight, loose = pareto_account(SMALL, grid, replications=2, demand=demand).points
    assert loose["margin"] == pytest.approx((3_588 - work) * MICRO_USD * 0.9)
    assert tight["margin"] == pytest.approx((loose["margin"] + 1.4 * MICRO_USD * 0.9) * 0.75)


def test_an_account_whose_bill_falls_is_not_multiplied() -> None:
    cheaper = changed(SHIPPED, {"plans.agency.price": "1495 USD"})
    demand = Demand(price=0.5)
    answer = compare_account(SMALL, cheaper, replications=2, demand=demand)
    assert answer.row("revenue")["b"] == pytest.approx(1_495 * MICRO_USD)
    assert not any("come" in note for note in answer.notes)
    half = {"plans.agency.price": ["1495 USD"]}
    (point,) = pareto_account(SMALL, half, replications=2, demand=demand).points
    assert point["margin"] == answer.row("margin")["b"]


def test_points_of_a_grid_are_runs_of_the_scenario() -> None:
    answer = pareto_account(SMALL, {"plans.agency.cost_ceiling": ["1 USD", "100 USD"]}, replications=2)
    tight, loose = answer.points
    assert (tight["blocked"], loose["blocked"]) == (pytest.approx(35 / 60), 0)
    assert (tight["margin"] - loose["margin"]) / MICRO_USD == pytest.approx(1.4)
    assert answer.views()[0].title == "Margin against blocked calls for work"
    assert "Blocked: of the calls for work of us." in answer.notes
