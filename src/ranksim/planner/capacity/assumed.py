"""What an account is taken to do where its scenario does not say, and what is told of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ranksim.core.callers.programs import Schedule
from ranksim.core.clock import DAY, HOUR, Micros, format_duration

if TYPE_CHECKING:
    from ranksim.twin.sim.scenario import Scenario

SIZED: Mapping[str, str] = {"crawl": "pages", "site_optimization": "pages", "ai_scan": "questions"}
"""What a portfolio calls the size of a job that a scenario leaves open."""


RUNS = "assumed-rank-runs"
"""The client that is added where no client of the scenario says when ranks are run."""

SPREAD = 12 * HOUR
"""Over how much of a day such runs are spread (µs)."""


def with_rank_runs(scenario: Scenario, account: str) -> tuple[Scenario, tuple[str, ...]]:
    """Return a scenario in which an account's ranks are run daily if it does not say, and notes of that."""
    clients = [client for client in scenario.clients.values() if client.account in (account, None)]
    plans = [client.planned((), {}) for client in clients]
    runs_ranks = any(plan and plan.starts and plan.starts.operation == "rank_run" for plan in plans)
    if runs_ranks or None in plans:  # what others do may be rank runs, too
        return scenario, ()
    runs = Schedule(account=account, job="rank_run", every="day", spread=SPREAD)
    notes = no_rank_runs(DAY), f"These runs are spread over {format_duration(SPREAD)}."
    return scenario.model_copy(update={"clients": scenario.clients | {RUNS: runs}}), notes


def no_rank_runs(every: Micros) -> str:
    """Say that ranks are taken to be run in every such time (µs)."""
    return (
        "No client of the scenario runs ranks: every domain is taken to be run every "
        f"{format_duration(every)}."
    )
