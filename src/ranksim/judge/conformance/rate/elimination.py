"""Which readings of what is open explain the calls of one window: elimination by sound checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from ranksim.core.contract.facts import RateClass
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.rate.clocked import check_clock
from ranksim.judge.conformance.rate.counter import check_counter
from ranksim.judge.conformance.rate.first_hit import check_first_hit
from ranksim.judge.conformance.rate.ledger import REFUSED, Interpretation, KeyLedger, calls_of
from ranksim.judge.conformance.rate.sliding import check_gcra, check_log
from ranksim.judge.conformance.rate.stated import check_stated
from ranksim.judge.conformance.rate.window_calls import WindowCalls
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence

Excluded: TypeAlias = Mapping[Interpretation, Evidence]
"""Readings that cannot have admitted and refused some calls, and what shows it."""

Counted: TypeAlias = dict[tuple[bool, str, str], WindowCalls]
"""The calls of a window by what counts where: expensive calls, dry runs, GraphQL."""

Check: TypeAlias = Callable[[WindowCalls, bool], Evidence | None]

CHECKS: dict[str, Check] = {
    "first_hit": check_first_hit,
    "clock": check_clock,
    "sliding_log": check_log,
    "sliding_counter": check_counter,
    "gcra": check_gcra,
}
"""For each algorithm, its necessary conditions: None, or what cannot be."""

FIELDS = {
    "window": ("window", 1),
    "refused_count": ("refused_calls_count", 4),
    "debits_write": ("expensive_debits_write", 3),
    "dry_run": ("dry_run_class", 10),
    "graphql": ("graphql_cost", 11),
}
"""Each field of a reading: the assumption that sets it, and its U number."""


@dataclass(slots=True)
class Examined:
    """What is left of the readings of one window.

    `acting` holds the readings that explain which calls were admitted and refused; `surviving` those of them
    that agree with what the headers say, too. `against` is the evidence against each other reading.
    """

    name: str
    """The key, or keys, whose window it is."""
    calls: WindowCalls
    acting: list[Interpretation] = field(default_factory=list)
    surviving: list[Interpretation] = field(default_factory=list)
    against: dict[Interpretation, Evidence] = field(default_factory=dict)

    @property
    def excluded(self) -> Excluded:
        """What is excluded whatever headers say."""
        return {reading: evidence for reading, evidence in self.against.items() if reading not in self.acting}


def readings(ledger: KeyLedger, rate_class: RateClass, options: Options) -> list[Interpretation]:
    """Return the readings that are open and would make a difference, the default first, the nearest next."""
    default = default_reading(options)
    counted = options.candidates("refused_calls_count")
    debits = options.candidates("expensive_debits_write")
    if rate_class != RateClass.WRITE or not ledger.has(RateClass.EXPENSIVE):
        debits = debits[:1]
    tried_dry = ledger.any_dry(rate_class) or (len(debits) > 1 and ledger.any_dry(RateClass.EXPENSIVE))
    dry = _open(options, "dry_run_class", ("same", "free")) if tried_dry else (default.dry_run,)
    graphql = options.candidates("graphql_cost") if ledger.any_graphql() else (default.graphql,)
    combinations = [
        Interpretation(*chosen)
        for chosen in product(options.candidates("window"), counted, debits, dry, graphql)
        if not (chosen[0] == "clock" and chosen[1] and len(counted) > 1)  # the same as not counting them
    ]
    return sorted(combinations, key=lambda reading: reading.departs(default))


def default_reading(options: Options) -> Interpretation:
    """Return the reading that the policy makes."""
    return Interpretation(*(options.default(name) for name, _ in FIELDS.values()))


def _open(options: Options, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values that are open; a dry run in another class shows in its headers, and is no reading here."""
    if options.pinned(name):
        return (options.default(name),)
    return values


def examine(
    ledger: KeyLedger, rate_class: RateClass, run: ObservedRun, options: Options, excluded: Excluded
) -> Examined:
    """Try readings until the default one survives, those that earlier calls of the window excluded aside."""
    result: Examined | None = None
    counted: Counted = {}
    for reading in readings(ledger, rate_class, options):
        calls = calls_under(reading, counted, ledger, rate_class, run, options)
        result = result or Examined(ledger.name, calls)
        against = excluded.get(reading) or acts_otherwise(ledger, rate_class, reading, calls)
        if against is None:
            result.acting.append(reading)
            against = check_stated(calls, reading.window, reading.refused_count)
        if against is not None:
            result.against[reading] = against
            continue
        result.surviving.append(reading)
        if len(result.surviving) == 1 and not result.against:
            break
    assert result is not None
    return result


def excludes(
    limits: Iterable[int], ledger: KeyLedger, rate_class: RateClass, run: ObservedRun, options: Options
) -> Evidence | None:
    """Return what shows that no reading admits and refuses so under one of these limits; None if one may."""
    counted: Counted = {}
    against: Evidence | None = None
    for limit, reading in product(limits, readings(ledger, rate_class, options)):
        calls = calls_under(reading, counted, ledger, rate_class, run, options).allowing(limit)
        evidence = acts_otherwise(ledger, rate_class, reading, calls)
        if evidence is None:
            return None
        against = against or evidence
    return against


def calls_under(
    reading: Interpretation,
    counted_by_reading: Counted,
    ledger: KeyLedger,
    rate_class: RateClass,
    run: ObservedRun,
    options: Options,
) -> WindowCalls:
    """Return the calls of a window under a reading: `counted_by_reading`, by what counts where."""
    counted = (reading.debits_write, reading.dry_run, reading.graphql)
    if counted not in counted_by_reading:
        counted_by_reading[counted] = calls_of(ledger, rate_class, reading, run, options)
    return counted_by_reading[counted]


def acts_otherwise(
    ledger: KeyLedger, rate_class: RateClass, reading: Interpretation, calls: WindowCalls
) -> Evidence | None:
    """Return what a reading cannot have admitted or refused, whatever headers say."""
    evidence = _dry_refused(ledger, rate_class, reading, calls)
    return evidence or CHECKS[reading.window](calls, reading.refused_count)


def _dry_refused(
    ledger: KeyLedger, rate_class: RateClass, reading: Interpretation, calls: WindowCalls
) -> Evidence | None:
    """A dry run that is not counted is never refused."""
    if reading.dry_run != "free":
        return None
    refused = (ledger.dry == 1) & (ledger.kind == REFUSED) & (ledger.rate_class == rate_class)
    if not refused.any():
        return None
    return calls.evidence("a dry run was answered 429, so it is counted", int(ledger.who[refused.argmax()]))
