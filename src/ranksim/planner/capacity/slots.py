"""Slot use under churn, and the chance of a slot_limit_exceeded by each day (S26, S27, E17, E18).

Within a billing month what is used (active and held) only grows: a removal turns active slots into held
ones, and a word that comes back takes its own hold (U63). Only fresh words count, so nobody has been refused
by a day exactly when the fresh words up to it fit what the month began with. At the end of the month the
holds drop, and the next begins with what is still tracked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

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

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        expect(0 <= self.keywords <= MANY, "keywords", f"0 to {MANY}", self.keywords)
        check_least(self, 1, "pairings", "geographies")
        check_least(self, 0, "held")
        for what, rate in (("adds", self.adds), ("removals", self.removals)):
            expect(0 <= rate <= MANY_A_DAY, what, f"words a day, from 0 to {MANY_A_DAY}", rate)
            expect(self.law == "poisson" or rate == int(rate), what, "a whole number with law fixed", rate)
        expect_one_of(("poisson", "fixed"), "law", self.law)

    @property
    def slots_per_keyword(self) -> int:
        """Slots of one word (S23)."""
        return self.pairings * self.geographies


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
    """The answer: slot use and chance of refusal by day, under a limit of so many slots."""

    kind = "capacity slots"
    title = "How slots fill"
    plots = ("slots",)
    TABLES = MappingProxyType({"answer": DAYS})

    churn: Churn
    limit: int
    days: tuple[SlotDay, ...]
    notes: tuple[str, ...] = ()

    @property
    def room(self) -> int:
        """Fresh words that fit before the first refusal of the first month."""
        return (self.limit - self.churn.held) // self.churn.slots_per_keyword - self.churn.keywords

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
) -> SlotUse:
    """Compute slot use and the chance of a refusal by the end of each day.

    The account's billing months begin at `start` (U51; µs, or text such as "2026-03-01"), or are counted from
    an `anchor`, so that `start` lies in one of them: days are then those of that month, and the first is the
    one that `start` lies in. Words are added one request at a time, and one that does not fit is refused and
    forgotten. Exact for the law of the churn
    but for one thing: removals never outnumber the words there are, which is minded at the end of each month
    only. Raises BadInput.
    """
    check_kind("slots", churn, Churn, "a Churn, such as Churn(keywords=1000, adds=20)")
    limit = check_integer("limit", limit)
    start, anchor = day_of_month(moment("start", start), anchor)
    expect(1 <= days <= MANY_DAYS, "days", f"1 to {MANY_DAYS}", days)
    expect(limit >= 0, "limit", "0 or more", limit)
    each, held = churn.slots_per_keyword, churn.held
    most = (limit - held) // each
    besides = f" beside {held} that are held" if held else ""
    expect(
        churn.keywords <= most,
        "keywords",
        f"at most {most}, which is {limit} slots{besides} at {each} each",
        churn.keywords,
    )
    months = list(month_lengths(start, days, anchor))
    # More words than anybody will ever come to need no room in the tables.
    enough = churn.keywords + len(chances(churn.law, churn.adds * sum(months), limit // each))
    everyone = np.zeros(churn.keywords + 1)
    everyone[churn.keywords] = 1.0
    unrefused = everyone.copy()
    slot_days: list[SlotDay] = []
    for length in months:
        most = min((limit - held) // each, enough)
        everyone, unrefused = (_with_room(words, most) for words in (everyone, unrefused))
        for elapsed in range(1, length + 1):
            fresh = chances(churn.law, churn.adds * elapsed, most)
            used = _added(everyone, fresh)
            refused_by = 1.0 - float(_without_refusal(unrefused, fresh).sum())
            if len(slot_days) < days:
                slot_days.append(_day(len(slot_days) + 1, start, used, each, held, refused_by))
        fresh = chances(churn.law, churn.adds * length, most)
        dropped = chances(churn.law, churn.removals * length, most)
        everyone = _removed(_added(everyone, fresh), dropped)
        unrefused = _removed(_without_refusal(unrefused, fresh), dropped)
        held = 0
    return SlotUse(churn, limit, tuple(slot_days))


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


def _with_room(words: Chances, most: int) -> Chances:
    """The words of a month in which so many fit."""
    return np.pad(words, (0, max(0, most + 1 - len(words))))


def _added(words: Chances, fresh: Chances) -> Chances:
    """The words after additions, of which those beyond the limit are refused."""
    total = _convolved(words, fresh)
    most = len(words) - 1
    kept = total[: most + 1].copy()
    kept[most] += total[most + 1 :].sum()
    return kept


def _without_refusal(words: Chances, fresh: Chances) -> Chances:
    """The words after additions, counting only those histories in which all of them fitted."""
    return _convolved(words, fresh)[: len(words)]


def _removed(words: Chances, dropped: Chances) -> Chances:
    """The words after removals; there are never fewer than none."""
    total = _convolved(words, dropped[::-1])
    none = len(dropped) - 1
    kept = total[none:].copy()
    kept[0] += total[:none].sum()
    return kept


def _day(day: int, start: Micros, words: Chances, slots: int, held: int, refused_by: float) -> SlotDay:
    below = np.cumsum(words)
    low, middle, high = (held + slots * int(np.searchsorted(below, q - NEGLIGIBLE)) for q in QUANTILES)
    mean = held + slots * float(words @ np.arange(len(words)))
    return SlotDay(day, start + day * DAY, mean, low, middle, high, max(0.0, refused_by))
