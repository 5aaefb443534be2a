"""Speed of the fleet engine against a simulated world, and memory of a large fleet.

Ratios within one run: both sides are timed here, in turn, on the same machine.
"""

import json
import os
import subprocess
import sys
from time import perf_counter
from typing import Any

import pytest

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.windows import NAMES
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

USAGE = {"read": 80.0, "write": 9.0, "rank_run": 4.0, "keywords": 2.0, "keyword_briefs": 4.0, "crawl": 1.0}
"""A hundred calls a day."""

OPERATIONS = {
    "read": ("account.get", {}),
    "write": ("labels.create", {}),
    "rank_run": ("jobs.create", {}),
    "keywords": ("keywords.create", {}),
    "keyword_briefs": ("keyword_briefs.create", {}),
    "crawl": ("jobs.create", {"kind": "crawl"}),
}


def population(accounts: int, days: int = 30) -> Population:
    segment = {
        "plans": {"pro": {}},
        "usage": USAGE,
        "portfolio": {"domains": 2, "keywords": 50},
        "sizes": {"keywords": 1},
    }
    return Population.model_validate(
        {"accounts": accounts, "start": 20_514 * DAY, "length": days * DAY, "segments": {"shops": segment}}
    )


def world(accounts: int, days: int) -> Scenario:
    """The same customers as a scenario: a caller each for every activity."""
    clients = {}
    for account in range(accounts):
        for activity, rate in USAGE.items():
            operation, body = OPERATIONS[activity]
            clients[f"c{account}_{activity}"] = {
                "kind": "caller",
                "account": f"a{account}",
                "mix": {operation: {"weight": 1.0, "body": body}},
                "every": round(DAY / rate),
                "arrivals": "poisson",
                "on_limit": "ignore",
                "max_tries": 1,
            }
    whole = {
        "start": 20_514 * DAY,
        "length": days * DAY,
        "accounts": {
            f"a{account}": {"plan": "pro", "portfolio": {"domains": 2, "keywords": 50}}
            for account in range(accounts)
        },
        "clients": clients,
    }
    return Scenario.model_validate(whole)


def seconds(function: Any) -> tuple[float, Any]:
    begun = perf_counter()
    made = function()
    return perf_counter() - begun, made


@pytest.mark.parametrize("window", NAMES)
def test_against_a_world(benchmark: Any, window: str) -> None:
    """Decisions a second: a fleet of 2,000 accounts, and a world of 10, each for 30 days."""
    policy = Policy().replace(assumptions={"window": window})
    simulate_fleet(population(1, 1), policy, compiled=True)
    scenario = world(10, 30).replace(policy=policy)
    took, result = seconds(lambda: run(scenario, replications=1))
    in_world = result.values("calls.total")[0] / took
    fleet = benchmark.pedantic(
        simulate_fleet, args=(population(2_000), policy), kwargs={"compiled": True}, rounds=3, iterations=1
    )
    in_fleet = fleet.tallies["calls"].sum() / benchmark.stats.stats.min
    benchmark.extra_info["fleet_decisions_per_second"] = round(in_fleet)
    benchmark.extra_info["world_decisions_per_second"] = round(in_world)
    benchmark.extra_info["ratio"] = round(in_fleet / in_world)
    assert in_fleet > 100 * in_world


def test_interpreted(benchmark: Any) -> None:
    """Without Numba: decisions a second of the same kernel, interpreted."""
    small = population(10)
    fleet = benchmark.pedantic(
        simulate_fleet, args=(small,), kwargs={"compiled": False}, rounds=3, iterations=1
    )
    calls = fleet.tallies["calls"].sum()
    benchmark.extra_info["decisions_per_second"] = round(calls / benchmark.stats.stats.min)


PEAK = """
import json, re, sys
from pathlib import Path
from time import perf_counter
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
population = Population.model_validate_json(sys.argv[1])
begun = perf_counter()
simulate_fleet(population.replace(accounts=1), compiled=True)
ready = perf_counter()
result = simulate_fleet(population, compiled=True)
done = perf_counter()
status = Path("/proc/self/status").read_text()
print(json.dumps({
    "first_call": ready - begun,
    "seconds": done - ready,
    "calls": int(result.tallies["calls"].sum()),
    "peak": int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024,
}))
"""


def test_ten_thousand_accounts_for_a_month(benchmark: Any) -> None:
    """End to end in a fresh process: 10,000 accounts, 30 days, 100 requests a day; and twice as many."""
    simulate_fleet(population(1, 1), compiled=True)

    def once(accounts: int) -> dict[str, float]:
        command = [sys.executable, "-c", PEAK, population(accounts).model_dump_json()]
        environment = os.environ | {"PYTHONPATH": "src"}
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        found: dict[str, float] = json.loads(printed)
        return found

    month = benchmark.pedantic(once, args=(10_000,), rounds=1, iterations=1)
    twice = once(20_000)
    for name in ("first_call", "seconds"):
        benchmark.extra_info[name] = round(month[name], 2)
    benchmark.extra_info["calls"] = month["calls"]
    benchmark.extra_info["peak_mb"] = round(month["peak"] / 1e6)
    benchmark.extra_info["peak_mb_twice_the_accounts"] = round(twice["peak"] / 1e6)
    assert month["peak"] < 300e6
