"""The kernel for recorded calls gives each what the service gives it, made again one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recorded_calls import generated, outcomes_of, policy_of

from ranksim.core.contract.policy import Policy
from ranksim.core.rules.windows import NAMES
from ranksim.planner.fleet.offers import Sold
from ranksim.planner.fleet.recorded_fleet import RecordedFleet
from ranksim.planner.fleet.rows import Records
from ranksim.planner.pricing.audit import audit
from ranksim.planner.pricing.columns import Columns, accounts_for

SEED = 5

CASES: dict[str, dict[str, Any]] = {
    **{name: {"window": name} for name in NAMES},
    "refused_count": {"window": "sliding_log", "refused_calls_count": True, "join": "after_checks"},
    "both_classes": {"expensive_debits_write": True, "tracking_class": "expensive", "month": "calendar"},
    "by_account": {"cooldown_scope": "account", "cost_gate": "would_exceed", "cap": "refuse"},
    "from_finish": {"cooldown_from": "finish", "checks_apply": "table", "join": "before_checks"},
    "never": {"join": "never", "ceiling_stops_tracking": False, "dimension_refusal": "slot_limit_exceeded"},
}


def sold_in(columns: Columns) -> list[Sold]:
    return [(one.spec.plan, tuple(sorted(one.spec.add_ons.items()))) for one in columns.accounts]


def served(columns: Columns, policy: Policy, *, compiled: bool) -> Records:
    """All calls with their outcomes."""
    sold = sold_in(columns)
    fleet = RecordedFleet(accounts_for(columns, sold, policy, SEED), policy, SEED, compiled=compiled)
    chunks = []
    for chunk in columns.chunks():
        fleet.serve(chunk)
        chunks.append(chunk)
    return np.concatenate(chunks)


def check(columns: Columns, policy: Policy, *, compiled: bool) -> Records:
    rows = served(columns, policy, compiled=compiled)
    found = audit(columns, rows, sold_in(columns), policy, SEED)
    assert (found.calls, found.unequal) == (columns.calls, 0), found.text
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("assumptions", CASES.values(), ids=CASES)
def test_every_recorded_call_gets_what_the_service_gives_it(assumptions: dict[str, Any]) -> None:
    rows = check(generated(6, 2_500, seed=31), policy_of(assumptions), compiled=False)
    assert len(outcomes_of(rows)) >= 9, outcomes_of(rows)


@pytest.mark.heavy
@pytest.mark.parametrize("window", NAMES)
def test_a_million_calls_get_what_the_service_gives_them(window: str) -> None:
    """200,000 for each window, compiled."""
    rows = check(
        generated(200, 200_000, seed=NAMES.index(window)), policy_of({"window": window}), compiled=True
    )
    assert len(outcomes_of(rows)) >= 10


@pytest.mark.compiled
@pytest.mark.parametrize("assumptions", CASES.values(), ids=CASES)
def test_interpreted_and_compiled_agree(assumptions: dict[str, Any]) -> None:
    columns, policy = generated(8, 4_000, seed=77), policy_of(assumptions)
    assert np.array_equal(served(columns, policy, compiled=False), served(columns, policy, compiled=True))


def test_where_calls_are_cut_into_chunks_changes_nothing() -> None:
    policy, whole = policy_of({}), generated(3, 600, seed=2)
    (rows,) = whole.chunks()
    cut = replace(whole, chunks=lambda: (rows[at : at + 97].copy() for at in range(0, len(rows), 97)))
    first, second = (served(one, policy, compiled=False) for one in (whole, cut))
    assert np.array_equal(first, second)
