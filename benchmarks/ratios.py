"""How much faster one checkout is than another: `python benchmarks/ratios.py --before ../other`, the tables.

Both run in turn, in small slices, several processes of each, and the best slice of each thing counts: of
processor time, so that what else the machine does disturbs little. The last column is the same for the other
checkout against itself: what differs there is noise. Calls come first, then scenarios and questions of
pricing, then commands as they start, and last what is told of one run alone: what a request costs the facade,
against a bare handler and against Locust, and what fleets gain by threads and serve of recorded calls.
`--whole` runs the real month to its end instead, once on each side, and tells its peak memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

CALLS = {
    "jobs.get": (300, 2.2),
    "account.usage": (300, 3.3),
    "keywords.list": (100, 1.25),
    "keywords.list unread": (100, 5.0),
    "jobs.create dry run": (100, 1.9),
    "jobs.create": (100, 1.5),
    "jobs.create beside hundreds": (100, 1.5),
    "keywords.create": (100, 1.8),
    "429": (300, 1.0),
    "life of a job": (150, 1.5),
}
"""What is done, how often in a slice, and how many times faster it was to become."""

SCENARIOS = {
    "real-arrivals-month": (6, 2.2),
    "agency-month": (0, 1.3),
    "retry-storm-obey": (0, 1.0),
    "retry-storm-ignore": (0, 1.0),
}
"""Scenarios, of how many hours (0: all), and how many times faster they were to become."""

PRICING = {"price compare, 10,000 customers": (3, 2.5)}
"""Questions of pricing, of how many replications, and how many times faster they were to become."""

COMMANDS = {
    "ranksim --help": (("-m", "ranksim", "--help"), 1.5),
    "testing.World()": (("-c", "from ranksim.testing import World; World()"), 1.85),
    "ranksim run quickstart": (("-m", "ranksim", "run", "scenarios/quickstart.yaml"), 1.42),
}
"""What is started, and how many times faster it was to become."""

ALONE = ("facade_costs.py", "locust_costs.py", "fleet_costs.py")
"""What prints its own tables: shares of one run, not ratios of two checkouts."""


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which a checkout runs; its byte code is kept."""
    given = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    return given


class Process:
    """A process in which a checkout is measured."""

    def __init__(self, checkout: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "benchmarks" / "measured.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(checkout),
            cwd=HERE,
        )

    def measure(self, name: str, count: int) -> int:
        """Do a thing so often; return the time that it took, in ns."""
        self.begin(name, count)
        return self.end()

    def begin(self, name: str, count: int) -> None:
        """Begin to do a thing so often."""
        assert self.process.stdin is not None
        print(name, count, file=self.process.stdin, flush=True)

    def end(self) -> int:
        """Wait until it is done; return the time that it took, in ns."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def close(self) -> int:
        """End the process; return the most memory that it ever had, in KiB."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss


def started(checkout: Path, command: Iterable[str]) -> int:
    """Run a command to its end; return the processor time that it took, in ns."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], stdout=subprocess.DEVNULL, check=True, env=environment(checkout), cwd=HERE
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9)


Sides = dict[str, Path]
Best = dict[str, int]


def best_of(measures: dict[str, Callable[[], int]], slices: int) -> Best:
    """Measure each side in turn; return the least of each."""
    best: Best = {}
    for number in range(slices):
        for side in list(measures) if number % 2 else reversed(measures):
            took = measures[side]()
            best[side] = min(best.get(side, took), took)
    return best


def in_processes(sides: Sides, name: str, count: int, processes: int, slices: int) -> Best:
    """Measure a thing in several processes of each side; return the least of each, in ns."""
    best: Best = {}
    for _ in range(processes):
        running = {side: Process(checkout) for side, checkout in sides.items()}
        measures = {side: lambda one=one: one.measure(name, count) for side, one in running.items()}
        for side, took in best_of(measures, slices).items():
            best[side] = min(best.get(side, took), took)
        for process in running.values():
            process.close()
    return best


def show(name: str, best: Best, aim: float, divisor: float, unit: str) -> None:
    """Print a row."""
    before, now, again = (best[side] / divisor for side in ("before", "now", "before again"))
    times, noise = before / now, before / again
    print(
        f"| {name} | {before:.1f} {unit} | {now:.1f} {unit} | {times:.2f} | {aim} | {noise:.2f} |", flush=True
    )


def whole(sides: Sides) -> None:
    """Run the real month to its end, on each side in turn."""
    for side in ("now", "before"):
        process = Process(sides[side])
        took = process.measure("real-arrivals-month", 0)
        print(f"{side}: {took / 1e9:.0f} s, at most {process.close() / 1024:.0f} MB", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--whole", action="store_true", help="run the real month to its end")
    parser.add_argument("--only", nargs="*", help="measure these things alone")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--slices", type=int, default=20, help="of calls; a fifth of it otherwise")
    given = parser.parse_args()
    before = given.before.resolve()
    sides = {"before": before, "now": HERE, "before again": before}
    if given.whole:
        whole(sides)
        return

    def wanted(name: str) -> bool:
        return not given.only or name in given.only

    few = max(2, given.slices // 5)
    print("| | before | now | times | aim | before against itself |")
    print("|---|---|---|---|---|---|")
    for name, (count, aim) in CALLS.items():
        if wanted(name):
            best = in_processes(sides, name, count, given.processes, given.slices)
            show(name, best, aim, 1e3 * count, "µs")
    for name, (size, aim) in (SCENARIOS | PRICING).items():
        if wanted(name):
            show(name, in_processes(sides, name, size, 1, few if name in SCENARIOS else 2), aim, 1e9, "s")
    for name, (command, aim) in COMMANDS.items():
        if wanted(name):
            starts = {side: lambda at=at, it=command: started(at, it) for side, at in sides.items()}
            show(name, best_of(starts, few), aim, 1e6, "ms")
    for script in ALONE:
        if wanted(script):
            print(flush=True)
            subprocess.run([sys.executable, str(HERE / "benchmarks" / script)], check=True)


if __name__ == "__main__":
    main()
