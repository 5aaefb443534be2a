"""Jobs, and how one ends."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.quantities import Frozen
from ranksim.core.service.spend_decision import usd
from ranksim.core.service.state import Job
from ranksim.twin.facade.control.command import LISTED, Conflict, Listed, Money, Router, look_up
from ranksim.twin.facade.twin import Twin

router = Router()


class JobsQuery(Frozen):
    """Which jobs."""

    account_id: str | None = None
    domain_id: str | None = None
    kind: str | None = None
    status: Literal["queued", "running", "done", "failed"] | None = None
    limit: Listed = LISTED


class JobShown(TypedDict):
    """A job."""

    id: str
    account_id: str
    domain_id: str
    kind: str
    status: str
    created_at: str
    started_at: str | None
    finished_at: str | None
    due: str | None
    estimate: str
    cost: str
    error_detail: str | None


class JobList(TypedDict):
    """Jobs, newest first."""

    data: list[JobShown]


class FinishBody(Frozen):
    """How a job ends."""

    outcome: Literal["done", "failed"]
    error: str | None = Field(None, description="The error_detail of a job that fails.")
    cost: Money | None = Field(None, description="What it cost; by default its estimate.")


@router.add("GET", "/jobs")
async def list_jobs(twin: Twin, query: JobsQuery) -> JobList:
    """List jobs, newest first."""
    jobs = [
        job
        for job in reversed(twin.service.state.jobs.values())
        if query.account_id in (None, job.account)
        and query.domain_id in (None, job.domain)
        and query.kind in (None, job.kind)
        and query.status in (None, job.status)
    ]
    return {"data": [_job_shown(job) for job in jobs[: query.limit]]}


@router.add("GET", "/jobs/{id}")
async def get_job(twin: Twin, job: str) -> JobShown:
    """Read a job."""
    return _job_shown(look_up(twin.service.state.jobs, job, "job"))


@router.add(
    "POST", "/jobs/{id}/finish", example={"outcome": "failed", "error": "robots.txt forbids the crawl"}
)
async def finish_job(twin: Twin, job: str, body: FinishBody) -> JobShown:
    """End a job now, done or failed. Advance by 0s to have its webhooks answered."""
    ending = look_up(twin.service.state.jobs, job, "job")
    if ending.status in ("done", "failed"):
        raise Conflict(f"job: {job} has ended already, {ending.status}")
    twin.finish_job(job, body.outcome, body.error, body.cost)
    return _job_shown(ending)


def _job_shown(job: Job) -> JobShown:
    return {
        "id": job.id,
        "account_id": job.account,
        "domain_id": job.domain,
        "kind": job.kind,
        "status": job.status,
        "created_at": iso(job.created_at),
        "started_at": _iso(job.started_at),
        "finished_at": _iso(job.finished_at),
        "due": _iso(job.due),
        "estimate": f"{usd(job.estimate)} USD",
        "cost": f"{usd(job.cost)} USD",
        "error_detail": job.error_detail,
    }


def _iso(at: Micros | None) -> str | None:
    return None if at is None else iso(at)
