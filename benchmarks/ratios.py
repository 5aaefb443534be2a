"""How much faster one checkout is than another: `python benchmarks/ratios.py --before ../other`, a table.

Both run in turn, in small slices, several processes of each, and the best slice of each thing counts: of
processor time, so that what else the machine does disturbs little. The last column is the same for the other
checkout against itself: what differs there is noise. `--whole` runs scenarios, from their files here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
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

WHOLE = {
    "real-arrivals-month": (6, 2.2),
    "agency-month": (0, 1.3),
    "retry-storm-obey": (0, 1.0),
    "retry-storm-ignore": (0, 1.0),
}
"""Scenarios, of how many hours (0: all), and how many times faster they were to become."""


class Process:
    """A process in which a checkout is measured."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "benchmarks" / "measured.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HERE,
        )

    def measure(self, name: str, count: int) -> int:
        """Do a thing so often; return the processor time that it took, in ns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, count, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def best_of(sides: dict[str, Path], name: str, count: int, processes: int, slices: int) -> dict[str, int]:
    """Measure a thing on each side in turn; return the least processor time of a slice of each, in ns."""
    best: dict[str, int] = {}
    for _ in range(processes):
        running = {side: Process(checkout) for side, checkout in sides.items()}
        for number in range(slices):
            order = list(running) if number % 2 else list(reversed(running))
            for side in order:
                took = running[side].measure(name, count)
                best[side] = min(best.get(side, took), took)
        for process in running.values():
            process.close()
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--whole", action="store_true", help="run whole scenarios")
    parser.add_argument("--only", nargs="*", help="measure these things alone")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--slices", type=int, default=0, help="default: 20 of calls, 2 of scenarios")
    given = parser.parse_args()
    before = given.before.resolve()
    sides = {"before": before, "now": HERE, "before again": before}
    things = WHOLE if given.whole else CALLS
    print("| | before | now | times | aim | before against itself |")
    print("|---|---|---|---|---|---|")
    for name, (count, aim) in things.items():
        if given.only and name not in given.only:
            continue
        slices = given.slices or (2 if given.whole else 20)
        best = best_of(sides, name, count, 1 if given.whole else given.processes, slices)
        shown = {side: took / 1e9 if given.whole else took / 1e3 / count for side, took in best.items()}
        unit = "s" if given.whole else "µs"
        print(
            f"| {name} | {shown['before']:.1f} {unit} | {shown['now']:.1f} {unit} "
            f"| {shown['before'] / shown['now']:.2f} | {aim} "
            f"| {shown['before'] / shown['before again']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
