"""Jobs, and how one ends."""

from __future__ import annotations

from ranksim.core.clock import Micros, iso
from ranksim.core.service.spend_decision import usd
from ranksim.core.service.state import Job
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import Conflict, ControlRequest, Missing
from ranksim.twin.facade.twin import Twin


async def list_jobs(twin: Twin, request: ControlRequest) -> schemas.JobList:
    """List jobs, newest first."""
    query: schemas.JobsQuery = request.query
    found = [
        job
        for job in reversed(twin.service.state.jobs.values())
        if query.account_id in (None, job.account)
        and query.domain_id in (None, job.domain)
        and query.kind in (None, job.kind)
        and query.status in (None, job.status)
    ]
    return {"data": [_job_shown(job) for job in found[: query.limit]]}


async def get_job(twin: Twin, request: ControlRequest) -> schemas.JobShown:
    """Read a job."""
    return _job_shown(_job(twin, request))


async def finish_job(twin: Twin, request: ControlRequest) -> schemas.JobShown:
    """End a job now, done or failed. Advance by 0s to have its webhooks answered."""
    body: schemas.FinishBody = request.body
    job = _job(twin, request)
    if job.status in ("done", "failed"):
        raise Conflict(f"job: {job.id} has ended already, {job.status}")
    twin.finish_job(job.id, body.outcome, body.error, body.cost)
    return _job_shown(job)


def _job(twin: Twin, request: ControlRequest) -> Job:
    if request.path["id"] not in twin.service.state.jobs:
        raise Missing(f"job: there is none with the id {request.path['id']!r}")
    return twin.service.state.jobs[request.path["id"]]


def _job_shown(job: Job) -> schemas.JobShown:
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
