"""What a load must keep, such as `p95 of domains.list < 300ms`: parsed, and held against what was measured.

Thresholds are on the calls of users, all or of one operation:

- p50, p90, p95, p99, longest: latency of what was answered, but for rate limits' refusals, which are quick;
- errors: the share without a reply, or answered in a way that no documentation promises;
- limited, refused: the shares that a rate limit, or another documented check, turned away;
- unpromised: the share of all calls that was refused though no rule refuses it, as the judge finds; of a rate
  window that admits too few, one;
- rate: calls a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import SECOND, Micros, duration
from ranksim.core.errors import near
from ranksim.core.records import parsed_object
from ranksim.core.service.operations import OPERATIONS
from ranksim.inference.quantiles import rank_of
from ranksim.report import units
from ranksim.report.heading import ExpectationVerdict

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "longest": 1.0}
SHARES = ("errors", "limited", "refused")
METRICS = (*QUANTILES, *SHARES, "rate")
UNPROMISED = "unpromised"
"""The metric that only a judgement tells, of all operations together."""

FORM = re.compile(r"\s*(\w+)(?:\s+of\s+([\w.]+))?\s*(<=?|>=?)\s*(.+?)\s*")

EXPECTED = "expected such as 'p95 < 500ms', 'errors < 1 %' or 'p99 of domains.list < 2s'"


@dataclass(slots=True)
class CallCounts:
    """Calls of users, and how they ended; `latencies` (µs) begin where a call was planned, if it was."""

    calls: int = 0
    errors: int = 0
    limited: int = 0
    refused: int = 0
    unpromised: int | None = None
    """Refusals that no rule promises; None where that was not judged."""
    latencies: list[Micros] = field(default_factory=list)
    first: Micros | None = None
    last: Micros = 0

    def add(self, entry: Mapping[str, Any]) -> None:
        """Count an exchange of a trace."""
        sent, received, status = entry["sent"], entry["received"], entry["status"]
        self.calls += 1
        self.first = sent if self.first is None else min(self.first, sent)
        self.last = max(self.last, received or sent)
        if status == 429:
            self.limited += 1
            return
        if status is not None and 400 <= status < 500 and parsed_object(entry["response"]) is not None:
            self.refused += 1
        elif status is None or status >= 300:
            self.errors += 1
        if received is not None:
            planned = entry.get("planned")
            self.latencies.append(received - (sent if planned is None else planned))

    def value(self, metric: str) -> float | None:
        """Return a metric: a latency (µs), a share of 1, calls a second; None where nothing tells it."""
        if metric in QUANTILES:
            ordered = sorted(self.latencies)
            return ordered[rank_of(QUANTILES[metric], len(ordered)) - 1] if ordered else None
        if metric == "rate":
            span = self.last - (self.first or 0)
            return self.calls * SECOND / span if self.calls and span > 0 else None
        count = getattr(self, metric)
        return count / self.calls if self.calls and count is not None else None


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound on a metric; of all operations where `operation` is ""."""

    text: str
    metric: str
    operation: str
    below: bool
    strict: bool
    bound: float

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """Read one. Raises ValueError."""
        match = FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{EXPECTED}, found {text!r}")
        metric, operation, sign, bound = match.groups()
        metrics = (*METRICS, UNPROMISED)
        if metric not in metrics:
            raise ValueError(f"expected one of {', '.join(metrics)}, found {metric!r}{near(metric, metrics)}")
        if metric == UNPROMISED and operation is not None:
            raise ValueError(f"{UNPROMISED} is of all operations together, found {text!r}")
        if operation is not None and operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is no operation of the API{near(operation, list(OPERATIONS))}")
        return cls(
            " ".join(text.split()), metric, operation or "", sign[0] == "<", len(sign) == 1,
            _bound(metric, bound),
        )  # fmt: skip

    def holds(self, value: float | None) -> bool:
        """Return whether it holds of a value; where nothing was measured, it does not."""
        if value is None:
            return False
        off = value - self.bound if self.below else self.bound - value
        return off < 0 or (off == 0 and not self.strict)

    def judge(self, counts: CallCounts) -> ExpectationVerdict:
        """Return whether it holds of the calls it is on, with what was measured."""
        value = counts.value(self.metric)
        written = value_text(self.metric, value)
        measured = (
            "nothing was measured" if value is None else f"{written} over {units.many(counts.calls, 'call')}"
        )
        return ExpectationVerdict(self.holds(value), f"{self.text}: {measured}", self.text, written)


def _bound(metric: str, text: str) -> float:
    """Return a bound in the unit of a metric. Raises ValueError."""
    try:
        if metric in QUANTILES:
            return duration(text)
        if metric == "rate":
            return float(text.removesuffix("/s"))
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise ValueError(f"{EXPECTED}, found {text!r} for {metric} ({error})") from None


def value_text(metric: str, value: float | None) -> str:
    """Write the value of a metric with its unit; a dash for none."""
    if value is None:
        return "–"
    if metric in QUANTILES:
        return units.duration(value)
    return f"{value:.3g} a second" if metric == "rate" else units.percent(value)


def verdict_lines(verdicts: Sequence[ExpectationVerdict]) -> list[str]:
    """Return a line for each threshold, and as the last one what came of all; none without any."""
    if not verdicts:
        return []
    failing = [verdict.metric for verdict in verdicts if not verdict.holds]
    lines = [f"{'holds' if verdict.holds else 'FAILS'}  {verdict.text}" for verdict in verdicts]
    if failing:
        return [
            *lines,
            f"{len(failing)} of {units.many(len(verdicts), 'threshold')} FAILED: {'; '.join(failing)}",
        ]
    return [*lines, "the threshold holds" if len(verdicts) == 1 else f"all {len(verdicts)} thresholds hold"]
