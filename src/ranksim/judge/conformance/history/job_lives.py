"""The jobs of a trace: when each was accepted and ended, as far as replies and polls show it.

A job that one poll saw unfinished and the next one finished ended between the two. Where replies tell
`finished_at` and the deployment's clock is known, the end lies in a narrower interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, job_name

Span = tuple[Micros, Micros]


@dataclass(slots=True)
class Life:
    """One job: accepted and ended within intervals of the trace's clock; `outcome` is "" until it ended."""

    kind: str
    accepted: Span
    alive: Micros = DISTANT_PAST
    ended: Micros = DISTANT_FUTURE
    finished: Span = (DISTANT_PAST, DISTANT_FUTURE)
    outcome: str = ""
    lasted: Span = (0, DISTANT_FUTURE)
    """How long it took by the deployment's own clock, which needs no offset to the trace's."""

    @property
    def end(self) -> Span:
        """When the job ended, as far as polls show."""
        return max(self.alive, self.finished[0], self.accepted[0]), min(self.ended, self.finished[1])


def lives(history: History) -> dict[str, Life]:
    """Return what is known of each job that was accepted in the trace, by its name."""
    by_name: dict[str, Life] = {}
    for exchange in history.as_judged():
        if exchange.lost or not exchange.ok:
            continue
        if exchange.operation == "jobs.create" and not exchange.dry_run and not exchange.replayed:
            _accept(exchange, by_name)
        elif exchange.operation == "jobs.get" and isinstance(exchange.data, dict):
            _poll(exchange, exchange.data, by_name, history)
        elif exchange.operation == "jobs.list" and isinstance(exchange.items, list):
            for item in exchange.items:
                if isinstance(item, dict):
                    _poll(exchange, item, by_name, history)
    return by_name


def _accept(exchange: Observation, lives: dict[str, Life]) -> None:
    job = exchange.data if isinstance(exchange.data, dict) else {}
    if isinstance(job.get("id"), str):
        life = lives.setdefault(job_name(job), Life(str(job.get("kind")), (exchange.sent, exchange.received)))
        life.accepted = (life.accepted[0], min(life.accepted[1], exchange.received))


def _poll(exchange: Observation, item: dict[str, Any], lives: dict[str, Life], history: History) -> None:
    life = lives.get(job_name(item))
    if life is None:
        return
    finished = instant_or_none(item.get("finished_at"))
    outcome = job_ending(item)
    if not outcome:
        life.alive = max(life.alive, exchange.sent)
    else:
        life.ended, life.outcome = min(life.ended, exchange.received), outcome
        created = instant_or_none(item.get("created_at"))
        if created is not None and finished is not None:
            early, late = (0 if t % SECOND else SECOND for t in (created, finished))
            life.lasted = finished - created - early, max(1, finished - created + late)
        if (
            finished is not None
            and history.run.offset.bounded
            and history.run.rate == 1
            and not history.run.paces
        ):
            slack = 0 if finished % SECOND else SECOND  # written in whole seconds, or by chance
            life.finished = (
                finished - history.run.offset.high - slack,
                finished - history.run.offset.low + slack,
            )


def job_ending(job: Mapping[str, Any]) -> str:
    """Return how a job ended, "done" or "failed", "" while it has not; only `done` is a stated name (U39)."""
    status = str(job.get("status")).lower()
    if status == "done":
        return "done"
    over = status in ("failed", "error") or job.get("error_detail") or job.get("finished_at")
    return "failed" if over else ""
