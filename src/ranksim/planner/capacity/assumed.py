"""What an account is taken to do where its scenario does not say, and what is told of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ranksim.core.callers.programs import Python, Schedule
from ranksim.core.clock import DAY, HOUR, Micros, format_duration
from ranksim.planner.capacity.workload import MONTH, PlannedWork
from ranksim.report import units

if TYPE_CHECKING:
    from ranksim.planner.capacity.planned import OwnAccount
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
    notes = _no_rank_runs(DAY), f"These runs are spread over {format_duration(SPREAD)}."
    return scenario.model_copy(update={"clients": scenario.clients | {RUNS: runs}}), notes


def _no_rank_runs(every: Micros) -> str:
    return (
        "No client of the scenario runs ranks: every domain is taken to be run every "
        f"{format_duration(every)}."
    )


def notes_of(account: OwnAccount, work: Sequence[PlannedWork]) -> Iterator[str]:
    """Yield what the scenario does not say of an account's work, and what is taken in its place."""
    if not any(client.starts and client.starts.operation == "rank_run" for client in account.recurring):
        yield _no_rank_runs(next(planned.gap for planned in work if planned.operation == "rank_run"))
    for operation in dict.fromkeys(planned.operation for planned in work):
        what = SIZED.get(operation, "")
        if what and what not in account.done:
            size = getattr(account.given, what)
            yield f"A {operation} is taken to have {size} {what}: the scenario does not say."
    yield from _taken(account)
    yield from _bounds(account)


def _taken(account: OwnAccount) -> Iterator[str]:
    """Say which of its clients are taken to do otherwise than they do, or are not counted."""
    starting = [(client.name, client.client, client.starts) for client in account.recurring if client.starts]
    # Requests that are spread over time come whatever becomes of the ones before.
    hasty = [name for name, client, starts in starting if starts.gap is None and client.on_limit != "obey"]
    programs = [name for name, client in account.clients.items() if isinstance(client, Python)]
    drawn = [name for name, _, starts in starting if starts.drawn]
    everywhere = account.scenario.network is not None
    networked = [name for name, client, *_ in account.recurring if everywhere or client.network is not None]
    for names, note in (
        (hasty, "These clients are taken to call again when Retry-After has gone: {}."),
        (programs, "Not counted is what these clients spend: {}; `ranksim run` simulates it."),
        (drawn, "These clients are taken to spread their starts evenly: {}."),
        (networked, "Calls are taken to need no time, though these clients have a network: {}."),
    ):
        if names:
            yield note.format(", ".join(names))


def _bounds(account: OwnAccount) -> Iterator[str]:
    """Say of which clients another month is counted than the scenario's first."""
    start = account.scenario.start
    for recurring in account.recurring:
        name, client, occasions, *_ = recurring
        if client.starts:
            first = len(list(occasions.times(start + client.starts, start + MONTH)))
            yield (
                f"{name} begins {format_duration(client.starts)} into the scenario: a whole month of it is "
                f"counted, {-(-MONTH // occasions.period)} occasions, of which the first month has {first}."
            )
        if client.stops is not None:
            most = units.many(recurring.most(start) or 0, "occasion")
            yield (
                f"{name} stops {format_duration(client.stops)} into the scenario: a month has at most its "
                f"{most}."
            )
