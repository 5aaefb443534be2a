"""What an account tracks and has done, in numbers that limits are held against: slots, and work by kind.

A workload is counted: it knows neither which domain tracks what nor who starts the work. A `Portfolio` of
like domains has one, and so has an account of a scenario (`planned.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from ranksim.core.callers.retry import Manners
from ranksim.core.clock import DAY, HOUR, WEEK, Micros, month_end, months_between
from ranksim.core.contract.parameters import Settings
from ranksim.core.contract.plans import SpendLabel
from ranksim.core.contract.policy import Policy
from ranksim.report import units

T = TypeVar("T")

MONTH = 31 * DAY
"""The longest billing month (µs)."""

TRIES = Manners().max_tries
"""How often the clients of a scenario call before they give up, unless it says otherwise."""


MOST_PARTS = 3
"""The changes of a time that are named."""

ALWAYS = (0, 1 << 62)
"""From when until when (µs) there is what nobody begins or ends."""

EVERY_MONTH = range(1, 1 << 31)
"""The months from now on, counted from 1, of what nobody begins or ends."""


def month_number(anchor: Micros, now: Micros, at: Micros) -> int:
    """Return the number of the billing month of an instant (µs), from 1, the one that has `now` (U51)."""
    return 1 + months_between(anchor, at) - months_between(anchor, now)


Number = int | Fraction
"""Of a workload that has grown in proportion; whoever holds it against a limit rounds it up, once."""


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """Planned work of one kind: `each` at every occasion, of which there are `times` in every `per` (µs).

    `size` is what one comes to: pages, questions, or for keywords that are added slots. `first` is when in
    the present billing month the first occasion falls (µs), None where nobody says; `most` is how many
    occasions there are in all, None without end; `months` are those from now on in which there are any.
    `phase` is when since 1970 an occasion falls (µs) of work that is always a period apart, and `instants`
    are all occasions (µs) of other work; `monthly` is how many a month has by the calendar, None of a longest
    one, and `there` is from when until when (µs) there are any by the calendar. Work that has `ended` counts
    until its month does: in what it cost and took, not in what is to come. Of a workload that has grown,
    `each` and `size` are what there is on average.
    """

    operation: SpendLabel
    each: Number
    times: int
    per: Micros
    size: Number = 1
    first: Micros | None = None
    most: int | None = None
    months: range = EVERY_MONTH
    phase: Micros | None = None
    there: tuple[Micros, Micros] = ALWAYS
    instants: tuple[Micros, ...] = ()
    monthly: int | None = None
    ended: bool = False

    def count(self, period: Micros, since: Micros | None = None) -> Number:
        """How many there are in a period (µs) at most, or in the one from `since` in the present month on."""
        if self.ended and since is None and period < MONTH:
            return 0
        if since is None or self.first is None:
            occasions = self._at_most(-(-period * self.times // self.per))
            return self.each * (occasions if self.monthly is None else min(occasions, self.monthly))
        return self._before(since + period) - self._before(since)

    def _before(self, t: Micros) -> Number:
        """How many there are by the calendar before a time in the present month."""
        assert self.first is not None
        return self.each * self._at_most(max(0, -(-(t - self.first) * self.times // self.per)))

    def _at_most(self, occasions: int) -> int:
        return occasions if self.most is None else min(occasions, self.most)

    def in_month(self, number: int, month: tuple[Micros, Micros] | None, longest: bool) -> PlannedWork:
        """The same in a month from now on, from its beginning (µs) to its end, or in one of 31 days.

        In the `longest` month only weekly work goes by the calendar.
        """
        if month is not None and self.instants:
            times = [at for at in self.instants if month[0] <= at < month[1]]
            return replace(self, first=(times or [month[1]])[0] - month[0], monthly=len(times))
        if month is None or self.phase is None or (longest and self.per < WEEK):
            return self if number == 1 or self.first is None else replace(self, first=self.first % self.per)
        begin, end = max(month[0], self.there[0]), min(month[1], self.there[1])
        before_begin, before_end = (-((self.phase - edge) // self.per) for edge in (begin, end))
        first = self.first if number == 1 else begin - month[0] + (self.phase - begin) % self.per
        return replace(self, first=first, monthly=max(0, before_end - before_begin))

    @property
    def gap(self) -> Micros:
        """The time between two occasions (µs), as evenly as can be."""
        return self.per // self.times


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What a workload does not count, as simulated: slots, cost of a month (µUSD) and units by metric.

    `since` has how much it is from an instant (µs) until the next, in the month of most by then; below 0
    where domains or words have been removed. `exact` has the months, counted from 1, that are known as they
    are, of their own days. `removed` is how much of it is below 0, which would have grown with the others.
    `starts` are those of domains that the account did not begin with, and `operations` what is done with all.
    """

    slots: int = 0
    spent: int = 0
    metrics: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[Micros, Uncounted] = field(default_factory=dict)
    exact: Mapping[int, Uncounted] = field(default_factory=dict)
    removed: Uncounted | None = None
    starts: tuple[JobStarts, ...] = ()
    operations: frozenset[str] = frozenset()

    def at(self, instant: Micros) -> Uncounted:
        """How much it is at an instant (µs), as in its month of most."""
        return replace(_latest(self.since, instant, self), since=self.since, exact=self.exact)

    def grown(self, factor: Fraction) -> Uncounted:
        """The same of so many times the domains, of which so many times as many are removed."""
        if self.removed is None:
            return self
        scaled = Uncounted(
            math.ceil(self.removed.slots * factor),
            math.ceil(self.removed.spent * factor),
            {metric: math.ceil(units * factor) for metric, units in self.removed.metrics.items()},
        )
        return replace(
            self,
            slots=self.slots - self.removed.slots + scaled.slots,
            spent=self.spent - self.removed.spent + scaled.spent,
            metrics={
                metric: units - self.removed.metrics[metric] + scaled.metrics[metric]
                for metric, units in self.metrics.items()
            },
            removed=scaled,
        )


@dataclass(frozen=True, slots=True)
class JobStarts:
    """Jobs of one `kind` that are started together, for so many `domains`, at each of some `times` (µs).

    The domains are those of some `numbers`, counted from 0, and without any the account's first.
    They are spread evenly over `spread` (µs), with the API key of a name; each takes so many `calls` of the
    expensive class, and each call is tried `tries` times at most. With a `gap` (µs) they are requests that
    go one after the other, so long after the reply before. `months` are those from now on, counted from 1, in
    which there are any.
    """

    kind: SpendLabel
    domains: int
    times: tuple[Micros, ...]
    spread: Micros = 0
    tries: int = TRIES
    calls: int = 1
    key: str = ""
    gap: Micros | None = None
    numbers: tuple[int, ...] = ()
    months: range = EVERY_MONTH

    def domain(self, index: int) -> tuple[int, int]:
        """Return which domain is started as the one of an index: its number, and as which of its copies.

        Where there are more than the account had, each of its domains is there several times.
        """
        if not self.numbers:
            return index, 0
        copy, which = divmod(index, len(self.numbers))
        return self.numbers[which], copy


@dataclass(frozen=True, slots=True)
class Used:
    """What is used so far: units by metric, cost of the month (µUSD), held slots.

    `month` and `week` are how much of the billing month and of the week has gone (µs), `left` how much of the
    month is still to come.
    """

    metrics: Mapping[str, int]
    spent: int
    held: int
    month: Micros
    week: Micros
    left: Micros


@dataclass(frozen=True, slots=True)
class Later:
    """What a timeline sets at an instant (µs), by path; the `load` and the `policy` from then on.

    It falls into a `month` from now on, counted from 1. `others` tell what else changes then: clients that
    begin or stop, and what the account tracks or has.
    """

    at: Micros
    month: int
    sets: Settings
    load: Workload
    policy: Policy
    others: tuple[str, ...] = ()

    @property
    def changes(self) -> str:
        """What changes then, "" where only a month begins, in which nothing of before counts any more."""
        parts = (*(f"{path} is {value}" for path, value in self.sets.items()), *self.others)
        return " and ".join(parts) if len(parts) <= MOST_PARTS else units.first_of(parts, MOST_PARTS)


@dataclass(frozen=True, slots=True)
class Workload:
    """What `domains` track and have done: `slots` in all, at most so many `pairings` and `geographies`.

    Of the `keywords` that they track together one takes `each` slots at most, counted over all its scans.
    `starts` is when jobs are started, by the calendar, for long enough to see every occasion; each key stands
    for `keys` of them. By kind of job `gaps` has the least time between two starts of a domain (µs), which is
    what `gaps_since` has from a month from now on, and `lengths` how long one takes, where that is not what
    the catalogue says. Rank runs of all domains are to be started within `start_within` (µs).
    `name` is the account's, `plan` the one it has, `used` what it used of this month; `notes` tell what is
    not counted, and `left_out` how much that is. `now` is when the first month begins (µs), None where nobody
    says, and `anchor` what the billing months are counted from, `now` unless it is given (U51). `later` is
    what it is once a timeline has set something or a client fills lists, whoever is at work then, and `times`
    what it is from the beginning on at each time, with what is there and at work then; none of what is no
    account of a scenario.
    """

    domains: int
    keywords: int
    each: int
    slots: int
    pairings: int
    geographies: int
    work: tuple[PlannedWork, ...] = ()
    starts: tuple[JobStarts, ...] = ()
    gaps: Mapping[str, Micros] = field(default_factory=dict)
    gaps_since: Mapping[int, Mapping[str, Micros]] = field(default_factory=dict)
    lengths: Mapping[str, Micros] = field(default_factory=dict)
    start_within: Micros = HOUR
    keys: int = 1
    add_ons: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    plan: str = ""
    now: Micros | None = None
    anchor: Micros | None = None
    used: Used | None = None
    left_out: Uncounted = field(default_factory=Uncounted)
    notes: tuple[str, ...] = ()
    later: tuple[Later, ...] = ()
    times: tuple[Later, ...] = ()

    @property
    def all_starts(self) -> tuple[JobStarts, ...]:
        """When jobs are started, those of domains that have joined too, which do not grow."""
        return self.starts + self.left_out.starts

    def of(self, *operations: str) -> list[PlannedWork]:
        """The work of some kinds that goes on."""
        return [work for work in self.of_month(*operations) if not work.ended]

    def of_month(self, *operations: str) -> list[PlannedWork]:
        """The work of some kinds, with what has ended in the month."""
        return [work for work in self.work if work.operation in operations]

    def count(self, operations: Iterable[str], period: Micros, since: Micros | None = None) -> Number:
        """How often all domains do something in a period (µs): jobs, or keywords of briefs and additions."""
        return sum(work.count(period, since) for work in self.of_month(*operations))

    def largest(self, *operations: str) -> int:
        """The largest size of some kinds of work, 0 where there is none."""
        return math.ceil(max((work.size for work in self.of(*operations)), default=0))

    def over(self, spread: Micros) -> Workload:
        """The same with the starts of each occasion spread over so long (µs), but for requests in a row."""
        later, times = (
            tuple(replace(then, load=then.load.over(spread)) for then in thens)
            for thens in (self.later, self.times)
        )
        starts, left_out = _over(self.starts, spread), _all_over(self.left_out, spread)
        return replace(self, starts=starts, left_out=left_out, later=later, times=times)

    def month(self, number: int) -> tuple[Micros, Micros] | None:
        """When a billing month from now on, counted from 1, begins and ends (µs); None where nobody says.

        Of the first one it is what is left of it.
        """
        if self.now is None:
            return None
        anchor, begins = self.now if self.anchor is None else self.anchor, self.now
        for _ in range(number - 1):
            begins = month_end(anchor, begins)
        return begins, month_end(anchor, begins)

    def in_month(self, number: int) -> Workload:
        """The same in a month from now on, counted from 1: of what is used already only that one knows."""
        month, exact = self.month(number), self.left_out.exact.get(number)
        left_out = exact or (self.left_out.at(month[0]) if month else self.left_out)
        longest = exact is None and len(self.left_out.since) > 1  # which is what is told of what changes
        there = (work.in_month(number, month, longest) for work in self.work if number in work.months)
        return replace(
            self,
            work=tuple(work for work in there if work.monthly != 0),
            starts=_of_month(self.starts, number),
            gaps=_latest(self.gaps_since, number, self.gaps),
            used=self.used if number == 1 else None,
            left_out=replace(left_out, starts=_of_month(left_out.starts, number)),
        )

    def of_domains(self, domains: int) -> Workload:
        """The same with so many domains, in proportion: what they track and have done grows as they do.

        Of domains that differ there are then as many of each kind as there were, on average.
        """
        grown = Fraction(domains, self.domains)
        return replace(
            self,
            domains=domains,
            keywords=math.ceil(self.keywords * grown),
            slots=math.ceil(self.slots * grown),
            starts=tuple(_grown(self.starts, grown)),
            work=tuple(replace(work, each=work.each * grown) for work in self.work),
            left_out=self.left_out.grown(grown),
        )

    def of_keywords(self, keywords: int) -> Workload:
        """The same with so many keywords a domain, on average: slots and what is done with words grow so."""
        total = keywords * self.domains
        grown = Fraction(total, self.keywords)
        work = []
        for planned in self.work:
            if planned.operation == "rank_run":
                planned = replace(planned, size=planned.size * grown)
            elif planned.operation == "keywords":
                planned = replace(planned, each=planned.each * grown)
            work.append(planned)
        return replace(self, keywords=total, slots=math.ceil(self.slots * grown), work=tuple(work))


def _latest(since: Mapping[int, T], number: int, otherwise: T) -> T:
    """Return what there is since the last month, or instant, up to that one."""
    return since.get(max((begun for begun in since if begun <= number), default=0), otherwise)


def _of_month(starts: Iterable[JobStarts], number: int) -> tuple[JobStarts, ...]:
    return tuple(start for start in starts if number in start.months)


def _over(starts: Iterable[JobStarts], spread: Micros) -> tuple[JobStarts, ...]:
    return tuple(replace(start, spread=spread) if start.gap is None else start for start in starts)


def _all_over(left_out: Uncounted, spread: Micros) -> Uncounted:
    since, exact = (
        {time: _all_over(each, spread) for time, each in times.items()}
        for times in (left_out.since, left_out.exact)
    )
    return replace(left_out, starts=_over(left_out.starts, spread), since=since, exact=exact)


LoadUnder = Callable[[Policy], Workload]
"""A workload that is counted as the assumptions of a policy have it."""


def _grown(starts: Iterable[JobStarts], grown: Fraction) -> Iterator[JobStarts]:
    """Yield so many times the starts: whole ones, which together are as many as there are in proportion."""
    before = 0
    for start in starts:
        total = before + start.domains
        yield replace(start, domains=math.floor(total * grown) - math.floor(before * grown))
        before = total
