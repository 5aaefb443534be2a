"""What a served scenario still has before it, as another scenario states it that begins now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ranksim.core.callers.portfolio import AccountSpec, Actor, PortfolioSpec
from ranksim.core.callers.stated import LENGTH
from ranksim.core.clock import Micros, format_duration, iso
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import Action, AddDomains, IssueKey, RemoveDomains, WithdrawKey, removed_hosts

OF_THE_ENDPOINT = {"account", "domain", "event_types", "url", "secret", "id", "outages"}
"""What a receiver states of its endpoint, which others may have changed; and outages, which pass."""


def stated_receiver(spec: ReceiverSpec, start: Micros, now: Micros) -> dict[str, Any]:
    """Return how a receiver behaves from an instant on; what is drawn begins anew."""
    ways = spec.model_dump(mode="json", exclude=OF_THE_ENDPOINT, exclude_defaults=True)
    spans = [(max(now, each.begin.on(start)), each.begin.on(start) + each.length) for each in spec.outages]
    ahead = [{"from": iso(begin), "for": format_duration(end - begin)} for begin, end in spans if begin < end]
    return ways | ({"outages": ahead} if ahead else {})


def with_pending(
    stated: Mapping[str, Any],
    scenario: Scenario,
    now: Micros,
    pending: Iterable[tuple[Micros, Action]],
    actors: Mapping[str, Actor],
) -> dict[str, Any]:
    """Return a scenario, stated of a served world, with what another has `pending`, in order of time.

    What nobody can do any more, as clients have deleted what it is done to, is left out.
    """
    accounts = {
        name: _AccountAhead(scenario.accounts[name], actor, stated["accounts"][name])
        for name, actor in actors.items()
    }
    timeline = list(stated["timeline"])
    for at, action in pending:
        written = action.model_dump(mode="json", exclude_unset=True) | {"at": iso(at)}
        name, receiver = getattr(action, "account", None), getattr(action, "receiver", None)
        otherwise = {} if name is None else accounts[name].restated(action)
        if otherwise is not None and (receiver is None or receiver in stated["receivers"]):
            timeline.append(written | otherwise)
    return {**stated, "length": format_duration(max(LENGTH, scenario.end - now)), "timeline": timeline}


class _AccountAhead:
    """An account as it will be: hosts as the timeline counts them, those that are left, and its keys."""

    def __init__(self, spec: AccountSpec, actor: Actor, stated: Mapping[str, Any]) -> None:
        self.spec, self.name, self.made = spec, actor.name, len(actor.words)
        self.hosts, self.keys = list(actor.hosts), dict(actor.keys)
        self.left = {site["host"] for site in stated.get("sites", ())}
        self.names = {key["token"]: key["name"] for key in stated["keys"]}

    def restated(self, action: Action) -> dict[str, Any] | None:
        """Return what is written otherwise of an action on the account, now that it is stated as it is: hosts
        instead of numbers, another name of a key; None where nothing is left to do.
        """
        host = getattr(action, "domain", None)
        if host is not None and host not in self.left:
            return None
        match action:
            case AddDomains():
                spec = action.like(self.spec)
                added = spec.hosts(self.name, self.made)
                self.hosts, self.made, self.left = (
                    [*self.hosts, *added],
                    self.made + len(added),
                    self.left | {*added},
                )
                return spec.model_dump(mode="json", include={*PortfolioSpec.model_fields}) | {
                    "domains": added
                }
            case RemoveDomains():
                removed = removed_hosts(action, self.hosts)
                self.hosts = [host for host in self.hosts if host not in removed]
                deleted = [host for host in removed if host in self.left]
                if not deleted or not self.left - {*deleted}:
                    return None
                self.left -= {*deleted}
                return {"domains": deleted}
            case IssueKey():
                self.keys.pop(action.key, None)
            case WithdrawKey() if action.key in self.keys:
                name = self.names.get(self.keys.pop(action.key))
                return None if name is None else {"key": name}
        return {}
