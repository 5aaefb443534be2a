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
            against = excluded.get(reading) or self.contradicts(reading)
            if against is None:
                result.acting.append(reading)
                against = check_stated(self.calls(reading), reading.window, reading.refused_count)
            if against is not None:
                result.against[reading] = against
                continue
            result.surviving.append(reading)
            if len(result.surviving) == 1 and not result.against:
                break
        return result

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
