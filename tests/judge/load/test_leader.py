"""The process that leads a run finishes it before Locust exits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gevent
from gevent.event import Event

from ranksim.judge.load.processes import Leader, WorkerContext


def test_a_master_whose_time_is_over_leaves_once_the_trace_is_whole() -> None:
    runner = SimpleNamespace(
        register_message=lambda *_: None,
        send_message=lambda *_: None,
        clients=SimpleNamespace(all=[]),
    )
    total = SimpleNamespace(num_requests=0, num_failures=0)
    stats = SimpleNamespace(errors={}, total=total)
    environment = SimpleNamespace(runner=runner, stop_timeout=0, stats=stats)
    readable, steps = Event(), list[str]()

    def finish(totals: dict[str, Any], until: int) -> SimpleNamespace:
        readable.wait()  # a rate limit keeps the state from being read
        steps.append("finished")
        return SimpleNamespace(exchanges=0, deliveries=0)

    leader = Leader(environment, WorkerContext(), "burst", distributed=True)
    leader.leave()  # nothing is under way
    run: Any = SimpleNamespace(finish=finish, clock=SimpleNamespace(now=lambda: 0), path="trace.jsonl")
    leader.run = run
    ending = gevent.spawn(leader.end)
    gevent.sleep(0)

    def leave() -> None:
        leader.leave()
        steps.append("left")

    leaving = gevent.spawn(leave)
    gevent.sleep(0)
    assert steps == []
    readable.set()
    gevent.joinall([ending, leaving], raise_error=True)
    assert steps == ["finished", "left"]
