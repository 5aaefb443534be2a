"""A client that polls: it reads the same thing again and again to see what has changed."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ranksim.core.callers.programs.client import (
    Client,
    ClientPlan,
    Common,
    Count,
    Positive,
    Setting,
    TrackedPart,
)
from ranksim.core.callers.request_factory import OperationName, RequestFactory, on_one
from ranksim.core.callers.steps import Pause, Program, Send, Until
from ranksim.core.clock import Micros
from ranksim.core.contract.quantities import Frozen
from ranksim.core.service.operations import is_read_only
from ranksim.core.service.routes import path_parameters


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

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset({self.operation})

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> ClientPlan | None:
        """Return that nothing is spent where the client reads; None where it does not."""
        return ClientPlan() if is_read_only(self.operations) else None

    @model_validator(mode="after")
    def _check(self) -> Self:
        wanted = path_parameters(self.operation)
        if self.path and sorted(self.path) != sorted(wanted):
            expected = " and ".join(wanted) or "nothing"
            raise ValueError(f"path: expected {expected}, found {' and '.join(self.path)}")
        return self


def poller(setting: Setting, name: str, spec: Poller) -> Program:
    """Poll until the client stops. Raises BadInput when its account lacks what the operation needs."""
    client = Client(setting, name, spec)
    factory = client.requests([spec.operation])
    return _poll(client, factory, spec)


def _poll(client: Client, factory: RequestFactory, spec: Poller) -> Program:
    last: Any = None
    interval = spec.every
    polls = 0
    now: Micros = yield Until(client.start)
    while now < client.end:
        reads = factory.reads(spec.operation) or spec.slow_down is not None
        send = Send(spec.operation, path=spec.path, reads=reads)
        if on_one(spec.operation) and not spec.path:
            send = factory.make(spec.operation, polls)
        polls += 1
        send.query = {**send.query, **spec.query}
        data = yield from _read(client, factory, send, spec.pages)
        if spec.slow_down is not None and data == last:
            interval = round(min(spec.slow_down.most, interval * spec.slow_down.factor))
        else:
            interval = spec.every
        last = data
        now = yield Pause(interval)


def _read(client: Client, factory: RequestFactory, first: Send, pages: int) -> Generator[Any, Any, list[Any]]:
    """Read a list, so many pages at most, and return the data of each."""
    data: list[Any] = []
    page = first
    while True:
        answer = yield from client.ask(page)
        if answer.status:
            factory.learn(first, answer.status, answer.body)
        body = answer.body or {}
        data.append(body.get("data"))
        cursor = body.get("next_cursor")
        if not cursor or len(data) >= pages:
            return data
        query = {**page.query, "cursor": cursor}
        page = Send(first.operation, path=first.path, query=query, reads=first.reads)
