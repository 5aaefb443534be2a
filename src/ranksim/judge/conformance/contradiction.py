"""The calls of a partition that cannot all be right: few of them, under the choices that are open.

`possible` tells that no order explains a history; here its replies are forgotten until none can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.judge.conformance.possible import MOST_PAIRS, ModelCall, Possible, State, Step

MOST_TRIALS: Final = 200
"""Histories that are tried at most to make evidence small."""

MOST_WEIGHED: Final = 2_000
"""Calls of all contradictions that are looked at in a partition whose choices are open: at least of one."""


def contradictions(
    calls: Iterable[ModelCall],
    starts: Sequence[State],
    step: Step[State],
    most: int = MOST_PAIRS,
    *,
    anywhere: bool = False,
) -> tuple[list[tuple[ModelCall, ...]], bool]:
    """Return the calls of each contradiction, which cannot all be right, and whether the partition is open.

    `calls` are in order of sending. `anywhere`: the starts stand for any state, so that evidence need not
    tell what came long before.
    """
    histories, is_open = broken_histories(calls, starts, step, pairs=most)
    if anywhere:
        histories = [latest(history, starts, step) for history in histories]
    return [shrunk(history, starts, step) for history in histories], is_open


def weighed(
    calls: Sequence[ModelCall], starts: Sequence[State], step: Step[State]
) -> tuple[list[tuple[tuple[ModelCall, ...], State | None]], bool]:
    """Return the contradictions of a model in which choices are open, and whether the partition is open.

    `starts` are the choices: the default, then what is near to it before what is far from it. Each
    contradiction with the default comes with the first other choice that explains it, or with None where it
    is one with all of them.
    """
    default, *others = starts
    most = max(1, MOST_WEIGHED // max(1, len(calls)))
    histories, is_open = broken_histories(calls, [default], step, most)
    if not histories:
        return [], is_open
    broken, is_open = broken_histories(calls, starts, step, most)
    causes: list[tuple[tuple[ModelCall, ...], State | None]]
    causes = [(shrunk(history, starts, step), None) for history in broken]
    for history in histories:
        if explained(history, others, step):
            start = next((start for start in others if explained(history, [start], step)), default)
            causes.append((shrunk(history, [default], step), start))
    return causes, is_open


def broken_histories(
    calls: Iterable[ModelCall],
    starts: Sequence[State],
    step: Step[State],
    most: int | None = None,
    *,
    pairs: int = MOST_PAIRS,
) -> tuple[list[Sequence[ModelCall]], bool]:
    """Return the histories that end in a contradiction, `most` at most, and whether the partition is open."""
    possible = Possible(starts, step, pairs)
    histories = (history for call in calls for history in possible.add(call))
    return list(islice(chain(histories, possible.pass_to(DISTANT_FUTURE)), most)), possible.open


def latest(history: Sequence[ModelCall], starts: Sequence[State], step: Step[State]) -> Sequence[ModelCall]:
    """Return a short end of a history that nothing explains, whatever came before.

    What was over before it is left out, and what was in flight may take effect in it, or not.
    """
    size = 2
    while size < len(history):
        since = history[-size].sent
        end = [
            call if call.sent >= since else call.without_reply() for call in history if call.received >= since
        ]
        if not explained(end, starts, step):
            return end
        size *= 2
    return history


def explained(calls: Iterable[ModelCall], starts: Sequence[State], step: Step[State]) -> bool:
    """Return whether some order explains all replies, or may do."""
    possible = Possible(starts, step)
    for call in calls:
        if possible.add(call):
            return False
    return possible.open or not any(True for _ in possible.pass_to(DISTANT_FUTURE))


def shrunk(history: Sequence[ModelCall], starts: Sequence[State], step: Step[State]) -> tuple[ModelCall, ...]:
    """Return the calls of a history whose replies cannot all be right: none of them can be left out.

    Those that the first start alone does not explain are few trials away; mostly no other explains them.
    """
    fewest = _fewest(history, starts[:1], step)
    if starts[1:] and explained(fewest, starts[1:], step):
        fewest = _fewest(history, starts, step)
    return tuple(call for call in fewest if call.reply is not None)


def _fewest(history: Sequence[ModelCall], starts: Sequence[State], step: Step[State]) -> Sequence[ModelCall]:
    """Return a history with the fewest replies that nothing explains.

    A call is left out by forgetting its reply, so that it may still have taken effect. Parts are left out by
    halves, so that few trials are needed where few calls matter (Zeller, Hildebrandt: delta debugging).
    """
    kept = [number for number, call in enumerate(history) if call.reply is not None]
    size, trials = len(kept) // 2, 0
    while size:
        begin = 0
        while begin < len(kept) and trials < MOST_TRIALS:
            fewer = {*kept[:begin], *kept[begin + size :]}
            weaker = [call if at in fewer else call.without_reply() for at, call in enumerate(history)]
            trials += 1
            if explained(weaker, starts, step):
                begin += size
            else:
                kept, history = sorted(fewer), weaker
        size //= 2
    return history
