"""Judge the timeline of retries: numbers, delays, when they stop (S81, S87-S90, S93).

What our receiver answered is known: an attempt failed unless it was answered 2xx within 10 s. Near 10 s
nobody can tell which side saw what. A run that ends before a retry was due is censored; an attempt that never
came, or an answer that the sender did not get, may be lost: the deployment's own list decides, where it was
read late enough. A sender waits 10 s for an answer (S88), so what it sent arrives within 10 s or not at all.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ranksim.core.clock import DISTANT_FUTURE, MINUTE, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt, texts
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    GRACE,
    ObservedEndpoint,
    WebhookJudge,
    WebhookLog,
    attempt_evidence,
)
from ranksim.judge.conformance.webhooks.failure_runs import AttemptOutcome, outcome
from ranksim.judge.conformance.webhooks.patience import IN_TIME, MARGIN, TIMEOUT, is_2xx, judge_patience

NUMBERS = "webhook.attempts"
DELAYS = "webhook.retry_delays"
RETRIED = "webhook.retried"
ACKNOWLEDGED = "webhook.acknowledged"
REDIRECT = "webhook.redirect"
AT_MOST = "webhook.six_attempts"

GAPS = ("1 min", "5 min", "30 min", "2 h", "6 h")
"""The delays of S90, as cases."""

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
            Breach(88, "an attempt is cut off before 10 s", IN_TIME),
            Breach(88, "silence is waited for longer than 10 s", "no answer"),
            Breach(88, "a 2xx after 10 s acknowledges", "a late 2xx"),
        ),
        essential={
            IN_TIME: "no answer that took more than 5 s was seen to count",
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

JITTER_PERCENT = 10
"""The most that U67 lets a delay vary while no policy pins it."""

REPEATED = 30 * SECOND
"""How soon after a crash a sender may make an attempt again under its number (S93)."""


@dataclass
class RetryJudge(WebhookJudge):
    """Judges the timeline of every delivery: the attempts of one event at one endpoint."""

    tally: Tally = field(default_factory=lambda: Tally(RULES))
    texts: set[str] = field(default_factory=set)
    """What was sent and shown that may name a path."""
    unfit: dict[str, Evidence] = field(default_factory=dict)
    """By each way to count delays (U67), the first that it does not explain though another does."""
    stalls: Sequence[Micros] = ()
    """When the receiver noted that it stood still."""

    def wants(self, like: Observation) -> bool:
        """What shows endpoints or attempts, and any text that may name a path."""
        return WebhookLog.wants(like) or like.surface == "graphql"

    def see(self, seen: Observation) -> None:
        """Log an exchange, and the texts in it."""
        if seen.surface == "graphql" or seen.operation.startswith("webhooks."):
            self.texts.update(text for text in texts([seen.body, seen.data, seen.items]) if "/" in text)
        super().see(seen)

    def conclude(self) -> None:
        """Judge each delivery."""
        self.stalls = sorted(note.t for note in self.run.notes if note.t is not None and "stall" in note.text)
        endpoints = self.ledger.endpoints
        deliveries: dict[tuple[str, str], list[ReceivedAttempt]] = defaultdict(list)
        elsewhere: dict[str, list[ReceivedAttempt]] = defaultdict(list)
        for arrived in self.log.arrived:
            if arrived.endpoint in endpoints and arrived.event and arrived.attempt:
                deliveries[arrived.endpoint, arrived.event].append(arrived)
            elif arrived.event:
                elsewhere[arrived.event].append(arrived)
        unnamed = self._unnamed({stray.endpoint for strays in elsewhere.values() for stray in strays})
        for (endpoint, event), attempts in deliveries.items():
            self._judge_numbers(attempts)
            self._judge_delays(attempts, endpoints[endpoint])
            self._judge_last(attempts[-1], endpoints[endpoint])
            self._judge_redirects(attempts, elsewhere.get(event, ()), unnamed)
        self._judge_ways()
        came = [arrived for attempts in deliveries.values() for arrived in attempts]
        judge_patience(came, self.ledger.listed.attempts, self.run, self.options.facts, self.tally)

    def _unnamed(self, strayed_to: set[str]) -> set[str]:
        """Return the paths to which events came though nothing sent or shown names them as an endpoint's."""
        paths = {path for path in strayed_to if path.startswith("/")}
        listed = any(
            seen.operation == "webhooks.list"
            and seen.ok
            and seen.has_more is False
            and self.run.key(seen.key).domain_id is None
            for seen in self.log.calls
        )
        if not paths or not listed or not self.run.exclusive:
            return set()
        return paths - {path for text in self.texts for path in paths if path in text}

    def _outcome(self, attempt: ReceivedAttempt) -> AttemptOutcome:
        return outcome(attempt, self.options.facts.webhook_timeout)

    # Numbers

    def _judge_numbers(self, attempts: Sequence[ReceivedAttempt]) -> None:
        """Numbers grow with time and pass no limit; a gap means that one was lost on the way.

        An attempt that came again under its number soon after may be the same one, sent again by a sender
        that stopped before it heard the answer (S93). One is made only when the one before was answered or
        given up.
        """
        facts = self.options.facts
        most, last = facts.webhook_attempts, max(attempts, key=lambda came: came.attempt)
        says = f"attempt {last.attempt} came, beyond the {most} that a delivery has"
        if last.attempt <= most:
            self.tally.held(AT_MOST, case=None)
        else:
            self.tally.broke(AT_MOST, attempt_evidence(says, last))
        for earlier, later in pairwise(attempts):
            soon = REPEATED if later.attempt == earlier.attempt else facts.webhook_timeout
            if later.attempt > earlier.attempt:
                self.tally.held(NUMBERS, by=(earlier.name, later.name))
            elif earlier.answered is None or later.received <= earlier.answered:
                self.tally.open(NUMBERS, "two attempts overlapped")
            elif later.received - earlier.received <= soon:
                self.tally.open(NUMBERS, "an attempt came twice at once, or overtaken")
            else:
                says = f"attempt {later.attempt} came after attempt {earlier.attempt} had been answered"
                self.tally.broke(NUMBERS, attempt_evidence(says, earlier, later))

    # Delays

    def _judge_delays(self, attempts: Sequence[ReceivedAttempt], endpoint: ObservedEndpoint) -> None:
        """Of two attempts the later is a retry: the earlier failed, and its delay lies between them."""
        for earlier, later in pairwise(attempts):
            if later.attempt != earlier.attempt + 1 or earlier.attempt >= self.options.facts.webhook_attempts:
                continue
            ended, by = self._outcome(earlier), (earlier.name, later.name)
            if ended.acknowledged is not False:
                self._judge_needless(earlier, later, ended)
                continue
            self.tally.held(RETRIED, case=_script(earlier, ended), by=by)
            if earlier.status is None or ended.at < (earlier.answered or 0):
                self.tally.held(TIMEOUT, case="a late 2xx" if is_2xx(earlier) else None, by=by)
            at = bisect_left(self.stalls, earlier.received)
            stalled = any(stall <= later.received + MINUTE for stall in self.stalls[at : at + 1])
            if self.run.rate == 0 or stalled:
                says = "the receiver stalled, or the deployment's clock changed its pace"
                self.tally.open(DELAYS, says)
            else:
                self._judge_delay(earlier, later, attempts, endpoint)

    def _judge_delay(
        self,
        earlier: ReceivedAttempt,
        later: ReceivedAttempt,
        attempts: Sequence[ReceivedAttempt],
        endpoint: ObservedEndpoint,
    ) -> None:
        """Between two attempts lies the delay of the earlier, from its failure or added up from the first.

        Necessary: the sender saw the failure between the arrival and the end of its patience, and "about"
        covers the jitter of U67 and a margin. A retry that was paused while its endpoint was disabled (U69)
        may be late.
        """
        came, case = later.received, GAPS[earlier.attempt - 1] if earlier.attempt <= len(GAPS) else "later"
        spans = {way: self._span(way, earlier, attempts[0]) for way in self.options.candidates("retry_from")}
        fits = [way for way, span in spans.items() if span is not None and span[0] <= came <= span[1]]
        low, high = (format_millis(end - earlier.received) for end in next(iter(spans.values())) or (0, 0))
        says = (
            f"attempt {later.attempt} came {format_millis(came - earlier.received)} after attempt "
            f"{earlier.attempt}, not {low} to {high}"
        )
        expected = f"attempt {later.attempt} within {low} to {high}"
        evidence = attempt_evidence(says, earlier, later, expected=expected)
        waited = endpoint.touched or not self.run.exclusive
        repeated = len({attempt.attempt for attempt in attempts}) < len(attempts)
        if fits:
            self.tally.held(DELAYS, case=case, by=evidence.deliveries)
            for way, span in spans.items():
                if span is not None and way not in fits and not (repeated or (waited and came > span[1])):
                    self.unfit.setdefault(way, evidence)
        elif None in spans.values():
            self.tally.open(DELAYS, "the first attempt did not arrive, and delays may count from it")
        elif waited and came > max(span[1] for span in spans.values() if span):
            says = "it came late, perhaps because its endpoint was disabled for a while"
            self.tally.open(DELAYS, says)
        else:
            self.tally.broke(DELAYS, evidence, case=case)

    def _judge_ways(self) -> None:
        """One way to count delays explains all of them (U67).

        An attempt that came twice, or late where it may have been paused, tells of none.
        """
        default, *others = self.options.candidates("retry_from")
        other = next((way for way in others if way not in self.unfit), None)
        if default not in self.unfit:
            return
        evidence = self.unfit[default]
        if other is not None:
            self.tally.differs(67, default, other, evidence)
            return
        against = self.unfit[others[0]].deliveries
        says = f"{evidence.says}, and {against[1]} came when it was due by that way alone, from {default}"
        self.tally.broke(DELAYS, replace(evidence, says=says, deliveries=(*evidence.deliveries, *against)))

    def _span(
        self, way: str, failed: ReceivedAttempt, first: ReceivedAttempt
    ) -> tuple[Micros, Micros] | None:
        """Return when the attempt after a failed one may come; None where the first is not known."""
        facts, rate = self.options.facts, self.run.rate
        pinned = self.options.pinned("retry_jitter_percent")
        percent = self.options.default("retry_jitter_percent") if pinned else JITTER_PERCENT
        spread = facts.webhook_delays[failed.attempt - 1] // rate * percent // 100 + MARGIN
        if way == "failure":
            due = failed.received + facts.webhook_delays[failed.attempt - 1] // rate
        elif first.attempt == 1:
            due = first.received + sum(facts.webhook_delays[: failed.attempt]) // rate
        else:
            return None
        return due - spread, max(due, failed.received) + spread + 2 * facts.webhook_timeout

    def _judge_needless(
        self, earlier: ReceivedAttempt, later: ReceivedAttempt, ended: AttemptOutcome
    ) -> None:
        """A retry after a 2xx breaks the rule if the sender lists that 2xx; else the answer may be lost."""
        attempt = self.ledger.listed.attempts.get(earlier.key)
        if ended.acknowledged is None:
            self.tally.open(ACKNOWLEDGED, "the answer came at the time limit")
        elif attempt is None or attempt.status is None or not 200 <= attempt.status <= 299:
            self.tally.open(ACKNOWLEDGED, "nothing tells whether the sender got the answer")
        else:
            says = (
                f"attempt {earlier.attempt} was answered {earlier.status} in time, and {later.attempt} came "
                "all the same"
            )
            self.tally.broke(ACKNOWLEDGED, attempt_evidence(says, earlier, later), case=str(earlier.status))

    # What should have come

    def _judge_last(self, last: ReceivedAttempt, endpoint: ObservedEndpoint) -> None:
        """Nothing follows an acknowledged attempt; a retry follows a failed one, unless its endpoint is shut.

        Necessary: a list that was read whole, well after the retry was due, and that goes back to the failed
        attempt, shows the retry if it was made.
        """
        facts, tally, listed = self.options.facts, self.tally, self.ledger.listed
        ended, steady = self._outcome(last).acknowledged, self.ledger.steady(endpoint)
        due = DISTANT_FUTURE if self.run.rate == 0 else last.received + self._longest_wait(last.attempt)
        if ended:
            heeded = last.attempt <= len(facts.webhook_delays) and due < self.run.ended
            tally.held(ACKNOWLEDGED, case=str(last.status) if heeded else None, by=(last.name,))
        elif ended is None or self.run.rate == 0:
            pass
        elif last.attempt >= facts.webhook_attempts:
            if due < self.run.ended and steady:
                tally.covers(AT_MOST, ANY, (last.name,))
        elif due + GRACE > self.run.ended:
            tally.open(RETRIED, "the run ended before the retry was due")
        elif not steady:
            tally.open(RETRIED, "the endpoint was changed, disabled, or there before the run")
        elif (last.endpoint, last.event, last.attempt + 1) in listed.attempts:
            tally.open(RETRIED, "the retry is listed and did not arrive: it was lost")
        else:
            reading = listed.complete(endpoint.owner, last.received + 1, due + GRACE)
            if reading is None or last.key not in reading.keys:
                says = "the retry did not arrive, and no later list tells whether it was made"
                tally.open(RETRIED, says)
            else:
                self._judge_missing(last)

    def _longest_wait(self, attempt: int) -> Micros:
        """Return how long after an attempt the next one, and what lists that, may come."""
        facts = self.options.facts
        delay = next(reversed(facts.webhook_delays[:attempt]), 0) // self.run.rate
        return delay + delay * JITTER_PERCENT // 100 + MARGIN + 3 * facts.webhook_timeout

    def _judge_missing(self, last: ReceivedAttempt) -> None:
        """Report that a retry was not made; after a late 2xx, because that was taken for one in time."""
        listed = self.ledger.listed.attempts[last.key]
        says = f"attempt {last.attempt} failed, and attempt {last.attempt + 1} was not made when it was due"
        evidence = attempt_evidence(says, last, exchanges=(listed.seen.id,))
        if last.status == 410:
            self.tally.differs(71, "no special case", "410 ends a delivery", evidence)
        elif is_2xx(last):
            self.tally.broke(TIMEOUT, evidence, case="a late 2xx")
        else:
            self.tally.broke(RETRIED, evidence, case=_script(last, self._outcome(last)))

    # Redirects

    def _judge_redirects(
        self, attempts: Sequence[ReceivedAttempt], strays: Sequence[ReceivedAttempt], unnamed: set[str]
    ) -> None:
        """A redirected attempt may come again to its endpoint, and its event nowhere that is no endpoint.

        A path counts as no endpoint only if no call named it, and all endpoints of the account were listed.
        """
        first = next((came for came in attempts if 300 <= (came.status or 0) <= 399), None)
        if first is None:
            return
        strays = [stray for stray in strays if stray.received >= first.received]
        followed = next((stray for stray in strays if stray.endpoint in unnamed), None)
        if followed is not None:
            says = f"event {first.event} was redirected, and asked for {followed.endpoint}"
            self.tally.broke(REDIRECT, attempt_evidence(says, first, followed), case=str(first.status))
        elif strays:
            self.tally.open(REDIRECT, "its event came to a path that may be another endpoint's")
        else:
            self.tally.held(REDIRECT, case=str(first.status), by=(first.name,))


def _script(arrived: ReceivedAttempt, ended: AttemptOutcome) -> str:
    """Return the case of a failed attempt: what it was answered, and its number."""
    in_time = arrived.status is not None and arrived.answered is not None and ended.at >= arrived.answered
    return f"{f'{(arrived.status or 0) // 100}xx' if in_time else 'no answer'}, attempt {arrived.attempt}"
