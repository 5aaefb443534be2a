"""Every command of the control API, in the order of its document."""

from __future__ import annotations

from ranksim.core.service.routes import values_in
from ranksim.twin.facade.control import accounts, clock, deliveries, faults, jobs, recorded_requests, worlds
from ranksim.twin.facade.control.command import Route

PREFIX = "/_ranksim"

ROUTES: tuple[Route, ...] = (
    *clock.router,
    *worlds.router,
    *accounts.router,
    *faults.router,
    *recorded_requests.router,
    *jobs.router,
    *deliveries.router,
    *worlds.page_router,
)
"""GET /events, which streams, and GET /openapi.json, which describes, are no commands."""


def find(path: str) -> dict[str, tuple[Route, list[str]]]:
    """Return what a path offers: method → route, and the values of its parameters."""
    offered = {}
    for route in ROUTES:
        values = values_in(route.path, path)
        if values is not None and all(values.values()):
            offered[route.method] = route, list(values.values())
    return offered
