"""Judge auto-disable: twenty consecutive failed deliveries, and a success starts anew (S91, S92, U66).

An endpoint made in the trace has no failures from before, so the longest run of failures that the sender can
have counted is known, and when the shortest reached twenty; what overlaps is placed both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ranksim.clock import DISTANT_FUTURE, SECOND, Micros, format_millis
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Evidence, Rule, Tally
from ranksim.conformance.webhooks.endpoints import (
    EndpointHistory,
    EndpointSetting,
    ObservedEndpoint,
    WebhookLog,
)
from ranksim.conformance.webhooks.failure_runs import AttemptEnd, longest, reached

DISABLED = "webhook.disable"
RESET = "webhook.reset"

RULES = (
    Rule(
        DISABLED,
        "Twenty consecutive failed deliveries disable an endpoint",
        (91,),
        (66, 69, 71),
        "calibration",
    ),
    Rule(RESET, "Any success sets the count of failures to zero", (92,), (66,), "calibration"),
)

SETTLING = 15 * SECOND
"""How long after the last counted failure an attempt that was already under way may still arrive."""

SHOWING = 3 * SECOND
"""How long after it noted the last failure a deployment may still show the endpoint as enabled."""

GONE = 410
"""A status after which an endpoint may be disabled at once, where U71 is otherwise."""


@dataclass
class AutoDisableJudge:
    """Judges every endpoint that was created in the run, left alone, and got attempts."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    log: WebhookLog = field(default_factory=WebhookLog)

    def wants(self, like: Observation) -> bool:
        """What tells of endpoints and of attempts."""
        return WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log it."""
        self.log.add(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Log it."""
        self.log.arrived.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, compare the failures of each endpoint with when it was disabled."""
        if watermark < DISTANT_FUTURE:
            return
        ledger = EndpointHistory.of(self.log, run, self.options)
        for endpoint in ledger.known.values():
            if endpoint.created is not None and endpoint.id in ledger.came:
                if not endpoint.untouched or endpoint.settings[0].enabled is False or not run.exclusive:
                    continue
                _judge_endpoint(endpoint, ledger, self.options, self.tally)


def _judge_endpoint(
    endpoint: ObservedEndpoint, ledger: EndpointHistory, options: Options, tally: Tally
) -> None:
    limit = options.facts.webhook_disable_after
    ends = ledger.ends(endpoint.id)
    disabled = endpoint.disabled
    rest = ledger.unheard[endpoint.id]
    whole = disabled is None or ledger.since_creation(endpoint, disabled.seen.received) is not None
    faults = {
        way: _early(ends, way, limit - rest, disabled) or _late(ends, way, limit, endpoint)
        for way in options.candidates("failure_counted")
    }
    run = longest(ends, "attempt") + rest
    enough = sum(end.acknowledged is False for end in ends) >= limit
    rule = RESET if disabled is not None and enough and run < limit else DISABLED
    fault = faults[options.default("failure_counted")]
    if all(faults.values()):
        _broken(rule, ends, [fault for fault in faults.values() if fault], disabled, whole, tally)
    elif fault is not None and whole:
        other = next(way for way, found in faults.items() if found is None)
        tally.differs(66, options.default("failure_counted"), other, fault)
    elif disabled is not None:
        tally.held(rule, by=(disabled.seen.id,))
    elif run < limit:
        if enough:
            tally.held(RESET, by=[f"{end.arrived.event}/{end.arrived.attempt}" for end in ends[-1:]])
    else:
        tally.open(DISABLED, "so many failed that it may have been disabled, and nothing tells")


def _broken(
    rule: str,
    ends: Sequence[AttemptEnd],
    faults: Sequence[Evidence],
    disabled: EndpointSetting | None,
    whole: bool,
    tally: Tally,
) -> None:
    smallest = min(faults, key=lambda fault: fault.size)
    if disabled is None or whole:
        if disabled is not None and any(end.arrived.status == GONE for end in ends):
            tally.differs(71, "no special case", "410 disables", smallest)
        else:
            tally.broke(rule, smallest)
    else:
        tally.open(rule, "attempts may have failed that neither arrived nor are listed")


def _early(
    ends: Sequence[AttemptEnd], way: str, limit: int, disabled: EndpointSetting | None
) -> Evidence | None:
    """Disabled although no order of the outcomes makes a run of `limit` failures."""
    if disabled is None:
        return None
    run = longest(ends, way, disabled.seen.received)
    if run >= limit:
        return None
    seen = disabled.seen
    says = f"{seen.id} shows it disabled after at most {run} consecutive failures, counted by {way}"
    about = seen.parameters.get("id", seen.operation)
    return Evidence(says, (seen.id,), (), about, seen.sent, "enabled, after so few failures")


def _late(ends: Sequence[AttemptEnd], way: str, limit: int, endpoint: ObservedEndpoint) -> Evidence | None:
    """Attempts go on, or it is shown enabled, well after `limit` failures surely stood in a row.

    Attempts that never arrived failed too, and so only make the run longer.
    """
    by = reached(ends, way, limit)
    if by is None:
        return None
    for end in ends:
        if end.arrived.received > by + SETTLING:
            name = f"{end.arrived.event}/{end.arrived.attempt}"
            return Evidence(
                f"attempt {name} came {format_millis(end.arrived.received - by)} after {limit} failures in a "
                f"row, counted by {way}",
                (),
                (name,),
                endpoint.id,
                end.arrived.received,
                f"no attempt after {limit} failures",
            )
    for setting in endpoint.settings:
        seen = setting.seen
        if setting.enabled is True and seen.sent > by + SHOWING:
            says = (
                f"{seen.id} shows it enabled {format_millis(seen.sent - by)} after {limit} failures in a row"
            )
            expected = f"disabled after {limit} failures"
            return Evidence(f"{says}, counted by {way}", (seen.id,), (), endpoint.id, seen.sent, expected)
    return None
