"""Rate windows as a table: which calls each counts, for whom, and how many in how long.

windows:
  - {name: minute, match: "*", per: key, limit: 600/60s}
  - {name: search, match: "GET /search/*", per: client, limit: 20/2s, algorithm: gcra}
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.located import validate
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput
from ranksim.judge.limits.calls import REFUSALS, LimitedCall
from ranksim.judge.limits.judged import LimitVerdict
from ranksim.judge.limits.limits import JudgedLimits
from ranksim.judge.limits.parts import LimitOf, judge_part
from ranksim.judge.limits.quota import RateQuota
from ranksim.judge.limits.recordings import Weigher, by_who, check_by, read_calls


def _read_limit(text: str) -> str:
    try:
        RateQuota.parse(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("limit: ")) from None
    return text


def _read_by(text: str) -> str:
    try:
        return check_by(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("--by: ")) from None


def _read_weigh(text: str) -> str:
    try:
        Weigher(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("weigh: ")) from None
    return text


class WindowEntry(Frozen):
    """One window: the calls that `match` a method and a path with `*` in it, counted apart for each `per`.

    A call takes 1, or what it states where `weigh` says. `algorithm` is open where it is not stated.
    """

    name: str
    match: str = "*"
    per: Annotated[str, AfterValidator(_read_by)] = "all"
    weigh: Annotated[str, AfterValidator(_read_weigh)] = ""
    limit: Annotated[str, AfterValidator(_read_limit)]
    algorithm: (
        Literal["first_hit", "clock", "sliding_log", "sliding_counter", "rotating", "gcra", "queue"] | None
    ) = None

    def matches(self, call: LimitedCall) -> bool:
        """Whether it counts a call."""
        method, space, path = self.match.rpartition(" ")
        return (not space or method in ("*", call.method)) and fnmatchcase(call.path, path)


class WindowTable(Frozen):
    """A file of windows; several may count one call."""

    windows: Annotated[tuple[WindowEntry, ...], Field(min_length=1)]

    @classmethod
    def load(cls, path: str | Path) -> WindowTable:
        """Read a file. Raises BadInput with the place of a mistake."""
        return validate(cls, read_yaml(path, "file of windows"))


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
        names = ", ".join(window.match for window in table.windows)
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
    calls = [call for call in read if window.matches(call)]
    alone = not any(other is not window and any(map(other.matches, calls)) for other in table.windows)
    quota = RateQuota.parse(window.limit)
    for who, own in by_who(calls).items():
        name = f"{window.name}: {who}" if who else window.name
        part = judge_part(name, own, quota, refused=refused, shared=shared, alone=alone)
        judged = part.judged
        against = judged.excluded.get(window.algorithm or "")
        if against is not None and judged.verdict != LimitVerdict.BROKEN:
            judged = replace(judged, verdict=LimitVerdict.BROKEN, evidence=against)
        yield replace(part, judged=judged)
