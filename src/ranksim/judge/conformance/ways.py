"""In which ways a deployment could break each fact, or choose otherwise, and which case would show it.

Plain data, for `docs/what-is-judged.md` and for whoever breaks a deployment on purpose. A case with a word in
braces is one of many: of each key, or of each metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args, get_origin

from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.facts import (
    CHECK_NAMES,
    CHECK_OF,
    JOB_EVENT_TYPES,
    RATE_LABELS,
    SPENDING_OPERATIONS,
)
from ranksim.judge.conformance.calls.access import LISTED_OVER, SCOPED, SHOWN
from ranksim.judge.conformance.calls.choices import ASSUMED
from ranksim.judge.conformance.calls.jobs import KIND_NAMES
from ranksim.judge.conformance.calls.pages import OVER
from ranksim.judge.conformance.calls.schema_checks import ERRORS
from ranksim.judge.conformance.calls.walks import GOING
from ranksim.judge.conformance.verdict.rule import ANY

DIFFERS: Final = "assumption differs"


@dataclass(frozen=True, slots=True)
class Departure:
    """One way to break a fact ("S43"), or to choose another option of an assumption ("U34").

    `rule` and `case` would show it; `rule` is DIFFERS where it is reported as such. Where both are empty, no
    client can see it, or none that is built yet: `why` says which.
    """

    of: str
    says: str
    rule: str = ""
    case: str = ANY
    why: str = ""


GUARDS: Final = ("capability", "health", "ceiling", "quota", "slots")
"""The rules of the first five checks, in their order; of the sixth there are those of cooldowns."""

CLASSES: Final = dict(zip(RATE_LABELS, (102, 103, 104), strict=True))
KINDS: Final = tuple(sorted(KIND_NAMES))
COOLED: Final = {"rank_run": 52, "crawl": 53, "site_optimization": 54}


def ways() -> Iterator[Departure]:
    """Return all of them, facts first, in the order of their numbers."""
    found = [*_stated(), *_rates(), *_errors(), *_spending(), *_dry_runs(), *_webhooks(), *_places()]
    yield from sorted(found, key=lambda way: int(way.of[1:]))
    yield from sorted((*_choices(), *_statuses(), *_forms()), key=lambda way: int(way.of[1:]))


def _stated() -> Iterator[Departure]:
    for number, says, rule, case in STATED:
        yield Departure(f"S{number}", says, rule, case)
    for number, says, why in UNSEEN:
        yield Departure(f"S{number}", says, why=why)


STATED: Final[tuple[tuple[int, str, str, str], ...]] = (
    (1, "a valid key is refused now and then", "access.accepted", "{key}"),
    (3, "a sandbox key works in production", "access.environment", "a sandbox key in production"),
    (3, "a production key works in sandbox", "access.environment", "a production key in sandbox"),
    (4, "calls over GraphQL do not count for rate windows", DIFFERS, "U11"),
    (
        4,
        "site_optimization over GraphQL is granted without its capability",
        "guards.capability",
        "site_optimization",
    ),
    (4, "rank_run over GraphQL is granted to an account past due", "guards.health", "rank_run"),
    (4, "rank_run over GraphQL is granted at the ceiling", "guards.ceiling", "rank_run"),
    (4, "crawl over GraphQL is granted while it cools", "cooldown.enforced", "crawl"),
    (8, "a single comes without `data`", "resource.envelope", "account.get"),
    (8, "a creation comes without `data`", "resource.envelope", "domains.create"),
    (8, "a success is no JSON", "header.json", "success"),
    (9, "a collection has no `has_more`", "resource.envelope", "domains.list"),
    (9, "the last page has a `next_cursor`", "paging.end", "a last page"),
    (9, "a page before others has none", "paging.end", "a page before others"),
    (11, "an error comes in the envelope of successes", "error.body", "404"),
    (12, "a Domain lacks a field when it is read", "resource.fields", "domains.get"),
    (12, "a Domain lacks a field in a list", "resource.fields", "domains.list"),
    (12, "a Domain lacks a field when it is created", "resource.fields", "domains.create"),
    (12, "a Domain lacks a field when it is updated", "resource.fields", "domains.update"),
    (13, "a Job lacks a field when it is created", "resource.fields", "jobs.create"),
    (13, "a Job lacks a field when it is read", "resource.fields", "jobs.get"),
    (13, "a Job lacks a field in a list", "resource.fields", "jobs.list"),
    (13, "a job that is done has no finished_at", "job.finished", "done"),
    (13, "a job that failed has no finished_at", "job.finished", "failed"),
    (15, "a job that failed tells no reason", "job.reason", "failed"),
    (15, "a job that is done tells an error", "job.reason", "done"),
    (15, "a running job tells an error", "job.reason", "running"),
    (15, "a queued job tells an error", "job.reason", "queued"),
    (15, "a job that is done runs again", "job.progress", "done"),
    (15, "a job that failed runs again", "job.progress", "failed"),
    (16, "a job that is done changes", "job.final", "done"),
    (16, "a job that failed changes", "job.final", "failed"),
    (16, "a job is found under another kind", "job.wrong_kind", ANY),
    (16, "a job has no progress", DIFFERS, "U42"),
    (17, "created_at is not ISO 8601 in UTC", "resource.timestamps", "created_at"),
    (17, "finished_at is not", "resource.timestamps", "finished_at"),
    (17, "last_full_crawl_at is not", "resource.timestamps", "last_full_crawl_at"),
    (17, "resets_at is not", "resource.timestamps", "resets_at"),
    (20, "a bound endpoint gets events of another domain", "webhook.scope", "another domain's"),
    (20, "an endpoint gets events of another account", "webhook.scope", "another account's"),
    (21, "the secret is shown when the endpoint is read", "webhook.secret_once", "webhooks.get"),
    (21, "the secret is shown in the list", "webhook.secret_once", "webhooks.list"),
    (21, "the secret is shown after a PATCH", "webhook.secret_once", "webhooks.update"),
    (22, "a disabled endpoint shows no reason", "webhook.disabled_reason", ANY),
    (23, "pairings do not multiply slots", "slots.counted", "several pairings"),
    (23, "places do not multiply slots", "slots.counted", "several places"),
    (23, "keywords do not multiply slots", "slots.counted", "several words"),
    (24, "a second scan of the same keywords adds nothing", "slots.counted", "scans"),
    (
        25,
        "one keyword on one engine, two devices and two places is not four slots",
        "slots.counted",
        "several pairings",
    ),
    (26, "removed keywords free their slots at once", "slots.held", "keywords removed"),
    (27, "a removed scan frees its slots at once", "slots.held", "a scan removed"),
    (30, "a walk of GET /v1/domains ends early", "paging.complete", "domains.list"),
    (30, "a cursor of GET /v1/domains is refused", "paging.walk", "domains.list"),
    (31, "a cursor of keywords holds under another list", "paging.cursor", "keywords.list by list_id"),
    (32, "keywords in a tracked list take no slots", "slots.counted", "keywords"),
    (33, "a scan takes no slots", "slots.counted", "scans"),
    (33, "more slots are given than the plan has", "slots.limit", "reached"),
    (35, "briefs take nothing of the weekly allowance", "quota.counted", "{metric}"),
    (36, "reading briefs is refused at the allowance's end", "guards.reads", ANY),
    (37, "what is held is not counted as used", "slots.sum", ANY),
    (38, "a metric has no resets_at", "resource.fields", "account.usage"),
    (38, "used and remaining do not add up", "quota.sum", "{metric}"),
    (38, "used grows by itself", "quota.counted", "{metric}, at rest"),
    (39, "GET /v1/webhook-events wants a key", "access.public", ANY),
    (39, "it lists none of today's types", "resource.event_types", ANY),
    (40, "a 2xx is listed as another status", "webhook.listed", "2xx"),
    (40, "a 3xx is listed as another status", "webhook.listed", "3xx"),
    (40, "a 4xx is listed as another status", "webhook.listed", "4xx"),
    (40, "a 5xx is listed as another status", "webhook.listed", "5xx"),
    (41, "a test event is never sent", "webhook.test", ANY),
    (41, "a test event is not signed", "webhook.signature", "test"),
    (42, "a PATCH is accepted and changes nothing", "resource.patch", "domains"),
    (43, "a page without a limit has more than 50", "paging.limit", "keywords.list, default"),
    (43, "a page without a limit has fewer, and more are there", "paging.default", "keywords.list"),
    (43, "a page has more than 200", "paging.limit", "keywords.list, largest"),
    (43, "a page has more than asked for", "paging.limit", "keywords.list, limit"),
    (44, "a cursor returned unchanged is refused", "paging.walk", "keywords.list"),
    (44, "has_more is told on the last page", "paging.end", "a last page"),
    (45, "a cursor under other filters goes on", "paging.cursor", "keywords.list by list_id"),
    (46, "a walk shows an item twice", "paging.once", "keywords.list"),
    (46, "a walk of several pages leaves an item out", "paging.complete", "keywords.list"),
    (
        46,
        "a walk by offsets leaves an item out when others are deleted",
        "paging.complete",
        "keywords.list, while items go",
    ),
    (43, "a page over GraphQL has more than `first`", "paging.limit", f"{OVER}, limit"),
    (43, "a page over GraphQL has more than 200", "paging.limit", f"{OVER}, largest"),
    (43, "a page over GraphQL without `first` has more than 50", "paging.limit", f"{OVER}, default"),
    (43, "a page over GraphQL without `first` has fewer, and more are there", "paging.default", OVER),
    (44, "a cursor returned unchanged over GraphQL is refused", "paging.walk", OVER),
    (44, "a page over GraphQL before others has no `endCursor`", "paging.end", OVER),
    (45, "a cursor under other filters goes on over GraphQL", "paging.cursor", OVER),
    (46, "a walk over GraphQL shows an item twice", "paging.once", OVER),
    (46, "a walk over GraphQL leaves an item out", "paging.complete", OVER),
    (46, "a walk over GraphQL by offsets leaves an item out", "paging.complete", f"{OVER}{GOING}"),
    (49, "the earlier of two PATCHes wins", "resource.patch", "labels, again"),
    (49, "the second of two PATCHes is refused as stale", "resource.unconditional", "labels"),
    (50, "a PATCH without If-Match is refused", "resource.unconditional", "domains"),
    (51, "a refusal to spend has another code", "guards.codes", "cost_cap_reached"),
    (56, "briefs take of no weekly allowance", "quota.counted", "{metric}"),
    (57, "keywords are paid when they are added", "cost.tracking", "keywords"),
    (58, "a scan is paid when it is created", "cost.tracking", "scans"),
    (61, "a past-due account cannot read", "guards.reads", "past due"),
    (61, "an account in order is refused as inactive", "guards.healthy", ANY),
    (62, "cost_cap_reached comes before the ceiling", "cost.refused", "crawl"),
    (62, "spent is not what is settled and reserved", "cost.sum", ANY),
    (62, "settled cost falls within a month", "cost.counted", ANY),
    (62, "the month's spend resets at another time", "cost.reset", "as refusals tell"),
    (63, "more is admitted than the allowance", "quota.limit", "{metric}"),
    (63, "calls at once pass the allowance together", "quota.limit", "{metric}, at once"),
    (64, "calls at once pass the slots together", "slots.limit", "at once"),
    (63, "quota_exhausted comes while it would fit", "quota.refused", "keyword_briefs"),
    (63, "a refused request keeps the units of its quota", "quota.counted", "{metric}, at rest"),
    (64, "slot_limit_exceeded comes for keywords that fit", "slots.refused", "keywords"),
    (64, "slot_limit_exceeded comes for a scan that fits", "slots.refused", "scans"),
    (67, "reads are refused at the ceiling", "guards.reads", "at the ceiling"),
    (68, "a read works without a key", "access.key", "no key, read"),
    (68, "a write works without a key", "access.key", "no key, write"),
    (68, "a read works with an unknown key", "access.key", "a wrong key, read"),
    (68, "a write works with an unknown key", "access.key", "a wrong key, write"),
    (71, "a scoped key creates an account-wide endpoint", "access.scoped_endpoints", "the whole account"),
    (71, "a scoped key creates an endpoint of another domain", "access.scoped_endpoints", "another domain"),
    (73, "a preflight is refused", "header.cross_origin", "preflight"),
    (73, "a success does not allow the origin", "header.cross_origin", "success"),
    (73, "an error does not allow the origin", "header.cross_origin", "error"),
    (75, "today's event types are not those two", "resource.event_types", ANY),
    (98, "quota_exhausted is no 402", "quota.meta", "keyword_briefs"),
    (98, "its meta lacks a field", "error.meta", "quota_exhausted"),
    (99, "the meta of cost_cap_reached lacks amount, ceiling or date", "error.meta", "cost_cap_reached"),
    (99, "it tells another ceiling than usage", "cost.meta", ANY),
    (105, "RateLimit-Remaining is not what was counted", "rate.remaining", "key {key}, read"),
    (107, "an id that was sent is replaced", "header.request_id_echo", "success"),
    (108, "the weekly allowance resets on another day", "quota.reset", "{metric}"),
    (110, "a monthly quota resets later than in a month", "quota.reset", "{metric}"),
    (111, "a key is forgotten before 24 h", "idempotency.once", "jobs.create"),
    (111, "a key is remembered beyond 24 h", "idempotency.retention", ANY),
    (114, "Deprecation comes without Sunset", "header.deprecation", ANY),
)
"""Number, way, rule, case: what is not one of a series."""

UNSEEN: Final[tuple[tuple[int, str, str], ...]] = (
    (
        2,
        "another rule holds in sandbox than in production",
        "as many ways as there are rules: each is judged in both, where a sandbox key is used",
    ),
    (
        6,
        "a read-only resource can be changed",
        "its path is assumed (U107), and nothing is written to guess it",
    ),
    (7, "what is unavailable is there", "where it would be is not stated, and additions are allowed (S113)"),
    (
        10,
        "a notice comes with an error",
        "its field is not stated (U82), and an unknown field is no fault (S113)",
    ),
    (69, "a cookie takes the place of a key", "a client keeps no cookies; without a key nothing works (S68)"),
    (
        72,
        "keys are managed over the API",
        "where it would be is not stated, and additions are allowed (S113)",
    ),
    (
        101,
        "research_lookups is no metric",
        "usage lists the metrics of a plan, which need not have this one (U60)",
    ),
    (109, "an add-on gives another number than 50", "a client cannot buy one (S7)"),
    (113, "an addition breaks a client", "what a client does with it, no deployment shows"),
    (
        115,
        "a new type passes endpoints that take all",
        "there is none today; a type of no stated kind is left open",
    ),
    (70, "a job of another domain is started by a dry run", "a dry run tells of nothing that belongs to it"),
    (83, "a body has results", "fields may be added at any time (S113), so one more proves nothing"),
    (86, "a receiver verifies late", "that is the receiver's"),
    (87, "hanging up after 5 s counts as failed", "the network may have ended the connection"),
)
"""Number, way, and why no client can see it."""


def _rates() -> Iterator[Departure]:
    for name, number in CLASSES.items():
        fact = f"S{number}"
        yield Departure(fact, f"more {name} calls are admitted in 60 s", f"rate.{name}", "key {key}, no more")
        yield Departure(
            fact, f"fewer {name} calls are admitted in 60 s", f"rate.{name}", "key {key}, no fewer"
        )
        yield Departure(fact, f"keys share a window of {name} calls", "rate.per_key", name)
        yield Departure("S100", f"a 429 of {name} calls has no Retry-After", "rate.retry_after", name)
        says = f"a {name} call after Retry-After is refused again"
        yield Departure("S100", says, "rate.retry_after_honoured", name)
        yield Departure("S106", f"a {name} call is refused while calls are left", "rate.traffic_only", name)
    for operation, fact in (
        ("domains.list", "S102"),
        ("slots.get", "S102"),
        ("domains.create", "S103"),
        ("webhooks.test", "S103"),
        ("jobs.create", "S104"),
        ("keyword_briefs.create", "S104"),
    ):
        yield Departure(fact, f"{operation} counts in another class", "rate.classes", operation)
    for kind in (
        "success",
        "created",
        "dry run",
        "refused by a check",
        "401",
        "404",
        "422",
        "429",
        "GraphQL",
    ):
        yield Departure("S105", f"a RateLimit header is missing ({kind})", "rate.headers", kind)
        yield Departure("S107", f"X-Request-Id is missing ({kind})", "header.request_id", kind)


def _errors() -> Iterator[Departure]:
    for error in ERRORS:
        yield Departure("S94", f"a field is missing of the error {error}", "error.body", error)
    for error in ("404", "422", "cooldown_active"):
        yield Departure("S95", f"type is another page ({error})", "error.type", error)
        yield Departure("S96", f"request_id is another request's ({error})", "error.request_id", error)
    for code in CHECK_OF:
        yield Departure("S97", f"{code} has another code", "guards.codes", code)


def _spending() -> Iterator[Departure]:
    for at, (name, rule) in enumerate(zip(CHECK_NAMES, GUARDS, strict=False)):
        for later in CHECK_NAMES[at + 1 :]:
            yield Departure(
                "S59", f"{later} refuses where {name} fails too", f"guards.{rule}", f"before {later}"
            )
    yield Departure("S60", "what the plan lacks is granted", "guards.capability", "site_optimization")
    yield Departure("S60", "AI scans are granted without the capability", "guards.capability", "ai_scan")
    for spend in SPENDING_OPERATIONS:
        yield Departure("S61", f"a past-due account is granted {spend}", "guards.health", spend)
    for kind in KINDS:
        yield Departure("S62", f"{kind} is granted at the ceiling", "guards.ceiling", kind)
        yield Departure(
            "S14", f"a job asked for as {kind} is of another kind", "job.kinds", f"{kind} asked for"
        )
        yield Departure("S34", f"POST jobs of kind {kind} shows another", "job.kinds", f"{kind} asked for")
    yield Departure("S63", "briefs are granted beyond the allowance", "guards.quota", "keyword_briefs")
    yield Departure("S64", "keywords are granted beyond the slots", "guards.slots", "keywords")
    yield Departure("S64", "a scan is granted beyond the slots", "guards.slots", "scans")
    for kind, number in COOLED.items():
        yield Departure(f"S{number}", f"{kind} is granted while it cools", "cooldown.enforced", kind)
        at_once = f"{kind}, at once"
        yield Departure(f"S{number}", f"{kind} is granted to several at once", "cooldown.enforced", at_once)
        over = f"{kind}, when it is over"
        yield Departure("S65", f"{kind} is refused when its cooldown is over", "cooldown.refused", over)
        yield Departure("S65", f"the wait stated for {kind} is another", "cooldown.stated", kind)
    yield Departure("S65", "a cooldown covers another domain", DIFFERS, "U46")
    yield Departure("S52", "a second rank run starts beside the first", DIFFERS, "U45")
    yield Departure("S52", "a rank run that runs is joined now, and not another time", "cooldown.join", ANY)
    for kind, number in (("crawl", 53), ("site_optimization", 54), ("ai_scan", 55)):
        yield Departure(f"S{number}", f"a second {kind} is joined", "cooldown.joins_only", kind)
    yield Departure("S52", "a rank run that has ended is joined", "cooldown.joins_only", "rank_run")
    for name in ("jobs.create", "keywords.create", "scans.create", "keyword_briefs.create", "domains.create"):
        yield Departure("S47", f"{name} repeated under one key works twice", "idempotency.once", name)
        yield Departure(
            "S47", f"{name} sent twice at once works twice", "idempotency.once", f"{name}, at once"
        )
        yield Departure("S47", f"{name} repeated gets another reply", "idempotency.replay", name)
        yield Departure("S48", f"another body of {name} under one key succeeds", "idempotency.mismatch", name)
    yield Departure("S28", "a POST ignores the key", "idempotency.once", "webhooks.test")
    yield Departure(
        "S48", "a real call after its dry run replays it", "idempotency.mismatch", "dry, then for real"
    )
    yield Departure("S47", "a key is in progress with no call in flight", "idempotency.in_flight", ANY)
    for noun in SCOPED:
        if noun in SHOWN:
            yield Departure("S70", f"a scoped key reads {noun} of another domain", "access.scope", noun)
        yield Departure(
            "S70", f"a scoped key is listed {noun} of another domain", "access.scope", f"{noun} listed"
        )
    yield Departure(
        "S70", "a scoped key is listed things of another domain over GraphQL", "access.scope", LISTED_OVER
    )
    for made in ("keyword_lists.create", "labels.create", "competitors.create", "scans.create"):
        yield Departure("S70", f"a scoped key does {made} for another domain", "access.scoped_writes", made)
    for kind in KINDS:
        case = f"jobs.create, {kind}"
        yield Departure("S70", f"a scoped key starts {kind} on another domain", "access.scoped_writes", case)


def _dry_runs() -> Iterator[Departure]:
    for spend in SPENDING_OPERATIONS:
        yield Departure("S66", f"a dry run of {spend} consumes or spends", "dry_run.free", spend)
        yield Departure(
            "S66", f"a dry run of {spend} says another thing than the call", "dry_run.verdict", spend
        )
        yield Departure("S29", f"{spend} ignores dry_run", "dry_run.free", spend)
    for kind in KINDS:
        yield Departure(
            "S66", f"a dry run of {kind} starts a job, which turns up later", "dry_run.queues", kind
        )
    for code in CHECK_OF:
        yield Departure("S66", f"a dry run does not tell of {code}", "dry_run.verdict", code)
    for at, name in enumerate(CHECK_NAMES):
        for later in CHECK_NAMES[at + 1 :]:
            says = f"a dry run names {later} where {name} fails too"
            yield Departure("S59", says, "dry_run.order", f"{name} before {later}")


def _webhooks() -> Iterator[Departure]:
    for kind in ("first attempt", "retry", "test"):
        yield Departure("S74", f"the signature does not verify ({kind})", "webhook.signature", kind)
        yield Departure("S78", f"t is not the time of the attempt ({kind})", "webhook.fresh", kind)
        yield Departure("S77", f"the body is no application/json ({kind})", "webhook.headers", kind)
        yield Departure("S80", f"Service-Event-Type is missing ({kind})", "webhook.headers", kind)
        yield Departure("S81", f"Service-Delivery-Attempt is missing ({kind})", "webhook.headers", kind)
    yield Departure("S84", "the signed string has no t", "webhook.signature", "first attempt")
    yield Departure("S84", "a body is signed and sent otherwise", "webhook.signature", "first attempt")
    yield Departure("S85", "the digest is another, or in capitals", "webhook.signature", "first attempt")
    yield Departure("S86", "a retry is signed with the first attempt's time", DIFFERS, "U68")
    yield Departure("S79", "a retry has another event id", "webhook.event", "retries")
    yield Departure("S79", "two endpoints get different ids of one event", "webhook.event", "two endpoints")
    yield Departure("S81", "numbers begin anew", "webhook.attempts", ANY)
    for name in JOB_EVENT_TYPES:
        yield Departure("S82", f"a body of {name} lacks a field", "webhook.body", name)
        yield Departure("S76", f"{name} tells of another outcome", "webhook.outcome", name)
        yield Departure(
            "S19", f"an endpoint that does not list {name} gets it", "webhook.types", f"{name} not listed"
        )
    for kind in KINDS:
        yield Departure("S76", f"a {kind} that is done is told to nobody", "webhook.sent", f"{kind} done")
        yield Departure("S76", f"a {kind} that failed is told to nobody", "webhook.sent", f"{kind} failed")
    case = "job.failed to an endpoint of all types"
    yield Departure("S18", "an endpoint that takes all types gets only some", "webhook.sent", case)
    for how in ("3xx", "4xx", "5xx", "no answer"):
        yield Departure("S87", f"no retry follows a {how}", "webhook.retried", f"{how}, attempt 1")
    for status in ("200", "201", "204"):
        yield Departure("S87", f"a {status} does not acknowledge", "webhook.acknowledged", status)
    yield Departure("S88", "silence is waited for longer than 10 s", "webhook.timeout", "no answer")
    yield Departure("S88", "a 2xx after 10 s acknowledges", "webhook.timeout", "a late 2xx")
    for status in ("301", "302", "303", "307", "308"):
        yield Departure("S89", f"a {status} is followed", "webhook.redirect", status)
    for number, gap in enumerate(("1 min", "5 min", "30 min", "2 h", "6 h"), 1):
        yield Departure("S90", f"the retry after {gap} comes at another time", "webhook.retry_delays", gap)
        says = f"attempt {number + 1} is not made"
        yield Departure("S90", says, "webhook.retried", f"5xx, attempt {number}")
    yield Departure("S90", "a seventh attempt is made", "webhook.six_attempts", ANY)
    yield Departure("S91", "an endpoint is disabled too early or too late", "webhook.disable", ANY)
    yield Departure("S92", "a success does not zero the count", "webhook.reset", ANY)
    yield Departure("S93", "the end of a job is never sent", "webhook.sent", "crawl done")


TOLD: Final = {
    *("window", "tracking_class", "expensive_debits_write", "refused_calls_count", "reset_format"),
    *("retry_after_format", "dry_run_class", "graphql_cost", "idempotency_scope", "fingerprint"),
    *("idempotency_stores", "page_limit_over", "join", "cooldown_scope", "cooldown_from", "cost_gate"),
    *("cost_timing", "spent_counts", "quota_grant", "weekly_exhaustion_code", "dry_run_reply", "narrowing"),
    *("replayed_retry_after", "failed_run_arms", "quota_refund", "dimension_refusal", "patch_checks"),
    *("month", "over_slots", "keyword_folding", "failure_counted", "retry_from", "signature_time"),
    *("re_add", "hold_identity", "scan_counts", "existing_scope", "count_on_enable", "on_disable"),
}
"""The assumptions whose default `compare` tells to be excluded."""

CALIBRATED: Final = frozenset({"limiter_order", "ceiling_stops_tracking", "in_flight_until", "reset_reports"})
"""Those that `calibrate` alone pins."""

OPEN: Final = {
    "idempotency_from": "acceptance and response are one call apart, and a day is known to the minute",
    "cooldown_after_failure": "a run is accepted only once the cooldown before it is over: none counts again",
    "cap": "no text says what is beyond a cap, nor how large a cap is where it is not read",
    "checks_apply": "a refusal excludes one option, and none excludes nothing",
}
"""Why others are not told."""


def _choices() -> Iterator[Departure]:
    """Return the options of each assumption that is a choice, but for its default."""
    for name, about in Assumptions.model_fields.items():
        if about.annotation is bool:
            others = [not about.default]
        elif get_origin(about.annotation) is None or not all(
            isinstance(one, str) for one in get_args(about.annotation)
        ):
            continue
        else:
            others = [option for option in get_args(about.annotation) if option != about.default]
        number = (about.description or "").partition(":")[0].partition(",")[0]
        for option in others:
            says = f"{name}: {str(option).lower() if isinstance(option, bool) else option}"
            if name in TOLD:
                yield Departure(number, says, DIFFERS, number)
            elif name in CALIBRATED:
                yield Departure(number, says, why="`calibrate` pins it; no verdict depends on it")
            else:
                yield Departure(number, says, why=OPEN[name])


BESIDE: Final = frozenset({*CHECK_OF, "invalid_cursor", "unauthorized"} - {"quota_exhausted"})
"""Codes whose status is judged beside their rules."""


def _statuses() -> Iterator[Departure]:
    """Return each status that is assumed, as another one."""
    for name, about in Statuses.model_fields.items():
        number = (about.description or "").partition(":")[0].partition(",")[0]
        says = f"{name.replace('_', ' ')} is not {about.default}"
        if name in ASSUMED:
            yield Departure(number, says, DIFFERS, f"U{ASSUMED[name]}")
        elif name in BESIDE:
            yield Departure(number, says, DIFFERS, number)
        else:
            yield Departure(
                number, says, why="`calibrate` reads it off; its case is not told from others in a reply"
            )


def _places() -> Iterator[Departure]:
    """Return what is told of facts whose path or form is assumed, and of the sandbox's data."""
    yield Departure("S2", "a resource has other fields in sandbox", "resource.fields", "in {environment}")
    yield Departure("S2", "an error has other fields in sandbox", "error.body", "in {environment}")
    yield Departure("S5", "a list, or what is one of its kind, cannot be read", DIFFERS, "U107")
    yield Departure("S112", "an operation leaves /v1", DIFFERS, "U107")


def _forms() -> Iterator[Departure]:
    """Return forms that no text shows, and that are told to differ."""
    for number, says in (
        (7, "the code of a 429 is not rate_limited"),
        (31, "a replay is not marked"),
        (33, "mutations ignore the key"),
        (35, "a limit cannot be changed in a walk"),
        (36, "a cursor expires, or is good for another list"),
        (38, "has_more is not exact"),
        (39, "a job has other states"),
        (42, "a job has no progress"),
        (43, "what has not happened is left out"),
        (44, "a job is found under another kind"),
        (52, "a week begins at another hour"),
        (54, "a set of briefs costs one unit"),
        (60, "an operation needs another capability"),
        (71, "410 ends a delivery"),
        (73, "a disabled endpoint has no disabled_reason"),
        (81, "Deprecation and Sunset on /v1"),
        (83, "an error over GraphQL does not carry the error body as its extensions"),
        (89, "checks are listed in another order, or up to the first failure"),
        (106, "a job or a scan costs several units"),
    ):
        yield Departure(f"U{number}", says, DIFFERS, f"U{number}")
