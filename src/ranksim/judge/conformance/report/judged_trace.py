"""A judged trace as Python and notebooks show it: a judgement with frames, plots and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.contract.policy import Policy, policy_of
from ranksim.judge.conformance import compare as judging
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.exhibits import exhibits
from ranksim.judge.conformance.history.trace_reader import Source
from ranksim.judge.conformance.report.as_dict import Plain, as_document, judgement_data
from ranksim.judge.conformance.verdict.verdicts import Verdict
from ranksim.judge.report import judgement_page, judgement_plots
from ranksim.judge.report.judgement import headline, summary
from ranksim.report.answer import ReadyAnswer
from ranksim.report.assumptions import Basis
from ranksim.report.document import as_text
from ranksim.report.table_spec import Tables, TableSpec
from ranksim.report.terminal import rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORST_FIRST = (Verdict.DEVIATES, Verdict.UNDECIDED, Verdict.CONFORMS, Verdict.NOT_EXERCISED)

RULES = TableSpec(
    visible={"rule": "text", "verdict": "text", **dict.fromkeys(("held", "broken", "open"), "count")},
    title="Rules",
)
DIFFERENCES = TableSpec(
    visible=dict.fromkeys(("number", "assumed", "found"), "text"),
    title="Assumptions that the trace excludes",
    columns=("number", "assumed", "found", "says"),
)
THROUGHPUT = TableSpec(others={"t": "instant", **dict.fromkeys(("p50", "p95", "p99"), "duration")})


@dataclass(frozen=True, repr=False)
class JudgedTrace(Judgement, ReadyAnswer):
    """A judgement of `source`, in the forms of every answer; its page is that of `ranksim compare --html`."""

    kind = "compare"
    title = "Judgement of a trace"
    TABLES = MappingProxyType({"rules": RULES, "differences": DIFFERENCES, "throughput": THROUGHPUT})

    source: Source = ()

    @property
    def sentence(self) -> str:
        """The whole verdict in a sentence."""
        return headline(self._plain)

    @cached_property
    def _plain(self) -> Plain:
        named = str(self.source) if isinstance(self.source, str | Path) else "a trace in memory"
        return judgement_data(self, trace=named, exhibits=exhibits([self.source], self))

    @property
    def tables(self) -> Tables:
        """A row for each rule, the worst first; what the trace excludes; calls and latency over time."""
        findings = sorted(self.findings, key=lambda finding: WORST_FIRST.index(finding.verdict))
        return {
            "rules": [
                {
                    "rule": each.rule.name,
                    "verdict": str(each.verdict),
                    "held": each.held,
                    "broken": each.broken,
                    "open": each.open,
                }
                for each in findings
            ],
            "differences": [
                {
                    "number": f"U{each.number}",
                    "assumed": each.assumed,
                    "found": each.found,
                    "says": each.evidence.says,
                }
                for each in self.differences
            ],
            "throughput": self._plain["throughput"],
        }

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots; none of a trace of less than two seconds."""
        return tuple(judgement_plots.drawings(self._plain))

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.report.figure import new_figure

        drawn = judgement_plots.drawings(self._plain)
        ax = new_figure().subplots() if ax is None else ax
        drawn[name](ax)
        return ax

    def summary(self) -> str:
        """Return what `ranksim compare` prints."""
        return rendered(summary(self._plain))

    def to_json(self) -> str:
        """Return what `ranksim compare --json` prints."""
        return as_text(as_document(self._plain))

    def _page(self, images: Mapping[str, str], basis: Basis | None = None) -> str:
        return judgement_page.page(self._plain, images)


def compare(source: Source, policy: Policy | str | Path | None = None) -> JudgedTrace:
    """Judge a trace (a path, its lines, or one in memory) rule by rule.

    What `policy` (or its file) states is pinned; any other assumption stays open. Evidence is read from
    `source` once more when it is shown, so that lines that can be read but once have none. Raises BadInput
    for a broken trace.
    """
    return as_judged(judging.compare(source, policy_of(policy)), source)


def as_judged(judgement: Judgement, source: Source) -> JudgedTrace:
    """Return a judgement of a trace in the forms of every answer."""
    judged = {field.name: getattr(judgement, field.name) for field in fields(judgement)}
    return JudgedTrace(**judged, source=source)
