"""What the control API does: a function for each command, from a twin and a request to what is answered."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from pydantic_core import to_json

from ranksim.clock import Micros, iso
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.facade.advance_until import (
    AdvanceCondition,
    UntilEndpointDisabled,
    UntilJobFinished,
    meter_resets,
)
from ranksim.facade.control import schemas
from ranksim.facade.faults import FaultRule
from ranksim.facade.journal.sqlite import packed
from ranksim.facade.journal.write_ahead import world_of
from ranksim.facade.page.overview import overview
from ranksim.facade.request_journal import Expected, NearMiss, RequestJournal
from ranksim.facade.snapshots import SavedWorld, policy_digest
from ranksim.facade.twin import Twin
from ranksim.facade.virtual_clock import is_instant
from ranksim.service.administration import LIMITS, STATUSES
from ranksim.service.deliveries import show_attempt
from ranksim.service.spend_decision import usd
from ranksim.service.state import Account, AttemptRecord, Delivery, Job, Key
from ranksim.serving.parsing import whole_number

MOST_SNAPSHOTS = 100


class Missing(BadInput):
    """There is nothing of the name or id that was given."""


class Conflict(BadInput):
    """It cannot be done as things are now."""


@dataclass(slots=True)
class ControlRequest:
    """A request to the control API, read: path parameters, and the models of query and body."""

    path: dict[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    raw: bytes = b""


# The clock


async def get_clock(twin: Twin, request: ControlRequest) -> schemas.ClockShown:
    """Read the clock."""
    now, due = twin.now(), twin.next_due()
    return {
        "world_id": twin.world_id,
        "now": iso(now),
        "clock": str(twin.clock.rate),
        "traffic_clock": twin.clock.traffic_clock,
        "traffic_now": iso(twin.clock.traffic(now)),
        "signature_clock": twin.clock.signature,
        "next_due": None if due is None else iso(due),
    }


async def set_clock(twin: Twin, request: ControlRequest) -> schemas.ClockShown:
    """Change how time runs."""
    body: schemas.ClockBody = request.body
    twin.set_clock(body.clock, body.traffic_clock, body.signature_clock)
    return await get_clock(twin, request)


async def advance(twin: Twin, request: ControlRequest) -> schemas.AdvanceShown:
    """Move time on, and answer when everything that fell due was done."""
    body: schemas.AdvanceBody = request.body
    world, by, to, until, resets = twin.world_id, body.by, body.to, None, None
    if body.until is not None:
        until = _condition(body.until)
        if body.until.meter is not None:
            resets = _resets(twin, body.until.meter, body.until.account)
            if by is None:
                to = resets if to is None else min(to, resets)
            else:
                by = min(by, resets - twin.now())
    try:
        if body.next:
            done = await twin.advance_to_next(body.timeout)
        else:
            done = await twin.advance(by=by, to=to, until=until, timeout=body.timeout)
    except BadInput as error:
        if twin.world_id != world:
            raise Conflict(str(error)) from None
        raise
    shown = done.shown()
    if resets is not None:
        shown["met"] = done.settled and done.now >= resets
    return cast(schemas.AdvanceShown, shown)


def _condition(until: schemas.Until) -> AdvanceCondition | None:
    if until.job is not None:
        return UntilJobFinished(until.job)
    return None if until.endpoint is None else UntilEndpointDisabled(until.endpoint)


def _resets(twin: Twin, meter: str, account: str | None) -> Micros:
    """Return the instant at which a meter begins anew."""
    state = twin.service.state
    first = state.keys.get(twin.keys.get("production", ""))
    owner = account if account is not None or first is None else first.account
    if owner is None:
        raise BadInput("until.account: there is no first production account; say whose meter it is")
    return meter_resets(state, twin.policy, owner, meter, twin.now())


# Worlds


async def get_world(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Read which world is served."""
    return {
        "world_id": twin.world_id,
        "now": iso(twin.now()),
        "policy": twin.policy.name,
        "seed": twin.service.state.seed,
        "keys": dict(twin.keys),
    }


async def reset(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Begin anew, as at the start. Fault rules and the journal of requests are emptied too."""
    twin.reset()
    return await get_world(twin, request)


async def list_snapshots(twin: Twin, request: ControlRequest) -> schemas.SnapshotList:
    """List the saved worlds."""
    return {"data": [_saved(name, saved) for name, saved in twin.snapshots.items()]}


async def save(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Save the world under a name; what had the name is overwritten."""
    return _save(twin, request.body.name, SavedWorld(twin.now(), twin.snapshot()))


async def get_snapshot(twin: Twin, request: ControlRequest) -> bytes:
    """Give a saved world as JSON, to keep elsewhere."""
    return _snapshot(twin, request).world


async def put_snapshot(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Take in a saved world under a name; restoring checks it."""
    name, now = request.path["name"], request.body.get("now")
    if "ranksim_snapshot" not in request.body or not is_instant(now):
        raise BadInput("body: expected the JSON that a snapshot of ranksim gave")
    if not re.fullmatch(schemas.NAME, name):
        raise BadInput(f"name: expected letters, digits, dots, underscores and hyphens, found {name!r}")
    return _save(twin, name, SavedWorld(now, request.raw))


async def drop_snapshot(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Forget a saved world."""
    saved = _snapshot(twin, request)
    twin.snapshots.drop(request.path["name"])
    twin.event_log.note(twin.now(), "snapshot.dropped", {"name": request.path["name"]})
    return _saved(request.path["name"], saved)


async def restore(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Go back to where a world was saved: a new world begins there. Time may go back."""
    twin.restore(_snapshot(twin, request).world)
    return await get_world(twin, request)


async def fork(twin: Twin, request: ControlRequest) -> schemas.ForkShown:
    """Save the world under a name and go on in a copy of it, a new world, from which restoring leads back."""
    saved = SavedWorld(twin.now(), twin.snapshot())
    shown = _save(twin, request.body.name, saved)
    twin.restore(saved.world)
    return {"saved": shown, "world": await get_world(twin, request)}


def _snapshot(twin: Twin, request: ControlRequest) -> SavedWorld:
    name = request.path["name"]
    if name not in twin.snapshots:
        raise Missing(f"snapshot: there is none with the name {name!r}")
    return twin.snapshots[name]


def _save(twin: Twin, name: str, saved: SavedWorld) -> schemas.SnapshotShown:
    if name not in twin.snapshots and len(twin.snapshots) >= MOST_SNAPSHOTS:
        raise Conflict(f"snapshot: there are {MOST_SNAPSHOTS} already; delete some")
    twin.snapshots.save(name, saved)
    twin.event_log.note(twin.now(), "snapshot.saved", {"name": name})
    return _saved(name, saved)


def _saved(name: str, saved: SavedWorld) -> schemas.SnapshotShown:
    return {"name": name, "now": iso(saved.now), "bytes": len(saved.world)}


async def get_state(twin: Twin, request: ControlRequest) -> bytes:
    """Give all state of the service as JSON, secrets included: times in µs, money in µUSD."""
    return twin.service.save()


async def get_table(twin: Twin, request: ControlRequest) -> bytes:
    """Give one part of the state, such as jobs or endpoints."""
    state, name = twin.service.state, request.path["part"]
    if name not in type(state).__slots__:
        raise Missing(f"state: there is no part {name!r}; expected one of {', '.join(type(state).__slots__)}")
    return to_json(getattr(state, name))


async def export(twin: Twin, request: ControlRequest) -> bytes:
    """Give the whole world as a state file, to keep elsewhere. What is asked meanwhile is not in it."""
    return await asyncio.to_thread(packed, world_of(twin), policy_digest(twin.policy))


# Accounts, keys, plans


async def list_plans(twin: Twin, request: ControlRequest) -> schemas.PlanList:
    """List the plans and add-ons of the policy."""
    catalogue = twin.policy.catalogue.model_dump(mode="json", include={"plans", "add_ons"})
    return {"plans": catalogue["plans"], "add_ons": catalogue["add_ons"]}


async def list_accounts(twin: Twin, request: ControlRequest) -> schemas.AccountList:
    """List the accounts of both environments."""
    return {"data": [_account_shown(twin, account) for account in twin.service.state.accounts.values()]}


async def open_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Open an account, with a key."""
    body: schemas.AccountBody = request.body
    opened = twin.administer(
        "open_account",
        name=body.name,
        plan=body.plan or twin.plan,
        environment=body.environment,
        status=body.status,
        add_ons=dict(body.add_ons),
        anchor=body.anchor,
    )
    if body.key is not None:
        twin.administer("issue_key", account=opened, name=body.key)
    return _account_shown(twin, twin.service.state.accounts[opened])


async def get_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Read an account."""
    return _account_shown(twin, _account(twin, request.path["id"]))


async def change_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Change an account's plan, status or add-ons, all or nothing."""
    body: schemas.AccountPatch = request.body
    account = _account(twin, request.path["id"])
    _known(twin.policy, body)
    if body.plan is not None:
        twin.administer("change_plan", account=account.id, plan=body.plan)
    if body.status is not None:
        twin.administer("set_status", account=account.id, status=body.status)
    for add_on, count in body.add_ons.items():
        twin.administer("set_add_on", account=account.id, add_on=add_on, count=count)
    return _account_shown(twin, account)


def _known(policy: Policy, body: schemas.AccountPatch) -> None:
    """Raise BadInput for names that do not exist, before anything is changed."""
    catalogue = policy.catalogue
    for what, names, known in (
        ("plan", [body.plan] if body.plan is not None else [], tuple(catalogue.plans)),
        ("status", [body.status] if body.status is not None else [], STATUSES),
        ("add_ons", list(body.add_ons), tuple(catalogue.add_ons)),
    ):
        for name in names:
            if name not in known:
                raise BadInput(f"body: {what}: expected one of {', '.join(known)}, found {name!r}")


async def list_keys(twin: Twin, request: ControlRequest) -> schemas.KeyList:
    """List the API keys, withdrawn ones included."""
    query: schemas.AccountQuery = request.query
    found = [key for key in twin.service.state.keys.values() if query.account_id in (None, key.account)]
    return {"data": [_key_shown(key) for key in found]}


async def issue_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Issue a further API key, which may be bound to one domain."""
    body: schemas.KeyBody = request.body
    _account(twin, body.account_id)
    token = twin.administer("issue_key", account=body.account_id, name=body.name, domain=body.domain_id)
    return _key_shown(twin.service.state.keys[token])


async def reset_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Withdraw an API key and issue another in its place, of the same name and domain."""
    old = _valid_key(twin, request)
    token = twin.administer("issue_key", account=old.account, name=old.name, domain=old.domain)
    twin.administer("withdraw_key", token=old.token)
    return _key_shown(twin.service.state.keys[token])


async def withdraw_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Withdraw an API key: from now on it is unknown."""
    key = _valid_key(twin, request)
    twin.administer("withdraw_key", token=key.token)
    return _key_shown(key)


def _valid_key(twin: Twin, request: ControlRequest) -> Key:
    key = twin.service.state.keys.get(request.path["key"])
    if key is None or key.withdrawn:
        raise Missing(f"key: there is none {request.path['key']!r}, or it was withdrawn")
    return key


def _account(twin: Twin, account: str) -> Account:
    if account not in twin.service.state.accounts:
        raise Missing(f"account: there is none with the id {account!r}")
    return twin.service.state.accounts[account]


def _account_shown(twin: Twin, account: Account) -> schemas.AccountShown:
    return {
        "id": account.id,
        "name": account.name,
        "environment": account.environment,
        "plan": account.plan,
        "status": account.status,
        "add_ons": dict(account.add_ons),
        "billing_anchor": iso(account.books.anchor),
        "created_at": iso(account.created_at),
        "keys": [_key_shown(key) for key in twin.service.state.keys.values() if key.account == account.id],
    }


def _key_shown(key: Key) -> schemas.KeyShown:
    return {
        "key": key.token,
        "name": key.name,
        "account_id": key.account,
        "environment": key.environment,
        "domain_id": key.domain,
        "created_at": iso(key.created_at),
        "withdrawn": key.withdrawn,
    }


# Limits and faults


async def get_limits(twin: Twin, request: ControlRequest) -> schemas.LimitsShown:
    """Read which limits are on."""
    waived = twin.service.state.waived
    return {limit: not waived >> number & 1 for number, limit in enumerate(LIMITS)}


async def set_limits(twin: Twin, request: ControlRequest) -> schemas.LimitsShown:
    """Switch limits off and on, for everybody. What a switched-off check minds is booked as ever."""
    wanted = await get_limits(twin, request) | request.body.model_dump(exclude_none=True)
    twin.administer("waive", limits=[limit for limit, on in wanted.items() if not on])
    return await get_limits(twin, request)


async def list_faults(twin: Twin, request: ControlRequest) -> schemas.FaultList:
    """List the fault rules in force."""
    return {"data": [cast(schemas.FaultShown, active.shown()) for active in twin.faults.active.values()]}


async def add_fault(twin: Twin, request: ControlRequest) -> schemas.FaultShown:
    """Let requests of an operation and a key be late, fail or be dropped, with some likelihood."""
    rule: FaultRule = request.body
    active = twin.faults.add(rule)
    twin.event_log.note(twin.now(), "fault.added", {"fault_id": active.id, "operation": rule.operation})
    return cast(schemas.FaultShown, active.shown())


async def remove_fault(twin: Twin, request: ControlRequest) -> schemas.FaultShown:
    """End a fault rule."""
    if request.path["id"] not in twin.faults.active:
        raise Missing(f"fault: there is none with the id {request.path['id']!r}")
    shown = twin.faults.active[request.path["id"]].shown()
    twin.faults.remove(request.path["id"])
    twin.event_log.note(twin.now(), "fault.removed", {"fault_id": request.path["id"]})
    return cast(schemas.FaultShown, shown)


async def clear_faults(twin: Twin, request: ControlRequest) -> schemas.FaultList:
    """End all fault rules."""
    twin.faults.clear()
    twin.event_log.note(twin.now(), "faults.cleared", {})
    return {"data": []}


# Requests


def _journal(twin: Twin) -> RequestJournal:
    if twin.requests is None:
        raise Missing("requests: this deployment keeps no journal of requests")
    return twin.requests


async def list_requests(twin: Twin, request: ControlRequest) -> schemas.RequestList:
    """Search the journal of requests, newest first."""
    query: schemas.RequestsQuery = request.query
    journal = _journal(twin)
    found = journal.search(Expected(**query.model_dump(exclude={"limit"})))
    shown = [cast(schemas.RequestShown, entry.shown()) for entry in found[: -query.limit - 1 : -1]]
    return {"data": shown, "count": len(found), "forgotten": journal.forgotten}


async def get_request(twin: Twin, request: ControlRequest) -> schemas.RequestShown:
    """Read one request and its response."""
    number = whole_number(request.path["id"])
    entry = None if number is None else _journal(twin).find(number)
    if entry is None:
        given = request.path["id"]
        raise Missing(f"request: there is none with the number {given!r}, or it is not remembered any more")
    return cast(schemas.RequestShown, entry.shown())


async def clear_requests(twin: Twin, request: ControlRequest) -> schemas.CountShown:
    """Forget all requests; answers how many there were."""
    journal = _journal(twin)
    count = len(journal)
    journal.clear()
    twin.event_log.note(twin.now(), "requests.cleared", {"count": count})
    return {"count": count}


async def count_requests(twin: Twin, request: ControlRequest) -> schemas.CountShown:
    """Count the requests of a description."""
    return {"count": _journal(twin).count(request.body)}


async def verify_requests(twin: Twin, request: ControlRequest) -> schemas.VerdictShown:
    """Tell whether as many requests came as were expected, and if too few which came near."""
    body: schemas.VerifyBody = request.body
    verdict = _journal(twin).verify(body.expected, *body.bounds())
    return {
        "verified": verdict.verified,
        "count": verdict.count,
        "message": verdict.message,
        "near_misses": [_near(miss) for miss in verdict.near_misses],
    }


async def near_misses(twin: Twin, request: ControlRequest) -> schemas.NearMissList:
    """List the requests that are almost as expected, and what tells them apart."""
    body: schemas.NearBody = request.body
    return {"data": [_near(miss) for miss in _journal(twin).near_misses(body.expected, body.limit)]}


def _near(miss: NearMiss) -> schemas.NearMissShown:
    differences = [cast(schemas.DifferenceShown, asdict(one)) for one in miss.differences]
    return {"request": cast(schemas.RequestShown, miss.entry.shown()), "differences": differences}


# Jobs and deliveries


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


async def list_deliveries(twin: Twin, request: ControlRequest) -> schemas.DeliveryList:
    """List the deliveries that are not finished, and when each will be tried again."""
    query: schemas.DeliveriesQuery = request.query
    shown = [_delivery_shown(twin, delivery) for delivery in twin.service.state.deliveries.values()]
    found = [
        one
        for one in shown
        if query.account_id in (None, one["account_id"])
        and query.endpoint_id in (None, one["endpoint_id"])
        and query.event_id in (None, one["event_id"])
    ]
    found.sort(key=lambda one: (one["state"] != "out", one["next_attempt_at"] or "", one["id"]))
    return {"data": found[: query.limit]}


def _delivery_shown(twin: Twin, delivery: Delivery) -> schemas.DeliveryShown:
    state = twin.service.state
    event, endpoint = state.events[delivery.event], state.endpoints.get(delivery.endpoint)
    paused = endpoint is not None and not endpoint.enabled
    due = None if endpoint is None or paused else endpoint.waiting.get(delivery.number)
    return {
        "id": delivery.number,
        "account_id": event.account,
        "endpoint_id": delivery.endpoint,
        "url": None if endpoint is None else endpoint.url,
        "event_id": event.id,
        "event_type": event.type,
        "created_at": iso(delivery.created_at),
        "state": "out" if delivery.out else "paused" if paused else "waiting",
        "attempts_made": delivery.made,
        "next_attempt": delivery.made + 1,
        "next_attempt_at": _iso(due),
    }


async def list_attempts(twin: Twin, request: ControlRequest) -> schemas.RecordList:
    """List the recorded webhook attempts of all accounts, newest first."""
    query: schemas.DeliveriesQuery = request.query
    found = [
        record
        for record in reversed(twin.service.state.attempts.values())
        if query.account_id in (None, record.account)
        and query.endpoint_id in (None, record.endpoint)
        and query.event_id in (None, record.event)
    ]
    return {"data": [_record_shown(record) for record in found[: query.limit]]}


async def get_attempt_request(twin: Twin, request: ControlRequest) -> schemas.AttemptRequestShown:
    """Read what a recorded attempt sent: the address, the headers, signature included, and the payload."""
    number = whole_number(request.path["id"].removeprefix("att_"))
    record = None if number is None else twin.service.state.attempts.get(number)
    sent = None
    if record is not None:
        sent = twin.event_log.sent(record.endpoint, record.event, record.attempt)
    if sent is None:
        given = request.path["id"]
        raise Missing(
            f"attempt: there is none with the id {given!r}, or what it sent is not remembered any more"
        )
    return {"url": sent.url, "headers": dict(sent.headers), "body": sent.body.decode()}


async def get_overview(twin: Twin, request: ControlRequest) -> schemas.Json:
    """Read what the live page shows besides events: clock, accounts, jobs, endpoints, faults."""
    return overview(twin)


def _record_shown(record: AttemptRecord) -> schemas.RecordShown:
    shown = show_attempt(record)
    return {"id": shown["id"], "account_id": record.account, **shown}


async def trigger(twin: Twin, request: ControlRequest) -> schemas.DeliveryList:
    """Let a webhook event come about now. The job that it tells of is listed, and booked nowhere."""
    body: schemas.TriggerBody = request.body
    deliveries = twin.trigger(body.event, body.account_id, body.domain_id)
    return {"data": [_delivery_shown(twin, delivery) for delivery in deliveries]}


async def resend(twin: Twin, request: ControlRequest) -> schemas.DeliveryShown:
    """Deliver the event of a recorded attempt to its endpoint once more, as a delivery of its own.

    An event stands for its latest attempt.
    """
    given, attempts = request.path["id"], twin.service.state.attempts
    number = whole_number(given.removeprefix("att_"))
    if given.startswith("evt_"):
        number = next((one.number for one in reversed(attempts.values()) if one.event == given), None)
    if number not in attempts:
        raise Missing(f"attempt: there is none with the id {given!r}; GET /attempts lists them")
    return _delivery_shown(twin, twin.resend(number))


def _iso(at: int | None) -> str | None:
    return None if at is None else iso(at)
