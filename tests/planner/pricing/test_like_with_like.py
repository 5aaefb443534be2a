"""Whoever B changes nothing for shows no difference at all, and plans add up to everybody's money."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from flat_customers import population as flat_population
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.planner.fleet.population import Population
from ranksim.planner.pricing.catalogues import alike, read_catalogue
from ranksim.planner.pricing.compare import Comparison, compare
from ranksim.planner.pricing.paired_metrics import METRICS, MONEY, PERCENTILES
from ranksim.planner.pricing.pareto import changed

EXAMPLES = Path(__file__).parents[3] / "examples" / "pricing"
PLANS = ("starter", "pro", "agency")

OURS = "{starter: 6, pro: {weight: 3, add_ons: {brief_pack: 1}}, agency: 1}"


def customers(plans: str = OURS) -> Population:
    """A dozen customers, of whom some join late and some leave, and who meet limits within days."""
    return Population.parse(f"""
accounts: 12
start: 2026-01-27T00:00:00Z
length: 8d
joins: 0.3
churn: 0.3
segments:
  few:
    plans: {plans}
    portfolio: {{domains: 2, keywords: {{lognormal: {{median: 30, sigma: 1, most: 400}}}}, engine_devices: 2}}
    usage:
      rank_run: {{lognormal: {{median: 3, sigma: 1, most: 20}}}}
      keywords: 0.5
      keyword_briefs: 3
      crawl: 0.4
    after_refusal:
      cooldown_active: {{retry: 0.7, wait: told}}
      quota_exhausted: {{retry: 0.5, wait: told}}
""")


TERMS: dict[str, st.SearchStrategy[Any]] = {
    "price": st.sampled_from(["0 USD", "17 USD", "129 USD"]),
    "cost_ceiling": st.sampled_from(["0.10 USD", "1 USD", "2400 USD"]),
    "slot_limit": st.integers(0, 300),
    "page_cap": st.integers(0, 300),
    "capabilities": st.sets(st.sampled_from(["rank_tracking", "site_crawl", "keyword_briefs"])).map(sorted),
    "quotas.keyword_brief_refreshes.limit": st.integers(0, 60),
    "cooldowns.rank_run": st.sampled_from([0, "1m", "6h", "3d"]),
    "cooldowns.keyword_briefs": st.sampled_from([0, "1h"]),
}


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[Catalogue, Catalogue, str]:
    """Two catalogues and the plan that is the same in both."""
    same, *others = draw(st.permutations(PLANS))

    def terms(plans: list[str]) -> dict[str, Any]:
        return {
            f"plans.{plan}.{name}": value
            for plan in plans
            for name, value in draw(st.fixed_dictionaries({}, optional=TERMS)).items()
        }

    a = changed(shipped_catalogue("illustrative"), terms([same, *others]) or {"plans.pro.price": "9 USD"})
    b = changed(a, terms(others) or {f"plans.{others[0]}.price": "7 USD"})
    return a, b, same


def nothing_differs(found: Comparison, plan: str) -> None:
    for metric in METRICS:
        row = found.row(metric, plan)
        assert row["a"] == row["b"], row
        assert (row["difference"], row["low"], row["high"]) in ((0, 0, 0), (0, None, None)), row
        assert row["gain"] is None, row
    assert all(row["a"] == row["b"] for row in found.margins if row["plan"] == plan)


def plans_add_up(found: Comparison) -> None:
    plans = dict.fromkeys(row["plan"] for row in found.differences if row["plan"] != "all")
    for metric in MONEY:
        for column in ("a", "b", "difference"):
            parts = [found.row(metric, plan)[column] for plan in plans]
            assert math.isclose(sum(parts), found.row(metric)[column], rel_tol=1e-12, abs_tol=1e-3)


@pytest.mark.slow
@settings(max_examples=15)
@given(catalogues(), st.integers(0, 1000))
def test_an_unchanged_plan_shows_no_difference(sides: tuple[Catalogue, Catalogue, str], seed: int) -> None:
    a, b, same = sides
    found = compare(customers(), a, b, replications=2, seed=seed)
    plans_add_up(found)
    if any(row["plan"] == same for row in found.differences):
        assert same in found.unchanged
        nothing_differs(found, same)


@pytest.mark.parametrize(
    ("name", "plans"), [("illustrative", OURS), ("illustrative-metered", "{free: 1, team: 1, studio: 1}")]
)
def test_a_shipped_catalogue_against_itself(name: str, plans: str) -> None:
    sold = shipped_catalogue(name)
    found = compare(customers(plans), sold, sold, replications=2)
    assert found.changes == ()
    for plan in dict.fromkeys(row["plan"] for row in found.differences):
        nothing_differs(found, plan)


def test_the_shipped_example_leaves_agencies_as_they_were() -> None:
    some = Population.load(EXAMPLES / "population.yaml").replace(accounts=30, length="10d")
    found = compare(some, *map(read_catalogue, ("illustrative", EXAMPLES / "tighter.yaml")), replications=2)
    assert found.unchanged == ("agency",)
    assert found.row("hit_any", "agency")["a"] > 0
    assert found.row("blocked", "agency")["a"] > 0
    nothing_differs(found, "agency")
    plans_add_up(found)


def test_how_jobs_run_makes_a_difference_where_both_say_so() -> None:
    """The same two catalogues, with B saying that jobs take ten times as long."""
    some = Population.load(EXAMPLES / "population.yaml").replace(accounts=30, length="10d")
    a, b = alike(read_catalogue("illustrative"), read_catalogue(EXAMPLES / "tighter.yaml"))
    slow = changed(b, {"job_durations.rank_run": {"lognormal": {"median": "40m", "sigma": 0.5}}})
    found = compare(some, a, slow, replications=2)
    assert found.unchanged == ()
    assert found.row("blocked", "agency")["difference"] != 0


def test_a_plan_that_is_on_in_some_replications_counts_nothing_in_the_others() -> None:
    rare = flat_population("{starter: 9, pro: 1}", accounts=3, briefs="30")
    found = compare(rare, *[shipped_catalogue("illustrative")] * 2, replications=4, seed=2)
    on = [row for row in found.differences if row["plan"] == "pro"]
    of = {row["metric"]: (row["of"], row["base"]) for row in on}
    served = of["blocked"][0]
    assert 0 < served < 4  # or the customers would be of no use
    assert of["revenue"] == (4, "replications")
    assert of["negative"][1] == "customers"
    assert sum(found.row("negative", plan)["of"] for plan in ("starter", "pro")) == 4 * 3
    assert found.row("negative")["of"] == 4 * 3
    plans_add_up(found)
    assert {row["of"] for row in found.margins if row["plan"] == "pro"} == {of["negative"][0]}
    assert len([row for row in found.margins if row["plan"] == "pro"]) == len(PERCENTILES)
    less = flat_population("{starter: 9, pro: 1}", accounts=3, briefs="10")
    tighter = compare(less, *alike(*map(read_catalogue, ("illustrative", EXAMPLES / "tighter.yaml"))),
                      replications=4, seed=2)  # fmt: skip
    views = {view.title: view for view in tighter.views()}
    # Told once of money, which is of all replications, and in each row where plans differ.
    assert views["Money"].note.endswith("; of 4 replications; where A and B differ.")
    assert "mean of" not in views["Money"].headings
    told = {row[1]: row[2] for view in views.values() for row in view.rows if row[0] == "pro"}
    assert told["wants more"].endswith(" customers")
    assert told["blocked"] == f"{served} replications"


@pytest.mark.parametrize(("price", "share"), [("3.60 USD", 0), ("3.59 USD", 1)])
def test_no_share_is_certain(price: str, share: int) -> None:
    """Twenty customers, of whom nobody, or everybody, loses money: a bound says how sure that is."""
    roomy = changed(
        shipped_catalogue("illustrative"), {"plans.pro.quotas.keyword_brief_refreshes.limit": 1000}
    )
    a = changed(roomy, {"plans.pro.price": price})
    b = changed(roomy, {"plans.pro.price": price, "plans.pro.slot_limit": 4000})
    row = compare(flat_population("pro"), a, b, replications=2).row("negative")
    none = 1 - 0.025 ** (1 / 20)
    assert (row["a"], row["b"], row["of"]) == (share, share, 20)
    assert (row["a_low"], row["a_high"]) == pytest.approx((0, none) if not share else (1 - none, 1))
    half = 1.959964**2 / (20 + 1.959964**2)
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((0, -half, half))
