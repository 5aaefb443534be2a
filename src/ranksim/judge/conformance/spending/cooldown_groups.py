"""Runs of the same thing: which of them share a cooldown, how long it is, and what became of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros
from ranksim.judge.conformance.spending.activity import (
    JOBS,
    AccountActivity,
    JobLifetime,
    SpendCall,
    SpendWork,
    check_applies,
)
from ranksim.judge.conformance.verdict.options import Options

COOLDOWN = 6
"""The check of cooldowns."""

DRIFT = 1000
"""Clocks of two machines differ by less than one part in so many."""

Span: TypeAlias = tuple[Micros, Micros]
"""From when to when something was."""


@dataclass(frozen=True, slots=True)
class CooldownInterpretation:
    """One reading of U46: what a cooldown covers, and where it begins."""

    scope: str
    begins: str

    def __str__(self) -> str:
        return f"per {self.scope}, from {self.begins}"

    def without(self, other: CooldownInterpretation) -> str:
        """Return what of it another one has not."""
        differing = (
            *([f"per {self.scope}"] if self.scope != other.scope else ()),
            *([f"from {self.begins}"] if self.begins != other.begins else ()),
        )
        return f"not {', '.join(differing)}"


class CooldownGroup:
    """Works that share a cooldown, or may, in order of sending, with the latest begin of each."""

    def __init__(self, works: Sequence[SpendWork], begins: Sequence[Micros]) -> None:
        ordered = sorted(zip(works, begins, strict=True), key=lambda pair: pair[0].low)
        self.works = [work for work, _ in ordered]
        self._lows = [work.low for work in self.works]
        self._begins = [begun for _, begun in ordered]
        self._latest = [DISTANT_PAST, *accumulate(self._begins, max)]

    def upto(self, t: Micros) -> list[SpendWork]:
        """Return the works that can have been accepted by `t`."""
        return self.works[: bisect_right(self._lows, t)]

    def latest(self, t: Micros) -> Micros:
        """Return the latest beginning among those; DISTANT_PAST for none."""
        return self._latest[bisect_right(self._lows, t)]

    def last_before(
        self, t: Micros, lasts: Callable[[SpendWork], bool] = lambda work: True
    ) -> SpendWork | None:
        """Return the last sure work, of those that last, that was answered before `t`, by its sending."""
        places = range(bisect_right(self._lows, t) - 1, -1, -1)
        earlier = (self.works[place] for place in places)
        return next((work for work in earlier if work.sure and work.high < t and lasts(work)), None)

    def begun_since(self, t: Micros, end: Micros) -> Iterator[SpendWork]:
        """Yield the works that can have begun one at `t` or later, and have been accepted by `end`."""
        for place in range(bisect_right(self._lows, end) - 1, -1, -1):
            if self._latest[place + 1] < t:
                return
            if self._begins[place] >= t:
                yield self.works[place]

    def beside(self, refused: SpendCall) -> SpendWork | None:
        """Return a sure work whose call overlapped one that was refused: either may have come first."""
        near = (work for work in reversed(self.upto(refused.high)) if work.high >= refused.low)
        return next((work for work in near if work.sure and work.granted), None)

    def first_after(self, t: Micros) -> SpendWork | None:
        """Return the first sure work that was sent after `t`."""
        later = (self.works[place] for place in range(bisect_right(self._lows, t), len(self.works)))
        return next((work for work in later if work.sure), None)


class CooldownGroups:
    """The works of an account by what they do, how long their cooldown is, and what became of them."""

    def __init__(self, activity: AccountActivity, rate: int, options: Options) -> None:
        self.activity, self.rate, self.options = activity, max(1, rate), options
        self.works: dict[str, list[SpendWork]] = defaultdict(list)
        self._on: dict[tuple[str, str], list[SpendWork]] = defaultdict(list)
        self._shared: dict[tuple[str, str, CooldownInterpretation], CooldownGroup] = {}
        for work in activity.works:
            self.works[work.spend].append(work)
            self._on[work.spend, work.domain].append(work)
        self.lengths = self._lengths()

    @property
    def clears(self) -> bool:
        """Whether a run that fails may clear what cools (U91)."""
        return self.options.may_be("cooldown_after_failure", "clear")

    def sharing(self, call: SpendCall, kind: CooldownInterpretation) -> CooldownGroup:
        """Return the works that share a cooldown with what was asked, or may."""
        domain = "" if kind.scope == "account" else call.domain
        if (call.spend, domain, kind) not in self._shared:
            if domain:
                works = self._on[call.spend, domain] + self._on[call.spend, ""] + self.works[""]
            else:
                works = self.works[call.spend] + self.works[""]
            shared = CooldownGroup(works, [self.latest_beginning(work, kind) for work in works])
            self._shared[call.spend, domain, kind] = shared
        return self._shared[call.spend, domain, kind]

    def latest_beginning(self, work: SpendWork, kind: CooldownInterpretation) -> Micros:
        """Return the latest instant at which a work can have begun a cooldown; DISTANT_FUTURE: unbound."""
        if kind.begins == "finish" and work.spend in JOBS:
            fate = self.fate(work)
            return fate.done if fate.done < DISTANT_FUTURE else fate.failed
        return work.high

    def may_clear(self, first: SpendWork, second: SpendWork, kind: CooldownInterpretation) -> bool:
        """Return whether a third run may have failed between two, and have cleared the cooldown (U91).

        Runs from before the trace are taken not to fail just then.
        """
        if not self.clears or first.spend not in JOBS:
            return False
        latest = max(first.high, second.high)
        others = [work for work in self.sharing(first, kind).upto(latest) if work not in (first, second)]
        return any(not self.unfailed(work, latest) and self.fate(work).failed >= first.low for work in others)

    def applies(self, spend: str) -> bool:
        """Return whether the cooldown surely applies to an operation (U58)."""
        return check_applies(self.activity, spend, COOLDOWN, self.options)

    def _lengths(self) -> dict[str, Micros]:
        """Take the lengths of cooldowns from entitlements, where these never change."""
        stated = [entitled.cooldowns for entitled in self.activity.entitled]
        return dict(stated[0]) if stated and all(lengths == stated[0] for lengths in stated) else {}

    def fate(self, work: SpendWork) -> JobLifetime:
        """Return what was observed of a work's job; nothing else can fail once it is answered."""
        if work.spend in JOBS:
            return self.activity.fates.get(work.id, JobLifetime())
        return JobLifetime(done=work.high)

    def unfailed(self, work: SpendWork, until: Micros) -> bool | None:
        """Return whether a work had surely not failed by an instant; False where it surely had."""
        fate = self.fate(work)
        if fate.done < DISTANT_FUTURE or fate.alive >= until:
            return True
        return False if fate.failed < until else None

    def cools(self, work: SpendWork, call: SpendCall, kind: CooldownInterpretation) -> bool:
        """Return whether a work surely is of the same thing as a call, and had not failed by its end."""
        same = work.spend == call.spend and (kind.scope == "account" or work.domain == call.domain)
        return same and self.unfailed(work, call.high) is True

    def over(self, work: SpendWork) -> Micros:
        """Return the earliest instant at which the cooldown of what was accepted can be over."""
        length = self.lengths[work.spend]
        return work.low + (length - self.slack(length // self.rate)) // self.rate

    def latest_end(self, work: SpendWork, kind: CooldownInterpretation) -> Micros:
        """Return the latest instant at which the cooldown of a work can be over; DISTANT_FUTURE: unbound."""
        begun, length = self.latest_beginning(work, kind), self.lengths.get(work.spend)
        if begun == DISTANT_FUTURE or length is None:
            return DISTANT_FUTURE
        return begun + (length + self.slack(length // self.rate)) // self.rate

    def begun_by(self, refused: SpendCall, wait: tuple[Micros, Micros]) -> Span:
        """Return when a cooldown of which so much is left began.

        Its end may be rounded up to a whole second, and the wait once more.
        """
        (least, most), length = wait, self.lengths[refused.spend]
        shortest = (length - most - SECOND) * DRIFT // (self.rate * (DRIFT + 1))
        longest = (length - least + 2 * SECOND) * DRIFT // (self.rate * (DRIFT - 1)) + 1
        return refused.low - longest, refused.high - shortest

    def slack(self, span: Micros) -> Micros:
        """Return what clocks may drift in a span of the trace, and what whole seconds hide (business µs)."""
        return self.rate * (abs(span) // DRIFT) + SECOND

    def about(self, call: SpendCall) -> str:
        """Name what is repeated."""
        return f"{self.activity.about}, {call.spend} on {call.domain or 'a domain not known'}"
