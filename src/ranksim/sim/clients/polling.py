"""A client that polls: it reads the same thing again and again to see what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ranksim.callers.request_factory import on_one
from ranksim.contract.quantities import Frozen
from ranksim.service.calls import Reply
from ranksim.service.operations import OPERATIONS
from ranksim.sim.clients.common import Client, Common, Count, OperationName, Positive, Request, World, drafted


class SlowDown(Frozen):
    """Poll more seldom while nothing changes: each interval `factor` times the last, `most` at most."""

    factor: Annotated[float, Field(gt=1)] = 2.0
    most: Positive


class Poller(Common):
    """Poll an operation: the first time at once, then `every` so often after the reply.

    It asks for the whole account unless `query` says otherwise; for an operation on one thing without a
    `path` it takes one that it finds in the list. `pages` follows the cursor that far. With `slow_down` the
    interval grows while the data stay the same.
    """

    kind: Literal["poller"] = "poller"
    operation: OperationName
    every: Positive
    query: dict[str, str] = Field(default_factory=dict)
    path: dict[str, str] = Field(default_factory=dict)
    pages: Count = 1
    slow_down: SlowDown | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = OPERATIONS[self.operation].path.split("/")
        wanted = [part[1:-1] for part in parts if part.startswith("{")]
        if self.path and sorted(self.path) != sorted(wanted):
            expected, found = " and ".join(wanted) or "nothing", " and ".join(self.path)
            raise ValueError(f"path: expected {expected}, found {found}")
        return self


def start_poller(world: World, name: str, spec: Poller) -> None:
    """Set a poller to work."""
    client = Client(world, name, spec)
    factory = client.requests([spec.operation])
    last: Any = None
    interval = spec.every
    polls = 0

    def poll() -> None:
        nonlocal polls
        if world.now < client.end:
            request = Request(spec.operation, spec.path)
            if on_one(spec.operation) and not spec.path:
                request = drafted(factory, spec.operation, polls)
            polls += 1
            request.query = {**request.query, **spec.query}
            read(request, 1, [])

    def read(request: Request, page: int, data: list[Any]) -> None:
        learn = request.then

        def then(reply: Reply) -> None:
            if learn is not None:
                learn(reply)
            body = reply.body or {}
            data.append(body.get("data"))
            cursor = body.get("next_cursor")
            if cursor and page < spec.pages:
                query: Mapping[str, str] = {**request.query, "cursor": cursor}
                read(Request(request.operation, request.path, query, then=learn), page + 1, data)
            else:
                done(data)

        request.then = then
        client.send(request)

    def done(data: list[Any]) -> None:
        nonlocal last, interval
        if spec.slow_down is not None and data == last:
            interval = round(min(spec.slow_down.most, interval * spec.slow_down.factor))
        else:
            interval = spec.every
        last = data
        world.after(interval, poll)

    world.at(client.start, poll)
