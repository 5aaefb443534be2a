"""Judge the timeline of retries: numbers, delays, when they stop (S81, S87-S90, S93).

Each attempt's outcome is known, since the receiver is ours: it failed unless it was answered 2xx within 10 s.
Near 10 s nobody can tell which side saw what. A run that ends before a retry was due is censored; an attempt
that never came, or an answer that the sender did not get, may be lost: the deployment's own list decides,
where it was read late enough.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ranksim.clock import MINUTE, SECOND, Micros
from ranksim.conformance.endpoints import Endpoint, Listing, endpoints, listing
from ranksim.conformance.history import Arrived, History
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally

NUMBERS = "webhook.attempts"
DELAYS = "webhook.retry_delays"
RETRIED = "webhook.retried"
ACKNOWLEDGED = "webhook.acknowledged"
TIMEOUT = "webhook.timeout"
REDIRECT = "webhook.redirect"
AT_MOST = "webhook.six_attempts"

RULES = (
    Rule(NUMBERS, "Attempts of a delivery are numbered 1, 2, 3 and so on", (81,), (), "webhooks"),
    Rule(DELAYS, "Retries follow after about 1 min, 5 min, 30 min, 2 h, 6 h", (90,), (67,), "webhooks-long"),
    Rule(RETRIED, "A failed attempt is tried again, up to six in all", (87, 90, 93), (69,), "webhooks-long"),
    Rule(ACKNOWLEDGED, "Any 2xx in time ends a delivery", (87,), (71,), "webhooks"),
    Rule(TIMEOUT, "An answer after 10 s is too late", (88,), (), "webhooks"),
    Rule(REDIRECT, "A redirect is not followed, and fails", (89,), (), "webhooks"),
    Rule(AT_MOST, "A delivery has six attempts at most", (90,), (), "webhooks-long"),
)

GRAY = SECOND
"""An answer this near to the time limit may have been in time or not."""

MARGIN = 5 * SECOND
"""What a sender and a network may add to a delay that the specification calls approximate."""

JITTER_PERCENT = 10
"""The most that U67 lets a delay vary while no policy pins it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended for its sender: acknowledged, failed, or unknown (None); known from `at`."""

    acknowledged: bool | None
    at: Micros


def outcome(arrived: Arrived, timeout: Micros) -> Outcome:
    """Give the sender's view of one attempt (S87-S89)."""
    answered = arrived.answered
    if answered is None or arrived.status is None or answered - arrived.received > timeout + GRAY:
        return Outcome(False, arrived.received + timeout)
    if answered - arrived.received > timeout - GRAY:
        return Outcome(None if 200 <= arrived.status <= 299 else False, answered)
    return Outcome(200 <= arrived.status <= 299, answered)


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge the timeline of every delivery: the attempts of one event at one endpoint."""
    deliveries: dict[tuple[str, str], list[Arrived]] = defaultdict(list)
    for arrived in history.arrived:
        if arrived.event and arrived.attempt:
            deliveries[arrived.endpoint, arrived.event].append(arrived)
    known, listed = endpoints(history), listing(history)
    failing = _failing(history, listed, options)
    for (endpoint, event), attempts in deliveries.items():
        if endpoint not in known and endpoint.startswith("/"):
            continue  # where a redirect pointed, or an endpoint from before the trace
        _judge_numbers(attempts, options, tally)
        _judge_delays(attempts, listed, history, options, tally)
        steady = _stays_enabled(known.get(endpoint), failing[endpoint], options)
        _judge_last(attempts[-1], known.get(endpoint), steady, listed, history, options, tally)
        _judge_redirects(event, attempts, deliveries, known, tally)


def _failing(history: History, listed: Listing, options: Options) -> Counter[str]:
    """Count the attempts at each endpoint that may have failed, whether they arrived or are listed only."""
    arrived = {(came.endpoint, came.event, came.attempt) for came in history.arrived}
    counts = Counter(
        came.endpoint
        for came in history.arrived
        if not outcome(came, options.facts.webhook_timeout).acknowledged
    )
    counts.update(endpoint for endpoint, event, number in listed.attempts.keys() - arrived)
    return counts


def _stays_enabled(endpoint: Endpoint | None, failing: int, options: Options) -> bool:
    """Whether an endpoint made in this trace was surely never disabled, by a call or by its failures."""
    if endpoint is None or endpoint.created is None or endpoint.touched:
        return False
    seen_disabled = any(setting.enabled is False for setting in endpoint.settings)
    return not seen_disabled and failing < options.facts.webhook_disable_after


def _judge_numbers(attempts: Sequence[Arrived], options: Options, tally: Tally) -> None:
    """Numbers grow with time and pass no limit; a gap means that one was lost on the way.

    An attempt that came again under its number within half the first delay may be the same one, sent again by
    a sender that stopped before it heard the answer (S93).
    """
    most = options.facts.webhook_attempts
    says = f"attempt {attempts[-1].attempt} came, beyond the {most} that a delivery has"
    tally.check(AT_MOST, max(a.attempt for a in attempts) <= most, _evidence(says, attempts[-1:]))
    for one, other in pairwise(attempts):
        if one.answered is not None and other.received <= one.answered:
            tally.open(NUMBERS, "two attempts overlapped")
        elif other.attempt > one.attempt:
            tally.held(NUMBERS)
        elif other.attempt == one.attempt and _soon(one, other, options):
            tally.open(NUMBERS, "an attempt came twice at once, as a sender may after a crash")
        else:
            says = f"attempt {other.attempt} came after attempt {one.attempt} had been answered"
            tally.broke(NUMBERS, _evidence(says, (one, other)))


def _soon(one: Arrived, other: Arrived, options: Options) -> bool:
    return other.received - one.received < options.facts.webhook_delays[0] // 2


def _judge_delays(
    attempts: Sequence[Arrived], listed: Listing, history: History, options: Options, tally: Tally
) -> None:
    """Between two attempts in a row lies the delay of the first, from its failure or added up from the first.

    Necessary: the sender saw the failure between our answer and the end of its patience, and "about" covers
    the jitter of U67 and a margin.
    """
    facts, rate = options.facts, history.rate
    for one, other in pairwise(attempts):
        if other.attempt != one.attempt + 1 or one.attempt > len(facts.webhook_delays):
            continue
        seen = outcome(one, facts.webhook_timeout)
        if seen.acknowledged is not False:
            _judge_needless(one, other, seen, listed, tally)
            continue
        tally.held(RETRIED)
        if one.answered is not None and one.answered - one.received > facts.webhook_timeout + GRAY:
            tally.held(TIMEOUT)
        if rate == 0 or _stalled(history, one.received, other.received):
            tally.open(DELAYS, "the receiver stalled, or the deployment's clock changed its pace")
            continue
        spans = list(_spans(one, other, seen, attempts, options, rate))
        if any(low <= gap <= high for gap, low, high in spans):
            tally.held(DELAYS)
        else:
            gap, low, high = spans[0]
            says = (
                f"attempt {other.attempt} came {gap / SECOND:.1f} s after attempt {one.attempt} failed, "
                f"not {low / SECOND:.1f} to {high / SECOND:.1f} s"
            )
            tally.broke(DELAYS, _evidence(says, (one, other)))


def _spans(
    one: Arrived, other: Arrived, seen: Outcome, attempts: Sequence[Arrived], options: Options, rate: int
) -> Iterator[tuple[Micros, Micros, Micros]]:
    """Give (gap, least, most) for each open way to count the delay (U67)."""
    delays = [delay // rate for delay in options.facts.webhook_delays]
    pinned = options.pinned("retry_jitter_percent")
    percent = options.default("retry_jitter_percent") if pinned else JITTER_PERCENT
    for way in options.candidates("retry_from"):
        if way == "failure":
            delay, gap = delays[one.attempt - 1], other.received - seen.at
        elif attempts[0].attempt == 1:
            first = outcome(attempts[0], options.facts.webhook_timeout)
            delay, gap = sum(delays[: one.attempt]), other.received - first.at
        else:
            continue
        spread = delays[one.attempt - 1] * percent // 100
        waited = seen.at - one.received  # the sender may have counted from any moment of the attempt
        yield gap, delay - spread - waited - MARGIN, delay + spread + MARGIN


def _judge_needless(one: Arrived, other: Arrived, seen: Outcome, listed: Listing, tally: Tally) -> None:
    """A retry after a 2xx breaks the rule if the sender lists that 2xx; else the answer may be lost."""
    told = listed.attempts.get((one.endpoint, one.event, one.attempt))
    if seen.acknowledged is None:
        tally.open(ACKNOWLEDGED, "the answer came at the time limit")
    elif told is None or told.status is None or not 200 <= told.status <= 299:
        tally.open(ACKNOWLEDGED, "nothing tells whether the sender got the answer")
    else:
        says = (
            f"attempt {one.attempt} was answered {one.status} in time, and {other.attempt} came all the same"
        )
        tally.broke(ACKNOWLEDGED, _evidence(says, (one, other)))


def _judge_last(
    last: Arrived,
    endpoint: Endpoint | None,
    steady: bool,
    listed: Listing,
    history: History,
    options: Options,
    tally: Tally,
) -> None:
    """Nothing follows an acknowledged attempt; a retry follows a failed one, unless its endpoint is shut."""
    facts, rate = options.facts, history.rate
    seen = outcome(last, facts.webhook_timeout)
    if seen.acknowledged:
        tally.held(ACKNOWLEDGED)
        return
    if seen.acknowledged is None or last.attempt >= facts.webhook_attempts or rate == 0:
        return
    delay = facts.webhook_delays[last.attempt - 1] // rate
    due = seen.at + delay + delay * JITTER_PERCENT // 100 + 2 * MARGIN
    if due > _end(history):
        tally.open(RETRIED, "the run ended before the retry was due")
    elif not steady or endpoint is None:
        tally.open(RETRIED, "the endpoint was changed, disabled, or there before the run")
    elif (last.endpoint, last.event, last.attempt + 1) in listed.attempts:
        tally.open(RETRIED, "the retry is listed and did not arrive: it was lost")
    elif (last.endpoint, last.event, last.attempt) not in listed.attempts or not listed.read_after(
        endpoint.account, due
    ):
        tally.open(RETRIED, "the retry did not arrive, and no later list tells whether it was made")
    else:
        says = f"attempt {last.attempt} failed, and attempt {last.attempt + 1} was not made when it was due"
        tally.broke(RETRIED, _evidence(says, (last,)))


def _judge_redirects(
    event: str,
    attempts: Sequence[Arrived],
    deliveries: Mapping[tuple[str, str], Sequence[Arrived]],
    known: Mapping[str, Endpoint],
    tally: Tally,
) -> None:
    """A redirected attempt may come again to its endpoint, and its event nowhere that is no endpoint."""
    redirected = [came for came in attempts if came.status is not None and 300 <= came.status <= 399]
    if not redirected:
        return
    elsewhere = [
        came
        for (endpoint, named), others in deliveries.items()
        if named == event and endpoint not in known and endpoint != redirected[0].endpoint
        for came in others
        if came.received >= redirected[0].received
    ]
    says = f"event {event} was redirected, and asked for {elsewhere[0].endpoint}" if elsewhere else ""
    tally.check(REDIRECT, not elsewhere, _evidence(says, (redirected[0], *elsewhere[:1])))


def _stalled(history: History, start: Micros, end: Micros) -> bool:
    """Whether the receiver noted that it stood still in between."""
    for note in history.notes:
        if note.t is not None and "stall" in note.text and start <= note.t <= end + MINUTE:
            return True
    return False


def _end(history: History) -> Micros:
    """The last instant at which the receiver or a caller was seen at work."""
    return max(
        [seen.sent for seen in history.seen[-1:]] + [came.received for came in history.arrived[-1:]],
        default=0,
    )


def _evidence(says: str, attempts: Sequence[Arrived]) -> Evidence:
    names = tuple(f"{arrived.event}/{arrived.attempt}" for arrived in attempts)
    return Evidence(says, (), names, attempts[0].endpoint, attempts[-1].received)
