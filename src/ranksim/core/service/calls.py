"""What crosses the seam between the service and its drivers: calls in; replies, tasks and events out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.service.events import ServiceEvent

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What the driver found wrong with a request before the service could look.

    `code` is not_found, method_not_allowed, payload_too_large, unsupported_media_type, invalid_request or,
    for its query, validation_failed (U86 says when it is answered), or internal_error when the driver failed
    itself. `detail` says it in more words than the service has; `errors` lists each parameter that is wrong
    and what was expected, as validation_failed shows them.
    """

    code: str
    detail: str = ""
    errors: Sequence[Mapping[str, str]] = ()


@dataclass(slots=True)
class Call:
    """One request, parsed.

    `operation` is a name of the operations table ("jobs.create"), or "" when no path matched. `key` is the
    bearer token as sent; a web-app call (`surface="app"`) has none and names its `account` instead. `path`
    holds path parameters, `query` the query parameters as text. `raw` is the body as sent, when the driver
    has it. `fault` is what the driver found wrong before the service could look. `method` matters for faults
    and for OPTIONS, a CORS preflight (U80). `caller` is the network address that calls without a valid key
    are counted by (U8). `headers` are the request headers that the policy's windows read, in lower case.
    `units` is what the job that it asks for wants before any cap, where that is known; else it is drawn.
    """

    operation: str
    key: str | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    idempotency_key: str | None = None
    request_id: str | None = None
    surface: str = "rest"
    account: str = ""
    environment: str = "production"
    caller: str = ""
    raw: bytes | None = None
    fault: Fault | None = None
    method: str = ""
    headers: Mapping[str, str] | None = None
    units: int | None = None


@dataclass(slots=True)
class Reply:
    """The answer to a call.

    `code` is the error code, or "" on success; `check` is the spending check (1 to 6) that refused, or 0;
    `outcome` is one word for statistics: ok, granted, dry_run, joined, refused, replayed, limited or error.
    `rate_class` is the class that had no room, where the outcome is limited. `flight` names the
    Idempotency-Key entry that `Service.written` must end, or is "". `headers` hold everything the rules
    decide (X-Request-Id, `RateLimit-*`, Retry-After, WWW-Authenticate, the replay marker).
    `wait` is how long (µs) a queue of calls holds it back before it is on its way. `cursors` continue behind
    each item of a page; they are made for GraphQL, which shows them.
    """

    status: int
    body: Body | None
    headers: dict[str, str] = field(default_factory=dict)
    code: str = ""
    check: int = 0
    outcome: str = "ok"
    rate_class: str = ""
    operation: str = ""
    account: str = ""
    flight: str = ""
    wait: int = 0
    cursors: Sequence[str] = ()


@dataclass(slots=True)
class StartJob:
    """Task: a job waits for a worker of the driver's pool. Report `started`, then `ended`."""

    job: str
    kind: str
    account: str
    domain: str
    units: int
    """Pages or questions the job will buy, after the plan's cap (U47)."""
    estimate: int = 0
    """Provider cost in µUSD that was estimated for it."""


@dataclass(slots=True)
class Attempt:
    """Task: POST one webhook delivery attempt now. Report `attempted` with the answer.

    `headers` and `body` are the exact bytes to send (S77-S85). `number` counts from 1 (S81).
    """

    attempt: int
    delivery: int
    endpoint: str
    account: str
    url: str
    event: str
    event_type: str
    number: int
    headers: Mapping[str, str]
    body: bytes


Task = StartJob | Attempt


@dataclass(slots=True)
class Step:
    """What came of one input: the replies to its calls, what the driver must do now, what became true."""

    replies: list[Reply]
    tasks: list[Task]
    events: list[ServiceEvent]

    @property
    def reply(self) -> Reply:
        """The reply to a single call."""
        return self.replies[0]


@dataclass(slots=True)
class Answer:
    """What a receiver answered: a status, or None with an error such as "timeout"; `duration` in µs."""

    status: int | None
    error: str | None = None
    duration: int = 0
