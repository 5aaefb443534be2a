"""Verdicts: what was found for each rule, and the evidence.

A check looks at one instance of a rule (one window, one key, one pair of exchanges) and tells the tally that
the rule held there, that it broke, or that nobody can tell. A rule deviates when it broke anywhere; it
conforms when it held somewhere and broke nowhere; it is undecided when it was exercised and nothing could be
told, and not exercised when no instance came up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ranksim.clock import Micros


class Verdict(StrEnum):
    """What can be said of a rule after a run."""

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    UNDECIDED = "undecided"
    NOT_EXERCISED = "not exercised"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that a trace can show to be broken.

    `name` is "family.rule", `says` the rule in one sentence, `facts` the S numbers it states, `assumptions`
    the U numbers it leans on. `exercise` tells what run would exercise it, beginning with the profile's name.
    """

    name: str
    says: str
    facts: tuple[int, ...]
    assumptions: tuple[int, ...] = ()
    exercise: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The few exchanges (by id) or deliveries (by event/attempt) that cannot all be right.

    `says` tells in numbers what cannot be; `about` names the instance, such as "key main, reads"; `at` is
    when, in µs of the trace's clock.
    """

    says: str
    exchanges: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    about: str = ""
    at: Micros | None = None

    @property
    def size(self) -> int:
        """Return how many things it points at; less is better."""
        return len(self.exchanges) + len(self.deliveries)


@dataclass(frozen=True, slots=True)
class Difference:
    """An assumption whose default the trace excludes; fails nothing unless a policy pinned it.

    `number` is the U number, `assumed` the default, `found` what the trace shows instead.
    """

    number: int
    assumed: str
    found: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one rule: how often it held, broke and stayed open, and the smallest evidence."""

    rule: Rule
    verdict: Verdict
    held: int
    broken: int
    open: int
    evidence: tuple[Evidence, ...]
    reasons: tuple[tuple[str, int], ...]
    """Why instances stayed open, with how many, most frequent first."""


KEPT = 5
"""Pieces of evidence kept for a rule."""


@dataclass(slots=True)
class _RuleCounts:
    held: int = 0
    broken: int = 0
    open: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """Collects what the checks find, rule by rule. Rules must be declared; an unknown name is a KeyError."""

    rules: Sequence[Rule]
    differences: list[Difference] = field(default_factory=list)
    _counts: dict[str, _RuleCounts] = field(init=False)

    def __post_init__(self) -> None:
        self._counts = {rule.name: _RuleCounts() for rule in self.rules}

    def held(self, rule: str, count: int = 1) -> None:
        """Note that the rule held in `count` instances."""
        self._counts[rule].held += count

    def open(self, rule: str, why: str, count: int = 1) -> None:
        """Note that the rule was exercised and is undecided; `why` is a short reason that repeats."""
        counts = self._counts[rule]
        counts.open += count
        counts.reasons[why] += count

    def broke(self, rule: str, evidence: Evidence) -> None:
        """Note that the rule broke: `evidence` cannot be explained by any placement of the calls."""
        counts = self._counts[rule]
        counts.broken += 1
        counts.evidence.append(evidence)
        counts.evidence.sort(key=lambda found: (found.size, -1 if found.at is None else found.at))
        del counts.evidence[KEPT:]

    def check(self, rule: str, holds: bool, evidence: Evidence) -> None:
        """Note that the rule held or broke, by `holds`."""
        if holds:
            self.held(rule)
        else:
            self.broke(rule, evidence)

    def differs(self, number: int, assumed: object, found: object, evidence: Evidence) -> None:
        """Note that the default of assumption U`number` is excluded; a number is noted once."""
        if all(known.number != number for known in self.differences):
            self.differences.append(Difference(number, str(assumed), str(found), evidence))

    def findings(self) -> tuple[Finding, ...]:
        """Return the verdict on every declared rule, in their order."""
        return tuple(self._finding(rule) for rule in self.rules)

    def _finding(self, rule: Rule) -> Finding:
        counts = self._counts[rule.name]
        return Finding(
            rule,
            _verdict(counts),
            counts.held,
            counts.broken,
            counts.open,
            tuple(counts.evidence),
            tuple(counts.reasons.most_common()),
        )


def merged_differences(tallies: Iterable[Tally]) -> tuple[Difference, ...]:
    """Return the differences of all tallies, of each number the first."""
    first: dict[int, Difference] = {}
    for tally in tallies:
        for difference in tally.differences:
            first.setdefault(difference.number, difference)
    return tuple(first.values())


def _verdict(counts: _RuleCounts) -> Verdict:
    if counts.broken:
        return Verdict.DEVIATES
    if counts.held:
        return Verdict.CONFORMS
    return Verdict.UNDECIDED if counts.open else Verdict.NOT_EXERCISED


def coverage(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return (rules exercised, rules in all)."""
    verdicts = [finding.verdict for finding in findings]
    return sum(verdict != Verdict.NOT_EXERCISED for verdict in verdicts), len(verdicts)


def agreement(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return (rules that conform, rules decided); undecided ones and those not exercised count in neither."""
    verdicts = [finding.verdict for finding in findings]
    conforming = sum(verdict == Verdict.CONFORMS for verdict in verdicts)
    return conforming, conforming + sum(verdict == Verdict.DEVIATES for verdict in verdicts)
