"""How long it takes to add and remove keywords under the rate limits, and the best pace (S32, S103, U1, U2).

Nothing is estimated: every call is taken by `rules.windows` itself, call by call, under each of the five
algorithms that a 60 s window could mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import check_kind
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.planner.capacity.common import DurationField, check_least, check_numbers, expect, question_repr
from ranksim.planner.readings import consulting
from ranksim.report.answer import ReadyAnswer
from ranksim.report.readings import NO_READINGS, READINGS, Readings, under_readings
from ranksim.report.table_spec import Tables, TableSpec
from ranksim.report.tables import View
from ranksim.report.units import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Way = Literal["retry", "wait", "paced"]
Change = Literal["add", "remove"]
OpenWindow = tuple[Window, list[int]]
"""A window, and its ring."""

MANY = 200_000
"""Requests of a sync, which at 120 a minute take more than a day."""

WAYS: dict[Way, str] = {
    "retry": "call until refused, then wait Retry-After",
    "wait": "call while RateLimit-Remaining allows, then wait",
    "paced": "evenly, as fast as nobody is refused",
}

SCHEDULES = TableSpec(
    {
        "window": "text",
        "way": "text",
        "pace": "duration",
        "time": "duration",
        "calls": "count",
        "refused": "count",
        "others_refused": "count",
    },
    keys=("window", "way"),
    metrics=("time", "pace", "calls", "refused"),
)


@dataclass(frozen=True)
class Sync:
    """What is sent with one key: `keywords` new ones, `batch` in each POST, and `removals`, a DELETE each.

    A POST is for one list of keywords: `lists` says how many go to each, all to one unless it is given;
    `removed` says how many are removed from each, before others come, and is dealt over them unless given.
    A reply takes `latency` (µs), and the next request follows it after `gap` (µs). Other clients of the same
    key make `others` calls per window of the rate class of a POST, evenly, and never repeat one.
    """

    keywords: int
    batch: int = 100
    removals: int = 0
    latency: DurationField = DurationField(0)
    others: int = 0
    lists: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    gap: DurationField = DurationField(0)

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        check_least(self, 0, "keywords", "removals")
        check_least(self, 1, "batch")
        check_least(self, 0, "latency", "others", "gap")
        expect(
            not self.lists or sum(self.lists) == self.keywords,
            "lists",
            f"the {self.keywords} keywords, dealt over them",
            sum(self.lists),
        )
        expect(
            not self.removed or (sum(self.removed), len(self.removed)) == (self.removals, len(self.added)),
            "removed",
            f"the {self.removals} removals, dealt over {len(self.added)} lists",
            f"{sum(self.removed)} over {len(self.removed)}",
        )
        expect(self.requests >= 1, "keywords", "something to send", "nothing")
        expect(
            self.requests <= MANY, "keywords", f"at most {MANY} requests; make batches larger", self.requests
        )

    @property
    def added(self) -> tuple[int, ...]:
        """How many keywords go to each list."""
        return self.lists or (self.keywords,)

    @property
    def requests(self) -> int:
        """Requests that must be admitted: one for each batch of a list and each removal."""
        return sum(-(-words // self.batch) for words in self.added) + self.removals

    @property
    def calls(self) -> Iterator[Change]:
        """The requests in their order: of each list what is removed, then what is added."""
        removed = self.removed or dealt(self.removals, len(self.added))
        for removals, words in zip(removed, self.added, strict=True):
            yield from repeat("remove", removals)
            yield from repeat("add", -(-words // self.batch))

    @property
    def counted(self) -> str:
        """Its requests in words."""
        adding = self.requests - self.removals
        parts = f", {adding:,} to add and {self.removals:,} to remove," if self.removals else ""
        return f"{self.requests:,} requests{parts}"


def dealt(keywords: int, lists: int) -> tuple[int, ...]:
    """Return how many keywords each of some lists has, to which they are dealt in turn."""
    return tuple(len(range(number, keywords, lists)) for number in range(lists))


@dataclass(frozen=True, slots=True)
class SyncSchedule:
    """One way under one algorithm: `time` from the first call to the last reply, `pace` between calls.

    `time` is None where the other clients starve the sync (refused calls that count, U4, can do that).
    `calls` counts what was sent, `refused` the 429s among it, `others_refused` those of the other clients.
    """

    window: str
    way: Way
    pace: Micros | None
    time: Micros | None
    calls: int
    refused: int
    others_refused: int


Schedules = tuple[SyncSchedule, ...]


@dataclass(frozen=True, slots=True, repr=False)
class SyncTime(ReadyAnswer):
    """The answer: every way under every algorithm; `assumed` is the algorithm of the policy.

    `limit` calls pass in `length` (µs); of removals `writes` do, in a window of their own, unless it is 0.
    `safe_pace` (µs) is the fastest even pace at which nobody is refused whatever the algorithm, or None.
    """

    kind = "capacity sync"
    title = "How long a sync takes"
    plots = ("sync",)
    TABLES = MappingProxyType({"answer": SCHEDULES, "readings": READINGS})

    sync: Sync
    assumed: str
    limit: int
    length: Micros
    plans: Schedules
    safe_pace: Micros | None
    writes: int = 0
    remarks: tuple[str, ...] = ()
    readings: Readings = NO_READINGS

    @property
    def notes(self) -> tuple[str, ...]:
        """What it hangs on, and what to know of what was asked."""
        return self.readings.around(*self.remarks)

    @property
    def best(self) -> SyncSchedule:
        """The way to choose: the quickest of the policy's algorithm by which nobody is refused.

        Where several are equally quick, the even one; where none is without refusals, the one with fewest.
        """
        return _best([plan for plan in self.plans if plan.window == self.assumed])

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        best = self.best
        if best.time is None:
            return f"{self.sync.counted} never get through under {self.assumed}."
        pace = f", one every {duration(best.pace)}" if best.pace else ""
        text = f"{self.sync.counted} {_taken(best)} under {self.assumed}: {WAYS[best.way]}{pace}."
        if self.safe_pace:
            text += f" One every {duration(self.safe_pace)} is refused under none of the five."
        return text

    @property
    def tables(self) -> Tables:
        """One row for each algorithm and way."""
        return {"answer": [asdict(plan) for plan in self.plans], **self.readings.tables()}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        apart = f", and {self.writes} writes" if self.writes else ""
        title = f"{self.sync.counted} at {self.limit} per {duration(self.length)}{apart}"
        note = "; ".join(f"{way}: {what}" for way, what in WAYS.items()) + "."
        return SCHEDULES.view(title, self.rows(), note)

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        return plots.sync(self.rows(), ax)


def sync_time(sync: Sync, policy: Policy | str | Path | None = None, *, start: Micros = 0) -> SyncTime:
    """Schedule a sync under all five algorithms, each way.

    An addition is of the rate class of POST keywords (U2), a removal is a write (S103); limits and length are
    the policy's. `start` is when it begins, which clock windows mind. The answer's `readings` are what other
    assumptions would make of it. Raises BadInput when others leave no room.
    """
    check_kind("sync", sync, Sync, "a Sync, such as Sync(keywords=30_000)")
    policy = policy_of(policy)
    schedules = cache(partial(_schedules, sync))
    assumed, readings = under_readings(
        consulting(partial(rate_window_of, sync, start=start)),
        policy,
        lambda window: _best_time(sync, window, schedules),
    )
    room = f"fewer than the {assumed.limit} calls of a window"
    expect(sync.others < assumed.limit, "others", room, sync.others)
    rate_windows = [replace(assumed, kind=name) for name in windows.NAMES]
    plans = tuple(plan for window in rate_windows for plan in schedules(window))
    safe = fastest_pace(rate_windows, sync)
    limits = assumed.limit, assumed.length
    return SyncTime(sync, assumed.kind, *limits, plans, safe, assumed.writes, readings=readings)


def rate_window_of(sync: Sync, policy: Policy, start: Micros = 0) -> RateWindow:
    """Return the window that a sync's calls pass under a policy, untouched at `start`."""
    policy.check_by_class()
    assumptions, rates, length = policy.assumptions, policy.facts.rates, policy.facts.rate_window
    refused = int(assumptions.refused_calls_count)
    if not sync.keywords or assumptions.tracking_class == "write":
        return RateWindow(assumptions.window, rates.of(RateClass.WRITE), length, refused, start)
    debits = assumptions.expensive_debits_write
    writes = rates.of(RateClass.WRITE) if sync.removals or debits else 0
    return RateWindow(
        assumptions.window, rates.of(RateClass.EXPENSIVE), length, refused, start, writes, debits
    )


def _best_time(sync: Sync, window: RateWindow, schedules: Callable[[RateWindow], Schedules]) -> str:
    """Say how long the best way takes: what other assumptions may change."""
    if sync.others >= window.limit:
        return "other clients leave no room"
    best = _best(schedules(window))
    return "they never get through" if best.time is None else f"they {_taken(best)}"


def _taken(best: SyncSchedule) -> str:
    refused = best.refused + best.others_refused
    return f"take {duration(best.time or 0)} with{' the fewest' if refused else 'out'} refusals"


def _best(plans: Sequence[SyncSchedule]) -> SyncSchedule:
    """Return the quickest by which nobody is refused, the even one of equals, else that with fewest."""
    through = [plan for plan in plans if plan.time is not None] or plans
    return min(through, key=lambda p: (p.refused + p.others_refused, p.time or 0, p.way != "paced"))


def _schedules(sync: Sync, window: RateWindow) -> Schedules:
    """Schedule a sync each way that gets through a window."""
    pace = fastest_pace([window], sync)
    even = () if pace is None else (evenly(window, sync, pace),)
    return (eager(window, sync, "retry"), eager(window, sync, "wait"), *even)


@dataclass(frozen=True, slots=True)
class RateWindow:
    """The window that a key's calls must pass, untouched at `start`.

    Where additions are of another class than removals, `writes` is the limit of these, in a window of their
    own, which is 0 otherwise; with `debits` an addition must pass both (U3).
    """

    kind: str
    limit: int
    length: Micros
    counts_refused: int = 0
    start: Micros = 0
    writes: int = 0
    debits: bool = False

    def open(self, limit: int = 0) -> OpenWindow:
        """Return a fresh window and its ring, of its own limit unless another is given."""
        limit = limit or self.limit
        window = Window(
            kind=windows.NAMES.index(self.kind),
            limit=limit,
            length=self.length,
            counts_refused=self.counts_refused,
        )
        windows.start(window)
        return window, [0] * limit if self.kind == "sliding_log" else []

    def rows(self) -> dict[Change, tuple[OpenWindow, ...]]:
        """Return fresh windows, those that each call must pass in the order in which it is refused."""
        adding = self.open()
        removing = self.open(self.writes) if self.writes else adding
        return {"add": (adding, removing) if self.debits else (adding,), "remove": (removing,)}


class Traffic:
    """Windows in use: the sync's calls, and between them those of the others, half a gap off."""

    def __init__(self, window: RateWindow, others: int) -> None:
        self.rows = window.rows()
        self.others_refused = 0
        self._others = _every(window, others)
        self._next = next(self._others, None)

    def pass_others(self, now: Micros) -> None:
        """Let the other clients' calls up to `now` pass first."""
        while self._next is not None and self._next <= now:
            self.others_refused += not _take(self._next, self.rows["add"])
            self._next = next(self._others, None)

    def take(self, now: Micros, change: Change) -> bool:
        """Make a call now: whether it is admitted."""
        self.pass_others(now)
        return _take(now, self.rows[change])

    def retry_after(self, now: Micros, change: Change) -> Micros:
        """How long until the window that refuses a call would admit it, if nobody comes before."""
        self.pass_others(now)
        waits = (windows.retry_after(now, *row) for row in self.rows[change])
        return next((wait for wait in waits if wait), 0)


def _take(now: Micros, rows: tuple[OpenWindow, ...]) -> bool:
    """Make a call that windows must all admit: the first without room refuses it, and counts it alone."""
    if len(rows) > 1:
        full = [row for row in rows if not windows.remaining(now, *row)]
        rows = (full[0],) if full else rows
    return all(windows.take(now, *row) for row in rows)


def _every(window: RateWindow, others: int) -> Iterator[Micros]:
    """The instants of the others' calls, `others` in each window."""
    number = 0
    while others:
        yield window.start + (2 * number + 1) * window.length // (2 * others)
        number += 1


def eager(window: RateWindow, sync: Sync, way: Literal["retry", "wait"]) -> SyncSchedule:
    """Call as soon as the last reply is there.

    "retry" runs into the 429 and waits its Retry-After, whole seconds and at least one (U6); "wait" looks at
    the headers of the last reply, so it is refused only where other clients come in between.
    """
    traffic = Traffic(window, sync.others)
    now, calls = window.start, 0
    # A window that admits anybody at all admits one call of the sync.
    latest = now + (sync.requests + 2) * ((1 + window.debits) * window.length + sync.latency + sync.gap)
    for done, change in enumerate(sync.calls):
        while True:
            if now > latest:
                return SyncSchedule(window.kind, way, None, None, calls, calls - done, traffic.others_refused)
            if way == "wait" and (pause := traffic.retry_after(now, change)):
                now += pause
                continue
            calls += 1
            if traffic.take(now, change):
                now += sync.latency + sync.gap
                break
            # The reply says how long, and is itself as slow as any.
            wait = max(1, -(-traffic.retry_after(now, change) // SECOND)) * SECOND
            now += sync.latency + wait
    time, refused = now - sync.gap - window.start, calls - sync.requests
    return SyncSchedule(window.kind, way, None, time, calls, refused, traffic.others_refused)


def fastest_pace(rate_windows: Sequence[RateWindow], sync: Sync) -> Micros | None:
    """Find the fastest even pace (µs) at which nobody is refused in any of the windows, the others included.

    Tried are all calls back to back, then one call every length / k for k from the limit down; None when
    even one call a window is refused, or refuses somebody.
    """
    first = rate_windows[0]
    for per_window in (None, *range(max(first.limit, first.writes), 0, -1)):
        gap = 0 if per_window is None else -(-first.length // per_window)
        pace = max(gap, sync.latency + sync.gap)
        trials = (evenly(window, sync, pace) for window in rate_windows)
        if not any(trial.refused or trial.others_refused for trial in trials):
            return pace
    return None


def evenly(window: RateWindow, sync: Sync, pace: Micros) -> SyncSchedule:
    """Call every `pace`, whatever the replies; it ends with the first refusal, or when all calls are made.

    The other clients' calls are watched for a window longer.
    """
    traffic = Traffic(window, sync.others)
    now = window.start
    for number, change in enumerate(sync.calls):
        now = window.start + number * pace
        refused = 1 - int(traffic.take(now, change))
        if refused or traffic.others_refused:
            return SyncSchedule(window.kind, "paced", pace, None, number + 1, refused, traffic.others_refused)
    traffic.pass_others(now + window.length)
    time = now + sync.latency - window.start
    return SyncSchedule(window.kind, "paced", pace, time, sync.requests, 0, traffic.others_refused)
