"""How webhook attempts ended for their sender, and what runs of failures that allows (S87-S92, U66).

The receiver is ours, so what it answered and when is known; what the sender saw of it is not. An outcome
lies between the arrival and the end of the sender's patience, and a success is certain only where it is
listed, as an answer may be lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ranksim.core.clock import DISTANT_FUTURE, MILLISECOND, SECOND, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.history.observation import ReceivedAttempt

GRAY = SECOND
"""An answer this near to the time limit may have been in time or not."""

NOTED = SECOND
"""How long a sender may take to note an outcome that it saw."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended for its sender: acknowledged, failed, or unknown (None); known from `at`."""

    acknowledged: bool | None
    at: Micros


def outcome(arrived: ReceivedAttempt, timeout: Micros) -> AttemptOutcome:
    """Return what a receiver's answer means (S87-S89), if it got to the sender."""
    answered = arrived.answered
    if answered is None or arrived.status is None or answered - arrived.received > timeout + GRAY:
        return AttemptOutcome(False, arrived.received + timeout)
    fine = 200 <= arrived.status <= 299
    if answered - arrived.received > timeout - GRAY:
        return AttemptOutcome(None if fine else False, answered)
    return AttemptOutcome(fine, answered)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt ended: when the sender can have noted it, and whether it was acknowledged.

    `last` tells whether it was the delivery's last attempt, which is what U66's other option counts.
    """

    arrived: ReceivedAttempt
    low: Micros
    high: Micros
    acknowledged: bool | None
    last: bool


def end_of(came: ReceivedAttempt, status: int | None, duration: int | None, facts: Facts) -> AttemptEnd:
    """Place one outcome; `status` and `duration` (ms) are what the deployment lists of it.

    Where it lists our very answer, it saw that one so long after sending as it says.
    """
    seen = outcome(came, facts.webhook_timeout)
    heard = status is not None and status == came.status
    waited = facts.webhook_timeout
    if heard and duration is not None:
        waited = min(waited, duration * MILLISECOND)
    acknowledged = None if seen.acknowledged and not heard else seen.acknowledged
    last = came.attempt >= facts.webhook_attempts
    return AttemptEnd(came, came.received, max(seen.at, came.received + waited) + NOTED, acknowledged, last)


def longest_runs(
    ends: Sequence[AttemptEnd], way: str, until: Micros = DISTANT_FUTURE
) -> list[tuple[int, Micros, Micros]]:
    """Return how many failures may lie between two successes, from when and until when, one after another.

    Of attempts that came before `until`. The i-th success was noted between the i-th of their lower bounds
    and the i-th of the upper ones; between two may fall every failure that did not surely end before the one
    or begin after the other.
    """
    counted = [end for end in ends if end.low <= until]
    failures = [end for end in counted if end.acknowledged is not True and (way == "attempt" or end.last)]
    lows, highs = sorted(end.low for end in failures), sorted(end.high for end in failures)
    successes = [end for end in counted if end.acknowledged]
    after = [-1, *sorted(end.low for end in successes)]
    before = [*sorted(end.high for end in successes), DISTANT_FUTURE]
    return [
        (bisect_right(lows, end) - bisect_left(highs, start), start, end)
        for start, end in zip(after, before, strict=True)
    ]


def longest_run(ends: Sequence[AttemptEnd], way: str, until: Micros = DISTANT_FUTURE) -> int:
    """Return how many failures in a row some order allows, of attempts that came before `until`."""
    return max(longest_runs(ends, way, until))[0]


def that_matter(ends: Sequence[AttemptEnd], limit: int) -> list[AttemptEnd]:
    """Return the ends without those failures that can be in no run of `limit`."""
    runs = [(start, until) for failures, start, until in longest_runs(ends, "attempt") if failures >= limit]
    starts = [start for start, _ in runs]
    return [
        end
        for end in ends
        if end.acknowledged or ((at := bisect_right(starts, end.high)) and end.low <= runs[at - 1][1])
    ]
