"""All that the page shows besides events, read at one instant."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import DISTANT_FUTURE, Micros, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.service.administration import LIMITS
from ranksim.core.service.context import JOB_ENDS
from ranksim.core.service.deliveries import show_attempt
from ranksim.core.service.standing import standing_of
from ranksim.core.service.state import Job, Key, State

if TYPE_CHECKING:
    from ranksim.twin.facade.twin import Twin

MOST_ACCOUNTS = 100
MOST_ENDPOINTS = 100
MOST_JOBS = 50
"""How many of each are shown: jobs that are under way, and as many of the newest others."""

MOST_ATTEMPTS = 500
MOST_OF_ENDPOINT = 20
"""How many of the newest attempts are looked at, and shown of one endpoint."""

MOST_WAITING = 20
"""How many deliveries of an endpoint are shown that wait for an attempt."""

Shown = dict[str, Any]


def overview(twin: Twin) -> Shown:
    """Return all that the page of a deployment shows besides events."""
    now, acts = twin.now(), twin.timeline.due
    state = state_shown(twin.service.state, twin.policy, now, twin.clock.traffic(now))
    if acts != DISTANT_FUTURE and acts == twin.next_due():
        state["next_due"] = {"at": iso(acts), "what": "timeline", "id": "the timeline"}
    return {
        **state,
        "log": twin.event_log.id,
        "world_id": twin.world_id,
        "last": twin.event_log.last,
        "clock": str(twin.clock.rate),
        "traffic_clock": twin.clock.traffic_clock,
        "signature_clock": twin.clock.signature,
        "refuses_writes": twin.refuses_writes or None,
        "answered": _answered(twin.replies),
        "faults": [active.to_dict() for active in twin.faults.active.values()],
        "snapshots": [{"name": name, "now": iso(saved.now)} for name, saved in twin.snapshots.items()],
    }


def state_shown(state: State, policy: Policy, now: Micros, traffic_now: Micros) -> Shown:
    """Return what the page shows of a service's state at an instant; windows are read at `traffic_now`."""
    accounts = list(islice(state.accounts.values(), MOST_ACCOUNTS))
    keys: dict[str, list[Key]] = {}
    for key in state.keys.values():
        if not key.withdrawn:
            keys.setdefault(key.account, []).append(key)
    return {
        "policy": policy.name,
        "seed": state.seed,
        "now": iso(now),
        "next_due": _next_due(state),
        "plans": list(policy.catalogue.plans),
        "accounts": [
            standing_of(state, policy, account, keys.get(account.id, []), now, traffic_now)
            for account in accounts
        ],
        "more_accounts": len(state.accounts) - len(accounts),
        "jobs": [_job(state, job) for job in _jobs(state)],
        "count_of_jobs": len(state.jobs),
        "disable_after": policy.facts.webhook_disable_after,
        "endpoints": _endpoints(state),
        "limits": {limit: not state.waived >> number & 1 for number, limit in enumerate(LIMITS)},
    }


def _next_due(state: State) -> Shown | None:
    """Return the next piece of work on the agenda: when, and of which job or delivery."""
    if not state.agenda:
        return None
    due, _, what, which = state.agenda[0]
    return {"at": iso(due), "what": "job" if what == JOB_ENDS else "delivery", "id": which}


def _answered(replies: Counter[tuple[str, int]]) -> dict[str, int]:
    """Count answers by the first digit of their status."""
    counts: Counter[str] = Counter()
    for (_, status), count in replies.items():
        counts[f"{status // 100}xx"] += count
    return dict(sorted(counts.items()))


def _jobs(state: State) -> list[Job]:
    """Return jobs that are under way, the oldest first, and the newest of those that ended."""
    open_jobs = [
        job
        for domain in state.domains.values()
        for ids in domain.jobs.values()
        for job in map(state.jobs.__getitem__, ids)
    ]
    under_way = sorted(open_jobs, key=lambda job: (job.due is None, job.due or 0, job.id))[:MOST_JOBS]
    newest = islice(reversed(state.jobs.values()), 2 * MOST_JOBS)
    ended = (job for job in newest if job.finished_at is not None)
    return under_way + list(islice(ended, MOST_JOBS))


def _job(state: State, job: Job) -> Shown:
    domain = state.domains.get(job.domain)
    return {
        "id": job.id,
        "account_id": job.account,
        "domain_id": job.domain,
        "host": None if domain is None else domain.host,
        "kind": job.kind,
        "status": job.status,
        "created_at": iso(job.created_at),
        "finished_at": None if job.finished_at is None else iso(job.finished_at),
        "due": None if job.due is None else iso(job.due),
        "error_detail": job.error_detail,
    }


def _endpoints(state: State) -> list[Shown]:
    rows = []
    attempts: dict[str, list[Any]] = {}
    for record in islice(reversed(state.attempts.values()), MOST_ATTEMPTS):
        attempts.setdefault(record.endpoint, []).append(show_attempt(record))
    for endpoint in islice(state.endpoints.values(), MOST_ENDPOINTS):
        waiting = islice(sorted(endpoint.waiting.items(), key=lambda pair: pair[1]), MOST_WAITING)
        rows.append(
            {
                "id": endpoint.id,
                "account_id": endpoint.account,
                "url": endpoint.url,
                "event_types": list(endpoint.event_types),
                "domain_id": endpoint.domain,
                "enabled": endpoint.enabled,
                "disabled_reason": endpoint.disabled_reason,
                "failures": endpoint.failures,
                "attempts": attempts.get(endpoint.id, [])[:MOST_OF_ENDPOINT],
                "count_waiting": len(endpoint.waiting),
                "waiting": [
                    {
                        "delivery_id": number,
                        "event_id": state.deliveries[number].event,
                        "attempt": state.deliveries[number].made + 1,
                        "at": iso(due),
                    }
                    for number, due in waiting
                ],
            }
        )
    return rows
