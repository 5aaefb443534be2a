"""One cause, one finding: which rules are broken by nothing but what breaks another.

A wrong status breaks the error's body and the rule of its code; a window that admits too many tells wrong
headers. Such pairs are named here, each with its reason. A finding follows from another only where every one
of its instances rests on an exchange or an attempt that breaks the other rule, too, is about the same
window, or is of the same pair of checks: a single one that does not makes it a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ranksim.conformance.verdict.verdicts import Finding, Verdict
from ranksim.contract.facts import CHECK_NAMES


@dataclass(frozen=True, slots=True)
class Cause:
    """The rule from which a finding follows, and why; `place` where both are about one window.

    With `check` both break in the same pairs of checks: the follower's case is "CHECK before LATER", the
    cause's "before LATER".
    """

    rule: str
    because: str
    place: bool = False
    check: str = ""


_CHECKS: Final = "a dry run reports by the same checks"
_WINDOW: Final = "a window that admits otherwise tells otherwise"
_BODY: Final = "the same error body, read for what its code promises"
_FIELDS: Final = "the same resource, read for what its fields say"
_BOOKS: Final = "the same readings, with dry runs between them"
_ONCE: Final = "the same acceptance, which should not have been"

FOLLOWS: Final[Mapping[str, tuple[Cause, ...]]] = {
    "rate.remaining": tuple(
        Cause(f"rate.{name}", _WINDOW, place=True) for name in ("read", "write", "expensive")
    ),
    **{
        f"rate.{name}": (
            Cause("rate.traffic_only", "the refusal that comes too early is one with calls left"),
            Cause("rate.headers", "without RateLimit-Limit nobody knows which window refused"),
        )
        for name in ("read", "write", "expensive")
    },
    "rate.retry_after_honoured": (
        Cause("rate.traffic_only", "the refusal that comes too early is one with calls left"),
    ),
    "dry_run.order": tuple(
        Cause(f"guards.{name}", _CHECKS, check=check)
        for name, check in zip(
            ("capability", "health", "ceiling", "quota", "slots"), CHECK_NAMES, strict=False
        )
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
    "dry_run.free": tuple(Cause(f"{name}.counted", _BOOKS) for name in ("quota", "slots", "cost")),
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
    places = {name: {by[0] for by in finding.breaches} for name, finding in broken.items()}
    calls = {name: {one for by in finding.breaches for one in by[1:]} for name, finding in broken.items()}
    found = dict[str, Cause]()
    for name, finding in broken.items():
        if len(finding.breaches) < finding.broken:
            continue  # some are not known any more
        for cause in FOLLOWS.get(name, ()):
            known = (places if cause.place else calls).get(cause.rule, set())
            told = [by[:1] if cause.place else by[1:] for by in finding.breaches]
            pairs = _pairs(broken.get(cause.rule), cause.check)
            if all(not known.isdisjoint(by) for by in told) or (cause.check and _pairs(finding, "") <= pairs):
                found[name] = cause
                break
    return {name: _first(cause, found) for name, cause in found.items()}


def _pairs(finding: Finding | None, check: str) -> set[str]:
    """Return the cases in which a rule broke, with the check that its name stands for before them."""
    cases = finding.cases if finding is not None else ()
    return {f"{check} {case.name}".strip() for case in cases if case.broken}


def _first(cause: Cause, found: Mapping[str, Cause]) -> Cause:
    while cause.rule in found:
        cause = found[cause.rule]
    return cause
