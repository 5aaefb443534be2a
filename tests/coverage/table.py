"""The table of docs/statistics.md: cells measured, kept under what could change them, and written out.

Results are kept in `.cache/coverage` (or the folder RANKSIM_COVERAGE_CACHE names), a file for each row, under
a digest of the procedures and of how they are measured: what was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.coverage import cells, designs
from tests.coverage.cells import Row
from tests.coverage.harness import KEPT, REPETITIONS, Cover
from tests.coverage.misses import MISSES

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("RANKSIM_COVERAGE_CACHE", ROOT / ".cache" / "coverage"))
DOCUMENT = ROOT / "docs" / "statistics.md"
BEGIN, END = "<!-- coverage: written by the command above -->", "<!-- end of coverage -->"
SEED = 20_261_122
"""Of the table. Procedures were chosen on other seeds."""

ROWS = (*cells.ROWS, *designs.ROWS)
LEAST = {designs.GOALS: (0.95, 1.0)}
"""Of a goal it is only asked that it is seldom false."""

IMPORTED = re.compile(r"^from (ranksim\.inference|tests\.coverage)(\.\w+)? import (.+)$", re.MULTILINE)


@cache
def sources(module: str) -> Mapping[str, str]:
    """Return the text of a module and of all procedures and instruments that it stands on, by name."""
    found: dict[str, str] = {}
    open_ = [module]
    while open_:
        name = open_.pop()
        if name not in found:
            folder = ROOT if name.startswith("tests") else ROOT / "src"
            found[name] = (folder / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
            for package, below, names in IMPORTED.findall(found[name]):
                open_ += [package + below] if below else [f"{package}.{one}" for one in names.split(", ")]
    return dict(sorted(found.items()))


def measured(row: Row) -> dict[str, Cover]:
    """Return what covered in each column of a row, from the cache if nothing has changed."""
    path = _path(row)
    if not path.is_file():
        seed = SEED + int(sha256(f"{row.group}: {row.name}".encode()).hexdigest()[:6], 16)
        found = row.measure(REPETITIONS, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps(found))
    return {column: Cover(*cover) for column, cover in json.loads(path.read_text()).items()}


def is_measured(row: Row) -> bool:
    """Return whether a row is in the cache."""
    return _path(row).is_file()


def _path(row: Row) -> Path:
    digest = sha256()
    for part in (row.group, row.name, str(REPETITIONS), *sources(row.measure.__module__).values()):
        digest.update(part.encode() + b"\0")
    return CACHE / f"{digest.hexdigest()[:24]}.json"


def known(row: Row) -> Mapping[str, str]:
    """Return the columns of a row that are known to miss, each with the reason."""
    return MISSES.get((row.group, row.name), {})


def misses(row: Row) -> dict[str, float]:
    """Return the columns of a row in which an interval covers too seldom or too often, with the share.

    A column in parentheses is told, and held to nothing.
    """
    low, high = LEAST.get(row.group, KEPT)
    found = {}
    for column, cover in measured(row).items():
        # What fewer repetitions can tell apart is less: two standard errors of theirs.
        slack = 0.0 if cover.of >= REPETITIONS else 2 * (0.05 * 0.95 / cover.of) ** 0.5
        if not column.startswith("(") and not low - slack <= cover.share <= high + slack:
            found[column] = cover.share
    return found


def written(rows: Sequence[Row] = ROWS) -> str:
    """Write the tables, one for each group, and below them why cells miss; rows not measured have a dash."""
    reasons: dict[str, str] = {}
    parts = []
    for group in dict.fromkeys(row.group for row in rows):
        of_group = [row for row in rows if row.group == group]
        covers = {row.name: measured(row) if is_measured(row) else {} for row in of_group}
        columns = list(dict.fromkeys(column for found in covers.values() for column in found)) or [""]
        parts += ["| " + " | ".join([group, *columns]) + " |", "|---|" + "---|" * len(columns)]
        for row in of_group:
            found = covers[row.name]
            cells = (_cell(row, column, found.get(column), reasons) for column in columns)
            parts.append("| " + " | ".join([row.name, *cells]) + " |")
        parts.append("")
    parts += [f"- *{mark}*: {reason}" for reason, mark in reasons.items()]
    return "\n".join(parts).strip()


def _cell(row: Row, column: str, cover: Cover | None, reasons: dict[str, str]) -> str:
    if cover is None:
        return "–"
    text = f"{100 * cover.share:.1f}"
    reason = known(row).get(column)
    if reason is None:
        return text
    return f"{text} *{reasons.setdefault(reason, chr(ord('a') + len(reasons)))}*"


def write() -> None:
    """Put the tables into docs/statistics.md."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.sub(
        f"{re.escape(BEGIN)}.*{re.escape(END)}",
        lambda _: f"{BEGIN}\n\n{written()}\n\n{END}",
        text,
        flags=re.DOTALL,
    )
    if found != text:
        _replace(DOCUMENT, found)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
