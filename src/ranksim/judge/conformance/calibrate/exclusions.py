"""Signs: single exchanges, or two, that exclude one option of an assumption by themselves.

Each function gives (assumption, excluded value, evidence). They add to what the judges exclude, where a rule
holds under every option and so no verdict depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ranksim.core.clock import DAY, SECOND, billing_month, calendar_anchor
from ranksim.core.contract.facts import RateClass
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import AFTER_RATE_LIMIT, Observation, ReceivedAttempt
from ranksim.judge.conformance.rate.key_window import calls_of, default_reading
from ranksim.judge.conformance.rate.ledger import EPOCH, classes_by_limit, limited, logged, nominal, steady
from ranksim.judge.conformance.rate.window_calls import WindowCalls
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence

Sign: TypeAlias = tuple[str, Any, Evidence]


def signs(history: History, options: Options) -> Iterator[Sign]:
    """Return all signs of a trace."""
    for exchange in history.as_judged():
        if not exchange.lost:
            for read in SINGLE:
                yield from read(exchange, options)
    yield from _repeated_keys(history)
    yield from _months(history)
    yield from _signed(history)


def _sign(name: str, value: Any, says: str, *exchanges: Observation) -> Sign:
    return name, value, Evidence(says, tuple(exchange.id for exchange in exchanges), at=exchanges[0].sent)


# One exchange


def _page_limit(exchange: Observation, options: Options) -> Iterator[Sign]:
    """A limit beyond the largest page that is clamped is not refused (U34)."""
    limit = exchange.query.get("limit", "")
    number = int(limit[:9]) if limit.isascii() and limit.isdigit() else 0
    lists = exchange.operation.endswith(".list") and exchange.surface == "rest"
    if number <= options.facts.page_max or not lists:
        return
    if exchange.ok:
        yield _sign("page_limit_over", "refuse", f"limit={limit} was answered {exchange.status}", exchange)


def _dry_run(exchange: Observation, options: Options) -> Iterator[Sign]:
    """A dry run that would be refused is reported or answered with the refusal (U56)."""
    operation = OPERATIONS.get(exchange.operation)
    if not exchange.dry_run or operation is None or not operation.spends:
        return
    says = f"a dry run was answered {exchange.status}"
    if exchange.code in AFTER_RATE_LIMIT and not exchange.code.startswith(("idempotency", "invalid")):
        yield _sign("dry_run_reply", "report", f"{says} {exchange.code}", exchange)
    elif exchange.ok and isinstance(exchange.data, dict) and exchange.data.get("allowed") is False:
        yield _sign("dry_run_reply", "live_error", f"{says}, not allowed", exchange)


def _bad_key(exchange: Observation, options: Options) -> Iterator[Sign]:
    """A bad key is counted in its caller's reads, or like a good one where the limiter comes first (U9)."""
    stated, wanted = classes_by_limit(options).get(exchange.limit or -1), nominal(exchange, options)
    if exchange.status != 401 or wanted in (None, RateClass.READ) or stated is None:
        return
    says = f"a 401 of a {wanted.label if wanted is not None else ''} call tells of the limit {exchange.limit}"
    excluded = "limiter_first" if stated == RateClass.READ else "auth_first"
    yield _sign("limiter_order", excluded, says, exchange)


def _classes(exchange: Observation, options: Options) -> Iterator[Sign]:
    """RateLimit-Limit names the class of a dry run (U10), or of work on keywords and scans (U2)."""
    stated, operation = classes_by_limit(options).get(exchange.limit), OPERATIONS.get(exchange.operation)
    if (
        stated is None
        or operation is None
        or exchange.status in (401, 429)
        or exchange.old
        or not exchange.key
    ):
        return
    says = f"RateLimit-Limit is {exchange.limit}, that of the class {stated.label}"
    if exchange.dry_run and operation.spends:
        for value in ("same", "free") if stated == RateClass.READ else ("read",):
            yield _sign("dry_run_class", value, says, exchange)
    elif operation.tracking and stated != RateClass.READ:
        excluded = "expensive" if stated == RateClass.WRITE else "write"
        yield _sign("tracking_class", excluded, says, exchange)


def _formats(exchange: Observation, options: Options) -> Iterator[Sign]:
    """RateLimit-Reset (U5) and Retry-After (U6) have one of two formats, that can be told apart."""
    if exchange.reset:
        excluded = "delta" if exchange.reset >= EPOCH else "epoch"
        yield _sign("reset_format", excluded, f"RateLimit-Reset is {exchange.reset}", exchange)
    if limited(exchange) and exchange.retry_after is not None:
        yield _sign("retry_after_format", "http_date", "Retry-After is seconds", exchange)
    elif limited(exchange) and exchange.retry_at is not None:
        yield _sign("retry_after_format", "seconds", "Retry-After is http date", exchange)


def _codes(exchange: Observation, options: Options) -> Iterator[Sign]:
    """Codes that only one option has."""
    code, says = exchange.code, f"the code is {exchange.code}"
    if code == "idempotency_in_progress":
        repeated = "a repeated key was answered idempotency_in_progress"
        yield _sign("in_flight_until", "never", repeated, exchange)
    if code == "quota_exhausted" and str(exchange.meta.get("metric", "")).startswith("keyword_brief"):
        yield _sign("weekly_exhaustion_code", "allowance_exhausted", says, exchange)
    if code == "cost_cap_reached" and exchange.operation in ("keywords.create", "scans.create"):
        refused = f"{exchange.operation} was refused as {code}"
        yield _sign("ceiling_stops_tracking", False, refused, exchange)
    if exchange.replayed and code in AFTER_RATE_LIMIT - {"idempotency_mismatch", "idempotency_in_progress"}:
        yield _sign("idempotency_stores", "success", f"a refusal ({code}) was replayed", exchange)


def _reserved(exchange: Observation, options: Options) -> Iterator[Sign]:
    """Only reservations make usage show a reserved part (U49)."""
    usage = exchange.operation == "account.usage" and isinstance(exchange.data, dict)
    cost = exchange.data.get("cost") if usage else None
    reserved = cost.get("reserved") if isinstance(cost, dict) else None
    if isinstance(reserved, str) and reserved.strip("0.") != "":
        for value in ("acceptance", "completion"):
            yield _sign("cost_timing", value, f"usage shows {reserved} reserved", exchange)


SINGLE = (_page_limit, _dry_run, _bad_key, _classes, _formats, _codes, _reserved)


# Several


def _repeated_keys(history: History) -> Iterator[Sign]:
    """One Idempotency-Key again with another API key (U27): one that is known replays, or is a mismatch."""
    groups: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for exchange in history.as_judged():
        keyed = exchange.idempotency_key and exchange.method == "POST"
        if keyed and not exchange.lost and exchange.surface == "rest":
            groups[exchange.account, str(exchange.idempotency_key)].append(exchange)
    for first, *others in groups.values():
        for later in others if first.ok else ():
            if first.received <= later.sent and later.sent - first.received < DAY // 2:
                yield from _repeated(first, later)


def _repeated(first: Observation, later: Observation) -> Iterator[Sign]:
    """A key that is known replays, or tells of a mismatch; one that is new makes another thing."""
    made = _made(first)
    same = later.ok and made is not None and made == _made(later)
    other = later.ok and made is not None and not same and not later.replayed
    mismatch = later.code == "idempotency_mismatch"
    if first.key != later.key:
        if same or mismatch:
            yield _sign("idempotency_scope", "api_key", "a key of another API key was known", first, later)
        elif other:
            yield _sign("idempotency_scope", "account", "a key of another API key was new", first, later)


def _made(exchange: Observation) -> str | None:
    made = exchange.data.get("id") if isinstance(exchange.data, dict) else None
    return made if isinstance(made, str) else None


def _months(history: History) -> Iterator[Sign]:
    """Monthly allowances reset at the anchor's time of the month, or where the calendar's begins (U51)."""
    anchors: dict[str, Observation] = {}
    for exchange in history.by_operation("account.get"):
        if (
            isinstance(exchange.data, dict)
            and instant_or_none(exchange.data.get("billing_anchor")) is not None
        ):
            anchors.setdefault(exchange.account, exchange)
    for exchange in history.by_operation("account.usage"):
        metrics = exchange.data.get("metrics") if isinstance(exchange.data, dict) else None
        for metric in metrics if isinstance(metrics, list) else ():
            resets = instant_or_none(metric.get("resets_at")) if isinstance(metric, dict) else None
            if resets is None or metric.get("period") != "month":
                continue
            yield from _month(resets, exchange, anchors.get(exchange.account))


def _month(resets: int, exchange: Observation, account: Observation | None) -> Iterator[Sign]:
    if resets % SECOND:
        return
    says = "a monthly allowance resets where the {} month does not end"
    if billing_month(calendar_anchor(), resets)[0] != resets:
        yield _sign("month", "calendar", says.format("calendar"), exchange)
    anchor = None if account is None else instant_or_none(account.data.get("billing_anchor"))
    if account is None or anchor is None or anchor % SECOND:
        return
    if billing_month(anchor, resets)[0] != resets:
        yield _sign("month", "anchor", says.format("billing"), account, exchange)


def _signed(history: History) -> Iterator[Sign]:
    """A retry is signed with its own time, or with that of the first attempt (U68)."""
    last: dict[tuple[str, str], ReceivedAttempt] = {}
    for came in history.arrived:
        before = last.setdefault((came.endpoint, came.event), came)
        if before is came or came.t is None or before.t is None or came.attempt <= before.attempt:
            continue
        names = tuple(attempt.name for attempt in (before, came))
        if came.t != before.t:
            yield "signature_time", "first", Evidence("t differs between attempts", (), names)
        elif came.received - before.received > 5 * SECOND and history.run.rate:
            yield "signature_time", "attempt", Evidence("t is the same in a later attempt", (), names)


# Rate windows, once their algorithm is known


def default_calls(history: History, options: Options) -> Iterator[WindowCalls]:
    """Yield the calls of each key and class, as the default reading of rate windows has them."""
    log = logged(history)
    for ledger in log.ledgers(log.rows(history.run, options)):
        for rate_class in RateClass:
            if ledger.has(rate_class):
                yield calls_of(ledger, rate_class, default_reading(options), history.run, options)


def reset_signs(history: History, options: Options, left: tuple[Any, ...]) -> Iterator[Sign]:
    """Return what RateLimit-Reset of a sliding log points at: its oldest call leaving, or all (U88)."""
    if left == ("sliding_log",) and steady(history.run):
        for calls in default_calls(history, options):
            yield from _reset_signs(calls)


def _reset_signs(calls: WindowCalls) -> Iterator[Sign]:
    """Full is no window that ends before this call leaves; the oldest's none that ends with it."""
    stated, margin = calls.stated, 2 * calls.second
    complete = stated.high >= stated.low
    soon = np.flatnonzero(complete & (stated.high < stated.sent + calls.short - margin))
    if len(soon):
        says = "RateLimit-Reset ends sooner than this very call leaves the window"
        yield "reset_reports", "full", calls.evidence(says, int(stated.who[soon[0]]))
    side = calls.admitted.within(calls.short)
    older = side.before(stated.sent - 2 * margin) - side.begun(stated.done - calls.short)
    late = np.flatnonzero(complete & (older > 0) & (stated.low > stated.done + calls.length - margin))
    if len(late):
        says = "RateLimit-Reset ends as this call leaves, though an older one leaves sooner"
        yield "reset_reports", "algorithm", calls.evidence(says, int(stated.who[late[0]]))
