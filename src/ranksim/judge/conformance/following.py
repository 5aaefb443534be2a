"""One cause, one finding: which rules are broken by nothing but what breaks another.

A wrong status breaks the error's body and the rule of its code; a window that admits too many tells wrong
headers. A rule names such causes, each with its reason. A finding follows from another only where every one
of its instances rests on an exchange or an attempt that breaks the other rule, too, is about windows of the
same class, is of the same pair of checks, or goes wrong in the same way: a single one that does not makes it
a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ranksim.judge.conformance.rate.elimination import NO_MORE
from ranksim.judge.conformance.verdict.rule import Cause
from ranksim.judge.conformance.verdict.verdicts import Finding, Verdict


def causes(findings: Iterable[Finding]) -> dict[str, Cause]:
    """Return, by rule, from which other its finding follows; of a chain, the first cause."""
    broken = {finding.rule.name: finding for finding in findings if finding.verdict == Verdict.DEVIATES}
    following = dict[str, Cause]()
    for name, finding in broken.items():
        if len(finding.breaches) < finding.broken:
            continue  # some are not known any more
        possible = (cause for cause in finding.rule.follows if broken.keys().isdisjoint(cause.unless))
        for cause in possible:
            if cause.rule in broken and _explains(cause, finding, broken[cause.rule]):
                following[name] = cause
                break
    return {name: _first(cause, following) for name, cause in following.items()}


def _explains(cause: Cause, finding: Finding, other: Finding) -> bool:
    """Return whether all instances of a finding follow from those of the cause."""
    followers, its = finding.breaches, other.breaches
    if cause.place:
        return {_class(by) for by in followers} <= _places(cause, finding, other)
    if cause.case:
        return _pairs(finding, "") <= {_class(by).removesuffix(" calls") for by in its}
    if cause.alike:
        return len({len(by) > 2 for by in (*followers, *its)}) == 1  # a refusal stands alone
    if cause.account:
        return any(cause.tells in piece.says for piece in other.evidence) and _owners(finding) <= _owners(
            other
        )
    by_check = bool(cause.check) and _pairs(finding, "") <= _pairs(other, cause.check)
    return by_check or _rest_on(followers, {name for by in its for name in by[1:]})


def _owners(finding: Finding) -> set[str]:
    return {by[0] for by in finding.breaches}


def _rest_on(breaches: Iterable[tuple[str, ...]], named: set[str]) -> bool:
    """Return whether each breach has an exchange or an attempt among those."""
    return all(not named.isdisjoint(by[1:]) for by in breaches)


def _places(cause: Cause, finding: Finding, other: Finding) -> set[str]:
    """Return the classes of windows that a cause is about."""
    places = {_class(by) for by in other.breaches}
    beyond = any(case.broken and case.name.endswith(NO_MORE) for case in other.cases)
    if cause.uncounted and beyond and len(finding.evidence) == finding.broken:
        places |= {_class((piece.about,)) for piece in finding.evidence if _ALL_LEFT.search(piece.says)}
    return places


_ALL_LEFT: Final = re.compile(r"RateLimit-Remaining ([0-9]+) of \1$")
"""How evidence ends of a call that was admitted and not counted."""


def _class(by: tuple[str, ...]) -> str:
    """Return the class of the window that a breach is about: "write calls" of "key main, write calls"."""
    return by[0].rpartition(", ")[2]


def _pairs(finding: Finding, check: str) -> set[str]:
    """Return the cases in which a rule broke, with the check that its name stands for before them."""
    return {f"{check} {case.name}".strip() for case in finding.cases if case.broken}


def _first(cause: Cause, following: Mapping[str, Cause]) -> Cause:
    while cause.rule in following:
        cause = following[cause.rule]
    return cause
