"""Verdicts: what was found for each rule, and the evidence.

A check looks at one instance of a rule (one window, one key, one pair of exchanges) and tells the tally that
the rule held there, that it broke, or that nobody can tell. A rule deviates when it broke anywhere; it
conforms when it held in some case, in the essential ones among them, and broke nowhere; it is undecided when
it was exercised and that cannot be told, and not exercised when no instance came up.

A rule has cases: the ways in which a deployment could break it apart from the others, such as each check
before each other, or each kind of job. A case is exercised where an exchange would have shown it broken; so a
rule that conforms in one case of fifteen says no more than that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ranksim.core.clock import Micros
from ranksim.judge.conformance.verdict.rule import ANY, Rule


class Verdict(StrEnum):
    """What can be said of a rule after a run."""

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    UNDECIDED = "undecided"
    NOT_EXERCISED = "not exercised"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The few exchanges (by id) or deliveries (by event/attempt) that cannot all be right.

    `says` tells in numbers what cannot be; `about` names the instance, such as "key main, reads"; `at` is
    when, in µs of the trace's clock. `expected` is what would have been right, where the rule's sentence has
    not the numbers. `readings` names each reading of what is open that was tried, and what it fails on.
    `between` are exchanges that prove nothing, and may tell why.
    """

    says: str
    exchanges: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    about: str = ""
    at: Micros | None = None
    expected: str = ""
    readings: tuple[tuple[str, Evidence], ...] = ()
    between: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Return the ids of all exchanges that are to be shown."""
        return (*self.exchanges, *self.between)

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
class Case:
    """One case of a rule: how often it held and broke, and the first exchanges or deliveries that tell.

    `by` has the ids of exchanges, and "event/attempt" of deliveries; which of several is told is no finding.
    """

    name: str
    held: int = 0
    broken: int = 0
    by: tuple[str, ...] = field(default=(), compare=False)

    @property
    def exercised(self) -> bool:
        """Whether it was decided, one way or the other."""
        return bool(self.held or self.broken)

    @property
    def conforms(self) -> bool:
        """Whether it held and never broke."""
        return bool(self.held and not self.broken)


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
    cases: tuple[Case, ...] = ()
    """All cases that the rule has here, at least one."""
    wanting: tuple[str, ...] = ()
    """What to say of each essential case that did not hold, where it would conform but for these."""
    breaches: tuple[tuple[str, ...], ...] = field(default=(), compare=False, repr=False)
    """What each instance that broke is about, its exchanges, its deliveries; of `MOST_BREACHES` at most."""

    @property
    def exercised(self) -> int:
        """How many of its cases were decided."""
        return sum(case.exercised for case in self.cases)

    @property
    def in_all_cases(self) -> bool:
        """Whether it conforms, in every case that it has."""
        return all(case.conforms for case in self.cases)

    @property
    def left(self) -> tuple[str, ...]:
        """The cases that nothing decided."""
        return tuple(case.name for case in self.cases if not case.exercised)


KEPT = 5
"""Pieces of evidence kept for a rule."""

SHOWN = 3
"""Exchanges kept for a case."""

IN_KEEPING = "what was seen is in keeping with it, and could not have shown it broken"
"""Why a rule that held in no case is undecided."""

MOST_BREACHES = 10_000
"""Instances of a broken rule whose exchanges are kept, to tell what follows from what."""


@dataclass(slots=True)
class _CaseCounts:
    held: int = 0
    broken: int = 0
    by: list[str] = field(default_factory=list)

    def note(self, ids: Iterable[str]) -> None:
        """Keep the first few ids."""
        if len(self.by) < SHOWN:
            self.by += [name for name in ids if name not in self.by][: SHOWN - len(self.by)]


@dataclass(slots=True)
class _RuleCounts:
    held: int = 0
    broken: int = 0
    open: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    cases: dict[str, _CaseCounts] = field(default_factory=dict)
    breaches: list[tuple[str, ...]] = field(default_factory=list)

    def case(self, name: str) -> _CaseCounts:
        """Return the counts of a case."""
        counts = self.cases.get(name)
        if counts is None:  # no setdefault: cases are counted several times an exchange, and rarely new
            counts = self.cases[name] = _CaseCounts()
        return counts

    def finding(self, rule: Rule) -> Finding:
        """Return the verdict on the rule that they are of."""
        held = [name for name, case in self.cases.items() if case.held]
        wanting = missing_cases(rule, held) if held and not self.broken else ()
        verdict, reasons = _verdict(self, wanting), Counter(self.reasons)
        for says in (IN_KEEPING, *rule.essential.values()):
            del reasons[says]  # of the runs that were merged
        if verdict == Verdict.UNDECIDED and self.held and not wanting:
            reasons[IN_KEEPING] = self.held
        counted = [(says, 1) for says in wanting]
        return Finding(
            rule,
            verdict,
            self.held,
            self.broken,
            self.open,
            tuple(self.evidence),
            (*counted, *reasons.most_common()),
            tuple(Case(name, case.held, case.broken, tuple(case.by)) for name, case in self.cases.items())
            or (Case(ANY),),
            wanting,
            tuple(self.breaches),
        )


@dataclass(slots=True)
class Tally:
    """Collects what the checks find, rule by rule. Rules must be declared; an unknown name is a KeyError."""

    rules: Sequence[Rule]
    differences: list[Difference] = field(default_factory=list)
    _counts: dict[str, _RuleCounts] = field(init=False)

    def __post_init__(self) -> None:
        self._counts = {
            rule.name: _RuleCounts(cases={name: _CaseCounts() for name in rule.cases}) for rule in self.rules
        }

    def expect(self, rule: str, *cases: str) -> None:
        """Note cases that the rule has at this deployment, by its keys or plans."""
        for case in cases:
            self._counts[rule].case(case)

    def held(self, rule: str, count: int = 1, *, case: str | None = ANY, by: Iterable[str] = ()) -> None:
        """Note that the rule held in `count` instances of a case, as the exchanges `by` would have shown.

        Without a case (None) they were no more than in keeping with it: no breach could have been seen.
        """
        counts = self._counts[rule]
        counts.held += count
        if case is None or not count:
            return
        counted = counts.case(case)
        counted.held += count
        counted.note(by)

    def covers(self, rule: str, case: str, by: Iterable[str], *, holds: bool = True) -> None:
        """Note a case in which a rule held or broke, beside its instances, which are counted elsewhere."""
        counted = self._counts[rule].case(case)
        counted.held += holds
        counted.broken += not holds
        counted.note(by)

    def open(self, rule: str, why: str, count: int = 1) -> None:
        """Note that the rule was exercised and is undecided; `why` is a short reason that repeats."""
        counts = self._counts[rule]
        counts.open += count
        counts.reasons[why] += count

    def broke(self, rule: str, evidence: Evidence, *, case: str = ANY) -> None:
        """Note that the rule broke: `evidence` cannot be explained by any placement of the calls."""
        counts = self._counts[rule]
        counted = counts.case(case)
        counted.broken += 1
        by = (*evidence.exchanges, *evidence.deliveries)
        counted.note(by)
        counts.broken += 1
        if len(counts.breaches) < MOST_BREACHES:
            counts.breaches.append((evidence.about, *by))
        counts.evidence.append(evidence)
        counts.evidence.sort(key=lambda piece: (piece.size, -1 if piece.at is None else piece.at))
        del counts.evidence[KEPT:]

    def check(self, rule: str, holds: bool, evidence: Evidence, *, case: str | None = ANY) -> None:
        """Note that the rule held or broke, by `holds`."""
        if holds:
            self.held(rule, case=case, by=(*evidence.exchanges, *evidence.deliveries))
        else:
            self.broke(rule, evidence, case=case or ANY)

    def differs(self, number: int, assumed: object, instead: object, evidence: Evidence) -> None:
        """Note that the default of assumption U`number` is excluded; a number is noted once."""
        if all(earlier.number != number for earlier in self.differences):
            self.differences.append(Difference(number, str(assumed), str(instead), evidence))

    def breaks_or_differs(
        self,
        number: int,
        assumed: object,
        instead: object,
        evidence: Evidence,
        rule: str,
        case: str = ANY,
        *,
        pinned: bool,
    ) -> None:
        """Note evidence against assumption U`number`: a breach of a rule where it is `pinned`."""
        if pinned:
            self.broke(rule, evidence, case=case)
        else:
            self.differs(number, assumed, instead, evidence)

    def breaches(self) -> dict[str, Evidence]:
        """Return the smallest evidence of each rule that broke, in their order."""
        return {name: counts.evidence[0] for name, counts in self._counts.items() if counts.broken}

    def findings(self) -> tuple[Finding, ...]:
        """Return the verdict on every declared rule, in their order."""
        return tuple(self._counts[rule.name].finding(rule) for rule in self.rules)


def merged_findings(runs: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """Return the findings of several runs as one: what held, broke or stayed open in any of them."""
    return tuple(_merged(findings) for findings in zip(*runs, strict=True))


def _merged(findings: Sequence[Finding]) -> Finding:
    counts = _RuleCounts()
    for finding in findings:
        counts.held += finding.held
        counts.broken += finding.broken
        counts.open += finding.open
        counts.evidence += finding.evidence
        counts.breaches += finding.breaches
        counts.reasons.update(dict(finding.reasons))
        for case in finding.cases:
            counted = counts.case(case.name)
            counted.held += case.held
            counted.broken += case.broken
            counted.note(case.by)
    unsplit = counts.cases.get(ANY)
    if unsplit is not None and len(counts.cases) > 1 and not unsplit.held and not unsplit.broken:
        del counts.cases[ANY]  # a run in which nothing came up has no case of its own
    counts.evidence.sort(key=lambda piece: piece.size)
    del counts.evidence[KEPT:]
    return counts.finding(findings[0].rule)


def merged_differences(tallies: Iterable[Tally]) -> tuple[Difference, ...]:
    """Return the differences of all tallies, of each number the first."""
    first: dict[int, Difference] = {}
    for tally in tallies:
        for difference in tally.differences:
            first.setdefault(difference.number, difference)
    return tuple(first.values())


def _verdict(counts: _RuleCounts, wanting: Sequence[str]) -> Verdict:
    if counts.broken:
        return Verdict.DEVIATES
    if any(case.held for case in counts.cases.values()) and not wanting:
        return Verdict.CONFORMS
    return Verdict.UNDECIDED if counts.open or counts.held or wanting else Verdict.NOT_EXERCISED


def missing_cases(rule: Rule, held: Collection[str]) -> tuple[str, ...]:
    """Return what to say of each essential case of a rule of which none has `held`."""
    return tuple(
        says
        for pattern, says in rule.essential.items()
        if not any(re.fullmatch(pattern, case) for case in held)
    )


def coverage(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return (cases exercised, cases in all)."""
    cases = [case for finding in findings for case in finding.cases]
    return sum(case.exercised for case in cases), len(cases)


def agreement(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return (cases that conform, cases decided); what is not exercised counts in neither."""
    decided = [case for finding in findings for case in finding.cases if case.exercised]
    return sum(case.conforms for case in decided), len(decided)


def rules_decided(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return (rules that conform or deviate, rules in all)."""
    verdicts = [finding.verdict for finding in findings]
    return sum(verdict in (Verdict.CONFORMS, Verdict.DEVIATES) for verdict in verdicts), len(verdicts)
