"""Tidying up: what carries the run's mark goes, all else stays."""

from __future__ import annotations

from typing import Any

from ranksim.callers.cleanup import mark, remove_created
from ranksim.callers.discovery import Reach, explore
from ranksim.callers.manners import pages
from ranksim.callers.profiles import profile
from ranksim.callers.steps import Send
from ranksim.clock import MINUTE
from ranksim.sim.rehearsal import Rehearsal
from ranksim.sim.rehearsal_worlds import make_world
from ranksim.sim.scripted_receivers import BASE


def names(rehearsal: Rehearsal, key: str) -> Any:
    """Everything that a key sees and that a run could have made."""
    seen = {}
    for operation, shown in (
        ("domains", "host"),
        ("keyword_lists", "name"),
        ("scans", "name"),
        ("webhooks", "url"),
    ):
        items = rehearsal.alone(pages(Send(f"{operation}.list", key)))
        seen[operation] = sorted(item[shown] for item in items)
    return seen


def test_only_what_the_run_made_goes() -> None:
    service, target = make_world(seed=1)
    rehearsal = Rehearsal(service, target)
    reach: Reach = rehearsal.alone(explore(target))
    before = {key: names(rehearsal, key) for key in target.keys}
    for name in ("walk", "ladder", "race", "webhooks"):
        programs = [profile(name).program(reach, user, 3, 77) for user in range(3)]
        rehearsal.together(programs, rehearsal.now + MINUTE)
    made = names(rehearsal, "main")
    assert len(made["domains"]) > 5
    assert made["scans"]
    assert made["webhooks"]
    assert rehearsal.alone(remove_created(reach, [78])) == []
    assert names(rehearsal, "main") == made
    assert rehearsal.alone(remove_created(reach, [76, 77], BASE)) == []
    assert {key: names(rehearsal, key) for key in target.keys} == before


def test_marks_of_runs_differ() -> None:
    assert mark(1) != mark(2)
    assert mark(255) == "ranksim-ff"
