"""Which readings of what is open explain the calls of one window: elimination by sound checks.

Of a window that no reading explains, the closest is told, and what each fails on: the reading that would
explain all under the limit nearest to the stated one. Where none does, as where too many are admitted now and
then, it is one that fails on one side alone: on what was admitted, or on what was refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

import numpy as np

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import RateClass
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.rate.clocked import check_clock
from ranksim.judge.conformance.rate.counter import check_counter
from ranksim.judge.conformance.rate.first_hit import check_first_hit
from ranksim.judge.conformance.rate.ledger import (
    ADMITTED,
    EPOCH,
    REFUSED,
    UNSURE,
    Interpretation,
    KeyLedger,
)
from ranksim.judge.conformance.rate.sliding import check_gcra, check_log
from ranksim.judge.conformance.rate.stated import check_stated
from ranksim.judge.conformance.rate.window_calls import (
    HIDDEN,
    NOBODY,
    NOTHING,
    CallIntervals,
    Mask,
    StatedCounts,
    WindowCalls,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence

Excluded: TypeAlias = Mapping[Interpretation, Evidence]
"""Readings that cannot have admitted and refused some calls, and what shows it."""

Check: TypeAlias = Callable[[WindowCalls, bool], Evidence | None]

CHECKS: dict[str, Check] = {
    "first_hit": check_first_hit,
    "clock": check_clock,
    "sliding_log": check_log,
    "sliding_counter": check_counter,
    "gcra": check_gcra,
}
"""For each algorithm, its necessary conditions: None, or what cannot be."""

DRIFT = 5000
"""Clocks of client and deployment may drift apart by one part in so many: 200 ppm."""

FIELDS = {
    "window": ("window", 1),
    "refused_count": ("refused_calls_count", 4),
    "debits_write": ("expensive_debits_write", 3),
    "dry_run": ("dry_run_class", 10),
    "graphql": ("graphql_cost", 11),
}
"""Each field of a reading: the assumption that sets it, and its U number."""


def default_reading(options: Options) -> Interpretation:
    """Return the reading that the policy makes."""
    return Interpretation(*(options.default(name) for name, _ in FIELDS.values()))


@dataclass(slots=True)
class KeyWindow:
    """The calls of one class by a key, or by the keys of an account, as each reading counts them."""

    ledger: KeyLedger
    rate_class: RateClass
    run: ObservedRun
    options: Options
    _counted: dict[tuple[bool, str, str], WindowCalls] = field(default_factory=dict)
    """The calls by what counts where: expensive calls, dry runs, GraphQL."""
    _against: dict[tuple[Interpretation, bool], Evidence | None] = field(default_factory=dict)
    """What a reading fails on: in what was admitted and refused, or in what headers say."""

    def readings(self) -> list[Interpretation]:
        """Return the readings that are open and make a difference, the default first, the nearest next."""
        default, candidates = default_reading(self.options), self.options.candidates
        counted, debits = candidates("refused_calls_count"), candidates("expensive_debits_write")
        if self.rate_class != RateClass.WRITE or not self.ledger.has(RateClass.EXPENSIVE):
            debits = debits[:1]
        tried_dry = self.ledger.any_dry(self.rate_class)
        tried_dry = tried_dry or (len(debits) > 1 and self.ledger.any_dry(RateClass.EXPENSIVE))
        # a dry run in another class shows in its headers, and is no reading here
        open_dry = tried_dry and not self.options.pinned("dry_run_class")
        dry = ("same", "free") if open_dry else (default.dry_run,)
        graphql = candidates("graphql_cost") if self.ledger.any_graphql() else (default.graphql,)
        combinations = [
            Interpretation(*chosen)
            for chosen in product(candidates("window"), counted, debits, dry, graphql)
            if not (chosen[0] == "clock" and chosen[1] and len(counted) > 1)  # the same as not counting them
        ]
        return sorted(combinations, key=lambda reading: reading.departs(default))

    def calls(self, reading: Interpretation) -> WindowCalls:
        """Return the calls under a reading."""
        counted = (reading.debits_write, reading.dry_run, reading.graphql)
        if counted not in self._counted:
            self._counted[counted] = calls_of(self.ledger, self.rate_class, reading, self.run, self.options)
        return self._counted[counted]

    def contradicts(self, reading: Interpretation, limit: int | None = None) -> Evidence | None:
        """Return what a reading cannot have admitted or refused, under a limit, whatever headers say."""
        calls = self.calls(reading) if limit is None else self.calls(reading).allowing(limit)
        evidence = self._dry_refused(calls) if reading.dry_run == "free" else None
        return evidence or CHECKS[reading.window](calls, reading.refused_count)

    def _dry_refused(self, calls: WindowCalls) -> Evidence | None:
        """A dry run that is not counted is never refused."""
        ledger = self.ledger
        refused = (ledger.dry == 1) & (ledger.kind == REFUSED) & (ledger.rate_class == self.rate_class)
        if not refused.any():
            return None
        who = int(ledger.who[refused.argmax()])
        return calls.evidence("a dry run was answered 429, so it is counted", who)

    def examine(self, excluded: Excluded) -> Examined:
        """Try readings, but those that earlier calls excluded, until the default one survives."""
        readings = self.readings()
        result = Examined(self, self.calls(readings[0]))
        for reading in readings:
            against = excluded.get(reading) or self._fails_on(reading)
            if against is None:
                result.acting.append(reading)
                against = self._fails_on(reading, stated=True)
            if against is not None:
                result.against[reading] = against
                continue
            result.surviving.append(reading)
            if len(result.surviving) == 1 and not result.against:
                break
        return result

    def _fails_on(self, reading: Interpretation, *, stated: bool = False) -> Evidence | None:
        """Return what a reading fails on, which no option changes: it is found out once."""
        if (reading, stated) not in self._against:
            self._against[reading, stated] = (
                check_stated(self.calls(reading), reading.window, reading.refused_count)
                if stated
                else self.contradicts(reading)
            )
        return self._against[reading, stated]

    def excludes(self, limits: Iterable[int]) -> Evidence | None:
        """Return what shows that no reading admits and refuses so under one of these limits, if none does."""
        first: Evidence | None = None
        for limit, reading in product(limits, self.readings()):
            evidence = self.contradicts(reading, limit)
            if evidence is None:
                return None
            first = first or evidence
        return first


@dataclass(slots=True)
class Examined:
    """What is left of the readings of one window; `calls` are those under the default.

    `acting` holds the readings that explain which calls were admitted and refused; `surviving` those of them
    that agree with what the headers say, too. `against` is the evidence against each other reading.
    """

    window: KeyWindow
    calls: WindowCalls
    acting: list[Interpretation] = field(default_factory=list)
    surviving: list[Interpretation] = field(default_factory=list)
    against: dict[Interpretation, Evidence] = field(default_factory=dict)

    @property
    def excluded(self) -> Excluded:
        """What is excluded whatever headers say."""
        return {reading: evidence for reading, evidence in self.against.items() if reading not in self.acting}


# The calls of one window


def calls_of(
    ledger: KeyLedger, rate_class: RateClass, reading: Interpretation, run: ObservedRun, options: Options
) -> WindowCalls:
    """Gather what one window may have counted under a reading, with the account's first moments as hidden."""
    length, second = options.facts.rate_window // run.traffic_rate, SECOND // run.traffic_rate
    limit = options.facts.rates.of(rate_class)
    counts = _counted(ledger, rate_class, reading)
    admitted, unsure = _side(ledger, counts, ADMITTED), _side(ledger, counts, UNSURE)
    refused = _side(ledger, counts & (ledger.rate_class == rate_class), REFUSED)
    assert run.began is not None
    start = ledger.log.sent(0) if ledger.log.resumes else run.began
    stated = _stated(ledger, counts & (ledger.rate_class == rate_class), limit, second)
    fresh = _fresh(admitted, refused, stated)
    hidden = NOBODY if fresh else _hidden(limit, start, length)
    return WindowCalls(
        about=f"key {ledger.name}, {rate_class.label} calls",
        limit=limit,
        length=length,
        slack=length // DRIFT,
        second=second,
        exclusive=run.exclusive,
        admitted=admitted,
        possible=admitted.joined(unsure).joined(hidden),
        refused=refused,
        stated=stated,
        log=ledger.log,
        start=start,
        began=run.began,
        fresh=fresh,
    )


def _counted(ledger: KeyLedger, rate_class: RateClass, reading: Interpretation) -> Mask:
    counts: Mask = ledger.rate_class == rate_class
    if reading.debits_write and rate_class == RateClass.WRITE:
        counts |= ledger.rate_class == RateClass.EXPENSIVE
    if reading.dry_run == "free":
        counts &= (ledger.dry == 0) | (ledger.kind == REFUSED)
    if reading.graphql == "separate":
        counts &= ledger.graphql == 0
    return counts


def _side(ledger: KeyLedger, counts: Mask, kind: int) -> CallIntervals:
    chosen = np.flatnonzero(counts & (ledger.kind == kind))
    return CallIntervals(ledger.sent[chosen], ledger.done[chosen], ledger.who[chosen])


def _stated(ledger: KeyLedger, counts: Mask, limit: int, second: Micros) -> StatedCounts:
    """What the headers of admitted replies say, if they speak of this window."""
    chosen = np.flatnonzero(
        counts & (ledger.kind == ADMITTED) & (ledger.limit == limit) & (ledger.remaining >= 0)
    )
    if not len(chosen):
        return NOTHING
    sent, done, reset = ledger.sent[chosen], ledger.done[chosen], ledger.reset[chosen]
    delta = (reset >= 0) & (reset < EPOCH)
    low = np.where(delta, sent + (reset - 1) * second, 1)
    high = np.where(delta, done + reset * second, 0)
    return StatedCounts(sent, done, ledger.who[chosen], limit - ledger.remaining[chosen], low, high)


def _fresh(admitted: CallIntervals, refused: CallIntervals, stated: StatedCounts) -> bool:
    """Return whether the window was unused when the trace came to it: its first call says it is the first."""
    if not len(admitted) or not len(stated):
        return False
    first = (stated.sent <= int(admitted.ends[0])) & (stated.counted == 1)
    if not first.any():
        return False
    return not len(refused) or int(refused.sent[0]) > int(stated.done[first].min())


def _hidden(limit: int, start: Micros, length: Micros) -> CallIntervals:
    """As many calls as fit, sometime before the trace: what the window may have held already."""
    return CallIntervals(
        np.full(limit, start - length, np.int64),
        np.full(limit, start, np.int64),
        np.full(limit, HIDDEN, np.int64),
    )


# The closest of readings that all fail

NO_MORE, NO_FEWER = "no more", "no fewer"
"""The two sides of a limit: a refusal came where it was reached, and none before."""

NEAR: Final = (1, 2, 3)
"""Calls by which another limit may differ from the one stated, beside a twentieth and a tenth of it."""


def nearest_limits(limit: int, side: str) -> list[int]:
    """Return the limits near one that would admit more, or fewer, the nearest first."""
    sign = 1 if side == NO_MORE else -1
    apart = {*NEAR, limit // 20, limit // 10} - {0}
    return [limit + sign * beyond for beyond in sorted(apart) if limit + sign * beyond > 0]


def closest(examined: Examined) -> tuple[str, Evidence]:
    """Return on which side a limit was not kept, and what the closest reading fails on there."""
    under = {reading: examined.window.calls(reading) for reading in examined.against}
    limit = examined.calls.limit
    one_sided = dict(_one_sided(under))
    others = {
        *nearest_limits(limit, NO_MORE),
        *nearest_limits(limit, NO_FEWER),
        *(other for other, _ in one_sided.values()),
    }
    explaining = _explaining(examined, others)
    if not explaining and one_sided:
        reading = min(one_sided, key=lambda name: abs(one_sided[name][0] - limit))
        explaining = [(reading, one_sided[reading][1])]
    if len({side for _, side in explaining}) == 1:
        reading, side = explaining[0]
        return side, _fails(side, reading, under[reading]) or examined.against[reading]
    against = next(iter(examined.against.values()))
    refused = {examined.calls.log.id(int(name)) for name in examined.calls.refused.who}
    return NO_MORE if refused.isdisjoint(against.exchanges[-1:]) else NO_FEWER, against


def _explaining(examined: Examined, limits: set[int]) -> list[tuple[Interpretation, str]]:
    """Return the readings that explain all under the nearest of other limits, and on which side it is."""
    limit = examined.calls.limit
    for apart in sorted({abs(other - limit) for other in limits}):
        explaining = [
            (reading, NO_MORE if other > limit else NO_FEWER)
            for other in {limit + apart, limit - apart} & limits
            for reading in examined.against
            if examined.window.contradicts(reading, other) is None
        ]
        if explaining:
            return explaining
    return []


def _one_sided(under: dict[Interpretation, WindowCalls]) -> Iterator[tuple[Interpretation, tuple[int, str]]]:
    """Return the readings that fail on one side alone, each with the nearest limit that mends it."""
    for reading, calls in under.items():
        failed = [side for side in (NO_MORE, NO_FEWER) if _fails(side, reading, calls) is not None]
        if len(failed) == 1:
            [side] = failed
            more = range(calls.limit, len(calls.admitted) + 1)
            others = more if side == NO_MORE else range(calls.limit, 1, -1)
            apart = bisect_left(
                others, True, key=lambda limit: _fails(side, reading, calls.allowing(limit)) is None
            )
            yield reading, (calls.limit + (apart if side == NO_MORE else -apart), side)


def _fails(side: str, reading: Interpretation, calls: WindowCalls) -> Evidence | None:
    """Return what a reading fails on where only what was admitted is looked at, or what was refused."""
    if side == NO_MORE:
        calls = replace(calls, refused=NOBODY)
    elif len(calls.admitted):
        first = [int(np.argmin(calls.admitted.done))]
        kept = calls.admitted
        calls = replace(calls, admitted=CallIntervals(kept.sent[first], kept.done[first], kept.who[first]))
    return CHECKS[reading.window](calls, reading.refused_count)


def with_readings(evidence: Evidence, examined: Examined) -> Evidence:
    """Return evidence with what each reading fails on: of each algorithm the one nearest to the default."""
    failed: dict[str, Evidence] = {}
    for reading, against in examined.against.items():
        counted = ", refused calls counted" if reading.refused_count else ""
        failed.setdefault(f"{reading.window}{counted}", against)
    return replace(evidence, readings=tuple(failed.items()))
