"""Jobs from acceptance to end: states, progress, cost, cooldowns, events (S13-S16, U39-U50).

queued → running → done | failed (U39). A job of a kind without a driver's pool starts at once and ends after
a drawn time; a pooled one is handed out as a task.
"""

from ranksim.core import draws
from ranksim.core.clock import DISTANT_PAST, iso
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.views import JobView
from ranksim.core.draws import Purpose
from ranksim.core.rules import admission
from ranksim.core.rules.access import sees
from ranksim.core.service import deliveries
from ranksim.core.service.calls import Reply, StartJob
from ranksim.core.service.context import JOB_ENDS, Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.events import JobEnded, JobQueued, JobStarted
from ranksim.core.service.replies import filters_of, paged, single
from ranksim.core.service.resolve import drop, record_for
from ranksim.core.service.spend_decision import settle
from ranksim.core.service.state import Account, Domain, Job

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"

KEPT_RUNS = 400
"""How many finished runs of a kind a domain remembers for its results."""


def show_job(ctx: Context, job: Job, now: int) -> JobView:
    """Return a Job as the API shows it, progress included (S13, S16, U42, U43)."""
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "domain_id": job.domain,
        "progress": progress(ctx, job, now),
        "error_detail": job.error_detail,
        "created_at": iso(job.created_at),
        "finished_at": None if job.finished_at is None else iso(job.finished_at),
    }


def progress(ctx: Context, job: Job, now: int) -> int:
    """Return a job's progress in whole percent (U42): of its drawn time, or of the kind's mean in a pool."""
    if job.status == DONE:
        return 100
    if job.started_at is None:
        return 0
    until = now if job.finished_at is None else job.finished_at
    due = job.due
    if due is None:
        due = job.started_at + ctx.policy.catalogue.duration_of(job.kind).mean()
    length = due - job.started_at
    percent = 100 * (until - job.started_at) // (length if length > 1 else 1)
    return percent if percent < 99 else 99


def get_job(ctx: Context, request: Request) -> Reply:
    """GET /jobs/{kind}/{id} (S16); another kind's id is not found (U44)."""
    kind, which = request.call.path["kind"], request.call.path["id"]
    job = record_for(ctx, request, ctx.state.jobs, which, f"{kind} job")
    if isinstance(job, Reply):
        return job
    if job.kind != kind:
        return problem(ctx.policy, "not_found", f"There is no {kind} job {which!r}.")
    return single(show_job(ctx, job, request.now))


def list_jobs(ctx: Context, request: Request) -> Reply:
    """GET /jobs, with filters domain_id, kind and status (U107, U110)."""
    jobs = ctx.state.jobs
    filters = filters_of(request, "domain_id", "kind", "status")

    def keep(job_id: str) -> bool:
        job = jobs[job_id]
        return (
            sees(request.scope, job.domain)
            and filters.get("domain_id", job.domain) == job.domain
            and filters.get("kind", job.kind) == job.kind
            and filters.get("status", job.status) == job.status
        )

    return paged(
        ctx,
        request,
        request.account.jobs,
        filters,
        keep if filters or request.scope is not None else None,
        lambda job_id: show_job(ctx, jobs[job_id], request.now),
    )


def running_of(ctx: Context, domain: Domain, kind: str) -> Job | None:
    """Find the latest job of a kind on a domain that is queued or running, or None (U45)."""
    under_way = domain.jobs.get(kind)
    return ctx.state.jobs[under_way[-1]] if under_way else None


def accept(ctx: Context, job: Job) -> None:
    """Take a booked job in: list it, then start it or hand it out."""
    account = ctx.state.accounts[job.account]
    domain = ctx.state.domains[job.domain]
    ctx.state.jobs[job.id] = job
    account.jobs.append(job.id)
    domain.jobs.setdefault(job.kind, []).append(job.id)
    ctx.events.append(JobQueued(job.created_at, job.account, job.domain, job.id, job.kind))
    if job.kind in ctx.pooled:
        ctx.tasks.append(StartJob(job.id, job.kind, job.account, job.domain, job.units, job.estimate))
        return
    job.status = RUNNING
    job.started_at = job.created_at
    ctx.events.append(JobStarted(job.created_at, job.account, job.domain, job.id, job.kind))
    u = draws.uniform(ctx.state.seed, _who(job), job.created_at, Purpose.JOB_DURATION)
    job.due = job.created_at + ctx.policy.catalogue.duration_of(job.kind).at(u)
    ctx.schedule(job.due, JOB_ENDS, job.id)


def adopt(ctx: Context, now: int) -> None:
    """Run from now on the jobs that a pool had taken in and not ended, where no pool does any more."""
    for job in ctx.state.jobs.values():
        if job.status in (QUEUED, RUNNING) and job.due is None and job.kind not in ctx.pooled:
            started(ctx, job.id, now)
            u = draws.uniform(ctx.state.seed, _who(job), job.created_at, Purpose.JOB_DURATION)
            job.due = now + ctx.policy.catalogue.duration_of(job.kind).at(u)
            ctx.schedule(job.due, JOB_ENDS, job.id)


def trigger(ctx: Context, domain: Domain, outcome: str, now: int) -> None:
    """List a crawl that ended as it began, so that whoever waits for such an end is told of one.

    Nobody asked for it: it is booked nowhere, costs nothing and begins no cooldown.
    """
    job = Job(
        id=ctx.state.new_id("job"),
        account=domain.account,
        domain=domain.id,
        kind="crawl",
        status=outcome,
        created_at=now,
        units=0,
        estimate=0,
        month_ends=now,
        started_at=now,
        finished_at=now,
        error_detail="Triggered by hand." if outcome == FAILED else None,
    )
    ctx.state.jobs[job.id] = job
    ctx.state.accounts[job.account].jobs.append(job.id)
    ctx.events.append(JobQueued(now, job.account, job.domain, job.id, job.kind))
    ctx.events.append(JobStarted(now, job.account, job.domain, job.id, job.kind))
    ctx.events.append(JobEnded(now, job.account, job.domain, job.id, job.kind, outcome, 0, job.error_detail))
    deliveries.emit_job_event(ctx, job, now)


def _who(job: Job) -> int:
    """Return the entity of a job's draws: domain and kind, so that worlds under two plans draw alike."""
    return draws.entity(f"{job.domain}/{job.kind}")


def started(ctx: Context, job_id: str, now: int) -> None:
    """Note that a pool's worker took a job up."""
    job = ctx.state.jobs[job_id]
    if job.status == QUEUED:
        job.status, job.started_at = RUNNING, now
        ctx.events.append(JobStarted(now, job.account, job.domain, job.id, job.kind))


def due(ctx: Context, job_id: str, now: int) -> None:
    """End a job that the service runs itself; its outcome is drawn by the catalogue's failure rate."""
    job = ctx.state.jobs[job_id]
    drawn = draws.below(1000, ctx.state.seed, _who(job), job.created_at, Purpose.JOB_OUTCOME)
    if drawn < ctx.policy.catalogue.failure_rate_of(job.kind):
        ended(ctx, job_id, FAILED, now, error="The provider did not answer.")
    else:
        ended(ctx, job_id, DONE, now)


def ended(
    ctx: Context, job_id: str, outcome: str, now: int, cost: int | None = None, error: str | None = None
) -> None:
    """End a job: settle or release its cost (U49), mind its cooldown (U91), emit its event (S76).

    `cost` is the actual provider cost in µUSD, by default what was estimated; a failed job costs nothing.
    """
    job = ctx.state.jobs[job_id]
    if job.status in (DONE, FAILED):
        return
    account = ctx.state.accounts[job.account]
    job.status, job.finished_at = outcome, now
    if outcome == DONE:
        job.cost = job.estimate if cost is None else cost
    else:
        job.error_detail = error or "The job failed."
        if ctx.policy.assumptions.quota_refund == "on_failure" and job.metric in account.meters:
            meter = account.meters[job.metric]
            admission.refund(meter, job.metric_ends, job.metric_units)
            assert meter.used >= 0, "more units were given back than were used"
    ctx.events.append(
        JobEnded(now, job.account, job.domain, job.id, job.kind, outcome, job.cost, job.error_detail)
    )
    settle(ctx, account, job.month_ends, job.estimate, job.cost, now)
    domain = ctx.state.domains.get(job.domain)
    if domain is not None:
        drop(domain.jobs[job.kind], job.id)
        if outcome == DONE:
            domain.accepted[job.kind] = max(job.created_at, domain.accepted.get(job.kind, job.created_at))
            _note_results(domain, job, now)
    _mind_cooldown(ctx, job, account, now)
    deliveries.emit_job_event(ctx, job, now)


def _mind_cooldown(ctx: Context, job: Job, account: Account, now: int) -> None:
    """Arm or disarm the cooldown at a run's end (U46, U91, E50)."""
    assumptions = ctx.policy.assumptions
    owner = job.domain if assumptions.cooldown_scope == "domain" else "account"
    row = account.cooldowns.get(f"{owner}/{job.kind}")
    if row is None:
        return
    if job.status == DONE or assumptions.failed_run_arms:
        if ctx.terms.cooldown_from_finish:
            row.since = now
    elif assumptions.cooldown_after_failure == "clear":
        row.since = DISTANT_PAST
    elif not ctx.terms.cooldown_from_finish:
        row.since = _latest_acceptance(ctx, job, account)


def _latest_acceptance(ctx: Context, failed: Job, account: Account) -> int:
    """Return the latest acceptance among the runs that share the cooldown and have not failed (U91)."""
    owners = [failed.domain] if ctx.policy.assumptions.cooldown_scope == "domain" else account.domains
    latest = DISTANT_PAST
    for domain in (ctx.state.domains[owner] for owner in owners):
        latest = max(latest, domain.accepted.get(failed.kind, DISTANT_PAST))
        if (running := running_of(ctx, domain, failed.kind)) is not None:
            latest = max(latest, running.created_at)
    return latest


def _note_results(domain: Domain, job: Job, now: int) -> None:
    """Remember that a run finished well: the results that reads show come from these instants."""
    if job.kind == JobKind.RANK_RUN:
        runs = domain.rank_runs
    elif job.kind == JobKind.CRAWL:
        runs = domain.crawls
    elif job.kind == JobKind.SITE_OPTIMIZATION:
        runs = domain.analyses
    else:
        runs = domain.ai_scans
    runs.append(now)
    del runs[:-KEPT_RUNS]
    if job.kind == JobKind.CRAWL:
        domain.last_full_crawl_at = now
