"""Clients that are a stream of calls: at a rate or at given instants, of the web app, or as recorded.

The programs of those that draw or read many instants at once are in `arriving`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ranksim.core import draws
from ranksim.core.callers.programs.client import (
    Client,
    Common,
    Count,
    NotNegative,
    Positive,
    Setting,
    TrackedPart,
)
from ranksim.core.callers.recordings import RecordingRule
from ranksim.core.callers.request_factory import Item, OperationName
from ranksim.core.callers.steps import Program, Spawn, Until
from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.quantities import Duration, Frozen, Instant
from ranksim.core.draws import Purpose

Mix = Annotated[dict[OperationName, Item], Field(min_length=1)]
"""Operations by weight: {positions.list: 5, jobs.create: {weight: 1, body: {kind: crawl}}}."""

Weights = Annotated[float, Field(ge=0)]


class RhythmSpec(Frozen):
    """How a rate changes: weights of the 24 hours of the day and of the 7 days from Monday, UTC."""

    hours: Annotated[tuple[Weights, ...], Field(min_length=24, max_length=24)] = (1.0,) * 24
    days: Annotated[tuple[Weights, ...], Field(min_length=7, max_length=7)] = (1.0,) * 7

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (max(self.hours) > 0 and max(self.days) > 0):
            raise ValueError("expected at least one weight above 0")
        return self


class Caller(Common):
    """Make calls of a mix of operations, one `every` so often, or at the `times` since the client's start.

    `arrivals` "poisson" makes `every` an average, which a `rhythm` lets change with the hour and the weekday.
    """

    kind: Literal["caller"] = "caller"
    mix: Mix
    every: Positive | None = None
    times: tuple[NotNegative, ...] = ()
    arrivals: Literal["constant", "poisson"] = "constant"
    rhythm: RhythmSpec | None = None

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset(self.mix)

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> None:
        """Return None: what the mix spends depends on draws."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.every is None) == (not self.times):
            raise ValueError("write either every or times")
        if self.rhythm is not None and self.arrivals != "poisson":
            raise ValueError("a rhythm needs arrivals: poisson")
        return self


class AppUsers(Common):
    """People in the web app: `users` of them, each doing something of the mix `every` so often on average.

    They spend and consume as API calls do (S4), without key and rate limit.
    """

    kind: Literal["app_users"] = "app_users"
    surface: Literal["app"] = "app"
    users: Count = 1
    every: Positive
    mix: Mix
    rhythm: RhythmSpec | None = None

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset(self.mix)

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> None:
        """Return None: what the mix spends depends on draws."""


class Source(Frozen):
    """Where recorded arrivals come from: a series of counts, an access log or a trace; .gz and .xz too.

    `rates`: whole numbers between blanks, one for each `interval` (1 s unless said otherwise) from `began`,
    which only the alignments "week" and "recorded" need. `log`: an access log in common or combined format.
    `trace`: a trace. `spread` places each call anew within the stretch of the clock it was recorded in: 1 h
    for a log, because the minutes of a sampled log are not real (1s keeps those of a complete one), 0 for a
    trace.
    """

    rates: str | None = None
    log: str | None = None
    trace: str | None = None
    interval: Positive = SECOND
    began: Instant | None = None
    spread: Annotated[Duration, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if [self.rates, self.log, self.trace].count(None) != 2:
            raise ValueError("write exactly one of rates, log and trace")
        if self.rates is not None and self.spread is not None:
            raise ValueError("counts are spread over their interval; leave spread out")
        return self

    def below(self, folder: Path) -> Source:
        """Return the source with its path read from a folder."""
        name = "rates" if self.rates is not None else "log" if self.log is not None else "trace"
        return self.model_copy(update={name: str(folder / getattr(self, name))})


class Arrivals(Common):
    """Calls that arrive as recorded: the instants of a recording, turned into operations of the API.

    A call becomes the operation of the first rule in `map` that fits it, else one of the `mix` by weight,
    else it is left out. Where there is neither, exchanges of a trace are made once as they were, with ids and
    cursors replaced by those that the same calls got here; they are left out, with a note, where their path
    does not tell what they are about (as over GraphQL, but for readings). `accounts` adds further accounts to
    `account`: each recorded client is given the one key of its name, or else one by the hash of its address,
    each count by a draw. Calls are thinned or cloned to `scale` times as many. `align` and `repeat` as in
    `Replay`.
    """

    kind: Literal["arrivals"] = "arrivals"
    source: Source
    mix: dict[OperationName, Item] = Field(default_factory=dict)
    map: tuple[RecordingRule, ...] = ()
    accounts: tuple[str, ...] = ()
    scale: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    align: Literal["start", "week", "recorded"] = "start"
    repeat: bool = False

    @property
    def owners(self) -> tuple[str, ...]:
        """The accounts in whose name the client calls."""
        return (self.account, *self.accounts)

    @property
    def operations(self) -> None:
        """None: a recording may have any."""

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> None:
        """Return None: what a recording spends is not known before it is read."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source.rates is not None and not self.mix:
            raise ValueError("counts tell no operation; write a mix")
        if self.source.log is not None and not (self.mix or self.map):
            raise ValueError("an access log tells no operation of ours; write a mix or a map")
        if self.source.rates is not None and self.source.began is None and self.align != "start":
            raise ValueError(f"align: {self.align} needs source.began")
        return self


def steady_caller(setting: Setting, name: str, spec: Caller) -> Program:
    """Make calls of a mix. Raises BadInput when the account lacks what the mix needs."""
    client = Client(setting, name, spec)
    weights = [item.weight for item in spec.mix.values()]
    arrivals = (
        (t, number, chosen(number, weights, seed=client.seed, name=client.name))
        for number, t in enumerate(instants(spec, client.start, client.end))
    )
    return make_calls(client, spec.mix, arrivals)


def instants(spec: Caller, start: Micros, end: Micros) -> Iterable[Micros]:
    """Return when a client calls, in the order of time: from `start` on, before `end`."""
    if spec.every is not None:
        return range(start, end, spec.every)
    return sorted(start + t for t in spec.times if start + t < end)


def chosen(number: int, weights: list[float], *, seed: int, name: str) -> int:
    """Choose one of several by weight for an arrival: what `arrivals.chosen` chooses for many at once."""
    if len(weights) == 1:
        return 0
    edges = list(accumulate(weights))
    u = draws.uniform(seed, draws.entity(name), number, Purpose.CHOICE)
    return min(bisect_right(edges, u * edges[-1]), len(weights) - 1)


def make_calls(client: Client, mix: dict[str, Item], arrivals: Iterable[tuple[Micros, int, int]]) -> Program:
    """Make a call of the mix at each arrival, whether or not the ones before were answered.

    An arrival is its instant, its number, and which item of the mix it is. Raises BadInput at once when the
    account lacks what the mix needs.
    """
    factory = client.requests(mix)
    items = list(mix.items())

    def program() -> Program:
        for t, number, which in arrivals:
            yield Until(t)
            operation, item = items[which]
            yield Spawn(client.learning(factory, factory.make(operation, number, item)))

    return program()
