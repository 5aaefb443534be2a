"""What a job is told to be, once and again."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_job, call, found, hook, judged

from ranksim.judge.conformance.calls import jobs
from ranksim.judge.conformance.judging import SETTLED_EVERY

FAILED: dict[str, Any] = {"status": "failed", "error_detail": "timeout"}
RUNNING: dict[str, Any] = {"status": "running", "finished_at": None}
QUEUED: dict[str, Any] = {"status": "queued", "finished_at": None}


def start(sent: float, kind: str = "crawl", **fields: Any) -> Entry:
    body = {"kind": kind, "domain_id": "dom_1"}
    return call("jobs.create", sent, sent + 1, a_job(**(QUEUED | fields)), status=202, body=body)


def poll(sent: float, received: float | None = None, kind: str = "crawl", **fields: Any) -> Entry:
    path = {"kind": kind, "id": "job_1"}
    return call("jobs.get", sent, sent + 1 if received is None else received, a_job(**fields), path=path)


def refused(sent: float, kind: str, status: int = 404) -> Entry:
    return call(
        "jobs.get", sent, sent + 1, code="not_found", status=status, path={"kind": kind, "id": "job_1"}
    )


def listing(sent: float, **fields: Any) -> Entry:
    return call("jobs.list", sent, sent + 1, [a_job(**fields)])


TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "the kind asked for": (jobs.KINDS, [start(0)], "held"),
    "another kind": (jobs.KINDS, [start(0, kind="ai_scan")], "broken"),
    "a fifth kind": (jobs.KINDS, [listing(2, kind="audit")], "broken"),
    "forward": (jobs.PROGRESS, [start(0), poll(2, **RUNNING), poll(4)], "held"),
    "done, then running": (jobs.PROGRESS, [poll(0), poll(2, **RUNNING)], "broken"),
    "done, then failed": (jobs.PROGRESS, [poll(0), poll(2, **FAILED)], "broken"),
    "listed as done, then running": (jobs.PROGRESS, [listing(0), poll(2, **RUNNING)], "broken"),
    "told as done, then running": (
        jobs.PROGRESS,
        [start(0), hook(3), poll(5, **RUNNING)],
        "broken",
    ),
    "running beside done": (jobs.PROGRESS, [poll(0, 3), poll(1, 2, **RUNNING)], "nothing"),
    "done beside failed": (jobs.PROGRESS, [poll(0, 3), poll(1, 2, **FAILED)], "broken"),
    "failed, and later an event of its end as done": (
        jobs.PROGRESS,
        [start(0), poll(2, **FAILED), hook(5)],
        "broken",
    ),
    "ended at two instants, of polls at once": (
        jobs.FINAL,
        [poll(0, 3), poll(1, 2, finished_at="2026-03-02T09:00:01Z")],
        "broken",
    ),
    "running, then queued": (jobs.PROGRESS, [poll(0, **RUNNING), poll(2, **QUEUED)], "differs 39"),
    "progress that grows": (
        jobs.PROGRESS,
        [poll(0, **RUNNING, progress=3), poll(2, **RUNNING, progress=5)],
        "held",
    ),
    "progress that falls": (
        jobs.PROGRESS,
        [poll(0, **RUNNING, progress=5), poll(2, **RUNNING, progress=3)],
        "differs 42",
    ),
    "progress that may have been told in another order": (
        jobs.PROGRESS,
        [poll(0, 3, **RUNNING, progress=5), poll(1, 2, **RUNNING, progress=3), poll(5)],
        "held",
    ),
    "a replayed creation": (jobs.PROGRESS, [poll(0), start(2)], "nothing"),
    "another state": (jobs.PROGRESS, [poll(0, status="paused"), poll(2)], "differs 39"),
    "the same end": (jobs.FINAL, [poll(0), poll(2)], "held"),
    "another end": (jobs.FINAL, [poll(0), poll(2, finished_at="2026-03-02T09:00:01Z")], "broken"),
    "an event that tells otherwise": (
        jobs.FINAL,
        [start(0), hook(3, job={"finished_at": "2026-03-02T08:00:00Z"}), poll(5)],
        "broken",
    ),
    "no reason when done": (jobs.REASON, [poll(0)], "held"),
    "a reason when failed": (jobs.REASON, [poll(0, **FAILED)], "held"),
    "a reason when done": (jobs.REASON, [poll(0, error_detail="oops")], "broken"),
    "no reason when failed": (jobs.REASON, [poll(0, status="failed")], "broken"),
    "says when": (jobs.FINISHED, [poll(0)], "held"),
    "does not say when": (jobs.FINISHED, [poll(0, finished_at=None)], "broken"),
    "ended under another name, and does not say when": (
        jobs.FINISHED,
        [poll(0, status="error", error_detail="timeout", finished_at=None)],
        "broken",
    ),
    "says when too early": (jobs.FINISHED, [poll(0, status="running")], "differs 43"),
    "not found elsewhere": (jobs.WRONG_KIND, [start(0), refused(2, "ai_scan")], "held"),
    "a limit elsewhere": (jobs.WRONG_KIND, [start(0), refused(2, "ai_scan", 429)], "nothing"),
    "shown elsewhere as what it is": (
        jobs.WRONG_KIND,
        [start(0), call("jobs.get", 2, 3, a_job(), path={"kind": "ai_scan", "id": "job_1"})],
        "differs 44",
    ),
    "shown elsewhere as what was asked for": (
        jobs.WRONG_KIND,
        [
            start(0),
            call("jobs.get", 2, 3, a_job(kind="ai_scan"), path={"kind": "ai_scan", "id": "job_1"}),
        ],
        "broken",
    ),
}


@pytest.mark.fact("S13", "S14", "S15", "S16", "S34", "E6", "E44")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_jobs(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(jobs, entries), rule) == expected


@pytest.mark.fact("S15", "S16")
def test_an_event_tells_nothing_of_a_name_that_another_account_turns_out_to_have() -> None:
    """The jobs are compared long before the other account's is told of."""
    polls = [poll(5 + 2 * number, **RUNNING) for number in range(2 * SETTLED_EVERY)]
    other = call("jobs.get", 9000, 9001, a_job(), path={"kind": "crawl", "id": "job_1"}, key="other")
    assert found(judged(jobs, [start(0), hook(3), *polls, other]), jobs.PROGRESS) == "held"
