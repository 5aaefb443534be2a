"""Invoices of a simulated world: by account and billing month, in metrics, expectations and JSON."""

from __future__ import annotations

import json

import pytest

from ranksim.core.errors import BadInput
from ranksim.twin.sim.metrics import unit_of
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

TEXT = """
scenario: 1
start: 2026-01-05T00:00:00Z
length: 70d
catalogue: illustrative
accounts:
  acme: {plan: starter, anchor: 2026-01-05T00:00:00Z, add_ons: {brief_pack: 2}}
  other: {plan: free}
timeline:
  - {at: 20d, do: change_plan, account: acme, plan: pro}
  - {at: 40d, do: set_add_on, account: acme, add_on: brief_pack, count: 1}
"""


def test_an_account_is_invoiced_by_billing_month_with_what_it_has_at_its_end() -> None:
    result = run(Scenario.parse(TEXT))
    found = {name: result.metric(name).mean for name in result.metrics if name.startswith("invoice.acme.")}
    assert found == {
        "invoice.acme.2026-01": 159_000_000,  # pro, and two packs
        "invoice.acme.2026-02": 144_000_000,
        "invoice.acme.2026-03": 144_000_000,  # the month under way at the end
        "invoice.acme.total": 447_000_000,
    }
    assert result.metric("invoice.other.total").mean == 0
    assert unit_of("invoice.acme.2026-01") == "money"
    metrics = json.loads(result.to_json())["metrics"]
    assert metrics["invoice.acme.total"]["value"] == 447_000_000
    assert Result.from_json(result.to_json()).metric("invoice.acme.total").mean == 447_000_000


def test_the_headline_is_what_all_pay_for_the_last_month() -> None:
    assert "144.00 USD invoice of the last month" in run(Scenario.parse(TEXT)).summary()


@pytest.mark.parametrize(("bound", "holds"), [("== 159 USD", True), ("< 159 USD", False)])
def test_a_scenario_expects_an_invoice(bound: str, holds: bool) -> None:
    result = run(Scenario.parse(f'{TEXT}\nexpect: ["invoice.acme.2026-01 {bound}"]\n'))
    assert [verdict.holds for verdict in result.expectations] == [holds]


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("invoice.acme.2026-13", "write invoice.ACCOUNT and one of total, YYYY-MM"),
        ("invoice.acmee.total", "no account 'acmee'; did you mean 'acme'?"),
    ],
)
def test_an_invoice_that_nobody_gets_is_refused(metric: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        Scenario.parse(f'{TEXT}\nexpect: ["{metric} == 1 USD"]\n')
    assert told in str(caught.value)


def test_a_price_that_is_not_known_is_no_invoice() -> None:
    scenario = Scenario.parse(TEXT)
    catalogue = scenario.policy.catalogue.model_copy(update={"prices_known": False})
    policy = scenario.policy.model_copy(update={"catalogue": catalogue})
    result = run(scenario.model_copy(update={"policy": policy}))
    assert result.values("invoice.other.total") == [None]  # free costs 0, which says nothing here
    assert result.values("invoice.acme.total") == [447_000_000]
    assert "invoice of" not in result.summary()
