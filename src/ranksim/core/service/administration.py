"""What the API itself does not offer: accounts, keys, plans, add-ons, health (S7, S72).

Drivers call these through `Service`. Bad names are refused with `BadInput`: they come from people's files.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256

from ranksim.core.clock import calendar_anchor
from ranksim.core.contract.facts import CHECK_NAMES, SPENDING_OPERATIONS, RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quota import RateQuota
from ranksim.core.contract.rate_table import WindowEntry
from ranksim.core.errors import BadInput, near
from ranksim.core.rules import admission, windows
from ranksim.core.rules.admission import MONTH, WEEK
from ranksim.core.rules.books import Books, Cooldown, Meter, Window
from ranksim.core.service.context import Context
from ranksim.core.service.state import Account, Key

ENVIRONMENTS = ("production", "sandbox")
STATUSES = ("active", "trialing", "past_due", "unpaid", "canceled")

LIMITS = ("rate", *CHECK_NAMES)
"""What can be waived: the rate limits, and the six checks by their numbers (S59)."""


def _expect(what: str, value: str, options: tuple[str, ...]) -> None:
    if value not in options:
        raise BadInput(f"{what}: expected one of {', '.join(options)}, found {value!r}{near(value, options)}")


def open_account(
    ctx: Context,
    name: str,
    plan: str,
    now: int,
    anchor: int | None = None,
    status: str = "active",
    add_ons: dict[str, int] | None = None,
    environment: str = "production",
) -> Account:
    """Open an account on a plan. `anchor` (µs) starts its billing months (U51, U102); default `now`."""
    _expect("environment", environment, ENVIRONMENTS)
    if ctx.policy.assumptions.month == "calendar":
        anchor = calendar_anchor()
    account = Account(
        id="",
        name=name,
        environment=environment,
        plan=plan,
        status=status,
        created_at=now,
        books=Books(anchor=now if anchor is None else anchor),
        add_ons={},
    )
    set_status(ctx, account, status)
    for add_on, count in (add_ons or {}).items():
        _expect_add_on(ctx, add_on, count)
        account.add_ons[add_on] = count
    change_plan(ctx, account, plan, now)
    account.id = ctx.state.new_id("acc")  # what is refused above takes no number
    ctx.state.accounts[account.id] = account
    return account


def set_status(ctx: Context, account: Account, status: str) -> None:
    """Set the subscription's status; some statuses cannot spend (S61, U57)."""
    _expect("account status", status, STATUSES)
    account.status = status
    account.books.healthy = int(status not in ctx.policy.assumptions.inactive_statuses)


def change_plan(ctx: Context, account: Account, plan: str, now: int) -> None:
    """Put an account on a plan at once: what is used stays used, limits are the new plan's.

    Meters that the plan lacks are kept: nobody gets a fresh allowance by changing to and fro.
    """
    _expect("plan", plan, tuple(ctx.policy.catalogue.plans))
    account.plan = plan
    new = ctx.plan_of(account)
    account.books.capabilities = sum(ctx.bits[name] for name in set(new.capabilities))
    account.books.ceiling = new.cost_ceiling
    account.books.slot_limit = new.slot_limit
    for metric, quota in new.quotas.items():
        meter = account.meters.setdefault(metric, Meter())
        period = WEEK if quota.period == "week" else MONTH
        if meter.period != period:
            used = admission.used_at(now, meter)
            meter.period = period
            admission.turn_meter(now, meter, account.books, ctx.terms)
            meter.used = used
    _set_limits(ctx, account)
    for name, row in account.cooldowns.items():
        row.length = new.cooldown_of(name.partition("/")[2])


def renew_terms(ctx: Context, now: int) -> None:
    """Give accounts and keys what the policy now in force says: what is used stays used.

    Callers without a key go on with the windows they have.
    """
    for account in ctx.state.accounts.values():
        change_plan(ctx, account, account.plan, now)
        set_status(ctx, account, account.status)
    rates = ctx.policy.facts.rates
    for key in ctx.state.keys.values():
        for number, window in enumerate(key.windows):
            limit = rates.of(RateClass(number % len(RateClass)))
            if limit != window.limit:
                key.rings[number] = windows.set_limit(now, window, key.rings[number], limit)
    limits = {entry.name: entry.quota.limit for entry in ctx.policy.windows}
    for place, window in ctx.state.callers.items():
        limit = limits.get(place.partition(" ")[0], window.limit)
        if limit != window.limit:
            rings = ctx.state.caller_rings
            rings[place] = windows.set_limit(now, window, rings[place], limit)


def set_usage(
    ctx: Context, account: Account, metrics: Mapping[str, int], spent: int, held: int, now: int
) -> None:
    """Set what an account has used of the periods that hold `now`: units, settled cost (µUSD), held slots."""
    for metric in metrics:
        _expect("metric", metric, tuple(ctx.plan_of(account).quotas))
    books = account.books
    admission.turn_month(now, books)
    books.settled, books.held = spent, held
    for metric, used in metrics.items():
        meter = account.meters[metric]
        admission.turn_meter(now, meter, books, ctx.terms)
        meter.used = used


def set_cooldown(ctx: Context, account: Account, spend: str, domain: str, since: int) -> None:
    """Let an operation on a domain cool down since an instant; one that began later goes on (U46)."""
    _expect("operation", spend, SPENDING_OPERATIONS)
    owner = domain if ctx.policy.assumptions.cooldown_scope == "domain" else "account"
    length = ctx.plan_of(account).cooldown_of(spend)
    row = account.cooldowns.setdefault(f"{owner}/{spend}", Cooldown(length=length))
    row.since = max(row.since, since)


def set_add_on(ctx: Context, account: Account, add_on: str, count: int) -> None:
    """Set how many of an add-on an account has; they stack and count at once (S109, U54)."""
    _expect_add_on(ctx, add_on, count)
    account.add_ons[add_on] = count
    _set_limits(ctx, account)


def waive(ctx: Context, limits: Collection[str]) -> None:
    """Switch off the limits named, of `LIMITS`, for everybody, and no others.

    A waived check never refuses, yet what it minds is booked as ever; a waived rate limit does not count.
    """
    for limit in limits:
        _expect("limit", limit, LIMITS)
    ctx.state.waived = sum(1 << LIMITS.index(limit) for limit in set(limits))


def _set_limits(ctx: Context, account: Account) -> None:
    for metric in ctx.plan_of(account).quotas:
        account.meters[metric].limit = allowance(ctx, account, metric)


def _expect_add_on(ctx: Context, add_on: str, count: int) -> None:
    _expect("add-on", add_on, tuple(ctx.policy.catalogue.add_ons))
    if count < 0:
        raise BadInput(f"add-on {add_on}: expected a count of 0 or more, found {count}")


def allowance(ctx: Context, account: Account, metric: str) -> int:
    """Return an account's limit of a metric, add-ons included (S109)."""
    limit = ctx.plan_of(account).quotas[metric].limit
    for name, count in account.add_ons.items():
        add_on = ctx.policy.catalogue.add_ons[name]
        if add_on.metric == metric:
            limit += add_on.amount * count
    return limit


def issue_key(
    ctx: Context, account: Account, name: str, now: int, domain: str | None = None, token: str = ""
) -> Key:
    """Issue an API key, for the account's environment, bound to one domain if that is given (S2, S70).

    Its token is drawn unless it is stated.
    """
    if token in ctx.state.keys:
        raise BadInput(f"key {name!r}: its token is that of another key; give each its own")
    if domain is not None and domain not in account.domains:
        raise BadInput(f"key {name!r}: account {account.name!r} has no domain {domain!r}")
    serial = ctx.state.next_serial()
    digest = sha256(f"{ctx.state.seed}/{account.id}/{name}/{serial}".encode()).hexdigest()
    prefix = "live" if account.environment == "production" else "test"
    key = Key(
        token=token or f"rk_{prefix}_{digest[:32]}",
        name=name,
        account=account.id,
        environment=account.environment,
        domain=domain,
        created_at=now,
    )
    for number in range(windows_of_a_key(ctx.policy)):
        window, ring = new_window(ctx, RateClass(number % len(RateClass)))
        key.windows.append(window)
        key.rings.append(ring)
    ctx.state.keys[key.token] = key
    return key


def windows_of_a_key(policy: Policy) -> int:
    """Count the rate windows of a key: one a class, and as many again where GraphQL has its own (U11)."""
    return len(RateClass) * (2 if policy.assumptions.graphql_cost == "separate" else 1)


def new_window(ctx: Context, rate_class: RateClass) -> tuple[Window, list[int]]:
    """Make an untouched rate window of a class, and its ring (S102-S104, U1)."""
    facts = ctx.policy.facts
    quota = RateQuota(facts.rates.of(rate_class), facts.rate_window)
    return _new_row(ctx.policy, quota, ctx.policy.assumptions.window)


def new_row(policy: Policy, entry: WindowEntry) -> tuple[Window, list[int]]:
    """Make an untouched window of a policy's table, and its ring (U1 where it names no algorithm)."""
    return _new_row(policy, entry.quota, entry.algorithm or policy.assumptions.window)


def _new_row(policy: Policy, quota: RateQuota, algorithm: str) -> tuple[Window, list[int]]:
    assumptions, kind = policy.assumptions, windows.KINDS.index(algorithm)
    window = Window(
        kind=kind,
        limit=quota.limit,
        length=quota.length,
        counts_refused=int(assumptions.refused_calls_count),
        full_reset=int(assumptions.reset_reports == "full"),
    )
    windows.start(window)
    return window, [0] * quota.limit if kind in (windows.SLIDING_LOG, windows.CONCURRENCY) else []
