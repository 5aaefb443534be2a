"""Studies of fleets: parameters, metrics, margins, and a goal whose answer is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.study.fleets import MARGINS, METRICS, Fleets, earned
from ranksim.planner.study.study import Study
from ranksim.twin.sim.runner import replication_seed

POPULATION = Population.parse(
    """
accounts: 30
start: 2026-01-01T00:00:00Z
length: 30d
segments:
  shops:
    plans: {starter: 1, pro: 1}
    portfolio: {domains: 2, keywords: 20}
    usage: {rank_run: {lognormal: {median: 2, sigma: 1}}, read: 5}
churn: 0.2
joins: 0.3
"""
)
FLEETS = Fleets(POPULATION, compiled=False)
PRO = "policy.catalogue.plans.pro"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("population.accounts", 50, lambda p, _: p.accounts == 50),
        ("population.plan", "agency", lambda p, _: list(p.segments["shops"].plans) == ["agency"]),
        ("population.segments.shops.usage.rank_run", 3,
         lambda p, _: p.segments["shops"].usage.rank_run.first == 3),
        ("population.segments.shops.portfolio.keywords", {"uniform": {"low": 1, "high": 9}},
         lambda p, _: p.segments["shops"].portfolio.keywords.kind == "uniform"),
        ("population.segments.shops.after_refusal.cooldown_active.retry", 0.5,
         lambda p, _: p.segments["shops"].after_refusal.cooldown_active.retry == 0.5),
        (f"{PRO}.cost_ceiling", "9 USD",
         lambda _, policy: policy.catalogue.plans["pro"].cost_ceiling == 9_000_000),
    ],
)  # fmt: skip
def test_a_parameter_is_set(path: str, value: Any, found: Callable[[Any, Any], bool]) -> None:
    FLEETS.check_path(path)
    assert found(*FLEETS.build({path: value}))
    assert not found(*FLEETS.build({}))
    assert FLEETS.meaning(FLEETS.build({path: value})) != FLEETS.meaning(FLEETS.build({}))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("population.acounts", "population has no 'acounts'; did you mean 'accounts'?"),
        ("population.segments.shop.past_due", "population.segments has no 'shop'; did you mean 'shops'?"),
        ("population.segments.shops.usage.rank_run.first", "usage.rank_run has no parts"),
        ("scenario.length", "no input 'scenario'; did you mean 'population.length'?"),
        ("scenario.pools", "no parameter 'scenario.pools': no input 'scenario'; expected one of "),
    ],
)
def test_a_parameter_that_there_is_not(path: str, message: str) -> None:
    with pytest.raises(ValueError, match="no parameter") as caught:
        FLEETS.check_path(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [3, None, ["pro"]])
def test_a_plan_is_named_by_text(value: Any) -> None:
    with pytest.raises(BadInput, match="plan: expected the name of a plan, found "):
        FLEETS.build({"population.plan": value})


def test_a_plan_that_is_not_on_sale() -> None:
    with pytest.raises(BadInput, match=r"variants\.b\.population\.plan: .*no plan 'gold'"):
        Study.of(POPULATION, variants={"a": {}, "b": {"population.plan": "gold"}}).run()


def test_the_metrics_are_those_that_a_fleet_gives() -> None:
    found = FLEETS.observe(FLEETS.build({}), 1, 0).metrics
    assert {name for name in found if not name.startswith("plans.")} == set(METRICS)
    for name in found:
        FLEETS.check_metric(name)
    units = {FLEETS.unit_of(name): name for name in METRICS}
    assert units.keys() == {"count", "share", "duration", "money"}
    with pytest.raises(
        ValueError, match=r"no metric 'plans\.por\.hit\.any'; did you mean 'plans\.pro\.hit\.any'"
    ):
        FLEETS.check_metric("plans.por.hit.any")


def test_an_account_pays_for_the_days_that_it_is_served() -> None:
    result = simulate_fleet(POPULATION, Policy(), replication_seed(1, 0), compiled=False)
    prices = {name: plan.price for name, plan in Policy().catalogue.plans.items()}
    served = (result.customers["leaves"] - result.customers["joins"]).tolist()
    expected = [
        prices[plan] * time / (30 * DAY)
        for plan, time in zip(result.plan_names.tolist(), served, strict=True)
    ]
    assert earned(result).tolist() == pytest.approx(expected, abs=1)
    assert min(served) < 30 * DAY
    metrics = FLEETS.observe(FLEETS.build({}), 1, 0).metrics
    margins = np.array(expected) - result.tallies["spend"]
    assert metrics["margin.mean"] == pytest.approx(margins.mean(), abs=1)
    assert metrics["margin.negative"] == (margins < 0).mean()
    assert MARGINS[0] in metrics
    assert metrics["plans.pro.revenue.total"] + metrics["plans.starter.revenue.total"] == pytest.approx(
        metrics["revenue.total"]
    )


@pytest.mark.compiled
def test_the_highest_ceiling_without_losses_is_half_the_price() -> None:
    """Thirty days touch two billing months, so the price of 129 USD bounds twice the ceiling: 64.50 USD."""
    path = Path(__file__).parents[3] / "examples" / "studies" / "ceiling.yaml"
    (row,) = Study.load(path).run().tables["goals"]
    assert (row["status"], row["answer"]) == ("found", "60 USD")


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same(tmp_path: Path) -> None:
    made = Study.of(
        FLEETS,
        variants={"now": {}, "strict": {f"{PRO}.cooldowns.rank_run": "6h"}},
        measure=["refusals.total", "plans.pro.margin.mean"],
        replications=2,
    )
    one = made.run(store=tmp_path / "one")
    assert made.run(workers=2, store=tmp_path / "two").to_json() == one.to_json()
    assert one.compare("strict", "now")[0]["difference"] > 0
