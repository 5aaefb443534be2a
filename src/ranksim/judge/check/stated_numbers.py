"""What the numbers that a deployment states keep from every client in the time given.

A part of a rule is told, where the rule can be decided without it: the end of a cooldown of a day, the reset
of a month. Of numbers that nobody states, such as prices, nothing is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ranksim.core.clock import SECOND, Micros, instant
from ranksim.judge.check.lack import Lack
from ranksim.judge.conformance.verdict.rule import Requirement
from ranksim.judge.deployment.budget import micros_of, spent_of
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.cooldowns import KINDS, LONGEST
from ranksim.judge.profiles.cost_cap import MOST_JOBS, steep
from ranksim.judge.profiles.precedence import MOST_WORDS
from ranksim.report import units

FASTER = "a deployment whose time runs faster (time_scale)"

SLOTS_OF_A_WORD = 4
"""Slots that one word of a ladder takes at most."""

CHEAP = 50_000
"""A job that costs less (µUSD) is not worth telling that it reaches no ceiling."""


def hidden_by_numbers(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Yield what stated numbers hide from a check of so long (µs)."""
    yield from _cooldowns(reach, time)
    yield from _resets(reach, time)
    yield from _jobs(reach, time)
    yield from _ceilings(reach)
    yield from _slots(reach)
    yield from _briefs(reach)


def _cooldowns(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Cooldowns that no plan has, and those whose end is not waited for (S52-S54)."""
    cooldowns = [_object(key, "account.entitlements", "cooldown_seconds") for key in reach.usable()]
    plans = [lengths for lengths in cooldowns if lengths]
    if not plans:
        return
    stated = {kind: [plan[kind] for plan in plans if _is_length(plan.get(kind))] for kind in KINDS}
    none = [kind for kind in KINDS if not stated[kind]]
    if len(none) == len(KINDS):
        why, would = "no plan of these keys states a cooldown", "a key of a plan with cooldowns"
        yield Lack((Requirement.COOLDOWN,), why, would)
    elif none:
        why, would = "no plan of these keys states one", "a key of a plan with cooldowns of all kinds"
        yield Lack((Requirement.EACH_COOLDOWN,), why, would, f"the cooldown of {', '.join(none)}")
    waited = min(LONGEST, time)
    scale = reach.target.time_scale
    shortest = {kind: min(lengths) * SECOND // scale for kind, lengths in stated.items() if lengths}
    long = {kind: length for kind, length in shortest.items() if length > waited}
    if long:
        lasts = ", ".join(f"{kind} {units.duration(length)}" for kind, length in long.items())
        yield Lack(
            (Requirement.COOLDOWN_END,),
            f"it lasts longer than a check waits, {units.duration(waited)} ({lasts})",
            f"a key of a plan with shorter cooldowns, or {FASTER}",
            f"what follows the cooldown of {', '.join(long)}",
        )


def _resets(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Months and weeks that do not turn meanwhile, by the deployment's own clock (S26, S62, S108, S110)."""
    if reach.date is None:
        return
    ends = defaultdict[Requirement, list[Micros]](list)
    for key in reach.usable():
        metrics = key.reads.get("account.usage")
        listed = metrics.get("metrics") if isinstance(metrics, dict) else None
        ends[Requirement.COST_RESET] += _instants(_object(key, "account.usage", "cost"))
        ends[Requirement.SLOT_RESET] += _instants(key.reads.get("slots.get"))
        for meter in listed if isinstance(listed, list) else ():
            ends[Requirement.QUOTA_RESET] += _instants(meter)
    far = {need: min(instants) - reach.date for need, instants in ends.items() if instants}
    far = {need: left // reach.target.time_scale for need, left in far.items()}
    beyond = {need: left for need, left in far.items() if left > time}
    if beyond:
        nearest = min(beyond.values())
        yield Lack(
            tuple(beyond),
            f"the nearest reset is {units.duration(nearest // SECOND * SECOND)} away",
            f"--time beyond it, or {FASTER}",
            "what begins anew as a month or a week turns",
        )


def _jobs(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Jobs of which none ended in so short a time, as far as their list tells."""
    took = [
        ended - made
        for key in reach.usable()
        for job in _items(key, "jobs.list")
        if (made := _instant(job.get("created_at"))) is not None
        and (ended := _instant(job.get("finished_at"))) is not None
    ]
    if took and min(took) // reach.target.time_scale > time:
        shortest = min(took) // reach.target.time_scale
        yield Lack(
            (Requirement.JOB_END,),
            f"the jobs that are listed took {units.duration(shortest)} at least",
            f"--time beyond that, or {FASTER}",
            "how a job ends",
        )


def _ceilings(reach: Reach) -> Iterator[Lack]:
    """Ceilings so far away that each job would have to cost much to reach them (S62)."""
    if reach.target.spend_cap is not None or reach.target.dry_run_only:
        return  # what is told of those settings says it
    left = [
        ceiling - spent
        for key in reach.usable()
        if steep(reach, key)
        and (cost := _object(key, "account.usage", "cost"))
        and (spent := spent_of(cost)) is not None
        and (ceiling := micros_of(cost.get("ceiling"))) is not None
    ]
    each = min(left, default=0) // MOST_JOBS
    if each > CHEAP:
        under = units.usd(min(left))
        yield Lack(
            (Requirement.CEILING,),
            f"{under} are left under the ceiling, and {MOST_JOBS} jobs are started at most to reach it",
            "a key with `purpose: near_limit`, of an account near its ceiling",
            f"what comes at a ceiling, where a job costs less than {units.usd(each)}",
        )


def _slots(reach: Reach) -> Iterator[Lack]:
    """More free slots than one call can ask for (S64)."""
    rooms = [room for key in reach.usable() if (room := key.room()) is not None]
    yield from _too_many("slots are free", rooms, MOST_WORDS * SLOTS_OF_A_WORD, Requirement.FULL_SLOTS)


def _briefs(reach: Reach) -> Iterator[Lack]:
    """More briefs left than one call can ask for (S63)."""
    left = [number for key in reach.usable() if (number := key.left("brief")) is not None]
    yield from _too_many("briefs are left", left, MOST_WORDS, Requirement.NO_BRIEFS)


def _too_many(what: str, numbers: list[int], most: int, need: Requirement) -> Iterator[Lack]:
    if numbers and min(numbers) >= most:
        yield Lack(
            (need,),
            f"{units.count(min(numbers))} {what} at least, and one call asks for {units.count(most)} at most",
            "a key with `purpose: near_limit`, of a small plan",
        )


# Small readings


def _object(key: KeyReach, operation: str, part: str) -> Mapping[str, Any]:
    reading = key.reads.get(operation)
    inner = reading.get(part) if isinstance(reading, dict) else None
    return inner if isinstance(inner, dict) else {}


def _items(key: KeyReach, operation: str) -> list[Mapping[str, Any]]:
    reading = key.reads.get(operation)
    return [item for item in reading if isinstance(item, dict)] if isinstance(reading, list) else []


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _instants(resource: Any) -> list[Micros]:
    """Return when something is reset, as a list of none or one."""
    resets_at = _instant(resource.get("resets_at")) if isinstance(resource, dict) else None
    return [] if resets_at is None else [resets_at]


def _instant(text: Any) -> Micros | None:
    with suppress(ValueError):
        return instant(str(text))
    return None
