"""What the models of a scenario cannot see: whether its parts fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from ranksim.core.callers.portfolio import PortfolioSpec, SiteSpec
from ranksim.core.callers.programs import Arrivals, Python, Schedule
from ranksim.core.clock import Micros, format_duration, iso
from ranksim.core.contract.located import Part
from ranksim.core.contract.parameters import check_path, check_unit
from ranksim.core.contract.partly import LeftOut, Misfit
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.quantities import Moment
from ranksim.core.service.administration import STATUSES
from ranksim.core.service.window_table import key_window_names
from ranksim.twin.sim import settings
from ranksim.twin.sim.scenario_fields import ScenarioFields
from ranksim.twin.sim.timeline import (
    CLIENT,
    Action,
    AddDomains,
    IssueKey,
    OfFaults,
    RemoveDomains,
    ResizePool,
    Set,
    WithdrawKey,
    removed_hosts,
)

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


def misfits_of(scenario: ScenarioFields) -> Iterator[Misfit]:
    """Yield what does not fit together, and where it stands."""
    yield from _account_misfits(scenario)
    yield from _client_misfits(scenario)
    yield from _receiver_misfits(scenario)
    for index, action in enumerate(scenario.timeline):
        for misfit in _action_misfits(scenario, action):
            yield misfit._replace(path=("timeline", index, *misfit.path))
    yield from _setting_misfits(scenario)
    yield from _expectation_misfits(scenario)
    if isinstance(scenario.warm_up, int) and not 0 <= scenario.warm_up < scenario.length:
        longest = format_duration(scenario.length)
        yield Misfit(("warm_up",), f"expected less than the length of {longest}", TIME)


def left_out_misfits(scenario: ScenarioFields, left_out: LeftOut) -> Iterator[Misfit]:
    """Unknown names in parts that could not be read as a whole, such as a client of no known kind."""
    for path in sorted(left_out.paths, key=str):
        part = left_out.data
        for step in path:
            part = part.get(step) if isinstance(part, dict) else part[step]
        for what, section in SECTIONS.items():
            name = part.get(what) if isinstance(part, dict) else None
            if isinstance(name, str):
                yield from _unknown((*path, what), what, name, getattr(scenario, section))


def _account_misfits(scenario: ScenarioFields) -> Iterator[Misfit]:
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
            for number, calls in enumerate(key.calls):
                windows = key_window_names(scenario.policy)
                yield from _unknown((*at, "keys", index, "calls", number, "of"), "window", calls.of, windows)
                yield from _later((*at, "keys", index, "calls", number, "at"), scenario, calls.at)
        if account.plan not in catalogue.plans:
            continue
        plan = catalogue.plans[account.plan]
        if account.portfolio is not None:
            yield from _portfolio_misfits((*at, "portfolio"), account.portfolio, plan)
        for part in ("further", "sites"):
            for number, tracked in enumerate(getattr(account, part)):
                yield from _portfolio_misfits((*at, part, number), tracked, plan)
        for metric in account.used.metrics if account.used is not None else ():
            yield from _unknown((*at, "used", "metrics", metric), "metric", metric, plan.quotas)
        for number, cooling in enumerate(account.used.cooldowns if account.used is not None else ()):
            place = (*at, "used", "cooldowns", number)
            yield from _unknown((*place, "domain"), "domain", cooling.domain, account.hosts(name))
            yield from _later((*place, "since"), scenario, cooling.since)


def _portfolio_misfits(
    at: tuple[Part, ...], portfolio: PortfolioSpec | SiteSpec, plan: Plan
) -> Iterator[Misfit]:
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


def _client_misfits(scenario: ScenarioFields) -> Iterator[Misfit]:
    for name, client in scenario.clients.items():
        at = ("clients", name)
        for index, account in enumerate(client.accounts if isinstance(client, Arrivals) else ()):
            yield from _unknown((*at, "accounts", index), "account", account, scenario.accounts)
        if not isinstance(client, Python) and client.starts.absolute:
            yield from _outside((*at, "starts"), scenario, client.starts)
        if isinstance(client, Schedule) and client.account in scenario.accounts:
            for host in client.domains if isinstance(client.domains, tuple) else ():
                yield from _unknown((*at, "domains"), "domain", host, hosts_before(scenario, client.account))
        if client.account is not None:
            yield from _unknown((*at, "account"), "account", client.account, scenario.accounts)
        for owner in client.owners:
            if owner in scenario.accounts and client.key is not None:
                of = f" of account {owner!r}" if len(client.owners) > 1 else ""
                yield from _unknown((*at, "key"), "key", client.key, _keys(scenario, owner), of)


def _receiver_misfits(scenario: ScenarioFields) -> Iterator[Misfit]:
    for name, receiver in scenario.receivers.items():
        at = ("receivers", name)
        yield from _unknown((*at, "account"), "account", receiver.account, scenario.accounts)
        if receiver.domain is not None and receiver.account in scenario.accounts:
            hosts = scenario.accounts[receiver.account].hosts(receiver.account)
            yield from _unknown((*at, "domain"), "domain", receiver.domain, hosts)
        for index, outage in enumerate(receiver.outages):
            yield from _outside((*at, "outages", index, "from"), scenario, outage.begin)


def _action_misfits(scenario: ScenarioFields, action: Action) -> Iterator[Misfit]:
    yield from _outside(("at",), scenario, action.at)
    if isinstance(action, Set | OfFaults):
        return
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
        "domain": hosts_before(scenario, account, action),
        "key": _keys(scenario, account, action if isinstance(action, WithdrawKey) else None),
        "status": STATUSES,
    }
    for field, options in names.items():
        value = getattr(action, field, None)
        if value is not None:
            yield from _unknown((field,), field.replace("_", "-"), value, options)
    if isinstance(action, RemoveDomains):
        hosts = hosts_before(scenario, account, action)
        for host in action.domains if isinstance(action.domains, tuple) else ():
            yield from _unknown(("domains",), "domain", host, hosts)
        if not {*hosts} - {*removed_hosts(action, hosts)}:
            yield Misfit(("domains",), f"account {account!r} has {len(hosts)} then; leave one at least")


def _setting_misfits(scenario: ScenarioFields) -> Iterator[Misfit]:
    for index, action in settings.in_order(scenario):
        try:
            check_path(action.path, scenario.roots)
            settings.check_settable(action.path)
        except ValueError as error:
            yield Misfit(("timeline", index, "path"), str(error), SOLD)
            continue
        try:
            check_unit(action.path, action.value, scenario.roots)
            scenario = settings.after(scenario, action)
        except ValueError as error:
            yield Misfit(("timeline", index, "value"), str(error).removeprefix("replace: "), SOLD)


def _expectation_misfits(scenario: ScenarioFields) -> Iterator[Misfit]:
    """Metrics about an account or client that the scenario has not, which a long run would end with."""
    clients = ("client", (*scenario.clients, CLIENT))
    accounts = ("account", tuple(scenario.accounts))
    about = {"clients": clients} | dict.fromkeys(("slots", "spend", "invoice", "meters", "windows"), accounts)
    for index, expectation in enumerate(scenario.expect):
        family, _, rest = expectation.metric.partition(".")
        what, names = about.get(family, ("", ()))
        if names and not any(rest.startswith(f"{name}.") for name in names):
            yield from _unknown(("expect", index), what, rest.partition(".")[0], names)


def hosts_before(scenario: ScenarioFields, account: str, before: Action | None = None) -> list[str]:
    """Return the hosts of an account's domains as they stand before an action, or all that it ever has."""
    earlier = takewhile(lambda action: action is not before, in_time(scenario))
    hosts, ever = _hosts(scenario, account, earlier)
    return ever if before is None else hosts


def hosts_at_last(scenario: ScenarioFields, account: str) -> list[str]:
    """Return the hosts of an account's domains as they stand when its timeline is done."""
    return _hosts(scenario, account, in_time(scenario))[0]


def _hosts(scenario: ScenarioFields, account: str, actions: Iterable[Action]) -> tuple[list[str], list[str]]:
    """Return the hosts that there are after some actions, and all that there ever were."""
    spec = scenario.accounts[account]
    hosts = ever = list(spec.hosts(account))
    for action in actions:
        if isinstance(action, AddDomains) and action.account == account:
            added = action.like(spec).hosts(account, len(ever))
            hosts, ever = [*hosts, *added], [*ever, *added]
        elif isinstance(action, RemoveDomains) and action.account == account:
            removed = removed_hosts(action, hosts)
            hosts = [host for host in hosts if host not in removed]
    return hosts, ever


def in_time(scenario: ScenarioFields) -> list[Action]:
    """Return what a timeline does, in order of time."""
    return sorted(scenario.timeline, key=lambda action: action.at.on(scenario.start))


def _keys(scenario: ScenarioFields, account: str, before: Action | None = None) -> list[str]:
    """Names of the keys an account starts with or is issued, in the whole run or `before` an action."""
    earlier = takewhile(lambda action: action is not before, in_time(scenario))
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


def _later(path: tuple[Part, ...], scenario: ScenarioFields, when: Micros | None) -> Iterator[Misfit]:
    if when is not None and when > scenario.start:
        yield Misfit(path, f"begins after the world, which starts {iso(scenario.start)}", TIME)


def _outside(path: tuple[Part, ...], scenario: ScenarioFields, moment: Moment) -> Iterator[Misfit]:
    when = moment.on(scenario.start)
    if not scenario.start <= when < scenario.end:
        run = f"goes from {iso(scenario.start)} for {format_duration(scenario.length)}"
        way_out = "leave it out, or choose a moment from the start on"
        if when >= scenario.end:
            longer = f"a length of more than {format_duration(when - scenario.start)}"
            way_out = f"leave it out, choose an earlier moment, or {longer}"
        yield Misfit(path, f"{iso(when)} is outside the run, which {run}; {way_out}", TIME)
