"""The largest portfolio of a plan: by hand, and by the refusals of simulated worlds one beyond it."""

from __future__ import annotations

from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import DAY, HOUR, MINUTE, iso
from ranksim.core.contract.located import Located
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.largest import Largest, largest
from ranksim.planner.capacity.limits import SPEND, plan_limits
from ranksim.planner.capacity.planned import OwnAccount, workload_of
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.workload import MONTH

POLICY = rs.Policy()


def allowed(answer: Largest) -> dict[str, int | None]:
    return {room.limit.name: room.allows for room in answer.limits}


def test_an_agency_by_hand() -> None:
    """12 slots a keyword: 160,000 / 12 keywords; 12 × 31 × 0.0004 USD a month each, of 2,400 USD."""
    answer = largest(Portfolio(pairings=4, geographies=3), "agency")
    assert (answer.most, answer.binding.name) == (13_333, "keyword slots")
    assert allowed(answer)["provider cost a month"] == 16_129
    spend = next(room for room in answer.limits if room.limit.name == "provider cost a month")
    assert spend.limit.need == 13_333 * 12 * 31 * 400
    assert 1 - spend.used == pytest.approx(0.1734, abs=1e-4)


@pytest.mark.parametrize(
    ("portfolio", "plan", "grow", "most", "binding"),
    [
        # 500 slots at 4 each
        ({"pairings": 2, "geographies": 2}, "starter", "keywords", 125, "keyword slots"),
        # 62 runs × 4 pages × 0.0004 USD = 0.0992 USD a keyword, of 10 USD
        (
            {"pairings": 2, "geographies": 2, "run_every": 12 * HOUR},
            "starter", "keywords", 100, "provider cost a month",
        ),
        # with a quarter replaced: 100 + 25 words
        ({"pairings": 2, "geographies": 2, "churn": 0.25}, "starter", "keywords", 100, "keyword slots"),
        # 50 briefs a week and 50 more
        ({"briefs": 7, "add_ons": {"brief_pack": 1}}, "pro", "domains", 14, "keyword_brief_refreshes a week"),
        # 20 a minute for 5 minutes
        ({"start_within": 5 * MINUTE}, "pro", "domains", 100, "job starts in 5m"),
        ({"start_within": 5 * MINUTE, "keys": 3}, "pro", "domains", 300, "job starts in 5m"),
        ({"run_every": HOUR // 2}, "pro", "domains", 0, "cooldown of rank_run"),
        ({"pairings": 5}, "pro", "keywords", 0, "engine-device pairings"),
        ({"ai_scans": 1}, "starter", "domains", 0, "capability ai_visibility"),
        ({"crawls": 40}, "pro", "domains", 0, "cooldown of crawl"),
    ],
)  # fmt: skip
def test_what_binds_first(portfolio: dict[str, Any], plan: str, grow: Any, most: int, binding: str) -> None:
    answer = largest(Portfolio(**portfolio), plan, grow=grow)
    assert (answer.most, answer.binding.name) == (most, binding)


@pytest.mark.fact("U106")
def test_metered_work_binds_too() -> None:
    """150 rank runs a month: 31 for each domain that runs daily."""
    policy = POLICY.replace(catalogue="illustrative-metered")
    answer = largest(Portfolio(), "team", policy, grow="domains")
    assert (answer.most, answer.binding.name) == (4, "rank_runs a month")


@pytest.mark.fact("U47")
def test_work_is_cut_to_its_cap_unless_caps_refuse() -> None:
    portfolio = Portfolio(crawls=1, pages=900)
    refusing = POLICY.replace(assumptions={"cap": "refuse"})
    plan = POLICY.catalogue.plans["starter"]
    spend = next(limit for limit in plan_limits(portfolio.workload, plan, POLICY) if limit.name == SPEND)
    assert spend.need == 31 * 400 + 500 * 100
    assert largest(portfolio, "starter", refusing).most == 0


@pytest.mark.fact("S62", "U48")
@pytest.mark.parametrize(("beyond", "refused"), [(0, False), (1, True)])
def test_one_keyword_more_is_refused_at_the_ceiling(beyond: int, refused: bool) -> None:
    policy = POLICY.replace(assumptions={"cost_gate": "would_exceed"})
    portfolio = Portfolio(pairings=2, geographies=2, run_every=12 * HOUR)
    most = largest(portfolio, "starter", policy).most
    assert most is not None
    scan = {"engine_devices": ("google/desktop", "google/mobile"), "geographies": ("US", "DE")}
    scenario = rs.Scenario.model_validate(
        {
            "start": 0, "length": MONTH, "policy": policy,
            "accounts": {
                "acme": {"plan": "starter", "portfolio": {"keywords": most + beyond, "scans": (scan,)}}
            },
            "clients": {"runs": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "12h"}},
        }
    )  # fmt: skip
    result = rs.run(scenario, seed=1)
    assert result.metric("calls.total").mean == 62
    assert bool(result.metric("refusals.cost_cap_reached").mean) is refused


@pytest.mark.fact("S64")
@pytest.mark.parametrize(("beyond", "refused"), [(0, 0), (1, 1)])
def test_one_keyword_more_is_refused_for_slots(beyond: int, refused: int) -> None:
    portfolio = Portfolio(pairings=2, geographies=2)
    most = largest(portfolio, "starter").most
    assert most is not None
    scan = {"engine_devices": ("google/desktop", "google/mobile"), "geographies": ("US", "DE")}
    scenario = rs.Scenario.model_validate(
        {
            "start": 0, "length": DAY,
            "accounts": {"acme": {"plan": "starter", "portfolio": {"keywords": most - 1, "scans": (scan,)}}},
            "clients": {
                "adds": {
                    "kind": "caller", "account": "acme", "mix": {"keywords.create": 1},
                    "times": tuple(MINUTE * n for n in range(1 + beyond)),
                }
            },
        }
    )  # fmt: skip
    assert rs.run(scenario, seed=1).metric("refusals.slot_limit_exceeded").mean == refused


@pytest.mark.parametrize(
    ("portfolio", "plan", "message"),
    [
        ({}, "gold", "plan: no plan 'gold'; expected one of free, starter, pro, agency"),
        ({"keywords": 0}, "pro", "keywords: expected 1 or more, found 0"),
        ({"run_every": 0}, "pro", "run_every: expected a duration above 0, found 0"),
        ({"briefs": -1}, "pro", "briefs: expected 0 or more, found -1"),
        ({"churn": 150}, "pro", "churn: expected a share from 0 to below 100, found 150"),
        ({"add_ons": {"gold": 1}}, "pro", "add_ons: expected one of brief_pack, found gold"),
    ],
)
def test_bad_input(portfolio: dict[str, Any], plan: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        largest(Portfolio(**portfolio), plan)


def test_it_draws_every_limit() -> None:
    answer = largest(Portfolio(pairings=4, geographies=3), "agency")
    ax = answer.plot()
    assert (len(answer.rows()), len(ax.patches)) == (8, 7)  # but the capability, which it has
    assert ax.get_xlabel() == "% of the limit used"
    assert "159,996 of 160,000" in {text.get_text() for text in ax.texts}


def test_a_portfolio_is_shown_as_the_call_that_makes_it() -> None:
    portfolio = rs.capacity.Portfolio(domains=2, run_every="12h")
    assert "domains=2, keywords=1" in repr(portfolio)
    assert "run_every='12h'" in repr(portfolio)
    assert eval(repr(portfolio), {"Portfolio": rs.capacity.Portfolio}) == portfolio


def test_each_time_counts_what_is_at_work_then() -> None:
    """40 briefs a week of six domains: 7 have 50 at 20/3 each, 3 have 25; with 20 more, 10 each, 2 do."""
    answer = largest("scenarios/changes-in-march.yaml", grow="domains")
    times = [(iso(then.at)[:10], then.most) for then in answer.times]
    assert times == [("2026-02-23", 7), ("2026-03-01", 3), ("2026-03-09", 2)]
    assert (answer.most, answer.binding.name) == (2, "keyword_brief_refreshes a week")
    assert "That is from 2026-03-09T00:00:00Z, when second begins; it carries 7 from the beginning" in (
        answer.sentence
    )
    assert [row["most"] for row in answer.tables["times"]] == [7, 3, 2]


def crawled(**changes: Any) -> rs.Scenario:
    """Ten domains that are crawled weekly from April on, where the ceiling is 3 USD until March."""
    data: dict[str, Any] = {
        "start": "2026-02-01T00:00:00Z",
        "length": "90d",
        "policy": {"catalogue": {"extends": "illustrative", "plans": {"pro": {"cost_ceiling": "3 USD"}}}},
        "accounts": {"us": {"plan": "pro", "portfolio": {"domains": 10, "keywords": 10}}},
        "clients": {
            "runs": {"kind": "schedule", "account": "us", "job": "rank_run", "every": "day"},
            "crawls": {
                "kind": "schedule", "account": "us", "job": "crawl", "every": "week", "at": "05:00",
                "starts": "2026-04-06T00:00:00Z",
            },
        },
        "timeline": [
            {
                "at": "2026-03-01T00:00:00Z", "do": "set", "value": "9 USD",
                "path": "policy.catalogue.plans.pro.cost_ceiling",
            }
        ],
    }  # fmt: skip
    return rs.Scenario.read(Located("crawled", data | changes, {}))


def test_a_client_of_later_is_not_held_against_a_limit_of_before() -> None:
    """A domain's runs are 0.124 USD a month, its crawls 0.05: 24 of 3 USD, 72 of 9, and with crawls 51."""
    answer = largest(crawled(), grow="domains")
    assert [then.most for then in answer.times] == [24, 72, 51]
    assert (answer.most, answer.binding.name) == (24, SPEND)
    assert answer.sentence.endswith(
        "That is from the beginning; it carries 72 from 2026-03-01T00:00:00Z, when "
        "policy.catalogue.plans.pro.cost_ceiling is 9 USD, 51 from 2026-04-06T00:00:00Z, when crawls begins."
    )


def test_what_is_set_back_holds_no_more() -> None:
    path = "policy.catalogue.plans.pro.cost_ceiling"
    ceilings = [("2026-03-01T00:00:00Z", "9 USD"), ("2026-03-20T00:00:00Z", "3 USD")]
    sets = [{"at": at, "do": "set", "path": path, "value": value} for at, value in ceilings]
    assert [then.most for then in largest(crawled(timeline=sets), grow="domains").times] == [24, 72, 24, 17]


def test_what_goes_in_the_first_month_counts_until_its_end() -> None:
    """What a domain that goes on 13 February cost until then, 4,000 µUSD a night, counts until March."""
    removal = {"at": "12d", "do": "remove_domains", "account": "us", "domains": 1}
    changed = crawled(timeline=[removal])
    left_out, start = workload_of(changed).left_out, changed.start
    nights = {0: 0, 11: 0, 12: 16, 27: 16, 28: 31, 60: 31}  # of 28 in February, and of most in a month
    assert {day: -left_out.at(start + day * DAY).spent for day in nights} == {
        day: 4_000 * saved for day, saved in nights.items()
    }
    assert left_out.exact[1].spent == -16 * 4_000


def test_a_client_that_stops_is_counted_until_then() -> None:
    clients = {
        "runs": {"kind": "schedule", "account": "us", "job": "rank_run", "every": "day"},
        "crawls": {
            "kind": "schedule", "account": "us", "job": "crawl", "every": "week", "at": "05:00",
            "starts": "2026-02-01T00:00:00Z", "stops": "2026-04-06T00:00:00Z",
        },
    }  # fmt: skip
    answer = largest(crawled(clients=clients, timeline=[]), grow="domains")
    assert [(then.most, then.changes) for then in answer.times] == [(17, ""), (24, "crawls stops")]


def test_what_a_client_has_put_in_and_held_counts_until_the_month_ends_in_which_it_stops() -> None:
    """Five words of each of ten domains are replaced on 2, 9 and 16 March: 150 are held until April."""
    sync = {"kind": "keyword_sync", "account": "us", "every": "week", "at": "04:00", "share": 0.5}
    scenario = crawled(clients={"sync": {**sync, "stops": "2026-03-17T00:00:00Z"}}, timeline=[])
    loads = {iso(then.at)[5:10]: then.load for then in OwnAccount(scenario).states(scenario.policy)}
    held = {at: sum(work.count(MONTH) for work in load.of_month("keywords")) for at, load in loads.items()}
    assert held == {"02-01": 10 * 5 * 5, "03-17": 10 * 5 * 3, "04-01": 0}
    used = rs.run(scenario.replace(length="57d")).frame("slots")["used"]
    assert used.iloc[-1] == 100 + held["03-17"]


def test_what_is_set_is_left_out_under_another_catalogue() -> None:
    answer = largest(crawled(), policy=POLICY, grow="domains")
    assert [then.changes for then in answer.times] == ["", "crawls begins"]
    assert any("this is about what holds before" in note for note in answer.notes)


def moved(*timeline: dict[str, Any], **account: Any) -> rs.Scenario:
    """Ten domains of ten words in February, March and April."""
    actions = [{"account": "us", **action} for action in timeline]
    clients = {"runs": {"kind": "schedule", "account": "us", "job": "rank_run", "every": "day"}}
    accounts = {"us": {"plan": "pro", "portfolio": {"domains": 10, "keywords": 10}, **account}}
    return crawled(policy={}, accounts=accounts, clients=clients, timeline=actions)


AGENCY = {"at": "2026-03-15T00:00:00Z", "do": "change_plan", "plan": "agency"}


def test_each_time_is_on_the_plan_that_the_account_has_then() -> None:
    answer = largest(moved(AGENCY))
    at_once, later = answer.times
    assert (at_once.changes, later.changes) == ("", "the plan becomes agency")
    assert iso(later.at) == "2026-03-15T00:00:00Z"
    assert [at_once.most, later.most] == [largest(moved(plan=plan)).most for plan in ("pro", "agency")]
    assert (answer.plan, answer.most) == ("pro", at_once.most)
    down = largest(moved({**AGENCY, "plan": "starter"}))
    assert (down.plan, down.most) == ("starter", largest(moved(plan="starter")).most)
    assert down.sentence.startswith(f"The plan starter carries {down.most} keywords a domain;")
    assert "That is from 2026-03-15T00:00:00Z, when the plan becomes starter; it carries" in down.sentence


def test_a_plan_that_is_asked_for_is_looked_at_alone() -> None:
    """Neither is a time shown at which nothing of that changes, such as the month in which the plan does."""
    answer = largest(moved(AGENCY), "pro")
    assert (answer.times, answer.most) == ((), largest(moved()).most)


def test_each_time_has_the_add_ons_of_then() -> None:
    clients = {"briefs": {"kind": "brief_refresher", "account": "us", "every": "week", "keywords": 40}}
    packs = {"at": "2026-03-15T00:00:00Z", "do": "set_add_on", "add_on": "brief_pack", "count": 2}
    scenario = moved(packs).replace(clients=clients)
    times = largest(scenario, grow="domains").times
    assert [then.changes for then in times] == ["", "the account has 2 × brief_pack"]
    bought = moved(add_ons={"brief_pack": 2}).replace(clients=clients)
    assert times[1].most == largest(bought, grow="domains").most > times[0].most


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"do": "add_domains", "domains": 3}, "the account gets 3 domains"),
        ({"do": "remove_domains", "domains": 1}, "the account loses 1 domain"),
        ({"do": "add_keywords", "count": 1}, "each domain gets 1 keyword"),
        ({"do": "remove_keywords", "count": 2}, "each domain loses 2 keywords"),
        ({"do": "pause_scan"}, "scans of all domains pause"),
    ],
)
def test_a_time_says_what_the_timeline_does(change: dict[str, Any], text: str) -> None:
    at_once, changed, *later = largest(moved({"at": "2026-03-15T00:00:00Z", **change}), grow="domains").times
    assert (at_once.changes, changed.changes, iso(changed.at)) == ("", text, "2026-03-15T00:00:00Z")
    assert {then.changes for then in later} <= {"another month begins"}
