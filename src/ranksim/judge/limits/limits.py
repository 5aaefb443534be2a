"""`ranksim.limits`: does a limit hold, by the calls of a recording?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.quota import RateQuota
from ranksim.core.errors import BadInput, check_kind
from ranksim.core.trace import Trace
from ranksim.judge.limits.calls import REFUSALS, LimitedCall
from ranksim.judge.limits.judged import ALGORITHMS, LimitVerdict
from ranksim.judge.limits.lines import WIDTH, judgement_lines
from ranksim.judge.limits.parts import LimitOf, judge_part
from ranksim.judge.limits.recordings import by_who, read_calls
from ranksim.report.answer import ReadyAnswer
from ranksim.report.document import MetricShown, number
from ranksim.report.table_spec import Tables, TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PARTS = 100
"""Whose calls are judged apart, at most: those with the most calls."""


LIMITS = TableSpec(
    visible={"who": "text", "verdict": "text", "algorithm": "text", "limit": "count", "length": "duration"}
    | dict.fromkeys(("calls", "admitted", "refused"), "count"),
    title="Limits",
)
EVIDENCE = TableSpec(
    others={"length": "duration", "exchanges": "list"},
    columns=("who", "limit", "length", "algorithm", "says", "exchanges"),
)


@dataclass(frozen=True, slots=True, repr=False)
class JudgedLimits(ReadyAnswer):
    """What calls show of rate limits: `parts` has each limit for each who is limited."""

    kind = "limits"
    TABLES = MappingProxyType({"limits": LIMITS, "evidence": EVIDENCE})
    plots = ("window",)

    parts: tuple[LimitOf, ...]
    scope: tuple[tuple[str, str], ...] = ()
    """Of further callers and addresses that were tried, whether each has a limit of its own."""
    ended: str = ""
    """Why probing ended before all was decided."""
    about: str = "calls"
    """What was judged, by its name."""

    @property
    def title(self) -> str:
        """The title of the page and of the document."""
        return f"Rate limit of {self.about}"

    @property
    def sentence(self) -> str:
        """The first line of the summary, whether the limit holds."""
        return self.summary().partition("\n")[0][WIDTH:]

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
    def quotas(self) -> tuple[RateQuota, ...]:
        """The limits that were judged."""
        return tuple(dict.fromkeys(part.quota for part in self.parts))

    @property
    def algorithm(self) -> str | None:
        """The algorithm, where all who are limited show one."""
        names = {part.judged.algorithm for part in self.parts} - {None}
        return next(iter(names)) if len(names) == 1 else None

    def summary(self) -> str:
        """Return what `ranksim limits` prints."""
        return "\n".join(judgement_lines(self.parts, self.scope, self.ended))

    def __str__(self) -> str:
        return self.summary()

    def __bool__(self) -> bool:
        raise TypeError("a judgement of limits is neither true nor false; ask its `holds`, or its `broken`")

    @property
    def tables(self) -> Tables:
        """A row for each limit of each who is limited; what each algorithm cannot explain, by which calls."""
        return {"limits": [_row(part) for part in self.parts], "evidence": [*_evidence_rows(self.parts)]}

    @property
    def metrics(self) -> dict[str, MetricShown]:
        """How much was judged, and with what verdict."""
        counts = {
            "calls": sum(part.count for part in self.parts),
            "limits.judged": len(self.parts),
            "limits.broken": len(self.broken),
            "limits.holding": sum(part.judged.holds for part in self.parts),
        }
        return {name: number("count", count) for name, count in counts.items()}

    def fields(self) -> dict[str, Any]:
        """Whether all hold, of further callers whose limit they share, and why probing ended early."""
        return {"holds": self.holds, "scope": dict(self.scope), "ended": self.ended}

    def page(self, plots: bool = True) -> str:
        """Return what `ranksim limits --html` writes, whose figures are of the page itself."""
        from ranksim.judge.limits.page import limits_page

        tone = "bad" if self.broken else "good" if self.holds else ""
        parts, with_names = self.broken or self.parts, len(self.parts) > 1
        return limits_page(self.title, self._answer, tone, self.summary(), parts, with_names=with_names)

    @property
    def _answer(self) -> str:
        quotas = ", ".join(str(quota) for quota in self.quotas)
        if self.broken:
            return f"{quotas}: the limit is not kept"
        named = f" ({ALGORITHMS[self.algorithm]})" if self.algorithm else ""
        return f"{quotas}: {f'the limit holds{named}' if self.holds else 'nothing contradicts the limit'}"

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.judge.limits.page import draw_window

        return draw_window((self.broken or self.parts)[0], self.sentence, ax)


def limits(
    source: str | Path | Trace | Sequence[LimitedCall],
    *quotas: str,
    by: str = "",
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
    longest: Micros = SECOND,
) -> JudgedLimits:
    """Judge rate limits by the calls of a recording.

    `source` is an access log, a HAR file, a trace or its path; `quotas` such as "20/2s" count all its calls,
    apart for each who is limited `by`: client, key, path, all, header:NAME or request:/POINTER. `refused` are
    the statuses by which the limit refuses. `shared`: others, whose calls are not here, use the same limit.
    A call of an access log took at most `longest` µs. Raises BadInput.
    """
    kinds = "an access log, a HAR file, a trace or its path, or calls"
    check_kind("limits", source, str | Path | Trace | Sequence, kinds)
    for quota in quotas:
        check_kind("limits", quota, str, "a limit such as '20/2s'")
    calls = read_calls(source, by, longest) if isinstance(source, str | Path | Trace) else source
    if not quotas or not calls:
        raise BadInput(f"limits: expected {'calls' if quotas else 'a limit such as 20/2s'}, judgement none")
    judgement = judge_calls(calls, quotas, refused=refused, shared=shared)
    return replace(judgement, about=str(source)) if isinstance(source, str | Path) else judgement


def judge_calls(
    calls: Sequence[LimitedCall],
    quotas: Sequence[str],
    *,
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
) -> JudgedLimits:
    """Judge limits such as "20/2s" by calls, apart for each key. Raises BadInput."""
    parsed = [RateQuota.parse(text) for text in quotas]
    parts = [
        judge_part(who, own, quota, refused=refused, shared=shared, alone=len(parsed) == 1)
        for who, own in list(by_who(calls).items())[:MOST_PARTS]
        for quota in parsed
    ]
    return JudgedLimits(tuple(parts))


def _row(part: LimitOf) -> dict[str, Any]:
    judged, stated = part.judged, part.statements
    return {
        "who": part.who,
        "limit": part.quota.limit,
        "length": part.quota.length,
        "verdict": str(judged.verdict),
        "side": judged.side,
        "nearest": judged.nearest,
        "at_once": judged.at_once,
        "calls": part.count,
        "admitted": len(judged.calls.admitted),
        "refused": len(judged.calls.refused),
        "algorithm": judged.algorithm,
        "algorithms": list(judged.algorithms),
        "refused_count": judged.refused_count,
        "dialects": list(stated.dialects),
        "remaining_stated": stated.stated,
        "remaining_wrong": list(stated.wrong),
        "retry_after": stated.waits,
        "retry_honoured": stated.honoured,
        "retry_refused_again": list(stated.again),
        "retry_longer": stated.longer,
    }


def _evidence_rows(parts: Sequence[LimitOf]) -> Iterator[dict[str, Any]]:
    """Yield what each algorithm cannot explain, and by which calls; first what breaks a limit."""
    for part in parts:
        evidence = {"": part.judged.evidence, **part.judged.excluded}
        for name, against in evidence.items():
            if against is not None:
                row = {"who": part.who, "limit": part.quota.limit, "length": part.quota.length}
                yield {**row, "algorithm": name, "says": against.says, "exchanges": list(against.exchanges)}
