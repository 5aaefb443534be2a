"""Tidying up: what carries the run's mark goes, all else stays."""

from __future__ import annotations

from typing import Any

from ranksim.callers.cleanup import mark, tidy
from ranksim.callers.discovery import Reach, explore
from ranksim.callers.manners import pages
from ranksim.callers.profiles import profile
from ranksim.callers.steps import Send
from ranksim.clock import MINUTE
from ranksim.sim.rehearsal_loop import Stage
from ranksim.sim.rehearsal_worlds import make_world
from ranksim.sim.scripted_receivers import BASE


def names(stage: Stage, key: str) -> Any:
    """Everything that a key sees and that a run could have made."""
    seen = {}
    for operation, shown in (
        ("domains", "host"),
        ("keyword_lists", "name"),
        ("scans", "name"),
        ("webhooks", "url"),
    ):
        items = stage.alone(pages(Send(f"{operation}.list", key)))
        seen[operation] = sorted(item[shown] for item in items)
    return seen


def test_only_what_the_run_made_goes() -> None:
    service, target = make_world(seed=1)
    stage = Stage(service, target)
    reach: Reach = stage.alone(explore(target))
    before = {key: names(stage, key) for key in target.keys}
    for name in ("walk", "ladder", "race", "webhooks"):
        programs = [profile(name).program(reach, user, 3, 77) for user in range(3)]
        stage.together(programs, stage.now + MINUTE)
    made = names(stage, "main")
    assert len(made["domains"]) > 5
    assert made["scans"]
    assert made["webhooks"]
    stage.alone(tidy(reach, 78))
    assert names(stage, "main") == made
    stage.alone(tidy(reach, 77, BASE))
    assert {key: names(stage, key) for key in target.keys} == before


def test_marks_of_runs_differ() -> None:
    assert mark(1) != mark(2)
    assert mark(255) == "ranksim-ff"
