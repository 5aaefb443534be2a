"""Which assumptions a service was asked about."""

from __future__ import annotations

import ranksim as rs
from ranksim.twin.sim.world import World

HEAD = "start: 2026-03-01\nlength: 1d\naccounts: {acme: {plan: pro, portfolio: {keywords: 2}}}\n"


def consulted(text: str) -> set[str]:
    world = World(rs.Scenario.parse(text))
    world.run()
    return set(world.service.consulted())


def test_what_was_read_is_known_and_what_was_not() -> None:
    reads = consulted(
        f"{HEAD}clients: {{look: {{kind: poller, account: acme, operation: slots.get, every: 1h}}}}"
    )
    runs = consulted(f"{HEAD}clients: {{runs: {{kind: schedule, account: acme, job: rank_run}}}}")
    assert {"assumptions.window", "assumptions.cost_gate"} <= reads < runs
    assert runs - reads == {"statuses.job_accepted"}
    unread = {"assumptions.join", "assumptions.retry_jitter_percent", "statuses.cooldown_active"}
    assert not unread & runs


def test_a_service_that_is_not_asked_tells_nothing() -> None:
    assert rs.Service().consulted() == ()


def test_the_result_is_the_same() -> None:
    """What a service reads is kept beside the result, which no byte of it shows."""
    scenario = rs.Scenario.parse(f"{HEAD}clients: {{runs: {{kind: schedule, account: acme, job: rank_run}}}}")
    result = rs.run(scenario)
    assert result.replications[0].consulted
    assert "consulted" not in result.to_json()
