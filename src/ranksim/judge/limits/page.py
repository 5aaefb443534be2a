"""A judgement of limits as one self-contained page."""

from __future__ import annotations

from html import escape

from ranksim.judge.limits.judged import ALGORITHMS, LimitVerdict
from ranksim.judge.limits.limits import LimitOf, Limits
from ranksim.judge.limits.told import WIDTH, lines
from ranksim.judge.report.judgement_figures import FIGURES, staircase
from ranksim.report.page import html_document

FOOTER = (
    "<footer>A limit is broken only where no placement of the calls within the time that each took explains "
    "them, under any of eight algorithms; what two algorithms explain is not told apart.</footer>"
)

MOST_FIGURES = 5
"""Callers whose window is drawn, at most."""


def page(found: Limits, about: str) -> str:
    """Return the page: the verdict, what each algorithm fails on, and a window as a staircase."""
    body = [f"<h1>Rate limit of {escape(about)}</h1>"]
    body.append(f'<p class="answer {_tone(found)}">{escape(_answer(found))}</p>')
    body.append(_table(found))
    drawn = found.broken or found.parts
    for part in drawn[:MOST_FIGURES]:
        body += _part(part, with_name=len(found.parts) > 1)
    return html_document(f"Rate limit of {about}", [*body, FOOTER], FIGURES)


def _table(found: Limits) -> str:
    """Return the lines of the summary as a table of words and what is said of each."""
    rows = [
        f"<tr><th>{escape(line[:WIDTH].strip())}</th><td>{escape(line[WIDTH:])}</td></tr>"
        for line in lines(found)
        if line
    ]
    return f"<table>{''.join(rows)}</table>"


def _tone(found: Limits) -> str:
    return "bad" if found.broken else "good" if found.holds else ""


def _answer(found: Limits) -> str:
    quotas = ", ".join(str(quota) for quota in found.quotas)
    if found.broken:
        return f"{quotas}: the limit is not kept"
    named = f" ({ALGORITHMS[found.algorithm]})" if found.algorithm else ""
    return f"{quotas}: the limit holds{named}" if found.holds else f"{quotas}: nothing contradicts the limit"


def _part(part: LimitOf, *, with_name: bool) -> list[str]:
    body = [f"<h2>{escape(part.who or 'all calls')}</h2>"] if with_name else []
    body.append(staircase(_window(part)))
    rows = [
        f"<tr><td>{escape(ALGORITHMS[name])}</td><td>{escape(against.says)}</td>"
        f"<td>{escape(', '.join(against.exchanges[:4]))}</td></tr>"
        for name, against in part.judged.excluded.items()
        if name in ALGORITHMS
    ]
    if rows:
        head = "<tr><th>algorithm</th><th>what it cannot explain</th><th>calls</th></tr>"
        body += ["<h2>What it is not</h2>", f'<div class="wide"><table>{head}{"".join(rows)}</table></div>']
    return body


def _window(part: LimitOf) -> dict[str, object]:
    """Return the calls of one window: that of the evidence, or the fullest one."""
    judged = part.judged
    calls, length = judged.calls, part.quota.length
    side = calls.admitted
    marked = set(judged.evidence.exchanges) if judged.evidence is not None else set()
    times = [
        (int(done), int(who), kind is side)
        for kind in (side, calls.refused)
        for done, who in zip(kind.done, kind.who, strict=True)
    ]
    times.sort()
    begins = calls.began
    named = [t for t, who, _ in times if calls.log.id(who) in marked]
    if judged.verdict == LimitVerdict.BROKEN and named:
        begins = named[0] if len(named) > 1 else max(calls.began, named[0] - length)
    elif len(side):
        count = side.before(side.sent + length) - side.begun_before(side.sent)
        begins = int(side.sent[int(count.argmax())])
    near = [item for item in times if begins - length // 10 <= item[0] <= begins + length * 11 // 10]
    return {
        "limit": part.quota.limit,
        "windows": 1 if judged.algorithm == "sliding_log" or part.judged.evidence else 2,
        "t": begins,
        "since": begins - calls.began,
        "length": length,
        "until": begins + length,
        "calls": [
            {"id": calls.log.id(who), "t": t, "admitted": admitted, "marked": calls.log.id(who) in marked}
            for t, who, admitted in near
        ],
    }
