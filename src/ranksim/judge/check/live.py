"""What a check shows while it runs: a table on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ranksim.core.clock import SECOND
from ranksim.core.printable import printable
from ranksim.judge.check.checking import Checking
from ranksim.judge.conformance.verdict.verdicts import Finding, Verdict
from ranksim.judge.report.judgement import STYLES
from ranksim.report import units
from ranksim.report.terminal import Escaped

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_EVERY = 20.0
"""Seconds between two lines in a pipe."""

MOST_NAMES = 4
"""Rules that deviate and are named."""

MOST_ANSWERS = 6
"""Answers that are shown, the most frequent first."""


@contextmanager
def live_view() -> Iterator[Callable[[Checking], None]]:
    """Show a check on stderr, as a table where that is a terminal."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:
        yield lambda checking: live.update(Escaped(family_table(checking)))


class _Lines:
    """A line whenever the last one is old enough."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, checking: Checking) -> None:
        if time.monotonic() - self._last >= LINE_EVERY:
            self._last = time.monotonic()
            print(printable(line(checking)), file=sys.stderr, flush=True)


def line(checking: Checking) -> str:
    """Return how a check stands in one line."""
    calls = checking.answers.total()
    tasks = ", ".join(task.title for task in checking.rounds.running.values())
    pace = calls / max(1, checking.elapsed // SECOND)
    doing = f"trying {tasks}" if tasks and not checking.stopping else "ending"
    return (
        f"{units.duration(checking.elapsed // SECOND * SECOND)}: {_decided(checking)}, "
        f"{units.many(calls, 'call')} ({pace:.3g} a second), "
        f"spent {units.usd(checking.spent)}; {doing}"
    )


def family_table(checking: Checking) -> RenderableType:
    """Return how a check stands, family by family."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=SIMPLE_HEAD)
    for heading in ("rules", "decided", "deviate", "cases left"):
        rows.add_column(heading, justify="left" if heading == "rules" else "right")
    findings = [] if checking.judgement is None else list(checking.judgement.findings)
    for family, own in _families(findings, checking.plan.rules).items():
        decided, broken = _counts(own)
        left = sum(len(finding.left) for finding in own)
        style = STYLES["deviates"] if broken else STYLES["conforms"] if decided == len(own) else ""
        rows.add_row(family, f"{decided} of {len(own)}", str(broken or ""), str(left or ""), style=style)
    answers = ", ".join(
        f"{units.count(number)} {answer}" for answer, number in checking.answers.most_common(MOST_ANSWERS)
    )
    return Group(rows, Text(line(checking)), Text(f"answers: {answers or 'none yet'}"))


def _families(findings: list[Finding], rules: tuple[str, ...]) -> dict[str, list[Finding]]:
    families: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.rule.name in rules:
            families.setdefault(finding.rule.name.partition(".")[0], []).append(finding)
    return families


def _counts(findings: list[Finding]) -> tuple[int, int]:
    """Return how many rules are decided, and how many of them deviate."""
    broken = sum(finding.verdict == Verdict.DEVIATES for finding in findings)
    return broken + sum(finding.verdict == Verdict.CONFORMS for finding in findings), broken


def _decided(checking: Checking) -> str:
    if checking.judgement is None:
        return "nothing judged yet"
    findings = [
        finding for finding in checking.judgement.findings if finding.rule.name in checking.plan.rules
    ]
    decided, broken = _counts(findings)
    cases = sum(finding.exercised for finding in findings)
    names = [finding.rule.name for finding in findings if finding.verdict == Verdict.DEVIATES]
    more = f" and {broken - MOST_NAMES} more" if broken > MOST_NAMES else ""
    verb = "deviates" if broken == 1 else "deviate"
    deviate = f", {', '.join(names[:MOST_NAMES])}{more} {verb}" if names else ""
    return (
        f"{decided} of {units.many(len(findings), 'rule')} decided{deviate}, "
        f"{cases} of {units.many(sum(len(finding.cases) for finding in findings), 'case')}"
    )
