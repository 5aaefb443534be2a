"""The public names of ranksim: which they are, where they live, and that importing them is lazy."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import ranksim

PUBLIC = {
    "BadInput": "ranksim.core.errors",
    "Call": "ranksim.core.service.calls",
    "FleetResult": "ranksim.planner.fleet.results",
    "Calibration": "ranksim.judge.conformance.calibrate.calibrate",
    "Judgement": "ranksim.judge.conformance.compare",
    "Plan": "ranksim.core.contract.plans",
    "Policy": "ranksim.core.contract.policy",
    "Population": "ranksim.planner.fleet.population",
    "Reply": "ranksim.core.service.calls",
    "Result": "ranksim.twin.sim.results",
    "Scenario": "ranksim.twin.sim.scenario",
    "Service": "ranksim.core.service.service",
    "Study": "ranksim.planner.study.study",
    "Trace": "ranksim.core.trace",
    "World": "ranksim.twin.sim.world",
    "capacity": "ranksim",
    "check": "ranksim",
    "load": "ranksim",
    "price": "ranksim",
    "calibrate": "ranksim.judge.conformance.calibrate.calibrate",
    "compare": "ranksim.judge.conformance.report.judged_trace",
    "limits": "ranksim.judge.limits.limits",
    "JudgedLimits": "ranksim.judge.limits.limits",
    "run": "ranksim.twin.sim.runner",
    "simulate_fleet": "ranksim.planner.fleet.engine",
}


def test_the_public_names_are_these() -> None:
    assert set(ranksim.__all__) == {*PUBLIC, "__version__"}
    assert dir(ranksim) == sorted(ranksim.__all__)


@pytest.mark.parametrize(("name", "module"), PUBLIC.items())
def test_a_public_name_is_the_one_of_its_module(name: str, module: str) -> None:
    assert getattr(ranksim, name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", ["", ".capacity", ".check", ".load", ".price"])
def test_a_stub_shows_type_checkers_the_names_that_are_public(package: str) -> None:
    """A stub exports what it imports `as` the same name; mypy of `src` says whether its modules have it."""
    module = import_module(f"ranksim{package}")
    assert module.__file__ is not None
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [alias for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.asname == alias.name for alias in imports)
    assert {alias.name for alias in imports} == set(module.__all__) - {"__version__"}
    assert dir(module) == sorted(module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ranksim.nonsense


@pytest.mark.parametrize("command", ["workers", "outage", "slots", "sync", "portfolio"])
def test_the_name_of_a_command_of_capacity_names_what_answers_it(command: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{command}'; what the command") as caught:
        getattr(ranksim.capacity, command)
    assert str(caught.value).rpartition(" is ")[2].split()[0].strip(",") in ranksim.capacity.__all__


def test_help_tells_of_our_names_and_not_of_every_pydantic_model() -> None:
    text = pydoc.plain(pydoc.render_doc(ranksim))
    assert all(name in text for name in PUBLIC)
    assert "Return a scenario with some fields changed" in text
    assert "model_" not in text
    assert "__pydantic" not in text
    assert dir(ranksim.Scenario) == ["changed", "check", "end", "load", "parse", "read", "replace", "roots"]
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


SCENARIO = Path(__file__).parents[1] / "scenarios" / "quickstart.yaml"
POPULATION = Path(__file__).parents[1] / "examples" / "pricing" / "population.yaml"


def test_worlds_and_fleets_take_files() -> None:
    assert ranksim.World(str(SCENARIO)).scenario == ranksim.Scenario.load(SCENARIO)
    read = ranksim.Population.load(POPULATION)
    one, other = (
        ranksim.simulate_fleet(given, compiled=False, accounts=(0, 2)) for given in (POPULATION, read)
    )
    assert one.population == other.population


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: ranksim.run(SCENARIO, replications="5"), "replications: expected a whole number, found '5'"),
        (lambda: ranksim.run(SCENARIO, workers=1.5), "workers: expected a whole number, found 1.5"),
        (lambda: ranksim.run(SCENARIO, seed="a"), "seed: expected a whole number, found 'a'"),
        (lambda: ranksim.capacity.Portfolio(domains="3"), "domains: expected a whole number, found '3'"),
        (lambda: ranksim.capacity.Portfolio(churn="3"), "churn: expected a number, found '3'"),
        (lambda: ranksim.capacity.Sync(keywords=None), "keywords: expected a whole number, found None"),
        (
            lambda: ranksim.capacity.fit(ranksim.capacity.Portfolio(), growth=None),
            "growth: expected a number",
        ),
        (lambda: ranksim.simulate_fleet(POPULATION, threads="2"), "threads: expected a whole number"),
    ],
)
def test_a_number_of_another_type_is_bad_input(wrong: Callable[[], object], told: str) -> None:
    with pytest.raises(ranksim.BadInput) as caught:
        wrong()
    assert str(caught.value).startswith(told)


def test_what_is_shown_of_an_object_is_a_line() -> None:
    population, policy = ranksim.Population.load(POPULATION), ranksim.Policy()
    study = ranksim.Study.load(POPULATION.parents[1] / "studies" / "workers.yaml")
    trace = ranksim.Trace.read(POPULATION.parent / "trace.jsonl")
    changed = policy.replace(assumptions={"window": "gcra", "join": "never"})
    assert repr(changed) == "<Policy 'default': 2 changed of the defaults, catalogue 'illustrative'>"
    shown = [population, policy, policy.catalogue, policy.catalogue.plans["pro"], study, trace]
    for one in shown:
        assert str(one) == repr(one)
        assert repr(one).startswith(f"<{type(one).__name__}"), repr(one)
        assert len(repr(one)) < 200
        assert "\n" not in repr(one)


def test_a_model_in_a_file_is_checked_without_its_constructor() -> None:
    """Pydantic marks its own `__init__` so, and ours is marked alike: a private name, watched here."""
    from pydantic import BaseModel

    from ranksim.core.contract.public import Public

    assert vars(BaseModel.__init__).get("__pydantic_base_init__") is True
    assert Public.__pydantic_custom_init__ is False
