"""Tornado and Sobol's indices, held against a linear function of which both are known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ranksim.planner.study.study import Study

Make = Callable[..., Study]

ENDS = {"toy.third": [0.0, 1.0], "toy.first": [0.0, 1.0], "toy.second": [0.0, 1.0]}


def test_a_tornado_puts_the_greatest_swing_first(study: Make) -> None:
    fields: dict[str, Any] = {
        "measure": ["linear", "level"],
        "replications": 3,
        "change": {"toy.first": 0.25},
    }
    result = study(sensitivity={"parameters": ENDS}, **fields).run()
    rows = [row for row in result.tables["tornado"] if row["metric"] == "linear"]
    assert [(row["parameter"], row["low_change"], row["high_change"], row["swing"]) for row in rows] == [
        ("toy.first", -0.75, 2.25, 3.0),
        ("toy.second", 0.0, 2.0, 2.0),
        ("toy.third", 0.0, 1.0, 1.0),
    ]
    assert repr(result) == "<StudyResult of 'study': tornado of 2 metrics and 3 parameters>"
    assert {row["base"] for row in rows} == {0.75}
    assert {row["swing"] for row in result.tables["tornado"] if row["metric"] == "level"} == {0.0}


def test_a_parameter_that_changes_nothing_has_no_interval(study: Make, tmp_path: Path) -> None:
    parameters = {"toy.workers": [1, 20], "toy.first": [0.0, 1.0]}
    result = study(
        sensitivity={"method": "sobol", "samples": 64, "parameters": parameters},
        measure=["level"],
        replications=1,
    ).run()
    moves, idle = result.tables["sobol"]
    assert moves["total_low"] < moves["total"] < moves["total_high"]
    assert (idle["total"], idle["total_low"], idle["total_high"]) == (0, None, None)
    assert "NaN" not in result.to_json()
    assert [row[-1] for view in result.views() for row in view.rows if row[1] == "toy.first"] == ["0.00"]
    result.save(str(tmp_path / "results"))
    assert [file.name for file in (tmp_path / "results" / "plots").iterdir()] == ["sobol.png"]


def test_sobol_indices_share_out_the_variance(study: Make) -> None:
    """Of 3a + 2b + c over the unit cube the shares are 9/14, 4/14 and 1/14, alone and in all."""
    made = study(
        sensitivity={"method": "sobol", "samples": 256, "parameters": ENDS},
        measure=["linear"],
        replications=1,
    )
    result = made.run()
    assert result.plot("sobol", metric="linear").get_xlabel() == "share of the variance"
    rows = {row["parameter"]: row for row in result.tables["sobol"]}
    for path, share in (("toy.first", 9 / 14), ("toy.second", 4 / 14), ("toy.third", 1 / 14)):
        assert rows[path]["first"] == pytest.approx(share, abs=0.03)
        assert rows[path]["total"] == pytest.approx(share, abs=0.03)
        assert rows[path]["total_low"] <= rows[path]["total"] <= rows[path]["total_high"]


def test_what_never_varies_has_no_indices(study: Make) -> None:
    made = study(sensitivity={"method": "sobol", "samples": 4, "parameters": ENDS}, measure=["steady"])
    assert made.run().tables["sobol"] == []


def test_a_sample_that_fails_is_reported(study: Make) -> None:
    sensitivity = {"method": "sobol", "samples": 4, "parameters": {"toy.workers": [-3, 3]}}
    result = study(sensitivity=sensitivity, replications=1).run()
    assert result.tables["sobol"] == []
    assert {row["reason"] for row in result.failures if "workers" in row["reason"]}
