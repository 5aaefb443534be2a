"""Figures of a judgement as SVG: calls against a window, attempts against their schedule.

They are drawn in the page's own colours, and each mark tells what it is where the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ranksim.core.clock import MINUTE, SECOND, format_millis
from ranksim.report import units

Plain = Mapping[str, Any]

WIDE, HIGH = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 14, 34
MOST_MARKS = 400
"""Steps that have a mark with a tooltip; the line has them all."""


def staircase(figure: Plain) -> str:
    """Draw the calls admitted since a window began as a staircase, against the limit and its end."""
    begins: int = figure["t"]
    length: int = figure["length"]
    limit: int = figure["limit"]
    most: int = limit * figure["windows"]
    calls = figure["calls"]
    first, last = begins - length / 10, begins + length * 1.1
    admitted = [call for call in calls if call["admitted"] and begins <= call["t"] <= figure["until"]]
    top = max(most, len(admitted)) * 1.12 + 1

    def x(t: float) -> float:
        return LEFT + (t - first) / (last - first) * (WIDE - LEFT - RIGHT)

    def y(number: float) -> float:
        return TOP + (1 - number / top) * (HIGH - TOP - BOTTOM)

    parts = [
        f'<rect x="{x(begins):.1f}" y="{TOP}" width="{x(begins + length) - x(begins):.1f}" '
        f'height="{HIGH - TOP - BOTTOM}" class="window">{_title("one window")}</rect>',
        _line(x(first), y(0), x(last), y(0), "axis"),
        _line(x(first), y(limit), x(last), y(limit), "limit"),
        _text(x(last) + 6, y(limit) + 4, f"limit {units.count(limit)}"),
        *(
            (
                _line(x(first), y(most), x(last), y(most), "limit"),
                _text(x(last) + 6, y(most) + 4, f"two windows, {units.count(most)}"),
            )
            if most > limit
            else ()
        ),
        _text(x(begins), HIGH - 8, "0 s", "middle"),
        _text(x(begins + length), HIGH - 8, f"{length / SECOND:g} s", "middle"),
        _text(LEFT - 8, y(0) + 4, "0", "end"),
    ]
    path, marks = f"M{x(begins):.1f} {y(0):.1f}", []
    every = max(1, len(admitted) // MOST_MARKS)
    for number, call in enumerate(admitted, 1):
        path += f"H{x(call['t']):.1f}V{y(number):.1f}"
        if call["marked"] or number % every == 0 or number in (most, most + 1):
            says = f"{call['id']}: call {number} of the window, {(call['t'] - begins) / SECOND:.3f} s"
            marks.append(
                _dot(x(call["t"]), y(number), says, "bad" if number > most else "step", call["marked"])
            )
    parts += [f'<path d="{path}" class="stairs"/>', *marks]
    if admitted:
        over = len(admitted) > most
        parts.append(
            _text(x(admitted[-1]["t"]) + 7, y(len(admitted)) - 5, f"{units.count(len(admitted))} admitted",
                  kind="bad" if over else "")
        )  # fmt: skip
    for call in calls:
        if not call["admitted"]:
            says = f"{call['id']}: refused, {(call['t'] - begins) / SECOND:.3f} s"
            parts.append(_cross(x(call["t"]), y(0) - 7, says, marked=call["marked"]))
    two = f", and {units.count(most)} in two windows that meet" if most > limit else ""
    caption = (
        f"Calls admitted since {units.instant(begins)} (0 s), {format_millis(figure['since'])} after the "
        f"trace began, against the limit of {units.count(limit)} in {length / SECOND:g} s{two}; crosses are "
        "refusals, ringed what proves the deviation."
    )
    return _figure(parts, HIGH, caption)


def timeline(figure: Plain) -> str:
    """Draw the attempts of a delivery over the time since the first, each against when it was due."""
    attempts: Sequence[Plain] = figure["attempts"]
    origin = attempts[0]["t"]
    dues = [attempt["due"] for attempt in attempts if attempt["due"] is not None]
    last = max(*dues, *(attempt["t"] for attempt in attempts), origin + SECOND)
    high = TOP + BOTTOM + 24 * (len(attempts) + 1)

    def x(t: float) -> float:  # delays grow from a minute to hours
        share = math.log1p(max(0, t - origin) / (10 * SECOND)) / math.log1p((last - origin) / (10 * SECOND))
        return LEFT + share * (WIDE - LEFT - RIGHT)

    parts = [_line(LEFT, high - BOTTOM, WIDE - RIGHT, high - BOTTOM, "axis")]
    for span in (0, MINUTE, 6 * MINUTE, 36 * MINUTE, 156 * MINUTE, 516 * MINUTE):
        if span <= last - origin:
            parts.append(_line(x(origin + span), TOP, x(origin + span), high - BOTTOM, "grid"))
            parts.append(_text(x(origin + span), high - 10, units.duration(span) if span else "0", "middle"))
    due = None
    rows = [*attempts, None] if attempts[-1]["due"] is not None else list(attempts)
    for row, attempt in enumerate(rows):
        height = TOP + 18 + 24 * row
        number = attempts[-1]["attempt"] + 1 if attempt is None else attempt["attempt"]
        parts.append(_text(LEFT - 14, height + 4, f"{number}", "end"))
        if due is not None:
            says = f"attempt {number} was due {units.duration(due - origin)} after the first"
            parts.append(_diamond(x(due), height, says))
        if attempt is None:
            over = due is not None and due < figure["ended"]
            remark = "did not come" if over else "not due before the end"
            parts.append(_text(WIDE - RIGHT + 12, height + 4, remark, kind="bad" if over else ""))
            continue
        answer = "no answer" if attempt["status"] is None else f"{attempt['status']}"
        off = (
            ""
            if due is None
            else f", {units.duration(abs(attempt['t'] - due))} " + ("late" if attempt["t"] > due else "early")
        )
        if due is not None:
            parts.append(_line(x(due), height, x(attempt["t"]), height, "late"))
        says = f"attempt {number} came {units.duration(attempt['t'] - origin)} after the first{off}: {answer}"
        good = attempt["status"] is not None and 200 <= attempt["status"] <= 299
        parts.append(_dot(x(attempt["t"]), height, says, "good" if good else "bad", attempt["marked"], 5))
        parts.append(_text(WIDE - RIGHT + 12, height + 4, f"{answer}{off}"))
        due = attempt["due"]
    caption = (
        f"Attempts of {figure['event']} to {figure['endpoint']} since the first (logarithmic); diamonds are "
        "when each was due by the stated delays, ringed what proves the deviation."
    )
    return _figure(parts, high, caption)


def _figure(parts: Sequence[str], high: float, caption: str) -> str:
    return (
        f'<figure class="drawn"><svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{escape(caption)}">'
        f"{''.join(parts)}</svg><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _title(says: str) -> str:
    return f"<title>{escape(says)}</title>"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def _dot(x: float, y: float, says: str, kind: str, marked: bool, radius: float = 2.5) -> str:
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius + 3.5}" class="ring"/>' if marked else ""
    return f'{ring}<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}">{_title(says)}</circle>'


def _cross(x: float, y: float, says: str, *, marked: bool) -> str:
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" class="ring"/>' if marked else ""
    return f'{ring}<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6" class="refused">{_title(says)}</path>'


def _diamond(x: float, y: float, says: str) -> str:
    return f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" class="due">{_title(says)}</path>'


FIGURES = """
.drawn { max-width: 46rem; margin: .5rem 0; }
.drawn svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
.drawn text { fill: var(--soft); }
.drawn text.bad { fill: var(--bad); }
.drawn .window { fill: var(--raised); }
.drawn .axis { stroke: var(--soft); }
.drawn .grid { stroke: var(--line); }
.drawn .limit { stroke: var(--good); stroke-width: 1.5; stroke-dasharray: 6 4; }
.drawn .stairs { fill: none; stroke: var(--ink); stroke-width: 1.3; }
.drawn .refused { stroke: var(--bad); stroke-width: 1.5; }
.drawn .late { stroke: var(--bad); stroke-width: 1.5; }
.drawn .due { fill: var(--paper); stroke: var(--soft); stroke-width: 1.5; }
.drawn .ring { fill: none; stroke: var(--bad); }
.drawn circle.step { fill: var(--ink); }
.drawn circle.bad { fill: var(--bad); }
.drawn circle.good { fill: var(--good); }
"""
