"""What was there before a run and after it, as the run itself read it, told in the report."""

from __future__ import annotations

import json
from typing import Any

from ranksim.judge.deployment.ownership import NOT_OURS
from ranksim.judge.load.summary import RefusedDomains
from ranksim.judge.load.untouched import Untouched


def reading(client: str, noun: str, items: list[Any], *, more: str | None = None, key: str = "main") -> Any:
    """A page of a list that was read before or after."""
    return {
        "kind": "exchange",
        "client": client,
        "method": "GET",
        "operations": [f"{noun}.list"],
        "api_key": key,
        "status": 200,
        "response": json.dumps({"data": items, "next_cursor": more}),
    }


def sent(method: str, path: str, body: Any = None) -> Any:
    return {
        "kind": "exchange",
        "client": "scope 1",
        "method": method,
        "operations": ["domains.update"],
        "path": path,
        "body": json.dumps(body),
    }


BLOG, SHOP = {"id": "dom_blog", "path": "/blog"}, {"id": "dom_shop", "path": None}
OURS = {"id": "dom_ours", "path": None}
SCAN = {"id": "scn_1", "active": True}


def lines(*trace: Any) -> list[str]:
    return Untouched.of(trace).lines()


def test_what_reads_the_same_is_counted_once_whatever_keys_read_it() -> None:
    assert lines(
        {"kind": "header"},
        reading("before", "domains", [BLOG], more="next"),
        reading("before", "domains", [SHOP]),
        reading("before", "domains", [SHOP], key="scoped"),
        reading("before", "scans", [SCAN]),
        reading("before", "jobs", [{"id": "job_1", "status": "running"}]),
        reading("after", "domains", [BLOG, SHOP, OURS]),
        reading("after", "domains", [SHOP], key="scoped"),
        reading("after", "scans", [SCAN]),
        reading("after", "jobs", [{"id": "job_1", "status": "done"}]),
    ) == ["untouched: what was there before reads the same after: 2 domains, 1 scan"]


def test_what_reads_otherwise_is_named_with_who_may_have_changed_it() -> None:
    assert lines(
        reading("before", "domains", [BLOG, SHOP]),
        reading("before", "scans", [SCAN]),
        sent("PATCH", "/v1/domains/dom_blog", {"path": None}),
        reading("after", "domains", [BLOG | {"path": None}, SHOP]),
        reading("after", "scans", []),
    ) == [
        "of 2 domains, 1 scan that were there before, 1 read the same after, not:",
        "  domains dom_blog: path (the run wrote to it)",
        "  scans scn_1: gone (not by the run)",
    ]


def test_a_job_is_written_to_its_domain() -> None:
    crawled = BLOG | {"last_full_crawl_at": "2026-03-02T09:00:00Z"}
    said = lines(
        reading("before", "domains", [BLOG]),
        sent("POST", "/v1/jobs", {"kind": "crawl", "domain_id": "dom_blog"}),
        reading("after", "domains", [crawled]),
    )
    assert said[1] == "  domains dom_blog: last_full_crawl_at (the run wrote to it)"


def test_what_was_not_read_again_is_not_judged() -> None:
    before = reading("before", "domains", [BLOG, SHOP])
    assert lines(before) == []
    cut = reading("after", "domains", [BLOG], more="next")
    assert lines(before, cut) == ["untouched: what was there before reads the same after: 1 domain"]


def test_calls_that_were_held_back_are_told() -> None:
    note = {"kind": "note", "text": NOT_OURS, "calls": 2}
    assert lines(note) == ["2 calls were held back, lest they write to what is not the run's"]


def test_a_run_that_could_make_no_domain_says_so() -> None:
    def asked(key: str, status: int, environment: str = "production", code: str = "plan_limit") -> Any:
        answered = {"api_key": key, "status": status, "environment": environment}
        response = json.dumps({"code": code})
        return {"kind": "exchange", "operations": ["domains.create"], "response": response, **answered}

    keys = {"main": {"environment": "production"}, "other": {"environment": "production"}}
    scoped = {"environment": "production", "domain_id": "dom_1"}
    trace = [
        {"kind": "header", "keys": {**keys, "scoped": scoped}},
        asked("main", 201),
        asked("main", 402),
        asked("main", 402),
        asked("main", 429),
        asked("main", 409),
        asked("other", 201),
        asked("other", 403, "sandbox"),
        asked("scoped", 403),
        {**sent("GET", "/v1/domains"), "operations": ["domains.list"]},
    ]
    assert RefusedDomains.of(trace).lines() == [
        "2 of 3 domains could not be made with the key main (402 plan_limit): what goes on within one was "
        "not exercised there; `use_domains` in a target file names some that may be used"
    ]
    assert RefusedDomains.of(trace[:2]).lines() == []


def test_many_differences_are_counted() -> None:
    many = [{"id": f"dom_{number}", "path": None} for number in range(7)]
    said = lines(
        reading("before", "domains", many),
        reading("after", "domains", [one | {"path": "/"} for one in many]),
    )
    assert (len(said), said[-1]) == (7, "  and 2 more")
