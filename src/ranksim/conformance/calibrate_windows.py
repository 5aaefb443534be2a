"""Where the edges of clock windows stand: the phase of rate windows, once the algorithm is known (U1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ranksim.clock import SECOND
from ranksim.conformance.calibrate_measures import Measure
from ranksim.conformance.history import History
from ranksim.conformance.options import Options
from ranksim.conformance.windows.clocked import Arcs, clock_arcs, open_phases
from ranksim.conformance.windows.elimination import default_reading
from ranksim.conformance.windows.ledger import calls_of, ledgers, steady
from ranksim.conformance.windows.statements import edge_arcs
from ranksim.contract.facts import RateClass


def phases(history: History, options: Options, left: tuple[Any, ...]) -> Iterator[Measure]:
    """Give the phase of clock windows, in µs after a whole window of the deployment's clock, if it has one.

    All keys and classes are taken together; where the deployment's clock is unknown, or the windows of keys
    stand apart, nothing is said.
    """
    if left != ("clock",) or not steady(history) or not history.offset.known:
        return
    found: Arcs | None = None
    length = options.facts.rate_window // history.traffic_rate
    for ledger in ledgers(history, options).values():
        for rate_class in RateClass:
            if ledger.has(rate_class):
                calls = calls_of(ledger, rate_class, default_reading(options), history, options)
                arcs = clock_arcs(calls).joined(edge_arcs(calls))
                found = arcs if found is None else found.joined(arcs)
    stretches = [] if found is None else open_phases(found, length)
    if found is None or not stretches or len(stretches) > 2 or history.traffic_rate != 1:
        return
    if len(stretches) == 2 and (stretches[0][0] > 0 or stretches[1][1] < length):
        return
    low, high = stretches[0] if len(stretches) == 1 else (stretches[1][0] - length, stretches[0][1])
    low, high = low + history.offset.low, high + history.offset.high
    turns = (low + SECOND) // length * length  # so that it is told as near to zero as it may be
    yield Measure("window phase", 1, low - turns, high - turns, count=len(found.low))
