"""`ranksim.limits`: does a limit hold, by the calls of a recording?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.limits.calls import REFUSALS, CallTable, LimitedCall
from ranksim.judge.limits.judged import JudgedLimit, LimitVerdict, judge_limit
from ranksim.judge.limits.quota import Quota
from ranksim.judge.limits.recordings import by_who, read_calls
from ranksim.judge.limits.statements import Statements, judge_statements

MOST_PARTS = 100
"""Whose calls are judged apart, at most: those with the most calls."""


@dataclass(frozen=True, slots=True)
class LimitOf:
    """One limit, of one who is limited: how it was judged, and how true the headers are."""

    who: str
    quota: Quota
    judged: JudgedLimit
    statements: Statements
    count: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What calls show of rate limits: `parts` has each limit for each who is limited."""

    parts: tuple[LimitOf, ...]
    scope: tuple[tuple[str, str], ...] = ()
    """Of further callers and addresses that were tried, whether each has a limit of its own."""
    ended: str = ""
    """Why probing ended before all was decided."""

    @property
    def holds(self) -> bool:
        """Whether no limit is broken, and each is pinned on both sides for somebody."""
        return not self.broken and all(
            any(part.judged.holds for part in self.parts if part.quota == quota) for quota in self.quotas
        )

    @property
    def broken(self) -> tuple[LimitOf, ...]:
        """Those that no algorithm explains."""
        return tuple(part for part in self.parts if part.judged.verdict == LimitVerdict.BROKEN)

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """The limits that were judged."""
        return tuple(dict.fromkeys(part.quota for part in self.parts))

    @property
    def algorithm(self) -> str | None:
        """The algorithm, where all who are limited show one."""
        names = {part.judged.algorithm for part in self.parts} - {None}
        return next(iter(names)) if len(names) == 1 else None

    def summary(self) -> str:
        """Return what `ranksim limits` prints."""
        from ranksim.judge.limits.told import lines

        return "\n".join(lines(self))

    def __str__(self) -> str:
        return self.summary()

    def __bool__(self) -> bool:
        raise TypeError("a judgement of limits is neither true nor false; ask its `holds`, or its `broken`")


def limits(
    source: str | Path | Trace | Sequence[LimitedCall],
    *quotas: str,
    by: str = "",
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
    longest: Micros = SECOND,
) -> Limits:
    """Judge rate limits by the calls of a recording.

    `source` is an access log, a HAR file, a trace or its path; `quotas` such as "20/2s" count all its calls,
    apart for each who is limited `by`: client, key, path, all, or header:NAME. `refused` are the statuses by
    which the limit refuses. `shared`: others, whose calls are not here, use the same limit. A call of an
    access log took at most `longest` µs. Raises BadInput.
    """
    calls = source if isinstance(source, Sequence) and not isinstance(source, str) else None
    calls = read_calls(source, by, longest) if calls is None else calls  # type: ignore[arg-type]
    if not quotas or not calls:
        raise BadInput(f"limits: expected {'calls' if quotas else 'a limit such as 20/2s'}, found none")
    return judge_calls(calls, quotas, refused=refused, shared=shared)


def judge_calls(
    calls: Sequence[LimitedCall],
    quotas: Sequence[str],
    *,
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
) -> Limits:
    """Judge limits such as "20/2s" by calls, apart for each key. Raises BadInput."""
    parsed = [Quota.parse(text) for text in quotas]
    parts = [
        judge_part(who, own, quota, refused=refused, shared=shared, alone=len(parsed) == 1)
        for who, own in list(by_who(calls).items())[:MOST_PARTS]
        for quota in parsed
    ]
    return Limits(tuple(parts))


def judge_part(
    who: str,
    calls: Sequence[LimitedCall],
    quota: Quota,
    *,
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
    alone: bool = True,
) -> LimitOf:
    """Judge one limit by the calls of one who is limited.

    Where it does not stand `alone`, a refusal may be of another limit, so none comes too early.
    """
    about = f"{who}: calls" if who else "calls"
    judged = judge_limit(
        calls, quota.limit, quota.length, exclusive=alone and not shared, refusals=refused, about=about
    )
    table = CallTable(sorted(calls, key=lambda call: call.sent), refused)
    return LimitOf(who, quota, judged, judge_statements(judged, table), len(calls))


def as_rows(found: Limits) -> list[dict[str, Any]]:
    """Return plain rows, one for each limit and who is limited."""
    return [_row(part) for part in found.parts]


def _row(part: LimitOf) -> dict[str, Any]:
    judged, said = part.judged, part.statements
    evidence = judged.evidence
    return {
        "who": part.who,
        "limit": part.quota.limit,
        "length": part.quota.length,
        "verdict": str(judged.verdict),
        "calls": part.count,
        "admitted": len(judged.calls.admitted),
        "refused": len(judged.calls.refused),
        "algorithm": judged.algorithm,
        "algorithms": list(judged.algorithms),
        "refused_count": judged.refused_count,
        "excluded": {name: against.says for name, against in judged.excluded.items()},
        "pinned": {side: list(ids) for side, ids in judged.pinned.items()},
        "side": judged.side,
        "nearest": judged.nearest,
        "says": None if evidence is None else evidence.says,
        "exchanges": [] if evidence is None else list(evidence.exchanges),
        "headers": {
            "dialects": list(said.dialects),
            "limits": [list(pair) for pair in said.limits],
            "stated": said.stated,
            "wrong": list(said.wrong),
            "forms": list(said.forms),
        },
        "retry": {
            "refusals": said.refusals,
            "stated": said.waits,
            "honoured": said.honoured,
            "refused_again": list(said.again),
            "longer": said.longer,
        },
    }
