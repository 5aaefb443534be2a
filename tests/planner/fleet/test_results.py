"""What a result says of its accounts, months, plans and operations adds up."""

from collections import Counter

import numpy as np
import pytest

from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import CODES, HOUR, NEVER_HAPPENED, FleetResult
from ranksim.planner.fleet.rows import ACTIVITIES, OUTCOMES

POPULATION = Population.parse("""
accounts: 60
start: 2026-01-15T00:00:00Z
length: 70d
joins: 0.3
churn: 0.3
segments:
  shops:
    plans: {free: 1, starter: 1, pro: {weight: 1, add_ons: {brief_pack: 1}}}
    portfolio: {domains: 2, keywords: {uniform: {low: 5, high: 200}}}
    usage: {read: 5, rank_run: 3, keyword_briefs: {pareto: {least: 1, shape: 1}}, keywords: 1, crawl: 0.5}
    after_refusal: {cooldown_active: {retry: 0.5}, quota_exhausted: {retry: 0.2}}
""")


@pytest.fixture(scope="module")
def result() -> FleetResult:
    return simulate_fleet(POPULATION, Policy(), seed=2, log=10**6)


def test_accounts_add_up(result: FleetResult) -> None:
    accounts = result.accounts
    refused = sum(accounts[code] for code in CODES)
    assert (accounts["calls"] == accounts["admitted"] + refused).all()
    assert (accounts["calls"] == result.counts.sum(axis=(1, 2))).all()
    assert (accounts["requests"] <= accounts["calls"]).all()
    assert (accounts["upgradable"] <= refused).all()
    assert ((accounts["first_blocked"] == NEVER_HAPPENED) == (accounts["blocked"] == 0)).all()
    for code in CODES:
        blocked = accounts[f"blocked_{code}"]
        assert ((accounts[code] > 0) == (blocked > 0)).all(), code
        assert (blocked <= accounts["leaves"] - accounts["joins"]).all()
    parts = [accounts[f"blocked_{code}"] for code in CODES if code != "entitlement_required"]
    assert (accounts["blocked"] <= sum(parts)).all()
    assert (accounts["blocked"] >= np.max(parts, axis=0)).all()
    assert (accounts["slots_wanted"] >= accounts["slots_peak"]).all()
    assert (accounts["spend_peak"] <= accounts["spend"]).all()
    assert (accounts["upgradable"][accounts["enough"]] == 0).all()
    assert 0 < accounts["enough"].sum() < 60


def test_months_add_up_to_accounts(result: FleetResult) -> None:
    months = result.by_month
    for name in ("calls", "admitted", "spend", "blocked"):
        sums = np.bincount(months["account"], weights=months[name], minlength=60)
        assert (sums == result.accounts[name]).all(), name
    assert (months["begins"] < months["ends"]).all()
    days = (months["ends"] - months["begins"]) / (24 * HOUR)
    assert days.max() <= 31
    refused = months["refused"] + months["limited"]
    assert refused.sum() == result.refusals.sum()
    assert (months["blocked"] <= months["ends"] - months["begins"]).all()


def test_plans_and_operations_add_up(result: FleetResult) -> None:
    *plans, total = result.plans()
    assert [row["plan"] for row in plans] == ["free", "starter", "pro"]
    assert total["plan"] == "all"
    for name in total:
        if name != "plan":
            assert total[name] == sum(row[name] for row in plans), name
    assert total["accounts"] == 60
    operations = result.operations()
    assert sum(row["calls"] for row in operations) == total["calls"]
    for row in operations:
        assert row["calls"] == sum(row[outcome] for outcome in OUTCOMES)
        assert row["operation"] in ACTIVITIES
    assert sum(row["quota_exhausted"] for row in operations) == total["quota_exhausted"]


def test_the_log_is_what_was_counted(result: FleetResult) -> None:
    counted = Counter((ACTIVITIES[entry["activity"]], OUTCOMES[entry["outcome"]]) for entry in result.log)
    totals = result.counts.sum(axis=0)
    for index, activity in enumerate(ACTIVITIES):
        for number, outcome in enumerate(OUTCOMES):
            assert counted[activity, outcome] == totals[index, number]


def test_scalars_and_readable_plans_say_the_same(result: FleetResult) -> None:
    scalars, total = result.scalars(), result.plans()[-1]
    assert scalars["calls.total"] == total["calls"]
    assert scalars["refusals.total"] == sum(total[code] for code in CODES)
    assert scalars["hit.quota_exhausted"] == total["hit_quota_exhausted"] / 60
    assert scalars["plans.pro.spend.total"] == result.plans()[2]["spend"]
    readable = result.readable_plans()[-1]
    assert readable["refused_share"] == scalars["refusals.share"]
    assert readable["blocked_hours"] == pytest.approx(scalars["blocked.mean"] / HOUR)
    assert readable["spend_usd"] == pytest.approx(scalars["spend.total"] / 1e6)


def test_quantiles_are_those_of_the_accounts(result: FleetResult) -> None:
    quantiles = result.quantiles("spend", (0.5, 0.9), plan="pro")
    spent = result.accounts["spend"][result.accounts["plan"] == "pro"]
    assert list(quantiles.values()) == np.quantile(spent, [0.5, 0.9]).tolist()
    assert np.isnan(result.quantiles("calls", (0.5,), plan="agency")[0.5])
    for column in ("cost", "plan"):
        with pytest.raises(BadInput, match=f"no numbers in '{column}'; expected one of account, joins"):
            result.quantiles(column)


def test_frames(result: FleetResult) -> None:
    assert len(result.frame()) == 60
    assert result.frame("months")["calls"].sum() == result.accounts["calls"].sum()
    assert list(result.frame("plans")["plan"]) == ["free", "starter", "pro", "all"]
    assert len(result.frame("operations")) == len(result.operations())
    log = result.frame("log")
    assert len(log) == len(result.log)
    assert str(log["at"].dtype) == "datetime64[us, UTC]"
    raw, frame = result.frame(integers=True), result.frame()
    assert frame["joins"].dt.as_unit("us").astype("int64").tolist() == raw["joins"].tolist()
    assert (frame["blocked"].dt.total_seconds() * 1e6).round().tolist() == raw["blocked"].tolist()
    assert (frame["spend"] * 1e6).round().tolist() == raw["spend"].tolist()
    assert frame["first_blocked"].isna().tolist() == (raw["first_blocked"] == NEVER_HAPPENED).tolist()
    assert {str(frame[name].dt.tz) for name in ("first_blocked", "leaves")} == {"UTC"}
    with pytest.raises(BadInput, match="expected one of accounts, months, plans, operations, log"):
        result.frame("weeks")


def test_add_ons_needed_are_enough(result: FleetResult) -> None:
    """Run anew with as many packs as the account that needs most: no quota refuses any more."""
    most = int(result.add_ons_needed("brief_pack").max())
    assert most > 1
    plans = {plan: {"add_ons": {"brief_pack": most + 1}} for plan in ("free", "starter", "pro")}
    after = simulate_fleet(POPULATION.replace(segments={"shops": {"plans": plans}}), Policy(), seed=2)
    assert result.scalars()["refusals.quota_exhausted"] > 0
    assert after.scalars()["refusals.quota_exhausted"] == 0
    assert not after.add_ons_needed("brief_pack").any()


def test_only_neighbours_of_one_run_join() -> None:
    one = simulate_fleet(POPULATION, accounts=(0, 2))
    for other in (
        simulate_fleet(POPULATION, accounts=(3, 4)),
        simulate_fleet(POPULATION, accounts=(2, 4), seed=1),
        simulate_fleet(POPULATION.on("pro"), accounts=(2, 4)),
    ):
        with pytest.raises(BadInput, match="consecutive accounts of one run"):
            FleetResult.joined([one, other])
    with pytest.raises(BadInput, match="at least one part"):
        FleetResult.joined([])
