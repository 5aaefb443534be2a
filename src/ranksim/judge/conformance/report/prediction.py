"""What a run showed beside what a model of the deployment predicts: latency, waits, lengths, refusals.

The model answers without a queue: a call under load is predicted by calls of its like with no other in
flight. It was fitted to a reference: the very run, of which it cannot tell whether all is slow alike, or an
earlier one. Refusals, waits and delays are those of the same programs played to a twin, several times.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from statistics import fmean

from ranksim.core.clock import DISTANT_FUTURE, MILLISECOND, Micros
from ranksim.inference.batch_means import mean_difference
from ranksim.inference.estimate import Estimate
from ranksim.inference.means import one_more
from ranksim.judge.conformance.calls.responses import NAMED
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.job_lives import lives
from ranksim.judge.conformance.report.builds import FEWEST, Changed, Series, latency_changes, logs
from ranksim.judge.conformance.report.model_fit import (
    LEAST_MARGIN,
    TOO_FEW,
    UNKNOWN,
    Compared,
    delivery_delays,
    duration_margin,
    duration_row,
    job_waits,
    margin_row,
)

FEWEST_JOBS = 5

LEAST_LATENCY: Micros = MILLISECOND
"""Latencies that differ by less than this are within the prediction in any case, µs."""

SHARE_MARGIN = 0.01
"""How far beyond the predicted interval a share of calls may lie, and still be within: one in a hundred."""

NOT_SHOWN: Mapping[str, str] = {
    "cost_cap_reached": "what jobs cost is not shown",
    "quota_exhausted": "what an allowance is for is not shown, but for briefs",
}
"""Refusals that hang on what no deployment shows, and the twin has from the illustrative catalogue."""

FITTED_HERE = "could not know: fitted to this very run; --model-of an earlier one tells"

UNAUTHORIZED = 401

BESIDE_TASKS = "0."
"""What the ids of calls begin with in the trace of a check that no task made."""

EITHER: Mapping[int, str] = dict.fromkeys((400, 422), "400 or 422") | dict.fromkeys((403, 404), "403 or 404")
"""Statuses that a deployment may choose between for one refusal (U13, U24)."""


@dataclass(slots=True)
class Latencies:
    """What calls took, by kind: those with no other in flight, and those under load."""

    calm: dict[str, Series] = field(default_factory=lambda: defaultdict(list))
    loaded: dict[str, Series] = field(default_factory=lambda: defaultdict(list))


def latencies(history: History) -> Latencies:
    """Return what calls took that were answered, by operation and status; of no rate limit's refusals."""
    calls = [
        (seen.sent, seen.received, f"{seen.operation} {seen.status}", seen.status != 429)
        for seen in history.seen
        if not seen.lost and seen.operation
    ]
    took_by, latest = Latencies(), -1
    for place, (sent, received, kind, counts) in enumerate(calls):
        following = calls[place + 1][0] if place + 1 < len(calls) else received
        if counts:
            side = took_by.calm if latest <= sent and received <= following else took_by.loaded
            side[kind].append((sent, max(1, received - sent)))
        latest = max(latest, received)
    return took_by


def against_prediction(
    history: History, simulated: Sequence[History], earlier: History | None = None
) -> list[Compared]:
    """Set a run beside what was predicted of it: by runs of the same programs that were `simulated`, and by
    the `earlier` run that the model was fitted to, where that is not this one.
    """
    return [
        *_latency_rows(history, earlier),
        *_length_rows(history, earlier),
        *_wait_rows(history, simulated),
        *_delay_rows(history, simulated),
        *_refusal_rows(history, simulated),
    ]


# Latency


def _latency_rows(history: History, earlier: History | None) -> Iterator[Compared]:
    """Calls under load by those without; and each by those of the earlier run in its place."""
    measured = latencies(history)
    if earlier is None:
        yield _unpredicted("latency, no other call in flight", measured.calm)
        yield from _by_kind("latency under load", measured.calm, measured.loaded)
        return
    reference = latencies(earlier)
    yield from _by_kind("latency, no other call in flight", reference.calm, measured.calm)
    yield from _by_kind("latency under load", reference.loaded, measured.loaded)


def _by_kind(
    title: str,
    before: Mapping[str, Series],
    after: Mapping[str, Series],
    change: Changed = mean_difference,
    fewest: int = FEWEST,
    least: Micros = LEAST_LATENCY,
) -> Iterator[Compared]:
    """All kinds together, then each that has enough on both sides; intervals hold for all of them at once."""
    rows = [*latency_changes(before, after, fewest, change, jointly=True)]
    if not rows:
        yield _unpredicted(title, after, "could not know: nothing of its like to predict it by")
    for kind, _, calls, of_kind in rows:
        yield _ratio(title if kind == "all" else f"{title}: {kind}", of_kind, calls, least)


def _ratio(title: str, change: Estimate, after: Series, least: Micros) -> Compared:
    """A row of geometric means, by the change of the mean logarithm from what predicts them."""
    measured = math.exp(fmean(logs(after)))
    predicted = measured / math.exp(change.mean or 0.0)
    low, high = (None if end is None else predicted * math.exp(end) for end in (change.low, change.high))
    margin = duration_margin(predicted, least)
    return margin_row(title, "duration", (measured, low, high), (predicted, None, None), margin)


def _unpredicted(title: str, series: Mapping[str, Series], why: str = FITTED_HERE) -> Compared:
    took = logs([*chain.from_iterable(series.values())])
    measured = math.exp(fmean(took)) if took else None
    return Compared(title, "duration", measured, None, None, *UNKNOWN, None, why)


# Jobs


def _length_rows(history: History, earlier: History | None) -> Iterator[Compared]:
    """How long jobs take, from acceptance to their end, as they tell it themselves."""
    measured = _job_lengths(history)
    if earlier is None and measured:
        yield _unpredicted("jobs take", measured)
    elif earlier is not None and measured:
        each = partial(mean_difference, least=1)  # no job waits for another
        yield from _by_kind("jobs take", _job_lengths(earlier), measured, each, FEWEST_JOBS, LEAST_MARGIN)


def _job_lengths(history: History) -> dict[str, Series]:
    lengths: dict[str, Series] = defaultdict(list)
    for life in lives(history).values():
        if life.outcome == "done" and life.lasted[1] < DISTANT_FUTURE:
            lengths[life.kind].append((life.accepted[0], max(1, sum(life.lasted) // 2)))
    return lengths


def _wait_rows(history: History, simulated: Sequence[History]) -> Iterator[Compared]:
    """Waits for a worker as polls show them, beside those of a twin that starts each job at once."""
    measured, predicted = _middles([history]), _middles(simulated)
    if not measured or not predicted:
        return
    mean, (_, least, most) = fmean(predicted), mean_difference(predicted, measured)
    ends = None if least is None else max(0.0, mean + least), None if most is None else mean + most
    row = fmean(measured), *ends
    yield margin_row("jobs wait", "duration", row, (mean, None, None), duration_margin(mean))


def _middles(histories: Iterable[History]) -> list[float]:
    waits = (spans for history in histories for spans in job_waits(history).values())
    return [(least + most) / 2 for spans in waits for least, most in spans]


# Webhooks


def _delay_rows(history: History, simulated: Sequence[History]) -> Iterator[Compared]:
    """The median delay of webhooks; the deployment's clock is known to about a second, the twin's exactly."""
    spans = delivery_delays(history)
    if spans and simulated:
        predicted = sorted(least for twin in simulated for least, _ in delivery_delays(twin))
        middle = float(predicted[len(predicted) // 2]) if predicted else None
        yield duration_row("webhook delay", spans, 0.5, (middle, None, None))


# Refusals


def _refusal_rows(history: History, simulated: Sequence[History]) -> Iterator[Compared]:
    """Shares of calls by code, within the interval that one more run of the twin would lie in."""
    if not simulated:
        return
    measured, runs = _shares(history), [_shares(run) for run in simulated]
    for code in sorted(measured.keys() | {code for run in runs for code in run}):
        share = measured.get(code, 0.0)
        mean, low, high = one_more([run.get(code, 0.0) for run in runs])
        low = None if low is None else max(0.0, low)
        if low is None or high is None:
            says = TOO_FEW
        elif low - SHARE_MARGIN <= share <= high + SHARE_MARGIN:
            says = "within"
        else:
            says = f"could not know: {NOT_SHOWN[code]}" if code in NOT_SHOWN else "left"
        name = f"calls refused {code}"
        yield Compared(name, "share", share, None, None, mean, low, high, SHARE_MARGIN, says)


def _shares(history: History) -> dict[str, float]:
    """Return the share of calls that were refused: by code where it is stated, by status where it is not.

    Calls that show no key which works are refused whatever a deployment does: there are so many to a task.
    """
    answered = [call for call in history.seen if not call.lost and not call.id.startswith(BESIDE_TASKS)]
    refused = (call for call in answered if call.status >= 400 and call.status != UNAUTHORIZED)
    counts = Counter(
        call.code if call.code in NAMED else EITHER.get(call.status, str(call.status)) for call in refused
    )
    return {refusal: count / len(answered) for refusal, count in counts.items()}
