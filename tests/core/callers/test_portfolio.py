"""What an account starts with."""

from __future__ import annotations

import pytest

import ranksim as rs
from ranksim.core.callers.portfolio import PortfolioSpec


def test_an_account_named_as_ids_are_has_hosts_that_the_service_takes() -> None:
    assert PortfolioSpec(domains=2).hosts("acc_01") == ("site1.acc-01.example", "site2.acc-01.example")
    plain = {"name": "ids", "start": "2026-03-01T00:00:00Z", "length": "1h"}
    scenario = rs.Scenario.model_validate(
        plain | {"accounts": {"acc_01": {"plan": "pro", "portfolio": {"domains": 2}}}}
    )
    world = rs.World(scenario, seed=1)
    assert list(world.actors["acc_01"].hosts) == ["site1.acc-01.example", "site2.acc-01.example"]


@pytest.mark.parametrize("name", ["Acme GmbH", "_", "Café Ö", "-x-", "a.b"])
def test_whatever_accounts_and_clients_are_called_the_service_takes_their_hosts(name: str) -> None:
    mix = {"domains.create": 1, "webhooks.create": 1}
    scenario = rs.Scenario.model_validate(
        {"name": "names", "start": "2026-03-01T00:00:00Z", "length": "1h"}
        | {"accounts": {name: {"plan": "pro", "portfolio": {"domains": 1}}}}
        | {"clients": {name: {"kind": "caller", "account": name, "every": "1m", "mix": mix}}}
    )
    assert rs.run(scenario).metric("refusals.total").mean == 0


@pytest.mark.parametrize(
    ("account", "plan", "portfolio", "message"),
    [
        (
            "a" * 64,
            "pro",
            {},
            "domains.create with validation_failed: host: expected a host name such as www.example.com; "
            f"found 'site1.{'a' * 64}.example'; list hosts in domains, else they have the account's name",
        ),
        (
            "acme",
            "pro",
            {"sites": ({"host": "shop.example", "labels": (" ",)},)},
            "labels.create with validation_failed: name: expected text of 1 to 200 characters, none of them "
            "a control character; correct it",
        ),
    ],
)
def test_what_the_service_refuses_is_said(
    account: str, plan: str, portfolio: dict[str, object], message: str
) -> None:
    owned = portfolio if "sites" in portfolio else {"portfolio": portfolio}
    scenario = rs.Scenario.model_validate(
        {"name": "refused", "start": "2026-03-01T00:00:00Z", "length": "1h"}
        | {"accounts": {account: {"plan": plan} | owned}}
    )
    with pytest.raises(rs.BadInput) as caught:
        rs.World(scenario)
    assert str(caught.value) == f"accounts.{account}.portfolio: the service refused {message}"
