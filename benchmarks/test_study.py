"""What it costs to go on with a study: reading a finished store against running it.

A ratio within one run: both sides are timed here, in turn, on the same machine.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from ranksim.planner.study.study import Study

STUDY = """study: 1
scenario:
  start: 2026-01-05T00:00:00Z
  length: 1d
  accounts:
    acme: {plan: pro, portfolio: {domains: 8, keywords: 5}}
  clients:
    nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00", spread: 1h}
    reader: {kind: caller, account: acme, mix: {account.usage: 1}, every: 10m, arrivals: poisson}
replications: 50
measure: [calls.total, jobs.rank_run.wait.mean]
factors: {scenario.pools.rank_run.capacity: [1, 2, 3, 4]}
"""

ROWS = 200
ROUNDS = 3


def _seconds(run: Callable[[], object]) -> float:
    begun = perf_counter()
    run()
    return perf_counter() - begun


def test_resuming_a_finished_study(benchmark: Any, tmp_path: Path) -> None:
    study = Study.parse(STUDY)
    kept = tmp_path / "store"
    bare = keeping = float("inf")
    for number in range(ROUNDS):  # in turn, so that both meet the same machine
        bare = min(bare, _seconds(study.run))
        keeping = min(keeping, _seconds(partial(study.run, store=tmp_path / str(number))))
    study.run(store=kept)
    benchmark.pedantic(study.run, kwargs={"store": kept}, rounds=5, iterations=1)
    resumed = benchmark.stats.stats.min
    benchmark.extra_info["seconds_to_run"] = round(bare, 2)
    benchmark.extra_info["keeping_to_running"] = round(keeping / bare, 3)
    benchmark.extra_info["resuming_to_running"] = round(resumed / bare, 4)
    benchmark.extra_info["us_per_kept_replication"] = round(resumed / ROWS * 1e6)
    benchmark.extra_info["bytes_per_kept_replication"] = kept.stat().st_size // ROWS
    assert resumed < bare
