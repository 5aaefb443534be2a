"""A scenario: one simulated world as a YAML file, read strictly, every mistake one sentence with its line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ranksim.core.callers.network import NetworkSpec
from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.programs import ClientSpec, Python, rooted_in
from ranksim.core.clock import SECOND, Micros, duration, iso
from ranksim.core.contract.located import Located, Part, explain_mistakes, together
from ranksim.core.contract.parameters import Leaf, Settings, check_path, laid, merged, tree_of
from ranksim.core.contract.partly import ANY, read_partly, refuse_mistakes
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import Duration, Frozen, Instant
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput
from ranksim.report.units import count, many
from ranksim.report.units import duration as written
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.misfits import SOLD, left_out_misfits, misfits_of
from ranksim.twin.sim.overlays import read_policy, with_assumptions
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.timeline import Action
from ranksim.twin.sim.workers import PoolSpec

SAMPLES = 200
"""How many samples a run takes when the scenario does not say."""

STAND_INS: dict[tuple[Part, ...], Any] = {
    ("start",): "2026-01-01T00:00:00Z",
    ("length",): "1d",
    ("accounts",): {"": {"plan": ""}},
    ("accounts", ANY): {"plan": ""},
    ("clients", ANY): {"kind": "poller", "account": "", "operation": "account.usage", "every": "1h"},
    ("receivers", ANY): {"account": ""},
}
"""What stands for what is wrong, to tell the mistakes of the rest.

Without the first there is no scenario; the others are named elsewhere.
"""


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


class Scenario(Public):
    """One simulated world, complete: policy, accounts, clients, workers, receivers, and what is expected.

    `scenario` is the version of the format. The world runs over [start, start + length). In a file `policy`
    is a path or a mapping; `assumptions` beside it override those they name, and a `catalogue` its whole
    catalogue. `warm_up` is a length of time that statistics leave out, "none", or "mser" or "welch" to find
    one.
    """

    scenario: Literal[1] = 1
    name: str = ""
    title: str = ""
    description: str = ""
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
    network: NetworkSpec | None = None
    """Between all clients and the service; without one, calls are answered at the instant they are made."""
    sample_every: Annotated[Duration, Field(ge=0)] = 0
    """Between two samples of the state (µs); 0 in a file: a 200th of the length, in whole seconds."""
    warm_up: WarmUp = "none"
    precision: Precision | None = None
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="after")
    def _default_sampling(self) -> Self:
        if self.sample_every == 0:
            every = max(1, round(self.length / SAMPLES / SECOND)) * SECOND
            object.__setattr__(self, "sample_every", every)
        return self

    def __repr__(self) -> str:
        return (
            f"<Scenario {self.name!r}: {written(self.length)} from {iso(self.start)}, "
            f"{many(len(self.accounts), 'account')}, {many(len(self.clients), 'client')}>"
        )

    def _repr_html_(self) -> str:
        from ranksim.report.tables import View, fragment

        slots = {
            name: count(sum(part.slots() for part in account.portfolios)) if account.portfolios else "–"
            for name, account in self.accounts.items()
        }
        accounts = tuple((name, account.plan, slots[name]) for name, account in self.accounts.items())
        clients = tuple((name, client.kind, client.account or "–") for name, client in self.clients.items())
        expected = tuple((str(expect.model_dump(mode="json")),) for expect in self.expect)
        views = (
            View("Accounts", ("account", "plan", "slots at the start"), 2, accounts),
            View("Clients", ("client", "kind", "account"), 3, clients),
            View("Expected", ("what",), 1, expected),
        )
        about = [repr(self)[1:-1], self.description]
        return fragment(self.title or self.name, about, [view for view in views if view.rows])

    @property
    def end(self) -> Micros:
        """The instant at which the run stops; nothing of that instant happens any more."""
        return self.start + self.length

    @property
    def roots(self) -> Mapping[str, BaseModel]:
        """What paths of parameters begin with, and lead into."""
        return {"scenario": self, "policy": self.policy}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a scenario file. Raises BadInput naming the line of each mistake."""
        return cls.read(read_yaml(path, "scenario"), Path(path))

    @classmethod
    def parse(cls, text: str, where: str = "scenario") -> Self:
        """Read a scenario from YAML text; `where` names it in errors. Raises BadInput."""
        return cls.read(load_yaml(text, where), Path(where))

    @classmethod
    def read(cls, located: Located, path: Path = Path()) -> Self:
        """Read a scenario from YAML already loaded. Paths in it are relative to the folder of `path`.

        Raises BadInput.
        """
        if not isinstance(located.data, dict):
            raise located.error("expected a mapping of fields")
        scenario, wrong, left_out = read_partly(
            cls, located.without("policy").without("assumptions").without("catalogue"), STAND_INS
        )
        mistakes, policy = [], Policy()
        try:
            policy = read_policy(located, path.parent)
        except BadInput as error:
            mistakes.append(str(error))
            left_out = left_out.more(SOLD)
        try:
            policy = with_assumptions(policy, located)
        except BadInput as error:
            mistakes.append(str(error))
        mistakes += wrong
        if scenario is None:
            raise together(mistakes)
        clients = {name: rooted_in(client, path.parent) for name, client in scenario.clients.items()}
        changes = {"policy": policy, "name": scenario.name or path.stem, "clients": clients}
        scenario = scenario.model_copy(update=changes)
        mistakes += [
            str(located.error(misfit.message, *misfit.path))
            for misfit in left_out_misfits(scenario, left_out)
            if not any(map(left_out.concerns, misfit.rests_on))
        ]
        refuse_mistakes(misfits_of(scenario), located, mistakes, left_out)
        return scenario

    def replace(self, **changes: Any) -> Self:
        """Return a scenario with some fields changed: `scenario.replace(length="7d", clients={"ci": {...}})`.

        Nested mappings are merged, lists replaced. `plan="pro"` moves all accounts to that plan;
        `assumptions` and `catalogue` change the policy. Raises BadInput.
        """
        scenario = self._laid_over(changes)
        refuse_mistakes(misfits_of(scenario), Located("replace", changes, {}))
        return scenario

    def changed(self, settings: Settings, folder: Path = Path(), *, fitting: bool = True) -> Self:
        """Return the scenario with parameters set by path: `scenario.changed({"scenario.length": "7d"})`.

        Paths are those of studies; `scenario.plan` is the plan of all accounts. Policy files are read from
        `folder`. Raises BadInput, where `fitting` also when parts do not fit together any more.
        """
        for path in settings:
            check_path(path, self.roots)
        tree = tree_of(settings, "scenario")
        if isinstance(tree, Leaf) or "policy" in tree:
            raise BadInput("scenario: set what changes of it; of its policy as policy.…")
        changes = {**laid(self, tree), "policy": self.policy.changed(settings, folder)}
        return self.replace(**changes) if fitting else self._laid_over(changes)

    def _laid_over(self, changes: Mapping[str, Any]) -> Self:
        changes = dict(changes)
        if "plan" in changes:
            plan = changes.pop("plan")
            given = changes.get("accounts", {})
            changes["accounts"] = {
                name: {"plan": plan} | dict(given.get(name, {})) for name in (*self.accounts, *given)
            }
        policy = changes.pop("policy", self.policy)
        if isinstance(policy, str | Path):
            policy = Policy.load(policy)
        elif isinstance(policy, Mapping):
            policy = self.policy.replace(**policy)
        parts = {part: changes.pop(part) for part in ("assumptions", "catalogue") if part in changes}
        fields = merged(self, changes) | {"policy": policy.replace(**parts) if parts else policy}
        try:
            return type(self).model_validate(fields)
        except ValidationError as error:
            raise explain_mistakes(type(self), error, Located("replace", changes, {})) from None

    def check(self) -> None:
        """Raise BadInput when parts of the scenario do not fit together."""
        refuse_mistakes(misfits_of(self), Located(self.name or "scenario", {}, {}))


def scenario_of(source: Scenario | str | Path) -> Scenario:
    """Return a scenario, read first where it is the path of a file. Raises BadInput."""
    return source if isinstance(source, Scenario) else Scenario.load(source)


def client_functions(scenario: Scenario) -> list[str]:
    """Return the Python functions, as module:function, that a scenario's clients import and run."""
    return sorted({each.function for each in scenario.clients.values() if isinstance(each, Python)})
