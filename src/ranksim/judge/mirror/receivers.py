"""How long receivers take and how often they fail, as the delivery attempts show that an account lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import MILLISECOND, Micros
from ranksim.judge.mirror.fitted import Fitted, fit_each
from ranksim.judge.mirror.reading import Item
from ranksim.report import units

CYCLE = 20
"""Answers after which a receiver that fails at times begins anew."""


@dataclass(frozen=True, slots=True)
class FittedReceiver:
    """How one receiver answers, and the failure that it shows most: a status, or "refused" for none."""

    answers: Fitted
    failure: int | str

    @property
    def spec(self) -> dict[str, Any]:
        """Its fields in a scenario; failures are spread over `CYCLE` answers."""
        failures = round(CYCLE * (self.answers.failed.mean or 0))
        script = [
            self.failure if (turn + 1) * failures // CYCLE > turn * failures // CYCLE else 200
            for turn in range(CYCLE)
        ]
        latency = {"latency": self.answers.distribution}
        return latency | ({"script": script, "script_by": "cycle"} if failures else {})

    def sentence(self, name: str) -> str:
        """Say to how many attempts this was fitted, and how sure it is."""
        took = units.write("duration", *self.answers.median)
        failed = units.write("share", *self.answers.failed)
        attempts = units.many(self.answers.count, "attempt")
        return f"{name}: fitted to {attempts}: the median is answered in {took}, {failed} fail"


def fit_receivers(attempts: Iterable[Item]) -> dict[str, FittedReceiver]:
    """Return by endpoint what its attempts show, where enough were answered (`duration_ms`, U75)."""
    lengths: dict[str, list[Micros]] = {}
    failures: dict[str, Counter[int | str]] = {}
    counts: Counter[str] = Counter()
    for attempt in attempts:
        endpoint, status = str(attempt.get("endpoint_id")), attempt.get("status_code")
        took = attempt.get("duration_ms")
        counts[endpoint] += 1
        if isinstance(status, int) and isinstance(took, int) and not isinstance(took, bool):
            lengths.setdefault(endpoint, []).append(took * MILLISECOND)
        if not (isinstance(status, int) and 200 <= status < 300):
            failures.setdefault(endpoint, Counter())[status if isinstance(status, int) else "refused"] += 1
    fits = fit_each(lengths, {name: each.total() for name, each in failures.items()}, counts)
    return {
        name: FittedReceiver(fit, failures[name].most_common(1)[0][0] if name in failures else 200)
        for name, fit in fits.items()
    }
