"""Types that bodies and queries of several commands of the control API share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from ranksim.core.contract import quantities

Duration = Annotated[
    quantities.Duration,
    WithJsonSchema({"type": "string", "description": "A duration, such as 36m or 1h30m."}),
]
Instant = Annotated[
    quantities.Instant,
    WithJsonSchema({"type": "string", "format": "date-time", "description": "An instant, ISO 8601."}),
]
Money = Annotated[
    quantities.Money, WithJsonSchema({"type": "string", "description": "An amount, such as 0.15 USD."})
]

Environment = Literal["production", "sandbox"]
Listed = Annotated[int, Field(ge=1, le=10_000)]
Json = dict[str, Any]

LISTED = 100
"""How many of a list are returned unless more are wanted."""
