"""From a call that wants to spend to a decision: the rows it concerns, the refusal or report it gets.

Deciding reads the rows only; booking writes them. So a refusal and a dry run change nothing (S66, E11).
"""

from dataclasses import dataclass
from functools import lru_cache

from ranksim.core.clock import SECOND, iso, week_end, whole_seconds
from ranksim.core.contract import views
from ranksim.core.contract.facts import CHECK_NAMES, Decision, Spend
from ranksim.core.money import MICRO_USD
from ranksim.core.rules import admission
from ranksim.core.rules.books import Ask, Cooldown, Meter
from ranksim.core.rules.slots import Widening
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem, status_of
from ranksim.core.service.events import CostReserved, CostSettled, PeriodTurned, SlotsTaken, UnitsUsed
from ranksim.core.service.rate_limits import format_retry_after
from ranksim.core.service.replies import single
from ranksim.core.service.state import Account, Job

WHAT = {
    Spend.RANK_RUN: "rank run",
    Spend.CRAWL: "crawl",
    Spend.SITE_OPTIMIZATION: "site optimization",
    Spend.AI_SCAN: "AI scan",
    Spend.KEYWORD_BRIEFS: "refresh of keyword briefs",
    Spend.KEYWORDS: "addition of keywords",
    Spend.SCANS: "scan",
}
"""What a spending operation is called in a sentence."""

DECISIONS = tuple(Decision)
"""The decisions by number."""

UNMETERED = Meter()
"""The meter of what consumes no metric: it has no limit, so that booking does not write it."""


@dataclass(slots=True)
class Rows:
    """The rows that one ask reads and books; of several cooldowns the latest to end is minded."""

    spend: Spend
    metric: str
    meter: Meter
    cooldowns: dict[str, Cooldown]
    cooldown: Cooldown
    """The cooldown that is minded; where there is none, one that never refuses."""


def rows_of(ctx: Context, account: Account, spend: Spend, *domains: str) -> Rows:
    """Resolve the meter (U106) and the cooldowns (U46) of an operation on domains; changes nothing."""
    metric, length = ctx.metered[account.plan, spend]
    cooldowns: dict[str, Cooldown] = {}
    minded: Cooldown | None = None
    for owner in domains if ctx.policy.assumptions.cooldown_scope == "domain" else ("account",):
        name = f"{owner}/{spend.label}"
        row = cooldowns[name] = account.cooldowns.get(name) or Cooldown(length=length)
        if minded is None or row.since > minded.since:
            minded = row
    meter = account.meters[metric] if metric else UNMETERED
    return Rows(spend, metric, meter, cooldowns, minded or Cooldown())


def ask_for(ctx: Context, spend: Spend, *, dry_run: bool) -> Ask:
    """Begin the ask of an operation: which checks apply, and the capability it needs."""
    checks = ctx.checks[spend] & ~ctx.state.waived
    ask = Ask(spend, checks, ctx.needs[spend])
    ask.dry_run = int(dry_run)
    return ask


def decide(ctx: Context, request: Request, ask: Ask, rows: Rows) -> Decision:
    """Run the six checks in order (S59)."""
    books = request.account.books
    return DECISIONS[admission.decide(request.now, ask, books, rows.meter, rows.cooldown, ctx.terms)]


def book(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    """Book a granted ask, at the instant of acceptance."""
    now, account, minded = request.now, request.account, rows.cooldown
    books, meter, tell = account.books, rows.meter, ctx.events.append
    month_ended, period_ended = books.month_ends <= now, rows.metric != "" and meter.ends <= now
    assert not admission.over_quota(now, ask, meter), "more was granted than the allowance has left"
    admission.book(now, ask, books, meter, minded, ctx.terms)
    assert books.held >= 0, "more slots were revived than are held"
    for name, row in rows.cooldowns.items():
        row.since = minded.since
        account.cooldowns[name] = row
    if month_ended:
        tell(PeriodTurned(now, account.id, "", books.month_ends))
    if period_ended:
        tell(PeriodTurned(now, account.id, rows.metric, meter.ends))
    if ask.estimate and ctx.terms.cost_timing == admission.RESERVE:
        tell(CostReserved(now, account.id, ask.estimate))
    elif ask.estimate and ctx.terms.cost_timing == admission.AT_ACCEPTANCE:
        tell(CostSettled(now, account.id, ask.estimate, 0))
    if ask.units:
        tell(UnitsUsed(now, account.id, rows.metric, ask.units))
    if ask.slots or ask.revived:
        tell(SlotsTaken(now, account.id, ask.slots, ask.revived))


def settle(ctx: Context, account: Account, month_ends: int, estimate: int, actual: int, now: int) -> None:
    """Settle finished work, accepted in the month that ends at `month_ends`; costs in µUSD (U49, E16)."""
    books, reserves = account.books, ctx.terms.cost_timing == admission.RESERVE
    admission.settle(books, month_ends, estimate, actual, ctx.terms)
    assert books.reserved >= 0, "more was released than is reserved"
    if books.month_ends == month_ends and ctx.terms.cost_timing != admission.AT_ACCEPTANCE:
        ctx.events.append(CostSettled(now, account.id, actual, estimate if reserves else 0))


def month_resets(ctx: Context, request: Request) -> int:
    """Return the end of the account's billing month (U51)."""
    books = request.account.books
    if request.now < books.month_ends:
        return books.month_ends
    return ctx.month_end(books.anchor, request.now)


def meter_resets(ctx: Context, account: Account, meter: Meter, now: int) -> int:
    """Return the end of a metered allowance's period (S38, S108, S110)."""
    if now < meter.ends:
        return meter.ends
    if meter.period == admission.WEEK:
        return week_end(now, ctx.terms.week_offset)
    return ctx.month_end(account.books.anchor, now)


@lru_cache(maxsize=1 << 12)  # limits, and what is spent until the next spends more, are shown again and again
def usd(amount: int) -> str:
    """Write µUSD as a decimal amount of dollars, exact, with at least two decimals."""
    sign = "-" if amount < 0 else ""
    dollars, fraction = divmod(abs(amount), MICRO_USD)
    decimals = f"{fraction:06d}"
    return f"{sign}{dollars}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def code_of(ctx: Context, decision: Decision, rows: Rows) -> str:
    """Return the error code of a refusal; a weekly allowance may have one of its own (U53)."""
    if decision == Decision.QUOTA_EXHAUSTED and rows.meter.period == admission.WEEK:
        return ctx.policy.assumptions.weekly_exhaustion_code
    return decision.code


def meta_of(ctx: Context, request: Request, decision: Decision, ask: Ask, rows: Rows) -> views.Meta:
    """Return the numbers behind a refusal (S98, S99, U26)."""
    now, books = request.now, request.account.books
    if decision == Decision.COST_CAP_REACHED:
        return {
            "spent": usd(admission.spent_at(now, books, ctx.terms)),
            "ceiling": usd(books.ceiling),
            "currency": "USD",
            "resets_at": iso(month_resets(ctx, request)),
        }
    if decision == Decision.QUOTA_EXHAUSTED:
        quota: views.QuotaMeta = {
            "metric": rows.metric,
            "used": admission.used_at(now, rows.meter),
            "limit": rows.meter.limit,
            "resets_at": iso(meter_resets(ctx, request.account, rows.meter, now)),
        }
        return quota
    if decision == Decision.SLOT_LIMIT_EXCEEDED:
        held = admission.held_at(now, books)
        return {
            "used": books.active + held,
            "held": held,
            "limit": books.slot_limit,
            "requested": ask.slots - ask.revived,
        }
    if decision == Decision.COOLDOWN_ACTIVE:
        free_at = rows.cooldown.since + rows.cooldown.length
        return {"available_at": iso(free_at), "retry_after": whole_seconds(free_at - now)}
    return {}


def detail_of(ctx: Context, request: Request, decision: Decision, ask: Ask, rows: Rows) -> str:
    """Explain a refusal in a sentence."""
    account, what = request.account, WHAT[rows.spend]
    if decision == Decision.ENTITLEMENT_REQUIRED:
        return f"The {account.plan} plan does not allow this {what}."
    if decision == Decision.SUBSCRIPTION_INACTIVE:
        return f"The subscription is {account.status.replace('_', ' ')}; reading goes on, spending does not."
    if decision == Decision.COST_CAP_REACHED:
        return f"This month's provider spend has reached the ceiling of {usd(account.books.ceiling)} USD."
    if decision == Decision.QUOTA_EXHAUSTED:
        left = max(0, rows.meter.limit - admission.used_at(request.now, rows.meter))
        return f"{ask.units} of {rows.metric} asked for, {left} left of {rows.meter.limit}."
    if decision == Decision.SLOT_LIMIT_EXCEEDED:
        held = admission.held_at(request.now, account.books)
        room = account.books.slot_limit - account.books.active - held
        return f"{ask.slots - ask.revived} slots asked for, {max(0, room)} free ({held} held to month end)."
    return f"The same {what} was accepted less than {rows.cooldown.length // SECOND} s ago."


def refuse(ctx: Context, request: Request, decision: Decision, ask: Ask, rows: Rows) -> Reply:
    """Answer a refusal of one of the six checks."""
    reply = problem(
        ctx.policy,
        code_of(ctx, decision, rows),
        detail_of(ctx, request, decision, ask, rows),
        meta_of(ctx, request, decision, ask, rows),
        check=int(decision),
    )
    if decision == Decision.COOLDOWN_ACTIVE:
        wait = rows.cooldown.since + rows.cooldown.length - request.now
        reply.headers["Retry-After"] = format_retry_after(ctx.policy.assumptions, request.now, wait)
    return reply


def failing_checks(ctx: Context, request: Request, ask: Ask, rows: Rows) -> tuple[bool, ...]:
    """Run each of the six checks by itself: which would refuse (S66)."""
    now, books = request.now, request.account.books
    return (
        admission.lacks_capability(ask, books),
        admission.is_inactive(ask, books),
        admission.over_ceiling(now, ask, books, ctx.terms),
        admission.over_quota(now, ask, rows.meter),
        admission.over_slots(now, ask, books),
        admission.is_cooling(now, ask, rows.cooldown),
    )


def report(
    ctx: Context, request: Request, decision: Decision, ask: Ask, rows: Rows, running: Job | None
) -> Reply:
    """Answer a dry run: all six outcomes, and what the real call would get (S66, U56, U89, E49)."""
    refused = decision not in (Decision.GRANTED, Decision.JOINED)
    if refused and ctx.policy.assumptions.dry_run_reply == "live_error":
        return refuse(ctx, request, decision, ask, rows)
    checks: list[views.DryRunCheckView] = [
        {"check": name, "ok": True, "code": None, "meta": None} for name in CHECK_NAMES
    ]
    refusal: views.DryRunRefusalView | None = None
    if refused:  # what is granted or joined fails no check
        for check, fails, failed in zip(
            checks, failing_checks(ctx, request, ask, rows), DECISIONS[1:], strict=False
        ):
            if fails:
                check["ok"], check["code"] = False, code_of(ctx, failed, rows)
                check["meta"] = meta_of(ctx, request, failed, ask, rows)
        code = code_of(ctx, decision, rows)
        refusal = {
            "code": code,
            "status": status_of(ctx.policy, code),
            "detail": detail_of(ctx, request, decision, ask, rows),
            "meta": meta_of(ctx, request, decision, ask, rows),
        }
    body: views.DryRunView = {
        "dry_run": True,
        "allowed": not refused,
        "would_join": running.id if running is not None and decision == Decision.JOINED else None,
        "refusal": refusal,
        "checks": checks,
    }
    reply = single(body, ctx.policy.statuses.dry_run, "dry_run")
    if refusal is not None:
        reply.code, reply.check = refusal["code"], int(decision)
    return reply


def outcome_of_scan_patch(
    ctx: Context,
    request: Request,
    domain: str,
    engine_devices: list[str],
    geographies: list[str],
    widening: Widening,
) -> Reply | None:
    """Check and book a PATCH that widens a scan (U95, E19): None when granted, else the refusal.

    The caller then applies the widening to the holds.
    """
    mode = ctx.policy.assumptions.patch_checks
    rows = rows_of(ctx, request.account, Spend.SCANS, domain)
    ask = ask_for(ctx, Spend.SCANS, dry_run=False)
    if mode == "dimensions_slots":
        minded = 1 << Decision.ENTITLEMENT_REQUIRED | 1 << Decision.SLOT_LIMIT_EXCEEDED
        ask.checks = minded & ~ctx.state.waived
        ask.capability = 0
    elif mode == "none":
        ask.checks = 0
    ask.beyond = beyond_dimensions(ctx, request.account, engine_devices, geographies)
    ask.slots, ask.revived = widening.slots, widening.revived
    if mode != "all":
        rows = Rows(Spend.SCANS, "", UNMETERED, {}, Cooldown())
    decision = decide(ctx, request, ask, rows)
    if decision != Decision.GRANTED:
        return refuse(ctx, request, decision, ask, rows)
    book(ctx, request, ask, rows)
    return None


def beyond_dimensions(
    ctx: Context, account: Account, engine_devices: list[str], geographies: list[str]
) -> int:
    """Return which check minds a scan that is larger than the plan's dimensions (S33, U59), or 0."""
    most = ctx.plan_of(account).dimensions
    if len(engine_devices) <= most.max_engine_devices and len(geographies) <= most.max_geographies:
        return 0
    if ctx.policy.assumptions.dimension_refusal == "slot_limit_exceeded":
        return Decision.SLOT_LIMIT_EXCEEDED
    return Decision.ENTITLEMENT_REQUIRED
