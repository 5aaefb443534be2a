"""Every command of the control API: where it is, what does it, what it takes and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ranksim.facade.control import commands, schemas
from ranksim.facade.control.commands import ControlRequest
from ranksim.facade.faults import FaultRule
from ranksim.facade.request_journal import Expected
from ranksim.facade.twin import Twin
from ranksim.service.routes import values_in

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
    Route("GET", "/clock", commands.get_clock, schemas.ClockShown),
    Route("PATCH", "/clock", commands.set_clock, schemas.ClockShown, schemas.ClockBody),
    Route("POST", "/clock/advance", commands.advance, schemas.AdvanceShown, schemas.AdvanceBody),
    Route("GET", "/world", commands.get_world, schemas.WorldShown),
    Route("POST", "/reset", commands.reset, schemas.WorldShown),
    Route("POST", "/fork", commands.fork, schemas.ForkShown, schemas.NameBody),
    Route("GET", "/snapshots", commands.list_snapshots, schemas.SnapshotList),
    Route("POST", "/snapshots", commands.save, schemas.SnapshotShown, schemas.NameBody, status=201),
    Route("GET", "/snapshots/{name}", commands.get_snapshot, schemas.Json),
    Route("PUT", "/snapshots/{name}", commands.put_snapshot, schemas.SnapshotShown, dict, most=MOST_SNAPSHOT),
    Route("DELETE", "/snapshots/{name}", commands.drop_snapshot, schemas.SnapshotShown),
    Route("POST", "/snapshots/{name}/restore", commands.restore, schemas.WorldShown),
    Route("GET", "/state", commands.get_state, schemas.Json),
    Route("GET", "/state/{part}", commands.get_table, Any),
    Route("GET", "/export", commands.export, bytes, media="application/vnd.sqlite3"),
    Route("GET", "/plans", commands.list_plans, schemas.PlanList),
    Route("GET", "/accounts", commands.list_accounts, schemas.AccountList),
    Route("POST", "/accounts", commands.open_account, schemas.AccountShown, schemas.AccountBody, status=201),
    Route("GET", "/accounts/{id}", commands.get_account, schemas.AccountShown),
    Route("PATCH", "/accounts/{id}", commands.change_account, schemas.AccountShown, schemas.AccountPatch),
    Route("GET", "/keys", commands.list_keys, schemas.KeyList, query=schemas.AccountQuery),
    Route("POST", "/keys", commands.issue_key, schemas.KeyShown, schemas.KeyBody, status=201),
    Route("POST", "/keys/{key}/reset", commands.reset_key, schemas.KeyShown, status=201),
    Route("DELETE", "/keys/{key}", commands.withdraw_key, schemas.KeyShown),
    Route("GET", "/limits", commands.get_limits, schemas.LimitsShown),
    Route("PATCH", "/limits", commands.set_limits, schemas.LimitsShown, schemas.LimitsPatch),
    Route("GET", "/faults", commands.list_faults, schemas.FaultList),
    Route("POST", "/faults", commands.add_fault, schemas.FaultShown, FaultRule, status=201),
    Route("DELETE", "/faults", commands.clear_faults, schemas.FaultList),
    Route("DELETE", "/faults/{id}", commands.remove_fault, schemas.FaultShown),
    Route("GET", "/requests", commands.list_requests, schemas.RequestList, query=schemas.RequestsQuery),
    Route("DELETE", "/requests", commands.clear_requests, schemas.CountShown),
    Route("GET", "/requests/{id}", commands.get_request, schemas.RequestShown),
    Route("POST", "/requests/count", commands.count_requests, schemas.CountShown, Expected),
    Route("POST", "/requests/verify", commands.verify_requests, schemas.VerdictShown, schemas.VerifyBody),
    Route("POST", "/requests/near-misses", commands.near_misses, schemas.NearMissList, schemas.NearBody),
    Route("GET", "/jobs", commands.list_jobs, schemas.JobList, query=schemas.JobsQuery),
    Route("GET", "/jobs/{id}", commands.get_job, schemas.JobShown),
    Route("POST", "/jobs/{id}/finish", commands.finish_job, schemas.JobShown, schemas.FinishBody),
    Route(
        "GET", "/deliveries", commands.list_deliveries, schemas.DeliveryList, query=schemas.DeliveriesQuery
    ),
    Route("GET", "/attempts", commands.list_attempts, schemas.RecordList, query=schemas.DeliveriesQuery),
    Route("POST", "/attempts/{id}/resend", commands.resend, schemas.DeliveryShown, status=201),
    Route("POST", "/trigger", commands.trigger, schemas.DeliveryList, schemas.TriggerBody, status=201),
    Route("GET", "/attempts/{id}/request", commands.get_attempt_request, schemas.AttemptRequestShown),
    Route("GET", "/overview", commands.get_overview, schemas.Json),
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
