"""The numbers of docs/python.md that are neither words nor webhooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "src" / "ranksim" / "data" / "catalogues" / "illustrative.yaml"


@pytest.mark.example("docs/python.md", "slot_limit == 2 * pro.slot_limit")
def test_twice_the_slots(page: Page) -> None:
    sold = YAML(typ="safe", pure=True).load(CATALOGUE.read_text(encoding="utf-8"))["plans"]
    bigger = page("docs/python.md")["bigger"].catalogue.plans
    assert {name: plan.slot_limit for name, plan in bigger.items()} == {
        name: plan["slot_limit"] * (2 if name == "pro" else 1) for name, plan in sold.items()
    }


@pytest.mark.example(
    "docs/python.md",
    '(step.reply.status, step.reply.outcome) == (202, "granted")',
    '(reply.status, reply.code, reply.check) == (409, "cooldown_active", 6)',
)
def test_a_crawl_an_hour_after_a_crawl(page: Page) -> None:
    """A day's cooldown is the last of six checks; an hour is left of it for 23 more."""
    names = page("docs/python.md")
    sold = YAML(typ="safe", pure=True).load(CATALOGUE.read_text(encoding="utf-8"))["plans"]["pro"]
    assert sold["cooldowns"]["crawl"] == "1d"
    assert (names["step"].reply.status, names["step"].reply.outcome) == (202, "granted")
    reply = names["reply"]
    assert (reply.status, reply.code, reply.check) == (409, "cooldown_active", 6)
    assert reply.headers["Retry-After"] == str((24 - 1) * 3600)


@pytest.mark.example("docs/python.md", "len(seen) == 11 and seen[-1] > 0")
def test_an_auditor_who_looks_every_hour(page: Page) -> None:
    """Until noon, at which the run ends: at 1, 2, … 11."""
    seen = page("docs/python.md")["seen"]
    assert len(seen) == len(range(60, 12 * 60, 60)) == 11
    assert seen[-1] == max(seen) > 0
    assert sorted(seen) == seen  # jobs that are done stay so
