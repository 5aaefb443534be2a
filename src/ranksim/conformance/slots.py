"""Slots: what scans and keywords occupy, what stays held, and where there is room (S23-S27, S32, S33, S64).

Where a list and the scans over it were made in the trace, what a call adds is known: keywords × pairings ×
geographies for each scan, without de-duplication between scans. Elsewhere the reply's own count is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ranksim.clock import Micros
from ranksim.conformance.asks import Dealings, Refused, Work
from ranksim.conformance.counters import UNBOUNDED, Bound, Mark, Move, Sums, between, bounds
from ranksim.conformance.history import NEVER, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.readings import Slots, whole
from ranksim.conformance.verdicts import Evidence, Rule, Tally

RULES = (
    Rule(
        "slots.counted",
        "Each keyword on each pairing in each geography is a slot, and each scan counts its own.",
        (23, 24, 25, 32, 33, 37),
        (47, 63, 94, 109),
        "everyday: read slots around additions of keywords and scans",
    ),
    Rule(
        "slots.held",
        "What is removed stays counted to the end of the billing month.",
        (26, 27, 37),
        (62,),
        "everyday: remove keywords and scans, and read slots",
    ),
    Rule(
        "slots.limit",
        "No more slots are given than the plan has.",
        (33, 64),
        (64,),
        "race: several ask at once for the last slots",
    ),
    Rule(
        "slots.refused",
        "slot_limit_exceeded comes only where what is asked for does not fit.",
        (64,),
        (59, 63, 64),
        "ladder: ask for more keywords than there is room for",
    ),
    Rule(
        "slots.sum",
        "Active and held slots add up to the used ones, and what is available to the limit.",
        (37,),
        (61,),
        "everyday: read slots",
    ),
)

REMOVALS = ("keywords.delete", "keyword_lists.delete", "scans.delete", "domains.delete")

Json = Any


def judge(dealings: Dealings, options: Options, tally: Tally) -> None:
    """Judge the slots of one account."""
    for slots in dealings.slots:
        judge_sum(dealings, slots, tally)
    stated = _dated(dealings.slots)
    tracked = Tracked(dealings)
    if len(stated) > 1:
        judge_counter(dealings, stated, tracked, options, tally)
        judge_held(dealings, stated, tracked, tally)
    for refused in dealings.refusals:
        if refused.check == 5:
            judge_refused(dealings, refused, tracked, options, tally)


def _dated(statements: Sequence[Slots]) -> list[tuple[Slots, Micros]]:
    """Give the statements with their month; one without, as in a refusal, lies between two of one month."""
    ordered = sorted(statements, key=lambda slots: slots.low)
    after: list[Slots | None] = [None] * len(ordered)
    later: Slots | None = None
    for number in range(len(ordered) - 1, -1, -1):
        after[number] = later
        later = ordered[number] if ordered[number].ends is not None else later
    dated, before = [], None
    for slots, following in zip(ordered, after, strict=True):
        if slots.ends is not None:
            before = slots
            dated.append((slots, slots.ends))
        elif before is not None and following is not None and before.ends == following.ends:
            dated += (
                [(slots, before.ends or 0)] if before.high < slots.low and slots.high < following.low else []
            )
    return dated


# What each call adds


class Tracked:
    """How many slots calls add, as far as the trace made what they are about."""

    def __init__(self, dealings: Dealings) -> None:
        self.dealings = dealings
        changed = [seen for seen in dealings.changes if not 300 <= seen.status <= 499]
        self.patches = [seen for seen in changed if _is(seen, "scans.update")]
        removals = [seen for seen in changed if any(_is(seen, name) for name in REMOVALS)]
        self.removed = min((seen.sent for seen in (*removals, *self.patches)), default=NEVER)
        self.patched = min((seen.sent for seen in self.patches), default=NEVER)
        self.switched = _switched(self.patches)
        self.reshaped = min((seen.sent for seen in self.patches if not self._is_switch(seen)), default=NEVER)
        self.by_id = {work.id: work for work in dealings.works if work.spend == "scans" and work.id}
        self.removals = Sums((seen.sent, 1) for seen in removals)
        first = min(dealings.slots, key=lambda slots: slots.high, default=None)
        self.no_old_holds = dealings.alone and first is not None and first.held == 0
        words: dict[str, list[tuple[Work, int, int]]] = defaultdict(list)
        scans: dict[str, list[tuple[Work, int, int]]] = defaultdict(list)
        for work in dealings.works:
            for list_id in lists_of(work.body):
                if work.spend == "keywords":
                    words[list_id].append((work, *_words(work.body, work.made)))
                elif work.spend == "scans":
                    scans[list_id].append((work, *self._factor(work)))
        self.words = {list_id: _Grown(found) for list_id, found in words.items()}
        self.scans = {list_id: _Grown(found) for list_id, found in scans.items()}

    def moves(self) -> list[Move]:
        """Give how works, and changes of scans, move what is used."""
        moves = []
        for work in self.dealings.works:
            if work.spend in ("keywords", "scans", ""):
                least, most = self.net(work)
                moves.append(Move(work.low, work.high, least if work.sure else 0, most, work.seen.id))
        return moves + self.of_patches()

    def of_patches(self) -> list[Move]:
        """Give what changes of scans may add, and may free where what is narrowed is freed (U62)."""
        moves = []
        for seen in self.patches:
            high = seen.received if 200 <= seen.status <= 299 else NEVER
            scan, most = self.by_id.get(seen.parameters.get("id", "")), UNBOUNDED
            if scan is not None and self._is_switch(seen):
                most = min(UNBOUNDED, self.of_scan({**scan.body, "active": True}, seen.sent, high)[1])
            moves.append(Move(seen.sent, high, 0, most, seen.id))
        return moves

    def _is_switch(self, seen: Seen) -> bool:
        """Tell whether a scan was never changed but in its name and whether it is active."""
        return seen.surface == "rest" and seen.parameters.get("id", "") in self.switched

    def _factor(self, work: Work) -> tuple[int, int]:
        """Give pairings × places of a scan, surely and at most, if it may have been switched on or off."""
        if work.id in self.switched:
            return 0, _scan({**work.body, "active": True})[1]
        return _scan(work.body)

    def net(self, work: Work) -> tuple[int, int]:
        """Give the fewest and most slots that a work adds: what its reply states, else what it can be."""
        stated = whole(work.made.get("slots_added"))
        return (stated, stated) if stated is not None else self.added(work)

    def added(self, work: Work) -> tuple[int, int]:
        """Give the fewest and most slots that a work adds, holds that it revives not counted (U63)."""
        if work.spend == "keywords":
            least, most = self.of_words(work.body, work.made, work.low, work.high)
        elif work.spend == "scans":
            least, most = self.of_scan(work.body, work.low, work.high)
        else:
            return 0, UNBOUNDED
        return (0 if self.may_revive(work) else least), min(most, UNBOUNDED)

    def may_revive(self, work: Work) -> bool:
        """Tell whether holds may pay for some of what a work adds."""
        old = not self.no_old_holds and not self._made(work.body)
        return old or self.removed <= work.high

    def of_words(
        self, body: Mapping[str, Json], made: Mapping[str, Json], low: Micros, high: Micros
    ) -> tuple[int, int]:
        """Count words on the scans that cover their list; unknown unless list and scans are of the trace."""
        [list_id] = lists_of(body) or [""]
        if list_id not in self.dealings.made or self.reshaped <= high or not self.dealings.alone:
            return 0, UNBOUNDED
        scans = self.scans.get(list_id)
        if scans is None:
            return 0, 0
        fewest, most = _words(body, made)
        surely = scans.surely(low) if self.removed > high else 0
        return fewest * surely, most * scans.possibly(high)

    def of_scan(self, body: Mapping[str, Json], low: Micros, high: Micros) -> tuple[int, int]:
        """Count the words of a scan's lists on its pairings in its places."""
        lists, (_, factor) = lists_of(body), _scan(body)
        if body.get("active") is False:
            return 0, 0
        known = all(list_id in self.dealings.made for list_id in lists) and self.dealings.alone
        if not known or not lists:
            return 0, UNBOUNDED
        grown = [self.words[list_id] for list_id in lists if list_id in self.words]
        surely = max((words.surely(low) for words in grown), default=0) if self.removed > high else 0
        return surely * factor, sum(words.possibly(high) for words in grown) * factor

    def _made(self, body: Mapping[str, Json]) -> bool:
        """Tell whether a call is about a domain that the trace made, which has no old holds."""
        domains = {body.get("domain_id")} if "domain_id" in body else set()
        for list_id in lists_of(body):
            created = self.dealings.made.get(list_id)
            domains.add(_domain_of_list(created))
        return bool(domains) and all(domain in self.dealings.made for domain in domains)


class _Grown:
    """What works bring to one list, by time: surely there before an instant, possibly there by it."""

    def __init__(self, found: Sequence[tuple[Work, int, int]]) -> None:
        self._sure = Sums((work.high, fewest) for work, fewest, _ in found if work.sure)
        self._possible = Sums((work.low, most) for work, _, most in found)

    def surely(self, t: Micros) -> int:
        return self._sure.before(t)

    def possibly(self, t: Micros) -> int:
        return self._possible.upto(t)


def _switched(patches: Sequence[Seen]) -> set[str]:
    """Give the scans whose changes only switched or renamed them."""
    shapes: dict[str, set[str]] = defaultdict(set)
    for seen in patches:
        body = seen.body if isinstance(seen.body, dict) else {"?": None}
        shapes[seen.parameters.get("id", "")] |= set(body)
    return {scan for scan, changed in shapes.items() if scan and changed <= {"active", "name"}}


def lists_of(body: Mapping[str, Json]) -> list[str]:
    """Give the lists that a call names, each once."""
    lists = body.get("list_ids", [body["list_id"]] if "list_id" in body else [])
    return list(dict.fromkeys(map(str, lists))) if isinstance(lists, list) else []


def _domain_of_list(created: Seen | None) -> Json:
    body = created.body if created is not None and isinstance(created.body, dict) else {}
    return body.get("domain_id")


def _words(body: Mapping[str, Json], made: Mapping[str, Json]) -> tuple[int, int]:
    """Count what POST keywords adds to a list: what it says it created, else up to all that was sent."""
    created, asked = made.get("created"), body.get("keywords")
    if isinstance(created, list):
        return len(created), len(created)
    return 0, len(asked) if isinstance(asked, list) else UNBOUNDED


def _scan(body: Mapping[str, Json]) -> tuple[int, int]:
    """Count the pairings × places of a scan: surely for each word, and at most (U94: a word in two lists)."""
    if body.get("active") is False:
        return 0, 0
    pairings, places = body.get("engine_devices"), body.get("geographies")
    if not isinstance(pairings, list) or not isinstance(places, list):
        return 0, UNBOUNDED
    factor = len({_pairing(pairing) for pairing in pairings}) * len({_place(place) for place in places})
    return (factor if len(lists_of(body)) == 1 else 0), factor


def _pairing(value: Json) -> str:
    return f"{value.get('engine')}/{value.get('device')}" if isinstance(value, dict) else str(value)


def _place(value: Json) -> str:
    names = ("country", "location_id", "language")
    return "/".join(str(value.get(name) or "") for name in names) if isinstance(value, dict) else str(value)


def _is(seen: Seen, operation: str) -> bool:
    return seen.operation == operation or operation in seen.operations


# Checks


def judge_counter(
    dealings: Dealings,
    stated: Sequence[tuple[Slots, Micros]],
    tracked: Tracked,
    options: Options,
    tally: Tally,
) -> None:
    """Every reading lies between what was surely and what was possibly added before it in its month.

    Additions move the counter within their intervals, removals never do before the month ends; so a smaller
    reading frees what must be held, or has not counted, and a larger one counts what nobody added. A scan
    that is narrowed may free its slots (U62), so after one the least is tried without.
    """
    marks = [Mark(s.low, s.high, s.used, ends, s.seen.id) for s, ends in stated]
    moves = tracked.moves()
    falls = []
    if "freed" in options.candidates("narrowing"):
        falls = tracked.of_patches()
    strict = bounds(marks, moves)
    limits = {(s.seen.id, ends): s.limit for s, ends in stated}
    refusing = {refused.seen.id for refused in dealings.refusals if refused.check == 5}
    for bound, lenient in zip(strict, bounds(marks, moves, falls), strict=True):
        mark = bound.mark
        if mark.value < bound.least and mark.value >= lenient.least:
            tally.differs(62, "held", "freed", _evidence(dealings, bound, moves))
            bound = lenient
        _judge_bound(dealings, bound, moves, tracked, tally)
        if _patched(tracked, bound, options):
            tally.open("slots.limit", "a scan was changed, which may pass no check (U95)")
        else:
            judge_limit(dealings, bound, limits[mark.id, mark.ends], tally, refusing)
    for work in dealings.works:
        judge_stated(dealings, work, tracked, tally)


def _patched(tracked: Tracked, bound: Bound, options: Options) -> bool:
    """Tell whether a scan may have been widened before a mark by a PATCH, which may pass no check (U95)."""
    return "none" in options.candidates("patch_checks") and tracked.patched <= bound.mark.high


def _judge_bound(
    dealings: Dealings, bound: Bound, moves: Sequence[Move], tracked: Tracked, tally: Tally
) -> None:
    since, mark = bound.since, bound.mark
    removed = since is not None and tracked.removals.upto(mark.high) > tracked.removals.before(since.low)
    if mark.value < bound.least:
        rule = "slots.held" if removed else "slots.counted"
        tally.broke(rule, _evidence(dealings, bound, moves))
    elif mark.value > bound.most and dealings.alone:
        tally.broke("slots.counted", _evidence(dealings, bound, moves))
    elif since is not None and bound.least > -UNBOUNDED // 2:
        if removed:
            tally.held("slots.held")
        if dealings.alone and bound.most < UNBOUNDED // 2:
            tally.held("slots.counted")
        elif not removed:
            tally.open("slots.counted", "what was added is not known, or others may have used the account")


def _evidence(dealings: Dealings, bound: Bound, moves: Sequence[Move]) -> Evidence:
    mark = bound.mark
    if bound.since is not None and mark.value < bound.least:
        inside = between(moves, bound.since, mark, surely=True)
        says = (
            f"{bound.since.value} slots were used, {sum(m.least for m in inside)} surely added after, none "
            f"can have been freed, and {mark.value} are used (expected at least {bound.least})"
        )
        ids = (bound.since.id, *(m.id for m in inside[:1]), mark.id)
    else:
        until = bound.until or mark
        inside = between(moves, until, mark, surely=False)
        says = f"{until.value} slots were used, {mark.value} are, and at most {bound.most} can be"
        ids = (until.id, *(m.id for m in inside[:1]), mark.id)
    return Evidence(says, tuple(dict.fromkeys(ids)), about=dealings.about, at=mark.low)


def judge_limit(
    dealings: Dealings, bound: Bound, limit: int | None, tally: Tally, refusing: Collection[str]
) -> None:
    """What is used did not grow beyond the limit; above it from the first, a plan was changed before."""
    since, mark = bound.since, bound.mark
    if limit is None or since is None:
        return
    reached = max(mark.value, bound.least)
    if reached > limit and reached > since.value:
        says = f"{since.value} slots were used, then {reached}, with a limit of {limit}"
        ids = tuple(dict.fromkeys((since.id, mark.id)))
        tally.broke("slots.limit", Evidence(says, ids, about=dealings.about, at=mark.low))
    elif reached == limit or mark.id in refusing:
        tally.held("slots.limit")


def judge_stated(dealings: Dealings, work: Work, tracked: Tracked, tally: Tally) -> None:
    """The slots that a reply says it added are what its words and scans make; both are of one instant."""
    stated = whole(work.made.get("slots_added"))
    if stated is None or not work.sure:
        return
    least, most = tracked.added(work)
    if least <= stated <= most:
        if most < UNBOUNDED:
            tally.held("slots.counted")
        return
    says = f"{stated} slots were added, says the reply; {least} to {most} can have been"
    tally.broke("slots.counted", Evidence(says, (work.seen.id,), about=dealings.about, at=work.low))


def judge_held(
    dealings: Dealings, stated: Sequence[tuple[Slots, Micros]], tracked: Tracked, tally: Tally
) -> None:
    """Held slots of a month become fewer only as additions revive them (U63), one for one at most."""
    moves = tracked.moves()
    begun, ended = Sums((m.low, m.most) for m in moves), Sums((m.high, m.most) for m in moves)
    with_held = [(slots, ends) for slots, ends in stated if slots.held is not None]
    for (first, ends), (second, later) in pairwise(with_held):
        if ends != later or first.high >= second.low or not first.held:
            continue
        revived = begun.upto(second.high) - ended.before(first.low)
        if (second.held or 0) >= first.held - revived:
            tally.held("slots.held")
        elif dealings.alone:
            says = (
                f"{first.held} slots were held, at most {revived} taken up again, and {second.held} are held"
            )
            ids = (first.seen.id, second.seen.id)
            tally.broke("slots.held", Evidence(says, ids, about=dealings.about, at=second.low))


def judge_refused(
    dealings: Dealings, refused: Refused, tracked: Tracked, options: Options, tally: Tally
) -> None:
    """A refusal states what is used and asked for: together more than the limit, and no more than was asked.

    All its numbers are of the instant of the decision. A scan beyond the plan's dimensions may have this code
    too (U59), and then its numbers may fit.
    """
    meta = refused.seen.meta
    used, limit, requested = (whole(meta.get(name)) for name in ("used", "limit", "requested"))
    if used is None or limit is None or requested is None:
        tally.open("slots.refused", "the refusal states no used, limit and requested")
        return
    says = f"{requested} slots asked for with {used} of {limit} used"
    if used + requested <= limit and _may_pass_dimensions(dealings, refused, options):
        tally.open("slots.refused", "the scan may pass the plan's dimensions")
        return
    fits = Evidence(
        f"{says}: they fit, and were refused", (refused.seen.id,), about=dealings.about, at=refused.low
    )
    tally.check("slots.refused", used + requested > limit, fits)
    if refused.spend == "keywords":
        most = tracked.of_words(refused.body, {}, refused.low, refused.high)[1]
    elif refused.spend == "scans":
        most = tracked.of_scan(refused.body, refused.low, refused.high)[1]
    else:
        return
    if requested > most:
        more = Evidence(
            f"{says}, but the call can ask for {most} at most",
            (refused.seen.id,),
            about=dealings.about,
            at=refused.low,
        )
        tally.broke("slots.counted", more)


def _may_pass_dimensions(dealings: Dealings, refused: Refused, options: Options) -> bool:
    if refused.spend == "keywords" or "slot_limit_exceeded" not in options.candidates("dimension_refusal"):
        return False
    pairings, places = refused.body.get("engine_devices"), refused.body.get("geographies")
    if not isinstance(pairings, list) or not isinstance(places, list):
        return True
    for entitled in dealings.entitled:
        most = entitled.engine_devices or 0, entitled.geographies or 0
        if len(pairings) <= most[0] and len(places) <= most[1]:
            return False
    return True


def judge_sum(dealings: Dealings, slots: Slots, tally: Tally) -> None:
    """One reply is one snapshot: its numbers agree with each other."""
    wrong = []
    if slots.active is not None and slots.held is not None and slots.active + slots.held != slots.used:
        wrong.append(f"active {slots.active} and held {slots.held}, used {slots.used}")
    room = None if slots.limit is None else max(0, slots.limit - slots.used)
    if None not in (room, slots.available) and slots.available != room:
        wrong.append(f"used {slots.used} of {slots.limit}, available {slots.available}")
    evidence = Evidence("; ".join(wrong), (slots.seen.id,), about=dealings.about, at=slots.low)
    tally.check("slots.sum", not wrong, evidence)
