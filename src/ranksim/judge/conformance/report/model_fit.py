"""Measured beside predicted: what a recorded run showed, against a simulated world that got the same calls.

`ranksim run S --arrivals TRACE --out DIR` replays the recorded calls in a world; its result is the
prediction. Only what is random is compared by statistics: a difference of quantiles with a bootstrap
interval, or of shares with an exact one that takes calls to be independent, against a stated margin. An
interval within the margin is within, one wholly outside it left, and anything else is open. Sources: B. Efron
and R. J. Tibshirani, "An Introduction to the Bootstrap", chapter 13; `inference.shares`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import Micros, instant
from ranksim.core.errors import BadInput
from ranksim.inference.estimate import LEVEL
from ranksim.inference.shares import clopper_pearson
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.report.document import is_a

Floats = NDArray[np.float64]
Estimated = tuple[float | None, float | None, float | None]
"""A value and the ends of its interval; None where there is none."""

UNKNOWN: Estimated = (None, None, None)

QUANTILES = (0.5, 0.95, 0.99)
RESAMPLES = 400

SHARE_MARGIN = 0.02
"""How far shares of calls may differ and still be within: two in a hundred."""

RELATIVE_MARGIN = 0.2
"""How far a quantile of durations may differ and still be within: a fifth of the predicted one."""

LEAST_MARGIN: Micros = 100_000
"""Durations that differ by less than this are within in any case, µs."""

TOO_FEW = "open: too few"


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity, measured and predicted, each with an interval (None where there is none).

    `quantity` is share or duration (µs); `margin` is in the same unit. `says` is within, left or open, or
    why there is nothing to compare.
    """

    name: str
    quantity: str
    measured: float | None
    measured_low: float | None
    measured_high: float | None
    predicted: float | None
    predicted_low: float | None
    predicted_high: float | None
    margin: float | None
    says: str


def read_result(path: Path) -> Mapping[str, Any]:
    """Read result.json of `ranksim run --out DIR`, given that file or the directory. Raises BadInput."""
    file = path / "result.json" if path.is_dir() else path
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(
            f"{file}: cannot be read ({error.strerror}); give a DIR that ranksim run --out wrote"
        ) from None
    except ValueError:
        raise BadInput(f"{file}: is no JSON; expected the result.json that ranksim run --out wrote") from None
    if not is_a("run", result) or "tables" not in result:
        raise BadInput(f"{file}: is no result of ranksim run; expected kind run, version 1, with its tables")
    summary: Mapping[str, Any] = result
    return summary


def against(history: History, result: Mapping[str, Any]) -> list[Compared]:
    """Compare a recorded run with a simulated one: refusals by code, waits, delays and latencies."""
    tables = result["tables"]
    return [
        *_refusals(history, tables),
        *_waits(history, tables),
        *_delays(history, tables),
        *_latencies(history),
    ]


# Refusals: shares of all calls


def _refusals(history: History, tables: Mapping[str, Any]) -> list[Compared]:
    answered = [exchange for exchange in history.seen if not exchange.lost]
    measured = Counter(exchange.code for exchange in answered if exchange.code)
    calls = sum(row["count"] for row in tables["calls"])
    predicted: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for row in tables["refusals"]:
        for place, name in enumerate(("count", "low", "high")):
            predicted[row["code"]][place] += row["count"] if row[name] is None else row[name]
    rows = []
    for code in sorted(measured.keys() | predicted.keys()):
        if answered and calls:
            low, high = clopper_pearson(measured[code], len(answered), LEVEL)
            count, least, most = predicted[code]
            model, share = (count / calls, least / calls, most / calls), measured[code] / len(answered)
            rows.append(margin_row(f"calls refused {code}", "share", (share, low, high), model, SHARE_MARGIN))
    return rows


# Durations: quantiles, each observation an interval


def _waits(history: History, tables: Mapping[str, Any]) -> list[Compared]:
    """Waits for a worker, from acceptance until a poll no longer finds the job queued."""
    spans, rows = job_waits(history), []
    for row in tables["jobs"]:
        for q in QUANTILES:
            name = f"wait_p{round(100 * q)}"
            model = row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")
            rows.append(duration_row(f"{row['kind']} wait", spans.get(row["kind"], []), q, model))
    return rows


def job_waits(history: History) -> dict[str, list[tuple[Micros, Micros]]]:
    """How long jobs stood queued, by kind: the least and the most that acceptance and polls allow, µs."""
    accepted: dict[str, Observation] = {}
    queued: dict[str, Micros] = {}
    begun: dict[str, tuple[Micros, str]] = {}
    for exchange in history.by_operation("jobs.create", "jobs.get"):
        job = (
            exchange.data if exchange.ok and isinstance(exchange.data, dict) and not exchange.dry_run else {}
        )
        name, status = job_name(job), job.get("status")
        if not job.get("id") or exchange.replayed:
            continue
        if exchange.operation == "jobs.create" and exchange.status != 200:
            accepted.setdefault(name, exchange)
        if status == "queued":
            queued[name] = max(queued.get(name, 0), exchange.sent)
        elif name not in begun or exchange.received < begun[name][0]:
            begun[name] = (exchange.received, str(job.get("kind", "")))
    waits: dict[str, list[tuple[Micros, Micros]]] = defaultdict(list)
    for name, (until, kind) in begun.items():
        if name in accepted:
            least = max(0, queued.get(name, 0) - accepted[name].received)
            waits[kind].append((least * history.run.rate, (until - accepted[name].sent) * history.run.rate))
    return waits


def _delays(history: History, tables: Mapping[str, Any]) -> list[Compared]:
    """Delays of webhooks, from the event to the attempt that was acknowledged, all endpoints together."""
    spans = delivery_delays(history)
    rows = []
    for q in QUANTILES:
        stated = [row for row in tables["delays"] if row["quantile"] == q and row["delay"] is not None]
        # A world with no receiver, or with several, whose delays are told apart, predicts none.
        model = (stated[0]["delay"], stated[0]["low"], stated[0]["high"]) if len(stated) == 1 else UNKNOWN
        if spans or model is not UNKNOWN:
            rows.append(duration_row("webhook delay", spans, q, model))
    return rows


def delivery_delays(history: History) -> list[tuple[Micros, Micros]]:
    """How long acknowledged events took to arrive, µs; needs the offset of the deployment's clock."""
    if not history.run.offset.bounded or history.run.rate != 1:
        return []
    spans = []
    for came in history.arrived:
        made = came.body.get("created_at") if isinstance(came.body, dict) else None
        if came.status is None or not 200 <= came.status <= 299 or not isinstance(made, str):
            continue
        try:
            since = instant(made)
        except ValueError:
            continue
        low, high = (
            came.received + edge - since for edge in (history.run.offset.low, history.run.offset.high)
        )
        spans.append((max(0, low), max(0, high)))
    return spans


def _latencies(history: History) -> list[Compared]:
    """Latencies as measured; a simulated world answers at once, so there is nothing to hold them against."""
    answered = [exchange for exchange in history.seen if not exchange.lost]
    sent = [call.received - call.sent for call in answered]
    planned = [call.received - call.planned for call in answered if call.planned is not None]
    return [
        Compared(_title(name, q), "duration", *_estimated(lengths, q), *UNKNOWN, None, AT_ONCE)
        for name, lengths in (("latency from sending", sent), ("latency from planned sending", planned))
        for q in (QUANTILES if lengths else ())
    ]


AT_ONCE = "the model answers at once"


def duration_row(name: str, spans: Sequence[tuple[Micros, Micros]], q: float, model: Estimated) -> Compared:
    """Compare one quantile; observations are intervals, so it lies between those of their two ends."""
    title = _title(name, q)
    if not spans:
        return Compared(title, "duration", *UNKNOWN, *model, None, "not measured")
    least, most = (np.asarray([span[side] for span in spans], dtype=np.float64) for side in (0, 1))
    middle = (_quantile(least, q) + _quantile(most, q)) / 2
    measured = middle, _bootstrap(least, q)[0], _bootstrap(most, q)[1]
    if model[0] is None:
        return Compared(title, "duration", *measured, *UNKNOWN, None, "not predicted")
    return margin_row(title, "duration", measured, model, duration_margin(model[0]))


def duration_margin(predicted: float, least: Micros = LEAST_MARGIN) -> float:
    """Return how far a duration may differ from the predicted one and still be within, µs."""
    return max(float(least), RELATIVE_MARGIN * predicted)


def _title(name: str, q: float) -> str:
    return f"{name}, {round(100 * q)} %"


def _estimated(lengths: Sequence[Micros], q: float) -> Estimated:
    """Return a quantile of lengths with its interval, or nothing for none."""
    values = np.asarray(lengths, dtype=np.float64)
    return (_quantile(values, q), *_bootstrap(values, q)) if lengths else UNKNOWN


def _quantile(values: Floats, q: float) -> float:
    return float(np.quantile(values, q, method="inverted_cdf"))


def _bootstrap(values: Floats, q: float) -> tuple[float, float]:
    """Return the percentile interval of a quantile, from resamples that are the same for the same values."""
    generator = np.random.default_rng(len(values))
    drawn = [_quantile(values[generator.integers(0, len(values), len(values))], q) for _ in range(RESAMPLES)]
    edge = (1 - LEVEL) / 2
    return float(np.quantile(drawn, edge)), float(np.quantile(drawn, 1 - edge))


def margin_row(
    name: str, quantity: str, measured: Estimated, predicted: Estimated, margin: float
) -> Compared:
    """Return whether what was measured lies within a margin of what was predicted, where both are known."""
    (value, low, high), model = measured, predicted[0] or 0.0
    if low is None or high is None:
        return Compared(name, quantity, value, None, None, *predicted, None, TOO_FEW)
    model_low, model_high = (model if end is None else end for end in predicted[1:])
    least, most = low - model_high, high - model_low
    if -margin <= least and most <= margin:
        says = "within"
    elif least > margin or most < -margin:
        says = "left"
    else:
        says = "open"
    return Compared(name, quantity, *measured, model, *predicted[1:], margin, says)
