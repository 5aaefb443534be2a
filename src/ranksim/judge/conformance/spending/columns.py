"""Counters of an account run exactly, as columns that calls move and show, in any order.

A column is a counter: used units, used and held slots, settled and reserved cost. A state says what each may
be, at least and at most; a call that moves it by an unknown amount widens that, and one that shows it narrows
it. What a column was before the first call is not known, and it is never below nothing.

What may have been done before the period of a reading began may not count in it. Limits are none of a run:
what a column shows after a call that passed one tells as much, and by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.contradiction import broken_histories, latest, shrunk
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Interval

Range: TypeAlias = tuple[int, int]
"""The least and the most."""

Balance: TypeAlias = tuple[Range, ...]
"""What each column may be."""

ANYTHING: Range = (0, UNBOUNDED)

DONE: Final = "done"
"""The reply of a call that moved the columns."""


@dataclass(slots=True)
class ColumnMove(Interval):
    """A call that moved the columns, each by as much as this, or perhaps did if its reply was lost."""

    by: Balance
    id: str


@dataclass(slots=True)
class ColumnReading(Interval):
    """What a reply says of each column, None for nothing, and of all `together`; and when they reset."""

    columns: tuple[Range | None, ...]
    ends: Micros
    id: str
    together: Range | None = None


@dataclass(frozen=True, slots=True)
class ColumnsShown:
    """What a reply says of the columns."""

    columns: tuple[Range | None, ...]
    together: Range | None = None


Calls: TypeAlias = tuple[ModelCall, ...]


class Contradictions(NamedTuple):
    """The calls of each contradiction, which cannot all be right, and whether too many met to tell."""

    calls: list[Calls]
    too_many: bool = False


MOST_SAID: Final = 8
"""Calls of a contradiction that are told one by one."""


@dataclass(frozen=True)
class CounterColumns:
    """Columns by their names, and what they may come to by themselves."""

    columns: tuple[str, ...]
    rest: Callable[[Balance], Balance] | None = None

    def periods(
        self,
        readings: Iterable[ColumnReading],
        moves: Sequence[ColumnMove],
        began: Callable[[Micros, Micros], bool],
    ) -> Iterator[list[ModelCall]]:
        """Yield what is known of each period, in order of sending.

        `began` tells whether the period that ends at an instant surely had begun at another.
        """
        by_end: dict[Micros, list[ColumnReading]] = defaultdict(list)
        for reading in readings:
            by_end[reading.ends].append(reading)
        for ends, stated in by_end.items():
            first, nothing = min(reading.high for reading in stated), ((0, 0),) * len(self.columns)
            calls = [
                ModelCall(r.low, r.high, nothing, ColumnsShown(r.columns, r.together), r.id) for r in stated
            ]
            begins = min(reading.low for reading in stated)
            over = max(reading.high for reading in stated)
            for move in moves:
                sure = move.low > first or began(move.low, ends)
                if move.low > over or (move.high < begins and not sure):
                    continue
                call = ModelCall(move.low, move.high, move.by, DONE, move.id)
                calls.append(call if sure and call.answered else call.without_reply())
            yield sorted(calls, key=lambda call: call.sent)

    @property
    def start(self) -> Balance:
        """Nothing is known of what was before."""
        return (ANYTHING,) * len(self.columns)

    def step(self, balance: Balance, call: ModelCall) -> Iterator[Balance]:
        """Yield what the columns may be after a call, if they can be so."""
        moves, statement = call.question, call.reply
        assert isinstance(moves, tuple)
        balance = balance if self.rest is None else self.rest(balance)
        after = [
            (max(0, least + fewest), max(0, min(UNBOUNDED, most + more)))
            for (least, most), (fewest, more) in zip(balance, moves, strict=True)
        ]
        if isinstance(statement, ColumnsShown):
            after = _narrowed(after, statement)
        if all(least <= most for least, most in after):
            yield tuple(after)

    def unexplained(
        self,
        readings: Sequence[ColumnReading],
        variants: Iterable[Sequence[ColumnMove]],
        began: Callable[[Micros, Micros], bool],
    ) -> Contradictions:
        """Return the calls of each contradiction, and whether too many calls met to tell.

        It is by the first variant of how calls move the columns; there is none where another explains all.
        """
        first, too_many = list[Sequence[ModelCall]](), False
        for moves in variants:
            broken = list[Sequence[ModelCall]]()
            for calls in self.periods(readings, moves, began):
                histories, is_open = broken_histories(calls, [self.start], self.step)
                broken += histories
                too_many = too_many or is_open
            if not broken:
                return Contradictions([], too_many)
            first = first or broken
        starts = [self.start]
        ends = [latest(history, starts, self.step) for history in first]
        return Contradictions([shrunk(end, starts, self.step) for end in ends], too_many)

    def says(self, calls: Calls) -> str:
        """Write what calls did and showed that no order explains."""
        return "no order explains that " + ", ".join(map(self._text, calls[:MOST_SAID]))

    def _text(self, call: ModelCall) -> str:
        if isinstance(call.reply, ColumnsShown):
            shown_values = zip(self.columns, call.reply.columns, strict=True)
            texts = [f"{self._amount(values)} {name}" for name, values in shown_values if values is not None]
            together = call.reply.together
            return f"{' and '.join(texts) or self._amount(together or ANYTHING)} was shown by {call.id}"
        moves = zip(self.columns, call.question if isinstance(call.question, tuple) else (), strict=True)
        texts = [f"{self._amount(values)} {name}" for name, values in moves if values != (0, 0)]
        return f"{call.id} added {' and '.join(texts) or 'nothing'}"

    def _amount(self, values: Range) -> str:
        least, most = values
        if least == most:
            return str(least)
        return f"at least {least}" if most >= UNBOUNDED else f"{least} to {most}"


def _narrowed(balance: Sequence[Range], statement: ColumnsShown) -> list[Range]:
    """Return what the columns may be that show this."""
    narrowed = [
        own if stated_range is None else (max(own[0], stated_range[0]), min(own[1], stated_range[1]))
        for own, stated_range in zip(balance, statement.columns, strict=True)
    ]
    if statement.together is not None:
        fewest, most = statement.together
        least, greatest = (sum(ends) for ends in zip(*narrowed, strict=True))
        narrowed = [
            (max(low, fewest - (greatest - high)), min(high, most - (least - low))) for low, high in narrowed
        ]
    return narrowed
