"""How many slots calls add, and may free, as far as the trace made what they are about (S23-S27).

Of a keyword, a list, a scan or a domain that the trace made it is known what goes with it; a removal of
anything else may take whatever the trace did not make.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import integer_or_none, plainest, sent_body, thing_of
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import ADDS, AccountActivity, SpendCall, SpendWork
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Increment, RunningSums, SpanSums

Json = Any


class FirstInstants:
    """When something may first have happened in each domain, list or to each word; or in any, as ""."""

    def __init__(self) -> None:
        self._firsts: dict[str, Micros] = {}

    def note(self, domain: str, at: Micros) -> None:
        """Note that it may have happened at an instant, in any domain if that is ""."""
        self._firsts[domain] = min(at, self._firsts.get(domain, DISTANT_FUTURE))

    def by(self, domain: str, t: Micros) -> bool:
        """Return whether it may have happened in a domain by then, or in any if that is ""."""
        firsts = self._firsts
        if not domain:
            return min(firsts.values(), default=DISTANT_FUTURE) <= t
        return firsts.get(domain, DISTANT_FUTURE) <= t or firsts.get("", DISTANT_FUTURE) <= t


def keywords_by_id(works: Sequence[SpendWork]) -> dict[str, tuple[str, str]]:
    """Return the list and the word of each keyword that a reply says was created."""
    keywords = dict[str, tuple[str, str]]()
    for work in works:
        if work.spend == "keywords" and isinstance(work.body.get("list_id"), str):
            for item in created_by(work.made) or ():
                if isinstance(item, dict) and isinstance(item.get("keyword"), str):
                    keywords[str(item.get("id"))] = work.body["list_id"], item["keyword"]
    return keywords


def domain_of_list(activity: AccountActivity, list_id: str) -> str:
    """Return the domain of a list that the trace made, "" of any other."""
    made = activity.lists.get(list_id)
    body = made.body if made is not None and isinstance(made.body, dict) else {}
    return str(body.get("domain_id") or "")


class SlotBounds:
    """How many slots calls add, as far as the trace made what they are about.

    Once anything of a domain was removed, nothing of its like surely is there, and an addition may take up
    what is held in it: of which list and scan, `slot_choices` follows.
    """

    def __init__(self, activity: AccountActivity) -> None:
        self.activity = activity
        self.patches = activity.patches
        self.patched = SpanSums(
            (exchange.sent, exchange.received if exchange.ok else DISTANT_FUTURE, 1)
            for exchange in self.patches
        )
        self.switched = _switched(self.patches)
        self.by_id = {work.id: work for work in activity.works if work.spend == "scans" and work.id}
        self.keywords = keywords_by_id(activity.works)
        self.removals_of = Counter(exchange.parameters.get("id", "") for exchange in activity.removals)
        self.removals = RunningSums((exchange.sent, 1) for exchange in activity.removals)
        first = min(activity.slots, key=lambda slots: slots.high, default=None)
        self.no_old_holds = activity.alone and first is not None and first.held == 0
        words: dict[str, list[_Brought]] = defaultdict(list)
        scans: dict[str, list[_Brought]] = defaultdict(list)
        for work in activity.works:
            for list_id in lists_of(work.body):
                if work.spend == "keywords":
                    words[list_id].append((work, *_words(work.body, work.made)))
                elif work.spend == "scans":
                    scans[list_id].append((work, *self._factor(work)))
        self.words = {list_id: _Grown(brought) for list_id, brought in words.items()}
        self.scans = {list_id: _Grown(brought) for list_id, brought in scans.items()}
        self.words_gone, self.scans_gone, self.lists_gone = FirstInstants(), FirstInstants(), FirstInstants()
        self.held, self.reshaped = FirstInstants(), FirstInstants()
        self.held_words: dict[str, FirstInstants] = defaultdict(FirstInstants)
        self._see_changes()

    def _see_changes(self) -> None:
        """Note when anything may be gone, may be held, and when scans may be others than they were made.

        A change that names no lists touches the scan's own, if its call is known; one of before the trace
        covers no list that the trace made, unless it was given one.
        """
        removing = {"keywords.delete": (self.words_gone,), "scans.delete": (self.scans_gone,)}
        for exchange in self.activity.removals:
            domain = self.domain_of(exchange) or ""
            every = self.words_gone, self.scans_gone, self.lists_gone
            for firsts in removing.get(exchange.operation, every) if domain else every:
                firsts.note(domain, exchange.sent)
            if domain and exchange.operation == "keywords.delete":
                _, word = self.keywords[exchange.parameters["id"]]
                self.held_words[domain].note(plainest(word), exchange.sent)
            else:
                self.held.note(domain, exchange.sent)
        unsure = any(work.spend in ("scans", "") and not work.sure for work in self.activity.works)
        for exchange in self.patches:
            where, scan = self.domain_of(exchange), self.by_id.get(exchange.parameters.get("id", ""))
            self.held.note(where or "", exchange.sent)
            lists = [""] * unsure if scan is None else lists_of(scan.body)
            if where is None or "list_ids" in sent_body(exchange):
                lists = [""]
            for list_id in () if self._is_switch(exchange) else lists:
                self.reshaped.note(list_id, exchange.sent)

    def domain_of(self, call: SpendWork | Observation) -> str | None:
        """Return the domain of a call that may change slots, "" if it is not known; None if it may be any."""
        if isinstance(call, SpendWork):
            if call.exchange.surface != "rest" or not call.spend:
                return None
            return self._domain_of_lists(call.body) if call.spend == "keywords" else call.domain
        name = call.parameters.get("id", "")
        if call.surface != "rest":
            return None
        match call.operation:
            case "keywords.delete":
                return domain_of_list(self.activity, self.keywords.get(name, ("", ""))[0])
            case "keyword_lists.delete":
                return domain_of_list(self.activity, name)
            case "domains.delete":
                return name
        return self.by_id[name].domain if name in self.by_id else ""

    def _domain_of_lists(self, body: Mapping[str, Json]) -> str:
        """Return the domain of the lists that a call names, "" if it is not one."""
        domains = {domain_of_list(self.activity, list_id) for list_id in lists_of(body)}
        return domains.pop() if len(domains) == 1 else ""

    def moves(self) -> list[Increment]:
        """Return how works, and changes of scans, move what is used."""
        nets = [(work, *self._net(work)) for work in self.works()]
        moves = [
            Increment(work.low, work.high, least if work.sure else 0, most, work.exchange.id)
            for work, least, most in nets
        ]
        return moves + self.of_patches()

    def revivals(self) -> list[Increment]:
        """Return how many holds works, and changes of scans, may take up again: as many as slots they add."""
        moves = [
            Increment(work.low, work.high, 0, self.added(work)[1], work.exchange.id) for work in self.works()
        ]
        return moves + self.of_patches()

    def works(self) -> list[SpendWork]:
        """Return what may have added slots."""
        return [work for work in self.activity.works if work.spend in (*ADDS, "")]

    def of_patches(self) -> list[Increment]:
        """Return what changes of scans may add, and may free where what is narrowed is freed (U62)."""
        moves = []
        for exchange in self.patches:
            high = exchange.received if 200 <= exchange.status <= 299 else DISTANT_FUTURE
            scan, most = self.by_id.get(exchange.parameters.get("id", "")), UNBOUNDED
            if scan is not None and self._is_switch(exchange):
                most = min(UNBOUNDED, self._of_scan({**scan.body, "active": True}, exchange.sent, high)[1])
            moves.append(Increment(exchange.sent, high, 0, most, exchange.id))
        return moves

    def _is_switch(self, exchange: Observation) -> bool:
        """Return whether a scan was never changed but in its name and whether it is active."""
        return exchange.surface == "rest" and exchange.parameters.get("id", "") in self.switched

    def _factor(self, work: SpendWork) -> tuple[int, int]:
        """Return pairings × places of a scan, surely and at most, if it may have been switched on or off."""
        if work.id in self.switched:
            return 0, _scan({**work.body, "active": True})[1]
        return _scan(work.body)

    def _net(self, work: SpendWork) -> tuple[int, int]:
        """Return the fewest and most slots that a work adds: what its reply states, else what it can be."""
        stated = integer_or_none(work.made.get("slots_added"))
        return (stated, stated) if stated is not None else self.added(work)

    def counted(self, work: SpendWork) -> tuple[int, int]:
        """Return the fewest and most slots by which what is used grows by a work that was done."""
        least, most = self._net(work)
        return (least if work.sure else 0), most

    def revived(self, work: SpendWork) -> int:
        """Return how many held slots a work takes up again at most (U63)."""
        return self.added(work)[1] if not work.spend or self._may_revive(work) else 0

    def kept(self, exchange: Observation) -> tuple[int, int]:
        """Return the fewest and most slots that a removal leaves held: known of a keyword of the trace (S26).

        What another call may have removed before, with its list or by itself, may leave none.
        """
        name = exchange.parameters.get("id", "")
        if (exchange.operation, exchange.surface) != ("keywords.delete", "rest") or name not in self.keywords:
            return 0, UNBOUNDED
        list_id, word = self.keywords[name]
        body, made = {"list_id": list_id}, {"created": [word]}
        least, most = self._of_words(body, made, exchange.sent, exchange.received)
        removal = self.lists_gone.by(domain_of_list(self.activity, list_id), exchange.received)
        return (least if self.removals_of[name] == 1 and not removal else 0), most

    def added(self, work: SpendWork) -> tuple[int, int]:
        """Return the fewest and most slots that a work adds, holds that it revives not counted (U63)."""
        if work.spend not in ADDS:
            return 0, UNBOUNDED
        least, most = self.requested(work)
        return (0 if self._may_revive(work) else least), min(most, UNBOUNDED)

    def requested(self, call: SpendCall) -> tuple[int, int]:
        """Return the fewest and most slots that an addition is of."""
        if call.spend == "scans":
            return self._of_scan(call.body, call.low, call.high)
        return self._of_words(call.body, call.made, call.low, call.high)

    def wanted(self, call: SpendCall) -> int:
        """Return how many slots an addition surely makes, or would have made if it had not been refused.

        Of words that were refused, or tried by a dry run, those count that no call had asked to put into
        their list before.
        """
        if self._may_revive(call):
            return 0
        exchange, body = call.exchange, call.body
        if call.spend == "scans":
            return self._of_scan(body, call.low, call.high)[0]
        if exchange.ok and not exchange.dry_run:
            made = thing_of(exchange)
        else:
            made = {"created": sorted(self._new_words(body, call.high))}
        return self._of_words(body, made, call.low, call.high)[0]

    def _new_words(self, body: Mapping[str, Json], high: Micros) -> set[str]:
        """Return the words of a call, however they are folded, that no other can have added by `high`."""
        added: set[str] = set()
        for low, lists, words in self._words_asked:
            if low <= high and lists is None:
                return set()
            if low <= high and lists == lists_of(body):
                added |= words
        return _folded(body) - added

    @cached_property
    def _words_asked(self) -> list[tuple[Micros, list[str] | None, set[str]]]:
        """Return when and to which lists words may have been added; None is any."""
        works = [work for work in self.activity.works if work.spend in ("keywords", "")]
        return [(work.low, lists_of(work.body) if work.spend else None, _folded(work.body)) for work in works]

    def _may_revive(self, call: SpendCall) -> bool:
        """Return whether holds may pay for some of what a call adds: of its domain, and of its words."""
        if not self.no_old_holds and not self._made(call.body):
            return True
        domain, names = self._domain_of_lists(call.body), [""]
        words = call.body.get("keywords") if call.spend == "keywords" else None
        if domain and isinstance(words, list):
            names = [plainest(str(word)) for word in words]
        within = [self.held_words[domain]] if domain else self.held_words.values()
        return self.held.by(domain, call.high) or any(
            held.by(name, call.high) for held in within for name in names
        )

    def _of_words(
        self, body: Mapping[str, Json], made: Mapping[str, Json], low: Micros, high: Micros
    ) -> tuple[int, int]:
        """Count words on the scans that cover their list; unknown unless list and scans are of the trace."""
        [list_id] = lists_of(body) or [""]
        domain, readable = domain_of_list(self.activity, list_id), list_id in self.activity.lists
        if not readable or self.reshaped.by(list_id, high) or not self.activity.alone:
            return 0, UNBOUNDED
        scans = self.scans.get(list_id)
        if scans is None:
            return 0, 0
        fewest, most = _words(body, made)
        surely = 0 if self.scans_gone.by(domain, high) else scans.surely(low)
        return fewest * surely, most * scans.possibly(high)

    def _of_scan(self, body: Mapping[str, Json], low: Micros, high: Micros) -> tuple[int, int]:
        """Count the words of a scan's lists on its pairings in its places."""
        lists, (_, factor) = lists_of(body), _scan(body)
        if body.get("active") is False:
            return 0, 0
        readable = all(list_id in self.activity.lists for list_id in lists) and self.activity.alone
        if not readable or not lists:
            return 0, UNBOUNDED
        grown = [self.words[list_id] for list_id in lists if list_id in self.words]
        removal = self.words_gone.by(self._domain_of_lists(body), high)
        surely = 0 if removal else max((words.surely(low) for words in grown), default=0)
        return surely * factor, sum(words.possibly(high) for words in grown) * factor

    def _made(self, body: Mapping[str, Json]) -> bool:
        """Return whether a call is about a domain that the trace made, which has no old holds."""
        domains = [body["domain_id"]] if "domain_id" in body else []
        domains += [domain_of_list(self.activity, list_id) for list_id in lists_of(body)]
        made = self.activity.domains
        return bool(domains) and all(isinstance(domain, str) and domain in made for domain in domains)


_Brought: TypeAlias = tuple[SpendWork, int, int]
"""A work, and what it surely and at most brings."""


class _Grown:
    """What works bring to one list, by time, if nothing of it is gone."""

    def __init__(self, brought: Sequence[_Brought]) -> None:
        self._sure = RunningSums((work.high, fewest) for work, fewest, _ in brought if work.sure)
        self._possible = RunningSums((work.low, most) for work, _, most in brought)

    def surely(self, t: Micros) -> int:
        """Count what surely was brought before an instant."""
        return self._sure.before(t)

    def possibly(self, t: Micros) -> int:
        """Count what may have been brought by an instant."""
        return self._possible.upto(t)


def _switched(patches: Sequence[Observation]) -> set[str]:
    """Return the scans whose changes only switched or renamed them."""
    shapes: dict[str, set[str]] = defaultdict(set)
    for exchange in patches:
        body = exchange.body if isinstance(exchange.body, dict) else {"?": None}
        shapes[exchange.parameters.get("id", "")] |= set(body)
    return {scan for scan, changed in shapes.items() if scan and changed <= {"active", "name"}}


def lists_of(body: Mapping[str, Json]) -> list[str]:
    """Return the lists that a call names, each once."""
    lists = body.get("list_ids", [body["list_id"]] if "list_id" in body else [])
    return list(dict.fromkeys(map(str, lists))) if isinstance(lists, list) else []


def _words(body: Mapping[str, Json], made: Mapping[str, Json]) -> tuple[int, int]:
    """Count what POST keywords adds to a list: what it says it created, else up to all that was sent."""
    created, words = created_by(made), body.get("keywords")
    if created is not None:
        return len(created), len(created)
    return 0, len(words) if isinstance(words, list) else UNBOUNDED


def _folded(body: Mapping[str, Json]) -> set[str]:
    """Return what any way to fold the words of a call leaves of them."""
    words = body.get("keywords")
    return {plainest(str(word)) for word in words} if isinstance(words, list) else set()


def _scan(body: Mapping[str, Json]) -> tuple[int, int]:
    """Count the pairings × places of a scan: surely for each word, and at most (U94: a word in two lists)."""
    if body.get("active") is False:
        return 0, 0
    pairings, places = pairings_of(body), places_of(body)
    if pairings is None or places is None:
        return 0, UNBOUNDED
    factor = len(pairings) * len(places)
    return (factor if len(lists_of(body)) == 1 else 0), factor


def pairings_of(body: Mapping[str, Json]) -> set[str] | None:
    """Return the engine-and-device pairings that a scan names, each once; None where they cannot be read."""
    pairings = body.get("engine_devices")
    return {_pairing(pairing) for pairing in pairings} if isinstance(pairings, list) else None


def places_of(body: Mapping[str, Json]) -> set[str] | None:
    """Return the geographies that a scan names, each once; None where they cannot be read."""
    places = body.get("geographies")
    return {_place(place) for place in places} if isinstance(places, list) else None


def _pairing(value: Json) -> str:
    return f"{value.get('engine')}/{value.get('device')}" if isinstance(value, dict) else str(value)


def _place(value: Json) -> str:
    names = ("country", "location_id", "language")
    return "/".join(str(value.get(name) or "") for name in names) if isinstance(value, dict) else str(value)
