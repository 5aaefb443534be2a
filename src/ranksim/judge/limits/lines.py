"""A judgement of limits in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ranksim.core.clock import SECOND, format_duration, format_millis
from ranksim.judge.limits.judged import ALGORITHMS, JudgedLimit, LimitVerdict
from ranksim.judge.limits.parts import LimitOf
from ranksim.report import units

BRIEFLY = {
    "first_hit": "a fixed window",
    "clock": "a clock window",
    "sliding_log": "a log",
    "sliding_counter": "a sliding counter",
    "gcra": "a bucket",
}
"""The five common algorithms, where others are listed that it is not."""

WIDTH = 11
"""Columns of the word that begins a line."""

MOST_BROKEN = 5
"""Whose limits are told in full, at most."""


def judgement_lines(
    parts: Sequence[LimitOf], scope: Sequence[tuple[str, str]] = (), ended: str = ""
) -> list[str]:
    """Say what was judged: in full where it is of one caller, else what is broken, and how many hold.

    `scope` says of further callers whether they share the limit, `ended` why probing ended early.
    """
    if len(parts) == 1:
        further = [f"{'scope':{WIDTH}}{text}" for _, text in scope]
        further += [f"{'ended':{WIDTH}}{ended}"] if ended else []
        return [*_part_lines(parts[0]), *further]
    made = []
    for quota in dict.fromkeys(part.quota for part in parts):
        own = [part for part in parts if part.quota == quota]
        counts = {verdict: sum(part.judged.verdict == verdict for part in own) for verdict in LimitVerdict}
        listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        made.append(f"{'limit':{WIDTH}}{quota}: of {units.many(len(own), 'caller')} {listed}")
        algorithms = {part.judged.algorithm for part in own} - {None}
        if algorithms:
            named = " or ".join(ALGORITHMS[name] for name in ALGORITHMS if name in algorithms)
            made.append(f"{'algorithm':{WIDTH}}{named}")
    broken = [part for part in parts if part.judged.verdict == LimitVerdict.BROKEN]
    for part in broken[:MOST_BROKEN]:
        made += ["", f"{'caller':{WIDTH}}{part.who or 'all'}", *_part_lines(part)]
    return made


def _part_lines(part: LimitOf) -> Iterator[str]:
    for word, text in _entries(part):
        yield f"{word:{WIDTH}}{text}"


def _entries(part: LimitOf) -> Iterator[tuple[str, str]]:
    judged = part.judged
    yield "limit", _verdict(part)
    if judged.verdict == LimitVerdict.BROKEN:
        yield from _broken(judged)
    elif len(judged.calls.refused):
        yield "algorithm", _algorithm(judged)
        edge = _edge(judged)
        if edge:
            yield "edge", edge
    else:
        yield "", "no call was refused: the limit was not met"
    yield from _headers(part)


def _verdict(part: LimitOf) -> str:
    judged, quota = part.judged, str(part.quota)
    observed = f"{units.many(part.count, 'call')}, {len(judged.calls.refused):,} refused"
    if judged.verdict == LimitVerdict.HOLDS:
        return f"{quota} holds: never more, never fewer ({observed})"
    if judged.verdict == LimitVerdict.BROKEN:
        word = {"no more": "more are admitted", "no fewer": "fewer are admitted"}.get(
            judged.side, "by another algorithm"
        )
        return f"{quota} is BROKEN: {word} ({observed})"
    if judged.pinned:
        sides = {"no more": "never more", "no fewer": "never fewer"}
        held = ", ".join(sides[side] for side in judged.pinned)
        return f"{quota}: {held}; whether it is kept on the other side stays open ({observed})"
    return f"{quota} is not contradicted; too little was observed to say more ({observed})"


def _algorithm(judged: JudgedLimit) -> str:
    names = [ALGORITHMS[name] for name in judged.algorithms]
    named = ALGORITHMS[judged.algorithm] if judged.algorithm else " or ".join(names)
    counted = {True: ", refused calls count", False: ", refused calls do not count", None: ""}
    others = [
        f"not {BRIEFLY[name]} ({' '.join(against.exchanges[:3])})"
        for name, against in judged.excluded.items()
        if name in BRIEFLY
    ]
    return f"{named}{counted[judged.refused_count]}" + (f"; {', '.join(others)}" if others else "")


def _edge(judged: JudgedLimit) -> str:
    """Return the most that the algorithm lets a caller have in a short time, and that others would."""
    limit, length, name = judged.limit, judged.length, judged.algorithm
    brief = format_millis(length * 3 // 100)
    if name in ("first_hit", "clock"):
        return f"a caller may get {2 * limit:,} within {brief}, around the edge of two windows"
    if name in ("sliding_counter", "rotating"):
        most = limit - -limit * 3 // 100
        fixed = f"a fixed window would allow {2 * limit:,}"
        return f"a caller may get {most:,} within {brief}, as this algorithm allows; {fixed}"
    if name == "sliding_log":
        return f"a caller gets {limit:,} in any {format_duration(length)}, never more"
    if name in ("gcra", "queue"):
        lasts = format_duration(length)
        return f"a caller may get {2 * limit:,} within {lasts}: a full bucket, and what refills"
    return ""


def _broken(judged: JudgedLimit) -> Iterator[tuple[str, str]]:
    evidence = judged.evidence
    if evidence is None:
        return
    yield "", evidence.says
    if evidence.exchanges:
        yield "calls", " ".join(evidence.exchanges)
    if judged.at_once is not None:
        count = -(-judged.at_once // judged.limit)
        several = f"{count} replicas or more that count apart, or a check that races"
        yield "looks like", f"{several}: {judged.at_once:,} were admitted at once, after a silence"
    elif judged.nearest is not None:
        yield "nearest", f"{judged.nearest:,} in {format_duration(judged.length)} would explain all calls"
    for name, against in evidence.readings:
        if name in BRIEFLY and against.says != evidence.says:
            yield "", f"nor is it {BRIEFLY[name]}: {against.says}"


def _headers(part: LimitOf) -> Iterator[tuple[str, str]]:
    stated = part.statements
    if stated.dialects:
        named = ", ".join(stated.dialects)
        other = [f"{limit:,} in {count:,}" for limit, count in stated.limits if limit != part.quota.limit]
        text = f"{named}: "
        if stated.stated:
            right = stated.stated - len(stated.wrong)
            text += f"Remaining can be right in {right:,} of {stated.stated:,}"
            if stated.wrong:
                text += f", not in {' '.join(stated.wrong[:4])}"
                if stated.overlapping * 2 > len(stated.wrong):
                    text += f"; {stated.overlapping} of these overlap others (two replicas?)"
        else:
            text += "no Remaining of this limit"
        if other:
            text += f"; they state {', '.join(other[:3])} replies"
        yield "headers", text
    elif stated.refusals or part.judged.calls.admitted.sent.size:
        yield "headers", "none of a rate limit"
    if stated.refusals:
        text = f"Retry-After in {stated.waits:,} of {stated.refusals:,} refusals"
        if stated.honoured:
            text += f", kept in {stated.honoured - len(stated.again) // 2:,} of {stated.honoured:,}"
            text += f", not in {' '.join(stated.again[:2])}" if stated.again else ""
        if stated.longer is not None:
            late = stated.longer / SECOND
            text += f"; {abs(late):.1f} s {'longer than needed' if late >= 0 else 'too short'} on average"
        yield "retry", text
