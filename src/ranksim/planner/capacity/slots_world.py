"""Slot use as simulated accounts show it: they add and delete keywords through the rulebook (see `slots`)."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from ranksim.core.clock import DAY, HOUR, Micros
from ranksim.core.contract.plans import Dimensions
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.views import created_by
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.rules.admission import held_at
from ranksim.inference.counts import counted
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import chance
from ranksim.planner.capacity.common import expect, moment, only_plan
from ranksim.planner.capacity.slots import Churn, SlotChange, SlotUse, day_of_month, slot_use
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World


def simulate_slot_use(
    churn: Churn,
    limit: int,
    *,
    start: Micros | str = 0,
    days: int = 31,
    policy: Policy | str | Path | None = None,
    replications: int = 100,
    seed: int = 1,
    anchor: Micros | None = None,
    others: Sequence[SlotChange] = (),
    progress: Tell | None = None,
) -> SlotUse:
    """Answer as `slot_use`, with what so many simulated accounts showed beside it, with intervals.

    Each account really adds and deletes keywords through the rulebook, one request each; what is `beside`
    and what `others` add are words of 1 slot, of which the latter remove so many at once. `progress` is told
    how far it is; without it a notebook shows that. Raises BadInput.
    """
    start, anchor = day_of_month(moment("start", start), anchor)
    expect(replications >= 1, "replications", "1 or more", replications)
    exact = slot_use(churn, limit, start=start, days=days, anchor=anchor, others=others)
    scenario = _scenario(churn, limit, start, anchor, days, policy_of(policy))
    seen = []
    with noted("simulating", progress) as tell:
        for index in range(replications):
            seen.append(_observe(scenario, churn, days, others, replication_seed(seed, index)))
            tell((index + 1) / replications, f"{index + 1} of {replications} accounts")
    slot_days = []
    for index, day in enumerate(exact.days):
        used = counted([float(run.used[index]) for run in seen])
        hits = sum(run.refused_at is not None and run.refused_at < day.t for run in seen)
        refused = chance(hits, replications)
        if churn.law == "fixed":  # nothing is drawn, and each account is like the other
            used, refused = (
                Estimate(estimate.mean, estimate.mean, estimate.mean) for estimate in (used, refused)
            )
        slot_days.append(replace(day, observed_used=used, observed_refused=refused))
    return replace(exact, days=tuple(slot_days))


@dataclass(slots=True)
class _Seen:
    """What one simulated account showed: slots used at the end of each day, and when it was first refused."""

    used: list[int]
    refused_at: Micros | None = None


def _scenario(churn: Churn, limit: int, start: Micros, anchor: Micros, days: int, policy: Policy) -> Scenario:
    roomy = only_plan(
        policy,
        slot_limit=limit,
        dimensions=Dimensions(max_engine_devices=churn.pairings, max_geographies=churn.geographies),
    )
    scan = {
        "engine_devices": tuple(f"engine{i}/desktop" for i in range(churn.pairings)),
        "geographies": tuple({"country": "US", "location_id": str(i)} for i in range(churn.geographies)),
    }
    portfolio = {"domains": 1, "keywords": churn.keywords, "scans": (scan,)}
    others = {"domains": 1, "keywords": churn.beside}
    return Scenario.model_validate(
        {
            "name": "churn",
            "start": start,
            "length": days * DAY,
            "policy": roomy,
            "accounts": {
                "acme": {
                    "plan": "capacity",
                    "anchor": anchor,
                    "portfolio": portfolio,
                    "further": (others,),
                    "used": {"held": churn.held},
                }
            },
        }
    )


def _observe(scenario: Scenario, churn: Churn, days: int, others: Sequence[SlotChange], seed: int) -> _Seen:
    world = World(scenario, seed=seed)
    seen = _Seen([])
    world.process(_other_changes(world, others, seen))
    world.process(_removals(world, churn))
    world.process(_additions(world, churn, seen))
    world.process(_samples(world, days, seen))
    world.run()
    return seen


def _next(world: World, churn: Churn, what: str, index: int) -> tuple[Micros, int]:
    """Return the time until the next words come or go, and how many: exponential gaps, or a day's at noon."""
    rate = churn.adds if what == "adds" else churn.removals
    if churn.law == "fixed":
        return (12 * HOUR if index == 0 else DAY), int(rate)
    u = uniform(world.seed, entity(f"churn/{what}"), index, Purpose.CHURN)
    return round(-math.log1p(-u) / rate * DAY), 1


def _additions(world: World, churn: Churn, seen: _Seen) -> Generator[Any, Any, None]:
    for index in count() if churn.adds else ():
        pause, words = _next(world, churn, "adds", index)
        yield world.timeout(pause)
        _add(world, 0, words, seen)


def _other_changes(world: World, others: Sequence[SlotChange], seen: _Seen) -> Generator[Any, Any, None]:
    for change in sorted(others):
        yield world.timeout(change.at - world.now)
        for keyword in _add(world, 1, change.added, seen)[: change.removed]:
            world.app_call(world.actors["acme"], "keywords.delete", None, id=keyword)


def _add(world: World, number: int, words: int, seen: _Seen) -> list[str]:
    """Add fresh words to a domain, and return their ids; note when one is refused for the first time."""
    actor, added = world.actors["acme"], list[str]()
    domain = actor.domains[number]
    for word in actor.fresh_words(domain, words):
        body = {"list_id": actor.lists[domain][0], "keywords": [word]}
        reply = world.app_call(actor, "keywords.create", body)
        if reply.code == "slot_limit_exceeded" and seen.refused_at is None:
            seen.refused_at = world.now
        added += [keyword["id"] for keyword in created_by((reply.body or {}).get("data")) or ()]
    return added


def _removals(world: World, churn: Churn) -> Generator[Any, Any, None]:
    actor = world.actors["acme"]
    words = world.service.state.keyword_lists[actor.lists[actor.domains[0]][0]].words
    for index in count() if churn.removals else ():
        pause, dropped = _next(world, churn, "removals", index)
        yield world.timeout(pause)
        for keyword in list(islice(words.values(), dropped)):
            world.app_call(actor, "keywords.delete", None, id=keyword)


def _samples(world: World, days: int, seen: _Seen) -> Generator[Any, Any, None]:
    """Note the used slots a microsecond before each day ends, so before a month's holds drop."""
    books = world.service.state.accounts[world.actors["acme"].account].books
    for day in range(1, days + 1):
        yield world.timeout(world.start + day * DAY - 1 - world.now)
        seen.used.append(books.active + held_at(world.now, books))
