"""A digital twin of a rank-tracking API service: one rulebook, and what simulates, serves and checks by it.

    import ranksim as rs

    result = rs.run("scenarios/quickstart.yaml", replications=5)
    print(result.summary())  # what `ranksim run` prints; in a notebook `result` shows itself
    result.metric("refusals.total")  # a mean with its 95 % interval; `result.metrics` has all by name
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
    limits, Limits                  anybody's rate limit, judged from a log, a HAR file or a trace
    capacity, price                 packages: the ready questions of planners, and of pricing
    load, check                     packages: a deployment driven and recorded; checked
    BadInput                        what all of them raise for wrong input: one sentence, with the place

ranksim.testing (with the extra `server`) has worlds for tests. Time is an integer of microseconds since the
epoch, UTC, and money of micro-dollars; where one is asked for, text such as "12h" or "15 USD" will do. Public
names load their modules on first use, so `import ranksim` is fast and needs the core alone.
"""

from ranksim.core.lazy import attach_stub
from ranksim.core.version import VERSION

__version__ = VERSION

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
__all__ += ["__version__"]
