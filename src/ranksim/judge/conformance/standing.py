"""What every meter, window and cooldown could have been just before an exchange took effect, and just after.

A meter lies between what readings and calls force on it: at least an earlier reading and what surely was
admitted since, at most that and what may have been; a later reading bounds it from the other side. Each end
is told with the reading and the first call that fix it. What nothing fixes ends at 0 and at the limit. Where
others may have used the account, calls that were not seen may have moved it, so that only what surely was
admitted bounds it; nor was any call seen that came before the trace began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ranksim.core.clock import DISTANT_FUTURE, Micros, format_millis, iso
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import JOBS, AccountActivity, RefusedSpend, SpendWork
from ranksim.judge.conformance.spending.by_account import ObservedAccounts
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups
from ranksim.judge.conformance.spending.cooldowns import kinds_of
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Increment, Sample
from ranksim.judge.conformance.spending.quotas import UNITS, consumers_of, moves_of, units_of
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.slots import dated
from ranksim.judge.conformance.verdict.options import Options


@dataclass(frozen=True, slots=True)
class End:
    """One end of what a counter can have been, and the exchanges that fix it; None: nothing does."""

    value: int | None = None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """What a counter can have been at an instant."""

    least: End = End()
    most: End = End()

    def told(self) -> str:
        """Write it with what fixes each end."""
        if self.least.value is None and self.most.value is None:
            return "nothing in the trace bounds it"
        if self.least.value == self.most.value:
            by = dict.fromkeys((*self.least.by, *self.most.by))
            return f"{self.least.value} ({', '.join(by)})"
        ends = []
        for name, end in (("at least", self.least), ("at most", self.most)):
            if end.value is not None:
                ends.append(f"{name} {end.value}" + (f" ({', '.join(end.by)})" if end.by else ""))
        least, most = self.least.value, self.most.value
        none = "no value fits: " if least is not None and most is not None and least > most else ""
        return none + ", ".join(ends)

    def within(self, limit: int | None) -> Span:
        """Return it between 0 and the limit, None for none; what nothing bounds, as it is."""
        least, most = self.least, self.most
        if least.value is None and most.value is None:
            return self
        if least.value is None or least.value < 0:
            least = End(0)
        if limit is not None and (most.value is None or most.value > limit):
            most = End(limit, ("its limit",))
        return replace(self, least=least, most=most)


def spans(
    marks: Sequence[Sample], moves: Sequence[Increment], at: Observation, *, alone: bool, falls: bool
) -> tuple[Span, Span]:
    """Return what a counter can have been just before an exchange took effect, and just after.

    `alone`: nobody else moved it. `falls`: something may have been given back, so that nothing keeps it up.
    """
    own = [move for move in moves if move.id == at.id]
    others = [move for move in moves if move.id != at.id]
    low, high = at.sent, at.received
    step = sum(move.least for move in own), sum(move.most for move in own)
    period = max((mark.ends for mark in marks if mark.low <= high), default=None)
    if period is None:
        period = min((mark.ends for mark in marks), default=None)
    least, most = list[End](), list[End]()
    for mark in marks:
        if mark.ends != period:
            continue
        if mark.high <= low or mark.id == at.id:  # a refusal states it at its own instant
            sure = [m for m in others if m.least and m.low > mark.high and m.high < low]
            may = [m for m in others if m.most and m.high >= mark.low and m.low <= high]
            may = [] if mark.id == at.id else may
            least += [] if falls else [_end(mark, sum(m.least for m in sure), sure)]
            most += [_end(mark, sum(m.most for m in may), may)] if alone else []
        elif mark.low >= high:
            sure = [m for m in others if m.least and m.low > high and m.high < mark.low]
            may = [m for m in others if m.most and m.high >= low and m.low <= mark.high]
            most += [] if falls else [_end(mark, -sum(m.least for m in sure) - step[0], sure)]
            least += [_end(mark, -sum(m.most for m in may) - step[1], may)] if alone else []
    bounds = [end for end in least if end.value is not None and end.value > -UNBOUNDED]
    bounded = [end for end in most if end.value is not None and end.value < UNBOUNDED]
    before = Span(
        max(bounds, key=lambda end: end.value or 0, default=End()),
        min(bounded, key=lambda end: end.value or 0, default=End()),
    )
    return before, Span(_moved(before.least, step[0], at), _moved(before.most, step[1], at))


def _end(mark: Sample, step: int, moves: Sequence[Increment]) -> End:
    value = mark.value + step
    return End(value if abs(value) < UNBOUNDED else None, (mark.id, *(move.id for move in moves[:1] if step)))


def _moved(end: End, step: int, at: Observation) -> End:
    if end.value is None or not step:
        return end
    moved = end.value + step
    return End(moved if moved < UNBOUNDED else None, tuple(dict.fromkeys((*end.by, at.id))))


def standing(history: History, at: Observation, options: Options | None = None) -> Iterator[str]:
    """Tell in lines what meters, the window and cooldowns could have been around an exchange."""
    options = options or Options.of()
    yield from _window(history, at, options)
    for activity in _activities(history, options):
        if (activity.environment, activity.account) == (at.environment, at.account):
            yield from _meters(activity, at, options)
            yield from _cooldown(activity, at, history.run.rate, options)


def _activities(history: History, options: Options) -> list[AccountActivity]:
    accounts = ObservedAccounts()
    for seen in history.as_judged():
        if seen.key and seen.happened is not False:
            accounts.add(seen)
    for arrived in history.arrived:
        accounts.add_attempt(arrived)
    return list(accounts.activity(DISTANT_FUTURE, history.run, options))


# Meters and slots


def _meters(activity: AccountActivity, at: Observation, options: Options) -> Iterator[str]:
    for metric, stated in sorted(activity.meters.items()):
        marks = [meter.sample for meter in stated]
        consumers = consumers_of(activity, metric, marks, options)
        possible = consumers.sure | (consumers.possible - _beyond(activity, marks))
        moves, falls = moves_of(activity, consumers.sure, possible, UNITS[0], options)
        limit = next((m.limit for m in reversed(stated) if m.limit is not None), None)
        allowance = "unknown" if limit is None else limit
        yield f"  {metric} of account {activity.account or 'unknown'}, limit {allowance}, used:"
        yield from _both(spans(marks, moves, at, alone=activity.alone, falls=bool(falls)), marks, limit)
    slots = [stated.sample for stated in dated(activity.slots)]
    if slots:
        tracked = SlotBounds(activity)
        yield f"  slots of account {activity.account or 'unknown'}, used and held:"
        falls = tracked.of_patches()
        limit = next((slot.limit for slot in reversed(activity.slots) if slot.limit is not None), None)
        span = spans(slots, tracked.moves(), at, alone=activity.alone, falls=bool(falls))
        yield from _both(span, slots, limit)


def _beyond(activity: AccountActivity, marks: Sequence[Sample]) -> set[str]:
    """Return the operations that took more, were each work of theirs to take of a meter, than it shows.

    Counted are works that surely were done in the period of a reading and before it, and that gave nothing
    back since (U50): none is of a job that may have failed.
    """
    kept = [
        work
        for work in activity.works
        if work.sure and (work.spend not in JOBS or activity.fates[work.id].done < DISTANT_FUTURE)
    ]
    beyond = set[str]()
    for mark in marks:
        since = min(sample.high for sample in marks if sample.ends == mark.ends)
        taken = Counter[str]()
        for work in kept:
            if since < work.low and work.high < mark.low:
                taken[work.spend] += units_of(work, UNITS[-1])[0]
        beyond |= {spend for spend, units in taken.items() if units > mark.value}
    return beyond


def _both(spans: tuple[Span, Span], marks: Sequence[Sample], limit: int | None) -> Iterator[str]:
    """Tell what a counter was within its limit, which a deployment that shows more has not kept."""
    most = None if limit is None else max(limit, *(mark.value for mark in marks))
    for label, span in zip(("before", "after"), spans, strict=True):
        yield f"    {label}: {span.within(most).told()}"


# The window of its key


def _window(history: History, at: Observation, options: Options) -> Iterator[str]:
    """Tell how many calls its key surely, and possibly, had admitted in the last length of a window."""
    rate = history.run.traffic_rate
    if at.limit is None or not at.key or not rate:
        return
    length = options.facts.rate_window // rate
    alike = [
        call
        for call in history.where(lambda call: call.key == at.key and call.environment == at.environment)
        if call.limit in (at.limit, None) and call.id != at.id and call.happened is not False
    ]
    sure = [
        call
        for call in alike
        if call.limit == at.limit
        and call.status not in (0, 429)
        and call.sent > at.received - length
        and call.received < at.sent
    ]
    may = [
        call
        for call in alike
        if call.status != 429 and call.sent <= at.received and call.received > at.sent - length
    ]
    lasting = format_millis(length * rate)
    yield f"  window of key {at.key}, limit {at.limit}, calls admitted in the {lasting} before it:"
    least = f"at least {len(sure)}" + (f" ({sure[0].id} to {sure[-1].id})" if sure else "")
    most = f"at most {len(may)}" + (f" ({may[0].id} to {may[-1].id})" if may else "")
    began = history.run.header.started or history.run.began or 0
    if not history.run.exclusive:
        most = "and what others may have sent"
    elif at.sent - length < began:
        most = "and what came before the trace began"
    yield f"    before: {least}, {most}; a window that began meanwhile counts fewer"
    admitted = at.status not in (0, 429)
    after = "one more" if admitted else "the same" if at.status == 429 else "the same, or one more"
    stated = "" if at.remaining is None else f"; it says that {at.remaining} are left"
    yield f"    after: {after} ({at.id}){stated}"


# Cooldowns


def _cooldown(activity: AccountActivity, at: Observation, rate: int, options: Options) -> Iterator[str]:
    """Tell until when what it asked for was cooling, by the default reading of U46."""
    tried: list[SpendWork | RefusedSpend] = [*activity.works, *activity.refusals]
    attempt = next((item for item in tried if item.exchange.id == at.id), None)
    if attempt is None or not attempt.spend or not rate:
        return
    runs = CooldownGroups(activity, rate, options)
    length = runs.lengths.get(attempt.spend)
    if not length:
        return
    kind = kinds_of(options)[0]
    source = next((item.exchange.id for item in activity.entitled), "")
    where = attempt.domain or "its domain"
    yield f"  cooldown of {attempt.spend} on {where}, {format_millis(length)} ({source}), {kind}:"
    before = [
        work
        for work in runs.sharing(attempt, kind).upto(at.received)
        if work.exchange.id != at.id and work.low < at.received
    ]
    last = max(before, key=lambda work: work.low, default=None)
    yield f"    before: {_until(last, at, runs, length)}"
    own = attempt if isinstance(attempt, SpendWork) else None
    yield f"    after: {_until(own, at, runs, length) if own is not None else 'the same, as it was refused'}"


def _until(work: SpendWork | None, at: Observation, runs: CooldownGroups, length: Micros) -> str:
    if work is None:
        return "not cooling by any call of the trace"
    fate = runs.fate(work)
    low, high = (t + length // runs.rate for t in (work.low, work.high))
    perhaps = "" if work.sure else "perhaps "
    failed = "" if runs.unfailed(work, at.received) else ", unless that run had failed"
    if work.high >= DISTANT_FUTURE or fate.failed < DISTANT_FUTURE:
        failed = ", unless that run had failed"
    until = f"{iso(low)} at the earliest" if work.high >= DISTANT_FUTURE else f"{iso(low)} to {iso(high)}"
    over = " (over by then)" if work.high < DISTANT_FUTURE and high < at.sent else ""
    return f"{perhaps}until {until}{over}, by {work.exchange.id}{failed}"
