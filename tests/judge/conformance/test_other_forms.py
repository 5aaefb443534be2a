"""Deployments that conform and write or count their books in another way than ranksim: nothing deviates."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

HOUR = 3600
SOON = "2026-03-08T23:59:58Z"  # Monday, as a deployment that counts from now may round it

CASES: dict[str, tuple[str, Callable[[ModuleType], list[Any]]]] = {
    # Numbers
    "integers as floats": (
        "quota.meta",
        lambda d: [d.usage(0, 10.0, 10.0), d.briefs(1, **d.exhausted(10.0, 10.0))],
    ),
    "-1 for no limit": (
        "quota.sum",
        lambda d: [d.usage(0, 3, -1, remaining=-1), d.briefs(1), d.usage(2, 4, -1, remaining=-1)],
    ),
    "-1 for no limit of slots": (
        "slots.limit",
        lambda d: [d.slots(0, 1, limit=-1), d.words(1, "a", added=1), d.slots(3, 2, limit=-1)],
    ),
    "less than nothing remaining": ("quota.sum", lambda d: [d.usage(0, 12, 10, remaining=-2)]),
    "less than nothing available": ("slots.sum", lambda d: [d.slots(0, 12, limit=10, available=-2)]),
    "amounts rounded to cents": ("cost.sum", lambda d: [d.cost(0, "1.23", "0.45", spent="1.69")]),
    "a sum rounded to cents": ("cost.sum", lambda d: [d.cost(0, "1.234567", "0.45", spent="1.68")]),
    "amounts as sums of floats": ("cost.sum", lambda d: [d.cost(0, 0.006171, 0.3, spent=0.006171 + 0.3)]),
    "amounts finer than a millionth": (
        "cost.sum",
        lambda d: [d.cost(0, "0.1234567", "0.1234567", spent="0.2469134")],
    ),
    # Resets
    "resets that are rounded": (
        "quota.counted",
        lambda d: [d.usage(0, 5, resets_at=SOON), d.briefs(1), d.usage(2, 6)],
    ),
    "resets that are rounded back": ("quota.reset", lambda d: [d.usage(0), d.usage(1, resets_at=SOON)]),
    "a reset that has just passed": (
        "cost.reset",
        lambda d: [d.cost(0, resets_at="2026-03-04T11:59:58Z")],
    ),
    "a week in which clocks are put back": (
        "quota.reset",
        lambda d: [d.usage(-2.5 * 24 * HOUR + 60, resets_at="2026-03-09T01:00:00Z")],
    ),
    # Units
    "a unit a page": (
        "quota.counted",
        lambda d: [d.usage(0, 5, metric="pages", period="month"), d.job(1), monthly(d, 2, 300)],
    ),
    "more units than are left": (
        "quota.refused",
        lambda d: [d.job(1, **d.exhausted(5, 10, metric="pages"))],
    ),
    # Cost
    "a charge given back": ("cost.counted", lambda d: given_back(d)),
    "a scheduled run of a scan": (
        "cost.counted",
        lambda d: [d.cost(0), scheduled(d, 1), d.cost(2, reserved="0.10")],
    ),
    "a scheduled run around a dry run": (
        "dry_run.free",
        lambda d: [d.cost(0), d.briefs(1, dry=True), d.cost(2, reserved="0.10"), scheduled(d, 3)],
    ),
    # Plans that are changed
    "a smaller plan": (
        "quota.limit",
        lambda d: [d.usage(0, 5, 50), d.briefs(1, 20), d.usage(2, 25, 10)],
    ),
    "a smaller plan of slots": (
        "slots.limit",
        lambda d: [d.slots(0, 5, limit=50), d.words(1, "a", added=20), d.slots(2, 25, limit=10)],
    ),
    # Reads that are metered
    "reads of an allowance": ("guards.reads", lambda d: [metered(d)]),
}


def given_back(d: ModuleType) -> list[Any]:
    job, failed = d.job(1, id="j1"), d.shown(3, "j1", "failed")
    return [d.cost(0, "1.00"), job, d.cost(2, "1.50"), failed, d.cost(4, "1.00")]


def scheduled(d: ModuleType, at: float) -> Any:
    job = {"id": "j9", "kind": "rank_run", "status": "running", "domain_id": "d1", "error_detail": None}
    return d.call(at, "jobs.list", [job], more={"has_more": False, "next_cursor": None})


def monthly(d: ModuleType, at: float, used: int) -> Any:
    return d.usage(at, used, 1000, metric="pages", period="month")


def metered(d: ModuleType) -> Any:
    return d.call(0, "backlinks.list", **d.exhausted(metric="backlinks"))


@pytest.mark.parametrize(("rule", "trace"), CASES.values(), ids=CASES.keys())
def test_another_form_is_no_deviation(
    rule: str, trace: Callable[[ModuleType], list[Any]], d: ModuleType
) -> None:
    found = d.judged(trace(d)).findings()
    assert [one.evidence[0].says for one in found if one.broken] == []
    assert next(one for one in found if one.rule.name == rule)


def test_two_api_keys_may_use_one_idempotency_key(d: ModuleType) -> None:
    """Where each API key has its own (U27), a lost call of one is not told by the other's reply."""
    trace = [
        d.slots(0, 0),
        d.words(1, "a", added=1, idempotency_key="k"),
        d.words(2, "b", added=1, idempotency_key="k", key="second", lost=True),
        d.slots(3, 2),
    ]
    assert d.verdict("slots.counted", trace) != "broke"
