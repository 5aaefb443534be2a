"""Draw docs/static/limits.svg: what each algorithm admits of a caller that never pauses.

python scripts/limits_figure.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from ranksim.core.clock import SECOND
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window

LIMIT, LENGTH = 60, 60 * SECOND
NAMES = {
    "first_hit": "fixed window, from the first call",
    "clock": "fixed window, on the clock",
    "sliding_log": "sliding log",
    "sliding_counter": "sliding counter",
    "gcra": "token bucket",
}
FIRST, BEGIN, END = 8 * SECOND, 54 * SECOND, 240 * SECOND
"""The caller makes one call, and from shortly before an edge of the clock on tries ten times a second."""


def admitted(kind: str) -> tuple[list[float], list[int]]:
    """Return the seconds at which calls were admitted, and how many by then."""
    window = Window(windows.NAMES.index(kind), LIMIT, LENGTH)
    ring = [0] * LIMIT
    windows.start(window)
    tries = (FIRST, *range(BEGIN, END, SECOND // 10))
    times = [now / SECOND for now in tries if windows.take(now, window, ring)]
    return [0.0, *times, END / SECOND], [0, *range(1, len(times) + 1), len(times)]


def main() -> None:
    """Draw it."""
    plt.switch_backend("svg")
    plt.rcParams["svg.hashsalt"] = "ranksim"
    figure, axes = plt.subplots(figsize=(8, 4))
    for kind, name in NAMES.items():
        times, counts = admitted(kind)
        axes.step(times, counts, where="post", label=name, linewidth=1.6)
    for edge in (60, 120, 180, 240):
        axes.axvline(edge, color="#888888", linewidth=0.6, linestyle=":")
    axes.set_xlabel("seconds; dotted: edges of the clock's minutes")
    axes.set_ylabel("calls admitted")
    axes.set_title("60 calls in 60 s: one call, then ten tries a second", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    place = Path(__file__).parents[1] / "docs" / "static" / "limits.svg"
    figure.savefig(place, metadata={"Date": None})


if __name__ == "__main__":
    main()
