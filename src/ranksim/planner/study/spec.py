"""What a study varies and asks, as strict models, and whether the engine that runs it can give that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from ranksim.core.contract.located import Located
from ranksim.core.contract.parameters import check_unit
from ranksim.core.contract.partly import Misfit, Path
from ranksim.core.contract.quantities import TEXT, TEXTS, Frozen
from ranksim.core.errors import BadInput
from ranksim.inference.estimate import LEVEL
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.engines import Engine
from ranksim.planner.study.scale import Scale

Share = Annotated[float, Field(gt=0, lt=1)]
Value = Any
"""A value of a parameter, as a file writes it."""


class StudyPrecision(Frozen):
    """Replicate every point until the interval of each metric of `of` is within `relative` of its mean."""

    of: Annotated[tuple[str, ...], Field(min_length=1), WithJsonSchema({"anyOf": [TEXT, TEXTS]})]
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

    @property
    def extreme(self) -> str:
        """Which value is sought: the smallest or the largest."""
        return "smallest" if self.smallest else "largest"

    @property
    def sought(self) -> str:
        """What is sought, in words."""
        return f"{self.extreme} {self.parameter} such that {self.such_that}"


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
    precision: StudyPrecision | None = None
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

    def parameters(self) -> Iterable[tuple[tuple[str, ...], str, Sequence[Value]]]:
        """Yield every parameter with where it stands in the file, and the values it is given there."""
        for path, value in self.change.items():
            yield ("change", path), path, (value,)
        for path, levels in (self.factors or {}).items():
            yield ("factors", path), path, levels
        for name, settings in (self.variants or {}).items():
            for path, value in settings.items():
                yield ("variants", name, path), path, (value,)
        if self.goal is not None:
            yield ("goal", self.goal.extreme), self.goal.parameter, self.goal.between
        for path, ends in (self.sensitivity.parameters if self.sensitivity else {}).items():
            yield ("sensitivity", "parameters", path), path, ends


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A spec that fits the engine it runs on; `located` is where its fields stand, for errors found later."""

    spec: Spec
    engine: Engine
    located: Located

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics that the result shows."""
        return self.spec.measure or self.engine.usual

    @property
    def sought(self) -> tuple[str, ...]:
        """The metric that a goal is about."""
        goal = self.spec.goal
        return () if goal is None else (MetricCondition.parse(goal.such_that, self.engine).metric,)

    @property
    def needed(self) -> tuple[str, ...]:
        """The metrics that the result shows, or that decide how it comes about."""
        spec = self.spec
        precise = spec.precision.of if spec.precision else ()
        names = (*self.measured, *precise, *self.sought)
        trials = (self.engine.trials_of(metric) for metric in names)
        return tuple(dict.fromkeys((*names, *(name for name in trials if name is not None))))

    def with_replications(self, replications: int) -> Self:
        """The same study with so many replications of each point, whatever precision they reach."""
        if replications < 1:
            raise BadInput(f"replications: expected at least 1, found {replications}")
        return replace(
            self, spec=self.spec.model_copy(update={"replications": replications, "precision": None})
        )


# What the model cannot see: parameters, metrics and values


def misfits(spec: Spec, engine: Engine, *, written: bool) -> Iterator[Misfit]:
    """The parameters, metrics and values that the engine does not have, and where each stands.

    Where the spec is `written` in a file, numbers that lack their unit are misfits too.
    """
    for name, given in (("factors", spec.factors), ("variants", spec.variants)):
        if given == {}:
            yield Misfit((name,), "is empty; a design has at least one point, so fill it or leave it out")
    for path, levels in (spec.factors or {}).items():
        if any(level in levels[:index] for index, level in enumerate(levels)):
            yield Misfit(("factors", path), "a level is written twice; remove one")
    for where, path, values in spec.parameters():
        wrong = list(_refused(where, engine.check_path, path))
        yield from wrong
        for value in values if written and not wrong else ():
            yield from _refused(where, check_unit, path, value, engine.roots())
    precise = spec.precision.of if spec.precision else ()
    for field, metrics in (("measure", spec.measure), ("precision", precise)):
        for metric in metrics:
            yield from _refused((field,), engine.check_metric, metric)
    if spec.goal is not None:
        yield from _goal_misfits(spec.goal, engine)
    if spec.sensitivity is not None and spec.sensitivity.method == "sobol":
        for path, ends in spec.sensitivity.parameters.items():
            yield from _refused(("sensitivity", "parameters", path), Scale.between, *ends)


def _goal_misfits(goal: Goal, engine: Engine) -> Iterator[Misfit]:
    yield from _refused(("goal", "such_that"), MetricCondition.parse, goal.such_that, engine)
    try:
        scale = Scale.between(*goal.between, goal.step)
    except ValueError as error:
        yield Misfit(("goal", "between"), str(error))
        return
    if goal.step is None and scale.kind == "numbers":
        yield Misfit(("goal", "step"), "is missing; say how fine numbers are tried, such as 0.1")


def _refused(where: Path, check: Callable[..., object], *given: object) -> Iterator[Misfit]:
    """What a check says of something that stands at a path, if it raises ValueError."""
    try:
        check(*given)
    except ValueError as error:
        yield Misfit(where, str(error))
