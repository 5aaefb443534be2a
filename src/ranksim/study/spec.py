"""A study as a YAML file or from Python: what is run, what is varied, what is asked; read strictly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from ranksim.contract.policy import Policy
from ranksim.contract.quantities import Frozen
from ranksim.contract.yamlfile import Located, load_yaml, read_yaml, validate
from ranksim.errors import BadInput
from ranksim.sim.intervals import LEVEL
from ranksim.sim.scenario import Scenario
from ranksim.study.condition import Condition
from ranksim.study.engines import Engine, Worlds
from ranksim.study.scale import Scale

if TYPE_CHECKING:
    from ranksim.fleet.population import Population
    from ranksim.study.results import StudyResult

Share = Annotated[float, Field(gt=0, lt=1)]
Value = Any
"""A value of a parameter, as a file writes it."""

INPUTS = ("scenario", "population", "policy")


class Precision(Frozen):
    """Replicate every point until the interval of each metric of `of` is within `relative` of its mean."""

    of: Annotated[tuple[str, ...], Field(min_length=1)]
    relative: Share = 0.05
    max_replications: Annotated[int, Field(ge=2)] = 200

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        of = value.get("of") if isinstance(value, dict) else None
        if isinstance(of, str):
            return value | {"of": (of,)}
        return value | {"of": tuple(of)} if isinstance(of, list) else value


class Goal(Frozen):
    """The smallest (or largest) value of a parameter that meets a condition, which grows ever easier to meet.

    Values go from the first of `between` to the second in steps of `step`; whole numbers by ones unless said.
    """

    smallest: str | None = None
    largest: str | None = None
    between: tuple[Value, Value]
    step: Value = None
    such_that: str
    max_replications: Annotated[int, Field(ge=2)] = 320

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.smallest is None) == (self.largest is None):
            raise ValueError("write either smallest or largest")
        return self

    @property
    def parameter(self) -> str:
        """The path that is varied."""
        return self.smallest or self.largest or ""


class Sensitivity(Frozen):
    """How much metrics depend on parameters, each between two values.

    "tornado" moves one parameter at a time, "sobol" all of them at once, in `samples` (a power of two).
    """

    method: Literal["tornado", "sobol"] = "tornado"
    parameters: Annotated[dict[str, tuple[Value, Value]], Field(min_length=1)]
    samples: Annotated[int, Field(ge=2)] = 64

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.samples & (self.samples - 1):
            raise ValueError(f"samples: expected a power of two, found {self.samples}")
        return self


class Spec(Frozen):
    """What a study file says beside its inputs.

    A design is every `variant` at every combination of `factors`' levels; `change` is set at each point.
    """

    study: Literal[1] = 1
    name: str = ""
    title: str = ""
    description: str = ""
    seed: int = 1
    replications: Annotated[int, Field(ge=1)] = 10
    precision: Precision | None = None
    confidence: Share = LEVEL
    measure: tuple[str, ...] = ()
    quantiles: tuple[Share, ...] = ()
    change: dict[str, Value] = Field(default_factory=dict)
    factors: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] | None = None
    variants: dict[str, dict[str, Value]] | None = None
    baseline: str = ""
    goal: Goal | None = None
    sensitivity: Sensitivity | None = None

    @property
    def has_design(self) -> bool:
        """Whether points of a design are asked for, beside a goal and a sensitivity."""
        return bool(self.factors or self.variants) or not (self.goal or self.sensitivity)

    def parameters(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """Give every parameter with where it stands in the file."""
        for path in self.change:
            yield ("change", path), path
        for path in self.factors or ():
            yield ("factors", path), path
        for name, settings in (self.variants or {}).items():
            for path in settings:
                yield ("variants", name, path), path
        if self.goal is not None:
            yield ("goal", "smallest" if self.goal.smallest else "largest"), self.goal.parameter
        for path in self.sensitivity.parameters if self.sensitivity else ():
            yield ("sensitivity", "parameters", path), path


@dataclass(frozen=True, slots=True)
class Study:
    """A study, complete and checked: its spec, and the engine that runs it.

    Made by `load`, `parse` or `of`; `run` gives its result.
    """

    spec: Spec
    engine: Engine
    located: Located

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file. Raises BadInput naming the line of the first mistake."""
        return cls._read(read_yaml(path), Path(path))

    @classmethod
    def parse(cls, text: str, where: str = "study") -> Self:
        """Read a study from YAML text; `where` names it in errors. Raises BadInput."""
        return cls._read(load_yaml(text, where), Path(where))

    @classmethod
    def of(cls, inputs: Scenario | Population | Engine, policy: Policy | None = None, **fields: Any) -> Self:
        """Make a study from the fields of a file: `Study.of(scenario, variants={...})`.

        A population runs under `policy`, a scenario under its own unless one is given. Raises BadInput.
        """
        engine = _engine_of(inputs, policy)
        return cls._checked(Located("study", fields, {}), engine, "study")

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics that the result shows."""
        return self.spec.measure or self.engine.usual

    @property
    def needed(self) -> tuple[str, ...]:
        """The metrics that the result shows, or that decide how it comes about."""
        spec = self.spec
        precise = spec.precision.of if spec.precision else ()
        sought = (Condition.parse(spec.goal.such_that, self.engine).metric,) if spec.goal else ()
        return tuple(dict.fromkeys((*self.measured, *precise, *sought)))

    def with_replications(self, replications: int) -> Study:
        """The same study with so many replications of each point, whatever precision they reach."""
        if replications < 1:
            raise BadInput(f"replications: expected at least 1, found {replications}")
        return replace(
            self, spec=self.spec.model_copy(update={"replications": replications, "precision": None})
        )

    def run(
        self,
        *,
        workers: int = 1,
        scheduler: str | None = None,
        store: str | Path | None = None,
        retry_failed: bool = False,
        progress: Any = None,
    ) -> StudyResult:
        """Run what the store does not hold yet, and give the result.

        `workers` processes share the work, or the Dask cluster of `scheduler`; the result does not depend on
        it. Without `store` nothing is kept. `retry_failed` runs again what failed earlier. `progress` is
        called with the replications done and wanted. Raises BadInput.
        """
        from ranksim.study.runner import run

        return run(
            self, workers=workers, scheduler=scheduler, store=None if store is None else Path(store),
            retry_failed=retry_failed, progress=progress,
        )  # fmt: skip

    @classmethod
    def _read(cls, located: Located, path: Path) -> Self:
        if not isinstance(located.data, dict):
            raise located.error("expected a mapping of fields")
        engine = _engine(located, path)
        for name in INPUTS:
            located = located.without(name)
        return cls._checked(located, engine, path.stem)

    @classmethod
    def _checked(cls, located: Located, engine: Engine, name: str) -> Self:
        spec = validate(Spec, located)
        if not spec.name:
            spec = spec.model_copy(update={"name": name})
        _check(spec, engine, located)
        return cls(spec, engine, located)


def _engine_of(inputs: Scenario | Population | Engine, policy: Policy | None) -> Engine:
    """The engine for inputs given in Python."""
    if isinstance(inputs, Scenario):
        return Worlds(inputs if policy is None else inputs.replace(policy=policy))
    if not isinstance(inputs, BaseModel):
        return inputs
    from ranksim.study.fleets import Fleets

    return Fleets(inputs, policy or Policy())


def _engine(located: Located, path: Path) -> Engine:
    """The engine that the inputs of a file ask for."""
    if isinstance(located.data.get("scenario"), int):
        raise located.error("is a scenario; give it to ranksim run, or name it in a study, as its scenario")
    given = [name for name in ("scenario", "population") if name in located.data]
    if len(given) != 1:
        raise located.error("expected either scenario, to run worlds, or population, to run fleets")
    if given == ["scenario"]:
        return _worlds(located, path)
    return _fleets(located, path)


def _fleets(located: Located, path: Path) -> Engine:
    from ranksim.fleet.population import Population
    from ranksim.study.fleets import Fleets

    given = located["population"]
    if isinstance(given.data, str):
        population = Population.load(_file(given, path))
    else:
        population = Population.read(given)
    policy = _policy(located["policy"], path) if "policy" in located.data else Policy()
    return Fleets(population, policy, path.parent)


def _worlds(located: Located, path: Path) -> Worlds:
    given = located["scenario"]
    if isinstance(given.data, str):
        scenario = Scenario.load(_file(given, path))
    else:
        scenario = Scenario.read(given, path)
    if "policy" in located.data:
        scenario = scenario.replace(policy=_policy(located["policy"], path))
    return Worlds(scenario, path.parent)


def _policy(given: Located, path: Path) -> Policy:
    """A policy written in a study: the path of its file, or a mapping."""
    if isinstance(given.data, str):
        return Policy.load(_file(given, path))
    return Policy.read(given, path.parent)


def _file(given: Located, path: Path) -> Path:
    """The file that an input names, relative to the study's."""
    file = path.parent / str(given.data)
    if not file.is_file():
        raise given.error(f"no such file as {str(file)!r}; give a path relative to the study")
    return file


# What the model cannot see: parameters, metrics and values


def _check(spec: Spec, engine: Engine, located: Located) -> None:
    for name, given in (("factors", spec.factors), ("variants", spec.variants)):
        if given is not None and not given:
            raise located.error("is empty; a design has at least one point, so fill it or leave it out", name)
    for path, levels in (spec.factors or {}).items():
        if any(level in levels[:index] for index, level in enumerate(levels)):
            raise located.error("a level is written twice; remove one", "factors", path)
    for where, path in spec.parameters():
        try:
            engine.check_path(path)
        except ValueError as error:
            raise located.error(str(error), *where) from None
    for field, metrics in (
        ("measure", spec.measure),
        ("precision", spec.precision.of if spec.precision else ()),
    ):
        for metric in metrics:
            try:
                engine.check_metric(metric)
            except ValueError as error:
                raise located.error(str(error), field) from None
    if spec.goal is not None:
        _check_goal(spec.goal, engine, located)
    for path, (low, high) in (spec.sensitivity.parameters if spec.sensitivity else {}).items():
        if spec.sensitivity is not None and spec.sensitivity.method == "sobol":
            try:
                Scale.between(low, high)
            except ValueError as error:
                raise located.error(str(error), "sensitivity", "parameters", path) from None


def _check_goal(goal: Goal, engine: Engine, located: Located) -> None:
    try:
        Condition.parse(goal.such_that, engine)
    except ValueError as error:
        raise located.error(str(error), "goal", "such_that") from None
    try:
        scale = Scale.between(*goal.between, goal.step)
    except ValueError as error:
        raise located.error(str(error), "goal", "between") from None
    if goal.step is None and scale.kind == "numbers":
        raise located.error("is missing; say how fine numbers are tried, such as 0.1", "goal", "step")
