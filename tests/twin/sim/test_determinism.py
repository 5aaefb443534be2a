"""The same scenario and seed give the same bytes: result and trace, on one process or two, and again."""

from hashlib import sha256
from pathlib import Path

import pytest

from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

SCENARIO = Path(__file__).parents[3] / "scenarios" / "quickstart.yaml"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario.load(SCENARIO)


def outputs(scenario: Scenario, folder: Path, seed: int, workers: int) -> tuple[str, bytes]:
    path = folder / "trace.jsonl"
    result = run(scenario, seed=seed, replications=3, workers=workers, trace=path)
    return result.to_json(), path.read_bytes()


@pytest.mark.slow
def test_same_seed_same_bytes_and_another_seed_others(scenario: Scenario, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abcd"]
    for folder in folders:
        folder.mkdir()
    first = outputs(scenario, folders[0], 1, 1)
    assert outputs(scenario, folders[1], 1, 1) == first
    assert outputs(scenario, folders[2], 1, 2) == first
    other = outputs(scenario, folders[3], 2, 2)
    assert other[0] != first[0]
    assert other[1] != first[1]


DIGEST = "bd2fe48c3f822a452d96af1c0ea1ed74357666807fc89c612126c02f0749f617"
"""Of the trace under seed 5: the same on Python 3.11, 3.12 and 3.13."""


@pytest.mark.slow
def test_the_trace_of_a_seed_is_the_same_on_every_machine(scenario: Scenario, tmp_path: Path) -> None:
    run(scenario, seed=5, trace=tmp_path / "trace.jsonl")
    assert sha256((tmp_path / "trace.jsonl").read_bytes()).hexdigest() == DIGEST
