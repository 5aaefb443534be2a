"""Judge auto-disable: twenty consecutive failed deliveries, and a success starts anew (S91, S92, U66).

Outcomes count in the order in which the sender saw them end, which lies between the arrival and a little
after our answer. An endpoint made in the trace has no failures from before, so the longest run of failures that
the sender can have counted is known, and when the shortest reached twenty; what overlaps is placed both ways.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ranksim.clock import SECOND, Micros
from ranksim.conformance.endpoints import Endpoint, Listing, Setting, endpoints, listing
from ranksim.conformance.history import NEVER, Arrived, History
from ranksim.conformance.options import Options
from ranksim.conformance.retries import outcome
from ranksim.conformance.verdicts import Evidence, Rule, Tally

DISABLED = "webhook.disable"
RESET = "webhook.reset"

RULES = (
    Rule(
        DISABLED, "Twenty consecutive failed deliveries disable an endpoint", (91,), (66, 69), "calibration"
    ),
    Rule(RESET, "Any success sets the count of failures to zero", (92,), (66,), "calibration"),
)

SETTLING = 15 * SECOND
"""How long after the last counted failure an attempt that was already under way may still arrive."""


@dataclass(frozen=True, slots=True)
class End:
    """How one attempt ended: when the sender can have seen it, and whether it counts as a failed delivery."""

    arrived: Arrived
    low: Micros
    high: Micros
    acknowledged: bool | None
    last: bool
    """Whether it was the delivery's last attempt, which is what U66's other option counts."""


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every endpoint that was created in the trace and got attempts."""
    came: dict[str, list[Arrived]] = defaultdict(list)
    for arrived in history.arrived:
        came[arrived.endpoint].append(arrived)
    listed = listing(history)
    for endpoint in endpoints(history).values():
        if endpoint.created is not None and endpoint.untouched and endpoint.id in came:
            _judge_endpoint(endpoint, came[endpoint.id], listed, options, tally)


def _judge_endpoint(
    endpoint: Endpoint, attempts: Sequence[Arrived], listed: Listing, options: Options, tally: Tally
) -> None:
    arrived = {(came.endpoint, came.event, came.attempt) for came in attempts}
    missed = [key for key in listed.attempts if key[0] == endpoint.id and key not in arrived]
    limit = options.facts.webhook_disable_after
    ends = [_end(came, listed, options) for came in attempts]
    disabled = next((setting for setting in endpoint.settings if setting.enabled is False), None)
    faults = {
        way: _early(ends, way, limit, len(missed), disabled) or _late(ends, way, limit, missed, endpoint)
        for way in options.candidates("failure_counted")
    }
    longest = _longest(ends, "attempt", None)
    if disabled is None and longest < limit and not any(faults.values()):
        if _resets(ends, limit):
            tally.held(RESET)
        return
    rule = RESET if disabled is not None and len(ends) >= limit > longest else DISABLED
    _conclude(rule, faults, options, tally)


def _conclude(rule: str, faults: dict[str, Evidence | None], options: Options, tally: Tally) -> None:
    broken = [fault for fault in faults.values() if fault is not None]
    if len(broken) == len(faults):
        tally.broke(rule, min(broken, key=lambda fault: fault.size))
        return
    tally.held(rule)
    default = faults.get(options.default("failure_counted"))
    if default is not None:
        other = next(way for way, fault in faults.items() if fault is None)
        tally.differs(66, options.default("failure_counted"), other, default)


def _end(came: Arrived, listed: Listing, options: Options) -> End:
    """Place one outcome; a success is certain only where it is listed, as its answer may be lost."""
    seen = outcome(came, options.facts.webhook_timeout)
    told = listed.attempts.get((came.endpoint, came.event, came.attempt))
    acknowledged = seen.acknowledged
    if acknowledged and (told is None or told.status != came.status):
        acknowledged = None
    last = came.attempt >= options.facts.webhook_attempts
    return End(came, came.received, seen.at + SECOND, acknowledged, last)


def _counts(end: End, way: str) -> bool:
    return way == "attempt" or end.last


def _early(
    ends: Sequence[End], way: str, limit: int, missed: int, disabled: Setting | None
) -> Evidence | None:
    """Disabled although no order of the outcomes makes a run of `limit` failures."""
    if disabled is None:
        return None
    longest = _longest(ends, way, disabled.seen.received) + missed
    if longest >= limit:
        return None
    seen = disabled.seen
    says = f"{seen.id} shows it disabled after at most {longest} consecutive failures, counted by {way}"
    return Evidence(says, (seen.id,), (), seen.parameters.get("id", seen.operation), seen.sent)


def _late(
    ends: Sequence[End], way: str, limit: int, missed: Sequence[object], endpoint: Endpoint
) -> Evidence | None:
    """Attempts go on, or it is shown enabled, well after `limit` failures surely stood in a row.

    With attempts that are listed and never arrived nothing is sure.
    """
    reached = _reached(ends, way, limit)
    if reached is None or missed:
        return None
    says = f"{limit} failures in a row, counted by {way}, had ended {SETTLING // SECOND} s before"
    for end in ends:
        if end.arrived.received > reached + SETTLING:
            name = f"{end.arrived.event}/{end.arrived.attempt}"
            return Evidence(f"attempt {name} came; {says}", (), (name,), endpoint.id, end.arrived.received)
    for setting in endpoint.settings:
        if setting.enabled is True and setting.seen.sent > reached + SETTLING:
            seen = setting.seen
            return Evidence(f"{seen.id} shows it enabled; {says}", (seen.id,), (), endpoint.id, seen.sent)
    return None


def _longest(ends: Sequence[End], way: str, until: Micros | None) -> int:
    """The longest run of failures that some order allows, of attempts that came before `until`.

    Between two successes may fall every failure that did not surely end before the one or begin after the
    other.
    """
    counted = [end for end in ends if until is None or end.low <= until]
    failures = [end for end in counted if end.acknowledged is not True and _counts(end, way)]
    lows, highs = sorted(end.low for end in failures), sorted(end.high for end in failures)
    successes = sorted((end for end in counted if end.acknowledged), key=lambda end: end.high)
    after = [-1, *(end.low for end in successes)]
    before = [*(end.high for end in successes), NEVER]
    runs = (
        bisect_right(lows, end) - bisect_left(highs, start) for start, end in zip(after, before, strict=True)
    )
    return max(runs, default=0)


def _reached(ends: Sequence[End], way: str, limit: int) -> Micros | None:
    """The instant by which `limit` failures surely stood in a row, whatever the order of what overlaps."""
    run = 0
    open_until = -1
    for end in sorted(ends, key=lambda end: end.high):
        if end.acknowledged is not False:
            run, open_until = 0, max(open_until, end.high)
        elif _counts(end, way) and end.low > open_until:
            run += 1
            if run >= limit and not _success_inside(ends, end.high):
                return end.high
    return None


def _success_inside(ends: Sequence[End], at: Micros) -> bool:
    """Whether an attempt that may have succeeded was under way at that instant."""
    return any(end.acknowledged is not False and end.low <= at <= end.high for end in ends)


def _resets(ends: Sequence[End], limit: int) -> bool:
    """Whether enough failed in all to disable it, if successes had not come in between."""
    return sum(end.acknowledged is False for end in ends) >= limit
