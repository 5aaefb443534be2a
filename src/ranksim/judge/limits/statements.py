"""What replies say of a limit, held against what was done: how many calls are left, and when to come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ranksim.core.clock import SECOND, Micros
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.judge.conformance.rate.clocked import clock_arcs, open_phases
from ranksim.judge.conformance.rate.first_hit import opened_after_silence
from ranksim.judge.conformance.rate.ledger import ADMITTED, REFUSED
from ranksim.judge.conformance.rate.sliding import drained_at_least, drained_at_most, most_counted
from ranksim.judge.conformance.rate.window_calls import Ints, WindowCalls
from ranksim.judge.limits.calls import CallTable
from ranksim.judge.limits.judged import JudgedLimit


@dataclass(frozen=True, slots=True)
class Statements:
    """How true the headers are.

    `stated` replies say how many calls are left; `wrong` are the ids of those that cannot be, `overlapping`
    how many of them came while others were under way. `limits` are the numbers that replies name, with how
    often. `waits` refusals say when to come back; of `honoured` a call was sent then, with none between, and
    `again` are those that were refused again. `longer` is by how much a wait is longer than needed, on
    average in µs, None where that cannot be told.
    """

    dialects: tuple[str, ...]
    stated: int
    wrong: tuple[str, ...]
    overlapping: int
    limits: tuple[tuple[int, int], ...]
    refusals: int
    waits: int
    honoured: int
    again: tuple[str, ...]
    longer: Micros | None
    forms: tuple[str, ...]


def judge_statements(judged: JudgedLimit, table: CallTable) -> Statements:
    """Hold the headers of the calls against what they were admitted by."""
    stated = [call.stated for call in table.calls]
    limits = Counter(each.limit for each in stated if each.limit is not None)
    forms = {each.reset.form for each in stated} | {each.retry_after.form for each in stated}
    wrong = _wrong(judged)
    refused = [at for at, call in enumerate(table.calls) if call.outcome(table.refusals) == REFUSED]
    waits = [at for at in refused if stated[at].retry_after.seconds is not None]
    honoured, again = _honoured(table, waits)
    return Statements(
        tuple(sorted({each.dialect for each in stated if each.dialect})),
        len(judged.calls.stated),
        tuple(table.id(at) for at in wrong),
        sum(_overlaps(table, at) for at in wrong),
        tuple(sorted(limits.items())),
        len(refused),
        sum(bool(stated[at].retry_after.form) for at in refused),
        honoured,
        tuple(again),
        _longer(judged, table, waits),
        tuple(sorted(forms - {""})),
    )


def _wrong(judged: JudgedLimit) -> list[int]:
    """Return the calls that say more or fewer remain than can be, whichever algorithm of those open it is."""
    calls, stated = judged.calls, judged.calls.stated
    if not len(stated) or not judged.algorithms:
        return []
    bounds = [_bounds(calls, name, judged.refused_count is True) for name in judged.algorithms]
    least = np.minimum.reduce([low for low, _ in bounds])
    most = np.maximum.reduce([high for _, high in bounds])
    bad = (stated.counted < least) | (stated.counted > np.minimum(most, calls.limit))
    return [int(at) for at in stated.who[bad]]


def _bounds(calls: WindowCalls, algorithm: str, refused_count: bool) -> tuple[Ints, Ints]:
    """Return how many calls each that states a number finds counted, itself too, at least and at most."""
    stated = calls.stated
    fixed = algorithm in ("first_hit", "clock")
    possible, since = calls.may_count(refused_count and not fixed)
    least = np.ones_like(stated.sent)
    if algorithm in ("gcra", "queue"):
        most = drained_at_most(calls, possible, stated.sent, stated.done)
        least = drained_at_least(calls, stated.sent, stated.done, refused_count)
    else:
        back = 1 if fixed or algorithm == "sliding_log" else 2
        most = most_counted(possible, stated.sent, stated.done, back * calls.long)
    if algorithm == "sliding_log":
        side = calls.admitted.within(calls.short)
        least = 1 + np.maximum(0, side.before(stated.sent) - side.begun(stated.done - calls.short))
    if algorithm == "first_hit" and len(opening := opened_after_silence(calls)):
        at = np.searchsorted(opening, stated.sent, "right") - 1
        first = opening[np.maximum(at, 0)]
        within = (at >= 0) & (stated.done < first + calls.short)
        came = calls.admitted.before(stated.sent) - calls.admitted.begun_before(first)
        least = np.where(within, 1 + np.maximum(0, came), least)
    return least, np.where(stated.sent < since, calls.limit, most)


def _overlaps(table: CallTable, at: int) -> bool:
    """Whether another call was under way meanwhile."""
    call = table.calls[at]
    near = table.calls[max(0, at - 40) : at + 40]
    return any(other is not call and other.sent < call.done and other.done > call.sent for other in near)


def _honoured(table: CallTable, waits: Sequence[int]) -> tuple[int, list[str]]:
    """Return how many refusals a call followed when it might, with none between, and those refused again."""
    count, again = 0, []
    for at in waits:
        refused, following = table.calls[at], table.calls[at + 1] if at + 1 < len(table.calls) else None
        seconds = refused.stated.retry_after.seconds
        if following is None or seconds is None or following.sent < refused.done + seconds * SECOND:
            continue
        alone = all(call.done < refused.done for call in table.calls[max(0, at - 40) : at])
        outcome = following.outcome(table.refusals)
        count += outcome in (ADMITTED, REFUSED)
        if outcome == REFUSED and alone:
            again += [table.id(at), following.id]
    return count, again


def _longer(judged: JudgedLimit, table: CallTable, waits: Sequence[int]) -> Micros | None:
    """Return by how much the stated waits are longer than needed, by playing the rule to the calls."""
    name, calls = judged.algorithm, judged.calls
    if name not in ("first_hit", "clock", "sliding_log", "gcra") or not waits or judged.refused_count:
        return None
    phase = 0
    if name == "clock":
        phases = open_phases(clock_arcs(calls), calls.length)
        phase = -sum(phases[0]) // 2 if phases else 0
    window = Window(windows.NAMES.index(name), calls.limit, calls.length)
    ring, extra = [0] * calls.limit, []
    windows.start(window)
    waiting = set(waits)
    for at, call in sorted(enumerate(table.calls), key=lambda item: item[1].sent + item[1].done):
        now = (call.sent + call.done) // 2 + phase
        if call.outcome(table.refusals) == ADMITTED:
            windows.take(now, window, ring)
        elif at in waiting:
            seconds = call.stated.retry_after.seconds or 0.0
            extra.append(round(seconds * SECOND) - windows.retry_after(now, window, ring))
    return sum(extra) // len(extra) if extra else None
