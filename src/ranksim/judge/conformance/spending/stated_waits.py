"""The wait that a refusal states is what is left of its cooldown, and is kept (S65).

It tells when the cooldown began, and something must have begun one then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.fields import integer_or_none
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import SpendCall, SpendWork
from ranksim.judge.conformance.spending.cooldown_groups import Span
from ranksim.judge.conformance.spending.cooldown_trial import Trial, cooldown_evidence
from ranksim.judge.conformance.verdict.verdicts import Evidence

Wait: TypeAlias = tuple[Micros, Micros]
"""The least and the most that a stated wait may be, in business time."""

Beginning: TypeAlias = tuple[SpendWork | None, Micros, Micros]
"""What can have begun a cooldown, and the span in which it can have."""


def judge_stated(trial: Trial, refused: SpendCall) -> None:
    """The stated wait ends the cooldown's length after its begin, and no acceptance comes before its end.

    So it tells when the cooldown began, and something must have begun one then. Where business time runs
    faster than the caller's, seconds of either may be meant.
    """
    stated = wait_of(refused.exchange)
    if stated is None or (trial.by_domain and not refused.domain):
        return
    waits = waits_of(stated, trial.runs.rate)
    if refused.spend in trial.runs.lengths and latest_begin(trial, refused) > DISTANT_PAST:
        _judge_length(trial, refused, waits)
    _judge_least(trial, refused, min(low for low, _ in waits))


def _judge_length(trial: Trial, refused: SpendCall, waits: Sequence[Wait]) -> None:
    """Break when nothing can have begun the cooldown when its wait has it begin.

    A run that alone can have begun it did so then: what later refusals tell of it is held against that.
    """
    runs = trial.runs
    spans = [runs.begun_by(refused, wait) for wait in waits]
    first = runs.sharing(refused, trial.kind).last_before(refused.low)
    begun = list(islice((begin for span in spans for begin in _beginnings(trial, refused, span)), 2))
    if not begun:
        trial.add("cooldown.stated", False, _not_begun(trial, refused, waits, first), refused.spend)
        return
    [(work, earliest, latest), *others] = begun
    if work is not None and not others and not trial.from_finish(refused.spend):
        trial.begun[work.exchange.id] = earliest, latest, refused
    if first is not None:  # it may have failed, and what is left of a run may be in the wait
        holds = any(low <= refused.high and high >= first.low for low, high in spans)
        trial.add("cooldown.stated", holds or None)
        if holds:
            trial.covers("cooldown.stated", refused.spend, first, refused)


def _beginnings(trial: Trial, refused: SpendCall, span: Span) -> Iterator[Beginning]:
    """Yield what can have begun the cooldown of a refusal within a span, and when; None: what was not seen.

    While the last that was surely accepted before has not failed, what went before it does not cool (U91),
    and what was accepted after it came when it was over, or had been cleared. The end of a run under way is
    estimated, so that a cooldown from its finish may be told to last longer.
    """
    runs, kind, (least, most), from_finish = trial.runs, trial.kind, span, trial.from_finish(refused.spend)
    shared, by_now = runs.sharing(refused, kind), min(most, refused.high)
    last = shared.last_before(refused.low, lambda work: runs.cools(work, refused, kind))
    since = DISTANT_PAST if last is None else last.low
    if last is not None and not from_finish and not runs.clears:
        since = runs.over(last)
    low, high = max(least, since), _latest_unseen(trial, refused)
    high = min(high, by_now if runs.activity.alone else most)
    if low <= high:
        yield None, low, high
    possible = shared.begun_since(min(least, refused.low), by_now)
    for work in possible if last is None or since <= by_now else [last]:
        low, high, _ = trial.begun.get(work.exchange.id, (work.low, runs.latest_beginning(work, kind), None))
        low = max(low, least) if work is last else max(low, least, since)
        high = most if from_finish and high >= refused.low else min(high, by_now)
        if low <= high:
            yield work, low, high


def _not_begun(trial: Trial, refused: SpendCall, waits: Sequence[Wait], first: SpendWork | None) -> Evidence:
    """Return evidence that nothing can have begun a cooldown at the time that a wait tells.

    Where that is only so by what an earlier refusal told, it is of both, and what comes later begins anew.
    """
    runs, length = trial.runs, trial.runs.lengths[refused.spend]
    stated, lasts = " or ".join(format_millis(high) for _, high in waits), format_millis(length)
    bounds, trial.begun = trial.begun, {}
    spans = [runs.begun_by(refused, wait) for wait in waits]
    begun = [work for span in spans for work, *_ in _beginnings(trial, refused, span)]
    before = [bounds[work.exchange.id][2] for work in begun if work is not None]
    if before:
        says = f"refused with {stated} to wait, and an earlier refusal has it end at another time"
        return cooldown_evidence(runs, says, (*before, refused), refused.low)
    if first is None:
        says = f"refused with {stated} to wait, and nothing was accepted {lasts} before its end"
        return cooldown_evidence(runs, says, (refused,), refused.low)
    span = (refused.high - first.low) * runs.rate
    says = (
        f"accepted at most {format_millis(span)} before, "
        f"refused with {stated} to wait, and the cooldown is {lasts}"
    )
    expected = f"{format_millis(max(0, length - span) // SECOND * SECOND)} to {lasts} to wait"
    return cooldown_evidence(runs, says, (first, refused), refused.low, expected)


def latest_begin(trial: Trial, refused: SpendCall) -> Micros:
    """Return the latest instant at which the cooldown of a refusal can have begun, if that is bound."""
    return max(trial.runs.sharing(refused, trial.kind).latest(refused.high), _latest_unseen(trial, refused))


def _latest_unseen(trial: Trial, refused: SpendCall) -> Micros:
    """Return the latest instant at which what was not seen can have begun a cooldown; DISTANT_PAST: at none.

    What went before the trace may have, or its finish, unless the domain was made in it.
    """
    activity = trial.runs.activity
    if activity.alone and trial.by_domain and refused.domain in activity.domains:
        return DISTANT_PAST
    unbound = not activity.alone or trial.from_finish(refused.spend)
    return DISTANT_FUTURE if unbound else activity.begins


def _judge_least(trial: Trial, refused: SpendCall, wait: Micros) -> None:
    """Break when the same thing was accepted before the stated wait was over, and no run had failed.

    A run that was not seen may have begun the cooldown, and have failed.
    """
    runs, shared = trial.runs, trial.runs.sharing(refused, trial.kind)
    second = shared.first_after(refused.high)
    if second is None or (trial.by_domain and second.domain != refused.domain):
        return
    span = second.high - refused.low
    if span * runs.rate >= wait - runs.slack(span):
        trial.add("cooldown.stated", True)
        return
    before = shared.upto(refused.high)
    seen = runs.activity.alone and shared.last_before(refused.low) is not None
    lasted = seen and all(work.sure and runs.unfailed(work, second.high) for work in before)
    says = f"refused with {format_millis(wait)} to wait, and accepted {format_millis(span * runs.rate)} later"
    ids = (refused.exchange.id, second.exchange.id)
    expected = f"cooldown_active until {format_millis(wait)} have passed"
    evidence = Evidence(says, ids, (), runs.about(refused), second.low, expected)
    trial.add("cooldown.stated", False if lasted else None, evidence, refused.spend)


def waits_of(stated: int, rate: int) -> list[Wait]:
    """Return what stated seconds may mean (business µs), at a rate of business time.

    They are seconds of business time, or of the caller's clock, as HTTP has it: whole ones, so that what was
    rounded up to the last of them is not known.
    """
    business = stated * SECOND
    if rate == 1:
        return [(business, business)]
    return [(business, business), (max(0, stated - 1) * SECOND * rate, business * rate)]


def wait_of(exchange: Observation) -> int | None:
    """Return the seconds that a refusal says to wait, by its meta, else its Retry-After."""
    stated = integer_or_none(exchange.meta.get("retry_after"))
    return exchange.retry_after if stated is None and not exchange.old else stated
