"""What an account is taken to do where its scenario does not say: that of a mirror has no clients."""

from __future__ import annotations

from ranksim.core.callers.programs import Schedule
from ranksim.core.clock import HOUR, format_duration
from ranksim.twin.sim.scenario import Scenario

RUNS = "assumed-rank-runs"
"""The client that is added where no client of the scenario says when ranks are run."""

SPREAD = 12 * HOUR
"""Over how much of a day such runs are spread (µs)."""


def with_rank_runs(scenario: Scenario, account: str) -> tuple[Scenario, tuple[str, ...]]:
    """Return a scenario in which an account's ranks are run daily if it does not say, and notes of that."""
    clients = [one for one in scenario.clients.values() if one.account in (account, None)]
    plans = [one.planned((), {}) for one in clients]
    said = any(plan and plan.starts and plan.starts.operation == "rank_run" for plan in plans)
    if said or None in plans:  # what others do may be rank runs, too
        return scenario, ()
    runs = Schedule(account=account, job="rank_run", every="day", spread=SPREAD)
    notes = (
        "No client of the scenario runs ranks: every domain is taken to be run every 1d.",
        f"These runs are spread over {format_duration(SPREAD)}.",
    )
    return scenario.model_copy(update={"clients": scenario.clients | {RUNS: runs}}), notes
