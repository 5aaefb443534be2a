"""A model that costs nothing to run, for tests of studies; spawned processes and clusters import it too."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError

from ranksim.core.contract.located import Located, explain_mistakes
from ranksim.core.contract.parameters import Settings, check_path, laid, tree_of
from ranksim.core.contract.quantities import Duration, Frozen, Money
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.inference.kinds import Kind
from ranksim.planner.study.engines import Measurement

UNITS = {"chance": "share", "cost": "money"}
METRICS = ("level", "own", "linear", "steady", "chance", "cost", "seen")


class Toy(Frozen):
    """What a replication depends on."""

    workers: Annotated[int, Field(ge=0)] = 1
    price: Money = 10_000_000
    pause: Duration = 0
    first: float = 0.0
    second: float = 0.0
    third: float = 0.0
    breaks: tuple[int, ...] = ()
    dies: bool = False
    slow: float = 0.0
    log: str = ""


@dataclass(frozen=True, slots=True)
class Toys:
    """The engine: every metric is a formula of the toy and of one draw."""

    toy: Toy = field(default_factory=Toy)

    name: ClassVar[str] = "toys"
    sources: ClassVar[tuple[str, ...]] = ("core/draws.py",)
    usual: ClassVar[tuple[str, ...]] = ("level",)

    def roots(self) -> Mapping[str, Any]:
        return {"toy": self.toy}

    def check_path(self, path: str) -> None:
        check_path(path, self.roots())

    def check_metric(self, metric: str) -> None:
        if metric not in METRICS:
            raise ValueError(f"no metric {metric!r}")

    def unit_of(self, metric: str) -> str:
        return UNITS.get(metric, "count")

    def kind_of(self, metric: str) -> Kind:
        return "mean"

    def trials_of(self, metric: str) -> str | None:
        return None

    def has_independent_trials(self, metric: str) -> bool:
        return False

    def is_drawn(self, built: Any, metric: str) -> bool:
        return True

    def build(self, settings: Settings) -> Toy:
        changes = laid(self.toy, tree_of(settings, "toy"))
        changes = {name: tuple(value) if name == "breaks" else value for name, value in changes.items()}
        try:
            return Toy.model_validate({**dict(self.toy), **changes})
        except ValidationError as error:
            raise explain_mistakes(Toy, error, Located("replace", changes, {})) from None

    def meaning(self, built: Toy) -> str:
        return built.model_dump_json(exclude={"log", "slow"})

    def observe(self, built: Toy, seed: int, index: int) -> Measurement:
        if built.log:
            with open(built.log, "a", encoding="utf-8") as log:
                log.write(f"{built.workers} {index}\n")
        if index in built.breaks:
            raise ZeroDivisionError("the toy\nbroke")
        if built.dies:
            os._exit(3)
        time.sleep(built.slow)
        draw = uniform(seed, entity("toy"), index, Purpose.CHOICE)
        own = uniform(seed, entity(f"toy {built.workers}"), index, Purpose.CHOICE)
        return Measurement(
            {
                "level": built.workers + draw,
                "own": built.workers + own,
                "linear": 3 * built.first + 2 * built.second + built.third,
                "steady": float(built.workers),
                "chance": built.workers / 100 * (0.5 + draw),
                "cost": built.workers * 1_000_000 + draw,
                "seen": draw if index % 2 else None,
            }
        )
