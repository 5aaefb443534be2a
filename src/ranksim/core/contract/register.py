"""The register of assumptions: what one entry says."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Something the specification leaves open (U), as people read it.

    `default` is what is assumed, `options` are the values its fields take, or the readings of one that is
    listed only; `confidence` in the default is high, medium or low; `observe` is how a real deployment shows
    it; `fields` are the dotted policy fields that set it, none when it is listed only.
    """

    number: int
    area: str
    statement: str
    default: str
    options: tuple[str, ...] = ()
    reason: str
    confidence: Literal["H", "M", "L"]
    observe: str
    fields: tuple[str, ...] = ()
