"""What planners are told of an account whose domains differ, and what its world shows: both are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planner.capacity.drawn_scenarios import ACCOUNT, SETTINGS, exported, scenarios, simulated

import ranksim as rs
from ranksim.core.callers.programs.calendars import Schedule
from ranksim.core.clock import DAY, MINUTE, SECOND
from ranksim.core.contract.quantities import Moment
from ranksim.planner.capacity.bursts import BURST
from ranksim.planner.capacity.fit_answer import PlanFit
from ranksim.planner.capacity.largest import CarriedFrom, largest
from ranksim.planner.capacity.later import MONTH_BEGINS
from ranksim.planner.capacity.limits import SPEND, TRACKED
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.plan_size import Size
from ranksim.planner.capacity.planned import OwnAccount, workload_of
from ranksim.planner.capacity.workers_world import workers_of_scenario

KINDS = ("rank_run", "crawl", "ai_scan")
PATIENCE = 6 * MINUTE + 37 * SECOND
"""A wait that no job has exactly."""


def asked(scenario: rs.Scenario) -> dict[str, int]:
    """How many jobs the calendars of its clients ask for, of the domains that there are at the time."""
    first = len(scenario.accounts[ACCOUNT].hosts(ACCOUNT))
    jobs = dict.fromkeys(KINDS, 0)
    for client in scenario.clients.values():
        assert isinstance(client, Schedule)
        stops = scenario.end if client.stops is None else client.stops.on(scenario.start)
        for at in client.times(client.starts.on(scenario.start), scenario.end):
            if at < stops:
                jobs[client.job] += _reached(client, first + _added(scenario, at))
    return jobs


def _reached(client: Schedule, domains: int) -> int:
    if isinstance(client.domains, tuple):  # hosts, of the first group, which are never removed
        return len(client.domains)
    return domains if client.domains == "all" else min(domains, client.domains)


def _added(scenario: rs.Scenario, now: int) -> int:
    """How many domains the timeline has added by then, but for those that it removed."""
    signs = {"add_domains": 1, "remove_domains": -1}
    past = [change for change in scenario.timeline if change.at.on(scenario.start) <= now]
    return sum(signs[change.do] * change.domains for change in past if change.do in signs)


def begun(seen: rs.Result) -> int:
    """How many of them were begun, or joined one that runs."""
    names = [f"jobs.{kind}.{what}" for kind in KINDS for what in ("queued", "joined")]
    return round(sum(seen.metric(name).mean or 0 for name in names))


def agency(scenario: rs.Scenario) -> PlanFit:
    return next(one for one in fit(scenario, growth=1).plans if one.plan == "agency")


def sizes_in_time(scenario: rs.Scenario) -> list[Size]:
    """What the plan agency comes to as the scenario begins, and at each time of later."""
    answer = fit(scenario, growth=1)
    begun = next(plan.now for plan in answer.plans if plan.plan == "agency")
    return [begun, *(then.sizes["agency"] for then in answer.later)]


@pytest.mark.slow
@given(scenarios())
def test_a_plan_loses_starts_where_its_world_does(scenario: rs.Scenario) -> None:
    seen = simulated(scenario)
    exceeded = {name for size in sizes_in_time(scenario) for name in size.breaks}
    if not seen.metric("refusals.cost_cap_reached").mean:  # how many pages a site has no scenario says
        assert bool(exceeded - {SPEND}) is (begun(seen) < sum(asked(scenario).values())), exceeded
    carried = largest(scenario, "agency", grow="domains").most
    assert carried is not None
    assert (carried < workload_of(scenario).domains) is bool(exceeded)


def test_a_dry_run_in_time_meets_the_cooldown_of_a_start_that_was_put_off() -> None:
    """Six calls of five that one minute admits: the last start is late each other day, and lost between."""
    daily = {"account": "acme", "max_tries": 2, "every": "day", "at": "01:00:00", "spread": "0s"}
    scenario = rs.Scenario.model_validate(
        {
            "start": "2026-03-01T00:00:00Z",
            "length": "31d",
            "policy": {"facts": {"rates": {"expensive": 5}}},
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 3, "keywords": 1}}},
            "clients": {"again": daily | {"kind": "schedule", "job": "crawl", "dry_run_first": True}},
            "pools": {"crawl": {"capacity": "unlimited", "duration": "20m", "failure_rate": 0.0}},
        }
    )
    assert begun(rs.run(scenario)) == sum(asked(scenario).values()) - 15
    assert any(use.now.exceeded for use in agency(scenario).limits)


def test_of_starts_at_one_instant_that_of_the_longer_wait_comes_first() -> None:
    """On Mondays a weekly crawl takes one of two calls a minute, so one of four daily runs is given up."""
    client = {"account": "acme", "max_tries": 2, "at": "01:00:00", "kind": "schedule"}
    scenario = rs.Scenario.model_validate(
        {
            "start": "2026-03-01T00:00:00Z",
            "length": "31d",
            "policy": {"facts": {"rates": {"expensive": 2}}},
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 4, "keywords": 1}}},
            "clients": {
                "ranks": client | {"job": "rank_run"},
                "crawls": client | {"job": "crawl", "every": "week", "max_tries": 5, "spread": "5m"},
            },
        }
    )
    assert begun(rs.run(scenario)) == sum(asked(scenario).values()) - 5
    assert any(use.now.name == BURST and use.now.exceeded for use in agency(scenario).limits)


@pytest.mark.slow
@given(scenarios(domains=True))
def test_slots_and_cost_are_those_of_the_world_but_for_what_is_told(scenario: rs.Scenario) -> None:
    schedules = [one for one in scenario.clients.items() if isinstance(one[1], Schedule)]
    ranks = {name: one for name, one in schedules if isinstance(one, Schedule) and one.job == "rank_run"}
    longer = 124 * DAY if scenario.timeline else scenario.length  # a month of 31 days after its last change
    scenario = scenario.model_copy(update={"clients": ranks, "length": longer})
    seen, load = simulated(scenario), workload_of(scenario)
    at_once = next(one for one in fit(load, scenario.policy, growth=1).plans if one.plan == "agency")
    tracked = next(use for use in at_once.limits if use.now.name == TRACKED)
    assert seen.metric(f"slots.{ACCOUNT}.max_used").mean == tracked.now.need
    assert any(note.startswith("Simulated once: ") for note in load.notes) is bool(scenario.timeline)
    spent = seen.metric(f"spend.{ACCOUNT}.max").mean
    assert spent is not None
    most = max(size.cost for size in sizes_in_time(scenario))
    later = any(one.starts.on(scenario.start) > scenario.start for one in ranks.values())
    assert any(" begins " in note for note in load.notes) is later
    lost = begun(seen) < sum(asked(scenario).values()) or seen.metric("calls.joined").mean
    removed = any(change.do == "remove_domains" for change in scenario.timeline)
    if not later and not lost and not removed:
        assert spent == most
    assert spent <= most


def stated_at(scenario: rs.Scenario, at: int) -> rs.Scenario:
    """A scenario without a timeline that begins with what its world tracks at an instant."""
    world = rs.World(scenario.replace(clients={}))
    world.env.run(until=at - scenario.start + 1)
    sites = exported(scenario, world.service).accounts[ACCOUNT].sites
    account = scenario.accounts[ACCOUNT].model_copy(update={"portfolio": None, "further": (), "sites": sites})
    return scenario.model_copy(update={"timeline": (), "accounts": {ACCOUNT: account}})


@pytest.mark.slow
@given(scenarios())
def test_workers_are_enough_in_the_world_and_no_fewer_are(scenario: rs.Scenario) -> None:
    answer = workers_of_scenario(scenario, within=PATIENCE, replications=2)
    enough = {one.kind: one.by_simulation or 0 for one in answer.kinds}
    for fewer in (0, 1):
        pools = {kind: {"capacity": workers - fewer} for kind, workers in enough.items() if workers > fewer}
        seen = simulated(scenario, pools=pools)
        for kind in pools:
            p95 = seen.metric(f"jobs.{kind}.wait.p95").mean
            assert p95 is not None
            assert (p95 <= PATIENCE) is not fewer, (kind, enough[kind])


def setting_at(scenario: rs.Scenario, setting: tuple[str, str | int], at: str) -> rs.Scenario:
    """The scenario with a timeline that sets something, too."""
    path, value = setting
    change = {"at": at, "do": "set", "path": path, "value": value}
    return scenario.changed({"scenario.timeline": [*scenario.model_dump(mode="json")["timeline"], change]})


def at_work(scenario: rs.Scenario, at: int) -> dict[str, Schedule]:
    """The clients that have begun by an instant, and not stopped, as if from the beginning."""
    return {
        name: client.model_copy(update={"starts": Moment(us=0)})
        for name, client in scenario.clients.items()
        if isinstance(client, Schedule)
        and client.starts.on(scenario.start) <= at
        and (client.stops is None or at < client.stops.on(scenario.start))
    }


@pytest.mark.slow
@given(scenarios(domains=True), SETTINGS, st.sampled_from(["3d", "9d", "20d"]))
def test_each_time_is_a_scenario_that_states_what_is_there_and_at_work_then(
    scenario: rs.Scenario, setting: tuple[str, str | int], at: str
) -> None:
    path, value = setting
    if "rates" in path:  # the other actions are simulated once, under the rates of before
        scenario = scenario.model_copy(update={"timeline": ()})
    if any("domains" in change.do for change in scenario.timeline):  # a world draws the pages of their crawls
        ranks = {name: one for name, one in scenario.clients.items() if one.job == "rank_run"}
        scenario = scenario.model_copy(update={"clients": ranks})
    start, clients = scenario.start, scenario.clients.values()
    edges = {edge.on(start) for client in clients for edge in (client.starts, client.stops) if edge}
    changed = setting_at(scenario, setting, at)
    before, answer = (fit(one, growth=1) for one in (scenario, changed))
    assert answer.plans == before.plans
    instant = changed.timeline[-1].at.on(start)
    months = [then for then in answer.later if not then.later.changes]
    stops = [client.stops.on(start) for client in clients if client.stops]  # what it did counts until April
    assert bool(months) <= bool([*changed.timeline[:-1], *stops])
    changes = {change.at.on(start) for change in changed.timeline}
    assert sorted(changes | {at for at in edges if at > start}) == [
        then.later.at for then in answer.later if then not in months
    ]
    most = max(plan.now.cost for plan in answer.plans)
    for then in answer.later:
        there = at_work(scenario, then.later.at)
        if "ranks" not in there:  # they would be taken to run daily
            continue
        stated = stated_at(scenario, then.later.at).model_copy(update={"clients": there})
        stated = stated.changed({path: value}) if then.later.at >= instant else stated
        sizes = {plan.plan: plan.now for plan in fit(stated, growth=1).plans}  # of the month of most
        lost = {*sizes["agency"].breaks} - {SPEND, TRACKED}  # a world does not pay what its limits refuse
        is_first = not scenario.timeline and not any(stop <= then.later.at for stop in stops)
        if is_first or (then is answer.later[-1] and not lost):
            sizes = {name: replace(size, domains=then.sizes[name].domains) for name, size in sizes.items()}
            assert then.sizes == sizes
        most = max(most, *(size.cost for size in sizes.values()))
        assert all(size.cost <= most for size in then.sizes.values())


@pytest.mark.slow
@given(scenarios(domains=True), SETTINGS, st.sampled_from(["3d", "9d", "20d"]))
def test_what_fits_at_a_time_is_what_a_portfolio_carries_then(
    scenario: rs.Scenario, setting: tuple[str, str | int], at: str
) -> None:
    before, changed = fit(scenario, growth=1), setting_at(scenario, setting, at)
    answer, own = fit(changed, growth=1), OwnAccount(changed)
    if "rates" not in setting[0]:  # else the simulated actions meet other rates
        assert answer.plans == before.plans
    carried = largest(own, grow="domains")
    times = carried.times or (CarriedFrom(changed.start, carried.most, carried.binding.name, ""),)
    assert answer.later
    for then in answer.later:
        most = [one.most for one in times if one.at <= then.later.at][-1]
        if most is None or most >= own.load.domains:
            assert then.sizes["agency"].breaks == ()
        else:  # of one more something breaks; of still more a rate limit may lose none again
            one_more = fit(then.later.load.of_domains(most + 1), then.later.policy, growth=1)
            assert next(plan.now.breaks for plan in one_more.plans if plan.plan == "agency")


@pytest.mark.slow
@given(scenarios(timeline=False), SETTINGS, st.sampled_from(["3d", "9d", "20d"]))
def test_each_time_of_a_portfolio_is_a_scenario_that_states_it(
    scenario: rs.Scenario, setting: tuple[str, str | int], at: str
) -> None:
    path, value = setting
    changed = setting_at(scenario, setting, at)
    answer = largest(changed, grow="domains")
    start = scenario.start
    times = answer.times or [CarriedFrom(start, answer.most, answer.binding.name, "")]
    assert answer.most == min(then.most for then in times if then.most is not None)
    instant = changed.timeline[0].at.on(start)
    for then in times:
        there = at_work(scenario, then.at)
        if "ranks" not in there:  # they would be taken to run daily
            continue
        stated = scenario.model_copy(update={"clients": there})
        stated = stated.changed({path: value}) if instant <= then.at else stated
        own = OwnAccount(stated)
        carried = largest(own.load, "agency", own.policy, grow="domains").most
        assert carried is not None
        assert then.most is not None
        stops = [client.stops.on(start) for client in scenario.clients.values() if client.stops]
        if (
            any(stop <= then.at for stop in stops) and then.changes != MONTH_BEGINS
        ):  # what it did still counts
            assert then.most <= carried
        else:
            assert then.most == carried, then


@pytest.mark.slow
@given(scenarios(domains=True), st.lists(st.sampled_from([1, 1.5, 3]), min_size=1, max_size=4))
def test_the_sizes_of_a_growth_in_time_are_those_of_its_first_and_its_largest_month(
    scenario: rs.Scenario, factors: list[float]
) -> None:
    factors = [1, *factors]
    answer = fit(scenario, growth=",".join(map(str, factors)))
    largest_month = answer.months[factors.index(max(factors))]
    for plan in answer.plans:
        assert plan.now == answer.months[0].sizes[plan.plan]
        assert plan.grown == largest_month.sizes[plan.plan]
        lacking = {use.grown.name for use in plan.limits if use.grown.exceeded}
        assert {*plan.grown.breaks} - lacking <= {BURST}


@pytest.mark.slow
@given(scenarios(timeline=False))
def test_an_account_has_as_many_words_and_slots_as_its_world(scenario: rs.Scenario) -> None:
    own, world = OwnAccount(scenario), rs.World(scenario)
    lists = world.service.state.keyword_lists
    assert sorted(own.lists) == sorted(len(one.words) for one in lists.values())
    books = world.service.state.accounts[world.actors[ACCOUNT].account].books
    assert own.slots_left == own.plan.slot_limit - books.active
    bare = scenario.model_copy(update={"clients": {}})
    assert OwnAccount(bare).jobs() == {"rank_run": own.load.domains}
