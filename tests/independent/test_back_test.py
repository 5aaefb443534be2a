"""The back-test of the shipped trace and access log, line by line from the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

USD = 1_000_000
BRIEF, PAGE_OF_RANKS, PAGE_OF_SITE = 30_000, 400, 2_000
EXAMPLES = Path(__file__).parents[2] / "examples" / "pricing"


def exchanges() -> list[dict[str, Any]]:
    lines = (EXAMPLES / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record.get("kind") == "exchange"]


def refused(briefs: int, optimizes: bool) -> list[tuple[str, str]]:
    """(operation, code) of the calls refused under a plan with so many briefs a week, all in one week."""
    left, refusals, jobs = briefs, [], {}
    for call in exchanges():
        operation = next(iter(call["operations"]), "")
        body = json.loads(call.get("body") or "{}")
        if operation == "keyword_briefs.create":
            if left < len(body["keywords"]):
                refusals.append((operation, "quota_exhausted"))
            else:
                left -= len(body["keywords"])
        elif operation == "jobs.create":
            made = optimizes or body["kind"] != "site_optimization"
            jobs[body["kind"]] = made
            if not made:
                refusals.append((operation, "entitlement_required"))
        elif operation == "jobs.get" and not jobs[call["path"].split("/")[3]]:
            refusals.append((operation, "not_found"))
    return refusals


@pytest.mark.example(
    "docs/pricing.md", '("quota_exhausted", 2), ("entitlement_required", 1), ("not_found", 1)'
)
def test_what_became_of_each_call(page: Page) -> None:
    tested = page("docs/pricing.md")["tested"]
    under_starter, under_pro = refused(10, optimizes=False), refused(50, optimizes=True)
    assert under_pro == []
    expected = Counter(under_starter)
    assert {(c["operation"], c["was"]): c["calls"] for c in tested.changes} == expected
    assert {c["change"] for c in tested.changes} == {"newly admitted"}
    assert sorted(Counter(code for _, code in under_starter).values()) == [1, 1, 2]


@pytest.mark.example(
    "docs/pricing.md",
    'tested.total("revenue", "A") == 29 * USD and tested.total("revenue", "B") == 129 * USD',
    'tested.total("cost", "A") == 10 * 30_000 + 50 * 400',
    "optimized > 0 and optimized % 2_000 == 0",
)
def test_the_invoices(page: Page) -> None:
    tested = page("docs/pricing.md")["tested"]
    made = Counter(next(iter(call["operations"]), "") for call in exchanges())
    assert made["keyword_briefs.create"] == 12
    assert (tested.total("revenue", "A"), tested.total("revenue", "B")) == (29 * USD, 129 * USD)
    assert tested.total("cost", "A") == min(12, 10) * BRIEF + 50 * PAGE_OF_RANKS
    # How many pages a site has is drawn; it is the same as what the optimization itself is said to cost.
    site = [row["b_cost"] for row in tested.tables["calls"] if row["b_cost"] > 50 * PAGE_OF_RANKS + BRIEF]
    assert len(site) == 1
    assert tested.total("cost", "B") == 12 * BRIEF + 50 * PAGE_OF_RANKS + site[0]
    assert site[0] % PAGE_OF_SITE == 0


@pytest.mark.example(
    "docs/pricing.md",
    'for side in fast.served] == [tested.total("cost", name) for name in "AB"]',
    'fast.customers[0]["sentence"] == (',
)
def test_columns_of_the_same_calls(page: Page) -> None:
    """What looks for a job that was never made is no refusal of the plan."""
    names = page("docs/pricing.md")
    codes = Counter(code for _, code in refused(10, optimizes=False) if code != "not_found")
    at = {call["sent"] // 86_400_000_000 for call in exchanges()}
    day = date(1970, 1, 1) + timedelta(days=at.pop())
    assert not at  # all in a day
    assert names["fast"].customers[0]["sentence"] == (
        f"On starter you would have been billed 29.00 USD for 1 month, and {codes.total()} of your "
        f"{len(names['tested'].calls)} calls would have been refused on 1 day, first on {day}: "
        + ", ".join(f"{codes[code]} {code} (never before)" for code in sorted(codes))
        + "."
    )
    starter, pro = (int(side.cost.sum()) for side in names["fast"].served)
    assert starter == 10 * BRIEF + 50 * PAGE_OF_RANKS
    assert (pro - 12 * BRIEF - 50 * PAGE_OF_RANKS) % PAGE_OF_SITE == 0
    assert pro == names["tested"].total("cost", "B")


@pytest.mark.example(
    "docs/pricing.md", '(sought.best["plans.starter.price"], sought.best[allowance]) == (39 * USD, 15)'
)
def test_the_best_catalogue_for_the_customer_of_the_trace(page: Page) -> None:
    """Of those under which nothing is refused, the one that leaves most; both serve the same calls."""
    sought = page("docs/pricing.md")["sought"]
    fits = [
        (price * USD - 12 * BRIEF, price, briefs)
        for price in (29, 39)
        for briefs in (10, 15)
        if not refused(briefs, optimizes=True)
    ]
    _, price, briefs = max(fits)
    assert len(fits) == 2
    best = {
        name.rpartition(".")[2]: value for name, value in sought.best.items() if name.startswith("plans.")
    }
    assert best == {"price": price * USD, "limit": briefs} == {"price": 39 * USD, "limit": 15}


@pytest.mark.example("docs/pricing.md", 'tested.left_out == { "by a GraphQL document": 1,')
def test_what_cannot_be_replayed(page: Page) -> None:
    calls = exchanges()
    graphql = sum(call.get("surface") == "graphql" for call in calls)
    bare = sum(call["method"] == "POST" and not call["body"] for call in calls)
    before = sum("webhooks.get" in call["operations"] for call in calls)
    assert page("docs/pricing.md")["tested"].left_out == {
        "by a GraphQL document": graphql,
        "without a body, and no rule of --map gives one": bare,
        "about webhooks from before the recording": before,
    }
    assert (graphql, bare, before) == (1, 1, 1)


@pytest.mark.example(
    "docs/pricing.md",
    "examples/pricing/access.log --map examples/pricing/rules.yaml --plan starter --plan free",
)
def test_an_access_log(command: Callable[..., Any]) -> None:
    """Every line by hand: a crawl takes a day to cool down, and the free plan has none."""
    flags = "--map examples/pricing/rules.yaml --plan starter --plan free"
    answer = command("price", "back-test", "examples/pricing/access.log", *flags.split())
    rows = [(row["recorded"], row["a"], row["b"], row["b_code"]) for row in answer["tables"]["calls"]]
    crawled: set[str] = set()
    expected = []
    for line in (EXAMPLES / "access.log").read_text(encoding="utf-8").splitlines():
        client, (method, path, _) = line.split()[0], line.split('"')[1].split()
        status = int(line.split()[-2])
        if (method, path) == ("POST", "/v1/jobs"):
            expected.append((status, 409 if client in crawled else 202, 403, "entitlement_required"))
            crawled.add(client)
        elif (method, path) == ("GET", "/v1/domains"):
            expected.append((status, 200, 200, ""))
    assert rows == expected
    assert any("A answers 80 %" in note for note in answer["notes"])
    assert sum(recorded == a for recorded, a, _, _ in rows) / len(rows) == 0.8
