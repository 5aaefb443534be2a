"""The programs of clients whose calls come at random: of callers, and of people in the web app."""

from __future__ import annotations

from collections.abc import Iterator

from ranksim.core.callers import arrivals
from ranksim.core.callers.arrivals import Rhythm
from ranksim.core.callers.programs.call_streams import AppUsers, Caller
from ranksim.core.callers.programs.client import Client, Setting
from ranksim.core.callers.programs.steady import make_calls
from ranksim.core.callers.steps import Program
from ranksim.core.clock import Micros


def poisson_caller(setting: Setting, name: str, spec: Caller, every: Micros) -> Program:
    """Make calls of a mix. Raises BadInput when the account lacks what the mix needs."""
    client = Client(setting, name, spec)
    return make_calls(client, spec.mix, _arrivals(client, spec, every))


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
    client: Client,
    every: Micros,
    rhythm: Rhythm | None,
    weights: list[float],
    start: Micros,
    first: int,
) -> Iterator[tuple[Micros, int, int]]:
    """Draw arrivals after `start`, numbered from `first` on, under the client's present seed."""
    seed, name = client.seed, client.name
    blocks = arrivals.poisson(every, start, client.end, seed=seed, name=name, rhythm=rhythm, first=first)
    for block in blocks:
        picked = arrivals.chosen(block, weights, seed=seed, name=name)
        yield from zip(block.times.tolist(), block.numbers.tolist(), picked, strict=True)
