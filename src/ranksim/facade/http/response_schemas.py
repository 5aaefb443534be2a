"""What crosses the wire, operation by operation: the body, the filters and the shapes of the answers.

Written once for every surface: the OpenAPI document is built from it, and the GraphQL types are tested
against it. A shape is a JSON Schema (draft 2020-12) that names others as `#/components/schemas/NAME`. What
the specification does not show carries `x-assumption`.
"""

from dataclasses import dataclass
from typing import Any

from ranksim.contract.facts import JOB_EVENT_TYPES, JobKind
from ranksim.rules.webhooks import TEST_EVENT
from ranksim.service import bodies, deliveries
from ranksim.service.spend_decision import CHECK_NAMES

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
BOOLEAN: Schema = {"type": "boolean"}
NUMBERS: Schema = {"type": "object", "description": "The numbers behind a refusal."}
TIME: Schema = {"type": "string", "format": "date-time", "description": "ISO 8601, UTC."}
USD: Schema = {"type": "string", "description": "Dollars, exact.", "pattern": r"^-?[0-9]+\.[0-9]{2,6}$"}
PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}
KIND: Schema = {"type": "string", "enum": [kind.value for kind in JobKind]}
STATE: Schema = {"type": "string", "enum": ["queued", "running", "done", "failed"], "x-assumption": "U39"}


def ref(name: str) -> Schema:
    """Refer to a shape by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def some(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def maybe(schema: Schema) -> Schema:
    """Return the schema of something or null."""
    if "$ref" in schema or "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


def record(text: str, assumption: str = "", **properties: Schema) -> Schema:
    """Describe an object whose properties are all there, null or not; clients ignore others (S113)."""
    schema: Schema = {
        "type": "object",
        "description": text,
        "required": list(properties),
        "properties": properties,
    }
    return schema | {"x-assumption": assumption} if assumption else schema


SHAPES: dict[str, Schema] = {
    "Domain": record(
        "A tracked site.",
        id=STRING,
        host=STRING,
        path=maybe(STRING),
        label=STRING,
        created_at=TIME,
        last_full_crawl_at=maybe(TIME) | {"x-assumption": "U43"},
    ),
    "KeywordList": record(
        "A list of keywords of one domain.",
        "U108",
        id=STRING,
        domain_id=STRING,
        name=STRING,
        keyword_count=COUNT,
        created_at=TIME,
    ),
    "Keyword": record(
        "A keyword of one list.",
        "U85",
        id=STRING,
        keyword=STRING,
        domain_id=STRING,
        list_id=STRING,
        label_ids=some(STRING),
        created_at=TIME,
    ),
    "KeywordsAdded": record(
        "What adding keywords did.",
        "U109",
        list_id=STRING,
        created=some(ref("Keyword")),
        already_present=COUNT,
        slots_added=INTEGER,
    ),
    "Label": record(
        "A label that keywords can carry.",
        "U108",
        id=STRING,
        domain_id=STRING,
        name=STRING,
        created_at=TIME,
    ),
    "Competitor": record(
        "A competitor of a domain.", "U108", id=STRING, domain_id=STRING, host=STRING, created_at=TIME
    ),
    "EngineDevice": record("A search engine on a kind of device.", "U85", engine=STRING, device=STRING),
    "Place": record(
        "A place that is searched from.",
        "U85",
        country=STRING,
        location_id=maybe(STRING),
        language=maybe(STRING),
    ),
    "Scan": record(
        "A standing order to track lists × engines and devices × geographies.",
        "U85",
        id=STRING,
        domain_id=STRING,
        name=maybe(STRING),
        list_ids=some(STRING),
        engine_devices=some(ref("EngineDevice")),
        geographies=some(ref("Place")),
        active=BOOLEAN,
        created_at=TIME,
    ),
    "Slots": record(
        "Slot usage; `used` includes what is held.",
        "U61",
        active=COUNT,
        held=COUNT,
        used=COUNT,
        limit=INTEGER,
        available=COUNT,
        resets_at=TIME,
    ),
    "Job": record(
        "A piece of paid work.",
        id=STRING,
        kind=KIND,
        status=STATE,
        domain_id=STRING,
        progress=PERCENT | {"x-assumption": "U42"},
        error_detail=maybe(STRING),
        created_at=TIME,
        finished_at=maybe(TIME) | {"x-assumption": "U43"},
    ),
    "KeywordBrief": record(
        "What the best pages for a keyword have in common.",
        "U109",
        id=STRING,
        domain_id=STRING,
        keyword=STRING,
        summary=STRING,
        created_at=TIME,
    ),
    "KeywordBriefsMade": record(
        "The briefs of one request.", "U109", id=STRING, briefs=some(ref("KeywordBrief"))
    ),
    "Position": record(
        "Where a site was found for a keyword in a place; position null: not found in depth.",
        "U85",
        keyword_id=STRING,
        domain_id=STRING,
        date={"type": "string", "format": "date"},
        checked_at=TIME,
        engine=STRING,
        device=STRING,
        country=STRING,
        location_id=maybe(STRING),
        language=maybe(STRING),
        position=maybe({"type": "integer", "minimum": 1}),
        url=maybe(STRING),
        serp_features=some(STRING),
    ),
    "Account": record(
        "The account of the key.",
        "U109",
        id=STRING,
        name=STRING,
        plan=STRING,
        status=STRING,
        billing_anchor=TIME,
        period_start=TIME,
        period_end=TIME,
    ),
    "UsageMetric": record(
        "One metered allowance.",
        "U109",
        metric=STRING,
        used=COUNT,
        limit=INTEGER,
        remaining=COUNT,
        period={"type": "string", "enum": ["week", "month"]},
        resets_at=TIME,
    ),
    "CostUsage": record(
        "The month's provider spend and its ceiling.",
        "U96",
        settled=USD,
        reserved=USD,
        spent=USD,
        ceiling=USD,
        currency=STRING,
        resets_at=TIME,
    ),
    "Usage": record(
        "Consumption against every allowance.",
        "U109",
        metrics=some(ref("UsageMetric")),
        cost=ref("CostUsage"),
    ),
    "Dimensions": record("How large one scan may be.", "U109", engine_devices=COUNT, geographies=COUNT),
    "Entitlements": record(
        "What the plan allows.",
        "U109",
        capabilities=some(STRING),
        dimensions=ref("Dimensions"),
        slot_limit=COUNT,
        page_cap=COUNT,
        call_cap=COUNT,
        cooldown_seconds={"type": "object", "additionalProperties": COUNT},
    ),
    "CrawledPage": record(
        "A page of a domain's latest crawl.",
        "U107",
        id=STRING,
        domain_id=STRING,
        url=STRING,
        status_code=INTEGER,
        title=maybe(STRING),
        word_count=COUNT,
        depth=COUNT,
        indexable=BOOLEAN,
        crawled_at=TIME,
    ),
    "Analysis": record(
        "A finished site-optimization analysis.",
        "U107",
        id=STRING,
        domain_id=STRING,
        score=PERCENT,
        finding_count=COUNT,
        created_at=TIME,
    ),
    "Finding": record(
        "A finding of an analysis.",
        "U107",
        id=STRING,
        analysis_id=STRING,
        severity=STRING,
        category=STRING,
        title=STRING,
        url=STRING,
    ),
    "AssistantScore": record("The score at one AI assistant.", "U107", assistant=STRING, score=PERCENT),
    "AiVisibility": record(
        "The scores of a finished AI-visibility scan.",
        "U107",
        id=STRING,
        domain_id=STRING,
        score=PERCENT,
        assistants=some(ref("AssistantScore")),
        created_at=TIME,
    ),
    "Industry": record(
        "An industry that AI-visibility scans of a domain ask about.",
        "U107",
        id=STRING,
        domain_id=STRING,
        name=STRING,
        active=BOOLEAN,
    ),
    "Backlinks": record(
        "A summary of the links to a domain.",
        "U107",
        domain_id=STRING,
        backlinks=COUNT,
        referring_domains=COUNT,
        followed=COUNT,
        authority=PERCENT,
    ),
    "Integration": record(
        "The status of an integration of a domain.",
        "U107",
        id=STRING,
        domain_id=STRING,
        kind=STRING,
        status=STRING,
    ),
    "Webhook": record(
        "A webhook endpoint; empty event_types take every type, those added later included.",
        "U73",
        id=STRING,
        url=STRING,
        event_types=some(STRING),
        domain_id=maybe(STRING),
        enabled=BOOLEAN,
        disabled_reason=maybe(STRING),
        created_at=TIME,
    ),
    "TestEvent": record(
        "A test event that was queued.",
        "U109",
        event_id=STRING,
        type=STRING,
        endpoint_id=STRING,
        created_at=TIME,
    ),
    "DeliveryAttempt": record(
        "One attempt to deliver an event.",
        "U75",
        id=STRING,
        endpoint_id=STRING,
        event_id=STRING,
        event_type=STRING,
        attempt={"type": "integer", "minimum": 1},
        status_code=maybe(INTEGER),
        error=maybe(STRING),
        duration_ms=COUNT,
        next_attempt_at=maybe(TIME),
        created_at=TIME,
    ),
    "EventType": record("A type of webhook event.", "U78", type=STRING, description=STRING),
    "DryRunRefusal": record(
        "What the real call would be refused with.",
        "U89",
        code=STRING,
        status=INTEGER,
        detail=STRING,
        meta=NUMBERS,
    ),
    "DryRunCheck": record(
        "The outcome of one of the six checks.",
        "U89",
        check={"type": "string", "enum": list(CHECK_NAMES)},
        ok=BOOLEAN,
        code=maybe(STRING),
        meta=maybe(NUMBERS),
    ),
    "DryRun": record(
        "What a spending request would get; nothing was spent.",
        "U89",
        dry_run={"type": "boolean", "const": True},
        allowed=BOOLEAN,
        would_join=maybe(STRING),
        refusal=maybe(ref("DryRunRefusal")),
        checks=some(ref("DryRunCheck")) | {"minItems": 6, "maxItems": 6},
    ),
    "Notice": record("A fact about the data, not an error.", "U82", code=STRING, message=STRING),
    "Problem": record(
        "Why a request was refused.",
        type=STRING | {"format": "uri"},
        title=STRING,
        status=INTEGER,
        code=STRING,
        detail=STRING,
        remedy=STRING,
        meta=NUMBERS,
        request_id=STRING | {"description": "Equals the response's X-Request-Id."},
        documentation_url=STRING | {"format": "uri"},
    ),
    "EventJob": record(
        "The job that an event is about.",
        id=STRING,
        kind=KIND,
        status=STATE,
        domain_id=STRING,
        error_detail=maybe(STRING),
        finished_at=TIME,
    ),
    "JobEventData": record("What a job event carries.", job=ref("EventJob")),
    "JobEvent": record(
        "The body of a webhook delivery about a job.",
        id=STRING,
        type=STRING | {"enum": list(JOB_EVENT_TYPES)},
        created_at=TIME,
        data=ref("JobEventData"),
    ),
    "TestEventData": record("What a test event carries.", "U72", test={"type": "boolean", "const": True}),
    "TestDelivery": record(
        "The body of a test delivery.",
        "U72",
        id=STRING,
        type=STRING | {"const": TEST_EVENT},
        created_at=TIME,
        data=ref("TestEventData"),
    ),
}
SHAPES["WebhookCreated"] = record(
    "A new webhook endpoint with its signing secret, which is shown this once.",
    "U73",
    **SHAPES["Webhook"]["properties"],
    secret=STRING,
)

DELIVERED = dict.fromkeys(JOB_EVENT_TYPES, "JobEvent") | {TEST_EVENT: "TestDelivery"}
"""The shape of the body that is sent for each type of event."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What one operation takes and gives.

    `answers` are pairs of a status (200, or a field of `Statuses`) and the shape under `data`, "" for no
    body. `paged` makes the answer a collection, `notices` one that may carry a notice. `filters` are the
    query parameters beside limit and cursor. `refusals` are the codes that do not follow from the rest.
    """

    answers: tuple[tuple[int | str, str], ...]
    body: type[bodies.RequestBody] | None = None
    paged: bool = False
    notices: bool = False
    filters: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def page(shape: str, *filters: str, notices: bool = False, refusals: tuple[str, ...] = ()) -> Wire:
    """Answer with a page of a collection."""
    return Wire(((200, shape),), paged=True, notices=notices, filters=filters, refusals=refusals)


def one(
    shape: str,
    status: int | str = 200,
    body: type[bodies.RequestBody] | None = None,
    refusals: tuple[str, ...] = (),
) -> Wire:
    """Answer with one resource."""
    return Wire(((status, shape),), body, refusals=refusals)


FORBIDDEN, NOT_FOUND = ("forbidden",), ("not_found",)
CREATED, DELETED, DRY_RUN = "created", Wire((("deleted", ""),)), ("dry_run", "DryRun")

WIRES: dict[str, Wire] = {
    "domains.list": page("Domain"),
    "domains.create": one("Domain", CREATED, bodies.DomainBody, FORBIDDEN),
    "domains.get": one("Domain"),
    "domains.update": one("Domain", 200, bodies.DomainPatch),
    "domains.delete": DELETED,
    "keyword_lists.list": page("KeywordList", "domain_id"),
    "keyword_lists.create": one("KeywordList", CREATED, bodies.NamedBody, NOT_FOUND),
    "keyword_lists.get": one("KeywordList"),
    "keyword_lists.update": one("KeywordList", 200, bodies.NamedPatch),
    "keyword_lists.delete": DELETED,
    "keywords.list": page("Keyword", "domain_id", "list_id", "label_id", "keyword"),
    "keywords.create": Wire(((CREATED, "KeywordsAdded"), DRY_RUN), bodies.KeywordsBody, refusals=NOT_FOUND),
    "keywords.get": one("Keyword"),
    "keywords.update": one("Keyword", 200, bodies.KeywordPatch),
    "keywords.delete": DELETED,
    "labels.list": page("Label", "domain_id"),
    "labels.create": one("Label", CREATED, bodies.NamedBody, NOT_FOUND),
    "labels.get": one("Label"),
    "labels.update": one("Label", 200, bodies.NamedPatch),
    "labels.delete": DELETED,
    "competitors.list": page("Competitor", "domain_id"),
    "competitors.create": one("Competitor", CREATED, bodies.CompetitorBody, NOT_FOUND),
    "competitors.get": one("Competitor"),
    "competitors.update": one("Competitor", 200, bodies.CompetitorPatch),
    "competitors.delete": DELETED,
    "scans.list": page("Scan", "domain_id", "active"),
    "scans.create": Wire(((CREATED, "Scan"), DRY_RUN), bodies.ScanBody, refusals=NOT_FOUND),
    "scans.get": one("Scan"),
    "scans.update": one("Scan", 200, bodies.ScanPatch),
    "scans.delete": DELETED,
    "slots.get": one("Slots", refusals=FORBIDDEN),
    "jobs.list": page("Job", "domain_id", "kind", "status"),
    "jobs.create": Wire(
        (("job_accepted", "Job"), ("job_joined", "Job"), DRY_RUN), bodies.JobBody, refusals=NOT_FOUND
    ),
    "jobs.get": one("Job"),
    "keyword_briefs.list": page("KeywordBrief", "domain_id"),
    "keyword_briefs.create": Wire(
        ((CREATED, "KeywordBriefsMade"), DRY_RUN), bodies.BriefsBody, refusals=NOT_FOUND
    ),
    "positions.list": page("Position", "domain_id", "keyword_id", "date", notices=True),
    "positions.history": page("Position", "domain_id", "keyword_id", "date", notices=True),
    "account.get": one("Account", refusals=FORBIDDEN),
    "account.usage": one("Usage", refusals=FORBIDDEN),
    "account.entitlements": one("Entitlements", refusals=FORBIDDEN),
    "webhooks.list": page("Webhook", "domain_id"),
    "webhooks.create": one("WebhookCreated", CREATED, deliveries.EndpointBody, (*FORBIDDEN, *NOT_FOUND)),
    "webhooks.get": one("Webhook"),
    "webhooks.update": one("Webhook", 200, deliveries.EndpointPatch, FORBIDDEN),
    "webhooks.delete": DELETED,
    "webhooks.test": one("TestEvent", "test_accepted", refusals=("endpoint_disabled",)),
    "webhook_deliveries.list": page("DeliveryAttempt", "endpoint_id", "event_id"),
    "webhook_events.list": Wire(((200, "EventType"),), paged=True),
    "crawled_pages.list": page("CrawledPage", "domain_id", notices=True),
    "analyses.list": page("Analysis", "domain_id", notices=True),
    "analyses.findings": page("Finding"),
    "ai_visibility.list": page("AiVisibility", "domain_id", notices=True),
    "ai_visibility.industries": page("Industry", "domain_id", notices=True),
    "backlinks.list": page("Backlinks", "domain_id"),
    "integrations.list": page("Integration", "domain_id"),
}
"""Operation name to what it takes and gives."""


def answer_schema(wire: Wire, shape: str) -> Schema:
    """Return the whole body of an answer: one resource under `data` (S8) or a page (S9, S10)."""
    if not wire.paged:
        return {"type": "object", "required": ["data"], "properties": {"data": ref(shape)}}
    properties: Schema = {"data": some(ref(shape)), "has_more": BOOLEAN, "next_cursor": maybe(STRING)}
    required = list(properties)
    if wire.notices:
        properties["notice"] = ref("Notice")
    return {"type": "object", "required": required, "properties": properties}
