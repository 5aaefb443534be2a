"""What all connections of a server may hold together."""

from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """What all connections of a server may hold together, and what they do."""

    connections: int | None = None
    """How many there may be."""
    arriving: int = 64 * 1_048_576
    """Bytes of bodies that may be on their way, beside the small ones."""
    arrived: int = 0
    """How many have come, of bodies that are not complete."""
