"""A command of the control API: an async function whose signature declares what it takes and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, Field, WithJsonSchema
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.contract import quantities
from ranksim.core.errors import BadInput

MOST_BODY = 1_048_576

# Types that bodies and queries of several commands share

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

Found = TypeVar("Found")
Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


class Missing(BadInput):
    """There is nothing of the name or id that was given."""


def look_up(table: Mapping[str, Found], id: str, what: str) -> Found:
    """Return what has an id. Raises Missing."""
    if id not in table:
        raise Missing(f"{what}: there is none with the id {id!r}")
    return table[id]


class Conflict(BadInput):
    """It cannot be done as things are now."""


class Problem(TypedDict):
    """What went wrong, after RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


@dataclass(frozen=True, slots=True)
class Route:
    """Where a command is, and what it takes and returns.

    `command` takes the twin, then a text for each parameter of `path`; by name its `query` and `body`, and
    where `raw` the bytes of the body too. `body` may be a dict: any JSON object of at most `most` bytes; or a
    str: any text.
    Answers of `bytes` go out as they are, as `media`. A form to try the command begins with `example`.
    """

    method: str
    path: str
    command: Callable[..., Awaitable[Any]]
    answer: Any
    query: type[BaseModel] | None
    body: Any
    raw: bool
    example: Any
    status: int
    most: int
    media: str


class Router(list[Route]):
    """The commands of one subject, in the order of the document."""

    def add(
        self,
        method: str,
        path: str,
        *,
        answer: Any = None,
        example: Any = None,
        status: int = 200,
        most: int = MOST_BODY,
        media: str = "application/json",
    ) -> Callable[[Function], Function]:
        """Make a function a command; `answer` describes JSON that it returns as bytes."""

        def added(command: Function) -> Function:
            hints = get_type_hints(command, include_extras=True)
            query, body, raw = hints.get("query"), hints.get("body"), "raw" in hints
            returns = answer or hints["return"]
            self.append(Route(method, path, command, returns, query, body, raw, example, status, most, media))
            return command

        return added
