"""The statuses that a deployment answers with, by code or case (U12-U24, U40, U84, U104)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ranksim.core.contract.assumptions import Statuses
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.verdict.options import Options


@dataclass(frozen=True, slots=True)
class Shown:
    """The status of one code or case: `seen` counts each status, `example` is the first exchange."""

    name: str
    number: str
    default: int
    seen: dict[int, int]
    example: str

    @property
    def status(self) -> int | None:
        """The status, where it was always the same."""
        return next(iter(self.seen)) if len(self.seen) == 1 else None


def statuses(history: History, options: Options) -> Iterator[Shown]:
    """Return the status of each code or case that the trace shows, in the order of the policy."""
    counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    examples: dict[str, str] = {}
    jobs: set[str] = set()
    for exchange in history.as_judged():
        name = _case(exchange, jobs)
        if name in Statuses.model_fields:
            counts[name][exchange.status] += 1
            examples.setdefault(name, exchange.id)
    for name, about in Statuses.model_fields.items():
        if name in counts:
            number = (about.description or "").partition(":")[0]
            yield Shown(name, number, options.default_status(name), dict(counts[name]), examples[name])


def _case(exchange: Observation, jobs: set[str]) -> str:
    """Name the code, or the case of a success, that an exchange shows; "" for none."""
    if exchange.lost or exchange.surface != "rest":
        return ""
    if exchange.code:
        return exchange.code
    if exchange.method == "OPTIONS":
        return "preflight"
    operation = OPERATIONS.get(exchange.operation)
    if operation is None or not exchange.ok or exchange.replayed:
        return ""
    if exchange.dry_run and operation.spends:
        return "dry_run"
    if exchange.operation == "jobs.create":
        return _job(exchange, jobs)
    if exchange.operation == "webhooks.test":
        return "test_accepted"
    if operation.method == "DELETE":
        return "deleted"
    return "created" if exchange.operation.endswith(".create") else ""


def _job(exchange: Observation, jobs: set[str]) -> str:
    """A job that an earlier reply named was joined; with an Idempotency-Key it may be a replay instead."""
    job = exchange.data.get("id") if isinstance(exchange.data, dict) else None
    if not isinstance(job, str):
        return ""
    if job not in jobs:
        jobs.add(job)
        return "job_accepted"
    return "" if exchange.idempotency_key is not None else "job_joined"
