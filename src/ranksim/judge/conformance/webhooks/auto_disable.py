"""Judge auto-disable: twenty consecutive failed deliveries, and a success starts anew (S91, S92, U66, U70).

An endpoint made in the trace has no failures from before, so the longest run of failures that the sender can
have counted is known, and when the shortest reached twenty; what overlaps is placed both ways. What it counts
is known until a call changes the endpoint, and again from one that enables it after it was disabled: nothing
as yet, or what disabled it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ranksim.core.clock import DISTANT_FUTURE, SECOND, format_millis
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    EndpointSetting,
    ObservedEndpoint,
    WebhookJudge,
    attempt_evidence,
    first_disabled,
)
from ranksim.judge.conformance.webhooks.failure_runs import AttemptEnd, longest_run, reached

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
class AutoDisableJudge(WebhookJudge):
    """Judges every endpoint that was created in the run and got attempts, until it was changed.

    Where the change was to enable it again, it is judged on.
    """

    tally: Tally = field(default_factory=lambda: Tally(RULES))

    def conclude(self) -> None:
        """Compare the failures of each endpoint with when it was disabled."""
        for endpoint in self.ledger.endpoints.values() if self.run.exclusive else ():
            counted = endpoint.created is not None and endpoint.id in self.ledger.came
            if counted and endpoint.settings[0].enabled is not False:
                self._judge_enabled_again(endpoint, self._judge_untouched(endpoint))

    def _judge_untouched(self, endpoint: ObservedEndpoint) -> list[str]:
        """Judge an endpoint until it was changed; return the ways to count failures (U66) that explain it."""
        limit, until = self.options.facts.webhook_disable_after, endpoint.untouched_until
        ends, settings = self.ledger.ends(endpoint.id, until), endpoint.settings_until(until)
        disabled, rest = first_disabled(settings), self.ledger.unheard[endpoint.id]
        all_listed = self._all_listed(endpoint, disabled)
        faults = {
            way: _early(ends, way, limit - rest, disabled) or _late(ends, way, limit, settings)
            for way in self.options.candidates("failure_counted")
        }
        default, fault = next(iter(faults.items()))
        explaining = [way for way, evidence in faults.items() if evidence is None]
        run = longest_run(ends, "attempt") + rest
        enough = _failures(ends) >= limit
        rule = RESET if disabled is not None and enough and run < limit else DISABLED
        if not explaining:
            self._judge_unexplained(rule, ends, faults.values(), disabled, all_listed)
        elif fault is not None and all_listed:
            self.tally.differs(66, default, explaining[0], fault)
        elif disabled is not None:
            self.tally.held(rule, by=(disabled.seen.id,))
        elif run >= limit:
            self.tally.open(DISABLED, "so many failed that it may have been disabled, and nothing tells")
        elif enough:
            self.tally.held(RESET, by=[end.arrived.name for end in ends[-1:]])
        return explaining

    def _judge_unexplained(
        self,
        rule: str,
        ends: Sequence[AttemptEnd],
        faults: Iterable[Evidence | None],
        disabled: EndpointSetting | None,
        all_listed: bool,
    ) -> None:
        smallest = min(filter(None, faults), key=lambda fault: fault.size)
        if not all_listed:
            self.tally.open(rule, "attempts may have failed that neither arrived nor are listed")
        else:
            at_once = disabled is not None and any(end.arrived.status == GONE for end in ends)
            self.tally.breaks_or_differs(
                71, "no special case", "410 disables", smallest, rule, pinned=not at_once
            )

    def _judge_enabled_again(self, endpoint: ObservedEndpoint, ways: Sequence[str]) -> None:
        """Judge an endpoint that was disabled, and enabled by a PATCH, until it was changed again (U70).

        Necessary: where the count starts at zero, what disables it is twenty failures that may have been
        noted since; where it was kept, one that surely came since does.
        """
        again = next(iter(endpoint.touched), None)
        ends = self.ledger.ends(endpoint.id)
        if again is None or not _enables(again) or any(end.arrived.status == GONE for end in ends):
            return
        disabled = first_disabled(endpoint.settings_until(again.sent))
        if disabled is None:
            return
        self._judge_paused(disabled, again, ends, self.ledger.unheard[endpoint.id])
        faults = {
            count: _smallest([self._fault_since(endpoint, again, way, count) for way in ways])
            for count in self.options.candidates("count_on_enable")
        }
        default, fault = next(iter(faults.items()))
        if fault is not None:
            says, exchanges = f"{fault.says}, since {again.id} enabled it", (again.id, *fault.exchanges)
            fault = replace(fault, says=says, exchanges=exchanges)
            other = next((count for count, evidence in faults.items() if evidence is None), None)
            self.tally.breaks_or_differs(70, default, other, fault, DISABLED, pinned=other is None)

    def _judge_paused(
        self, disabled: EndpointSetting, again: Observation, ends: Sequence[AttemptEnd], rest: int
    ) -> None:
        """A retry that was pending when its endpoint was disabled comes after all where it was paused (U69).

        Necessary: what failed before so many had come as disable an endpoint had its retry pending then; and
        what was sent before it was disabled comes within the sender's patience. `rest` attempts came to
        nobody.
        """
        facts, candidates = self.options.facts, self.options.candidates("on_disable")
        count = facts.webhook_disable_after - rest
        lows = sorted(end.low for end in ends if end.acknowledged is not True)
        if candidates[0] == "pause" or count < 1 or len(lows) < count:
            return
        pending = {end.arrived.event: end.arrived for end in ends if end.high < lows[count - 1]}
        since = max(again.received, disabled.seen.received + facts.webhook_timeout)
        for end in ends:
            first = pending.get(end.arrived.event)
            if first is not None and end.arrived.attempt > first.attempt and end.low > since:
                says = f"attempt {end.arrived.attempt} came, which waited while its endpoint was disabled"
                evidence = attempt_evidence(says, first, end.arrived, exchanges=(again.id,))
                pinned = "pause" not in candidates
                self.tally.breaks_or_differs(69, "cancel", "pause", evidence, DISABLED, pinned=pinned)
                return

    def _fault_since(
        self, endpoint: ObservedEndpoint, again: Observation, way: str, count: str
    ) -> Evidence | None:
        """Return what cannot be since an endpoint was enabled, failures counted in a way, from a count on."""
        limit, ends = self.options.facts.webhook_disable_after, self.ledger.ends(endpoint.id)
        until = next((seen.sent for seen in endpoint.touched[1:]), DISTANT_FUTURE)
        since = again.received + SHOWING
        settings = [setting for setting in endpoint.settings_until(until) if since < setting.seen.sent]
        later = [end for end in ends if again.received < end.low <= until]
        if count == "kept":
            full = reached([end for end in ends if end.low <= again.sent], way, limit)
            if full is None or full > again.sent or _failures(ends) < len(ends):
                return None
            return _late(later, way, 1, settings)
        disabled, early = first_disabled(settings), None
        if self._all_listed(endpoint, disabled):
            maybe = [end for end in ends if again.sent <= end.high]
            early = _early(maybe, way, limit - self.ledger.unheard[endpoint.id], disabled)
        return early or _late(later, way, limit, settings)

    def _all_listed(self, endpoint: ObservedEndpoint, disabled: EndpointSetting | None) -> bool:
        """Return whether every attempt before an endpoint was disabled is listed, or nothing disabled it."""
        if disabled is None:
            return True
        return self.ledger.since_creation(endpoint, disabled.seen.received) is not None


def _enables(again: Observation) -> bool:
    """Whether a call enabled an endpoint, and did nothing else."""
    endpoint = again.data if isinstance(again.data, dict) else {}
    return again.ok and again.body == {"enabled": True} and endpoint.get("enabled") is True


def _failures(ends: Sequence[AttemptEnd]) -> int:
    """Count the attempts that surely failed."""
    return sum(end.acknowledged is False for end in ends)


def _smallest(faults: Sequence[Evidence | None]) -> Evidence | None:
    """Return the smallest of several faults, None where any is none."""
    present = [fault for fault in faults if fault is not None]
    return min(present, key=lambda fault: fault.size) if present and len(present) == len(faults) else None


def _early(
    ends: Sequence[AttemptEnd], way: str, limit: int, disabled: EndpointSetting | None
) -> Evidence | None:
    """Disabled although no order of the outcomes makes a run of `limit` failures."""
    run = 0 if disabled is None else longest_run(ends, way, disabled.seen.received)
    if disabled is None or run >= limit:
        return None
    seen = disabled.seen
    says = f"{seen.id} shows it disabled after at most {run} consecutive failures, counted by {way}"
    about = seen.parameters.get("id", seen.operation)
    return evidence_of(says, seen, about=about, expected="enabled, after so few failures")


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
    for came in (end.arrived for end in ends if end.arrived.received > by + SETTLING):
        says = f"attempt {came.name} came {format_millis(came.received - by)} after {failures}"
        return attempt_evidence(f"{says}, counted by {way}", came, expected=f"no attempt after {failures}")
    for seen in (setting.seen for setting in settings if setting.enabled is True):
        if seen.sent > by + SHOWING:
            says = f"{seen.id} shows it enabled {format_millis(seen.sent - by)} after {failures}"
            about, expected = ends[0].arrived.endpoint, f"disabled after {failures}"
            return evidence_of(f"{says}, counted by {way}", seen, about=about, expected=expected)
    return None
