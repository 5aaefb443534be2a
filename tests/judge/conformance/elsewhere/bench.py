"""The bench: `ranksim check` against the second deployment in virtual time, conforming and broken.

    bench="python -m tests.judge.conformance.elsewhere.bench"
    $bench conforming 1:100     # seeds FIRST:COUNT
    $bench sockets 1:100        # the same as processes, in real time
    $bench ways 1 [COLUMNS] [PATTERN]   # each, with one seed's numbers
    $bench alone 1 [PATTERN [COLUMN]]       # those that no group showed
    $bench page                 # docs/bench.md, of what was found so far

What each run came to is appended to a file of its process in `.cache/bench`, so that a run that was
interrupted goes on where it stopped: delete the files after a change. RANKSIM_BENCH_PART=1/2 does every
second of the runs, so that two processes share them. A way is tried with default settings; the same capture
is judged as one of shared accounts and with half of its exchanges missing, and a second one is made with 2 %
of the replies lost. Each task of a check comes once: further rounds cost more to judge than they show.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.judge.check.in_virtual_time import check_in
from tests.judge.conformance.elsewhere import sockets
from tests.judge.conformance.elsewhere.breakages import Breakage, breakages, groups, unbroken
from tests.judge.conformance.elsewhere.results import (
    ROOT,
    SHOWN,
    Results,
    alarms,
    by_reason,
    cell,
    head,
    over_sockets,
    part_of,
    told,
    write_section,
)
from tests.judge.conformance.elsewhere.sockets import MANY
from tests.judge.conformance.elsewhere.virtual import elsewhere, hook_timeout, rehearsal

from ranksim.bridges.rehearsal import rehearse_in
from ranksim.core.callers.network import Network
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import compare
from ranksim.judge.profiles import profile

RESULTS = Results(Path(os.environ.get("RANKSIM_BENCH_RESULTS", ROOT / ".cache" / "bench")))
PAGE = ROOT / "docs" / "bench.md"
MODULE = "tests.judge.conformance.elsewhere.bench"

TIME = 10 * MINUTE
LOST = 0.02
COLUMNS = ("default", "lost", "shared", "half")


# Conforming


@dataclass(frozen=True)
class Conforming:
    """A run that conforms: what it is driven by, how many users that has, and how its network is."""

    seed: int
    driver: str
    users: int
    network: Network

    @classmethod
    def drawn(cls, seed: int) -> Conforming:
        draw = Random(f"bench/{seed}")
        driver = draw.choice(("check", "everyday", "retry", "walk", "race", "ladder", "webhooks", "scope"))
        users = draw.choice((1, 20, 200)) if driver in MANY else 1
        delays = [
            Distribution(kind="lognormal", durations=(draw.choice((2, 15, 150)) * MILLISECOND,), sigma=0.5)
            for _ in range(2)
        ]
        network = Network(*delays, loss=draw.choice((0.0, 0.0, 0.01, 0.05)), late=draw.choice((0.0, 0.1)))
        return cls(seed, driver, users, network)

    def trace(self) -> Trace:
        numbers = elsewhere.drawn(self.seed, quick=self.seed % 3 == 0)
        made = rehearsal(numbers, self.seed, network=self.network, use=self.seed % 2 == 0)
        if self.driver == "check":
            return check_in(made, TIME, seed=self.seed).trace
        length = {1: 2 * MINUTE, 20: 40 * SECOND, 200: 10 * SECOND}[self.users]
        return rehearse_in(made, profile(self.driver), users=self.users, duration=length, seed=self.seed)


def conforming(seed: int) -> dict[str, Any]:
    """Run one that conforms, and tell what alarms it raised."""
    run = Conforming.drawn(seed)
    trace = run.trace()
    return {
        "conforming": seed,
        "driver": run.driver,
        "users": run.users,
        "window": elsewhere.drawn(seed, quick=seed % 3 == 0).window,
        "exchanges": len(trace.exchanges),
        "alarms": alarms(compare(trace)),
    }


# Broken


def broken(group: list[Breakage], seed: int, lost: float = 0.0) -> Trace:
    """The trace of a check with default settings of a deployment that is broken in these ways."""
    chosen = {name: value for one in group for name, value in one.chosen.items()}
    numbers = replace(elsewhere.drawn(seed, quick=True), **chosen)
    breaks = {one.breaks for one in group}
    network = Network(loss=lost, hook_timeout=hook_timeout(breaks))
    made = rehearsal(numbers, seed, breaks=breaks, network=network, scale=group[0].scale, use=True)
    return check_in(made, TIME, seed=seed, again=False).trace


def halved(trace: Trace, seed: int) -> Trace:
    draw = Random(f"halved/{seed}")
    header = trace.header.model_copy(update={"capture": "partial"})
    return Trace(
        header, [one for one in trace.exchanges if draw.random() < 0.5], trace.deliveries, trace.notes
    )


def shared(trace: Trace) -> Trace:
    header = trace.header.model_copy(update={"exclusive": False})
    return Trace(header, trace.exchanges, trace.deliveries, trace.notes)


def tried(
    group: list[Breakage], seed: int, column: str, whole: Trace | None
) -> tuple[Trace, list[dict[str, Any]]]:
    """Try ways with the numbers of a seed; `whole` is the default column's trace where it is known."""
    if column == "lost":
        trace = broken(group, seed, LOST)
    else:
        whole = broken(group, seed) if whole is None else whole
        trace = whole if column == "default" else shared(whole) if column == "shared" else halved(whole, seed)
    judgement, numbers = compare(trace), elsewhere.drawn(seed, quick=True)
    about = {"seed": seed, "column": column, "beside": len(group) - 1}
    return whole or trace, [
        {"way": one.name, "breaks": one.breaks, **about, **told(one, judgement, len(group) == 1, numbers)}
        for one in group
    ]


# Runs


def run_conforming(seeds: str) -> list[dict[str, Any]]:
    return RESULTS.run("conforming", seeds, conforming)


def run_sockets(seeds: str) -> list[dict[str, Any]]:
    return RESULTS.run("sockets", seeds, over_sockets(sockets.conforming))


def run_ways(seed: int, columns: tuple[str, ...] = COLUMNS, pattern: str = "") -> None:
    """Try ways in groups; in the default column those that their case did not show are then tried alone."""
    wanted = [one for one in breakages() if re.search(pattern, one.name)]
    for group in part_of(sorted(groups(wanted), key=len, reverse=True)):
        whole = None
        for column in columns:
            known = {
                row.get("way")
                for row in RESULTS.rows()
                if (row.get("seed"), row.get("column")) == (seed, column)
            }
            if not known.issuperset(one.name for one in group):
                trace, rows = tried(group, seed, column, whole)
                whole = None if column == "lost" else trace
                RESULTS.note(rows)


def run_alone(seed: int, pattern: str = "", column: str = "default") -> None:
    """Try alone, in a column, what its case did not show in a group."""
    for one in breakages():
        rows = [
            row
            for row in RESULTS.rows()
            if (row.get("way"), row.get("seed"), row.get("column")) == (one.name, seed, column)
        ]
        seen = any(row["found"] in ("case", "differs") or not row["beside"] for row in rows)
        if not seen and re.search(pattern, one.name):
            RESULTS.note(tried([one], seed, column, None)[1])


def page() -> str:
    """The section of the page that says what became of the runs that conform, and of each way."""
    runs = [row for row in RESULTS.rows() if "conforming" in row]
    real = [row for row in RESULTS.rows() if "sockets" in row]
    alarms, real_alarms = (sum(bool(row["alarms"]) for row in rows) for rows in (runs, real))
    users = ", ".join(f"{many} users {sum(row['users'] == many for row in runs)}" for many in (1, 20, 200))
    seeds = sorted({row["seed"] for row in RESULTS.rows() if "way" in row})
    lines = [
        f"- Conforming runs: {len(runs)}, false alarms in {alarms} of them; with {users};",
        f"  rate windows: {', '.join(sorted({row['window'] for row in runs}))}.",
        f"- Conforming runs over sockets, in real time: {len(real)}, false alarms in {real_alarms} of them.",
        f"- Ways to deviate: {len(breakages())} can be switched on, {len(unbroken())} cannot.",
        "",
        *head(
            "seed", "setting", "ways", "shown", "hidden by the numbers", "missed although the case conforms"
        ),
    ]
    for seed in seeds:
        for column in COLUMNS:
            rows = RESULTS.became(seed, column)
            if rows:
                shown = sum(row["found"] in SHOWN for row in rows)
                cannot = sum(row["found"] == "hidden" for row in rows)
                under = sum(bool(row.get("conforms")) for row in rows if row["found"] == "missed")
                lines.append(f"| {seed} | {column} | {len(rows)} | {shown} | {cannot} | {under} |")
    last = {
        column: {row["way"]: row for seed in seeds for row in RESULTS.became(seed, column)}
        for column in COLUMNS
    }
    return "\n".join([*lines, "", *tables(last)])


def tables(results_by_column: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Count the ways shown, rule by rule, and list those that default settings or lost replies miss."""
    counts: dict[str, list[int]] = {}
    missed: list[str] = []
    hidden_ways: dict[str, str] = {}
    for one in breakages():
        rows = [results_by_column[column].get(one.name) for column in COLUMNS]
        shown = [row is not None and row["found"] in SHOWN for row in rows]
        before = counts.get(one.way.rule, [0] * (1 + len(COLUMNS)))
        counts[one.way.rule] = [a + b for a, b in zip(before, [1, *shown], strict=True)]
        first = rows[0]
        if first is not None and first["found"] == "hidden":
            hidden_ways[one.name] = first["why"]
        elif not all(shown[:2]):
            cells = " | ".join(map(cell, rows))
            missed.append(f"| {one.name} | {one.way.rule}, {one.way.case} | {cells} |")
    return [
        *("### Ways shown, by rule", "", *(_by_rule(column, counts) for column in COLUMNS)),
        *("", "### Ways that default settings or lost replies do not show", ""),
        *(*head("way", "rule and case", *COLUMNS), *missed),
        *("", "Hidden by the numbers of the seed:", "", *by_reason(hidden_ways)),
        *("", "### Ways without a switch", "", *by_reason(unbroken()), ""),
    ]


def _by_rule(column: str, counts: dict[str, list[int]]) -> str:
    """State of how many rules a column shows all ways, and which it shows in part or not at all."""
    shown = {rule: (count[1 + COLUMNS.index(column)], count[0]) for rule, count in sorted(counts.items())}
    complete = sum(count == ways for count, ways in shown.values())
    part = [f"`{rule}` ({count} of {ways})" for rule, (count, ways) in shown.items() if 0 < count < ways]
    none = [f"`{rule}`" for rule, (count, _) in shown.items() if not count]
    return (
        f"- *{column}*: all ways of {complete} rules; some of {', '.join(part) or 'no other'}; "
        f"none of {', '.join(none) or 'no rule'}"
    )


def main(command: str, *arguments: str) -> None:
    if command in ("conforming", "sockets"):
        (run_conforming if command == "conforming" else run_sockets)(arguments[0])
    elif command == "ways":
        columns = tuple(arguments[1].split(",")) if len(arguments) > 1 else COLUMNS
        run_ways(int(arguments[0]), columns, *arguments[2:])
    elif command == "alone":
        run_alone(int(arguments[0]), *arguments[1:])
    elif command == "page":
        write_section(PAGE, MODULE, page())
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
