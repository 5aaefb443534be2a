"""What answers name as what they hang on, of drawn accounts and worlds, against every option of all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.kit.options import OPTIONS, changing

import ranksim as rs
import ranksim.planner.capacity.largest as portfolios
import ranksim.planner.capacity.sync as syncing
from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.located import Located
from ranksim.core.contract.register import register
from ranksim.planner.capacity.largest import largest
from ranksim.planner.capacity.planned import OwnAccount
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.sync import Sync, dealt, sync_time
from ranksim.planner.capacity.workers_world import workers_of_scenario
from ranksim.report.heading import answer_of
from ranksim.report.readings import NO_READINGS, Readings
from ranksim.report.units import duration
from ranksim.twin.sim.expectations import judge_expectations

Verdict = Callable[[dict[str, Any]], object]

JOBS = ("rank_run", "crawl", "ai_scan")
PLANS = ("starter", "pro", "agency")

pytestmark = pytest.mark.slow


def drawn(examples: int) -> settings:
    """So many examples; a failing one is shown as it was drawn, as to shrink it takes many minutes."""
    return settings(max_examples=examples, phases=[Phase.generate])


def numbers_of(fields: set[str]) -> set[str]:
    return {f"U{entry.number}" for entry in register() if fields & {*entry.fields}}


def numbers_in(pattern: str, lines: tuple[str, ...]) -> set[str]:
    """The numbers of assumptions in a part of some lines."""
    parts = re.findall(pattern, "\n".join(lines), re.M)
    return {*re.findall(r"U\d+", " ".join(parts))}


def check(readings: Readings, verdict: Verdict) -> None:
    """What is named is what changes the verdict, option by option; folded is all else that was tried."""
    expected = changing(verdict)
    assert readings.changing() == expected
    lines = readings.around()
    named = numbers_in(r"^This holds under \d+ of \d+ readings of ([U\d]+(?: and [U\d]+)*)", lines)
    assert named == numbers_of({*expected})
    folded = numbers_in(r"^\d+ (?:others?|assumptions?) leaves? the verdict as it is: (.*)", lines)
    assert folded == numbers_of({tried.field for tried in readings.tried}) - named
    for tried_field in readings.tried:
        options = {*OPTIONS[tried_field.field.removeprefix("assumptions.")]}
        assert {tried_field.assumed, *tried_field.verdicts} == options


def asked_once(verdict: Verdict, *modules: ModuleType) -> Verdict:
    """A verdict, or that there is none, of a question that does not try other readings itself."""

    def asked(assumptions: dict[str, Any]) -> object:
        try:
            return verdict(assumptions)
        except rs.BadInput:
            return "refused"

    for module in modules:
        asked = patch.object(module, "under_readings", lambda ask, policy, _: (ask(policy)[0], NO_READINGS))(
            asked
        )
    return asked


def policy(rates: dict[str, int], assumptions: dict[str, Any] | None = None) -> rs.Policy:
    return rs.Policy().replace(facts={"rates": rates}, assumptions=assumptions or {})


RATES = st.fixed_dictionaries(
    {"read": st.just(1_200), "write": st.integers(3, 12), "expensive": st.integers(2, 8)}
)


@st.composite
def syncs(draw: st.DrawFn) -> Sync:
    keywords = draw(st.integers(1, 60))
    lists = dealt(keywords, draw(st.integers(1, 3)))
    latency = draw(st.sampled_from([0, SECOND, 10 * SECOND]))
    return Sync(
        keywords, draw(st.integers(1, 5)), draw(st.integers(0, 10)), latency, draw(st.integers(0, 3)), lists
    )


@drawn(5)
@given(syncs(), RATES)
def test_of_a_sync(sync: Sync, rates: dict[str, int]) -> None:
    try:
        answer = sync_time(sync, policy(rates))
    except rs.BadInput:
        return

    def best(assumptions: dict[str, Any]) -> str:
        time = sync_time(sync, policy(rates, assumptions)).best.time
        return "never" if time is None else duration(time)

    check(answer.readings, asked_once(best, syncing))


PORTFOLIOS = st.builds(
    Portfolio,
    domains=st.integers(1, 12),
    keywords=st.integers(1, 300),
    pairings=st.integers(1, 4),
    crawls=st.integers(0, 2),
    pages=st.sampled_from([100, 600, 3_000]),
    ai_scans=st.integers(0, 2),
    questions=st.sampled_from([10, 60]),
    briefs=st.integers(0, 2),
    churn=st.sampled_from([0, 0.2]),
    spread=st.sampled_from([0, MINUTE]),
    start_within=st.sampled_from([MINUTE, 60 * MINUTE]),
    keys=st.integers(1, 2),
)


@drawn(5)
@given(PORTFOLIOS, st.sampled_from(PLANS), st.sampled_from(["keywords", "domains"]), RATES)
def test_of_a_portfolio(portfolio: Portfolio, plan: str, grow: Any, rates: dict[str, int]) -> None:
    check(
        largest(portfolio, plan, policy(rates), grow=grow).readings,
        asked_once(lambda one: largest(portfolio, plan, policy(rates, one), grow=grow).most, portfolios),
    )


@st.composite
def worlds(draw: st.DrawFn) -> rs.Scenario:
    """A world of a day or two at a month's end: schedules and callers that meet limits, and a receiver."""
    clients: dict[str, Any] = {}
    for job in draw(st.sets(st.sampled_from(JOBS), min_size=1)):
        clients[job.replace("_", "-")] = {
            "kind": "schedule",
            "account": "acme",
            "job": job,
            "every": draw(st.sampled_from(["6h", "day"])),
            "at": "02:00",
            "max_tries": draw(st.sampled_from([1, 5])),
            "dry_run_first": draw(st.booleans()),
        }
    for operation in draw(st.sets(st.sampled_from(["keywords.create", "keyword_briefs.create"]))):
        clients[operation.replace(".", "-").replace("_", "-")] = {
            "kind": "caller",
            "account": "acme",
            "mix": {operation: 1},
            "every": draw(st.sampled_from(["5s", "17s"])),
            "starts": "1h59m",
            "stops": "2h3m",
        }
    data = {
        "name": "drawn",
        "start": "2026-03-30T23:00:00Z",
        "length": draw(st.sampled_from(["6h", "30h"])),
        "policy": {"facts": {"rates": draw(RATES)}},
        "accounts": {
            "acme": {
                "plan": draw(st.sampled_from(PLANS)),
                "portfolio": {"domains": draw(st.integers(4, 12)), "keywords": draw(st.integers(1, 30))},
            }
        },
        "clients": clients,
        "pools": {
            job: {
                "capacity": draw(st.sampled_from([1, 3, "unlimited"])),
                "duration": {"constant": draw(st.sampled_from(["40s", "4m"]))},
                "failure_rate": draw(st.sampled_from([0, 0, 0.4])),
            }
            for job in JOBS
        },
        "receivers": {"erp": {"account": "acme", "outages": [{"from": "3h", "for": "2h"}]}},
        "timeline": draw(
            st.lists(
                st.sampled_from(
                    [
                        {"at": "4h", "do": "remove_keywords", "account": "acme", "count": 1},
                        {"at": "5h", "do": "add_keywords", "account": "acme", "count": 1},
                        {"at": "3h30m", "do": "pause_scan", "account": "acme"},
                        {"at": "5h30m", "do": "enable_endpoint", "receiver": "erp"},
                        {
                            "at": "1h",
                            "do": "set",
                            "path": "policy.catalogue.plans.{}.cost_ceiling",
                            "value": "0.01 USD",
                        },
                    ]
                ),
                max_size=3,
                unique_by=lambda action: action["at"],
            )
        ),
    }
    plan = data["accounts"]["acme"]["plan"]
    data["timeline"] = [
        action | ({"path": action["path"].format(plan)} if "path" in action else {})
        for action in data["timeline"]
    ]
    return rs.Scenario.read(Located("drawn", data, {}))


def under(scenario: rs.Scenario, assumptions: dict[str, Any]) -> rs.Scenario:
    return scenario.replace(policy={"assumptions": assumptions})


@drawn(3)
@given(worlds(), st.sampled_from(PLANS), st.sampled_from(["keywords", "domains"]))
def test_of_the_portfolio_of_a_scenario(scenario: rs.Scenario, plan: str, grow: Any) -> None:
    def carried(assumptions: dict[str, Any]) -> int | None:
        own = OwnAccount(under(scenario, assumptions), simulate=False)
        return largest(own.load, plan, own.policy, grow=grow).most

    answer = largest(OwnAccount(scenario).under, plan, scenario.policy, grow=grow)
    check(answer.readings, asked_once(carried, portfolios))


@drawn(3)
@given(worlds(), st.sampled_from([30 * SECOND, 5 * MINUTE]))
def test_of_the_workers_of_a_scenario(scenario: rs.Scenario, within: int) -> None:
    def needed(assumptions: dict[str, Any]) -> object:
        answer = workers_of_scenario(under(scenario, assumptions), within=within, replications=2)
        return [(staffing.kind, staffing.by_simulation) for staffing in answer.kinds]

    try:
        answer = workers_of_scenario(scenario, within=within, replications=2, assumptions=True)
    except rs.BadInput:
        return
    check(answer.readings, asked_once(needed))


@drawn(3)
@given(worlds())
def test_of_a_run(scenario: rs.Scenario) -> None:
    def came_of(assumptions: dict[str, Any]) -> str:
        result = rs.run(under(scenario, assumptions))
        return answer_of(result.heading, result.tables)

    check(rs.run(scenario, assumptions=True).readings, came_of)


EXPECTED = ("jobs.rank_run.done", "refusals.total", "refusals.rate_limited", "slots.acme.max_used",
    "endpoints.erp.acknowledged", "endpoints.erp.failed", "spend.acme.spent", "calls.total")  # fmt: skip


@drawn(3)
@given(worlds(), st.sets(st.sampled_from(EXPECTED), min_size=1), st.integers(-1, 1))
def test_of_the_expectations_of_a_run(scenario: rs.Scenario, metrics: set[str], off: int) -> None:
    seen = rs.run(scenario)
    expected = [
        {"metric": name, bound: math.floor(value) + off}
        for name in sorted(metrics & {*seen.metrics})
        if (value := seen.metric(name).mean) is not None
        for bound in ("at_most", "at_least")
    ]
    scenario = scenario.replace(expect=expected)

    def held(assumptions: dict[str, Any]) -> list[bool]:
        result = rs.run(under(scenario, assumptions))
        return [judged.passed for judged in judge_expectations(scenario.expect, result)]

    check(rs.run(scenario, assumptions=True).readings, held)
