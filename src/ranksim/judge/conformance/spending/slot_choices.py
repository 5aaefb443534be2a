"""How slots are held, revived and counted, where one call alone lies between two readings (U62, U63, U94).

For each domain that the trace made, all that is tracked in it is followed under every combination of the open
choices, as long as its calls come one after another and each was answered. What one of them added is stated
by its reply, or by the readings around it; a combination that gives another number is excluded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import integer_or_none, plainest, sent_body
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import ADDS, AccountActivity, SpendWork
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.counter_bounds import SpanSums
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds, lists_of, pairings_of, places_of
from ranksim.judge.conformance.spending.statements import Bracket, SlotStatement
from ranksim.judge.conformance.verdict.verdicts import Evidence

CHOICES: Final = {
    "narrowing": 62,
    "re_add": 63,
    "hold_identity": 94,
    "scan_counts": 94,
}
"""What is open, and the number under which it is told."""

REMOVED: Final = {
    "keywords.delete": "keywords removed",
    "scans.delete": "a scan removed",
    "keyword_lists.delete": "a list removed",
    "domains.delete": "a domain removed",
}
"""The cases of what is held: what was removed, and surely took slots."""

MOST_TRACKED: Final = 400
"""Slots of a domain up to which it is followed."""

Choice: TypeAlias = Mapping[str, str]
Slot: TypeAlias = tuple[str, str, str, str]
"""Scan, word, pairing and place."""

Slots: TypeAlias = Mapping[str, Counter[Slot]]
"""Slots by how scans count."""

Call: TypeAlias = SpendWork | Observation

Keywords: TypeAlias = Mapping[str, tuple[str, str]]
"""List and word of each keyword, by its id."""


@dataclass(slots=True)
class TrackedScan:
    """One scan as it was asked for."""

    lists: Sequence[str]
    pairings: Sequence[str]
    places: Sequence[str]
    active: bool


@dataclass(slots=True)
class TrackedDomain:
    """What is tracked in one domain; and, by number of a combination of choices, what is held of it."""

    lists: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """The words of each list, by what any folding leaves of them."""
    scans: dict[str, TrackedScan] = field(default_factory=dict)
    held: dict[int, Counter[Slot]] = field(default_factory=lambda: defaultdict(Counter))
    spelt: dict[str, str] = field(default_factory=dict)
    """How each word that ever was in it is written, by what any folding leaves of it."""
    over: Micros = DISTANT_PAST
    """When its last call was over."""
    lost: bool = False
    """Whether nobody knows any more what is in it."""
    slots: Slots = field(default_factory=lambda: {"keyword": Counter(), "list_keyword": Counter()})
    """The slots of the active scans; a word in two lists of a scan counts once, or twice (U94)."""

    def count(self) -> int:
        """Count the slots of the active scans anew, and return how many there are at most."""
        by_list = Counter[Slot]()
        for name, scan in self.scans.items():
            words = Counter(word for list_id in scan.lists for word in self.lists[list_id] if scan.active)
            for word, pairing, place in product(words, scan.pairings, scan.places):
                by_list[name, word, pairing, place] = words[word]
        self.slots = {"keyword": Counter(by_list.keys()), "list_keyword": by_list}
        return by_list.total()


def judge(audit: AccountAudit, stated: Sequence[SlotStatement], tracked: SlotBounds) -> None:
    """Tell which defaults an account excludes, and which removals were seen to free nothing (S26, S27)."""
    activity, names = audit.activity, list(CHOICES)
    if not activity.alone:
        return
    values = product(*(audit.options.candidates(name) for name in names))
    combined = [dict(zip(names, each, strict=True)) for each in values]
    readings = SlotReadings(activity, stated)
    excluded: dict[int, Evidence] = {}
    for call, domain in _followed(tracked, readings):
        before = domain.slots
        _apply(audit, call, tracked.keywords, domain)
        if domain.lost:
            continue
        after = domain.slots
        gained = {counts: after[counts] - was for counts, was in before.items()}
        lost = {counts: was - after[counts] for counts, was in before.items()}
        deltas = [
            _change(call, gained, lost, choice, domain.held[number]) for number, choice in enumerate(combined)
        ]
        added = readings.added(call)
        if added is not None:
            _exclude(activity, deltas, added, excluded)
            _judge_added(audit, call, gained["keyword"], lost["keyword"], added, deltas)
    for name in names:
        kept = {choice[name] for number, choice in enumerate(combined) if number not in excluded}
        default = combined[0][name]
        if kept and default not in kept:
            audit.tally.differs(CHOICES[name], default, min(kept), excluded[0])


def _exclude(
    activity: AccountActivity, deltas: Sequence[int], added: SlotsAdded, excluded: dict[int, Evidence]
) -> None:
    """Note which combinations, by their numbers, give another number than came into use."""
    for number, delta in enumerate(deltas):
        if added.slots != delta and number not in excluded:
            says = f"{added.slots} slots came into use by {added.ids[0]}, where {delta} are assumed to"
            excluded[number] = activity.evidence(says, added.ids, added.at)


def _judge_added(
    audit: AccountAudit,
    call: Call,
    gained: Counter[Slot],
    lost: Counter[Slot],
    added: SlotsAdded,
    deltas: Sequence[int],
) -> None:
    """What came into use lies between the least and the most that any combination makes of it.

    A case is covered where all of them agree.
    """
    if not isinstance(call, SpendWork):
        if call.operation in REMOVED and lost and added.slots == 0:
            audit.tally.held("slots.held", case=REMOVED[call.operation], by=added.ids)
        return
    least, most = min(deltas), max(deltas)
    names = (*_factors(gained), call.spend)
    if not least <= added.slots <= most:
        says = f"{added.slots} slots came into use by {added.ids[0]}, and {least} to {most} can have"
        expected = f"{least} to {most} slots added"
        audit.broke("slots.counted", says, added.ids, added.at, expected, case=names[0])
    elif 0 < least == most:
        for name in names:
            audit.tally.covers("slots.counted", name, added.ids)


def _change(call: Call, gained: Slots, lost: Slots, choice: Choice, held: Counter[Slot]) -> int:
    """Move what is held under a combination of choices, and return by how much what is used grows."""
    delta, own, counts = 0, choice["hold_identity"] == "scan_tuple", choice["scan_counts"]
    for slot, count in gained[counts].items():
        name = slot if own else ("", *slot[1:])
        revived = min(count, held[name]) if choice["re_add"] == "consumes_hold" else 0
        held[name] -= revived
        delta += count - revived
    narrowed = isinstance(call, Observation) and call.operation == "scans.update"
    for slot, count in lost[counts].items():
        if narrowed and choice["narrowing"] == "freed":
            delta -= count
        else:
            held[slot if own else ("", *slot[1:])] += count
    return delta


def _factors(gained: Counter[Slot]) -> Iterator[str]:
    """Return by what the slots that were gained are multiplied, within one scan."""
    for place, name in ((1, "several words"), (2, "several pairings"), (3, "several places")):
        if len({(slot[0], slot[place]) for slot in gained}) > len({slot[0] for slot in gained}):
            yield name


# What domains hold


def _followed(tracked: SlotBounds, readings: SlotReadings) -> Iterator[tuple[Call, TrackedDomain]]:
    """Return each call that changes what is tracked in a domain that is known up to it, in their order.

    One in whose span another of its domain begins is not among them: either may have come first.
    """
    domains = {name: TrackedDomain() for name, made in tracked.activity.domains.items() if not made.old}
    placed = list(_placed(tracked))
    next_of, begins = dict[str | None, Micros](), list[Micros]()
    for call, where in reversed(placed):
        begins.append(min(next_of.get(where, DISTANT_FUTURE), next_of.get(None, DISTANT_FUTURE)))
        next_of[where] = _span(call)[0]
    for (call, where), next_begins in zip(placed, reversed(begins), strict=True):
        low, high, _ = _span(call)
        if low >= readings.until or where is None:
            return
        domain = domains.get(where)
        if domain is None:
            continue
        sure = call.sure if isinstance(call, SpendWork) else call.ok
        early = isinstance(call, Observation) and low < readings.since  # what it left may be held no more
        if not sure or early or low <= domain.over or next_begins <= high or domain.lost:
            domain.lost = True
            continue
        domain.over = high
        yield call, domain


def _placed(tracked: SlotBounds) -> Iterator[tuple[Call, str | None]]:
    """Return what may change slots, by its first instant, with its domain; None where it may be in any."""
    calls: list[Call] = [*tracked.works(), *tracked.activity.removals, *tracked.patches]
    for call in sorted(calls, key=lambda call: _span(call)[0]):
        yield call, tracked.domain_of(call)


def _apply(audit: AccountAudit, call: Call, keywords: Keywords, domain: TrackedDomain) -> None:
    """Bring about what a call changed; a domain of which that cannot be told is lost."""
    if isinstance(call, SpendWork):
        readable = _add_words(audit, call, domain) if call.spend == "keywords" else _scan(call, domain)
        readable = readable and all(name in audit.activity.lists for name in lists_of(call.body))
    else:
        name, body = call.parameters.get("id", ""), sent_body(call)
        readable = call.operation in REMOVED or (
            call.operation == "scans.update"
            and body.keys() <= {"active", "name"}
            and isinstance(body.get("active", True), bool)
        )
        if call.operation == "keywords.delete":
            list_id, word = keywords[name]
            domain.lists[list_id].pop(plainest(word), None)
        elif call.operation == "scans.delete":
            domain.scans.pop(name, None)
        elif call.operation == "keyword_lists.delete":
            domain.lists.pop(name, None)
        elif call.operation == "domains.delete":
            domain.scans.clear()
        elif "active" in body and name in domain.scans:
            domain.scans[name].active = body["active"]
    domain.lost = not readable or domain.count() > MOST_TRACKED


def _add_words(audit: AccountAudit, work: SpendWork, domain: TrackedDomain) -> bool:
    """Put in what a reply says was created; tell where a word of another list counts as there (U94)."""
    requested, created = work.body.get("keywords"), created_by(work.made)
    texts = [item.get("keyword") for item in created or () if isinstance(item, dict)]
    words = [word for word in texts if isinstance(word, str)]
    if created is None or not isinstance(requested, list) or len(words) < len(created):
        return False
    spelt = [(plainest(word), word) for word in map(str, (*words, *requested))]
    if any(domain.spelt.setdefault(plain, word) != word for plain, word in spelt):
        return False  # some folding may take it for another
    [list_id] = lists_of(work.body) or [""]
    there = domain.lists[list_id]
    elsewhere = set().union(*(others for other, others in domain.lists.items() if other != list_id))
    wanted = {plainest(str(word)) for word in requested}
    left_out = wanted - {plainest(word) for word in words} - there.keys()
    already_there = integer_or_none(work.made.get("already_present"))
    if left_out and left_out <= elsewhere and already_there == len(requested) - len(words):
        says = f"{work.exchange.id} left out {len(left_out)} words that another list of the domain has"
        audit.differs(94, "list", "domain", says, (work.exchange.id,), work.low)
    there.update((plainest(word), word) for word in words)
    return True


def _scan(work: SpendWork, domain: TrackedDomain) -> bool:
    """Put in a scan as it was asked for."""
    pairings, places = pairings_of(work.body), places_of(work.body)
    if not work.id or pairings is None or places is None:
        return False
    active = work.body.get("active", True) is not False
    domain.scans[work.id] = TrackedScan(lists_of(work.body), sorted(pairings), sorted(places), active)
    return True


# What readings show


@dataclass(frozen=True, slots=True)
class SlotsAdded:
    """By how many slots more were used after one call, as these exchanges show; `ids` begin with the call."""

    slots: int
    ids: tuple[str, ...]
    at: Micros


class SlotReadings:
    """What replies, and readings of the first month, tell of single calls."""

    def __init__(self, activity: AccountActivity, stated: Sequence[SlotStatement]) -> None:
        month = [slots for slots in stated if slots.ends == stated[0].ends]
        self._readings = Bracket(slots for slots in month if slots.exchange.operation == "slots.get")
        self.since = stated[0].low
        self.until = max(slots.low for slots in month)
        """From when and up to when it surely was the first month."""
        works = [(work.low, work.high, 1) for work in activity.works if work.spend in (*ADDS, "")]
        changes = [
            (exchange.sent, exchange.received if exchange.ok else DISTANT_FUTURE, 1)
            for exchange in (*activity.removals, *activity.patches)
        ]
        self._changes = SpanSums(works + changes)

    def added(self, call: Call) -> SlotsAdded | None:
        """Return what one call added: as its reply says, or as readings show if it was alone between them."""
        low, high, name = _span(call)
        if (
            isinstance(call, SpendWork)
            and (stated := integer_or_none(call.made.get("slots_added"))) is not None
        ):
            return SlotsAdded(stated, (name,), low)
        before, after = self._readings.before(low), self._readings.after(high)
        if before is None or after is None or self._changes.possibly(before.low, after.high) != 1:
            return None
        return SlotsAdded(after.used - before.used, (name, before.exchange.id, after.exchange.id), low)


def _span(call: Call) -> tuple[Micros, Micros, str]:
    if isinstance(call, SpendWork):
        return call.low, call.high, call.exchange.id
    return call.sent, call.received, call.id
