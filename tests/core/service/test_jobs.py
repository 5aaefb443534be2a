"""Jobs from acceptance to end."""

import json
from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Attempt, Reply, StartJob

JOBS = ("rank_run", "crawl", "site_optimization", "ai_scan")
MINUTES = {"rank_run": 4, "crawl": 20, "site_optimization": 10, "ai_scan": 5}
MONTH_ENDS = instant("2026-04-04T10:00:00Z")


def said(*replies: Reply) -> list[str | int]:
    return [reply.code or reply.status for reply in replies]


def events(desk: Any) -> list[dict[str, Any]]:
    """The events that were sent to the desk's endpoint."""
    return [json.loads(task.body) for task in desk.tasks if isinstance(task, Attempt)]


def listen(desk: Any) -> None:
    desk.made("webhooks.create", {"url": "https://receiver.example/"})


# States


@pytest.mark.fact("S13", "S15", "S16", "S17", "S34", "U39", "U40", "U42", "U43")
@pytest.mark.parametrize("kind", JOBS)
def test_a_job_that_the_service_runs_itself(desk: Any, kind: str) -> None:
    started = desk.now
    reply = desk.job(kind)
    assert (reply.status, reply.outcome) == (202, "granted")
    first = desk.must(reply)
    assert first == {
        "id": first["id"],
        "kind": kind,
        "status": "queued",
        "domain_id": desk.domain,
        "progress": 0,
        "error_detail": None,
        "created_at": iso(started),
        "finished_at": None,
    }
    length = MINUTES[kind] * MINUTE
    seen = []
    for step in range(5):
        desk.at(started + step * length // 4)
        shown = desk.shown(reply)
        seen.append((shown["status"], shown["progress"]))
    running = [("running", percent) for percent in (0, 25, 50, 75)]
    assert seen == [*running, ("done", 100)]
    desk.wait(DAY)
    assert desk.shown(reply) == {
        **first,
        "status": "done",
        "progress": 100,
        "finished_at": iso(started + length),
    }


@pytest.mark.fact("S15", "U39", "U42")
@pytest.mark.parametrize(
    ("outcome", "error", "detail", "progress"),
    [
        ("done", None, None, 100),
        ("failed", "The site was down.", "The site was down.", 99),
        ("failed", None, "The job failed.", 99),
    ],
)
def test_a_job_of_a_pool(
    open_desk: Any, outcome: str, error: str | None, detail: str | None, progress: int
) -> None:
    desk = open_desk(pooled=["crawl"])
    reply = desk.job("crawl")
    job = desk.must(reply)
    assert desk.tasks == [StartJob(job["id"], "crawl", desk.account, desk.domain, 10, 1_000_000)]
    assert desk.service.next_due() is None
    desk.wait(HOUR)
    assert (desk.shown(reply)["status"], desk.shown(reply)["progress"]) == ("queued", 0)
    desk.service.started(job["id"], desk.now)
    desk.wait(5 * MINUTE)
    assert (desk.shown(reply)["status"], desk.shown(reply)["progress"]) == ("running", 25)
    desk.wait(HOUR)
    assert desk.shown(reply)["progress"] == 99
    desk.ended(reply, outcome, error=error)
    shown = desk.shown(reply)
    assert (shown["status"], shown["error_detail"], shown["progress"]) == (outcome, detail, progress)
    assert shown["finished_at"] == iso(desk.now)


def test_a_job_ends_once_and_starts_before_it_ends(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    listen(desk)
    reply = desk.job("crawl")
    desk.ended(reply, "failed")
    after = desk.service.save()
    desk.ended(reply, "done")
    desk.service.started(desk.must(reply)["id"], desk.now)
    assert desk.service.save() == after
    assert len(events(desk)) == 1


def test_an_unknown_outcome_is_refused(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    reply = desk.job("crawl")
    with pytest.raises(BadInput, match="expected one of done, failed, found 'error'"):
        desk.ended(reply, "error")
    assert desk.shown(reply)["status"] == "queued"


@pytest.mark.fact("S16", "U44", "S70", "U13")
def test_which_jobs_are_found(desk: Any) -> None:
    reply = desk.job("crawl")
    job = desk.must(reply)["id"]
    other = desk.service.open_account("other", "desk", desk.now)
    stranger = desk.service.issue_key(other, "k", desk.now)
    scoped = desk.token("scoped", desk.new_domain("other.example"))
    own = desk.token("own", desk.domain)
    assert said(
        desk.call("jobs.get", kind="crawl", id=job),
        desk.call("jobs.get", kind="crawl", id=job, key=own),
        desk.call("jobs.get", kind="rank_run", id=job),
        desk.call("jobs.get", kind="crawl", id="job_9"),
        desk.call("jobs.get", kind="crawl", id=job, key=stranger),
        desk.call("jobs.get", kind="crawl", id=job, key=scoped),
    ) == [200, 200, "not_found", "not_found", "not_found", "not_found"]
    assert desk.get("jobs.list", key=stranger) == desk.get("jobs.list", key=scoped) == []


@pytest.mark.fact("U107", "U110", "U37")
def test_jobs_are_listed_and_filtered(desk: Any) -> None:
    other = desk.new_domain("other.example")
    crawl, scan = desk.must(desk.job("crawl"))["id"], desk.must(desk.job("ai_scan"))["id"]
    desk.wait(10 * MINUTE)
    last = desk.must(desk.job("ai_scan", domain=other))["id"]

    def listed(**query: str) -> list[str]:
        return [job["id"] for job in desk.get("jobs.list", query=query)]

    assert listed() == [crawl, scan, last]
    assert listed(kind="ai_scan") == [scan, last]
    assert listed(domain_id=desk.domain) == [crawl, scan]
    assert listed(status="running") == [crawl, last]
    assert listed(status="done", kind="crawl") == []


@pytest.mark.fact("S12", "U43")
def test_a_crawl_that_finishes_well_is_noted_on_its_domain(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    for outcome in ("failed", "done", "failed"):
        before = desk.get("domains.get", id=desk.domain)["last_full_crawl_at"]
        crawl = desk.job("crawl")
        desk.wait(DAY)
        assert desk.get("domains.get", id=desk.domain)["last_full_crawl_at"] == before
        desk.ended(crawl, outcome)
        after = desk.get("domains.get", id=desk.domain)["last_full_crawl_at"]
        assert after == (iso(desk.now) if outcome == "done" else before)


# Outcomes that are drawn


def test_how_often_jobs_fail_is_data_of_the_catalogue(open_desk: Any) -> None:
    rates = {"rank_run": 0, "crawl": 1000, "site_optimization": 0, "ai_scan": 500}
    desk = open_desk({"cost_ceiling": "9999 USD"}, catalogue={"job_failure_rates": rates})
    replies = {kind: desk.job(kind) for kind in JOBS}
    desk.wait(HOUR)
    ends = {kind: desk.shown(replies[kind])["status"] for kind in JOBS[:3]}
    assert ends == {"rank_run": "done", "crawl": "failed", "site_optimization": "done"}
    assert desk.shown(replies["crawl"])["error_detail"] == "The provider did not answer."
    scans = []
    for _ in range(60):
        scans.append(desk.job("ai_scan"))
        desk.wait(10 * MINUTE)
    failed = sum(desk.shown(scan)["status"] == "failed" for scan in scans)
    assert 15 < failed < 45


def test_durations_are_drawn_by_seed_and_not_by_what_else_happens(open_desk: Any) -> None:
    def length(seed: int, *, busy: bool) -> int:
        spread = {"crawl": {"exponential": {"mean": "20m"}}}
        desk = open_desk(seed=seed, catalogue={"job_durations": spread})
        if busy:
            desk.must(desk.job("ai_scan"))
            desk.must(desk.briefs("a"))
        crawl = desk.must(desk.job("crawl"))["id"]
        due: int = desk.service.state.jobs[crawl].due
        return due - desk.now

    lengths = [length(seed, busy=False) for seed in range(5)]
    assert len(set(lengths)) == 5
    assert [length(seed, busy=True) for seed in range(5)] == lengths


# Joining


@pytest.mark.fact("E8", "S52", "U40", "U45")
def test_two_keys_on_one_rank_run_join_it_and_nothing_is_doubled(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"], scan=True)
    first = desk.must(desk.job())
    before = (desk.cost(), desk.slots(), desk.usage())
    for key in (desk.token("second"), desk.token("third")):
        reply = desk.job(key=key, idempotency_key=key)
        assert (reply.status, reply.outcome) == (200, "joined")
        assert desk.must(reply)["id"] == first["id"]
    assert (desk.cost(), desk.slots(), desk.usage()) == before
    assert len(desk.get("jobs.list")) == 1


@pytest.mark.fact("E9", "S76")
def test_a_joined_rank_run_sends_one_event(desk: Any) -> None:
    listen(desk)
    job = desk.must(desk.job())["id"]
    for _ in range(3):
        desk.wait(MINUTE)
        desk.must(desk.job())
    desk.wait(MINUTE)
    assert [(event["type"], event["data"]["job"]["id"]) for event in events(desk)] == [("job.completed", job)]


@pytest.mark.fact("S52", "U45")
def test_a_queued_rank_run_is_joined_and_a_finished_one_is_not(open_desk: Any) -> None:
    desk = open_desk({"cooldowns": {}}, pooled=["rank_run"])
    first = desk.job()
    assert desk.job().outcome == "joined"
    desk.service.started(desk.must(first)["id"], desk.now)
    assert desk.job().outcome == "joined"
    assert desk.job(domain=desk.new_domain("other.example")).outcome == "granted"
    desk.ended(first, "failed")
    again = desk.job()
    assert again.outcome == "granted"
    assert desk.must(again)["id"] != desk.must(first)["id"]


@pytest.mark.fact("E10", "S53", "S54", "S55")
def test_only_a_rank_run_is_joined(desk: Any) -> None:
    for kind in ("crawl", "site_optimization"):
        desk.must(desk.job(kind))
        assert desk.job(kind).code == "cooldown_active"
    first, second = desk.job("ai_scan"), desk.job("ai_scan")
    assert first.outcome == second.outcome == "granted"
    assert desk.must(first)["id"] != desk.must(second)["id"]
    desk.wait(5 * MINUTE)
    assert desk.shown(first)["status"] == desk.shown(second)["status"] == "done"


# Ends


@pytest.mark.fact("S76", "S75", "S82", "S15")
@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize(("outcome", "type_"), [("done", "job.completed"), ("failed", "job.failed")])
def test_every_end_sends_its_event(open_desk: Any, kind: str, outcome: str, type_: str) -> None:
    desk = open_desk(pooled=JOBS)
    listen(desk)
    reply = desk.job(kind)
    desk.wait(MINUTE)
    desk.ended(reply, outcome, error="why")
    assert [event["type"] for event in events(desk)] == [type_]
    assert events(desk)[0]["data"]["job"] == {
        "id": desk.must(reply)["id"],
        "kind": kind,
        "status": outcome,
        "domain_id": desk.domain,
        "error_detail": "why" if outcome == "failed" else None,
        "finished_at": iso(desk.now),
    }


@pytest.mark.fact("E50", "S65", "U46", "S76")
def test_a_failure_disarms_the_cooldown_and_is_told(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    listen(desk)
    crawl = desk.job("crawl")
    assert said(desk.job("crawl")) == ["cooldown_active"]
    desk.ended(crawl, "failed")
    assert [event["type"] for event in events(desk)] == ["job.failed"]
    again = desk.job("crawl")
    assert again.status == 202
    desk.ended(again)
    assert said(desk.job("crawl")) == ["cooldown_active"]


@pytest.mark.fact("U49", "U48")
def test_an_actual_cost_may_pass_the_ceiling_and_the_job_completes(open_desk: Any) -> None:
    desk = open_desk({"cost_ceiling": "1.50 USD"}, pooled=["crawl", "ai_scan"])
    crawl, scan = desk.job("crawl"), desk.job("ai_scan")
    desk.must(scan)
    desk.ended(crawl, cost=5_000_000)
    desk.ended(scan, "failed", cost=7_000_000)
    assert desk.cost() == ("5.00", "0.00", "5.00")
    assert desk.shown(crawl)["status"] == "done"
    assert said(desk.job("ai_scan")) == ["cost_cap_reached"]


@pytest.mark.fact("E16", "E17", "S26")
def test_a_job_that_outlives_the_month_settles_in_the_old_one_and_revives_no_hold(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"], scan=True, pooled=["rank_run"])
    desk.at(MONTH_ENDS - SECOND)
    run = desk.job()
    desk.call("keywords.delete", id=desk.get("keywords.list")[0]["id"])
    assert (desk.slots()["active"], desk.slots()["held"], desk.cost()) == (1, 1, ("0.00", "0.20", "0.20"))
    desk.at(MONTH_ENDS)
    assert (desk.slots()["active"], desk.slots()["held"], desk.cost()) == (1, 0, ("0.00", "0.00", "0.00"))
    desk.wait(MINUTE)
    desk.ended(run)
    assert (desk.slots()["active"], desk.slots()["held"], desk.cost()) == (1, 0, ("0.00", "0.00", "0.00"))
    desk.must(desk.briefs("c"))
    assert desk.cost() == ("0.50", "0.00", "0.50")


@pytest.mark.parametrize("outcome", ["done", "failed"])
@pytest.mark.parametrize("scope", ["domain", "account"])
def test_a_job_ends_after_its_domain_is_deleted(open_desk: Any, outcome: str, scope: str) -> None:
    desk = open_desk(pooled=["crawl"], assumptions={"cooldown_scope": scope})
    listen(desk)
    crawl = desk.job("crawl")
    assert desk.call("domains.delete", id=desk.domain).status == 204
    desk.ended(crawl, outcome)
    assert desk.cost() == (("1.00" if outcome == "done" else "0.00"), "0.00", desk.cost()[0])
    assert len(events(desk)) == 1
    assert desk.shown(crawl)["status"] == outcome
    again = desk.job("crawl", domain=desk.new_domain("again.example"))
    assert said(again) == ["cooldown_active" if (scope, outcome) == ("account", "done") else 202]


@pytest.mark.fact("S14", "S34", "U86")
def test_a_job_names_its_kind_and_its_domain(desk: Any) -> None:
    before = desk.picture()
    for body, field in (
        ({"domain_id": desk.domain}, "kind"),
        ({"kind": "report", "domain_id": desk.domain}, "kind"),
        ({"kind": "crawl"}, "domain_id"),
        ({"kind": "crawl", "domain_id": 7}, "domain_id"),
    ):
        reply = desk.call("jobs.create", body)
        assert (reply.status, reply.code) == (422, "validation_failed")
        assert [error["field"] for error in reply.body["meta"]["errors"]] == [field]
    assert said(desk.job(domain="dom_9")) == ["not_found"]
    assert desk.picture() == before


def test_a_cost_below_zero_is_bad_input(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    job = desk.job("crawl")
    with pytest.raises(BadInput, match=r"^cost: expected 0 µUSD or more, found -1$"):
        desk.ended(job, cost=-1)
    desk.ended(job, cost=0)
    assert desk.cost() == ("0.00", "0.00", "0.00")
