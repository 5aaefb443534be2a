"""What the process that makes the calls of a check counts, and tells."""

from __future__ import annotations

import io
import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.judge.load.conftest import server
from tests.kit.runs import Scripted, reply

from ranksim.core.callers.steps import Program, Received, Send, Spawn
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE
from ranksim.core.trace import Trace
from ranksim.judge.check.runner import EACH, Runner
from ranksim.judge.check.tasks import CheckTask
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.load.run import LoadRun, RunSettings
from ranksim.judge.load.session import CallOutcome

__all__ = ["server"]

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


def test_a_program_may_do_several_things_at_once(server: Scripted, tmp_path: Path) -> None:
    """The second call is sent while the first has no answer yet."""
    met = threading.Barrier(2, timeout=60)

    def both(connection: socket.socket) -> bool | None:
        met.wait()
        return reply(404)(connection)

    run = LoadRun(Target.simple(server.url, "rk_1"), RunSettings(tmp_path / "out"))
    server.acts = [both]
    looking = Send("domains.get", path={"id": "dom_1"})

    def beside() -> Program:
        yield looking

    def program() -> Program:
        yield Spawn(beside())
        yield looking

    task = SimpleNamespace(
        name="both", users=(0,), laps=1, waits=False, programs=lambda reach, seed: [program()]
    )
    said = io.StringIO()
    running = Runner(run, said)
    running.begin(cast(CheckTask, task), 1)
    running.began[1].join(60)
    assert json.loads(said.getvalue()) == {"ended": 1, "cut": 0, "stopped": False}
    server.acts = [reply()]
    run.finish()
    calls = [one for one in Trace.read(run.path).exchanges if one.client == "both 0"]
    assert [one.status for one in calls] == [404, 404]
