"""How much of the start of a run to drop."""

from collections.abc import Sequence

BATCH = 5
"""Observations that MSER-5 averages before it looks."""


def mser5(series: Sequence[float]) -> int:
    """Return how many observations to drop from the start of a run, by MSER-5.

    Averages of five are truncated where the standard error of the rest, taken as a plain mean, is smallest;
    no more than half is dropped. 0 for fewer than ten observations. Sources: K. P. White, "An effective
    truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997; K. P. White,
    M. J. Cobb and S. C. Spratt, "A comparison of five steady-state truncation heuristics", WSC 2000.
    """
    batches = len(series) // BATCH
    if batches < 2:
        return 0
    import numpy as np  # read by who looks for a warm-up only

    means = np.asarray(series[: batches * BATCH], dtype=np.float64).reshape(batches, BATCH).mean(axis=1)
    errors = [float(means[cut:].var()) / (batches - cut) for cut in range(batches // 2 + 1)]
    return errors.index(min(errors)) * BATCH
