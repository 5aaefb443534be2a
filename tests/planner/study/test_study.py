"""Running: replications and precision, failures, going on, any number of processes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.pools import DIED, Task, open_pool
from ranksim.planner.study.study import Study
from ranksim.twin.sim.scenario import Scenario

Make = Callable[..., Study]


def runs_of(log: Path) -> Counter[str]:
    return Counter(log.read_text("utf-8").splitlines() if log.exists() else ())


def counts(result: Any) -> dict[str, int]:
    return {row["point"]: row["replications"] for row in result.tables["points"]}


def test_each_point_is_replicated(study: Make) -> None:
    result = study(factors={"toy.workers": [1, 2]}, replications=4).run()
    assert counts(result) == {"workers=1": 4, "workers=2": 4}
    one, two = (result.values(label, "level") for label in result.points)
    assert [b - a for a, b in zip(one, two, strict=True)] == pytest.approx([1.0] * 4)  # the same draws


@pytest.mark.parametrize("levels", [np.arange(1, 3), range(1, 3)])
def test_levels_may_be_an_array_of_numpy_or_a_range(study: Make, levels: object) -> None:
    assert study(factors={"toy.workers": levels}).run().points == ["workers=1", "workers=2"]


def test_one_metric_needs_no_list(study: Make) -> None:
    result = study(factors={"toy.workers": [1, 2]}, measure="level").run()
    assert {row["metric"] for row in result.tables["points"]} == {"level"}
    compared = result.compare("workers=2", "workers=1", "level")
    assert list(compared) == list(result.compare("workers=2", "workers=1", ["level"]))


@pytest.mark.parametrize(("confidence", "most"), [(0.95, 120), (0.999, 1000)])
def test_replications_until_a_precision_is_met(study: Make, confidence: float, most: int) -> None:
    precision = {"of": ["level"], "relative": 0.05, "max_replications": most}
    factors = {"toy.workers": [1, 100]}
    result = study(factors=factors, replications=4, precision=precision, confidence=confidence).run()
    runs = counts(result)
    assert runs["workers=100"] == 30  # the first stage
    assert 30 < runs["workers=1"] < most
    precise, row = 0.05 / 1.05, result.tables["points"][0]
    assert (row["high"] - row["low"]) / 2 <= precise * row["mean"]
    tight = precision | {"relative": 0.0001, "max_replications": 9}
    assert counts(study(replications=4, precision=tight).run()) == {"base": 9}


def test_what_is_kept_is_not_run_again(tmp_path: Path, study: Make) -> None:
    log, store = tmp_path / "log", tmp_path / "store"
    made = study(change={"toy.log": str(log)}, factors={"toy.workers": [1, 2]}, replications=3)
    first = made.run(store=store)
    assert runs_of(log) == Counter({f"{w} {i}": 1 for w in (1, 2) for i in range(3)})
    assert made.run(store=store).to_json() == first.to_json()
    more = made.with_replications(5).run(store=store)
    assert runs_of(log) == Counter({f"{w} {i}": 1 for w in (1, 2) for i in range(5)})
    assert more.values("workers=1", "level")[:3] == first.values("workers=1", "level")
    assert made.run(store=store).to_json() == first.to_json()  # what is more than wanted changes nothing
    assert made.with_replications(5).run().to_json() == more.to_json()


def test_one_failing_point_does_not_stop_the_rest(tmp_path: Path, study: Make) -> None:
    log, store = tmp_path / "log", tmp_path / "store"
    variants = {
        "good": {},
        "broken": {"toy.breaks": [1, 2]},
        "impossible": {"toy.workers": 1, "toy.first": 1, "toy.pause": "1m"},
    }
    made = study(change={"toy.log": str(log)}, variants=variants, replications=4)
    result = made.run(store=store)
    assert result.failures == [
        {"point": "broken", "replication": 1, "reason": "ZeroDivisionError: the toy broke"},
        {"point": "broken", "replication": 2, "reason": "ZeroDivisionError: the toy broke"},
    ]
    assert counts(result) == {"good": 4, "broken": 2, "impossible": 4}
    compared = result.compare("broken", "good")[0]
    assert compared["pairs"] == 2
    ran = runs_of(log).total()
    made.run(store=store)
    assert runs_of(log).total() == ran  # failures are kept too
    made.run(store=store, retry_failed=True)
    assert runs_of(log).total() == ran + 2


def test_a_point_that_cannot_be_built_is_refused(study: Make) -> None:
    variants: dict[str, Any] = {"a": {"toy.workers": 1}, "b": {"toy.workers": -1}, "c": {}}
    with pytest.raises(
        BadInput, match=r"study: variants.b.toy.workers: workers: expected at least 0, found -1"
    ):
        study(variants=variants | {"d": {"toy.workers": 2}})


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same(tmp_path: Path, study: Make) -> None:
    fields: dict[str, Any] = {
        "factors": {"toy.workers": [1, 2, 3]},
        "replications": 4,
        "measure": ["level", "own"],
        "precision": {"of": "own", "relative": 0.03, "max_replications": 30},
    }
    made = study(variants={"good": {}, "broken": {"toy.breaks": [2]}}, **fields)
    one = made.run(store=tmp_path / "one").to_json()
    assert made.run(workers=2, store=tmp_path / "two").to_json() == one


@pytest.mark.slow
def test_a_process_that_dies_is_a_failure_of_its_point_alone(study: Make) -> None:
    variants = {"good": {}, "deadly": {"toy.dies": True}, "other": {"toy.workers": 2}}
    result = study(variants=variants, replications=3).run(workers=2)
    assert {(row["point"], row["reason"]) for row in result.failures} == {("deadly", DIED)}
    assert counts(result) == {"good": 3, "deadly": 0, "other": 3}


@pytest.mark.slow
def test_processes_end_with_the_pool(toy: ModuleType) -> None:
    import multiprocessing

    engine = toy.Toys()
    tasks = [Task("p", index, engine, toy.Toy(slow=60.0), 1) for index in range(4)]
    before = set(multiprocessing.active_children())
    with open_pool(2) as pool:
        flying = pool.run(iter([Task("p", 9, engine, toy.Toy(), 1), *tasks]))
        next(flying)
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("options", [{"workers": 0}, {"scheduler": "nonsense"}])
def test_bad_pools(study: Make, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.planner.study.pools.CONNECT", "1s")
    with pytest.raises(BadInput, match=r"workers: expected|--scheduler: no Dask scheduler"):
        study().run(**options)


def test_a_metric_that_no_run_has(study: Make, toy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "METRICS", ("level", "levl"))
    with pytest.raises(BadInput, match="no metric 'levl'; did you mean 'level'"):
        study(measure=["levl"]).run()


def test_a_study_is_made_of_a_scenario_by_its_path() -> None:
    path = Path(__file__).parents[3] / "scenarios" / "quickstart.yaml"
    for given in (path, str(path), Scenario.load(path)):
        made = Study.of(given, measure=["jobs.rank_run.done"])
        assert made.engine.roots()["scenario"] == Scenario.load(path)
