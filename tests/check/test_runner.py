"""What the process that makes the calls of a check counts, and tells."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

from ranksim.callers.discovery import KeyReach, Reach
from ranksim.callers.steps import Received, Send
from ranksim.callers.target import Target
from ranksim.check.runner import EACH, Runner
from ranksim.clock import MINUTE
from ranksim.load.run import LoadRun
from ranksim.load.session import CallOutcome

NOW = 10 * MINUTE


def runner() -> Runner:
    keys = {
        name: KeyReach(name, environment, "full", usable=True, account="acc_1")
        for name, environment in (("main", "production"), ("test", "sandbox"))
    }
    reach = Reach(Target.simple("http://127.0.0.1:9", "rk_1"), keys, "main")
    clock = SimpleNamespace(now=lambda: NOW)
    run = SimpleNamespace(reach=reach, shared=SimpleNamespace(seed=1), clock=clock)
    return Runner(cast(LoadRun, run), io.StringIO())


def answered(status: int, **data: Any) -> CallOutcome:
    return CallOutcome(Received(status, {"data": data}, {}, 0, 1))


def test_what_is_left_to_remove_is_counted_once_and_no_longer_than_it_is_there() -> None:
    running = runner()
    for number in ("dom_1", "dom_2", "dom_1"):  # the third is a repeat under its Idempotency-Key
        running.saw(Send("domains.create"), answered(201, id=number))
    running.saw(Send("webhooks.create"), answered(201, id="hook_1"))
    running.saw(Send("domains.create"), answered(422))
    assert len(running.there) == 3
    running.saw(Send("domains.delete", path={"id": "dom_2"}), answered(403))
    running.saw(Send("webhooks.delete", path={"id": "hook_1"}), answered(204))
    assert set(running.there) == {"dom_1", "dom_2"}


def test_removing_takes_as_long_as_the_rate_limits_that_are_left_let_it() -> None:
    """Of 120 writes a minute 20 were made just now: 100 things go at once, of 101 the last waits a window."""
    running = runner()
    for _ in range(20):
        running.pacer.when(Send("domains.create"), NOW)
    assert running.removing() == 0
    running.there = {f"dom_{number}": "main" for number in range(100)}
    assert running.removing() == 100 * EACH
    running.there["dom_100"] = "main"
    assert running.removing() == 101 * EACH + MINUTE
    running.there["dom_1"] = "test"  # of another account, with limits of its own
    assert running.removing() == 101 * EACH
    running.there |= {f"dom_{number}": "main" for number in range(101, 221)}
    assert running.removing() == 221 * EACH + MINUTE


def test_accounts_of_two_environments_are_told_apart_by_what_they_spent() -> None:
    running = runner()
    for key, spent in (("main", "7.00"), ("test", "1.00"), ("main", "7.20"), ("test", "1.10")):
        running.saw(Send("account.usage", key), answered(200, cost={"spent": spent, "resets_at": "x"}))
    assert running.used.spent() == 300_000
