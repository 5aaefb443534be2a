"""What a cooldown covers, where it begins, whether a failed run arms it, and how long it is (U46).

For every reading of these, each refusal bounds the length from below, and what it says is left on both sides;
each acceptance bounds it from above. A reading whose bounds leave nothing, or that leaves a refusal without a
cause, is excluded. Only calls that did not overlap, on domains where none was lost, are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from ranksim.core.clock import DISTANT_PAST, SECOND, Micros, format_millis
from ranksim.judge.conformance.calibrate.measures import Bounds, Measure
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.job_lives import Life, Span, lives
from ranksim.judge.conformance.history.observation import Observation, job_name
from ranksim.judge.conformance.spending.cooldown_groups import DRIFT
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence

FIELDS = ("cooldown_scope", "cooldown_from", "failed_run_arms")

Which: TypeAlias = tuple[str, str]
"""An account and a kind of job."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt to run a job: when, on what, and what came of it.

    `job` is what was accepted; `refused` and `left` (s) are of a cooldown; `free` means that it was accepted,
    or by a dry run would have been.
    """

    exchange: Observation
    kind: str
    domain: str
    job: str = ""
    refused: bool = False
    left: int | None = None
    free: bool = False


@dataclass(slots=True)
class CooldownFit:
    """One reading of U46, what it makes of each length, and what it cannot explain."""

    scope: str
    begins: str
    failed_arms: bool
    bounds: dict[tuple[str, str], Bounds] = field(default_factory=lambda: defaultdict(Bounds))
    against: Evidence | None = None

    def value(self, name: str) -> Any:
        """Its value of one assumption."""
        return dict(zip(FIELDS, (self.scope, self.begins, self.failed_arms), strict=True))[name]


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """What is excluded, by assumption and value, and the measured lengths; whether any run was refused."""

    against: Mapping[str, Mapping[Any, Evidence]]
    measures: tuple[Measure, ...]
    refused: bool


def fit_cooldowns(history: History, options: Options) -> Cooldowns:
    """Try each open reading of U46 on a trace."""
    stated = _stated(history)
    readings = [CooldownFit(*chosen) for chosen in product(*(options.candidates(name) for name in FIELDS))]
    refused = False
    if history.run.rate:
        world = _World(history)
        refused = any(attempt.refused for attempts in world.tried.values() for attempt in attempts)
        for reading in readings:
            for which, (length, by) in stated.items():
                reading.bounds[which].least(length, by)
                reading.bounds[which].most(length, by)
            world.try_out(reading)
    left = [reading for reading in readings if reading.against is None]
    against = {name: _excluded(name, readings, options) for name in FIELDS if left}
    return Cooldowns(against, tuple(_measures(left or readings, stated)), refused)


def _excluded(name: str, readings: Sequence[CooldownFit], options: Options) -> dict[Any, Evidence]:
    """Return what excludes each value of an assumption with which no reading is left."""
    excluded = {}
    for value in options.candidates(name):
        evidence = [reading.against for reading in readings if reading.value(name) == value]
        if evidence and None not in evidence:
            excluded[value] = next(filter(None, evidence))
    return excluded


def _measures(
    readings: Sequence[CooldownFit], stated: Mapping[Which, tuple[Micros, str]]
) -> Iterator[Measure]:
    """What entitlements state is taken as it is; else what holds under every reading that is left."""
    for which in dict.fromkeys([*stated, *(which for reading in readings for which in reading.bounds)]):
        account, name = which[0], f"cooldown {which[1]}"
        if which in stated:
            length, by = stated[which]
            yield Measure(name, 46, length, length, exchanges=(by,), account=account)
            continue
        bounds = [reading.bounds[which] for reading in readings if reading.bounds[which].count]
        if bounds:
            low, high = min(bounds, key=lambda bound: bound.low), max(bounds, key=lambda bound: bound.high)
            joint = Bounds(low.low, high.high, low.low_by, high.high_by, max(bound.count for bound in bounds))
            yield from joint.measure(name, 46, account=account)


def _stated(history: History) -> dict[Which, tuple[Micros, str]]:
    """The lengths that entitlements state, where all readings of an account agree."""
    stated: dict[Which, dict[int, str]] = defaultdict(dict)
    for exchange in history.by_operation("account.entitlements"):
        lengths = exchange.data.get("cooldown_seconds") if isinstance(exchange.data, dict) else None
        for kind, length in lengths.items() if isinstance(lengths, dict) else ():
            if isinstance(length, int):
                stated[exchange.account, str(kind)].setdefault(length, exchange.id)
    return {
        which: (length * SECOND, by)
        for which, stating in stated.items()
        if len(stating) == 1
        for length, by in stating.items()
    }


class _World:
    """The attempts of a trace by account and kind, the lives of jobs, and the domains made in it."""

    def __init__(self, history: History) -> None:
        self.rate, self.exclusive = history.run.rate, history.run.exclusive
        self.lives = lives(history)
        self.made = {
            str(exchange.data.get("id"))
            for exchange in history.by_operation("domains.create")
            if exchange.ok and isinstance(exchange.data, dict)
        }
        self.tried: dict[Which, list[Tried]] = defaultdict(list)
        for exchange in history.by_operation("jobs.create"):
            attempt = _tried(exchange)
            if attempt is not None:
                self.tried[exchange.account, attempt.kind].append(attempt)

    def try_out(self, reading: CooldownFit) -> None:
        """Hold a reading against all attempts; sets its bounds, and `against` when it cannot be."""
        for which, attempts in self.tried.items():
            subjects: dict[str, list[Tried]] = defaultdict(list)
            for attempt in attempts:
                subjects[attempt.domain if reading.scope == "domain" else ""].append(attempt)
            for subject, own in subjects.items():
                if not any(attempt.exchange.lost for attempt in own):
                    self._subject(own, subject in self.made, reading, reading.bounds[which])
            self._contradicts(which, reading)

    def _contradicts(self, which: Which, reading: CooldownFit) -> None:
        bounds = reading.bounds[which]
        if reading.against is None and bounds.low > bounds.high + bounds.high // DRIFT + SECOND:
            says = (
                f"the cooldown of {which[1]} is at least {format_millis(bounds.low)} and at most "
                f"{format_millis(bounds.high)} if it is per {reading.scope}, from {reading.begins}"
                f"{', and failed runs arm it' if reading.failed_arms else ''}"
            )
            by = tuple(dict.fromkeys((*bounds.low_by, *bounds.high_by)))
            reading.against = Evidence(says, by, about=f"account {which[0]}")

    def _subject(self, attempts: Sequence[Tried], made: bool, reading: CooldownFit, bounds: Bounds) -> None:
        runs: dict[str, Tried] = {}
        used: set[str] = set()
        busy = DISTANT_PAST
        for attempt, following in zip(attempts, [*attempts[1:], None], strict=True):
            alone = attempt.exchange.sent >= busy and (
                following is None or following.exchange.sent >= attempt.exchange.received
            )
            busy = max(busy, attempt.exchange.received)
            key = attempt.exchange.idempotency_key
            if attempt.job in runs or key in used:
                continue  # joined, or repeated
            if alone and (attempt.free or (attempt.refused and self.exclusive)):
                self._bound(attempt, list(runs.values()), made, reading, bounds)
            if attempt.job:
                runs[attempt.job] = attempt
            if key is not None:
                used.add(key)

    def _bound(
        self, attempt: Tried, runs: list[Tried], made: bool, reading: CooldownFit, bounds: Bounds
    ) -> None:
        own = attempt.exchange
        begun = [(run.exchange.id, self._begun(run, own, reading)) for run in runs]
        spans = [(span, run) for run, span in begun if span]
        unknown = any(span is None for _, span in begun)
        if (unknown and not attempt.free) or (spans and self._may_clear(runs, reading)):
            return
        if attempt.free:
            for span, run in spans:
                bounds.most((own.received - span[0]) * self.rate, run, own.id)
        elif spans:
            self._bound_by_refusal(attempt, spans, bounds)
        elif made and reading.against is None:
            says = (
                f"{attempt.kind} was refused as cooldown_active, and no run had begun one if it is per "
                f"{reading.scope}, from {reading.begins}"
                f"{'' if reading.failed_arms else ', and failed runs do not arm it'}"
            )
            reading.against = Evidence(says, (*(run.exchange.id for run in runs[-2:]), own.id))

    def _bound_by_refusal(self, attempt: Tried, spans: Sequence[tuple[Span, str]], bounds: Bounds) -> None:
        own = attempt.exchange
        span, run = max(spans, key=lambda begun: begun[0][1])
        least = (own.sent - span[1]) * self.rate
        bounds.least(least, run, own.id)
        if attempt.left is not None:
            bounds.least(least + (attempt.left - 1) * SECOND, run, own.id)
            most = own.received - max(begun[0] for begun, _ in spans)
            seconds = attempt.left * self.rate  # of the caller's clock, or fewer of business time
            bounds.most(most * self.rate + seconds * SECOND, run, own.id)

    def _may_clear(self, runs: list[Tried], reading: CooldownFit) -> bool:
        """Whether a run that failed may have cleared the cooldown of one before it (U91)."""
        ends = [self.lives[run.job].outcome if run.job in self.lives else "" for run in runs]
        return not reading.failed_arms and any(end != "done" for end in ends)

    def _begun(self, run: Tried, at: Observation, reading: CooldownFit) -> Span | tuple[()] | None:
        """When a run began a cooldown that counts at a call: an interval, () for never, None for unknown."""
        life = self.lives.get(run.job)
        if life is None:
            return None
        over, running = life.ended <= at.sent, life.alive >= at.received
        if reading.begins == "finish":
            if running:
                return ()
            return self._unless_failed(life, life.end, reading) if over else None
        if running or life.outcome == "done":
            return life.accepted
        return self._unless_failed(life, life.accepted, reading) if over or reading.failed_arms else None

    def _unless_failed(self, life: Life, span: Span, reading: CooldownFit) -> Span | tuple[()] | None:
        """A failed run counts or does not; whether it clears what went before (U91) is another question."""
        if reading.failed_arms or life.outcome == "done":
            return span
        return () if life.outcome == "failed" else None


def _tried(exchange: Observation) -> Tried | None:
    """Read one POST jobs; None where it says nothing of cooldowns, such as a joined or a replayed one."""
    if exchange.surface != "rest" or exchange.replayed or exchange.happened is False:
        return None
    body = exchange.body if isinstance(exchange.body, dict) else {}
    attempt = Tried(exchange, str(body.get("kind")), str(body.get("domain_id")))
    data = exchange.data if exchange.ok and isinstance(exchange.data, dict) else {}
    if exchange.code == "cooldown_active":
        return _refused(attempt, exchange.meta)
    if exchange.dry_run:
        return None if exchange.lost else _tried_dry(attempt, data)
    if exchange.lost:
        return attempt
    return replace(attempt, job=job_name(data), free=True) if data.get("id") else None


def _tried_dry(attempt: Tried, data: Mapping[str, Any]) -> Tried | None:
    refusal = data.get("refusal")
    if data.get("allowed") is True and not data.get("would_join"):
        return replace(attempt, free=True)
    if isinstance(refusal, dict) and refusal.get("code") == "cooldown_active":
        return _refused(attempt, refusal.get("meta"))
    return None


def _refused(attempt: Tried, meta: object) -> Tried:
    left = meta.get("retry_after") if isinstance(meta, Mapping) else None
    return replace(attempt, refused=True, left=left if isinstance(left, int) else None)
