"""What a key may read of its account: account, entitlements, usage, slots (S37, S38, U109); briefs (S36)."""

from ranksim.core.clock import SECOND, billing_month, iso
from ranksim.core.contract import views
from ranksim.core.rules import admission
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.replies import single
from ranksim.core.service.resolve import list_owned
from ranksim.core.service.spend_decision import meter_resets, month_resets, usd
from ranksim.core.service.spending import show_brief


def not_for_scoped(ctx: Context, request: Request) -> Reply | None:
    """Refuse a domain-scoped key what belongs to the whole account (U15, U97)."""
    if request.scope is None:
        return None
    return problem(ctx.policy, "forbidden", "This key is bound to one domain and cannot read account state.")


def get_account(ctx: Context, request: Request) -> Reply:
    """GET /account (U109)."""
    if refused := not_for_scoped(ctx, request):
        return refused
    account = request.account
    start, end = billing_month(account.books.anchor, request.now)
    body: views.AccountView = {
        "id": account.id,
        "name": account.name,
        "plan": account.plan,
        "status": account.status,
        "billing_anchor": iso(account.books.anchor),
        "period_start": iso(start),
        "period_end": iso(end),
    }
    return single(body)


def get_entitlements(ctx: Context, request: Request) -> Reply:
    """GET /account/entitlements (U109)."""
    if refused := not_for_scoped(ctx, request):
        return refused
    plan = ctx.plan_of(request.account)
    body: views.EntitlementsView = {
        "capabilities": list(plan.capabilities),
        "dimensions": {
            "engine_devices": plan.dimensions.max_engine_devices,
            "geographies": plan.dimensions.max_geographies,
        },
        "slot_limit": plan.slot_limit,
        "page_cap": plan.page_cap,
        "call_cap": plan.call_cap,
        "cooldown_seconds": {name: length // SECOND for name, length in plan.cooldowns.items()},
    }
    return single(body)


def get_usage(ctx: Context, request: Request) -> Reply:
    """GET /account/usage (S38, E21): every metered allowance with its own reset, and the cost (U96)."""
    if refused := not_for_scoped(ctx, request):
        return refused
    account, now = request.account, request.now
    plan, books = ctx.plan_of(account), account.books
    metrics: list[views.UsageMetricView] = []
    for metric, quota in plan.quotas.items():
        meter = account.meters[metric]
        used = admission.used_at(now, meter)
        left = meter.limit - used
        metrics.append(
            {
                "metric": metric,
                "used": used,
                "limit": meter.limit,
                "remaining": left if left > 0 else 0,
                "period": quota.period,
                "resets_at": iso(meter_resets(ctx, account, meter, now)),
            }
        )
    cost: views.CostUsageView = {
        "settled": usd(admission.settled_at(now, books)),
        "reserved": usd(admission.reserved_at(now, books)),
        "spent": usd(admission.spent_at(now, books, ctx.terms)),
        "ceiling": usd(books.ceiling),
        "currency": "USD",
        "resets_at": iso(month_resets(ctx, request)),
    }
    body: views.UsageView = {"metrics": metrics, "cost": cost}
    return single(body)


def get_slots(ctx: Context, request: Request) -> Reply:
    """GET /slots: used is active and held together (S37, U61)."""
    if refused := not_for_scoped(ctx, request):
        return refused
    books = request.account.books
    held = admission.held_at(request.now, books)
    used = books.active + held
    body: views.SlotsView = {
        "active": books.active,
        "held": held,
        "used": used,
        "limit": books.slot_limit,
        "available": max(0, books.slot_limit - used),
        "resets_at": iso(month_resets(ctx, request)),
    }
    return single(body)


def list_briefs(ctx: Context, request: Request) -> Reply:
    """GET /keyword-briefs (S36, U99): touches no allowance; filter domain_id."""
    return list_owned(ctx, request, ctx.state.briefs, request.account.briefs, show_brief)
