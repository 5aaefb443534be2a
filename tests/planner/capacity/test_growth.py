"""Growth in time: each month is the answer for its own size, and twelve simulated months agree."""

from __future__ import annotations

import calendar
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planner.capacity.test_plan_fit import METERED, POLICY, world

import ranksim as rs
from ranksim.core.clock import DAY, iso
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.growth import fits_until, grown_domains, growth_of, months_view
from ranksim.planner.capacity.limits import SPEND
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.planned import OwnAccount, workload_of
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.workload import Used
from ranksim.report import units

ALIKE = Portfolio(domains=20, keywords=25, pairings=1, run_every="1d", spread="10m")


@pytest.mark.parametrize(
    ("text", "months", "last"),
    [
        ("×2 / year", 12, 2.0),
        ("x2/year", 12, 2.0),
        ("2 per year", 12, 2.0),
        ("+5 % / month", 12, 1.05**12),
        ("1.05 / month", 12, 1.05**12),
        ("×2 / year for 3 years", 36, 8.0),
        ("5 % / month for 18 months", 18, 1.05**18),
        ("1, ×1.2, 1.5", 3, 1.5),
    ],
)
def test_rates_are_compounded_and_series_are_as_written(text: str, months: int, last: float) -> None:
    largest, path = growth_of(text)
    assert (len(path), path[-1], largest) == (months, pytest.approx(last), pytest.approx(last))
    if text != "1, ×1.2, 1.5":
        assert [b / a for a, b in pairwise((1.0, *path))] == pytest.approx([path[0]] * months)


def test_a_rate_may_be_of_fewer() -> None:
    largest, path = growth_of("−4 % / month")
    assert (largest, path) == (1, growth_of("-4 % / month")[1])
    assert path == pytest.approx([0.96**month for month in range(1, 13)])


def test_part_of_a_domain_is_one_more_and_rounding_is_none() -> None:
    tenths = Fraction(11, 10)
    for domains in range(1, 200):
        for month in range(1, 7):  # millionths of a domain at the finest
            assert grown_domains(domains, 1.1**month) == math.ceil(domains * tenths**month)
    assert [grown_domains(30, 1.05), grown_domains(10, 3.02), grown_domains(7, 0.01)] == [32, 31, 1]
    assert [grown_domains(30, 2), grown_domains(30, 60.000000001 / 30), grown_domains(1, 64 ** (1 / 3))] == [
        60, 60, 4,
    ]  # fmt: skip
    answer = fit(replace(ALIKE, domains=30), growth="5 % / month")
    assert [month.domains for month in answer.months][:3] == [32, 34, 35]  # 31.5, 33.075, 34.72875
    assert answer.plans[0].grown.domains == answer.months[-1].domains == 54  # 53.876


def test_a_month_is_not_taken_to_be_as_large_as_its_growth_is_stated() -> None:
    """12 domains that grow by 11 % are 14, which is 17 % more."""
    view = months_view(fit(replace(ALIKE, domains=12), growth="1.11,1.11").months)
    assert (view.headings[2:4], view.rows[0][2:4]) == (("stated growth", "domains"), ("×1.11", "14"))
    assert "rounded up: they may grow by more than stated" in view.note


def test_a_factor_alone_has_no_months() -> None:
    assert growth_of("2") == growth_of(2) == (2, ())
    assert fit(ALIKE, growth=2).months == ()


@pytest.mark.parametrize(
    "text",
    [
        "much",
        "",
        "0 / year",
        "1,,2",
        "nan,1",
        "1,0",
        "1,2000",
        "2 / day",
        "0.5",
        "-100 % / month",
        "2 / year for 0 years",
        "2 / year for 11 years",
    ],
)
def test_what_is_no_growth_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="growth: expected"):
        fit(ALIKE, growth=text)


@pytest.mark.slow
@given(st.lists(st.floats(0.05, 20), min_size=2, max_size=3))
def test_each_month_is_what_its_size_alone_comes_to(factors: list[float]) -> None:
    answer = fit(ALIKE, METERED, growth=",".join(map(repr, factors)))
    for month, factor in zip(answer.months, factors, strict=True):
        domains = grown_domains(ALIKE.domains, factor)
        alone = fit(Portfolio(domains=domains, keywords=25, pairings=1, spread="10m"), METERED, growth=1)
        assert month.domains == domains
        assert {plan.plan: plan.now for plan in alone.plans} == month.sizes
        best = alone.cheapest()
        assert (month.plan, month.price) == ((best.plan, best.now.price) if best else (None, None))
        for size in month.sizes.values():
            assert size.fits is not bool(size.breaks)


def test_of_what_is_used_only_the_present_month_knows() -> None:
    """500 slots are all that starter has: what is held comes on top, and the next month begins without."""
    held = replace(
        ALIKE.workload, used=Used({}, spent=0, held=1, month=10 * DAY, week=3 * DAY, left=21 * DAY)
    )
    months = fit(held, growth="1,1").months
    assert [month.sizes["starter"].fits for month in months] == [False, True]


def test_where_no_plan_ever_fits_it_is_said_once() -> None:
    answer = fit(Portfolio(domains=40, keywords=3000, pairings=4), growth="×2 / year")
    assert answer.sentence.startswith("No plan fits in any of 12 months. The nearest is agency: ")
    assert answer.sentence.count("fit") == 1
    assert answer.verdict == "no plan fits in any of 12 months"


def test_the_sentence_names_the_month_to_upgrade_and_what_breaks() -> None:
    """20 × 25 words are the 500 slots of starter, 24 × 25 are within the 5,000 of pro, 220 × 25 are not."""
    answer = fit(ALIKE, growth="1,1.2,11")
    assert {plan: fits_until(plan, answer.months) for plan in answer.months[0].sizes} == {
        "free": 0, "starter": 1, "pro": 2, "agency": 3,
    }  # fmt: skip
    assert "starter in month 1; pro in month 2 (what breaks of starter: keyword slots" in answer.sentence
    assert "agency from month 3 (what breaks of pro: " in answer.sentence
    assert "The 3 months cost 3,148.00 USD, and the provider " in answer.sentence  # 29 + 129 + 2,990


def test_one_month_that_has_a_price_is_one() -> None:
    answer = fit(Portfolio(domains=100, keywords=1), growth="1,1.02")
    assert "no plan from month 2" in answer.sentence
    assert "The month that has a price costs 29.00 USD, and the provider " in answer.sentence


def test_a_year_costs_what_its_plans_do_month_by_month() -> None:
    """Six months of starter at 29 USD, as 24 × 20 words fit its 500 slots and 30 × 20 do not; six of pro."""
    answer = fit(Portfolio(domains=6, keywords=20), growth="×16 / year")
    assert (
        "starter until month 6; pro from month 7 (what breaks of starter: keyword slots)" in answer.sentence
    )
    work = sum(month.sizes[month.plan].cost for month in answer.months if month.plan)
    assert work == sum(month.domains * 20 * 31 * 400 for month in answer.months)  # µUSD a page
    assert (
        f"The 12 months cost {6 * 29 + 6 * 129}.00 USD, and the provider {units.usd(work)}."
        in answer.sentence
    )


@pytest.mark.slow
def test_twelve_simulated_months_refuse_where_a_plan_no_longer_fits() -> None:
    """Every plan in every month of a year, as worlds of 31 days with what there is at the month's end."""
    answer = fit(Portfolio(domains=2, keywords=10, pairings=1, spread="20m"), growth="×90 / year")
    borders = 0
    for plan in answer.months[0].sizes:
        until = fits_until(plan, answer.months)
        borders += 0 < until < 12
        for month in answer.months:
            portfolio = Portfolio(domains=month.domains, keywords=10, pairings=1, spread="20m")
            fits = month.sizes[plan].fits
            assert fits is (month.month <= until)
            assert fits is not _refuses(portfolio, plan), (plan, month.month)
    assert borders >= 2


def joined(*timeline: dict[str, Any]) -> rs.Scenario:
    """Two domains of ten words, whose ranks are run nightly with those of all that join them."""
    return rs.Scenario.model_validate(
        {
            "start": "2026-03-01T00:00:00Z",
            "length": "365d",
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 2, "keywords": 10}}},
            "clients": {"runs": {"kind": "schedule", "account": "acme", "job": "rank_run", "spread": "20m"}},
            "timeline": tuple({"account": "acme", **action} for action in timeline),
        }
    )


YEAR = ",".join(["1"] * 12)
"""A year without growth."""


def nights(month: int, since: str = "2026-03-01", until: str = "2027-03-01") -> int:
    """The nights from a date until another in a month, counted from March 2026 on."""
    first, last = (date(2026 + at // 12, 1 + at % 12, 1) for at in (month + 1, month + 2))
    days = min(last, date.fromisoformat(until)) - max(first, date.fromisoformat(since))
    return max(0, days.days)


def spent_by_month(scenario: rs.Scenario, months: int = 12) -> list[int]:
    """What an account spends in each month of a run, counted from March 2026 on (µUSD)."""
    spent = Counter[int]()
    for row in rs.run(scenario.replace(sample_every="1h")).frame("spend").itertuples():
        before = row.t - timedelta(microseconds=1)
        month = (before.year - 2026) * 12 + before.month - 2
        spent[month] = max(spent[month], round(row.spent_usd * 1e6))
    return [spent[month] for month in range(1, 1 + months)]


TEN_JOIN = {"do": "add_domains", "at": "2026-06-09T00:00:00Z", "domains": 10}


@pytest.mark.parametrize(
    ("goes", "there"),
    [("2026-09-20", range(4, 8)), ("2026-10-01", range(4, 8))],
)
def test_what_a_timeline_adds_is_there_from_its_month_to_the_one_in_which_it_goes(
    goes: str, there: range
) -> None:
    removal = {"do": "remove_domains", "at": f"{goes}T00:00:00Z", "domains": 10}
    scenario = joined(TEN_JOIN, removal)
    answer = fit(scenario, growth=YEAR)
    for month, spent in zip(answer.months, spent_by_month(scenario), strict=True):
        joined_nights = nights(month.month, "2026-06-09", goes)
        assert bool(joined_nights) is (month.month in there)
        assert spent == (2 * nights(month.month) + 10 * joined_nights) * 10 * 400
        assert {size.cost for size in month.sizes.values()} == {spent}
        assert month.domains == 2
    assert " ".join(answer.notes).count("number of domains is without those of the timeline") == 1


def nightly(domains: int, *timeline: dict[str, Any]) -> rs.Scenario:
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "at": "02:00"}
    portfolio = {"domains": domains, "keywords": 10}
    return joined(*timeline).replace(
        accounts={"acme": {"portfolio": portfolio}}, clients={"runs": {**runs, "spread": "0s"}}
    )


@pytest.mark.slow
def test_domains_that_join_are_started_with_the_others() -> None:
    """Five tries of 20 a minute: 100 are let in at once, and the starts of 105 are too many."""
    joining = nightly(95, {"do": "add_domains", "at": "3d", "domains": 10})
    together, apart = fit(nightly(105), growth=1), fit(workload_of(joining), joining.policy, growth=1)
    assert not any(plan.now.fits for plan in (*together.plans, *apart.plans))
    in_time = fit(joining, growth=1)
    assert next(plan.now.fits for plan in in_time.plans if plan.plan == "agency")
    assert {then.later.changes: then.plan for then in in_time.later} == {"the account gets 10 domains": None}
    assert (apart.burst.starts, apart.burst.refused, apart.burst.given_up) == (105, 225, 5)
    assert apart.burst == together.burst
    for answer in (together, apart):
        (agency,) = (plan for plan in answer.plans if plan.plan == "agency")
        (within,) = (use for use in agency.limits if use.now.name == "job starts in 1h")
        assert within.now.need == 105
    assert fit(nightly(90, TEN_JOIN), growth=1).later[-1].sizes["agency"].fits


@pytest.mark.slow
def test_domains_that_have_gone_again_are_started_no_more() -> None:
    removal = {"do": "remove_domains", "at": "2026-08-20T00:00:00Z", "domains": 10}
    months = fit(nightly(95, TEN_JOIN, removal), growth="1,1,1,1,1,1,1,1").months
    assert [month.sizes["agency"].fits for month in months] == [True] * 3 + [False] * 3 + [True] * 2
    named = {"domains": ("new.example",), "at": "3d", "do": "add_domains"}
    first = nightly(100, named).replace(clients={"runs": {"domains": 100}})
    assert fit(first, growth=1).later[-1].sizes["agency"].fits


def costs(scenario: rs.Scenario, growth: str) -> list[int]:
    return [month.sizes["agency"].cost for month in fit(scenario, growth=growth).months]


@pytest.mark.slow
@pytest.mark.parametrize(("goes", "held"), [("2026-05-01", 3), ("2026-06-01", 4), ("2026-06-20", 4)])
def test_what_has_gone_grows_no_more(goes: str, held: int) -> None:
    """A domain of 5,000 words goes, whose slots are held for the month; the two that are left are doubled."""
    removal = {"do": "remove_domains", "at": f"{goes}T00:00:00Z", "domains": ("big.example",)}
    big = {"domains": ("big.example",), "keywords": 5000}
    scenario = joined(removal).replace(accounts={"acme": {"further": (big,)}}, length="153d")
    words = [5000 * nights(month, until=goes) + 20 * nights(month) for month in range(1, 6)]
    spent = [400 * nightly for nightly in words]
    assert spent_by_month(scenario, 5) == spent
    assert costs(scenario, "1,1,1,1,2") == [*spent[:4], 2 * spent[4]]
    answer = fit(scenario, growth="1,1,1,1,2")
    pro = [month.sizes["pro"].fits for month in answer.months]
    assert pro == [False] * held + [True] * (5 - held)
    (when,) = (view for view in answer.views() if view.title == "When each plan fits")
    spans = {row[0]: row[1] for row in when.rows}
    assert (spans["pro"], spans["agency"]) == (f"from month {held + 1}, 2026-0{held + 3}", "in all 5 months")


@pytest.mark.slow
def test_of_a_growth_in_time_the_first_month_is_told_as_it_is() -> None:
    answer = fit(joined(TEN_JOIN), growth="1,1,1,2")
    assert answer.plans[0].now == answer.months[0].sizes[answer.plans[0].plan]
    assert answer.plans[0].grown == answer.months[-1].sizes[answer.plans[0].plan]
    answer = fit(joined(TEN_JOIN), growth="1,2,1,1")
    assert answer.plans[0].grown == answer.months[1].sizes[answer.plans[0].plan]


@pytest.mark.slow
def test_twelve_simulated_months_refuse_where_a_plan_no_longer_fits_what_has_joined() -> None:
    """Ten domains join in month 4, and eight of all go in month 9, which has them whole."""
    removal = {"do": "remove_domains", "at": "2026-11-20T00:00:00Z", "domains": 8}
    answer = fit(joined(TEN_JOIN, removal), growth="×30 / year")
    fitting = Counter[str]()
    for month in answer.months:
        domains = month.domains + 10 * (month.month >= 4) - 8 * (month.month >= 10)
        portfolio = Portfolio(domains=domains, keywords=10, pairings=1, spread="20m")
        for plan, size in month.sizes.items():
            fitting[plan] += size.fits
            assert size.fits is not _refuses(portfolio, plan), (plan, month.month)
    assert sum(0 < months < 12 for months in fitting.values()) >= 2


def _refuses(portfolio: Portfolio, plan: str) -> bool:
    """Whether a world of the portfolio loses a run on a plan, or cannot begin with it."""
    try:
        result = world(portfolio, plan, 31 * DAY, POLICY, spread="20m")
    except BadInput:
        return True  # more is tracked than the plan has slots for
    return result.metric("clients.runs.granted").mean != 31 * portfolio.domains


@pytest.mark.slow
@pytest.mark.parametrize("restricted", [{}, {"domain": "new.example"}])
def test_a_team_that_gets_a_key_and_domains_of_its_own_is_counted_from_its_month_on(
    restricted: dict[str, str],
) -> None:
    team = {"kind": "schedule", "account": "acme", "key": "second", "job": "rank_run", "at": "05:00"}
    scenario = joined(
        {"do": "add_domains", "at": "100d", "domains": ("new.example",)},
        {"do": "issue_key", "at": "100d", "key": "second", **restricted},
    ).replace(
        clients={"runs": {"domains": 2}, "team": {**team, "domains": ["new.example"], "starts": "100d"}},
    )
    work = [2 * nights(month) + nights(month, "2026-06-09") for month in range(1, 6)]
    assert costs(scenario, "1,1,1,1,1") == [4_000 * runs for runs in work] == spent_by_month(scenario, 5)


@pytest.mark.parametrize("which", [1, ("site2.acme.example",)])
def test_of_fewer_domains_fewer_have_gone(which: int | tuple[str, ...]) -> None:
    removal = {"do": "remove_domains", "at": "40d", "domains": which}
    runs = [nights(month) + nights(month, until="2026-04-10") for month in range(1, 6)]
    expected = [4_000 * count for count in runs]
    assert spent_by_month(joined(removal), 5) == expected
    assert costs(joined(removal), "1,1,1,0.5,0.5") == [*expected[:3], *(cost // 2 for cost in expected[3:])]


@pytest.mark.parametrize("joins", ["2026-04-01", "2026-04-18"])
def test_what_joins_with_work_by_the_week_costs_in_each_month_what_a_run_shows(joins: str) -> None:
    """Mondays and Fridays are four or five times in a month, and not in the same ones."""
    at = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "week", "at": "03:00"}
    joins += "T00:00:00Z"
    added = {"do": "add_domains", "at": joins, "domains": ("new.example",), "keywords": 10}
    team = {**at, "weekday": "friday", "domains": ["new.example"], "starts": joins}
    runs = {**at, "weekday": "monday", "domains": ["site1.acme.example"]}
    scenario = joined(added).replace(clients={"runs": runs, "team": team})
    assert len(set(costs(scenario, YEAR)[2:])) == 2
    assert costs(scenario, YEAR) == spent_by_month(scenario)


AGAIN = {"kind": "schedule", "account": "acme", "job": "rank_run", "at": "12:00", "spread": "20m"}
BOUNDS = {"starts": "2026-06-10T00:00:00Z", "stops": "2026-09-20T00:00:00Z"}


def test_a_client_counts_from_the_month_in_which_it_starts_to_the_one_in_which_it_stops() -> None:
    """2 domains × 10 words × 400 µUSD each night, and as much at noon in months 4 to 7, as a year shows."""
    scenario = joined().replace(clients={"noon": {**AGAIN, **BOUNDS}})
    at_noon = [nights(month, "2026-06-10", "2026-09-20") for month in range(1, 13)]
    assert [month for month, noons in enumerate(at_noon, 1) if noons] == [4, 5, 6, 7]
    spent_in = [8_000 * (nights(month) + noons) for month, noons in enumerate(at_noon, 1)]
    assert costs(scenario, YEAR) == spent_in == spent_by_month(scenario)
    assert costs(scenario, "1,1,1,2") == [*spent_in[:3], 2 * spent_in[3]]
    for month, clients, spent in (("05", {}, 248_000), ("07", {"noon": AGAIN}, 496_000)):
        world_of = joined().replace(start=f"2026-{month}-01T00:00:00Z", length="31d", clients=clients)
        assert rs.run(world_of).metric("spend.acme.max").mean == spent
    (note,) = (note for note in fit(scenario, growth="1,1").notes if note.startswith("noon begins"))
    assert note.endswith("; a growth in time counts it from month 4 on.")


FREE_OF_SLOTS = {
    "policy.catalogue.plans.free.slot_limit": 5_000,
    "policy.catalogue.plans.free.cost_ceiling": "9 USD",
}


def test_lists_count_as_filled_from_the_month_in_which_a_client_begins_to_fill_them() -> None:
    """Four domains of 60 words, of 150 from 5 July on: 600 slots, where the plan has 500."""
    ranks = {"kind": "schedule", "account": "acme", "job": "rank_run", "at": "03:00"}
    sync = {"kind": "keyword_sync", "account": "acme", "every": "week", "weekday": "monday", "at": "08:00"}
    sync |= {"share": 0.05, "keywords": 150, "starts": "2026-07-05T00:00:00Z"}
    account = {"plan": "starter", "portfolio": {"domains": 4, "keywords": 60}}
    scenario = joined().replace(clients={"runs": ranks, "sync": sync}, accounts={"acme": account})
    answer = fit(scenario, growth=YEAR)
    assert [month.choice for month in answer.months] == ["starter"] * 4 + ["pro"] * 8
    stays = fit(scenario.replace(accounts={"acme": {"plan": "pro"}}).changed(FREE_OF_SLOTS), growth=YEAR)
    assert stays.later
    assert not any(note.startswith("Without growth") for note in stays.notes)  # nothing becomes of it
    on_pro = scenario.replace(accounts={"acme": {"plan": "pro"}})
    spent, counted = spent_by_month(on_pro), costs(on_pro, YEAR)
    july = 4  # counted as filled all along
    assert spent[:july] + spent[july + 1 :] == counted[:july] + counted[july + 1 :]
    assert spent[july] < counted[july]


def test_monthly_work_counts_in_the_months_that_have_its_day() -> None:
    """Audits of day 28, from 1 July to 20 August: one, in the month from 14 July on."""
    scan = {"kind": "schedule", "account": "acme", "job": "ai_scan", "every": "month", "day": 28}
    scan |= {"starts": "2026-07-01T00:00:00Z", "stops": "2026-08-20T00:00:00Z"}
    account = {"plan": "starter", "anchor": "2026-01-14T00:00:00Z"}
    scenario = joined().replace(clients={"audits": scan}, accounts={"acme": account})
    months = fit(scenario, growth=YEAR).months  # the first is from 1 to 14 March
    questions = 2 * 50 * rs.Policy().catalogue.unit_costs.ai_scan_call
    ranks = [months[at].sizes["pro"].cost for at in range(12)]
    without = fit(joined().replace(accounts={"acme": account}), growth=YEAR).months
    extra = [cost - month.sizes["pro"].cost for cost, month in zip(ranks, without, strict=True)]
    assert extra == [questions * (month.date == "2026-07-14") for month in months]
    assert [month.choice for month in months].count("pro") == 1


def test_a_cooldown_is_met_in_the_months_in_which_both_clients_run() -> None:
    again = {**AGAIN, **BOUNDS, "at": "00:50"}
    months = fit(joined().replace(clients={"again": again}), growth="1,1,1,1,1,1,1,1").months
    breaks = [month.sizes["starter"].breaks for month in months]
    assert breaks == [()] * 3 + [("cooldown of rank_run",)] * 4 + [()]


def test_a_client_that_draws_counts_in_the_months_in_which_it_works() -> None:
    """A brief each day, of 30,000 µUSD, in months 4 to 7: of June 21, of September 19."""
    caller = {"kind": "caller", "account": "acme", "mix": {"keyword_briefs.create": 1}, "every": "1d"}
    scenario = joined().replace(clients={"briefs": {**caller, **BOUNDS}})
    briefs = [nights(month, "2026-06-10", "2026-09-20") for month in range(1, 13)]
    spent = [8_000 * nights(month) + 30_000 * count for month, count in enumerate(briefs, 1)]
    assert costs(scenario, YEAR) == spent == spent_by_month(scenario)


def test_months_from_a_scenario_s_start_on_have_their_date() -> None:
    """Two domains of ten words fit free, and eighty do not."""
    answer = fit(joined().replace(start="2026-11-30T00:00:00Z"), growth="1,40,1,40,40")
    assert "free in month 1, 2026-11-30; pro in month 2, 2026-12-30 (what breaks" in answer.sentence
    assert "free in month 3, 2027-01-30; pro from month 4, 2027-02-28 (" in answer.sentence
    when, by_month = answer.views()[:2]
    assert [row[0] for row in by_month.rows][2:] == ["3 (2027-01-30)", "4 (2027-02-28)", "5 (2027-03-30)"]
    spans = {row[0]: row[1] for row in when.rows}
    assert spans["free"] == "in month 1, 2026-11-30; in month 3, 2027-01-30"
    of_march = fit(joined(), growth="1,1")
    assert [month.numbered for month in of_march.months] == ["1 (2026-03)", "2 (2026-04)"]
    begins = dict.fromkeys(str(at)[:10] for at in answer.frame("months")["begins"])
    assert list(begins) == ["2026-11-30", "2026-12-30", "2027-01-30", "2027-02-28", "2027-03-30"]
    ticks = answer.plot("growth").axes.xaxis.get_major_formatter()
    assert ticks(4, 0) == "4\n2027-02-28"
    assert fit(ALIKE, growth="1,2").months[1].numbered == "2"


def test_weekly_work_counts_as_often_as_a_month_of_a_growth_has_its_day() -> None:
    """A crawl of each of 2 domains on Mondays, 100 pages each: four times in May 2026, five in June."""
    crawls = {"kind": "schedule", "account": "acme", "job": "crawl", "every": "week", "weekday": "monday"}
    scenario = joined().replace(clients={"crawls": {**crawls, "at": "06:00"}})
    year = [month for _, month in zip(range(12), _months_from(2026, 3), strict=False)]
    mondays = [sum(week[calendar.MONDAY] > 0 for week in calendar.monthcalendar(*month)) for month in year]
    assert {4, 5} == set(mondays)
    page = POLICY.catalogue.unit_costs.crawl_page
    alone = costs(joined(), ",".join(["1"] * 12))
    weekly = costs(scenario, ",".join(["1"] * 12))
    assert [cost - nightly for cost, nightly in zip(weekly, alone, strict=True)] == [
        2 * 100 * page * count for count in mondays
    ]
    (note,) = (note for note in fit(scenario, growth=1).notes if "five weeks" in note)
    assert note.endswith(": crawls.")


def _months_from(year: int, month: int) -> Iterator[tuple[int, int]]:
    while True:
        yield year, month
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


def test_what_begins_later_counts_where_a_growth_is_at_its_largest() -> None:
    """It was left out of the answer for the month of most, and in its own."""
    scenario = joined().replace(clients={"noon": {**AGAIN, **BOUNDS}})
    answer = fit(scenario, growth="1,1,1,2")
    assert answer.plans[0].grown == answer.months[3].sizes[answer.plans[0].plan]


def test_the_tables_of_a_growth_in_time_are_those_of_its_first_and_its_largest_month() -> None:
    """Crawls begin in the third month, and the ceiling of a plan falls in the fourth."""
    path = "policy.catalogue.plans.agency.cost_ceiling"
    scenario = joined().replace(
        clients={"crawls": {"kind": "schedule", "account": "acme", "job": "crawl", "starts": "65d"}},
        timeline=({"do": "set", "at": "100d", "path": path, "value": "0.1 USD"},),
    )
    answer = fit(scenario, growth="1,1,1,1,2")
    (agency,) = (plan for plan in answer.plans if plan.plan == "agency")
    assert (agency.now, agency.grown) == (answer.months[0].sizes["agency"], answer.months[4].sizes["agency"])
    assert agency.now.fits
    assert agency.grown.breaks == (SPEND,)
    uses = {use.now.name: use for use in agency.limits}
    assert (uses[SPEND].now.there, uses[SPEND].grown.there) == (2_400_000_000, 100_000)
    assert (uses["cooldown of crawl"].now.need, uses["cooldown of crawl"].grown.need) == (0, DAY)
    assert agency.limits[0].breaks_at == uses[SPEND].breaks_at == 1
    assert "Plans, at ×1 of month 1 (2026-03) → ×2 of month 5 (2026-07)" in [
        view.title for view in answer.views()
    ]


@pytest.mark.fact("U51")
def test_months_of_a_growth_are_billing_months_with_their_own_days() -> None:
    """350 words are replaced each Monday: 10 January to 9 February has five, as runs show, the next four."""
    sync = {"kind": "keyword_sync", "account": "acme", "every": "week", "weekday": "monday", "at": "08:00"}
    scenario = rs.Scenario.model_validate(
        {
            "start": "2026-01-01T00:00:00Z",
            "length": "100d",
            "accounts": {
                "acme": {
                    "plan": "pro", "anchor": "2026-01-10T00:00:00Z",
                    "portfolio": {"domains": 10, "keywords": 350},
                }
            },
            "clients": {"sync": {**sync, "share": 0.1}},
        }
    )  # fmt: skip
    answer = fit(scenario, growth="1,1,1,1")
    assert [month.numbered for month in answer.months] == [
        "1 (2026-01)", "2 (2026-01-10)", "3 (2026-02-10)", "4 (2026-03-10)"
    ]  # fmt: skip
    pro = [month.sizes["pro"] for month in answer.months]
    assert [size.breaks for size in pro] == [(), ("keyword slots",), (), ()]
    assert [size.cost for size in pro] == [3_500 * 400 * nights for nights in (9, 31, 28, 31)]
    result = rs.run(scenario, seed=1)
    assert result.metric("refusals.slot_limit_exceeded").mean


ONE_GOES = {"do": "remove_domains", "at": "2026-06-09T00:00:00Z", "domains": 1}


@pytest.mark.parametrize("change", [TEN_JOIN, ONE_GOES])
def test_what_a_timeline_adds_or_removes_costs_what_a_unit_does_then(change: dict[str, Any]) -> None:
    path = "policy.catalogue.unit_costs.rank_run_page"
    dearer = {"do": "set", "at": "2026-08-01T00:00:00Z", "path": path, "value": "0.0006 USD"}
    scenario = joined(change)
    timeline = [*scenario.model_dump(mode="json")["timeline"], dearer]
    scenario = scenario.changed({"scenario.timeline": timeline})
    assert costs(scenario, YEAR) == spent_by_month(scenario)


def test_a_month_has_the_plan_and_the_add_ons_that_the_timeline_has_bought_by_its_end() -> None:
    """A pack of 15 USD from April until 20 August, and the dearer plan in October, which is not needed."""
    packs = {"do": "set_add_on", "add_on": "brief_pack"}
    bought = [
        {**packs, "at": "2026-04-10T00:00:00Z", "count": 1},
        {**packs, "at": "2026-08-20T00:00:00Z", "count": 0},
        {"do": "change_plan", "at": "2026-10-01T00:00:00Z", "plan": "agency"},
        {"do": "change_plan", "at": "2026-11-01T00:00:00Z", "plan": "pro"},
    ]
    scenario = joined(*bought).replace(accounts={"acme": {"plan": "pro"}})
    months, seen = fit(scenario, growth=YEAR).months, rs.run(scenario)
    invoices = [seen.metric(name).mean for name in seen.metrics if name.startswith("invoice.acme.2")]
    there = [month.present for month in months]
    assert there == ["pro"] * 7 + ["agency"] + ["pro"] * 4
    assert [month.sizes[plan].price for month, plan in zip(months, there, strict=True)] == [*invoices]
    assert [month.sizes["pro"].price for month in months] == [
        (129 + 15 * (2 <= month.month < 6)) * 1_000_000 for month in months
    ]


DATES = st.dates(date(2026, 3, 2), date(2026, 7, 31)).map(lambda day: f"{day}T00:00:00Z")
HOURS = st.sampled_from(["00:00", "03:00", "23:30"])
WEEKDAYS = st.sampled_from(["monday", "friday", "sunday"])


def changes(do: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"do": st.just(do), "at": DATES, **fields})


TIMELINES = st.lists(
    st.one_of(
        changes("add_domains", domains=st.integers(1, 4), keywords=st.integers(1, 9)),
        changes("remove_domains", domains=st.just(1)),
        changes("add_keywords", count=st.integers(1, 9)),
        changes("remove_keywords", count=st.integers(1, 3)),
        changes("pause_scan"),
        changes("resume_scan"),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda change: change["do"],
)


def bounded(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    times = {"starts": DATES, "stops": DATES}
    return st.fixed_dictionaries({"account": st.just("acme"), **fields}, optional=times).filter(
        lambda client: client.get("starts", "") < client.get("stops", "3")
    )


CLIENTS = st.fixed_dictionaries(
    {},
    optional={
        "noon": bounded(
            kind=st.just("schedule"), job=st.just("rank_run"), at=st.just("13:17"),
            every=st.sampled_from(["day", "36h", "5d"]),
        ),
        "weekly": bounded(
            kind=st.just("schedule"), job=st.just("rank_run"), every=st.just("week"), at=st.just("17:00"),
            weekday=WEEKDAYS,
        ),
        "monthly": bounded(
            kind=st.just("schedule"), job=st.just("rank_run"), every=st.just("month"), at=st.just("19:00"),
            day=st.integers(1, 31),
        ),
        "briefs": bounded(
            kind=st.just("caller"), mix=st.just({"keyword_briefs.create": 1}),
            every=st.sampled_from(["1d", "36h"]),
        ),
    },
)  # fmt: skip


@pytest.mark.fact("U51")
@pytest.mark.slow
@given(
    TIMELINES, CLIENTS, HOURS, st.none() | st.dates(date(2026, 1, 1), date(2026, 3, 1)),
    st.sampled_from(["anchor", "calendar"]),
)  # fmt: skip
def test_each_month_of_a_growth_is_that_of_a_run(
    timeline: list[dict[str, Any]], clients: dict[str, Any], at: str, anchor: date | None, months: str
) -> None:
    scenario = joined(*timeline).replace(
        length="215d",
        sample_every="1h",
        clients={"runs": {"at": at}, **clients},
        accounts={"acme": {"anchor": None if anchor is None else f"{anchor}T00:00:00Z"}},
        policy={"assumptions": {"month": months}},
    )
    load = OwnAccount(scenario, simulate=False).load
    begins = [begin for begin, _ in (load.month(number) or (0, 0) for number in range(1, 8))]
    spent = Counter[int]()
    for row in rs.run(scenario).frame("spend").itertuples():
        month = bisect_right(begins, row.t.value // 1000 - 1)
        spent[month] = max(spent[month], round(row.spent_usd * 1e6))
    assert costs(scenario, "1,1,1,1,1,1") == [spent[month] for month in range(1, 7)]


@pytest.mark.fact("S26", "S62", "S108", "U51", "U60")
@pytest.mark.slow
@given(
    TIMELINES, CLIENTS, HOURS,
    st.sampled_from(["anchor", "calendar"]), st.integers(5, 60), st.integers(20, 90),
)  # fmt: skip
def test_who_is_on_the_plan_that_fits_at_each_time_is_refused_nothing(
    timeline: list[dict[str, Any]], clients: dict[str, Any], at: str, months: str, mill: int, slots: int
) -> None:
    """Plans of small ceilings, of some mills of 5 and of 12.5 mUSD, and of few slots."""
    clients, policy = {"runs": {"at": at}, **clients}, {"assumptions": {"month": months}}
    quotas = {
        "keyword_brief_refreshes": {"limit": 10**6, "period": "week", "consumed_by": ["keyword_briefs"]}
    }
    scenario = joined(*timeline).replace(length="215d", clients=clients, policy=policy).changed(
        {
            "policy.catalogue.plans.starter.cost_ceiling": f"{mill * 5 / 1000} USD",
            "policy.catalogue.plans.pro.cost_ceiling": f"{mill * 12.5 / 1000} USD",
            "policy.catalogue.plans.starter.slot_limit": slots,
            "policy.catalogue.plans.pro.slot_limit": 3 * slots,
            "policy.catalogue.plans.starter.quotas": quotas,
            "policy.catalogue.plans.pro.quotas": quotas,
        }
    )  # fmt: skip
    answer = fit(scenario, growth=1)
    begun = answer.cheapest()
    plans = [(scenario.start, begun and begun.plan), *((then.later.at, then.plan) for then in answer.later)]
    assert all(plan for _, plan in plans)  # agency has room for all
    moves = [
        {"do": "change_plan", "account": "acme", "at": iso(instant), "plan": plan} for instant, plan in plans
    ]
    others = scenario.model_dump(mode="json")["timeline"]
    first = {"scenario.accounts.acme.plan": plans[0][1], "scenario.timeline": [*moves[1:], *others]}
    seen = rs.run(scenario.changed(first))
    refused = {row.code for row in seen.frame("refusals").itertuples()}
    assert refused <= {"rate_limited", "cooldown_active"}
    assert not [note for note in seen.notes if "slot_limit_exceeded" in note]


@pytest.mark.parametrize(("month", "days"), [("02", 28), ("03", 31), ("04", 30)])
def test_a_month_of_a_growth_costs_what_its_days_do(month: str, days: int) -> None:
    scenario = joined().replace(start=f"2026-{month}-01T00:00:00Z", length=f"{days}d")
    (spent,) = {size.cost for size in fit(scenario, growth="1,1").months[0].sizes.values()}
    assert rs.run(scenario).metric("spend.acme.max").mean == spent == days * 8_000


def test_the_day_from_which_a_limit_breaks_is_of_the_month_that_is_asked_about() -> None:
    """Runs of two domains cost 0.008 USD a night, crawls 0.02 on Tuesdays, 6 January and 3 February first."""
    crawls = {"kind": "schedule", "account": "acme", "job": "crawl", "every": "week", "weekday": "tuesday"}
    scenario = joined().replace(start="2026-01-01T00:00:00Z", clients={"runs": crawls})
    low = scenario.changed({"policy.catalogue.plans.agency.cost_ceiling": "0.05 USD"})
    answer = fit(low, growth="1,2")  # of 0.05 USD
    (agency,) = (plan for plan in answer.plans if plan.plan == "agency")
    (spend,) = (use for use in agency.limits if use.now.name == SPEND)
    assert (spend.day, spend.grown_day) == (6, 3)
