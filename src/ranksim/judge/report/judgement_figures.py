"""Figures of a judgement as SVG: calls against a window, attempts against their schedule.

They are drawn in the page's own colours, and each mark tells what it is where the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    stairs = _Stairs(figure)
    limit, most = figure["limit"], stairs.most
    two = f", and {units.count(most)} in two windows that meet" if most > limit else ""
    caption = (
        f"Calls admitted since {units.instant(stairs.begins)} (0 s), {format_millis(figure['since'])} after "
        f"the trace began, against the limit of {units.count(limit)} in {stairs.length / SECOND:g} s{two}; "
        "crosses are refusals, ringed what proves the deviation."
    )
    return _figure([*stairs.frame(limit), *stairs.steps(), *stairs.refusals()], HIGH, caption)


class _Stairs:
    """The calls of a window: `x` of an instant, `y` of how many calls were admitted; `most` may be."""

    def __init__(self, figure: Plain) -> None:
        self.begins: int = figure["t"]
        self.length: int = figure["length"]
        self.most: int = figure["limit"] * figure["windows"]
        self.calls: Sequence[Plain] = figure["calls"]
        self.admitted = [
            call for call in self.calls if call["admitted"] and self.begins <= call["t"] <= figure["until"]
        ]
        self.first: float = self.begins - self.length / 10
        self.last: float = self.begins + self.length * 1.1
        self.top: float = max(self.most, len(self.admitted)) * 1.12 + 1

    def x(self, t: float) -> float:
        return LEFT + (t - self.first) / (self.last - self.first) * (WIDE - LEFT - RIGHT)

    def y(self, number: float) -> float:
        return TOP + (1 - number / self.top) * (HIGH - TOP - BOTTOM)

    def frame(self, limit: int) -> Iterator[str]:
        left, right = self.x(self.first), self.x(self.last)
        begins, ends = self.x(self.begins), self.x(self.begins + self.length)
        yield (
            f'<rect x="{begins:.1f}" y="{TOP}" width="{ends - begins:.1f}" '
            f'height="{HIGH - TOP - BOTTOM}" class="window">{_title("one window")}</rect>'
        )
        yield _line(left, self.y(0), right, self.y(0), "axis")
        limits = [(limit, f"limit {units.count(limit)}")]
        if self.most > limit:
            limits.append((self.most, f"two windows, {units.count(self.most)}"))
        for number, label in limits:
            yield _line(left, self.y(number), right, self.y(number), "limit")
            yield _text(right + 6, self.y(number) + 4, label)
        yield _text(begins, HIGH - 8, "0 s", "middle")
        yield _text(ends, HIGH - 8, f"{self.length / SECOND:g} s", "middle")
        yield _text(LEFT - 8, self.y(0) + 4, "0", "end")

    def steps(self) -> list[str]:
        """Draw the calls that were admitted, with marks on what is told of, and how many there are."""
        path, marks = f"M{self.x(self.begins):.1f} {self.y(0):.1f}", []
        every = max(1, len(self.admitted) // MOST_MARKS)
        for number, call in enumerate(self.admitted, 1):
            x, y = self.x(call["t"]), self.y(number)
            path += f"H{x:.1f}V{y:.1f}"
            if call["marked"] or number % every == 0 or number in (self.most, self.most + 1):
                says = f"{call['id']}: call {number} of the window, {self._since(call)}"
                marks.append(_dot(x, y, says, "bad" if number > self.most else "step", call["marked"]))
        if self.admitted:
            kind = "bad" if len(self.admitted) > self.most else ""
            counted = f"{units.count(len(self.admitted))} admitted"
            marks.append(_text(x + 7, y - 5, counted, kind=kind))
        return [f'<path d="{path}" class="stairs"/>', *marks]

    def refusals(self) -> Iterator[str]:
        for call in self.calls:
            if not call["admitted"]:
                says = f"{call['id']}: refused, {self._since(call)}"
                yield _cross(self.x(call["t"]), self.y(0) - 7, says, marked=call["marked"])

    def _since(self, call: Plain) -> str:
        return f"{(call['t'] - self.begins) / SECOND:.3f} s"


SPANS = (0, MINUTE, 6 * MINUTE, 36 * MINUTE, 156 * MINUTE, 516 * MINUTE)
"""When attempts are due after the first by the stated delays, where none takes time: lines of the axis."""


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
    for span in SPANS:
        if span <= last - origin:
            parts.append(_line(x(origin + span), TOP, x(origin + span), high - BOTTOM, "grid"))
            parts.append(_text(x(origin + span), high - 10, units.duration(span) if span else "0", "middle"))
    due = None
    for row, attempt in enumerate(attempts):
        parts += _attempt(attempt, due, origin, x, TOP + 18 + 24 * row)
        due = attempt["due"]
    if due is not None:
        height = TOP + 18 + 24 * len(attempts)
        parts += _row_of(attempts[-1]["attempt"] + 1, due, origin, x, height)
        over = due < figure["ended"]
        remark = "did not come" if over else "not due before the end"
        parts.append(_text(WIDE - RIGHT + 12, height + 4, remark, kind="bad" if over else ""))
    caption = (
        f"Attempts of {figure['event']} to {figure['endpoint']} since the first (logarithmic); diamonds are "
        "when each was due by the stated delays, ringed what proves the deviation."
    )
    return _figure(parts, high, caption)


def _row_of(
    number: int, due: int | None, origin: int, x: Callable[[float], float], height: float
) -> Iterator[str]:
    """Draw the number of an attempt, and when it was due."""
    yield _text(LEFT - 14, height + 4, f"{number}", "end")
    if due is not None:
        says = f"attempt {number} was due {units.duration(due - origin)} after the first"
        yield _diamond(x(due), height, says)


def _attempt(
    attempt: Plain, due: int | None, origin: int, x: Callable[[float], float], height: float
) -> Iterator[str]:
    """Draw an attempt that came: when, what was answered, and how far it is from when it was due."""
    number, t, status = attempt["attempt"], attempt["t"], attempt["status"]
    yield from _row_of(number, due, origin, x, height)
    off = ""
    if due is not None:
        off = f", {units.duration(abs(t - due))} {'late' if t > due else 'early'}"
        yield _line(x(due), height, x(t), height, "late")
    answer = "no answer" if status is None else f"{status}"
    kind = "good" if status is not None and 200 <= status <= 299 else "bad"
    says = f"attempt {number} came {units.duration(t - origin)} after the first{off}: {answer}"
    yield _dot(x(t), height, says, kind, attempt["marked"], 5)
    yield _text(WIDE - RIGHT + 12, height + 4, f"{answer}{off}")


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
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}">{_title(says)}</circle>'
    return _ring(x, y, radius + 3.5) + dot if marked else dot


def _cross(x: float, y: float, says: str, *, marked: bool) -> str:
    cross = f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6" class="refused">{_title(says)}</path>'
    return _ring(x, y, 7) + cross if marked else cross


def _ring(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="ring"/>'


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
