"""Counters of an account run exactly, as columns that calls move and show, in any order.

A column is a counter: used units, used and held slots, settled and reserved cost. A state says what each may
be, at least and at most; a call that moves it by an unknown amount widens that, and one that shows it narrows
it. What a column was before the first call is not known, and it is never below nothing.

What may have been done before the period of a reading began may not count in it. Limits are none of a run:
what a column shows after a call that passed one tells as much, and by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class ColumnsShown:
    """What a reply says of the columns."""

    columns: tuple[Range | None, ...]
    together: Range | None = None


def moving(span: Interval, by: Balance, name: str) -> ModelCall:
    """Return a call that moved each column by as much, or perhaps did if its reply was lost."""
    return ModelCall(span.low, span.high, by, DONE, name)


def showing(
    span: Interval, columns: tuple[Range | None, ...], name: str, together: Range | None = None
) -> ModelCall:
    """Return a call whose reply says this of each column, None for nothing, and of all `together`."""
    return ModelCall(span.low, span.high, ((0, 0),) * len(columns), ColumnsShown(columns, together), name)


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
        readings: Mapping[Micros, Sequence[ModelCall]],
        variants: Iterable[Sequence[ModelCall]],
        began: Callable[[Micros, Micros], bool],
    ) -> Contradictions:
        """Return the calls of each contradiction, and whether too many calls met to tell.

        The readings are those of each period, by its end; `began` tells whether it surely had begun at an
        instant. It is by the first variant of how calls move the columns; there is none where another
        explains all.
        """
        first, too_many, starts = list[Sequence[ModelCall]](), False, [self.start]
        for moves in variants:
            broken = list[Sequence[ModelCall]]()
            for ends, stated in readings.items():
                calls = _calls_of_period(stated, moves, ends, began)
                histories, is_open = broken_histories(calls, starts, self.step)
                broken += histories
                too_many = too_many or is_open
            if not broken:
                return Contradictions([], too_many)
            first = first or broken
        latest_calls = [latest(history, starts, self.step) for history in first]
        return Contradictions([shrunk(calls, starts, self.step) for calls in latest_calls], too_many)

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


def _calls_of_period(
    stated: Sequence[ModelCall],
    moves: Sequence[ModelCall],
    ends: Micros,
    began: Callable[[Micros, Micros], bool],
) -> list[ModelCall]:
    """Return what was stated in a period and what may have counted in it, in order of sending."""
    begins, first = min(reading.sent for reading in stated), min(reading.received for reading in stated)
    calls, over = list(stated), max(reading.received for reading in stated)
    for move in moves:
        sure = move.sent > first or began(move.sent, ends)
        if move.sent <= over and (move.received >= begins or sure):
            calls.append(move if sure and move.answered else move.without_reply())
    return sorted(calls, key=lambda call: call.sent)


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
