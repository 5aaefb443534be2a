"""A study: read from a YAML file or made in Python, checked, and run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel

from ranksim.core.contract.located import Located, together
from ranksim.core.contract.parameters import Settings, as_in_files
from ranksim.core.contract.partly import read_partly, refuse_mistakes
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput
from ranksim.core.rulebook import rulebook_digest
from ranksim.planner.study import goal, pools, sensitivity
from ranksim.planner.study.design import Point, check_baseline, key_of, point, points
from ranksim.planner.study.engines import Engine, Worlds
from ranksim.planner.study.results import StudyResult, make_tables
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.spec import CheckedSpec, Spec, misfits
from ranksim.planner.study.store import Store
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.scenario import Scenario, scenario_of

if TYPE_CHECKING:
    from ranksim.planner.fleet.population import Population

INPUTS = ("scenario", "population", "policy")


class Study(CheckedSpec):
    """A study, complete and checked: its spec, and the engine that runs it.

    Made by `load`, `parse` or `of`; `run` gives its result.
    """

    __slots__ = ()

    def __new__(cls, *fields: Any, **named: Any) -> Self:
        """Make the object that is filled afterwards. Raises BadInput for a path."""
        if fields and isinstance(fields[0], str | Path):
            raise BadInput(f"Study: expected what `Study.load` or `Study.of` make of it, found {fields[0]!r}")
        return super().__new__(cls)

    def __repr__(self) -> str:
        return f"<Study {self.spec.name!r} of {', '.join(self.measured)}>"

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file. Raises BadInput naming the line of each mistake."""
        return cls._read(read_yaml(path, "study"), Path(path))

    @classmethod
    def parse(cls, text: str, where: str = "study") -> Self:
        """Read a study from YAML text; `where` names it in errors. Raises BadInput."""
        return cls._read(load_yaml(text, where), Path(where))

    @classmethod
    def of(
        cls,
        inputs: Scenario | str | Path | Population | Engine,
        policy: Policy | str | Path | None = None,
        **fields: Any,
    ) -> Self:
        """Make a study from the fields of a file: `Study.of(scenario, variants={...})`.

        A path is a scenario's. A population runs under `policy`, a scenario under its own unless one is
        given. `measure` may be one name. Raises BadInput, as for a value that no point can use.
        """
        if isinstance(measure := fields.get("measure"), str):
            fields["measure"] = [measure]
        policy = None if policy is None else policy_of(policy)
        engine = _engine_of(scenario_of(inputs) if isinstance(inputs, str | Path) else inputs, policy)
        return cls._read_fields(Located("study", as_in_files(fields), {}), engine, "study")

    def changed(self, settings: Settings) -> Self:
        """Return the study with parameters set at every point, beside its `change`. Raises BadInput."""
        varied = {path for where, path, _ in self.spec.parameters() if where[0] != "change"}
        for path in settings:
            if path in varied:
                raise BadInput(f"{path}: the study varies it; set another parameter")
        change = {**self.spec.change, **settings}
        changed = {**self.located.data, "change": change}
        located = Located(self.located.where, changed, self.located.lines)
        return type(self)._checked(located, self.engine, self.spec.name)

    def run(
        self,
        *,
        workers: int = 1,
        scheduler: str | None = None,
        store: str | Path | None = None,
        retry_failed: bool = False,
        progress: Tell | None = None,
    ) -> StudyResult:
        """Run what the store does not hold yet, and give the result.

        `workers` processes share the work, or the Dask cluster of `scheduler`; the result does not depend on
        it. Without `store` nothing is kept. `retry_failed` runs again what failed earlier. `progress` is
        told how far it is; without it a notebook shows that. Raises BadInput, also for a goal that can be
        reached from no point, when everything else is done.
        """
        design = points(self)
        check_baseline(self, design)
        moved = sensitivity.points(self)
        path, sought = None if store is None else Path(store), self.spec.goal
        with (
            noted("studying", progress) as tell,
            Store(path, self._meaning(design), self.spec.title or self.spec.name) as kept,
            pools.open_pool(workers, scheduler) as pool,
        ):
            if retry_failed:
                kept.forget_failures()
            runs = Runs(self, kept, pool, self.needed, tell)
            counts = runs.replicate([*design, *moved])
            findings = [goal.seek(self, sought, at, runs) for at in self._starts(design)] if sought else []
            result = StudyResult(self, make_tables(self, design, moved, findings, runs, counts))
        if findings and all(finding.status == "unreachable" for finding in findings):
            where = f"{findings[0].point}: " if len(findings) > 1 else ""
            raise self.located.error(
                f"{where}cannot be reached: {findings[0].text}; widen between, or ask for less", "goal"
            )
        return result

    def _meaning(self, design: Sequence[Point]) -> dict[str, str]:
        """Return what the rows of the study's store mean, as digests by name."""
        engine, spec = self.engine, self.spec
        base = point(self, {}, "base")
        described = spec.model_dump(mode="json", include={"factors", "variants", "change"})
        if spec.goal is not None:
            described["goal"] = spec.goal.model_dump(mode="json", exclude={"max_replications"})
        if spec.sensitivity is not None:
            described["sensitivity"] = spec.sensitivity.model_dump(mode="json")
        described["points"] = [design_point.key for design_point in design]
        return {
            "engine": engine.name,
            "inputs": key_of(engine, engine.build({})),
            "design": _digest([described, base.key]),
            "seed": str(spec.seed),
            "sources": rulebook_digest(engine.sources),
        }

    def _starts(self, design: Sequence[Point]) -> list[Point]:
        """The points from which the goal is sought: those of the design that differ beside its parameter."""
        starts: dict[str, Point] = {}
        varied = self.spec.goal.parameter if self.spec.goal else ""
        for design_point in design:
            others = {path: value for path, value in design_point.settings.items() if path != varied}
            starts.setdefault(json.dumps(others, sort_keys=True), design_point)
        return list(starts.values()) if len(starts) > 1 else [point(self, {}, "base")]

    @classmethod
    def _read(cls, located: Located, path: Path) -> Self:
        if not isinstance(located.data, dict):
            raise located.error("expected a mapping of fields")
        _check_inputs(located)
        fields = located
        for name in INPUTS:
            fields = fields.without(name)
        try:
            engine = _engine_in(located, path)
        except BadInput as error:
            _, wrong, _ = read_partly(Spec, fields)
            raise together([str(error), *wrong]) from None
        return cls._read_fields(fields, engine, path.stem)

    @classmethod
    def _read_fields(cls, located: Located, engine: Engine, name: str) -> Self:
        made = cls._checked(located, engine, name)
        points(made)  # refuses values that no point can use
        return made

    @classmethod
    def _checked(cls, located: Located, engine: Engine, name: str) -> Self:
        spec, mistakes, left_out = read_partly(Spec, located)
        if spec is None:
            raise together(mistakes)
        wrong = misfits(spec, engine, written=bool(located.lines))
        refuse_mistakes(wrong, located, mistakes, left_out)
        return cls(spec if spec.name else spec.model_copy(update={"name": name}), engine, located)


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _engine_of(
    inputs: Scenario | Population | Engine, policy: Policy | None, folder: Path = Path()
) -> Engine:
    """The engine that runs some inputs; paths of policy files are read from `folder`."""
    if isinstance(inputs, Scenario):
        return Worlds(inputs if policy is None else inputs.replace(policy=policy), folder)
    if not isinstance(inputs, BaseModel):
        if not hasattr(inputs, "observe"):
            raise BadInput(f"study: expected a scenario, the path of one, or a population, found {inputs!r}")
        return inputs
    from ranksim.planner.study.fleets import Fleets

    return Fleets(inputs, policy or Policy(), folder)


def _check_inputs(located: Located) -> None:
    """Raise BadInput unless a file names what is to be run, a scenario or a population."""
    if isinstance(located.data.get("scenario"), int):
        raise located.error("is a scenario; give it to ranksim run, or name it in a study, as its scenario")
    if ("scenario" in located.data) is ("population" in located.data):
        raise located.error("expected either scenario, to run worlds, or population, to run fleets")


def _engine_in(located: Located, path: Path) -> Engine:
    """Read the engine that the inputs of a file ask for. Raises BadInput."""
    inputs: Scenario | Population
    if "scenario" in located.data:
        inputs = _input(Scenario, located["scenario"], path, path)
    else:
        from ranksim.planner.fleet.population import Population

        inputs = _input(Population, located["population"], path)
    policy = _input(Policy, located["policy"], path, path.parent) if "policy" in located.data else None
    return _engine_of(inputs, policy, path.parent)


def _input(kind: Any, given: Located, path: Path, *where: Path) -> Any:
    """Read an input written in a study: the path of its file, or a mapping, whose paths lie at `where`."""
    return kind.load(_file(given, path)) if isinstance(given.data, str) else kind.read(given, *where)


def _file(given: Located, path: Path) -> Path:
    """The file that an input names, relative to the study's."""
    file = path.parent / str(given.data)
    if not file.is_file():
        raise given.error(f"no such file as {str(file)!r}; give a path relative to the study")
    return file
