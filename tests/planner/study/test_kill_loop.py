"""kill -9 of a study at random moments: its finished store equals that of an undisturbed run.

    pytest -m heavy tests/planner/study/test_kill_loop.py

RANKSIM_STUDY_KILLS sets how many times (default 20), RANKSIM_KILL_SEED the moments.
"""

import os
import random
import select
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("RANKSIM_STUDY_KILLS", "20"))
SEED = int(os.environ.get("RANKSIM_KILL_SEED", "1"))

STUDY = """study: 1
scenario:
  start: 2026-01-05T00:00:00Z
  length: 2d
  accounts:
    acme: {plan: pro, portfolio: {domains: 8, keywords: 5}}
  clients:
    nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00", spread: 1h}
    reader: {kind: caller, account: acme, mix: {account.usage: 1}, every: 5m, arrivals: poisson}
  pools: {rank_run: {capacity: 1, duration: {exponential: {mean: 9m}}}}
replications: 20
precision: {of: jobs.rank_run.wait.mean, relative: 0.03, max_replications: 40}
measure: [calls.total, jobs.rank_run.wait.mean]
variants:
  now: {}
  broken: {scenario.warm_up: mser} # which fails as it begins
factors: {scenario.pools.rank_run.capacity: [1, 2, 3]}
goal:
  smallest: scenario.pools.rank_run.capacity
  between: [1, 16]
  such_that: jobs.rank_run.wait.within.5m >= 90%
  max_replications: 80
"""

Rows = set[tuple[object, ...]]


def rows(store: Path) -> dict[str, Rows]:
    """Everything in a store, table by table."""
    database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: set(database.execute(f"SELECT * FROM {name}")) for name in tables}
    finally:
        database.close()


def start(place: Path, store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ranksim", "study", "study.yaml", "--workers", "2", "--json"]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--store", str(store)], cwd=place, stdout=subprocess.DEVNULL, stderr=log
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and see its own processes end with it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    handles = [os.pidfd_open(int(child)) for child in children]
    process.kill()
    process.wait()
    for handle in handles:
        ended, _, _ = select.select([handle], [], [], 30)
        os.close(handle)
        assert ended, "a process of a killed study lives on"


@pytest.mark.heavy
def test_a_killed_study_goes_on_where_it_was(tmp_path: Path) -> None:
    print(f"RANKSIM_KILL_SEED={SEED}")
    moments = random.Random(SEED)
    (tmp_path / "study.yaml").write_text(STUDY)
    begun = time.monotonic()
    undisturbed = start(tmp_path, tmp_path / "undisturbed").wait()
    whole_life = time.monotonic() - begun
    wanted = rows(tmp_path / "undisturbed")
    kills, finished, seen = 0, 0, 0
    store = tmp_path / "store"
    kept: dict[str, Rows] = {}
    while kills < KILLS:
        process = start(tmp_path, store)
        try:
            process.wait(moments.uniform(0.05, 0.95) * whole_life)
        except subprocess.TimeoutExpired:
            kill(process)
            kills += 1
            now = rows(store) if store.exists() else {}
            for table, before in kept.items():
                assert before <= now[table], f"{table} lost rows"
            seen += len(now.get("results", ())) > len(kept.get("results", ()))
            kept = now
            continue
        assert process.returncode == undisturbed, (tmp_path / "log").read_text()
        assert rows(store) == wanted
        store.unlink()
        kept, finished = {}, finished + 1
    assert start(tmp_path, store).wait() == undisturbed
    assert rows(store) == wanted
    print(f"{KILLS} kills, {seen} of them after progress; finished {finished + 1} times")
    assert seen >= KILLS // 4
