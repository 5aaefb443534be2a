"""Starts of jobs that come together: how many the rate limit puts off, and for how long (S104, U1, U6)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import heapify, heappop, heappush
from itertools import count, pairwise
from operator import attrgetter
from typing import NamedTuple

from ranksim.core.clock import DAY, MINUTE, SECOND, Micros
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import windows
from ranksim.planner.capacity.limits import MOST
from ranksim.planner.capacity.sync import RateWindow
from ranksim.planner.capacity.workload import TRIES, JobStarts, Workload
from ranksim.report import units

BURST = "job starts in a burst"
"""The name of the limit that `most_domains` is."""

MOST_STARTS, MOST_KEYS = 300_000, 10_000
"""Beyond so many starts in a few occasions, and so many keys, nothing is looked for."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What becomes of the `starts` of jobs of one occasion, which come within `spread` (µs).

    `refused` counts calls answered 429, `given_up` the starts whose last try was one of them; `late` is the
    longest that one which was let in began after it would have (µs). `noun` is what one of them is called.
    """

    starts: int
    spread: Micros
    refused: int
    given_up: int
    late: Micros
    noun: str = "start"


NO_STARTS = Burst(0, 0, 0, 0, 0)
"""What becomes of nothing."""


class Start(NamedTuple):
    """A start that is planned at `at` (µs) for a `JobStarts.domain`, by one of a workload's `JobStarts`.

    Its occasion `began` then or earlier (µs), and has been waited for since the one `before` it: what is
    planned longer comes first where calls meet.
    """

    at: Micros
    by: int
    domain: tuple[int, int]
    began: Micros
    before: Micros


class Outcome(NamedTuple):
    """What becomes of an occasion, and how long each of its starts waited (µs), None of one given up.

    `first_answered` is how long its first call waited: a dry run before the start, or the start itself.
    """

    burst: Burst
    waited: Sequence[Micros | None]
    first_answered: Sequence[Micros]


def burst(starts: int, policy: Policy, *, spread: Micros = 0, keys: int = 1, tries: int = TRIES) -> Burst:
    """Start jobs evenly over `spread` (µs; 0: at one instant), dealt over the keys in turn.

    Whoever is refused calls again when Retry-After has gone (U6), `tries` times in all. Every call is taken
    by `rules.windows` under the algorithm that the policy names, each key with a fresh allowance.
    """
    return _busiest((JobStarts("rank_run", starts, (0,), spread, tries),), keys, policy)


def burst_of(load: Workload, policy: Policy) -> Burst:
    """Return what becomes of the starts of that occasion of a workload of which most are lost or put off."""
    return _busiest(load.all_starts, load.keys, policy)


def most_domains(load: Workload, plans: Iterable[Plan], policy: Policy) -> dict[str, int | None]:
    """Return by plan with how many domains none of the starts of a workload is lost, None without end.

    A start is lost that is given up, or let in so late that the plan's cooldown refuses the next of its
    domain, which it would not do otherwise.
    """
    most = cache(partial(_most_domains, load, policy))
    return {plan.name: most(_binding(load, plan, policy)) for plan in plans}


def lossy_plans(load: Workload, plans: Iterable[Plan], policy: Policy) -> set[str]:
    """Return the plans on which a start of a workload is lost, as `most_domains` has it."""
    if _number(load.all_starts) > MOST_STARTS:
        most = most_domains(load, plans, policy)
        return {name for name, domains in most.items() if domains is not None and load.domains > domains}
    is_lossy = cache(partial(_is_lossy, load, policy))
    return {plan.name for plan in plans if is_lossy(_binding(load, plan, policy))}


Cooldowns = tuple[tuple[str, Micros], ...]
"""Cooldowns (µs) by kind."""


def _binding(load: Workload, plan: Plan, policy: Policy) -> Cooldowns:
    """The cooldowns (µs, by kind) that the calendar keeps, and that starts which are put off might not."""
    late = max((start.tries * start.calls for start in load.all_starts), default=0) * (
        policy.facts.rate_window + SECOND
    )
    stated = ((kind, plan.cooldown_of(kind), gap) for kind, gap in load.gaps.items())
    return tuple((kind, cooldown) for kind, cooldown, gap in stated if gap - late < cooldown <= gap)


def _most_domains(load: Workload, policy: Policy, cooldowns: Cooldowns) -> int | None:
    def is_too_many(domains: int) -> bool:
        size = load.of_domains(domains)
        return _number(size.all_starts) > MOST_STARTS or _is_lossy(size, policy, cooldowns)

    first = _first(is_too_many, MOST) if load.all_starts else None
    return None if first is None or _number(load.of_domains(first).all_starts) > MOST_STARTS else first - 1


def _number(starts: Sequence[JobStarts]) -> int:
    return sum(start.domains * len(start.times) for start in starts)


def _is_lossy(load: Workload, policy: Policy, binding: Cooldowns) -> bool:
    cooldowns = dict(binding)
    late: dict[tuple[str, tuple[int, int]], list[tuple[Micros, Micros]]] = {}
    for occasion, outcome in _outcomes(load.all_starts, load.keys, policy, patient=False):
        if outcome.burst.given_up:
            return True
        for start, waited, first_answered in zip(
            occasion, outcome.waited, outcome.first_answered, strict=True
        ):
            kind = load.all_starts[start.by].kind
            if kind in cooldowns and waited is not None:
                late.setdefault((kind, start.domain), []).append(
                    (start.at + waited, start.at + first_answered)
                )
    # A dry run that comes in time, before a start that does not, meets the cooldown of the last start.
    return any(
        again - once < cooldowns[kind]
        for (kind, _), times in late.items()
        for (once, _), (_, again) in pairwise(sorted(times))
    )


def least_gaps(
    starts: Sequence[JobStarts], running: Mapping[str, Micros], *, together: bool = False
) -> dict[str, Micros]:
    """Return by kind the least time between two planned starts of one domain (µs), where there are two.

    What starts while a job of its kind is `running`, for so long (µs), joins it and is not refused (U45).
    Starts of all domains are taken `together` where a cooldown is the account's (U46).
    """
    planned: dict[tuple[str, tuple[int, int] | None], list[Start]] = {}
    for start in planned_starts(starts):
        planned.setdefault((starts[start.by].kind, None if together else start.domain), []).append(start)
    least: dict[str, Micros] = {}
    for (kind, _), some in planned.items():
        for once, again in pairwise(sorted(some)):
            gap = again.at - once.at
            if once.domain != again.domain or gap > running.get(kind, -1):
                least[kind] = min(least.get(kind, gap), gap)
    return least


def enough_keys(load: Workload, policy: Policy) -> int | None:
    """Return how many keys, in place of each, start all that a workload starts, None where no number does."""
    return _first(lambda keys: not burst_of(replace(load, keys=keys), policy).given_up, MOST_KEYS)


def enough_spread(load: Workload, policy: Policy) -> Micros | None:
    """Return a spread of the starts of each occasion (whole minutes, µs) with which none is given up."""
    minutes = _first(lambda n: not burst_of(load.over(n * MINUTE), policy).given_up, DAY // MINUTE)
    return None if minutes is None else minutes * MINUTE


def put_off(load: Workload, bursts: Collection[Burst], spread: Micros | None, keys: int | None) -> str:
    """Say what the rate limit puts off of a workload, and with which `spread` and `keys` none is given up."""
    if not any(size.refused for size in bursts):
        return ""
    texts: dict[str, list[str]] = {}
    for size in bursts:
        texts.setdefault(_when(size), []).append(_in_words(size, load))
    text = "; ".join(f"{when}, {'; '.join(sizes)}" for when, sizes in texts.items())
    text = f"{text[0].upper()}{text[1:]}."
    cures = [f"spread over {units.duration(spread)}"] if spread is not None else []
    each = " in place of each" if len({start.key for start in load.all_starts}) > 1 else ""
    cures += [f"on {units.many(keys, 'key')}{each}"] if keys is not None else []
    cured = ", or ".join(cures)
    return f"{text} {cured[0].upper()}{cured[1:]}, none is given up." if cured else text


def _when(size: Burst) -> str:
    """Say how the starts of one occasion come."""
    if size.noun == "request":
        return "asked for one after the other"
    return f"started within {units.duration(size.spread)}" if size.spread else "started at one instant"


def _in_words(size: Burst, load: Workload) -> str:
    """Say what happens to the starts of one occasion, the busiest."""
    starts = units.many(size.starts, size.noun)
    if not size.refused:
        return f"{starts} meet no rate limit"
    tries = min(start.tries for start in load.all_starts)
    lost = f" and {size.given_up:,} given up after {tries} tries" if size.given_up else ""
    return (
        f"{starts} meet {units.many(size.refused, 'refusal')} by the rate limit (429){lost}, and the last "
        f"begins {units.duration(size.late)} late"
    )


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the first whole number from 1 for which something holds that then holds for all; at `most`."""
    high = 1
    while not holds(high):
        if high >= most:
            return None
        high = min(most, 2 * high)
    return bisect_left(range(high + 1), True, lo=high // 2 + 1, key=holds)


# Occasions


def planned_starts(starts: Sequence[JobStarts]) -> Iterator[Start]:
    """Yield all planned starts."""
    for by, some in enumerate(starts):
        for before, at in pairwise((0, *some.times)):
            for index in range(some.domains):
                after = some.spread * index // some.domains if some.gap is None else some.gap * index
                yield Start(at + after, by, some.domain(index), at, before)


def _occasions(starts: Sequence[JobStarts], apart: Micros) -> Iterator[list[Start]]:
    """Yield the starts that come together: before and after each lot nothing is planned for so long (µs)."""
    lot: list[Start] = []
    for start in sorted(planned_starts(starts), key=attrgetter("at", "began", "before")):
        if lot and start.at - lot[-1].at > apart:
            yield lot
            lot = []
        lot.append(start)
    if lot:
        yield lot


def _busiest(starts: Sequence[JobStarts], keys: int, policy: Policy) -> Burst:
    bursts = (outcome.burst for _, outcome in _outcomes(starts, keys, policy))
    return max(bursts, key=lambda burst: (burst.given_up, burst.refused, burst.starts), default=NO_STARTS)


def _outcomes(
    starts: Sequence[JobStarts], keys: int, policy: Policy, *, patient: bool = True
) -> Iterator[tuple[list[Start], Outcome]]:
    """Yield every occasion with what becomes of it; the windows have forgotten the one before it.

    Who is not `patient` looks no further where one is given up.
    """
    policy.check_by_class()
    assumptions, length = policy.assumptions, policy.facts.rate_window
    window = RateWindow(
        assumptions.window, policy.facts.rates.expensive, length, int(assumptions.refused_calls_count)
    )
    tries = max((start.tries * start.calls for start in starts), default=0)
    alike: dict[tuple[object, ...], Outcome] = {}
    for occasion in _occasions(starts, apart=tries * (length + SECOND) + 2 * length):
        began = occasion[0].at
        shape = (
            began % length,
            *(part for start in occasion for part in (start.at - began, start.by, start.domain)),
        )
        if shape not in alike:
            alike[shape] = _outcome(starts, occasion, keys, window, patient)
        yield occasion, alike[shape]


def _outcome(
    starts: Sequence[JobStarts],
    occasion: Sequence[Start],
    keys: int,
    window: RateWindow,
    patient: bool,
) -> Outcome:
    by_key: dict[tuple[str, int], list[int]] = {}
    dealt: Counter[str] = Counter()
    for number, start in enumerate(occasion):
        key = starts[start.by].key
        by_key.setdefault((key, dealt[key] % keys), []).append(number)
        dealt[key] += 1
    waited: list[Micros | None] = [None] * len(occasion)
    first_answered = [0] * len(occasion)
    refused = 0
    for numbers in by_key.values():
        refused += _one_key(starts, occasion, numbers, window, waited, first_answered, patient)
    together = [starts[by] for by in {start.by for start in occasion}]
    spread = together[0].spread if len(together) == 1 else occasion[-1].at - occasion[0].at
    late = max((wait for wait in waited if wait is not None), default=0)
    noun = "rank run" if all(some.kind == "rank_run" for some in together) else "start"
    noun = noun if any(some.gap is None for some in together) else "request"
    burst = Burst(len(occasion), spread, refused, waited.count(None), late, noun)
    return Outcome(burst, waited, first_answered)


def _one_key(
    starts: Sequence[JobStarts],
    occasion: Sequence[Start],
    numbers: Sequence[int],
    window: RateWindow,
    waited: list[Micros | None],
    first_answered: list[Micros],
    patient: bool,
) -> int:
    """Start some of an occasion with one key: note how long each waited, return how often it was refused."""
    row, ring = window.open()
    # Of calls of one instant that comes first which was planned first: at which instant, and as which.
    due: list[tuple[Micros, Micros, int, int, int]] = []
    later = count(len(occasion))
    lines: dict[int, deque[int]] = {}
    for number in numbers:
        start = occasion[number]
        if starts[start.by].gap is None:
            due.append((start.at, start.began, number, number, 1))
        elif start.by in lines:
            lines[start.by].append(number)
        else:
            lines[start.by] = deque()
            due.append((start.at, start.began, number, number, 1))
    heapify(due)
    refused, answered = 0, Counter[int]()
    while due:
        now, _, _, number, tried = heappop(due)
        jobs = starts[occasion[number].by]
        while answered[number] < jobs.calls and windows.take(now, row, ring):
            if not answered[number]:
                first_answered[number] = now - occasion[number].at
            answered[number] += 1
            tried = 1
        if answered[number] < jobs.calls:
            refused += 1
            if tried < jobs.tries:
                wait = max(1, -(-windows.retry_after(now, row, ring) // SECOND)) * SECOND
                heappush(due, (now + wait, now, next(later), number, tried + 1))
                continue
            if not patient:
                break
        else:
            waited[number] = now - occasion[number].at
        if jobs.gap is not None and lines[occasion[number].by]:
            following = lines[occasion[number].by].popleft()
            at = max(now + jobs.gap, occasion[following].at)
            heappush(due, (at, now, next(later), following, 1))
    return refused
