"""Scans: standing orders to track lists on engines and devices in places (S23, S24, U85, U95, U107-U110).

POST scans spends, so it stands in `spending`.
"""

from ranksim.core.clock import iso
from ranksim.core.contract.views import PlaceView, ScanView
from ranksim.core.rules.access import sees
from ranksim.core.service import bodies, slots
from ranksim.core.service.bodies import invalid, validate_body
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.replies import filters_of, nothing, paged, single
from ranksim.core.service.resolve import check_ids, drop, record_for
from ranksim.core.service.spend_decision import outcome_of_scan_patch
from ranksim.core.service.state import Account, Scan


def show_place(place: str) -> PlaceView:
    """Return a geography as the API shows it."""
    country, location, language = place.split("/")
    return {"country": country, "location_id": location or None, "language": language or None}


def show_scan(scan: Scan) -> ScanView:
    """Return a scan as the API shows it (U85)."""
    pairings = (pairing.split("/") for pairing in scan.engine_devices)
    return {
        "id": scan.id,
        "domain_id": scan.domain,
        "name": scan.name or None,
        "list_ids": list(scan.lists),
        "engine_devices": [{"engine": engine, "device": device} for engine, device in pairings],
        "geographies": [show_place(place) for place in scan.geographies],
        "active": scan.active,
        "created_at": iso(scan.created_at),
    }


def list_scans(ctx: Context, request: Request) -> Reply:
    """GET /v1/scans, with filters domain_id and active (U110)."""
    scans = ctx.state.scans
    wanted = {"true": True, "false": False}
    if request.call.query.get("active", "true") not in wanted:
        return invalid(ctx.policy, [{"field": "active", "expected": "true or false"}])

    filters = filters_of(request, "domain_id", "active")

    def keep(which: str) -> bool:
        scan = scans[which]
        return (
            sees(request.scope, scan.domain)
            and filters.get("domain_id", scan.domain) == scan.domain
            and ("active" not in filters or wanted[filters["active"]] == scan.active)
        )

    return paged(ctx, request, request.account.scans, filters, keep, lambda which: show_scan(scans[which]))


def get_scan(ctx: Context, request: Request) -> Reply:
    """GET /v1/scans/{id}."""
    scan = record_for(ctx, request, ctx.state.scans, request.call.path["id"], "scan")
    return scan if isinstance(scan, Reply) else single(show_scan(scan))


def update_scan(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/scans/{id}: what widens it is checked and booked, what narrows it is held (U62, U95, E19)."""
    body = validate_body(bodies.ScanPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    scan = record_for(ctx, request, ctx.state.scans, request.call.path["id"], "scan")
    if isinstance(scan, Reply):
        return scan
    wrong = check_ids(ctx, request, scan.domain, ctx.state.keyword_lists, body.list_ids, "keyword list")
    if wrong is not None:
        return wrong
    sent = body.model_fields_set
    lists = body.lists() if "list_ids" in sent else scan.lists
    pairings = body.pairings() if "engine_devices" in sent else scan.engine_devices
    places = body.places() if "geographies" in sent else scan.geographies
    active = body.active if "active" in sent else scan.active
    widening, narrowing = slots.plan_scan_change(
        ctx, request.account, scan, lists, pairings, places, active, request.now
    )
    if (active and not scan.active) or _gains(scan, lists, pairings, places):
        refusal = outcome_of_scan_patch(ctx, request, scan.domain, pairings, places, widening)
        if refusal is not None:
            return refusal
    slots.apply_widening(request.account, widening)
    slots.narrow(ctx, request.account, narrowing, request.now)
    scan.lists, scan.engine_devices, scan.geographies, scan.active = lists, pairings, places, active
    if "name" in sent:
        scan.name = body.name or ""
    return single(show_scan(scan))


def _gains(scan: Scan, lists: list[str], pairings: list[str], places: list[str]) -> bool:
    """Return whether a scan would cover something that it does not now."""
    return not (
        set(lists) <= set(scan.lists)
        and set(pairings) <= set(scan.engine_devices)
        and set(places) <= set(scan.geographies)
    )


def delete_scan(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/scans/{id}; its slots are held to the end of the month (S27)."""
    scan = record_for(ctx, request, ctx.state.scans, request.call.path["id"], "scan")
    if isinstance(scan, Reply):
        return scan
    remove_scan(ctx, request.account, scan, request.now)
    return nothing(ctx.policy.statuses.deleted)


def remove_scan(ctx: Context, account: Account, scan: Scan, now: int) -> None:
    """Delete a scan and hold its slots."""
    slots.hold_scan(ctx, account, scan, now)
    del ctx.state.scans[scan.id]
    drop(account.scans, scan.id)
