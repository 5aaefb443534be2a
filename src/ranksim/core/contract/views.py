"""What the API shows of each resource, of errors and of webhook events, described once.

The service builds these views, mypy holds it to them, the OpenAPI document is derived from them and
conformance checks replies against them. A view's name without `View` names its schema there; its docstring is
the description, and the assumptions that it ends in become `x-assumption`. Every field is always present,
null or not; clients ignore others (S113).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from ranksim.core.contract.facts import CHECK_NAMES, JOB_EVENT_TYPES, JobKind

TEST_EVENT = "webhook.test"
"""Type of the event that a test sends; nobody subscribes to it (U72)."""

NOT_SHOWN = "the specification does not show it"
"""Marks a field of a resource whose other fields the specification shows."""


class JsonSchema:
    """What JSON Schema says of a value beside its type, as `minimum=0`; `assumption` is what it rests on."""

    def __init__(self, assumption: str = "", **members: Any) -> None:
        self.members = members | ({"x-assumption": assumption} if assumption else {})


Count = Annotated[int, JsonSchema(minimum=0)]
Ordinal = Annotated[int, JsonSchema(minimum=1)]
Percent = Annotated[int, JsonSchema(minimum=0, maximum=100)]
Time = Annotated[str, JsonSchema(format="date-time", description="ISO 8601, UTC.")]
Usd = Annotated[str, JsonSchema(description="Dollars, exact.", pattern=r"^-?[0-9]+\.[0-9]{2,6}$")]
Uri = Annotated[str, JsonSchema(format="uri")]
Kind = Annotated[str, JsonSchema(enum=[kind.value for kind in JobKind])]
JobState = Annotated[str, JsonSchema("U39", enum=["queued", "running", "done", "failed"])]
Meta = Annotated[Mapping[str, object], JsonSchema(description="The numbers behind a refusal.")]


# What is tracked


class DomainView(TypedDict):
    """A tracked site (S12)."""

    id: str
    host: str
    path: str | None
    label: str
    created_at: Time
    last_full_crawl_at: Annotated[Time | None, JsonSchema("U43")]


class KeywordListView(TypedDict):
    """A list of keywords of one domain (U108)."""

    id: str
    domain_id: str
    name: str
    keyword_count: Count
    created_at: Time


class KeywordView(TypedDict):
    """A keyword of one list (U85)."""

    id: str
    keyword: str
    domain_id: str
    list_id: str
    label_ids: list[str]
    created_at: Time


class KeywordsAddedView(TypedDict):
    """What adding keywords did (U109)."""

    list_id: str
    created: list[KeywordView]
    already_present: Count
    slots_added: int


class LabelView(TypedDict):
    """A label that keywords can carry (U108)."""

    id: str
    domain_id: str
    name: str
    created_at: Time


class CompetitorView(TypedDict):
    """A competitor of a domain (U108)."""

    id: str
    domain_id: str
    host: str
    created_at: Time


class EngineDeviceView(TypedDict):
    """A search engine on a kind of device (U85)."""

    engine: str
    device: str


class PlaceView(TypedDict):
    """A place that is searched from (U85)."""

    country: str
    location_id: str | None
    language: str | None


class ScanView(TypedDict):
    """A standing order to track lists × engines and devices × geographies (U85)."""

    id: str
    domain_id: str
    name: str | None
    list_ids: list[str]
    engine_devices: list[EngineDeviceView]
    geographies: list[PlaceView]
    active: bool
    created_at: Time


class SlotsView(TypedDict):
    """Slot usage; `used` includes what is held (U61)."""

    active: Count
    held: Count
    used: Count
    limit: int
    available: Count
    resets_at: Time


# Work and its results


class JobView(TypedDict):
    """A piece of paid work (S13)."""

    id: str
    kind: Kind
    status: JobState
    domain_id: str
    progress: Annotated[Percent, JsonSchema("U42"), NOT_SHOWN]
    error_detail: str | None
    created_at: Annotated[Time, NOT_SHOWN]
    finished_at: Annotated[Time | None, JsonSchema("U43")]


class KeywordBriefView(TypedDict):
    """What the best pages for a keyword have in common (U109)."""

    id: str
    domain_id: str
    keyword: str
    summary: str
    created_at: Time


class KeywordBriefsMadeView(TypedDict):
    """The briefs of one request (U109)."""

    id: str
    briefs: list[KeywordBriefView]


class RankPositionView(TypedDict):
    """Where a site was found for a keyword in a place; position null: not found in depth (U85)."""

    keyword_id: str
    domain_id: str
    date: Annotated[str, JsonSchema(format="date")]
    checked_at: Time
    engine: str
    device: str
    country: str
    location_id: str | None
    language: str | None
    position: Ordinal | None
    url: str | None
    serp_features: list[str]


class CrawledPageView(TypedDict):
    """A page of a domain's latest crawl (U107)."""

    id: str
    domain_id: str
    url: str
    status_code: int
    title: str | None
    word_count: Count
    depth: Count
    indexable: bool
    crawled_at: Time


class AnalysisView(TypedDict):
    """A finished site-optimization analysis (U107)."""

    id: str
    domain_id: str
    score: Percent
    finding_count: Count
    created_at: Time


class FindingView(TypedDict):
    """A finding of an analysis (U107)."""

    id: str
    analysis_id: str
    severity: str
    category: str
    title: str
    url: str


class AssistantScoreView(TypedDict):
    """The score at one AI assistant (U107)."""

    assistant: str
    score: Percent


class AiVisibilityView(TypedDict):
    """The scores of a finished AI-visibility scan (U107)."""

    id: str
    domain_id: str
    score: Percent
    assistants: list[AssistantScoreView]
    created_at: Time


class IndustryView(TypedDict):
    """An industry that AI-visibility scans of a domain ask about (U107)."""

    id: str
    domain_id: str
    name: str
    active: bool


class BacklinksView(TypedDict):
    """A summary of the links to a domain (U107)."""

    domain_id: str
    backlinks: Count
    referring_domains: Count
    followed: Count
    authority: Percent


class IntegrationView(TypedDict):
    """The status of an integration of a domain (U107)."""

    id: str
    domain_id: str
    kind: str
    status: str


class NoticeView(TypedDict):
    """A fact about the data, not an error (U82)."""

    code: str
    message: str


# The account


class AccountView(TypedDict):
    """The account of the key (U109)."""

    id: str
    name: str
    plan: str
    status: str
    billing_anchor: Time
    period_start: Time
    period_end: Time


class UsageMetricView(TypedDict):
    """One metered allowance (U109)."""

    metric: str
    used: Count
    limit: int
    remaining: Count
    period: Literal["week", "month"]
    resets_at: Time


class CostUsageView(TypedDict):
    """The month's provider spend and its ceiling (U96)."""

    settled: Usd
    reserved: Usd
    spent: Usd
    ceiling: Usd
    currency: str
    resets_at: Time


class UsageView(TypedDict):
    """Consumption against every allowance (U109)."""

    metrics: list[UsageMetricView]
    cost: CostUsageView


class DimensionsView(TypedDict):
    """How large one scan may be (U109)."""

    engine_devices: Count
    geographies: Count


class EntitlementsView(TypedDict):
    """What the plan allows (U109)."""

    capabilities: list[str]
    dimensions: DimensionsView
    slot_limit: Count
    page_cap: Count
    call_cap: Count
    cooldown_seconds: dict[str, Count]


# Refusals


class DryRunRefusalView(TypedDict):
    """What the real call would be refused with (U89)."""

    code: str
    status: int
    detail: str
    meta: Meta


class DryRunCheckView(TypedDict):
    """The outcome of one of the six checks (U89)."""

    check: Annotated[str, JsonSchema(enum=list(CHECK_NAMES))]
    ok: bool
    code: str | None
    meta: Meta | None


class DryRunView(TypedDict):
    """What a spending request would get; nothing was spent (U89)."""

    dry_run: Literal[True]
    allowed: bool
    would_join: str | None
    refusal: DryRunRefusalView | None
    checks: Annotated[list[DryRunCheckView], JsonSchema(minItems=6, maxItems=6)]


class ProblemView(TypedDict):
    """Why a request was refused (S94)."""

    type: Uri
    title: str
    status: int
    code: str
    detail: str
    remedy: str
    meta: Meta
    request_id: Annotated[str, JsonSchema(description="Equals the response's X-Request-Id.")]
    documentation_url: Uri


class QuotaMeta(TypedDict):
    """The meta of quota_exhausted, the only one whose names are stated (S98, U26)."""

    metric: str
    used: Count
    limit: int
    resets_at: Time


# Webhooks


class WebhookView(TypedDict):
    """A webhook endpoint; empty event_types take every type, those added later included (U73)."""

    id: str
    url: str
    event_types: list[str]
    domain_id: str | None
    enabled: bool
    disabled_reason: str | None
    created_at: Time


class WebhookCreatedView(WebhookView):
    """A new webhook endpoint with its signing secret, which is shown this once (U73)."""

    secret: str


class TestEventView(TypedDict):
    """A test event that was queued (U109)."""

    event_id: str
    type: str
    endpoint_id: str
    created_at: Time


class DeliveryAttemptView(TypedDict):
    """One attempt to deliver an event (U75)."""

    id: str
    endpoint_id: str
    event_id: str
    event_type: str
    attempt: Ordinal
    status_code: int | None
    error: str | None
    duration_ms: Count
    next_attempt_at: Time | None
    created_at: Time


class EventTypeView(TypedDict):
    """A type of webhook event (U78)."""

    type: str
    description: str


class EventJobView(TypedDict):
    """The job that an event is about."""

    id: str
    kind: Kind
    status: JobState
    domain_id: str
    error_detail: str | None
    finished_at: Time


class JobEventDataView(TypedDict):
    """What a job event carries."""

    job: EventJobView


class JobEventView(TypedDict):
    """The body of a webhook delivery about a job."""

    id: str
    type: Annotated[str, JsonSchema(enum=list(JOB_EVENT_TYPES))]
    created_at: Time
    data: JobEventDataView


class TestEventDataView(TypedDict):
    """What a test event carries (U72)."""

    test: Literal[True]


class TestDeliveryView(TypedDict):
    """The body of a test delivery (U72)."""

    id: str
    type: Annotated[str, JsonSchema(const=TEST_EVENT)]
    created_at: Time
    data: TestEventDataView


DELIVERED: Mapping[str, type[Any]] = dict.fromkeys(JOB_EVENT_TYPES, JobEventView) | {
    TEST_EVENT: TestDeliveryView
}
"""The body that is sent for each type of event."""


def created_by(data: object) -> list[Any] | None:
    """Return what a call created, keywords or briefs, as the data of its reply lists it (U109).

    None where nothing is listed: what was created is the one resource shown, or is not told.
    """
    if not isinstance(data, dict):
        return None
    created = data.get("created", data.get("briefs"))
    return created if isinstance(created, list) else None
