"""What an account is taken to do where its scenario does not say: that of a mirror has no clients."""

from __future__ import annotations

from ranksim.core.callers.programs import BriefRefresher, KeywordSync, Poller, Schedule
from ranksim.core.clock import HOUR, format_duration
from ranksim.twin.sim.scenario import Scenario

RUNS = "assumed-rank-runs"
"""The client that is added where no client of the scenario says when ranks are run."""

SPREAD = 12 * HOUR
"""Over how much of a day such runs are spread (µs)."""

PLANNED = (Schedule, KeywordSync, BriefRefresher, Poller)
"""The clients whose work can be told from the scenario; what others do may be rank runs, too."""


def with_rank_runs(scenario: Scenario, account: str) -> tuple[Scenario, tuple[str, ...]]:
    """Return a scenario in which an account's ranks are run daily if it does not say, and notes of that."""
    clients = [one for one in scenario.clients.values() if one.account in (account, None)]
    said = any(isinstance(one, Schedule) and one.job == "rank_run" for one in clients)
    if said or not all(isinstance(one, PLANNED) for one in clients):
        return scenario, ()
    runs = Schedule(account=account, job="rank_run", every="day", spread=SPREAD)
    notes = (
        "No client of the scenario runs ranks: every domain is taken to be run every 1d.",
        f"These runs are spread over {format_duration(SPREAD)}.",
    )
    return scenario.model_copy(update={"clients": scenario.clients | {RUNS: runs}}), notes
