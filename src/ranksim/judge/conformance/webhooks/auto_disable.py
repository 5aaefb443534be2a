"""Judge auto-disable: twenty consecutive failed deliveries, and a success starts anew (S91, S92, U66, U70).

An endpoint that was made in the trace is run as the service runs it: what each attempt ended as is counted
somewhere between the answer and when the sender can have noted it, and each attempt and reading finds it
enabled or disabled. What is open is tried: which failures count, what a PATCH leaves of the count, whether
410 disables at once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.possible import ModelCall, Possible
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    ObservedEndpoint,
    WebhookJudge,
    attempt_evidence,
    first_disabled,
)
from ranksim.judge.conformance.webhooks.failure_runs import AttemptEnd, longest_run, that_matter

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
"""How long an attempt may be under way to the receiver, or still be made while its endpoint is disabled."""

SHOWING = 3 * SECOND
"""How long a deployment may still show an endpoint as it was before."""

TOO_MANY = "too many calls met at once to tell"

MOST_PAIRS, MOST_WORK = 150, 30_000
"""Pairs of a state and what took effect, at once and in all, above which an endpoint stays open."""

GONE = 410
"""A status after which an endpoint may be disabled at once, where U71 is otherwise."""


# The endpoint's own rule


class Standing(NamedTuple):
    """Whether an endpoint is enabled, and how many failures in a row are counted, the limit at most.

    After a change that is not known to have enabled it, `enabled` is None: nothing is known for good.
    """

    enabled: bool | None = True
    failures: int = 0


class EndpointReading(NamedTuple):
    """One reading of what is open."""

    counted: str
    on_enable: str
    on_410: str


OPEN_POINTS = {
    "counted": 66,
    "on_enable": 70,
    "on_410": 71,
}
"""The number of each field of a reading, in their order."""


class Ended(NamedTuple):
    """How an attempt ended: acknowledged or not (None: either), as a delivery's last, with 410."""

    acknowledged: bool | None
    last: bool
    was_410: bool


class ShownEndpoint(NamedTuple):
    """A reading; `listed` tells that all attempts before it are known."""

    enabled: bool
    listed: bool


MADE, ENABLED, CHANGED = "made", "enabled", "changed"


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """An endpoint under one reading of what is open, disabled after `limit` failures in a row.

    Lenient on purpose: what is counted while it is disabled is not stated, nor what a PATCH leaves of the
    count that enables what is enabled; and where not all attempts are listed, it may be disabled at any time.
    """

    reading: EndpointReading
    limit: int

    def step(self, state: Standing, call: ModelCall) -> Iterator[Standing]:
        """Yield how the endpoint may stand after a call, or an end of an attempt (S91, S92)."""
        question = call.question
        if state.enabled is None or question == CHANGED:
            yield Standing(None)
        elif isinstance(question, Ended):
            yield from self._ended(state, question)
        elif question == ENABLED:
            if state.enabled or self.reading.on_enable == "kept":
                yield Standing(True, state.failures)
            if state.enabled or self.reading.on_enable == "zero":
                yield Standing()
        elif isinstance(question, ShownEndpoint) and question.enabled != state.enabled:
            if not question.enabled and not question.listed:
                yield Standing(False, self.limit)
        elif state.enabled or question != MADE:
            yield state

    def _ended(self, state: Standing, end: Ended) -> Iterator[Standing]:
        if not state.enabled:
            yield state
        if end.acknowledged is not False:
            yield Standing(state.enabled)
        if not end.acknowledged:
            counted = end.last or self.reading.counted == "attempt"
            failures = min(self.limit, state.failures + counted)
            at_once = end.was_410 and self.reading.on_410 == "410 disables"
            yield Standing(state.enabled and failures < self.limit and not at_once, failures)


class Unexplained(NamedTuple):
    """The first call that nothing explains, and by when its endpoint surely was disabled."""

    call: ModelCall
    disabled_by: Micros | None


def first_fault(calls: Sequence[ModelCall], model: EndpointModel) -> tuple[Unexplained | None, bool]:
    """Return what no order of the calls of one endpoint explains first, and whether there were too many."""
    possible, by, work = Possible([Standing()], model.step, MOST_PAIRS), None, 0
    moments = [(call.sent, at) for at, call in enumerate(calls)]
    moments += [(call.received + 1, -1) for call in calls if call.answered]
    for instant, at in sorted(moments):
        histories = list(possible.pass_to(instant)) if at < 0 else possible.add(calls[at])
        for history in histories:
            refusable = (call for call in history if call.answered and not isinstance(call.question, Ended))
            return Unexplained(max(refusable, key=lambda call: call.received), by), False
        work += len(possible.pairs) if at < 0 else 0
        if possible.open or work > MOST_WORK:
            return None, True
        if any(state.enabled is not False for state in possible.states):
            by = None
        elif by is None:
            by = instant - 1
    return None, False


# What a run shows of it


@dataclass
class AutoDisableJudge(WebhookJudge):
    """Judges every endpoint that was created in the run."""

    tally: Tally = field(default_factory=lambda: Tally(RULES))
    runs: list[Sequence[ModelCall]] = field(default_factory=list)
    """The calls of each endpoint that a reading explains."""
    excluding: list[tuple[list[EndpointReading], str, Evidence]] = field(default_factory=list)
    """What the default does not explain: which readings do, the rule that else broke, and the evidence."""

    def conclude(self) -> None:
        """Run each endpoint under the default reading, and all under others where that explains one not."""
        endpoints = [
            endpoint
            for endpoint in (self.ledger.endpoints.values() if self.run.exclusive else ())
            if endpoint.created is not None and endpoint.settings[0].enabled is not False
        ]
        for endpoint in endpoints:
            if self.ledger.steady(endpoint):  # it was shown as enabled, and too few failed to say more
                self._note_untouched(endpoint)
            else:
                self._judge(endpoint, self.ledger.ends(endpoint.id))
        self._judge_readings()

    def _judge(self, endpoint: ObservedEndpoint, ends: Sequence[AttemptEnd]) -> None:
        """Run an endpoint; where the default does not explain it, keep which readings do."""
        calls, readings = self._calls(endpoint, ends), self._readings()
        fault, too_many = self._fault(calls, readings[0])
        if too_many:
            self.tally.open(DISABLED, TOO_MANY)
            return
        self._judge_paused(endpoint, ends)
        if fault is None or fault.call.received > endpoint.untouched_until:
            self._note_untouched(endpoint)
        if fault is not None:
            faults = {reading: self._fault(calls, reading)[0] for reading in readings}
            left = [reading for reading, other in faults.items() if other is None]
            rule, evidence = self._verdict(endpoint, fault, ends, readings[0])
            if not left:
                sentences = dict[str, str]()  # what cannot be by each reading, once for each call
                for reading, other in faults.items():
                    if other is not None and other.call.id not in sentences:
                        sentences[other.call.id] = self._verdict(endpoint, other, ends, reading)[1].says
                self.tally.broke(rule, replace(evidence, says="; ".join(sentences.values())))
                return
            self.excluding.append((left, rule, evidence))
        self.runs.append(calls)

    def _judge_readings(self) -> None:
        """One reading explains every endpoint that is explained at all, if not the default then another."""
        default, *others = self._readings()
        if not self.excluding:
            return
        left = [
            reading
            for reading in others
            if all(self._fault(calls, reading)[0] is None for calls in self.runs)
        ]
        _, rule, evidence = self.excluding[0]
        if not left:
            says = f"{evidence.says}; what else is open explains that, and not what other endpoints show"
            self.tally.broke(rule, replace(evidence, says=says))
        for at, number in enumerate(OPEN_POINTS.values() if left else ()):
            if all(reading[at] != default[at] for reading in left):
                alone = (
                    piece
                    for own, _, piece in self.excluding
                    if all(reading[at] != default[at] for reading in own)
                )
                self.tally.differs(number, default[at], left[0][at], next(alone, evidence))

    def _fault(self, calls: Sequence[ModelCall], reading: EndpointReading) -> tuple[Unexplained | None, bool]:
        return first_fault(calls, EndpointModel(reading, self.options.facts.webhook_disable_after))

    def _calls(self, endpoint: ObservedEndpoint, ends: Sequence[AttemptEnd]) -> list[ModelCall]:
        """Return what came to an endpoint, how it ended, and the calls that showed and changed it.

        An attempt that came twice, as after a crash of its sender, may have been noted once or twice; one
        that is listed and never came failed at some time.
        """
        unheard, times = self.ledger.unheard[endpoint.id], Counter(end.arrived.key for end in ends)
        special = endpoint.touched or any(end.arrived.status == GONE for end in ends)
        least = 1 if special else self.options.facts.webhook_disable_after - unheard
        calls = [
            ModelCall(end.low - SETTLING, end.low, MADE, id=end.arrived.name, reads=True) for end in ends
        ]
        for end in that_matter(ends, least):
            ended = Ended(end.acknowledged, end.last, end.arrived.status == GONE)
            high = end.high if times[end.arrived.key] == 1 else DISTANT_FUTURE
            calls.append(ModelCall(end.low, high, ended, id=end.arrived.name))
        touched = {seen.id for seen in endpoint.touched}
        for setting in endpoint.settings[1:]:
            seen, enabled = setting.seen, setting.enabled
            if enabled is not None and seen.id not in touched:
                listed = enabled or self.ledger.since_creation(endpoint, seen.received) is not None
                reading, since = ShownEndpoint(enabled, listed), seen.sent - SHOWING
                calls.append(ModelCall(since, seen.received, reading, id=seen.id, reads=listed))
        for seen in endpoint.touched:
            received = seen.received if seen.ok else DISTANT_FUTURE
            calls.append(ModelCall(seen.sent, received, ENABLED if _enables(seen) else CHANGED, id=seen.id))
        made = endpoint.settings[0].seen.sent
        calls += [ModelCall(made, DISTANT_FUTURE, Ended(False, True, False))] * unheard
        return sorted(calls, key=lambda call: call.sent)

    def _readings(self) -> list[EndpointReading]:
        """Return every reading of what is open, the default first."""
        at_once = any(arrived.status == GONE for arrived in self.log.arrived)
        return [
            EndpointReading(*choice)
            for choice in product(
                self.options.candidates("failure_counted"),
                self.options.candidates("count_on_enable"),
                ("no special case", "410 disables")[: 1 + at_once],
            )
        ]

    def _note_untouched(self, endpoint: ObservedEndpoint) -> None:
        """Note what an endpoint has shown that is as it should be, until it was changed."""
        limit, until = self.options.facts.webhook_disable_after, endpoint.untouched_until
        ends = self.ledger.ends(endpoint.id, until)
        disabled = first_disabled(endpoint.settings_until(until))
        run = longest_run(ends, "attempt") + self.ledger.unheard[endpoint.id]
        enough = _failures(ends) >= limit
        if endpoint.id not in self.ledger.came:
            return  # what nothing came to has shown nothing
        if disabled is not None and run < limit:
            why = "attempts may have failed that neither arrived nor are listed"
            self.tally.open(RESET if enough else DISABLED, why)
        elif disabled is not None:
            self.tally.held(DISABLED, by=(disabled.seen.id,))
        elif run >= limit:
            self.tally.open(DISABLED, "so many failed that it may have been disabled, and nothing tells")
        elif enough:
            self.tally.held(RESET, by=[end.arrived.name for end in ends[-1:]])

    def _verdict(
        self,
        endpoint: ObservedEndpoint,
        fault: Unexplained,
        ends: Sequence[AttemptEnd],
        reading: EndpointReading,
    ) -> tuple[str, Evidence]:
        """Return which rule a fault breaks, and what cannot be, since the endpoint was enabled again.

        Disabled after enough failures, of which too few were in a row, it was not reset.
        """
        (call, by), limit, rule = fault, self.options.facts.webhook_disable_after, DISABLED
        touched = [seen for seen in endpoint.touched if _enables(seen) and seen.sent <= call.received]
        kept = touched and reading.on_enable == "kept"
        failures = "one failure beyond the kept count" if kept else f"{limit} failures in a row"
        at = call.received if call.question == MADE else call.sent + SHOWING
        after = f"{format_millis(at - (by or at))} after {failures}"
        expected = f"disabled after {failures}"
        if call.question == MADE:
            says, expected = f"attempt {call.id} came {after}", f"no attempt after {failures}"
        elif isinstance(call.question, ShownEndpoint) and call.question.enabled:
            says = f"{call.id} shows it enabled {after}"
        else:
            later = [end for end in ends if not touched or end.high >= touched[-1].sent]
            run = longest_run(later, reading.counted, call.received)
            says = f"{call.id} shows it disabled after at most {run} consecutive failures"
            expected = "enabled, after so few failures"
            rule = RESET if _failures(later, call.received) >= limit else DISABLED
        says += f", counted by {reading.counted}"
        since = tuple(seen.id for seen in touched[-1:])
        says += f", since {since[0]} enabled it" if since else ""
        exchanges, deliveries = (since, (call.id,)) if call.question == MADE else ((*since, call.id), ())
        return rule, Evidence(says, exchanges, deliveries, endpoint.id, at, expected)

    def _judge_paused(self, endpoint: ObservedEndpoint, ends: Sequence[AttemptEnd]) -> None:
        """A retry that was pending when its endpoint was disabled comes after all where it was paused (U69).

        Necessary: what failed before so many had come as disable an endpoint had its retry pending then; and
        what was sent before it was disabled comes within the sender's patience.
        """
        facts, candidates = self.options.facts, self.options.candidates("on_disable")
        again = next(iter(endpoint.touched), None)
        if candidates[0] == "pause" or again is None or not again.ok or not _enables(again):
            return
        disabled = first_disabled(endpoint.settings_until(again.sent))
        count = facts.webhook_disable_after - self.ledger.unheard[endpoint.id]
        lows = sorted(end.low for end in ends if end.acknowledged is not True)
        by_gone = any(end.arrived.status == GONE for end in ends)
        if disabled is None or count < 1 or len(lows) < count or by_gone:
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


def _enables(seen: Observation) -> bool:
    """Whether a call enabled an endpoint and did nothing else, or may have, as its reply was lost."""
    reply = seen.data.get("enabled") if isinstance(seen.data, dict) else None
    return seen.body == {"enabled": True} and not seen.old and (reply is True or not seen.ok)


def _failures(ends: Sequence[AttemptEnd], until: Micros = DISTANT_FUTURE) -> int:
    """Count the attempts until an instant that surely failed."""
    return sum(end.acknowledged is False and end.low <= until for end in ends)
