"""Answers to the ready questions of capacity planners.

The public names load their modules on first use.
"""

from __future__ import annotations

from ranksim.core.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.planner.capacity.outage import Outage, disabled_after, outage_cost
    from ranksim.planner.capacity.outage_scenario import scenario_outage
    from ranksim.planner.capacity.outage_world import simulate_outage
    from ranksim.planner.capacity.plan_fit import Fit, fit
    from ranksim.planner.capacity.planned import workload_of
    from ranksim.planner.capacity.portfolio import Largest, Portfolio, largest
    from ranksim.planner.capacity.slots import Churn, slot_use
    from ranksim.planner.capacity.slots_world import simulate_slot_use
    from ranksim.planner.capacity.sync import Sync, sync_time
    from ranksim.planner.capacity.workers import Peak, peaks_of, workers_needed
    from ranksim.planner.capacity.workers_world import workers_of_scenario

MODULES = {
    "Churn": "ranksim.planner.capacity.slots",
    "Fit": "ranksim.planner.capacity.plan_fit",
    "Largest": "ranksim.planner.capacity.portfolio",
    "Outage": "ranksim.planner.capacity.outage",
    "Peak": "ranksim.planner.capacity.workers",
    "Portfolio": "ranksim.planner.capacity.portfolio",
    "Sync": "ranksim.planner.capacity.sync",
    "disabled_after": "ranksim.planner.capacity.outage",
    "fit": "ranksim.planner.capacity.plan_fit",
    "largest": "ranksim.planner.capacity.portfolio",
    "outage_cost": "ranksim.planner.capacity.outage",
    "peaks_of": "ranksim.planner.capacity.workers",
    "scenario_outage": "ranksim.planner.capacity.outage_scenario",
    "simulate_outage": "ranksim.planner.capacity.outage_world",
    "simulate_slot_use": "ranksim.planner.capacity.slots_world",
    "slot_use": "ranksim.planner.capacity.slots",
    "sync_time": "ranksim.planner.capacity.sync",
    "workers_needed": "ranksim.planner.capacity.workers",
    "workers_of_scenario": "ranksim.planner.capacity.workers_world",
    "workload_of": "ranksim.planner.capacity.planned",
}

__all__ = [
    "Churn",
    "Fit",
    "Largest",
    "Outage",
    "Peak",
    "Portfolio",
    "Sync",
    "disabled_after",
    "fit",
    "largest",
    "outage_cost",
    "peaks_of",
    "scenario_outage",
    "simulate_outage",
    "simulate_slot_use",
    "slot_use",
    "sync_time",
    "workers_needed",
    "workers_of_scenario",
    "workload_of",
]


__getattr__ = lazily(__name__, MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
