"""Run each item of a list: that it is there, or not, explains what shows it and what leaves it out (S46)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calls.pages import Page, Query, Return, noun_of
from ranksim.judge.conformance.contradiction import contradictions
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import Between, Dated, evidence_of
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.verdict.verdicts import Evidence

Walk: TypeAlias = Sequence[Page]
"""Pages of one query, each continuing the one before."""

NOT_YET, THERE, GONE = "not yet", "there", "gone"
LIST, CREATE, DELETE = "list", "create", "delete"
SHOWN, MADE, LEFT_OUT = "shown", "made", "left out"
DELETED, ABSENT = "deleted", "not found"

UNSEEN: Final = ModelCall(DISTANT_PAST, DISTANT_FUTURE, DELETE)
"""A deletion that was not seen: by another caller, or along with what the item belonged to."""


def come_and_gone(state: str, call: ModelCall) -> tuple[str, ...]:
    """Return what becomes of an item by a call: it comes at any time, goes by a DELETE, and is not back.

    A DELETE that succeeds may have found nothing, as one that is repeated may succeed again (U84), and what
    tells of a creation may be the replay of an old reply.
    """
    if call.reply == SHOWN:
        return () if state == GONE else (THERE,)
    if call.reply == MADE:
        return (THERE, GONE) if state == NOT_YET else (state,)
    if call.reply in (LEFT_OUT, ABSENT):
        return () if state == THERE else (state,)
    if call.reply == DELETED or (call.question == DELETE and call.reply is None and state == THERE):
        return (GONE,)
    return (state,)


class Creation(NamedTuple):
    """What tells that a thing was made, and what that settled: its `FIXED` fields."""

    call: ModelCall
    settled: Mapping[str, str]


class Deletion(NamedTuple):
    """A DELETE over REST of the thing of this id, which was not refused."""

    name: str
    call: ModelCall
    key: str
    account: str

    @classmethod
    def of(cls, seen: Observation) -> "Deletion":
        """Return what an exchange deleted, or may have: a 202 says that it will be."""
        sure = seen.ok and seen.status != 202 and seen.surface == "rest"
        reply = ABSENT if seen.status == 404 else DELETED if sure else None
        call = ModelCall(seen.sent, seen.received, DELETE, reply, seen.id, reads=reply == ABSENT)
        return cls(seen.parameters.get("id", ""), call, seen.key, seen.account)

    def shown_to(self, query: Query, account: str) -> ModelCall:
        """Return what it tells of the item of that id; nothing sure where that may be another thing (U83).

        What one key does not find, another key of its account may.
        """
        same = self.key == query.key or (self.call.reply == DELETED and self.account == account != "")
        sure = same and query.surface == "rest" and self.call.reply is not None
        return self.call if sure else self.call.without_reply()


Writes: TypeAlias = Callable[[], Iterable[tuple[str, ModelCall]]]
"""Gives what created and deleted items of a list, each with the item's id."""


def write_between(
    pages: Sequence[Page | Return], writes: Iterable[tuple[str, ModelCall]], likely: str = DELETE
) -> Between:
    """Return the write of a list that may explain what was wrong with pages that followed each other.

    It came between two of them, and surely so rather than perhaps. Where places are counted, what comes anew
    shows items again, and a DELETE of what was shown by then leaves others out: one of them is `likely`.
    """
    best, write, sighted = 0, Between(), set[str]()
    done = [(item, call) for item, call in writes if call.answered and call.reply != ABSENT]
    for page, other in pairwise(pages):
        sighted.update(page.items if isinstance(page, Page) else ())
        for item, call in done:
            if call.sent < other.received and call.received > page.sent:
                sure = page.received <= call.sent and call.received <= other.sent
                weight = 1 + sure + 2 * (call.question == likely and (likely == CREATE or item in sighted))
                if weight > best:
                    did = f"{call.id} {'created' if call.question == CREATE else 'deleted'} {item}"
                    when = f"{'between' if sure else 'about'} {page.id} and {other.id}"
                    best, write = weight, Between(f"; {did} {when}", (page.id, call.id, other.id))
    return write


def sightings(pages: Sequence[Page]) -> tuple[dict[str, Page], dict[str, Page]]:
    """Return which page showed each item first, as its reply was received, and which last, as it was sent."""
    first, last = dict[str, Page](), dict[str, Page]()
    for page in sorted(pages, key=lambda page: -page.received):
        first.update(dict.fromkeys(page.items, page))
    for page in sorted(pages, key=lambda page: page.sent):
        last.update(dict.fromkeys(page.items, page))
    return first, last


@dataclass
class ListedItems:
    """What one query listed, and what made or deleted things of its noun, by id."""

    query: Query
    account: str
    walks: Sequence[Walk]
    """Those that came to an end."""
    made: Mapping[str, ModelCall]
    deletions: Sequence[Deletion]
    writes: "Writes"
    alone: bool
    """Whether nothing else, that was seen or not, can have deleted any."""

    def __post_init__(self) -> None:
        self.first_page, self.last_page = sightings([page for walk in self.walks for page in walk])
        self.first: dict[str, Page | ModelCall] = {**self.made, **self.first_page}
        for item, call in self.made.items():
            self.first[item] = min(call, self.first[item], key=lambda call: call.received)

    def contradictions(self, moved: Set[str]) -> Iterator[tuple[str, Sequence[ModelCall]]]:
        """Return items of which no order explains what was told, and by which calls; none: nobody can tell.

        Those that may have `moved` are left out. Of the pages that show an item, the first and the last imply
        that it was there for the others.
        """
        left_out, deleted = self._left_out(), defaultdict[str, list[ModelCall]](list)
        for deletion in self.deletions:
            deleted[deletion.name].append(deletion.shown_to(self.query, self.account))
        noun, surface = noun_of(self.query.operation), self.query.surface
        alone = self.alone and surface == "rest" and f"{noun}.delete" in OPERATIONS
        for item in sorted((left_out.keys() | (deleted.keys() & self.first.keys())) - moved):
            missing = [
                ModelCall(walk[0].sent, walk[-1].received, LIST, LEFT_OUT, walk[-1].id, reads=True)
                for walk in left_out[item]
            ]
            deleting = [*deleted[item], *([] if alone else [UNSEEN])]
            missed = min(call.received for call in [*missing, *deleting])
            in_time = any(call.sent < missed for call in deleting if call.reply != ABSENT)
            if in_time and (item not in self.last_page or self.last_page[item].sent < missed):
                continue  # one DELETE, after all that shows it and before all that does not, explains it
            pages = {self.first_page[item], self.last_page[item]} if item in self.first_page else ()
            calls = [ModelCall(page.sent, page.received, LIST, SHOWN, page.id) for page in pages]
            calls += [*([self.made[item]] if item in self.made else []), *missing, *deleting]
            histories, too_many = contradictions(
                sorted(calls, key=lambda call: call.sent), (NOT_YET,), come_and_gone
            )
            yield from ((item, history) for history in [*histories, *([()] if too_many else [])])

    def _left_out(self) -> dict[str, list[Walk]]:
        """Return the walks that leave out what may have been there before they ended.

        Of those after it was shown last, the first to end: it was gone by then.
        """
        first, last = self.first, self.last_page
        coming = sorted(first, key=lambda item: -first[item].received)
        there, left_out = set[str](), defaultdict[str, list[Walk]](list)
        for walk in sorted(self.walks, key=lambda walk: walk[-1].received):
            while coming and first[coming[-1]].received < walk[-1].received:
                there.add(coming.pop())
            for item in there.difference(*(page.items for page in walk)):
                left_out[item].append(walk)
                if first[item].received < walk[0].sent and (
                    item not in last or last[item].sent < walk[0].sent
                ):
                    there.discard(item)
        return left_out

    def evidence(self, item: str, calls: Sequence[ModelCall]) -> Evidence:
        """Return what cannot be: what calls told of an item."""
        walks = {walk[-1].id: walk for walk in self.walks}
        clauses, places, write = list[str](), list[Dated](), Between()
        for call in calls:
            walk = walks[call.id] if call.reply == LEFT_OUT else ()
            by = f"the walk from {walk[0].id} to {call.id}" if walk else call.id
            clauses.append(f"{call.reply} {'of' if walk else 'by'} {by}")
            places += (walk[0], walk[-1]) if walk else (call,)
            write = write if write.ids else write_between(walk, self.writes())
        says = f"{item} is {', then '.join(clauses)}"
        if calls[-1].reply in (LEFT_OUT, ABSENT):
            says += ", and nothing deleted it"
        again = self.last_page.get(item)
        if again is not None and again.sent > calls[-1].received and calls[-1].reply == LEFT_OUT:
            write = Between(f"; {again.id} shows it again{write.says}", (*write.ids, again.id))
        return evidence_of(says, *places, about=self.query.operation, between=write)


def wrong_call(calls: Sequence[ModelCall]) -> ModelCall:
    """Return which call of a contradiction is told as wrong: a walk that leaves it out, else the last."""
    return next((call for call in calls if call.reply == LEFT_OUT), calls[-1])
