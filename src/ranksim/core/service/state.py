"""All state of the service, as plain data: saved, restored, copied and forked whole.

Records hold ids, never references, so that a copy shares nothing. Every table is a dict by id; ids grow with
creation, so the order of a list of ids is the order of (created_at, id) (U37, U105).
"""

from dataclasses import dataclass, field

from ranksim.core.rules.books import Books, Cooldown, Meter, Window


@dataclass(slots=True)
class Account:
    """An account: plan, subscription, books, and the ids of what it owns, in order of creation."""

    id: str
    name: str
    environment: str
    plan: str
    status: str
    created_at: int
    books: Books
    meters: dict[str, Meter] = field(default_factory=dict)
    cooldowns: dict[str, Cooldown] = field(default_factory=dict)
    add_ons: dict[str, int] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    """Held capacity by identity (U94); valid until `books.month_ends`."""
    domains: list[str] = field(default_factory=list)
    keyword_lists: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    competitors: list[str] = field(default_factory=list)
    scans: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    briefs: list[str] = field(default_factory=list)
    endpoints: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    """Numbers of the recorded delivery attempts, oldest first, forgotten after a retention (U75)."""


@dataclass(slots=True)
class Key:
    """An API key: whose it is, what it may see, and its three rate windows (read, write, expensive)."""

    token: str
    name: str
    account: str
    environment: str
    domain: str | None
    created_at: int
    withdrawn: bool = False
    windows: list[Window] = field(default_factory=list)
    rings: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Domain:
    """A tracked site, and when its runs finished well."""

    id: str
    account: str
    host: str
    path: str | None
    label: str
    created_at: int
    last_full_crawl_at: int | None = None
    rank_runs: list[int] = field(default_factory=list)
    """Instants at which rank runs finished well: the dates that positions exist for."""
    crawls: list[int] = field(default_factory=list)
    analyses: list[int] = field(default_factory=list)
    ai_scans: list[int] = field(default_factory=list)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    """Jobs by kind that are queued or running, oldest first."""
    accepted: dict[str, int] = field(default_factory=dict)
    """When the newest of the jobs that finished well was accepted, by kind (U91)."""


@dataclass(slots=True)
class KeywordList:
    """A list of keywords of one domain."""

    id: str
    account: str
    domain: str
    name: str
    created_at: int
    words: dict[str, str] = field(default_factory=dict)
    """Folded keyword (U65) to keyword id."""


@dataclass(slots=True)
class Keyword:
    """A keyword of one list; `folded` is its identity there (U65)."""

    id: str
    account: str
    domain: str
    list_id: str
    text: str
    folded: str
    created_at: int
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Label:
    """A label that keywords can carry."""

    id: str
    account: str
    domain: str
    name: str
    created_at: int


@dataclass(slots=True)
class Competitor:
    """A competitor of a domain."""

    id: str
    account: str
    domain: str
    host: str
    created_at: int


@dataclass(slots=True)
class Scan:
    """A standing order to track: lists × engine-device pairings × geographies (S23, S24)."""

    id: str
    account: str
    domain: str
    name: str
    lists: list[str]
    engine_devices: list[str]
    """As "engine/device"."""
    geographies: list[str]
    """As "COUNTRY/location id/language", empty parts allowed."""
    active: bool
    created_at: int


@dataclass(slots=True)
class Job:
    """One piece of paid work: its state, cost in µUSD, and what it consumed."""

    id: str
    account: str
    domain: str
    kind: str
    status: str
    created_at: int
    units: int
    estimate: int
    month_ends: int
    started_at: int | None = None
    finished_at: int | None = None
    due: int | None = None
    """When a running job that the service itself runs will end."""
    cost: int = 0
    error_detail: str | None = None
    metric: str = ""
    metric_ends: int = 0
    metric_units: int = 0


@dataclass(slots=True)
class Brief:
    """A keyword brief."""

    id: str
    account: str
    domain: str
    keyword: str
    created_at: int


@dataclass(slots=True)
class Endpoint:
    """A webhook endpoint and its run of failures."""

    id: str
    account: str
    url: str
    event_types: list[str]
    domain: str | None
    secret: str
    created_at: int
    enabled: bool = True
    disabled_reason: str | None = None
    disabled_at: int | None = None
    failures: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    """Deliveries that will be tried: delivery number to the instant of its next attempt."""
    cancelled: int = 0
    """Deliveries up to this number are not tried again (U69)."""


@dataclass(slots=True)
class Event:
    """A webhook event; `body` is the exact text that every attempt sends (U68)."""

    id: str
    type: str
    account: str
    domain: str | None
    created_at: int
    body: str
    open: int = 0
    """Deliveries not yet finished; at 0 the event is forgotten."""


@dataclass(slots=True)
class Delivery:
    """Event × endpoint. `made` attempts have been answered; `out` is the number of the attempt under way."""

    number: int
    event: str
    endpoint: str
    created_at: int
    made: int = 0
    out: int = 0
    first_failed_at: int | None = None
    first_signed_at: int | None = None


@dataclass(slots=True)
class AttemptRecord:
    """What GET /v1/webhook-deliveries shows of one attempt (S40, U75)."""

    number: int
    account: str
    endpoint: str
    domain: str | None
    """The domain that the endpoint was bound to (U97)."""
    event: str
    event_type: str
    attempt: int
    created_at: int
    status_code: int | None
    error: str | None
    duration: int
    next_attempt_at: int | None


@dataclass(slots=True)
class Stored:
    """What one Idempotency-Key remembers (S47, U27-U31)."""

    fingerprint: str
    expires: int
    in_flight: bool = True
    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    retry_at: int = 0
    code: str = ""
    check: int = 0


@dataclass(slots=True)
class State:
    """Everything the service knows. `agenda` is a heap of (due, serial, what, which)."""

    seed: int = 0
    serial: int = 0
    """The last number given out: to ids, deliveries, attempts and agenda entries."""
    waived: int = 0
    """Limits that are switched off, by bit: k for check k, 0 for the rate limits."""
    requests: int = 0
    """Requests answered so far: the source of request ids that no client gave (S107)."""
    accounts: dict[str, Account] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    callers: dict[str, Window] = field(default_factory=dict)
    caller_rings: dict[str, list[int]] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    keyword_lists: dict[str, KeywordList] = field(default_factory=dict)
    keywords: dict[str, Keyword] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    competitors: dict[str, Competitor] = field(default_factory=dict)
    scans: dict[str, Scan] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    briefs: dict[str, Brief] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    attempts_out: dict[int, int] = field(default_factory=dict)
    """Attempts under way: attempt number to delivery number."""
    attempts: dict[int, AttemptRecord] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    agenda: list[tuple[int, int, str, str]] = field(default_factory=list)

    def next_serial(self) -> int:
        """Return the next number, which is given out once."""
        self.serial += 1
        return self.serial

    def new_id(self, prefix: str) -> str:
        """Make an id that sorts after every earlier one of its prefix (U105)."""
        self.serial += 1
        return f"{prefix}_{self.serial:010d}"

    def new_ids(self, prefix: str, count: int) -> list[str]:
        """Make so many ids, as so many calls of `new_id` do."""
        first = self.serial + 1
        self.serial += count
        return [f"{prefix}_{number:010d}" for number in range(first, first + count)]
