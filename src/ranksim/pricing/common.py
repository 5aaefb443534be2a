"""What the questions of pricing share."""

from ranksim.errors import BadInput

FEWEST = 2
"""Replications without which there is no interval."""


def check_replications(replications: int) -> None:
    """Raise BadInput unless there are enough replications for an interval."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip
