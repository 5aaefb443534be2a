"""A judgement of limits as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import SECOND
from ranksim.judge.limits.judged import ALGORITHMS, LimitVerdict
from ranksim.judge.limits.lines import WIDTH
from ranksim.judge.limits.parts import LimitOf
from ranksim.judge.report.judgement_figures import FIGURES, staircase
from ranksim.report.page import html_document

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOOTER = (
    "<footer>A limit is broken only where no placement of the calls within the time that each took explains "
    "them, under any of eight algorithms; what two algorithms explain is not told apart.</footer>"
)

MOST_FIGURES = 5
"""Callers whose window is drawn, at most."""


def limits_page(
    title: str, answer: str, tone: str, summary: str, parts: Sequence[LimitOf], *, with_names: bool
) -> str:
    """Return the page: the verdict, what each algorithm fails on, and windows of `parts` as staircases.

    `tone` is the class of the answer: good, bad or "". The lines of the `summary` are a table of words and
    what is said of each.
    """
    rows = [
        f"<tr><th>{escape(line[:WIDTH].strip())}</th><td>{escape(line[WIDTH:])}</td></tr>"
        for line in summary.splitlines()
        if line
    ]
    body = [f"<h1>{escape(title)}</h1>", f'<p class="answer {tone}">{escape(answer)}</p>']
    body.append(f"<table>{''.join(rows)}</table>")
    for part in parts[:MOST_FIGURES]:
        body += _part(part, with_name=with_names)
    return html_document(title, [*body, FOOTER], FIGURES)


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


def draw_window(part: LimitOf, sentence: str, ax: Axes | None) -> Axes:
    """Draw the window that the page shows with matplotlib: calls admitted since it began, and refusals."""
    from ranksim.report.figure import BLUE, GREY, VERMILLION, finish, new_figure, separated

    ax = new_figure().subplots() if ax is None else ax
    window = _window(part)
    since = [(call["t"] - window["t"]) / SECOND for call in window["calls"]]
    length = window["length"] / SECOND
    times = list(zip(since, window["calls"], strict=True))
    admitted = [t for t, call in times if call["admitted"] and 0 <= t <= length]
    refused = [t for t, call in times if not call["admitted"]]
    ax.axvspan(0, length, color=GREY, alpha=0.15, linewidth=0)
    limit = f"limit of {window['limit']:,}"
    ax.axhline(window["limit"], color=VERMILLION, linewidth=1, linestyle="--", label=limit)
    ax.step([0, *admitted], range(len(admitted) + 1), where="post", color=BLUE, linewidth=1.5)
    if refused:
        ax.plot(refused, [0] * len(refused), "x", color=VERMILLION, markersize=5, label="refused")
    ax.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.18), fontsize=8)
    finish(ax, sentence, "seconds since the window began", "calls admitted")
    separated(ax.yaxis)
    return ax


def _window(part: LimitOf) -> dict[str, Any]:
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
        "since": max(0, begins - calls.began),
        "length": length,
        "until": begins + length,
        "calls": [
            {"id": calls.log.id(who), "t": t, "admitted": admitted, "marked": calls.log.id(who) in marked}
            for t, who, admitted in near
        ],
    }
