"""What happens to a world from outside its clients: plan changes, outages, resized pools and the like."""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal, Protocol, assert_never

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ranksim.core.callers.fault_rules import StatedFault
from ranksim.core.callers.portfolio import (
    AccountSpec,
    Actor,
    Host,
    PortfolioSpec,
    make_portfolio,
    portfolio_of,
)
from ranksim.core.contract.parameters import parts_of
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.quantities import Frozen, Moment
from ranksim.core.service.calls import Body, Reply
from ranksim.report import units
from ranksim.twin.sim.receivers import SimulatedReceiver
from ranksim.twin.sim.workers import Capacity

CLIENT = "timeline"
"""The name under which calls of the timeline are counted."""

Positive = Annotated[int, Field(ge=1)]


class _Action(Frozen):
    do: str
    at: Moment


class _OfAccount(_Action):
    account: str


class _OfReceiver(_Action):
    receiver: str


class ChangePlan(_OfAccount):
    """Move an account to another plan."""

    do: Literal["change_plan"]
    plan: str


class SetAddOn(_OfAccount):
    """Buy, or give back, an add-on: from now on the account has `count` of it (S109)."""

    do: Literal["set_add_on"]
    add_on: str
    count: Annotated[int, Field(ge=0)]


class SetStatus(_OfAccount):
    """Change an account's subscription status, such as to past_due (S61, U57)."""

    do: Literal["set_status"]
    status: str


class IssueKey(_OfAccount):
    """Give an account a new key, or a new token under an old name; `domain` is a host (S70)."""

    do: Literal["issue_key"]
    key: str
    domain: str | None = None


class WithdrawKey(_OfAccount):
    """Withdraw a key of an account."""

    do: Literal["withdraw_key"]
    key: str


class PauseScan(_OfAccount):
    """Pause the scans an account started with, of one domain (by host) or of all (U62)."""

    do: Literal["pause_scan"]
    domain: str | None = None


class ResumeScan(_OfAccount):
    """Resume the scans an account started with, of one domain (by host) or of all."""

    do: Literal["resume_scan"]
    domain: str | None = None


class AddDomains(_OfAccount, PortfolioSpec):
    """Add domains, by number or by hosts, that track what those of the portfolio do unless it is said."""

    do: Literal["add_domains"]

    @model_serializer(mode="wrap")
    def _serialized(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stated: dict[str, Any] = handler(self)  # what is left out is read back as it was left out
        return {name: value for name, value in stated.items() if name in self.model_fields_set}

    def like(self, account: AccountSpec) -> PortfolioSpec:
        """Return what is added to an account, with what is not said as its portfolio says."""
        stated = self.model_fields_set & set(PortfolioSpec.model_fields)
        changes = {name: getattr(self, name) for name in stated}
        return (account.portfolio or PortfolioSpec()).model_copy(update={"domains": self.domains, **changes})


class RemoveDomains(_OfAccount):
    """Remove the domains with these hosts, or the `domains` newest, and all that belongs to them (S27)."""

    do: Literal["remove_domains"]
    domains: Positive | Annotated[tuple[str, ...], Field(min_length=1)]


class AddKeywords(_OfAccount):
    """Add `count` new keywords to the first list of one domain (by host) or of each."""

    do: Literal["add_keywords"]
    count: Positive
    domain: str | None = None


class RemoveKeywords(_OfAccount):
    """Remove the `count` oldest keywords of the first list of one domain (by host) or of each (S26)."""

    do: Literal["remove_keywords"]
    count: Positive
    domain: str | None = None


class EditEndpoint(_OfReceiver):
    """Change the event types of a receiver's endpoint, or enable or disable it (S18, S19, E29)."""

    do: Literal["edit_endpoint"]
    event_types: tuple[str, ...] | None = None
    enabled: bool | None = None


class EnableEndpoint(_OfReceiver):
    """Enable a receiver's endpoint again (U70)."""

    do: Literal["enable_endpoint"]


class ReceiverDown(_OfReceiver):
    """Take a receiver down until `receiver_up`, whatever outages are scheduled."""

    do: Literal["receiver_down"]


class ReceiverUp(_OfReceiver):
    """Bring a receiver back that `receiver_down` took down."""

    do: Literal["receiver_up"]


class ResizePool(_Action):
    """Change the number of workers of a pool."""

    do: Literal["resize_pool"]
    pool: JobLabel
    capacity: Capacity


class AddFault(_Action, StatedFault):
    """Put a fault, or a bundle of them, in force where the scenario is served."""

    do: Literal["fault"]


class ClearFaults(_Action):
    """End all faults where the scenario is served, those of others too."""

    do: Literal["clear_faults"]


class Set(_Action):
    """Give what a path of a study leads to a value, from now on: a quota, a price, a latency, a pool."""

    do: Literal["set"]
    path: str
    value: Any = None


OfAccount = (
    ChangePlan
    | SetAddOn
    | SetStatus
    | IssueKey
    | WithdrawKey
    | PauseScan
    | ResumeScan
    | AddDomains
    | RemoveDomains
    | AddKeywords
    | RemoveKeywords
)
OfReceiver = EditEndpoint | EnableEndpoint | ReceiverDown | ReceiverUp
OfFaults = AddFault | ClearFaults
Action = Annotated[OfAccount | OfReceiver | OfFaults | ResizePool | Set, Field(discriminator="do")]


class TimelineWorld(Host, Protocol):
    """What actions are done to: a world, with its accounts and receivers by name."""

    actors: dict[str, Actor]
    receivers: dict[str, SimulatedReceiver]
    endpoints: dict[str, str]

    def app_call(
        self, actor: Actor, operation: str, body: Body | None, /, *, client: str = "", **path: str
    ) -> Reply:
        """Make a call of the web app on behalf of an account; counted under `client`."""

    def set(self, action: Set) -> None:
        """Go on with a value set."""

    def change_faults(self, action: OfFaults) -> None:
        """Put faults in force, or end them, where anything stands between callers and the service."""

    def stated_account(self, account: str) -> AccountSpec:
        """Return what the scenario states of an account."""

    def owner_of(self, receiver: str) -> Actor:
        """Return the account whose endpoint a receiver is behind."""


def apply(world: TimelineWorld, action: Action) -> None:
    """Do one action of the timeline, now."""
    if isinstance(action, OfAccount):
        _apply_to_account(world, action)
    elif isinstance(action, OfReceiver):
        _apply_to_receiver(world, action)
    elif isinstance(action, OfFaults):
        world.change_faults(action)
    elif isinstance(action, Set):
        world.set(action)
    else:
        path = f"scenario.pools.{action.pool}.capacity"
        world.set(Set(do="set", at=action.at, path=path, value=action.capacity))


def _apply_to_account(world: TimelineWorld, action: OfAccount) -> None:
    service, now, actor = world.service, world.now, world.actors[action.account]
    match action:
        case ChangePlan():
            service.change_plan(account=actor.account, plan=action.plan, now=now)
        case SetAddOn():
            service.set_add_on(account=actor.account, add_on=action.add_on, count=action.count, now=now)
        case SetStatus():
            service.set_status(account=actor.account, status=action.status, now=now)
        case IssueKey():
            domain = actor.hosts[action.domain] if action.domain is not None else None
            actor.keys[action.key] = service.issue_key(
                account=actor.account, name=action.key, now=now, domain=domain
            )
        case WithdrawKey():
            service.withdraw_key(token=actor.keys[action.key], now=now)
        case PauseScan() | ResumeScan():
            for domain in _domains(actor, action.domain):
                _set_scans(world, actor, domain, active=isinstance(action, ResumeScan))
        case AddDomains():
            spec = action.like(world.stated_account(action.account))
            hosts = spec.hosts(actor.name, len(actor.words))
            make_portfolio(partial(_made, world, actor), portfolio_of(actor, spec, hosts))
        case RemoveDomains():
            for host in removed_hosts(action, actor.hosts):
                world.app_call(actor, "domains.delete", None, client=CLIENT, id=actor.forget(host))
        case AddKeywords():
            for domain in _domains(actor, action.domain):
                for list_id in actor.lists[domain][:1]:
                    words = actor.fresh_words(domain, action.count)
                    body: Body = {"list_id": list_id, "keywords": words}
                    world.app_call(actor, "keywords.create", body, client=CLIENT)
        case RemoveKeywords():
            for domain in _domains(actor, action.domain):
                for list_id in actor.lists[domain][:1]:
                    _remove_keywords(world, actor, list_id, action.count)
        case _:
            assert_never(action)


def _apply_to_receiver(world: TimelineWorld, action: OfReceiver) -> None:
    match action:
        case EditEndpoint():
            changes = action.model_dump(mode="json", include={"event_types", "enabled"}, exclude_none=True)
            _edit_endpoint(world, action.receiver, changes)
        case EnableEndpoint():
            _edit_endpoint(world, action.receiver, {"enabled": True})
        case ReceiverDown():
            world.receivers[action.receiver].take_down(world.now)
        case ReceiverUp():
            world.receivers[action.receiver].bring_up(world.now)
        case _:
            assert_never(action)


def behaviour_of(action: Action) -> str:
    """Return the receiver of which an action changes how it answers, or ""."""
    if isinstance(action, ReceiverDown | ReceiverUp):
        return action.receiver
    path = parts_of(action.path) if isinstance(action, Set) else ()
    return str(path[2]) if path[:2] == ("scenario", "receivers") else ""


def counted_actions(actions: Iterable[Action]) -> str:
    """Return how many of each kind there are, and the paths of what is set: "2 × resize_pool, 1 × set …"."""
    names = (f"set {action.path}" if isinstance(action, Set) else action.do for action in actions)
    return units.counted_names(names)


def removed_hosts(action: RemoveDomains, hosts: Iterable[str]) -> list[str]:
    """Return which of the hosts of an account, in the order of their making, an action removes."""
    if isinstance(action.domains, tuple):
        return list(action.domains)
    return list(hosts)[-action.domains :]


def _made(world: TimelineWorld, actor: Actor, operation: str, body: Body) -> Any:
    """Return the data of a reply of the web app, None where it refuses."""
    reply = world.app_call(actor, operation, body, client=CLIENT)
    return reply.body["data"] if reply.body is not None and reply.status < 400 else None


def _domains(actor: Actor, host: str | None) -> list[str]:
    return actor.domains if host is None else [actor.hosts[host]]


def _set_scans(world: TimelineWorld, actor: Actor, domain: str, *, active: bool) -> None:
    for scan in actor.scans[domain]:
        world.app_call(actor, "scans.update", {"active": active}, client=CLIENT, id=scan)


def _remove_keywords(world: TimelineWorld, actor: Actor, list_id: str, count: int) -> None:
    keyword_list = world.service.state.keyword_lists.get(list_id)
    if keyword_list is None:  # a client has deleted it
        return
    for keyword in list(keyword_list.words.values())[:count]:
        world.app_call(actor, "keywords.delete", None, client=CLIENT, id=keyword)


def _edit_endpoint(world: TimelineWorld, receiver: str, changes: Body) -> None:
    actor = world.owner_of(receiver)
    world.app_call(actor, "webhooks.update", changes, client=CLIENT, id=world.endpoints[receiver])
