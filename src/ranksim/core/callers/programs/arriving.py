"""The programs of clients whose calls arrive in blocks, by draws or as recorded.

Recorded calls are made again, for whom the recording tells, about what in this world stands for what they
were about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ranksim.core import draws
from ranksim.core.callers import arrivals
from ranksim.core.callers.arrivals import ArrivalBlock, Piece, Replay, Rhythm
from ranksim.core.callers.programs.call_streams import AppUsers, Arrivals, Caller, Source, make_calls
from ranksim.core.callers.programs.client import Client, Setting
from ranksim.core.callers.recordings import (
    IdTranslation,
    Recorded,
    RecordingRule,
    as_recorded,
    logged_calls,
    traced_calls,
)
from ranksim.core.callers.request_factory import Item
from ranksim.core.callers.steps import Program, Spawn, Until
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.clock import HOUR, SECOND, Micros, format_duration
from ranksim.core.records import parsed_object
from ranksim.core.service.operations import OPERATIONS

# By draws


def poisson_caller(setting: Setting, name: str, spec: Caller) -> Program:
    """Make calls of a mix. Raises BadInput when the account lacks what the mix needs."""
    assert spec.every is not None
    client = Client(setting, name, spec)
    return make_calls(client, spec.mix, _arrivals(client, spec, spec.every))


def app_users(setting: Setting, name: str, spec: AppUsers) -> Program:
    """Be people in the web app. Raises BadInput when their account lacks what the mix needs."""
    client = Client(setting, name, spec)
    return make_calls(client, spec.mix, _arrivals(client, spec, max(1, spec.every // spec.users)))


def _arrivals(client: Client, spec: Caller | AppUsers, every: Micros) -> Iterator[tuple[Micros, int, int]]:
    rhythm = None if spec.rhythm is None else Rhythm(spec.rhythm.hours, spec.rhythm.days)
    weights = [item.weight for item in spec.mix.values()]
    begin, first = client.start, 0
    while True:
        seed = client.seed
        for t, number, which in _drawn(client, every, rhythm, weights, begin, first):
            yield t, number, which
            if client.seed != seed:  # another future has begun: what comes next is drawn anew
                begin, first = t, number + 1
                break
        else:
            return


def _drawn(
    client: Client, every: Micros, rhythm: Rhythm | None, weights: list[float], start: Micros, first: int
) -> Iterator[tuple[Micros, int, int]]:
    """Draw arrivals after `start`, numbered from `first` on, under the client's present seed."""
    seed, name = client.seed, client.name
    blocks = arrivals.poisson_arrivals(
        every, start, client.end, seed=seed, name=name, rhythm=rhythm, first=first
    )
    for block in blocks:
        picked = arrivals.chosen(block, weights, seed=seed, name=name)
        yield from zip(block.times.tolist(), block.numbers.tolist(), picked, strict=True)


# As recorded


def recorded_calls(setting: Setting, name: str, spec: Arrivals) -> Program:
    """Make recorded calls again. Raises BadInput when the recording cannot be used."""
    crowd = _Crowd(setting, name, spec)
    first = crowd.clients[0]
    replay = Replay(first.start, first.end, spec.scale, spec.align, spec.repeat, setting.seed, name)
    blocks = arrivals.replayed(lambda: open_recording(spec.source, spec.scale), replay)
    if note := _spread_note(name, spec):
        setting.note(note)
    return _make_again(crowd, blocks)


def open_recording(source: Source, scale: float) -> Iterator[Piece]:
    """Read a recording from its beginning. Raises BadInput."""
    if source.rates is not None:
        most = max(1, int(arrivals.BLOCK / max(scale, 1.0)))
        return arrivals.counted_arrivals(source.rates, source.began or 0, source.interval, most)
    if source.log is not None:
        spread = HOUR if source.spread is None else source.spread
        return arrivals.recorded_arrivals(logged_calls(source.log), spread, source.log)
    path = str(source.trace)
    return arrivals.recorded_arrivals(traced_calls(path), source.spread or 0, path)


def _make_again(crowd: _Crowd, blocks: Iterator[ArrivalBlock]) -> Program:
    spec, name = crowd.spec, crowd.clients[0].name
    weights = [item.weight for item in spec.mix.values()] or [1.0]
    for block in blocks:
        picked = arrivals.chosen(block, weights, seed=crowd.seed, name=name)
        rows: Sequence[Recorded | None] = block.rows or [None] * len(picked)
        for t, which, row, number in zip(
            block.times.tolist(), picked, rows, block.numbers.tolist(), strict=True
        ):
            yield Until(t)
            program = crowd.counted(which, number) if row is None else crowd.recorded(which, row, number)
            if program is not None:
                yield Spawn(program)


def _spread_note(name: str, spec: Arrivals) -> str:
    spread = HOUR if spec.source.spread is None else spec.source.spread
    if spec.source.log is None or spread <= SECOND:
        return ""
    log = Path(spec.source.log).name
    return (
        f"clients.{name}: the calls of each {format_duration(spread)} of {log} are placed anew, "
        f"uniformly over it; bursts shorter than that are not those of the recording"
    )


class _Crowd:
    """The many clients behind a recording: one for each key of each account, and one way to call."""

    def __init__(self, setting: Setting, name: str, spec: Arrivals) -> None:
        self.spec = spec
        self.items = list(spec.mix.items())
        self.ids = IdTranslation()
        operations = {*spec.mix, *(rule.operation for rule in spec.map)}
        self.clients: list[Client] = []
        for account in dict.fromkeys(spec.owners):
            client = Client(setting, name, spec, account)
            every_key = spec.surface != "app" and spec.key is None
            keys: Sequence[str | None] = list(client.actor.keys) if every_key else [spec.key]
            self.clients += [Client(setting, name, spec, account, key) for key in keys]
        self.factories = [client.requests(operations) for client in self.clients]
        self.of_address = lru_cache(1 << 16)(self._of_address)
        self.rule_of = lru_cache(1 << 16)(self._rule_of)
        self.entity = draws.entity(f"{name}/key")
        self.seed = setting.seed
        self.note = setting.note

    def counted(self, which: int, number: int) -> Program:
        """Make a call of which nothing but the instant was recorded."""
        who = draws.below(len(self.clients), self.seed, self.entity, number, draws.Purpose.CHOICE)
        operation, item = self.items[which]
        return self._made(who, operation, number, item)

    def recorded(self, which: int, row: Recorded, number: int) -> Program | None:
        """Make a recorded call: by rule, else of the mix, else as the trace has it; None leaves it out."""
        who = self.of_address(row.client)
        rule = self.rule_of(row.method, row.path)
        if rule is not None:
            return self._made(who, rule.operation, number, Item(body=rule.body, query=rule.query))
        if self.items:
            operation, item = self.items[which]
            return self._made(who, operation, number, item)
        if row.operation in OPERATIONS and not self.spec.map:
            return self._repeated(self.clients[who], row)
        return None

    def _made(self, who: int, operation: str, number: int, item: Item) -> Program:
        factory = self.factories[who]
        return self.clients[who].learning(factory, factory.make(operation, number, item))

    def _repeated(self, client: Client, row: Recorded) -> Program:
        """Make a recorded call again, once, about what stands in this world for what it was about.

        What was tried again is in the recording, too.
        """
        send = as_recorded(row, self.ids)
        if send is None:
            about = f"what a recorded {row.operation} is about is not told by its path, as over GraphQL"
            self.note(f"clients.{client.name}: {about}; it is left out")
            return
        if self.spec.scale == 1:
            send.idempotency_key = row.idempotency_key
        client.signed(send)
        if row.strange:
            send.key, send.environment = UNKNOWN if row.client else "", client.actor.environment
        answer = yield send
        if answer.ok:
            self.ids.learn_replies(parsed_object(row.response), answer.body)

    def _of_address(self, address: str) -> int:
        """Choose whose call it is: the key of that name where there is one, else one by the name's hash."""
        named = [number for number, client in enumerate(self.clients) if client.key == address]
        return named[0] if len(named) == 1 else draws.entity(address) % len(self.clients)

    def _rule_of(self, method: str, path: str) -> RecordingRule | None:
        for rule in self.spec.map:
            if rule.fits(method, path):
                return rule
        return None
