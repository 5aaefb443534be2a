"""Two builds of a deployment, each by its trace: how much slower, what is refused more often, what changed.

Latency is compared by the mean of its logarithm, so as a ratio, of what was answered and no rate limit
refused; of all operations together without what another mix of them would change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from ranksim.core.clock import Micros
from ranksim.inference.batch_means import mean_difference
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.quantiles import rank_of
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.history.history import History

TOLERANCE = 0.05
"""A build counts as slower or faster where all of the interval lies beyond this share."""

FEWEST = 20
"""Answers of an operation in each build from which on its latency is compared."""


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """An operation's calls, quantiles (µs) and mean change, a ratio less 1, in the baseline and the build."""

    operation: str
    calls_before: int
    calls: int
    p50_before: Micros
    p50: Micros
    p95_before: Micros
    p95: Micros
    change: float | None
    low: float | None
    high: float | None

    @property
    def says(self) -> str:
        """What can be said of it: slower, faster, alike or open."""
        if self.low is None or self.high is None:
            return "open"
        if self.low > TOLERANCE:
            return "slower"
        if self.high < -TOLERANCE:
            return "faster"
        return "alike" if self.low >= -TOLERANCE and self.high <= TOLERANCE else "open"


@dataclass(frozen=True, slots=True)
class RefusalChange:
    """The share of calls that were answered with a status and code, in the baseline and the build."""

    answer: str
    before: float
    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A rule whose verdict is another one in the build."""

    rule: str
    before: str
    verdict: str


@dataclass(frozen=True, slots=True)
class BuildComparison:
    """A build against its baseline; the first latency is that of all operations together."""

    latencies: tuple[LatencyChange, ...]
    refusals: tuple[RefusalChange, ...]
    verdicts: tuple[VerdictChange, ...]


def compare_builds(baseline: Judgement, build: Judgement) -> BuildComparison:
    """Compare a build with its baseline, each by all traces of it."""
    before, after = _latencies(baseline.histories), _latencies(build.histories)
    return BuildComparison(
        tuple(_row(*change) for change in latency_changes(before, after)),
        tuple(_refusals(baseline.histories, build.histories)),
        tuple(
            VerdictChange(old.rule.name, str(old.verdict), str(new.verdict))
            for old, new in zip(baseline.findings, build.findings, strict=True)
            if old.verdict != new.verdict
        ),
    )


Series = list[tuple[Micros, Micros]]
"""When each call was sent, and how long it took, in order of sending."""


def _latencies(histories: Sequence[History]) -> dict[str, Series]:
    """Return by operation what was answered, but for what a rate limit refused."""
    series: dict[str, Series] = defaultdict(list)
    for history in histories:
        for seen in history.seen:
            if not seen.lost and seen.status != 429 and seen.operation:
                since = seen.sent if seen.planned is None else seen.planned
                series[seen.operation].append((seen.sent, max(1, seen.received - since)))
    return series


def logs(series: Series) -> list[float]:
    """Return the logarithm of what each call took."""
    return [math.log(took) for _, took in series]


Changed = Callable[[Sequence[float], Sequence[float], float], Estimate]
"""Tells the mean of a series less that of one before it, at a level."""


def latency_changes(
    before: Mapping[str, Series],
    after: Mapping[str, Series],
    fewest: int = FEWEST,
    change: Changed = mean_difference,
    *,
    jointly: bool = False,
) -> Iterator[tuple[str, Series, Series, Estimate]]:
    """Yield how mean logarithms changed: of "all" kinds together, then of each that has enough on both sides.

    All are compared each against its own mean over both sides, in order of sending. Intervals hold `jointly`
    for all that is yielded, or each for itself.
    """
    both = sorted(before.keys() & after.keys(), key=lambda kind: -len(after[kind]))
    own = [kind for kind in both if min(len(before[kind]), len(after[kind])) >= fewest]
    level = 1 - (1 - LEVEL) / (1 + len(own) * jointly)
    if both:
        calls = [list(chain.from_iterable(side[kind] for kind in both)) for side in (before, after)]
        yield "all", calls[0], calls[1], change(*_centred(before, after, both), level)
    for kind in own:
        yield kind, before[kind], after[kind], change(logs(before[kind]), logs(after[kind]), level)


def _centred(
    before: Mapping[str, Series], after: Mapping[str, Series], both: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return the logarithms of both sides in order of sending, each less its kind's mean over both."""
    middles = {name: (fmean(logs(before[name])) + fmean(logs(after[name]))) / 2 for name in both}

    def of(side: Mapping[str, Series]) -> list[float]:
        values = [(sent, math.log(took) - middles[name]) for name in both for sent, took in side[name]]
        return [value for _, value in sorted(values)]

    return of(before), of(after)


def _row(operation: str, before: Series, after: Series, change: Estimate) -> LatencyChange:
    mean, low, high = (None if end is None else math.expm1(end) for end in change)
    return LatencyChange(
        operation, len(before), len(after), _quantile(before, 0.5), _quantile(after, 0.5),
        _quantile(before, 0.95), _quantile(after, 0.95), mean, low, high,
    )  # fmt: skip


def _quantile(series: Series, share: float) -> Micros:
    return sorted(took for _, took in series)[rank_of(share, len(series)) - 1]


def _refusals(before: Sequence[History], after: Sequence[History]) -> list[RefusalChange]:
    """Return each refusal, and lost replies, with its shares; the largest difference first."""
    old, new = _answers(before), _answers(after)
    changes = []
    for answer in {*old, *new} - {""}:
        old_flags, new_flags = ([float(each == answer) for each in side] for side in (old, new))
        _, low, high = mean_difference(old_flags, new_flags)
        share_before, share = (fmean(flags) if flags else 0.0 for flags in (old_flags, new_flags))
        changes.append(RefusalChange(answer, share_before, share, low, high))
    return sorted(changes, key=lambda change: (-abs(change.share - change.before), change.answer))


def _answers(histories: Sequence[History]) -> list[str]:
    """Return of each call how it was refused, "" where it was not, in order of sending."""
    return [
        "no reply" if seen.lost else f"{seen.status} {seen.code}".strip() if seen.status >= 400 else ""
        for history in histories
        for seen in history.seen
    ]
