"""One cause, one finding: which rules are broken by nothing but what breaks another.

A wrong status breaks the error's body and the rule of its code; a window that admits too many tells wrong
headers. Such pairs are named here, each with its reason. A finding follows from another only where every one
of its instances rests on an exchange or an attempt that breaks the other rule, too, is about windows of the
same class, is of the same pair of checks, or goes wrong in the same way: a single one that does not makes it
a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ranksim.core.contract.facts import CHECK_NAMES
from ranksim.judge.conformance.rate.closest import NO_MORE
from ranksim.judge.conformance.verdict.verdicts import Finding, Verdict


@dataclass(frozen=True, slots=True)
class Cause:
    """The rule from which a finding follows, and why; by the exchanges of both, if nothing else is said.

    By `place` both are about windows of the same class; by `uncounted` the cause admits too many, and every
    other window tells that nothing was counted in it. By `case` the follower's cases are the classes of the
    windows that the cause is about. `alike` windows all refuse too early, or all admit too many. With `check`
    both break in the same pairs of checks: the follower's case is "CHECK before LATER", the cause's "before
    LATER". By `account` both are about the same accounts; with `tells` evidence of the cause says, too, what
    the follower could not bring about. It is none where a rule of `unless` broke, too.
    """

    rule: str
    because: str
    place: bool = False
    uncounted: bool = False
    case: bool = False
    alike: bool = False
    check: str = ""
    account: bool = False
    tells: str = ""
    unless: tuple[str, ...] = ()


_CHECKS: Final = "a dry run reports by the same checks"
_WINDOW: Final = "a window that admits otherwise tells otherwise"
_CLASSES: Final = ("read", "write", "expensive")
_UNCOUNTED: Final = "a limiter that counts no calls has all of them left"
_BODY: Final = "the same error body, read for what its code promises"
_FIELDS: Final = "the same resource, read for what its fields say"
_BOOKS: Final = "the same readings, with dry runs between them"
_LIMITER: Final = "one limiter counts the calls of all classes, and both go wrong in the same way"
_ONCE: Final = "the same acceptance, which should not have been"
_QUEUED: Final = Cause(
    "dry_run.queues", "a job that a dry run starts is reserved, counted and runs", account=True
)

FOLLOWS: Final[Mapping[str, tuple[Cause, ...]]] = {
    "rate.remaining": (
        *(Cause(f"rate.{name}", _WINDOW, place=True) for name in _CLASSES),
        *(Cause(f"rate.{name}", _UNCOUNTED, place=True, uncounted=True) for name in _CLASSES),
    ),
    **{
        f"rate.{name}": (
            Cause("rate.traffic_only", "the refusal that comes too early is one with calls left"),
            Cause("rate.headers", "without RateLimit-Limit nobody knows which window refused"),
            *(Cause(f"rate.{other}", _LIMITER, alike=True) for other in before),
        )
        for name, before in (("read", ()), ("write", ("read",)), ("expensive", ("read", "write")))
    },
    "rate.traffic_only": (
        Cause(
            "rate.remaining",
            "what is told to be left is wrong, and a refusal is told it, too",
            case=True,
            unless=("rate.read", "rate.write", "rate.expensive"),
        ),
    ),
    "rate.retry_after_honoured": (
        Cause("rate.traffic_only", "the refusal that comes too early is one with calls left"),
    ),
    "cost.counted": (_QUEUED,),
    "cost.tracking": (_QUEUED,),
    "quota.counted": (_QUEUED,),
    "dry_run.verdict": (_QUEUED,),
    "dry_run.order": (
        *(
            Cause(f"guards.{name}", _CHECKS, check=check)
            for name, check in zip(
                ("capability", "health", "ceiling", "quota", "slots"), CHECK_NAMES, strict=False
            )
        ),
        Cause("dry_run.verdict", "the same dry run, which says otherwise than the call"),
    ),
    "error.meta": (Cause("quota.meta", _BODY), Cause("cost.meta", _BODY)),
    "guards.codes": (Cause("error.body", _BODY),),
    "quota.meta": (Cause("error.body", _BODY),),
    "cost.meta": (Cause("error.body", _BODY),),
    "error.request_id": (Cause("header.request_id", "what is missing cannot agree"),),
    "resource.fields": (Cause("resource.envelope", "what stands elsewhere is missing here"),),
    "paging.end": (Cause("resource.envelope", "what stands elsewhere is missing here"),),
    "job.kinds": (Cause("resource.fields", _FIELDS),),
    "job.reason": (Cause("resource.fields", _FIELDS),),
    "job.finished": (Cause("resource.fields", _FIELDS),),
    "job.final": (Cause("job.progress", "a job that goes back changes after its end"),),
    "idempotency.replay": (Cause("idempotency.once", "another piece of work has another reply"),),
    "cooldown.stated": (Cause("cooldown.enforced", _ONCE), Cause("cooldown.refused", "the same refusal")),
    "cooldown.enforced": (Cause("cooldown.join", "a second run is what should have been joined"),),
    "dry_run.free": (
        *(Cause(f"{name}.counted", _BOOKS) for name in ("quota", "slots", "cost")),
        Cause(
            "quota.counted",
            "a count that is too low at times rises by itself",
            account=True,
            tells="expected at least",
        ),
        _QUEUED,
    ),
    "slots.limit": (Cause("slots.counted", "the same reading"),),
    "slots.held": (Cause("slots.counted", "the same reading"),),
    "webhook.fresh": (Cause("webhook.signature", "t is part of what is signed"),),
    "webhook.attempts": (Cause("webhook.headers", "what is missing cannot be counted"),),
    "webhook.event": (Cause("webhook.headers", "what is missing names no event"),),
    "webhook.six_attempts": (Cause("webhook.retry_delays", "the attempt that comes at no stated time"),),
}
"""By rule: from which others its breaches may follow; the first that explains all of them is told."""


def causes(findings: Iterable[Finding]) -> dict[str, Cause]:
    """Return, by rule, from which other its finding follows; of a chain, the first cause."""
    broken = {finding.rule.name: finding for finding in findings if finding.verdict == Verdict.DEVIATES}
    found = dict[str, Cause]()
    for name, finding in broken.items():
        if len(finding.breaches) < finding.broken:
            continue  # some are not known any more
        for cause in FOLLOWS.get(name, ()):
            other = broken.get(cause.rule)
            if (
                other is not None
                and broken.keys().isdisjoint(cause.unless)
                and _explains(cause, finding, other)
            ):
                found[name] = cause
                break
    return {name: _first(cause, found) for name, cause in found.items()}


def _explains(cause: Cause, finding: Finding, other: Finding) -> bool:
    """Return whether all instances of a finding follow from those of the cause."""
    mine, its = finding.breaches, other.breaches
    if cause.place:
        places = {_class(by) for by in its}
        if cause.uncounted and _beyond(other) and len(finding.evidence) == finding.broken:
            places |= {_class((piece.about,)) for piece in finding.evidence if _ALL_LEFT.search(piece.says)}
        return {_class(by) for by in mine} <= places
    if cause.case:
        return _pairs(finding, "") <= {_class(by).removesuffix(" calls") for by in its}
    if cause.alike:
        return len({len(by) > 2 for by in (*mine, *its)}) == 1  # a refusal stands alone
    if cause.account:
        told = any(cause.tells in piece.says for piece in other.evidence)
        return told and {by[0] for by in mine} <= {by[0] for by in its}
    named = {one for by in its for one in by[1:]}
    if all(not named.isdisjoint(by[1:]) for by in mine):
        return True
    return bool(cause.check) and _pairs(finding, "") <= _pairs(other, cause.check)


_ALL_LEFT: Final = re.compile(r"RateLimit-Remaining ([0-9]+) of \1$")
"""How evidence ends of a call that was admitted and not counted."""


def _beyond(finding: Finding) -> bool:
    """Return whether windows admitted too many."""
    return any(case.broken and case.name.endswith(NO_MORE) for case in finding.cases)


def _class(by: tuple[str, ...]) -> str:
    """Return the class of the window that a breach is about: "write calls" of "key main, write calls"."""
    return by[0].rpartition(", ")[2]


def _pairs(finding: Finding, check: str) -> set[str]:
    """Return the cases in which a rule broke, with the check that its name stands for before them."""
    return {f"{check} {case.name}".strip() for case in finding.cases if case.broken}


def _first(cause: Cause, found: Mapping[str, Cause]) -> Cause:
    while cause.rule in found:
        cause = found[cause.rule]
    return cause
