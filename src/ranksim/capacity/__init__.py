"""Answers to the ready questions of capacity planners.

The public names load their modules on first use.
"""

from __future__ import annotations

from ranksim.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.capacity.outage import Outage, disabled_after, outage_cost
    from ranksim.capacity.outage_scenario import scenario_outage
    from ranksim.capacity.outage_world import simulate_outage
    from ranksim.capacity.plan_fit import Fit, fit
    from ranksim.capacity.planned import workload_of
    from ranksim.capacity.portfolio import Largest, Portfolio, largest
    from ranksim.capacity.slots import Churn, slot_use
    from ranksim.capacity.slots_world import simulate_slot_use
    from ranksim.capacity.sync import Sync, sync_time
    from ranksim.capacity.workers import Peak, peaks_of, workers_needed
    from ranksim.capacity.workers_world import workers_of_scenario

MODULES = {
    "Churn": "ranksim.capacity.slots",
    "Fit": "ranksim.capacity.plan_fit",
    "Largest": "ranksim.capacity.portfolio",
    "Outage": "ranksim.capacity.outage",
    "Peak": "ranksim.capacity.workers",
    "Portfolio": "ranksim.capacity.portfolio",
    "Sync": "ranksim.capacity.sync",
    "disabled_after": "ranksim.capacity.outage",
    "fit": "ranksim.capacity.plan_fit",
    "largest": "ranksim.capacity.portfolio",
    "outage_cost": "ranksim.capacity.outage",
    "peaks_of": "ranksim.capacity.workers",
    "scenario_outage": "ranksim.capacity.outage_scenario",
    "simulate_outage": "ranksim.capacity.outage_world",
    "simulate_slot_use": "ranksim.capacity.slots_world",
    "slot_use": "ranksim.capacity.slots",
    "sync_time": "ranksim.capacity.sync",
    "workers_needed": "ranksim.capacity.workers",
    "workers_of_scenario": "ranksim.capacity.workers_world",
    "workload_of": "ranksim.capacity.planned",
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
