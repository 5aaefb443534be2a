"""The same study on a Dask cluster: a real scheduler and two real worker processes give the same rows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.pools import DIED, Cluster
from ranksim.planner.study.study import Study

STUDY = """study: 1
scenario:
  start: 2026-01-05T00:00:00Z
  length: 1d
  accounts:
    acme: {plan: pro, portfolio: {domains: 8, keywords: 5}}
  clients:
    nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00", spread: 30m}
    crawls: {kind: caller, account: acme, mix: {account.usage: 1}, every: 10m, arrivals: poisson}
  pools: {rank_run: {capacity: 1, duration: {exponential: {mean: 4m}}}}
replications: 3
measure: [calls.total, jobs.rank_run.wait.mean]
factors: {scenario.pools.rank_run.capacity: [1, 2, 3]}
precision: {of: calls.total, relative: 0.05, max_replications: 9}
goal:
  smallest: scenario.pools.rank_run.capacity
  between: [1, 8]
  such_that: jobs.rank_run.wait.within.5m >= 50%
"""


FLEETS = """study: 1
population:
  accounts: 40
  start: 2026-01-01T00:00:00Z
  length: 10d
  segments:
    shops:
      plans: pro
      portfolio: {domains: 3, keywords: 400}
      usage:
        rank_run: {lognormal: {median: 10, sigma: 1, most: 200}}
replications: 2
measure: [margin.mean, hit.cost_cap_reached]
variants:
  now: {}
  tighter: {policy.catalogue.plans.pro.cost_ceiling: 5 USD}
"""


@pytest.fixture
def scheduler(workers: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a scheduler, for which a busy machine has time."""
    monkeypatch.setattr("ranksim.planner.study.pools.CONNECT", "300s")
    return workers


@pytest.fixture(scope="module")
def workers() -> Iterator[str]:
    """A scheduler and two workers of one thread each, as a user would start them; they can import `toy`."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    programs = [
        subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    ]
    try:
        assert programs[0].stderr is not None
        line = next(line for line in programs[0].stderr if "Scheduler at:" in line)
        address = line.split()[-1]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        for _ in range(2):
            options = ["--no-dashboard", "--host", "127.0.0.1"]
            programs.append(subprocess.Popen([*worker, *options], stderr=subprocess.DEVNULL, env=environment))
        with import_module("distributed").Client(address, timeout=300, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=300)
        yield address
        with import_module("distributed").Client(address, timeout=300, set_as_default=False) as client:
            client.shutdown()
    finally:
        for program in programs:
            try:
                program.wait(60)
            except subprocess.TimeoutExpired:
                print(program.args)
                program.kill()
                program.wait()
        if programs[0].stderr is not None:
            programs[0].stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("text", [STUDY, FLEETS], ids=["worlds", "fleets"])
def test_a_cluster_gives_the_same(text: str, tmp_path: Path, scheduler: str) -> None:
    made = Study.parse(text)
    here = made.run(store=tmp_path / "here").to_json()
    assert made.run(scheduler=scheduler, store=tmp_path / "there").to_json() == here
    assert made.run(workers=2).to_json() == here


@pytest.mark.heavy
def test_a_worker_that_dies_is_a_failure_of_its_point_alone(scheduler: str, toy: ModuleType) -> None:
    fields = {"variants": {"good": {}, "deadly": {"toy.dies": True}}, "replications": 1}
    result = Study.of(toy.Toys(), **fields).run(scheduler=scheduler)
    assert [(row["point"], row["reason"]) for row in result.failures] == [("deadly", DIED)]


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.planner.study.pools.CONNECT", "1s")
    with pytest.raises(BadInput, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        Study.parse(STUDY).run(scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["nonsense", "foo://a:1", "tcp://a:b"])
def test_what_is_no_address_gets_no_client(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "distributed.Client", lambda *_, **__: pytest.fail("a client, which complains as it goes")
    )
    with pytest.raises(BadInput, match=f"no Dask scheduler answers at {address}"):
        Cluster(address)
