"""The process that leads a run: what it does when it is to go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ranksim.judge.load import processes


def test_a_run_that_is_being_opened_is_undone_when_locust_quits(monkeypatch: pytest.MonkeyPatch) -> None:
    import gevent

    undone = []

    class Opening:
        def __init__(self, *_: Any) -> None:
            try:
                gevent.sleep(600)
            except BaseException:
                undone.append(True)
                raise

    monkeypatch.setattr(processes, "LoadRun", Opening)
    monkeypatch.setattr(processes.LoadOptions, "target", lambda self: None)
    monkeypatch.setattr(processes, "writable", lambda target: target)
    given = ("target", "out", "spend_cap", "dry_run_only", "sharing", "gzip", "seed")
    runner = SimpleNamespace(
        register_message=lambda *_: None, worker_count=2, target_user_count=2, stop=lambda: None
    )
    environment = SimpleNamespace(
        runner=runner, host="", parsed_options=SimpleNamespace(**dict.fromkeys(given))
    )
    leader = processes.Leader(environment, processes.WorkerContext(), "everyday", distributed=True)
    opening = gevent.spawn(leader.begin)
    gevent.sleep(0)
    assert not undone
    leader.leave()
    opening.join(60)
    assert undone == [True]
    assert leader.run is None
