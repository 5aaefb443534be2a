"""What the questions of pricing share."""

from collections.abc import Mapping

from ranksim.errors import BadInput

FEWEST = 2
"""Replications without which there is no interval."""


def check_replications(replications: int) -> None:
    """Raise BadInput unless there are enough replications for an interval."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip


def told_reasons(counts: Mapping[str, int], nothing: str = "nothing") -> str:
    """Say how many there are for each reason; `nothing` where there are none."""
    return "; ".join(f"{count:,} {reason}" for reason, count in counts.items()) or nothing
