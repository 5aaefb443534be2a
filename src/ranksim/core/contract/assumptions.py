"""What the specification leaves open, as the fields that a policy sets and the rules read.

A description begins with the numbers (U) of the entries of `data/assumptions.yaml` that the field sets.
"""

from typing import Annotated, Literal

from pydantic import Field

from ranksim.core.clock import DAY
from ranksim.core.contract.quantities import Duration, Frozen

Status = Annotated[int, Field(ge=200, le=599)]


Most = Annotated[int, Field(ge=1)]


class GraphqlLimits(Frozen):
    """How large a GraphQL request may be (U111); fragments count wherever they are spread."""

    characters: Most = Field(30_000, description="characters of the document")
    tokens: Most = Field(2_000, description="tokens of the document")
    depth: Most = Field(15, description="levels of selections, one in another")
    root_fields: Most = Field(20, description="root fields, which are calls")
    aliases: Most = Field(100, description="aliases")
    fields_selected: Most = Field(1_000, description="fields")
    items: Most = Field(1_000, description="items of the pages asked for, which the service makes whole")
    values: Most = Field(20_000, description="values asked for, of the service and of the schema")


class Assumptions(Frozen):
    """One field per configurable assumption; the first option of each is the default."""

    # Rate limits
    window: Literal["first_hit", "clock", "sliding_log", "sliding_counter", "gcra"] = Field(
        "first_hit", description="U1: how the 60 s window runs"
    )
    tracking_class: Literal["write", "expensive"] = Field(
        "write", description="U2: rate class of POST keywords and POST scans"
    )
    expensive_debits_write: bool = Field(
        False, description="U3: an expensive request is counted as a write too"
    )
    refused_calls_count: bool = Field(
        False, description="U4: a call answered 429 extends or pre-fills the window"
    )
    reset_format: Literal["delta", "epoch"] = Field("delta", description="U5: RateLimit-Reset")
    retry_after_format: Literal["seconds", "http_date"] = Field("seconds", description="U6: Retry-After")
    limiter_order: Literal["auth_first", "limiter_first"] = Field(
        "auth_first", description="U9: which of 401 and 429 is decided first"
    )
    dry_run_class: Literal["same", "read", "free"] = Field(
        "same", description="U10: rate class a dry run is counted in"
    )
    graphql_cost: Literal["request", "field", "separate"] = Field(
        "request", description="U11: what a GraphQL request charges: one unit, one per field, own buckets"
    )
    graphql_limits: GraphqlLimits = Field(
        GraphqlLimits(), description="U111: how large a GraphQL request may be"
    )
    reset_reports: Literal["algorithm", "full"] = Field(
        "algorithm", description="U88: what RateLimit-Reset of an admitted reply points at"
    )

    # Idempotency
    idempotency_scope: Literal["api_key", "account"] = Field(
        "api_key", description="U27: whose Idempotency-Keys share one name space"
    )
    fingerprint: Literal["canonical", "raw"] = Field(
        "canonical", description="U28: what makes two bodies the same"
    )
    idempotency_stores: Literal["all", "success"] = Field(
        "all", description="U29: which replies are kept for replay"
    )
    idempotency_from: Literal["acceptance", "response"] = Field(
        "acceptance", description="U30: when the 24 hours begin"
    )
    replay_header: str | None = Field(
        "Idempotent-Replayed", description="U31: response header that marks a replay; null for none"
    )
    idempotency_key_max: Annotated[int, Field(ge=1)] = Field(
        255, description="U32: longest Idempotency-Key, characters"
    )
    in_flight_until: Literal["written", "never"] = Field(
        "written", description="U92: a key is in flight until the response is written, or not at all"
    )
    replayed_retry_after: Literal["as_given", "refreshed"] = Field(
        "as_given", description="U93: Retry-After of a replayed refusal"
    )
    idempotency_not_stored: tuple[Status, ...] = Field(
        (401, 403, 404, 405, 413, 415, 422, 429), description="U93: early refusals that are never replayed"
    )

    # Paging
    page_limit_over: Literal["clamp", "refuse"] = Field("clamp", description="U34: a limit above the maximum")

    # Jobs and cooldowns
    join: Literal["after_health", "before_checks", "after_checks", "never"] = Field(
        "after_health", description="U45: where a rank run in progress is joined"
    )
    cooldown_scope: Literal["domain", "account"] = Field(
        "domain", description="U46: what one cooldown covers, for each operation"
    )
    cooldown_from: Literal["acceptance", "finish"] = Field(
        "acceptance", description="U46: where a cooldown begins"
    )
    failed_run_arms: bool = Field(False, description="U46: a run that failed still arms the cooldown")
    cooldown_after_failure: Literal["previous", "clear"] = Field(
        "previous", description="U91: after a failure the run before counts again, or nothing does"
    )
    cap: Literal["truncate", "refuse"] = Field("truncate", description="U47: work beyond page or call cap")

    # Spending
    cost_gate: Literal["at_ceiling", "would_exceed"] = Field(
        "at_ceiling", description="U48: refuse once the ceiling is reached, or when a request would pass it"
    )
    cost_timing: Literal["reserve", "acceptance", "completion"] = Field(
        "reserve", description="U49: when cost is booked"
    )
    spent_counts: Literal["settled_and_reserved", "settled"] = Field(
        "settled_and_reserved", description="U96: what counts as spent"
    )
    ceiling_stops_tracking: bool = Field(
        True, description="U90: the cost ceiling stops POST keywords and scans too"
    )
    quota_grant: Literal["all_or_nothing", "partial"] = Field(
        "all_or_nothing", description="U50: a request larger than what is left"
    )
    quota_refund: Literal["never", "on_failure"] = Field("never", description="U50: quota of failed work")
    month: Literal["anchor", "calendar"] = Field("anchor", description="U51: where a billing month begins")
    week_offset: Duration = Field(
        0, description="U52: weekly reset relative to Monday 00:00 UTC; may be negative"
    )
    weekly_exhaustion_code: Literal["quota_exhausted", "allowance_exhausted"] = Field(
        "quota_exhausted", description="U53: code when a weekly allowance is used up"
    )
    dry_run_reply: Literal["report", "live_error"] = Field(
        "report", description="U56, U89: a dry run that would be refused"
    )
    inactive_statuses: tuple[str, ...] = Field(
        ("past_due", "unpaid", "canceled"), description="U57: subscription statuses that cannot spend"
    )
    checks_apply: Literal["all", "table"] = Field(
        "all", description="U58: every check for every operation, or only those of its row in the table"
    )
    dimension_refusal: Literal["entitlement_required", "slot_limit_exceeded"] = Field(
        "entitlement_required", description="U59: code when a scan passes the plan's dimensions"
    )

    # Slots
    narrowing: Literal["held", "freed"] = Field(
        "held", description="U62: capacity of a paused scan or a dropped device or geography"
    )
    re_add: Literal["consumes_hold", "counts_again"] = Field(
        "consumes_hold", description="U63: adding again what is held"
    )
    over_slots: Literal["refuse_whole", "partial"] = Field(
        "refuse_whole", description="U64: a request with more keywords than there is room for"
    )
    keyword_folding: Literal["casefold", "exact"] = Field(
        "casefold", description="U65, U103: when two keywords are the same, after trimming"
    )
    hold_identity: Literal["tuple", "scan_tuple"] = Field(
        "tuple", description="U94: whether a hold belongs to its scan"
    )
    scan_counts: Literal["keyword", "list_keyword"] = Field(
        "keyword", description="U94: one word in two lists of one scan counts once or twice"
    )
    existing_scope: Literal["list", "domain"] = Field(
        "list", description="U94: where a keyword must stand to be there already (U64)"
    )
    patch_checks: Literal["dimensions_slots", "all", "none"] = Field(
        "dimensions_slots", description="U95: checks of a PATCH that widens a scan"
    )

    # Webhooks
    failure_counted: Literal["attempt", "event"] = Field(
        "attempt", description="U66: what counts to the failures that disable an endpoint"
    )
    retry_from: Literal["failure", "first_attempt"] = Field(
        "failure", description="U67: where a retry delay begins"
    )
    retry_jitter_percent: Annotated[int, Field(ge=0, le=50)] = Field(
        0, description="U67: jitter of retry delays, plus or minus"
    )
    signature_time: Literal["attempt", "first"] = Field("attempt", description="U68: t of a retry")
    on_disable: Literal["cancel", "pause"] = Field(
        "cancel", description="U69: pending retries of a disabled endpoint"
    )
    count_on_enable: Literal["zero", "kept"] = Field(
        "zero", description="U70: failure count of an endpoint enabled again"
    )
    deliveries_retention: Annotated[Duration, Field(gt=0)] = Field(
        7 * DAY, description="U75: how far back GET webhook-deliveries reaches"
    )


class Statuses(Frozen):
    """HTTP statuses the specification does not show, by code or case."""

    unauthorized: Status = Field(401, description="U12: missing, unknown or wrong-environment key")
    forbidden: Status = Field(403, description="U14, U15, U97: a domain-scoped key beyond its domain")
    not_found: Status = Field(404, description="U24: no such resource or path")
    out_of_scope: Status = Field(404, description="U13: the id of another domain, to a domain-scoped key")
    invalid_cursor: Status = Field(400, description="U16: cursor of another query, or malformed (U36)")
    idempotency_key_invalid: Status = Field(400, description="U32: empty or too long an Idempotency-Key")
    idempotency_mismatch: Status = Field(422, description="U17: Idempotency-Key with another body")
    idempotency_in_progress: Status = Field(409, description="U18: the first request is still running")
    entitlement_required: Status = Field(403, description="U19: the plan lacks the capability")
    subscription_inactive: Status = Field(402, description="U20: the subscription cannot spend")
    cost_cap_reached: Status = Field(402, description="U21: monthly cost ceiling reached")
    slot_limit_exceeded: Status = Field(402, description="U22: too many slots")
    cooldown_active: Status = Field(409, description="U23: re-run too soon")
    allowance_exhausted: Status = Field(402, description="U53: weekly allowance, when it has its own code")
    endpoint_disabled: Status = Field(409, description="U98: testing a disabled endpoint")
    invalid_request: Status = Field(400, description="U24: malformed JSON")
    validation_failed: Status = Field(422, description="U24: well-formed but not valid")
    method_not_allowed: Status = Field(405, description="U24: no such method on the path")
    unsupported_media_type: Status = Field(415, description="U24: a body that is not JSON")
    payload_too_large: Status = Field(413, description="U86: a body beyond the size limit")
    internal_error: Status = Field(500, description="U24: a fault of the service")
    created: Status = Field(201, description="U104: a resource was created")
    job_accepted: Status = Field(202, description="U40, U104: a job was queued")
    job_joined: Status = Field(200, description="U40, U104: the job in progress was returned")
    dry_run: Status = Field(200, description="U56, U104: a dry run was answered")
    deleted: Status = Field(204, description="U84, U104: a resource was deleted")
    test_accepted: Status = Field(202, description="U72: a test event was queued")
    preflight: Status = Field(204, description="U80: CORS preflight")
