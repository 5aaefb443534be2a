"""What a profile is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ranksim.callers.discovery import Reach
from ranksim.callers.steps import Program
from ranksim.clock import Micros

Writes: TypeAlias = Callable[[Reach, int, int, int], Program]
"""Makes the program of one user from (reach, user, users, seed)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of load: its aim, the rules it exercises, and the program of each user.

    `rules` are names or beginnings of names ("windows.") of the judges' rules. `users` and `duration` are
    what it runs with unless told otherwise. `program(reach, user, users, seed)` is told the user's number,
    from 0, so that users can have different parts; it ends by itself or is stopped.
    """

    name: str
    aim: str
    rules: tuple[str, ...]
    users: int
    duration: Micros
    program: Writes
