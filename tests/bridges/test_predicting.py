"""A model of a deployment predicts a check of it: what became twice as slow is seen, what is equal is not."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest

from ranksim.bridges import predicting
from ranksim.bridges.predicting import Model, Reference, fitted_world, hosts_of, play, played, through
from ranksim.bridges.rehearsal import Network, Rehearsal
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.callers.steps import Lap, Pause, Program
from ranksim.core.callers.target import Target
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.errors import BadInput
from ranksim.judge.check.checking import Turn
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report.model_fit import Compared
from ranksim.judge.conformance.report.prediction import BESIDE_TASKS, against_prediction
from ranksim.judge.mirror.reading import read_mirrored
from ranksim.judge.mirror.world import MirroredWorld, world_of

TASKS = (
    "endpoints",
    "scope",
    "breadth",
    "everyday",
    "walk",
    "webhooks",
    "retry",
    "smoke",
    "cooldowns",
    "race",
)
TURNS = [Turn(number, name, 0) for number, name in enumerate(TASKS, 1)]
TURNS += [Turn(20, "everyday", 3 * MINUTE), Turn(21, "cooldowns", 3 * MINUTE, stopped=4 * MINUTE)]
ENDED = 6 * MINUTE


def deployment(seed: int, slower: float, jobs: float) -> tuple[Rehearsal, Target]:
    """Make a deployment whose calls and jobs take so many times as long as usual."""
    policy = compact()
    lengths = {
        kind: each.model_copy(update={"durations": tuple(round(jobs * t) for t in each.durations)})
        for kind, each in policy.catalogue.job_durations.items()
    }
    catalogue = policy.catalogue.model_copy(update={"job_durations": lengths})
    service, target = make_world(policy.model_copy(update={"catalogue": catalogue}), seed=seed)
    way = Distribution(kind="lognormal", durations=(round(slower * 15 * MILLISECOND),), sigma=0.5)
    return Rehearsal(service, target, Network(before=way, after=way), seed), target


def checked(seed: int, slower: float = 1.0, jobs: float = 1.0) -> tuple[MirroredWorld, Target, History]:
    """Read the accounts of a deployment for a twin; then play the tasks there."""
    reading, target = deployment(seed, slower, jobs)
    twin = world_of(reading.alone(read_mirrored(target)), "https://api.example.com", reading.now)
    return twin, target, read_history(play(deployment(seed, slower, jobs)[0], TURNS, ENDED, seed))


@cache
def earlier() -> Reference:
    """Return an earlier run of the deployment, and what was calibrated."""
    _, _, history = checked(100)
    return Reference(history, calibrate(history).policy())


def rows(folder: Path, seed: int, runs: int = 2, **changes: float) -> list[Compared]:
    """Set a check of a deployment that changed beside what a model of the earlier run predicts."""
    twin, target, history = checked(seed, **changes)
    world = fitted_world(twin, earlier(), folder / f"twin-{seed}")
    hosts = hosts_of(history)
    simulated = [played(world, target, hosts, TURNS, ENDED, seed + 1000 * n) for n in range(runs)]
    return against_prediction(history, simulated, earlier().history)


def left(found: list[Compared]) -> set[str]:
    """Return what left the prediction, all kinds of a call together."""
    return {row.name for row in found if row.says == "left" and ": " not in row.name}


LATENCIES = {"latency, no other call in flight", "latency under load"}


@pytest.mark.slow
def test_an_equal_deployment_is_predicted(tmp_path: Path) -> None:
    found = rows(tmp_path, 1, runs=3)
    assert left(found) == set()
    says = {row.name: row.says for row in found}
    assert {says[name] for name in LATENCIES} == {"within"}
    shares = [row.says for row in found if row.quantity == "share"]
    assert len(shares) >= 8
    assert shares.count("within") >= len(shares) - 1, found


@pytest.mark.slow
def test_what_became_twice_as_slow_is_seen(tmp_path: Path) -> None:
    assert left(rows(tmp_path, 1, slower=2.0)) >= LATENCIES
    assert left(rows(tmp_path, 2, jobs=2.0)) == {"jobs take"}


@pytest.mark.heavy
def test_twenty_equal_deployments_are_accused_once_at_most(tmp_path: Path) -> None:
    accused = [seed for seed in range(1, 21) if any(row.says == "left" for row in rows(tmp_path, seed, 5))]
    assert len(accused) <= 1


@pytest.mark.slow
def test_a_twin_gets_the_tasks_by_its_own_clock(tmp_path: Path) -> None:
    turns = [Turn(1, "scope", 0), Turn(2, "no such task", SECOND), Turn(3, "walk", 5 * SECOND, 8 * SECOND)]
    reading, target = deployment(1, 1.0, 1.0)
    twin = world_of(reading.alone(read_mirrored(target)), "https://api.example.com", reading.now)
    history = read_history(play(deployment(1, 1.0, 1.0)[0], turns[:1], MINUTE, 1))
    world = fitted_world(twin, Reference(history, calibrate(history).policy()), tmp_path / "twin")
    assert world.network is not None
    run = played(world, target, hosts_of(history), turns, MINUTE, 1)
    tasks = [call for call in run.seen if not call.id.startswith(BESIDE_TASKS)]
    assert {call.key for call in tasks} > {"main", "scoped", "other"}
    begun = tasks[0].sent
    assert min(call.sent for call in tasks if call.code == "invalid_cursor") >= begun + 5 * SECOND
    assert max(call.sent for call in tasks if call.operation == "keywords.list") < begun + 9 * SECOND
    assert run.run.offset.bounded


def test_a_program_runs_until_its_lap_or_until_it_is_stopped() -> None:
    def program() -> Program:
        for _ in range(5):
            yield Pause(1)
            yield Lap()

    assert len(list(through(program(), 3, lambda: False))) == 5
    assert len(list(through(program(), 9, lambda: False))) == 10
    assert list(through(program(), 9, lambda: True)) == []


@pytest.mark.parametrize(
    ("error", "why"), [(BadInput("no key"), "no key"), (ZeroDivisionError("by 0"), "a fault of ranksim")]
)
def test_a_model_that_fails_costs_no_report(
    error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(predicting, "fitted_world", Mock(side_effect=error))
    checking = Mock(troubles=[], judgement=Mock(history=read_history(['{"ranksim_trace": 1}'])))
    twin, reference = MirroredWorld({}, {}), Reference(read_history(['{"ranksim_trace": 1}']), compact())
    assert Model(twin, reference).beside(checking, tmp_path / "twin") is None
    [trouble] = checking.troubles
    assert trouble.startswith(f"no model predicted anything: {why}")
    faults = [path.read_text("utf-8") for path in tmp_path.glob("ranksim-fault-*")]
    assert len(faults) == (type(error) is ZeroDivisionError)
    assert all("ZeroDivisionError: by 0" in text for text in faults)


def test_an_earlier_run_is_one_trace(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.jsonl").write_text('{"ranksim_trace": 1}\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"--model-of .*: expected one trace, found 2; name one"):
        Reference.read(tmp_path)
    (tmp_path / "a" / "policy.yaml").write_text("name: found\n", encoding="utf-8")
    assert Reference.read(tmp_path / "a").policy.name == "found"
    assert Reference.read(tmp_path / "b" / "trace.jsonl").policy.name == "calibrated"
    with pytest.raises(BadInput, match="no such file"):
        Reference.read(tmp_path / "a" / "gone")
