"""The tight bench: `ranksim check` where slots, money and briefs are scarce, in virtual time.

    bench="python -m tests.judge.conformance.elsewhere.tight_bench"
    $bench conforming 1:100         # seeds FIRST:COUNT, with all keys and with one in turn
    $bench sockets 1:10             # the same as processes, in real time
    $bench ways 1 [one] [PATTERN]   # each with one seed's numbers, with keys of every purpose or one key only
    $bench alone 1 [one] [PATTERN]  # those that no group showed, and that anything may show
    $bench pairs 1 100              # two ways of different rules at a time
    $bench missed [FIRST LAST]      # what was not shown, and why the judge says it is open
    $bench page                     # docs/bench-tight.md, of what was found so far

What each run came to is kept in `.cache/bench-tight` as `bench.py` beside this keeps it, which see for
RANKSIM_BENCH_PART; RANKSIM_TIGHT_RESULTS is another folder. Each run is a check of ten minutes without a
spend cap. Each task comes once, but for where one way alone is tried with one key, and one run in ten of
those that conform: to judge meanwhile takes longer than the rest.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from tests.judge.check.in_virtual_time import check_in
from tests.judge.conformance.elsewhere import sockets
from tests.judge.conformance.elsewhere.breakages import Breakage, breakages, groups, hidden
from tests.judge.conformance.elsewhere.results import (
    ROOT,
    SHOWN,
    Results,
    alarms,
    cell,
    head,
    over_sockets,
    part_of,
    told,
    unreached,
    write_section,
)
from tests.judge.conformance.elsewhere.tight import tightened
from tests.judge.conformance.elsewhere.virtual import elsewhere, hook_timeout, rehearsal

from ranksim.core.callers.network import Network
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import Judgement, compare

RESULTS = Results(Path(os.environ.get("RANKSIM_TIGHT_RESULTS", ROOT / ".cache" / "bench-tight")))
PAGE = ROOT / "docs" / "bench-tight.md"
MODULE = "tests.judge.conformance.elsewhere.tight_bench"

TIME = 10 * MINUTE
KEYS = ("all", "one")
"""A check with keys of every purpose, or with the main key of an account alone."""


def numbers_of(seed: int, keys: str = "all") -> Any:
    """The numbers of a seed; to one key, what the plans of others keep from their keys does not matter."""
    numbers = tightened(elsewhere.drawn(seed, quick=True), seed)
    return numbers if keys == "all" else replace(numbers, corner=numbers.studio)


def network_of(numbers: Any, seed: int, **more: Any) -> Network:
    """How calls travel: a reply takes as long as the deployment takes."""
    draw = Random(f"tight network/{seed}")
    there = Distribution(kind="lognormal", durations=(draw.choice((1, 5, 20)) * MILLISECOND,), sigma=0.3)
    back = tuple(round(seconds * SECOND) for seconds in numbers.latency)
    return Network(there, Distribution(kind="uniform", durations=back), **more)


def checked(seed: int, keys: str, group: tuple[Breakage, ...] = (), again: bool = True) -> Trace:
    """The trace of a check of a deployment that is broken in these ways, or conforms."""
    chosen = {name: value for one in group for name, value in one.chosen.items()}
    numbers = replace(numbers_of(seed), **chosen)
    breaks = {one.breaks for one in group}
    network = network_of(numbers, seed, hook_timeout=hook_timeout(breaks))
    made = rehearsal(
        numbers,
        seed,
        breaks=breaks,
        network=network,
        scale=group[0].scale if group else 1,
        use=keys == "all",
        given=("main",) if keys == "one" else None,
    )
    return check_in(made, TIME, seed=seed, again=again).trace


def judged(
    seed: int, keys: str, group: tuple[Breakage, ...] = (), again: bool = True
) -> tuple[Judgement, dict[str, Any]]:
    """What a check comes to; and what a row says of it, with the seconds of processor time that it took."""
    began = time.process_time()
    trace = checked(seed, keys, group, again)
    judgement = compare(trace)
    seconds = round(time.process_time() - began, 1)
    return judgement, {"column": keys, "exchanges": len(trace.exchanges), "seconds": seconds}


# Conforming


def conforming(seed: int) -> dict[str, Any]:
    """Run one that conforms, and tell what alarms it raised, and which ways it could not have shown."""
    keys = KEYS[seed % 2]
    judgement, about = judged(seed, keys, again=seed % 10 == 0)
    return {"conforming": seed, **about, "alarms": alarms(judgement), "unreached": unreached(judgement)}


# Broken


def tried(group: list[Breakage], seed: int, keys: str) -> list[dict[str, Any]]:
    judgement, about = judged(seed, keys, tuple(group), again=keys == "one" and len(group) == 1)
    numbers = numbers_of(seed, keys)
    return [
        {"way": one.name, "breaks": one.breaks, "seed": seed, "beside": len(group) - 1, **about}
        | told(one, judgement, len(group) == 1, numbers)
        for one in group
    ]


def pairs(seed: int, count: int) -> list[list[Breakage]]:
    """Pairs of ways of different rules that can be broken together, drawn by a seed."""
    draw, found, made = Random(f"pairs/{seed}"), breakages(), []
    while len(made) < count:
        one, other = draw.sample(found, 2)
        agree = all(other.chosen.get(name, value) == value for name, value in one.chosen.items())
        if agree and one.scale == other.scale and one.way.rule != other.way.rule:
            made.append([one, other])
    return made


# Runs


def run_conforming(seeds: str) -> list[dict[str, Any]]:
    return RESULTS.run("conforming", seeds, conforming)


def run_sockets(seeds: str) -> list[dict[str, Any]]:
    return RESULTS.run("sockets", seeds, over_sockets(sockets.tight))


def run_ways(seed: int, keys: str = "all", pattern: str = "") -> None:
    """Try ways in groups."""
    wanted = [one for one in breakages() if re.search(pattern, one.name)]
    for group in part_of(sorted(groups(wanted), key=len, reverse=True)):
        known = {row["way"] for row in _rows_of(seed, keys)}
        if not known.issuperset(one.name for one in group):
            RESULTS.note(tried(group, seed, keys))


def run_alone(seed: int, keys: str = "all", pattern: str = "") -> None:
    """Try alone what was not shown in a group, but what nothing shows with these numbers and keys.

    That is where no run that conforms exercises its case, with the same numbers and clock.
    """
    rows = _rows_of(seed, keys)
    seen = {row["way"] for row in rows if row["found"] in SHOWN or not row["beside"]}
    lost = {row["way"] for row in rows} - seen
    left = [one for one in breakages() if one.name in lost and re.search(pattern, one.name)]
    never = unreached(judged(seed, keys, again=keys == "one")[0]) if left else {}
    for one in part_of(one for one in left if one.chosen or one.scale > 1 or one.name not in never):
        RESULTS.note(tried([one], seed, keys))


def run_pairs(seed: int, count: int) -> None:
    done = {row["pair"] for row in RESULTS.rows() if "pair" in row and row["seed"] == seed}
    for number in part_of(range(count)):
        if number not in done:
            rows = tried(pairs(seed, count)[number], seed, "all")
            RESULTS.note([{"pair": number, "seed": seed, "ways": rows}])


def _rows_of(seed: int, keys: str) -> list[dict[str, Any]]:
    return [row for row in RESULTS.rows() if "way" in row and (row["seed"], row["column"]) == (seed, keys)]


# What came of it


def missed(first: int, last: int) -> list[str]:
    """What was not shown, of the seeds from one to another: those missed at most seeds first."""
    times: Counter[tuple[str, str]] = Counter()
    why: dict[tuple[str, str], str] = {}
    for seed, keys in _settings():
        for row in RESULTS.became(seed, keys) if first <= seed <= last else ():
            if row["found"] not in (*SHOWN, "hidden"):
                times[keys, row["way"]] += 1
                reasons = "; ".join(row.get("open", {})) or row.get("says", "")
                why[keys, row["way"]] = f"{cell(row)}, seed {seed}: {reasons}"
    ways = {one.name: one.way for one in breakages()}
    return [
        f"{count}  {keys}  {name}  ({ways[name].rule}, {ways[name].case})  {why[keys, name]}"
        for (keys, name), count in times.most_common()
    ]


def _settings() -> list[tuple[int, str]]:
    return sorted({(row["seed"], row["column"]) for row in RESULTS.rows() if "way" in row})


def page() -> str:
    rows = RESULTS.rows()
    runs, real, two = ([row for row in rows if name in row] for name in ("conforming", "sockets", "pair"))
    alarming, real_alarming = (sum(bool(row["alarms"]) for row in some) for some in (runs, real))
    named = sum(any(way["found"] in SHOWN for way in row["ways"]) for row in two)
    of_keys = [(keys, [reached(row) for row in runs if row["column"] == keys]) for keys in KEYS]
    lines = [
        f"- Conforming runs: {len(runs)}, false alarms in {alarming} of them; over sockets, in real time: "
        f"{len(real)}, in {real_alarming}.",
        "- The cases that they decide would show, of the ways that their numbers do not hide:",
        *(
            f"  - with {keys}: {mean(some):.0%}, from {min(some):.0%} to {max(some):.0%}, in {len(some)} runs"
            for keys, some in of_keys
            if some
        ),
        f"- Pairs of ways of different rules: {len(two)}, at least one of them shown in {named}.",
        "",
        *head("seed", "keys", "ways", "shown", "by another rule", "hidden", "missed", "under *conforms*"),
    ]
    left = []
    for seed, keys in _settings():
        found = RESULTS.became(seed, keys)
        count = Counter(row["found"] for row in found)
        lost = [row for row in found if row["found"] == "missed"]
        under = sum(bool(row.get("conforms")) for row in lost if not row["beside"])
        shown = sum(count[how] for how in SHOWN)
        lines.append(
            f"| {seed} | {keys} | {len(found)} | {shown} ({shown / (len(found) - count['hidden']):.0%}) "
            f"| {count['other']} | {count['hidden']} | {count['missed']} | {under} |"
        )
        rules = Counter(row["rule"] for row in lost)
        names = ", ".join(f"`{rule}` {number}" for rule, number in rules.most_common())
        left.append(f"- Missed at seed {seed} with {keys}, by rule: {names or 'none'}.")
    return "\n".join([*lines, "", *left])


def reached(row: dict[str, Any]) -> float:
    """The share of the ways that a run that conforms would have shown, of those that its numbers leave."""
    numbers = numbers_of(row["conforming"], row["column"])
    plain = [
        one.name for one in breakages() if not one.chosen and one.scale == 1 and not hidden(one, numbers)
    ]
    return 1 - len(row["unreached"].keys() & set(plain)) / len(plain)


def main(command: str, *arguments: str) -> None:
    if command in ("conforming", "sockets"):
        (run_conforming if command == "conforming" else run_sockets)(arguments[0])
    elif command in ("ways", "alone"):
        (run_ways if command == "ways" else run_alone)(int(arguments[0]), *arguments[1:])
    elif command == "pairs":
        run_pairs(*map(int, arguments))
    elif command == "missed":
        print("\n".join(missed(*map(int, arguments or (0, 10**6)))))
    elif command == "page":
        write_section(PAGE, MODULE, f"\n{page()}\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
