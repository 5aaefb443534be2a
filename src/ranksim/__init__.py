"""A digital twin of a rank-tracking API service: one rulebook, and what simulates, serves and checks by it.

The public names load their modules on first use, so `import ranksim` is fast and needs the core alone.
"""

from __future__ import annotations

from importlib import import_module

from ranksim.errors import BadInput

TYPE_CHECKING = False  # as type checkers know it: to load `typing` takes longer than all else here

if TYPE_CHECKING:
    from ranksim import capacity
    from ranksim.conformance.calibrate.calibrate import Calibration, calibrate
    from ranksim.conformance.compare import Judgement, compare
    from ranksim.contract.plans import Plan
    from ranksim.contract.policy import Policy
    from ranksim.fleet.engine import simulate_fleet
    from ranksim.fleet.population import Population
    from ranksim.fleet.results import FleetResult
    from ranksim.service.calls import Call, Reply
    from ranksim.service.service import Service
    from ranksim.sim.results import Result
    from ranksim.sim.runner import run
    from ranksim.sim.scenario import Scenario
    from ranksim.sim.world import World
    from ranksim.study.study import Study
    from ranksim.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "Calibration",
    "Call",
    "FleetResult",
    "Judgement",
    "Plan",
    "Policy",
    "Population",
    "Reply",
    "Result",
    "Scenario",
    "Service",
    "Study",
    "Trace",
    "World",
    "__version__",
    "calibrate",
    "capacity",
    "compare",
    "run",
    "simulate_fleet",
]

MODULES = {
    "Calibration": "ranksim.conformance.calibrate.calibrate",
    "Call": "ranksim.service.calls",
    "FleetResult": "ranksim.fleet.results",
    "Judgement": "ranksim.conformance.compare",
    "Plan": "ranksim.contract.plans",
    "Policy": "ranksim.contract.policy",
    "Population": "ranksim.fleet.population",
    "Reply": "ranksim.service.calls",
    "Result": "ranksim.sim.results",
    "Scenario": "ranksim.sim.scenario",
    "Service": "ranksim.service.service",
    "Study": "ranksim.study.study",
    "Trace": "ranksim.trace",
    "World": "ranksim.sim.world",
    "calibrate": "ranksim.conformance.calibrate.calibrate",
    "compare": "ranksim.conformance.compare",
    "run": "ranksim.sim.runner",
    "simulate_fleet": "ranksim.fleet.engine",
}


PACKAGES = ("capacity",)
"""Public names that are packages of public names."""


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562); raises AttributeError for any other."""
    if name in PACKAGES:
        return import_module(f"ranksim.{name}")
    if name not in MODULES:
        raise AttributeError(f"module 'ranksim' has no attribute {name!r}")
    value = getattr(import_module(MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
