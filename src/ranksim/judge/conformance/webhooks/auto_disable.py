"""Judge auto-disable: twenty consecutive failed deliveries, and a success starts anew (S91, S92, U66, U70).

An endpoint made in the trace has no failures from before, so the longest run of failures that the sender can
have counted is known, and when the shortest reached twenty; what overlaps is placed both ways. What it counts
is known until a call changes the endpoint, and again from one that enables it after it was disabled: nothing
as yet, or what disabled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    EndpointHistory,
    EndpointSetting,
    ObservedEndpoint,
    WebhookLog,
)
from ranksim.judge.conformance.webhooks.failure_runs import AttemptEnd, longest, reached

DISABLED = "webhook.disable"
RESET = "webhook.reset"

RULES = declare(
    Rule(
        DISABLED,
        "Twenty consecutive failed deliveries disable an endpoint",
        (91,),
        (66, 69, 70, 71),
        ways=(Breach(91, "an endpoint is disabled too early or too late"),),
    ),
    Rule(
        RESET,
        "Any success sets the count of failures to zero",
        (92,),
        (66,),
        ways=(Breach(92, "a success does not zero the count"),),
        needs=(Requirement.RETRY,),
    ),
    exercise="endpoints; calibration",
    looks_at=ENDPOINT_FIELDS,
    needs=(Requirement.RECEIVER, Requirement.SPENDING, Requirement.JOB_END),
)

SETTLING = 15 * SECOND
"""How long after the last counted failure an attempt that was already under way may still arrive."""

SHOWING = 3 * SECOND
"""How long after it noted the last failure a deployment may still show the endpoint as enabled."""

GONE = 410
"""A status after which an endpoint may be disabled at once, where U71 is otherwise."""


@dataclass
class AutoDisableJudge:
    """Judges every endpoint that was created in the run and got attempts, until it was changed.

    Where the change was to enable it again, it is judged on.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    log: WebhookLog = field(default_factory=WebhookLog)

    def wants(self, like: Observation) -> bool:
        """What shows endpoints or attempts."""
        return WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log an exchange."""
        self.log.add(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Log an attempt that arrived."""
        self.log.arrived.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, compare the failures of each endpoint with when it was disabled."""
        if watermark < DISTANT_FUTURE:
            return
        ledger = EndpointHistory.of(self.log, run, self.options)
        for endpoint in ledger.endpoints.values():
            if endpoint.created is not None and endpoint.id in ledger.came:
                if endpoint.settings[0].enabled is False or not run.exclusive:
                    continue
                ways = _judge_untouched(endpoint, ledger, self.options, self.tally)
                _judge_enabled_again(endpoint, ledger, ways, self.options, self.tally)


def _judge_untouched(
    endpoint: ObservedEndpoint, ledger: EndpointHistory, options: Options, tally: Tally
) -> list[str]:
    """Judge an endpoint until it was changed; return the ways to count failures (U66) that explain it."""
    limit, until = options.facts.webhook_disable_after, endpoint.untouched_until
    ends, settings = ledger.ends(endpoint.id, until), endpoint.settings_until(until)
    disabled = _first_disabled(settings)
    rest = ledger.unheard[endpoint.id]
    all_listed = _all_listed(endpoint, disabled, ledger)
    faults = {
        way: _early(ends, way, limit - rest, disabled) or _late(ends, way, limit, settings)
        for way in options.candidates("failure_counted")
    }
    run = longest(ends, "attempt") + rest
    enough = sum(end.acknowledged is False for end in ends) >= limit
    rule = RESET if disabled is not None and enough and run < limit else DISABLED
    fault = faults[options.default("failure_counted")]
    explaining = [way for way, evidence in faults.items() if evidence is None]
    if not explaining:
        _broken(rule, ends, list(filter(None, faults.values())), disabled, all_listed, tally)
    elif fault is not None and all_listed:
        tally.differs(66, options.default("failure_counted"), explaining[0], fault)
    elif disabled is not None:
        tally.held(rule, by=(disabled.seen.id,))
    elif run < limit:
        if enough:
            tally.held(RESET, by=[end.arrived.name for end in ends[-1:]])
    else:
        tally.open(DISABLED, "so many failed that it may have been disabled, and nothing tells")
    return explaining


def _judge_enabled_again(
    endpoint: ObservedEndpoint,
    ledger: EndpointHistory,
    ways: Sequence[str],
    options: Options,
    tally: Tally,
) -> None:
    """Judge an endpoint that its failures had disabled and a PATCH enabled, until it was changed again (U70).

    Necessary: where the count starts at zero, what disables it is twenty failures that may have been noted
    since; where it was kept, one that surely came since does.
    """
    again = next(iter(endpoint.touched), None)
    ends = ledger.ends(endpoint.id)
    if again is None or not _enables(again) or any(end.arrived.status == GONE for end in ends):
        return
    disabled = _first_disabled(endpoint.settings_until(again.sent))
    if disabled is None:
        return
    _judge_paused(disabled, again, ends, ledger.unheard[endpoint.id], options, tally)
    faults = {
        count: _smallest([_fault_since(endpoint, again, ledger, way, count) for way in ways])
        for count in options.candidates("count_on_enable")
    }
    default = options.default("count_on_enable")
    fault = faults[default]
    if fault is None:
        return
    says, exchanges = f"{fault.says}, since {again.id} enabled it", (again.id, *fault.exchanges)
    fault = replace(fault, says=says, exchanges=exchanges)
    other = next((count for count, evidence in faults.items() if evidence is None), None)
    if other is None:
        tally.broke(DISABLED, fault)
    else:
        tally.differs(70, default, other, fault)


def _judge_paused(
    disabled: EndpointSetting,
    again: Observation,
    ends: Sequence[AttemptEnd],
    rest: int,
    options: Options,
    tally: Tally,
) -> None:
    """A retry that was pending when its endpoint was disabled comes after all where it was paused (U69).

    Necessary: what failed before so many had come as disable an endpoint had its retry pending then; and what
    was sent before it was disabled comes within the sender's patience. `rest` attempts came to nobody.
    """
    count = options.facts.webhook_disable_after - rest
    lows = sorted(end.low for end in ends if end.acknowledged is not True)
    if options.default("on_disable") == "pause" or count < 1 or len(lows) < count:
        return
    pending = {end.arrived.event: end.arrived for end in ends if end.high < lows[count - 1]}
    since = max(again.received, disabled.seen.received + options.facts.webhook_timeout)
    for end in ends:
        first = pending.get(end.arrived.event)
        if first is None or end.arrived.attempt <= first.attempt or end.low <= since:
            continue
        says = f"attempt {end.arrived.attempt} came, which waited while its endpoint was disabled"
        names = tuple(attempt.name for attempt in (first, end.arrived))
        evidence = Evidence(says, (again.id,), names, end.arrived.endpoint, end.low)
        if "pause" in options.candidates("on_disable"):
            tally.differs(69, "cancel", "pause", evidence)
        else:
            tally.broke(DISABLED, evidence)
        return


def _enables(again: Observation) -> bool:
    """Whether a call enabled an endpoint, and did nothing else."""
    endpoint = again.data if isinstance(again.data, dict) else {}
    return again.ok and again.body == {"enabled": True} and endpoint.get("enabled") is True


def _fault_since(
    endpoint: ObservedEndpoint, again: Observation, ledger: EndpointHistory, way: str, count: str
) -> Evidence | None:
    """What cannot be since an endpoint was enabled, if failures are counted in a way, and from a count on."""
    limit, ends = ledger.facts.webhook_disable_after, ledger.ends(endpoint.id)
    until = endpoint.touched[1].sent if len(endpoint.touched) > 1 else DISTANT_FUTURE
    since = again.received + SHOWING
    settings = [setting for setting in endpoint.settings_until(until) if since < setting.seen.sent]
    later = [end for end in ends if again.received < end.low <= until]
    if count == "kept":
        earlier = [end for end in ends if end.low <= again.sent]
        full = reached(earlier, way, limit)
        sure = full is not None and full <= again.sent and all(end.acknowledged is False for end in ends)
        return _late(later, way, 1, settings) if sure else None
    disabled = _first_disabled(settings)
    all_listed = _all_listed(endpoint, disabled, ledger)
    rest = ledger.unheard[endpoint.id]
    maybe = [end for end in ends if again.sent <= end.high]
    early = _early(maybe, way, limit - rest, disabled) if all_listed else None
    return early or _late(later, way, limit, settings)


def _all_listed(
    endpoint: ObservedEndpoint, disabled: EndpointSetting | None, ledger: EndpointHistory
) -> bool:
    """Return whether every attempt before an endpoint was disabled is listed, or nothing disabled it."""
    return disabled is None or ledger.since_creation(endpoint, disabled.seen.received) is not None


def _first_disabled(settings: Iterable[EndpointSetting]) -> EndpointSetting | None:
    return next((setting for setting in settings if setting.enabled is False), None)


def _smallest(faults: Sequence[Evidence | None]) -> Evidence | None:
    """Return the smallest of several faults, None where any is none."""
    present = [fault for fault in faults if fault is not None]
    return min(present, key=lambda fault: fault.size) if present and len(present) == len(faults) else None


def _broken(
    rule: str,
    ends: Sequence[AttemptEnd],
    faults: Sequence[Evidence],
    disabled: EndpointSetting | None,
    all_listed: bool,
    tally: Tally,
) -> None:
    smallest = min(faults, key=lambda fault: fault.size)
    if disabled is None or all_listed:
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


def _late(
    ends: Sequence[AttemptEnd], way: str, limit: int, settings: Sequence[EndpointSetting]
) -> Evidence | None:
    """Attempts go on, or it is shown enabled, well after `limit` failures surely stood in a row.

    Attempts that never arrived failed too, and so only make the run longer.
    """
    by = reached(ends, way, limit)
    if by is None:
        return None
    failures = f"{limit} failures in a row" if limit > 1 else "one failure"
    for end in ends:
        if end.arrived.received > by + SETTLING:
            name = end.arrived.name
            return Evidence(
                f"attempt {name} came {format_millis(end.arrived.received - by)} after {failures}, "
                f"counted by {way}",
                (),
                (name,),
                end.arrived.endpoint,
                end.arrived.received,
                f"no attempt after {failures}",
            )
    for setting in settings:
        seen = setting.seen
        if setting.enabled is True and seen.sent > by + SHOWING:
            says = f"{seen.id} shows it enabled {format_millis(seen.sent - by)} after {failures}"
            about, expected = ends[0].arrived.endpoint, f"disabled after {failures}"
            return Evidence(f"{says}, counted by {way}", (seen.id,), (), about, seen.sent, expected)
    return None
