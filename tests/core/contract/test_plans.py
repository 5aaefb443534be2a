"""Catalogues: what they must hold, and the two that come with the package."""

from pathlib import Path

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.contract import policy
from ranksim.core.contract.located import validate
from ranksim.core.contract.plans import CAPABILITY_OF, Catalogue
from ranksim.core.contract.policy import CATALOGUES, shipped_catalogue
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput

SMALL = """\
name: small
note: for a test
plans:
  only:
    price: 1 USD
    capabilities: [rank_tracking]
    quotas:
      rank_runs: {limit: 5, period: month, consumed_by: [rank_run]}
    slot_limit: 10
    dimensions: {max_engine_devices: 1, max_geographies: 1}
    cost_ceiling: 1 USD
    cooldowns: {rank_run: 1h}
    page_cap: 10
    call_cap: 10
unit_costs:
  rank_run_page: 0.001 USD
  crawl_page: 0 USD
  site_optimization_page: 0 USD
  ai_scan_call: 0 USD
  keyword_brief: 0 USD
"""


def catalogue(text: str) -> Catalogue:
    return validate(Catalogue, load_yaml(text, "c.yaml"))


@pytest.mark.parametrize("name", CATALOGUES)
def test_shipped_catalogues_say_what_they_are(name: str) -> None:
    shipped = shipped_catalogue(name)
    assert shipped.name == name
    assert shipped.note == "illustrative; not the service's real prices"


@pytest.mark.parametrize("name", CATALOGUES)
@pytest.mark.fact("S101", "S108", "S109", "S110")
def test_metrics_of_shipped_catalogues(name: str) -> None:
    shipped = shipped_catalogue(name)
    for plan in shipped.plans.values():
        for metric, quota in plan.quotas.items():
            assert quota.period == ("week" if metric == "keyword_brief_refreshes" else "month")
        assert plan.quotas["research_lookups"].consumed_by == ()
    pack = shipped.add_ons["brief_pack"]
    assert (pack.metric, pack.amount, pack.price) == ("keyword_brief_refreshes", 50, 15_000_000)


@pytest.mark.fact("U46")
@pytest.mark.parametrize("name", CATALOGUES)
def test_the_json_of_a_shipped_catalogue_says_what_its_yaml_says(name: str) -> None:
    folder = Path(policy.__file__).parents[2] / "data" / "catalogues"
    written = validate(Catalogue, read_yaml(folder / f"{name}.yaml"))
    assert shipped_catalogue(name) == written, "run scripts/shipped_json"
    assert shipped_catalogue(name).model_fields_set == written.model_fields_set, "run scripts/shipped_json"
    assert shipped_catalogue(name).model_dump_json() == written.model_dump_json()


def test_cooldowns_of_the_illustrative_catalogue() -> None:
    for plan in shipped_catalogue("illustrative").plans.values():
        assert plan.cooldowns == {"rank_run": HOUR, "crawl": DAY, "site_optimization": DAY, "ai_scan": 0}


def test_the_agency_plan_carries_a_large_agency() -> None:
    illustrative = shipped_catalogue("illustrative")
    agency = illustrative.plans["agency"]
    slots = 12_000 * 2 * 2 * 3
    assert slots <= agency.slot_limit
    assert agency.dimensions.max_engine_devices >= 4
    assert agency.dimensions.max_geographies >= 3
    assert slots * 31 * illustrative.unit_costs.rank_run_page <= agency.cost_ceiling


@pytest.mark.fact("U106")
def test_the_metered_catalogue_has_operations_under_quota_slots_and_cooldown_at_once() -> None:
    team = shipped_catalogue("illustrative-metered").plans["team"]
    assert team.metric_of("keywords") == "keyword_changes"
    assert "keywords" in team.cooldowns
    assert team.metric_of("rank_run") == "rank_runs"
    assert team.metric_of("scans") is None


def test_what_a_catalogue_leaves_out_is_filled_in() -> None:
    small = catalogue(SMALL)
    assert small.plans["only"].name == "only"
    assert small.add_ons == {}
    assert small.capability_of == CAPABILITY_OF
    assert small.job_durations["rank_run"].mean() == 4 * MINUTE
    assert set(small.job_failure_rates.values()) == {0}


def test_a_partial_table_keeps_the_rest() -> None:
    more = "capability_of: {scans: scanning}\njob_durations: {crawl: 1m}\njob_failure_rates: {crawl: 7}\n"
    small = catalogue(SMALL + more)
    assert small.capability_of["scans"] == "scanning"
    assert small.capability_of["keywords"] == "rank_tracking"
    assert small.job_durations["crawl"].mean() == MINUTE
    assert small.job_durations["rank_run"].mean() == 4 * MINUTE
    assert small.job_failure_rates == {"rank_run": 0, "crawl": 7, "site_optimization": 0, "ai_scan": 0}


@pytest.mark.parametrize(
    ("text", "thousandths"), [("10 %", 100), ("2.5%", 25), ("0 %", 0), ("100 %", 1000), ("7", 7)]
)
def test_a_failure_rate_is_a_share_or_thousandths(text: str, thousandths: int) -> None:
    assert (
        catalogue(f"{SMALL}job_failure_rates: {{crawl: {text}}}\n").job_failure_rates["crawl"] == thousandths
    )


@pytest.mark.parametrize("text", ["0.1", "0.25 %", "ten %", "true", "100.1 %"])
def test_a_failure_rate_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"job_failure_rates\.crawl: (write a share such as|expected at most)"):
        catalogue(f"{SMALL}job_failure_rates: {{crawl: {text}}}\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "rank_runs: {limit: 5, period: month, consumed_by: [rank_run]}",
            "a: {limit: 5, period: month, consumed_by: [rank_run]}\n"
            "      b: {limit: 1, period: week, consumed_by: [rank_run]}",
            "c.yaml:4: plans.only: rank_run consumes at most one metric of a plan, once",
        ),
        (
            "[rank_run]}",
            "[rank_runs]}",
            "c.yaml:8: plans.only.quotas.rank_runs.consumed_by[0]: expected one of rank_run, crawl, "
            "site_optimization, ai_scan, keyword_briefs, keywords, scans, found 'rank_runs'; did you "
            "mean 'rank_run'?",
        ),
        (
            "period: month",
            "period: day",
            "c.yaml:8: plans.only.quotas.rank_runs.period: expected one of week, month, found 'day'",
        ),
        (
            "{rank_run: 1h}",
            "{rankrun: 1h}",
            "c.yaml:12: plans.only.cooldowns.rankrun: expected one of rank_run, crawl, site_optimization, "
            "ai_scan, keyword_briefs, keywords, scans, found 'rankrun'; did you mean 'rank_run'?",
        ),
        (
            "slot_limit: 10",
            "slot_limit: -1",
            "c.yaml:9: plans.only.slot_limit: expected at least 0, found -1",
        ),
        (
            "price: 1 USD",
            "price: 1",
            "c.yaml:5: plans.only.price: write an amount such as '1 USD', found 1",
        ),
        (
            "    page_cap: 10\n",
            "",
            "c.yaml:4: plans.only.page_cap: is missing; add it",
        ),
        (
            "    page_cap: 10\n",
            "    page_cup: 10\n",
            "c.yaml:13: plans.only.page_cup: no such field; did you mean 'page_cap'?",
        ),
        (
            "note: for a test\n",
            "note: for a test\nplanz: {}\n",
            "c.yaml:3: planz: no such field; did you mean 'plans'?",
        ),
        (
            "unit_costs:\n",
            "add_ons:\n  x: {metric: y, amount: 1, price: 1 USD}\nunit_costs:\n",
            "c.yaml:1: the add-on 'x' extends 'y', a quota that no plan has",
        ),
    ],
)
def test_broken_catalogues(old: str, new: str, message: str) -> None:
    assert SMALL.count(old) == 1
    with pytest.raises(BadInput) as caught:
        catalogue(SMALL.replace(old, new))
    assert str(caught.value) == message
