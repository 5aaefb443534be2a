"""What can be measured once the algorithm of rate windows is known: the phase of clock windows, and U88."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ranksim.core.clock import SECOND
from ranksim.core.contract.facts import RateClass
from ranksim.judge.conformance.calibrate.exclusions import Sign
from ranksim.judge.conformance.calibrate.measures import Measure
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.rate.clocked import Arcs, clock_arcs, open_phases
from ranksim.judge.conformance.rate.elimination import default_reading
from ranksim.judge.conformance.rate.ledger import calls_of, logged, steady
from ranksim.judge.conformance.rate.stated import edge_arcs
from ranksim.judge.conformance.rate.window_calls import WindowCalls
from ranksim.judge.conformance.verdict.options import Options


def phases(history: History, options: Options, left: tuple[Any, ...]) -> Iterator[Measure]:
    """Return the phase of clock windows, in µs after a whole window of the deployment's clock, if it has one.

    All keys and classes are taken together; where the deployment's clock is unknown, or the windows of keys
    stand apart, nothing is said.
    """
    if left != ("clock",) or not steady(history.run) or not history.run.offset.bounded:
        return
    joined: Arcs | None = None
    length = options.facts.rate_window // history.run.traffic_rate
    for ledger in logged(history).ledgers(history.run, options).values():
        for rate_class in RateClass:
            if ledger.has(rate_class):
                calls = calls_of(ledger, rate_class, default_reading(options), history.run, options)
                arcs = clock_arcs(calls).joined(edge_arcs(calls))
                joined = arcs if joined is None else joined.joined(arcs)
    stretches = [] if joined is None else open_phases(joined, length)
    if joined is None or not stretches or len(stretches) > 2 or history.run.traffic_rate != 1:
        return
    if len(stretches) == 2 and (stretches[0][0] > 0 or stretches[1][1] < length):
        return
    low, high = stretches[0] if len(stretches) == 1 else (stretches[1][0] - length, stretches[0][1])
    low, high = low + history.run.offset.low, high + history.run.offset.high
    turns = (low + SECOND) // length * length  # so that it is stated as near to zero as it may be
    yield Measure("window phase", 1, low - turns, high - turns, count=len(joined.low))


def reset_signs(history: History, options: Options, left: tuple[Any, ...]) -> Iterator[Sign]:
    """Return what RateLimit-Reset of a sliding log points at: its oldest call leaving, or all (U88)."""
    if left != ("sliding_log",) or not steady(history.run):
        return
    for ledger in logged(history).ledgers(history.run, options).values():
        for rate_class in RateClass:
            if ledger.has(rate_class):
                yield from _reset_signs(
                    calls_of(ledger, rate_class, default_reading(options), history.run, options)
                )


def _reset_signs(calls: WindowCalls) -> Iterator[Sign]:
    """Full is no window that ends before this call leaves; the oldest's none that ends with it."""
    stated, margin = calls.stated, 2 * calls.second
    complete = stated.high >= stated.low
    soon = np.flatnonzero(complete & (stated.high < stated.sent + calls.short - margin))
    if len(soon):
        says = "RateLimit-Reset ends sooner than this very call leaves the window"
        yield "reset_reports", "full", calls.evidence(says, int(stated.who[soon[0]]))
    side = calls.admitted.within(calls.short)
    older = side.before(stated.sent - 2 * margin) - side.begun(stated.done - calls.short)
    late = np.flatnonzero(complete & (older > 0) & (stated.low > stated.done + calls.length - margin))
    if len(late):
        says = "RateLimit-Reset ends as this call leaves, though an older one leaves sooner"
        yield "reset_reports", "algorithm", calls.evidence(says, int(stated.who[late[0]]))
