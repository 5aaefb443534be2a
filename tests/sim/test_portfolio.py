"""What an account starts with."""

from __future__ import annotations

import ranksim as rs
from ranksim.sim.portfolio import PortfolioSpec


def test_an_account_named_as_ids_are_has_hosts_that_the_service_takes() -> None:
    assert PortfolioSpec(domains=2).hosts("acc_01") == ("site1.acc-01.example", "site2.acc-01.example")
    plain = {"name": "ids", "start": "2026-03-01T00:00:00Z", "length": "1h"}
    scenario = rs.Scenario.model_validate(
        plain | {"accounts": {"acc_01": {"plan": "pro", "portfolio": {"domains": 2}}}}
    )
    world = rs.World(scenario, seed=1)
    assert list(world.actors["acc_01"].hosts) == ["site1.acc-01.example", "site2.acc-01.example"]
