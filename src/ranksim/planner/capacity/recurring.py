"""Clients of a scenario that act at occasions, and what is counted of them otherwise than they do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ranksim.core.callers.programs import AnyClient, KeywordSync, Programmed, Python
from ranksim.core.callers.programs.client import Occasions, OccasionStarts, OccasionWork
from ranksim.core.clock import DAY, WEEK, Micros, billing_month, format_duration, month_end, months_between
from ranksim.core.contract.quantities import Moment
from ranksim.planner.capacity.growth import MOST_MONTHS
from ranksim.planner.capacity.workload import ALWAYS, EVERY_MONTH, MONTH, month_number
from ranksim.report import units
from ranksim.twin.sim.scenario import Scenario


class Recurring(NamedTuple):
    """A client that acts at occasions, with what it plans for each of them."""

    name: str
    client: Programmed
    occasions: Occasions
    work: Sequence[OccasionWork]
    starts: OccasionStarts | None

    def most(self, start: Micros) -> int | None:
        """Return how many occasions there are in all, in a scenario from `start` on, None without end."""
        if self.client.stops is None:
            return None
        return len(list(self.occasions.times(self.client.starts.on(start), self.client.stops.on(start))))

    def instants(self, start: Micros) -> tuple[Micros, ...]:
        """Return its occasions (µs), in as many months as are looked at, if they are no period apart."""
        if self.occasions.is_even:
            return ()
        begins, end = self.there(start)
        return tuple(self.occasions.times(begins, min(end, start + (MOST_MONTHS + 1) * MONTH)))

    def ended(self, at: Micros | None, start: Micros, anchor: Micros) -> int:
        """Return how many occasions it had in the month of an instant (µs) by which it had stopped in it.

        None is any instant. Billing months are counted from `anchor` (µs, U51).
        """
        begins, stops = self.there(start)
        if at is None or not stops <= at < month_end(anchor, stops - 1):
            return 0
        month = max(start, billing_month(anchor, stops - 1)[0])
        return sum(occasion >= month for occasion in self.occasions.times(begins, stops))

    def months(self, start: Micros, anchor: Micros) -> range:
        """Return the billing months from `start` on, counted from 1, in which it is at work."""
        first, stops = max(start, self.client.starts.on(start)), self.client.stops
        last = None if stops is None else month_number(anchor, start, stops.on(start) - 1)
        return range(month_number(anchor, start, first), EVERY_MONTH.stop if last is None else 1 + last)

    def begins(self, start: Micros) -> Micros:
        """Return when it begins (µs), `start` itself of one that misses no occasion before it does."""
        begins = self.client.starts.on(start)
        first = next(self.occasions.times(begins, begins + self.occasions.period + DAY))
        return start if first == start + self.occasions.phase(begins, start) else begins

    def there(self, start: Micros) -> tuple[Micros, Micros]:
        """Return from when until when (µs) it is at work, in a scenario from `start` on."""
        stops = self.client.stops
        return self.client.starts.on(start), ALWAYS[1] if stops is None else stops.on(start)

    def is_at_work(self, at: Micros | None, start: Micros) -> bool:
        """Whether it has begun at an instant of a scenario from `start` on, and not stopped; None for any."""
        if at is None:
            return True
        stops = self.client.stops
        return self.begins(start) <= at and (stops is None or at < stops.on(start))

    def edges(self, start: Micros) -> Iterator[tuple[Micros, str]]:
        """Yield when it begins after `start`, and when it stops, in words too."""
        yield from _edges(self.name, self.begins(start), self.client.stops, start)


def edges_of_others(
    clients: Mapping[str, AnyClient], names: Collection[str], start: Micros
) -> Iterator[tuple[Micros, str]]:
    """Yield when clients without occasions begin, after the month from `start` on, or stop; in words too."""
    for client, name in ((clients[name], name) for name in names):
        assert not isinstance(client, Python)
        begins = client.starts.on(start)
        later = begins > start and months_between(start, begins) > 0
        yield from _edges(name, begins if later else start, client.stops, start)


def _edges(name: str, begins: Micros, stops: Moment | None, start: Micros) -> Iterator[tuple[Micros, str]]:
    if begins > start:
        yield begins, f"{name} begins"
    if stops is not None:
        yield stops.on(start), f"{name} stops"


def notes_of_clients(
    scenario: Scenario, clients: Mapping[str, AnyClient], recurring: Sequence[Recurring], anchor: Micros
) -> Iterator[str]:
    """Say of the clients of an account what is counted otherwise than they do, or not at all.

    `recurring` are those that act at occasions; billing months are counted from `anchor` (µs, U51).
    """
    yield from _taken(scenario, clients, recurring)
    yield from _bounds(scenario.start, recurring, anchor)


def _taken(
    scenario: Scenario, clients: Mapping[str, AnyClient], recurring: Sequence[Recurring]
) -> Iterator[str]:
    """Say which clients are taken to do otherwise than they do, or are not counted."""
    starting = [(client.name, client.client, client.starts) for client in recurring if client.starts]
    # Requests that are spread over time come whatever becomes of the ones before.
    hasty = [name for name, client, starts in starting if starts.gap is None and client.on_limit != "obey"]
    programs = [name for name, client in clients.items() if isinstance(client, Python)]
    drawn = [name for name, _, starts in starting if starts.drawn]
    syncs = [name for name, client in clients.items() if isinstance(client, KeywordSync)]
    everywhere = scenario.network is not None
    networked = [name for name, client, *_ in recurring if everywhere or client.network is not None]
    for names, note in (
        (hasty, "These clients are taken to call again when Retry-After has gone: {}."),
        (programs, "Not counted is what these clients spend: {}; `ranksim run` simulates it."),
        (drawn, "These clients are taken to spread their starts evenly: {}."),
        (
            [name for name, _, occasions, work, _ in recurring if work and occasions.period == WEEK],
            "Counted with five weeks a month, as one of 31 days may have, but in a growth in time with those "
            "of each month: {}.",
        ),
        (
            syncs if len(syncs) > 1 else (),
            "These clients keep the same lists, each by what it put there itself; what one changes for the "
            "other is not counted, `ranksim run` simulates it: {}.",
        ),
        (networked, "Calls are taken to need no time, though these clients have a network: {}."),
    ):
        if names:
            yield note.format(", ".join(names))


def _bounds(start: Micros, recurring: Sequence[Recurring], anchor: Micros) -> Iterator[str]:
    """Say of which clients another month is counted than the scenario's first."""
    for each in recurring:
        name, client, occasions, work, _ = each
        begun = each.begins(start) - start
        if work and begun:
            first = len(list(occasions.times(start + begun, month_end(anchor, start))))
            month = each.months(start, anchor).start
            month_of_it = -(-MONTH // occasions.period)
            since = f"it from month {month} on" if month > 1 else "those"
            yield (
                f"{name} begins {format_duration(begun)} into the scenario: from then on `fit` and "
                f"`portfolio` count a whole month of it, {units.many(month_of_it, 'occasion')}, of which "
                f"the first month has {first}; a growth in time counts {since}."
            )
        if client.stops is not None:
            end = format_duration(client.stops.after(start))
            most = each.most(start) or 0
            few = f", a month with at most its {units.many(most, 'occasion')}"
            last = each.months(start, anchor)[-1:]
            until = f"; a growth in time counts it until month {last[0]}" if last else ""
            yield (
                f"{name} stops {end} into the scenario: until then `fit` and `portfolio` count it"
                f"{few if most < -(-MONTH // occasions.period) else ''}{until}."
            )
