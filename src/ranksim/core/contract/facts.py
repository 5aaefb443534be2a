"""Every name and number that the specification states (S1 to S115)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Annotated

from pydantic import Field

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.contract.quantities import Duration, Frozen


class JobKind(StrEnum):
    """The four kinds of job (S14)."""

    RANK_RUN = "rank_run"
    CRAWL = "crawl"
    SITE_OPTIMIZATION = "site_optimization"
    AI_SCAN = "ai_scan"


class Spend(IntEnum):
    """The seven operations that spend or commit spend (S51); the first four are the job kinds, in order."""

    RANK_RUN = 0
    CRAWL = 1
    SITE_OPTIMIZATION = 2
    AI_SCAN = 3
    KEYWORD_BRIEFS = 4
    KEYWORDS = 5
    SCANS = 6

    @property
    def label(self) -> str:
        """The name in policies, traces and tables."""
        return SPENDING_OPERATIONS[self]


SPENDING_OPERATIONS = tuple(spend.name.lower() for spend in Spend)
"""Labels of the seven spending operations, in order (S51)."""


class Decision(IntEnum):
    """Outcomes of a spending request, in the order of the checks (S59 to S65)."""

    GRANTED = 0
    ENTITLEMENT_REQUIRED = 1
    SUBSCRIPTION_INACTIVE = 2
    COST_CAP_REACHED = 3
    QUOTA_EXHAUSTED = 4
    SLOT_LIMIT_EXCEEDED = 5
    COOLDOWN_ACTIVE = 6
    JOINED = 7

    @property
    def code(self) -> str:
        """The machine-readable code of the error body."""
        return self.name.lower()


CHECK_OF = {
    decision.code: decision.value for decision in Decision if decision.name not in ("GRANTED", "JOINED")
}
"""The codes of the six checks in their order, and their numbers (S59)."""

CHECK_NAMES = ("capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown")
"""What the six checks are called in dry runs and by who waives them, in their order (S59, U89)."""


class RateClass(IntEnum):
    """The three classes of traffic that are counted apart (S102 to S104)."""

    READ = 0
    WRITE = 1
    EXPENSIVE = 2

    @property
    def label(self) -> str:
        """The name in policies, traces and tables."""
        return RATE_LABELS[self]


RATE_LABELS = tuple(rate_class.name.lower() for rate_class in RateClass)
"""The names of the classes of traffic, in their order."""


EVENT_TYPES = ("job.completed", "job.failed")
"""Webhook event types that exist today (S75)."""

JOB_EVENT_TYPES = tuple(name for name in EVENT_TYPES if name.startswith("job."))
"""Those that tell of a job's end, with the job under `data.job` (S82)."""

Count = Annotated[int, Field(ge=1)]


class Rates(Frozen):
    """Requests admitted per window, key and class."""

    read: Count = Field(600, description="S102: reads per window and key")
    write: Count = Field(120, description="S103: writes per window and key")
    expensive: Count = Field(20, description="S104: requests that can start paid work, per window and key")

    def of(self, rate_class: RateClass) -> int:
        """The limit of one class."""
        return (self.read, self.write, self.expensive)[rate_class]


class Facts(Frozen):
    """The numbers of the specification; a policy departs from them only to ask "what if".

    What an add-on gives and costs (S109) is data of the catalogue.
    """

    rates: Rates = Field(Rates(), description="S102, S103, S104: rate limits")
    rate_window: Annotated[Duration, Field(gt=0)] = Field(MINUTE, description="S102, S103, S104: the window")
    page_default: Count = Field(50, description="S43: page size when none is asked for")
    page_max: Count = Field(200, description="S43: largest page size")
    idempotency_retention: Annotated[Duration, Field(gt=0)] = Field(
        DAY, description="S111, S47: how long a repeated POST gets the original response"
    )
    webhook_timeout: Annotated[Duration, Field(gt=0)] = Field(
        10 * SECOND, description="S88: a receiver answers within this"
    )
    webhook_delays: tuple[Annotated[Duration, Field(ge=0)], ...] = Field(
        (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR),
        description="S90: delay before each retry; attempts are one more than delays",
    )
    webhook_disable_after: Count = Field(20, description="S91: consecutive failures that disable an endpoint")
    signature_tolerance: Annotated[Duration, Field(gt=0)] = Field(
        300 * SECOND, description="S86: recommended age beyond which a receiver rejects a signature"
    )
    quota_exhausted_status: Annotated[int, Field(ge=400, le=599)] = Field(
        402, description="S98: status of quota_exhausted"
    )
    rate_limited_status: Annotated[int, Field(ge=400, le=599)] = Field(
        429, description="S100: status when the rate limit is exceeded"
    )

    @property
    def webhook_attempts(self) -> int:
        """Attempts in total per delivery (S90)."""
        return len(self.webhook_delays) + 1


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement of the specification, by its number (S)."""

    number: int
    area: str
    statement: str


def fact(number: int) -> Fact:
    """The fact of that number. Raises KeyError when there is none."""
    for candidate in FACTS:
        if candidate.number == number:
            return candidate
    raise KeyError(f"there is no S{number}; facts are S1 to S{len(FACTS)}")


FACTS = (
    Fact(
        1,
        "environments",
        "Production takes live keys, sandbox test keys; each has its own addresses, paths under /v1.",
    ),
    Fact(
        2,
        "environments",
        "The sandbox has the same rules on production-shaped data, and no production consequences.",
    ),
    Fact(3, "access", "A key works in its own environment only, whichever way round it is tried."),
    Fact(4, "graphql", "GraphQL and REST share keys, permissions, plan limits and spending."),
    Fact(
        5,
        "resources",
        "Domains, lists, keywords, labels, competitors, scans, slots, jobs and positions are complete.",
    ),
    Fact(
        6,
        "resources",
        "Pages, analyses, AI visibility, backlinks and integrations are read-only; their jobs can start.",
    ),
    Fact(
        7,
        "resources",
        "Reports, keyword suggestions, share links, key management and subscription changes are not offered.",
    ),
    Fact(8, "resources", "A single resource stands under `data`."),
    Fact(
        9,
        "paging",
        "A collection has `data`, `has_more` and `next_cursor`, which is null when there is no further page.",
    ),
    Fact(10, "resources", "A read may carry a notice, which is a fact about the data and not an error."),
    Fact(11, "errors", "An error reply is an error body, without the envelope."),
    Fact(12, "resources", "A domain has id, host, path (or null), label, created_at and last_full_crawl_at."),
    Fact(13, "jobs", "A job has id, kind, status, domain_id, error_detail (or null) and finished_at."),
    Fact(14, "jobs", "The kinds of job are rank_run, crawl, site_optimization and ai_scan."),
    Fact(15, "jobs", "`done` is a successful finish; error_detail gives the reason of an ending in error."),
    Fact(
        16,
        "jobs",
        "GET /v1/jobs/{kind}/{id} returns the job with its progress and is polled until it has finished.",
    ),
    Fact(17, "resources", "Timestamps are ISO 8601 in UTC."),
    Fact(18, "webhooks", "An empty event_types list means every type, later ones included."),
    Fact(19, "webhooks", "An explicit event_types list never receives types added later."),
    Fact(20, "webhooks", "An endpoint is account-wide or bound to one domain."),
    Fact(21, "webhooks", "The signing secret is shown once, at creation; a lost one means a new endpoint."),
    Fact(22, "webhooks", "The disabled state of an endpoint and its reason are recorded and shown."),
    Fact(23, "slots", "One slot is one keyword on one engine-and-device pairing in one geography."),
    Fact(24, "slots", "Slots are counted over all active scans; a keyword in two scans counts twice."),
    Fact(25, "slots", "One keyword on one engine, two devices and two geographies is four slots."),
    Fact(26, "slots", "Capacity of removed keywords stays counted to the end of the billing month."),
    Fact(27, "slots", "Any freed capacity is held in the same way."),
    Fact(28, "idempotency", "Every POST accepts an Idempotency-Key."),
    Fact(29, "dry_run", "Every endpoint that can spend accepts a boolean dry_run in its body."),
    Fact(30, "paging", "GET /v1/domains takes limit and cursor."),
    Fact(
        31,
        "paging",
        "GET /v1/keywords takes limit, cursor and filters; its cursor is bound to the filters.",
    ),
    Fact(32, "slots", "POST /v1/keywords takes list_id, keywords and dry_run, and spends slots."),
    Fact(33, "slots", "POST /v1/scans consumes slots and is bounded by the plan's dimensions."),
    Fact(34, "jobs", "POST /v1/jobs takes kind and dry_run and answers with the job."),
    Fact(35, "quota", "POST /v1/keyword-briefs spends the weekly allowance."),
    Fact(36, "quota", "GET /v1/keyword-briefs touches no allowance and is not capped."),
    Fact(37, "slots", "GET /v1/slots includes held capacity."),
    Fact(38, "quota", "GET /v1/account/usage lists every metered allowance, each with its own resets_at."),
    Fact(39, "access", "GET /v1/webhook-events needs no key and lists the event types there are."),
    Fact(
        40,
        "webhooks",
        "GET /v1/webhook-deliveries lists recent attempts with the status code and error seen.",
    ),
    Fact(
        41,
        "webhooks",
        "POST /v1/webhooks/{id}/test sends a test event the normal way, with the same signature and retries.",
    ),
    Fact(42, "resources", "Webhook endpoints can be created and updated, and resources changed by PATCH."),
    Fact(43, "paging", "A page has 50 items unless limit says otherwise, and 200 at most."),
    Fact(44, "paging", "A client passes next_cursor back unchanged until has_more is false."),
    Fact(45, "paging", "A cursor used with other filters is refused as invalid_cursor."),
    Fact(46, "paging", "Walks stay correct while others write; there are no offsets."),
    Fact(
        47,
        "idempotency",
        "A repeat under one key within 24 hours gets the original response, and the work is done once.",
    ),
    Fact(48, "idempotency", "One key with another body is refused as idempotency_mismatch."),
    Fact(49, "resources", "The last PATCH wins, without warning."),
    Fact(50, "resources", "There is no ETag and no If-Match."),
    Fact(
        51,
        "spending",
        "Seven operations spend or commit spend: the four kinds of job, briefs, keywords and scans.",
    ),
    Fact(52, "spending", "A rank run is bounded by its cooldown, the join and the cost ceiling."),
    Fact(53, "spending", "A crawl is bounded by the page cap, its cooldown and the cost ceiling."),
    Fact(54, "spending", "A site optimization is bounded by capability, cooldown and the cost ceiling."),
    Fact(55, "spending", "An AI scan is bounded by capability, the call cap and the cost ceiling."),
    Fact(56, "spending", "Keyword briefs are bounded by the weekly allowance."),
    Fact(57, "spending", "Adding keywords spends nothing at once and is bounded by slots."),
    Fact(
        58,
        "spending",
        "Adding a scan spends nothing at once and is bounded by slots and the plan's dimensions.",
    ),
    Fact(59, "spending", "Six checks run in a fixed order, and the first refusal ends them."),
    Fact(60, "spending", "Check 1: the plan has the capability, else entitlement_required."),
    Fact(
        61,
        "spending",
        "Check 2: the subscription is healthy, else subscription_inactive; a past-due account still reads.",
    ),
    Fact(62, "spending", "Check 3: the monthly cost ceiling is not reached, else cost_cap_reached."),
    Fact(
        63,
        "spending",
        "Check 4: the metered allowance suffices and is consumed atomically, else quota_exhausted.",
    ),
    Fact(64, "spending", "Check 5: what widens tracking fits the slots, else slot_limit_exceeded."),
    Fact(65, "spending", "Check 6: enough time has passed since the same thing ran, else cooldown_active."),
    Fact(
        66,
        "dry_run",
        "A dry run passes all six checks and reports; it queues, consumes and spends nothing.",
    ),
    Fact(67, "spending", "At the cost ceiling reads go on and new spending stops."),
    Fact(68, "access", "Every request but GET /v1/webhook-events carries an Authorization: Bearer header."),
    Fact(69, "access", "Cookies are never used."),
    Fact(70, "access", "A domain-scoped key reads its own domain only."),
    Fact(71, "access", "A domain-scoped key creates endpoints for its own domain only."),
    Fact(72, "access", "Keys are not managed over the API."),
    Fact(73, "access", "Requests from other origins are accepted."),
    Fact(74, "signature", "Deliveries are authenticated by signature."),
    Fact(75, "webhooks", "The event types are job.completed and job.failed."),
    Fact(
        76,
        "webhooks",
        "A job that succeeds gives job.completed, one that ends in error job.failed and its reason.",
    ),
    Fact(77, "webhooks", "A delivery is a POST of JSON."),
    Fact(78, "signature", "Service-Signature is t=<unix time>,v1=<hex digest>."),
    Fact(79, "webhooks", "Service-Event-Id is the same over all retries of an event."),
    Fact(80, "webhooks", "Service-Event-Type names the type."),
    Fact(81, "webhooks", "Service-Delivery-Attempt counts from 1."),
    Fact(82, "webhooks", "The body has id, type, created_at and data.job with six fields."),
    Fact(83, "webhooks", "Events carry identifiers, never results."),
    Fact(84, "signature", "The signed text is the timestamp, a dot and the raw body."),
    Fact(85, "signature", "The digest is HMAC-SHA256 under the endpoint's secret, in lowercase hex."),
    Fact(
        86,
        "signature",
        "A receiver verifies the raw body, in constant time, and refuses what is older than 300 s.",
    ),
    Fact(87, "webhooks", "Any 2xx acknowledges; everything else is a failure."),
    Fact(88, "webhooks", "A receiver answers within 10 seconds."),
    Fact(89, "webhooks", "Redirects are not followed; one counts as a failed delivery."),
    Fact(
        90,
        "webhooks",
        "Retries come after about 1 min, 5 min, 30 min, 2 h and 6 h: six attempts in about eight hours.",
    ),
    Fact(91, "webhooks", "Twenty consecutive failed deliveries disable an endpoint."),
    Fact(92, "webhooks", "Any success sets the count of failures to zero."),
    Fact(93, "webhooks", "Delivery is at least once; receivers drop repeats by event id."),
    Fact(
        94,
        "errors",
        "An error body has type, title, status, code, detail, remedy, meta, request_id, documentation_url.",
    ),
    Fact(95, "errors", "type and documentation_url are {docs_url}/api/errors#<code>."),
    Fact(96, "errors", "request_id equals the X-Request-Id of the response."),
    Fact(97, "errors", "Eight codes are named, and 429 for the rate limit."),
    Fact(98, "errors", "quota_exhausted is a 402 whose meta has metric, used, limit and resets_at."),
    Fact(99, "errors", "The meta of cost_cap_reached has the amount spent, the ceiling and the reset date."),
    Fact(100, "rate", "A 429 carries Retry-After."),
    Fact(101, "quota", "research_lookups is one metric."),
    Fact(102, "rate", "Reads: 600 a minute and key."),
    Fact(103, "rate", "Writes: 120 a minute and key."),
    Fact(104, "rate", "Expensive requests, which can start paid work: 20 a minute and key."),
    Fact(105, "rate", "Every response carries RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset."),
    Fact(106, "rate", "Rate limits concern traffic alone; quota and ceiling have their own codes."),
    Fact(107, "errors", "Every response carries X-Request-Id; one that the client sent is used as given."),
    Fact(108, "quota", "The brief allowance is weekly and resets each Monday."),
    Fact(109, "quota", "An add-on gives 50 more briefs a week for 15 USD a month, and stacks."),
    Fact(110, "quota", "All other quotas reset monthly."),
    Fact(111, "idempotency", "Idempotency keys are kept for 24 hours."),
    Fact(112, "versions", "The prefix /v1 is the contract."),
    Fact(113, "versions", "Additions come without notice; clients ignore fields they do not know."),
    Fact(
        114,
        "versions",
        "Breaking changes come under /v2, and the old surface then sends Deprecation and Sunset.",
    ),
    Fact(115, "versions", "Event types may be added; endpoints with an empty list receive them."),
)
"""S1 to S115, in order."""
