"""A request to the control API as its commands take it, and the two ways in which one has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ranksim.core.errors import BadInput


class Missing(BadInput):
    """There is nothing of the name or id that was given."""


class Conflict(BadInput):
    """It cannot be done as things are now."""


@dataclass(slots=True)
class ControlRequest:
    """A request to the control API, read: path parameters, and the models of query and body."""

    path: dict[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    raw: bytes = b""
