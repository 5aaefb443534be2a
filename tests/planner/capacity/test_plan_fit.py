"""Which plan fits: by hand, and by what simulated worlds of the same size refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.contract.plans import Catalogue
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.bursts import burst, burst_of, most_domains
from ranksim.planner.capacity.fit_answer import Fit, LimitUse, PlanFit
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.portfolio import Portfolio

POLICY = rs.Policy()
METERED = POLICY.replace(catalogue="illustrative-metered")


def plan_of(answer: Fit, name: str) -> PlanFit:
    return next(plan for plan in answer.plans if plan.plan == name)


def use_of(plan: PlanFit, limit: str) -> LimitUse:
    return next(use for use in plan.limits if use.now.name == limit)


def world(portfolio: Portfolio, plan: str, length: int, policy: rs.Policy, **client: Any) -> rs.Result:
    """The same portfolio simulated: every rank run of an occasion started at one instant."""
    pairings = [f"google/{number}" for number in range(portfolio.pairings)]
    scan = {"engine_devices": tuple(pairings), "geographies": ("US",)}
    scenario = rs.Scenario.model_validate(
        {
            "start": 0, "length": length, "policy": policy,
            "accounts": {
                "acme": {
                    "plan": plan, "add_ons": dict(portfolio.add_ons),
                    "portfolio": {
                        "domains": portfolio.domains, "keywords": portfolio.keywords, "scans": (scan,)
                    },
                }
            },
            "clients": {
                "runs": {
                    "kind": "schedule", "account": "acme", "job": "rank_run",
                    "every": portfolio.run_every, **client,
                }
            },
        }
    )  # fmt: skip
    return rs.run(scenario, seed=1)


def test_the_planners_question_by_hand() -> None:
    """30 × 300 × 4 slots of 160,000; 36,000 pages × 31 days × 0.0004 USD."""
    answer = fit(Portfolio(domains=30, keywords=300, pairings=4), growth=2)
    agency = plan_of(answer, "agency")
    assert [(plan.plan, plan.now.fits, plan.grown.fits) for plan in answer.plans] == [
        ("free", False, False),
        ("starter", False, False),
        ("pro", False, False),
        ("agency", True, True),
    ]
    assert (agency.now.price, agency.now.cost, agency.grown.cost) == (2990_000000, 446_400000, 892_800000)
    slots = use_of(agency, "keyword slots")
    assert (slots.now.need, slots.grown.need, slots.now.there) == (36_000, 72_000, 160_000)
    assert (slots.breaks_at, slots.factor) == (134, pytest.approx(134 / 30))
    starts = use_of(agency, "job starts in a burst")  # 20 in each of five minutes
    assert (agency.first, starts.breaks_at, starts.now.there) == (starts, 101, 100)
    assert answer.sentence.startswith("The plan agency fits, for 2,990.00 USD a month; the work costs")
    assert (answer.burst.refused, answer.burst_grown.refused) == (10, 60)
    pro = plan_of(answer, "pro")
    assert pro.first is not None
    assert (pro.first.now.name, pro.first.day) == ("keyword slots", 1)
    assert use_of(pro, "provider cost a month").day == 7  # 90 USD at 14.40 USD a day


@pytest.mark.fact("S104", "U6")
@pytest.mark.parametrize(("domains", "a_night"), [(30, 10), (60, 60), (130, 350)])
def test_a_world_is_refused_as_often_by_the_rate_limit(domains: int, a_night: int) -> None:
    portfolio = Portfolio(domains=domains)
    put_off = burst(domains, POLICY)
    seen = world(portfolio, "agency", 3 * DAY, POLICY)
    assert put_off.refused == a_night
    assert seen.metric("refusals.rate_limited").mean == 3 * a_night
    assert seen.metric("jobs.rank_run.done").mean == 3 * (domains - put_off.given_up)


@pytest.mark.fact("S104", "U6")
@pytest.mark.parametrize(("domains", "lost"), [(100, 0), (101, 1)])
def test_a_world_loses_starts_from_the_size_at_which_a_plan_breaks(domains: int, lost: int) -> None:
    answer = fit(Portfolio(domains=domains), growth=1)
    agency = plan_of(answer, "agency")
    assert agency.first is not None
    assert (agency.first.now.name, agency.first.breaks_at) == ("job starts in a burst", 101)
    assert (agency.now.fits, agency.first.now.exceeded) == (not lost, bool(lost))
    seen = world(Portfolio(domains=domains), "agency", 2 * DAY, POLICY)
    assert seen.metric("jobs.rank_run.done").mean == 2 * (domains - lost)


@pytest.mark.slow
def test_what_is_given_up_fits_no_plan_and_the_remedies_are_such() -> None:
    answer = fit(Portfolio(domains=130, keywords=300, pairings=4), growth=1)
    assert answer.cheapest() is None
    assert answer.sentence.startswith(
        "No plan fits. The nearest is agency: what breaks first is job starts in a burst (rate_limited), "
        "at ×0.777 (101 domains)."
    )
    assert answer.sentence.endswith("Spread over 5m, or on 2 keys, none is given up.")
    for remedy, keys in (("5m", 1), ("0s", 2)):
        cured = fit(Portfolio(domains=130, keywords=300, pairings=4, keys=keys), spread=remedy)
        assert (cured.burst.given_up, plan_of(cured, "agency").now.fits) == (0, True)
    assert fit(Portfolio(domains=130), spread="4m").burst.given_up > 0
    later = fit(Portfolio(domains=65, keywords=300, pairings=4))
    assert later.sentence.endswith("Spread over 5m, or on 2 keys, none is given up.")


def test_of_plans_that_lose_the_same_starts_the_one_that_lacks_least_is_nearest() -> None:
    """1,300 slots are too many for free and starter; pro has them, and agency costs more."""
    assert fit(Portfolio(domains=130, keywords=10)).sentence.startswith("No plan fits. The nearest is pro:")


@pytest.mark.parametrize("window", ["first_hit", "clock", "sliding_log", "sliding_counter", "gcra"])
@pytest.mark.parametrize("spread", [0, 45 * SECOND, 3 * MINUTE])
@pytest.mark.parametrize("keys", [1, 3])
def test_what_is_more_than_the_most_gives_a_start_up(window: str, spread: int, keys: int) -> None:
    policy = POLICY.replace(assumptions={"window": window})
    load = Portfolio(keys=keys, spread=spread).workload
    load = replace(load, starts=(replace(load.starts[0], tries=2),))
    most = most_domains(load, [policy.catalogue.plans["agency"]], policy)["agency"]
    assert most is not None
    lost = [bool(burst_of(load.of_domains(n), policy).given_up) for n in range(1, most + 60)]
    assert lost == [n > most for n in range(1, most + 60)]


@pytest.mark.parametrize("window", ["first_hit", "clock", "sliding_log", "sliding_counter", "gcra"])
def test_a_world_is_refused_as_often_under_each_window(window: str) -> None:
    policy = POLICY.replace(assumptions={"window": window})
    put_off = burst(45, policy, spread=MINUTE)
    seen = world(Portfolio(domains=45), "agency", DAY, policy, spread=MINUTE)
    assert seen.metric("refusals.rate_limited").mean == put_off.refused
    assert seen.metric("jobs.rank_run.done").mean == 45 - put_off.given_up


@pytest.mark.fact("S62")
def test_a_world_reaches_the_ceiling_on_that_day() -> None:
    """500 slots × 0.0004 USD an hour: 4.80 USD a day, of 10."""
    portfolio = Portfolio(domains=5, keywords=50, pairings=2, run_every=HOUR)
    starter = plan_of(fit(portfolio), "starter")
    assert starter.first is not None
    assert (starter.now.fits, starter.first.now.name, starter.first.day) == (
        False,
        "provider cost a month",
        3,
    )
    for days, refused in ((2, False), (3, True)):
        seen = world(portfolio, "starter", days * DAY, POLICY)
        assert bool(seen.metric("refusals.cost_cap_reached").mean) is refused


@pytest.mark.fact("U106", "S109")
def test_a_world_exhausts_its_allowance_unless_an_add_on_helps() -> None:
    """150 rank runs a month are 5 domains for 30 days; the 31st wants a pack of 100, enough for 8 domains."""
    portfolio = Portfolio(domains=5, keywords=2)
    team = plan_of(fit(portfolio, METERED, growth=1), "team")
    assert team.first is not None
    assert (team.now.fits, dict(team.now.helps), team.now.price) == (True, {"run_pack": 1}, 124_000000)
    assert (team.first.now.name, team.first.breaks_at, team.first.day) == ("rank_runs a month", 9, None)
    for days, add_ons, refused in ((30, {}, 0), (31, {}, 5), (31, {"run_pack": 1}, 0)):
        sized = Portfolio(domains=5, keywords=2, add_ons=add_ons)
        seen = world(sized, "team", days * DAY, METERED)
        assert seen.metric("refusals.total").mean == refused


@pytest.mark.fact("S64")
def test_a_world_of_one_domain_more_does_not_open() -> None:
    portfolio = Portfolio(domains=3, keywords=10, pairings=2)
    first = plan_of(fit(portfolio), "starter").first
    assert first is not None
    assert (first.now.name, first.breaks_at) == ("keyword slots", 26)
    world(Portfolio(domains=25, keywords=10, pairings=2), "starter", DAY, POLICY)
    with pytest.raises(BadInput, match="takes 520 slots where plan 'starter' has 500"):
        world(Portfolio(domains=26, keywords=10, pairings=2), "starter", DAY, POLICY)


@pytest.mark.slow
def test_it_says_when_no_plan_fits_and_when_another_does() -> None:
    none = fit(Portfolio(domains=500, keywords=1000), spread="25m")
    assert none.sentence.startswith("No plan fits. The nearest is agency: what breaks first is keyword slots")
    more = fit(Portfolio(domains=10, keywords=100), growth=10)
    assert "At ×10 it does not, and agency does, for 2,990.00 USD" in more.sentence
    packs = fit(Portfolio(domains=20, keywords=100, briefs=2), growth=2)
    assert "At ×2 it wants 1 brief_pack, for 144.00 USD a month" in packs.sentence


def test_churn_fills_slots_in_the_course_of_a_month() -> None:
    """4,500 words, and 900 fresh ones in 31 days: 500 of them by day 18."""
    pro = plan_of(fit(Portfolio(domains=45, keywords=100, churn=0.2), growth=1), "pro")
    slots = use_of(pro, "keyword slots")
    assert (slots.now.need, slots.day) == (5400, 18)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"growth": 0.5}, "growth: expected a factor from 1 to 1000, found 0.5"),
        ({"spread": -1}, "spread: expected 0 or more, found -1"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit(Portfolio(), **changes)


def test_it_draws_every_limit_as_the_table_tells_it() -> None:
    answer = rs.capacity.fit(rs.capacity.Portfolio(domains=30, keywords=300, pairings=4))
    axes = answer.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        use.now.name
        for use in plan_of(answer, "agency").limits
        if use.now.name != "capability rank_tracking"  # which it has, or not
    ]
    told = [text.get_text() for text in axes.texts]
    assert told[:4] == ["30 % → 60 %", "22.5 % → 45 %", "18.6 % → 37.2 %", "2.5 % → 5 %"]
    assert "4.2 %" in told


def test_it_tells_what_was_asked_and_what_it_rests_on() -> None:
    notes = fit(domains=30, keywords=300, pairings=4).notes
    assert notes[0] == (
        "A portfolio: 30 domains, 9,000 keywords in 36,000 slots; 30 × rank_run every 1d; and ×2 of it."
    )
    assert "U48" in notes[-1]
    assert "9,000 keywords in 36,000 slots" in fit(domains=30, keywords=300, pairings=4).page(plots=False)


def unpriced(**prices: int) -> Catalogue:
    """The illustrative catalogue without its prices, but those that are given."""
    sold = POLICY.catalogue
    plans = {
        name: plan.model_copy(update={"price": prices.get(name, 0)}) for name, plan in sold.plans.items()
    }
    return sold.model_copy(update={"prices_known": False, "plans": plans})


def test_prices_that_are_not_known_are_not_told() -> None:
    answer = fit(Portfolio(domains=30, keywords=300, pairings=4), catalogue=unpriced())
    assert answer.sentence.startswith("The plan agency fits, for a price that is not known; the work costs")
    assert "The catalogue does not know what every plan costs" in " ".join(answer.notes)
    assert {(row["plan_price_uusd"], row["price_uusd"]) for row in answer.rows()} == {(None, None)}
    assert {row[2] for row in answer.views()[0].rows} == {"not known"}


def test_another_catalogue_may_be_named() -> None:
    named = fit(Portfolio(domains=5, keywords=2), catalogue="illustrative-metered")
    assert named.rows() == fit(Portfolio(domains=5, keywords=2), METERED).rows()
    with pytest.raises(BadInput, match=r"catalogue: expected .*found 'illustratve'.*'illustrative'"):
        fit(Portfolio(), catalogue="illustratve")


def test_a_price_that_is_written_is_known() -> None:
    catalogue = unpriced(agency=3_000_000_000)
    answer = fit(Portfolio(domains=30, keywords=300, pairings=4), catalogue=catalogue)
    assert answer.sentence.startswith("The plan agency fits, for 3,000.00 USD a month")
    found = {row["plan"]: row["price_uusd"] for row in answer.rows()}
    assert found == {"agency": 3_000_000_000, "free": None, "starter": None, "pro": None}


def test_fields_of_a_portfolio_may_be_given_as_the_command_takes_them() -> None:
    given = fit(domains=30, keywords=300, pairings=4, run_every="12h")
    assert given.rows() == fit(Portfolio(domains=30, keywords=300, pairings=4, run_every="12h")).rows()
    with pytest.raises(BadInput, match="no such argument 'pairing'; did you mean 'pairings'"):
        fit(domains=30, pairing=4)
    with pytest.raises(BadInput, match="domains: what is asked about says it; leave one out"):
        fit(Portfolio(), domains=30)


def test_what_does_not_grow_is_told_once() -> None:
    answer = fit(domains=30, growth=1)
    assert "×1 it still fits" not in answer.sentence
    assert "As domains are added, what breaks first is" in answer.sentence
    assert not any(
        "→" in view.title + "".join(cell for row in view.rows for cell in row) for view in answer.views()
    )


def test_its_tables_need_no_more_than_eighty_columns() -> None:
    from ranksim.report.answer import printed  # loads slowly

    answer = fit(domains=30, keywords=300, pairings=4)
    plans, first, _ = answer.views()
    assert [row[2] for row in plans.rows] == ["0.00 USD", "29.00 USD", "129.00 USD", "2,990.00 USD"]
    assert first.rows[-1] == ("agency", "job starts in a burst", "×3.37", "101", "–")
    widths = [
        max(map(len, line.splitlines())) for line in [printed("", (), [plans, first]).split("The price")[0]]
    ]
    assert max(widths) <= 80


@pytest.mark.slow
def test_its_page_is_that_of_the_command() -> None:
    page = fit(domains=30).page()
    assert ("<svg " in page, "The plan free fits" in page) == (True, True)
    assert "<svg " not in fit(domains=30).page(plots=False)


def test_delays_are_durations_in_its_frame() -> None:
    frame = fit(domains=30).frame()
    assert [str(frame[column].dtype)[:11] for column in ("burst_late", "burst_late_grown")] == [
        "timedelta64"
    ] * 2
