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
    PauseScan,
    RemoveDomains,
    RemoveKeywords,
    ResumeScan,
    SetAddOn,
    SetStatus,
)

Change = (
    AddDomains
    | RemoveDomains
    | AddKeywords
    | RemoveKeywords
    | PauseScan
    | ResumeScan
    | ChangePlan
    | SetAddOn
    | SetStatus
)
"""A change of the timeline that changes what an account needs, or has."""


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


def changes_of(scenario: Scenario, account: str) -> Iterator[tuple[Micros, str]]:
    """Yield when (µs) the timeline changes what an account tracks, or its status, and in words what."""
    for action in scenario.timeline:
        is_bought = isinstance(action, ChangePlan | SetAddOn)
        if isinstance(action, Change) and action.account == account and not is_bought:
            yield action.at.on(scenario.start), change_text(action)


def change_text(action: Change) -> str:
    """Say what a change of an account is."""
    match action:
        case ChangePlan():
            return f"the plan becomes {action.plan}"
        case SetAddOn():
            return f"the account has {action.count:,} × {action.add_on}"
        case SetStatus():
            return f"the account becomes {action.status}"
        case AddDomains() | RemoveDomains():
            domains = action.domains if isinstance(action.domains, int) else len(action.domains)
            return f"the account {_verb(isinstance(action, AddDomains))} {units.many(domains, 'domain')}"
        case AddKeywords() | RemoveKeywords():
            verb = _verb(isinstance(action, AddKeywords))
            return f"{action.domain or 'each domain'} {verb} {units.many(action.count, 'keyword')}"
        case PauseScan() | ResumeScan():
            verb = "pause" if isinstance(action, PauseScan) else "resume"
            return f"scans of {action.domain or 'all domains'} {verb}"


def _verb(more: bool) -> str:
    return "gets" if more else "loses"
