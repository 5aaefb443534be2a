"""What a scenario states, field by field; `scenario.py` reads it and checks that its parts fit together."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ranksim.core.callers.fault_rules import StatedFault
from ranksim.core.callers.network import NetworkSpec
from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.programs import ClientSpec
from ranksim.core.clock import DAY, SECOND, Micros, duration
from ranksim.core.contract.located import Located, explain_mistakes
from ranksim.core.contract.parameters import Leaf, Settings, check_path, laid, merged, tree_of
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import Duration, Frozen, Instant
from ranksim.core.errors import BadInput
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.timeline import Action, AddFault
from ranksim.twin.sim.workers import PoolSpec

SAMPLES = 200
"""How many samples a run takes when the scenario does not say."""


def _read_warm_up(value: Any) -> Any:
    if isinstance(value, str) and value not in ("none", "mser", "welch"):
        try:
            return duration(value)
        except ValueError:
            raise ValueError(f"write none, mser, welch or a duration such as '1d', found {value!r}") from None
    return value


WarmUp = Annotated[
    int | Literal["none", "mser", "welch"], BeforeValidator(_read_warm_up, json_schema_input_type=str)
]


class Precision(Frozen):
    """Replicate until the interval of metric `of` is within `relative` of its mean, at most so often."""

    of: str
    relative: Annotated[float, Field(gt=0, lt=1)] = 0.05
    max_replications: Annotated[int, Field(ge=2)] = 200


class ScenarioFields(Public):
    """What a scenario states, each field by itself."""

    scenario: Literal[1] = 1
    name: str = ""
    title: str = ""
    description: str = ""
    made_up: tuple[str, ...] = ()
    """What of it nobody observed, in words: every answer about it says so."""
    start: Instant
    length: Annotated[Duration, Field(gt=0)]
    seed: int = 1
    replications: Annotated[int, Field(ge=1)] = 1
    policy: Policy = Field(default_factory=Policy)
    accounts: Annotated[dict[str, AccountSpec], Field(min_length=1)]
    clients: dict[str, ClientSpec] = Field(default_factory=dict)
    pools: dict[JobLabel, PoolSpec] = Field(default_factory=dict)
    receivers: dict[str, ReceiverSpec] = Field(default_factory=dict)
    timeline: tuple[Action, ...] = ()
    faults: tuple[StatedFault, ...] = ()
    """In force from the start where it is served."""
    network: NetworkSpec | None = None
    """Between all clients and the service; without one, calls are answered at the instant they are made."""
    sample_every: Annotated[Duration, Field(ge=0)] = 0
    """Between two samples of the state (µs); 0 in a file: a 200th of the length in seconds, at most a day."""
    warm_up: WarmUp = "none"
    precision: Precision | None = None
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="after")
    def _default_sampling(self) -> Self:
        if self.sample_every == 0:
            every = min(DAY, max(1, round(self.length / SAMPLES / SECOND)) * SECOND)
            object.__setattr__(self, "sample_every", every)
        return self

    @property
    def end(self) -> Micros:
        """The instant at which the run stops; nothing of that instant happens any more."""
        return self.start + self.length

    @property
    def roots(self) -> Mapping[str, BaseModel]:
        """What paths of parameters begin with, and lead into."""
        return {"scenario": self, "policy": self.policy}


Stated = TypeVar("Stated", bound=ScenarioFields)


def made_up_note(scenario: ScenarioFields) -> tuple[str, ...]:
    """The sentence, if any, that says what of an answer about it rests on nothing observed."""
    return (f"Made up, as nobody observed it: {'; '.join(scenario.made_up)}.",) if scenario.made_up else ()


def scenario_notes(scenario: ScenarioFields) -> tuple[str, ...]:
    """The sentences, if any, that each answer about it repeats: what is made up, what no simulation does."""
    notes = made_up_note(scenario)
    if scenario.faults or any(isinstance(action, AddFault) for action in scenario.timeline):
        notes += ("Its faults act where it is served (ranksim serve), and in no simulation.",)
    return notes


def changes_by(scenario: ScenarioFields, settings: Settings, folder: Path = Path()) -> dict[str, Any]:
    """Return what parameters that are set by path change; see `Scenario.changed`. Raises BadInput."""
    for path in settings:
        check_path(path, scenario.roots)
    tree = tree_of(settings, "scenario")
    if isinstance(tree, Leaf) or "policy" in tree:
        raise BadInput("scenario: set what changes of it; of its policy as policy.…")
    return {**laid(scenario, tree), "policy": scenario.policy.changed(settings, folder)}


NOT_SIMULATED = {"name", "title", "description", "made_up", "seed", "replications", "expect", "policy"}
"""What of a scenario decides nothing within its world, and the policy, which is a root of its own."""


def settings_that_differ(first: ScenarioFields, second: ScenarioFields) -> list[str]:
    """Return by path what two scenarios and their policies set otherwise, with both values where short."""
    sides = (
        {
            "scenario": side.model_dump(mode="json", exclude=NOT_SIMULATED),
            "policy": side.policy.model_dump(mode="json"),
        }
        for side in (first, second)
    )
    return [*_differing("", *sides)]


def _differing(path: str, first: Any, second: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for name in dict.fromkeys((*first, *second)):
            yield from _differing(f"{path}.{name}".lstrip("."), first.get(name), second.get(name))
    elif first != second:
        plain = not any(isinstance(value, dict | list) for value in (first, second))
        yield f"{path} ({_written(first)} and {_written(second)})" if plain and "secret" not in path else path


def _written(value: Any) -> str:
    return "none" if value is None else str(value)


def laid_over(scenario: Stated, changes: Mapping[str, Any]) -> Stated:
    """Return a scenario with changes laid over it, whether or not its parts fit then. Raises BadInput."""
    changes = dict(changes)
    if "plan" in changes:
        plan = changes.pop("plan")
        accounts = changes.get("accounts", {})
        changes["accounts"] = {
            name: {"plan": plan} | dict(accounts.get(name, {})) for name in (*scenario.accounts, *accounts)
        }
    policy = changes.pop("policy", scenario.policy)
    if isinstance(policy, str | Path):
        policy = Policy.load(policy)
    elif isinstance(policy, Mapping):
        policy = scenario.policy.replace(**policy)
    parts = {part: changes.pop(part) for part in ("assumptions", "catalogue") if part in changes}
    fields = merged(scenario, changes) | {"policy": policy.replace(**parts) if parts else policy}
    try:
        return type(scenario).model_validate(fields)
    except ValidationError as error:
        raise explain_mistakes(type(scenario), error, Located("replace", changes, {})) from None
