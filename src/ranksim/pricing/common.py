"""What the questions of pricing share."""

from collections.abc import Mapping

from ranksim.errors import BadInput

FEWEST = 2
"""Replications without which there is no interval."""


DEMAND = "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal."
"""What is told of answers that let the same customers ask for the same whatever it costs."""


def check_replications(replications: int) -> None:
    """Raise BadInput unless there are enough replications for an interval."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip


def told_reasons(counts: Mapping[str, int], nothing: str = "nothing") -> str:
    """Say how many there are for each reason; `nothing` where there are none."""
    return "; ".join(f"{count:,} {reason}" for reason, count in counts.items()) or nothing
