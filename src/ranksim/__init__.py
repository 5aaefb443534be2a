"""A digital twin of a rank-tracking API service: one rulebook, and what simulates, serves and checks by it.

    import ranksim as rs

    result = rs.run("scenarios/quickstart.yaml", replications=5)
    print(result.summary())  # what `ranksim run` prints; in a notebook `result` shows itself
    result.metric("refusals.total")  # a mean with its 95 % interval; `result.metrics` are the names
    result.refusals  # a pandas frame; `result.tables` has all tables as plain rows
    result.plot("slots")  # a matplotlib Axes
    result.why("refusals.quota_exhausted")  # when it became inevitable, and what would have prevented it

    rs.capacity.fit(rs.capacity.Portfolio(domains=30, keywords=300, pairings=4))  # which plan, for how much
    rs.compare("run/trace.jsonl")  # a verdict on every rule, from a recorded trace

What there is:

    run, Scenario, Result, World    worlds of accounts, clients, jobs and webhook receivers, simulated
    Study                           many of them compared: sweeps, goals, sensitivity
    Policy, Plan                    facts, assumptions and plans; Policy().replace(assumptions={...})
    Population, simulate_fleet, FleetResult    populations of accounts in compiled code
    Service, Call, Reply            the rulebook alone: `now` in; reply, tasks and events out
    Trace, compare, Judgement, calibrate, Calibration    recorded traces, judged
    capacity, price                 packages: the ready questions of planners, and of pricing
    load, check                     packages: a deployment driven and recorded; checked
    BadInput                        what all of them raise for wrong input: one sentence, with the place

ranksim.testing (with the extra `server`) has worlds for tests. Time is an integer of microseconds since the
epoch, UTC, and money of micro-dollars; where one is asked for, text such as "12h" or "15 USD" will do. Public
names load their modules on first use, so `import ranksim` is fast and needs the core alone.
"""

from __future__ import annotations

from importlib import import_module

from ranksim.core import version
from ranksim.core.errors import BadInput

__version__ = version.VERSION

TYPE_CHECKING = False  # as type checkers know it: to load `typing` takes longer than all else here

if TYPE_CHECKING:
    from ranksim import capacity, check, load, price
    from ranksim.core.contract.plans import Plan
    from ranksim.core.contract.policy import Policy
    from ranksim.core.service.calls import Call, Reply
    from ranksim.core.service.service import Service
    from ranksim.core.trace import Trace
    from ranksim.judge.conformance.calibrate.calibrate import Calibration, calibrate
    from ranksim.judge.conformance.compare import Judgement, compare
    from ranksim.planner.fleet.engine import simulate_fleet
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.fleet.results import FleetResult
    from ranksim.planner.study.study import Study
    from ranksim.twin.sim.results import Result
    from ranksim.twin.sim.runner import run
    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.sim.world import World

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
    "check",
    "compare",
    "load",
    "price",
    "run",
    "simulate_fleet",
]

MODULES = {
    "Calibration": "ranksim.judge.conformance.calibrate.calibrate",
    "Call": "ranksim.core.service.calls",
    "FleetResult": "ranksim.planner.fleet.results",
    "Judgement": "ranksim.judge.conformance.compare",
    "Plan": "ranksim.core.contract.plans",
    "Policy": "ranksim.core.contract.policy",
    "Population": "ranksim.planner.fleet.population",
    "Reply": "ranksim.core.service.calls",
    "Result": "ranksim.twin.sim.results",
    "Scenario": "ranksim.twin.sim.scenario",
    "Service": "ranksim.core.service.service",
    "Study": "ranksim.planner.study.study",
    "Trace": "ranksim.core.trace",
    "World": "ranksim.twin.sim.world",
    "calibrate": "ranksim.judge.conformance.calibrate.calibrate",
    "compare": "ranksim.judge.conformance.compare",
    "run": "ranksim.twin.sim.runner",
    "simulate_fleet": "ranksim.planner.fleet.engine",
}


PACKAGES = ("capacity", "check", "load", "price")
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
