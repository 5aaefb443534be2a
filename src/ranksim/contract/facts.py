"""Every name and number that the specification states (S1 to S115)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Annotated

from pydantic import Field

from ranksim.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.contract.quantities import MICRO_USD, Duration, Frozen, Money


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
        return self.name.lower()


class Refusal(IntEnum):
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


class RateClass(IntEnum):
    """The three classes of traffic that are counted apart (S102 to S104)."""

    READ = 0
    WRITE = 1
    EXPENSIVE = 2

    @property
    def label(self) -> str:
        """The name in policies, traces and tables."""
        return self.name.lower()


EVENT_TYPES = ("job.completed", "job.failed")
"""Webhook event types that exist today (S75)."""

SPENDING_OPERATIONS = tuple(spend.label for spend in Spend)
"""Labels of the seven spending operations, in order (S51)."""

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
    """The numbers of the specification; a policy departs from them only to ask "what if"."""

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
    brief_add_on_amount: Count = Field(50, description="S109: keyword briefs a week that one add-on gives")
    brief_add_on_price: Money = Field(15 * MICRO_USD, description="S109: price of one add-on a month")

    @property
    def webhook_attempts(self) -> int:
        """Attempts in total per delivery (S90)."""
        return len(self.webhook_delays) + 1
