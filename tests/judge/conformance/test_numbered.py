"""Deployments whose ids are plain numbers, counted by each resource, kind of job or account for itself."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import pytest
from tests.kit.traces import (
    DAY,
    HOUR,
    Entry,
    a_job,
    a_trace,
    call,
    created,
    hook,
    judged,
    policy_of,
)

from ranksim.core.trace import Exchange
from ranksim.judge.conformance.calls import access, jobs, pagination, updates
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.webhooks import attempts, completeness


def started(sent: float, kind: str, **fields: str) -> Exchange:
    job = a_job(id="1", kind=kind, status="running", finished_at=None, **fields)
    return call("jobs.create", sent, sent + 1, job, body={"kind": kind, "domain_id": "1"}, status=202)


def read(sent: float, kind: str, **fields: str | None) -> Exchange:
    return call(
        "jobs.get", sent, sent + 1, a_job(id="1", kind=kind, **fields), path={"kind": kind, "id": "1"}
    )


FAILED = {"status": "failed", "error_detail": "no"}

CASES: dict[str, tuple[ModuleType, Sequence[Entry]]] = {
    "jobs of two kinds": (
        jobs,
        [started(0, "crawl"), started(2, "ai_scan"), read(4, "crawl", **FAILED), read(6, "ai_scan")],
    ),
    "a job that events tell of": (
        jobs,
        [started(0, "crawl"), hook(3, job={"id": "1", "kind": "ai_scan", **FAILED}), read(4, "crawl")],
    ),
    "a list of jobs": (
        pagination,
        [
            call("jobs.list", 0, 1, [a_job(id="1", kind="crawl")], more="c"),
            call("jobs.list", 2, 3, [a_job(id="1", kind="ai_scan")], query={"cursor": "c"}),
        ],
    ),
    "two resources that are patched": (
        updates,
        [
            call("labels.update", 0, 1, {"id": "1", "name": "a"}, path={"id": "1"}, body={"name": "a"}),
            call("keyword_lists.get", 2, 3, {"id": "1", "name": "b"}, path={"id": "1"}),
        ],
    ),
    "the same of two accounts": (
        updates,
        [
            call("labels.update", 0, 1, {"id": "1", "name": "a"}, path={"id": "1"}, body={"name": "a"}),
            call("labels.get", 2, 3, {"id": "1", "name": "b"}, path={"id": "1"}, key="other"),
        ],
    ),
    "a domain and a list of another": (
        access,
        [
            call("keyword_lists.create", 0, 1, {"id": "dom_1", "domain_id": "dom_2"}, status=201),
            call("domains.get", 2, 3, {"id": "dom_1"}, path={"id": "dom_1"}, key="scoped"),
        ],
    ),
    "jobs of two accounts": (
        attempts,
        [
            created(),
            started(0, "crawl"),
            hook(3, job={"id": "1", "kind": "crawl"}, endpoint="whk_1"),
            started(5, "crawl").model_copy(update={"api_key": "other"}),
        ],
    ),
    "events of two kinds": (
        attempts,
        [
            created(),
            started(0, "crawl"),
            started(2, "ai_scan"),
            hook(4, job={"id": "1", "kind": "crawl"}, endpoint="whk_1", event="evt_1"),
            hook(5, job={"id": "1", "kind": "ai_scan"}, endpoint="whk_1", event="evt_2"),
        ],
    ),
}


@pytest.mark.parametrize(("judge", "entries"), CASES.values(), ids=CASES.keys())
def test_a_number_is_of_its_own_kind(judge: ModuleType, entries: Sequence[Entry]) -> None:
    assert [one for one in judged(judge, entries).findings() if one.broken] == []


def test_two_kinds_of_jobs_under_one_number_are_no_join() -> None:
    entries = [started(0, "crawl"), started(2, "ai_scan"), started(DAY, "site_optimization")]
    assert compare(a_trace(entries)).finding("cooldown.joins_only").broken == 0


def test_a_list_made_in_the_run_is_no_domain_made_in_it() -> None:
    made = call("keyword_lists.create", 0, 1, {"id": "1"}, body={"domain_id": "9"}, status=201)
    wait = call("jobs.create", 2, 3, code="cooldown_active", body={"kind": "crawl", "domain_id": "1"})
    pinned = policy_of(cooldown_scope="domain", cooldown_from="acceptance")
    assert compare(a_trace([made, wait]), pinned).finding("cooldown.refused").broken == 0


def test_the_end_of_each_kind_is_told() -> None:
    entries = [created(), started(0, "crawl"), started(2, "ai_scan"), read(4, "crawl"), read(6, "ai_scan")]
    hooks = [hook(8, job={"id": "1", "kind": "crawl"}, endpoint="whk_1")]
    later = call("webhook_deliveries.list", HOUR / 2, HOUR / 2 + 1, [])
    tally = judged(completeness, [*entries, *hooks, later])
    [finding] = [one for one in tally.findings() if one.rule.name == "webhook.sent"]
    assert (finding.held, finding.broken) == (1, 1)
