"""Slot use under churn, and the chance of a slot_limit_exceeded by each day (S26, S27, E17, E18).

Within a billing month what is used (active and held) only grows: a removal turns active slots into held
ones, and a word that comes back takes its own hold (U63). Only fresh words count, so nobody has been refused
by a day exactly when the fresh words up to it fit what the month began with. At the end of the month the
holds drop, and the next begins with what is still tracked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DAY, Micros, billing_month
from ranksim.core.errors import check_integer, check_kind
from ranksim.core.extras import imported
from ranksim.inference.estimate import Estimate
from ranksim.planner.capacity.common import check_least, check_numbers, ends_of, expect, expect_one_of, moment
from ranksim.report.answer import ReadyAnswer
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View
from ranksim.report.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Law = Literal["poisson", "fixed"]
Chances = NDArray[np.float64]
"""Chance by number of words, from 0."""

QUANTILES = (0.05, 0.5, 0.95)
NEGLIGIBLE, DUST = 1e-12, 1e-18
MANY, MANY_A_DAY, MANY_DAYS = 10_000_000, 100_000, 366
"""Beyond these the answer would take long."""

DAYS = TableSpec(
    {
        "day": "count",
        "used_mean": "count",
        "used_p5": "count",
        "used_p50": "count",
        "used_p95": "count",
        "refused_by": "share",
    },
    others={"t": "instant"},
    keys=("day",),
    metrics=("used_mean", "used_p95", "refused_by"),
)
OBSERVED = {"observed_used": "count", "observed_refused": "share"}
"""Columns that are shown beside, where worlds were simulated."""


@dataclass(frozen=True, slots=True)
class Churn:
    """What an account tracks at first, and how that changes; `held` slots are held to its month's end.

    `beside` slots are those of words of other sizes, which stay.
    `adds` and `removals` are words a day, on average ("poisson") or exactly ("fixed"); a word that is removed
    and comes back in the same month counts in neither (U63).
    """

    keywords: int
    pairings: int = 1
    geographies: int = 1
    adds: float = 0.0
    removals: float = 0.0
    law: Law = "poisson"
    held: int = 0
    beside: int = 0

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        expect(0 <= self.keywords <= MANY, "keywords", f"0 to {MANY}", self.keywords)
        check_least(self, 1, "pairings", "geographies")
        check_least(self, 0, "held", "beside")
        for what, rate in (("adds", self.adds), ("removals", self.removals)):
            expect(0 <= rate <= MANY_A_DAY, what, f"words a day, from 0 to {MANY_A_DAY}", rate)
            expect(self.law == "poisson" or rate == int(rate), what, "a whole number with law fixed", rate)
        expect_one_of(("poisson", "fixed"), "law", self.law)

    @property
    def slots_per_keyword(self) -> int:
        """Slots of one word (S23)."""
        return self.pairings * self.geographies


class SlotChange(NamedTuple):
    """What else an account does at an instant (µs): slots of words that are added, and that are removed."""

    at: Micros
    added: int
    removed: int = 0


@dataclass(frozen=True, slots=True)
class SlotDay:
    """The end of one day: slots used, and the chance that an addition has been refused by then.

    Under `observed` stand the mean of the used slots and the share of refused accounts in simulated worlds,
    with their intervals, or None.
    """

    day: int
    t: Micros
    used_mean: float
    used_p5: int
    used_p50: int
    used_p95: int
    refused_by: float
    observed_used: Estimate | None = None
    observed_refused: Estimate | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SlotUse(ReadyAnswer):
    """The answer: slot use and chance of refusal by day, under a limit of so many slots.

    `to_come` are slots that the account takes besides in the first month, from the first day on.
    """

    kind = "capacity slots"
    title = "How slots fill"
    plots = ("slots",)
    TABLES = MappingProxyType({"answer": DAYS})

    churn: Churn
    limit: int
    days: tuple[SlotDay, ...]
    notes: tuple[str, ...] = ()
    to_come: int = 0

    @property
    def room(self) -> int:
        """Fresh words that fit before the first refusal of the first month."""
        left = self.limit - self.churn.held - self.churn.beside - self.to_come
        return max(0, left // self.churn.slots_per_keyword - self.churn.keywords)

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        last = self.days[-1]
        return (
            f"{self.room:,} fresh words fit; by day {last.day} an addition has been refused "
            f"with a chance of {percent(last.refused_by)}."
        )

    @property
    def tables(self) -> Tables:
        """One row a day; intervals of what was observed as `…_low` and `…_high`."""
        return {"answer": [_row(day) for day in self.days]}

    def views(self) -> list[View]:
        """The table for people; the columns of what was observed only where worlds were simulated."""
        observed = OBSERVED if self.days[0].observed_used is not None else {}
        table = DAYS._replace(visible={**DAYS.visible, **observed})
        return table.view(f"Slots used at the end of each day, of {self.limit:,}", self.rows())

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        return plots.slots(self.rows(), self.limit, ax)


def _row(day: SlotDay) -> Row:
    observed = [ends_of(name, getattr(day, name)) for name in OBSERVED]
    return {**asdict(day), **observed[0], **observed[1]}


def slot_use(
    churn: Churn,
    limit: int,
    *,
    start: Micros | str = 0,
    days: int = 31,
    anchor: Micros | None = None,
    others: Sequence[SlotChange] = (),
) -> SlotUse:
    """Compute slot use and the chance of a refusal by the end of each day.

    The account's billing months begin at `start` (U51; µs, or text such as "2026-03-01"), or are counted from
    an `anchor`, so that `start` lies in one of them: days are then those of that month, and the first is the
    one that `start` lies in. Words are added one request at a time, and one that does not fit is refused and
    forgotten. What `others` add, as a keyword sync does, comes first on its day; once something of it does
    not fit, the slots are taken to be full to the end of the month. Exact for the law of the churn
    but for one thing: removals never outnumber the words there are, which is minded at the end of each month
    only. Raises BadInput.
    """
    check_kind("slots", churn, Churn, "a Churn, such as Churn(keywords=1000, adds=20)")
    limit = check_integer("limit", limit)
    start, anchor = day_of_month(moment("start", start), anchor)
    expect(1 <= days <= MANY_DAYS, "days", f"1 to {MANY_DAYS}", days)
    expect(limit >= 0, "limit", "0 or more", limit)
    each, held, beside = churn.slots_per_keyword, churn.held, churn.beside
    most = (limit - held - beside) // each
    taken = [f"{held} that are held"] * bool(held) + [f"{beside} of words of other sizes"] * bool(beside)
    besides = f" beside {' and '.join(taken)}" if taken else ""
    expect(
        churn.keywords <= most,
        "keywords",
        f"at most {most}, which is {limit} slots{besides} at {each} each",
        churn.keywords,
    )
    months = list(month_lengths(start, days, anchor))
    slot_days = islice(_slot_days(churn, limit, start, months, others), days)
    to_come = sum(change.added for change in others if 0 <= change.at - start < months[0] * DAY)
    return SlotUse(churn, limit, tuple(slot_days), to_come=to_come)


def _slot_days(
    churn: Churn, limit: int, start: Micros, months: Sequence[int], others: Sequence[SlotChange]
) -> Iterator[SlotDay]:
    """Yield the days of months of such lengths; words are followed anew from each day on that takes more."""
    each, law, added, removed = churn.slots_per_keyword, churn.law, Counter[int](), Counter[int]()
    for change in others:
        added[(change.at - start) // DAY] += change.added
        removed[(change.at - start) // DAY] += change.removed
    # More words than anybody will ever come to need no room in the tables.
    enough = churn.keywords + len(chances(law, churn.adds * sum(months), limit // each))
    words, beside, held, begin = _Words.of(churn.keywords), churn.held + churn.beside, churn.held, 0
    for length in months:
        since, most = begin, max(-1, min((limit - beside) // each, enough))
        now = words = words.with_room(most)
        begin += length
        for day in range(since, begin):
            if added[day]:
                words, since = now, day
                beside, held = beside + added[day], held + removed[day]
                most = max(-1, min((limit - beside) // each, enough))
            now = words.with_fresh(chances(law, churn.adds * (day + 1 - since), most), most)
            yield _day(day + 1, start, now, each, beside, limit)
        words = now.without(chances(law, churn.removals * length, len(now.everyone) - 1))
        beside, held = beside - held, 0


def day_of_month(start: Micros, anchor: Micros | None) -> tuple[Micros, Micros]:
    """Return the instant at which that day of a billing month begins that `start` lies in, and the anchor."""
    if anchor is None:
        return start, start
    begin, _ = billing_month(anchor, start)
    return start - (start - begin) % DAY, anchor


def month_lengths(start: Micros, days: int, anchor: Micros | None = None) -> Iterator[int]:
    """Yield the days left of the billing months of an anchor from `start` on, until `days` are covered."""
    covered, anchor = 0, start if anchor is None else anchor
    while covered < days:
        now = start + covered * DAY
        left = (billing_month(anchor, now)[1] - now) // DAY
        yield left
        covered += left


def chances(law: Law, mean: float, most: int) -> Chances:
    """Return the chance of 0, 1, … words; the last entry, at most at `most + 1`, holds all beyond.

    Raises BadInput for the law of Poisson without SciPy.
    """
    if law == "fixed":
        pmf = np.zeros(min(round(mean), most + 1) + 1)
        pmf[-1] = 1.0
        return pmf
    poisson = imported("scipy.stats", "the chances of Poisson numbers need SciPy", "study").poisson
    top = min(int(poisson.isf(NEGLIGIBLE, mean)) + 1, most + 1) if mean > 0 else 0
    pmf = np.asarray(poisson.pmf(np.arange(top + 1), mean), dtype=np.float64)
    pmf[-1] = poisson.sf(top - 1, mean)
    return _without_dust(pmf)


def _without_dust(words: Chances) -> Chances:
    """Drop what is too unlikely to matter, so that sums run over the likely numbers alone."""
    return np.where(words < DUST, 0.0, words)


def _convolved(words: Chances, others: Chances) -> Chances:
    """The chances of a sum; chances that are 0 at either end cost nothing."""
    total = np.zeros(len(words) + len(others) - 1)
    here, there = np.flatnonzero(words), np.flatnonzero(others)
    if len(here) and len(there):
        part = np.convolve(words[here[0] : here[-1] + 1], others[there[0] : there[-1] + 1])
        first = here[0] + there[0]
        total[first : first + len(part)] = part
    return _without_dust(total)


class _Words(NamedTuple):
    """The chance of each number of words: over all histories, and those in which nothing was refused."""

    everyone: Chances
    unrefused: Chances

    @classmethod
    def of(cls, words: int) -> _Words:
        """So many words for sure."""
        sure = np.zeros(words + 1)
        sure[words] = 1.0
        return cls(sure, sure)

    def with_room(self, most: int) -> _Words:
        """The words of a month in which so many fit."""
        return _Words._make(np.pad(words, (0, max(0, most + 1 - len(words)))) for words in self)

    def with_fresh(self, fresh: Chances, most: int) -> _Words:
        """The words after additions, of which those beyond so many are refused."""
        return _Words(_added(self.everyone, fresh, most), _convolved(self.unrefused, fresh)[: most + 1])

    def without(self, dropped: Chances) -> _Words:
        """The words after removals."""
        return _Words._make(_removed(words, dropped) for words in self)


def _added(words: Chances, fresh: Chances, most: int) -> Chances:
    """The words after additions, of which those beyond the limit are refused; more stay as they are."""
    if most < 0:
        return words
    total = _convolved(words[: most + 1], fresh)
    bounded = total[: most + 1].copy()
    bounded[-1] += total[most + 1 :].sum()
    return np.concatenate([bounded, words[most + 1 :]])


def _removed(words: Chances, dropped: Chances) -> Chances:
    """The words after removals; there are never fewer than none."""
    total = _convolved(words, dropped[::-1])
    none = len(dropped) - 1
    bounded = total[none:].copy()
    bounded[0] += total[:none].sum()
    return bounded


def _day(day: int, start: Micros, words: _Words, each: int, beside: int, limit: int) -> SlotDay:
    slots = np.minimum(beside + each * np.arange(len(words.everyone)), limit)
    below = np.cumsum(words.everyone)
    low, middle, high = (int(slots[np.searchsorted(below, q - NEGLIGIBLE)]) for q in QUANTILES)
    refused_by = max(0.0, 1.0 - float(words.unrefused.sum()))
    return SlotDay(day, start + day * DAY, float(words.everyone @ slots), low, middle, high, refused_by)
