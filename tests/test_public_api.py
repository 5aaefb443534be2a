"""The public names of ranksim: which they are, where they live, and that importing them is lazy."""

from __future__ import annotations

import pydoc
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import ranksim

PUBLIC = {
    "BadInput": "ranksim.errors",
    "Call": "ranksim.service.calls",
    "FleetResult": "ranksim.fleet.results",
    "Calibration": "ranksim.conformance.calibrate.calibrate",
    "Judgement": "ranksim.conformance.compare",
    "Plan": "ranksim.contract.plans",
    "Policy": "ranksim.contract.policy",
    "Population": "ranksim.fleet.population",
    "Reply": "ranksim.service.calls",
    "Result": "ranksim.sim.results",
    "Scenario": "ranksim.sim.scenario",
    "Service": "ranksim.service.service",
    "Study": "ranksim.study.study",
    "Trace": "ranksim.trace",
    "World": "ranksim.sim.world",
    "capacity": "ranksim",
    "check": "ranksim",
    "load": "ranksim",
    "price": "ranksim",
    "calibrate": "ranksim.conformance.calibrate.calibrate",
    "compare": "ranksim.conformance.compare",
    "run": "ranksim.sim.runner",
    "simulate_fleet": "ranksim.fleet.engine",
}


def test_the_public_names_are_these() -> None:
    assert set(ranksim.__all__) == {*PUBLIC, "__version__"}
    assert dir(ranksim) == sorted(ranksim.__all__)


@pytest.mark.parametrize(("name", "module"), PUBLIC.items())
def test_a_public_name_is_the_one_of_its_module(name: str, module: str) -> None:
    assert getattr(ranksim, name) is getattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ranksim.nonsense


def test_help_tells_of_our_names_and_not_of_every_pydantic_model() -> None:
    text = pydoc.plain(pydoc.render_doc(ranksim))
    assert all(name in text for name in PUBLIC)
    assert "Return a scenario with some fields changed" in text
    assert "model_" not in text
    assert "__pydantic" not in text
    assert dir(ranksim.Scenario) == ["check", "end", "load", "parse", "read", "replace"]
    assert hasattr(ranksim.Scenario, "model_fields")


def test_the_version_is_the_one_of_the_project_file() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert ranksim.__version__ == project["version"]


def test_import_is_lazy() -> None:
    code = "import sys, ranksim; print(*sorted({'numpy', 'pydantic', 'simpy', 'typer'} & set(sys.modules)))"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
