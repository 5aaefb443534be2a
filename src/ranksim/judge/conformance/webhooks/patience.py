"""Judge how long a sender waits for an answer: ten seconds, no less and no more (S88)."""

from collections.abc import Mapping, Sequence

from ranksim.core.clock import MILLISECOND, SECOND, Micros, format_millis
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import ReceivedAttempt
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.conformance.webhooks.endpoints import Key, Listed, attempt_evidence
from ranksim.judge.conformance.webhooks.failure_runs import GRAY, outcome

TIMEOUT = "webhook.timeout"

IN_TIME = "an answer within 10 s"
"""One that took more than half of them, so that a sender of less patience would have given up."""

MARGIN = 5 * SECOND
"""What "about" adds to a delay, and a sender's own pace."""

ALIKE = 500 * MILLISECOND
"""How far waits are apart that one limit of a sender makes, measured at the receiver."""

APART = SECOND
"""How far the ends of attempts are apart that no one event, such as a sender's restart, has ended."""

CUT_OFF = 3
"""Attempts that ended after one wait, each by itself: the network, which may end any, keeps no such time."""


def judge_patience(
    attempts: Sequence[ReceivedAttempt],
    listed: Mapping[Key, Listed],
    run: ObservedRun,
    facts: Facts,
    tally: Tally,
) -> None:
    """A sender waits 10 s for an answer that never comes, as it lists, and for a late one (S88, U75).

    When the retry comes does not tell: it may be as late for its delay (U67) as for a longer wait.
    """
    for arrived in attempts:
        if arrived.key in listed:
            _judge_listed(arrived, listed[arrived.key], run, facts, tally)
    if run.rate == 1:
        _judge_cut_off(attempts, listed, facts.webhook_timeout, tally)


def _judge_listed(
    arrived: ReceivedAttempt, listed: Listed, run: ObservedRun, facts: Facts, tally: Tally
) -> None:
    """An answer after more than half of the time is waited for where it is listed; else it may be lost."""
    patience, by = facts.webhook_timeout, (listed.seen.id, arrived.name)
    if is_2xx(arrived) and outcome(arrived, patience).acknowledged:
        in_time = (arrived.answered or 0) - arrived.received > patience // 2
        if in_time and listed.status == arrived.status:
            tally.held(TIMEOUT, case=IN_TIME, by=by)
        elif in_time:
            says = "an answer that came in time, but late, is not listed: it may have been lost"
            tally.open(TIMEOUT, says)
    elif arrived.status is None and listed.status is None and listed.duration is not None:
        waited = listed.duration * MILLISECOND
        says = (
            f"attempt {arrived.attempt} was not answered, and is listed as under way for "
            f"{format_millis(waited)}"
        )
        expected = f"given up after {format_millis(patience)}"
        evidence = attempt_evidence(says, arrived, exchanges=by[:1], expected=expected)
        if patience - GRAY <= waited <= patience + MARGIN:
            tally.held(TIMEOUT, case="no answer", by=by)
        elif waited > patience and run.rate == 1:
            tally.broke(TIMEOUT, evidence, case="no answer")


def _judge_cut_off(
    attempts: Sequence[ReceivedAttempt], listed: Mapping[Key, Listed], patience: Micros, tally: Tally
) -> None:
    """A sender that ends attempts before 10 s does so after a wait of its own, and waits for none longer.

    The network may end any connection, and a restart all of a sender's, but not each by itself after the same
    time. Whatever ended it, the sender lists no status: one that it lists came from something between.
    """
    longest, cut = 0, list[ReceivedAttempt]()
    for arrived in sorted(attempts, key=_waited):
        seen, left = listed.get(arrived.key), arrived.status is None
        if arrived.answered is not None and (left or (seen is not None and seen.status == arrived.status)):
            longest = _waited(arrived)
            if left and seen is not None and seen.status is None:
                cut.append(arrived)
    if not patience // 4 < longest < patience * 4 // 5:
        return
    ended = list[ReceivedAttempt]()
    for arrived in sorted(cut, key=lambda came: came.answered or 0):
        apart = not ended or (arrived.answered or 0) - (ended[-1].answered or 0) >= APART
        if longest - _waited(arrived) <= ALIKE and apart:
            ended.append(arrived)
    if len(ended) >= CUT_OFF:
        waits = ", ".join(format_millis(_waited(arrived)) for arrived in ended[:CUT_OFF])
        says = f"the sender left after {waits}, before an answer, and waited for none longer"
        exchanges = tuple(dict.fromkeys(listed[arrived.key].seen.id for arrived in ended[:CUT_OFF]))
        expected = f"an answer waited for up to {format_millis(patience)}"
        evidence = attempt_evidence(says, *ended[:CUT_OFF], exchanges=exchanges, expected=expected)
        tally.broke(TIMEOUT, evidence, case=IN_TIME)


def is_2xx(arrived: ReceivedAttempt) -> bool:
    """Return whether an attempt was answered with a success."""
    return arrived.status is not None and 200 <= arrived.status <= 299


def _waited(arrived: ReceivedAttempt) -> Micros:
    """Return how long an attempt was under way at its receiver; 0 where its end was not seen."""
    return 0 if arrived.answered is None else arrived.answered - arrived.received
