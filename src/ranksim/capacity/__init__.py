"""Answers to the ready questions of capacity planners.

The public names load their modules on first use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.capacity.outage import Outage, outage_cost
    from ranksim.capacity.plan_fit import Fit, fit
    from ranksim.capacity.planned import workload_of
    from ranksim.capacity.portfolio import Largest, Portfolio, largest
    from ranksim.capacity.slots import Churn, slot_use
    from ranksim.capacity.sync import Sync, sync_time
    from ranksim.capacity.workers import Peak, peaks_of, workers_needed

MODULES = {
    "Churn": "slots",
    "Fit": "plan_fit",
    "Largest": "portfolio",
    "Outage": "outage",
    "Peak": "workers",
    "Portfolio": "portfolio",
    "Sync": "sync",
    "fit": "plan_fit",
    "largest": "portfolio",
    "outage_cost": "outage",
    "peaks_of": "workers",
    "slot_use": "slots",
    "sync_time": "sync",
    "workers_needed": "workers",
    "workload_of": "planned",
}

__all__ = [
    "Churn",
    "Fit",
    "Largest",
    "Outage",
    "Peak",
    "Portfolio",
    "Sync",
    "fit",
    "largest",
    "outage_cost",
    "peaks_of",
    "slot_use",
    "sync_time",
    "workers_needed",
    "workload_of",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562); raises AttributeError for any other."""
    if name not in MODULES:
        raise AttributeError(f"module 'ranksim.capacity' has no attribute {name!r}")
    value = getattr(import_module(f"ranksim.capacity.{MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
