"""A world of what was read, fitted to what a run of its deployment showed."""

from __future__ import annotations

from typing import Any

from ranksim.core.contract.plans import CAPABILITY_OF
from ranksim.judge.mirror.world import MirroredWorld, learn_capabilities


def test_a_twin_allows_what_was_granted_there() -> None:
    keys = ["main", {"name": "scoped", "domain": "a.example.com"}]
    accounts = {"a": {"plan": "full", "keys": keys}, "b": {"plan": "small", "keys": ["other"]}}
    plans: dict[str, Any] = {
        "full": {"capabilities": ["seo"]},
        "small": {"capabilities": ["site_crawl", "ai_visibility"]},
    }
    twin = MirroredWorld({"plans": plans, "capability_of": dict(CAPABILITY_OF)}, {"accounts": accounts})
    answers = [("main", "rank_run", False), ("scoped", "keywords", True), ("main", "crawl", True)]
    learn_capabilities(twin, [*answers, ("other", "ai_scan", False), ("unknown", "crawl", True)])
    assert plans["full"]["capabilities"] == ["seo", "site_crawl", "rank_tracking"]
    assert plans["small"]["capabilities"] == ["site_crawl"]
