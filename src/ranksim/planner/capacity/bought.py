"""What the timeline of a scenario changes for an account: its plan and add-ons, and its months, in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ranksim.core.clock import Micros
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import ChangePlan, OfAccount, SetAddOn, SetStatus


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
    return f"it has {action.count:,} × {action.add_on}"


def month_text(scenario: Scenario, account: str, begin: Micros, end: Micros) -> str:
    """Say what the timeline does to what an account tracks in a month, or has done in those before it."""

    def done(since: Micros, until: Micros) -> str:
        actions = Counter(
            action.do
            for action in scenario.timeline
            if isinstance(action, OfAccount)
            and not isinstance(action, ChangePlan | SetAddOn | SetStatus)
            and action.account == account
            and since <= action.at.on(scenario.start) < until
        )
        return ", ".join(f"{count:,} × {do}" for do, count in actions.items())

    if now := done(begin, end):
        return f"the month has {now}"
    before = done(scenario.start, begin)
    return f"a month begins after {before}" if before else "another month begins"
