"""Dotted paths: what they lead to, what is near a wrong one, and how they are laid over a model."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ranksim.core.clock import instant
from ranksim.core.contract.parameters import check_unit, parts_of, present_value, tree_of
from ranksim.core.contract.plans import Plan
from ranksim.core.errors import BadInput
from ranksim.planner.study.engines import Worlds
from ranksim.planner.study.study import Study
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.scenario import Scenario

NEW_YEAR = instant("2026-01-01T00:00:00Z")
SCENARIO = Scenario.parse(
    """
start: 2026-01-05T00:00:00Z
length: 1d
accounts:
  acme:
    plan: pro
    portfolio: {domains: 2, keywords: 5, scans: [{geographies: [US]}, {geographies: [DE, FR]}]}
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day}
  reader: {kind: poller, account: acme, operation: account.usage, every: 1h}
receivers:
  erp: {account: acme, outages: [{from: 1h, for: 30m}]}
"""
)
WORLDS = Worlds(SCENARIO)
PRO = "policy.catalogue.plans.pro"


DRAWN = {
    "scenario.pools.rank_run.capacity": 4,
    "scenario.pools.rank_run.duration": {"lognormal": {"median": "4m", "sigma": 0.5}},
    "scenario.receivers.erp.latency": {"uniform": {"low": "1s", "high": "3s"}},
    "scenario.receivers.erp.mtbf": {"empirical": ["1h", "3h"]},
    "scenario.receivers.erp.mttr": "1h",
    "policy.catalogue.job_durations.crawl": {"exponential": {"mean": "9m"}},
    "scenario.faults": [{"operation": "jobs.list", "latency": {"exponential": {"mean": "1s"}}}],
}
"""Distributions of each kind, in a scenario, in its policy and in an item of a list."""


def plan(built: Scenario) -> Plan:
    return built.policy.catalogue.plans["pro"]


def erp(built: Scenario) -> ReceiverSpec:
    return built.receivers["erp"]


def slow(built: Scenario) -> bool:
    return erp(built).latency.kind == "exponential"


def keywords(built: Scenario) -> object:
    return getattr(built.accounts["acme"].portfolio, "keywords", None)


def pool(built: Scenario) -> int | str | None:
    return built.pools["rank_run"].capacity if "rank_run" in built.pools else None


def test_a_path_is_split_at_dots_and_brackets() -> None:
    assert parts_of("scenario.a.b[0].c") == parts_of("scenario.a.b.0.c") == ("scenario", "a", "b", 0, "c")


@pytest.mark.parametrize(
    ("path", "value", "holds"),
    [
        ("scenario.length", "2d", lambda built: built.length == 2 * 86_400_000_000),
        ("scenario.plan", "agency", lambda built: built.accounts["acme"].plan == "agency"),
        ("scenario.accounts.acme.plan", "agency", lambda built: built.accounts["acme"].plan == "agency"),
        ("scenario.accounts.acme.portfolio.keywords", 7, lambda b: keywords(b) == 7),
        ("scenario.clients.reader.every", "2h", lambda b: b.clients["reader"].every == 7_200_000_000),
        ("scenario.pools.rank_run.capacity", 3, lambda b: pool(b) == 3),
        ("scenario.pools.rank_run", "unlimited", lambda b: pool(b) == "unlimited"),
        ("scenario.receivers.erp.latency", {"exponential": {"mean": "1s"}}, slow),
        ("scenario.receivers.erp.outages[0].for", "45m", lambda b: erp(b).outages[0].length == 2_700_000_000),
        ("policy.assumptions.window", "gcra", lambda b: b.policy.assumptions.window == "gcra"),
        ("policy.facts.webhook_disable_after", 3, lambda b: b.policy.facts.webhook_disable_after == 3),
        ("scenario.length", timedelta(days=2), lambda built: built.length == 2 * 86_400_000_000),
        ("scenario.length", np.timedelta64(2, "D"), lambda built: built.length == 2 * 86_400_000_000),
        ("scenario.start", datetime(2026, 1, 1, tzinfo=UTC), lambda b: b.start == NEW_YEAR),
        ("scenario.start", pd.Timestamp(2026, 1, 1, 9, tz="Asia/Tokyo"), lambda b: b.start == NEW_YEAR),
        ("scenario.start", np.datetime64("2026-01-01"), lambda built: built.start == NEW_YEAR),  # UTC
        ("scenario.start", np.datetime64(NEW_YEAR, "us"), lambda built: built.start == NEW_YEAR),
        ("scenario.pools.rank_run.capacity", np.int64(3), lambda b: type(pool(b)) is int and pool(b) == 3),
        ("scenario.receivers.erp.latency", {"exponential": {"mean": timedelta(seconds=1)}}, slow),
        ("policy.facts.rate_window", timedelta(hours=1), lambda b: b.policy.facts.rate_window == 36 * 10**8),
        (f"{PRO}.cost_ceiling", "99 USD", lambda b: plan(b).cost_ceiling == 99_000_000),
        (f"{PRO}.cooldowns.crawl", "2h", lambda b: plan(b).cooldowns["crawl"] == 7_200_000_000),
        ("policy", {"assumptions": {"window": "gcra"}}, lambda b: b.policy.assumptions.window == "gcra"),
        ("policy.catalogue", "illustrative-metered", None),
        ("policy", {"catalogue": "illustrative-metered"}, None),
    ],
)  # fmt: skip
def test_a_parameter_is_set(path: str, value: Any, holds: Any) -> None:
    WORLDS.check_path(path)
    if holds is None:
        with pytest.raises(BadInput, match="no plan 'pro'"):
            WORLDS.build({path: value})
        return
    built = WORLDS.build({path: value})
    assert holds(built)
    assert not holds(SCENARIO)
    assert built.clients.keys() == SCENARIO.clients.keys()
    assert WORLDS.meaning(built) != WORLDS.meaning(SCENARIO)


def written(built: Scenario, path: str) -> Any:
    return present_value(path, built.roots).model_dump(mode="json")


@pytest.mark.parametrize(
    ("path", "part", "value", "distribution"),
    [
        ("pools.rank_run.duration", "lognormal.median", "6m", {"lognormal": {"median": "6m", "sigma": 0.5}}),
        ("pools.rank_run.duration", "lognormal.sigma", 1, {"lognormal": {"median": "4m", "sigma": 1.0}}),
        ("pools.rank_run.duration", "exponential.mean", "6m", {"exponential": {"mean": "6m"}}),
        ("pools.rank_run.duration", "constant", timedelta(minutes=5), "5m"),
        ("receivers.erp.latency", "uniform.high", "5s", {"uniform": {"low": "1s", "high": "5s"}}),
        ("receivers.erp.mtbf", "empirical[0]", "2h", {"empirical": ["2h", "3h"]}),
        ("receivers.erp.mttr", "exponential.mean", "2h", {"exponential": {"mean": "2h"}}),
        ("catalogue.job_durations.crawl", "exponential.mean", "1h", {"exponential": {"mean": "1h"}}),
        ("faults[0].latency", "exponential.mean", "2s", {"exponential": {"mean": "2s"}}),
    ],
)
def test_a_number_of_a_distribution_is_set(path: str, part: str, value: Any, distribution: Any) -> None:
    path = f"{'policy' if path.startswith('catalogue') else 'scenario'}.{path}"
    scenario = SCENARIO.changed(DRAWN)
    changed = as_from_a_file(scenario, f"{path}.{part}", value)
    assert written(changed, path) == distribution
    others = DRAWN.keys() - {path, "scenario.faults", "scenario.pools.rank_run.capacity"}
    assert all(written(changed, other) == written(scenario, other) for other in others)


def as_from_a_file(scenario: Scenario, path: str, value: Any) -> Scenario:
    check_unit(path, value, scenario.roots)
    return scenario.changed({path: value})


def test_another_kind_of_distribution_takes_all_its_numbers() -> None:
    latency = "scenario.receivers.erp.latency"
    both = SCENARIO.changed({f"{latency}.uniform.low": "1s", f"{latency}.uniform.high": "2s"})
    assert written(both, latency) == {"uniform": {"low": "1s", "high": "2s"}}
    with pytest.raises(BadInput, match=r"receivers\.erp\.latency: uniform takes low and high"):
        SCENARIO.changed({f"{latency}.uniform.low": "1s"})


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("exponential.mean", 6, "write a duration such as '1h30m' or '250ms', found 6"),
        ("exponential", 6, "expected the path of one of its fields, .mean; found 6"),
        ("exponential.median", "6m", "exponential has no 'median'; did you mean 'mean'?"),
        ("gamma.mean", "6m", "no 'gamma'; did you mean 'scenario.pools.rank_run.duration.exponential.mean'?"),
        ("exponential.mean", "6 parsecs", "6 parsecs"),
        ("exponential.mean", "-6m", "none is negative"),
        ("lognormal.sigma", 30, "sigma is a number from 0 to 20"),
    ],
)
def test_a_number_of_a_distribution_is_checked(part: str, value: Any, message: str) -> None:
    scenario, path = SCENARIO.changed(DRAWN), f"scenario.pools.rank_run.duration.{part}"
    with pytest.raises(BadInput, match=r".") as caught:
        as_from_a_file(scenario, path, value)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT])
def test_no_time_is_refused_by_its_name(value: Any) -> None:
    for path, words in (("start", "instant"), ("length", "duration")):
        with pytest.raises(BadInput, match=rf"{path}: .*{words}") as caught:
            WORLDS.build({f"scenario.{path}": value})
        assert "NaT" in str(caught.value)
        assert "NaTZ" not in str(caught.value)


def test_an_instant_without_a_zone_is_refused() -> None:
    for value in (datetime(2026, 1, 1), pd.Timestamp(2026, 1, 1)):
        with pytest.raises(BadInput, match=r"start: .*, which has no time zone; give it one, such as UTC"):
            WORLDS.build({"scenario.start": value})


def test_a_length_of_time_is_no_number() -> None:
    for value in (timedelta(minutes=4), np.timedelta64(4, "m")):
        with pytest.raises(BadInput, match="write a "):
            WORLDS.build({"scenario.pools.rank_run.capacity": value})


@pytest.mark.parametrize("value", [3, None, ["policy.yaml"]])
def test_a_policy_is_a_path_or_a_mapping(value: Any) -> None:
    with pytest.raises(BadInput, match="policy: expected the path of a file or a mapping, found "):
        WORLDS.build({"policy": value})


def test_an_item_of_a_list_is_changed_alone() -> None:
    path = "scenario.accounts.acme.portfolio.scans[1].geographies"
    WORLDS.check_path(path)
    portfolio = WORLDS.build({path: ["IT"]}).accounts["acme"].portfolio
    assert portfolio is not None
    countries = [[place.country for place in scan.geographies] for scan in portfolio.scans]
    assert countries == [["US"], ["IT"]]


def test_several_parameters_are_set_at_once() -> None:
    settings = {
        "scenario.pools.rank_run.capacity": 2,
        "scenario.pools.rank_run.duration": "9m",
        "policy.assumptions.join": "never",
        "policy.facts.webhook_disable_after": 2,
    }
    built = WORLDS.build(settings)
    assert built.pools["rank_run"].duration is not None
    assert (built.pools["rank_run"].capacity, built.policy.assumptions.join) == (2, "never")
    assert built.policy.facts.webhook_disable_after == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("scenaro.length", "no parameter 'scenaro.length': no input 'scenaro'; did you mean 'scenario'?"),
        ("scenario.lenght", "scenario has no 'lenght'; did you mean 'length'?"),
        ("scenario.pools.rank_runs.capacity", "scenario.pools has no 'rank_runs'; did you mean 'rank_run'?"),
        ("scenario.pools.rank_run.capacty", "rank_run has no 'capacty'; did you mean 'capacity'?"),
        ("scenario.accounts.acne.plan", "scenario.accounts has no 'acne'; did you mean 'acme'?"),
        ("scenario.clients.reader.job", "scenario.clients.reader has no 'job'"),
        ("scenario.receivers.erp.outages[1].for", "outages has no 1; expected one of 0"),
        ("policy.catalogue.plans.por.price", "policy.catalogue.plans has no 'por'; did you mean 'pro'?"),
        ("policy.catalogue.plans.pro.price.cents", "price has no parts"),
        ("scenario", "scenario is decided by the study"),
        ("scenario.seed", "scenario.seed is decided by the study"),
        ("scenario[seed]", "scenario[seed] is decided by the study"),
        ("scenario.policy", "scenario.policy is decided by the study"),
        ("", "no parameter ''"),
    ],
)
def test_a_parameter_that_there_is_not(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        WORLDS.check_path(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_a_setting_and_a_part_of_it(order: int) -> None:
    settings = [("scenario.pools.rank_run", 3), ("scenario.pools.rank_run.capacity", 4)][::order]
    with pytest.raises(ValueError, match="set one of them"):
        tree_of(dict(settings), "scenario")


def test_a_number_in_place_of_fields_is_told_which_there_are() -> None:
    path = f"{PRO}.quotas.keyword_brief_refreshes"
    with pytest.raises(BadInput, match=r"expected the path of one of its fields, .*\.limit, .*; found 30"):
        check_unit(path, 30, SCENARIO.roots)
    check_unit(f"{path}.limit", 30, SCENARIO.roots)


def test_points_that_mean_the_same_are_the_same() -> None:
    one, other = (WORLDS.build({"scenario.length": length}) for length in ("1d", "24h"))
    assert WORLDS.meaning(one) == WORLDS.meaning(other) == WORLDS.meaning(SCENARIO)


def test_a_study_is_over_a_number_of_a_distribution() -> None:
    scenario = SCENARIO.changed({"scenario.pools.rank_run.capacity": 1, "scenario.length": "2d"})
    path, waits = "scenario.pools.rank_run.duration.exponential.mean", "jobs.rank_run.wait.max"
    result = Study.of(scenario, factors={path: ["1s", "2h"]}, measure=[waits], replications=2).run()
    short, long = (result.values(point, waits) for point in result.points)
    assert all(a is not None and b is not None and a < b for a, b in zip(short, long, strict=True))
