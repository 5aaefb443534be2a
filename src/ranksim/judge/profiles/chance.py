"""The random choices of load profiles: a seeded generator for each user, which nobody else draws from."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

Chance: TypeAlias = Random
"""A generator of one's own: the same seed gives the same choices, whoever else draws."""


def chance(profile: str, seed: int, user: int) -> Chance:
    """Return the generator of a profile's user."""
    return Random(f"{profile}/{seed}/{user}")
