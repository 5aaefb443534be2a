"""What serves parts of a fleet: the kernel compiled over records, or interpreted over slotted rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ranksim.core.extras import missing
from ranksim.core.rules.books import Ask, Window
from ranksim.core.rules.windows import SLIDING_LOG
from ranksim.planner.fleet import compiled as compiler
from ranksim.planner.fleet import kernel
from ranksim.planner.fleet.kernel import SPENDS, KernelInputs, KernelState, Tape
from ranksim.planner.fleet.rows import (
    ActivityRate,
    DrawnRequest,
    Integers,
    Queue,
    Records,
    RequestRow,
    RunCooldown,
    blank,
    to_records,
    to_rows,
)
from ranksim.planner.fleet.sides import SideRun

ROOM = 1 << 16
"""Requests that a tape has room for at first: so few that they stay in the cache between sides."""


def machine(compiled: bool | None) -> str:
    """Return what runs the kernel, "compiled" or "interpreted"; None compiles where Numba is installed.

    Raises BadInput where compiling is insisted on and Numba is missing.
    """
    if compiled is False:
        return "interpreted"
    if compiler.available():
        return "compiled"
    if compiled:
        raise missing("compiled fleets need Numba", "fleet")
    return "interpreted"


class Compiled:
    """Serves parts of the accounts by the compiled kernel; each thread has one of its own."""

    def __init__(self, runs: Sequence[SideRun], seed: int) -> None:
        self.runs, self.seed = runs, seed
        self.states = [state_of(run.given) for run in runs]
        self.paces = blank(1, ActivityRate)
        self.tape = Tape(blank(ROOM, DrawnRequest), np.zeros(1, dtype=np.int64))

    def draw(self, first: int, last: int) -> int:
        """Draw the requests of the accounts in rows [first, last), or of the first of them; give how far."""
        draw, run = compiler.compiled(kernel.draw), self.runs[0]
        self.tape = self.tape._replace(begins=np.zeros(last - first + 1, dtype=np.int64))
        while True:
            came: int = draw(first, last, run.start, self.seed, run.given, self.paces, self.tape)
            if first < came or first == last:
                return came
            # One account alone has more.
            self.tape = self.tape._replace(requests=blank(2 * len(self.tape.requests), DrawnRequest))

    def serve(self, side: int, rows: Integers, first: int) -> None:
        """Serve some accounts on a side; the requests drawn are those of the accounts from row `first` on."""
        run = self.runs[side]
        compiler.compiled(kernel.run)(
            rows, first, run.short, self.seed, run.given, self.states[side], self.tape, run.unwritten()
        )


class Interpreted:
    """Serves parts of the accounts by the kernel as it is written."""

    def __init__(self, runs: Sequence[SideRun], seed: int) -> None:
        self.runs, self.seed = runs, seed
        self.tape = Tape([], [])

    def draw(self, first: int, last: int) -> int:
        """Draw the requests of the accounts in rows [first, last); give `last`."""
        run = self.runs[0]
        room = 32 + run.expected(first, last) // 2
        given, paces = to_lists(_part(run.given, first, last)), [ActivityRate()]
        came = -1
        while came < last - first:
            room *= 2
            self.tape = Tape([DrawnRequest() for _ in range(room)], [0] * (last - first + 1))
            came = kernel.draw(0, last - first, run.start, self.seed, given, paces, self.tape)
        return last

    def serve(self, side: int, rows: Integers, first: int) -> None:
        """Serve some accounts on a side; the requests drawn are those of the accounts from row `first` on."""
        if not len(rows):
            return
        run, last = self.runs[side], first + len(self.tape.begins) - 1
        given, ledger = _part(run.given, first, last), run.unwritten()
        records = ledger._replace(
            **{name: array[first:last] for name, array in ledger._asdict().items() if name != "log"}
        )
        written = to_lists(records)
        kernel.run(
            (rows - first).tolist(), 0, run.short, self.seed, to_lists(given), to_lists(state_of(given)),
            self.tape, written,
        )  # fmt: skip
        for array, rows_of_array in zip(records, written, strict=True):
            array[...] = to_arrays(rows_of_array)


def _part(given: KernelInputs, first: int, last: int) -> KernelInputs:
    """What is given of the accounts in rows [first, last) alone."""
    customers, firsts = given.customers[first:last], given.first_domains[first:last]
    domains = slice(firsts[0], firsts[-1] + customers["domains"][-1])
    return given._replace(
        customers=customers, first_domains=firsts - firsts[0], domains=given.domains[domains],
        odds=given.odds[first:last],
    )  # fmt: skip


def state_of(given: KernelInputs) -> KernelState:
    """Room to serve any of the accounts given."""
    domains = int(given.customers["domains"].max())
    return KernelState(
        windows=blank(len(given.windows), Window),
        rings=np.zeros((len(given.windows), ring_of(given.windows)), dtype=np.int64),
        cooldowns=blank(domains * SPENDS, RunCooldown),
        backlog=blank(int(given.segments["backlog"].max()) + 1, RequestRow),
        ask=blank(1, Ask),
        request=blank(1, RequestRow),
        queue=blank(1, Queue),
    )


def ring_of(windows: Records) -> int:
    """Return how many instants each rate window keeps: its limit, if it is a sliding log."""
    return int(windows["limit"].max()) if windows["kind"][0] == SLIDING_LOG else 1


def to_lists(arrays: Any) -> Any:
    """Return the arrays of a named tuple as lists of slotted rows, or of integers."""
    return type(arrays)(*(to_rows(array) if array.dtype.names else array.tolist() for array in arrays))


def to_arrays(rows: Any) -> Any:
    """Return lists of slotted rows as records again, as deep as they are; integers stay lists."""
    if not rows or isinstance(rows[0], int):
        return rows
    if isinstance(rows[0], list):
        return np.stack([to_arrays(inner) for inner in rows])
    return to_records(rows, type(rows[0]))
