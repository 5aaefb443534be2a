"""What no text states and one exchange by itself shows: statuses that are assumed, and what stands at a path.

Another choice than the assumed one fails nothing: it is reported as an assumption that differs.
"""

from collections.abc import Mapping
from typing import Final

from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.history.fields import sent_body
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

ASSUMED: Mapping[str, int] = {
    "forbidden": 14,
    "idempotency_mismatch": 17,
    "idempotency_in_progress": 18,
    "not_found": 24,
    "invalid_request": 24,
    "validation_failed": 24,
    "method_not_allowed": 24,
    "unsupported_media_type": 24,
    "idempotency_key_invalid": 32,
    "job_accepted": 40,
    "test_accepted": 72,
    "preflight": 80,
    "deleted": 84,
    "payload_too_large": 86,
    "endpoint_disabled": 98,
    "created": 104,
    "dry_run": 104,
}
"""The codes and cases whose status is assumed, and by which number; others are judged beside their rules."""


def note_choice(seen: Observation, options: Options, tally: Tally) -> None:
    """Note where an exchange shows another choice than the assumed one, unless that is pinned."""
    _check_status(seen, options, tally)
    _check_paths(seen, tally)


def _check_status(seen: Observation, options: Options, tally: Tally) -> None:
    """A status that no text shows differs from the assumed one, which fails nothing unless it is pinned."""
    case = "" if seen.outside else _status_case(seen)
    if case not in ASSUMED or options.status(case) is not None:
        return
    assumed = options.default_status(case)
    if seen.status != assumed:
        says = f"{seen.id} ({case.replace('_', ' ')}) was answered {seen.status}"
        evidence = Evidence(says, (seen.id,), about=seen.operation or seen.path, at=seen.sent)
        tally.differs(ASSUMED[case], f"{case} {assumed}", seen.status, evidence)


WIDENING: Final = frozenset({"entitlement_required", "slot_limit_exceeded"})
"""The checks of a PATCH that widens a scan, by default (U95)."""


def _check_paths(seen: Observation, tally: Tally) -> None:
    """What stands at a stated path is there (U107); a PATCH of a scan meets no check but two (U95).

    A list or a single without parameters exists, whatever it holds, so it is neither 404 nor 405 but where
    its path, or its prefix, is another one (S5, S112).
    """
    if seen.surface != "rest" or seen.lost or seen.outside:
        return
    if seen.operation == "scans.update" and seen.code in CHECK_OF.keys() - WIDENING:
        evidence = Evidence(f"{seen.id} was refused {seen.code}", (seen.id,), at=seen.sent)
        tally.differs(95, "dimensions_slots", "all", evidence)
    operation = OPERATIONS.get(seen.operation)
    if (
        operation is None
        or operation.method != "GET"
        or "{" in operation.path
        or seen.query.keys() - {"limit"}
    ):
        return
    if seen.status in (404, 405) and seen.key:
        evidence = Evidence(
            f"{seen.id} was answered {seen.status}", (seen.id,), about=operation.path, at=seen.sent
        )
        tally.differs(107, f"GET /v1/{operation.path}", f"{seen.status} there", evidence)


def _status_case(seen: Observation) -> str:
    """Return the code, or the case of a success, that has a status of its own; "" for none.

    A rank run may be joined, which has another status (U40).
    """
    if seen.lost or seen.surface != "rest":
        return ""
    if seen.code or not seen.ok:
        return seen.code
    if seen.method == "OPTIONS":
        return "preflight"
    operation = OPERATIONS.get(seen.operation)
    if operation is None:
        return ""
    if operation.spends and seen.dry_run:
        return "dry_run"
    if seen.operation == "jobs.create":
        return "job_accepted" if sent_body(seen).get("kind") in JOINED_NEVER else ""
    if seen.operation == "webhooks.test":
        return "test_accepted"
    if operation.method == "DELETE":
        return "deleted"
    return "created" if seen.operation.endswith(".create") else ""


JOINED_NEVER = ("crawl", "site_optimization", "ai_scan")
"""The kinds of jobs that are not joined (S53-S55)."""
