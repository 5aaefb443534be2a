"""The calls of one class by a key, or by the keys of an account, as each reading counts them (S102-S106)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import RateClass
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.rate.elimination import DRIFT, WindowReadings
from ranksim.judge.conformance.rate.ledger import ADMITTED, EPOCH, REFUSED, UNSURE, Interpretation, KeyLedger
from ranksim.judge.conformance.rate.window_calls import (
    NOBODY,
    NOTHING,
    CallIntervals,
    Mask,
    StatedCounts,
    WindowCalls,
    began_fresh,
    hidden_calls,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence

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
class KeyWindow(WindowReadings):
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
        """Return what a reading cannot have admitted or refused: a dry run that is not counted, neither."""
        evidence = self._dry_refused(self.calls(reading)) if reading.dry_run == "free" else None
        return evidence or WindowReadings.contradicts(self, reading, limit)

    def _dry_refused(self, calls: WindowCalls) -> Evidence | None:
        """A dry run that is not counted is never refused."""
        ledger = self.ledger
        refused = (ledger.dry == 1) & (ledger.kind == REFUSED) & (ledger.rate_class == self.rate_class)
        if not refused.any():
            return None
        who = int(ledger.who[refused.argmax()])
        return calls.evidence("a dry run was answered 429, so it is counted", who)


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
    fresh = began_fresh(admitted, refused, stated)
    hidden = NOBODY if fresh else hidden_calls(limit, start, length)
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
