"""What profiles say that they take: how long, and what they use up, held against rehearsals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.steps import Lap, Program, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.compare import RULES
from ranksim.judge.conformance.webhooks import endpoints, retries
from ranksim.judge.deployment.discovery import KeyReach, Reach, explore
from ranksim.judge.profiles import PROFILES, profile
from ranksim.judge.profiles.profile import Needs
from ranksim.judge.profiles.webhooks import WELL_MISSED

PROBES = ("windows", "calibration")
"""Start nothing, or little; that they end in time is tested with the profiles."""


def test_every_rule_is_what_a_profile_is_for() -> None:
    assert [rule.name for rule in RULES if not any(one.serves(rule.name) for one in PROFILES)] == []


def test_what_is_taken_adds_up() -> None:
    assert Needs(SECOND, 1, 2, 3).times(3) == Needs(3 * SECOND, 3, 6, 9)


def until_the_first_lap(program: Program, used: Counter[str]) -> Program:
    """Run a program to its first lap, or its end; count what is admitted."""
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration:
            return
        if isinstance(step, Lap):
            return
        answer = yield step
        body = (step.body or {}) if isinstance(step, Send) else {}
        if isinstance(step, Send) and answer.ok and body.get("dry_run") is not True:
            used["jobs"] += step.operation == "jobs.create"
            if step.operation == "keyword_briefs.create":
                used["briefs"] += len(body["keywords"])


def slots(reach: Reach) -> Generator[Any, Any, int]:
    used = {}
    for key in reach.usable():
        answer = yield Send("slots.get", key.name)
        if answer.ok:
            used[key.account] = answer.data["used"]
    return sum(used.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in PROFILES if one.name not in PROBES])
@pytest.mark.parametrize("seed", [11])
def test_going_through_once_takes_what_was_said(name: str, seed: int) -> None:
    service, target = make_world(seed=seed)
    rehearsal, used = Rehearsal(service, target, seed=seed), Counter[str]()
    reach: Reach = rehearsal.alone(explore(target))
    known = profile(name)
    said = known.once(reach, known.users)
    before, began = rehearsal.alone(slots(reach)), rehearsal.now
    programs = [known.program(reach, user, known.users, seed) for user in range(known.users)]
    rehearsal.together([until_the_first_lap(one, used) for one in programs], began + 24 * HOUR)

    lasted = rehearsal.now - began
    assert said.length // 4 <= lasted <= said.length + said.length // 5 + 5 * SECOND, f"seed {seed}"
    assert used["jobs"] <= said.jobs, f"seed {seed}"
    assert used["briefs"] <= said.briefs
    assert rehearsal.alone(slots(reach)) - before <= said.slots


def nothing_known(target: Target) -> Reach:
    return Reach(target, {"main": KeyReach("main", "production", "full", usable=True)}, "main")


@pytest.mark.fact("S90")
@pytest.mark.parametrize("scale", [1, 60, 240])
def test_all_attempts_are_waited_for_until_judges_miss_them(scale: int) -> None:
    """A judge misses the sixth attempt only past its delay, what that varies by, and its grace."""
    facts = Facts()
    target = Target.simple("http://127.0.0.1:9", "rk_1").model_copy(update={"time_scale": scale})
    answers = facts.webhook_timeout * (facts.webhook_attempts - 1)
    varied = sum(delay // scale * (100 + retries.JITTER_PERCENT) // 100 for delay in facts.webhook_delays)
    missed = varied + answers + retries.MARGIN + 3 * facts.webhook_timeout + endpoints.GRACE
    waited = profile("webhooks-long").once(nothing_known(target), 1).length - 2 * MINUTE
    assert waited >= missed
    assert retries.MARGIN + 3 * facts.webhook_timeout + endpoints.GRACE + answers <= WELL_MISSED
