"""Judge the timeline of retries: numbers, delays, when they stop (S81, S87-S90, S93).

What our receiver answered is known: an attempt failed unless it was answered 2xx within 10 s. Near 10 s
nobody can tell which side saw what. A run that ends before a retry was due is censored; an attempt that never
came, or an answer that the sender did not get, may be lost: the deployment's own list decides, where it was
read late enough. A sender waits 10 s for an answer (S88), so what it sent arrives within 10 s or not at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ranksim.core.clock import DISTANT_FUTURE, MILLISECOND, MINUTE, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.history.trace_reader import texts
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    GRACE,
    EndpointHistory,
    Listing,
    ObservedEndpoint,
    WebhookLog,
)
from ranksim.judge.conformance.webhooks.failure_runs import AttemptOutcome, outcome

NUMBERS = "webhook.attempts"
DELAYS = "webhook.retry_delays"
RETRIED = "webhook.retried"
ACKNOWLEDGED = "webhook.acknowledged"
TIMEOUT = "webhook.timeout"
REDIRECT = "webhook.redirect"
AT_MOST = "webhook.six_attempts"

GAPS = ("1 min", "5 min", "30 min", "2 h", "6 h")
"""The delays of S90, as cases."""

IN_TIME = "an answer within 10 s"
"""One that took more than half of them, so that a sender of less patience would have given up."""

FAILING = ("3xx", "4xx", "5xx", "no answer")
"""How an attempt fails, as cases."""

RULES = declare(
    Rule(
        NUMBERS,
        "Attempts of a delivery are numbered 1, 2, 3 and so on",
        (81,),
        ways=(Breach(81, "numbers begin anew"),),
        follows=(Cause("webhook.headers", "what is missing cannot be counted"),),
    ),
    Rule(
        DELAYS,
        "Retries follow after about $delays",
        (90,),
        (67,),
        exercise="webhooks-long",
        ways=(Breach(90, "the retry after {} comes at another time", "{}", GAPS),),
        needs=(Requirement.RETRY,),
    ),
    Rule(
        RETRIED,
        "A failed attempt is tried again, up to $attempts in all",
        (87, 90, 93),
        (69,),
        exercise="webhooks-long",
        cases=tuple(f"{how}, attempt {number}" for how in FAILING for number in range(1, len(GAPS) + 1)),
        ways=(
            Breach(87, "no retry follows a {}", "{}, attempt 1", FAILING),
            *(
                Breach(90, f"attempt {number + 1} is not made", f"5xx, attempt {number}")
                for number in range(1, len(GAPS) + 1)
            ),
        ),
        needs=(Requirement.RETRY,),
    ),
    Rule(
        ACKNOWLEDGED,
        "Any 2xx in time ends a delivery",
        (87,),
        (71,),
        ways=(Breach(87, "a {} does not acknowledge", "{}", ("200", "201", "204")),),
    ),
    Rule(
        TIMEOUT,
        "An answer after $timeout is too late",
        (88,),
        (75,),
        cases=(IN_TIME, "no answer", "a late 2xx"),
        ways=(
            Breach(88, "silence is waited for longer than 10 s", "no answer"),
            Breach(88, "a 2xx after 10 s acknowledges", "a late 2xx"),
        ),
        essential={
            "an answer within 10 s": "no answer that took more than 5 s was seen to count",
            "no answer|a late 2xx": "no attempt was answered late",
        },
    ),
    Rule(
        REDIRECT,
        "A redirect is not followed, and fails",
        (89,),
        ways=(Breach(89, "a {} is followed", "{}", ("301", "302", "303", "307", "308")),),
    ),
    Rule(
        AT_MOST,
        "A delivery has $attempts attempts at most",
        (90,),
        exercise="webhooks-long",
        ways=(Breach(90, "a seventh attempt is made"),),
        follows=(Cause(DELAYS, "the attempt that comes at no stated time"),),
        needs=(Requirement.ALL_RETRIES,),
    ),
    exercise="webhooks",
    looks_at=ENDPOINT_FIELDS,
    needs=(Requirement.RECEIVER, Requirement.SPENDING, Requirement.JOB_END),
)

MARGIN = 5 * SECOND
"""What "about" adds to a delay, and a sender's own pace."""

JITTER_PERCENT = 10
"""The most that U67 lets a delay vary while no policy pins it."""

REPEATED = 30 * SECOND
"""How soon after a crash a sender may make an attempt again under its number (S93)."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all deliveries of a trace are judged by."""

    ledger: EndpointHistory
    options: Options
    rate: int
    stalls: Sequence[Micros]
    end: Micros
    """The last instant at which the receiver or a caller was seen at work."""

    @property
    def listed(self) -> Listing:
        """What the deployment lists of its attempts."""
        return self.ledger.listed

    def stalled(self, start: Micros, end: Micros) -> bool:
        """Whether the receiver noted that it stood still in between."""
        at = bisect_left(self.stalls, start)
        return at < len(self.stalls) and self.stalls[at] <= end + MINUTE


@dataclass
class RetryJudge:
    """Judges the timeline of every delivery: the attempts of one event at one endpoint."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    log: WebhookLog = field(default_factory=WebhookLog)
    texts: set[str] = field(default_factory=set)
    """What was sent and shown that may name a path."""

    def wants(self, like: Observation) -> bool:
        """What shows endpoints or attempts, and any text that may name a path."""
        return WebhookLog.wants(like) or like.surface == "graphql"

    def see(self, seen: Observation) -> None:
        """Log an exchange, and the texts in it."""
        if seen.surface == "graphql" or seen.operation.startswith("webhooks."):
            self.texts.update(text for text in texts([seen.body, seen.data, seen.items]) if "/" in text)
        self.log.add(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Log an attempt that arrived."""
        self.log.arrived.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, judge each delivery: the deployment's own list of attempts is read late."""
        if watermark < DISTANT_FUTURE:
            return
        stalls = sorted(note.t for note in run.notes if note.t is not None and "stall" in note.text)
        ledger = EndpointHistory.of(self.log, run, self.options)
        scene = Scene(ledger, self.options, run.rate, stalls, run.ended)
        deliveries: dict[tuple[str, str], list[ReceivedAttempt]] = defaultdict(list)
        elsewhere: dict[str, list[ReceivedAttempt]] = defaultdict(list)
        for arrived in self.log.arrived:
            if arrived.endpoint in ledger.endpoints and arrived.event and arrived.attempt:
                deliveries[arrived.endpoint, arrived.event].append(arrived)
            elif arrived.event:
                elsewhere[arrived.event].append(arrived)
        unnamed = self._unnamed(elsewhere, run)
        for (endpoint, event), attempts in deliveries.items():
            _judge_numbers(attempts, self.options, self.tally)
            _judge_delays(attempts, ledger.endpoints[endpoint], scene, self.tally)
            _judge_last(attempts, ledger.endpoints[endpoint], scene, self.tally)
            _judge_silence(attempts, scene, self.tally)
            _judge_redirects(event, attempts, elsewhere.get(event, ()), unnamed, self.tally)

    def _unnamed(self, strays: Mapping[str, Sequence[ReceivedAttempt]], run: ObservedRun) -> set[str]:
        """Return the paths to which events came though nothing sent or shown names them as an endpoint's."""
        paths = {
            stray.endpoint for came in strays.values() for stray in came if stray.endpoint.startswith("/")
        }
        listed = any(
            seen.operation == "webhooks.list"
            and seen.ok
            and seen.has_more is False
            and run.key(seen.key).domain_id is None
            for seen in self.log.calls
        )
        if not paths or not listed or not run.exclusive:
            return set()
        return paths - {path for text in self.texts for path in paths if path in text}


# Numbers


def _judge_numbers(attempts: Sequence[ReceivedAttempt], options: Options, tally: Tally) -> None:
    """Numbers grow with time and pass no limit; a gap means that one was lost on the way.

    An attempt that came again under its number soon after may be the same one, sent again by a sender that
    stopped before it heard the answer (S93). One is made only when the one before was answered or given up.
    """
    most, patience = options.facts.webhook_attempts, options.facts.webhook_timeout
    last = max(attempts, key=lambda came: came.attempt)
    if last.attempt <= most:
        tally.held(AT_MOST, case=None)
    else:
        says = f"attempt {last.attempt} came, beyond the {most} that a delivery has"
        tally.broke(AT_MOST, _evidence(says, (last,)))
    for earlier, later in pairwise(attempts):
        if later.attempt > earlier.attempt:
            tally.held(NUMBERS, by=(earlier.name, later.name))
        elif earlier.answered is None or later.received <= earlier.answered:
            tally.open(NUMBERS, "two attempts overlapped")
        elif later.received - earlier.received <= (
            REPEATED if later.attempt == earlier.attempt else patience
        ):
            tally.open(NUMBERS, "an attempt came twice at once, or overtaken")
        else:
            says = f"attempt {later.attempt} came after attempt {earlier.attempt} had been answered"
            tally.broke(NUMBERS, _evidence(says, (earlier, later)))


# Delays


def _judge_delays(
    attempts: Sequence[ReceivedAttempt], endpoint: ObservedEndpoint, scene: Scene, tally: Tally
) -> None:
    """Between two attempts in a row lies the delay of the first, from its failure or added up from the first.

    Necessary: the sender saw the failure between the arrival and the end of its patience, and "about" covers
    the jitter of U67 and a margin. A retry that was paused while its endpoint was disabled (U69) may be late.
    """
    facts = scene.options.facts
    for earlier, later in pairwise(attempts):
        if later.attempt != earlier.attempt + 1 or earlier.attempt > len(facts.webhook_delays):
            continue
        seen = outcome(earlier, facts.webhook_timeout)
        if seen.acknowledged is not False:
            _judge_needless(earlier, later, seen, scene.listed, tally)
            continue
        tally.held(RETRIED, case=_script(earlier, seen), by=(earlier.name, later.name))
        if earlier.status is None or seen.at < (earlier.answered or 0):
            tally.held(
                TIMEOUT, case="a late 2xx" if _is_2xx(earlier) else None, by=(earlier.name, later.name)
            )
        if scene.rate == 0 or scene.stalled(earlier.received, later.received):
            tally.open(DELAYS, "the receiver stalled, or the deployment's clock changed its pace")
            continue
        _judge_delay(earlier, later, attempts[0], endpoint, scene, tally)


def _judge_delay(
    earlier: ReceivedAttempt,
    later: ReceivedAttempt,
    first: ReceivedAttempt,
    endpoint: ObservedEndpoint,
    scene: Scene,
    tally: Tally,
) -> None:
    spans = {way: _span(way, earlier, first, scene) for way in scene.options.candidates("retry_from")}
    came = later.received
    fits = [way for way, span in spans.items() if span is not None and span[0] <= came <= span[1]]
    default = scene.options.default("retry_from")
    low, high = spans[default] or (0, 0)
    within = f"{format_millis(low - earlier.received)} to {format_millis(high - earlier.received)}"
    says = (
        f"attempt {later.attempt} came {format_millis(came - earlier.received)} after attempt "
        f"{earlier.attempt}, not {within}"
    )
    if fits:
        tally.held(DELAYS, case=_gap(earlier), by=(earlier.name, later.name))
        if default not in fits:
            tally.differs(67, default, fits[0], _evidence(says, (earlier, later)))
    elif None in spans.values():
        tally.open(DELAYS, "the first attempt did not arrive, and delays may count from it")
    elif came > max(span[1] for span in spans.values() if span) and not (
        scene.ledger.exclusive and endpoint.untouched
    ):
        tally.open(DELAYS, "it came late, perhaps because its endpoint was disabled for a while")
    else:
        evidence = replace(
            _evidence(says, (earlier, later)), expected=f"attempt {later.attempt} within {within}"
        )
        tally.broke(DELAYS, evidence, case=_gap(earlier))


def _judge_silence(attempts: Sequence[ReceivedAttempt], scene: Scene, tally: Tally) -> None:
    """A sender waits 10 s for an answer that never comes, as it lists (S88, U75).

    When the retry comes does not tell: it may be as late for its delay (U67) as for a longer wait. An answer
    after more than half of the time is waited for, too, where it is listed; where it is not, the network may
    have ended the connection.
    """
    patience = scene.options.facts.webhook_timeout
    for arrived in attempts:
        listed = scene.listed.attempts.get(arrived.key)
        if listed is not None and _is_2xx(arrived) and outcome(arrived, patience).acknowledged:
            if (arrived.answered or 0) - arrived.received > patience // 2:
                _judge_patience(arrived, listed.status, tally, by=(listed.seen.id, arrived.name))
            continue
        if (
            arrived.status is not None
            or listed is None
            or listed.status is not None
            or listed.duration is None
        ):
            continue
        waited = listed.duration * MILLISECOND
        says = (
            f"attempt {arrived.attempt} was not answered, and is listed as under way for "
            f"{format_millis(waited)}"
        )
        expected = f"given up after {format_millis(patience)}"
        evidence = Evidence(
            says, (listed.seen.id,), (arrived.name,), arrived.endpoint, arrived.received, expected
        )
        if abs(waited - patience) <= MARGIN:
            tally.held(TIMEOUT, case="no answer", by=(listed.seen.id, arrived.name))
        elif waited > patience and scene.rate == 1:
            tally.broke(TIMEOUT, evidence, case="no answer")


def _judge_patience(arrived: ReceivedAttempt, listed: int | None, tally: Tally, by: tuple[str, ...]) -> None:
    if listed == arrived.status:
        tally.held(TIMEOUT, case=IN_TIME, by=by)
    else:
        tally.open(TIMEOUT, "an answer that came in time, but late, is not listed: it may have been lost")


def _gap(arrived: ReceivedAttempt) -> str:
    """Return the case of the delay after an attempt."""
    return GAPS[arrived.attempt - 1] if arrived.attempt <= len(GAPS) else "later"


def _script(arrived: ReceivedAttempt, seen: AttemptOutcome) -> str:
    """Return the case of a failed attempt: what it was answered, and its number."""
    in_time = arrived.status is not None and arrived.answered is not None and seen.at >= arrived.answered
    return f"{f'{(arrived.status or 0) // 100}xx' if in_time else 'no answer'}, attempt {arrived.attempt}"


def _is_2xx(arrived: ReceivedAttempt) -> bool:
    return arrived.status is not None and 200 <= arrived.status <= 299


def _span(
    way: str, failed: ReceivedAttempt, first: ReceivedAttempt, scene: Scene
) -> tuple[Micros, Micros] | None:
    """Return the earliest and latest arrival of the attempt after `one`; None where the first is unknown."""
    facts, rate = scene.options.facts, scene.rate
    pinned = scene.options.pinned("retry_jitter_percent")
    percent = scene.options.default("retry_jitter_percent") if pinned else JITTER_PERCENT
    delay, patience = facts.webhook_delays[failed.attempt - 1] // rate, facts.webhook_timeout
    spread = delay * percent // 100 + MARGIN
    if way == "failure":
        return failed.received + delay - spread, failed.received + delay + spread + 2 * patience
    if first.attempt != 1:
        return None
    delays = sum(facts.webhook_delays[: failed.attempt]) // rate
    latest = max(first.received + delays, failed.received) + spread + 2 * patience
    return first.received + delays - spread, latest


def _judge_needless(
    earlier: ReceivedAttempt, later: ReceivedAttempt, seen: AttemptOutcome, listed: Listing, tally: Tally
) -> None:
    """A retry after a 2xx breaks the rule if the sender lists that 2xx; else the answer may be lost."""
    attempt = listed.attempts.get(earlier.key)
    if seen.acknowledged is None:
        tally.open(ACKNOWLEDGED, "the answer came at the time limit")
    elif attempt is None or attempt.status is None or not 200 <= attempt.status <= 299:
        tally.open(ACKNOWLEDGED, "nothing tells whether the sender got the answer")
    else:
        says = (
            f"attempt {earlier.attempt} was answered {earlier.status} in time, and {later.attempt} came all "
            "the same"
        )
        tally.broke(ACKNOWLEDGED, _evidence(says, (earlier, later)), case=str(earlier.status))


# What should have come


def _judge_last(
    attempts: Sequence[ReceivedAttempt], endpoint: ObservedEndpoint, scene: Scene, tally: Tally
) -> None:
    """Nothing follows an acknowledged attempt; a retry follows a failed one, unless its endpoint is shut.

    Necessary: a list that was read whole, well after the retry was due, and that goes back to the failed
    attempt, shows the retry if it was made.
    """
    facts, last = scene.options.facts, attempts[-1]
    seen = outcome(last, facts.webhook_timeout)
    if seen.acknowledged:
        tally.held(ACKNOWLEDGED, case=_heeded(last, scene), by=(last.name,))
        return
    if seen.acknowledged is None or scene.rate == 0:
        return
    if last.attempt >= facts.webhook_attempts:
        late = last.received + _longest_wait(facts.webhook_delays[-1], scene)
        if late < scene.end and scene.ledger.steady(endpoint):
            tally.covers(AT_MOST, ANY, (last.name,))
        return
    due = last.received + _longest_wait(facts.webhook_delays[last.attempt - 1], scene)
    reading = scene.listed.complete(endpoint.owner, last.received + 1, due + GRACE)
    if due + GRACE > scene.end:
        tally.open(RETRIED, "the run ended before the retry was due")
    elif not scene.ledger.steady(endpoint):
        tally.open(RETRIED, "the endpoint was changed, disabled, or there before the run")
    elif (last.endpoint, last.event, last.attempt + 1) in scene.listed.attempts:
        tally.open(RETRIED, "the retry is listed and did not arrive: it was lost")
    elif reading is None or last.key not in reading.keys:
        tally.open(RETRIED, "the retry did not arrive, and no later list tells whether it was made")
    else:
        _missing(last, scene, tally)


def _heeded(last: ReceivedAttempt, scene: Scene) -> str | None:
    """Return the 2xx after which no retry came, where one would have come before the end of the run."""
    facts = scene.options.facts
    if last.attempt > len(facts.webhook_delays) or scene.rate == 0:
        return None
    late = last.received + _longest_wait(facts.webhook_delays[last.attempt - 1], scene)
    return str(last.status) if late < scene.end else None


def _longest_wait(delay: Micros, scene: Scene) -> Micros:
    """Return how long after an attempt the next one, and what lists that, may come."""
    delay //= scene.rate
    return delay + delay * JITTER_PERCENT // 100 + MARGIN + 3 * scene.options.facts.webhook_timeout


def _missing(last: ReceivedAttempt, scene: Scene, tally: Tally) -> None:
    """Report that a retry was not made: where a late 2xx is listed, because it was taken for one in time."""
    listed = scene.listed.attempts[last.key]
    says = f"attempt {last.attempt} failed, and attempt {last.attempt + 1} was not made when it was due"
    evidence = Evidence(says, (listed.seen.id,), (last.name,), last.endpoint, last.received)
    if last.status == 410:
        tally.differs(71, "no special case", "410 ends a delivery", evidence)
    elif last.status is not None and 200 <= last.status <= 299:
        tally.broke(TIMEOUT, evidence, case="a late 2xx")
    else:
        seen = outcome(last, scene.options.facts.webhook_timeout)
        tally.broke(RETRIED, evidence, case=_script(last, seen))


# Redirects


def _judge_redirects(
    event: str,
    attempts: Sequence[ReceivedAttempt],
    strays: Sequence[ReceivedAttempt],
    unnamed: set[str],
    tally: Tally,
) -> None:
    """A redirected attempt may come again to its endpoint, and its event nowhere that is no endpoint.

    A path counts as no endpoint only if no call named it, and all endpoints of the account were listed.
    """
    redirected = [came for came in attempts if came.status is not None and 300 <= came.status <= 399]
    if not redirected:
        return
    first = redirected[0]
    followed = [stray for stray in strays if stray.received >= first.received and stray.endpoint in unnamed]
    if followed:
        says = f"event {event} was redirected, and asked for {followed[0].endpoint}"
        tally.broke(REDIRECT, _evidence(says, (first, followed[0])), case=str(first.status))
    elif any(stray.received >= first.received for stray in strays):
        tally.open(REDIRECT, "its event came to a path that may be another endpoint's")
    else:
        tally.held(REDIRECT, case=str(first.status), by=(first.name,))


def _evidence(says: str, attempts: Sequence[ReceivedAttempt]) -> Evidence:
    names = tuple(arrived.name for arrived in attempts)
    return Evidence(says, (), names, attempts[0].endpoint, attempts[-1].received)
