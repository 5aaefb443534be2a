"""The page that tells what is judged: the ways to break each fact and open choice, and what shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from ranksim.core.contract.register import assumption
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.ways import DIFFERS, Departure, ways

HEAD = """# What is judged, and what cannot be

For each fact of the specification (S), and each open choice with options (U): the ways in which a
deployment could break it, or choose otherwise, and the case that would show it. `scripts/what_is_judged`
writes this page from `judge.conformance.ways`; a test says that it is current. A rule is told with its
case; a word in braces stands for each key or each metric. *Assumption differs* means that `compare` tells
it, and that nothing fails. Whether a run comes to a case, its report says.
"""


def page() -> str:
    """Return the page as Markdown."""
    departures = list(ways())
    facts = [way for way in departures if way.of.startswith("S")]
    choices = [way for way in departures if way.of.startswith("U")]
    lines = [
        HEAD,
        *_counted(facts, choices),
        "",
        "## Facts",
        "",
        "| fact | way | what shows it |",
        "|---|---|---|",
    ]
    lines += [_row(way, way.of) for way in facts]
    lines += ["", "## Open choices", ""]
    for number, same in groupby(choices, key=lambda way: way.of):
        lines += [f"- **{number}** {assumption(int(number[1:])).statement}", *_items(same)]
    return "\n".join(lines) + "\n"


def _counted(facts: Sequence[Departure], choices: Sequence[Departure]) -> list[str]:
    seen = [way for way in facts if way.rule]
    differing = sum(bool(way.rule) for way in choices)
    numbers = len({way.of for way in facts})
    return [
        f"- {len(facts)} ways to break {numbers} facts: {len(seen)} have a case that shows them, "
        f"{len(facts) - len(seen)} cannot be seen, with the reason.",
        f"- {len(choices)} other choices: {differing} are told as an assumption that differs, "
        f"{len(choices) - differing} are not, with the reason.",
    ]


def _row(way: Departure, of: str) -> str:
    return f"| {of} | {way.says} | {_shown(way)} |"


def _items(same: Iterable[Departure]) -> list[str]:
    return [f"  - {way.says}: {_shown(way)}" for way in same]


def _shown(way: Departure) -> str:
    """Return the rule with its case, or why nothing shows it."""
    if not way.rule:
        return f"not seen: {way.why}"
    if way.rule == DIFFERS:
        return f"*{DIFFERS}*" if way.of == way.case else f"*{DIFFERS}* ({way.case})"
    return f"`{way.rule}`" if way.case == ANY else f"`{way.rule}`, {way.case}"
