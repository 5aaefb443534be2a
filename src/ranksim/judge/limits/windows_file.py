"""Each window of a table judged by the calls of recordings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.rate_table import WindowEntry, WindowTable
from ranksim.core.errors import BadInput
from ranksim.judge.limits.calls import REFUSALS
from ranksim.judge.limits.judged import LimitVerdict
from ranksim.judge.limits.limits import JudgedLimits
from ranksim.judge.limits.parts import LimitOf, judge_part
from ranksim.judge.limits.recordings import by_who, read_calls


def judge_windows(
    paths: Sequence[Path],
    table: WindowTable,
    *,
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
    longest: Micros = SECOND,
) -> JudgedLimits:
    """Judge each window of a table by the calls of recordings. Raises BadInput where none counts any."""
    parts = [
        part
        for window in table.windows
        for part in _parts(window, table, paths, refused=refused, shared=shared, longest=longest)
    ]
    if not parts:
        names = ", ".join(pattern for window in table.windows for pattern in window.match)
        raise BadInput(f"{paths[0]}: expected calls that a window counts; none matches {names}")
    return JudgedLimits(tuple(parts))


def _parts(
    window: WindowEntry,
    table: WindowTable,
    paths: Sequence[Path],
    *,
    refused: Collection[int],
    shared: bool,
    longest: Micros,
) -> Iterator[LimitOf]:
    read = (call for path in paths for call in read_calls(path, window.per, longest, window.weigh))
    calls = [call for call in read if window.matches(call.method, call.path, call.request_headers)]
    alone = not any(
        other is not window
        and any(other.matches(call.method, call.path, call.request_headers) for call in calls)
        for other in table.windows
    )
    for who, own in by_who(calls).items():
        name = f"{window.name}: {who}" if who else window.name
        part = judge_part(
            name,
            own,
            window.quota,
            refused=refused,
            shared=shared,
            alone=alone,
            lasting=window.algorithm == "concurrency",
            weighs_replies=window.weighs_replies,
        )
        judged = part.judged
        against = judged.excluded.get(window.algorithm or "")
        if against is not None and judged.verdict != LimitVerdict.BROKEN:
            judged = replace(judged, verdict=LimitVerdict.BROKEN, evidence=against)
        yield replace(part, judged=judged)
