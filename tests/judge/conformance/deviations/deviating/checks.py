"""Deviations of the six checks: their order, allowances, slots, cost, cooldowns, joins, dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from deviating.kit import Deviation, Handler, Patch, data_of, edited, handled, refusals
from ranksim.core.clock import DAY, MILLISECOND, instant, iso
from ranksim.core.contract.facts import Decision
from ranksim.core.rules import admission
from ranksim.core.rules.books import Ask, Books, Cooldown, Meter, Terms
from ranksim.core.rules.slots import Block, Narrowing
from ranksim.core.service import account as reading
from ranksim.core.service import jobs, slots, spend_decision, spending
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.replies import single
from ranksim.core.service.service import Service
from ranksim.core.service.spend_decision import Rows
from ranksim.core.service.state import Account

AT_ONCE = 60 * MILLISECOND
"""Calls this close together do not see each other where something is not atomic."""


# Order


def order(*checks: int) -> Callable[[Patch], None]:
    """Run the six checks in another order; the join stays where it is."""

    def decide(now: int, ask: Ask, books: Books, meter: Meter, cooldown: Cooldown, terms: Terms) -> int:
        failing = (
            admission.lacks_capability(ask, books),
            admission.is_inactive(ask, books),
            admission.over_ceiling(now, ask, books, terms),
            admission.over_quota(now, ask, meter),
            admission.over_slots(now, ask, books),
            admission.is_cooling(now, ask, cooldown),
        )
        if ask.running and not failing[0] and not failing[1]:
            return admission.JOINED
        return next((check for check in checks if failing[check - 1]), admission.GRANTED)

    return lambda patch: patch.setattr(admission, "decide", decide)


def never(check: str) -> Callable[[Patch], None]:
    """Leave a check out."""
    return lambda patch: patch.setattr(admission, check, lambda *_: False)


# Allowances


def kept_after_refusal(patch: Patch) -> None:
    """Keep the units of check 4 although check 5 or 6 refused."""
    refuse = spend_decision.refuse

    def refused(ctx: Context, request: Request, refusal: Decision, ask: Ask, rows: Rows) -> Reply:
        if refusal in (Decision.SLOT_LIMIT_EXCEEDED, Decision.COOLDOWN_ACTIVE) and not ask.dry_run:
            _use(ctx, request, ask, rows)
        return refuse(ctx, request, refusal, ask, rows)

    patch.setattr(spending, "refuse", refused)


def _use(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    if rows.meter.limit < 0:
        return
    if request.now >= rows.meter.ends:
        admission.turn_meter(request.now, rows.meter, request.account.books, ctx.terms)
    rows.meter.used += ask.units


def _paid_words(handler: Handler, ctx: Context, request: Request) -> Reply:
    """Reserve cost for keywords as they are added, which buy nothing yet."""
    reply = handler(ctx, request)
    if reply.status == ctx.policy.statuses.created:
        request.account.books.reserved += 20_000
    return reply


def not_atomic(patch: Patch) -> None:
    """Check an allowance against what was used a moment ago."""
    book, booked = admission.book, dict[int, list[tuple[int, int]]]()

    def noted(now: int, ask: Ask, books: Books, meter: Meter, cooldown: Cooldown, terms: Terms) -> None:
        book(now, ask, books, meter, cooldown, terms)
        booked.setdefault(id(meter), []).append((now, ask.units))

    def over(now: int, ask: Ask, meter: Meter) -> bool:
        if not admission.applies(4, ask) or meter.limit < 0 or ask.units == 0:
            return False
        unseen = sum(units for when, units in booked.get(id(meter), ()) if when > now - AT_ONCE)
        return admission.used_at(now, meter) - unseen + ask.units > meter.limit

    patch.setattr(admission, "book", noted)
    patch.setattr(admission, "over_quota", over)


def quota(by: int) -> Callable[[Patch], None]:
    """Admit so many units more than the allowance has."""

    def over(now: int, ask: Ask, meter: Meter) -> bool:
        if not admission.applies(4, ask) or meter.limit < 0 or ask.units == 0:
            return False
        return admission.used_at(now, meter) + ask.units > meter.limit + by

    return lambda patch: patch.setattr(admission, "over_quota", over)


def _used_less(metric: Any) -> None:
    if metric["used"] > 0:
        metric["used"] -= 1
        metric["remaining"] += 1


def _usage(change: Callable[[Any], None]) -> Any:
    def all_of(usage: Any) -> None:
        for metric in usage["metrics"]:
            change(metric)

    return data_of("account.usage")(all_of)


def _on_sunday(metric: Any) -> None:
    if metric["period"] == "week":
        metric["resets_at"] = iso(instant(metric["resets_at"]) - DAY)


def _a_day_late(patch: Patch) -> None:
    resets = spend_decision.meter_resets
    for module in (spend_decision, reading):
        patch.setattr(module, "meter_resets", lambda *given: resets(*given) + DAY)


def _drop(name: str) -> Callable[[Any], None]:
    return lambda error: error["meta"].pop(name, None)


def _refunded(patch: Patch) -> None:
    """Take nothing of an allowance for what is admitted while a job runs."""
    book = spend_decision.book

    def booked(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
        busy = any(job.status == "running" for job in ctx.state.jobs.values())
        book(ctx, request, replace(ask, units=0) if busy else ask, rows)

    patch.setattr(spending, "book", booked)


# Slots


def slot_limit(by: int) -> Callable[[Patch], None]:
    """Give so many slots more than the plan has."""

    def over(now: int, ask: Ask, books: Books) -> bool:
        added = ask.slots - ask.revived
        if not admission.applies(5, ask):
            return False
        if ask.beyond == admission.SLOT_LIMIT_EXCEEDED:
            return True
        return added > 0 and books.active + admission.held_at(now, books) + added > books.slot_limit + by

    return lambda patch: patch.setattr(admission, "over_slots", over)


def freed_at_once(patch: Patch) -> None:
    """Hold nothing of what is removed."""
    narrow = slots.narrow

    def freed(ctx: Context, account: Account, narrowing: Narrowing, now: int) -> None:
        narrow(ctx, account, Narrowing(narrowing.blocks, True), now)

    patch.setattr(slots, "narrow", freed)


def once_for_all_scans(patch: Patch) -> None:
    """Count a keyword once that stands in several scans of the same device and place."""
    blocks_of_words, block_of_scan = slots._blocks_of_words, slots._block_of_scan

    def once(blocks: list[Block]) -> list[Block]:
        return list({(tuple(one.engine_devices), tuple(one.geographies)): one for one in blocks}.values())

    def of_words(*given: Any) -> list[Block]:
        return once(blocks_of_words(*given))

    def plan_scan(
        ctx: Context,
        account: Account,
        domain: str,
        lists: Any,
        engine_devices: Any,
        geographies: Any,
        now: int,
    ) -> Any:
        others = {
            f"{word}|{pairing}|{place}"
            for scan in map(ctx.state.scans.__getitem__, account.scans)
            if scan.active and scan.domain == domain
            for block in [block_of_scan(ctx, scan)]
            for word in block.words
            for pairing in block.engine_devices
            for place in block.geographies
        }
        words = [
            word
            for word in slots._words(ctx, lists)
            if any(f"{word}|{one}|{place}" not in others for one in engine_devices for place in geographies)
        ]
        block = Block(slots._owner(ctx, domain, ""), words, engine_devices, geographies)
        return slots._widening(ctx, account, [block], now)

    patch.setattr(slots, "_blocks_of_words", of_words)
    patch.setattr(slots, "plan_scan", plan_scan)


def places_not_counted(patch: Patch) -> None:
    """Count a keyword once for all its geographies, and hold it once."""
    identities = Block.identities

    def once(block: Block) -> Iterator[str]:
        return identities(Block(block.owner, block.words, block.engine_devices, [""]))

    patch.setattr(Block, "size", lambda block: len(block.words) * len(block.engine_devices))
    patch.setattr(Block, "identities", once)


def _nothing_held(read: Any) -> None:
    read["used"] -= read["held"]
    read["available"] += read["held"]
    read["held"] = 0


# Cost


def ceiling(percent: int) -> Callable[[Patch], None]:
    """Stop spending at another amount than the ceiling."""

    def over(now: int, ask: Ask, books: Books, terms: Terms) -> bool:
        spent = admission.spent_at(now, books, terms)
        return admission.applies(3, ask) and 100 * spent >= percent * books.ceiling

    return lambda patch: patch.setattr(admission, "over_ceiling", over)


def reads_refused(code: str, where: Callable[[Request], bool]) -> Callable[[Patch], None]:
    """Refuse reads too."""

    def apply(patch: Patch) -> None:
        execute = Service._execute

        def executed(self: Service, request: Request, owner: str, index: int) -> Reply:
            if request.call.method == "GET" and request.account.id and where(request):
                return problem(self.policy, code, "Reading is over.")
            return execute(self, request, owner, index)

        patch.setattr(Service, "_execute", executed)

    return apply


def _at_ceiling(request: Request) -> bool:
    books = request.account.books
    return books.settled + books.reserved >= books.ceiling


# Cooldowns and joins


def cooldown(percent: int) -> Callable[[Patch], None]:
    """Enforce another share of the cooldown."""

    def cooling(now: int, ask: Ask, row: Cooldown) -> bool:
        return admission.applies(6, ask) and now < row.since + row.length * percent // 100

    return lambda patch: patch.setattr(admission, "is_cooling", cooling)


def cooldown_races(patch: Patch) -> None:
    """Let calls that come at once all pass the cooldown."""

    def cooling(now: int, ask: Ask, row: Cooldown) -> bool:
        return admission.applies(6, ask) and row.since + AT_ONCE < now < row.since + row.length

    patch.setattr(admission, "is_cooling", cooling)


def _decided(change: Callable[[Context, Request, Ask, Rows, Decision], Decision]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        decide = spend_decision.decide

        def decided(ctx: Context, request: Request, ask: Ask, rows: Rows) -> Decision:
            return change(ctx, request, ask, rows, decide(ctx, request, ask, rows))

        patch.setattr(spending, "decide", decided)

    return apply


def _charge_join(ctx: Context, request: Request, ask: Ask, rows: Rows, found: Decision) -> Decision:
    if found == Decision.JOINED and not ask.dry_run:
        request.account.books.settled += ask.estimate
        _use(ctx, request, ask, rows)
    return found


def _second_job(ctx: Context, request: Request, ask: Ask, rows: Rows, found: Decision) -> Decision:
    return Decision.GRANTED if found == Decision.JOINED and not ask.dry_run else found


def _crawls_join(handler: Handler, ctx: Context, request: Request) -> Reply:
    body = request.call.body or {}
    domain = ctx.state.domains.get(str(body.get("domain_id")))
    if body.get("kind") == "crawl" and not body.get("dry_run") and domain is not None:
        running = jobs.running_of(ctx, domain, "crawl")
        if running is not None and running.account == request.account.id:
            return single(jobs.show_job(ctx, running, request.now), 200, "joined")
    return handler(ctx, request)


# Dry runs


def _consuming(consume: Callable[[Context, Request, Ask, Rows], None]) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        report = spend_decision.report

        def reported(
            ctx: Context, request: Request, refusal: Decision, ask: Ask, rows: Rows, running: Any
        ) -> Reply:
            reply = report(ctx, request, refusal, ask, rows, running)
            if refusal == Decision.GRANTED:
                consume(ctx, request, ask, rows)
            return reply

        patch.setattr(spending, "report", reported)

    return apply


def _take_slots(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    request.account.books.active += ask.slots


def _take_cost(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    request.account.books.settled += ask.estimate


def _arm(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    for row in rows.cooldowns.values():
        row.since = request.now
    request.account.cooldowns.update(rows.cooldowns)


def _queues(handler: Handler, ctx: Context, request: Request) -> Reply:
    reply = handler(ctx, request)
    body = dict(request.call.body or {})
    if reply.outcome == "dry_run" and reply.body is not None and reply.body["data"]["allowed"]:
        body["dry_run"] = False
        handler(ctx, replace(request, call=replace(request.call, body=body)))
    return reply


def dry_without(check: int) -> Callable[[Patch], None]:
    """Leave a check out of dry runs."""

    def apply(patch: Patch) -> None:
        ask_for = spend_decision.ask_for

        def asked(ctx: Context, spend: Any, *, dry_run: bool) -> Ask:
            ask = ask_for(ctx, spend, dry_run=dry_run)
            if dry_run:
                ask.checks &= ~(1 << check)
            return ask

        patch.setattr(spending, "ask_for", asked)

    return apply


def _backwards(send: Any, status: int, reply: Any) -> None:
    if status == 200 and isinstance(reply.get("data"), dict) and "checks" in reply["data"]:
        reply["data"]["checks"].reverse()


LADDER = ("ladder", "race")

CHECKS = (
    Deviation("order-1-2-swapped", (59, 60, 61), ("ladder",), order(2, 1, 3, 4, 5, 6)),
    Deviation("order-2-3-swapped", (59, 61, 62), ("ladder",), order(1, 3, 2, 4, 5, 6)),
    Deviation("order-3-4-swapped", (59, 62, 63), ("ladder",), order(1, 2, 4, 3, 5, 6)),
    Deviation("order-4-5-swapped", (59, 63, 64), ("ladder",), order(1, 2, 3, 5, 4, 6)),
    Deviation("order-5-6-swapped", (59, 64, 65), ("ladder",), order(1, 2, 3, 4, 6, 5)),
    Deviation("capability-not-checked", (60,), ("ladder",), never("lacks_capability")),
    Deviation("past-due-may-spend", (61,), ("ladder",), never("is_inactive")),
    Deviation(
        "past-due-may-not-read",
        (61,),
        ("ladder",),
        reads_refused("subscription_inactive", lambda request: request.account.books.healthy == 0),
    ),
    Deviation("quota-kept-after-refusal", (63,), ("ladder", "race"), kept_after_refusal),
    Deviation("quota-not-atomic", (63,), ("race",), not_atomic),
    Deviation("quota-one-more", (63,), LADDER, quota(1)),
    Deviation("quota-one-less", (63,), LADDER, quota(-1)),
    Deviation("quota-free-while-busy", (35, 63), LADDER, _refunded),
    Deviation("used-one-less", (38,), LADDER, alter=_usage(_used_less)),
    Deviation(
        "remaining-does-not-add-up",
        (38,),
        LADDER,
        alter=_usage(lambda metric: metric.update(remaining=metric["remaining"] + 1)),
    ),
    Deviation("weekly-reset-on-sunday", (108,), ("everyday", "ladder"), alter=_usage(_on_sunday)),
    Deviation("resets-a-day-late", (38, 108, 110), ("everyday", "ladder"), _a_day_late),
    Deviation("quota-exhausted-is-403", (98,), LADDER, promises={"quota_exhausted_status": 403}),
    Deviation("quota-meta-without-limit", (98,), LADDER, alter=refusals("quota_exhausted", _drop("limit"))),
    Deviation(
        "cost-meta-without-ceiling", (99,), LADDER, alter=refusals("cost_cap_reached", _drop("ceiling"))
    ),
    Deviation("slots-one-more", (64,), LADDER, slot_limit(1)),
    Deviation("slots-one-less", (64,), LADDER, slot_limit(-1)),
    Deviation(
        "slots-freed-at-once",
        (26, 27),
        ("ladder", "walk", "everyday"),
        freed_at_once,
        pinned={"narrowing": "held"},
    ),
    Deviation("slots-de-duplicated", (24,), ("ladder", "race"), once_for_all_scans),
    Deviation(
        "slots-ignore-geographies", (23, 25), ("ladder",), places_not_counted, pinned={"narrowing": "held"}
    ),
    Deviation(
        "slots-hide-what-is-held",
        (37,),
        ("ladder",),
        alter=data_of("slots.get")(_nothing_held),
        pinned={"narrowing": "held"},
    ),
    Deviation(
        "keywords-cost-at-once", (57,), ("ladder", "everyday"), handled("keywords.create", _paid_words)
    ),
    Deviation("ceiling-50-percent-late", (62,), ("ladder",), ceiling(150)),
    Deviation("ceiling-10-percent-early", (62,), ("ladder",), ceiling(90)),
    Deviation("no-reads-at-the-ceiling", (67,), ("ladder",), reads_refused("cost_cap_reached", _at_ceiling)),
    Deviation("cooldown-20-percent-short", (65,), ("race", "ladder", "calibration", "retry"), cooldown(80)),
    Deviation(
        "cooldown-20-percent-long",
        (65,),
        ("race", "ladder", "calibration", "retry"),
        cooldown(120),
        pinned={"cooldown_scope": "domain", "cooldown_from": "acceptance"},
    ),
    Deviation(
        "cooldown-races",
        (65,),
        ("race",),
        cooldown_races,
        pinned={
            "cooldown_scope": "domain",
            "cooldown_from": "acceptance",
            "cooldown_after_failure": "previous",
        },
    ),
    Deviation(
        "cooldown-across-domains",
        (65,),
        ("race", "ladder", "everyday"),
        chooses={"cooldown_scope": "account"},
        pinned={"cooldown_scope": "domain"},
    ),
    Deviation("join-charges", (52,), ("race", "everyday", "ladder"), _decided(_charge_join)),
    Deviation(
        "join-makes-a-second-job",
        (52,),
        ("race", "everyday"),
        _decided(_second_job),
        pinned={"join": "after_health", "cooldown_from": "acceptance"},
    ),
    Deviation("crawls-join-too", (53,), ("race", "everyday"), handled("jobs.create", _crawls_join)),
    Deviation("dry-run-takes-quota", (66,), ("ladder",), _consuming(_use)),
    Deviation("dry-run-takes-slots", (66,), ("ladder",), _consuming(_take_slots)),
    Deviation("dry-run-costs", (66,), ("ladder",), _consuming(_take_cost)),
    Deviation("dry-run-arms-the-cooldown", (66,), ("ladder", "everyday"), _consuming(_arm)),
    Deviation("dry-run-queues", (66,), ("ladder", "everyday"), handled("jobs.create", _queues)),
    Deviation(
        "dry-run-skips-the-cooldown",
        (66,),
        ("ladder",),
        dry_without(6),
        pinned={"cooldown_from": "acceptance"},
    ),
    Deviation("dry-run-skips-the-quota", (66,), ("ladder",), dry_without(4)),
    Deviation("dry-run-reports-backwards", (66,), ("ladder",), alter=edited(_backwards)),
)
