"""What fleets gain by a second thread, and what recorded calls take: `python benchmarks/fleet_costs.py`.

How much faster two threads are than one depends on the machine, so that it is told beside what two processes
of pure computation get, in the same minutes, in turn. Recorded calls are told a second of processor time, by
rate window; the last column is the same once more: what differs there is noise.
"""

from __future__ import annotations

import argparse
from statistics import median

from ratios import HERE, Process, in_processes

WINDOWS = ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")
THREADS, PROCESSES = "two threads of a fleet", "two processes that compute"
AIMS = {THREADS: 1.6, PROCESSES: 2.0}


Times = list[tuple[float, float]]


def timed(rounds: int, accounts: int) -> dict[str, Times]:
    """Measure, in turn: on one thread and on two; by one process two times, and by two at once. In ns."""
    one, other = Process(HERE), Process(HERE)
    found: dict[str, Times] = {name: [] for name in AIMS}
    for _ in range(rounds):
        alone = one.measure("a fleet on one thread", accounts)
        found[THREADS].append((alone, one.measure("a fleet on two threads", accounts)))
        alone = one.measure("computing", 10)
        for process in (one, other):
            process.begin("computing", 10)
        found[PROCESSES].append((2 * alone, max(one.end(), other.end())))
    for process in (one, other):
        process.close()
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--accounts", type=int, default=4_000)
    given = parser.parse_args()
    print("| | best by best | aim | median of the rounds |")
    print("|---|---|---|---|")
    for name, found in timed(given.rounds, given.accounts).items():
        best = min(alone for alone, _ in found) / min(both for _, both in found)
        middle = median(alone / both for alone, both in found)
        print(f"| {name} | {best:.2f} | {AIMS[name]} | {middle:.2f} |", flush=True)
    print()
    print("| recorded calls a second, in millions | now | aim | now again |")
    print("|---|---|---|---|")
    for window in WINDOWS:
        sides = {"now": HERE, "again": HERE}
        best = in_processes(sides, f"recorded {window}", 1, 1, given.rounds)
        now, again = (1e9 / best[side] for side in sides)
        print(f"| {window} | {now:.2f} | 5 | {again:.2f} |", flush=True)


if __name__ == "__main__":
    main()
