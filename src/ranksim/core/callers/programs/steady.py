"""The program of a client that calls one `every` so often, or at given instants."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from ranksim.core import draws
from ranksim.core.callers.programs.call_streams import Caller
from ranksim.core.callers.programs.client import Client, Setting
from ranksim.core.callers.request_factory import Item
from ranksim.core.callers.steps import Program, Spawn, Until
from ranksim.core.clock import Micros
from ranksim.core.draws import Purpose


def steady_caller(setting: Setting, name: str, spec: Caller) -> Program:
    """Make calls of a mix. Raises BadInput when the account lacks what the mix needs."""
    client = Client(setting, name, spec)
    weights = [item.weight for item in spec.mix.values()]
    times = instants(spec, client.start, client.end)
    return make_calls(client, spec.mix, _arrivals(times, weights, client))


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


def _arrivals(
    times: Iterable[Micros], weights: list[float], client: Client
) -> Iterator[tuple[Micros, int, int]]:
    for number, t in enumerate(times):
        yield t, number, chosen(number, weights, seed=client.seed, name=client.name)
