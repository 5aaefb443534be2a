"""What the timeline of a scenario changes for an account: what it has and tracks, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ranksim.core.clock import Micros
from ranksim.report import units
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import (
    AddDomains,
    AddKeywords,
    ChangePlan,
    OfAccount,
    PauseScan,
    RemoveDomains,
    RemoveKeywords,
    ResumeScan,
    SetAddOn,
    SetStatus,
)


class Bought(NamedTuple):
    """The plan and the add-ons that an account has."""

    plan: str
    add_ons: Mapping[str, int]

    def after(self, action: ChangePlan | SetAddOn) -> Bought:
        """What it has once a timeline changes one of them."""
        if isinstance(action, ChangePlan):
            return self._replace(plan=action.plan)
        return self._replace(add_ons={**self.add_ons, action.add_on: action.count})


def purchases(
    scenario: Scenario, account: str, *, plans: bool, add_ons: bool
) -> Mapping[Micros, list[ChangePlan | SetAddOn]]:
    """Return by instant (µs) how the timeline changes the plan of an account, and its add-ons, if wanted."""
    wanted: tuple[type[ChangePlan | SetAddOn], ...] = (*[ChangePlan] * plans, *[SetAddOn] * add_ons)
    bought: dict[Micros, list[ChangePlan | SetAddOn]] = defaultdict(list)
    for action in sorted(scenario.timeline, key=lambda action: action.at.on(scenario.start)):
        if isinstance(action, wanted) and action.account == account:
            bought[action.at.on(scenario.start)].append(action)
    return bought


def purchase_text(action: ChangePlan | SetAddOn) -> str:
    """Say what such a change is."""
    if isinstance(action, ChangePlan):
        return f"the plan becomes {action.plan}"
    return f"the account has {action.count:,} × {action.add_on}"


def changes_of(scenario: Scenario, account: str) -> Iterator[tuple[Micros, str]]:
    """Yield when (µs) the timeline changes what an account tracks, or its status, and in words what."""
    for action in scenario.timeline:
        if isinstance(action, OfAccount) and action.account == account:
            text = _change_text(action)
            yield from [(action.at.on(scenario.start), text)] if text else []


def _change_text(action: OfAccount) -> str:
    match action:
        case AddDomains() | RemoveDomains():
            domains = action.domains if isinstance(action.domains, int) else len(action.domains)
            return f"the account {_verb(isinstance(action, AddDomains))} {units.many(domains, 'domain')}"
        case AddKeywords() | RemoveKeywords():
            verb = _verb(isinstance(action, AddKeywords))
            return f"{action.domain or 'each domain'} {verb} {units.many(action.count, 'keyword')}"
        case PauseScan():
            return f"scans of {action.domain or 'all domains'} pause"
        case ResumeScan():
            return f"scans of {action.domain or 'all domains'} resume"
        case SetStatus():
            return f"the account becomes {action.status}"
    return ""


def _verb(more: bool) -> str:
    return "gets" if more else "loses"
