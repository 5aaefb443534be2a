"""Which plan fits an account of a scenario: what its clients have done, counted, and worlds that show it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.planner.capacity.drawn_scenarios import exported

import ranksim as rs
from ranksim.core.callers.programs.calendars import Schedule
from ranksim.core.callers.programs.client import TrackedPart
from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.contract.plans import Plan
from ranksim.core.errors import BadInput
from ranksim.core.service.service import Service
from ranksim.planner.capacity.fit_answer import Fit, LimitUse
from ranksim.planner.capacity.largest import largest
from ranksim.planner.capacity.limits import plan_limits
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.planned import OwnAccount, workload_of
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.slots import Churn, slot_use
from ranksim.planner.capacity.slots_world import simulate_slot_use
from ranksim.planner.capacity.sync import Sync, sync_time
from ranksim.planner.capacity.workers_world import workers_of_scenario
from ranksim.planner.capacity.workload import Workload
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.twin.sim.opening import open_world

SCENARIOS = Path(__file__).parents[3] / "scenarios"

PLANNED = """
start: 2026-03-10T00:00:00Z # a Tuesday
length: 22d
accounts:
  acme:
    plan: pro
    anchor: 2026-03-01T00:00:00Z
    portfolio:
      domains: 3
      keywords: 100
      scans: [{engine_devices: [google/desktop, bing/desktop], geographies: [US, GB]}]
    further: [{domains: 1, keywords: 50}]
    used: {metrics: {keyword_brief_refreshes: 20}, spent: 80 USD, held: 600}
clients:
  runs: {kind: schedule, account: acme, job: rank_run, every: day, spread: 5m}
  crawls: {kind: schedule, account: acme, job: crawl, every: week, domains: 2}
  sync: {kind: keyword_sync, account: acme, every: week, share: 0.1}
  briefs: {kind: brief_refresher, account: acme, every: week, keywords: 40}
  look: {kind: poller, account: acme, operation: slots.get, every: 1h}
  adds: {kind: caller, account: acme, every: 1d, mix: {keywords.create: 1}}
"""


def planned(**changes: Any) -> rs.Scenario:
    return rs.Scenario.parse(PLANNED).replace(**changes)


def uses(answer: Fit, plan: str = "pro") -> dict[str, LimitUse]:
    counted = next(one for one in answer.plans if one.plan == plan)
    return {use.now.name: use for use in counted.limits}


def test_a_portfolio_and_its_scenario_are_answered_alike() -> None:
    scan = {"engine_devices": ["a/desktop", "a/mobile"], "geographies": ["US", "GB"]}
    scenario = rs.Scenario.parse(
        "start: 0\nlength: 1d\naccounts: {acme: {plan: agency}}".replace("0", "2026-03-01", 1)
    )
    scenario = scenario.replace(
        accounts={"acme": {"portfolio": {"domains": 30, "keywords": 300, "scans": [scan]}}},
        clients={"runs": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "12h"}},
    )
    by_hand = fit(Portfolio(domains=30, keywords=300, pairings=2, geographies=2, run_every=12 * HOUR))
    assert fit(scenario).rows() == by_hand.rows()
    assert fit(scenario).sentence == by_hand.sentence


def test_work_of_clients_is_counted_by_hand() -> None:
    """3 × 100 × 4 + 50 slots; each week 10 words of three domains and 5 of one: 125 slots."""
    load = workload_of(planned(accounts={"acme": {"used": None}}))
    assert (load.domains, load.slots, load.pairings, load.geographies) == (4, 1250, 2, 2)
    runs = load.starts[0]
    assert (runs.kind, runs.domains, runs.spread, runs.tries) == ("rank_run", 4, 5 * MINUTE, 5)
    counted = uses(fit(load))
    assert counted["keyword slots"].now.need == 1250 + 5 * 125 + 100
    assert counted["keyword_brief_refreshes a week"].now.need == 40
    # 31 nights of 1,250 pages; 5 weeks × 2 crawls × 100 pages; 5 weeks × 40 briefs
    costs = rs.Policy().catalogue.unit_costs
    spent = 31 * 1250 * costs.rank_run_page + 1000 * costs.crawl_page + 200 * costs.keyword_brief
    assert counted["provider cost a month"].now.need == spent + load.left_out.spent
    assert load.notes == (
        "A crawl is taken to have 100 pages: no scenario says it, --pages does.",
        "Counted with five weeks a month, as one of 31 days may have, but in a growth in time with those of "
        "each month: crawls, sync, briefs.",
        "Simulated once: what these clients spend: adds. That comes to 100 slots and 0.64 USD a month more, "
        "in the month of most; every size counts it.",
    )
    assert (load.left_out.slots, load.left_out.metrics["keyword_brief_refreshes"]) == (100, 0)


def test_what_is_used_so_far_is_counted() -> None:
    """Nine days of March have gone, 80 USD are spent; to come are 22 days, with three Mondays."""
    answer = fit(planned())
    spend = uses(answer)["provider cost a month"]
    costs = rs.Policy().catalogue.unit_costs
    rest = 22 * 1250 * costs.rank_run_page + 3 * 200 * costs.crawl_page + 3 * 40 * costs.keyword_brief
    assert spend.now.need == 80_000_000 + rest
    assert uses(answer)["keyword slots"].now.need == 1250 + 600 + 3 * 125
    # This week's Monday has gone; the next one is the next week's.
    assert uses(answer)["keyword_brief_refreshes a week"].now.need == 40
    assert spend.day is not None
    assert spend.day > 9
    assert "What is used of the month so far" in " ".join(answer.notes)


@pytest.mark.fact("S62", "S108")
def test_a_world_is_refused_when_it_says() -> None:
    """The ceiling of 90 USD with 80 used: a world refuses from the day that is told, to a day."""
    whole = planned()
    runs = whole.model_copy(update={"clients": {"runs": whole.clients["runs"]}})
    day = uses(fit(runs))["provider cost a month"].day
    assert day is not None
    for days, refused in ((day - 10, False), (day - 9, True)):  # nine have gone when the world begins
        result = rs.run(runs.model_copy(update={"length": days * DAY}))
        assert bool(result.metric("refusals.cost_cap_reached").mean) is refused


def test_a_client_that_gives_up_sooner_breaks_sooner() -> None:
    """Two tries are two minutes of twenty calls, of which 13 weekly crawls and one for briefs come first."""
    answer = fit(planned(clients={"runs": {"max_tries": 2, "spread": "0s"}}))
    burst = uses(answer)["job starts in a burst"]
    assert (burst.now.there, burst.breaks_at) == (26, 27)


def test_a_client_that_does_not_wait_as_told_is_named() -> None:
    load = workload_of(planned(clients={"runs": {"on_limit": "ignore"}}))
    assert "These clients are taken to call again when Retry-After has gone: runs." in load.notes


@pytest.mark.parametrize(
    ("every", "at", "day"),
    [("week", "08:00", 16), ("week", "00:00", 16), ("7d", "08:00", 15), ("month", "00:00", 1)],
)
def test_a_day_is_that_of_the_calendar(every: str, at: str, day: int) -> None:
    """3 × 100 + 50 words take 1,250 of 1,626 slots; 125 more fit three times by the calendar of March."""
    sync = {"every": every, "at": at, "share": 0.1 if every != "month" else 0.4}
    whole = planned(start="2026-03-01T00:00:00Z", accounts={"acme": {"used": None}}, clients={"sync": sync})
    room = whole.policy.catalogue.plans["pro"].model_copy(update={"slot_limit": 1250 + 2 * 125})
    catalogue = whole.policy.catalogue.model_copy(update={"plans": {"pro": room}})
    assert uses(fit(whole, catalogue=catalogue))["keyword slots"].day == day


def test_flags_stand_in_place_of_clients() -> None:
    load = workload_of(planned(), crawls=1, pages=10)
    assert [(one.each, one.size, one.per == 31 * DAY) for one in load.of("crawl")] == [
        (3, 10, True),
        (1, 10, True),
    ]
    assert len(load.of("rank_run")) == 2


def test_without_a_client_that_runs_ranks_each_domain_is_run_daily() -> None:
    bare = planned(clients={}).model_copy(update={"clients": {}})
    load = workload_of(bare)
    assert load.notes == ("No client of the scenario runs ranks: every domain is taken to be run every 1d.",)
    assert [one.count(DAY) * one.size for one in load.of("rank_run")] == [1200, 50]


def test_an_agency_breaks_as_its_world_does() -> None:
    """The shipped month: slots break first, on the third Monday, the 16th, at one domain more than 35."""
    answer = fit(SCENARIOS / "agency-month.yaml")
    first = next(plan.first for plan in answer.plans if plan.plan == "agency")
    assert first is not None
    assert (first.now.name, first.breaks_at, first.day) == ("keyword slots", 36, 16)
    assert "agency (now)" in {row[0] for row in answer.views()[0].rows}


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ({}, {"account": "acm"}, "account: no such account 'acm'; did you mean 'acme'"),
        ({"accounts": {"b": {"plan": "pro"}}}, {}, "account: .* has 2, acme, b; name one"),
        ({"accounts": {"b": {"plan": "pro"}}}, {"account": "b"}, "account 'b' has no domains; give it"),
        ({}, {"domains": 3}, "domains: the scenario says what is tracked; leave it out"),
    ],
)
def test_bad_input(changes: dict[str, Any], asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        workload_of(planned(**changes), **asked)


@pytest.mark.slow
def test_an_exported_account_is_answered_like_the_account_itself() -> None:
    """Its domains are sites then, those that are alike a part again."""
    scenario = planned(accounts={"acme": {"further": [{"domains": ["other.example"], "keywords": 50}]}})
    own, again = OwnAccount(scenario), OwnAccount(exported(scenario))
    assert again.spec.sites
    assert not again.spec.portfolios
    assert (again.parts, again.lists, again.sizes) == (own.parts, own.lists, own.sizes)
    assert replace(again.load, used=own.load.used) == own.load
    assert fit(exported(scenario)).rows() == fit(scenario).rows()


@pytest.mark.fact("S23")
def test_lists_of_a_site_that_differ_in_slots() -> None:
    """Scans over one list and over all: 10 words of 1 slot and 5 of 3, as the service counts them."""
    site = {
        "host": "a.example",
        "lists": [{"name": "wide", "keywords": 10}, {"name": "deep", "keywords": ["a", "b", "c", "d", "e"]}],
        "scans": [
            {"name": "all"},
            {"name": "deep", "lists": ["deep"], "geographies": ["US", "GB"]},
            {"name": "off", "active": False},
        ],
    }
    scenario = planned(accounts={"b": {"plan": "pro", "sites": [site]}})
    own = OwnAccount(scenario, "b")
    assert own.parts == [TrackedPart(1, 15, 3, 25, ("a.example",))]
    assert (own.lists, own.sizes, own.load.slots, own.load.geographies) == ((10, 5), [1, 3], 25, 2)
    assert [work.size for work in own.load.work if work.operation == "rank_run"] == [25]
    service = Service(scenario.policy, scenario.seed)
    actors = open_world(service, scenario)
    assert service.state.accounts[actors["b"].account].books.active == 25


def test_only_scenarios_have_accounts() -> None:
    with pytest.raises(BadInput, match="account: only a scenario has accounts"):
        fit(Portfolio(), account="acme")


# Every question from an account


def test_slots_begin_with_what_is_held_in_the_midst_of_the_month() -> None:
    """1,250 of 5,000 slots and 600 held on 10 March; 22 days on, on 1 April, the held ones are free again."""
    own = OwnAccount(planned(), "acme")
    assert (own.load.slots, own.load.keywords, own.load.each, own.slots_left) == (1250, 350, 4, 3150)
    churn = Churn(312, 4, 1, adds=10, law="fixed", held=600, beside=2)
    counted = slot_use(churn, own.plan.slot_limit, start=own.now, days=23, anchor=own.anchor)
    used = [day.used_mean for day in counted.days]
    assert (used[0], used[21], used[22]) == (600 + 1250 + 40, 600 + 1250 + 880, 1250 + 920)
    assert counted.room == 787
    seen = simulate_slot_use(churn, 5000, start=own.now, days=23, anchor=own.anchor, replications=1)
    observed = [day.observed_used for day in seen.days]
    assert [None if one is None else one.mean for one in observed] == used


def test_what_is_held_is_room_once_the_month_is_over() -> None:
    """With 20 words of room to 1 April and 100 more from then on, ten a day are refused on the third day."""
    own = OwnAccount(planned(start="2026-03-29T00:00:00Z"), "acme")
    churn = Churn(100, adds=10, law="fixed", held=100)
    counted = slot_use(churn, 220, start=own.now, days=14, anchor=own.anchor)
    assert [day.refused_by for day in counted.days][:3] == [0, 0, 1]
    patient = slot_use(churn, 230, start=own.now, days=14, anchor=own.anchor)
    assert [day.refused_by for day in patient.days][11:] == [0, 0, 1]  # 13 days of ten words fit 130
    with pytest.raises(BadInput, match="at most 99, which is 199 slots beside 100 that are held"):
        slot_use(churn, 199, start=own.now, anchor=own.anchor)


def test_what_one_occasion_starts_is_what_the_clients_do_together() -> None:
    own = OwnAccount(planned(), "acme")
    assert own.jobs() == {"rank_run": 4, "crawl": 2}
    assert own.room_for_words() == (
        "Of the 5,000 slots of the plan pro 1,250 are used and 600 held: 3,150 more words of 1 slot or 787 "
        "more words of 4 slots each fit."
    )


def test_the_largest_portfolio_of_an_account_counts_what_it_does() -> None:
    """1,250 slots and five weeks' additions of 125 for four domains; each further one is a quarter more."""
    load = workload_of(planned(accounts={"acme": {"used": None}}))
    answer = largest(load, "pro", grow="domains")
    assert (answer.most, answer.binding.name) == (50 * 4 // 40, "keyword_brief_refreshes a week")
    assert {room.limit.name: room.allows for room in answer.limits}["keyword slots"] == 10
    assert limits_need(load.of_domains(10)) == math.ceil(2.5 * (1250 + 5 * 125)) + 100
    words = largest(load, "pro")
    most = {room.limit.name: room.allows for room in words.limits}["keyword slots"]
    assert most is not None
    assert limits_need(load.of_keywords(most)) <= 5000 < limits_need(load.of_keywords(most + 1))


def unlike(domains: int, **changes: Any) -> rs.Scenario:
    """Domains that each track something else, as in a mirrored account: 20, 21, 22 … words, run daily."""
    groups = [{"domains": [f"{n}.example"], "keywords": 20 + n, "scans": ({},)} for n in range(domains)]
    account = {"acme": {"portfolio": groups[0], "further": tuple(groups[1:]), "used": None}}
    runs = {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "12h"}
    scenario = planned(accounts=account)
    return scenario.model_copy(update={"clients": {}}).replace(clients={"runs": runs}, **changes)


@pytest.mark.parametrize("growth", [1.05, 1.5, 3])
def test_domains_that_differ_grow_in_proportion(growth: float) -> None:
    """20 domains are 590 words in 590 slots; half as much again is half as much again, not twice."""
    answer = fit(unlike(20), growth=growth)
    pro = next(one for one in answer.plans if one.plan == "pro")
    slots = 20 * 20 + 190
    cost = slots * 62 * rs.Policy().catalogue.unit_costs.rank_run_page
    assert (pro.now.cost, pro.grown.cost) == (cost, math.ceil(cost * growth))
    counted = uses(answer)
    assert counted["keyword slots"].grown.need == math.ceil(slots * growth)
    ceiling = pro_plan().cost_ceiling
    assert counted["provider cost a month"].breaks_at == ceiling * 20 // cost + 1
    words = largest(workload_of(unlike(20)), "pro", grow="domains")
    allows = {room.limit.name: room.allows for room in words.limits}
    assert allows["provider cost a month"] == ceiling * 20 // cost


def pro_plan() -> Plan:
    return rs.Policy().catalogue.plans["pro"]


def test_equal_work_of_domains_that_differ_is_told_once() -> None:
    assert "; 20 × rank_run every 12h; and ×2 of it." in fit(unlike(20)).question


def limits_need(load: Workload) -> int:
    """Slots that a workload needs on the plan pro."""
    policy = rs.Policy()
    counted = plan_limits(load, policy.catalogue.plans["pro"], policy)
    return next(one.need for one in counted if one.name == "keyword slots")


# Starts that meet: by the calendars of all clients together, and as worlds show it

AGENCY = """
start: 2026-03-01T00:00:00Z
length: 31d
accounts: {acme: {plan: agency, portfolio: {domains: 30, keywords: 5}, keys: [one, two]}}
pools:
  rank_run: {capacity: unlimited, duration: {constant: 4m}, failure_rate: 0}
  crawl: {capacity: unlimited, failure_rate: 0}
clients:
  ranks: {kind: schedule, account: acme, job: rank_run, at: "02:00"}
"""  # fmt: skip


def agency(domains: int = 30, **clients: dict[str, Any]) -> rs.Scenario:
    given = {name: {"kind": "schedule", "account": "acme"} | one for name, one in clients.items()}
    return rs.Scenario.parse(AGENCY).replace(
        accounts={"acme": {"portfolio": {"domains": domains}}}, clients=given
    )


CRAWLS = {"job": "crawl", "at": "02:00"}
FAST = {"job": "rank_run", "every": "2h", "at": "00:30", "domains": 3}


@pytest.mark.fact("S104", "S65", "U6", "U46")
@pytest.mark.parametrize(
    ("scenario", "breaks"),
    [
        (agency(100), ""),
        (agency(101), "job starts in a burst"),
        (agency(51, crawls=CRAWLS), "job starts in a burst"),  # 102 starts on one key
        (agency(50, crawls=CRAWLS), ""),
        (agency(51, crawls=CRAWLS | {"key": "two"}), ""),
        (agency(51, ranks={"dry_run_first": True}), "job starts in a burst"),  # each is two calls
        (agency(50, ranks={"dry_run_first": True, "spread": "20m"}), ""),
        (agency(5, crawls=CRAWLS, again={"job": "crawl", "at": "14:00"}), "cooldown of crawl"),
        (agency(5, crawls=CRAWLS, again=CRAWLS | {"key": "two"}), "cooldown of crawl"),
        (agency(5, ranks={"key": "two"}, again={"job": "rank_run", "at": "02:00"}), ""),  # they join
        (agency(5, fast=FAST), "cooldown of rank_run"),
        (agency(5, fast=FAST | {"at": "01:00"}), ""),
        (agency(5, people={"job": "crawl", "every": "12h", "surface": "app"}), "cooldown of crawl"),
        (agency(130, ranks={"surface": "app"}), ""),
        # Rank runs of Mondays put crawls off, and those of Tuesdays come too soon after them.
        (agency(15, ranks={"every": "week"}, crawls=CRAWLS), "job starts in a burst"),
    ],
    ids=str,
)  # fmt: skip
def test_starts_of_all_clients_meet_as_in_a_world(scenario: rs.Scenario, breaks: str) -> None:
    plan = next(one for one in fit(scenario, growth=1).plans if one.plan == "agency")
    exceeded = [use.now.name for use in plan.limits if use.now.exceeded]
    assert exceeded == ([breaks] if breaks else [])
    answer = largest(workload_of(scenario), "agency", scenario.policy, grow="domains")
    assert answer.most is not None
    assert (answer.most < workload_of(scenario).domains) is bool(breaks)
    scenario = scenario.replace(length="9d")
    seen = rs.run(scenario, seed=1)
    asked = sum(
        len(list(one.times(scenario.start, scenario.end)))
        * (workload_of(scenario).domains if one.domains == "all" else one.domains)
        for one in scenario.clients.values()
        if isinstance(one, Schedule)
    )
    done = sum(
        seen.metric(f"jobs.{kind}.{what}").mean or 0
        for kind in ("rank_run", "crawl")
        for what in ("queued", "joined")
    )
    assert (done < asked) is bool(breaks), (done, asked)


@pytest.mark.fact("S104")
@pytest.mark.parametrize(("window", "refused"), [("first_hit", 1), ("gcra", 20)])
def test_requests_in_a_row_are_late_from_when_they_would_have_begun(window: str, refused: int) -> None:
    """Of 40 the last 20 wait for the second minute, or one for each three seconds; nothing spreads them."""
    briefs = {"kind": "brief_refresher", "account": "acme", "every": "week", "at": "09:00", "keywords": 40}
    scenario = agency(1, briefs=briefs).changed({"policy.assumptions.window": window})
    answer = fit(scenario, growth=2, spread="3m")
    assert (answer.burst.refused, answer.burst.late, answer.burst.noun) == (refused, MINUTE, "request")
    (note,) = (note for note in answer.notes if "429" in note)
    assert note.startswith(
        f"Asked for one after the other, 40 requests meet {units.many(refused, 'refusal')}"
    )
    assert "the last begins 1m late" in note


@pytest.mark.slow
def test_a_portfolio_carries_as_many_domains_as_its_plan_fits() -> None:
    """All start at one instant: 20 in each of five minutes."""
    scenario = agency()
    assert largest(workload_of(scenario), "agency", grow="domains").most == 100
    first = next(one.first for one in fit(scenario).plans if one.plan == "agency")
    assert first is not None
    assert (first.now.name, first.breaks_at) == ("job starts in a burst", 101)
    assert largest(workload_of(scenario, spread="1h"), "agency", grow="domains").most == 1200


@pytest.mark.slow
def test_a_request_of_a_sync_is_for_one_list() -> None:
    """1,000 domains of 10 words are 1,000 requests, of which 120 pass in a minute: eight minutes."""
    few = {"domains": 1000, "keywords": 10, "scans": ({},)}
    own = OwnAccount(
        planned(accounts={"acme": {"plan": "agency", "portfolio": few, "further": ()}}), simulate=False
    )
    answer = sync_time(Sync(10_000, lists=own.lists))
    assert (
        answer.sync.requests,
        {one.time for one in answer.plans if one.way == "wait"} >= {8 * MINUTE},
    ) == (
        1000,
        True,
    )
    two = planned(accounts={"acme": {"portfolio": {"lists": 2, "keywords": 101}, "further": ()}})
    assert OwnAccount(two, "acme").lists == (51, 50) * 3
    with pytest.raises(BadInput, match="lists: expected the 10 keywords, dealt over them, found 9"):
        Sync(10, lists=(4, 5))


def test_words_of_one_domain_or_another_take_more_slots_or_fewer() -> None:
    own = OwnAccount(planned(accounts={"acme": {"used": None}}), "acme")
    assert own.room_for_words() == (
        "Of the 5,000 slots of the plan pro 1,250 are used: 3,750 more words of 1 slot or 937 more words of "
        "4 slots each fit."
    )


# What is not counted is told, with how much it is


@pytest.mark.parametrize("count", [1, 100])
def test_a_timeline_is_left_out_and_told(count: int) -> None:
    """Twice so many words for each of 6 domains of five, of one slot each: from day 10 and day 20 on."""
    changes = tuple(
        {"do": "add_keywords", "at": f"{day}d", "account": "acme", "count": count} for day in (10, 20)
    )
    still = agency(6, ranks={"spread": "2m"})
    scenario = still.replace(timeline=changes)
    load = workload_of(scenario)
    seen = rs.run(scenario.replace(length="113d"))  # a month of 31 days after the last change
    slots, cost = (
        seen.metric(f"{name}.acme.max{more}").mean for name, more in (("slots", "_used"), ("spend", ""))
    )
    assert (slots, cost) == (
        load.slots + load.left_out.slots,
        fit(still).plans[-1].now.cost + load.left_out.spent,
    )
    assert load.left_out.slots == 2 * 6 * count
    answer = fit(scenario)
    assert f"Simulated once: 2 × add_keywords of the timeline. That comes to {12 * count:,} slots" in (
        " ".join(answer.notes)
    )
    plan = "free" if count == 1 else "pro"  # 30 slots and 12 are no more than 50
    assert [month.choice for month in fit(scenario, growth="1,1").months] == [plan, plan]
    assert answer.rows() == fit(still).rows()  # until day 10
    assert [then.plan for then in answer.later] == [plan, plan]
    changes_of = [then.later.changes for then in answer.later]
    assert changes_of == [f"each domain gets {units.many(count, 'keyword')}"] * 2


@pytest.mark.fact("U60")
def test_what_only_simulated_clients_do_is_a_capability_that_a_plan_must_have() -> None:
    """Briefs by a caller until 11 March, on a plan that has none: they would all be refused."""
    caller = {"kind": "caller", "account": "acme", "mix": {"keyword_briefs.create": 1}, "every": "1d"}
    scenario = agency(6, ranks={"spread": "2m"}, briefs={**caller, "stops": "10d"})
    scenario = scenario.replace(accounts={"acme": {"plan": "free"}})
    answer = fit(scenario, growth=1)
    breaks = {plan.plan: plan.now.breaks for plan in answer.plans}
    assert "capability keyword_briefs" in breaks["free"]
    assert breaks["starter"] == ()
    assert [then.sizes["free"].breaks for then in answer.later][-1] == ()
    assert rs.run(scenario).metric("refusals.entitlement_required").mean


def test_an_allowance_that_only_simulated_clients_use_is_a_limit() -> None:
    """A brief a week: the limit is there on each day of the month, on which nobody says how much is used."""
    caller = {"kind": "caller", "account": "acme", "mix": {"keyword_briefs.create": 1}, "every": "7d"}
    answer = fit(agency(6, ranks={"spread": "2m"}, briefs=caller), growth="1,1")
    assert uses(answer)["keyword_brief_refreshes a week"].now.need == 1


def test_a_client_that_stops_is_counted_for_as_long_as_it_works() -> None:
    """150 words, ten nights of 31; of one that begins later a whole month from then on, which is told."""
    costs = rs.Policy().catalogue.unit_costs.rank_run_page
    for bounds, nights, counted in (
        ({"stops": "10d"}, 10, 10),
        ({"starts": "21d"}, 10, 31),
        ({"starts": "5d", "stops": "12d"}, 7, 7),
    ):
        scenario = agency(ranks={"at": "02:00", "spread": "2m", **bounds})
        answer = fit(scenario)
        times = [{plan.plan: plan.now for plan in answer.plans}, *(then.sizes for then in answer.later)]
        at_work = [counted * 150 * costs * begun for begun in _at_work(**bounds)]
        assert [sizes["agency"].cost for sizes in times] == at_work
        assert rs.run(scenario).metric("spend.acme.max").mean == nights * 150 * costs
        notes = [note for note in workload_of(scenario).notes if note.startswith("ranks ")]
        assert len(notes) == len(bounds)
        assert any(f"{counted} occasion" in note for note in notes)
    assert (
        "31 occasions, of which the first month has 10; a growth in time counts those."
        in workload_of(agency(ranks={"starts": "21d"})).notes[0]
    )


def _at_work(starts: str = "", stops: str = "") -> list[bool]:
    """By time whether a client has begun: it counts when it stops, and no more from the next month on."""
    return [not starts, *[True] * bool(starts), *[True, False] * bool(stops)]


def test_a_client_of_hosts_that_a_timeline_adds_is_counted_among_what_is_left_out_alone() -> None:
    added = {"do": "add_domains", "at": "10d", "account": "acme", "domains": ["new.example"]}
    client = {"kind": "schedule", "account": "acme", "job": "crawl", "every": "week"}
    hosts = {"late": client | {"domains": ["new.example"], "starts": "10d"}}
    notes = workload_of(agency().replace(timeline=[added], clients=hosts)).notes
    assert any("add_domains of the timeline" in note for note in notes)
    assert not any("a whole month of it is counted" in note for note in notes)


def test_syncs_of_the_same_lists_are_told() -> None:
    sync = {"kind": "keyword_sync", "account": "acme", "every": "week"}
    note = (
        "These clients keep the same lists, each by what it put there itself; what one changes for the other "
    )
    for names in (("one",), ("one", "two")):
        notes = workload_of(agency(**dict.fromkeys(names, sync))).notes
        whose = [each.rpartition(": ")[2] for each in notes if each.startswith(note)]
        assert whose == (["one, two."] if len(names) > 1 else [])


def test_what_is_taken_to_be_simpler_is_told() -> None:
    load = workload_of(agency(3, ranks={"spread_by": "draws", "network": {"before": {"constant": "1s"}}}))
    assert load.notes == (
        "These clients are taken to spread their starts evenly: ranks.",
        "Calls are taken to need no time, though these clients have a network: ranks.",
    )


CEILING = "policy.catalogue.plans.agency.cost_ceiling"


ASK = [partial(fit, growth=1), partial(largest, grow="domains"), workers_of_scenario]


@pytest.mark.parametrize("ask", ASK)
def test_parameters_are_set_as_in_a_run(ask: Callable[..., ReadyAnswer]) -> None:
    settings = {CEILING: "1 USD", "scenario.clients.ranks.spread": "3h"}
    answer = ask(large(), settings=settings)
    assert answer.rows() == ask(large().changed(settings)).rows() != ask(large()).rows()
    with pytest.raises(BadInput, match=r"clients\.rank"):
        ask(large(), settings={"scenario.clients.rank.spread": "3h"})


def test_parameters_of_a_policy_are_set_for_a_portfolio_too() -> None:
    settings = {CEILING: "1 USD"}
    dear, portfolio = rs.Policy().changed(settings), Portfolio(domains=30)
    stated = fit(portfolio, dear).rows()
    assert stated != fit(portfolio).rows()
    assert fit(portfolio, settings=settings).rows() == stated
    assert fit(portfolio, catalogue="illustrative", settings=settings).rows() == stated
    answer = largest(portfolio, "agency", settings=settings)
    assert answer.rows() == largest(portfolio, "agency", dear).rows()
    with pytest.raises(BadInput, match="no input 'scenario'; expected one of policy"):
        fit(portfolio, settings={"scenario.length": "3d"})


def ceiling_set(scenario: rs.Scenario, *settings: tuple[str, str, str]) -> rs.Scenario:
    actions = [{"do": "set", "at": at, "path": path, "value": value} for at, path, value in settings]
    return scenario.replace(timeline=actions)


def large() -> rs.Scenario:
    """An account that only the plan agency fits, whose work costs about 150 USD a month."""
    words = {"acme": {"portfolio": {"keywords": 2000}}}
    return agency(6, ranks={"spread": "2m"}).replace(accounts=words)


def test_what_a_timeline_sets_is_answered_for_as_a_world_shows() -> None:
    still = large()
    price = ("5d", "policy.catalogue.plans.agency.price", "3000 USD")
    sets = ceiling_set(
        still.replace(length="62d"), price, ("31d", CEILING, "100 USD"), ("40d", CEILING, "120 USD")
    )
    answer = fit(sets)
    assert answer.rows() == fit(still).rows()
    assert answer.sentence.endswith(
        f"From 2026-03-06T00:00:00Z, when {price[1]} is 3000 USD, agency fits, for 3,000.00 USD a month. "
        f"From 2026-04-01T00:00:00Z, when {CEILING} is 100 USD, no plan fits (what breaks of agency: "
        "provider cost a month). What the timeline sets at 2026-04-10T00:00:00Z leaves that as it is."
    )
    assert answer.verdict == "the plan agency fits, and at ×2 it does too, then no plan"
    assert [row["breaks"] for row in answer.tables["later"] if row["plan"] == "agency"] == [
        [], ["provider cost a month"], ["provider cost a month"],
    ]  # fmt: skip
    assert not rs.run(still.replace(length="31d")).metric("refusals.cost_cap_reached").mean
    assert rs.run(sets).metric("refusals.cost_cap_reached").mean


def test_what_the_plan_of_the_account_lacks_is_told_where_another_fits() -> None:
    """Ten domains of 60 words take 600 of 500 slots: eight would fit."""
    still = agency(10, ranks={"spread": "2m"}).replace(accounts={"acme": {"portfolio": {"keywords": 60}}})
    on_starter = OwnAccount(still).load
    answer = fit(replace(on_starter, plan="starter"), still.policy)
    assert " Its plan starter lacks keyword slots (600 of 500); it carries 8 domains. " in answer.sentence
    assert "lacks" not in fit(still).sentence


def test_a_client_of_later_counts_from_then_on() -> None:
    """Of 25 briefs a week from 2 March on 20 are asked for, and 10 more from 1 April on to 1 May."""
    quota = "policy.catalogue.plans.pro.quotas.keyword_brief_refreshes.limit"
    briefs = {"kind": "brief_refresher", "account": "acme", "every": "week"}
    more = {"starts": "2026-04-01T00:00:00Z", "stops": "2026-05-01T00:00:00Z"}
    clients = {"few": {**briefs, "keywords": 20}, "more": {**briefs, "keywords": 10, **more}}
    scenario = agency(ranks={"spread": "2m"}).replace(length="80d", accounts={"acme": {"plan": "pro"}})
    sets = {"at": "2026-03-02T00:00:00Z", "do": "set", "path": quota, "value": 25}
    answer = fit(scenario.replace(clients=clients, timeline=[sets]))
    assert [plan.now.helps for plan in answer.plans if plan.plan == "pro"] == [{}]  # of 50
    later = [row for row in answer.tables["later"] if row["plan"] == "pro"]
    assert [(row["sets"], row["helps"]) for row in later] == [
        (f"{quota} is 25", ""), ("more begins", "1 brief_pack"), ("more stops", ""),
    ]  # fmt: skip


def test_a_growth_in_time_meets_what_is_set_by_the_end_of_each_month() -> None:
    sets = ceiling_set(large().replace(length="80d"), ("31d", CEILING, "100 USD"))
    answer = fit(sets, growth="1,1,1")
    assert [month.choice for month in answer.months] == ["agency", "no plan", "no plan"]
    assert any(note.startswith("Without growth: From 2026-04-01") for note in answer.notes)


def test_the_tables_of_a_first_month_in_which_something_is_set_are_those_of_its_end() -> None:
    sets = ceiling_set(large().replace(length="80d"), ("10d", CEILING, "100 USD"))
    answer = fit(sets, growth="1,1,2")
    assert {plan.plan: plan.now for plan in answer.plans} == answer.months[0].sizes
    assert {plan.plan: plan.grown for plan in answer.plans} == answer.months[2].sizes
    spend = uses(answer, "agency")["provider cost a month"]
    assert (spend.now.there, spend.now.exceeded) == (100_000_000, True)


def test_another_catalogue_and_other_questions_are_answered_for_the_time_before() -> None:
    sets = ceiling_set(large(), ("10d", CEILING, "0 USD"))
    before = f"The timeline sets {CEILING}: this is about what holds before."
    other = sets.policy.catalogue.model_copy(update={"name": "other"})
    assert before in fit(sets, catalogue=other).notes
    assert before in OwnAccount(sets).notes


BIG = """\
start: 2026-03-01T00:00:00Z
length: 31d
accounts:
  us:
    plan: agency
    portfolio: {domains: 30, keywords: 300, scans: [%s]}
    further: [{domains: [bigclient.com], keywords: 12000, scans: [%s]}]
clients:
  all: {kind: schedule, account: us, job: rank_run, every: day, at: "01:00", spread: 2h, domains: 30}
  big: {kind: schedule, account: us, job: rank_run, every: 12h, domains: [bigclient.com]}
"""
FOUR = "{engine_devices: [google/desktop, google/mobile, bing/desktop, bing/mobile]}"


@pytest.mark.fact("S23")
def test_a_client_of_named_hosts_is_counted_as_a_world_counts_it() -> None:
    """12,000 words of one domain twice a day, 300 of each of 30 others daily; a slot's run costs 400 µUSD."""
    scenario = rs.Scenario.parse(BIG % (FOUR, FOUR))
    by_hand = (48_000 * 62 + 30 * 1_200 * 31) * 400
    assert rs.run(scenario).metric("spend.us.max").mean == by_hand
    assert workload_of(scenario).slots == 84_000
    assert next(plan.now.cost for plan in fit(scenario).plans if plan.plan == "agency") == by_hand


def test_domains_of_the_timeline_are_left_out_and_told() -> None:
    still = large()
    added = {"do": "add_domains", "at": "10d", "account": "acme", "domains": 2}
    load = workload_of(still.replace(timeline=[added]))
    assert load.slots == workload_of(still).slots
    assert load.left_out.slots > 0
    assert any("1 × add_domains of the timeline" in note for note in load.notes)


def test_the_rest_of_the_month_is_that_of_the_calendar() -> None:
    """From noon on 10 April, 20 nights and three Mondays are to come of a month of 30 days."""
    scenario = planned(start="2026-04-10T12:00:00Z", accounts={"acme": {"anchor": "2026-04-01T00:00:00Z"}})
    costs = rs.Policy().catalogue.unit_costs
    rest = 20 * 1250 * costs.rank_run_page + 3 * 200 * costs.crawl_page + 3 * 40 * costs.keyword_brief
    assert uses(fit(scenario))["provider cost a month"].now.need == 80_000_000 + rest


APART = """\
start: 2026-03-01T00:00:00Z
length: 31d
accounts: {us: {plan: pro, portfolio: {domains: [a.example, b.example], keywords: 10}}}
clients:
  b: {kind: schedule, account: us, job: rank_run, every: day, at: "02:30", domains: [b.example]}
  a: {kind: schedule, account: us, job: rank_run, every: day, at: "02:00", domains: [a.example]}
"""


@pytest.mark.fact("S65", "U46")
@pytest.mark.parametrize(("scope", "gap", "fits"), [("domain", DAY, True), ("account", 30 * MINUTE, False)])
def test_a_domain_does_not_wait_for_the_cooldown_of_another(scope: str, gap: int, fits: bool) -> None:
    """Two domains run half an hour apart; the cooldown of an hour may be the account's."""
    scenario = rs.Scenario.parse(APART).replace(policy={"assumptions": {"cooldown_scope": scope}})
    cooldown = uses(fit(scenario))["cooldown of rank_run"].now
    assert (cooldown.there, not cooldown.exceeded) == (gap, fits)
    assert (rs.run(scenario).metric("refusals.cooldown_active").mean == 0) is fits


def test_domains_grow_as_copies_of_those_that_are_started() -> None:
    """Of a and b there are then two each: the copies of a are no b."""
    load = workload_of(rs.Scenario.parse(APART)).of_domains(4)
    b, a = load.starts
    assert [b.domain(index) for index in range(b.domains)] == [(1, 0), (1, 1)]
    assert [a.domain(index) for index in range(a.domains)] == [(0, 0), (0, 1)]


def test_clients_of_hosts_that_the_timeline_adds_are_left_out_for_a_month() -> None:
    """Twelve words a domain and night, from day 10 on: of 31 nights each, whenever the month begins."""
    late = "{kind: schedule, account: us, job: rank_run, every: day, at: '05:00', domains: [c.example]}"
    added = "{do: add_domains, at: 10d, account: us, domains: [c.example], keywords: 12}"
    load = workload_of(rs.Scenario.parse(f"{APART}  c: {late}\ntimeline: [{added}]\n"))
    assert load.left_out.slots == 12
    assert load.left_out.spent == 31 * 12 * rs.Policy().catalogue.unit_costs.rank_run_page
    more = f"{units.usd(load.left_out.spent)} a month more, in the month of most; `fit` and `portfolio` count"
    assert f"{more} what is there at each time" in load.notes[-1]


@pytest.mark.fact("S109")
def test_a_plan_that_fits_with_add_ons_breaks_with_them() -> None:
    """100 briefs a week are 50 and a pack of 50: that is enough, and one domain more is not."""
    briefs = {"kind": "brief_refresher", "account": "acme", "every": "week", "keywords": 100, "batch": 5}
    scenario = agency(3, briefs=briefs).replace(accounts={"acme": {"plan": "pro"}})
    answer = fit(scenario, growth=1)
    need = uses(answer)["keyword_brief_refreshes a week"]
    assert (need.now.exceeded, need.breaks_at) == (False, 4)


@pytest.mark.parametrize(
    ("sync", "slots", "pages"),
    [
        ({"keywords": 60}, 5 * 60 + 5 * 5 * 6, 5 * 60),  # of 40 words, up to 60
        ({"first": "memory", "keywords": 25}, 5 * 65 + 5 * 5 * 2, 5 * 65),  # beside the 40
        ({"keywords": 20}, 5 * 40 + 5 * 5 * 4, 5 * 40),
    ],
)
def test_lists_that_a_client_first_fills_are_counted_full(
    sync: dict[str, Any], slots: int, pages: int
) -> None:
    """Five domains of 40 words; in a March of five Mondays each replaces a tenth of what is known."""
    scenario = rs.Scenario.model_validate(
        {
            "start": "2026-02-01T00:00:00Z",
            "length": "59d",
            "accounts": {"us": {"plan": "agency", "portfolio": {"domains": 5, "keywords": 40}}},
            "clients": {
                "sync": {"kind": "keyword_sync", "account": "us", "every": "week", "at": "04:00", **sync},
                "ranks": {"kind": "schedule", "account": "us", "job": "rank_run", "at": "05:00"},
            },
        }
    )
    load, result = workload_of(scenario), rs.run(scenario, seed=1)
    counted = uses(fit(load, growth=1))
    spent = 31 * pages * rs.Policy().catalogue.unit_costs.rank_run_page
    assert result.metric("slots.us.max_used").mean == slots == counted["keyword slots"].now.need
    assert result.metric("spend.us.max").mean == spent == counted["provider cost a month"].now.need
    filled = [note for note in load.notes if "first fill lists" in note]
    assert len(filled) == (pages > 5 * 40)
