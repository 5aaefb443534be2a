"""What runs of a bench came to: how each way was found, kept from run to run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from tests.judge.conformance.elsewhere.breakages import Breakage, breakages, hidden

from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.verdict.verdicts import Case
from ranksim.judge.conformance.ways import DIFFERS

PART, OF = map(int, os.environ.get("RANKSIM_BENCH_PART", "1/1").split("/"))
SHOWN = ("case", "rule", "differs")
ROOT = Path(__file__).parents[4]
FEW = 10
"""Of more ways that share a reason a page gives the number."""
T = TypeVar("T")


def part_of(runs: Iterable[T]) -> list[T]:
    """The runs that are this process's."""
    return list(runs)[PART - 1 :: OF]


@dataclass(frozen=True)
class Results:
    """The rows of a bench, appended to a file of each process in a folder."""

    folder: Path

    def rows(self) -> list[dict[str, Any]]:
        lines = (
            line
            for path in sorted(self.folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
            for line in path.read_text(encoding="utf-8").splitlines()
        )
        return [json.loads(line) for line in lines if line.endswith("}")]

    def note(self, rows: list[dict[str, Any]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def run(self, name: str, seeds: str, run: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
        """Run the seeds (FIRST:COUNT) that are not done; give the rows of all of them, `name` says which."""
        first, count = map(int, seeds.split(":"))
        wanted = range(first, first + count)
        done = {row.get(name) for row in self.rows()}
        for seed in part_of(wanted):
            if seed not in done:
                self.note([run(seed)])
        return [row for row in self.rows() if row.get(name) in wanted]

    def became(self, seed: int, column: str) -> list[dict[str, Any]]:
        """What became of each way that was tried, in the order of the ways; alone counts where it was."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.rows():
            if (row.get("seed"), row.get("column")) == (seed, column):
                best = found.get(row["way"])
                if best is None or best["found"] not in SHOWN:
                    found[row["way"]] = row
        return [found[one.name] for one in breakages() if one.name in found]


def write_section(page: Path, module: str, text: str) -> None:
    """Put what was found into the section of a page that a bench writes."""
    begin, end = f"<!-- bench: written by `python -m {module} page` -->", "<!-- end of bench -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def over_sockets(run: Callable[[int, Path], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    """Give a run a folder that is gone after it."""

    def in_folder(seed: int) -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            return run(seed, Path(folder))

    return in_folder


def alarms(judgement: Judgement) -> list[str]:
    """What a judgement says of a deployment that conforms."""
    return [
        f"{one.rule.name}: {one.evidence[0].about}: {one.evidence[0].says}" for one in judgement.deviating
    ]


def told(breakage: Breakage, judgement: Judgement, alone: bool, numbers: Any) -> dict[str, Any]:
    """How a way was found; one that was missed, and that the numbers of the seed hide, is hidden."""
    found = looked_for(breakage, judgement, alone)
    why = hidden(breakage, replace(numbers, **breakage.chosen))
    return {**found, "found": "hidden", "why": why} if why and found["found"] == "missed" else found


def cases_of(breakage: Breakage, judgement: Judgement) -> list[Case]:
    """The cases that should show a way; of environments, the one where it is broken."""
    case = re.escape(breakage.way.case.replace("{environment}", "sandbox"))
    named = re.compile(re.sub(r"\\\{\w+\\\}", r".+", case))
    return [case for case in judgement.finding(breakage.way.rule).cases if named.fullmatch(case.name)]


def unreached(judgement: Judgement) -> dict[str, list[str]]:
    """The ways that no case of a deployment that conforms could have shown, and why its rule was open."""
    left = {}
    for one in breakages():
        finding = judgement.finding(one.way.rule) if one.way.rule != DIFFERS else None
        if finding and not any(case.conforms for case in cases_of(one, judgement) or finding.cases):
            left[one.name] = [reason for reason, _ in finding.reasons]
    return left


def looked_for(breakage: Breakage, judgement: Judgement, alone: bool) -> dict[str, Any]:
    """How a way was found: by its case, its rule, as a difference, or, where it was alone, by others."""
    way = breakage.way
    differs = [f"U{one.number}" for one in judgement.differences]
    deviating = {one.rule.name: one for one in judgement.deviating}
    if way.rule == DIFFERS:
        return {"found": "differs" if way.case in differs else "missed", "rule": way.case}
    finding, cases = judgement.finding(way.rule), cases_of(breakage, judgement)
    if any(case.broken for case in cases):
        return {"found": "case", "rule": way.rule, "says": finding.evidence[0].says}
    if finding.broken:
        return {"found": "rule", "rule": way.rule, "says": finding.evidence[0].says}
    if deviating and alone:
        other = next(iter(deviating.values()))
        return {"found": "other", "rule": other.rule.name, "says": other.evidence[0].says}
    under = any(case.conforms for case in cases)
    return {
        "found": "missed",
        "rule": way.rule,
        "conforms": under,
        "open": dict(finding.reasons),
        "differs": differs,
    }


# Tables of a page


def head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def by_reason(reasons: dict[str, str]) -> list[str]:
    """List what shares a reason in one item."""
    items: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        items.setdefault(reason, []).append(name)
    return [f"- {reason}: {few(names)}" for reason, names in items.items()]


def few(names: list[str]) -> str:
    return "; ".join(names) if len(names) <= FEW else f"{len(names)} ways"


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    if row["found"] == "other":
        return f"by {row['rule']}"
    if row["found"] == "missed" and row.get("conforms"):
        return "missed although the case conforms"
    return str(row["found"])
