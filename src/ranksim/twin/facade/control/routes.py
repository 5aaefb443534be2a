"""Every command of the control API: where it is, what does it, what it takes and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ranksim.core.service.routes import values_in
from ranksim.twin.facade.control import (
    accounts,
    clock,
    deliveries,
    faults,
    jobs,
    recorded_requests,
    schemas,
    worlds,
)
from ranksim.twin.facade.control.control_request import ControlRequest
from ranksim.twin.facade.faults import FaultRule
from ranksim.twin.facade.request_journal import Expected
from ranksim.twin.facade.twin import Twin

PREFIX = "/_ranksim"

MIB = 1_048_576
MOST_BODY = MIB
MOST_SNAPSHOT = 512 * MIB


@dataclass(frozen=True, slots=True)
class Route:
    """One command: where it is, what does it, what it takes and gives. `body` dict takes any JSON object."""

    method: str
    path: str
    command: Callable[[Twin, ControlRequest], Awaitable[Any]]
    answer: Any
    body: type[Any] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    most: int = MOST_BODY
    media: str = "application/json"


ROUTES = (
    Route("GET", "/clock", clock.get_clock, schemas.ClockShown),
    Route("PATCH", "/clock", clock.set_clock, schemas.ClockShown, schemas.ClockBody),
    Route("POST", "/clock/advance", clock.advance, schemas.AdvanceShown, schemas.AdvanceBody),
    Route("GET", "/world", worlds.get_world, schemas.WorldShown),
    Route("POST", "/reset", worlds.reset, schemas.WorldShown),
    Route("POST", "/fork", worlds.fork, schemas.ForkShown, schemas.NameBody),
    Route("GET", "/snapshots", worlds.list_snapshots, schemas.SnapshotList),
    Route("POST", "/snapshots", worlds.save, schemas.SnapshotShown, schemas.NameBody, status=201),
    Route("GET", "/snapshots/{name}", worlds.get_snapshot, schemas.Json),
    Route("PUT", "/snapshots/{name}", worlds.put_snapshot, schemas.SnapshotShown, dict, most=MOST_SNAPSHOT),
    Route("DELETE", "/snapshots/{name}", worlds.drop_snapshot, schemas.SnapshotShown),
    Route("POST", "/snapshots/{name}/restore", worlds.restore, schemas.WorldShown),
    Route("GET", "/state", worlds.get_state, schemas.Json),
    Route("GET", "/state/{part}", worlds.get_table, Any),
    Route("GET", "/export", worlds.export, bytes, media="application/vnd.sqlite3"),
    Route("GET", "/plans", accounts.list_plans, schemas.PlanList),
    Route("GET", "/accounts", accounts.list_accounts, schemas.AccountList),
    Route("POST", "/accounts", accounts.open_account, schemas.AccountShown, schemas.AccountBody, status=201),
    Route("GET", "/accounts/{id}", accounts.get_account, schemas.AccountShown),
    Route("PATCH", "/accounts/{id}", accounts.change_account, schemas.AccountShown, schemas.AccountPatch),
    Route("GET", "/keys", accounts.list_keys, schemas.KeyList, query=schemas.AccountQuery),
    Route("POST", "/keys", accounts.issue_key, schemas.KeyShown, schemas.KeyBody, status=201),
    Route("POST", "/keys/{key}/reset", accounts.reset_key, schemas.KeyShown, status=201),
    Route("DELETE", "/keys/{key}", accounts.withdraw_key, schemas.KeyShown),
    Route("GET", "/limits", faults.get_limits, schemas.LimitsShown),
    Route("PATCH", "/limits", faults.set_limits, schemas.LimitsShown, schemas.LimitsPatch),
    Route("GET", "/faults", faults.list_faults, schemas.FaultList),
    Route("POST", "/faults", faults.add_fault, schemas.FaultShown, FaultRule, status=201),
    Route("DELETE", "/faults", faults.clear_faults, schemas.FaultList),
    Route("DELETE", "/faults/{id}", faults.remove_fault, schemas.FaultShown),
    Route(
        "GET", "/requests", recorded_requests.list_requests, schemas.RequestList, query=schemas.RequestsQuery
    ),
    Route("DELETE", "/requests", recorded_requests.clear_requests, schemas.CountShown),
    Route("GET", "/requests/{id}", recorded_requests.get_request, schemas.RequestShown),
    Route("POST", "/requests/count", recorded_requests.count_requests, schemas.CountShown, Expected),
    Route(
        "POST",
        "/requests/verify",
        recorded_requests.verify_requests,
        schemas.VerdictShown,
        schemas.VerifyBody,
    ),
    Route(
        "POST", "/requests/near-misses", recorded_requests.near_misses, schemas.NearMissList, schemas.NearBody
    ),
    Route("GET", "/jobs", jobs.list_jobs, schemas.JobList, query=schemas.JobsQuery),
    Route("GET", "/jobs/{id}", jobs.get_job, schemas.JobShown),
    Route("POST", "/jobs/{id}/finish", jobs.finish_job, schemas.JobShown, schemas.FinishBody),
    Route(
        "GET", "/deliveries", deliveries.list_deliveries, schemas.DeliveryList, query=schemas.DeliveriesQuery
    ),
    Route("GET", "/attempts", deliveries.list_attempts, schemas.RecordList, query=schemas.DeliveriesQuery),
    Route("POST", "/attempts/{id}/resend", deliveries.resend, schemas.DeliveryShown, status=201),
    Route("POST", "/trigger", deliveries.trigger, schemas.DeliveryList, schemas.TriggerBody, status=201),
    Route("GET", "/attempts/{id}/request", deliveries.get_attempt_request, schemas.AttemptRequestShown),
    Route("GET", "/overview", worlds.get_overview, schemas.Json),
)
"""Every command. GET /events streams, and GET /openapi.json describes."""


def find(path: str) -> dict[str, tuple[Route, dict[str, str]]]:
    """Return what a path offers: method → route, and the values of its parameters."""
    found = {}
    for route in ROUTES:
        values = values_in(route.path, path)
        if values is not None and all(values.values()):
            found[route.method] = route, values
    return found
