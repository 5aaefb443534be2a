"""A scenario: one simulated world as a YAML file, read strictly, every mistake one sentence with its line."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from ranksim.core.callers.programs import Python, rooted_in
from ranksim.core.clock import iso
from ranksim.core.contract.located import Located, Part, together
from ranksim.core.contract.parameters import Settings, check_path, of_root
from ranksim.core.contract.partly import ANY, read_partly, refuse_mistakes
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput, check_kind
from ranksim.report.units import count, many
from ranksim.report.units import duration as written
from ranksim.twin.sim.misfits import SOLD, left_out_misfits, misfits_of
from ranksim.twin.sim.overlays import read_policy, with_assumptions
from ranksim.twin.sim.scenario_fields import ScenarioFields, changes_by, laid_over

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


class Scenario(ScenarioFields):
    """One simulated world, complete: policy, accounts, clients, workers, receivers, and what is expected.

    `scenario` is the version of the format. The world runs over [start, start + length). In a file `policy`
    is a path or a mapping; `assumptions` beside it override those they name, and a `catalogue` its whole
    catalogue. `warm_up` is a length of time that statistics leave out, "none", or "mser" or "welch" to find
    one.
    """

    def __repr__(self) -> str:
        return (
            f"<Scenario {self.name!r}: {written(self.length)} from {iso(self.start)}, "
            f"{many(len(self.accounts), 'account')}, {many(len(self.clients), 'client')}>"
        )

    def _repr_html_(self) -> str:
        from ranksim.report.tables import View, fragment

        slots = {
            name: count(account.slots()) if account.hosts(name) else "–"
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
        scenario = laid_over(self, changes)
        refuse_mistakes(misfits_of(scenario), Located("replace", changes, {}))
        return scenario

    def changed(self, settings: Settings, folder: Path = Path()) -> Self:
        """Return the scenario with parameters set by path: `scenario.changed({"scenario.length": "7d"})`.

        Paths are those of studies; `scenario.plan` is the plan of all accounts. Policy files are read from
        `folder`. Raises BadInput, also when parts do not fit together any more.
        """
        check_kind("settings", settings, Mapping, "values by path, as {'scenario.length': '7d'}")
        return self.replace(**changes_by(self, settings, folder))

    def check(self) -> None:
        """Raise BadInput when parts of the scenario do not fit together."""
        refuse_mistakes(misfits_of(self), Located(self.name or "scenario", {}, {}))


def scenario_of(source: Scenario | str | Path, settings: Settings = MappingProxyType({})) -> Scenario:
    """Return a scenario, read first where it is the path of a file, with parameters set by path.

    Raises BadInput.
    """
    check_kind("scenario", source, Scenario | str | Path, "a scenario or the path of its file")
    scenario = source if isinstance(source, Scenario) else Scenario.load(source)
    return scenario.changed(settings) if settings else scenario


def with_parameters(
    settings: Settings, scenario: Scenario | None, policy: Policy | str | Path | None
) -> tuple[Scenario | None, Policy]:
    """Return a scenario and the policy, its own unless one is given, with parameters set by path.

    Of a scenario under another policy only what is its own is set. Raises BadInput.
    """
    under = scenario.policy if scenario is not None and policy is None else policy_of(policy)
    roots = {} if scenario is None else {**scenario.roots}
    for path in settings:
        check_path(path, {**roots, "policy": under})
    if scenario is not None:
        scenario = scenario.changed(settings if under is scenario.policy else of_root("scenario", settings))
    return scenario, under.changed(settings)


def client_functions(scenario: Scenario) -> list[str]:
    """Return the Python functions, as module:function, that a scenario's clients import and run."""
    return sorted({each.function for each in scenario.clients.values() if isinstance(each, Python)})
