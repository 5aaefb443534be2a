"""What an account is taken to do where its scenario does not say, and what is told of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from ranksim.core.callers.programs import Schedule
from ranksim.core.clock import DAY, HOUR, Micros, format_duration
from ranksim.core.contract.plans import JobLabel

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
    begun = _started(scenario, account)
    if "rank_run" in begun or None in begun:  # what others do may be rank runs, too
        return scenario, ()
    runs = Schedule(account=account, job="rank_run", every="day", spread=SPREAD)
    notes = no_rank_runs(DAY), f"These runs are spread over {format_duration(SPREAD)}."
    return scenario.model_copy(update={"clients": scenario.clients | {RUNS: runs}}), notes


def starts_jobs(scenario: Scenario, account: str) -> bool:
    """Return whether a client of an account starts jobs of any kind, or may do so."""
    return not _started(scenario, account).isdisjoint({None, *get_args(JobLabel)})


def _started(scenario: Scenario, account: str) -> set[str | None]:
    """Return what the clients of an account start by the calendar, with None where that cannot be told."""
    clients = [client for client in scenario.clients.values() if client.account in (account, None)]
    plans = [client.planned((), {}) for client in clients]
    unknown = {None} if None in plans else set()
    return unknown | {plan.starts.operation for plan in plans if plan is not None and plan.starts is not None}


def no_rank_runs(every: Micros) -> str:
    """Say that ranks are taken to be run in every such time (µs)."""
    return (
        "No client of the scenario runs ranks: every domain is taken to be run every "
        f"{format_duration(every)}."
    )
