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
from ranksim.judge.conformance.spending.consumers import UNITS, consumers_of, moves_of, units_of
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups
from ranksim.judge.conformance.spending.cooldowns import kinds_of
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Increment, Sample
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

    def text(self) -> str:
        """Write it with what fixes each end."""
        least, most = self.least.value, self.most.value
        if least is None and most is None:
            return "nothing in the trace bounds it"
        if least == most:
            return f"{least} ({', '.join(dict.fromkeys((*self.least.by, *self.most.by)))})"
        ends = [
            f"{name} {end.value}" + (f" ({', '.join(end.by)})" if end.by else "")
            for name, end in (("at least", self.least), ("at most", self.most))
            if end.value is not None
        ]
        contradicts = least is not None and most is not None and least > most
        return ("no value fits: " if contradicts else "") + ", ".join(ends)

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
    surely, maybe = _least(own), _most(own)
    here, least, most = (at.sent, at.received), list[End](), list[End]()
    for mark in _in_its_period(marks, at):
        there = mark.low, mark.high
        if mark.id == at.id or mark.high <= at.sent:  # a refusal states it at its own instant
            sure, may = _between(moves, there, here, at.id) if mark.id != at.id else ([], [])
            least += [] if falls else [_end(mark, _least(sure), sure)]
            most += [_end(mark, _most(may), may)] if alone else []
        elif mark.low >= at.received:
            sure, may = _between(moves, here, there, at.id)
            most += [] if falls else [_end(mark, -_least(sure) - surely, sure)]
            least += [_end(mark, -_most(may) - maybe, may)] if alone else []
    before = _tightest(least, most)
    return before, Span(_moved(before.least, surely, at), _moved(before.most, maybe, at))


def _tightest(least: Sequence[End], most: Sequence[End]) -> Span:
    lower = {end.value: end for end in reversed(least) if end.value is not None}
    upper = {end.value: end for end in reversed(most) if end.value is not None}
    return Span(lower[max(lower)] if lower else End(), upper[min(upper)] if upper else End())


def _least(moves: Sequence[Increment]) -> int:
    return sum(move.least for move in moves)


def _most(moves: Sequence[Increment]) -> int:
    return sum(move.most for move in moves)


def _in_its_period(marks: Sequence[Sample], at: Observation) -> list[Sample]:
    """Return the readings of the last period that had begun by an exchange; of the first, if none had."""
    ends = [mark.ends for mark in marks if mark.low <= at.received]
    period = max(ends) if ends else min((mark.ends for mark in marks), default=0)
    return [mark for mark in marks if mark.ends == period]


Interval = tuple[Micros, Micros]


def _between(
    moves: Sequence[Increment], first: Interval, last: Interval, but: str
) -> tuple[list[Increment], list[Increment]]:
    """Return what surely, and what possibly, moved between two instants, `but` for one exchange."""
    others = [move for move in moves if move.id != but]
    return (
        [move for move in others if move.least and move.low > first[1] and move.high < last[0]],
        [move for move in others if move.most and move.high >= first[0] and move.low <= last[1]],
    )


def _end(mark: Sample, step: int, moves: Sequence[Increment]) -> End:
    value = mark.value + step
    return End(value if abs(value) < UNBOUNDED else None, (mark.id, *(move.id for move in moves[:1] if step)))


def _moved(end: End, step: int, at: Observation) -> End:
    if end.value is None or not step:
        return end
    moved = end.value + step
    return End(moved if moved < UNBOUNDED else None, tuple(dict.fromkeys((*end.by, at.id))))


def standing_lines(history: History, at: Observation, options: Options | None = None) -> Iterator[str]:
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
        yield f"    {label}: {span.within(most).text()}"


# The window of its key


def _window(history: History, at: Observation, options: Options) -> Iterator[str]:
    """Tell how many calls its key surely, and possibly, had admitted in the last length of a window."""
    rate = history.run.traffic_rate
    if at.limit is None or not at.key or not rate:
        return
    length = options.facts.rate_window // rate
    sure, may = _admitted(history, at, length)
    lasting = format_millis(length * rate)
    yield f"  window of key {at.key}, limit {at.limit}, calls admitted in the {lasting} before it:"
    least, most = f"at least {_counted(sure)}", f"at most {_counted(may)}"
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


def _admitted(
    history: History, at: Observation, length: Micros
) -> tuple[list[Observation], list[Observation]]:
    """Return which calls surely, and which possibly, were admitted in so long (µs) before an exchange."""
    alike = [call for call in _alike(history, at) if call.status != 429]
    sure = [call for call in alike if call.sent > at.received - length and call.received < at.sent]
    sure = [call for call in sure if call.limit == at.limit and call.status != 0]
    return sure, [call for call in alike if call.sent <= at.received and call.received > at.sent - length]


def _alike(history: History, at: Observation) -> Iterator[Observation]:
    """Yield the other calls of its key that may share its window."""
    for call in history.where(lambda call: call.key == at.key and call.environment == at.environment):
        if call.limit in (at.limit, None) and call.id != at.id and call.happened is not False:
            yield call


def _counted(calls: Sequence[Observation]) -> str:
    return f"{len(calls)}" + (f" ({calls[0].id} to {calls[-1].id})" if calls else "")


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
    low, high = (t + length // runs.rate for t in (work.low, work.high))
    endless = work.high >= DISTANT_FUTURE
    fails = endless or runs.fate(work).failed < DISTANT_FUTURE or not runs.unfailed(work, at.received)
    until = f"{iso(low)} at the earliest" if endless else f"{iso(low)} to {iso(high)}"
    over = " (over by then)" if not endless and high < at.sent else ""
    failed = ", unless that run had failed" if fails else ""
    return f"{'' if work.sure else 'perhaps '}until {until}{over}, by {work.exchange.id}{failed}"
