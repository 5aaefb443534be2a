"""A scenario: one simulated world as a YAML file, read strictly, every mistake one sentence with its line."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ranksim.core.callers.network import NetworkSpec
from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.callers.programs import Arrivals, ClientSpec, Python, rooted_in
from ranksim.core.clock import SECOND, Micros, duration, format_duration, iso
from ranksim.core.contract.located import Located, Part, explain_mistakes, together
from ranksim.core.contract.partly import ANY, LeftOut, Misfit, read_partly, refuse_mistakes
from ranksim.core.contract.plans import JobLabel, Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import Duration, Frozen, Instant
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput
from ranksim.core.service.administration import STATUSES
from ranksim.report.units import count, many
from ranksim.report.units import duration as written
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.overlays import merged, read_policy, with_assumptions
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.schedule_time import Moment
from ranksim.twin.sim.timeline import CLIENT, Action, IssueKey, ResizePool, WithdrawKey
from ranksim.twin.sim.workers import PoolSpec

SAMPLES = 200
"""How many samples a run takes when the scenario does not say."""

SOLD = (("policy",), ("catalogue",))
"""What says which plans, add-ons and metrics there are."""
SECTIONS = {"account": "accounts", "client": "clients", "pool": "pools", "receiver": "receivers"}
"""Where a scenario names its own."""
WITHIN: dict[str, tuple[tuple[Part, ...], ...]] = {
    "key": (("accounts",), ("timeline",)), "domain": (("accounts",),), "status": (),
}  # fmt: skip
"""Where it names parts of these."""
TIME: tuple[tuple[Part, ...], ...] = (("start",), ("length",))
"""What says which moments lie in the run."""
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
            for misfit in _left_out_misfits(scenario, left_out)
            if not any(map(left_out.concerns, misfit.rests_on))
        ]
        refuse_mistakes(_misfits(scenario), located, mistakes, left_out)
        return scenario

    def replace(self, **changes: Any) -> Self:
        """Return a scenario with some fields changed: `scenario.replace(length="7d", clients={"ci": {...}})`.

        Nested mappings are merged, lists replaced. `plan="pro"` moves all accounts to that plan;
        `assumptions` and `catalogue` change the policy. Raises BadInput.
        """
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
        located = Located("replace", changes, {})
        try:
            scenario = type(self).model_validate(fields)
        except ValidationError as error:
            raise explain_mistakes(type(self), error, located) from None
        refuse_mistakes(_misfits(scenario), located)
        return scenario

    def check(self) -> None:
        """Raise BadInput when parts of the scenario do not fit together."""
        refuse_mistakes(_misfits(self), Located(self.name or "scenario", {}, {}))


def scenario_of(source: Scenario | str | Path) -> Scenario:
    """Return a scenario, read first where it is the path of a file. Raises BadInput."""
    return source if isinstance(source, Scenario) else Scenario.load(source)


def client_functions(scenario: Scenario) -> list[str]:
    """Return the Python functions, as module:function, that a scenario's clients import and run."""
    return sorted({each.function for each in scenario.clients.values() if isinstance(each, Python)})


# What the models cannot see: whether the parts of a scenario fit together.


def _misfits(scenario: Scenario) -> Iterator[Misfit]:
    yield from _account_misfits(scenario)
    yield from _client_misfits(scenario)
    yield from _receiver_misfits(scenario)
    for index, action in enumerate(scenario.timeline):
        for misfit in _action_misfits(scenario, action):
            yield misfit._replace(path=("timeline", index, *misfit.path))
    yield from _expectation_misfits(scenario)
    if isinstance(scenario.warm_up, int) and not 0 <= scenario.warm_up < scenario.length:
        longest = format_duration(scenario.length)
        yield Misfit(("warm_up",), f"expected less than the length of {longest}", TIME)


def _left_out_misfits(scenario: Scenario, left_out: LeftOut) -> Iterator[Misfit]:
    """Unknown names in parts that could not be read as a whole, such as a client of no known kind."""
    for path in sorted(left_out.paths, key=str):
        part = left_out.data
        for step in path:
            part = part.get(step) if isinstance(part, dict) else part[step]
        for what, section in SECTIONS.items():
            name = part.get(what) if isinstance(part, dict) else None
            if isinstance(name, str):
                yield from _unknown((*path, what), what, name, getattr(scenario, section))


def _account_misfits(scenario: Scenario) -> Iterator[Misfit]:
    catalogue = scenario.policy.catalogue
    for name, account in scenario.accounts.items():
        at = ("accounts", name)
        yield from _unknown((*at, "plan"), "plan", account.plan, catalogue.plans)
        for add_on in account.add_ons:
            yield from _unknown((*at, "add_ons", add_on), "add-on", add_on, catalogue.add_ons)
        yield from _unknown((*at, "status"), "status", account.status, STATUSES)
        names = [key.name for key in account.keys]
        for index, key in enumerate(account.keys):
            if names.index(key.name) < index:
                yield Misfit((*at, "keys", index), f"the key {key.name!r} is written twice; remove one")
            if key.domain is not None:
                yield from _unknown((*at, "keys", index, "domain"), "domain", key.domain, account.hosts(name))
        if account.plan not in catalogue.plans:
            continue
        plan = catalogue.plans[account.plan]
        if account.portfolio is not None:
            yield from _portfolio_misfits((*at, "portfolio"), account.portfolio, plan)
        for number, portfolio in enumerate(account.further):
            yield from _portfolio_misfits((*at, "further", number), portfolio, plan)
        for metric in account.used.metrics if account.used is not None else ():
            yield from _unknown((*at, "used", "metrics", metric), "metric", metric, plan.quotas)
        for number, cooling in enumerate(account.used.cooldowns if account.used is not None else ()):
            place = (*at, "used", "cooldowns", number)
            yield from _unknown((*place, "domain"), "domain", cooling.domain, account.hosts(name))
            if cooling.since > scenario.start:
                begun = f"begins after the world, which starts {iso(scenario.start)}"
                yield Misfit((*place, "since"), begun, TIME)


def _portfolio_misfits(at: tuple[Part, ...], portfolio: PortfolioSpec, plan: Plan) -> Iterator[Misfit]:
    way_out = "make it smaller or choose another plan"
    slots = portfolio.slots()
    if slots > plan.slot_limit:
        too_many = f"takes {slots} slots where plan {plan.name!r} has {plan.slot_limit}; {way_out}"
        yield Misfit(at, too_many, SOLD)
    most = plan.dimensions
    limits = {"engine_devices": most.max_engine_devices, "geographies": most.max_geographies}
    for index, scan in enumerate(portfolio.scans):
        for what, limit in limits.items():
            if (wanted := len(getattr(scan, what))) > limit:
                more = f"asks for {wanted} where plan {plan.name!r} has {limit}; {way_out}"
                yield Misfit((*at, "scans", index, what), more, SOLD)


def _client_misfits(scenario: Scenario) -> Iterator[Misfit]:
    for name, client in scenario.clients.items():
        at = ("clients", name)
        for index, account in enumerate(client.accounts if isinstance(client, Arrivals) else ()):
            yield from _unknown((*at, "accounts", index), "account", account, scenario.accounts)
        if client.account is not None:
            yield from _unknown((*at, "account"), "account", client.account, scenario.accounts)
        for owner in client.owners:
            if owner in scenario.accounts and client.key is not None:
                of = f" of account {owner!r}" if len(client.owners) > 1 else ""
                yield from _unknown((*at, "key"), "key", client.key, _keys(scenario, owner), of)


def _receiver_misfits(scenario: Scenario) -> Iterator[Misfit]:
    for name, receiver in scenario.receivers.items():
        at = ("receivers", name)
        yield from _unknown((*at, "account"), "account", receiver.account, scenario.accounts)
        if receiver.domain is not None and receiver.account in scenario.accounts:
            hosts = scenario.accounts[receiver.account].hosts(receiver.account)
            yield from _unknown((*at, "domain"), "domain", receiver.domain, hosts)
        for index, outage in enumerate(receiver.outages):
            yield from _outside((*at, "outages", index, "from"), scenario, outage.begin)


def _action_misfits(scenario: Scenario, action: Action) -> Iterator[Misfit]:
    yield from _outside(("at",), scenario, action.at)
    if isinstance(action, ResizePool):
        yield from _unknown(("pool",), "pool", action.pool, scenario.pools)
        return
    receiver: str | None = getattr(action, "receiver", None)
    if receiver is not None:
        yield from _unknown(("receiver",), "receiver", receiver, scenario.receivers)
        return
    account: str = getattr(action, "account", "")
    yield from _unknown(("account",), "account", account, scenario.accounts)
    if account not in scenario.accounts:
        return
    names: dict[str, Any] = {
        "plan": scenario.policy.catalogue.plans,
        "add_on": scenario.policy.catalogue.add_ons,
        "domain": scenario.accounts[account].hosts(account),
        "key": _keys(scenario, account, action if isinstance(action, WithdrawKey) else None),
        "status": STATUSES,
    }
    for field, options in names.items():
        value = getattr(action, field, None)
        if value is not None:
            yield from _unknown((field,), field.replace("_", "-"), value, options)


def _expectation_misfits(scenario: Scenario) -> Iterator[Misfit]:
    """Metrics about an account or client that the scenario has not, which a long run would end with."""
    clients = ("client", (*scenario.clients, CLIENT))
    accounts = ("account", tuple(scenario.accounts))
    about = {"clients": clients} | dict.fromkeys(("slots", "spend", "invoice", "meters", "windows"), accounts)
    for index, expectation in enumerate(scenario.expect):
        family, _, rest = expectation.metric.partition(".")
        what, names = about.get(family, ("", ()))
        if names and not any(rest.startswith(f"{name}.") for name in names):
            yield from _unknown(("expect", index), what, rest.partition(".")[0], names)


def _keys(scenario: Scenario, account: str, before: Action | None = None) -> list[str]:
    """Names of the keys an account starts with or is issued, in the whole run or `before` an action."""
    actions = sorted(scenario.timeline, key=lambda action: action.at.on(scenario.start))
    earlier = takewhile(lambda action: action is not before, actions)
    issued = [a.key for a in earlier if isinstance(a, IssueKey) and a.account == account]
    return [*(key.name for key in scenario.accounts[account].keys), *issued]


def _unknown(
    path: tuple[Part, ...], what: str, name: str, names: Collection[str], of: str = ""
) -> Iterator[Misfit]:
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean {close[0]!r}?"
    else:
        hint = f"expected one of {', '.join(names)}" if names else f"there is no {what} here; add one"
    named = WITHIN.get(what, ((SECTIONS[what], name),) if what in SECTIONS else SOLD)
    yield Misfit(path, f"no {what} {name!r}{of}; {hint}", named)


def _outside(path: tuple[Part, ...], scenario: Scenario, moment: Moment) -> Iterator[Misfit]:
    when = moment.on(scenario.start)
    if not scenario.start <= when < scenario.end:
        run = f"goes from {iso(scenario.start)} for {format_duration(scenario.length)}"
        yield Misfit(path, f"{iso(when)} is outside the run, which {run}", TIME)
