"""Workers at a peak: textbook values, cases that can be counted, and simulation beside the formula."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.contract.quantities import Distribution
from ranksim.core.errors import BadInput
from ranksim.inference.shares import clustered
from ranksim.planner.capacity.queueing import Peak, erlang_c, squared_variation, started_by_formula
from ranksim.planner.capacity.workers import JobDemand, peaks_of, started_in_time, workers_needed
from ranksim.planner.capacity.workers_world import workers_of_scenario
from ranksim.twin.sim.workers import PoolSpec


def of(kind: str, *durations: int, sigma: float = 0.0) -> Distribution:
    return Distribution(kind=kind, durations=durations, sigma=sigma)


def simulated(peak: Peak, workers: int, within: int, seed: int) -> int:
    """How many jobs of a peak start in time."""
    arrivals = peak.arrivals("rank_run", seed)
    pool = PoolSpec(capacity="unlimited", duration=peak.service)
    demand = JobDemand("rank_run", pool, [(arrivals, seed)], peak.is_drawn, peak)
    return started_in_time(demand, arrivals, workers, within, seed)


FOUR = of("constant", 4 * MINUTE)
MEMORYLESS = of("exponential", 4 * MINUTE)


@pytest.mark.parametrize(
    ("workers", "load", "waits"),
    [
        (1, 0.8, 0.8),  # M/M/1: the load itself
        (2, 1.0, 1 / 3),
        (3, 2.0, 4 / 9),
        (10, 8.0, 0.409180),
        (2, 2.0, 1.0),
        (2, 5.0, 1.0),
        (4, 0.0, 0.0),
    ],
)
def test_erlang_c(workers: int, load: float, waits: float) -> None:
    assert erlang_c(workers, load) == pytest.approx(waits, abs=1e-6)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (FOUR, 0),
        (MEMORYLESS, 1),
        (of("uniform", 0, 6 * MINUTE), 1 / 3),
        (of("lognormal", 4 * MINUTE, sigma=0.5), math.exp(0.25) - 1),
        (of("empirical", MINUTE, 3 * MINUTE), 0.25),
    ],
)
def test_the_spread_of_durations(service: Distribution, expected: float) -> None:
    assert squared_variation(service) == pytest.approx(expected)


def test_as_many_workers_as_jobs_are_always_enough() -> None:
    """Jobs of four minutes within one: a load above the number of jobs, which no queue can have."""
    (few,) = workers_needed({"crawl": Peak(10, FOUR, over=MINUTE)}, target=0.95, replications=2).kinds
    assert few.by_formula == 10


def test_one_worker_by_hand() -> None:
    """M/M/1 at half load: half wait, half of those longer than t for exp(−t / (2 × 4 min)) = 1/2."""
    peak = Peak(15, MEMORYLESS, over=2 * HOUR)
    within = round(8 * MINUTE * math.log(2))
    assert started_by_formula(peak, 1, within) == pytest.approx(0.75, abs=1e-6)


def test_steady_durations_halve_the_wait() -> None:
    """M/D/1 as above: the exponent is twice as large, so after half the time as many have started."""
    within = round(4 * MINUTE * math.log(2))
    assert started_by_formula(Peak(15, FOUR, over=2 * HOUR), 1, within) == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize(
    ("within", "workers"),
    [(0, 570), (3 * MINUTE, 570), (4 * MINUTE, 285), (5 * MINUTE, 285), (8 * MINUTE, 190)],
)
def test_all_at_once_can_be_counted(within: int, workers: int) -> None:
    """Of 600 jobs 570 must start: c at once, c more after every four minutes."""
    answer = workers_needed({"rank_run": Peak(600, FOUR, over=0)}, within=within, replications=2)
    assert (answer.kinds[0].by_formula, answer.kinds[0].by_simulation) == (workers, workers)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "within"), [(5, 5 * MINUTE), (6, 5 * MINUTE), (5, 0)])
def test_simulation_agrees_with_the_formula_where_it_is_exact(workers: int, within: int) -> None:
    peak = Peak(2000, MEMORYLESS, over=2000 * MINUTE)
    hits = [simulated(peak, workers, within, seed) for seed in range(12)]
    seen = clustered(hits, [2000] * 12, 0.999)
    assert seen.low is not None
    assert seen.high is not None
    assert seen.low <= started_by_formula(peak, workers, within) <= seen.high


def test_a_profile_is_taken_part_by_part() -> None:
    quiet, busy = Peak(30, MEMORYLESS, HOUR), Peak(90, MEMORYLESS, HOUR)
    both = Peak(120, MEMORYLESS, 2 * HOUR, profile=(1, 3))
    assert both.load == busy.load == 6
    found = started_by_formula(both, 8, MINUTE)
    parts = 0.25 * started_by_formula(quiet, 8, MINUTE) + 0.75 * started_by_formula(busy, 8, MINUTE)
    assert found == pytest.approx(parts)


def test_more_workers_never_start_fewer_in_time() -> None:
    peak = Peak(60, of("lognormal", 4 * MINUTE, sigma=0.5))
    for seed in range(5):
        started = [simulated(peak, workers, MINUTE, seed) for workers in range(1, 12)]
        assert started == sorted(started), seed


@pytest.mark.slow
def test_a_whole_world_with_as_many_workers_starts_its_jobs_in_time() -> None:
    """The same peak through accounts, calls, service and pool; one worker less is too few there too."""
    peak = peaks_of({"rank_run": 60}, rs.Policy(), HOUR)
    staffing = workers_needed(peak, replications=20).kinds[0]
    needed = staffing.by_simulation
    assert needed is not None

    def p95(workers: int) -> float:
        scenario = rs.Scenario.model_validate(
            {
                "start": 4 * 24 * HOUR, "length": 4 * HOUR,
                "accounts": {"acme": {"plan": "pro", "portfolio": {"domains": 60}}},
                "clients": {
                    "monday": {
                        "kind": "schedule", "account": "acme", "surface": "app", "job": "rank_run",
                        "every": "week", "spread": "1h", "spread_by": "draws",
                    }
                },
                "pools": {"rank_run": workers},
            }
        )  # fmt: skip
        return rs.run(scenario, seed=3, replications=10).metric("jobs.rank_run.wait.p95").mean or 0

    assert p95(needed) <= 5 * MINUTE < p95(needed - 2)


@pytest.mark.parametrize(
    ("peak", "options", "message"),
    [
        ({"jobs": 0}, {}, "jobs: expected 1 to 100000, found 0"),
        ({"profile": ()}, {}, "profile: expected weights, one of them above 0"),
        ({"profile": (0.0,)}, {}, "profile: expected weights, one of them above 0"),
        ({"service": of("constant", 0)}, {}, "duration: expected a mean above 0"),
        ({}, {"target": 1.0}, "target: expected a share between 0 and 1, found 1.0"),
        ({}, {"replications": 1}, "replications: expected 0, or at least 2, found 1"),
    ],
)
def test_bad_input(peak: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        workers_needed({"crawl": Peak(**{"jobs": 10, "service": FOUR} | peak)}, **options)


def test_it_draws_formula_and_simulation() -> None:
    answer = workers_needed({"crawl": Peak(30, FOUR)}, replications=3)
    ax = answer.kinds[0].plot()
    assert {"formula", "target", "simulated"} == {text.get_text() for text in ax.texts}
    assert ax.get_xlabel() == "workers"
    assert answer.rows()[0]["load"] == 2


@pytest.mark.parametrize(
    ("peak", "is_in_doubt"), [(Peak(60, MEMORYLESS), True), (Peak(20, FOUR, over=0), False)]
)
def test_one_worker_fewer_stands_beside_the_answer(peak: Peak, is_in_doubt: bool) -> None:
    """Where the target is within its interval, it is not shown to be too few, either."""
    answer = workers_needed({"crawl": peak}, replications=3)
    (row,) = answer.rows()
    fewer = row["by_simulation"] - 1
    tried = next(trial.simulated for trial in answer.kinds[0].trials if trial.workers == fewer)
    assert (row["with_one_fewer"], row["with_one_fewer_high"]) == (tried.mean, tried.high)
    assert row["with_one_fewer_low"] < 0.95
    assert (row["with_one_fewer_high"] >= 0.95) is is_in_doubt
    doubt = f"{fewer} workers for crawl start .* %.* not shown to be 95 %; more replications may settle it"
    assert [bool(re.match(doubt, note)) for note in answer.notes] == [True] * is_in_doubt


def test_no_more_workers_are_tried_than_are_ever_busy() -> None:
    """With so many no job waits, though three peaks are too few to show 99 % of any number of workers."""
    (answer,) = workers_needed({"crawl": Peak(60, MEMORYLESS)}, target=0.99, replications=3).kinds
    last = answer.trials[-1]
    assert answer.by_simulation == last.workers < 15
    assert (last.simulated.mean, last.simulated.low < 0.99) == (1, True)


def test_what_was_not_simulated_has_no_plot() -> None:
    answer = workers_needed({"crawl": Peak(30, FOUR)}, replications=0)
    assert (answer.plots, answer.rows()[0]["by_simulation"]) == ((), None)
    assert "<h1>" in answer.page()


# Of a scenario: its own jobs, when it starts them, on its own pools

TWO_NIGHTS = """
start: 2026-03-01T00:00:00Z
length: 2d
accounts: {acme: {plan: agency, portfolio: {domains: 20, keywords: 3}}}
clients:
  night: {kind: schedule, account: acme, job: rank_run, at: "02:00", surface: app}
  noon: {kind: schedule, account: acme, job: rank_run, at: "14:00", surface: app}
pools: {rank_run: {capacity: 1, duration: {constant: 4m}}}
"""


def needed(scenario: rs.Scenario, **asked: Any) -> int:
    (found,) = workers_of_scenario(scenario, **{"replications": 2} | asked).kinds
    assert found.by_simulation is not None
    return found.by_simulation


@pytest.mark.parametrize(
    ("changes", "workers"),
    [
        ({}, 10),  # 19 of 20 within 5 minutes, at each of two instants: 10 at once, 10 after four minutes
        ({"pools": {"rank_run": {"duration": {"constant": "20m"}}}}, 19),
        ({"pools": {"rank_run": {"duration": {"constant": "1m"}}}}, 4),
        ({"pools": {"rank_run": {"discipline": "lifo"}}}, 10),
        ({"clients": {"noon": {"at": "02:00", "job": "crawl"}}}, 10),
        ({"clients": {"night": {"spread": "10m"}, "noon": {"spread": "10m"}}}, 5),
    ],
)
def test_workers_of_a_scenario_start_its_jobs_in_time_and_no_fewer_do(
    changes: dict[str, Any], workers: int
) -> None:
    scenario = rs.Scenario.parse(TWO_NIGHTS).replace(**changes)
    kinds = {one.kind: one.by_simulation for one in workers_of_scenario(scenario, replications=2).kinds}
    assert kinds["rank_run"] == workers
    for fewer, enough in ((0, True), (1, False)):
        pools = {"rank_run": {"capacity": workers - fewer}}
        p95 = rs.run(scenario.replace(pools=pools)).metric("jobs.rank_run.wait.p95").mean
        assert p95 is not None
        assert (p95 <= 5 * MINUTE) is enough, p95


def test_workers_of_a_scenario_whose_durations_are_drawn() -> None:
    """Ten of them start half the jobs in time where a job takes 20 minutes; twice as many start all."""
    slow = {"rank_run": {"duration": {"lognormal": {"median": "20m", "sigma": 0.1}}}}
    assert needed(rs.Scenario.parse(TWO_NIGHTS).replace(pools=slow), replications=5) >= 19


def test_workers_of_a_scenario_say_of_which_jobs() -> None:
    answer = workers_of_scenario(rs.Scenario.parse(TWO_NIGHTS), replications=2)
    assert answer.notes[0].startswith("Taken are the jobs that scenario starts in 2d from 2026-03-01")
    assert (answer.rows()[0]["jobs"], answer.rows()[0]["by_formula"]) == (80, None)
    headings = ("kind", "jobs", "by simulation", "started in time", "with one fewer")
    assert answer.views()[0].headings == headings
    assert "of all these jobs together, not of each night's" in answer.notes[0]
    assert {text.get_text() for text in answer.kinds[0].plot().texts} == {"target", "simulated"}
    pool = {"at": "1h", "do": "set", "path": "scenario.pools.rank_run.capacity", "value": 1}
    later = workers_of_scenario(rs.Scenario.parse(TWO_NIGHTS).replace(timeline=[pool]), replications=2)
    left_out = "Left out is what the timeline changes of pools: "
    assert later.notes == (*answer.notes, f"{left_out}1 × set scenario.pools.rank_run.capacity.")
    slow = {"at": "1h", "do": "set", "path": "policy.catalogue.job_durations.rank_run", "value": "9h"}
    sized = {"at": "1h", "do": "resize_pool", "pool": "rank_run", "capacity": 1}
    scenario = rs.Scenario.parse(TWO_NIGHTS).replace(timeline=[slow, sized, sized])
    counted = f"{left_out}1 × set policy.catalogue.job_durations.rank_run, 2 × resize_pool."
    assert workers_of_scenario(scenario, replications=2).notes[-1] == counted
    idle = rs.Scenario.parse(TWO_NIGHTS).model_copy(update={"clients": {}})
    with pytest.raises(BadInput, match="no client of it starts a job; say with --jobs"):
        workers_of_scenario(idle)
