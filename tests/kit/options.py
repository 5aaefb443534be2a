"""All options of all assumptions, tried one at a time: what readings of answers are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import options_of

OPTIONS = {name: options_of(f"assumptions.{name}") for name in Assumptions.model_fields}
"""By assumption all that it may be, nothing where that cannot be listed."""


def changing(verdict: Callable[[dict[str, Any]], object]) -> dict[str, tuple[Any, ...]]:
    """Return by field of a policy the options under which a verdict is another, each asked anew."""
    assumed, default = verdict({}), Policy().assumptions
    by_field = {
        f"assumptions.{name}": tuple(
            option
            for option in options
            if option != getattr(default, name) and verdict({name: option}) != assumed
        )
        for name, options in OPTIONS.items()
    }
    return {field: options for field, options in by_field.items() if options}
