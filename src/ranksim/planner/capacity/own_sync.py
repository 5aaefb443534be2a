"""What the keyword syncs of an account's clients ask for: requests of an occasion, slots of a month (S26)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ranksim.core.callers.programs import KeywordSync
from ranksim.core.clock import Micros, billing_month
from ranksim.planner.capacity.recurring import Recurring
from ranksim.planner.capacity.slots import SlotChange
from ranksim.planner.capacity.sync import Sync
from ranksim.planner.capacity.tracked import lists_by_host

if TYPE_CHECKING:
    from ranksim.planner.capacity.planned import OwnAccount


class SyncOccasion(NamedTuple):
    """An occasion of a client: its name, how many there were before, what is sent, whether over a network."""

    client: str
    number: int
    sync: Sync
    networked: bool

    @property
    def sentence(self) -> str:
        """Whose requests these are, and that they take no time where they would."""
        which = "an occasion" if self.number else "its first occasion"
        hasty = (
            " Replies are taken to come at once, though it has a network; --latency says how long they take."
        )
        at_once = self.networked and not self.sync.latency
        return f"These are the requests of {self.client} on {which}.{hasty if at_once else ''}"


def occasion_of(
    own: OwnAccount, batch: int | None = None, latency: Micros = 0, others: int = 0
) -> SyncOccasion | None:
    """Return the occasion of most requests of the clients that keep an account's lists in step, if any.

    From its second occasion on a client does the same on each. A `batch` stands in place of the client's.
    """
    occasions = []
    for name, client, _ in _syncing(own):
        if client.surface == "app":  # it has no rate limit
            continue
        by_domain = [islice(client.changes(words), 2) for words, _ in _domains(own)]
        for number, changes in enumerate(zip(*by_domain, strict=True)):
            removed, added = zip(*changes, strict=True)
            if sum(removed) + sum(added):
                size, gap = client.batch if batch is None else batch, client.gap
                sync = Sync(sum(added), size, sum(removed), latency, others, added, removed, gap)
                networked = bool(own.scenario.network or client.network)
                occasions.append(SyncOccasion(name, number, sync, networked))
    return max(occasions, key=lambda occasion: (occasion.sync.requests, occasion.number), default=None)


def slots_to_come(own: OwnAccount) -> int:
    """Return how many slots what is replaced takes to the end of the billing month, by the calendar.

    Removed words hold theirs until then (S26), so each word that is added takes slots that nothing frees.
    """
    return sum(change.added for change in slot_changes(own, own.now, billing_month(own.anchor, own.now)[1]))


def slot_changes(own: OwnAccount, begin: Micros, end: Micros) -> Iterator[SlotChange]:
    """Yield what each occasion of a time (µs) does to the slots of an account, client by client."""
    for _, client, recurring in _syncing(own):
        starts = max(begin, client.starts.on(own.now))
        stops = end if client.stops is None else min(end, client.stops.on(own.now))
        domains = [(each, client.changes(words)) for words, each in _domains(own)]
        for at in recurring.occasions.times(starts, stops):
            changes = [(each, next(changes)) for each, changes in domains]
            added = sum(each * added for each, (_, added) in changes)
            yield SlotChange(at, added, sum(each * removed for each, (removed, _) in changes))


def _syncing(own: OwnAccount) -> Iterator[tuple[str, KeywordSync, Recurring]]:
    for recurring in own.recurring:
        if isinstance(recurring.client, KeywordSync):
            yield recurring.name, recurring.client, recurring


def _domains(own: OwnAccount) -> Iterator[tuple[int, int]]:
    """Yield of each domain how many words it has, and how many slots one takes that is added to its list."""
    for _, lists in lists_by_host(own.name, own.spec):
        if lists:
            yield sum(words for words, _ in lists), lists[0][1]
